"""One pending call for the earliest of many moments, which all come nearer and move away."""

from collections.abc import Callable

from etagere.base.clock import Timestamp
from etagere.frontends.bus_amqp.host import Cancellable


class Alarm:
    """Calls back at a moment of one clock; who is called asks again for the next."""

    __slots__ = ("_at", "_call", "_handle", "_rang")

    def __init__(
        self,
        at: Callable[[Timestamp, Callable[[], None]], Cancellable],
        rang: Callable[[], None],
    ) -> None:
        self._at = at
        self._rang = rang
        self._call: Timestamp | None = None
        self._handle: Cancellable | None = None

    def set(self, due: Timestamp | None) -> None:
        """A call that comes too early asks again; only a later one would miss its moment."""
        if due is None or (self._call is not None and self._call <= due):
            return
        self.cancel()
        self._call = due
        self._handle = self._at(due, self._ring)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._call = None

    def _ring(self) -> None:
        self._handle = None
        self._call = None
        self._rang()
