"""One LMDB environment: its files, its map, and what its failures mean.

LMDB maps its file into memory.  The map is address space, not memory, and must be as large as the
file may become; making it larger forbids any transaction in this process meanwhile.  `guard` keeps
the two apart: readers hold it for as long as they read, and whoever changes the map holds it, on
the one thread that also writes.
"""

import errno
import os
import resource
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import lmdb

from etagere.kv.contract import StoreError, StoreFailed, StoreFull, StoreUnusable

Durability = Literal["sync", "relaxed"]

readers_max: Final = 254
lock_file_bytes: Final = 64 * (readers_max + 2)
"""A slot of the reader table is 64 bytes, and so are each of two headers."""

probe_bytes: Final = 1024 * 1024
"""A file system that cannot give this much is full."""

data_file_name: Final = "data.mdb"
lock_file_name: Final = "lock.mdb"

_full: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Environment:
    """Opened files.  Only the writer's thread calls what changes the map or begins a write."""

    def __init__(self, path: Path, *, map_bytes: int, durability: Durability) -> None:
        self.path: Final = path
        self.guard: Final = threading.RLock()
        self._map_bytes = map_bytes
        self._durability = durability
        missing = _make_directory(path)
        self.lmdb = self._open()
        self.row_key_bytes: Final = self.lmdb.max_key_size()
        for directory in missing:  # LMDB syncs its file but not the directories that lead to it
            _sync_directory(directory)
        self.check_readers()

    def _open(self) -> lmdb.Environment:
        try:
            _reserve_lock_file(self.path / lock_file_name)
            env = lmdb.open(
                str(self.path),
                map_size=self._map_bytes,
                metasync=self._durability == "sync",
                max_readers=readers_max,
                max_spare_txns=1,
                mode=0o700,
            )
        except (OSError, lmdb.Error) as error:
            raise StoreUnusable(f"{self.path}: {error}") from error
        try:
            # A process that was killed may have left commits that only the system's cache has;
            # nobody is to read them before they are on the disk.
            env.sync(True)
        except lmdb.Error as error:
            env.close()
            raise StoreUnusable(f"{self.path}: {error}") from error
        return env

    def begin_read(self) -> "lmdb.Transaction[bytes]":
        """A snapshot; the caller holds `guard`, and has the map adopted on MapResizedError."""
        try:
            return self.lmdb.begin()
        except lmdb.ReadersFullError:
            self.lmdb.reader_check()
            return self.lmdb.begin()

    def begin_write(self) -> "lmdb.Transaction[bytes]":
        """Waits for writers in other processes."""
        return self.lmdb.begin(write=True)

    def grow_map(self) -> None:
        """Two to four times the address space; StoreFull if the system does not give it."""
        with self.guard:
            size = 2 << self.lmdb.info()["map_size"].bit_length()
            try:
                self.lmdb.set_mapsize(size)
            except lmdb.Error as error:
                self._reopen()  # the old map is gone by now
                raise StoreFull(f"map of {size} bytes: {error}") from error
            self._map_bytes = size

    def adopt_map(self) -> None:
        """The size that another process has grown the map to."""
        with self.guard:
            self.lmdb.set_mapsize(0)
            self._map_bytes = self.lmdb.info()["map_size"]

    def recover(self) -> None:
        """After a failed commit.  LMDB goes on from most; having failed to write a meta page, it
        refuses everything until it is opened anew."""
        with self.guard:
            try:
                self.begin_write().abort()
            except lmdb.MapResizedError:
                pass  # the next write adopts it
            except lmdb.Error:
                with suppress(StoreUnusable):  # then the next write fails, and comes here again
                    self._reopen()

    def check_readers(self) -> None:
        """Frees what the snapshots of killed processes hold on to."""
        with suppress(lmdb.Error):
            self.lmdb.reader_check()

    def _reopen(self) -> None:
        self.lmdb.close()
        self.lmdb = self._open()

    def close(self) -> None:
        with self.guard:
            self.lmdb.close()

    def file_bytes(self) -> int:
        return (self.path / data_file_name).stat().st_size

    def meaning(self, error: lmdb.Error) -> StoreError:
        """What a failed commit comes to for those who waited for it."""
        code = getattr(error, "code", 0)  # those that the binding itself raises have none
        if code in _full or isinstance(error, lmdb.DiskError):
            return StoreFull(str(error))
        # LMDB calls a write that came out short EIO, whatever the reason.
        if code == errno.EIO and self._is_full():
            return StoreFull(str(error))
        return StoreFailed(str(error))

    def _is_full(self) -> bool:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY and self.file_bytes() + probe_bytes > limit:
            return True
        probe = self.path / f"room-{os.getpid()}"
        try:
            file = os.open(probe, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                os.posix_fallocate(file, 0, probe_bytes)
            finally:
                os.close(file)
        except OSError as error:
            return error.errno in _full
        finally:
            with suppress(OSError):
                probe.unlink()
        return False


def _make_directory(path: Path) -> list[Path]:
    """The directories that have something new in them, once the store is open."""
    try:
        changed = [] if (path / data_file_name).exists() else [path]
        changed += [each.parent for each in (path, *path.parents) if not each.exists()]
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnusable(f"{path}: {error.strerror}") from error
    return changed


def _reserve_lock_file(path: Path) -> None:
    """LMDB makes the file sparse and writes to it through a map: with the disk full, the first use
    of a slot on a page without a block would end the process with SIGBUS."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    try:
        os.posix_fallocate(file, 0, lock_file_bytes)
    finally:
        os.close(file)


def _sync_directory(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
