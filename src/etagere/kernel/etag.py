"""ETags: how one is made, and what a client may send back.

An ETag is the rising stamp of the write that made it, spelt as the live services spell theirs
(`"0x8DCA91F0E3A4B21"`: .NET ticks in hex).  Since a stamp is never given out twice, neither is an
ETag, not even to a resource deleted and made again within one tick.  Clients treat it as opaque,
and so do the conditions: they compare text.
"""

from dataclasses import dataclass
from typing import Final

from etagere.base.clock import ticks_before_unix

any_etag: Final = "*"

_blank: Final = " \t"


def etag_of(stamp: int) -> str:
    """The quoted ETag of a stamp (ticks of 100 ns since 1970)."""
    return f'"0x{stamp + ticks_before_unix:015X}"'


def bare(etag: str) -> str:
    """An ETag without its quotes, as listings of blobs and Data Lake paths print it."""
    if len(etag) >= 2 and etag[0] == '"' == etag[-1]:
        return etag[1:-1]
    return etag


@dataclass(frozen=True, slots=True)
class EtagCondition:
    """What an If-Match or If-None-Match header named.

    `etags` are bare; those that can match nothing (weak or malformed ones) are counted, not kept.
    """

    text: str
    any: bool
    etags: tuple[str, ...]
    count: int

    def matches(self, etag: str) -> bool:
        """Whether an existing resource with this ETag, bare or quoted, is one of those named."""
        return self.any or bare(etag) in self.etags


def parse_etags(text: str) -> EtagCondition | None:
    """Read the value of a header: `*`, or ETags, quoted or bare, between commas.

    An empty value is an absent header.  Nothing is refused here: a weak ETag never matches
    (If-Match wants strong comparison, RFC 9110 8.8.3.2, and these services make no weak ones), and
    text that is no ETag matches no resource either.
    """
    stripped = text.strip(_blank)
    if not stripped:
        return None
    if stripped == any_etag:
        return _any
    wildcard = False
    etags: list[str] = []
    count = 0
    position = 0
    while position < len(stripped):
        item, position = _next_item(stripped, position)
        if not item:
            continue
        count += 1
        if item == any_etag:
            wildcard = True
        elif item[0] == '"':
            if len(item) >= 2 and item.endswith('"'):
                etags.append(item[1:-1])
        elif not item.startswith("W/") and '"' not in item:
            etags.append(item)
    return EtagCondition(stripped, wildcard, tuple(etags), count) if count else None


_any: Final = EtagCondition(any_etag, any=True, etags=(), count=1)


def _next_item(text: str, start: int) -> tuple[str, int]:
    """The item at `start`, and where the next begins; a comma in quotes ends nothing."""
    end = start
    quoted = False
    while end < len(text) and (quoted or text[end] != ","):
        if text[end] == '"':
            quoted = not quoted
        end += 1
    return text[start:end].strip(_blank), end + 1
