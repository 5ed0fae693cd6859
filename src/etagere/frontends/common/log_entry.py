"""A request as Storage Analytics logs it: one line of fields, separated by semicolons.

(Azure: 'Storage Analytics log format', 'Storage Analytics logged operations and status messages'.)
What may contain a quote, a semicolon or a line's end is HTML-encoded and quoted.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from etagere.auth.identity import (
    AnonymousIdentity,
    BearerIdentity,
    SasIdentity,
    SharedKeyIdentity,
)
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.frontends.common.call import Call
from etagere.frontends.common.message import Response
from etagere.kernel.dates import format_iso, parse_http_date

with_bearers: Final = "2.0"
"""The version whose lines also say who a bearer token is for."""
error_codes_since: Final = "2017-04-17"

_signature: Final = re.compile(r"(?i)((?:^|&)sig=)[^&]*")
_conditions: Final = ("If-Modified-Since", "If-Unmodified-Since", "If-Match", "If-None-Match")
_posts_that_read: Final = frozenset({"QueryBlobContents", "GetUserDelegationKey"})
_refusals_of_authority: Final = frozenset(
    {"AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation"}
)
_other_names: Final = {
    "GetContainerAcl": "GetContainerACL",
    "SetContainerAcl": "SetContainerACL",
    "GetPageRanges": "GetPageRegions",
    "GetQueueAcl": "GetQueueACL",
    "SetQueueAcl": "SetQueueACL",
    "GetTableAcl": "GetTableACL",
    "SetTableAcl": "SetTableACL",
}
_ways: Final = {"authenticated": "", "anonymous": "Anonymous", "sas": "SAS", "bearer": "OAuth"}


def kind_of(call: Call) -> str:
    """read, write or delete: each is logged where it is asked for."""
    method = call.request.method
    if method == "DELETE":
        return "delete"
    if method in ("GET", "HEAD", "OPTIONS") or call.operation_name in _posts_that_read:
        return "read"
    return "write"


def is_logged(call: Call, response: Response) -> bool:
    """Of what nobody has signed, failures are not logged, but for 304 and the server's own."""
    if _way(call) != "anonymous":
        return True
    return response.status < 300 or response.status == 304 or response.status >= 500


def entries(
    service: str, call: Call, response: Response, began: Timestamp, seconds: float, version: str
) -> list[str]:
    """The lines, without their ends: three for a copy, one for anything else."""
    head, request_id = (
        _head(service, call, response, seconds),
        _response(response, "x-ms-request-id"),
    )
    sizes, validators = _sizes(call, response), _validators(call, response)
    tail = _tail(call) + (_bearer(call) if version == with_bearers else [])

    def line(operation: str, count: int, key: str) -> str:
        own = validators if count == 0 else [""] * len(validators)
        fields = [version, format_iso(began), operation, *head, _quoted(key), request_id]
        return ";".join([*fields, str(count), *sizes, *own, *tail])

    name = _operation(service, call)
    lines = [line(name, 0, _key(call))]
    if name == "CopyBlob":
        lines.append(line("CopyBlobSource", 1, call.header("x-ms-copy-source") or ""))
        lines.append(line("CopyBlobDestination", 2, _key(call)))
    return lines


def _head(service: str, call: Call, response: Response, seconds: float) -> list[str]:
    """From the status to the URL."""
    way, account = _way(call), call.account.name
    milliseconds = str(round(seconds * 1000))
    return [
        _status(call, response, way),
        str(response.status),
        milliseconds,
        milliseconds,
        way,
        account if way in ("authenticated", "bearer") else "",
        account,
        service,
        _quoted(_url(call)),
    ]


def _sizes(call: Call, response: Response) -> list[str]:
    """From the client's address to the request's length."""
    request = call.request
    sent = str(request.content_length or 0)
    length = len(response.body) if isinstance(response.body, bytes) else 0
    return [
        request.client_ip,
        request.headers.get("x-ms-version", ""),
        str(_size(request.headers) + len(request.raw_path) + len(request.raw_query)),
        sent,
        str(_size(response.headers)),
        _response(response, "content-length") or str(length),
        sent,
    ]


def _validators(call: Call, response: Response) -> list[str]:
    """Digests, ETag and Last-Modified."""
    computed = _response(response, "content-md5") if call.request.method == "PUT" else ""
    return [
        _quoted(call.header("content-md5") or ""),
        _quoted(computed),
        _quoted(_response(response, "etag")),
        _last_modified(_response(response, "last-modified")),
    ]


def _tail(call: Call) -> list[str]:
    """From the conditions to the client's own id."""
    names = ("user-agent", "referer", "x-ms-client-request-id")
    return [_quoted(_used_conditions(call)), *(_quoted(call.header(name) or "") for name in names)]


def _response(response: Response, name: str) -> str:
    """A header of the answer, however it is spelt."""
    found = (value for header, value in response.headers.items() if header.lower() == name)
    return next(found, "")


def _way(call: Call) -> str:
    """How the request was, or wanted to be, authorized."""
    match call.identity:
        case SharedKeyIdentity():
            return "authenticated"
        case BearerIdentity():
            return "bearer"
        case SasIdentity():
            return "sas"
        case AnonymousIdentity():
            pass  # or one that was not proved
    authorization = call.header("authorization")
    if authorization is not None:
        return "bearer" if authorization.lower().startswith("bearer ") else "authenticated"
    return "sas" if "sig" in call.request.query else "anonymous"


def _status(call: Call, response: Response, way: str) -> str:
    prefix, status = _ways[way], response.status
    code = response.headers.get("x-ms-error-code", "")
    if status < 300:
        return f"{prefix}Success"
    if status == 503:
        return f"{prefix}ThrottlingError"
    if code == "OperationTimedOut":
        return f"{prefix}ServerTimeoutError"
    if status >= 500:
        return f"{prefix}ServerOtherError"
    if code.startswith("Authorization") or code in _refusals_of_authority:
        return f"{prefix}AuthorizationError"
    if call.version >= error_codes_since:
        return code
    return f"{prefix}ClientOtherError"


def _operation(service: str, call: Call) -> str:
    name = call.operation_name
    match name:
        case "Preflight":
            return f"{service.capitalize()}PreflightRequest"
        case "LeaseBlob" | "LeaseContainer" | "BreakBlobLease" | "BreakContainerLease":
            action = (call.header("x-ms-lease-action") or "").lower().capitalize()
            return f"{action}{'Blob' if 'Blob' in name else 'Container'}Lease"
        case "PutPage" if (call.header("x-ms-page-write") or "").lower() == "clear":
            return "ClearPage"
        case "":
            return "Unknown"
        case _:
            return _other_names.get(name, name)


def _url(call: Call) -> str:
    request = call.request
    query = _signature.sub(r"\1XXXXX", request.raw_query)
    scheme = "https" if request.secure else "http"
    return f"{scheme}://{request.host}{request.raw_path}{'?' if query else ''}{query}"


def _key(call: Call) -> str:
    target = call.target
    parts = (call.account.name, target.container, target.item)
    return "/" + "/".join(part for part in parts if part)


def _quoted(text: str) -> str:
    if not text:
        return ""
    encoded = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    encoded = encoded.replace(">", "&gt;").replace("\r", "&#13;").replace("\n", "&#10;")
    return f'"{encoded}"'


def _last_modified(text: str) -> str:
    moment = parse_http_date(text) if text else None
    if moment is None:
        return ""
    date = datetime.fromtimestamp(moment // ticks_per_second, UTC)
    return date.strftime("%A, %d-%b-%y %H:%M:%S GMT")


def _used_conditions(call: Call) -> str:
    found = ((name, call.header(name.lower())) for name in _conditions)
    return ";".join(f"{name}={value}" for name, value in found if value)


def _bearer(call: Call) -> list[str]:
    """Who a token is for; how it came to be enough is nobody's business here."""
    if not isinstance(call.identity, BearerIdentity):
        return [""] * 8
    claims = call.identity.claims
    audience = ",".join(claims.audiences)
    found = (claims.oid, claims.tid, claims.appid, audience, claims.iss, claims.upn)
    return [*(_quoted(text or "") for text in found), "", ""]


def _size(headers: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers.items())
