"""Compares what records say about extents, what references say, and what is stored.

For `etagere check`, on a store that nobody writes to.  Memory grows with the extents of the largest
partition and with the number of partitions, not with the store.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, Protocol

from etagere.extents import keys
from etagere.extents.contract import (
    Extent,
    ExtentDamaged,
    ExtentId,
    ExtentMissing,
    ExtentStore,
)
from etagere.extents.keys import Range, shard_of
from etagere.extents.references import Held
from etagere.kv.contract import Engine, Partition, ReadTx
from etagere.kv.tuples import after

rows_a_page: Final = 512

Row = tuple[bytes, bytes]


class Fault(Enum):
    ORPHAN = "nobody refers to this stored extent; scrub removes it once it is old"
    MISSING = "a record refers to an extent that is not stored"
    DAMAGED = "a record refers to an extent that is damaged"
    WRONG_COUNT = "a partition's count of references is not what its records add up to"
    NO_EDGE = "a partition holds an extent without an edge: copies of it elsewhere are not seen"
    NO_HOLDER = "an edge leads to a partition that does not hold the extent: it stays for ever"
    UNKNOWN_HOLDER = "an extent is held by a partition that no service knows: nobody will reap it"
    NOT_DUE = "nobody in a partition refers to the extent, and nothing says when it may go"
    STRAY_DUE = "an extent that is referred to, or not held at all, is due to be let go of"
    GIVEN_UP = "an extent that is held has been given up: nobody else could refer to it"


@dataclass(frozen=True, slots=True)
class Finding:
    fault: Fault
    extent_id: ExtentId
    part: Partition | None = None
    details: str = ""

    @property
    def is_harmless(self) -> bool:
        """What a crash is expected to leave behind, and a scrub removes."""
        return self.fault is Fault.ORPHAN


class Referrers(Protocol):
    """What the services know: every partition with records that refer to extents."""

    def partitions(self) -> AsyncIterator[Partition]:
        """Also those whose last reference has gone, as long as something in them is due."""
        ...

    def references(self, part: Partition) -> AsyncIterator[Extent]:
        """One for each reference that the partition's records make, in any order."""
        ...


async def check(
    engine: Engine, store: ExtentStore, referrers: Referrers, *, thorough: bool = True
) -> AsyncGenerator[Finding, None]:
    """Everything that is wrong.  Unless `thorough`, contents are taken on trust: what is looked at
    of each extent is its presence, its length and its footer."""
    known = set()
    async for part in referrers.partitions():
        known.add(part)
        async for finding in _check_part(engine, store, referrers, part, thorough=thorough):
            yield finding
    for shard in keys.all_shards():
        async for finding in _check_shard(engine, shard, known):
            yield finding
    async for stored in store.list():
        if await _first_holder(engine, stored.id) is None:
            yield Finding(Fault.ORPHAN, stored.id, details=f"{stored.stored_bytes} bytes")


async def _check_part(
    engine: Engine, store: ExtentStore, referrers: Referrers, part: Partition, *, thorough: bool
) -> AsyncGenerator[Finding, None]:
    counts: dict[Extent, int] = {}
    async for extent in referrers.references(part):
        counts[extent] = counts.get(extent, 0) + 1
    mentioned: dict[ExtentId, int] = {}
    for extent, count in counts.items():
        mentioned[extent.id] = mentioned.get(extent.id, 0) + count
    async for key, raw in _rows(engine, part, keys.all_held()):
        extent_id, held = keys.held_extent(key), Held.decode(raw)
        expected = mentioned.pop(extent_id, 0)
        if held.count != expected:
            yield _wrong_count(extent_id, part, held.count, expected)
        if await _get(engine, shard_of(extent_id), keys.edge(extent_id, part)) is None:
            yield Finding(Fault.NO_EDGE, extent_id, part)
        if not held.count and await _get(engine, part, keys.due(held.due, extent_id)) is None:
            yield Finding(Fault.NOT_DUE, extent_id, part)
    for extent_id, expected in mentioned.items():
        yield _wrong_count(extent_id, part, 0, expected)
    async for key, _ in _rows(engine, part, keys.all_due()):
        moment, extent_id = keys.due_extent(key)
        found = await _get(engine, part, keys.held(extent_id))
        if found is None or Held.decode(found) != Held(0, moment):
            yield Finding(Fault.STRAY_DUE, extent_id, part)
    for extent in counts:
        # One that several partitions share is read once, for the first of them.
        first = await _first_holder(engine, extent.id)
        if first in (part, None):
            wrong = await _check_content(store, extent, part, thorough=thorough)
            if wrong is not None:
                yield wrong


def _wrong_count(extent_id: ExtentId, part: Partition, found: int, expected: int) -> Finding:
    return Finding(Fault.WRONG_COUNT, extent_id, part, f"{found} counted, {expected} in records")


async def _check_content(
    store: ExtentStore, extent: Extent, part: Partition, *, thorough: bool
) -> Finding | None:
    try:
        if thorough or not extent.size:
            await store.verify(extent)
        else:
            async with aclosing(store.read(extent, 0, 1)) as pieces:
                async for _ in pieces:
                    pass
    except ExtentMissing:
        return Finding(Fault.MISSING, extent.id, part)
    except ExtentDamaged as damage:
        where = "" if damage.offset is None else f" from byte {damage.offset}"
        return Finding(Fault.DAMAGED, extent.id, part, f"{damage}{where}")
    return None


async def _check_shard(
    engine: Engine, shard: Partition, known: set[Partition]
) -> AsyncGenerator[Finding, None]:
    async for key, _ in _rows(engine, shard, keys.all_edges()):
        extent_id, part = keys.edge_ends(key)
        if await _get(engine, part, keys.held(extent_id)) is None:
            yield Finding(Fault.NO_HOLDER, extent_id, part)
        elif part not in known:
            yield Finding(Fault.UNKNOWN_HOLDER, extent_id, part)
    async for key, _ in _rows(engine, shard, keys.all_given_up()):
        extent_id = keys.given_up_extent(key)
        if await _first_holder(engine, extent_id) is not None:
            yield Finding(Fault.GIVEN_UP, extent_id)


async def _rows(engine: Engine, part: Partition, wanted: Range) -> AsyncGenerator[Row, None]:
    begin, end = wanted
    while True:
        rows = await engine.read(partial(_page, part=part, begin=begin, end=end))
        for row in rows:
            yield row
        if len(rows) < rows_a_page:
            return
        begin = after(rows[-1][0])


async def _page(tx: ReadTx, part: Partition, begin: bytes, end: bytes) -> list[Row]:
    return await tx.scan(part, begin, end, limit=rows_a_page)


async def _get(engine: Engine, part: Partition, key: bytes) -> bytes | None:
    async def body(tx: ReadTx) -> bytes | None:
        return await tx.get(part, key)

    return await engine.read(body)


async def _first_holder(engine: Engine, extent_id: ExtentId) -> Partition | None:
    async def body(tx: ReadTx) -> Partition | None:
        rows = await tx.scan(shard_of(extent_id), *keys.edges_of(extent_id), limit=1)
        return keys.edge_ends(rows[0][0])[1] if rows else None

    return await engine.read(body)
