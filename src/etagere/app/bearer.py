"""Bearer tokens as the server is configured to take them; the issuers' keys, fetched when needed.

An issuer's keys are fetched with its first token, and again when a token names one that is not
known, once a minute at most: so an issuer may rotate them, and nobody can make us ask without end.
Those that it has withdrawn are forgotten within the hour.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from etagere.auth.bearer import BearerMode, BearerRules, VerifiedTokens, wanted_key
from etagere.auth.claims import Claims
from etagere.auth.jwk import KeySet
from etagere.auth.request import SignedRequest
from etagere.base.clock import Timestamp, seconds

_log: Final = logging.getLogger(__name__)
document_bytes_max: Final = 1024 * 1024
fetch_seconds_max: Final = 10.0
fetch_again_after: Final = seconds(60)
renew_after: Final = seconds(3600)


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


class BearerTokens:
    """A `BearerCheck`."""

    def __init__(
        self, mode: BearerMode, issuers: tuple[str, ...], audiences: tuple[str, ...]
    ) -> None:
        self._mode = mode
        self._issuers = issuers
        self._audiences = frozenset(audiences)
        self._rules = self._rules_with({})
        self._tokens = VerifiedTokens()
        self._fetched_at: dict[str, Timestamp] = {}
        self._fetching = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        """Held, or the loop would forget it half-way."""

    async def __call__(self, text: str, request: SignedRequest, now: Timestamp) -> Claims:
        if self._mode is BearerMode.OIDC:
            await self._know_key(text, now)
        return self._tokens.authenticate(request, text, self._rules, now).claims

    async def _know_key(self, text: str, now: Timestamp) -> None:
        wanted = wanted_key(text)
        if wanted is None:
            return
        name, key_id = wanted
        issuer = next((i for i in self._issuers if i.rstrip("/") == name.rstrip("/")), None)
        if issuer is None:
            return
        if not self._has(name, key_id):
            async with self._fetching:
                if not self._has(name, key_id) and self._may_fetch(issuer, now):
                    await self._fetch(issuer, now)
        elif now >= self._fetched_at[issuer] + renew_after:
            # Whoever has this token does not wait: the keys at hand are good for so long.
            self._fetched_at[issuer] = now
            self._renewal = asyncio.create_task(self._fetch(issuer, now))

    def _may_fetch(self, issuer: str, now: Timestamp) -> bool:
        last = self._fetched_at.get(issuer)
        return last is None or now >= last + fetch_again_after

    async def _fetch(self, issuer: str, now: Timestamp) -> None:
        self._fetched_at[issuer] = now
        try:
            found, keys = await asyncio.to_thread(fetch_keys, issuer)
        except (OSError, ValueError) as error:
            _log.warning("keys not fetched", extra={"issuer": issuer, "why": str(error)})
            return
        self._rules = self._rules_with({**self._rules.issuers, found: keys})

    def _has(self, issuer: str, key_id: str | None) -> bool:
        keys = self._rules.issuers.get(issuer)
        return keys is not None and keys.has(key_id)

    def _rules_with(self, issuers: Mapping[str, KeySet]) -> BearerRules:
        return BearerRules(mode=self._mode, issuers=issuers, audiences=self._audiences)


def fetch_keys(issuer: str) -> tuple[str, KeySet]:
    """The issuer's own name and its keys, by OpenID Connect Discovery; OSError or ValueError."""
    where = issuer.rstrip("/") + "/.well-known/openid-configuration"
    try:
        found = msgspec.json.decode(_get(where), type=_Discovery)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{where} is no discovery document") from error
    if found.issuer.rstrip("/") != issuer.rstrip("/"):
        raise ValueError(f"{where} speaks for another issuer, {found.issuer}")
    return found.issuer, KeySet.from_jwks(_get(found.jwks_uri))


def _get(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (
        parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    ):
        raise ValueError(f"{url} is not https")
    import urllib.request  # noqa: PLC0415 - slow to import, seldom needed

    context = ssl.create_default_context() if parts.scheme == "https" else None
    with urllib.request.urlopen(url, timeout=fetch_seconds_max, context=context) as answer:  # noqa: S310 - checked above
        document: bytes = answer.read(document_bytes_max + 1)
    if len(document) > document_bytes_max:
        raise ValueError(f"{url} is too large")
    return document
