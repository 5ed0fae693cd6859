"""Copies inside one server: the new blob holds the old one's bytes, and nothing is moved.

(Azure: 'Copy Blob', 'Copy Blob From URL', 'Put Blob From URL'.)  The source is read in one snapshot
and pinned by it: its pieces are immutable, so what is copied is what the snapshot had, whatever
happens to the source afterwards.  Then one transaction on the destination's partition takes hold of
them:

- inside one container, by counting one more holder;
- between containers, extents get a reference from the destination as well (`references.share`), and
  inline pieces, which are small, are written again.

If the source is overwritten in between and its grace has passed, sharing fails with ExtentGone and
the source is read again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import NamedTuple

import msgspec

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.extents import references
from etagere.extents.contract import ExtentGone, ExtentId
from etagere.extents.encryption import Seal
from etagere.kernel.conditions import (
    Conditions,
    Current,
    SourceKind,
    Verdict,
    WriteKind,
    evaluate_source,
    unconditional,
)
from etagere.kernel.etag import etag_of
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.services.blob import content, keys, tiers
from etagere.services.blob.blobs import Where, find, save, stand
from etagere.services.blob.content import Home
from etagere.services.blob.creation import NewBlob, make_way, new_record
from etagere.services.blob.encryption import is_sealed_by
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.history import Keeping
from etagere.services.blob.received import Received, keep
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    ContentHeaders,
    CopyState,
    Piece,
)
from etagere.services.blob.service import BlobService


class TagOption(Enum):
    """x-ms-copy-source-tag-option"""

    REPLACE = "REPLACE"
    COPY = "COPY"


@dataclass(frozen=True, slots=True)
class CopyBlob:
    """What a copy is to become."""

    copy_id: str
    """"" for operations that leave no copy properties (Put Blob From URL)."""
    source_url: str
    new: NewBlob = field(default_factory=NewBlob)
    """Its metadata is the source's if this has none; `headers` below stand for its headers."""
    tag_option: TagOption = TagOption.REPLACE
    priority: str = ""
    """How soon an archived source's copy is to be rehydrated."""
    headers: ContentHeaders | None = None
    """In place of the source's."""
    source_conditions: Conditions = unconditional
    source_kind: SourceKind = SourceKind.COPY
    bytes_max: int | None = None
    from_elsewhere: bool = False
    """From another account, whose scopes have other keys."""
    sealed: bool | None = None
    """Whether the copy, of an append blob, is to be sealed; None: as its source is."""
    block_blob: bool = False
    """Make a block blob without a block list, whatever the source is (Put Blob From URL)."""


class SealedOtherwise(Exception):  # noqa: N818 - names what was found
    """The source's bytes are not encrypted as the copy's will be: they have to be read."""


class PagesNotShared(Exception):  # noqa: N818 - names what was found
    """The source is a page blob, whose content is no list of pieces (`page_copies`)."""


class Borrowed(NamedTuple):
    """A source as one snapshot had it."""

    home: Home
    record: BlobRecord
    pieces: list[Piece]
    inline: dict[int, bytes]
    """The bytes of its inline pieces, which only another container needs."""
    beside: bool = False
    """Whether it was read in the transaction that makes the copy, in the same container."""


class Resealed(NamedTuple):
    """A piece of the source, encrypted as the copy will be."""

    received: Received
    block_id: bytes


async def copy(
    service: BlobService,
    source: Where,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    keeping: Keeping,
) -> BlobRecord:
    """Copy a blob of this server; done when this returns."""
    if source.part == where.part:
        return await service.write(
            (where.part,),
            partial(
                _copy_beside,
                source=source,
                where=where,
                guard=guard,
                wanted=wanted,
                keeping=keeping,
            ),
        )
    while True:
        borrowed = await service.read(
            partial(borrow, where=source, wanted=wanted, destination=where.part)
        )
        try:
            return await service.write(
                _partitions(borrowed, where.part),
                partial(
                    copy_borrowed,
                    borrowed=borrowed,
                    where=where,
                    guard=guard,
                    wanted=wanted,
                    keeping=keeping,
                ),
            )
        except ExtentGone:
            continue  # overwritten since, and swept: the source is another one now


async def _copy_beside(
    tx: Tx, source: Where, where: Where, guard: Guard, wanted: CopyBlob, keeping: Keeping
) -> BlobRecord:
    borrowed = await borrow(tx, source, wanted, where.part)
    return await copy_borrowed(tx, borrowed._replace(beside=True), where, guard, wanted, keeping)


async def borrow(
    tx: ReadTx, where: Where, wanted: CopyBlob, destination: Partition | None
) -> Borrowed:
    """Read a source, having checked the conditions that the request makes of it.

    Without a destination, its bytes are not to be shared but read.
    """
    standing = await find(tx, where)
    record = admit_source(standing.record, wanted, tx.now)
    if record.page_map is not None:
        raise PagesNotShared
    if destination is not None and not is_sealed_alike(record, wanted):
        raise SealedOtherwise
    home = standing.home
    pieces = await content.all_pieces(tx, home, record)
    inline: dict[int, bytes] = {}
    if where.part != destination:
        for piece in pieces:
            if not piece.extent and piece.size and piece.inline not in inline:
                raw = await tx.get(home.part, keys.data(home.generation, piece.inline))
                if raw is None:
                    raise content.ContentGone
                inline[piece.inline] = raw
    return Borrowed(home, record, pieces, inline)


def admit_source(record: BlobRecord | None, wanted: CopyBlob, now: Timestamp) -> BlobRecord:
    """Check what the request demands of a source, and what it may copy."""
    if record is None:
        raise Refused("BlobNotFound")
    if wanted.source_conditions is not unconditional:
        current = Current(etag_of(record.etag), Timestamp(record.modified), record.tags)
        verdict = evaluate_source(wanted.source_conditions, current, wanted.source_kind)
        if verdict is not Verdict.PROCEED:
            raise Refused(verdict.code, status=verdict.status)
    if wanted.sealed is not None and record.kind is not BlobType.APPEND:
        raise Refused("InvalidBlobType")
    _check_reach(record, wanted, now)
    if wanted.bytes_max is not None and record.size > wanted.bytes_max:
        raise Refused("RequestBodyTooLarge", {"MaxLimit": str(wanted.bytes_max)})
    return record


def is_sealed_alike(record: BlobRecord, wanted: CopyBlob) -> bool:
    """Whether the source's bytes are encrypted as the copy's will be."""
    seal = wanted.new.seal
    return is_sealed_by(record, seal) and not (seal is not None and wanted.from_elsewhere)


def _check_reach(record: BlobRecord, wanted: CopyBlob, now: Timestamp) -> None:
    """An archived blob is copied only to be rehydrated: by Copy Blob, to a tier that is named."""
    if not tiers.is_archived(record, now):
        return
    if wanted.source_kind is not SourceKind.COPY or wanted.new.tier in ("", tiers.archive):
        raise Refused("BlobArchived")


def _partitions(borrowed: Borrowed, destination: Partition) -> tuple[Partition, ...]:
    """What the transaction that takes hold names."""
    shards = {references.shard_of(ExtentId(p.extent)) for p in borrowed.pieces if p.extent}
    return (destination, *sorted(shards))


async def copy_borrowed(
    tx: Tx,
    borrowed: Borrowed,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    keeping: Keeping,
    anew: Sequence[Resealed] | None = None,
) -> BlobRecord:
    """Make the copy, of the source's own pieces or of others with the same content."""
    standing = await stand(tx, where)
    home, old = standing.home, standing.record
    lease = admit_write(old, guard, tx.now, WriteKind.CREATE)
    record = borrowed.record
    kind = BlobType.BLOCK if wanted.block_blob else record.kind
    new = becoming(wanted, record)
    # Before the old blob lets go of its pieces: it may be the source.
    if anew is None:
        pieces = await _take_hold(tx, home, borrowed, wanted.new.seal)
    else:
        pieces = [p for each in anew for p in await keep(tx, home, each.received, each.block_id)]
    await make_way(tx, home, where.name, old, new, kind, keeping)
    made = new_record(tx, home, where.name, old, new, kind, lease, keeping, size=record.size)
    made.pieces, made.list_id = await content.lay_out(tx, home, pieces)
    made.block_count = 0 if wanted.block_blob else record.block_count
    made.is_listed = record.is_listed and not wanted.block_blob
    if kind is BlobType.APPEND:
        made.sealed = record.sealed if wanted.sealed is None else wanted.sealed
    made.copy = finished(wanted, record.size, tx.now)
    if tiers.is_archived(record, tx.now):
        made = tiers.rehydrate(made, wanted.new.tier, wanted.priority, tx.now)
    save(tx, home, where.name, made)
    return made


def becoming(wanted: CopyBlob, record: BlobRecord) -> NewBlob:
    """What the copy is created with: the request's, and the source's where it says nothing."""
    return msgspec.structs.replace(
        wanted.new,
        headers=record.headers if wanted.headers is None else wanted.headers,
        metadata=wanted.new.metadata or record.metadata,
        tags=record.tags if wanted.tag_option is TagOption.COPY else wanted.new.tags,
    )


def finished(wanted: CopyBlob, size: int, now: Timestamp) -> CopyState | None:
    """What the x-ms-copy-* properties say of a copy that is done."""
    if not wanted.copy_id:
        return None
    return CopyState(
        copy_id=wanted.copy_id,
        source=wanted.source_url,
        status="success",
        done=size,
        total=size,
        completed=now,
    )


def as_block_blob(wanted: CopyBlob, headers: ContentHeaders | None) -> CopyBlob:
    """Put Blob From URL: a block blob without a list, whatever the source is."""
    return replace(wanted, block_blob=True, headers=headers)


async def _take_hold(tx: Tx, home: Home, borrowed: Borrowed, seal: Seal | None) -> Sequence[Piece]:
    """Give the destination its own hold on each piece; returns them as it will list them."""
    if borrowed.beside:
        await content.hold(tx, home, borrowed.pieces)
        return borrowed.pieces
    extents = [piece.extent for piece in borrowed.pieces if piece.extent]
    if extents:
        await references.share(tx, home.part, extents)
    return [_own(tx, home, borrowed, piece, seal) for piece in borrowed.pieces]


def _own(tx: Tx, home: Home, borrowed: Borrowed, piece: Piece, seal: Seal | None) -> Piece:
    if piece.extent or not piece.size:
        return piece
    content_id = tx.stamp()
    data = borrowed.inline[piece.inline][piece.offset : piece.offset + piece.size]
    if seal is not None:
        plain = seal.apply_to_row(piece.inline, data, piece.offset)
        data = seal.apply_to_row(content_id, plain)
    tx.put(home.part, keys.data(home.generation, content_id), data)
    return Piece(size=piece.size, inline=content_id, block_id=piece.block_id)
