"""Dates as the wire writes them, to and from ticks.

Headers carry RFC 1123 dates (RFC 850 and asctime are read too), XML bodies ISO 8601 with seven
fractional digits.  Every response formats at least one date and most of them name the same second,
so formatting remembers what it made.
"""

import re
from functools import lru_cache
from typing import Final

from etagere.base.clock import Timestamp, ticks_per_second, timestamp_never

seconds_per_day: Final = 86_400

_seconds_remembered: Final = 512
_year_min: Final = 1
_year_max: Final = 9999
_century_pivot: Final = 69
"""Two-digit years from here on are of the 1900s, as POSIX reads them."""

_days: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_months: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
_month_numbers: Final = {name.lower(): number for number, name in enumerate(_months, 1)}
_month_lengths: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_clock_part: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_short_days: Final = r"(?:mon|tue|wed|thu|fri|sat|sun)"
_long_days: Final = r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_month: Final = r"(?P<month>[a-z]{3})"

_header_forms: Final = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        # RFC 1123: Sun, 06 Nov 1994 08:49:37 GMT
        rf"{_short_days}, (?P<day>[0-9]{{1,2}}) {_month} (?P<year>[0-9]{{4}}) {_clock_part} GMT",
        # RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
        rf"{_long_days}, (?P<day>[0-9]{{2}})-{_month}-(?P<year>[0-9]{{2}}) {_clock_part} GMT",
        # asctime: Sun Nov  6 08:49:37 1994
        rf"{_short_days} {_month} (?P<day>[0-9 ][0-9]) {_clock_part} (?P<year>[0-9]{{4}})",
    )
)

_iso_form: Final = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:T(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,7}))?)?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)


def format_http_date(moment: Timestamp) -> str:
    """`Sun, 06 Nov 1994 08:49:37 GMT`; the fraction of a second is dropped."""
    return _format_http_second(moment // ticks_per_second)


def format_iso(moment: Timestamp) -> str:
    """`1994-11-06T08:49:37.1234567Z`."""
    second, fraction = divmod(moment, ticks_per_second)
    return f"{_format_iso_second(second)}.{fraction:07d}Z"


def format_iso_seconds(moment: Timestamp) -> str:
    """`1994-11-06T08:49:37Z`; the fraction of a second is dropped."""
    return _format_iso_second(moment // ticks_per_second) + "Z"


def parse_http_date(text: str) -> Timestamp | None:
    """The date of a header, or nothing where the text is no date.

    A weekday that does not belong to the date is not held against it: ignoring the date would mean
    ignoring the condition that it came with.
    """
    stripped = text.strip(" \t")
    for form in _header_forms:
        found = form.fullmatch(stripped)
        if found is None:
            continue
        month = _month_numbers.get(found["month"].lower())
        if month is None:
            return None
        year = int(found["year"])
        if len(found["year"]) == 2:
            year += 1900 if year >= _century_pivot else 2000
        return _timestamp(
            year,
            month,
            int(found["day"]),
            (int(found["hour"]), int(found["minute"]), int(found["second"])),
        )
    return None


def holds_several_dates(text: str) -> bool:
    """Whether the text is dates between commas: a header that was sent more than once."""
    parts = text.split(",", _dates_looked_at)
    found = 0
    index = 0
    while index < len(parts):
        # RFC 1123 and RFC 850 have a comma inside, asctime has none.
        if index + 1 < len(parts) and (
            parse_http_date(f"{parts[index]},{parts[index + 1]}") is not None
        ):
            found += 1
            index += 2
        elif parse_http_date(parts[index]) is not None:
            found += 1
            index += 1
        else:
            return False
    return found > 1


_dates_looked_at: Final = 16


def parse_iso(text: str) -> Timestamp | None:
    """An ISO 8601 date, date and minute, or moment with up to seven fractional digits.

    What stored access policies, signatures and snapshots are written with.  Without an offset the
    time is UTC.
    """
    found = _iso_form.fullmatch(text)
    if found is None:
        return None
    moment = _timestamp(
        int(found["year"]),
        int(found["month"]),
        int(found["day"]),
        (int(found["hour"] or 0), int(found["minute"] or 0), int(found["second"] or 0)),
    )
    if moment is None:
        return None
    ticks = moment + int((found["fraction"] or "").ljust(7, "0"))
    zone = found["zone"]
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 14 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * 60 * ticks_per_second
        ticks += offset if zone[0] == "-" else -offset
    return Timestamp(ticks) if _earliest <= ticks <= timestamp_never else None


def _timestamp(year: int, month: int, day: int, clock: tuple[int, int, int]) -> Timestamp | None:
    if not (_year_min <= year <= _year_max and 1 <= month <= 12):
        return None
    if not 1 <= day <= _month_length(year, month):
        return None
    hour, minute, second = clock
    if hour > 23 or minute > 59 or second > 59:
        return None
    of_day = (hour * 60 + minute) * 60 + second
    return Timestamp((_day_number(year, month, day) * seconds_per_day + of_day) * ticks_per_second)


def _month_length(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _month_lengths[month - 1]


def _day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar, counting years from March."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def _civil(day_number: int) -> tuple[int, int, int]:
    """The inverse of `_day_number`."""
    era, of_era = divmod(day_number + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = (shifted_month + 2) % 12 + 1
    return era * 400 + year_of_era + (month <= 2), month, day


_earliest: Final = _day_number(_year_min, 1, 1) * seconds_per_day * ticks_per_second


@lru_cache(maxsize=_seconds_remembered)
def _format_http_second(second: int) -> str:
    day_number, of_day = divmod(second, seconds_per_day)
    year, month, day = _civil(day_number)
    weekday = _days[(day_number + 3) % 7]  # 1970-01-01 was a Thursday
    hour, minute, second = of_day // 3600, of_day // 60 % 60, of_day % 60
    return (
        f"{weekday}, {day:02d} {_months[month - 1]} {year:04d} "
        f"{hour:02d}:{minute:02d}:{second:02d} GMT"
    )


@lru_cache(maxsize=_seconds_remembered)
def _format_iso_second(second: int) -> str:
    day_number, of_day = divmod(second, seconds_per_day)
    year, month, day = _civil(day_number)
    hour, minute, second = of_day // 3600, of_day // 60 % 60, of_day % 60
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"
