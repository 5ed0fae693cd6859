"""Container operations, as bodies of transactions (Azure: 'Operations on containers').

A container is its record, in its own partition, and its entry in the account's directory; both are
written in one transaction that names both partitions.  Where it was renamed, its rows are in a
third (`keys`), which `following` names.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.kernel.lease import LeaseChange, LeaseKind, LeaseRequest, Use, act
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import keys
from etagere.services.blob.content import home_of, sweep_topic
from etagere.services.blob.guard import (
    Guard,
    admit_container_read,
    admit_container_write,
    open_container,
)
from etagere.services.blob.records import (
    ContainerRecord,
    DeletedContainer,
    DirectoryEntry,
    PublicAccess,
    containers,
    deleted_containers,
    directory_entries,
)
from etagere.services.common.access_policy import StoredPolicy

seconds_per_day = 86_400
logs_container: Final = "$logs"
service_containers: Final = frozenset({logs_container, "$blobchangefeed"})
"""What the service itself writes to."""


class Place(NamedTuple):
    """A container's name and its two partitions."""

    account: str
    name: str
    part: Partition
    account_part: Partition


def place(account: str, name: str) -> Place:
    return Place(
        account, name, keys.container_partition(account, name), keys.account_partition(account)
    )


@dataclass(frozen=True, slots=True)
class CreateContainer:
    metadata: dict[str, str]
    public_access: PublicAccess = PublicAccess.NONE
    default_scope: str = ""
    deny_scope_override: bool = False
    versioned_immutability: bool = False


async def create(tx: Tx, where: Place, wanted: CreateContainer) -> ContainerRecord:
    if await tx.get(where.part, keys.container_record) is not None:
        raise Refused("ContainerAlreadyExists")
    stamp = tx.stamp()
    record = ContainerRecord(
        generation=stamp,
        etag=stamp,
        modified=tx.now,
        created=tx.now,
        metadata=wanted.metadata,
        public_access=wanted.public_access,
        default_scope=wanted.default_scope,
        deny_scope_override=wanted.deny_scope_override,
        versioned_immutability=wanted.versioned_immutability,
    )
    _enter(tx, where, record)
    return record


def _enter(tx: Tx, where: Place, record: ContainerRecord) -> None:
    tx.put(where.part, keys.container_record, containers.encode(record))
    entry = DirectoryEntry(record.generation, record.rows_in)
    tx.put(where.account_part, keys.directory_entry(where.name), directory_entries.encode(entry))
    if record.rows_in:
        home = home_of(where.part, record)
        tx.put(home.part, keys.renamed(home.generation), where.name.encode())


def _leave(tx: Tx, where: Place, record: ContainerRecord) -> None:
    """The name is free from here on."""
    tx.delete(where.part, keys.container_record)
    tx.delete(where.account_part, keys.directory_entry(where.name))
    if record.rows_in:
        home = home_of(where.part, record)
        tx.delete(home.part, keys.renamed(home.generation))


async def get(tx: ReadTx, where: Place, guard: Guard) -> ContainerRecord:
    """Get Container Properties, Metadata and ACL: conditions do not apply to them."""
    record = await open_container(tx, where.part)
    admit_container_read(record, guard, tx.now)
    return record


async def set_metadata(
    tx: Tx, where: Place, guard: Guard, metadata: dict[str, str]
) -> ContainerRecord:
    record = await open_container(tx, where.part)
    admit_container_write(record, guard, tx.now)
    return _changed(tx, where, record, metadata=metadata)


async def set_access(
    tx: Tx,
    where: Place,
    guard: Guard,
    public_access: PublicAccess,
    policies: tuple[StoredPolicy, ...],
) -> ContainerRecord:
    record = await open_container(tx, where.part)
    admit_container_write(record, guard, tx.now)
    return _changed(tx, where, record, public_access=public_access, policies=policies)


def _changed(tx: Tx, where: Place, record: ContainerRecord, **fields: object) -> ContainerRecord:
    changed = msgspec.structs.replace(record, etag=tx.stamp(), modified=tx.now, **fields)
    tx.put(where.part, keys.container_record, containers.encode(changed))
    return changed


class Leased(NamedTuple):
    record: ContainerRecord
    change: LeaseChange


async def lease(tx: Tx, where: Place, guard: Guard, request: LeaseRequest, fresh_id: str) -> Leased:
    """Lease actions leave the container's ETag and Last-Modified alone."""
    record = await open_container(tx, where.part)
    admit_container_write(record, guard, tx.now)
    change = act(record.lease, request, tx.now, LeaseKind.CONTAINER, fresh_id)
    record = msgspec.structs.replace(record, lease=change.lease)
    tx.put(where.part, keys.container_record, containers.encode(record))
    return Leased(record, change)


async def delete(tx: Tx, where: Place, guard: Guard, retention_days: int = 0) -> None:
    """Forget the container at once; its rows are swept away later, or kept while retained."""
    record = await open_container(tx, where.part)
    admit_container_write(record, guard, tx.now, Use.WRITE)
    if record.versioned_immutability and await _has_blobs(tx, where, record):
        raise Refused("ContainerProtectedFromDeletion")
    _leave(tx, where, record)
    if retention_days:
        until = tx.now + seconds(retention_days * seconds_per_day)
        kept = DeletedContainer(msgspec.structs.replace(record, lease=None), tx.now, until)
        tx.put(
            where.account_part,
            keys.deleted_container(where.name, record.generation),
            deleted_containers.encode(kept),
        )
    else:
        doom(tx, where.account_part, where.name, record)


def doom(tx: Tx, account_part: Partition, name: str, record: ContainerRecord) -> None:
    """Have the rows swept away of a container that was called `name` when it was deleted."""
    tx.put(account_part, keys.doomed(record.generation, record.rows_in or name), b"")
    tx.notify(sweep_topic)


async def forget(tx: Tx, where: Place) -> None:
    """Delete a container, leased, retained or not: what an administrator does."""
    raw = await tx.get(where.part, keys.container_record)
    if raw is not None:
        record = containers.decode(raw)
        _leave(tx, where, record)
        doom(tx, where.account_part, where.name, record)


async def _has_blobs(tx: ReadTx, where: Place, record: ContainerRecord) -> bool:
    """Whether there is a blob, a snapshot or a version: each might be protected."""
    home = home_of(where.part, record)
    for bounds in (keys.blobs_named, keys.snapshots_named, keys.versions_named):
        if await tx.scan(home.part, *bounds(home.generation, ""), limit=1):
            return True
    return False


class ContainerPosition(NamedTuple):
    """Where a page begins: namesakes that were deleted are told apart by their generation."""

    name: str = ""
    generation: int = 0


first_position: Final = ContainerPosition()


@dataclass(frozen=True, slots=True)
class ListContainers:
    prefix: str = ""
    start: ContainerPosition = first_position
    limit: int = 5000
    deleted: bool = False
    system: bool = False
    """Whether those that the service fills itself are listed as well."""


class ContainerEntry(NamedTuple):
    name: str
    record: ContainerRecord
    deleted: DeletedContainer | None = None

    @property
    def position(self) -> ContainerPosition:
        return ContainerPosition(self.name, self.record.generation)


class ContainerPage(NamedTuple):
    entries: list[ContainerEntry]
    next: ContainerPosition | None


async def list_containers(tx: ReadTx, account: str, wanted: ListContainers) -> ContainerPage:
    """One page of the directory, in order of names, deleted ones beside their namesakes."""
    part = keys.account_partition(account)
    begin, end = keys.directory(wanted.prefix)
    begin = max(begin, keys.directory_entry(wanted.start.name))
    hidden = frozenset() if wanted.system else service_containers
    # One may be of a namesake that the page before has listed.
    rows = await tx.scan(part, begin, end, limit=wanted.limit + 2 + len(hidden))
    names = [name for name in (keys.directory_name(key) for key, _ in rows) if name not in hidden]
    found = [
        ContainerEntry(name, await _record(tx, account, name)) for name in names[: wanted.limit + 2]
    ]
    if wanted.deleted:
        found += await _deleted(tx, part, wanted)
        found = sorted(
            (entry for entry in found if entry.position >= wanted.start),
            key=lambda entry: entry.position,
        )
    more = found[wanted.limit].position if len(found) > wanted.limit else None
    return ContainerPage(found[: wanted.limit], more)


async def container_names(tx: ReadTx, account: str, start: str) -> list[str]:
    """Some names from `start` on, in order; none when there are no more."""
    begin, end = keys.directory()
    begin = max(begin, keys.directory_entry(start))
    rows = await tx.scan(keys.account_partition(account), begin, end, limit=1000)
    return [keys.directory_name(key) for key, _ in rows]


async def _record(tx: ReadTx, account: str, name: str) -> ContainerRecord:
    raw = await tx.get(keys.container_partition(account, name), keys.container_record)
    assert raw is not None, "the directory names only containers that exist"
    return containers.decode(raw)


async def _deleted(tx: ReadTx, part: Partition, wanted: ListContainers) -> list[ContainerEntry]:
    begin, end = keys.deleted_containers()
    found: list[ContainerEntry] = []
    while rows := await tx.scan(part, begin, end, limit=1000):
        for key, raw in rows:
            name = keys.directory_name(key)
            kept = deleted_containers.decode(raw)
            if name.startswith(wanted.prefix) and Timestamp(kept.retained_until) > tx.now:
                found.append(ContainerEntry(name, kept.record, kept))
        begin = after(rows[-1][0])
    return found


async def deleted_rows(tx: ReadTx, where: Place, deleted_name: str, generation: int) -> Partition:
    """Where the rows of a deleted container lie; they stay there as long as it is kept."""
    raw = await tx.get(where.account_part, keys.deleted_container(deleted_name, generation))
    if raw is None:
        raise Refused("ContainerNotFound")
    return keys.sibling(where.part, deleted_containers.decode(raw).record.rows_in or deleted_name)


async def restore(tx: Tx, where: Place, deleted_name: str, generation: int) -> ContainerRecord:
    """Undelete a container (Azure: 'Restore Container'); the write names `deleted_rows` as well."""
    key = keys.deleted_container(deleted_name, generation)
    raw = await tx.get(where.account_part, key)
    if raw is None or deleted_containers.decode(raw).retained_until <= tx.now:
        raise Refused("ContainerNotFound")
    if await tx.get(where.part, keys.container_record) is not None:
        raise Refused("ContainerAlreadyExists")
    record = deleted_containers.decode(raw).record
    record = msgspec.structs.replace(
        record,
        etag=tx.stamp(),
        modified=tx.now,
        rows_in=_rows_in(record, deleted_name, where.name),
    )
    tx.delete(where.account_part, key)
    _enter(tx, where, record)
    return record


def _rows_in(record: ContainerRecord, old_name: str, new_name: str) -> str:
    """What the record says of where its rows are, once it has another name."""
    rows = record.rows_in or old_name
    return "" if rows == new_name else rows


async def rename(tx: Tx, source: Place, where: Place, guard: Guard) -> ContainerRecord:
    """Rename Container: everything in it, its lease and its policies go by the new name at once.

    The rows stay where they are, so that it takes no longer for a full container than for an empty
    one.  The lease is asked for as by a deletion.
    """
    record = await open_container(tx, source.part)
    admit_container_write(record, guard, tx.now, Use.WRITE)
    if await tx.get(where.part, keys.container_record) is not None:
        raise Refused("ContainerAlreadyExists")
    _leave(tx, source, record)
    renamed = msgspec.structs.replace(
        record,
        etag=tx.stamp(),
        modified=tx.now,
        rows_in=_rows_in(record, source.name, where.name),
        renamed=tx.now,
    )
    _enter(tx, where, renamed)
    return renamed
