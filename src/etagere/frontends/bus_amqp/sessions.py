"""The session filter of a receiver's source: which session it wants, and how it is told."""

from typing import Any, Final

import msgspec

from etagere.base.clock import Timestamp, ticks_before_unix, ticks_per_millisecond
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.protocols.amqp.values import Described, Symbol, ULong

filter_name: Final = Symbol("com.microsoft:session-filter")
filter_code: Final = ULong(0x137000000C)
shared_filter_name: Final = Symbol("com.microsoft:non-exclusive-session-filter:list")
timeout_property: Final = Symbol("com.microsoft:timeout")
locked_until_property: Final = Symbol("com.microsoft:locked-until-utc")
wait_milliseconds_default: Final = 60_000
wait_milliseconds_max: Final = 0xFFFFFFFF


class SessionWish(msgspec.Struct, frozen=True):
    session_id: str | None
    """None is the next available one."""
    descriptor: Any
    """Go describes the filter's value and reads no other; everybody else does neither."""

    def answer(self, session_id: str) -> dict[Any, Any]:
        """The filter, in the form that it came, with the session that was locked."""
        if self.descriptor is None:
            return {filter_name: session_id}
        return {filter_name: Described(self.descriptor, session_id)}


def session_wish(filters: dict[Any, Any] | None) -> SessionWish | None:
    """What the filters of a source ask for; no other filter is supported."""
    if not filters:
        return None
    for name in filters:
        if name != filter_name:
            raise Refused(errors.not_implemented, message="A filter of the source is unknown.")
    value = filters[filter_name]
    descriptor = None
    if isinstance(value, Described):
        descriptor = value.descriptor
        value = value.value
    if value is None:
        return SessionWish(None, descriptor)
    if type(value) is not str:
        raise Refused(errors.invalid_field, message="The session filter's value is not a string.")
    return SessionWish(value, descriptor)


def wait_ticks(properties: dict[Any, Any] | None) -> int:
    """How long to wait for a session, as the attach says."""
    wait = (properties or {}).get(timeout_property)
    if isinstance(wait, bool) or not isinstance(wait, int) or wait <= 0:
        wait = wait_milliseconds_default
    return min(int(wait), wait_milliseconds_max) * ticks_per_millisecond


def locked_until_utc(moment: Timestamp) -> int:
    """A long that counts as .NET does: 100 ns since the year 1."""
    return moment + ticks_before_unix
