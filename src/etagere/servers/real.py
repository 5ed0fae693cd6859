"""The real clock, the virtual clock, and the operating system's chance."""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Final, Protocol

from etagere.base.clock import Clock, Timestamp, ticks_per_second

nanoseconds_per_tick: Final = 100
_variants: Final = "89ab"
_never: Final = float("inf")


class TimerClock(Clock, Protocol):
    """A clock that can also be waited for."""

    def seconds_until(self, when: Timestamp) -> float:
        """How long that is in the loop's seconds; infinite while time stands still."""
        ...

    def on_move(self, callback: Callable[[], None]) -> None:
        """Call back after time jumped or changed its pace."""
        ...


class RealClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time_ns() // nanoseconds_per_tick)

    def seconds_until(self, when: Timestamp) -> float:
        return (when - self.now()) / ticks_per_second

    def on_move(self, callback: Callable[[], None]) -> None:
        """The real clock is never moved by us."""


class SteadyClock:
    """Time since some moment: it goes on evenly, whatever is done to the other clocks."""

    def now(self) -> Timestamp:
        return Timestamp(time.monotonic_ns() // nanoseconds_per_tick)

    def seconds_until(self, when: Timestamp) -> float:
        return (when - self.now()) / ticks_per_second

    def on_move(self, callback: Callable[[], None]) -> None:
        """Nobody moves it."""


class VirtualClock:
    """Real time plus an offset, or a moment at which it stands still.

    Both numbers lie in a small shared file, so that every worker of a server tells the same time
    as soon as one moves it; `moved` then wakes what sleeps in this process.  One process writes
    (the one with the admin port), the others look at an even sequence number before and after.
    """

    _layout: Final = struct.Struct("=qqq")  # sequence, offset, standing still at (or -1)

    def __init__(self, shared_fd: int | None = None) -> None:
        self.fd = _shared_file(self._layout.size) if shared_fd is None else shared_fd
        self._memory = mmap.mmap(self.fd, self._layout.size)
        self._callbacks: list[Callable[[], None]] = []
        if shared_fd is None:
            self._layout.pack_into(self._memory, 0, 0, 0, -1)

    def now(self) -> Timestamp:
        offset, still_at = self._read()
        if still_at >= 0:
            return Timestamp(still_at)
        return Timestamp(time.time_ns() // nanoseconds_per_tick + offset)

    def seconds_until(self, when: Timestamp) -> float:
        left = (when - self.now()) / ticks_per_second
        return _never if left > 0 and self.is_frozen else left

    def on_move(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    @property
    def is_frozen(self) -> bool:
        return self._read()[1] >= 0

    def advance(self, ticks: int) -> None:
        offset, still_at = self._read()
        self._write(offset + ticks, still_at + ticks if still_at >= 0 else -1)

    def set(self, when: Timestamp) -> None:
        self.advance(when - self.now())

    def freeze(self) -> None:
        self._write(self._read()[0], self.now())

    def resume(self) -> None:
        """Go on from the moment at which time stood still."""
        now = self.now()
        self._write(now - time.time_ns() // nanoseconds_per_tick, -1)

    def moved(self) -> None:
        for callback in self._callbacks:
            callback()

    def _read(self) -> tuple[int, int]:
        while True:
            before, offset, still_at = self._layout.unpack_from(self._memory)
            (after,) = struct.unpack_from("=q", self._memory)
            if before == after and not before & 1:
                return offset, still_at

    def _write(self, offset: int, still_at: int) -> None:
        (sequence,) = struct.unpack_from("=q", self._memory)
        struct.pack_into("=q", self._memory, 0, sequence + 1)
        struct.pack_into("=qq", self._memory, 8, offset, still_at)
        struct.pack_into("=q", self._memory, 0, sequence + 2)
        self.moved()


def _shared_file(size: int) -> int:
    """A nameless file for processes that inherit it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("etagere-clock")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


class SystemEntropy:
    """Drawn from the operating system in blocks: a system call for each token would show."""

    _block_bytes: Final = 4096

    def __init__(self) -> None:
        self._block = b""
        self._used = 0

    def token(self, size: int) -> bytes:
        if size > self._block_bytes:
            return os.urandom(size)
        if self._used + size > len(self._block):
            self._block = os.urandom(self._block_bytes)
            self._used = 0
        start = self._used
        self._used = start + size
        return self._block[start : self._used]

    def uuid(self) -> str:
        # RFC 9562 version 4; uuid.UUID takes three times as long, and every request has an id.
        text = self.token(16).hex()
        variant = _variants[int(text[16], 16) & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
