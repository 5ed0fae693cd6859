"""An entity's ETag and its Timestamp: one stamp, spelt twice.

Timestamp   2021-06-17T17:32:46.777543Z
ETag        W/"datetime'2021-06-17T17%3A32%3A46.777543Z'"
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.kernel.dates import format_iso_seconds
from etagere.services.table.edm import format_moment, invalid_input

any_etag: Final = "*"
seconds_remembered: Final = 256
fraction_digits: Final = 7
"""Ticks are tenths of a microsecond."""

_etag_form: Final = re.compile(r'[Ww]/"([^"]*)"', re.ASCII)


def timestamp_of(stamp: int) -> str:
    return format_moment(Timestamp(stamp))


def etag_of(stamp: int) -> str:
    second, fraction = divmod(stamp, ticks_per_second)
    if fraction % 10:  # most are as fine as they can be
        return f"W/\"datetime'{_second_escaped(second)}.{fraction:07d}Z'\""
    return f"W/\"datetime'{timestamp_of(stamp).replace(':', '%3A')}'\""


def etags_of(stamps: Sequence[int]) -> list[str]:
    """Those of several stamps, which rise."""
    fractions = _fractions(stamps)
    if fractions is None:
        return [etag_of(stamp) for stamp in stamps]
    begin = f"W/\"datetime'{_second_escaped(stamps[0] // ticks_per_second)}."
    return [f"{begin}{fraction}Z'\"" for fraction in fractions]


def timestamps_of(stamps: Sequence[int]) -> list[str]:
    """The same as `timestamp_of`."""
    fractions = _fractions(stamps)
    if fractions is None:
        return [timestamp_of(stamp) for stamp in stamps]
    begin = second_of(stamps[0] // ticks_per_second)
    return [f"{begin}.{fraction}Z" for fraction in fractions]


def _fractions(stamps: Sequence[int]) -> list[str] | None:
    """What follows the second in each, if all are of one second and none is a whole one."""
    second, fraction = divmod(stamps[0], ticks_per_second)
    if fraction == 0 or stamps[-1] >= (second + 1) * ticks_per_second:
        return None
    return [str(stamp)[-fraction_digits:].rstrip("0") for stamp in stamps]


@lru_cache(maxsize=seconds_remembered)
def second_of(second: int) -> str:
    """`2021-06-17T17:32:46`, which is what most stamps of a second begin with."""
    return format_iso_seconds(Timestamp(second * ticks_per_second)).removesuffix("Z")


@lru_cache(maxsize=seconds_remembered)
def _second_escaped(second: int) -> str:
    return second_of(second).replace(":", "%3A")


def parse_if_match(text: str) -> str:
    """The value of an If-Match header as `matches` takes it; anything but one ETag is refused.

    Entities have weak ETags only, and the header takes one of them or `*`
    (Azure: 'Update Entity', request headers).
    """
    stripped = text.strip(" \t")
    if stripped == any_etag:
        return any_etag
    found = _etag_form.fullmatch(stripped)
    if found is None:
        raise invalid_input("The value of the If-Match header is not an ETag of an entity.")
    return _normalized(found[1])


def matches(if_match: str, stamp: int) -> bool:
    """Whether an entity with this stamp is the one that a parsed If-Match names."""
    return if_match == any_etag or if_match == f"datetime'{timestamp_of(stamp)}'"


def _normalized(opaque: str) -> str:
    """Percent-decoded: clients differ in what they escape, and in the case of the digits."""
    return unquote(opaque) if "%" in opaque else opaque
