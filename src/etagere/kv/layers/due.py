"""What is to be done at a time: an index by time that survives whoever was to do it.

In a partition, below the items that a `DueIndex` is made with:

    (..., "at", time, kind, name) -> payload
    (..., "of", kind, name)       -> (time) packed

One (kind, name) is due at one time at most; scheduling it again moves it.  Whoever does what is due
cancels it in the same transaction, so that it is done once.
"""

from dataclasses import dataclass
from typing import cast

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import Item, pack, unpack


@dataclass(frozen=True, slots=True)
class Due:
    at: Timestamp
    kind: str
    name: Item
    payload: bytes


class DueIndex:
    def __init__(self, *prefix: Item) -> None:
        self._by_time = pack(*prefix, "at")
        self._by_name = pack(*prefix, "of")
        self._prefix_items = len(prefix) + 1

    async def schedule(
        self,
        tx: Tx,
        part: Partition,
        at: Timestamp,
        kind: str,
        name: Item,
        payload: bytes = b"",
    ) -> None:
        thing = pack(kind, name)
        packed_at = pack(at)
        before = await tx.get(part, self._by_name + thing)
        if before is not None and before != packed_at:
            tx.delete(part, self._by_time + before + thing)
        if before != packed_at:
            tx.put(part, self._by_name + thing, packed_at)
        tx.put(part, self._by_time + packed_at + thing, payload)

    async def cancel(self, tx: Tx, part: Partition, kind: str, name: Item) -> bool:
        """Whether it was scheduled."""
        thing = pack(kind, name)
        at = await tx.get(part, self._by_name + thing)
        if at is None:
            return False
        tx.delete(part, self._by_name + thing)
        tx.delete(part, self._by_time + at + thing)
        return True

    async def scheduled_at(
        self, tx: ReadTx, part: Partition, kind: str, name: Item
    ) -> Timestamp | None:
        at = await tx.get(part, self._by_name + pack(kind, name))
        return None if at is None else Timestamp(cast("int", unpack(at)[0]))

    async def due(self, tx: ReadTx, part: Partition, now: Timestamp, limit: int) -> list[Due]:
        """What is due at `now` or was before, the earliest first."""
        begin = self._by_time
        rows = await tx.scan(part, begin, begin + pack(now) + b"\xff", limit=limit)
        return [self._due(key, payload) for key, payload in rows]

    async def next_time(self, tx: ReadTx, part: Partition) -> Timestamp | None:
        """When the earliest is due: when to look again."""
        begin = self._by_time
        rows = await tx.scan(part, begin, begin + b"\xff", limit=1)
        return self._due(*rows[0]).at if rows else None

    def _due(self, key: bytes, payload: bytes) -> Due:
        at, kind, name = unpack(key)[self._prefix_items :]
        return Due(Timestamp(cast("int", at)), cast("str", kind), name, payload)
