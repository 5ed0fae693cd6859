"""Copies that are encrypted otherwise than their source: each piece is read, and written anew.

The pieces stay apart, so that a block list is copied as one.  What has been written when the copy
is refused, or fails, is given up.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

from etagere.extents import references
from etagere.extents.contract import Extent, ExtentId
from etagere.extents.encryption import Seal, SealedExtents
from etagere.services.blob.blobs import Where
from etagere.services.blob.copies import Borrowed, CopyBlob, Resealed, borrow, copy_borrowed
from etagere.services.blob.download import Unlock
from etagere.services.blob.encryption import must_open
from etagere.services.blob.guard import Guard
from etagere.services.blob.history import Keeping
from etagere.services.blob.records import BlobRecord, Piece
from etagere.services.blob.service import BlobService


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
    """`key_sha256` is of the customer's key that came for the source, or b""."""
    borrowed = await service.read(partial(borrow, where=source, wanted=wanted, destination=None))
    record = borrowed.record
    must_open(record, key_sha256)
    opened = await unlock(record) if record.scope or record.key_sha256 else None
    anew: list[Resealed] = []
    try:
        for piece in borrowed.pieces:
            received = await service.receive(
                _bytes_of(service, borrowed, piece, opened),
                piece.size,
                piece.size,
                md5=False,
                seal=wanted.new.seal,
            )
            anew.append(Resealed(received, piece.block_id))
        extents = [each.received.extent for each in anew]
        shards = {references.shard_of(extent.id) for extent in extents if extent is not None}
        return await service.write(
            (where.part, *sorted(shards)),
            partial(
                copy_borrowed,
                borrowed=borrowed,
                where=where,
                guard=guard,
                wanted=wanted,
                keeping=keeping,
                anew=anew,
            ),
        )
    except BaseException:
        for each in anew:
            await service.discard(each.received)
        raise


async def _bytes_of(
    service: BlobService, borrowed: Borrowed, piece: Piece, seal: Seal | None
) -> AsyncIterator[bytes]:
    if not piece.extent:
        data = borrowed.inline[piece.inline][piece.offset : piece.offset + piece.size]
        yield data if seal is None else seal.apply_to_row(piece.inline, data, piece.offset)
        return
    store = service.extents if seal is None else SealedExtents(service.extents, seal)
    extent = Extent(ExtentId(piece.extent), piece.extent_size)
    async with aclosing(store.read(extent, piece.offset, piece.size)) as chunks:
        async for chunk in chunks:
            yield chunk
