"""Time comes from outside, always as a value of this module's `Timestamp`."""

from typing import Final, NewType, Protocol

Timestamp = NewType("Timestamp", int)
"""Ticks of 100 ns since 1970-01-01T00:00:00Z: what every record and decision counts in."""

ticks_per_second: Final = 10_000_000
ticks_per_millisecond: Final = 10_000
ticks_before_unix: Final = 621_355_968_000_000_000
"""Ticks from 0001-01-01 to 1970-01-01; ETags and Service Bus count from the former."""

timestamp_first: Final = Timestamp(-ticks_before_unix)
"""0001-01-01T00:00:00Z, before which .NET's clients know no time."""

timestamp_never: Final = Timestamp(253_402_300_799 * ticks_per_second + 9_999_999)
"""9999-12-31T23:59:59.9999999Z, the wire's word for 'never'."""


class Clock(Protocol):
    """A source of time: the real one, or one that tests and the admin API move."""

    def now(self) -> Timestamp: ...


def seconds(count: float) -> int:
    """A duration in ticks."""
    return round(count * ticks_per_second)
