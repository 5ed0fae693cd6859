"""Extents as files: one each, at ROOT/ab/<32 hex digits>, `ab` being the first two of them.

The layout of a file is in `trailer`, what a crash leaves behind in `local_writer`.  Several
processes may use one directory.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from etagere.base.clock import Timestamp
from etagere.extents.contract import (
    Extent,
    ExtentId,
    StoredExtent,
    Usage,
    extent_id_bytes,
    piece_bytes_max,
)
from etagere.extents.local_reader import ReadFile, pieces
from etagere.extents.local_sync import SyncSoon, sync_directory, sync_now
from etagere.extents.local_writer import ExtentFile, LocalWriter
from etagere.extents.threads import DiskThreads
from etagere.kv.contract import StoreFailed

readers_max: Final = 4
writers_max: Final = 8
"""Apart, so that uploads waiting for a slow disk do not keep downloads of cached bytes waiting."""

spare_bytes_default: Final = 8 << 20
"""Left free on the disk, so that the store has room to record that something was deleted."""

streams_ahead_max: Final = 16
"""With up to so many downloads, each reads ahead in large pieces.  With more, threads are busy
without it, and memory counts: a thousand slow clients hold 256 KiB each instead of 2 MiB."""

piece_bytes_crowded: Final = 1 << 18
listed_max: Final = 512
verified_bytes: Final = 4 << 20
_nanoseconds_per_tick: Final = 100


@dataclass(slots=True)
class _Places:
    """The directories; a new one is durable before a file in it can be."""

    root: Path
    spare_bytes: int
    durable: set[Path]
    lock: threading.Lock

    def path(self, extent_id: ExtentId) -> Path:
        assert len(extent_id) == extent_id_bytes
        name = extent_id.hex()
        return self.root / name[:2] / name

    def make(self, directory: Path) -> None:
        if directory in self.durable:
            return
        with self.lock:
            # Another process may have made it and not synced it yet: sync whoever made it.
            directory.mkdir(mode=0o700, exist_ok=True)
            sync_directory(self.root)
            self.durable.add(directory)


class LocalExtents:
    def __init__(
        self, root: Path, *, relaxed: bool = False, spare_bytes: int = spare_bytes_default
    ) -> None:
        """Blocks for a moment: make it before serving begins.  Any problem is an OSError."""
        if not root.is_dir():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_directory(root.parent)
        self._places: Final = _Places(root, spare_bytes, set(), threading.Lock())
        self._readers: Final = DiskThreads("extent-reader", readers_max)
        self._writers: Final = DiskThreads("extent-writer", writers_max)
        self._soon: Final = SyncSoon(self._writers) if relaxed else None
        self._streams = 0

    def writer(self, extent_id: ExtentId, *, size_hint: int | None = None) -> LocalWriter:
        file = ExtentFile(extent_id, self._places, size_hint or 0)
        if self._soon is None:
            return LocalWriter(extent_id, file, self._writers, sync_now)
        self._soon.begin()
        return LocalWriter(extent_id, file, self._writers, self._soon.add)

    async def read(
        self, extent: Extent, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        assert offset >= 0
        end = extent.size if length is None else min(offset + length, extent.size)
        if offset >= end:
            return
        self._streams += 1
        crowded = self._streams > streams_ahead_max
        file = ReadFile(extent, self._places.path(extent.id))
        cuts = pieces(offset, end, piece_bytes_crowded if crowded else piece_bytes_max)
        coming = self._next_piece(file, cuts, end)
        try:
            while coming is not None:
                piece = await coming
                coming = None if crowded else self._next_piece(file, cuts, end)
                yield piece
                if crowded:
                    coming = self._next_piece(file, cuts, end)
        finally:
            self._streams -= 1
            if coming is not None:
                coming.cancel()
            if not file.closed:
                # Closing frees the blocks of a file that was removed meanwhile: not on the loop.
                self._readers.start(file.close)

    def _next_piece(
        self, file: ReadFile, cuts: Iterator[tuple[int, int]], end: int
    ) -> "asyncio.Future[bytes] | None":
        cut = next(cuts, None)
        if cut is None:
            return None
        return self._readers.run(partial(file.piece, *cut, last=cut[1] == end))

    async def remove(self, extent_id: ExtentId) -> None:
        await self._writers.run(partial(_unlink, self._places.path(extent_id)))

    async def list(self) -> AsyncGenerator[StoredExtent, None]:
        for prefix in range(256):
            directory = self._places.root / f"{prefix:02x}"
            names = await self._readers.run(partial(_names, directory))
            for at in range(0, len(names), listed_max):
                some = names[at : at + listed_max]
                for stored in await self._readers.run(partial(_stored, directory, some)):
                    yield stored

    async def usage(self) -> Usage:
        extents = stored_bytes = 0
        async for stored in self.list():
            extents += 1
            stored_bytes += stored.stored_bytes
        return Usage(extents, stored_bytes)

    async def verify(self, extent: Extent) -> None:
        file = ReadFile(extent, self._places.path(extent.id))
        try:
            await self._readers.run(file.verify_sums)
            for begin, end in pieces(0, extent.size, verified_bytes):
                await self._readers.run(partial(file.piece, begin, end, last=False))
        finally:
            self._readers.start(file.close)

    async def close(self) -> None:
        if self._soon is not None:
            await self._soon.finish()
        await asyncio.to_thread(self._readers.close)
        await asyncio.to_thread(self._writers.close)


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        raise StoreFailed("the extent could not be removed") from problem


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - names are smaller than paths
    except FileNotFoundError:
        return []


def _stored(directory: Path, names: list[str]) -> list[StoredExtent]:
    found = []
    for name in names:
        extent_id = _id_of(name)
        if extent_id is None:
            continue  # not ours; leave it alone
        try:
            status = (directory / name).lstat()
        except FileNotFoundError:
            continue  # removed meanwhile
        modified = Timestamp(status.st_mtime_ns // _nanoseconds_per_tick)
        found.append(StoredExtent(extent_id, status.st_size, modified))
    return found


def _id_of(name: str) -> ExtentId | None:
    try:
        extent_id = bytes.fromhex(name)
    except ValueError:
        return None
    if len(extent_id) != extent_id_bytes or extent_id.hex() != name:
        return None
    return ExtentId(extent_id)
