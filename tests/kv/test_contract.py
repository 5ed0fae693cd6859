"""What `kv.contract` promises, asked of every engine."""

import asyncio
import contextlib

import pytest

from etagere.base.errors import Refused
from etagere.kv.contract import (
    EngineLimits,
    ForeignAwait,
    LimitExceeded,
    OutsidePartition,
    Partition,
    StoreClosed,
)
from etagere.kv.tuples import pack

one = Partition(pack("one"))
two = Partition(pack("one", "two"))
"""Named by a tuple that starts with the other's."""

everything = (b"", b"\xff" * 20)


async def put(engine, part, rows):
    async def body(tx):
        for key, value in rows.items():
            tx.put(part, key, value)

    await engine.write((part,), body)


async def rows_of(engine, part, **more):
    async def body(tx):
        return await tx.scan(part, *everything, limit=10_000, **more)

    return await engine.read(body)


async def test_a_write_is_there_for_the_next_read(engine):
    await put(engine, one, {b"a": b"1", b"": b"empty key", b"e": b""})

    async def body(tx):
        return [await tx.get(one, key) for key in (b"a", b"", b"e", b"none")]

    assert await engine.read(body) == [b"1", b"empty key", b"", None]


async def test_partitions_are_apart(engine):
    await put(engine, one, {b"a": b"1", pack("two", "a"): b"2", b"\xff" * 9: b"3"})
    await put(engine, two, {b"a": b"4", pack("a"): b"5"})
    assert await rows_of(engine, one) == [
        (pack("two", "a"), b"2"),
        (b"a", b"1"),
        (b"\xff" * 9, b"3"),
    ]
    assert await rows_of(engine, two) == [(pack("a"), b"5"), (b"a", b"4")]


async def test_delete_and_overwrite(engine):
    await put(engine, one, {b"a": b"1", b"b": b"2"})

    async def body(tx):
        tx.delete(one, b"a")
        tx.delete(one, b"never there")
        tx.put(one, b"b", b"3")

    await engine.write((one,), body)
    assert await rows_of(engine, one) == [(b"b", b"3")]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 100])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_scan_bounds_and_limits(engine, limit, reverse, own):
    rows = {b"%d" % n: b"v" for n in range(1, 6)}
    expected = [(b"%d" % n, b"v") for n in range(2, 5)]  # 5 is the end, and not in
    if reverse:
        expected.reverse()

    async def body(tx):
        if own:
            for key, value in rows.items():
                tx.put(one, key, value)
        return (
            await tx.scan(one, b"2", b"5", limit=limit, reverse=reverse),
            await tx.scan(one, b"5", b"2", limit=limit, reverse=reverse),
            await tx.scan(one, b"3", b"3", limit=limit, reverse=reverse),
        )

    if own:
        found = await engine.write((one,), body)
    else:
        await put(engine, one, rows)
        found = await engine.read(body)
    assert found == (expected[:limit], [], [])


@pytest.mark.parametrize("reverse", [False, True])
async def test_scans_see_own_writes(engine, reverse):
    await put(engine, one, {b"%03d" % n: b"old" for n in range(0, 100, 2)})

    async def body(tx):
        for n in range(0, 40, 2):
            tx.delete(one, b"%03d" % n)
        tx.put(one, b"001", b"new")
        tx.put(one, b"040", b"new")
        tx.put(one, b"099", b"new")
        tx.delete(one, b"098")
        tx.put(one, b"098", b"again")
        return [
            await tx.scan(one, *everything, limit=limit, reverse=reverse) for limit in (1, 3, 1000)
        ]

    expected = [(b"001", b"new"), (b"040", b"new")]
    expected += [(b"%03d" % n, b"old") for n in range(42, 98, 2)]
    expected += [(b"098", b"again"), (b"099", b"new")]
    if reverse:
        expected.reverse()
    found = await engine.write((one,), body)
    assert found == [expected[:1], expected[:3], expected]


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_scan_is_full_if_enough_rows_exist_after_own_deletes(engine, reverse):
    await put(engine, one, {b"%03d" % n: b"" for n in range(200)})

    async def body(tx):
        for n in range(200):
            if n % 10:
                tx.delete(one, b"%03d" % n)
        return await tx.scan(one, *everything, limit=15, reverse=reverse)

    keys = [key for key, _ in await engine.write((one,), body)]
    kept = [b"%03d" % n for n in range(0, 200, 10)]
    assert keys == (kept[::-1] if reverse else kept)[:15]


async def test_a_body_reads_what_it_wrote(engine):
    await put(engine, one, {b"a": b"old", b"b": b"old"})

    async def body(tx):
        tx.put(one, b"a", b"new")
        tx.delete(one, b"b")
        tx.put(one, b"c", b"new")
        seen = [await tx.get(one, key) for key in (b"a", b"b", b"c")]
        tx.put(one, b"b", b"back")
        return [*seen, await tx.get(one, b"b")]

    assert await engine.write((one,), body) == [b"new", None, b"new", b"back"]


async def test_a_body_that_raises_leaves_no_trace(engine):
    await put(engine, one, {b"a": b"1"})

    async def body(tx):
        tx.put(one, b"a", b"2")
        tx.put(one, b"b", b"2")
        raise Refused("LeaseIdMissing")

    with pytest.raises(Refused, match="LeaseIdMissing"):
        await engine.write((one,), body)
    assert await rows_of(engine, one) == [(b"a", b"1")]


async def test_neighbours_in_the_same_commit_are_not_disturbed(engine):
    async def good(n):
        async def body(tx):
            count = int(await tx.get(one, b"count") or 0)
            tx.put(one, b"count", b"%d" % (count + 1))
            tx.put(one, b"good%03d" % n, b"")

        await engine.write((one,), body)

    async def bad(n):
        async def body(tx):
            tx.put(one, b"count", b"1000")
            tx.put(one, b"bad%03d" % n, b"")
            if n % 2:
                raise Refused("LeaseIdMissing")
            await asyncio.sleep(0)

        with pytest.raises((Refused, ForeignAwait)):
            await engine.write((one,), body)

    await asyncio.gather(*(go(n) for n in range(50) for go in (good, bad)))
    rows = dict(await rows_of(engine, one))
    assert rows == {b"count": b"50"} | {b"good%03d" % n: b"" for n in range(50)}


async def test_no_update_is_lost(engine):
    async def body(tx):
        count = int(await tx.get(one, b"count") or 0) + 1
        tx.put(one, b"count", b"%d" % count)
        return count

    async def client():
        return [await engine.write((one,), body) for _ in range(25)]

    counts = await asyncio.gather(*(client() for _ in range(40)))
    assert sorted(n for mine in counts for n in mine) == list(range(1, 1001))
    for mine in counts:
        assert mine == sorted(mine)


async def test_no_write_skew(engine):
    """Each of two may leave if the other stays: both see both, so one stays."""
    for attempt in range(20):
        await put(engine, one, {b"a": b"in", b"b": b"in"})

        def leave(me, other):
            async def body(tx):
                if await tx.get(one, other) == b"in":
                    tx.put(one, me, b"out")

            return engine.write((one,), body)

        await asyncio.gather(*([leave(b"a", b"b"), leave(b"b", b"a")][:: 1 if attempt % 2 else -1]))
        assert sorted(value for _, value in await rows_of(engine, one)) == [b"in", b"out"]


async def test_no_phantoms(engine):
    """Whoever finds the room full leaves; a hundred come at once."""
    room = 7

    def enter(n):
        async def body(tx):
            inside = await tx.scan(one, *everything, limit=1000)
            if len(inside) < room:
                tx.put(one, b"%03d" % n, b"")
            return len(inside) < room

        return engine.write((one,), body)

    entered = await asyncio.gather(*(enter(n) for n in range(100)))
    assert sum(entered) == room
    assert len(await rows_of(engine, one)) == room


async def test_a_read_sees_one_snapshot_of_every_partition(engine):
    """Money moves between two partitions while somebody counts it."""
    await put(engine, one, {b"money": b"100"})
    await put(engine, two, {b"money": b"0"})
    done = False

    async def move(tx):
        there = int(await tx.get(one, b"money") or 0)
        here = int(await tx.get(two, b"money") or 0)
        tx.put(one, b"money", b"%d" % (there - 1))
        tx.put(two, b"money", b"%d" % (here + 1))

    async def count(tx):
        amounts = [await tx.get(part, b"money") for part in (one, two)]
        rows = await tx.scan(one, *everything, limit=10) + await tx.scan(two, *everything, limit=10)
        assert amounts == [value for _, value in rows]
        return sum(map(int, amounts))

    async def mover():
        nonlocal done
        await asyncio.gather(*(engine.write((one, two), move) for _ in range(100)))
        done = True

    async def counter():
        counts = set()
        while not done:
            counts.add(await engine.read(count))
            await asyncio.sleep(0)
        return counts

    _, counts = await asyncio.gather(mover(), counter())
    assert counts == {100}
    assert await rows_of(engine, one) == [(b"money", b"0")]


async def test_a_body_may_be_run_again(engine):
    """Nothing of a body's earlier runs is left in it: bodies share what they were made from."""
    log = []

    async def body(tx):
        log.append(await tx.get(one, b"n"))
        tx.put(one, b"n", b"1")
        return await tx.get(one, b"n")

    assert await engine.write((one,), body) == b"1"
    assert set(log) == {None}


async def test_now_is_one_reading(engine, clock):
    async def body(tx):
        before = tx.now
        clock.at += 0 if moved else 10
        moved.append(1)
        return before == tx.now

    moved: list[int] = []
    assert await engine.read(body)

    async def now(tx):
        return tx.now

    assert await engine.read(now) == clock.at
    assert await engine.write((one,), now) == clock.at


async def test_stamps_rise(engine, clock):
    async def body(tx):
        return [tx.stamp(), tx.stamp()]

    stamps = await engine.write((one,), body)
    assert stamps[0] >= clock.at
    clock.at -= 1_000_000
    stamps += await engine.write((two,), body)
    stamps += [n for pair in await asyncio.gather(*[engine.write((one,), body)] * 1) for n in pair]
    clock.at += 5_000_000
    later = await engine.write((one,), body)
    assert later[0] >= clock.at
    stamps += later
    assert stamps == sorted(set(stamps))


async def test_stamps_of_many_writers_differ(engine):
    async def body(tx):
        tx.put(one, b"k", b"v")
        return tx.stamp()

    stamps = await asyncio.gather(*(engine.write((one,), body) for _ in range(300)))
    assert len(set(stamps)) == 300


async def test_a_partition_not_named_is_refused(engine):
    async def get(tx):
        await tx.get(two, b"a")

    async def scan(tx):
        await tx.scan(two, *everything, limit=1)

    async def write(tx):
        tx.put(two, b"a", b"")

    async def delete(tx):
        tx.delete(two, b"a")

    async def swallow(tx):
        tx.put(one, b"a", b"")
        with contextlib.suppress(OutsidePartition):
            tx.put(two, b"a", b"")

    for body in (get, scan, write, delete, swallow):
        with pytest.raises(OutsidePartition):
            await engine.write((one,), body)
    assert await rows_of(engine, one) == []
    assert await rows_of(engine, two) == []


async def test_awaiting_something_else_is_refused(engine):
    async def sleeps(tx):
        await asyncio.sleep(0)

    async def holds_on(tx):
        try:
            await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)

    for body in (sleeps, holds_on):
        with pytest.raises(ForeignAwait):
            await engine.read(body)
        with pytest.raises(ForeignAwait):
            await engine.write((one,), body)


@pytest.fixture
async def small_engine(open_engine):
    engine = open_engine(limits=EngineLimits(key_bytes=10, value_bytes=20, transaction_bytes=100))
    yield engine
    await engine.close()


async def test_limits(small_engine):
    engine = small_engine
    assert engine.limits.key_bytes == 10
    fits = {b"k" * 10: b"v" * 20, b"a": b"v" * 20}
    await put(engine, one, fits)
    for rows in (
        {b"k" * 11: b""},
        {b"k": b"v" * 21},
        {b"%d" % n: b"v" * 20 for n in range(5)},
        {b"%0.10d" % n: b"" for n in range(11)},
    ):
        with pytest.raises(LimitExceeded):
            await put(engine, one, {b"before": b""} | rows)

    async def deletes(tx):
        tx.delete(one, b"k" * 11)

    async def swallows(tx):
        tx.put(one, b"before", b"")
        with contextlib.suppress(LimitExceeded):
            tx.put(one, b"k" * 11, b"")

    for body in (deletes, swallows):
        with pytest.raises(LimitExceeded):
            await engine.write((one,), body)
    assert dict(await rows_of(engine, one)) == fits


async def test_many_rows_at_once_are_as_good_as_one_by_one(engine):
    long_key = b"x" * 2000
    first = {b"%d" % n: b"v%d" % n for n in range(100)} | {long_key: b"far"}

    async def puts(tx):
        tx.put(one, b"5", b"before")
        tx.put_all(one, first)
        tx.put_all(one, {})
        tx.delete(one, b"7")
        return [await tx.get(one, key) for key in (b"5", b"7", long_key)]

    assert await engine.write((one,), puts) == [b"v5", None, b"far"]
    expected = {key: value for key, value in first.items() if key != b"7"}
    assert dict(await rows_of(engine, one)) == expected

    async def deletes(tx):
        tx.delete_all(one, [b"%d" % n for n in range(50)] + [long_key, b"never there"])
        tx.delete_all(one, [])
        tx.put(one, b"3", b"again")
        return await tx.scan(one, b"", b"\xff", limit=3)

    found = await engine.write((one,), deletes)
    assert found == [(b"3", b"again"), (b"50", b"v50"), (b"51", b"v51")]
    assert len(await rows_of(engine, one)) == 51


async def test_limits_hold_for_many_rows_at_once(small_engine):
    engine = small_engine
    fits = {b"k" * 10: b"v" * 20, b"a": b"v" * 20}

    async def put_many(rows):
        async def body(tx):
            tx.put(one, b"before", b"")
            with contextlib.suppress(LimitExceeded):
                tx.put_all(one, rows)

        await engine.write((one,), body)

    await put_many(fits)
    for rows in (
        {b"k" * 11: b"", b"a": b""},
        {b"k": b"v" * 21, b"a": b""},
        {b"%d" % n: b"v" * 20 for n in range(5)},
        {b"%0.10d" % n: b"" for n in range(11)},
    ):
        with pytest.raises(LimitExceeded):
            await put_many(rows)

    async def delete_long(tx):
        tx.delete_all(one, [b"a", b"k" * 11])

    with pytest.raises(LimitExceeded):
        await engine.write((one,), delete_long)
    assert dict(await rows_of(engine, one)) == {b"before": b"", **fits}

    async def outside(tx):
        tx.put_all(two, fits)

    with pytest.raises(OutsidePartition):
        await engine.write((one,), outside)


async def test_the_greatest_key_and_value(engine):
    limits = engine.limits
    rows = {
        b"k" * n: bytes([n % 256]) * size
        for n, size in ((1, limits.value_bytes), (511, 0), (limits.key_bytes, 1), (512, 5000))
    }
    await put(engine, one, rows)
    assert await rows_of(engine, one) == sorted(rows.items())
    assert await rows_of(engine, one, reverse=True) == sorted(rows.items(), reverse=True)


async def test_a_watcher_is_woken_after_the_commit(engine):
    async def body(tx):
        tx.put(one, b"a", b"1")
        tx.notify(b"topic")

    async with engine.watch(b"topic") as signal, engine.watch(b"other") as other:
        woken = asyncio.create_task(signal.wait())
        not_woken = asyncio.create_task(other.wait())
        await asyncio.sleep(0)
        assert not woken.done()
        await engine.write((one,), body)
        await asyncio.wait_for(woken, 5)
        assert await rows_of(engine, one) == [(b"a", b"1")]
        await asyncio.sleep(0)
        assert not not_woken.done()
        not_woken.cancel()
        # Notified once: the next wait waits for the next one.
        again = asyncio.create_task(signal.wait())
        await asyncio.sleep(0.01)
        assert not again.done()
        await engine.write((one,), body)
        await asyncio.wait_for(again, 5)


async def test_a_notification_between_waits_is_kept(engine):
    async def body(tx):
        tx.notify(b"topic")

    async with engine.watch(b"topic") as signal:
        await engine.write((one,), body)
        await engine.write((one,), body)
        await asyncio.wait_for(signal.wait(), 5)


async def test_a_failed_body_notifies_nobody(engine):
    async def fails(tx):
        tx.notify(b"topic")
        raise Refused("LeaseIdMissing")

    async def succeeds(tx):
        tx.notify(b"other")

    async with engine.watch(b"topic") as signal, engine.watch(b"other") as other:
        failing = engine.write((one,), fails)
        results = await asyncio.gather(
            failing, engine.write((one,), succeeds), return_exceptions=True
        )
        assert isinstance(results[0], Refused)
        await asyncio.wait_for(other.wait(), 5)
        waiting = asyncio.create_task(signal.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()


async def test_every_watcher_of_a_topic_is_woken(engine):
    async def body(tx):
        tx.notify(b"topic")

    async with engine.watch(b"topic") as first, engine.watch(b"topic") as second:
        await engine.write((one,), body)
        await asyncio.wait_for(asyncio.gather(first.wait(), second.wait()), 5)
    async with engine.watch(b"topic") as signal:  # those before are gone
        waiting = asyncio.create_task(signal.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()


class ArmedFaults:
    def __init__(self, point):
        self.point = point

    def reach(self, point, subject=""):
        if point == self.point:
            raise ConnectionResetError(point)


@pytest.mark.parametrize(
    ("point", "kept"), [("before_commit", []), ("after_commit_before_reply", [(b"a", b"1")])]
)
async def test_fault_points(open_engine, point, kept):
    engine = open_engine(faults=ArmedFaults(point))
    with pytest.raises(ConnectionResetError):
        await put(engine, one, {b"a": b"1"})
    assert await rows_of(engine, one) == kept
    await engine.close()


async def test_reset_forgets_rows_and_not_stamps(engine):
    async def body(tx):
        tx.put(one, b"k" * 2000, b"v")
        return tx.stamp()

    before = await engine.write((one,), body)
    async with engine.watch(b"any") as signal:
        await engine.reset()
        await asyncio.wait_for(signal.wait(), 5)
    assert await rows_of(engine, one) == []
    assert await engine.write((one,), body) > before
    assert await rows_of(engine, one) == [(b"k" * 2000, b"v")]


async def test_a_closed_engine_says_so(open_engine):
    engine = open_engine()
    async with engine.watch(b"topic") as signal:
        waiting = asyncio.create_task(signal.wait())
        await asyncio.sleep(0)
        await engine.close()
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(waiting, 5)
        with pytest.raises(StoreClosed):
            await signal.wait()
    with pytest.raises(StoreClosed):
        await rows_of(engine, one)
    with pytest.raises(StoreClosed):
        await put(engine, one, {b"a": b"1"})
    await engine.close()


async def test_a_cancelled_write_is_whole_or_nothing(engine):
    async def body(tx):
        tx.put(one, b"a", b"1")
        tx.put(two, b"a", b"1")

    writing = asyncio.create_task(engine.write((one, two), body))
    await asyncio.sleep(0)
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    await put(engine, one, {b"b": b"2"})
    assert (b"a" in dict(await rows_of(engine, one))) == (b"a" in dict(await rows_of(engine, two)))
