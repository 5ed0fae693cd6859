"""Byte ranges of requests: what `Range` and `x-ms-range` ask for, and what of it there is.

Sources: "Specifying the range header for Blob service operations"; recorded replies for what is
beyond the end (416 even for an empty blob, which the SDKs rely on).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from etagere.base.errors import Refused, invalid_header, missing_header

page_bytes: Final = 512

range_header: Final = "Range"
storage_range_header: Final = "x-ms-range"

_form: Final = re.compile(r"bytes=([0-9]{1,19})-([0-9]{1,19})?", re.ASCII | re.IGNORECASE)


class RequestedRange(NamedTuple):
    """`bytes=first-last`; `last` is inclusive, and None for all that follows."""

    first: int
    last: int | None


class Slice(NamedTuple):
    """The bytes [start, end)."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


def parse_read_range(headers: Mapping[str, str]) -> RequestedRange | None:
    """The range that a read asks for, if any; headers come by lower-case name.

    A `Range` that is malformed, counts from the end or names several ranges is ignored, as HTTP
    wants it; an `x-ms-range` was written for this service and is refused (unconfirmed).
    """
    own = headers.get("x-ms-range")
    if own:
        parsed = parse_range(own)
        if parsed is None:
            raise invalid_header(storage_range_header, own)
        return parsed
    general = headers.get("range")
    return parse_range(general) if general else None


def parse_write_range(headers: Mapping[str, str]) -> Slice:
    """The closed range that a write must name."""
    name, value = storage_range_header, headers.get("x-ms-range")
    if not value:
        name, value = range_header, headers.get("range")
        if not value:
            raise missing_header(storage_range_header)
    parsed = parse_range(value)
    if parsed is None or parsed.last is None:
        raise invalid_header(name, value)
    return Slice(parsed.first, parsed.last + 1)


def parse_range(text: str) -> RequestedRange | None:
    found = _form.fullmatch(text.strip(" \t"))
    if found is None:
        return None
    first, last = int(found[1]), found[2]
    if last is None:
        return RequestedRange(first, None)
    return RequestedRange(first, int(last)) if int(last) >= first else None


def select(requested: RequestedRange, size: int) -> Slice | None:
    """What there is of a range in `size` bytes; None where it begins beyond the end (416)."""
    if requested.first >= size:
        return None
    last = requested.last
    return Slice(requested.first, size if last is None else min(last + 1, size))


def content_range(part: Slice, size: int) -> str:
    return f"bytes {part.start}-{part.end - 1}/{size}"


def unsatisfied_content_range(size: int) -> str:
    return f"bytes */{size}"


def range_not_satisfiable(size: int) -> Refused:
    return Refused("InvalidRange", headers={"Content-Range": unsatisfied_content_range(size)})


def require_pages(part: Slice, size: int) -> None:
    """Refuse what is not whole pages inside a page blob of `size` bytes."""
    if part.start % page_bytes or part.end % page_bytes or part.end > size:
        raise Refused("InvalidPageRange")
