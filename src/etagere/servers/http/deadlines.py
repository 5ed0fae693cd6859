"""When a connection's client is late, with reading or with sending."""

import asyncio
from collections.abc import Callable
from typing import Final

never: Final = float("inf")


class Deadlines:
    """Two moments and one timer, which is armed anew only when it fires or must fire earlier: the
    usual request sets and clears deadlines without the loop hearing of it."""

    __slots__ = ("_loop", "_reader_is_late", "_timer", "_writer_is_late", "reading", "writing")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        reader_is_late: Callable[[], None],
        writer_is_late: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._reader_is_late = reader_is_late
        self._writer_is_late = writer_is_late
        self._timer: asyncio.TimerHandle | None = None
        self.reading = never
        self.writing = never

    def read_by(self, seconds: float) -> None:
        self.reading = self._loop.time() + seconds
        self._arm(self.reading)

    def write_by(self, seconds: float) -> None:
        self.writing = self._loop.time() + seconds
        self._arm(self.writing)

    def close(self) -> None:
        """Nothing is late any more."""
        self.reading = self.writing = never
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline: float) -> None:
        timer = self._timer
        if timer is not None:
            if timer.when() <= deadline:
                return
            timer.cancel()
        self._timer = self._loop.call_at(deadline, self._fired)

    def _fired(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self.reading <= now:
            self.reading = never
            self._reader_is_late()
        if self.writing <= now:
            self.writing = never
            self._writer_is_late()
        earliest = min(self.reading, self.writing)
        if earliest != never:
            self._arm(earliest)
