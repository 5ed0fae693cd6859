"""Transactions over a snapshot: reads go to it, writes stay in an overlay that reads look through.

The overlay is what a body wrote, by partition; nothing of it reaches the engine until the body has
returned, so that one that raises leaves no trace.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from etagere.base.clock import Timestamp
from etagere.kv.contract import EngineLimits, LimitExceeded, OutsidePartition, Partition, StoreError
from etagere.kv.tuples import after

Row = tuple[bytes, bytes]
Writes = dict[Partition, dict[bytes, bytes | None]]
"""What to put, by partition and key; None is to delete."""

_slack: Final = 8
"""Rows read beyond what is wanted, so that a few own deletes do not cost a second scan."""

_unwritten: Final = object()


class Snapshot(Protocol):
    """What an embedded engine gives: one state of its rows, read without waiting."""

    def get(self, part: Partition, key: bytes) -> bytes | None: ...

    def scan(
        self, part: Partition, begin: bytes, end: bytes, limit: int, reverse: bool
    ) -> list[Row]: ...


class SnapshotTx:
    """A `ReadTx`."""

    __slots__ = ("_snapshot", "now")

    def __init__(self, snapshot: Snapshot, now: Timestamp) -> None:
        self._snapshot = snapshot
        self.now = now

    async def get(self, part: Partition, key: bytes) -> bytes | None:
        return self._snapshot.get(part, key)

    async def scan(
        self, part: Partition, begin: bytes, end: bytes, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        return self._snapshot.scan(part, begin, end, limit, reverse)


class OverlayTx:
    """A `Tx`.  The engine takes `writes`, `topics` and `last_stamp` from it after `finish`."""

    __slots__ = (
        "_limits",
        "_order",
        "_refusal",
        "_room",
        "_snapshot",
        "last_stamp",
        "now",
        "topics",
        "writes",
    )

    def __init__(
        self,
        snapshot: Snapshot,
        parts: tuple[Partition, ...],
        now: Timestamp,
        last_stamp: int,
        limits: EngineLimits,
    ) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._room = limits.transaction_bytes
        self._order: dict[Partition, list[bytes]] = {}
        self._refusal: StoreError | None = None
        self.now = now
        self.last_stamp = last_stamp
        self.topics: list[bytes] = []
        self.writes: Writes = {parts[0]: {}} if len(parts) == 1 else {part: {} for part in parts}

    async def get(self, part: Partition, key: bytes) -> bytes | None:
        own = self.writes.get(part)
        if own is None:
            raise self._outside(part)
        if own:
            value = own.get(key, _unwritten)
            if value is not _unwritten:
                return value  # type: ignore[return-value]  # not the sentinel
        return self._snapshot.get(part, key)

    async def scan(
        self, part: Partition, begin: bytes, end: bytes, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        own = self._own(part)
        if own:
            keys = self._order.get(part)
            if keys is None or len(keys) != len(own):  # keys are never taken out of `own`
                keys = self._order[part] = sorted(own)
            first, last = bisect_left(keys, begin), bisect_left(keys, end)
            if first < last:
                mine = keys[first:last]
                return _merge(
                    self._snapshot,
                    part,
                    own,
                    mine,
                    begin=begin,
                    end=end,
                    limit=limit,
                    reverse=reverse,
                )
        return self._snapshot.scan(part, begin, end, limit, reverse)

    def stamp(self) -> int:
        self.last_stamp = max(self.last_stamp + 1, self.now)
        return self.last_stamp

    def put(self, part: Partition, key: bytes, value: bytes) -> None:
        own = self._own(part)
        self._take_room(len(key), len(value))
        own[key] = value

    def delete(self, part: Partition, key: bytes) -> None:
        own = self._own(part)
        self._take_room(len(key), 0)
        own[key] = None

    def put_all(self, part: Partition, rows: Mapping[bytes, bytes]) -> None:
        own = self._own(part)
        if rows:
            values = rows.values()
            self._take_room_for_all(rows, max(map(len, values)), sum(map(len, values)))
            own.update(rows)

    def delete_all(self, part: Partition, keys: Sequence[bytes]) -> None:
        own = self._own(part)
        if keys:
            self._take_room_for_all(keys, 0, 0)
            own.update(dict.fromkeys(keys))

    def notify(self, topic: bytes) -> None:
        self.topics.append(topic)

    def finish(self) -> None:
        """Before the writes are taken: a refusal that the body swallowed is raised again."""
        if self._refusal is not None:
            raise self._refusal

    @property
    def written_bytes(self) -> int:
        return self._limits.transaction_bytes - self._room

    def _own(self, part: Partition) -> dict[bytes, bytes | None]:
        own = self.writes.get(part)
        if own is None:
            raise self._outside(part)
        return own

    def _outside(self, part: Partition) -> StoreError:
        self._refusal = OutsidePartition(part)
        return self._refusal

    def _take_room(self, key_bytes: int, value_bytes: int) -> None:
        limits = self._limits
        self._room -= key_bytes + value_bytes
        if key_bytes > limits.key_bytes or value_bytes > limits.value_bytes or self._room < 0:
            self._refusal = LimitExceeded(key_bytes, value_bytes, self._room)
            raise self._refusal

    def _take_room_for_all(self, keys: Collection[bytes], longest: int, value_bytes: int) -> None:
        key_bytes = max(map(len, keys))
        if key_bytes > self._limits.key_bytes or longest > self._limits.value_bytes:
            self._take_room(key_bytes, longest)  # refused
        room = sum(map(len, keys)) + value_bytes
        self._room -= room
        if self._room < 0:
            self._refusal = LimitExceeded(key_bytes, longest, self._room)
            raise self._refusal


def _merge(
    snapshot: Snapshot,
    part: Partition,
    own: dict[bytes, bytes | None],
    mine: list[bytes],
    *,
    begin: bytes,
    end: bytes,
    limit: int,
    reverse: bool,
) -> list[Row]:
    """A scan of the snapshot seen through own writes; `mine` are their sorted keys in the range."""
    out: list[Row] = []
    if reverse:
        mine.reverse()
    at = 0
    rows: list[Row] = []
    row_at = 0
    more = True
    while len(out) < limit:
        if row_at == len(rows) and more:
            wanted = limit - len(out) + _slack
            rows = snapshot.scan(part, begin, end, wanted, reverse)
            row_at = 0
            more = len(rows) == wanted
            if more and reverse:
                end = rows[-1][0]
            elif more:
                begin = after(rows[-1][0])
        if row_at < len(rows):
            row = rows[row_at]
            if at == len(mine) or (row[0] > mine[at] if reverse else row[0] < mine[at]):
                out.append(row)
                row_at += 1
                continue
            if row[0] == mine[at]:
                row_at += 1
        elif at == len(mine):
            break
        value = own[mine[at]]
        if value is not None:
            out.append((mine[at], value))
        at += 1
    return out
