"""What every extent store promises (`extents.contract`), asked of each."""

import asyncio
from contextlib import aclosing
from random import Random

import pytest
from awscrt.checksums import crc64nvme
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.extents.contract import (
    Extent,
    ExtentDamaged,
    ExtentId,
    ExtentMissing,
    Usage,
    new_extent_id,
    piece_bytes_max,
)
from etagere.extents.local import LocalExtents
from etagere.extents.memory import MemoryExtents
from etagere.extents.trailer import chunk_bytes, file_bytes
from etagere.kv.contract import StoreFailed, StoreFull

from .conftest import HandClock, SeededEntropy, everything, get, put

sizes = (
    0,
    1,
    100,
    chunk_bytes - 1,
    chunk_bytes,
    chunk_bytes + 1,
    piece_bytes_max - 1,
    piece_bytes_max,
    piece_bytes_max + 1,
    2 * piece_bytes_max + chunk_bytes + 5,
    3 * piece_bytes_max,
)


@pytest.mark.parametrize("size", sizes)
async def test_what_was_written_is_read(any_store, entropy, size):
    data = Random(size).randbytes(size)
    extent = await put(any_store, entropy, data)
    assert extent.size == size
    assert await get(any_store, extent) == data
    await any_store.verify(extent)


@pytest.mark.parametrize("chunk", [1, 7, 4096, chunk_bytes, 1 << 20, 3 << 20])
async def test_chunks_may_be_of_any_size(any_store, entropy, chunk):
    data = Random(chunk).randbytes(200 * chunk if chunk < 4096 else 5 << 20)
    extent = await put(any_store, entropy, data, chunk=chunk)
    assert await get(any_store, extent) == data


async def test_empty_chunks_add_nothing(any_store, entropy):
    writer = any_store.writer(new_extent_id(entropy))
    for chunk in (b"", b"ab", b"", b"c", b""):
        await writer.write(chunk)
    assert await get(any_store, await writer.seal()) == b"abc"


async def test_every_range_around_the_seams(any_store, entropy):
    size = piece_bytes_max + 2 * chunk_bytes + 3
    data = Random(1).randbytes(size)
    extent = await put(any_store, entropy, data)
    seams = (0, chunk_bytes, 2 * chunk_bytes, piece_bytes_max, size)
    edges = sorted({max(0, seam + by) for seam in seams for by in (-1, 0, 1)})
    for begin in edges:
        for end in edges:
            if begin <= end:
                found = await get(any_store, extent, begin, end - begin)
                assert found == data[begin:end], (begin, end)


async def test_ranges_past_the_end_stop_there(any_store, entropy):
    extent = await put(any_store, entropy, b"abcdef")
    assert await get(any_store, extent, 4, 100) == b"ef"
    assert await get(any_store, extent, 6) == b""
    assert await get(any_store, extent, 100, 1) == b""
    assert await get(any_store, extent, 2, 0) == b""
    assert await get(any_store, extent, 3) == b"def"


@settings(max_examples=60, deadline=None)
@given(
    chunks=st.lists(st.integers(0, 300_000), max_size=12),
    ranges=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=4),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["local", "memory"]),
)
def test_any_chunks_and_ranges(tmp_path_factory, chunks, ranges, seed, kind):
    async def run():
        store = (
            MemoryExtents(HandClock())
            if kind == "memory"
            else LocalExtents(tmp_path_factory.getbasetemp() / "any-chunks")
        )
        writer = store.writer(new_extent_id(SeededEntropy(seed)))
        chance = Random(seed)
        parts = [chance.randbytes(size) for size in chunks]
        for part in parts:
            await writer.write(part)
        data = b"".join(parts)
        await writer.flush()
        assert writer.crc64 == crc64nvme(data)
        extent = await writer.seal()
        for first, second in ranges:
            begin, end = sorted((int(first * len(data)), int(second * len(data))))
            assert await get(store, extent, begin, end - begin) == data[begin:end]
        assert await get(store, extent) == data
        await store.remove(extent.id)
        await store.close()

    asyncio.run(run())


async def test_pieces_are_bounded(any_store, entropy):
    extent = await put(any_store, entropy, bytes(5 << 20), chunk=5 << 20)
    async for piece in any_store.read(extent):
        assert 0 < len(piece) <= piece_bytes_max


async def test_the_running_checksum_is_the_bodys(any_store, entropy):
    writer = any_store.writer(new_extent_id(entropy))
    await writer.flush()
    assert writer.crc64 == 0
    data = Random(2).randbytes(3_000_001)
    for at in range(0, len(data), 100_000):
        await writer.write(data[at : at + 100_000])
    await writer.flush()
    assert writer.crc64 == crc64nvme(data)
    await writer.write(b"more")
    await writer.flush()
    assert writer.crc64 == crc64nvme(data + b"more")
    extent = await writer.seal()
    assert await get(any_store, extent) == data + b"more"


async def test_reading_what_is_not_there(any_store, entropy):
    extent = Extent(new_extent_id(entropy), 10)
    with pytest.raises(ExtentMissing) as caught:
        await get(any_store, extent)
    assert caught.value.id == extent.id
    with pytest.raises(ExtentMissing):
        await any_store.verify(extent)


async def test_a_wrong_size_is_damage(any_store, entropy):
    extent = await put(any_store, entropy, b"abcdef")
    for size in (5, 7, 1_000_000):
        wrong = Extent(extent.id, size)
        with pytest.raises(ExtentDamaged):
            await get(any_store, wrong)
        with pytest.raises(ExtentDamaged):
            await any_store.verify(wrong)


async def test_an_upload_that_is_not_sealed_cannot_be_read(any_store, entropy):
    extent_id = new_extent_id(entropy)
    writer = any_store.writer(extent_id)
    await writer.write(bytes(2 << 20))
    await writer.flush()
    with pytest.raises(ExtentDamaged):
        await get(any_store, Extent(extent_id, 2 << 20))
    await writer.abort()


async def test_removed_is_missing_and_removing_again_is_harmless(any_store, entropy):
    extent = await put(any_store, entropy, b"abc")
    other = await put(any_store, entropy, b"def")
    await any_store.remove(extent.id)
    await any_store.remove(extent.id)
    with pytest.raises(ExtentMissing):
        await get(any_store, extent)
    assert await get(any_store, other) == b"def"


async def test_a_stream_outlives_the_removal(any_store, entropy):
    data = Random(3).randbytes(4 << 20)
    extent = await put(any_store, entropy, data)
    pieces = any_store.read(extent)
    found = [await anext(pieces)]
    await any_store.remove(extent.id)
    found += [piece async for piece in pieces]
    assert b"".join(found) == data


async def test_streams_do_not_disturb_each_other(any_store, entropy):
    data = {}
    for number in range(4):
        body = Random(number).randbytes((1 << 20) + number * 70_000)
        data[await put(any_store, entropy, body)] = body
    # More streams than the local store lets read ahead.
    wanted = [extent for extent in data for _ in range(6)]
    found = await asyncio.gather(*(get(any_store, extent) for extent in wanted))
    assert [data[extent] for extent in wanted] == found


async def test_writers_do_not_disturb_each_other(any_store, entropy):
    bodies = [Random(number).randbytes(700_000 + number) for number in range(12)]
    extents = await asyncio.gather(*(put(any_store, entropy, body) for body in bodies))
    for extent, body in zip(extents, bodies, strict=True):
        assert await get(any_store, extent) == body


async def test_a_stream_left_early_can_be_closed(any_store, entropy):
    extent = await put(any_store, entropy, bytes(8 << 20))
    for _ in range(20):
        async with aclosing(any_store.read(extent)) as pieces:
            async for _piece in pieces:
                break
    assert len(await get(any_store, extent)) == 8 << 20


async def test_listing_and_usage(any_store, entropy):
    assert await everything(any_store) == {}
    assert await any_store.usage() == Usage(0, 0)
    extents = [await put(any_store, entropy, bytes(size)) for size in (0, 5, 100_000)]
    found = await everything(any_store)
    assert set(found) == {extent.id for extent in extents}
    for extent in extents:
        assert extent.size <= found[extent.id] <= file_bytes(extent.size)
    assert await any_store.usage() == Usage(3, sum(found.values()))
    await any_store.remove(extents[2].id)
    assert set(await everything(any_store)) == {extents[0].id, extents[1].id}


async def test_aborting_leaves_nothing(any_store, entropy):
    for written in (0, 10, 1 << 20, (3 << 20) + 1):
        writer = any_store.writer(new_extent_id(entropy))
        for at in range(0, written, 1 << 18):
            await writer.write(bytes(min(1 << 18, written - at)))
        await writer.abort()
        await writer.abort()
        with pytest.raises(StoreFailed):
            await writer.seal()
    assert await everything(any_store) == {}
    assert await any_store.usage() == Usage(0, 0)


async def test_aborting_after_sealing_is_harmless(any_store, entropy):
    writer = any_store.writer(new_extent_id(entropy))
    await writer.write(b"abc")
    extent = await writer.seal()
    await writer.abort()
    assert await get(any_store, extent) == b"abc"


async def test_a_cancelled_upload_can_be_aborted(any_store, entropy):
    """Whatever the upload was waiting for when it was cancelled."""
    for turns in range(40):
        extent_id = new_extent_id(entropy)
        writer = any_store.writer(extent_id)

        async def upload(writer=writer):
            try:
                for _ in range(4):
                    await writer.write(bytes(1 << 20))
                return await writer.seal()
            except BaseException:
                await writer.abort()
                raise

        task = asyncio.create_task(upload())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(outcome, Extent):
            await any_store.verify(outcome)
            await any_store.remove(extent_id)
        else:
            assert isinstance(outcome, asyncio.CancelledError)
        assert await everything(any_store) == {}


async def test_an_id_is_used_once(any_store, entropy):
    extent = await put(any_store, entropy, b"first")
    writer = any_store.writer(extent.id)
    with pytest.raises(StoreFailed):
        await writer.write(b"second")
        await writer.seal()
    await writer.abort()
    assert await get(any_store, extent) == b"first"


def test_ids_are_as_long_as_they_should_be(entropy):
    one, other = new_extent_id(entropy), new_extent_id(entropy)
    assert len(one) == len(other) == 16
    assert one != other


async def test_memory_has_a_limit(clock, entropy):
    store = MemoryExtents(clock, bytes_max=1000)
    first = await put(store, entropy, bytes(600))
    with pytest.raises(StoreFull):
        await put(store, entropy, bytes(401), chunk=100)
    assert await everything(store) == {first.id: 600}
    with pytest.raises(StoreFull):
        await store.writer(new_extent_id(entropy), size_hint=500).write(b"")
    await store.remove(first.id)


async def test_memory_gives_its_room_back(clock, entropy):
    store = MemoryExtents(clock, bytes_max=1000)
    for _ in range(5):
        writer = store.writer(new_extent_id(entropy))
        with pytest.raises(StoreFull):
            for _ in range(11):
                await writer.write(bytes(100))
        await writer.abort()
        assert await store.usage() == Usage(0, 0)
        extent = await put(store, entropy, bytes(1000), chunk=100)
        await store.remove(extent.id)


def test_an_extent_is_a_value():
    assert Extent(ExtentId(b"a" * 16), 1) == Extent(ExtentId(b"a" * 16), 1)
    assert len({Extent(ExtentId(b"a" * 16), 1), Extent(ExtentId(b"a" * 16), 1)}) == 1
