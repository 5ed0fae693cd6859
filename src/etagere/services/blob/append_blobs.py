"""Append blobs: Append Block and Append Blob Seal (Azure: 'Operations on append blobs').

An append is one transaction: it finds the blob's length, puts its bytes there and makes the blob
longer.  Writes to a container are serial, so each append has an offset of its own and no gaps lie
between them.  A process that dies before the commit leaves the blob as it was, and perhaps an
extent that nobody refers to.

The content is a piece list that grows (`content.append_piece`).  Whoever else holds the list, a
snapshot or an earlier version, knows its own size and sees nothing beyond it.  Only the current
blob grows a list, and it is the longest of all that hold it: records come back from the trash, but
a list is never held by two current blobs, for a copy gets a list of its own.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kv.contract import Tx
from etagere.services.blob import content
from etagere.services.blob.blobs import Where, must_be, must_exist, save, stand
from etagere.services.blob.creation import NewBlob, make_way, new_record
from etagere.services.blob.encryption import must_match
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.history import Keeping
from etagere.services.blob.immutability import must_be_mutable
from etagere.services.blob.received import Received, keep
from etagere.services.blob.records import BlobRecord, BlobType

committed_blocks_max: Final = 50_000


@dataclass(frozen=True, slots=True)
class AppendConditions:
    """x-ms-blob-condition-appendpos and -maxsize, as far as they were sent."""

    position: int | None = None
    size_max: int | None = None

    def check(self, size: int, added: int) -> None:
        if self.position is not None and self.position != size:
            raise Refused("AppendPositionConditionNotMet")
        if self.size_max is not None and size + added > self.size_max:
            raise Refused("MaxBlobSizeConditionNotMet")


async def put(tx: Tx, where: Where, guard: Guard, wanted: NewBlob, keeping: Keeping) -> BlobRecord:
    """Put Blob: an append blob without content, in place of what was there, sealed or not."""
    standing = await stand(tx, where)
    home, old = standing.home, standing.record
    lease = admit_write(old, guard, tx.now, WriteKind.CREATE)
    await make_way(tx, home, where.name, old, wanted, BlobType.APPEND, keeping)
    record = new_record(tx, home, where.name, old, wanted, BlobType.APPEND, lease, keeping, size=0)
    save(tx, home, where.name, record)
    return record


@dataclass(frozen=True, slots=True)
class Appended:
    record: BlobRecord
    offset: int
    """Where the block begins."""


async def append(
    tx: Tx, where: Where, guard: Guard, conditions: AppendConditions, received: Received
) -> Appended:
    """Append Block: no version is made of it."""
    standing = await stand(tx, where)
    home = standing.home
    lease = admit_write(standing.record, guard, tx.now, WriteKind.UPDATE)
    record = must_exist(standing.record)
    must_be(record, BlobType.APPEND)
    if record.sealed:
        raise Refused("BlobIsSealed")
    must_be_mutable(record, tx.now)
    must_match(record, received.seal)
    offset = record.size
    conditions.check(offset, received.size)
    if record.block_count >= committed_blocks_max:
        raise Refused("BlockCountExceedsLimit")
    (piece,) = await keep(tx, home, received)
    list_id = record.list_id or content.begin_list(tx, home, record.pieces)
    content.append_piece(tx, home, list_id, offset, piece)
    record.etag = tx.stamp()
    record.modified = tx.now
    record.size = offset + received.size
    record.pieces = ()
    record.list_id = list_id
    record.block_count += 1
    record.lease = lease
    record.copy = None
    save(tx, home, where.name, record)
    return Appended(record, offset)


async def seal(tx: Tx, where: Where, guard: Guard, conditions: AppendConditions) -> BlobRecord:
    """Append Blob Seal: from now on the content stays; sealing again changes nothing more."""
    standing = await stand(tx, where)
    lease = admit_write(standing.record, guard, tx.now, WriteKind.UPDATE)
    record = must_exist(standing.record)
    must_be(record, BlobType.APPEND)
    conditions.check(record.size, 0)
    if record.sealed:
        return record
    must_be_mutable(record, tx.now)
    # The documentation says that the ETag stays; the live service was seen to change it.
    sealed = msgspec.structs.replace(
        record, etag=tx.stamp(), modified=tx.now, sealed=True, lease=lease, copy=None
    )
    save(tx, standing.home, where.name, sealed)
    return sealed
