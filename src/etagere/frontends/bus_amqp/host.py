"""What a connection needs of the server around it."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from etagere.base.clock import Timestamp


class Cancellable(Protocol):
    def cancel(self) -> object: ...


class Host(Protocol):
    """One for each connection; everything runs on one event loop."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> Cancellable:
        """Run it beside everything else; it ends with the connection at the latest."""
        ...

    def at(self, when: Timestamp, callback: Callable[[], None]) -> Cancellable:
        """Call back at a moment of the server's clock."""
        ...

    def steady_now(self) -> Timestamp:
        """Time that nobody sets or moves: what a socket's life is judged by.

        Locks, times to live and idle timers go by the server's clock, which tests move; whoever
        moves it has not made a client silent.
        """
        ...

    def at_steady(self, when: Timestamp, callback: Callable[[], None]) -> Cancellable:
        """Call back at a moment of `steady_now`."""
        ...

    def wake(self) -> None:
        """There is something to write: call `BusConnection.flush` soon, once for many wakes."""
        ...

    @property
    def congested(self) -> bool:
        """The peer takes less than it is sent: send it nothing more for now."""
        ...
