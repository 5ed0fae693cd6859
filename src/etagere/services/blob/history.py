"""What is kept of blobs that are overwritten or deleted: versions, snapshots, soft-deleted ones.

(Azure: 'Blob versioning', 'Blob snapshots', 'Soft delete for blobs'.)  Nothing here moves bytes: a
snapshot or version is another record that holds the same content.

    versions     an account makes them or not; what was made as one stays until it is deleted by its
                 id, so the current one becomes an earlier one even after versioning was turned off
    snapshots    made on request; a blob with snapshots is not deleted by accident
    trash        soft-deleted blobs, snapshots and versions, until their retention ends

A row in the trash is found by its blob's name (to be listed and undeleted) and, through `expiries`,
by the end of its retention.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.extents.encryption import Seal
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import LeaseKind, Use, use
from etagere.kv.contract import ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import content, keys, tag_index
from etagere.services.blob.blobs import (
    Where,
    drop_staged,
    find,
    must_exist,
    must_take_writes,
    save,
    stand,
)
from etagere.services.blob.content import Home, sweep_topic
from etagere.services.blob.encryption import must_match
from etagere.services.blob.guard import Guard, admit_read, admit_write
from etagere.services.blob.immutability import must_be_mutable, mutable
from etagere.services.blob.records import BlobRecord, BlobType, blobs
from etagere.services.blob.tiers import TierConditions, must_be_online, no_tier_conditions

seconds_per_day: Final = 86_400
_rows_per_scan: Final = 256


@dataclass(frozen=True, slots=True)
class Keeping:
    """What an account keeps of what is overwritten or deleted."""

    versioning: bool = False
    retention_days: int = 0
    """Of soft delete; 0 where it is off."""


nothing_kept: Final = Keeping()


class Snapshots(Enum):
    """What deleting a blob does about its snapshots (x-ms-delete-snapshots)."""

    REFUSE = ""
    INCLUDE = "include"
    ONLY = "only"


# ---- the current blob makes way


async def supersede(
    tx: Tx, home: Home, name: str, old: BlobRecord | None, keeping: Keeping
) -> None:
    """The current blob is about to be overwritten as a whole."""
    if old is None:
        if keeping.retention_days:
            await _demote_deleted(tx, home, name)
        return
    _leave_indexes(tx, home, name, old)
    if _stays_as_version(old, keeping):
        _keep_version(tx, home, name, old)
    elif keeping.retention_days:
        _trash(tx, home, name, msgspec.structs.replace(old, snapshot=tx.stamp()), keeping)
    else:
        await content.let_go(tx, home, old)


def _leave_indexes(tx: Tx, home: Home, name: str, old: BlobRecord) -> None:
    """The current blob is not found by its tags or its expiry time any more."""
    tag_index.forget(tx, home, name, keys.current_moment, old.tags)
    if old.expires:
        tx.delete(home.part, keys.lifetime(home.generation, old.expires, name))


async def keep_before_change(
    tx: Tx, home: Home, name: str, old: BlobRecord, keeping: Keeping
) -> None:
    """The current blob's record is about to change and its content to stay; if a version of it
    stays as it was, the changed one is a version of its own, or none (`version_made`)."""
    if _stays_as_version(old, keeping):
        await content.share(tx, home, old)
        _keep_version(tx, home, name, old)


def version_made(stamp: int, keeping: Keeping) -> int:
    """What names the version that a write makes, or 0: 'After versioning is disabled, modifying
    the current version creates a blob that is not a version' (Azure: 'Blob versioning')."""
    return stamp if keeping.versioning else 0


def _stays_as_version(old: BlobRecord, keeping: Keeping) -> bool:
    """Whether the current blob becomes an earlier version when it is changed, overwritten or
    deleted: all are kept, or it was made as one ('All existing versions persist as previous
    versions', which says nothing of deletion; unconfirmed on the live service for that)."""
    return keeping.versioning or old.version != 0


def _keep_version(tx: Tx, home: Home, name: str, old: BlobRecord) -> None:
    # A blob from before versioning was turned on is named by the moment of its last change.
    moment = old.version or old.etag
    version = msgspec.structs.replace(old, version=moment, lease=None, earlier=True, expires=0)
    tx.put(home.part, keys.version(home.generation, name, moment), blobs.encode(version))
    tag_index.remember(tx, home, name, moment, old.tags)


def _trash(tx: Tx, home: Home, name: str, record: BlobRecord, keeping: Keeping) -> None:
    """Put a record, which goes on holding its content, into the trash.

    A snapshot or version has the place there that its moment gives it among those that are not
    deleted; a blob comes after all of them, as it does in listings.
    """
    moment = record.snapshot or record.version or tx.stamp()
    until = Timestamp(tx.now + seconds(keeping.retention_days * seconds_per_day))
    deleted = msgspec.structs.replace(
        record, deleted=tx.now, retained_until=until, lease=None, expires=0
    )
    tx.put(home.part, keys.trash(home.generation, name, moment), blobs.encode(deleted))
    tx.put(home.part, keys.expiry(home.generation, until, name, moment), b"")
    tx.notify(sweep_topic)


def _untrash(tx: Tx, home: Home, name: str, moment: int, record: BlobRecord) -> BlobRecord:
    """Take a record out of the trash; returns it as it was before."""
    tx.delete(home.part, keys.trash(home.generation, name, moment))
    until = Timestamp(record.retained_until)
    tx.delete(home.part, keys.expiry(home.generation, until, name, moment))
    return msgspec.structs.replace(record, deleted=0, retained_until=0)


async def _demote_deleted(tx: Tx, home: Home, name: str) -> None:
    """A soft-deleted blob whose name is taken anew is kept as one of the new blob's snapshots."""
    for moment, record in await _trashed(tx, home, name):
        if not record.snapshot and not record.version:
            demoted = msgspec.structs.replace(record, snapshot=moment)
            tx.put(home.part, keys.trash(home.generation, name, moment), blobs.encode(demoted))


async def _trashed(tx: ReadTx, home: Home, name: str) -> list[tuple[int, BlobRecord]]:
    """What the trash has under a name, and is still retained."""
    begin, end = keys.trash_of(home.generation, name)
    found: list[tuple[int, BlobRecord]] = []
    while rows := await tx.scan(home.part, begin, end, limit=_rows_per_scan):
        for key, raw in rows:
            record = blobs.decode(raw)
            if record.retained_until > tx.now:
                found.append((keys.moment_of(key), record))
        begin = after(rows[-1][0])
    return found


# ---- snapshots


async def snapshot(
    tx: Tx,
    where: Where,
    guard: Guard,
    metadata: dict[str, str],
    keeping: Keeping,
    seal: Seal | None = None,
) -> tuple[BlobRecord, BlobRecord]:
    """Snapshot Blob: (the snapshot, the blob).  Without metadata of its own, the snapshot has the
    blob's metadata, ETag and Last-Modified."""
    standing = await stand(tx, where)
    home = standing.home
    if guard.lease_id is not None and standing.record is not None:
        use(standing.record.lease, guard.lease_id, tx.now, LeaseKind.BLOB, Use.READ)
    conditions = Guard(guard.conditions, None, guard.version)
    if standing.record is not None:
        # The lease does not hold a snapshot back: only the conditions are looked at.
        unleased = msgspec.structs.replace(standing.record, lease=None)
        admit_write(unleased, conditions, tx.now, WriteKind.UPDATE)
    else:
        admit_write(None, conditions, tx.now, WriteKind.UPDATE)
    record = must_exist(standing.record)
    must_take_writes(record)
    must_be_online(record, tx.now)
    must_match(record, seal)
    moment = tx.stamp()
    # A policy protects the blob that it was set on, and no copy of it.
    taken = msgspec.structs.replace(
        record, snapshot=moment, version=0, lease=None, immutability=mutable
    )
    if metadata:
        taken = msgspec.structs.replace(taken, metadata=metadata, etag=tx.stamp(), modified=tx.now)
    await content.share(tx, home, record)
    tx.put(home.part, keys.snapshot(home.generation, where.name, moment), blobs.encode(taken))
    if keeping.versioning:
        await keep_before_change(tx, home, where.name, record, keeping)
        record = msgspec.structs.replace(record, version=tx.stamp())
        save(tx, home, where.name, record)
    return taken, record


# ---- deleting


async def delete(
    tx: Tx,
    where: Where,
    guard: Guard,
    snapshots: Snapshots,
    keeping: Keeping,
    tier_conditions: TierConditions = no_tier_conditions,
) -> bool:
    """Delete Blob; whether it is gone for good."""
    standing = await stand(tx, where)
    home, record = standing.home, standing.record
    if record is None and await _discard_uncommitted(tx, home, where.name, guard):
        return True
    admit_write(record, guard, tx.now, WriteKind.UPDATE)
    record = must_exist(record)
    tier_conditions.check(record, tx.now)
    must_be_mutable(record, tx.now)
    await _delete_snapshots(tx, home, where.name, snapshots, keeping)
    permanent = not keeping.retention_days
    if snapshots is Snapshots.ONLY:
        return permanent
    await drop_staged(tx, home, where.name)
    _leave_indexes(tx, home, where.name, record)
    if _stays_as_version(record, keeping):
        _keep_version(tx, home, where.name, record)
        permanent = False
    elif keeping.retention_days:
        _trash(tx, home, where.name, record, keeping)
    else:
        await content.let_go(tx, home, record)
    tx.delete(home.part, keys.blob(home.generation, where.name))
    return permanent


async def _delete_snapshots(
    tx: Tx, home: Home, name: str, what: Snapshots, keeping: Keeping
) -> None:
    begin, end = keys.snapshots_of(home.generation, name)
    while rows := await tx.scan(home.part, begin, end, limit=_rows_per_scan):
        if what is Snapshots.REFUSE:
            raise Refused("SnapshotsPresent")
        for key, raw in rows:
            await _discard(tx, home, name, blobs.decode(raw), keeping)
            tx.delete(home.part, key)
        begin = after(rows[-1][0])


async def _discard(tx: Tx, home: Home, name: str, record: BlobRecord, keeping: Keeping) -> None:
    """A snapshot or version goes: into the trash, or for good."""
    must_be_mutable(record, tx.now)
    if keeping.retention_days:
        _trash(tx, home, name, record, keeping)
    else:
        await content.let_go(tx, home, record)


async def delete_moment(
    tx: Tx,
    where: Where,
    guard: Guard,
    keeping: Keeping,
    tier_conditions: TierConditions = no_tier_conditions,
) -> bool:
    """Delete one snapshot or one earlier version; whether it is gone for good.

    Neither carries a lease, so none is asked for (unconfirmed on the live service for snapshots).
    """
    standing = await find(tx, where)
    home = standing.home
    record = admit_read(standing.record, Guard(guard.conditions, None, guard.version), tx.now)
    tier_conditions.check(record, tx.now)
    if not where.snapshot:
        row = keys.version(home.generation, where.name, where.version)
        if await tx.get(home.part, row) is None:
            raise Refused("OperationNotAllowedOnRootBlob")
        tag_index.forget(tx, home, where.name, where.version, record.tags)
    else:
        row = keys.snapshot(home.generation, where.name, where.snapshot)
    await _discard(tx, home, where.name, record, keeping)
    tx.delete(home.part, row)
    return not keeping.retention_days


async def delete_permanently(tx: Tx, where: Where) -> None:
    """`deletetype=permanent`: only for snapshots and versions that are soft-deleted already."""
    standing = await stand(tx, Where(where.part, where.name))
    home = standing.home
    for moment, record in await _trashed(tx, home, where.name):
        wanted = record.snapshot == where.snapshot and record.version == where.version
        if wanted and (where.snapshot or where.version):
            must_be_mutable(record, tx.now)
            _untrash(tx, home, where.name, moment, record)
            await content.let_go(tx, home, record)
            return
    if (await find(tx, where)).record is None:
        raise Refused("BlobNotFound")
    # What is not soft-deleted cannot be deleted permanently.
    raise Refused("InvalidOperation", status=409)


async def _discard_uncommitted(tx: Tx, home: Home, name: str, guard: Guard) -> bool:
    """Deleting a blob that has only staged blocks discards them (since 2013-08-15)."""
    if await tx.get(home.part, keys.unfinished(home.generation, name)) is None:
        return False
    admit_write(None, guard, tx.now, WriteKind.UPDATE)
    await drop_staged(tx, home, name)
    return True


# ---- undeleting


async def undelete(tx: Tx, where: Where) -> None:
    """Undelete Blob: everything in the trash under this name comes back.

    A soft-deleted blob becomes the current one, unless there is one.
    """
    standing = await stand(tx, where)
    home, current = standing.home, standing.record
    trashed = await _trashed(tx, home, where.name)
    if not trashed and current is None:
        raise Refused("BlobNotFound")
    for moment, record in reversed(trashed):
        restored = _untrash(tx, home, where.name, moment, record)
        if restored.snapshot:
            row = keys.snapshot(home.generation, where.name, restored.snapshot)
            tx.put(home.part, row, blobs.encode(restored))
        elif restored.version:
            # Only by its id: a version that was current becomes an earlier one, and no trash.
            row = keys.version(home.generation, where.name, restored.version)
            tx.put(home.part, row, blobs.encode(restored))
            tag_index.remember(tx, home, where.name, restored.version, restored.tags)
        elif current is None:
            current = restored
            save(tx, home, where.name, restored)
            tag_index.remember(tx, home, where.name, keys.current_moment, restored.tags)
        else:
            demoted = msgspec.structs.replace(restored, snapshot=tx.stamp())
            row = keys.snapshot(home.generation, where.name, demoted.snapshot)
            tx.put(home.part, row, blobs.encode(demoted))


async def expire(tx: Tx, home: Home, limit: int) -> Timestamp | None:
    """Remove some of what the trash need not retain any longer; returns when the next may go, or
    `tx.now` if there is more to do at once."""
    rows = await tx.scan(home.part, *keys.all_expiries(home.generation), limit=limit)
    for key, _ in rows:
        expiry = keys.read_expiry(key)
        if expiry.until > tx.now:
            return expiry.until
        row = keys.trash(home.generation, expiry.name, expiry.moment)
        raw = await tx.get(home.part, row)
        assert raw is not None, "each expiry has its row in the trash"
        _untrash(tx, home, expiry.name, expiry.moment, blobs.decode(raw))
        await content.let_go(tx, home, blobs.decode(raw))
    return tx.now if len(rows) == limit else None


def makes_version(kind: BlobType) -> bool:
    """Whether changes of a blob's properties make a version of it: page and append blobs have
    versions only of whole overwrites, metadata and copies."""
    return kind is BlobType.BLOCK
