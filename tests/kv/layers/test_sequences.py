import asyncio

import pytest

from etagere.base.errors import Refused
from etagere.kv.contract import DamagedRecord, Partition
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.layers import sequences
from etagere.kv.tuples import pack

part = Partition(pack("queue"))
key = pack("sequence")


@pytest.fixture(params=["memory", "lmdb"])
async def engine(request, clock, tmp_path):
    engine = (
        MemoryEngine(clock) if request.param == "memory" else LmdbEngine.open(tmp_path, clock=clock)
    )
    yield engine
    await engine.close()


async def test_numbers_without_gaps_by_many(engine):
    async def takes(tx):
        return await sequences.take(tx, part, key)

    async def takes_and_fails(tx):
        await sequences.take(tx, part, key, 10)
        raise Refused("NotThisTime")

    results = await asyncio.gather(
        *(engine.write((part,), body) for _ in range(50) for body in (takes, takes_and_fails)),
        return_exceptions=True,
    )
    assert [n for n in results if isinstance(n, int)] == list(range(1, 51))


async def test_several_at_once(engine):
    async def body(tx):
        assert await sequences.last_taken(tx, part, key) == 0
        first = await sequences.take(tx, part, key, 5)
        second = await sequences.take(tx, part, key)
        return first, second, await sequences.last_taken(tx, part, key)

    assert await engine.write((part,), body) == (1, 6, 6)


async def test_damage(engine):
    async def body(tx):
        tx.put(part, key, b"short")
        await sequences.take(tx, part, key)

    with pytest.raises(DamagedRecord):
        await engine.write((part,), body)
