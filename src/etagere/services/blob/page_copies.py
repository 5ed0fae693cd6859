"""Copies of page blobs inside one server: a map of their own over the same bytes.

A map may have millions of rows, more than a transaction takes.  So a copy is built in steps, in a
map that no record names yet:

    begin     the source's epoch is pinned, and a map is made and pinned where the copy will be
    steps     some chunks at a time get rows in the new map, which hold the source's bytes as well
    finish    one transaction checks everything again and makes the record, to which the new map is
              handed over

Until then nobody sees anything of the copy, and the blob that it will replace is what it was.  If
the process dies, both pins run out and the sweep removes what was built.

Inside one container pieces are shared as they are.  Into another one extents are, and what is
inline is written again; where the copy is encrypted otherwise, everything is.

An incremental copy (Azure: 'Incremental Copy Blob') follows a blob from one of its snapshots to the
next: each is copied into a blob that nothing else writes to, and kept as a snapshot of it.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from etagere.base.errors import Refused
from etagere.extents import references
from etagere.extents.contract import Extent, ExtentId, ExtentStore
from etagere.extents.encryption import Seal, SealedExtents
from etagere.kernel.conditions import WriteKind
from etagere.kv.contract import ReadTx, Tx
from etagere.services.blob import content, keys, page_map, page_pins
from etagere.services.blob.blobs import Where, find, must_be, must_take_writes, save, stand
from etagere.services.blob.content import Home
from etagere.services.blob.copies import (
    CopyBlob,
    admit_source,
    becoming,
    finished,
    is_sealed_alike,
)
from etagere.services.blob.creation import make_way, new_record
from etagere.services.blob.download import Unlock
from etagere.services.blob.encryption import must_open
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.history import Keeping
from etagere.services.blob.page_map import Source, sources, walk
from etagere.services.blob.page_pins import Holding, Pin
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    PageMap,
    PagePiece,
    Piece,
    blobs,
)
from etagere.services.blob.service import BlobService

rows_per_step: Final = 256
bytes_per_step: Final = 4 * 1024 * 1024
"""Of bytes that are written again."""


class _Opened(NamedTuple):
    """The source, pinned."""

    record: BlobRecord
    home: Home
    page_map: PageMap
    pin: Pin


class _Begun(NamedTuple):
    """The map that is being built."""

    home: Home
    pin: Pin


class _Batch(NamedTuple):
    """Some of the source's chunks, with the rows that their inline pieces are from."""

    chunks: list[tuple[int, tuple[PagePiece, ...]]]
    inline: dict[int, bytes]
    next_chunk: int | None


class _Carried(NamedTuple):
    """A piece of the copy: the source's own, or bytes to be stored."""

    piece: PagePiece
    data: bytes | None


class _Finish(NamedTuple):
    """What a finished copy becomes: see `_finish`."""

    where: Where
    guard: Guard
    wanted: CopyBlob
    keeping: Keeping


Become = Callable[[Tx, _Finish, BlobRecord, Home, Pin], Awaitable[BlobRecord]]


async def copy(
    service: BlobService,
    source: Where,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    keeping: Keeping,
    key_sha256: bytes,
    unlock: Unlock,
) -> BlobRecord:
    """Copy a page blob of this server; `key_sha256` is of the key that came for the source."""
    aim = _Finish(where, guard, wanted, keeping)
    await service.read(partial(_admit, aim=aim))
    return await _build(service, source, aim, _finish, key_sha256, unlock)


async def follow(
    service: BlobService,
    source: Where,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    keeping: Keeping,
    unlock: Unlock,
) -> BlobRecord:
    """Incremental Copy Blob: the copy becomes what a later snapshot of its source is."""
    if not source.snapshot:
        raise Refused("IncrementalCopySourceMustBeSnapshot")
    aim = _Finish(where, guard, wanted, keeping)
    await service.read(partial(_admit_following, aim=aim))
    return await _build(service, source, aim, _finish_following, b"", unlock)


async def _build(
    service: BlobService,
    source: Where,
    aim: _Finish,
    become: Become,
    key_sha256: bytes,
    unlock: Unlock,
) -> BlobRecord:
    part, wanted = aim.where.part, aim.wanted
    opened = await service.write((source.part,), partial(_open, where=source, wanted=wanted))
    reading = Holding(service.engine, service.clock, opened.home, opened.pin)
    try:
        if is_sealed_alike(opened.record, wanted):
            seal, anew = wanted.new.seal, False
        else:
            must_open(opened.record, key_sha256)
            seal = await unlock(opened.record) if _is_sealed(opened.record) else None
            anew = True
        begun = await service.write((part,), partial(_begin, where=aim.where))
        building = Holding(service.engine, service.clock, begun.home, begun.pin)
        try:
            at: int | None = 0
            while at is not None:
                at = await _step(service, opened, begun, wanted, at, seal, anew=anew)
                await reading.keep()
                await building.keep()
            made = opened.record

            async def finish(tx: Tx) -> BlobRecord:
                return await become(tx, aim, made, begun.home, building.pin)

            return await service.write((part,), finish)
        except BaseException:
            await building.release()
            raise
    finally:
        await reading.release()


def _is_sealed(record: BlobRecord) -> bool:
    return bool(record.scope or record.key_sha256)


async def _admit(tx: ReadTx, aim: _Finish) -> None:
    """Refuse early what `_finish` would refuse."""
    old = (await stand(tx, aim.where)).record
    admit_write(old, aim.guard, tx.now, WriteKind.CREATE)
    if old is not None:
        must_take_writes(old)
        if not aim.wanted.new.may_overwrite:
            raise Refused("UnauthorizedBlobOverwrite")
        must_be(old, BlobType.PAGE)


async def _open(tx: Tx, where: Where, wanted: CopyBlob) -> _Opened:
    standing = await find(tx, where)
    record = admit_source(standing.record, wanted, tx.now)
    if record.page_map is None:
        raise Refused("InvalidSourceBlobType")
    held = await page_pins.pin(tx, standing.home, record.page_map)
    return _Opened(record, standing.home, record.page_map, held)


async def _begin(tx: Tx, where: Where) -> _Begun:
    home = (await stand(tx, where)).home
    return _Begun(home, page_pins.pin_new(tx, home, page_map.create(tx, home)))


async def _step(
    service: BlobService,
    opened: _Opened,
    begun: _Begun,
    wanted: CopyBlob,
    at: int,
    seal: Seal | None,
    *,
    anew: bool,
) -> int | None:
    """Copy some chunks; returns where the next ones begin."""
    made = begun.pin.page_map
    if opened.home == begun.home and not anew:
        body = partial(_share_some, home=begun.home, old=opened.page_map, made=made, at=at)
        return await service.write((begun.home.part,), body)
    batch = await service.read(partial(_read_some, opened=opened, at=at, anew=anew))
    store = service.extents if seal is None else SealedExtents(service.extents, seal)
    carried = [
        (number, [await _carry(store, batch, piece, seal, anew=anew) for piece in pieces])
        for number, pieces in batch.chunks
    ]
    shared = {each.piece.extent for _, row in carried for each in row if each.data is None}
    shards = {references.shard_of(ExtentId(extent)) for extent in shared}
    await service.write(
        (begun.home.part, *sorted(shards)),
        partial(_put_some, home=begun.home, made=made, carried=carried, seal=wanted.new.seal),
    )
    return batch.next_chunk


async def _share_some(tx: Tx, home: Home, old: PageMap, made: PageMap, at: int) -> int | None:
    await _must_be_there(tx, home)
    rows = 0
    async for row in walk(tx, home, old, at, _end_of_chunks):
        if rows == rows_per_step:
            return row.number
        rows += 1
        pieces = row.pieces()
        if pieces:
            await content.hold(tx, home, map(_held, sorted(sources(pieces))))
            page_map.adopt(tx, home, made, row.number, pieces)
    return None


_end_of_chunks: Final = 2**63


async def _must_be_there(tx: ReadTx, home: Home) -> None:
    if not await content.is_alive(tx, home):
        raise Refused("ContainerNotFound")


def _held(source: Source) -> Piece:
    return Piece(size=1, inline=source.inline, extent=source.extent, extent_size=source.extent_size)


async def _read_some(tx: ReadTx, opened: _Opened, at: int, *, anew: bool) -> _Batch:
    home = opened.home
    chunks: list[tuple[int, tuple[PagePiece, ...]]] = []
    inline: dict[int, bytes] = {}
    size = 0
    async for row in walk(tx, home, opened.page_map, at, _end_of_chunks):
        if len(chunks) == rows_per_step or size >= bytes_per_step:
            return _Batch(chunks, inline, row.number)
        pieces = row.pieces()
        chunks.append((row.number, pieces))
        for piece in pieces:
            if piece.extent:
                size += piece.end - piece.start if anew else 0
            elif piece.inline not in inline:
                raw = await tx.get(home.part, keys.data(home.generation, piece.inline))
                if raw is None:
                    raise content.ContentGone
                inline[piece.inline] = raw
                size += len(raw)
    return _Batch(chunks, inline, None)


async def _carry(
    store: ExtentStore, batch: _Batch, piece: PagePiece, seal: Seal | None, *, anew: bool
) -> _Carried:
    size = piece.end - piece.start
    if not piece.extent:
        data = batch.inline[piece.inline][piece.offset : piece.offset + size]
        plain = data if seal is None else seal.apply_to_row(piece.inline, data, piece.offset)
        return _Carried(piece, plain)
    if not anew:
        return _Carried(piece, None)
    extent = Extent(ExtentId(piece.extent), piece.extent_size)
    async with aclosing(store.read(extent, piece.offset, size)) as chunks:
        return _Carried(piece, b"".join([chunk async for chunk in chunks]))


async def _put_some(
    tx: Tx,
    home: Home,
    made: PageMap,
    carried: list[tuple[int, list[_Carried]]],
    seal: Seal | None,
) -> None:
    await _must_be_there(tx, home)
    for number, row in carried:
        pieces = tuple(_stored(tx, home, each, seal) for each in row)
        shared = {piece.extent for piece in pieces if piece.extent}
        if shared:
            await references.share(tx, home.part, sorted(shared))
        if pieces:
            page_map.adopt(tx, home, made, number, pieces)


def _stored(tx: Tx, home: Home, carried: _Carried, seal: Seal | None) -> PagePiece:
    piece, data = carried
    if data is None:
        return piece
    content_id = tx.stamp()
    stored = data if seal is None else seal.apply_to_row(content_id, data)
    tx.put(home.part, keys.data(home.generation, content_id), stored)
    return PagePiece(piece.start, piece.end, 0, inline=content_id)


async def _finish(
    tx: Tx, aim: _Finish, source: BlobRecord, built_in: Home, built: Pin
) -> BlobRecord:
    """The record of the copy, in place of what was there."""
    standing = await stand(tx, aim.where)
    home, old, name = standing.home, standing.record, aim.where.name
    await _must_be_there(tx, built_in)
    lease = admit_write(old, aim.guard, tx.now, WriteKind.CREATE)
    new = becoming(aim.wanted, source)
    kept = await page_pins.hand_over(tx, home, built)
    await make_way(tx, home, name, old, new, BlobType.PAGE, aim.keeping)
    made = new_record(tx, home, name, old, new, BlobType.PAGE, lease, aim.keeping, size=source.size)
    made.page_map = kept
    made.sequence = source.sequence
    made.copy = finished(aim.wanted, source.size, tx.now)
    save(tx, home, name, made)
    return made


# ---- following a blob from snapshot to snapshot


async def _admit_following(tx: ReadTx, aim: _Finish) -> None:
    old = (await stand(tx, aim.where)).record
    admit_write(old, aim.guard, tx.now, WriteKind.CREATE)
    _must_follow(old, aim.wanted.source_url)


def _must_follow(old: BlobRecord | None, url: str) -> None:
    """The copy, if there is one, is of the same blob, and of an earlier snapshot."""
    if old is None:
        return
    must_be(old, BlobType.PAGE)
    blob, moment = _blob_and_snapshot(url)
    if old.copy is None or not old.copy.incremental:
        raise Refused("IncrementalCopyBlobMismatch")
    old_blob, old_moment = _blob_and_snapshot(old.copy.source)
    if blob != old_blob:
        raise Refused("IncrementalCopyBlobMismatch")
    if moment <= old_moment:
        raise Refused("IncrementalCopyOfEarlierVersionSnapshotNotAllowed")


def _blob_and_snapshot(url: str) -> tuple[str, str]:
    """A snapshot's URL in two, whichever name the host has; moments sort as their text does."""
    parts = urlsplit(url)
    return unquote(parts.path), parse_qs(parts.query).get("snapshot", [""])[0]


async def _finish_following(
    tx: Tx, aim: _Finish, source: BlobRecord, built_in: Home, built: Pin
) -> BlobRecord:
    _must_follow((await stand(tx, aim.where)).record, aim.wanted.source_url)
    made = await _finish(tx, aim, source, built_in, built)
    assert made.copy is not None
    moment = tx.stamp()
    made.copy = msgspec.structs.replace(made.copy, incremental=True, destination_snapshot=moment)
    save(tx, built_in, aim.where.name, made)
    await content.share(tx, built_in, made)
    taken = msgspec.structs.replace(made, snapshot=moment, version=0, lease=None)
    row = keys.snapshot(built_in.generation, aim.where.name, moment)
    tx.put(built_in.part, row, blobs.encode(taken))
    return made
