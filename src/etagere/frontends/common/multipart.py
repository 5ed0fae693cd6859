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
head_bytes_max: Final = 48 * 1024
"""Of a request line with a URL, and headers."""
headers_max: Final = 64
parts_split_max: Final = 512
"""More than any batch may have are found one by one."""

# One parameter at a time: a single form of them all needs possessive repeats, which Python 3.11.2
# (Debian 12's) gets wrong inside each other, or takes for ever over some headers.
_type_form: Final = re.compile(r"\s*multipart/mixed\s*", re.IGNORECASE)
_boundary_form: Final = re.compile(
    r';\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))\s*(?:;|\Z)', re.IGNORECASE
)
_other_form: Final = re.compile(r';(?!\s*boundary\s*=)(?:[^";]|"[^"]*")*', re.IGNORECASE)
"""As charset="utf-8", whose quotes may hold anything."""


def _malformed(reason: str) -> Refused:
    return Refused("InvalidInput", message=reason)


class Part(NamedTuple):
    headers: Mapping[str, str]
    """Names are lower case."""
    body: bytes


def boundary_of(content_type: str | None) -> str | None:
    """The boundary that a Content-Type of multipart/mixed names; nothing for any other type."""
    if content_type is None:
        return None
    step = _type_form.match(content_type)
    found = None
    while step is not None and found is None:
        found = _boundary_form.match(content_type, step.end())
        step = _other_form.match(content_type, step.end())
    if found is None:
        return None
    boundary: str = found[1] or found[2]
    if len(boundary) > boundary_length_max or not boundary.isascii():
        return None
    return boundary


def parts(body: bytes, boundary: str) -> Iterator[Part]:
    """The parts in order, each taken apart only when it is asked for."""
    return map(part_of, raw_parts(body, boundary))


def raw_parts(body: bytes, boundary: str) -> Iterator[bytes]:
    """The same, as they stand between the lines of their delimiters."""
    delimiter = b"--" + boundary.encode()
    return iter(_split(body, delimiter) or _search(body, delimiter))


def _split(body: bytes, delimiter: bytes) -> list[bytes] | None:
    """The parts of a body without preamble or spaces whose lines end in CRLF, as nearly all are.

    Nothing where the delimiter stands anywhere else, be it as text or after a bare LF.
    """
    opening, closing = delimiter + b"\r\n", b"\r\n" + delimiter + b"--"
    end = len(body) - len(closing) - (2 if body.endswith(b"\r\n") else 0)
    if end < len(opening) or not (body.startswith(opening) and body.startswith(closing, end)):
        return None
    pieces = body[len(opening) : end].split(b"\r\n" + opening, parts_split_max)
    return pieces if body.count(delimiter) == len(pieces) + 1 else None


def _search(body: bytes, delimiter: bytes) -> Iterator[bytes]:
    opening = _find(body, delimiter, 0)
    if opening is None:
        raise _malformed("The batch does not have its boundary in it.")
    while not opening.is_last:
        closing = _find(body, delimiter, opening.end)
        if closing is None:
            raise _malformed("The batch ends before its closing boundary.")
        raw = body[opening.end : closing.begin]
        if raw.startswith((b"\r\n", b"\n")):
            raw = raw[2 if raw[:1] == b"\r" else 1 :]
        yield raw
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


def part_of(raw: bytes) -> Part:
    return Part(*split_head(raw))


def split_head(raw: bytes) -> tuple[Mapping[str, str], bytes]:
    """Headers, and what follows the blank line after them."""
    head, body = split(raw)
    return headers_of(head), body


def split(raw: bytes) -> tuple[bytes, bytes]:
    """What stands before the first blank line, and what stands after it."""
    if raw.startswith((b"\r\n", b"\n")):
        return b"", raw[2 if raw[:1] == b"\r" else 1 :]
    at, size = raw.find(b"\n\r\n", 0, head_bytes_max), 3
    bare = raw.find(b"\n\n", 0, at if at >= 0 else head_bytes_max)
    if bare >= 0:
        at, size = bare, 2
    if at >= 0:
        return raw[:at], raw[at + size :]
    if len(raw) > head_bytes_max:
        raise _malformed("The headers of an operation in the batch are too long.")
    return raw, b""


# The operations of a batch mostly have the same headers, and so have the batches of a client.
@lru_cache(maxsize=128)
def headers_of(head: bytes) -> Mapping[str, str]:
    lines = head.splitlines()
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
