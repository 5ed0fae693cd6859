"""Access tiers, and blobs on their way back from the archive (Azure: 'Set Blob Tier', 'Access tiers
for blob data', 'Blob rehydration from the archive tier').

Rehydration is something that time does, like the expiry of a lease: a record says what it will be
and from when on, and whoever reads it after that moment sees it done (`settled`).  Nothing has to
be running for it to happen, a clock that is moved is obeyed at once, and no write comes in between
that would have to be told apart from the users' own.  The next change of the record stores what
time has done to it.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from etagere.base.clock import Timestamp, seconds, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import Use
from etagere.kv.contract import Tx
from etagere.services.blob.blobs import Where, find, must_exist, save_found
from etagere.services.blob.guard import Guard, admit_read, admit_write
from etagere.services.blob.records import BlobRecord, BlobType

hot: Final = "Hot"
cool: Final = "Cool"
cold: Final = "Cold"
archive: Final = "Archive"
smart: Final = "Smart"

block_tiers: Final = (hot, cool, cold, archive, smart)

_gibibyte: Final = 1024**3
page_tiers: Final = {
    "P4": 32 * _gibibyte,
    "P6": 64 * _gibibyte,
    "P10": 128 * _gibibyte,
    "P15": 256 * _gibibyte,
    "P20": 512 * _gibibyte,
    "P30": 1024 * _gibibyte,
    "P40": 2048 * _gibibyte,
    "P50": 4096 * _gibibyte,
    "P60": 8192 * _gibibyte,
    "P70": 16384 * _gibibyte,
    "P80": 32768 * _gibibyte,
}
"""In rising order, with the bytes that a page blob may have in each."""

high_priority: Final = "High"
standard_priority: Final = "Standard"
rehydration_takes: Final = {high_priority: seconds(3600), standard_priority: seconds(15 * 3600)}
"""The documentation promises 'up to' these; they are what it takes here."""

_inferred_page_tiers: Final = ("P10", "P20", "P30", "P40", "P50", "P60")

smart_cool_after: Final = seconds(30 * 86_400)
smart_cold_after: Final = seconds(90 * 86_400)


@dataclass(frozen=True, slots=True)
class TierConditions:
    """On the moment when the tier was last changed, which is that of the creation if it never was;
    as for all conditions, whole seconds are compared."""

    modified_since: Timestamp | None = None
    unmodified_since: Timestamp | None = None

    def check(self, record: BlobRecord, now: Timestamp) -> None:
        changed = (settled(record, now).tier_changed or record.created) // ticks_per_second
        since, until = self.modified_since, self.unmodified_since
        if (since is not None and changed <= since // ticks_per_second) or (
            until is not None and changed > until // ticks_per_second
        ):
            raise Refused("ConditionNotMet")


no_tier_conditions: Final = TierConditions()


def settled(record: BlobRecord, now: Timestamp) -> BlobRecord:
    """The record as time has left it: rehydrated, if that is over."""
    if not record.rehydrating_to or record.rehydrated_at > now:
        return record
    return msgspec.structs.replace(
        record,
        tier=record.rehydrating_to,
        tier_changed=record.rehydrated_at,
        rehydrating_to="",
        rehydrate_priority="",
        rehydrated_at=0,
    )


def is_archived(record: BlobRecord, now: Timestamp) -> bool:
    """Whether the content is out of reach, rehydrating or not."""
    return record.tier == archive and settled(record, now).tier == archive


def must_be_online(record: BlobRecord, now: Timestamp) -> None:
    """What is archived is neither read nor changed; its properties and tags may be read."""
    if record.tier == archive and is_archived(record, now):
        raise Refused("BlobArchived")


def smart_tier(record: BlobRecord, now: Timestamp) -> str:
    """Where a smart blob is at the moment: it cools down unless it is used."""
    idle = now - max(record.modified, record.last_access)
    if idle >= smart_cold_after:
        return cold
    return cool if idle >= smart_cool_after else hot


def inferred(record: BlobRecord, *, premium: bool) -> str:
    """The tier of a blob that none was set for: a page blob's, in a premium account, comes of its
    size (Azure: 'High-performance Premium Storage and managed disks for VMs')."""
    if record.kind is BlobType.BLOCK:
        return hot
    if record.kind is BlobType.PAGE and premium:
        return next(tier for tier in _inferred_page_tiers if record.size <= page_tiers[tier])
    return ""


def must_fit(kind: BlobType, tier: str, size: int) -> None:
    """Refuse a tier that blobs of this type, or of this size, cannot have."""
    known = block_tiers if kind is BlobType.BLOCK else page_tiers
    fits = kind is not BlobType.APPEND and tier in known
    if not fits:
        raise Refused("InvalidBlobTier")
    if kind is BlobType.PAGE and size > page_tiers[tier]:
        raise Refused("BlobTierInadequateForContentLength")


def inherit(made: BlobRecord, old: BlobRecord | None, wanted: str, now: Timestamp) -> None:
    """The tier of a blob that has been created: the one asked for, or that of the one before."""
    if wanted:
        must_fit(made.kind, wanted, made.size)
        made.tier, made.tier_changed = wanted, now
    elif old is not None:
        before = settled(old, now)
        made.tier, made.tier_changed = before.tier, before.tier_changed


def rehydrate(record: BlobRecord, tier: str, priority: str, now: Timestamp) -> BlobRecord:
    """On its way from the archive to another tier."""
    priority = priority or standard_priority
    return msgspec.structs.replace(
        record,
        tier=archive,
        rehydrating_to=tier,
        rehydrate_priority=priority,
        rehydrated_at=now + rehydration_takes[priority],
    )


async def set_tier(tx: Tx, where: Where, guard: Guard, tier: str, priority: str) -> bool:
    """Set Blob Tier, on a blob, a snapshot or a version; whether it will take time.

    ETag and Last-Modified stay.  Only the blob itself has a lease to ask for.
    """
    standing = await find(tx, where)
    if where.snapshot or where.version:
        conditions = Guard(guard.conditions, None, guard.version)
        record = admit_read(standing.record, conditions, tx.now)
    else:
        admit_write(standing.record, guard, tx.now, WriteKind.UPDATE, Use.ANNOTATE)
        record = must_exist(standing.record)
    record = settled(record, tx.now)
    if record.kind is BlobType.APPEND:
        raise Refused("InvalidBlobType")
    must_fit(record.kind, tier, record.size)
    changed = _changed(record, tier, priority, tx.now)
    await save_found(tx, standing.home, where, changed)
    return bool(changed.rehydrating_to)


def _changed(record: BlobRecord, tier: str, priority: str, now: Timestamp) -> BlobRecord:
    if record.rehydrating_to:
        if tier != record.rehydrating_to:
            raise Refused("BlobBeingRehydrated")
        return _hurried(record, priority, now)
    if record.tier == tier:
        return record
    if record.tier == archive:
        return rehydrate(record, tier, priority, now)
    if record.kind is BlobType.PAGE and record.tier and not _is_higher(tier, record.tier):
        raise Refused("CannotChangeToLowerTier")
    return msgspec.structs.replace(record, tier=tier, tier_changed=now)


def _hurried(record: BlobRecord, priority: str, now: Timestamp) -> BlobRecord:
    """The priority is raised and never lowered."""
    if priority != high_priority or record.rehydrate_priority == high_priority:
        return record
    sooner = min(record.rehydrated_at, now + rehydration_takes[high_priority])
    return msgspec.structs.replace(record, rehydrate_priority=priority, rehydrated_at=sooner)


def _is_higher(tier: str, than: str) -> bool:
    return page_tiers[tier] > page_tiers[than]
