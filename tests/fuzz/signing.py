"""Shared Key, as clients sign (Azure: 'Authorize with Shared Key')."""

import base64
import hashlib
import hmac
from urllib.parse import unquote

from etagere.base.clock import Timestamp
from etagere.kernel.dates import format_http_date
from etagere.services.common.accounts import development_key

from .wanted import Wanted, account

_signed = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type"),
    *("date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)


def sign(wanted: Wanted, now: Timestamp) -> None:
    """Put the account key's signature on a request that is complete but for it."""
    del wanted.headers["authorization"]
    wanted.headers.setdefault("x-ms-date", format_http_date(now))
    text = _table(wanted) if wanted.service == "table" else _blob(wanted)
    secret = base64.b64decode(development_key)
    mac = hmac.new(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    wanted.headers["authorization"] = f"SharedKey {account}:{base64.b64encode(mac).decode()}"


def _blob(wanted: Wanted) -> str:
    headers = {**wanted.headers, "date": ""}
    if headers.get("content-length") == "0":
        headers["content-length"] = ""
    lines = [wanted.method, *(headers.get(name, "") for name in _signed)]
    own = sorted(name for name in headers if name.startswith("x-ms-"))
    lines += [f"{name}:{headers[name].strip()}" for name in own]
    lines.append(f"/{account}{wanted.path}")
    values: dict[str, list[str]] = {}
    for pair in filter(None, wanted.query.split("&")):
        name, _, value = pair.partition("=")
        values.setdefault(unquote(name).lower(), []).append(unquote(value))
    lines += [f"{name}:{','.join(sorted(values[name]))}" for name in sorted(values)]
    return "\n".join(lines)


def _table(wanted: Wanted) -> str:
    get = wanted.headers.get
    comp = next((p for p in wanted.query.split("&") if p.startswith("comp=")), "")
    resource = f"/{account}{wanted.path}" + (f"?{unquote(comp)}" if comp else "")
    return "\n".join(
        (
            wanted.method,
            get("content-md5", ""),
            get("content-type", ""),
            get("x-ms-date", ""),
            resource,
        )
    )
