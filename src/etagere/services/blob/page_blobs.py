"""Page blobs: Put Blob, Put Page, and what Set Blob Properties does to them (Azure: 'Operations on
page blobs').

Where the bytes are is `page_map`'s business.  No version is made of a write of pages.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import Lease
from etagere.kernel.ranges import Slice, require_pages
from etagere.kv.contract import Tx
from etagere.services.blob import page_map
from etagere.services.blob.blobs import (
    Standing,
    Where,
    must_be,
    must_exist,
    must_take_writes,
    save,
    stand,
)
from etagere.services.blob.creation import NewBlob, make_way, new_record
from etagere.services.blob.encryption import must_match
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.history import Keeping
from etagere.services.blob.immutability import must_be_mutable
from etagere.services.blob.properties import change
from etagere.services.blob.received import Received
from etagere.services.blob.records import BlobRecord, BlobType, ContentHeaders, PageMap
from etagere.services.blob.tiers import must_fit

blob_bytes_max: Final = 8 * 1024**4
sequence_max: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SequenceConditions:
    """x-ms-if-sequence-number-le, -lt and -eq, as far as they were sent."""

    at_most: int | None = None
    below: int | None = None
    equal: int | None = None

    def check(self, sequence: int) -> None:
        if (
            (self.at_most is not None and sequence > self.at_most)
            or (self.below is not None and sequence >= self.below)
            or (self.equal is not None and sequence != self.equal)
        ):
            raise Refused("SequenceNumberConditionNotMet")


async def put(
    tx: Tx,
    where: Where,
    guard: Guard,
    wanted: NewBlob,
    size: int,
    sequence: int,
    keeping: Keeping,
) -> BlobRecord:
    """Put Blob: a page blob of zeros, in place of what was there."""
    standing = await stand(tx, where)
    home, old = standing.home, standing.record
    lease = admit_write(old, guard, tx.now, WriteKind.CREATE)
    if old is not None:
        must_take_writes(old)
    await make_way(tx, home, where.name, old, wanted, BlobType.PAGE, keeping)
    record = new_record(tx, home, where.name, old, wanted, BlobType.PAGE, lease, keeping, size=size)
    record.page_map = page_map.create(tx, home)
    record.sequence = sequence
    save(tx, home, where.name, record)
    return record


async def write(
    tx: Tx,
    where: Where,
    guard: Guard,
    conditions: SequenceConditions,
    pages: Slice,
    received: Received,
) -> BlobRecord:
    """Put Page, update: the body becomes the pages' content."""
    standing, lease = await _admit(tx, where, guard, conditions, pages)
    record = must_exist(standing.record)
    must_match(record, received.seal)
    assert record.page_map is not None, "a page blob has a map"
    written = await page_map.write(tx, standing.home, record.page_map, pages.start, received)
    return _written(tx, standing, where, lease, written)


async def clear(
    tx: Tx, where: Where, guard: Guard, conditions: SequenceConditions, pages: Slice
) -> BlobRecord:
    """Put Page, clear: the pages are zeros, and nothing is stored of them."""
    standing, lease = await _admit(tx, where, guard, conditions, pages)
    record = must_exist(standing.record)
    assert record.page_map is not None, "a page blob has a map"
    cleared = await page_map.clear(tx, standing.home, record.page_map, pages.start, pages.end)
    return _written(tx, standing, where, lease, cleared)


async def _admit(
    tx: Tx, where: Where, guard: Guard, conditions: SequenceConditions, pages: Slice
) -> tuple[Standing, Lease | None]:
    standing = await stand(tx, where)
    lease = admit_write(standing.record, guard, tx.now, WriteKind.UPDATE)
    record = must_exist(standing.record)
    must_be(record, BlobType.PAGE)
    must_take_writes(record)
    conditions.check(record.sequence)
    require_pages(pages, record.size)
    must_be_mutable(record, tx.now)
    return standing, lease


def _written(
    tx: Tx, standing: Standing, where: Where, lease: Lease | None, changed: PageMap
) -> BlobRecord:
    record = must_exist(standing.record)
    record.etag = tx.stamp()
    record.modified = tx.now
    record.lease = lease
    record.page_map = changed
    save(tx, standing.home, where.name, record)
    return record


class SequenceAction(Enum):
    """x-ms-sequence-number-action"""

    MAX = "max"
    UPDATE = "update"
    INCREMENT = "increment"


@dataclass(frozen=True, slots=True)
class PageProperties:
    """What Set Blob Properties may change of a page blob alone."""

    size: int | None = None
    action: SequenceAction | None = None
    sequence: int = 0
    """What `action` works with, unless it increments."""

    def applied_to(self, current: int) -> int:
        """The sequence number that comes of the present one."""
        match self.action:
            case None:
                return current
            case SequenceAction.MAX:
                return max(current, self.sequence)
            case SequenceAction.UPDATE:
                return self.sequence
            case SequenceAction.INCREMENT:
                if current == sequence_max:
                    raise Refused("SequenceNumberIncrementTooLarge")
                return current + 1


async def set_properties(
    tx: Tx,
    where: Where,
    guard: Guard,
    wanted: PageProperties,
    headers: ContentHeaders | None,
) -> BlobRecord:
    """Set Blob Properties: resize, sequence number, and (unless None) the content headers."""
    standing = await stand(tx, where)
    lease = admit_write(standing.record, guard, tx.now, WriteKind.SET_PROPERTIES)
    record = must_exist(standing.record)
    must_be(record, BlobType.PAGE)
    must_take_writes(record)
    must_be_mutable(record, tx.now)
    sequence = wanted.applied_to(record.sequence)
    kept = record.page_map
    assert kept is not None, "a page blob has a map"
    size = record.size if wanted.size is None else wanted.size
    if record.tier and size > record.size:
        must_fit(record.kind, record.tier, size)
    if size < record.size:
        kept = await page_map.clear(tx, standing.home, kept, size, record.size)
    return await change(
        tx,
        standing,
        where.name,
        lease,
        None,
        size=size,
        sequence=sequence,
        page_map=kept,
        headers=record.headers if headers is None else headers,
    )
