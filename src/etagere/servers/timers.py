"""Waiting for a moment of an injected clock; moving a virtual clock wakes whoever is due."""

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from etagere.base.clock import Timestamp
from etagere.servers.real import TimerClock

_look_again_seconds: Final = 60.0
"""The loop counts monotonic time: a wall clock that is stepped is noticed at least this soon."""


class Alarm:
    """A callback set for a moment; `cancel` forgets it."""

    __slots__ = ("_callback", "_owner", "cancelled", "when")

    def __init__(self, owner: "Timers", when: Timestamp, callback: Callable[[], None]) -> None:
        self._owner = owner
        self._callback = callback
        self.when = when
        self.cancelled = False

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self._owner.forget()

    def ring(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self._callback()


class Timers:
    """All waiting of one process on one clock: a heap and a single timer of the loop."""

    def __init__(self, clock: TimerClock) -> None:
        self._clock = clock
        self._heap: list[tuple[Timestamp, int, Alarm]] = []
        self._order = count()
        self._cancelled = 0
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for: Timestamp | None = None
        self._closed = False
        clock.on_move(self._look)

    def at(self, when: Timestamp, callback: Callable[[], None]) -> Alarm:
        alarm = Alarm(self, when, callback)
        heappush(self._heap, (when, next(self._order), alarm))
        if self._armed_for is None or when < self._armed_for:
            self._arm()
        return alarm

    async def sleep_until(self, when: Timestamp) -> None:
        if when <= self._clock.now():
            await asyncio.sleep(0)
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not reached.done():
                reached.set_result(None)

        alarm = self.at(when, wake)
        try:
            await reached
        finally:
            alarm.cancel()

    async def sleep(self, ticks: int) -> None:
        await self.sleep_until(Timestamp(self._clock.now() + ticks))

    def close(self) -> None:
        self._closed = True
        self._disarm()
        self._heap.clear()

    def forget(self) -> None:
        """One more alarm of the heap is cancelled; clear out when most of them are."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def _look(self) -> None:
        """Ring what is due, then wait for what comes next."""
        self._disarm()
        if self._closed:
            return
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            alarm = heappop(self._heap)[2]
            if alarm.cancelled:
                self._cancelled = max(0, self._cancelled - 1)
            else:
                asyncio.get_running_loop().call_soon(alarm.ring)
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        if not self._heap or self._closed:
            return
        when = self._heap[0][0]
        seconds = self._clock.seconds_until(when)
        self._armed_for = when
        if seconds < _look_again_seconds or seconds == float("inf"):
            delay = seconds
        else:
            delay = _look_again_seconds
        if delay != float("inf"):
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(max(0.0, delay), self._look)

    def _disarm(self) -> None:
        self._armed_for = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
