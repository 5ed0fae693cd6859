"""The loop and the writer take turns: nothing is lost, reordered or left waiting between them."""

import asyncio
import threading
import time

import pytest

from etagere.kv.contract import Partition
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.turns import Gate, Turns, stand_still_seconds_max
from etagere.kv.tuples import pack

part = Partition(pack("turns"))


@pytest.fixture
async def engine(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path / "store", clock=clock, alone=True)
    yield engine
    await engine.close()


def putting(key: bytes, value: bytes = b"v"):
    async def body(tx):
        tx.put(part, key, value)
        return key

    return body


async def stored(engine) -> list[bytes]:
    async def body(tx):
        return [key for key, _ in await tx.scan(part, b"", b"\xff", limit=10_000)]

    return await engine.read(body)


async def test_what_comes_in_one_turn_of_the_loop_is_one_commit(engine):
    await engine.write((part,), putting(b"first"))
    before = engine.stats().commits.commits
    await asyncio.gather(*(engine.write((part,), putting(b"%03d" % n)) for n in range(100)))
    assert engine.stats().commits.commits == before + 1
    assert len(await stored(engine)) == 101


async def test_bodies_run_in_the_order_in_which_they_were_asked_for(engine):
    seen: list[int] = []

    def noting(number: int):
        async def body(tx):
            seen.append(number)
            tx.put(part, b"n", b"%d" % number)

        return body

    async def ask(numbers: range) -> None:
        await asyncio.gather(*(engine.write((part,), noting(n)) for n in numbers))

    first = asyncio.create_task(ask(range(50)))
    await asyncio.sleep(0)
    await asyncio.gather(first, ask(range(50, 100)))
    assert seen == list(range(100))


async def test_a_slow_body_stops_the_loop_for_no_longer_than_the_bound(engine):
    """It goes on while the body still runs: the body ends only once the loop says so."""
    may_end = threading.Event()

    async def slow(tx):
        assert may_end.wait(20)
        tx.put(part, b"slow", b"v")

    writing = asyncio.create_task(engine.write((part,), slow))
    await asyncio.sleep(stand_still_seconds_max * 3)
    assert not writing.done()
    assert await stored(engine) == []
    may_end.set()
    await writing
    assert await stored(engine) == [b"slow"]


async def test_writes_that_were_given_up_leave_nobody_waiting(engine):
    """A task that is cancelled before its body ran is handed over all the same, and comes back."""
    for _ in range(20):
        tasks = [asyncio.create_task(engine.write((part,), putting(b"gone"))) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(20):
        assert await engine.write((part,), putting(b"kept")) == b"kept"
        await asyncio.gather(*(engine.write((part,), putting(b"%d" % n)) for n in range(5)))


async def test_bodies_that_raise_come_back_too(engine):
    async def broken(tx):
        raise KeyError("mine")

    for _ in range(5):
        with pytest.raises(KeyError):
            await engine.write((part,), broken)
    async with asyncio.timeout(20):
        await engine.write((part,), putting(b"after"))


async def test_closing_does_what_was_gathered(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path / "store", clock=clock, alone=True)
    writing = [asyncio.create_task(engine.write((part,), putting(b"%d" % n))) for n in range(4)]
    await asyncio.sleep(0)  # asked for, not handed over
    await engine.close()
    assert await asyncio.gather(*writing) == [b"0", b"1", b"2", b"3"]
    again = LmdbEngine.open(tmp_path / "store", clock=clock)
    assert len(await stored(again)) == 4
    await again.close()


async def test_a_partition_s_version_rises_with_what_is_written_to_it(engine):
    other = Partition(pack("other"))

    async def broken(tx):
        tx.put(part, b"broken", b"v")
        raise KeyError("mine")

    before = engine.version(part), engine.version(other)
    assert (engine.version(part), engine.version(other)) == before
    await engine.write((part,), putting(b"k"))
    assert engine.version(part) > before[0]
    assert engine.version(other) == before[1]
    with pytest.raises(KeyError):
        await engine.write((part,), broken)
    await engine.reset()
    assert engine.version(other) > before[1]


async def test_what_was_read_under_a_version_holds_while_others_write(engine):
    """Once a write was acknowledged, nobody takes what was there before it for what is there."""
    known: tuple[int | None, int] = None, 0

    async def count(tx):
        return len(await tx.scan(part, b"", b"\xff", limit=10_000))

    async def counted() -> int:
        nonlocal known
        version = engine.version(part)
        if known[0] != version:
            known = version, await engine.read(count)
        return known[1]

    async def write() -> None:
        for number in range(200):
            await engine.write((part,), putting(b"%d" % number))
            assert await counted() == number + 1

    writing = asyncio.create_task(write())
    while not writing.done():
        await counted()
        await asyncio.sleep(0)
    await writing


async def test_where_others_write_too_no_version_is_known(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path / "shared", clock=clock)
    assert engine.version(part) is None
    await engine.close()


def test_an_opening_that_came_too_late_is_forgotten():
    gate = Gate()
    gate.wait()  # in vain
    gate.open()
    gate.open()
    gate.close()
    began = time.monotonic()
    gate.wait()
    assert time.monotonic() - began >= stand_still_seconds_max / 2


async def test_nothing_is_handed_over_while_something_is_at_the_writer():
    taken: list[list[int]] = []
    gate = Gate()

    def take(entries):
        taken.append(list(entries))
        gate.open()

    turns: Turns[int] = Turns(take, gate)
    loop = asyncio.get_running_loop()
    turns.submit(1, loop)
    turns.submit(2, loop)
    await asyncio.sleep(0)
    turns.submit(3, loop)
    await asyncio.sleep(0)
    assert taken == [[1, 2]]
    assert len(turns) == 1
    turns.settled(1)
    assert taken == [[1, 2]]
    turns.settled(1)
    assert taken == [[1, 2], [3]]
