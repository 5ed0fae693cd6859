"""Block blobs: Put Blob, Put Block, Put Block List, Get Block List (Azure: 'Operations on block
blobs').

Staged blocks are rows of their own beside the blob.  Committing a list is one transaction: it
looks every block up, writes the new list and the new record, and forgets all staged blocks; until
it commits, readers see the old blob, and after it the new one.  A process that dies on any line
before the commit leaves staged blocks and the old blob as they were.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import Lease
from etagere.kv.contract import ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import content, keys
from etagere.services.blob.blobs import Where, find, must_be, save, stand
from etagere.services.blob.content import Home
from etagere.services.blob.creation import NewBlob, make_way, new_record
from etagere.services.blob.encryption import must_match
from etagere.services.blob.guard import Guard, admit_read, admit_write
from etagere.services.blob.history import Keeping
from etagere.services.blob.received import Received, keep
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    CopyState,
    Piece,
    StagedBlock,
    UncommittedBlob,
    staged_blocks,
    uncommitted_blobs,
)
from etagere.services.blob.tiers import must_be_online

committed_blocks_max: Final = 50_000
uncommitted_blocks_max: Final = 100_000


async def put(
    tx: Tx,
    where: Where,
    guard: Guard,
    wanted: NewBlob,
    received: Received,
    keeping: Keeping,
    copy_state: CopyState | None = None,
) -> BlobRecord:
    """Put Blob: replaces content, properties, metadata and tags, keeps lease and snapshots.

    The MD5 that it computed is stored; had the client stated another, we would not be here.
    """
    standing = await stand(tx, where)
    lease = admit_write(standing.record, guard, tx.now, WriteKind.CREATE)
    pieces = await keep(tx, standing.home, received)
    return await replace(
        tx,
        standing.home,
        where.name,
        standing.record,
        wanted,
        lease,
        pieces,
        keeping,
        is_listed=False,
        md5=received.md5,
        copy_state=copy_state,
    )


async def replace(
    tx: Tx,
    home: Home,
    name: str,
    old: BlobRecord | None,
    wanted: NewBlob,
    lease: Lease | None,
    pieces: Sequence[Piece],
    keeping: Keeping,
    *,
    is_listed: bool,
    md5: bytes = b"",
    copy_state: CopyState | None = None,
) -> BlobRecord:
    """Make a block blob of these pieces, which the caller already holds, in place of the old."""
    await make_way(tx, home, name, old, wanted, BlobType.BLOCK, keeping)
    layout = await content.lay_out(tx, home, pieces)
    record = new_record(
        tx,
        home,
        name,
        old,
        wanted,
        BlobType.BLOCK,
        lease,
        keeping,
        size=sum(piece.size for piece in pieces),
    )
    record.pieces, record.list_id = layout
    record.is_listed = is_listed
    record.block_count = len(pieces) if is_listed else 0
    record.copy = copy_state
    if md5:
        record.headers = msgspec.structs.replace(wanted.headers, md5=md5)
    save(tx, home, name, record)
    return record


async def stage(tx: Tx, where: Where, guard: Guard, block_id: bytes, received: Received) -> None:
    """Put Block: no conditions, but the lease is enforced; the same id again replaces the block."""
    standing = await stand(tx, where)
    home, record = standing.home, standing.record
    if record is not None:
        must_be(record, BlobType.BLOCK)
        must_be_online(record, tx.now)
        lease = admit_write(record, Guard(lease_id=guard.lease_id), tx.now, WriteKind.UPDATE)
        if lease is not record.lease:
            record.lease = lease
            save(tx, home, where.name, record)
    else:
        admit_write(None, guard, tx.now, WriteKind.CREATE)
    marker = await _unfinished(tx, home, where.name)
    # What is committed does not matter: other blocks, encrypted otherwise, may take its place.
    if marker is not None:
        must_match(marker, received.seal)
    await _check_id_length(tx, home, record, marker, block_id)
    key = keys.staged(home.generation, where.name, block_id)
    replaced = await tx.get(home.part, key)
    if replaced is not None:
        await content.release(tx, home, [staged_blocks.decode(replaced).piece])
    count = (0 if marker is None else marker.count) + (replaced is None)
    if count > uncommitted_blocks_max:
        raise Refused("BlockCountExceedsLimit")
    (piece,) = await keep(tx, home, received, block_id)
    tx.put(home.part, key, staged_blocks.encode(StagedBlock(piece, tx.now)))
    updated = UncommittedBlob(
        created=tx.now if marker is None else marker.created,
        id_length=len(block_id),
        count=count,
        last_staged=tx.now,
        scope="" if received.seal is None else received.seal.scope,
        key_sha256=b"" if received.seal is None else received.seal.key_sha256,
    )
    tx.put(
        home.part, keys.unfinished(home.generation, where.name), uncommitted_blobs.encode(updated)
    )


async def _unfinished(tx: ReadTx, home: Home, name: str) -> UncommittedBlob | None:
    raw = await tx.get(home.part, keys.unfinished(home.generation, name))
    return None if raw is None else uncommitted_blobs.decode(raw)


async def _check_id_length(
    tx: ReadTx,
    home: Home,
    record: BlobRecord | None,
    marker: UncommittedBlob | None,
    block_id: bytes,
) -> None:
    """All block ids of one blob have the same length before they are encoded."""
    length = None
    if marker is not None:
        length = marker.id_length
    elif record is not None and record.is_listed:
        length = await _committed_id_length(tx, home, record)
    if length is not None and length != len(block_id):
        raise Refused("InvalidBlobOrBlock")


async def _committed_id_length(tx: ReadTx, home: Home, record: BlobRecord) -> int | None:
    if not record.list_id:
        return len(record.pieces[0].block_id) if record.pieces else None
    async for _, page in content.pages(tx, home, record.list_id):
        return len(page[0].block_id)
    return None


class Source(Enum):
    """Where Put Block List looks a block up."""

    COMMITTED = "Committed"
    UNCOMMITTED = "Uncommitted"
    LATEST = "Latest"


class Wanted(NamedTuple):
    block_id: bytes
    source: Source


async def commit(
    tx: Tx,
    where: Where,
    guard: Guard,
    wanted: NewBlob,
    blocks: Sequence[Wanted],
    keeping: Keeping,
) -> BlobRecord:
    """Put Block List: all or nothing; staged blocks that are not listed are discarded."""
    standing = await stand(tx, where)
    home, old = standing.home, standing.record
    lease = admit_write(old, guard, tx.now, WriteKind.CREATE)
    if old is not None:
        must_be(old, BlobType.BLOCK)
    committed = await _committed(tx, home, old, blocks)
    staged: dict[bytes, Piece | None] = {}
    pieces = [await _look_up(tx, home, where.name, block, committed, staged) for block in blocks]
    fresh = {id(piece) for piece in staged.values()}
    marker = await _unfinished(tx, home, where.name)
    for kept, used in (
        (marker, any(id(piece) in fresh for piece in pieces)),
        (old, any(id(piece) not in fresh for piece in pieces)),
    ):
        if kept is not None and used:
            must_match(kept, wanted.seal)
    # Every mention holds its piece; what staging held goes with the staged rows, in `replace`.
    await content.hold(tx, home, pieces)
    return await replace(tx, home, where.name, old, wanted, lease, pieces, keeping, is_listed=True)


async def _committed(
    tx: ReadTx, home: Home, old: BlobRecord | None, blocks: Sequence[Wanted]
) -> dict[bytes, Piece]:
    if old is None or all(block.source is Source.UNCOMMITTED for block in blocks):
        return {}
    if not old.is_listed:
        return {}
    return {piece.block_id: piece for piece in await content.all_pieces(tx, home, old)}


async def _look_up(
    tx: ReadTx,
    home: Home,
    name: str,
    block: Wanted,
    committed: dict[bytes, Piece],
    staged: dict[bytes, Piece | None],
) -> Piece:
    if block.source is not Source.COMMITTED:
        if block.block_id not in staged:
            raw = await tx.get(home.part, keys.staged(home.generation, name, block.block_id))
            staged[block.block_id] = None if raw is None else staged_blocks.decode(raw).piece
        piece = staged[block.block_id]
        if piece is not None:
            return piece
    if block.source is not Source.UNCOMMITTED:
        piece = committed.get(block.block_id)
        if piece is not None:
            return piece
    raise Refused("InvalidBlockList")


class BlockList(NamedTuple):
    record: BlobRecord | None
    committed: list[Piece]
    uncommitted: list[Piece]


async def block_list(
    tx: ReadTx, where: Where, guard: Guard, *, committed: bool, uncommitted: bool
) -> BlockList:
    """Get Block List works on a blob that is committed, uncommitted or both; of a snapshot or a
    version there is nothing but what was committed."""
    standing = await find(tx, where)
    home, record = standing.home, standing.record
    is_past = where.snapshot or where.version
    marker = None if is_past else await _unfinished(tx, home, where.name)
    if record is None and marker is None:
        raise Refused("BlobNotFound")
    if record is not None:
        admit_read(record, guard, tx.now)
        must_be(record, BlobType.BLOCK)
    done: list[Piece] = []
    if committed and record is not None and record.is_listed:
        done = await content.all_pieces(tx, home, record)
    return BlockList(
        record,
        done,
        await _staged_pieces(tx, home, where.name) if uncommitted and marker is not None else [],
    )


async def _staged_pieces(tx: ReadTx, home: Home, name: str) -> list[Piece]:
    begin, end = keys.staged_of(home.generation, name)
    pieces: list[Piece] = []
    while rows := await tx.scan(home.part, begin, end, limit=1000):
        pieces += [staged_blocks.decode(raw).piece for _, raw in rows]
        begin = after(rows[-1][0])
    return pieces
