"""The store: transactional, ordered, byte keys and values, in partitions.

What every engine promises, and `tests/kv/test_contract.py` checks of each:

- `read` sees one snapshot of the whole store, whichever partitions it asks for.
- `write` is serializable inside the partitions that it names.  It may touch no others; the strict
  engine refuses a key outside them.  It returns after the data is on stable storage.
- A body is a coroutine function that awaits nothing but its transaction's reads.  It may be run
  again from the start, so it changes nothing outside the transaction.  It takes its time from
  `tx.now` and its randomness from values drawn before it began.
- A body sees its own writes, in scans too.  One that raises leaves no trace and disturbs no
  neighbour in the same commit.
- Keys are at most `limits.key_bytes` long, values `limits.value_bytes`; beyond that `put` raises
  `LimitExceeded` and the transaction is abandoned.  Nothing is ever split.
- A topic given to `notify` wakes its watchers after the commit, and only then.  It is a hint:
  a watcher looks at the store to learn what happened.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, NewType, Protocol, TypeVar

from etagere.base.clock import Timestamp

T = TypeVar("T")
X_contra = TypeVar("X_contra", contravariant=True)

Partition = NewType("Partition", bytes)
"""An encoded tuple (`kv.tuples.pack`) that names one unit of isolation; built in `keys` modules."""

Body = Callable[[X_contra], Coroutine[Any, Any, T]]


class ReadTx(Protocol):
    @property
    def now(self) -> Timestamp:
        """One reading of the clock per attempt."""
        ...

    def get(self, part: Partition, key: bytes) -> Awaitable[bytes | None]: ...

    def scan(
        self, part: Partition, begin: bytes, end: bytes, *, limit: int, reverse: bool = False
    ) -> Awaitable[list[tuple[bytes, bytes]]]:
        """Up to `limit` rows with begin <= key < end, in key order (from the end if `reverse`).

        Fewer than `limit` rows mean that there are no more.
        """
        ...


class Tx(ReadTx, Protocol):
    def stamp(self) -> int:
        """A number above every stamp taken before it in this store, and not below `now`.

        It survives restarts and clocks that step back; ETags and sequence-like ids are made of it.
        """
        ...

    def put(self, part: Partition, key: bytes, value: bytes) -> None: ...

    def delete(self, part: Partition, key: bytes) -> None: ...

    def put_all(self, part: Partition, rows: Mapping[bytes, bytes]) -> None:
        """`put` for each, at less cost."""
        ...

    def delete_all(self, part: Partition, keys: Sequence[bytes]) -> None:
        """`delete` for each, at less cost."""
        ...

    def notify(self, topic: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineLimits:
    key_bytes: int
    value_bytes: int
    transaction_bytes: int


embedded_limits: Final = EngineLimits(
    key_bytes=16 * 1024,
    value_bytes=4 * 1024 * 1024,
    transaction_bytes=128 * 1024 * 1024,
)
"""What the embedded engines take: one value, so that tests in memory meet the disk's limits."""


class Signal(Protocol):
    async def wait(self) -> None:
        """Return once the topic was notified after the last return (or after `watch` began)."""
        ...


class Engine(Protocol):
    @property
    def limits(self) -> EngineLimits: ...

    async def read(self, body: Body[ReadTx, T]) -> T: ...

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T: ...

    def watch(self, topic: bytes) -> AbstractAsyncContextManager[Signal]: ...

    def version(self, part: Partition) -> int | None:
        """Rises with whatever is written to the partition, before anybody is told of it; None where
        that cannot be known.  What was read after a version was asked for need not be read again
        while the version is the same."""
        ...

    async def close(self) -> None: ...


class StoreError(Exception):
    """
    StoreError
    +- LimitExceeded      a key, value or transaction larger than the engine takes
    +- OutsidePartition   a body touched a partition that its `write` did not name (a bug of ours)
    +- ForeignAwait       a body awaited something other than its transaction (a bug of ours)
    +- BodyNotRepeatable  a second run of a body came to something else (a bug of ours)
    +- StoreFull          no room on the disk; nothing of the commit was kept
    +- StoreFailed        the commit failed; nothing of it was acknowledged
    +- StoreClosed        the engine is closing
    +- DamagedRecord      a value does not hold what it should; the arguments say what and why
    +- StoreUnusable      it cannot be opened; the text says which directory and why
    """


class LimitExceeded(StoreError):  # noqa: N818
    pass


class OutsidePartition(StoreError):  # noqa: N818
    pass


class ForeignAwait(StoreError):  # noqa: N818
    pass


class BodyNotRepeatable(StoreError):  # noqa: N818
    pass


class StoreFull(StoreError):  # noqa: N818
    pass


class StoreFailed(StoreError):  # noqa: N818
    pass


class StoreClosed(StoreError):  # noqa: N818
    pass


class StoreUnusable(StoreError):  # noqa: N818
    pass


class DamagedRecord(StoreError):  # noqa: N818
    pass
