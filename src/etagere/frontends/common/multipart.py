"""Bodies of `multipart/mixed`, as batches have them, taken apart (RFC 2046 5.1).

Lines end in CRLF or LF.  What stands before the first delimiter and after the closing one is
ignored; a body without its closing delimiter was cut short and is refused.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from etagere.base.errors import Refused

boundary_length_max: Final = 70
"""RFC 2046 5.1.1."""
header_bytes_max: Final = 16 * 1024
headers_max: Final = 64

_boundary_form: Final = re.compile(
    r'\s*multipart/mixed\s*;(?:[^"]*;)?\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))\s*(?:;.*)?',
    re.IGNORECASE | re.DOTALL,
)
_blank_line: Final = re.compile(rb"\r?\n\r?\n")
_no_headers: Final[Mapping[str, str]] = MappingProxyType({})


def _malformed(reason: str) -> Refused:
    return Refused("InvalidInput", message=reason)


class Part(NamedTuple):
    headers: Mapping[str, str]
    """Names are lower case."""
    body: bytes


def boundary_of(content_type: str | None) -> str | None:
    """The boundary that a Content-Type of multipart/mixed names; nothing for any other type."""
    found = None if content_type is None else _boundary_form.fullmatch(content_type)
    if found is None:
        return None
    boundary: str = found[1] or found[2]
    if len(boundary) > boundary_length_max or not boundary.isascii():
        return None
    return boundary


def parts(body: bytes, boundary: str) -> Iterator[Part]:
    """The parts in order, each taken apart only when it is asked for."""
    delimiter = b"--" + boundary.encode()
    opening = _find(body, delimiter, 0)
    if opening is None:
        raise _malformed("The batch does not have its boundary in it.")
    while not opening.is_last:
        closing = _find(body, delimiter, opening.end)
        if closing is None:
            raise _malformed("The batch ends before its closing boundary.")
        yield _part(body[opening.end : closing.begin])
        opening = closing


class _Delimiter(NamedTuple):
    begin: int
    """Where the line break before it begins, which belongs to it."""
    end: int
    """Where the line break after it begins."""
    is_last: bool


def _find(body: bytes, delimiter: bytes, start: int) -> _Delimiter | None:
    """The next line that is a delimiter, at or after the line break at `start`."""
    at = body.find(delimiter, start)
    while at >= 0:
        end = at + len(delimiter)
        if at == 0 or body[at - 1 : at] == b"\n":
            is_last = body.startswith(b"--", end)
            if is_last:
                end += 2
            while body[end : end + 1] in (b" ", b"\t"):
                end += 1
            if end == len(body) or body.startswith((b"\r\n", b"\n"), end):
                return _Delimiter(_line_break_before(body, at), end, is_last)
        at = body.find(delimiter, at + 1)
    return None


def _line_break_before(body: bytes, at: int) -> int:
    if at >= 2 and body[at - 2 : at] == b"\r\n":
        return at - 2
    return max(at - 1, 0)


def _part(raw: bytes) -> Part:
    if raw.startswith((b"\r\n", b"\n")):
        raw = raw[2 if raw[:1] == b"\r" else 1 :]
    headers, rest = split_head(raw)
    return Part(headers, rest)


def split_head(raw: bytes) -> tuple[Mapping[str, str], bytes]:
    """Headers, and what follows the blank line after them."""
    if raw.startswith((b"\r\n", b"\n")):
        return _no_headers, raw[2 if raw[:1] == b"\r" else 1 :]
    blank = _blank_line.search(raw, 0, header_bytes_max)
    if blank is None:
        if len(raw) > header_bytes_max:
            raise _malformed("The headers of an operation in the batch are too long.")
        return _headers(raw), b""
    return _headers(raw[: blank.start()]), raw[blank.end() :]


# The operations of a batch mostly have the same headers, and so have the batches of a client.
@lru_cache(maxsize=128)
def _headers(raw: bytes) -> Mapping[str, str]:
    lines = raw.splitlines()
    if len(lines) > headers_max:
        raise _malformed("An operation in the batch has too many headers.")
    headers: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            continue
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name.strip():
            raise _malformed("A header in the batch is malformed.")
        headers[name.strip().lower()] = value.strip()
    return MappingProxyType(headers)
