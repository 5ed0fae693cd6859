"""References: counted where the holder is, seen across partitions, let go of after a grace."""

import pytest

from etagere.base.clock import Timestamp, seconds
from etagere.extents import keys, references
from etagere.extents.contract import ExtentGone, ExtentMissing, new_extent_id
from etagere.extents.memory import MemoryExtents
from etagere.kv.contract import OutsidePartition
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.tuples import pack

from .conftest import everything, get, put
from .holders import copy, delete, findings, look, parts, save

here, there, elsewhere = parts

engines = {
    "memory-strict": lambda path, clock: MemoryEngine(clock),
    "lmdb": lambda path, clock: LmdbEngine.open(path, clock=clock),
}


@pytest.fixture(params=engines)
async def engine(request, tmp_path, clock):
    engine = engines[request.param](tmp_path / "store", clock)
    yield engine
    await engine.close()


@pytest.fixture
async def store(engine, clock):
    """Every test ends with a check of everything."""
    store = MemoryExtents(clock)
    yield store
    assert [found for found in await findings(engine, store) if not found.is_harmless] == []


async def reap_all(engine, store, clock):
    for part in parts:
        while await references.reap(engine, store, part, clock.now()):
            pass


async def test_what_is_referred_to_stays(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    clock.advance(10**6)
    await reap_all(engine, store, clock)
    assert await references.scrub(engine, store, clock.now()) == 0
    assert await get(store, extent) == b"bytes"


async def test_the_last_reference_gone_it_goes_after_the_grace(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await delete(engine, here, "a")
    due = await engine.read(lambda tx: references.next_due(tx, here))
    assert due == clock.now() + references.grace_default
    clock.at = due - 1
    assert not await references.reap(engine, store, here, clock.now())
    assert await get(store, extent) == b"bytes"
    clock.at = due
    assert await references.reap(engine, store, here, clock.now())
    assert not await references.reap(engine, store, here, clock.now())
    with pytest.raises(ExtentMissing):
        await get(store, extent)
    assert await engine.read(lambda tx: references.next_due(tx, here)) is None


async def test_another_grace(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))

    # The miniature's record goes with it, so that the books are right.
    async def drop_and_forget(tx):
        await references.drop(tx, here, [extent.id], grace=seconds(5))
        tx.delete(here, pack("record", "a"))

    await engine.write((here,), drop_and_forget)
    assert await engine.read(lambda tx: references.next_due(tx, here)) == clock.now() + seconds(5)


async def test_each_mention_counts(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "twice", (extent, extent))
    await copy(engine, here, "once", (extent,))
    await delete(engine, here, "twice")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await get(store, extent) == b"bytes"
    await delete(engine, here, "once")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await everything(store) == {}


async def test_overwriting_with_the_same_bytes(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    for _ in range(3):
        await copy(engine, here, "a", (extent,))
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await get(store, extent) == b"bytes"


async def test_dropped_and_held_again_within_the_grace(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await delete(engine, here, "a")
    clock.advance(30)
    await copy(engine, here, "b", (extent,))
    assert await engine.read(lambda tx: references.next_due(tx, here)) is None
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await get(store, extent) == b"bytes"
    await delete(engine, here, "b")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await everything(store) == {}


async def test_a_copy_elsewhere_keeps_the_bytes(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await copy(engine, there, "b", await look(engine, here, "a"))
    await delete(engine, here, "a")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await get(store, extent) == b"bytes"
    await copy(engine, elsewhere, "c", await look(engine, there, "b"))
    await delete(engine, there, "b")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await get(store, extent) == b"bytes"
    await delete(engine, elsewhere, "c")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await everything(store) == {}


async def test_a_copy_within_the_grace_elsewhere(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    read = await look(engine, here, "a")
    await delete(engine, here, "a")
    clock.advance(59)
    await copy(engine, there, "b", read)
    clock.advance(3600)
    await reap_all(engine, store, clock)
    assert await get(store, extent) == b"bytes"


async def test_a_copy_that_comes_too_late_is_refused(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    read = await look(engine, here, "a")
    await delete(engine, here, "a")
    clock.advance(3600)
    await reap_all(engine, store, clock)
    with pytest.raises(ExtentGone) as caught:
        await copy(engine, there, "b", read)
    assert caught.value.id == extent.id
    with pytest.raises(ExtentGone):
        await save(engine, there, "b", read)
    # Also when nothing tells any more that there ever was such an extent.
    clock.advance(48 * 3600)
    await references.scrub(engine, store, clock.now())
    with pytest.raises(ExtentGone):
        await copy(engine, there, "b", read)
    assert await look(engine, there, "b") == ()


async def test_a_first_reference_names_the_shard(clock, store, entropy):
    engine = MemoryEngine(clock)
    extent = await put(store, entropy, b"bytes")

    async def body(tx):
        await references.hold(tx, here, [extent.id])

    with pytest.raises(OutsidePartition):
        await engine.write((here,), body)
    await engine.write((here, references.shard_of(extent.id)), body)
    await engine.write((here,), body)  # and later ones need not

    async def drop(tx):
        await references.drop(tx, here, [extent.id, extent.id])

    await engine.write((here,), drop)


async def test_dropping_what_is_not_held_is_a_bug(clock, entropy):
    engine = MemoryEngine(clock)
    extent_id = new_extent_id(entropy)

    async def hold_one_drop_two(tx):
        await references.hold(tx, here, [extent_id])
        await references.drop(tx, here, [extent_id, extent_id])

    with pytest.raises(AssertionError):
        await engine.write((here, references.shard_of(extent_id)), hold_one_drop_two)
    with pytest.raises(AssertionError):
        await engine.write((here,), lambda tx: references.drop(tx, here, [extent_id]))


async def test_dropping_tells_who_watches(engine, store, clock, entropy):
    extent = await put(store, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    async with engine.watch(references.due_topic(here)) as signal:
        await delete(engine, here, "a")
        await signal.wait()


async def test_a_million_would_go_in_steps_too(engine, store, clock, entropy):
    count = 3 * references.reap_batch + 1
    extents = tuple([await put(store, entropy, b"%d" % number) for number in range(count)])
    await save(engine, here, "many", extents)
    await delete(engine, here, "many")
    clock.advance(3600)
    left = [len(await everything(store))]
    while await references.reap(engine, store, here, clock.now()):
        left.append(len(await everything(store)))
    assert left == [count, count - 64, count - 128, count - 192, 0]


async def test_scrub_removes_only_old_orphans(engine, store, clock, entropy):
    held = await put(store, entropy, b"held")
    await save(engine, here, "a", (held,))
    orphan = await put(store, entropy, b"orphan")
    clock.advance(24 * 3600 - 1)
    young = await put(store, entropy, b"young")
    assert await references.scrub(engine, store, clock.now()) == 0
    clock.advance(1)
    assert await references.scrub(engine, store, clock.now()) == 1
    assert set(await everything(store)) == {held.id, young.id}
    # Whoever wanted to refer to the orphan after all is told.
    with pytest.raises(ExtentGone):
        await save(engine, here, "b", (orphan,))
    await save(engine, here, "b", (young,))
    clock.advance(7 * 24 * 3600)
    assert await references.scrub(engine, store, clock.now()) == 0
    assert await get(store, young) == b"young"


async def test_scrub_goes_through_more_than_a_batch(engine, store, clock, entropy):
    for number in range(references.scrub_batch + 10):
        await put(store, entropy, b"%d" % number)
    clock.advance(48 * 3600)
    assert await references.scrub(engine, store, clock.now()) == references.scrub_batch + 10
    assert await everything(store) == {}


async def test_given_up_rows_are_forgotten(engine, store, clock, entropy):
    for number in range(10):
        await put(store, entropy, b"%d" % number)

    async def rows():
        async def body(tx):
            found = []
            for shard in keys.all_shards():
                found += await tx.scan(shard, *keys.all_given_up(), limit=1000)
            return found

        return await engine.read(body)

    clock.advance(24 * 3600)
    await references.scrub(engine, store, clock.now())
    assert len(await rows()) == 10
    clock.advance(24 * 3600 - 1)
    await references.scrub(engine, store, clock.now())
    assert len(await rows()) == 10
    clock.advance(1)
    await references.scrub(engine, store, clock.now())
    assert await rows() == []


async def test_reaping_forgets_what_was_given_up_long_ago(engine, store, clock, entropy):
    async def rows():
        async def body(tx):
            found = []
            for shard in keys.all_shards():
                found += await tx.scan(shard, *keys.all_given_up(), limit=10_000)
            return found

        return len(await engine.read(body))

    rounds, a_round = 30, 40
    for number in range(rounds):
        extents = [await put(store, entropy, b"%d" % n) for n in range(a_round)]
        await save(engine, here, "a", tuple(extents))
        clock.advance(3600)
        await delete(engine, here, "a")
        clock.advance(3600)
        await reap_all(engine, store, clock)
        assert a_round <= await rows() <= (number + 1) * a_round
    assert await rows() < rounds * a_round / 3


async def test_giving_up_a_refused_upload(engine, store, clock, entropy):
    refused = await put(store, entropy, b"refused")
    committed = await put(store, entropy, b"committed after all")
    await save(engine, here, "a", (committed,))
    await references.give_up(engine, store, [refused.id, committed.id])
    assert set(await everything(store)) == {committed.id}
    with pytest.raises(ExtentGone):
        await save(engine, here, "b", (refused,))


def test_keys_are_told_apart(entropy):
    extent_id = new_extent_id(entropy)
    moment = Timestamp(17_000_000_000_000_000)
    assert keys.held_extent(keys.held(extent_id)) == extent_id
    assert keys.due_extent(keys.due(moment, extent_id)) == (moment, extent_id)
    assert keys.edge_ends(keys.edge(extent_id, here)) == (extent_id, here)
    assert keys.given_up_extent(keys.given_up(extent_id)) == extent_id
    begin, end = keys.due_until(moment)
    assert begin < keys.due(Timestamp(1), extent_id) < keys.due(moment, extent_id) < end
    assert not begin <= keys.due(Timestamp(moment + 1), extent_id) < end
    assert not begin <= keys.held(extent_id) < end


def test_extents_spread_over_shards(entropy):
    found = {references.shard_of(new_extent_id(entropy)) for _ in range(2000)}
    assert found == set(keys.all_shards())
