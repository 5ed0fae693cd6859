"""The store in memory: for tests, where it is strict, and for `--in-memory`, where it is fast.

Everything happens on the event loop's thread and a body runs to its end without suspending, so a
read is one snapshot and writes are serial without any locking.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar, cast

from sortedcontainers import SortedDict

from etagere.base.clock import Clock, Timestamp
from etagere.base.faults import Faults, NoFaults
from etagere.kv.contract import (
    Body,
    BodyNotRepeatable,
    EngineLimits,
    Partition,
    ReadTx,
    Signal,
    StoreClosed,
    Tx,
    embedded_limits,
)
from etagere.kv.overlay import OverlayTx, Row, SnapshotTx, Writes
from etagere.kv.runner import run
from etagere.kv.topics import Topics
from etagere.kv.tuples import unpack

T = TypeVar("T")

_no_faults: Final = NoFaults()


class MemoryEngine:
    """`strict` looks for what only engines elsewhere would stumble over:

    - every write's body is run twice from the start, the first run thrown away; another result,
      refusal or set of writes in the second is BodyNotRepeatable;
    - a write lets other tasks run before its body and after its commit;
    - a partition that is no packed tuple is refused.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        strict: bool = True,
        faults: Faults = _no_faults,
        limits: EngineLimits = embedded_limits,
    ) -> None:
        self._clock = clock
        self._strict = strict
        self._faults = faults
        self._limits = limits
        self._rows = _Rows()
        self._last_stamp = 0
        self._topics = Topics()

    @property
    def limits(self) -> EngineLimits:
        return self._limits

    async def read(self, body: Body[ReadTx, T]) -> T:
        self._check_open()
        return run(body, SnapshotTx(self._rows, self._clock.now()))

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        self._check_open()
        if self._strict:
            for part in parts:
                unpack(part)
            await asyncio.sleep(0)
            self._check_open()
        now = self._clock.now()
        attempt = self._attempt(parts, body, now)
        if self._strict:
            first, attempt = attempt, self._attempt(parts, body, now)
            if not first.same_as(attempt):
                raise BodyNotRepeatable(body) from (attempt.error or first.error)
        tx = attempt.tx
        self._last_stamp = tx.last_stamp
        if attempt.error is not None:
            raise attempt.error
        self._faults.reach("before_commit")
        self._rows.apply(tx.writes)
        self._topics.publish(tx.topics)
        self._faults.reach("after_commit_before_reply")
        if self._strict:
            await asyncio.sleep(0)
        return cast("T", attempt.result)

    def watch(self, topic: bytes) -> AbstractAsyncContextManager[Signal]:
        return self._topics.watch(topic)

    def version(self, part: Partition) -> int | None:
        """Reading costs no more than asking would."""
        del part
        return None

    def at_rest(self, last_stamp: int | None = None) -> "RestingTx":
        """Everything that there is now, as `kv.check`'s checkers read it."""
        return RestingTx(self._rows, self._last_stamp if last_stamp is None else last_stamp)

    async def reset(self) -> None:
        """Forget every row; stamps go on rising, and every watcher is woken."""
        self._rows = _Rows()
        self._topics.publish_all()

    async def close(self) -> None:
        self._topics.close()

    def _check_open(self) -> None:
        if self._topics.closed:
            raise StoreClosed

    def _attempt(
        self, parts: tuple[Partition, ...], body: Body[Tx, T], now: Timestamp
    ) -> "_Attempt":
        tx = OverlayTx(self._rows, parts, now, self._last_stamp, self._limits)
        try:
            result = run(body, tx)
            tx.finish()
        except Exception as error:  # noqa: BLE001 - raised again once it was compared
            return _Attempt(tx, None, error)
        return _Attempt(tx, result, None)


@dataclass(slots=True)
class _Attempt:
    """One run of a body, nothing of it applied."""

    tx: OverlayTx
    result: object
    error: Exception | None

    def same_as(self, other: "_Attempt") -> bool:
        return (
            self.tx.writes == other.tx.writes
            and self.tx.topics == other.tx.topics
            and self.tx.last_stamp == other.tx.last_stamp
            and _same(self.result, other.result)
            and type(self.error) is type(other.error)
        )


def _same(a: object, b: object) -> bool:
    if type(a) is type(b) and type(a).__eq__ is object.__eq__:
        return True  # no notion of being equal, so nothing to hold against it
    return a == b


class RestingTx(SnapshotTx):
    """A `kv.check.CheckTx`."""

    __slots__ = ("_rows", "last_stamp")

    def __init__(self, rows: "_Rows", last_stamp: int) -> None:
        super().__init__(rows, Timestamp(0))
        self._rows = rows
        self.last_stamp = last_stamp

    def partitions(self) -> Iterator[Partition]:
        return self._rows.partitions()


class _Rows:
    """Every row, by partition; a `Snapshot` for as long as nobody applies writes to it."""

    def __init__(self) -> None:
        self._parts: dict[Partition, SortedDict] = {}

    def get(self, part: Partition, key: bytes) -> bytes | None:
        rows = self._parts.get(part)
        return None if rows is None else rows.get(key)

    def scan(
        self, part: Partition, begin: bytes, end: bytes, limit: int, reverse: bool
    ) -> list[Row]:
        rows = self._parts.get(part)
        if rows is None or limit <= 0 or begin >= end:
            return []
        keys = rows.irange(begin, end, (True, False), reverse)
        return [(key, rows[key]) for key in islice(keys, limit)]

    def partitions(self) -> Iterator[Partition]:
        return iter(sorted(self._parts))

    def apply(self, writes: Writes) -> None:
        for part, changes in writes.items():
            if not changes:
                continue
            rows = self._parts.get(part)
            if rows is None:
                rows = self._parts[part] = SortedDict()
            for key, value in changes.items():
                if value is not None:
                    rows[key] = value
                else:
                    rows.pop(key, None)
            if not rows:
                del self._parts[part]
