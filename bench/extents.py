"""Extents alone: `python -m bench.extents [--mebibytes 64] [--rounds 7] [--directory DIR]...`.

Streams through the spool (as Put Blob and Put Block use it) and through the reader (as Get Blob
does), in one process, without a network: chunks of 64 KiB come out of a list.  Beside each figure
stands what the same bytes cost with bare system calls, measured in the same round, because the
disk of a shared machine is never the same twice.

Then, where small bodies belong: rows of the store, or extents (`--border`).
"""

import argparse
import asyncio
import hashlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import uvloop
from awscrt.checksums import crc64nvme

from etagere.extents import references
from etagere.extents.contract import Extent, ExtentStore, new_extent_id
from etagere.extents.local import LocalExtents
from etagere.extents.spool import Received, spool
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import pack
from etagere.servers.real import RealClock, SystemEntropy

mebibyte = 1 << 20
network_chunk_bytes = 1 << 16
entropy = SystemEntropy()
part = Partition(pack("bench"))

Step = Callable[[], Awaitable[float]]
"""Does the thing once and gives the seconds that it took."""


async def network(chunks: list[bytes], count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield chunks[number % len(chunks)]


class Streams:
    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory
        self.size = size
        self.store = LocalExtents(directory / "extents")
        self.chunks = [os.urandom(network_chunk_bytes) for _ in range(64)]
        self.extent: Extent | None = None

    async def receive(self, *, md5: bool, inline_max: int = 0) -> Received:
        return await spool(
            self.store,
            entropy,
            network(self.chunks, self.size // network_chunk_bytes),
            length=self.size,
            bytes_max=1 << 40,
            md5=md5,
            inline_max=inline_max,
        )

    async def up(self, streams: int, *, md5: bool) -> float:
        began = time.perf_counter()
        received = await asyncio.gather(*(self.receive(md5=md5) for _ in range(streams)))
        took = time.perf_counter() - began
        for body in received:
            assert body.extent is not None
            await self.store.remove(body.extent.id)
        return took / streams

    async def down(self, streams: int) -> float:
        if self.extent is None:
            self.extent = (await self.receive(md5=False)).extent
        assert self.extent is not None
        began = time.perf_counter()
        await asyncio.gather(*(read_all(self.store, self.extent) for _ in range(streams)))
        return (time.perf_counter() - began) / streams

    async def raw_write(self) -> float:
        """pwrite by the mebibyte and fdatasync, in a thread."""
        return await asyncio.to_thread(self._raw_write)

    def _raw_write(self) -> float:
        block = b"".join(self.chunks)[:mebibyte]
        path = self.directory / "raw"
        began = time.perf_counter()
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        for at in range(0, self.size, mebibyte):
            os.pwrite(descriptor, block, at)
        os.fdatasync(descriptor)
        took = time.perf_counter() - began
        os.close(descriptor)
        path.unlink()
        return took

    async def raw_read(self) -> float:
        """pread by the mebibyte, of bytes that the page cache has."""
        return await asyncio.to_thread(self._raw_read)

    def _raw_read(self) -> float:
        path = self.directory / "cached"
        if not path.exists():
            path.write_bytes(b"".join(self.chunks) * (self.size // mebibyte // 4))
        descriptor = os.open(path, os.O_RDONLY)
        began = time.perf_counter()
        for at in range(0, self.size, mebibyte):
            os.pread(descriptor, mebibyte, at)
        took = time.perf_counter() - began
        os.close(descriptor)
        return took

    async def hashing(self) -> float:
        """MD5 alone, in a thread: what no upload with Content-MD5 can be faster than."""
        return await asyncio.to_thread(self._hashing)

    def _hashing(self) -> float:
        block = b"".join(self.chunks)[:mebibyte]
        began = time.perf_counter()
        digest = hashlib.md5(usedforsecurity=False)
        for _ in range(0, self.size, mebibyte):
            digest.update(block)
        return time.perf_counter() - began


async def read_all(store: ExtentStore, extent: Extent) -> None:
    size = 0
    async for piece in store.read(extent):
        size += len(piece)
    assert size == extent.size


async def measure_streams(directory: Path, size: int, rounds: int) -> None:
    streams = Streams(directory, size)
    steps: dict[str, Step] = {
        "raw pwrite + fdatasync": streams.raw_write,
        "up, CRC64": partial(streams.up, 1, md5=False),
        "up, CRC64 and MD5": partial(streams.up, 1, md5=True),
        "up, CRC64 and MD5, 4 at once": partial(streams.up, 4, md5=True),
        "MD5 alone": streams.hashing,
        "raw pread, cached": streams.raw_read,
        "down, cached": partial(streams.down, 1),
        "down, cached, 4 at once": partial(streams.down, 4),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            took = await step()
            if number:  # the first round warms up
                times[name].append(took)
    print(f"\n{directory}: {size // mebibyte} MiB, medians of {rounds} rounds")
    print(f"{'':32}{'GB/s':>7}{'slowest':>9}{'fastest':>9}{'of raw':>8}")
    for name, taken in times.items():
        raw = times["raw pread, cached" if "down" in name else "raw pwrite + fdatasync"]
        rates = sorted(size / seconds / 1e9 for seconds in taken)
        line = f"{name:32}{statistics.median(rates):7.2f}{rates[0]:9.2f}{rates[-1]:9.2f}"
        if name.startswith(("up", "down")):
            line += f"{statistics.median(raw) / statistics.median(taken):8.2f}"
        print(line)
    await streams.store.close()


class Border:
    """Bodies of one size, as rows and as extents, with everything that makes them durable."""

    def __init__(self, directory: Path, size: int) -> None:
        self.engine = LmdbEngine.open(directory / "store", clock=RealClock())
        self.store = LocalExtents(directory / "extents")
        self.data = os.urandom(size)
        self._number = 0

    async def close(self) -> None:
        await self.engine.close()
        await self.store.close()

    def key(self) -> bytes:
        self._number += 1
        return pack("row", self._number)

    async def put_row(self) -> bytes:
        key = self.key()

        async def body(tx: Tx) -> None:
            tx.put(part, key, self.data)

        await self.engine.write((part,), body)
        return key

    async def put_extent(self) -> Extent:
        key = self.key()
        writer = self.store.writer(new_extent_id(entropy))
        await writer.write(self.data)
        extent = await writer.seal()

        async def body(tx: Tx) -> None:
            await references.hold(tx, part, [extent.id])
            tx.put(part, key, extent.id)

        await self.engine.write((part, references.shard_of(extent.id)), body)
        return extent

    async def get_row(self, key: bytes) -> None:
        found = await self.engine.read(lambda tx: _get(tx, key))
        assert found is not None
        assert crc64nvme(found)

    async def get_extent(self, extent: Extent) -> None:
        await read_all(self.store, extent)


async def _get(tx: ReadTx, key: bytes) -> bytes | None:
    return await tx.get(part, key)


async def rate(clients: int, seconds: float, step: Callable[[], Awaitable[object]]) -> float:
    count = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await step()
            count += 1

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return count / (time.perf_counter() - began)


async def measure_border(directory: Path, seconds: float) -> None:
    print(f"\n{directory}: operations a second, as rows / as extents")
    print(f"{'KiB':>5}{'put, 1 client':>22}{'put, 32 clients':>22}{'get, 8 clients':>24}")
    for kibibytes in (4, 16, 32, 64, 128, 256, 1024):
        place = directory / str(kibibytes)
        place.mkdir()
        border = Border(place, kibibytes << 10)
        line = f"{kibibytes:5}"
        for clients, width in ((1, 22), (32, 22)):
            rows = await rate(clients, seconds, border.put_row)
            extents = await rate(clients, seconds, border.put_extent)
            line += f"{f'{rows:.0f} / {extents:.0f}':>{width}}"
        key, extent = await border.put_row(), await border.put_extent()
        rows = await rate(8, seconds, partial(border.get_row, key))
        extents = await rate(8, seconds, partial(border.get_extent, extent))
        print(line + f"{f'{rows:.0f} / {extents:.0f}':>24}", flush=True)
        await border.close()
        shutil.rmtree(place)


async def run(options: argparse.Namespace) -> None:
    for place in options.directory or [tempfile.gettempdir(), "/dev/shm"]:
        with tempfile.TemporaryDirectory(prefix="etagere-bench-", dir=place) as directory:
            if options.border:
                await measure_border(Path(directory), options.seconds)
            else:
                size = options.mebibytes * mebibyte
                await measure_streams(Path(directory), size, options.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Extents alone: streams, and where they begin.")
    parser.add_argument("--mebibytes", type=int, default=64, help="a multiple of 4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", action="append", help="default: the temporary and /dev/shm")
    parser.add_argument("--border", action="store_true", help="rows against extents")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure of --border")
    sys.setswitchinterval(0.0005)  # as the server has it
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
