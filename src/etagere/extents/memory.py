"""Extents in memory: for `--in-memory`, and for tests."""

from collections.abc import AsyncGenerator, Iterator
from typing import Final

from etagere.base.clock import Clock, Timestamp
from etagere.extents.contract import (
    Extent,
    ExtentDamaged,
    ExtentId,
    ExtentMissing,
    StoredExtent,
    Usage,
    piece_bytes_max,
)
from etagere.extents.trailer import crc64
from etagere.kv.contract import StoreFailed, StoreFull

memory_bytes_default: Final = 1 << 30


class _Kept:
    """One extent's chunks, as they came."""

    __slots__ = ("chunks", "crc", "modified", "sealed", "size")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.crc = 0
        self.size = 0
        self.sealed = False
        self.modified = Timestamp(0)


class MemoryExtents:
    def __init__(self, clock: Clock, *, bytes_max: int = memory_bytes_default) -> None:
        self._clock: Final = clock
        self._bytes_max: Final = bytes_max
        self._kept: Final[dict[ExtentId, _Kept]] = {}
        self._bytes = 0

    def writer(self, extent_id: ExtentId, *, size_hint: int | None = None) -> "MemoryWriter":
        return MemoryWriter(self, extent_id, size_hint or 0)

    async def read(
        self, extent: Extent, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        assert offset >= 0
        end = extent.size if length is None else min(offset + length, extent.size)
        if offset < end:
            for piece in _cut(self._whole(extent).chunks, offset, end):
                yield piece

    async def remove(self, extent_id: ExtentId) -> None:
        self._drop(extent_id)

    async def list(self) -> AsyncGenerator[StoredExtent, None]:
        for extent_id, kept in tuple(self._kept.items()):
            yield StoredExtent(extent_id, kept.size, kept.modified)

    async def usage(self) -> Usage:
        return Usage(len(self._kept), self._bytes)

    async def verify(self, extent: Extent) -> None:
        kept = self._whole(extent)
        crc = 0
        for chunk in kept.chunks:
            crc = crc64(chunk, crc)
        if crc != kept.crc:
            raise ExtentDamaged("the data is damaged", extent.id)

    async def close(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def _whole(self, extent: Extent) -> _Kept:
        kept = self._kept.get(extent.id)
        if kept is None:
            raise ExtentMissing("there is no such extent", extent.id)
        if not kept.sealed or kept.size != extent.size:
            raise ExtentDamaged("its size is wrong, or it was never sealed", extent.id)
        return kept

    def _begin(self, extent_id: ExtentId, size_hint: int) -> _Kept:
        if extent_id in self._kept:
            raise StoreFailed("the extent's id is taken")
        if self._bytes + size_hint > self._bytes_max:
            raise StoreFull("no room for the extent")
        kept = self._kept[extent_id] = _Kept()
        kept.modified = self._clock.now()
        return kept

    def _drop(self, extent_id: ExtentId) -> None:
        kept = self._kept.pop(extent_id, None)
        if kept is not None:
            self._bytes -= kept.size

    def _append(self, kept: _Kept, chunk: bytes) -> None:
        if self._bytes + len(chunk) > self._bytes_max:
            raise StoreFull("no room for the extent")
        self._bytes += len(chunk)
        kept.chunks.append(chunk)
        kept.crc = crc64(chunk, kept.crc)
        kept.size += len(chunk)
        kept.modified = self._clock.now()


class MemoryWriter:
    def __init__(self, store: MemoryExtents, extent_id: ExtentId, size_hint: int) -> None:
        self._store: Final = store
        self._id: Final = extent_id
        self._size_hint: Final = size_hint
        self._kept: _Kept | None = None
        self._ended = False

    async def write(self, chunk: bytes) -> None:
        self._add(chunk)

    @property
    def crc64(self) -> int:
        return self._kept.crc if self._kept is not None else 0

    async def flush(self) -> None:
        pass

    async def seal(self) -> Extent:
        kept = self._add(b"")
        kept.sealed = self._ended = True
        return Extent(self._id, kept.size)

    async def abort(self) -> None:
        if self._kept is not None and not self._kept.sealed:
            await self._store.remove(self._id)
        self._ended = True

    def _add(self, chunk: bytes) -> _Kept:
        if self._ended:
            raise StoreFailed("the upload has ended")
        try:
            if self._kept is None:
                self._kept = self._store._begin(self._id, self._size_hint)  # noqa: SLF001 - its other half
            if chunk:
                self._store._append(self._kept, chunk)  # noqa: SLF001 - its other half
        except StoreFull:
            self._ended = True
            if self._kept is not None:
                self._store._drop(self._id)  # noqa: SLF001 - its other half
            raise
        return self._kept


def _cut(chunks: list[bytes], begin: int, end: int) -> Iterator[bytes]:
    """The bytes [begin, end) of the chunks put together."""
    at = 0
    for chunk in chunks:
        if at >= end:
            return
        first, last = max(begin - at, 0), min(end - at, len(chunk))
        for start in range(first, last, piece_bytes_max):
            yield chunk[start : min(start + piece_bytes_max, last)]
        at += len(chunk)
