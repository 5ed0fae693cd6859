"""Entity operations, as bodies of transactions (Azure: 'Operations on entities').

    Insert              fails if the entity exists
    Update, Merge       need If-Match: the current ETag, or `*`
    Delete              the same
    Insert Or Replace   checks nothing
    Insert Or Merge     checks nothing

One transaction looks and writes, so of many writers with one ETag exactly one gets through.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from etagere.base.errors import Refused
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.table import entity, keys
from etagere.services.table.etag import matches
from etagere.services.table.names import are_keys, check_key, check_partition_key
from etagere.services.table.records import EntityRecord
from etagere.services.table.records import entities as entity_records
from etagere.services.table.tables import open_table

batch_operations_max: Final = 100
index_detail: Final = "Index"
"""The detail of a refusal that says which operation of a batch was refused, from 0."""


class Change(Enum):
    INSERT = "insert"
    REPLACE = "replace"
    MERGE = "merge"
    DELETE = "delete"


_scan_keys_min: Final = 4

# The class is a slow place to look members up in.
_insert: Final = Change.INSERT
_merge: Final = Change.MERGE
_delete: Final = Change.DELETE


class Write(msgspec.Struct, frozen=True, gc=False):
    """A change to one entity.  With `if_match` the entity must exist and match it."""

    change: Change
    partition_key: str
    row_key: str
    if_match: str | None
    fragment: bytes
    """The properties as they are stored, encoded once however often a body runs."""


class Series(msgspec.Struct, frozen=True, gc=False):
    """One kind of change to several entities of a partition, each of which is there once."""

    change: Change
    partition_key: str
    row_keys: list[str]
    if_match: str | None
    fragments: list[bytes]

    @property
    def writes(self) -> list[Write]:
        """The changes, one by one."""
        return [
            Write(self.change, self.partition_key, row_key, self.if_match, fragment)
            for row_key, fragment in zip(self.row_keys, self.fragments, strict=True)
        ]


class Stored(msgspec.Struct, frozen=True, gc=False):
    """An entity as it lies in the store."""

    partition_key: str
    row_key: str
    stamp: int
    fragment: bytes


def write_of(
    change: Change,
    partition_key: str,
    row_key: str,
    *,
    if_match: str | None = None,
    fragment: bytes = b"",
) -> Write:
    """A change whose entity is one that a table can hold; anything else is refused."""
    if change is not _delete:
        check_partition_key(partition_key)
        check_key(row_key)
        entity.check_size(partition_key, row_key, fragment)
    return Write(change, partition_key, row_key, if_match, fragment)


def series_of(
    change: Change,
    partition_key: str,
    row_keys: list[str],
    fragments: list[bytes],
    *,
    if_match: str | None = None,
) -> Series | None:
    """Such a change, if it is plain that neither `write_of` nor `check_group` refuses any of it."""
    if (
        len(row_keys) > batch_operations_max
        or len(set(row_keys)) != len(row_keys)
        or not are_keys((partition_key, *row_keys))
        or max(map(len, fragments)) > entity.fragment_bytes_unmeasured
    ):
        return None
    return Series(change, partition_key, row_keys, if_match, fragments)


async def get(tx: ReadTx, part: Partition, partition_key: str, row_key: str) -> Stored:
    table = await open_table(tx, part)
    raw = await tx.get(part, keys.entity(table.generation, partition_key, row_key))
    if raw is None:
        raise Refused("ResourceNotFound")
    record = entity_records.decode(raw)
    return Stored(partition_key, row_key, record.stamp, record.properties)


async def write(tx: Tx, part: Partition, wanted: Write) -> int:
    """Do one change; returns the entity's stamp, 0 if it was deleted."""
    table = await open_table(tx, part)
    key = keys.entity(table.generation, wanted.partition_key, wanted.row_key)
    old = await tx.get(part, key) if _looks(wanted) else None
    return _apply(tx, part, key, wanted, old)


async def transact(tx: Tx, part: Partition, batch: Sequence[Write]) -> list[int]:
    """Do all changes of an entity group transaction, or none; a refusal says which it was."""
    places = await _places(tx, part, batch[0].partition_key, [wanted.row_key for wanted in batch])
    old = await _read(
        tx, part, [key for key, wanted in zip(places, batch, strict=True) if _looks(wanted)]
    )
    return _apply_each(tx, part, places, batch, old)


async def transact_series(tx: Tx, part: Partition, wanted: Series) -> list[int]:
    """The same for changes of one kind: all at once where none of them can be refused."""
    change, fragments = wanted.change, wanted.fragments
    places = await _places(tx, part, wanted.partition_key, wanted.row_keys)
    old = await _read(tx, part, places) if _looks(wanted) else {}
    if wanted.if_match is not None or (old and change is _insert):
        return _apply_each(tx, part, places, wanted.writes, old)
    assert change is not _delete  # which has an If-Match
    if old:
        fragments = _merge_each(places, wanted, old)
    stamps = [tx.stamp() for _ in places]
    records = entity_records.encode_each(map(EntityRecord, stamps, fragments))
    tx.put_all(part, dict(zip(places, records, strict=True)))
    return stamps


async def _places(
    tx: Tx, part: Partition, partition_key: str, row_keys: Sequence[str]
) -> list[bytes]:
    """The keys of these entities.  A table that is not there is the first operation's fault."""
    try:
        table = await open_table(tx, part)
    except Refused as refused:
        raise at_index(refused, 0) from None
    return keys.entities_of_partition(table.generation, partition_key, row_keys)


def _apply_each(
    tx: Tx, part: Partition, places: list[bytes], batch: Sequence[Write], old: dict[bytes, bytes]
) -> list[int]:
    stamps: list[int] = []
    try:
        for key, wanted in zip(places, batch, strict=True):
            stamps.append(_apply(tx, part, key, wanted, old.get(key)))
    except Refused as refused:
        raise at_index(refused, len(stamps)) from None
    return stamps


async def _read(tx: Tx, part: Partition, wanted: list[bytes]) -> dict[bytes, bytes]:
    """The rows of these keys that exist.

    Rows of one batch mostly lie side by side, and new ones mostly where nothing is yet: then one
    scan finds out, for a fraction of what as many gets cost.
    """
    if len(wanted) >= _scan_keys_min:
        rows = await tx.scan(part, min(wanted), after(max(wanted)), limit=len(wanted) + 1)
        if len(rows) <= len(wanted):
            return dict(rows)
    found = {}
    for key in wanted:
        row = await tx.get(part, key)
        if row is not None:
            found[key] = row
    return found


def at_index(refused: Refused, index: int) -> Refused:
    """The refusal of the operation at this index of a batch."""
    return Refused(
        refused.code,
        {**refused.details, index_detail: str(index)},
        headers=refused.headers,
        message=refused.message,
    )


def check_group(batch: Sequence[Write]) -> None:
    """Refuse a batch whose operations cannot be one entity group transaction.

    (Azure: 'Performing entity group transactions', requirements.)
    """
    seen: set[str] = set()
    for index, wanted in enumerate(batch):
        if index == batch_operations_max:
            raise at_index(
                Refused(
                    "InvalidInput",
                    message="The batch request operation exceeds the maximum 100 changes per "
                    "change set.",
                ),
                index - 1,  # the live service names the last one that it would have taken
            )
        if wanted.partition_key != batch[0].partition_key:
            raise at_index(Refused("CommandsInBatchActOnDifferentPartitions"), index)
        if wanted.row_key in seen:
            raise at_index(Refused("InvalidDuplicateRow"), index)
        seen.add(wanted.row_key)


def _looks(wanted: Write | Series) -> bool:
    """Whether what becomes of a change depends on what is there."""
    change = wanted.change
    return wanted.if_match is not None or change is _insert or change is _merge


def _apply(tx: Tx, part: Partition, key: bytes, wanted: Write, old: bytes | None) -> int:
    change, fragment = wanted.change, wanted.fragment
    if wanted.if_match is not None:
        _check(old, wanted.if_match)
    if change is _insert:
        if old is not None:
            raise Refused("EntityAlreadyExists")
    elif change is _merge:
        if old is not None:
            fragment = _merged(old, wanted)
    elif change is _delete:
        assert wanted.if_match is not None
        tx.delete(part, key)
        return 0
    stamp = tx.stamp()
    tx.put(part, key, entity_records.encode(EntityRecord(stamp, fragment)))
    return stamp


def _merge_each(places: list[bytes], wanted: Series, old: dict[bytes, bytes]) -> list[bytes]:
    merged: list[bytes] = []
    try:
        for key, write in zip(places, wanted.writes, strict=True):
            own = old.get(key)
            merged.append(write.fragment if own is None else _merged(own, write))
    except Refused as refused:
        raise at_index(refused, len(merged)) from None
    return merged


def _merged(old: bytes, wanted: Write) -> bytes:
    own = entity.decode(entity_records.decode(old).properties)
    new = entity.decode(wanted.fragment)
    if own.keys() <= new.keys():
        return wanted.fragment  # nothing of the old stays
    fragment = entity.encode(entity.merge(own, new))
    entity.check_size(wanted.partition_key, wanted.row_key, fragment)
    return fragment


def _check(raw: bytes | None, if_match: str) -> None:
    if raw is None:
        raise Refused("ResourceNotFound")
    if not matches(if_match, entity_records.decode(raw).stamp):
        raise Refused("UpdateConditionNotSatisfied")
