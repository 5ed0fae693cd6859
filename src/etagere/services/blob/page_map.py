"""Where a page blob's bytes are: a map of rows that each cover one chunk of the blob.

A *map* is made when a page blob is created as a whole, and belongs to that blob and to its
snapshots and versions until it is created anew.  It has *epochs*, named by stamps, the first by
the map's own id.  A record holds one epoch, its state of the map:

    chunks    map, number, epoch -> the pieces of that chunk as of that epoch
    changes   map, epoch, number -> nothing: the same the other way round
    epochs    map, epoch         -> its cuts: there is a row for each epoch that is held
    holders   epoch              -> how many records hold it, if more than one
    unheld    moment, map, epoch -> nothing: an epoch that nobody holds, to be removed
    clears    map, epoch, start, end -> nothing: bytes that were cleared (`page_clears`)

What a record sees of a chunk is the row with the highest epoch not above its own; no row, or one
without pieces, is zeros.  So

- nothing is stored of pages that were never written, and 8 TiB of zeros cost one row;
- a snapshot counts one holder more and moves nothing;
- the current blob's epoch is written where it stands as long as nobody else holds it.  Otherwise
  the next write begins a new epoch, and each chunk is copied (its pieces, not their bytes) when it
  is first touched;
- what changed between two snapshots is in the chunks that `changes` names between their epochs, or
  is zeros and named by `clears`.

Only the current blob writes, in the newest epoch of its map: whatever else holds the map (snapshot,
version, trash, a pinned download) never writes again, and a copy has a map of its own.

A piece of a chunk is part of a data row or an extent, its *source*, which is held once for each
unbroken series of rows of one chunk that mention it: copying a chunk to a new epoch takes hold of
nothing.  A row that goes releases the sources that neither its elder nor its younger mentions.

Clearing a part that has a great many rows would not fit into a transaction.  It is a *cut* instead:
a new epoch in whose records, and in those of later epochs, older rows of these chunks are not seen.
The rows themselves are removed with the epochs that saw them.

When the last holder lets go of an epoch, `unheld` says so; after a grace period, in which downloads
go on, the sweep removes what only that epoch saw (`page_removal`).  A process that dies at any time
leaves what was committed: a held epoch is complete, and one to be removed is found again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, NamedTuple

from etagere.extents import references
from etagere.kernel import range_map
from etagere.kernel.range_map import Placed
from etagere.kv.contract import ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import content, keys, page_clears
from etagere.services.blob.content import Home
from etagere.services.blob.keys import EpochId
from etagere.services.blob.received import Received
from etagere.services.blob.records import (
    Cut,
    PageMap,
    PagePiece,
    Piece,
    chunk_pieces,
    map_cuts,
)

chunk_bytes: Final = 128 * 1024
"""A write of 4 KiB reads and writes one row of up to 32 pieces; one of 4 MiB, 32 rows."""
rows_cleared_max: Final = 256
"""One by one; where there are more, they are cut off."""
cuts_max: Final = 256
rows_per_scan: Final = 128


class Source(NamedTuple):
    """What holds some of a chunk's bytes: a data row, or an extent."""

    inline: int
    extent: bytes
    extent_size: int


MapPiece = range_map.Piece[Placed[Source]]
"""A piece as the kernel calculates with it."""


class ChunkRow(NamedTuple):
    """What is seen of a chunk, and the epoch that it was written in."""

    number: int
    epoch: int
    raw: bytes
    seen: bool = True
    """False where the chunk has rows, but none that the epoch in question sees."""

    def pieces(self) -> tuple[PagePiece, ...]:
        return chunk_pieces.decode(self.raw) if self.seen else ()


def create(tx: Tx, home: Home) -> PageMap:
    """A map without rows: all zeros."""
    stamp = tx.stamp()
    return _begin(tx, home, PageMap(stamp, stamp))


def _begin(tx: Tx, home: Home, page_map: PageMap) -> PageMap:
    key = keys.epoch(home.generation, page_map.id, page_map.epoch)
    tx.put(home.part, key, map_cuts.encode(page_map.cuts))
    return page_map


async def _next_epoch(tx: Tx, home: Home, page_map: PageMap, cuts: tuple[Cut, ...]) -> PageMap:
    begun = _begin(tx, home, PageMap(page_map.id, tx.stamp(), cuts))
    await content.let_go_of_epoch(tx, home, page_map)
    return begun


async def _writable(tx: Tx, home: Home, page_map: PageMap) -> PageMap:
    """An epoch that nobody else holds, with the same content."""
    if await content.is_shared(tx, home, page_map.epoch):
        return await _next_epoch(tx, home, page_map, page_map.cuts)
    return page_map


# ---- writing


def adopt(
    tx: Tx, home: Home, page_map: PageMap, number: int, pieces: tuple[PagePiece, ...]
) -> None:
    """Give a chunk that has no row yet these pieces, whose sources the caller has taken hold of."""
    change = keys.change(home.generation, page_map.id, page_map.epoch, number)
    key = keys.chunk(home.generation, page_map.id, number, page_map.epoch)
    tx.put(home.part, change, b"")
    tx.put(home.part, key, chunk_pieces.encode(pieces))


async def write(tx: Tx, home: Home, page_map: PageMap, start: int, received: Received) -> PageMap:
    """Put a body at `start`; returns what the record holds from now on."""
    page_map = await _writable(tx, home, page_map)
    end = start + received.size
    first, stop = start // chunk_bytes, -(-end // chunk_bytes)
    if received.extent is not None:
        await references.hold(tx, home.part, [received.extent.id] * (stop - first))
    seen = await _seen(tx, home, page_map, first, stop)
    for number in range(first, stop):
        base = number * chunk_bytes
        low, high = max(start, base), min(end, base + chunk_bytes)
        piece = _keep(tx, home, received, low - start, high - start, low - base)
        row = seen.get(number)
        changed = _without(row.pieces() if row else (), piece.start, piece.end, piece)
        await _replace(tx, home, page_map, number, row, changed)
    return page_map


def _keep(tx: Tx, home: Home, received: Received, first: int, last: int, start: int) -> PagePiece:
    """Make bytes [first, last) of a body a piece that lies at `start` of a chunk."""
    end = start + last - first
    if received.extent is not None:
        extent = received.extent
        return PagePiece(start, end, first, extent=extent.id, extent_size=extent.size)
    whole = last - first == received.size
    content_id = tx.stamp()
    data = received.data if whole else received.data[first:last]
    tx.put(home.part, keys.data(home.generation, content_id), received.sealed(content_id, data))
    return PagePiece(start, end, 0, inline=content_id)


async def _seen(
    tx: ReadTx, home: Home, page_map: PageMap, first: int, stop: int
) -> dict[int, ChunkRow]:
    if stop - first == 1:
        row = await seen_row(tx, home, page_map, first)
        return {} if row is None else {first: row}
    return {row.number: row async for row in seen_rows(tx, home, page_map, first, stop)}


class _Changed(NamedTuple):
    """A chunk's pieces after a change, and those before it that it touched."""

    pieces: tuple[PagePiece, ...]
    touched: tuple[PagePiece, ...]

    def gone(self) -> set[Source]:
        """The sources that are not mentioned any more."""
        return sources(self.touched) - sources(self.pieces) if self.touched else set()


def _without(
    pieces: tuple[PagePiece, ...], start: int, end: int, piece: PagePiece | None = None
) -> _Changed:
    """A chunk's pieces with [start, end) cleared, or with `piece` there."""
    low = bisect_right(pieces, start, key=_end_of)
    high = bisect_left(pieces, end, key=_start_of)
    added = [] if piece is None else [piece]
    touched = pieces[low:high]
    if touched:
        rest = range_map.clear([_calculable(near) for near in touched], start, end).added
        added += map(_storable, rest)
        added.sort(key=_start_of)
    return _Changed((*pieces[:low], *added, *pieces[high:]), touched)


def _start_of(piece: PagePiece) -> int:
    return piece.start


def _end_of(piece: PagePiece) -> int:
    return piece.end


def _calculable(piece: PagePiece, base: int = 0) -> MapPiece:
    """With its chunk beginning at `base`."""
    source = Source(piece.inline, piece.extent, piece.extent_size)
    start = base + piece.start
    return range_map.Piece(start, base + piece.end, Placed(source, piece.offset - start))


def _storable(piece: MapPiece) -> PagePiece:
    source, shift = piece.value
    return PagePiece(piece.start, piece.end, piece.start + shift, *source)


async def _replace(
    tx: Tx,
    home: Home,
    page_map: PageMap,
    number: int,
    row: ChunkRow | None,
    changed: _Changed,
) -> None:
    """Give a chunk, of which `row` was seen, other pieces in this epoch."""
    pieces = changed.pieces
    if row is None and not pieces:
        return
    if row is not None and await _is_mine(tx, home, page_map, row):
        elder = None
        gone = changed.gone()
        if gone or not pieces:
            elder = await _elder(tx, home, page_map, row)
        if gone and elder is not None:
            gone -= sources(elder.pieces())
        await release(tx, home, gone)
        if row.epoch != page_map.epoch or (not pieces and elder is None):
            delete_row(tx, home, page_map.id, row.number, row.epoch)
            if not pieces and elder is None:
                return
    if row is None or row.epoch != page_map.epoch:
        adopt(tx, home, page_map, number, pieces)
        return
    key = keys.chunk(home.generation, page_map.id, number, page_map.epoch)
    tx.put(home.part, key, chunk_pieces.encode(pieces))


async def _is_mine(tx: ReadTx, home: Home, page_map: PageMap, row: ChunkRow) -> bool:
    """Whether no other epoch sees this row, either."""
    if row.epoch == page_map.epoch:
        return True
    begin = keys.epoch(home.generation, page_map.id, row.epoch)
    end = keys.epoch(home.generation, page_map.id, page_map.epoch)
    return not await tx.scan(home.part, begin, end, limit=1)


async def _elder(tx: ReadTx, home: Home, page_map: PageMap, row: ChunkRow) -> ChunkRow | None:
    """The same chunk's row from before, seen or not."""
    if row.epoch == page_map.id:
        return None
    return await row_until(tx, home, page_map.id, row.number, row.epoch - 1)


def delete_row(tx: Tx, home: Home, map_id: int, number: int, epoch: int) -> None:
    tx.delete(home.part, keys.chunk(home.generation, map_id, number, epoch))
    tx.delete(home.part, keys.change(home.generation, map_id, epoch, number))


def sources(pieces: Iterable[PagePiece]) -> set[Source]:
    return {Source(piece.inline, piece.extent, piece.extent_size) for piece in pieces}


async def release(tx: Tx, home: Home, gone: Iterable[Source]) -> None:
    """A chunk's last mention of these is gone."""
    held = [
        Piece(size=1, inline=source.inline, extent=source.extent, extent_size=source.extent_size)
        for source in sorted(gone)
    ]
    if held:
        await content.release(tx, home, held)


class SourceRuns:
    """Reads the rows of chunks in order, and says what each begins to hold: what the row before it,
    of the same chunk, did not mention."""

    def __init__(self) -> None:
        self._chunk = (0, 0)
        self._mentioned: set[Source] = set()

    def begun(self, key: bytes, raw: bytes) -> set[Source]:
        map_id, number, _ = keys.read_chunk(key)
        mentioned = sources(chunk_pieces.decode(raw))
        found = mentioned - self._mentioned if self._chunk == (map_id, number) else mentioned
        self._chunk, self._mentioned = (map_id, number), mentioned
        return found


def extents_ending(rows: Sequence[tuple[bytes, bytes]], count: int) -> list[bytes]:
    """The extents that are let go of with the first `count` rows: those that the row after each, of
    the same chunk, does not mention."""
    runs = SourceRuns()
    last_first = reversed(rows[: count + 1])
    ended = [runs.begun(key, raw) for key, raw in last_first]
    kept = ended[-count:] if len(rows) > count else ended
    return [source.extent for each in kept for source in each if source.extent]


# ---- clearing


async def clear(tx: Tx, home: Home, page_map: PageMap, start: int, end: int) -> PageMap:
    """Make [start, end) zeros; returns what the record holds from now on."""
    if start == end:
        return page_map
    page_map = await _empty(tx, home, page_map, start, end)
    if not await _has_elder_epoch(tx, home, page_map):
        return page_map
    page_map = await _writable(tx, home, page_map)
    noted = await page_clears.add(tx, home, EpochId(page_map.id, page_map.epoch), start, end)
    if noted < end:
        page_map = await _next_epoch(tx, home, page_map, page_map.cuts)
        await page_clears.add(tx, home, EpochId(page_map.id, page_map.epoch), noted, end)
    return page_map


async def _has_elder_epoch(tx: ReadTx, home: Home, page_map: PageMap) -> bool:
    """Whether there will be one, once the current blob has an epoch for itself."""
    if await content.is_shared(tx, home, page_map.epoch):
        return True
    begin = keys.epoch(home.generation, page_map.id, page_map.id)
    end = keys.epoch(home.generation, page_map.id, page_map.epoch)
    return begin < end and bool(await tx.scan(home.part, begin, end, limit=1))


async def _empty(tx: Tx, home: Home, page_map: PageMap, start: int, end: int) -> PageMap:
    """Clear, without a note of it."""
    first, stop = start // chunk_bytes, -(-end // chunk_bytes)
    rows: list[ChunkRow] = []
    looked_at = 0
    async for row in walk(tx, home, page_map, first, stop):
        looked_at += 1
        if looked_at > rows_cleared_max and len(page_map.cuts) < cuts_max:
            return await _cut(tx, home, page_map, start, end)
        if row.seen:
            rows.append(row)
    if not rows:
        return page_map
    page_map = await _writable(tx, home, page_map)
    for row in rows:
        base = row.number * chunk_bytes
        low, high = max(start - base, 0), min(end - base, chunk_bytes)
        remaining = _without(row.pieces(), low, high)
        if remaining.touched:
            await _replace(tx, home, page_map, row.number, row, remaining)
    return page_map


async def _cut(tx: Tx, home: Home, page_map: PageMap, start: int, end: int) -> PageMap:
    """Clear many chunks by not looking at what they have; those at the edges one by one."""
    first, stop = -(-start // chunk_bytes), end // chunk_bytes
    cuts = tuple(_other_cuts(page_map.cuts, first, stop))
    page_map = await _next_epoch(tx, home, page_map, cuts)
    added = PageMap(page_map.id, page_map.epoch, (*cuts, Cut(first, stop, page_map.epoch)))
    _begin(tx, home, added)
    if start < first * chunk_bytes:
        added = await _empty(tx, home, added, start, first * chunk_bytes)
    if stop * chunk_bytes < end:
        added = await _empty(tx, home, added, stop * chunk_bytes, end)
    return added


def _other_cuts(cuts: tuple[Cut, ...], first: int, stop: int) -> Iterable[Cut]:
    """What earlier cuts have outside a new one, which hides whatever they do."""
    for cut in cuts:
        if cut.first < min(cut.end, first):
            yield Cut(cut.first, min(cut.end, first), cut.epoch)
        if max(cut.first, stop) < cut.end:
            yield Cut(max(cut.first, stop), cut.end, cut.epoch)


# ---- looking


def is_cut(cuts: tuple[Cut, ...], number: int, epoch: int) -> bool:
    """Whether a chunk's row of this epoch is hidden by a cut."""
    return any(cut.first <= number < cut.end and epoch < cut.epoch for cut in cuts)


async def row_until(
    tx: ReadTx, home: Home, map_id: int, number: int, epoch: int
) -> ChunkRow | None:
    """A chunk's newest row not above an epoch, whether a cut hides it or not."""
    begin, end = keys.chunk_until(home.generation, map_id, number, epoch)
    rows = await tx.scan(home.part, begin, end, limit=1, reverse=True)
    return ChunkRow(number, keys.read_chunk(rows[0][0]).epoch, rows[0][1]) if rows else None


async def seen_row(tx: ReadTx, home: Home, page_map: PageMap, number: int) -> ChunkRow | None:
    # Mostly it is the epoch's own, which needs no search.
    key = keys.chunk(home.generation, page_map.id, number, page_map.epoch)
    raw = await tx.get(home.part, key)
    if raw is not None:
        return ChunkRow(number, page_map.epoch, raw)
    row = await row_until(tx, home, page_map.id, number, page_map.epoch)
    if row is None or is_cut(page_map.cuts, number, row.epoch):
        return None
    return row


async def seen_rows(
    tx: ReadTx, home: Home, page_map: PageMap, first: int, stop: int
) -> AsyncIterator[ChunkRow]:
    """The rows of chunks [first, stop) that an epoch sees, in order."""
    async for row in walk(tx, home, page_map, first, stop):
        if row.seen:
            yield row


async def walk(
    tx: ReadTx, home: Home, page_map: PageMap, first: int, stop: int
) -> AsyncIterator[ChunkRow]:
    """The same, and where a chunk has only rows that the epoch does not see, one that says so: who
    looks at very many chunks counts these too."""
    best: ChunkRow | None = None
    begin, end = keys.chunks(home.generation, page_map.id, first, stop)
    more = True
    while more:
        rows = await tx.scan(home.part, begin, end, limit=rows_per_scan)
        more = len(rows) == rows_per_scan
        for key, raw in rows:
            _, number, epoch = keys.read_chunk(key)
            if best is not None and best.number != number:
                yield best
                best = None
            if epoch <= page_map.epoch and not is_cut(page_map.cuts, number, epoch):
                best = ChunkRow(number, epoch, raw)
            elif best is None:
                best = ChunkRow(number, epoch, b"", seen=False)
        if more:
            begin = after(rows[-1][0])
    if best is not None:
        yield best


def pieces_of(row: ChunkRow) -> list[MapPiece]:
    """A row's pieces at their places in the blob."""
    base = row.number * chunk_bytes
    return [_calculable(piece, base) for piece in row.pieces()]
