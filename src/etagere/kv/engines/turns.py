"""Whose turn it is, the event loop's or the writer's, while one process alone writes to a store.

Both threads share one interpreter, and LMDB lets go of its lock at every look-up: two threads that
both have Python to run hand the lock back and forth a dozen times for each body, and each time
costs more than the look-up.  So the loop gathers what is to be written, hands it over at one go and
stands still until the writer has run the bodies; while the disk works, the loop goes on alone.

    loop     requests ... hand over |  (waits)                     | requests ... | settled, next
    writer   (waits)                |  bodies, rows; says so       | commit, sync | (waits)

The loop waits no longer than `stand_still_seconds_max`: a body that takes its time (a list of
50,000 blocks) does not stop everyone else.  Then both run, as they would without this.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

E = TypeVar("E")

stand_still_seconds_max: Final = 0.004


class Gate:
    """The loop waits at it; the writer opens it, once for each time that it was closed."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def close(self) -> None:
        """Forget an opening that came when the loop no longer waited."""
        self._lock.acquire(blocking=False)

    def wait(self) -> None:
        self._lock.acquire(timeout=stand_still_seconds_max)

    def open(self) -> None:
        """From the writer's thread; may be said more than once."""
        if self._lock.locked():
            self._lock.release()


class Turns(Generic[E]):
    """The loop's side.  `submit` and `settled` are called on the loop.

    Entries are handed over in the order in which they came, and only when none is at the writer:
    `settled` says how many came back.
    """

    def __init__(self, take: Callable[[Sequence[E]], None], gate: Gate) -> None:
        """`take` gives entries to the writer's thread."""
        self._take = take
        self._gate = gate
        self._gathered: list[E] = []
        self._is_called = False
        self._at_writer = 0

    def __len__(self) -> int:
        return len(self._gathered)

    def submit(self, entry: E, loop: asyncio.AbstractEventLoop) -> None:
        self._gathered.append(entry)
        if not self._is_called and not self._at_writer:
            self._is_called = True
            loop.call_soon(self.hand_over)

    def settled(self, count: int) -> None:
        self._at_writer -= count
        if not self._at_writer:
            self.hand_over()

    def hand_over(self) -> None:
        self._is_called = False
        entries, self._gathered = self._gathered, []
        if not entries:
            return
        self._at_writer += len(entries)
        self._gate.close()
        self._take(entries)
        self._gate.wait()
