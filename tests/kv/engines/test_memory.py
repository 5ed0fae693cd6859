"""What the strict engine in memory catches beyond the contract of all engines."""

import pytest

from etagere.base.errors import Refused
from etagere.kv.contract import BodyNotRepeatable, Partition
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.tuples import MalformedTuple, pack

part = Partition(pack("part"))


@pytest.fixture
def engine(clock):
    return MemoryEngine(clock)


async def rows(engine):
    async def body(tx):
        return await tx.scan(part, b"", b"\xff", limit=100)

    return await engine.read(body)


async def test_another_result_in_the_second_run(engine):
    runs = []

    async def body(tx):
        runs.append(tx)
        return len(runs)

    with pytest.raises(BodyNotRepeatable):
        await engine.write((part,), body)


@pytest.mark.parametrize("what", ["value", "key", "topic", "stamp", "refusal"])
async def test_another_effect_in_the_second_run(engine, what):
    runs = []

    async def body(tx):
        runs.append(tx)
        n = b"%d" % len(runs)
        if what == "refusal" and len(runs) > 1:
            raise Refused("LeaseIdMissing")
        tx.put(part, n if what == "key" else b"k", n if what == "value" else b"v")
        tx.notify(n if what == "topic" else b"t")
        if what == "stamp" and len(runs) > 1:
            tx.stamp()

    with pytest.raises(BodyNotRepeatable):
        await engine.write((part,), body)
    assert await rows(engine) == []


async def test_both_runs_start_alike_and_one_counts(engine):
    seen = []

    async def body(tx):
        seen.append((await tx.get(part, b"n"), tx.stamp(), tx.now))
        tx.put(part, b"n", b"1")
        return object()

    await engine.write((part,), body)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert await rows(engine) == [(b"n", b"1")]


async def test_a_refusal_alike_in_both_runs_is_raised(engine):
    async def body(tx):
        raise Refused("LeaseIdMissing")

    with pytest.raises(Refused, match="LeaseIdMissing"):
        await engine.write((part,), body)


async def test_a_partition_must_be_a_packed_tuple(engine):
    async def body(tx):
        pass

    with pytest.raises(MalformedTuple):
        await engine.write((Partition(b"part"),), body)


async def test_without_strictness_a_body_runs_once(clock):
    engine = MemoryEngine(clock, strict=False)
    runs = []

    async def body(tx):
        runs.append(tx)
        return len(runs)

    assert await engine.write((part,), body) == 1
