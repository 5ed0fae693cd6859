"""The index by time, against a plain dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition, embedded_limits
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.layers.due import Due, DueIndex
from etagere.kv.overlay import OverlayTx
from etagere.kv.runner import run
from etagere.kv.tuples import pack

part = Partition(pack("queue"))
index = DueIndex("jobs", 7)


@pytest.fixture
def engine(clock):
    return MemoryEngine(clock)


async def test_earliest_first_up_to_now(engine):
    async def body(tx):
        for at in (30, 10, 300, 20, 25):
            await index.schedule(tx, part, Timestamp(at), "expire", f"n{at}", b"%d" % at)
        assert await index.next_time(tx, part) == 10
        found = await index.due(tx, part, Timestamp(25), 10)
        assert await index.due(tx, part, Timestamp(25), 2) == found[:2]
        assert await index.due(tx, part, Timestamp(9), 10) == []
        return found

    assert await engine.write((part,), body) == [
        Due(Timestamp(at), "expire", f"n{at}", b"%d" % at) for at in (10, 20, 25)
    ]


async def test_scheduled_again_it_moves(engine):
    async def body(tx):
        for at in (10, 500, 500, 20):
            await index.schedule(tx, part, Timestamp(at), "expire", "name", b"%d" % at)
        assert await index.scheduled_at(tx, part, "expire", "name") == 20
        return await index.due(tx, part, Timestamp(1000), 10)

    assert await engine.write((part,), body) == [Due(Timestamp(20), "expire", "name", b"20")]


async def test_cancelled_it_is_gone(engine):
    async def body(tx):
        await index.schedule(tx, part, Timestamp(10), "expire", "name")
        await index.schedule(tx, part, Timestamp(10), "unlock", "name")
        assert await index.cancel(tx, part, "expire", "name")
        assert not await index.cancel(tx, part, "expire", "name")
        assert await index.scheduled_at(tx, part, "expire", "name") is None
        return await index.due(tx, part, Timestamp(10), 10)

    assert await engine.write((part,), body) == [Due(Timestamp(10), "unlock", "name", b"")]


async def test_nothing_is_left_behind(engine):
    async def body(tx):
        for n in range(10):
            await index.schedule(tx, part, Timestamp(n), "expire", n)
            await index.schedule(tx, part, Timestamp(n + 5), "expire", n)
        for n in range(10):
            await index.cancel(tx, part, "expire", n)
        assert await index.next_time(tx, part) is None
        return await tx.scan(part, b"", b"\xff", limit=10)

    assert await engine.write((part,), body) == []


async def test_indexes_are_apart(engine):
    async def body(tx):
        await index.schedule(tx, part, Timestamp(1), "expire", "a")
        await DueIndex("jobs").schedule(tx, part, Timestamp(2), "expire", "b")
        return [
            [due.name for due in await each.due(tx, part, Timestamp(5), 10)]
            for each in (index, DueIndex("jobs"), DueIndex("jobs", 8))
        ]

    assert await engine.write((part,), body) == [["a"], ["b"], []]


names = st.text(max_size=2) | st.integers(0, 3) | st.binary(max_size=2)
kinds = st.sampled_from(["a", "b"])
times = st.integers(0, 1 << 56)
steps = st.lists(st.tuples(kinds, names, st.none() | times), max_size=20)


@given(steps, times, st.integers(0, 5))
def test_like_a_dict(changes, now, limit):
    model = {}

    async def body(tx):
        for kind, name, at in changes:
            if at is None:
                was = model.pop((kind, name), None)
                assert await index.cancel(tx, part, kind, name) == (was is not None)
            else:
                model[kind, name] = at
                await index.schedule(tx, part, Timestamp(at), kind, name, pack(name))
        return await index.due(tx, part, Timestamp(now), 1000), await index.next_time(tx, part)

    empty = MemoryEngine(None)._rows
    tx = OverlayTx(empty, (part,), Timestamp(0), 0, embedded_limits)
    found, next_time = run(body, tx)
    expected = sorted(
        (at, pack(kind, name), kind, name) for (kind, name), at in model.items() if at <= now
    )
    assert found == [Due(Timestamp(at), kind, name, pack(name)) for at, _, kind, name in expected]
    assert next_time == min(model.values(), default=None)
