"""Requests and keys that the tests of this folder share."""

import base64
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from etagere.auth.request import SignedRequest
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp
from etagere.kernel.dates import format_http_date, parse_iso

account = "devstoreaccount1"
secret = base64.b64encode(bytes(range(64))).decode()
other_secret = base64.b64encode(bytes(range(64, 128))).decode()
key = SigningKey.from_base64(secret)
other_key = SigningKey.from_base64(other_secret)
keys = (key, other_key)


def at(text: str) -> Timestamp:
    moment = parse_iso(text)
    assert moment is not None
    return moment


now = at("2026-03-01T12:00:00Z")
date_now = format_http_date(now)
newest = "2026-10-06"


def query_pairs(raw_query: str) -> tuple[tuple[str, str], ...]:
    """As the HTTP frontend reads a query: `+` stands for itself."""
    pairs = []
    for item in raw_query.split("&"):
        if item:
            name, _, text = item.partition("=")
            pairs.append((unquote(name), unquote(text)))
    return tuple(pairs)


def request_for(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    service: str = "b",
    version: str | None = None,
    secure: bool = False,
    client_ip: str = "127.0.0.1",
    secondary: bool = False,
    name: str = account,
) -> SignedRequest:
    """What the server makes of a URL: path style, as emulators are addressed."""
    parts = urlsplit(url)
    lowered = {n.lower(): v for n, v in (headers or {}).items()}
    return SignedRequest(
        method=method,
        raw_path=parts.path or "/",
        query=query_pairs(parts.query),
        raw_query=parts.query,
        headers=lowered,
        account=name,
        service=service,
        version=lowered.get("x-ms-version", "") if version is None else version,
        secure=secure,
        client_ip=client_ip,
        secondary=secondary,
    )
