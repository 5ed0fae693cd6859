"""Room on the disk that is kept back for writes that make more of it.

LMDB never changes a page in place: even a delete needs pages before it frees any.  On a disk that
is full to the last one, nothing could be deleted any more.  So a file of the store's own holds some
room, and gives it up when a write that frees rows finds none.
"""

import os
import time
from pathlib import Path
from typing import Final

from etagere.kv.overlay import Writes

reserve_bytes: Final = 4 * 1024 * 1024
put_bytes_max: Final = 64 * 1024
"""A write that puts more than this does not count as one that makes room."""

seconds_between_attempts: Final = 1.0

file_name: Final = "reserve"


class Reserve:
    """Processes may share one; what one has released or restored, it is for all."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / file_name
        self._missing = True
        self._next_attempt = 0.0
        self.restore()

    def restore(self) -> None:
        """Takes the room back if it is missing and there is enough again."""
        if not self._missing or time.monotonic() < self._next_attempt:
            return
        try:
            file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return
        try:
            os.posix_fallocate(file, 0, reserve_bytes)
            self._missing = False
        except OSError:
            os.ftruncate(file, 0)
            self._next_attempt = time.monotonic() + seconds_between_attempts
        finally:
            os.close(file)

    def release(self) -> bool:
        """Whether there is more room now than before."""
        self._missing = True
        self._next_attempt = time.monotonic() + seconds_between_attempts
        try:
            file = os.open(self._path, os.O_RDWR)
        except OSError:
            return False
        try:
            size = os.fstat(file).st_size
            os.ftruncate(file, 0)
        finally:
            os.close(file)
        return size > 0


def makes_room(writes: Writes) -> bool:
    put_bytes = 0
    deletes = 0
    for changes in writes.values():
        for value in changes.values():
            if value is None:
                deletes += 1
            else:
                put_bytes += len(value)
    return deletes > 0 and put_bytes <= put_bytes_max
