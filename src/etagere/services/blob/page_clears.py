"""Which bytes of a page blob were cleared since when, for Get Page Ranges Diff.

A page that was cleared after a snapshot is a ClearRange of the difference to it, also where the
snapshot had zeros there: written and cleared again, or never written.  (Azure: 'Get Page Ranges'
lists pages that were cleared between the two.  azure-storage-blob's live tests expect it of pages
that were written in between.  UNCONFIRMED of pages that never were; who applies the difference to a
copy clears what is zeros there already.)  A map does not remember what it no longer has
(`page_map`), so each clear is noted beside it:

    clears    map, epoch, start, end -> nothing

These rows say nothing of content: reads, writes, copies and Get Page Ranges do not look at them.
Between two epochs those bytes were cleared that rows of epochs above the one, up to the other,
name; what was written after it was cleared differs by what it holds now.

- Nothing is noted as long as the map has no earlier epoch that something could be compared with.
- The rows of one epoch do not overlap; a clear joins those that it meets, so that a blob that is
  cleared page by page in order has one.  Where it meets too many, the rest is noted in a new epoch.
- When an epoch is removed, its rows go to the next one, which can no longer be told from it; they
  go altogether when there is no earlier epoch left, or no later one.

So at rest a row's epoch is one that is held, and their number is bounded by that of the clears.
A store of a version that noted nothing is read as ever: what its content tells.
"""

import heapq
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from etagere.kernel.range_map import Run
from etagere.kv.contract import ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import keys
from etagere.services.blob.content import Home
from etagere.services.blob.keys import ClearId, EpochId
from etagere.services.blob.records import PageMap

joined_max: Final = 64
"""How many rows one clear may meet and replace in a transaction."""
moved_per_step: Final = 32
rows_per_scan: Final = 128
rows_per_step: Final = 1024


async def add(tx: Tx, home: Home, at: EpochId, start: int, end: int) -> int:
    """Note that [start, end) was cleared; returns how far that is done: up to `end`, unless the
    epoch has too many rows there."""
    near = await _before(tx, home, at, start)
    if near is not None and end <= near.end:
        return end
    met = [] if near is None or near.end < start else [near]
    bounds = keys.clears_from(home.generation, *at, start, end)
    rows = await tx.scan(home.part, *bounds, limit=joined_max + 1)
    met += [keys.read_clear(key) for key, _ in rows[:joined_max]]
    done = keys.read_clear(rows[joined_max][0]).start if len(rows) > joined_max else end
    tx.delete_all(home.part, [keys.clear(home.generation, each) for each in met])
    ends = [done, *(each.end for each in met)]
    joined = ClearId(*at, min(start, met[0].start) if met else start, max(ends))
    tx.put(home.part, keys.clear(home.generation, joined), b"")
    return done


async def _before(tx: ReadTx, home: Home, at: EpochId, start: int) -> ClearId | None:
    """The epoch's last row that begins at `start` or before it."""
    bounds = keys.clears_until(home.generation, *at, start)
    rows = await tx.scan(home.part, *bounds, limit=1, reverse=True)
    return keys.read_clear(rows[0][0]) if rows else None


# ---- removal


_end_of_epochs: Final = 2**63


async def pass_on(
    tx: Tx, home: Home, gone: EpochId, previous: PageMap | None, following: PageMap | None
) -> bool:
    """Some of what becomes of a removed epoch's rows; returns whether that was all."""
    map_id, until = gone
    heir = None
    if previous is not None and following is not None:
        heir = EpochId(map_id, following.epoch)
    elif following is not None:
        until = following.epoch
    else:
        until = _end_of_epochs
    since = 0 if previous is None else previous.epoch
    begin, end = keys.clears_between(home.generation, map_id, since, until)
    rows = await tx.scan(home.part, begin, end, limit=moved_per_step)
    tx.delete_all(home.part, [key for key, _ in rows])
    is_all = len(rows) < moved_per_step
    if heir is None:
        return is_all
    for key, _ in rows:
        row = keys.read_clear(key)
        done = await add(tx, home, heir, row.start, row.end)
        if done < row.end:
            tx.put(home.part, keys.clear(home.generation, row._replace(start=done)), b"")
            is_all = False
    return is_all


# ---- looking


class ClearsStep(NamedTuple):
    runs: list[Run]
    """By where they begin; those of different epochs may overlap."""
    next_offset: int


async def between(
    tx: ReadTx, home: Home, old: PageMap, new: PageMap, start: int, end: int
) -> ClearsStep:
    """What of [start, end) was cleared since `old`, up to `new`; all of it up to `next_offset`."""
    if start == end:
        return ClearsStep([], end)
    lanes = [
        _in_epoch(tx, home, EpochId(new.id, epoch), start, end)
        async for epoch in _epochs_between(tx, home, old, new)
    ]
    heads: list[tuple[Run, int]] = []
    for index, lane in enumerate(lanes):
        first = await anext(lane, None)
        if first is not None:
            heads.append((first, index))
    heapq.heapify(heads)
    found: list[Run] = []
    while heads:
        run, index = heads[0]
        if len(found) >= rows_per_step and run.start > start:
            return ClearsStep(found, run.start)
        found.append(run)
        following = await anext(lanes[index], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following, index))
    return ClearsStep(found, end)


async def _epochs_between(tx: ReadTx, home: Home, old: PageMap, new: PageMap) -> AsyncIterator[int]:
    begin, end = keys.clears_between(home.generation, new.id, old.epoch, new.epoch)
    while rows := await tx.scan(home.part, begin, end, limit=1):
        epoch = keys.read_clear(rows[0][0]).epoch
        yield epoch
        begin, _ = keys.clears_between(home.generation, new.id, epoch, new.epoch)


async def _in_epoch(
    tx: ReadTx, home: Home, at: EpochId, start: int, end: int
) -> AsyncIterator[Run]:
    """An epoch's rows, as far as they lie in [start, end), in order."""
    near = await _before(tx, home, at, start)
    if near is not None and start < near.end:
        yield Run(start, min(near.end, end))
    begin, until = keys.clears_from(home.generation, *at, start, end - 1)
    more = True
    while more:
        rows = await tx.scan(home.part, begin, until, limit=rows_per_scan)
        more = len(rows) == rows_per_scan
        for key, _ in rows:
            row = keys.read_clear(key)
            yield Run(row.start, min(row.end, end))
        if more:
            begin = after(rows[-1][0])
