"""One extent's file, read and verified.

With `pread`, not `mmap`: of a mapped file, an unreadable sector or a file cut short is a signal
that ends the process, where here it is one failed request.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from etagere.extents.contract import Extent, ExtentDamaged, ExtentMissing
from etagere.extents.trailer import (
    Footer,
    chunk_bytes,
    crc64,
    file_bytes,
    footer_bytes,
    parse_footer,
    sum_at,
    sum_bytes,
    sums_bytes,
)
from etagere.kv.contract import StoreFailed


def pieces(begin: int, end: int, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """[begin, end) cut at multiples of `piece_bytes`, so that only its ends cut a chunk."""
    assert piece_bytes % chunk_bytes == 0
    while begin < end:
        stop = min(end, (begin // piece_bytes + 1) * piece_bytes)
        yield begin, stop
        begin = stop


class ReadFile:
    """The file, as the threads see it: opened by the first piece, each call alone with the lock."""

    def __init__(self, extent: Extent, path: Path) -> None:
        self._extent: Final = extent
        self._path: Final = path
        self._lock: Final = threading.Lock()
        self._descriptor: int | None = None
        self._footer: Footer | None = None
        self.closed = False

    def piece(self, begin: int, end: int, *, last: bool) -> bytes:
        """The verified bytes of [begin, end); closes the file after the last one."""
        assert 0 <= begin < end <= self._extent.size
        with self._lock:
            try:
                piece = self._verified(self._opened(), begin, end)
            except OSError as problem:
                raise self._damaged("the disk could not be read", begin) from problem
            if last:
                self._close()
            return piece

    def verify_sums(self) -> None:
        """The sums against the footer's checksum: what `piece` does not look at in whole."""
        size = self._extent.size
        with self._lock:
            try:
                descriptor = self._opened()
                table = self._exactly(descriptor, sums_bytes(size), size)
            except OSError as problem:
                raise self._damaged("the disk could not be read", None) from problem
            assert self._footer is not None
            if crc64(table) != self._footer.sums_crc:
                raise self._damaged("the checksums are damaged", None)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        self.closed = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self.closed:
            raise StoreFailed("the extent is no longer being read")
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise ExtentMissing("there is no such extent", self._extent.id) from None
            except OSError as problem:  # too many open files: nothing is wrong with the extent
                raise StoreFailed("the extent could not be opened") from problem
            self._footer = self._checked_footer(self._descriptor)
        return self._descriptor

    def _checked_footer(self, descriptor: int) -> Footer:
        size = self._extent.size
        length = os.fstat(descriptor).st_size
        if length != file_bytes(size):
            raise self._damaged("the file's length is wrong, or it was never sealed", None)
        footer = parse_footer(
            os.pread(descriptor, footer_bytes, length - footer_bytes), self._extent.id
        )
        if footer.size != size:
            raise self._damaged("the footer's size is wrong", None)
        return footer

    def _verified(self, descriptor: int, begin: int, end: int) -> bytes:
        size = self._extent.size
        first = begin // chunk_bytes
        stop = -(-end // chunk_bytes)
        whole_begin = first * chunk_bytes
        whole_end = min(stop * chunk_bytes, size)
        # The sum in front of the first chunk (none: zero) up to the one at the end of the last.
        before = max(first - 1, 0)
        sums = self._exactly(descriptor, (stop - before) * sum_bytes, size + before * sum_bytes)
        data = self._exactly(descriptor, whole_end - whole_begin, whole_begin)
        start = sum_at(sums, 0) if first else 0
        if crc64(data, start) != sum_at(sums, stop - before - 1):
            raise self._damaged(
                "the data is damaged", self._first_damaged(data, sums, first, before)
            )
        if (begin, end) == (whole_begin, whole_end):
            return data
        return data[begin - whole_begin : end - whole_begin]

    def _first_damaged(self, data: bytes, sums: bytes, first: int, before: int) -> int:
        crc = sum_at(sums, 0) if first else 0
        for at in range(0, len(data), chunk_bytes):
            crc = crc64(memoryview(data)[at : at + chunk_bytes], crc)
            index = first + at // chunk_bytes
            if crc != sum_at(sums, index - before):
                return index * chunk_bytes
        raise AssertionError("the run of chunks is damaged, but none of them")

    def _exactly(self, descriptor: int, length: int, offset: int) -> bytes:
        data = os.pread(descriptor, length, offset)
        if len(data) == length:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(descriptor, missing, offset + length - missing)
            if not data:
                raise self._damaged("the file ends too early", None)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def _damaged(self, reason: str, offset: int | None) -> ExtentDamaged:
        return ExtentDamaged(reason, self._extent.id, offset)
