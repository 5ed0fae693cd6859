"""What must hold before a container or blob is used: existence, lease, conditions, in that order.

(Azure: 'Specifying conditional headers for Blob service operations', 'Lease Blob'.)  The decisions
are the kernel's; here they become refusals.
"""

from typing import Final

import msgspec

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.conditions import (
    Conditions,
    Current,
    Verdict,
    WriteKind,
    evaluate_read,
    evaluate_write,
    several_etags_refusal,
    unconditional,
)
from etagere.kernel.dates import format_http_date
from etagere.kernel.etag import etag_of
from etagere.kernel.lease import Lease, LeaseKind, Use, use
from etagere.kv.contract import Partition, ReadTx
from etagere.services.blob import keys
from etagere.services.blob.content import Home
from etagere.services.blob.encryption import must_open
from etagere.services.blob.records import (
    BlobRecord,
    ContainerRecord,
    PublicAccess,
    blobs,
    containers,
)


class Guard(msgspec.Struct, frozen=True):
    """What a request's headers demand before anything is done."""

    conditions: Conditions = unconditional
    lease_id: str | None = None
    version: str = ""
    key_sha256: bytes | None = None
    """Of the customer's key that came with a read; None where no key is asked for."""


unguarded: Final = Guard()
_lease_on_missing_blob_since: Final = "2013-08-15"
_uncommitted_never_matches_since: Final = "2017-04-17"


async def open_container(tx: ReadTx, part: Partition) -> ContainerRecord:
    raw = await tx.get(part, keys.container_record)
    if raw is None:
        raise Refused("ContainerNotFound")
    return containers.decode(raw)


async def container_of(tx: ReadTx, home: Home) -> ContainerRecord:
    """The record of the container whose rows these are, in a transaction on both."""
    name = await tx.get(home.part, keys.renamed(home.generation))
    part = home.part if name is None else keys.sibling(home.part, name.decode())
    return await open_container(tx, part)


class Expired(Exception):  # noqa: N818 - names what happened
    """A blob was come upon whose expiry time has passed: it is deleted, and the transaction run
    again (`following`)."""

    def __init__(self, home: Home, name: str) -> None:
        super().__init__(name)
        self.home = home
        self.name = name


async def find_blob(tx: ReadTx, part: Partition, generation: int, name: str) -> BlobRecord | None:
    raw = await tx.get(part, keys.blob(generation, name))
    if raw is None:
        return None
    record = blobs.decode(raw)
    if record.is_over(tx.now):
        raise Expired(Home(part, generation), name)
    return record


def admit_read(record: BlobRecord | None, guard: Guard, now: Timestamp) -> BlobRecord:
    """Check a read of a blob, or raise what it is refused with."""
    if record is None:
        raise Refused("BlobNotFound")
    if guard.lease_id is not None:
        use(record.lease, guard.lease_id, now, LeaseKind.BLOB, Use.READ)
    if guard.conditions is not unconditional:
        verdict = evaluate_read(guard.conditions, _current(record), guard.version or "9")
        if verdict is not Verdict.PROCEED:
            raise refusal(verdict, guard.conditions, record)
    if guard.key_sha256 is not None:
        must_open(record, guard.key_sha256)
    return record


def admit_write(
    record: BlobRecord | None,
    guard: Guard,
    now: Timestamp,
    kind: WriteKind,
    how: Use = Use.WRITE,
) -> Lease | None:
    """Check a write; returns the lease that the blob carries afterwards.

    A holder's `If-None-Match: *` does not stop it from overwriting its own blob: the live service
    was seen to answer 201.
    """
    if record is not None:
        lease = use(record.lease, guard.lease_id, now, LeaseKind.BLOB, how)
    else:
        lease = None
        if (
            guard.lease_id is not None
            and kind is WriteKind.CREATE
            and guard.version >= _lease_on_missing_blob_since
        ):
            use(None, guard.lease_id, now, LeaseKind.BLOB, how)
    conditions = guard.conditions
    if conditions is unconditional or _holder_overwrites(record, guard, kind):
        _must_not_be_pending(record)
        return lease
    verdict = evaluate_write(
        conditions,
        None if record is None else _current(record),
        kind,
        uncommitted_matches=guard.version < _uncommitted_never_matches_since,
    )
    if verdict is not Verdict.PROCEED:
        raise refusal(verdict, conditions, record)
    _must_not_be_pending(record)
    return lease


def _must_not_be_pending(record: BlobRecord | None) -> None:
    """Nothing but its copy changes a blob while that is pending."""
    if record is not None and record.copy is not None and record.copy.status == "pending":
        raise Refused("PendingCopyOperation")


def admit_container_read(record: ContainerRecord, guard: Guard, now: Timestamp) -> None:
    if guard.lease_id is not None:
        use(record.lease, guard.lease_id, now, LeaseKind.CONTAINER, Use.READ)


def admit_container_write(
    record: ContainerRecord, guard: Guard, now: Timestamp, how: Use = Use.READ
) -> None:
    """Check an operation on a container; only deleting it (`Use.WRITE`) wants an active lease's id.

    Conditions on containers are evaluated like those of writes.
    """
    use(record.lease, guard.lease_id, now, LeaseKind.CONTAINER, how)
    if guard.conditions is unconditional:
        return
    current = Current(etag_of(record.etag), Timestamp(record.modified))
    verdict = evaluate_write(guard.conditions, current, WriteKind.UPDATE)
    if verdict is not Verdict.PROCEED:
        raise refusal(verdict, guard.conditions, record)


def refusal(
    verdict: Verdict, conditions: Conditions, record: BlobRecord | ContainerRecord | None
) -> Refused:
    match verdict:
        case Verdict.SEVERAL_ETAGS:
            return several_etags_refusal(conditions)
        case Verdict.MISSING:
            return Refused("BlobNotFound")
        case Verdict.NOT_MODIFIED if record is not None:
            return Refused(verdict.code, status=304, headers=validators(record))
        case _:
            return Refused(verdict.code, status=verdict.status)


def validators(record: BlobRecord | ContainerRecord) -> dict[str, str]:
    """The two headers by which a later request can be made conditional."""
    return {
        "ETag": etag_of(record.etag),
        "Last-Modified": format_http_date(Timestamp(record.modified)),
    }


def is_open(record: ContainerRecord, *, listing: bool) -> bool:
    """Whether everybody may read a blob in it, or (`listing`) the container itself."""
    wanted = PublicAccess.CONTAINER if listing else PublicAccess.BLOB
    return record.public_access >= wanted


def _current(record: BlobRecord) -> Current:
    return Current(etag_of(record.etag), Timestamp(record.modified), record.tags)


def _holder_overwrites(record: BlobRecord | None, guard: Guard, kind: WriteKind) -> bool:
    match = guard.conditions.if_none_match
    return (
        kind is WriteKind.CREATE
        and record is not None
        and guard.lease_id is not None
        and match is not None
        and match.any
    )
