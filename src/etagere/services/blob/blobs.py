"""Operations that all types of blob share, as bodies of transactions.

(Azure: 'Operations on blobs'.)  Each is one atomic step for its blob: what it checks and what it
does cannot come apart.  What an overwritten or deleted blob held is let go of in the same
transaction; where it is kept (snapshots, versions, soft delete) is `retire`'s business.
"""

from typing import NamedTuple

from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import LeaseChange, LeaseKind, LeaseRequest, act
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import content, keys
from etagere.services.blob.content import Home, home_of
from etagere.services.blob.guard import (
    Guard,
    admit_read,
    admit_write,
    find_blob,
    open_container,
)
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    ContainerRecord,
    blobs,
    staged_blocks,
)


class Where(NamedTuple):
    """The blob that a request names."""

    part: Partition
    name: str
    snapshot: int = 0
    version: int = 0
    unscoped: bool = False
    """Whether it was taken for granted that the container has no default scope."""


class ScopeFound(Exception):  # noqa: N818 - names what happened
    """The container has a default scope, and what was received is not encrypted in it."""


class Found(NamedTuple):
    container: ContainerRecord
    home: Home
    record: BlobRecord


class Standing(NamedTuple):
    """A container, and the current blob of a name in it, if there is one."""

    container: ContainerRecord
    home: Home
    record: BlobRecord | None


async def stand(tx: ReadTx, where: Where) -> Standing:
    container = await open_container(tx, where.part)
    if where.unscoped and container.default_scope:
        raise ScopeFound
    home = home_of(where.part, container)
    return Standing(container, home, await find_blob(tx, home.part, home.generation, where.name))


async def find(tx: ReadTx, where: Where) -> Standing:
    """The blob, or the snapshot or version that the request names."""
    if not where.snapshot and not where.version:
        return await stand(tx, where)
    container = await open_container(tx, where.part)
    home = home_of(where.part, container)
    key = keys.snapshot if where.snapshot else keys.version
    moment = where.snapshot or where.version
    raw = await tx.get(home.part, key(home.generation, where.name, moment))
    record = None if raw is None else blobs.decode(raw)
    if record is None and where.version:
        current = await find_blob(tx, home.part, home.generation, where.name)
        if current is not None and current.version == where.version:
            record = current
    return Standing(container, home, record)


async def read(tx: ReadTx, where: Where, guard: Guard) -> Found:
    """Find a blob for reading; everything that Get Blob and its kin check."""
    standing = await find(tx, where)
    return Found(standing.container, standing.home, admit_read(standing.record, guard, tx.now))


def save(tx: Tx, home: Home, name: str, record: BlobRecord) -> None:
    tx.put(home.part, keys.blob(home.generation, name), blobs.encode(record))


async def save_found(tx: Tx, home: Home, where: Where, record: BlobRecord) -> None:
    """Put back what `find` found: the blob, a snapshot or an earlier version."""
    row = keys.blob(home.generation, where.name)
    if where.snapshot:
        row = keys.snapshot(home.generation, where.name, where.snapshot)
    elif where.version:
        earlier = keys.version(home.generation, where.name, where.version)
        if await tx.get(home.part, earlier) is not None:
            row = earlier
    tx.put(home.part, row, blobs.encode(record))


def must_exist(record: BlobRecord | None) -> BlobRecord:
    if record is None:
        raise Refused("BlobNotFound")
    return record


def must_be(record: BlobRecord, kind: BlobType) -> None:
    if record.kind is not kind:
        raise Refused("InvalidBlobType")


def must_take_writes(record: BlobRecord) -> None:
    """Refuse to write to what only incremental copies write to."""
    if record.copy is not None and record.copy.incremental:
        raise Refused("OperationNotAllowedOnIncrementalCopyBlob")


class Leased(NamedTuple):
    record: BlobRecord
    change: LeaseChange


async def lease(tx: Tx, where: Where, guard: Guard, request: LeaseRequest, fresh_id: str) -> Leased:
    """Lease actions leave the blob's ETag and Last-Modified alone."""
    standing = await stand(tx, where)
    record = must_exist(standing.record)
    held, record.lease = record.lease, None
    # The table of lease actions decides about the lease: only the conditions are checked here.
    admit_write(record, guard, tx.now, WriteKind.UPDATE)
    change = act(held, request, tx.now, LeaseKind.BLOB, fresh_id)
    record.lease = change.lease
    save(tx, standing.home, where.name, record)
    return Leased(record, change)


async def drop_staged(tx: Tx, home: Home, name: str) -> None:
    """Forget all staged blocks of a name, if there are any."""
    marker = keys.unfinished(home.generation, name)
    if await tx.get(home.part, marker) is None:
        return
    tx.delete(home.part, marker)
    begin, end = keys.staged_of(home.generation, name)
    while rows := await tx.scan(home.part, begin, end, limit=1000):
        await content.release(tx, home, [staged_blocks.decode(raw).piece for _, raw in rows])
        for key, _ in rows:
            tx.delete(home.part, key)
        begin = after(rows[-1][0])
