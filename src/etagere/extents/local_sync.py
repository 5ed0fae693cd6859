"""Brings complete files to stable storage: now, or within a second.

Nothing gathers the syncs of several uploads into one: each thread syncs its own file, and the file
system's journal does the gathering.  Measured on ext4 (128 KiB each, files a second): one after
the other 2,200; eight threads 5,200 to 6,000; one thread syncing a gathered group 1,400; `syncfs`
for a group 2,200, and it would wait for everybody else's writes, the store's among them.
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from etagere.extents.threads import DiskThreads

delay_seconds_max: Final = 1.0
unsynced_max: Final = 256
"""Descriptors kept open; with more, the next sync does not wait for its time."""

_log: Final = logging.getLogger(__name__)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_now(descriptor: int, path: Path) -> None:
    """The file's data, and the name that leads to it."""
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


class SyncSoon:
    """Relaxed durability: a complete file is on stable storage within a second.

    What survives the process (which is everything) is not in question here, only what survives the
    machine.  A sync that fails is reported in the log and by nothing else: its upload was
    acknowledged, and reads will say what is missing.
    """

    def __init__(self, threads: DiskThreads) -> None:
        self._threads: Final = threads
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsynced: list[tuple[int, Path]] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Called on the loop before a thread calls `add`."""
        self._loop = asyncio.get_running_loop()

    def add(self, descriptor: int, path: Path) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._added, descriptor, path)

    def _added(self, descriptor: int, path: Path) -> None:
        assert self._loop is not None
        self._unsynced.append((descriptor, path))
        if len(self._unsynced) >= unsynced_max:
            self._start()
        elif self._timer is None:
            # Half of the time for waiting, the other half for syncing.
            self._timer = self._loop.call_later(delay_seconds_max / 2, self._start)

    def _start(self) -> None:
        for call in self._taken():
            self._threads.start(call)

    async def finish(self) -> None:
        """Sync what is waiting."""
        await asyncio.gather(*(self._threads.run(call) for call in self._taken()))

    def _taken(self) -> "list[partial[None]]":
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        taken, self._unsynced = self._unsynced, []
        share = max(1, -(-len(taken) // self._threads.threads_max))
        return [partial(_sync_all, taken[at : at + share]) for at in range(0, len(taken), share)]


def _sync_all(files: Iterable[tuple[int, Path]]) -> None:
    directories = set()
    for descriptor, path in files:
        directories.add(path.parent)
        try:
            os.fdatasync(descriptor)
        except OSError:
            _log.exception("an acknowledged extent could not be synced: %s", path)
        finally:
            os.close(descriptor)
    for directory in directories:
        try:
            sync_directory(directory)
        except OSError:
            _log.exception("a directory of extents could not be synced: %s", directory)
