"""Queue operations, as bodies of transactions (Azure: 'Operations on queues').

A queue is its head and its properties, in its own partition, and its entry in the account's
directory; creating and deleting name both partitions.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from etagere.base.errors import Refused
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.services.common.access_policy import StoredPolicy
from etagere.services.queue import keys, records
from etagere.services.queue.records import QueueHead, QueueProperties

expired_discounted_max: Final = 5000
"""How many expired messages, not yet removed, the approximate count leaves out."""


class Place(NamedTuple):
    """A queue's name and its two partitions."""

    name: str
    part: Partition
    account_part: Partition

    @property
    def parts(self) -> tuple[Partition, Partition]:
        return self.account_part, self.part


def place(account: str, name: str) -> Place:
    return Place(name, keys.queue_partition(account, name), keys.account_partition(account))


async def open_queue(tx: ReadTx, part: Partition) -> QueueHead:
    raw = await tx.get(part, keys.head)
    if raw is None:
        raise Refused("QueueNotFound")
    return records.heads.decode(raw)


async def get_properties(tx: ReadTx, part: Partition) -> QueueProperties:
    raw = await tx.get(part, keys.properties)
    if raw is None:
        raise Refused("QueueNotFound")
    return records.properties.decode(raw)


async def create(tx: Tx, where: Place, metadata: dict[str, str]) -> bool:
    """False if the queue is there already, with the same metadata."""
    raw = await tx.get(where.part, keys.properties)
    if raw is not None:
        if _folded(records.properties.decode(raw).metadata) != _folded(metadata):
            raise Refused("QueueAlreadyExists")
        return False
    _put_head(tx, where.part, QueueHead(tx.stamp(), 0))
    _put_properties(tx, where.part, QueueProperties(tx.now, metadata))
    tx.put(where.account_part, keys.directory_entry(where.name), b"")
    return True


async def delete(tx: Tx, where: Place) -> None:
    """Forget the queue at once; its name is free and its messages are swept away later.

    The live service keeps the name for 30 seconds and more (QueueBeingDeleted); its emulators do
    not, and nothing that is right there fails here.
    """
    head = await open_queue(tx, where.part)
    tx.delete(where.part, keys.head)
    tx.delete(where.part, keys.properties)
    tx.delete(where.account_part, keys.directory_entry(where.name))
    _doom(tx, where, head)


async def clear(tx: Tx, where: Place) -> None:
    """Clear Messages: hidden ones too, in one step however many there are."""
    head = await open_queue(tx, where.part)
    if head.count:
        _doom(tx, where, head)
        _put_head(tx, where.part, QueueHead(tx.stamp(), 0))


class QueueView(NamedTuple):
    properties: QueueProperties
    approximate_count: int


async def view(tx: ReadTx, part: Partition) -> QueueView:
    """Get Queue Metadata: messages that have expired are not counted, removed or not."""
    properties = await get_properties(tx, part)
    head = await open_queue(tx, part)
    begin, end = keys.expired_at(head.generation, tx.now)
    expired = await tx.scan(part, begin, end, limit=expired_discounted_max) if head.count else []
    return QueueView(properties, head.count - len(expired))


async def set_metadata(tx: Tx, part: Partition, metadata: dict[str, str]) -> None:
    properties = await get_properties(tx, part)
    _put_properties(tx, part, msgspec.structs.replace(properties, metadata=metadata))


async def set_policies(tx: Tx, part: Partition, policies: tuple[StoredPolicy, ...]) -> None:
    properties = await get_properties(tx, part)
    _put_properties(tx, part, msgspec.structs.replace(properties, policies=policies))


@dataclass(frozen=True, slots=True)
class ListQueues:
    limit: int
    prefix: str = ""
    marker: str = ""
    """The name of the first queue that may be listed."""
    with_metadata: bool = False


class QueueEntry(NamedTuple):
    name: str
    metadata: dict[str, str] | None


class QueuePage(NamedTuple):
    entries: list[QueueEntry]
    next_marker: str
    """"" where the listing ends."""


async def list_queues(tx: ReadTx, account: str, wanted: ListQueues) -> QueuePage:
    """One page of the directory, in order of names."""
    begin, end = keys.directory(wanted.prefix)
    begin = max(begin, keys.directory_entry(wanted.marker))
    part = keys.account_partition(account)
    rows = await tx.scan(part, begin, end, limit=wanted.limit + 1)
    names = [keys.directory_name(key) for key, _ in rows]
    entries = [
        QueueEntry(
            name,
            (await get_properties(tx, keys.queue_partition(account, name))).metadata
            if wanted.with_metadata
            else None,
        )
        for name in names[: wanted.limit]
    ]
    return QueuePage(entries, names[wanted.limit] if len(names) > wanted.limit else "")


def _doom(tx: Tx, where: Place, head: QueueHead) -> None:
    if head.count:
        tx.put(where.account_part, keys.doomed(head.generation, where.name), b"")
        tx.notify(keys.sweep_topic())


def _put_head(tx: Tx, part: Partition, head: QueueHead) -> None:
    tx.put(part, keys.head, records.heads.encode(head))


def _put_properties(tx: Tx, part: Partition, properties: QueueProperties) -> None:
    tx.put(part, keys.properties, records.properties.encode(properties))


def _folded(metadata: dict[str, str]) -> dict[str, str]:
    """Names of metadata are the same in any case."""
    return {name.lower(): value for name, value in metadata.items()}
