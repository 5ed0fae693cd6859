"""Bearer tokens: JSON Web Tokens of Microsoft Entra ID or of another OpenID Connect issuer.

As emulators do it, the claims are checked and the signature is not (BASIC); as a service does it,
the issuer must be a known one and its keys must have signed (OIDC).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from etagere.auth.claims import Claims
from etagere.auth.failure import authentication_failed, malformed_credentials, showable
from etagere.auth.identity import BearerIdentity
from etagere.auth.jwk import KeySet, base64url
from etagere.auth.lru import Lru
from etagere.auth.request import SignedRequest
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused, invalid_header, missing_header

token_chars_max: Final = 16 * 1024
verified_tokens_max: Final = 1024
not_before_leeway_seconds: Final = 60
"""How far an issuer's clock may be ahead of ours in OIDC mode."""
bearer_version_min: Final = "2017-11-09"
_algorithms: Final = frozenset({"RS256", "ES256"})
_required: Final = ("iss", "aud", "exp", "nbf", "iat")
_file_intent: Final = "x-ms-file-request-intent"

_entra_issuers: Final = tuple(
    f"https://{host}/"
    for host in (
        "sts.windows.net",
        "sts.windows-ppe.net",
        "sts.chinacloudapi.cn",
        "sts.microsoftonline.de",
        "sts.microsoftonline.us",
        "login.microsoftonline.com",
        "login.microsoftonline.us",
        "login.partner.microsoftonline.cn",
        "login.chinacloudapi.cn",
        "login.windows.net",
    )
)
_storage_audiences: Final = frozenset(
    {
        "https://storage.azure.com",
        "https://storage.azure.com/",
        "e406a681-f3d4-42a8-90b6-c2b029497af1",  # Azure Storage's application id
    }
)
_account_services: Final = ("blob", "queue", "table", "file", "dfs")


class BearerMode(Enum):
    OFF = "off"
    BASIC = "basic"
    OIDC = "oidc"


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerRules:
    mode: BearerMode
    insecure_allowed: bool = False
    """Whether tokens are taken over plain HTTP, where anybody on the way can read them."""
    issuers: Mapping[str, KeySet] = field(default_factory=dict)
    """In OIDC mode: the issuers that are trusted, by their `iss`, and their keys."""
    audiences: frozenset[str] = frozenset()
    """Names of ours besides Azure Storage's own."""


class _Header(msgspec.Struct):
    alg: str = ""
    kid: str | None = None
    crit: object = None


class Token(msgspec.Struct, frozen=True):
    """A token taken apart; nothing in it has been checked."""

    algorithm: str
    kid: str | None
    critical: bool
    claims: Claims
    signed: bytes
    signature: bytes


def parse(text: str) -> Token:
    """Take a token apart; raises Refused("InvalidAuthenticationInfo") where it is none."""
    if len(text) > token_chars_max:
        raise malformed_credentials("The bearer token is too long.")
    parts = text.split(".")
    if len(parts) != 3:
        raise malformed_credentials("The bearer token is not a JSON Web Token.")
    try:
        header = msgspec.json.decode(base64url(parts[0]), type=_Header)
        claims = msgspec.json.decode(base64url(parts[1]), type=Claims)
        signature = base64url(parts[2])
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        raise malformed_credentials("The bearer token is not a JSON Web Token.") from None
    signed = f"{parts[0]}.{parts[1]}".encode("ascii")
    return Token(header.alg, header.kid, header.crit is not None, claims, signed, signature)


def authenticate(
    request: SignedRequest, text: str, rules: BearerRules, now: Timestamp
) -> BearerIdentity:
    """Whose token it is; raises Refused where it does not hold."""
    _check_request(request, rules)
    token = parse(text)
    check_claims(token.claims, request.account, rules, now)
    if rules.mode is BearerMode.OIDC:
        check_signature(token, rules)
    return BearerIdentity(token.claims)


def check_claims(claims: Claims, account: str, rules: BearerRules, now: Timestamp) -> None:
    for name in _required:
        if getattr(claims, name) is None:
            raise authentication_failed(f"The bearer token has no claim {name}.")
    assert claims.iss is not None
    assert claims.nbf is not None
    assert claims.exp is not None
    seconds = now / ticks_per_second
    leeway = not_before_leeway_seconds if rules.mode is BearerMode.OIDC else 0
    if seconds + leeway < claims.nbf:
        raise authentication_failed("The bearer token is not valid yet (nbf).")
    if seconds >= claims.exp:
        raise authentication_failed("The bearer token has expired (exp).")
    if rules.mode is BearerMode.OIDC:
        known = claims.iss in rules.issuers
    else:
        known = claims.iss.startswith(_entra_issuers) or claims.iss in rules.issuers
    if not known:
        raise authentication_failed(f"The bearer token's issuer is not trusted (iss): {claims.iss}")
    accepted = _storage_audiences | rules.audiences | _account_audiences(account)
    if accepted.isdisjoint(claims.audiences):
        raise authentication_failed(
            f"The bearer token is not for this service (aud): {' '.join(claims.audiences)}"
        )


def check_signature(token: Token, rules: BearerRules) -> None:
    """Whether one of the issuer's keys signed, with the algorithm that is the key's own."""
    if token.algorithm not in _algorithms:
        raise authentication_failed("The bearer token's algorithm is not accepted (alg).")
    if token.critical:
        raise authentication_failed("The bearer token has extensions that are not known (crit).")
    keys = rules.issuers.get(token.claims.iss or "")
    candidates = () if keys is None else keys.candidates(token.kid, token.algorithm)
    if not candidates:
        raise authentication_failed("The bearer token's issuer has no such key (kid).")
    if not any(key.verify(token.signed, token.signature) for key in candidates):
        raise authentication_failed("The bearer token's signature is not the issuer's.")


def wanted_key(text: str) -> tuple[str, str | None] | None:
    """(issuer, key id) of a token: whoever fetches keys looks whether it has that one.

    The key id is None where the token names none and any of the issuer's keys may have signed.
    None for a token that is malformed or of nobody, which `authenticate` will say.
    """
    try:
        token = parse(text)
    except Refused:
        return None
    return None if token.claims.iss is None else (token.claims.iss, token.kid)


class VerifiedTokens:
    """Tokens whose signature was verified with the rules in force: their claims are read again."""

    def __init__(self, entries_max: int = verified_tokens_max) -> None:
        self._tokens: Lru[str, tuple[Claims, BearerRules]] = Lru(entries_max)

    def authenticate(
        self, request: SignedRequest, text: str, rules: BearerRules, now: Timestamp
    ) -> BearerIdentity:
        found = self._tokens.get(text)
        if found is None or found[1] is not rules:
            identity = authenticate(request, text, rules, now)
            self._tokens.put(text, (identity.claims, rules))
            return identity
        _check_request(request, rules)
        check_claims(found[0], request.account, rules, now)
        return BearerIdentity(found[0])


def _check_request(request: SignedRequest, rules: BearerRules) -> None:
    if rules.mode is BearerMode.OFF:
        raise authentication_failed("Authentication scheme Bearer is not enabled.")
    if not (request.secure or rules.insecure_allowed):
        raise authentication_failed("Authentication scheme Bearer is not supported over HTTP.")
    if request.version < bearer_version_min:
        raise authentication_failed(
            "Authentication scheme Bearer is not supported in this version."
        )
    if request.service == "f":
        intent = request.headers.get(_file_intent)
        if not intent:
            raise missing_header(_file_intent)
        if intent.lower() != "backup":
            raise invalid_header(_file_intent, showable(intent))


def _account_audiences(account: str) -> frozenset[str]:
    hosts = [f"https://{account}.{service}.core.windows.net" for service in _account_services]
    return frozenset(hosts) | frozenset(f"{host}/" for host in hosts)
