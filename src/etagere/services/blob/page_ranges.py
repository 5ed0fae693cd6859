"""Get Page Ranges and its differential form (Azure: 'Get Page Ranges').

A blob of terabytes has millions of rows to look at, which takes several looks: the epoch is pinned
meanwhile, and the loop has time for others between two of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from etagere.base.clock import Clock
from etagere.base.errors import Refused
from etagere.kernel.range_map import Change, Run
from etagere.kernel.ranges import RequestedRange, Slice, page_bytes, range_not_satisfiable, select
from etagere.kv.contract import Engine, ReadTx
from etagere.services.blob import page_reading
from etagere.services.blob.blobs import Where, find, must_be, read
from etagere.services.blob.content import Home
from etagere.services.blob.guard import Guard
from etagere.services.blob.page_pins import Holding, open_pinned
from etagere.services.blob.records import BlobRecord, BlobType, PageMap

Found = TypeVar("Found", Run, Change)


class WantedRanges(NamedTuple):
    """What of a blob is to be listed, and how much of that at once."""

    part: RequestedRange | None = None
    start: int = 0
    """Where to go on, from an earlier page's marker."""
    limit: int | None = None


class WrittenRanges(NamedTuple):
    record: BlobRecord
    runs: list[Run]
    next_offset: int | None


class ChangedRanges(NamedTuple):
    record: BlobRecord
    changes: list[Change]
    next_offset: int | None


class _Opened(NamedTuple):
    record: BlobRecord
    home: Home
    page_map: PageMap
    old: PageMap
    """What it is compared with: itself, for what was written."""
    part: Slice


@dataclass(frozen=True, slots=True)
class _Begun(Generic[Found]):
    """A listing after its first step."""

    opened: _Opened
    found: list[Found]
    next_offset: int

    @property
    def record(self) -> BlobRecord:
        return self.opened.record

    @property
    def home(self) -> Home:
        return self.opened.home


async def written(
    engine: Engine, clock: Clock, where: Where, guard: Guard, wanted: WantedRanges
) -> WrittenRanges:
    """The ranges that were written, neighbours joined."""

    async def step(tx: ReadTx, opened: _Opened, start: int, room: int) -> tuple[list[Run], int]:
        return await page_reading.runs_step(
            tx, opened.home, opened.page_map, start, opened.part.end, room
        )

    look = partial(_open, where=where, guard=guard, wanted=wanted, previous=None)
    begun, more = await _all(engine, clock, look, step, wanted.limit, page_reading.join)
    return WrittenRanges(begun.record, begun.found, more)


async def changed(
    engine: Engine,
    clock: Clock,
    where: Where,
    guard: Guard,
    wanted: WantedRanges,
    previous: int,
) -> ChangedRanges:
    """The ranges that were written or cleared since the snapshot `previous`."""

    async def step(tx: ReadTx, opened: _Opened, start: int, room: int) -> tuple[list[Change], int]:
        return await page_reading.changes_step(
            tx, opened.home, opened.old, opened.page_map, start, opened.part.end, room
        )

    look = partial(_open, where=where, guard=guard, wanted=wanted, previous=previous)
    begun, more = await _all(engine, clock, look, step, wanted.limit, page_reading.join_changes)
    return ChangedRanges(begun.record, begun.found, more)


async def _all(
    engine: Engine,
    clock: Clock,
    look: Callable[[ReadTx], Awaitable[_Opened]],
    step: Callable[[ReadTx, _Opened, int, int], Awaitable[tuple[list[Found], int]]],
    limit: int | None,
    join: Callable[[list[Found], list[Found]], None],
) -> tuple[_Begun[Found], int | None]:
    """Step through it until it ends or there is one more than `limit`, with which the next page
    begins."""
    room = 2**63 if limit is None else limit

    async def begin(tx: ReadTx) -> _Begun[Found]:
        opened = await look(tx)
        return _Begun(opened, *await step(tx, opened, opened.part.start, room))

    async def go_on(tx: ReadTx, at: int) -> tuple[list[Found], int]:
        return await step(tx, begun.opened, at, room - len(begun.found))

    holding: Holding | None = None
    begun: _Begun[Found] = await engine.read(begin)
    if begun.next_offset < begun.opened.part.end:
        begun, holding = await open_pinned(engine, clock, begun, begin)
    found, at = begun.found, begun.next_offset
    try:
        while at < begun.opened.part.end and len(found) <= room:
            await asyncio.sleep(0)  # a read does not let others run
            more, at = await engine.read(partial(go_on, at=at))
            join(found, more)
            if holding is not None:
                await holding.keep()
    finally:
        if holding is not None:
            await holding.release()
    following = found[room].start if len(found) > room else None
    del found[room:]
    return begun, following


async def _open(
    tx: ReadTx, where: Where, guard: Guard, wanted: WantedRanges, previous: int | None
) -> _Opened:
    blob = await read(tx, where, guard)
    record = blob.record
    must_be(record, BlobType.PAGE)
    assert record.page_map is not None, "a page blob has a map"
    old = record.page_map
    if previous is not None:
        old = await _previous(tx, where, record.page_map, previous)
    part: Slice | None = Slice(0, record.size)
    if wanted.part is not None:
        part = select(wanted.part, record.size)
    if part is None:
        raise range_not_satisfiable(record.size)
    start = max(part.start // page_bytes * page_bytes, wanted.start)
    end = min(-(-part.end // page_bytes) * page_bytes, record.size)
    return _Opened(record, blob.home, record.page_map, old, Slice(min(start, end), end))


async def _previous(tx: ReadTx, where: Where, current: PageMap, previous: int) -> PageMap:
    """The map of the snapshot to compare with."""
    if where.snapshot and previous > where.snapshot:
        raise Refused("PreviousSnapshotCannotBeNewer")
    record = (await find(tx, Where(where.part, where.name, snapshot=previous))).record
    if record is None or record.page_map is None:
        raise Refused("PreviousSnapshotNotFound")
    if record.page_map.id != current.id:
        if record.copy is not None and record.copy.incremental:
            raise Refused("PreviousSnapshotOperationNotSupported")
        raise Refused("BlobOverwritten")
    return record.page_map
