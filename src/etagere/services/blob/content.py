"""A blob's bytes: pieces, who holds them, and the way from a byte range to what must be read.

A piece lies in a data row of the container's partition or in an extent.  Each has holders:

- an inline piece has one holder unless its `holders` row says more;
- an extent's holders are counted by `extents.references`;
- a piece list (content of more pieces than a record carries) holds each of its pieces once per
  mention, and is itself held by the blob, its snapshots and versions, counted the same way.

So a snapshot of a blob of 50,000 blocks adds one to one row and moves no bytes; the last holder to
let go of a list leaves it as garbage, which the sweep takes apart in small steps.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, NamedTuple

from etagere.extents import references
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import keys
from etagere.services.blob.records import BlobRecord, Piece, piece_pages

embedded_pieces_max: Final = 8
pieces_per_page: Final = 512


sweep_topic: Final = b"blob sweep"
"""Notified when something was left for the sweep."""


class Home(NamedTuple):
    """One generation of one container: where its rows go."""

    part: Partition
    generation: int


class Layout(NamedTuple):
    """How a record says what its content is."""

    pieces: tuple[Piece, ...]
    list_id: int


async def lay_out(tx: Tx, home: Home, pieces: Sequence[Piece]) -> Layout:
    """Write the list of pieces; the caller already holds each of them."""
    if len(pieces) <= embedded_pieces_max:
        return Layout(tuple(pieces), 0)
    list_id = tx.stamp()
    offset = 0
    for start in range(0, len(pieces), pieces_per_page):
        page = tuple(pieces[start : start + pieces_per_page])
        tx.put(
            home.part, keys.piece_page(home.generation, list_id, offset), piece_pages.encode(page)
        )
        offset += sum(piece.size for piece in page)
    return Layout((), list_id)


def append_piece(tx: Tx, home: Home, list_id: int, offset: int, piece: Piece) -> None:
    """Add a piece at the end of a list that grows: a page of its own, found by its offset."""
    tx.put(
        home.part, keys.piece_page(home.generation, list_id, offset), piece_pages.encode((piece,))
    )


async def pages(
    tx: ReadTx, home: Home, list_id: int
) -> AsyncIterator[tuple[int, tuple[Piece, ...]]]:
    """The pages of a list in order, each with its first offset."""
    begin, end = keys.piece_pages(home.generation, list_id)
    offset = 0
    while True:
        rows = await tx.scan(home.part, begin, end, limit=64)
        for _, raw in rows:
            page = piece_pages.decode(raw)
            yield offset, page
            offset += sum(piece.size for piece in page)
        if len(rows) < 64:
            return
        begin = after(rows[-1][0])


async def all_pieces(tx: ReadTx, home: Home, record: BlobRecord) -> list[Piece]:
    if not record.list_id:
        return list(record.pieces)
    return [piece async for _, page in pages(tx, home, record.list_id) for piece in page]


async def hold(tx: Tx, home: Home, pieces: Iterable[Piece]) -> None:
    """One more holder for each piece."""
    extents: list[bytes] = []
    for piece in pieces:
        if piece.extent:
            extents.append(piece.extent)
        elif piece.size:
            await _add_holder(tx, home, piece.inline)
    if extents:
        await references.hold(tx, home.part, extents)


async def release(tx: Tx, home: Home, pieces: Iterable[Piece]) -> None:
    """One holder fewer for each piece; one that nobody holds is removed."""
    extents: list[bytes] = []
    for piece in pieces:
        if piece.extent:
            extents.append(piece.extent)
        elif piece.size and await _lose_holder(tx, home, piece.inline):
            tx.delete(home.part, keys.data(home.generation, piece.inline))
    if extents:
        await references.drop(tx, home.part, extents)


async def share(tx: Tx, home: Home, record: BlobRecord) -> None:
    """One more holder for all of a record's content: a snapshot, a version, a copy beside it."""
    if record.list_id:
        await _add_holder(tx, home, record.list_id)
    else:
        await hold(tx, home, record.pieces)


async def let_go(tx: Tx, home: Home, record: BlobRecord) -> None:
    """The record no longer holds its content."""
    if not record.list_id:
        if record.pieces:
            await release(tx, home, record.pieces)
    elif await _lose_holder(tx, home, record.list_id):
        moment = tx.now + references.grace_default
        tx.put(home.part, keys.garbage(home.generation, moment, record.list_id), b"")
        tx.notify(sweep_topic)


async def _add_holder(tx: Tx, home: Home, held_id: int) -> None:
    key = keys.holders(home.generation, held_id)
    raw = await tx.get(home.part, key)
    tx.put(
        home.part, key, (2 if raw is None else int.from_bytes(raw, "big") + 1).to_bytes(4, "big")
    )


async def _lose_holder(tx: Tx, home: Home, held_id: int) -> bool:
    """Whether that was the last one."""
    key = keys.holders(home.generation, held_id)
    raw = await tx.get(home.part, key)
    if raw is None:
        return True
    count = int.from_bytes(raw, "big") - 1
    if count == 1:
        tx.delete(home.part, key)
    else:
        tx.put(home.part, key, count.to_bytes(4, "big"))
    return False


class Part(NamedTuple):
    """One step of a download: bytes at hand, or some of an extent."""

    data: bytes
    extent: bytes
    extent_size: int
    offset: int
    size: int


async def parts_of(
    tx: ReadTx, home: Home, pieces: Sequence[Piece], offset: int, start: int, end: int
) -> list[Part]:
    """What of these pieces, which begin at `offset` in the blob, lies in [start, end).

    Inline pieces are read here; extents outlive the transaction by the grace period that their
    removal waits.
    """
    found: list[Part] = []
    for piece in pieces:
        low, high = max(start, offset), min(end, offset + piece.size)
        if low < high:
            first, size = piece.offset + low - offset, high - low
            if piece.extent:
                found.append(Part(b"", piece.extent, piece.extent_size, first, size))
            else:
                raw = await tx.get(home.part, keys.data(home.generation, piece.inline))
                if raw is None:
                    raise ContentGone
                whole = size == len(raw)
                found.append(Part(raw if whole else raw[first : first + size], b"", 0, 0, size))
        offset += piece.size
    return found


class ContentGone(Exception):  # noqa: N818 - names what happened
    """The content was overwritten or deleted, and swept away, while it was being read."""


class Stretch(NamedTuple):
    """Some consecutive parts of a download, and where the next ones begin."""

    parts: list[Part]
    next_offset: int


async def stretch(tx: ReadTx, home: Home, list_id: int, start: int, end: int) -> Stretch:
    """The parts of [start, end) that one page of a piece list has, from `start` on.

    A list is read page by page, each in its own transaction: lists are never changed where they
    stand, only added to at the end, and stay for a grace period after the last holder let go.
    """
    begin, _ = keys.piece_pages(home.generation, list_id)
    after_start = keys.piece_page(home.generation, list_id, start) + b"\0"
    rows = await tx.scan(home.part, begin, after_start, limit=1, reverse=True)
    if not rows:
        raise ContentGone
    key, raw = rows[0]
    page = piece_pages.decode(raw)
    offset = keys.piece_page_offset(key)
    page_end = offset + sum(piece.size for piece in page)
    parts = await parts_of(tx, home, page, offset, start, min(end, page_end))
    return Stretch(parts, page_end)
