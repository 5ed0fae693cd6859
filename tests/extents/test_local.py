"""The files: damage of every kind, failures of the disk, and what is left behind."""

import asyncio
import errno
import gc
import os
import threading
from contextlib import aclosing
from pathlib import Path
from random import Random

import pytest
from awscrt.checksums import crc64nvme

from etagere.base.clock import ticks_per_second
from etagere.extents import local_sync, local_writer
from etagere.extents.contract import (
    Extent,
    ExtentDamaged,
    ExtentId,
    ExtentMissing,
    new_extent_id,
    piece_bytes_max,
)
from etagere.extents.local import LocalExtents, streams_ahead_max
from etagere.extents.trailer import chunk_bytes, file_bytes, footer_bytes, sums_bytes
from etagere.kv.contract import StoreFailed, StoreFull

from .conftest import everything, get, put

size = piece_bytes_max + 2 * chunk_bytes + 777


def opened(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def path_of(store: LocalExtents, extent_id: ExtentId):
    return store._places.path(extent_id)


@pytest.fixture
async def extent(local, entropy):
    return await put(local, entropy, Random(5).randbytes(size))


@pytest.fixture
def flip(local, extent):
    path = path_of(local, extent.id)

    def flipped(at: int, bit: int = 1) -> None:
        raw = bytearray(path.read_bytes())
        raw[at] ^= bit
        path.write_bytes(raw)

    return flipped


def places_in_data():
    edges = (0, chunk_bytes, 2 * chunk_bytes, piece_bytes_max, piece_bytes_max + chunk_bytes, size)
    return sorted({at + by for edge in edges for by in (-1, 0, 1) if 0 <= (at := edge) + by < size})


def chunk_of(at: int) -> tuple[int, int]:
    begin = at // chunk_bytes * chunk_bytes
    return begin, min(begin + chunk_bytes, size)


@pytest.mark.parametrize("bit", [1, 128])
async def test_a_flipped_bit_anywhere_in_the_data(local, extent, flip, bit):
    data = Random(5).randbytes(size)
    for at in places_in_data():
        flip(at, bit)
        with pytest.raises(ExtentDamaged) as caught:
            await local.verify(extent)
        begin, end = chunk_of(at)
        assert caught.value.offset == begin
        assert caught.value.id == extent.id
        # No byte of a damaged chunk is handed out, alone or with others ...
        for offset, length in ((at, 1), (begin, 1), (end - 1, 1), (0, size), (begin, end - begin)):
            found = b""
            with pytest.raises(ExtentDamaged):
                async for piece in local.read(extent, offset, length):
                    found += piece
            assert data.startswith(found, offset)
            assert not found or offset + len(found) <= begin
        # ... and the others are still to be had.
        if begin:
            assert await get(local, extent, 0, begin) == data[:begin]
        assert await get(local, extent, end) == data[end:]
        flip(at, bit)
    await local.verify(extent)


async def test_a_flipped_bit_anywhere_in_the_trailer(local, extent, flip):
    length = file_bytes(size)
    for at in range(size, length):
        flip(at)
        with pytest.raises(ExtentDamaged):
            await local.verify(extent)
        flip(at)
    await local.verify(extent)


async def test_a_damaged_footer_is_noticed_by_every_read(local, extent, flip):
    for at in range(file_bytes(size) - footer_bytes, file_bytes(size)):
        flip(at)
        with pytest.raises(ExtentDamaged):
            await get(local, extent, 0, 1)
        flip(at)


async def test_a_damaged_sum_is_noticed_by_reads_that_need_it(local, extent, flip):
    flip(size)  # the sum of the first chunk
    for offset in (0, chunk_bytes - 1, chunk_bytes):
        with pytest.raises(ExtentDamaged):
            await get(local, extent, offset, 1)
    await get(local, extent, 2 * chunk_bytes, 1)


async def test_chunks_in_each_others_place(local, entropy):
    """Each is intact, and their own checksums would be too."""
    data = Random(6).randbytes(4 * chunk_bytes)
    extent = await put(local, entropy, data)
    path = path_of(local, extent.id)
    raw = bytearray(path.read_bytes())
    first, second = raw[:chunk_bytes], raw[chunk_bytes : 2 * chunk_bytes]
    raw[: 2 * chunk_bytes] = second + first
    path.write_bytes(raw)
    with pytest.raises(ExtentDamaged):
        await get(local, extent)
    with pytest.raises(ExtentDamaged):
        await get(local, extent, chunk_bytes, 1)


async def test_a_file_of_another_length(local, extent):
    path = path_of(local, extent.id)
    whole = path.read_bytes()
    for wrong in (
        b"",
        whole[:-1],
        whole + b"\0",
        whole[:size],
        whole[1:],
        bytes(len(whole)),
        whole[:-footer_bytes] + bytes(footer_bytes),
        whole[:-footer_bytes] + b"\0" + whole[-footer_bytes:],
    ):
        path.write_bytes(wrong)
        with pytest.raises(ExtentDamaged):
            await get(local, extent, 0, 1)
        with pytest.raises(ExtentDamaged):
            await local.verify(extent)
    path.write_bytes(whole)
    await local.verify(extent)


async def test_a_file_under_anothers_name(local, extent, entropy):
    other = await put(local, entropy, Random(9).randbytes(size))
    path_of(local, other.id).write_bytes(path_of(local, extent.id).read_bytes())
    with pytest.raises(ExtentDamaged):
        await get(local, other, 0, 1)


async def test_a_file_of_another_version(local, extent, monkeypatch):
    path = path_of(local, extent.id)
    raw = bytearray(path.read_bytes())
    fields = raw[-footer_bytes:-8]
    # Magic, version, chunk size, size of the data.
    for at, value in ((0, b"X"), (8, b"\2"), (14, b"\2"), (16, b"\0")):
        changed = bytearray(fields)
        changed[at : at + 1] = value
        raw[-footer_bytes:] = changed + crc64nvme(bytes(changed)).to_bytes(8, "little")
        path.write_bytes(raw)
        with pytest.raises(ExtentDamaged):
            await get(local, extent, 0, 1)


async def test_a_file_cut_short_while_it_is_read(local, entropy):
    extent = await put(local, entropy, bytes(6 << 20))
    pieces = local.read(extent)
    await anext(pieces)
    os.truncate(path_of(local, extent.id), 5 << 20)
    with pytest.raises(ExtentDamaged):
        async for _ in pieces:
            pass


async def test_what_the_disk_cannot_read(local, extent, monkeypatch):
    def fail(descriptor, length, offset):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(ExtentDamaged):
        await get(local, extent)
    with pytest.raises(ExtentDamaged):
        await local.verify(extent)


async def test_short_reads_are_completed(local, extent, monkeypatch):
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: whole(fd, min(length, 40_000), at))
    assert await get(local, extent) == Random(5).randbytes(size)


async def test_short_writes_are_completed(local, entropy, monkeypatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:50_000]))
    data = Random(8).randbytes(2_000_000)
    extent = await put(local, entropy, data)
    monkeypatch.undo()
    assert await get(local, extent) == data


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EIO, StoreFailed),
        (errno.EMFILE, StoreFailed),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fdatasync", "fsync"])
async def test_a_disk_that_fails(local, entropy, monkeypatch, call, code, error):
    kept = await put(local, entropy, b"kept")  # and its directory is there
    extent_id = ExtentId(kept.id[:1] + new_extent_id(entropy)[1:])
    real = getattr(os, call)
    calls = iter(range(100))

    def fail(*args, **more):
        if call == "write" and next(calls) == 0:
            return real(args[0], args[1][:1000])  # some of it fits
        raise OSError(code, os.strerror(code))

    writer = local.writer(extent_id)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(error):
            for _ in range(4):
                await writer.write(bytes(1 << 20))
            await writer.seal()
        # It has cleaned up already, and nothing makes the upload good again.
        patch.undo()
        assert set(await everything(local)) == {kept.id}
        with pytest.raises(StoreFailed):
            await writer.seal()
        await writer.abort()
    assert set(await everything(local)) == {kept.id}
    assert await get(local, kept) == b"kept"


async def test_no_room_is_said_before_the_bytes_come(local, entropy, tmp_path):
    disk = os.statvfs(tmp_path)
    writer = local.writer(new_extent_id(entropy), size_hint=disk.f_blocks * disk.f_frsize * 2)
    with pytest.raises(StoreFull):
        await writer.write(bytes(1 << 20))
        await writer.flush()
    assert await everything(local) == {}


async def test_some_room_is_spared_for_the_store(tmp_path, entropy):
    disk = os.statvfs(tmp_path)
    store = LocalExtents(tmp_path / "extents", spare_bytes=disk.f_blocks * disk.f_frsize)
    writer = store.writer(new_extent_id(entropy))
    await writer.write(b"x")
    with pytest.raises(StoreFull):
        await writer.seal()
    assert await everything(store) == {}
    await store.close()


async def test_sealing_syncs_data_and_name(local, entropy, monkeypatch):
    order = []
    data, name = os.fdatasync, os.fsync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (order.append("data"), data(fd)))
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append(opened(fd)), name(fd)))
    extent = await put(local, entropy, b"bytes")
    directory = path_of(local, extent.id).parent
    # Making the directory, too, has to be durable before a name in it can be.
    assert order == [str(directory.parent), "data", str(directory)]


async def test_relaxed_syncs_within_a_second(tmp_path, entropy, monkeypatch):
    synced = threading.Event()
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (real(fd), synced.set()))
    store = LocalExtents(tmp_path / "extents", relaxed=True)
    extent = await put(store, entropy, b"bytes")
    assert not synced.is_set()
    assert await asyncio.to_thread(synced.wait, 30)
    assert await get(store, extent) == b"bytes"
    await store.close()


async def test_relaxed_syncs_when_it_closes(tmp_path, entropy, monkeypatch):
    count = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (real(fd), count.append(fd)))
    monkeypatch.setattr(local_sync, "delay_seconds_max", 10_000)
    store = LocalExtents(tmp_path / "extents", relaxed=True)
    for number in range(20):
        await put(store, entropy, b"%d" % number)
    assert count == []
    await store.close()
    assert len(count) == 20


async def test_relaxed_keeps_few_files_open(tmp_path, entropy, monkeypatch):
    monkeypatch.setattr(local_sync, "delay_seconds_max", 10_000)
    monkeypatch.setattr(local_sync, "unsynced_max", 8)
    synced = threading.Semaphore(0)
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (real(fd), synced.release()))
    store = LocalExtents(tmp_path / "extents", relaxed=True)
    for number in range(16):
        await put(store, entropy, b"%d" % number)
    for _ in range(16):
        assert await asyncio.to_thread(synced.acquire, timeout=30)
    await store.close()


async def test_relaxed_reports_a_sync_that_failed(tmp_path, entropy, monkeypatch, caplog):
    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    store = LocalExtents(tmp_path / "extents", relaxed=True)
    extent = await put(store, entropy, b"bytes")
    monkeypatch.setattr(os, "fdatasync", fail)
    await store.close()
    assert extent.id.hex() in caplog.text


async def test_no_descriptor_stays_open(local, entropy):
    def descriptors():
        return [
            name
            for fd in Path("/proc/self/fd").iterdir()
            if "/extents/" in (name := str(fd.resolve()))
        ]

    extent = await put(local, entropy, bytes(3 << 20))
    await get(local, extent)
    async with aclosing(local.read(extent)) as pieces:
        await anext(pieces)
        assert descriptors()
    with pytest.raises(ExtentMissing):
        await get(local, Extent(new_extent_id(entropy), 3 << 20))
    with pytest.raises(ExtentDamaged):
        await get(local, Extent(extent.id, 5))
    writer = local.writer(new_extent_id(entropy))
    await writer.write(bytes(2 << 20))
    await writer.abort()
    await local.verify(extent)
    await local.close()  # the last closes are on their way
    assert descriptors() == []


async def test_failures_that_nobody_waits_for_are_quiet(local, extent, monkeypatch, entropy):
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    failed = threading.Semaphore(0)

    def fail(*args):
        failed.release()
        raise OSError(errno.EIO, "Input/output error")

    writer = local.writer(new_extent_id(entropy))
    pieces = local.read(extent)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        await writer.write(bytes(1 << 20))
        assert await asyncio.to_thread(failed.acquire, timeout=30)
        await asyncio.sleep(0.05)  # the failure has reached the loop
        await writer.abort()
    await anext(pieces)
    (path_of(local, extent.id)).write_bytes(b"")  # the piece read ahead, perhaps
    await pieces.aclose()
    await local.close()
    del writer, pieces
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_too_many_open_files_is_no_damage(local, extent, monkeypatch):
    real = os.open

    def fail(path, *args, **more):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(StoreFailed):
        await get(local, extent)
    monkeypatch.setattr(os, "open", real)
    await local.verify(extent)


async def test_other_files_are_left_alone(local, extent, tmp_path):
    directory = path_of(local, extent.id).parent
    (directory / "README").write_text("not an extent")
    (directory / ("AB" * 16)).write_text("not how we spell it")
    (directory / ("ab" * 15)).write_text("too short")
    (directory.parent / "lost+found").mkdir()
    assert set(await everything(local)) == {extent.id}


async def test_listing_more_than_a_batch(tmp_path, entropy, monkeypatch):
    monkeypatch.setattr("etagere.extents.local.listed_max", 3)
    store = LocalExtents(tmp_path / "extents", relaxed=True)
    extents = []
    for number in range(10):
        writer = store.writer(ExtentId(b"\7" + new_extent_id(entropy)[1:]))
        await writer.write(b"%d" % number)
        extents.append(await writer.seal())
    assert set(await everything(store)) == {extent.id for extent in extents}
    await store.close()


async def test_times_are_the_files(local, extent):
    os.utime(path_of(local, extent.id), ns=(1_000_000_000, 2_000_000_000))
    assert [stored.modified async for stored in local.list()] == [2 * ticks_per_second]


async def test_a_store_reopened(tmp_path, entropy):
    first = LocalExtents(tmp_path / "data" / "extents")
    extent = await put(first, entropy, b"bytes")
    await first.close()
    second = LocalExtents(tmp_path / "data" / "extents")
    assert await get(second, extent) == b"bytes"
    await second.close()


async def test_two_stores_on_one_directory(tmp_path, entropy):
    one, two = LocalExtents(tmp_path / "extents"), LocalExtents(tmp_path / "extents")
    extents = [await put(store, entropy, b"bytes") for store in (one, two, one, two)]
    for extent in extents:
        assert await get(one, extent) == await get(two, extent) == b"bytes"
    await one.close()
    await two.close()


async def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        LocalExtents(tmp_path / "file" / "extents")


async def test_a_crowd_reads_small_pieces(local, entropy):
    extent = await put(local, entropy, bytes(2 << 20))
    streams = [local.read(extent) for _ in range(streams_ahead_max + 2)]
    sizes = [len(await anext(stream)) for stream in streams]
    assert sizes == [1 << 20] * streams_ahead_max + [1 << 18] * 2
    for stream in streams:
        await stream.aclose()
    async with aclosing(local.read(extent)) as pieces:
        assert len(await anext(pieces)) == 1 << 20


async def test_the_loop_runs_while_a_disk_is_slow(local, entropy, monkeypatch):
    gate = threading.Event()
    real = os.fdatasync

    def slow(descriptor):
        gate.wait(30)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow)
    sealing = [asyncio.create_task(put(local, entropy, b"%d" % n)) for n in range(3)]
    kept = None
    for _ in range(100):
        await asyncio.sleep(0)
    assert not any(task.done() for task in sealing)
    gate.set()
    for task in sealing:
        kept = await task
    assert len(await get(local, kept)) == 1


async def test_writes_wait_for_the_disk(local, entropy, monkeypatch):
    """Backpressure: no more than the batch on its way and the one being gathered."""
    gate = threading.Event()
    real = os.write

    def slow(descriptor, data):
        gate.wait(30)
        return real(descriptor, data)

    monkeypatch.setattr(local_writer.os, "write", slow)
    writer = local.writer(new_extent_id(entropy))
    taken = 0

    async def upload():
        nonlocal taken
        for _ in range(64):
            await writer.write(bytes(1 << 18))
            taken += 1 << 18
        return await writer.seal()

    task = asyncio.create_task(upload())
    for _ in range(200):
        await asyncio.sleep(0)
    assert taken < 2 * local_writer.batch_bytes
    gate.set()
    assert (await task).size == 64 << 18


def test_the_format_is_fixed():
    """What is on disks already: another layout needs another version."""
    assert (chunk_bytes, footer_bytes) == (65536, 56)
    assert file_bytes(0) == 56
    assert file_bytes(1) == 1 + 8 + 56
    assert sums_bytes(65536) == 8
    assert sums_bytes(65537) == 16


async def test_a_file_written_long_ago(local):
    extent_id = ExtentId(bytes(range(16)))
    path = path_of(local, extent_id)
    path.parent.mkdir()
    fields = (
        b"etagere\n"
        + (1).to_bytes(2, "little")
        + bytes(2)
        + (65536).to_bytes(4, "little")
        + (5).to_bytes(8, "little")
        + extent_id
    )
    sums = crc64nvme(b"hello").to_bytes(8, "little")
    fields += crc64nvme(sums).to_bytes(8, "little")
    path.write_bytes(b"hello" + sums + fields + crc64nvme(fields).to_bytes(8, "little"))
    assert await get(local, Extent(extent_id, 5)) == b"hello"
    await local.verify(Extent(extent_id, 5))
