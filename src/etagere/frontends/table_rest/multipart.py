"""Bodies of `multipart/mixed`, as batches have them, taken apart (RFC 2046 5.1).

Lines end in CRLF or LF.  What stands before the first delimiter and after the closing one is
ignored; a body without its closing delimiter was cut short and is refused.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from etagere.services.table.edm import invalid_input

boundary_length_max: Final = 70
"""RFC 2046 5.1.1."""
header_bytes_max: Final = 16 * 1024
headers_max: Final = 64

_boundary_form: Final = re.compile(
    r'\s*multipart/mixed\s*;(?:[^"]*;)?\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))\s*(?:;.*)?',
    re.IGNORECASE | re.DOTALL,
)
_blank_line: Final = re.compile(rb"\r?\n\r?\n")
_newline: Final = re.compile(rb"\r?\n")


class Part(NamedTuple):
    headers: dict[str, str]
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
    delimiter = re.compile(
        rb"(?:\A|\r?\n)--" + re.escape(boundary.encode()) + rb"(--)?[ \t]*(?=\r?\n|\Z)"
    )
    opening = delimiter.search(body)
    if opening is None:
        raise invalid_input("The batch does not have its boundary in it.")
    while opening[1] is None:
        closing = delimiter.search(body, opening.end())
        if closing is None:
            raise invalid_input("The batch ends before its closing boundary.")
        yield _part(body[opening.end() : closing.start()])
        opening = closing


def _part(raw: bytes) -> Part:
    first_line = _newline.match(raw)
    headers, rest = split_head(raw[first_line.end() :] if first_line else raw)
    return Part(headers, rest)


def split_head(raw: bytes) -> tuple[dict[str, str], bytes]:
    """Headers, and what follows the blank line after them."""
    no_headers = _newline.match(raw)
    if no_headers:
        return {}, raw[no_headers.end() :]
    blank = _blank_line.search(raw, 0, header_bytes_max)
    if blank is None:
        if len(raw) > header_bytes_max:
            raise invalid_input("The headers of an operation in the batch are too long.")
        return _headers(raw), b""
    return _headers(raw[: blank.start()]), raw[blank.end() :]


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.splitlines()
    if len(lines) > headers_max:
        raise invalid_input("An operation in the batch has too many headers.")
    headers: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            continue
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name.strip():
            raise invalid_input("A header in the batch is malformed.")
        headers[name.strip().lower()] = value.strip()
    return headers
