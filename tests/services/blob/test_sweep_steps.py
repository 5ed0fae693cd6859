"""A deleted container goes in small steps, and what else is due comes in between."""

import asyncio
from functools import partial
from typing import Any

import pytest

from etagere.base.clock import Timestamp
from etagere.extents.memory import MemoryExtents
from etagere.kv.contract import Partition
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.real import SystemEntropy
from etagere.services.blob import containers, keys, sweep, tag_index
from etagere.services.blob.containers import CreateContainer, place
from etagere.services.blob.content import Home
from etagere.services.blob.guard import unguarded
from etagere.services.blob.records import BlobRecord, BlobType, blobs
from etagere.services.blob.service import BlobService

account = "devstoreaccount1"
rows_a_step = 16
steps_a_sweep = 4
count = 500
rows_a_sweep_max = rows_a_step * (steps_a_sweep + 3)
"""Where one kind of row ends another begins, with a step of its own."""


class StandingClock:
    def now(self) -> Timestamp:
        return Timestamp(17_000_000_000_000_000)


class WatchedEngine(MemoryEngine):
    """Notes how many rows each write has changed."""

    def __init__(self) -> None:
        super().__init__(StandingClock())
        self.changed: list[int] = []

    async def write(self, parts: tuple[Partition, ...], body: Any) -> Any:
        changed = 0

        async def watched(tx: Any) -> Any:
            nonlocal changed
            result = await body(tx)
            changed = sum(len(rows) for rows in tx.writes.values())
            return result

        result = await super().write(parts, watched)
        self.changed.append(changed)
        return result


async def fill(engine: MemoryEngine, name: str) -> Home:
    where = place(account, name)
    record = await engine.write(
        (where.part, where.account_part),
        partial(containers.create, where=where, wanted=CreateContainer({})),
    )
    home = Home(where.part, record.generation)

    async def body(tx: Any) -> None:
        for number in range(count):
            tags = {"number": str(number)}
            blob = BlobRecord(BlobType.BLOCK, 1, 1, 1, 0, tags=tags)
            tx.put(home.part, keys.blob(home.generation, f"b{number}"), blobs.encode(blob))
            tag_index.remember(tx, home, f"b{number}", keys.current_moment, tags)

    await engine.write((home.part,), body)
    return home


async def rows_of(engine: MemoryEngine, home: Home) -> int:
    async def body(tx: Any) -> int:
        found = 0
        for lane in keys.everything(home.generation):
            found += len(await tx.scan(home.part, *lane.bounds, limit=10_000))
        return found

    return await engine.read(body)


async def test_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "rows_per_step", rows_a_step)
    monkeypatch.setattr(sweep, "steps_per_sweep", steps_a_sweep)
    engine = WatchedEngine()
    clock = StandingClock()
    service = BlobService(engine, MemoryExtents(clock), clock, SystemEntropy())
    where = place(account, "large")
    home = await fill(engine, "large")
    assert await rows_of(engine, home) == 2 * count
    engine.changed.clear()
    await engine.write(
        (where.part, where.account_part), partial(containers.delete, where=where, guard=unguarded)
    )
    assert engine.changed == [3], "the container is gone at once, whatever is in it"
    engine.changed.clear()

    # Its name is free meanwhile, and rows of the new one are not mistaken for the old one's.
    again = await fill(engine, "large")
    engine.changed.clear()
    sweeps = 0
    while (due := await sweep.sweep(service, account, clock.now())) <= clock.now():
        sweeps += 1
        assert max(engine.changed) <= rows_a_step
        assert sum(engine.changed) <= rows_a_sweep_max
        engine.changed.clear()
        await asyncio.sleep(0)
    assert sweeps >= 2 * count // rows_a_sweep_max
    assert due > clock.now()
    assert await rows_of(engine, home) == 0
    assert await rows_of(engine, again) == 2 * count
    engine.changed.clear()
    await sweep.sweep(service, account, clock.now())
    assert sum(engine.changed) == 0, "nothing is left to be done"
