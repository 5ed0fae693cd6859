"""The checker: silent about a sound store, and finds each kind of damage when it is done."""

import pytest

from etagere.base.clock import Timestamp
from etagere.extents import keys, references
from etagere.extents.check import Fault, Finding
from etagere.extents.contract import Extent, new_extent_id
from etagere.extents.references import Held
from etagere.kv.contract import Partition
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.tuples import pack

from .conftest import put
from .holders import copy, delete, findings, parts, save

here, there, _ = parts


@pytest.fixture
def engine(clock):
    return MemoryEngine(clock)


@pytest.fixture
def flip(tmp_path):
    """Change one byte of an extent's file."""

    def flipped(extent: Extent, at: int) -> None:
        name = extent.id.hex()
        path = tmp_path / "extents" / name[:2] / name
        raw = bytearray(path.read_bytes())
        raw[at] ^= 1
        path.write_bytes(raw)

    return flipped


async def poke(engine, part: Partition, key: bytes, value: bytes | None) -> None:
    async def body(tx):
        if value is None:
            tx.delete(part, key)
        else:
            tx.put(part, key, value)

    await engine.write((part,), body)


async def faults(engine, store, **how) -> list[tuple[Fault, bytes, Partition | None]]:
    return [(f.fault, f.extent_id, f.part) for f in await findings(engine, store, **how)]


async def test_a_sound_store(engine, local, clock, entropy):
    shared = await put(local, entropy, bytes(200_000))
    many = [await put(local, entropy, b"%d" % n) for n in range(20)]
    empty = await put(local, entropy, b"")
    await save(engine, here, "a", (shared, shared, *many))
    await copy(engine, there, "b", (shared,))
    await save(engine, there, "d", (empty,))
    await copy(engine, here, "c", (many[0],))
    assert await findings(engine, local) == []
    await delete(engine, here, "a")
    assert await findings(engine, local) == []
    clock.advance(3600)
    while await references.reap(engine, local, here, clock.now()):
        assert await findings(engine, local) == []
    assert await findings(engine, local, thorough=False) == []


async def test_an_orphan_is_harmless(engine, local, entropy):
    orphan = await put(local, entropy, b"orphan")
    (found,) = await findings(engine, local)
    assert (found.fault, found.extent_id, found.is_harmless) == (Fault.ORPHAN, orphan.id, True)


async def test_a_half_written_orphan_is_no_damage(engine, local, entropy):
    extent_id = new_extent_id(entropy)
    writer = local.writer(extent_id)
    await writer.write(bytes(2 << 20))
    await writer.flush()
    assert await faults(engine, local) == [(Fault.ORPHAN, extent_id, None)]
    await writer.abort()


@pytest.mark.parametrize("thorough", [True, False])
async def test_a_missing_file(engine, local, entropy, thorough):
    extents = [await put(local, entropy, bytes(size)) for size in (100, 0)]
    await save(engine, here, "a", tuple(extents))
    await copy(engine, there, "b", tuple(extents))
    for extent in extents:
        await local.remove(extent.id)
    # Once, however many partitions share it.
    assert await faults(engine, local, thorough=thorough) == [
        (Fault.MISSING, extent.id, here) for extent in extents
    ]


async def test_damaged_bytes(engine, local, entropy, flip):
    extent = await put(local, entropy, bytes(3 << 20))
    await save(engine, here, "a", (extent,))
    flip(extent, (1 << 20) + 70_000)
    (found,) = await findings(engine, local)
    assert found == Finding(
        Fault.DAMAGED, extent.id, here, f"the data is damaged from byte {(1 << 20) + 65536}"
    )
    assert not found.is_harmless
    # Without looking at the contents this is not seen; a damaged footer is.
    assert await findings(engine, local, thorough=False) == []
    flip(extent, -1)
    assert await faults(engine, local, thorough=False) == [(Fault.DAMAGED, extent.id, here)]


async def test_a_record_with_a_wrong_size(engine, local, entropy):
    extent = await put(local, entropy, bytes(1000))
    await save(engine, here, "a", (extent,))
    await copy(engine, here, "b", (Extent(extent.id, 999),))
    assert await faults(engine, local) == [(Fault.DAMAGED, extent.id, here)]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_wrong_count(engine, local, entropy, count):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent, extent))
    await poke(engine, here, keys.held(extent.id), Held(count, Timestamp(0)).encode())
    (found,) = await findings(engine, local)
    assert (found.fault, found.part) == (Fault.WRONG_COUNT, here)
    assert found.details == f"{count} counted, 2 in records"


async def test_a_record_without_a_hold(engine, local, entropy):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await poke(engine, here, keys.held(extent.id), None)
    assert await faults(engine, local) == [
        (Fault.WRONG_COUNT, extent.id, here),
        (Fault.NO_HOLDER, extent.id, here),
    ]


async def test_a_hold_without_a_record(engine, local, entropy):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await poke(engine, here, pack("record", "a"), None)
    assert await faults(engine, local) == [(Fault.WRONG_COUNT, extent.id, here)]


async def test_a_lost_edge(engine, local, entropy):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await poke(engine, references.shard_of(extent.id), keys.edge(extent.id, here), None)
    found = await faults(engine, local)
    assert (Fault.NO_EDGE, extent.id, here) in found


async def test_an_edge_to_a_partition_that_does_not_hold(engine, local, entropy):
    extent = await put(local, entropy, b"bytes")
    await poke(engine, references.shard_of(extent.id), keys.edge(extent.id, there), b"")
    assert await faults(engine, local) == [(Fault.NO_HOLDER, extent.id, there)]


async def test_a_holder_that_no_service_knows(engine, local, entropy):
    extent = await put(local, entropy, b"bytes")
    stranger = Partition(pack("stranger"))
    await save(engine, stranger, "a", (extent,))
    assert await faults(engine, local) == [(Fault.UNKNOWN_HOLDER, extent.id, stranger)]


async def test_a_lost_due_row(engine, local, clock, entropy):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await delete(engine, here, "a")
    due = Timestamp(clock.now() + references.grace_default)
    await poke(engine, here, keys.due(due, extent.id), None)
    assert await faults(engine, local) == [(Fault.NOT_DUE, extent.id, here)]


async def test_a_due_row_for_what_is_held(engine, local, clock, entropy):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await poke(engine, here, keys.due(clock.now(), extent.id), b"")
    assert await faults(engine, local) == [(Fault.STRAY_DUE, extent.id, here)]
    # It does no harm: reaping finds that it is held.
    assert await references.reap(engine, local, here, clock.now())
    assert await faults(engine, local) == []


async def test_held_and_given_up(engine, local, entropy):
    extent = await put(local, entropy, b"bytes")
    await save(engine, here, "a", (extent,))
    await poke(engine, references.shard_of(extent.id), keys.given_up(extent.id), bytes(8))
    assert await faults(engine, local) == [(Fault.GIVEN_UP, extent.id, None)]
