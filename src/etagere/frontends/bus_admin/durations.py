"""ISO 8601 durations, as the administration API and the emulator's configuration write them."""

import re
from typing import Final

from etagere.base.clock import ticks_per_second

forever: Final = 2**63 - 1
_day: Final = 86_400 * ticks_per_second
_hour: Final = 3_600 * ticks_per_second
_minute: Final = 60 * ticks_per_second
_form: Final = re.compile(
    r"(-)?P(?:([0-9]{1,10})Y)?(?:([0-9]{1,10})M)?(?:([0-9]{1,10})D)?"
    r"(?:T(?:([0-9]{1,10})H)?(?:([0-9]{1,10})M)?(?:([0-9]{1,10})(?:\.([0-9]{1,12}))?S)?)?",
    re.ASCII,
)


def parse_duration(text: str) -> int | None:
    """Ticks; a year counts 365 days and a month 30, as .NET's XmlConvert counts them."""
    stripped = text.strip()
    found = _form.fullmatch(stripped)
    if found is None or stripped.endswith(("P", "T")):
        return None
    sign, years, months, days, hours, minutes, whole, fraction = found.groups()
    ticks = (int(years or 0) * 365 + int(months or 0) * 30 + int(days or 0)) * _day
    ticks += int(hours or 0) * _hour + int(minutes or 0) * _minute
    ticks += int(whole or 0) * ticks_per_second + int((fraction or "").ljust(7, "0")[:7])
    ticks = min(ticks, forever)
    return -ticks if sign else ticks


def format_duration(ticks: int) -> str:
    sign, ticks = ("-", -ticks) if ticks < 0 else ("", ticks)
    days, rest = divmod(ticks, _day)
    hours, rest = divmod(rest, _hour)
    minutes, rest = divmod(rest, _minute)
    seconds, fraction = divmod(rest, ticks_per_second)
    text = f"{days}D" if days else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if seconds or fraction or not (text or clock):
        tail = f".{fraction:07d}".rstrip("0") if fraction else ""
        clock += f"{seconds}{tail}S"
    return f"{sign}P{text}" + (f"T{clock}" if clock else "")
