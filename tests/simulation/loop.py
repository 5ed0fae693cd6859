"""An event loop whose order and time come from a seed: no sockets, no threads, no real clock.

Whatever is ready may run next.  asyncio promises more (first come, first served), so what holds
here holds wherever tasks are slower or faster than one would think.
"""

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, TypeVar

from etagere.base.clock import Timestamp, seconds, ticks_per_second

T = TypeVar("T")

started_at = 17_600_000_000_000_000
"""When every simulation begins, some time in 2025."""

_steps_max = 3_000_000
_drift = (0, 0, 0, 1, 10, 200)
"""Ticks that may pass while something runs; mostly none, so that moments coincide."""


class Stuck(Exception):  # noqa: N818 - names what happened
    """Nothing is ready, nothing will be, and the main task waits."""


class SeededLoop(asyncio.AbstractEventLoop):
    def __init__(self, chance: Random) -> None:
        self.ticks = started_at
        self.failures: list[str] = []
        """What went wrong with nobody waiting for it."""
        self._chance = chance
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._numbered = 0
        self._running = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.create_task(work)
        self._running = True
        asyncio._set_running_loop(self)
        try:
            for _ in range(_steps_max):
                if task.done():
                    return task.result()
                self._step()
            raise Stuck("too many steps")
        finally:
            asyncio._set_running_loop(None)
            self._running = False

    def _step(self) -> None:
        self._take_due()
        if not self._ready:
            if not self._timers:
                raise Stuck
            self.ticks = max(self.ticks, self._timers[0][0])
            self._take_due()
        at = self._chance.randrange(len(self._ready))
        self._ready[at], self._ready[-1] = self._ready[-1], self._ready[at]
        handle = self._ready.pop()
        self.ticks += self._chance.choice(_drift)
        if not handle.cancelled():
            handle._run()

    def _take_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.ticks:
            self._ready.append(heapq.heappop(self._timers)[2])

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self.ticks / ticks_per_second

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_tick(self.ticks + seconds(delay), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_tick(round(when * ticks_per_second), callback, args, context)

    def _call_at_tick(
        self,
        tick: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(tick / ticks_per_second, callback, args, self, context)
        self._numbered += 1
        heapq.heappush(self._timers, (tick, self._numbered, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays among the timers, and does nothing when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[T]":
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """No thread: it runs some time, all at once."""
        future: asyncio.Future[T] = self.create_future()

        def call() -> None:
            if not future.cancelled():
                future.set_result(func(*args))

        self.call_later(self._chance.random() / 100, call)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


class LoopClock:
    """The loop's time, as everything in the simulation knows it."""

    def __init__(self, loop: SeededLoop) -> None:
        self._loop = loop

    def now(self) -> Timestamp:
        return Timestamp(self._loop.ticks)


class SeededEntropy:
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def token(self, size: int) -> bytes:
        return self._chance.randbytes(size)

    def uuid(self) -> str:
        text = self._chance.randbytes(16).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"
