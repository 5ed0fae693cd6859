"""Extents: immutable runs of bytes that are too large for the store.

What every extent store promises, and `tests/extents/test_contract.py` checks of each:

- An extent is written once, under an id that was never used before, and never changed.
- `seal` returns after the bytes, and the name under which they are found, are on stable storage
  (with relaxed durability: within a second of the return).  Only then may a transaction refer to
  the extent; what makes an extent real is that reference (`extents.references`), never its file.
- An upload that was aborted, that failed, or that had not been sealed when the process died is
  referred to by nobody: what it left behind is an orphan, and `references.scrub` removes it.
- `read` hands out no byte whose checksum it has not verified.
- Memory is bounded by a few pieces for each stream, whatever the size of the extent.
- No method blocks the event loop on a disk.

Bytes in are bytes stored.  A store that encrypts at rest (customer-provided keys, encryption
scopes) wraps another `ExtentStore`: it transforms what `write` is given and what `read` yields, and
nothing above or below notices.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Final, NewType, Protocol

from etagere.base.clock import Timestamp
from etagere.base.entropy import Entropy

ExtentId = NewType("ExtentId", bytes)
"""16 random bytes, so that any process may name a new extent without asking anyone."""

extent_id_bytes: Final = 16

piece_bytes_max: Final = 1 << 20
"""What `read` yields at a time, at most.  A hop to another thread costs some 50 us, which at this
size is a fifth of the time it takes to copy the bytes to a socket."""


def new_extent_id(entropy: Entropy) -> ExtentId:
    return ExtentId(entropy.token(extent_id_bytes))


@dataclass(frozen=True, slots=True)
class Extent:
    """What a record keeps of an extent: its name and how many bytes there are."""

    id: ExtentId
    size: int


@dataclass(frozen=True, slots=True)
class StoredExtent:
    """An extent as the store of extents sees it, sealed or not, referred to or not."""

    id: ExtentId
    stored_bytes: int
    """With checksums: somewhat above the size that went in."""
    modified: Timestamp
    """The last write to it, by the clock of the disk's machine."""


@dataclass(frozen=True, slots=True)
class Usage:
    extents: int
    stored_bytes: int


class ExtentWriter(Protocol):
    """One upload.  Its calls do not overlap; it ends with `seal` or `abort`."""

    async def write(self, chunk: bytes) -> None:
        """Append.  The chunk may be kept until the next call returns: do not change it.

        Returns when there is room for more, not when it is written: a failure may come out of a
        later call.  It has then removed what was written, and no other call will succeed.
        """
        ...

    @property
    def crc64(self) -> int:
        """CRC-64/NVME of all that was written; known after `flush`."""
        ...

    async def flush(self) -> None:
        """Return when all that was given is written (not synced)."""
        ...

    async def seal(self) -> Extent: ...

    async def abort(self) -> None:
        """Leave nothing behind.  Harmless after `seal`, and when called again."""
        ...


class ExtentStore(Protocol):
    def writer(self, extent_id: ExtentId, *, size_hint: int | None = None) -> ExtentWriter:
        """Begin an upload of about `size_hint` bytes; nothing happens before the first write.

        A hint lets the store refuse what has no room before it has taken it all (StoreFull).
        """
        ...

    def read(
        self, extent: Extent, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes from `offset`, `length` of them or up to the end, in pieces.

        `ExtentMissing` and `ExtentDamaged` come before the first byte that they concern.  A stream
        that has yielded its first piece outlives `remove`.  Whoever leaves the loop early closes
        the generator (`contextlib.aclosing`).
        """
        ...

    async def remove(self, extent_id: ExtentId) -> None:
        """Forget these bytes, if they are there."""
        ...

    def list(self) -> AsyncIterator[StoredExtent]:
        """Everything that is stored, in no order; what comes and goes meanwhile may be missed."""
        ...

    async def usage(self) -> Usage:
        """A count of everything: it walks, so ask seldom."""
        ...

    async def verify(self, extent: Extent) -> None:
        """Read all of it; raises ExtentMissing or ExtentDamaged."""
        ...

    async def close(self) -> None:
        """Bring what is still on its way to stable storage, and let go."""
        ...


class ExtentError(Exception):
    """
    ExtentError
    +- ExtentMissing     no such extent in the store
    +- ExtentDamaged     its bytes are not those that were written
    +- ExtentGone        too late to refer to it: it was given up, and is being removed

    No room is `kv.contract.StoreFull`, any other failure to write `kv.contract.StoreFailed`.
    """

    def __init__(self, reason: str, extent_id: ExtentId) -> None:
        super().__init__(reason)
        self.id = extent_id


class ExtentMissing(ExtentError):  # noqa: N818
    pass


class ExtentDamaged(ExtentError):  # noqa: N818
    def __init__(self, reason: str, extent_id: ExtentId, offset: int | None = None) -> None:
        super().__init__(reason, extent_id)
        self.offset = offset
        """Where the first damaged run of data begins, when it is data that is damaged."""


class ExtentGone(ExtentError):  # noqa: N818
    pass
