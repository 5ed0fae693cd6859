"""Reading a page map, in steps that are short whatever the size of the blob.

Each step is one look at the store: it goes from a position as far as its limits let it, and says
where the next one begins.  Between steps the epoch must stay what it is; who reads the current blob
in more than one step pins its epoch (`page_pins`).
"""

import heapq
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, NamedTuple

from etagere.kernel import range_map
from etagere.kernel.range_map import Change, Run
from etagere.kv.contract import ReadTx
from etagere.kv.tuples import after
from etagere.services.blob import content, keys, page_clears
from etagere.services.blob.content import Home, Part, Stretch
from etagere.services.blob.page_map import (
    ChunkRow,
    MapPiece,
    chunk_bytes,
    pieces_of,
    rows_per_scan,
    seen_row,
    walk,
)
from etagere.services.blob.records import Cut, PageMap

rows_per_step: Final = 1024
"""Some milliseconds' worth."""


def _chunks_of(start: int, end: int) -> tuple[int, int]:
    return start // chunk_bytes, -(-end // chunk_bytes)


# ---- the bytes


async def stretch(tx: ReadTx, home: Home, page_map: PageMap, start: int, end: int) -> Stretch:
    """The first parts of [start, end), zeros where nothing was written."""
    parts: list[Part] = []
    at, held, rows = start, 0, 0
    async for row in walk(tx, home, page_map, *_chunks_of(start, end)):
        if rows == rows_per_step:
            # Many rows and little to send: what lies before this one is zeros.
            _fill(parts, at, row.number * chunk_bytes)
            return Stretch(parts, max(at, row.number * chunk_bytes))
        rows += 1
        for piece in range_map.clip(pieces_of(row), at, end):
            _fill(parts, at, piece.start)
            source, shift = piece.value
            size = piece.end - piece.start
            part = await content.part_of(tx, home, *source, piece.start + shift, size)
            _add(parts, part)
            at = piece.end
            held += 0 if part.extent else size
        if held >= content.stretch_bytes_max or len(parts) >= content.stretch_parts_max:
            return Stretch(parts, at)
    _fill(parts, at, end)
    return Stretch(parts, end)


def _fill(parts: list[Part], at: int, until: int) -> None:
    if at < until:
        parts.append(content.zeros(until - at))


def _add(parts: list[Part], part: Part) -> None:
    """An extent that goes on in the next chunk is read on, not opened again."""
    if parts and part.extent:
        last = parts[-1]
        if last.extent == part.extent and last.offset + last.size == part.offset:
            parts[-1] = last._replace(size=last.size + part.size)
            return
    parts.append(part)


# ---- what was written


class RunsStep(NamedTuple):
    runs: list[Run]
    next_offset: int


async def runs_step(
    tx: ReadTx, home: Home, page_map: PageMap, start: int, end: int, limit: int
) -> RunsStep:
    """Some of the ranges in [start, end) that were written, at most `limit` + 1 of them: the last
    may go on in the next step."""
    found: list[Run] = []
    rows = 0
    async for row in walk(tx, home, page_map, *_chunks_of(start, end)):
        if rows == rows_per_step or len(found) > limit:
            return RunsStep(found, row.number * chunk_bytes)
        rows += 1
        join(found, range_map.runs(range_map.clip(pieces_of(row), start, end)))
    return RunsStep(found, end)


def join(found: list[Run], more: Iterable[Run]) -> None:
    for run in more:
        if found and found[-1].end == run.start:
            found[-1] = Run(found[-1].start, run.end)
        else:
            found.append(run)


# ---- what changed


class ChangesStep(NamedTuple):
    changes: list[Change]
    next_offset: int


async def changes_step(
    tx: ReadTx, home: Home, old: PageMap, new: PageMap, start: int, end: int, limit: int
) -> ChangesStep:
    """Some of what was written or cleared in [start, end) between two epochs of one map, at most
    some chunks' more than `limit`."""
    assert old.id == new.id
    clears, end = await page_clears.between(tx, home, old, new, start, end)
    found, at = await _differences(tx, home, old, new, start, end, limit)
    return ChangesStep(range_map.with_clears(found, clears, start, at), at)


async def _differences(
    tx: ReadTx, home: Home, old: PageMap, new: PageMap, start: int, end: int, limit: int
) -> ChangesStep:
    """The same, of what can be told by the content: not what was cleared and had been zeros."""
    found: list[Change] = []
    looked_at = 0
    async for number in _changed_chunks(tx, home, old, new, *_chunks_of(start, end)):
        if looked_at == rows_per_step or len(found) > limit:
            return ChangesStep(found, number * chunk_bytes)
        looked_at += 1
        before = _clipped(await seen_row(tx, home, old, number), start, end)
        now = _clipped(await seen_row(tx, home, new, number), start, end)
        join_changes(found, range_map.diff(before, now))
    return ChangesStep(found, end)


def _clipped(row: ChunkRow | None, start: int, end: int) -> Iterator[MapPiece]:
    return range_map.clip(() if row is None else pieces_of(row), start, end)


def join_changes(found: list[Change], more: Iterable[Change]) -> None:
    for change in more:
        if found and found[-1].end == change.start and found[-1].cleared == change.cleared:
            found[-1] = Change(found[-1].start, change.end, change.cleared)
        else:
            found.append(change)


async def _changed_chunks(
    tx: ReadTx, home: Home, old: PageMap, new: PageMap, first: int, stop: int
) -> AsyncIterator[int]:
    """The chunks in [first, stop) that may differ, in order: those with rows from in between, and
    those that were cut off."""
    lanes = [
        _in_epoch(tx, home, new.id, epoch, first, stop)
        async for epoch in _epochs_between(tx, home, old, new)
    ]
    lanes += [
        _under_cut(tx, home, old, cut, first, stop) for cut in new.cuts if cut.epoch > old.epoch
    ]
    heads = [(number, index) for index, lane in enumerate(lanes) async for number in _head(lane)]
    heapq.heapify(heads)
    last = -1
    while heads:
        number, index = heads[0]
        if number != last:
            yield number
            last = number
        following = await anext(lanes[index], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following, index))


async def _head(lane: AsyncIterator[int]) -> AsyncIterator[int]:
    first = await anext(lane, None)
    if first is not None:
        yield first


async def _epochs_between(tx: ReadTx, home: Home, old: PageMap, new: PageMap) -> AsyncIterator[int]:
    """The epochs above `old`, up to `new`, in which something was written."""
    begin, end = keys.changes_between(home.generation, new.id, old.epoch, new.epoch)
    while rows := await tx.scan(home.part, begin, end, limit=1):
        epoch = keys.read_change(rows[0][0]).epoch
        yield epoch
        begin, _ = keys.changes_between(home.generation, new.id, epoch, new.epoch)


async def _in_epoch(
    tx: ReadTx, home: Home, map_id: int, epoch: int, first: int, stop: int
) -> AsyncIterator[int]:
    begin = keys.change(home.generation, map_id, epoch, first)
    end = keys.change(home.generation, map_id, epoch, stop)
    more = True
    while more:
        rows = await tx.scan(home.part, begin, end, limit=rows_per_scan)
        more = len(rows) == rows_per_scan
        for key, _ in rows:
            yield keys.read_change(key).number
        if more:
            begin = after(rows[-1][0])


async def _under_cut(
    tx: ReadTx, home: Home, old: PageMap, cut: Cut, first: int, stop: int
) -> AsyncIterator[int]:
    """The chunks in which an older epoch may see something where later ones have cut."""
    async for row in walk(tx, home, old, max(first, cut.first), min(stop, cut.end)):
        yield row.number
