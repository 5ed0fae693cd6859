"""The store as it may behave: slow, full, failing before or after the commit; and two broken ones.

`FaultyEngine` keeps every promise of `kv.contract`, and makes use of every freedom that it leaves.
The broken engines each break one promise: a checker that they do not trip proves nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from random import Random
from typing import Any, TypeVar

from sortedcontainers import SortedDict

from etagere.extents.contract import Extent, ExtentId, ExtentWriter, StoredExtent, Usage
from etagere.extents.memory import MemoryExtents
from etagere.kv.contract import Body, Partition, ReadTx, StoreFailed, StoreFull, Tx
from etagere.kv.engines.memory import MemoryEngine, _Rows
from etagere.kv.overlay import OverlayTx
from etagere.kv.runner import run

from .loop import LoopClock

T = TypeVar("T")

commits: ContextVar[list["asyncio.Task[Any]"] | None] = ContextVar("commits", default=None)
"""What a client's request has begun to write: a request may end (its client hung up) before it."""


class Weather:
    """How bad it is: the chance of each fault, and how long things take."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.calm = False
        self.before = chance.choice((0.0, 0.01, 0.05))
        self.after = chance.choice((0.0, 0.01, 0.05))
        self.full = chance.choice((0.0, 0.01, 0.05))
        self.read = chance.choice((0.0, 0.005))
        self.slow = chance.choice((0.0, 0.01, 0.03))

    def strikes(self, probability: float) -> bool:
        return self.chance.random() < probability and not self.calm

    async def delay(self) -> None:
        """Nothing, some milliseconds, or once in a while half a minute."""
        kind = self.chance.random()
        if kind < 0.4:
            return
        if kind < 0.7:
            await asyncio.sleep(0)
        elif self.strikes(self.slow):
            await asyncio.sleep(self.chance.random() * 25)
        else:
            await asyncio.sleep(self.chance.random() * 0.02)


class FaultyEngine(MemoryEngine):
    """The strict engine in bad weather."""

    def __init__(self, clock: LoopClock, weather: Weather) -> None:
        super().__init__(clock)
        self.weather = weather

    async def read(self, body: Body[ReadTx, T]) -> T:
        await self.weather.delay()
        if self.weather.strikes(self.weather.read):
            raise StoreFailed("simulated: a read")
        found = await super().read(body)
        await self.weather.delay()
        return found

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        """Goes on to its end when nobody waits any more, as a commit on its way does."""
        task = asyncio.get_running_loop().create_task(self._write(parts, body))
        task.add_done_callback(_take_note)
        begun = commits.get()
        if begun is not None:
            begun.append(task)
        return await asyncio.shield(task)

    async def _write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        weather = self.weather
        await weather.delay()
        if weather.strikes(weather.before):
            raise StoreFailed("simulated: before the commit")
        if weather.strikes(weather.full):
            raise StoreFull("simulated")
        done = await self.commit(parts, body)
        await weather.delay()
        if weather.strikes(weather.after):
            raise StoreFailed("simulated: after the commit")
        return done

    async def commit(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        return await super().write(parts, body)


class ForgetfulEngine(FaultyEngine):
    """Broken: now and then it acknowledges a commit and forgets it."""

    def __init__(self, clock: LoopClock, weather: Weather) -> None:
        super().__init__(clock, weather)
        self._until_loss = 120

    async def commit(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        self._until_loss -= 1
        if self._until_loss or self.weather.calm:
            return await super().commit(parts, body)
        self._until_loss = 40
        attempt = self._attempt(parts, body, self._clock.now())
        if attempt.error is not None:
            self._until_loss = 1
            raise attempt.error
        if not any(attempt.tx.writes.values()):
            self._until_loss = 1
        self._last_stamp = attempt.tx.last_stamp
        return attempt.result  # type: ignore[return-value]  # what the body returned


class RacyEngine(FaultyEngine):
    """Broken: what a body has checked may have changed by the time that it acts."""

    async def commit(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        seen = _copy(self._rows, parts)
        await self.weather.delay()
        tx = OverlayTx(seen, parts, self._clock.now(), self._last_stamp, self.limits)
        result = run(body, tx)
        tx.finish()
        self._last_stamp = max(tx.last_stamp, self._last_stamp)
        self._rows.apply(tx.writes)
        return result


def _take_note(task: "asyncio.Task[Any]") -> None:
    """Its outcome is known, even where nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


def _copy(rows: _Rows, parts: tuple[Partition, ...]) -> _Rows:
    copied = _Rows()
    copied._parts = dict(rows._parts)
    for part in parts:
        if part in copied._parts:
            copied._parts[part] = SortedDict(copied._parts[part])
    return copied


class FaultyExtents:
    """Extents in memory, in the same weather."""

    def __init__(self, clock: LoopClock, weather: Weather) -> None:
        self._inner = MemoryExtents(clock)
        self._weather = weather

    def writer(self, extent_id: ExtentId, *, size_hint: int | None = None) -> ExtentWriter:
        return _FaultyWriter(self._inner.writer(extent_id, size_hint=size_hint), self._weather)

    async def read(
        self, extent: Extent, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        await self._weather.delay()
        async for piece in self._inner.read(extent, offset, length):
            half = len(piece) // 2
            yield piece[:half]
            await self._weather.delay()
            yield piece[half:]

    async def remove(self, extent_id: ExtentId) -> None:
        await self._weather.delay()
        await self._inner.remove(extent_id)

    def list(self) -> AsyncIterator[StoredExtent]:
        return self._inner.list()

    async def usage(self) -> Usage:
        return await self._inner.usage()

    async def verify(self, extent: Extent) -> None:
        await self._inner.verify(extent)

    async def close(self) -> None:
        await self._inner.close()


class _FaultyWriter:
    def __init__(self, inner: ExtentWriter, weather: Weather) -> None:
        self._inner = inner
        self._weather = weather

    @property
    def crc64(self) -> int:
        return self._inner.crc64

    async def write(self, chunk: bytes) -> None:
        await self._weather.delay()
        if self._weather.strikes(self._weather.full):
            await self._inner.abort()
            raise StoreFull("simulated: no room for the extent")
        await self._inner.write(chunk)

    async def flush(self) -> None:
        await self._inner.flush()

    async def seal(self) -> Extent:
        await self._weather.delay()
        if self._weather.strikes(self._weather.before):
            await self._inner.abort()
            raise StoreFailed("simulated: an extent")
        return await self._inner.seal()

    async def abort(self) -> None:
        await self._inner.abort()
