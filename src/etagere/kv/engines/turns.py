"""Whose turn it is, the event loop's or the writer's, while one process alone writes to a store.

Both threads share one interpreter, and LMDB lets go of its lock at every look-up: two threads that
both have Python to run hand the lock back and forth a dozen times for each body, and each time
costs more than the look-up.  So the loop gathers what is to be written, hands it over at one go and
stands still until the writer has run the bodies; while the disk works, the loop goes on alone.

    loop     requests ... hand over |  (waits)                     | requests ... | settled, next
    writer   (waits)                |  bodies, rows; says so       | commit, sync | (waits)

The loop waits no longer than `stand_still_seconds_max`: a body that takes its time (a list of
50,000 blocks) does not stop everyone else.  Then both run, as they would without this.

Whoever was just answered asks again a moment later, when those who asked meanwhile are already on
their way to the disk: of clients that ask without a pause, half are in each commit.  Where commits
are slow, it pays to wait that moment, so that one has all of them (`Patience`).
"""

import asyncio
import threading
import time
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


slow_commit_seconds_min: Final = 0.002
"""Where a commit takes no longer, the loop has enough to do meanwhile."""
waited_share: Final = 1 / 3
"""Of what the last commit took: how long the next one is held back at most."""
enough_share: Final = 3 / 4
"""Of those who are waited for: with fewer, it was in vain."""
skips_max: Final = 64


class Patience:
    """Whether to hold a commit back for those who were just answered, by what came of it before:
    each time in vain doubles the number of commits before it is tried again."""

    __slots__ = ("_left", "_skips", "wanted")

    def __init__(self) -> None:
        self._skips = 0
        self._left = 0
        self.wanted = 0
        """How many are waited for; 0 while nobody is."""

    def seconds(self, commit_seconds: float, answered: int, gathered: int) -> float:
        """How long to wait now; 0 for not at all."""
        if commit_seconds < slow_commit_seconds_min or answered + gathered < 2:
            return 0.0
        if self._left:
            self._left -= 1
            return 0.0
        self.wanted = answered + gathered
        return commit_seconds * waited_share

    def over(self, gathered: int) -> None:
        """So many there are now."""
        if gathered >= self.wanted * enough_share:
            self._skips = 0
        else:
            self._skips = min(2 * self._skips + 1, skips_max)
        self._left = self._skips
        self.wanted = 0


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
        self._handed = 0
        self._handed_at = 0.0
        self._patience = Patience()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._gathered)

    def submit(self, entry: E, loop: asyncio.AbstractEventLoop) -> None:
        self._gathered.append(entry)
        if self._is_called or self._at_writer or len(self._gathered) < self._patience.wanted:
            return
        self._is_called = True
        loop.call_soon(self._due)

    def settled(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self._at_writer -= count
        if self._at_writer:
            return
        seconds = self._patience.seconds(
            time.perf_counter() - self._handed_at, self._handed, len(self._gathered)
        )
        if seconds:
            self._timer = loop.call_later(seconds, self._due)
        else:
            self.hand_over()

    def _due(self) -> None:
        """Of a timer and a call for the same entries, the second finds them at the writer."""
        self._is_called = False
        if not self._at_writer:
            self.hand_over()

    def hand_over(self) -> None:
        self._is_called = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._patience.over(len(self._gathered))
        entries, self._gathered = self._gathered, []
        if not entries:
            return
        self._at_writer += len(entries)
        self._handed = len(entries)
        self._handed_at = time.perf_counter()
        self._gate.close()
        self._take(entries)
        self._gate.wait()
