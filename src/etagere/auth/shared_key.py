"""Shared Key and Shared Key Lite (Azure: 'Authorize with Shared Key').

Clients and the service do not quite agree on the string to sign: on the order of headers, on white
space inside their values, on `+` in queries, on the path of a secondary.  The documented string is
tried first, and then the few others that clients are known to sign; each still needs the key.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, unquote_plus

from etagere.auth.authorization import Scheme, parse_authorization
from etagere.auth.collation import collation_key
from etagere.auth.failure import authentication_failed, wrong_mac
from etagere.auth.identity import SharedKeyIdentity
from etagere.auth.request import SignedRequest
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.kernel.dates import parse_http_date

__all__ = ["Scheme", "parse_authorization", "string_to_sign", "strings_to_sign", "verify"]

skew_seconds_max: Final = 15 * 60
_empty_length_since: Final = "2015-02-21"
_empty_values_since: Final = "2016-05-31"
_secondary: Final = "-secondary"
_linear_white_space: Final = re.compile(r"[ \t\r\n]+")
_dates_remembered: Final = 512
_date_chars_max: Final = 64
_before_length: Final = ("content-encoding", "content-language")
_after_length: Final = ("content-md5", "content-type")
_after_date: Final = (
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


def verify(
    request: SignedRequest,
    scheme: Scheme,
    account: str,
    signature: str,
    keys: Sequence[SigningKey],
    now: Timestamp,
) -> SharedKeyIdentity:
    """Authenticate a request by the signature in its Authorization header.

    `account` is the header's; `keys` are those of the account that the request addresses, none if
    there is no such account.
    """
    _check_date(request.headers, now)
    if account != request.account:
        raise authentication_failed(
            "The account in the Authorization header is not the one that the request addresses."
        )
    for text in strings_to_sign(request, scheme):
        for index, key in enumerate(keys):
            if key.signed(text, signature):
                return SharedKeyIdentity(account, index)
    raise wrong_mac(signature, string_to_sign(request, scheme))


def string_to_sign(request: SignedRequest, scheme: Scheme) -> str:
    """The string of the documentation: what an error shows."""
    return next(strings_to_sign(request, scheme))


def strings_to_sign(request: SignedRequest, scheme: Scheme) -> Iterator[str]:
    """Every string that is accepted, the documented one first; the others are made on demand."""
    if request.service == "t":
        head = _table_head(request, scheme)
        headers: Iterable[str] = ("",)
        queries: Callable[[SignedRequest], Iterable[str]] = _comp
    elif scheme is Scheme.SHARED_KEY_LITE:
        head = _lite_head(request)
        headers = _canonical_headers(request)
        queries = _comp
    else:
        head = _head(request)
        headers = _canonical_headers(request)
        queries = _canonical_queries
    for block in headers:
        for path in _paths(request):
            for query in queries(request):
                yield f"{head}{block}/{request.account}{path}{query}"


def _check_date(headers: Mapping[str, str], now: Timestamp) -> None:
    text = headers.get("x-ms-date") or headers.get("date")
    if not text:
        raise authentication_failed("Request date header not specified")
    moment = _moment(text)
    if moment is None:
        raise authentication_failed(f"Request date header is not a date: '{text}'")
    if now - moment > skew_seconds_max * ticks_per_second:
        raise authentication_failed(f"Request date header too old: '{text}'")
    if moment - now > skew_seconds_max * ticks_per_second:
        raise authentication_failed(f"Request date header too far in the future: '{text}'")


@lru_cache(maxsize=_dates_remembered)
def _moment(text: str) -> Timestamp | None:
    """Most requests of one second carry the same text."""
    return parse_http_date(text) if len(text) <= _date_chars_max else None


def _head(request: SignedRequest) -> str:
    headers = request.headers
    get = headers.get
    length = get("content-length", "")
    if length == "0" and request.version >= _empty_length_since:
        length = ""
    date = "" if "x-ms-date" in headers else get("date", "")
    lines = [request.method.upper()]
    lines += [get(name, "") for name in _before_length]
    lines.append(length)
    lines += [get(name, "") for name in _after_length]
    lines.append(date)
    lines += [get(name, "") for name in _after_date]
    return "\n".join(lines) + "\n"


def _lite_head(request: SignedRequest) -> str:
    get = request.headers.get
    date = "" if "x-ms-date" in request.headers else get("date", "")
    return (
        f"{request.method.upper()}\n{get('content-md5', '')}\n{get('content-type', '')}\n{date}\n"
    )


def _table_head(request: SignedRequest, scheme: Scheme) -> str:
    """The table service signs no headers of its own, and the date whichever header has it."""
    get = request.headers.get
    date = get("x-ms-date") or get("date", "")
    if scheme is Scheme.SHARED_KEY_LITE:
        return f"{date}\n"
    return (
        f"{request.method.upper()}\n{get('content-md5', '')}\n{get('content-type', '')}\n{date}\n"
    )


def _comp(request: SignedRequest) -> tuple[str]:
    for name, text in request.query:
        if name.lower() == "comp":
            return (f"?comp={text}",)
    return ("",)


def _canonical_headers(request: SignedRequest) -> Iterator[str]:
    keep_empty = request.version >= _empty_values_since
    sent = [
        header
        for header in request.headers.items()
        if header[0].startswith("x-ms-") and (keep_empty or header[1].strip())
    ]
    sent.sort()
    documented = "".join([f"{name}:{_folded(text)}\n" for name, text in sent])
    yield documented
    made = {documented}
    for order in (sent, sorted(sent, key=lambda header: collation_key(header[0]))):
        for adapt in (_folded, str):  # several SDKs sign a value as it is
            block = "".join([f"{name}:{adapt(text)}\n" for name, text in order])
            if block not in made:
                made.add(block)
                yield block


def _folded(text: str) -> str:
    """Trimmed, and with each run of linear white space inside folded to one space."""
    if "  " in text or "\t" in text:
        text = _linear_white_space.sub(" ", text)
    return text.strip(" ")


def _paths(request: SignedRequest) -> Iterator[str]:
    path = request.raw_path
    yield path
    if path == "/":
        # A client whose URL ends with the host signs the path that it has: none.
        yield ""
    if request.secondary:
        # In path style the account stands in the path, and a client may sign its primary's.
        first, slash, rest = path[1:].partition("/")
        if first == request.account + _secondary:
            yield f"/{request.account}{slash}{rest}"
        elif first == request.account:
            yield f"/{request.account}{_secondary}{slash}{rest}"


def _canonical_queries(request: SignedRequest) -> Iterator[str]:
    yield _canonical_query(request.query)
    if "+" in request.raw_query:
        for decode in (unquote, unquote_plus):
            pairs = _decoded(request.raw_query, decode)
            if pairs != request.query:
                yield _canonical_query(pairs)


def _canonical_query(query: tuple[tuple[str, str], ...]) -> str:
    if not query:
        return ""
    values: dict[str, list[str]] = {}
    for name, text in query:
        values.setdefault(name.lower(), []).append(text)
    return "".join([f"\n{name}:{','.join(sorted(values[name]))}" for name in sorted(values)])


def _decoded(raw_query: str, decode: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in raw_query.split("&"):
        if item:
            name, _, text = item.partition("=")
            pairs.append((decode(name), decode(text)))
    return tuple(pairs)
