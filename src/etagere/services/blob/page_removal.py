"""Removing epochs of page maps that nobody holds any more (`page_map`), in small steps.

First the epoch's row goes: writers no longer heed it, and replace rows that only it and they saw.
What it notes of clears goes to the next epoch (`page_clears`).  Then each row that it saw and no
earlier epoch did is looked at: one that the next epoch sees stays, any other goes, and with it the
sources that neither its elder nor its younger mentions.  Last the mark goes.  A process that dies
in between finds the mark again and looks at the same rows anew.

Epochs may go in any order, several at once: each step works with the neighbours that it finds.
"""

from typing import Final, NamedTuple

from etagere.base.clock import Timestamp
from etagere.kv.contract import ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import keys, page_clears
from etagere.services.blob.content import Home
from etagere.services.blob.keys import EpochId
from etagere.services.blob.page_map import (
    ChunkRow,
    delete_row,
    is_cut,
    release,
    row_until,
    sources,
)
from etagere.services.blob.records import PageMap, map_cuts

rows_per_step: Final = 128


class Unheld(NamedTuple):
    """An epoch to be removed, and from when on."""

    due: Timestamp
    epoch: EpochId


async def next_unheld(tx: ReadTx, home: Home) -> Unheld | None:
    rows = await tx.scan(home.part, *keys.all_unheld(home.generation), limit=1)
    return Unheld(*keys.read_unheld(rows[0][0])) if rows else None


async def remove_some(tx: Tx, home: Home, unheld: Unheld, begin: bytes) -> bytes:
    """Look at some of the epoch's rows, from `begin` on (b"": all of them); returns where to go on,
    or b"" when the epoch is gone."""
    map_id, epoch = unheld.epoch
    tx.delete(home.part, keys.epoch(home.generation, map_id, epoch))
    previous = await _neighbour(tx, home, unheld.epoch, later=False)
    following = await _neighbour(tx, home, unheld.epoch, later=True)
    first, end = keys.changes_between(
        home.generation, map_id, 0 if previous is None else previous.epoch, epoch
    )
    begin = max(begin, first)
    if not await page_clears.pass_on(tx, home, unheld.epoch, previous, following):
        return begin
    rows = await tx.scan(home.part, begin, end, limit=rows_per_step)
    for key, _ in rows:
        change = keys.read_change(key)
        await _look_at(tx, home, map_id, change.number, change.epoch, following)
    if len(rows) == rows_per_step:
        return after(rows[-1][0])
    tx.delete(home.part, keys.unheld_epoch(home.generation, unheld.due, map_id, epoch))
    return b""


async def _neighbour(tx: ReadTx, home: Home, epoch: EpochId, *, later: bool) -> PageMap | None:
    """The next epoch of a map in one direction."""
    here = keys.epoch(home.generation, *epoch)
    first, last = keys.epochs_of(home.generation, epoch.map_id)
    bounds = (after(here), last) if later else (first, here)
    rows = await tx.scan(home.part, *bounds, limit=1, reverse=not later)
    if not rows:
        return None
    key, raw = rows[0]
    return PageMap(*keys.read_epoch(key), map_cuts.decode(raw))


async def _look_at(
    tx: Tx, home: Home, map_id: int, number: int, epoch: int, following: PageMap | None
) -> None:
    """Remove a row unless the next epoch that is held sees it."""
    row = await row_until(tx, home, map_id, number, epoch)
    assert row is not None, "each change has its row"
    assert row.epoch == epoch, "each change has its row"
    younger = await _younger(tx, home, map_id, row)
    if (
        following is not None
        and (younger is None or younger.epoch > following.epoch)
        and not is_cut(following.cuts, number, epoch)
    ):
        return
    elder = await row_until(tx, home, map_id, number, epoch - 1)
    gone = sources(row.pieces())
    for neighbour in (elder, younger):
        if neighbour is not None:
            gone -= sources(neighbour.pieces())
    await release(tx, home, gone)
    delete_row(tx, home, map_id, number, epoch)
    if elder is None and younger is not None and not younger.pieces():
        # It said that there is nothing any more, where now there never was.
        delete_row(tx, home, map_id, number, younger.epoch)


async def _younger(tx: ReadTx, home: Home, map_id: int, row: ChunkRow) -> ChunkRow | None:
    begin = after(keys.chunk(home.generation, map_id, row.number, row.epoch))
    _, end = keys.chunks(home.generation, map_id, row.number, row.number + 1)
    rows = await tx.scan(home.part, begin, end, limit=1)
    if not rows:
        return None
    key, raw = rows[0]
    return ChunkRow(row.number, keys.read_chunk(key).epoch, raw)
