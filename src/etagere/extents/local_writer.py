"""One extent on its way into a local file.

The file gets its final name at once: there is no temporary one.  What makes an extent real is the
reference that a transaction makes to it, and until `seal` has returned nobody may make one; so a
name that exists too early harms nobody, and a rename would only cost another directory update.

What a crash (of the process or of the machine) leaves behind, line by line:

    before open             nothing
    after open              an empty file, perhaps without a durable name: an orphan
    while writing           a file without a footer: an orphan
    after the trailer       a whole file that may or may not be durable: an orphan
    after fdatasync         the data is durable, its name perhaps not: an orphan or nothing
    after fsync of its      everything is durable; unless the transaction that refers to it commits,
      directory             an orphan
    abort, before unlink    an orphan

An orphan is removed by `references.scrub`, or was never there.
"""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from etagere.extents.contract import Extent, ExtentId
from etagere.extents.threads import DiskThreads
from etagere.extents.trailer import RunningSums, file_bytes
from etagere.extents.writeback import begin_writeback
from etagere.kv.contract import StoreError, StoreFailed, StoreFull

batch_bytes: Final = 1 << 20
"""Chunks are gathered up to this before a thread is woken for them."""

writeback_bytes: Final = 8 << 20

_no_room: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Directories(Protocol):
    """Where extents' files live."""

    def path(self, extent_id: ExtentId) -> Path: ...

    def make(self, directory: Path) -> None:
        """Have it, durably."""
        ...

    @property
    def spare_bytes(self) -> int:
        """What must stay free on the disk."""
        ...


Settle = Callable[[int, Path], None]
"""Takes over a complete file (and closes it): syncs it and its directory now, or soon."""


def store_error(problem: OSError) -> StoreError:
    if problem.errno in _no_room:
        return StoreFull("no room for the extent")
    return StoreFailed("the extent could not be written")


class ExtentFile:
    """The file, as the threads see it: each method blocks, and runs alone thanks to the lock.

    A call may come after the end, when its waiter was cancelled and aborted before a thread got to
    it: it fails, and nobody hears.
    """

    def __init__(self, extent_id: ExtentId, directories: Directories, size_hint: int) -> None:
        self._id: Final = extent_id
        self._directories: Final = directories
        self._size_hint: Final = size_hint
        self._path: Final = directories.path(extent_id)
        self._lock: Final = threading.Lock()
        self._descriptor: int | None = None
        self._created = False
        self._begun_bytes = 0
        self._ended = False
        self.sums: Final = RunningSums()

    def append(self, chunks: list[bytes]) -> None:
        self._step(partial(self._append, chunks))

    def seal(self, chunks: list[bytes], settle: Settle) -> None:
        self._step(partial(self._seal, chunks, settle))

    def abandon(self) -> None:
        """Remove the file, at whatever stage it is."""
        with self._lock:
            self._discard()

    def _step(self, step: Callable[[], None]) -> None:
        with self._lock:
            if self._ended:
                raise StoreFailed("the upload has ended")
            try:
                step()
            except OSError as problem:
                self._discard()
                raise store_error(problem) from problem
            except BaseException:
                self._discard()
                raise

    def _discard(self) -> None:
        self._ended = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if self._created:
            self._created = False
            self._path.unlink(missing_ok=True)

    def _append(self, chunks: list[bytes]) -> None:
        descriptor = self._opened()
        data = memoryview(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        self._require_room(descriptor, len(data))
        self.sums.add(data)
        _write_all(descriptor, data)
        unbegun = self.sums.size - self._begun_bytes
        if unbegun >= writeback_bytes:
            begin_writeback(descriptor, self._begun_bytes, unbegun)
            self._begun_bytes = self.sums.size

    def _seal(self, chunks: list[bytes], settle: Settle) -> None:
        if chunks:
            self._append(chunks)
        descriptor = self._opened()
        _write_all(descriptor, memoryview(self.sums.trailer(self._id)))
        # If the sync fails, the kernel may have dropped the pages and would call a second one a
        # success; so the file is discarded, and with it the question.
        self._descriptor = None
        settle(descriptor, self._path)
        self._ended = True

    def _opened(self) -> int:
        if self._descriptor is None:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            self._directories.make(self._path.parent)
            self._descriptor = os.open(self._path, flags, 0o600)
            self._created = True
            self._require_room(self._descriptor, file_bytes(self._size_hint))
        return self._descriptor

    def _require_room(self, descriptor: int, needed: int) -> None:
        disk = os.fstatvfs(descriptor)
        if disk.f_blocks == 0:
            return  # a file system that does not say
        if disk.f_bavail * disk.f_frsize < needed + self._directories.spare_bytes:
            raise StoreFull("no room for the extent")


def _write_all(descriptor: int, data: memoryview) -> None:
    """A disk that fills up takes a part first, and refuses the next call."""
    while data:
        data = data[os.write(descriptor, data) :]


class LocalWriter:
    """Gathers chunks and keeps one batch on its way to the file while the next one gathers."""

    def __init__(
        self, extent_id: ExtentId, file: ExtentFile, threads: DiskThreads, settle: Settle
    ) -> None:
        self._id: Final = extent_id
        self._file: Final = file
        self._threads: Final = threads
        self._settle: Final = settle
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._size = 0
        self._on_its_way: asyncio.Future[None] | None = None
        self._sealed = False

    async def write(self, chunk: bytes) -> None:
        if not chunk:
            return
        self._gathered.append(chunk)
        self._gathered_bytes += len(chunk)
        self._size += len(chunk)
        if self._gathered_bytes >= batch_bytes:
            await self._arrived()
            self._send()

    @property
    def crc64(self) -> int:
        assert not self._gathered
        assert self._on_its_way is None
        return self._file.sums.crc

    async def flush(self) -> None:
        await self._arrived()
        if self._gathered:
            self._send()
            await self._arrived()

    async def seal(self) -> Extent:
        await self._arrived()
        gathered, self._gathered = self._gathered, []
        await self._threads.run(partial(self._file.seal, gathered, self._settle))
        self._sealed = True
        return Extent(self._id, self._size)

    async def abort(self) -> None:
        if self._sealed:
            return
        if self._on_its_way is not None:
            self._on_its_way.cancel()
            self._on_its_way = None
        self._gathered = []
        await self._threads.run(self._file.abandon)

    def _send(self) -> None:
        self._on_its_way = self._threads.run(partial(self._file.append, self._gathered))
        self._gathered = []
        self._gathered_bytes = 0

    async def _arrived(self) -> None:
        waiting, self._on_its_way = self._on_its_way, None
        if waiting is not None:
            await waiting
