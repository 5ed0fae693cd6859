"""A blob's bytes: pieces, who holds them, and the way from a byte range to what must be read.

A piece lies in a data row of the container's partition or in an extent.  Each has holders:

- an inline piece has one holder unless its `holders` row says more;
- an extent's holders are counted by `extents.references`;
- a piece list (content of more pieces than a record carries) holds each of its pieces once per
  mention, and is itself held by the blob, its snapshots and versions, counted the same way;
- so is the state of a page blob's map (`page_map`), which is not made of pieces.

So a snapshot of a blob of 50,000 blocks adds one to one row and moves no bytes; the last holder to
let go of a list leaves it as garbage, which the sweep takes apart in small steps.

An append blob's list grows after it was shared: a record sees of a list what its own size covers.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, NamedTuple

from etagere.extents import references
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import keys
from etagere.services.blob.records import (
    BlobRecord,
    ContainerRecord,
    PageMap,
    Piece,
    containers,
    piece_pages,
)

embedded_pieces_max: Final = 8
pieces_per_page: Final = 512
stretch_bytes_max: Final = 1024 * 1024
"""Of inline pieces, which are in memory until they are sent."""
stretch_parts_max: Final = 512
_pages_ahead: Final = 32


sweep_topic: Final = b"blob sweep"
"""Notified when something was left for the sweep."""


class Home(NamedTuple):
    """One generation of one container: where its rows go."""

    part: Partition
    generation: int


def home_of(part: Partition, record: ContainerRecord) -> Home:
    """Where the rows of the container are whose record is in this partition."""
    rows = keys.sibling(part, record.rows_in) if record.rows_in else part
    return Home(rows, record.generation)


async def is_alive(tx: ReadTx, home: Home) -> bool:
    """Whether the container is there, and the same, whatever its name: rows of any other are being
    swept away, or will be, and none may come after."""
    raw = await tx.get(home.part, keys.container_record)
    if raw is not None and containers.decode(raw).generation == home.generation:
        return True
    return await tx.get(home.part, keys.renamed(home.generation)) is not None


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


def begin_list(tx: Tx, home: Home, pieces: tuple[Piece, ...]) -> int:
    """A list that can grow, of pieces that a record carried itself; they change their holder."""
    list_id = tx.stamp()
    if pieces:
        tx.put(home.part, keys.piece_page(home.generation, list_id, 0), piece_pages.encode(pieces))
    return list_id


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
    found: list[Piece] = []
    async for offset, page in pages(tx, home, record.list_id):
        if offset >= record.size:
            break  # the list has grown since it was shared
        found += page
    return found


async def hold(tx: Tx, home: Home, pieces: Iterable[Piece]) -> None:
    """One more holder for each piece."""
    extents: list[bytes] = []
    for piece in pieces:
        if piece.extent:
            extents.append(piece.extent)
        elif piece.size:
            await add_holder(tx, home, piece.inline)
    if extents:
        await references.hold(tx, home.part, extents)


async def release(tx: Tx, home: Home, pieces: Iterable[Piece]) -> None:
    """One holder fewer for each piece; one that nobody holds is removed."""
    extents: list[bytes] = []
    for piece in pieces:
        if piece.extent:
            extents.append(piece.extent)
        elif piece.size and await lose_holder(tx, home, piece.inline):
            tx.delete(home.part, keys.data(home.generation, piece.inline))
    if extents:
        await references.drop(tx, home.part, extents)


async def share(tx: Tx, home: Home, record: BlobRecord) -> None:
    """One more holder for all of a record's content: a snapshot, a version, a copy beside it."""
    if record.page_map is not None:
        await add_holder(tx, home, record.page_map.epoch)
    elif record.list_id:
        await add_holder(tx, home, record.list_id)
    else:
        await hold(tx, home, record.pieces)


async def let_go(tx: Tx, home: Home, record: BlobRecord) -> None:
    """The record no longer holds its content."""
    if record.page_map is not None:
        await let_go_of_epoch(tx, home, record.page_map)
    elif not record.list_id:
        if record.pieces:
            await release(tx, home, record.pieces)
    elif await lose_holder(tx, home, record.list_id):
        moment = tx.now + references.grace_default
        tx.put(home.part, keys.garbage(home.generation, moment, record.list_id), b"")
        tx.notify(sweep_topic)


async def let_go_of_epoch(tx: Tx, home: Home, page_map: PageMap) -> None:
    """One holder fewer for a state of a page blob's map."""
    if await lose_holder(tx, home, page_map.epoch):
        moment = tx.now + references.grace_default
        unheld = keys.unheld_epoch(home.generation, moment, page_map.id, page_map.epoch)
        tx.put(home.part, unheld, b"")
        tx.notify(sweep_topic)


async def add_holder(tx: Tx, home: Home, held_id: int) -> None:
    """Of an inline piece, a piece list or a state of a page map."""
    key = keys.holders(home.generation, held_id)
    raw = await tx.get(home.part, key)
    tx.put(
        home.part, key, (2 if raw is None else int.from_bytes(raw, "big") + 1).to_bytes(4, "big")
    )


async def lose_holder(tx: Tx, home: Home, held_id: int) -> bool:
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


async def is_shared(tx: ReadTx, home: Home, held_id: int) -> bool:
    return await tx.get(home.part, keys.holders(home.generation, held_id)) is not None


class Part(NamedTuple):
    """One step of a download: bytes at hand, some of an extent, or (neither) zeros."""

    data: bytes
    extent: bytes
    extent_size: int
    offset: int
    """In the extent or the row."""
    size: int
    inline: int = 0
    """The row that the bytes at hand are from."""


def zeros(size: int) -> Part:
    return Part(b"", b"", 0, 0, size)


async def part_of(
    tx: ReadTx, home: Home, inline: int, extent: bytes, extent_size: int, first: int, size: int
) -> Part:
    """Some of a piece, from its byte `first` on.

    What is inline is read here; extents outlive the transaction by the grace period that their
    removal waits.
    """
    if extent:
        return Part(b"", extent, extent_size, first, size)
    raw = await tx.get(home.part, keys.data(home.generation, inline))
    if raw is None:
        raise ContentGone
    whole = size == len(raw)
    return Part(raw if whole else raw[first : first + size], b"", 0, first, size, inline)


async def parts_of(
    tx: ReadTx, home: Home, pieces: Sequence[Piece], offset: int, start: int, end: int
) -> list[Part]:
    """What of these pieces, which begin at `offset` in the blob, lies in [start, end)."""
    found: list[Part] = []
    for piece in pieces:
        low, high = max(start, offset), min(end, offset + piece.size)
        if low < high:
            first = piece.offset + low - offset
            found.append(
                await part_of(
                    tx, home, piece.inline, piece.extent, piece.extent_size, first, high - low
                )
            )
        offset += piece.size
    return found


class ContentGone(Exception):  # noqa: N818 - names what happened
    """The content was overwritten or deleted, and swept away, while it was being read."""


class Stretch(NamedTuple):
    """Some consecutive parts of a download, and where the next ones begin."""

    parts: list[Part]
    next_offset: int


async def stretch(tx: ReadTx, home: Home, list_id: int, start: int, end: int) -> Stretch:
    """The first parts of [start, end), as many as one step should have in memory.

    A list is read in steps, each in its own transaction: lists are never changed where they stand,
    only added to at the end, and stay for a grace period after the last holder let go.
    """
    begin, _ = keys.piece_pages(home.generation, list_id)
    past_start = after(keys.piece_page(home.generation, list_id, start))
    limit = keys.piece_page(home.generation, list_id, end)
    rows = await tx.scan(home.part, begin, past_start, limit=1, reverse=True)
    parts: list[Part] = []
    at, held = start, 0
    while rows:
        for key, raw in rows:
            offset = keys.piece_page_offset(key)
            if offset > at:
                raise ContentGone
            for piece in piece_pages.decode(raw):
                offset += piece.size
                if offset <= at:
                    continue
                parts += await parts_of(tx, home, (piece,), offset - piece.size, at, end)
                at = min(offset, end)
                held += 0 if piece.extent else piece.size
                if at == end or held >= stretch_bytes_max or len(parts) >= stretch_parts_max:
                    return Stretch(parts, at)
        rows = await tx.scan(home.part, after(rows[-1][0]), limit, limit=_pages_ahead)
    raise ContentGone
