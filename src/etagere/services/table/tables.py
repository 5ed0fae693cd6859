"""Table operations, as bodies of transactions (Azure: 'Operations on tables').

A table is its record, in its own partition, and its entry in the account's directory; both are
written in one transaction that names both partitions.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from etagere.base.errors import Refused
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.common.access_policy import StoredPolicy
from etagere.services.table import keys
from etagere.services.table.filter_match import Predicate
from etagere.services.table.records import (
    DirectoryEntry,
    TableRecord,
    directory_entries,
)
from etagere.services.table.records import tables as table_records

tables_examined_max: Final = 10_000
_scan_rows: Final = 1000


class Place(NamedTuple):
    """A table's name, in the case that the request has it, and its two partitions."""

    name: str
    part: Partition
    account_part: Partition


def place(account: str, name: str) -> Place:
    return Place(name, keys.table_partition(account, name), keys.account_partition(account))


async def find_table(tx: ReadTx, part: Partition) -> TableRecord | None:
    raw = await tx.get(part, keys.table_record)
    return None if raw is None else table_records.decode(raw)


async def open_table(tx: ReadTx, part: Partition) -> TableRecord:
    """The table whose entities are asked for."""
    record = await find_table(tx, part)
    if record is None:
        raise Refused("TableNotFound")
    return record


async def get(tx: ReadTx, where: Place) -> TableRecord:
    """The table itself as a resource."""
    record = await find_table(tx, where.part)
    if record is None:
        raise Refused("ResourceNotFound")
    return record


async def create(tx: Tx, where: Place) -> TableRecord:
    if await find_table(tx, where.part) is not None:
        raise Refused("TableAlreadyExists")
    record = TableRecord(where.name, tx.stamp())
    tx.put(where.part, keys.table_record, table_records.encode(record))
    tx.put(
        where.account_part,
        keys.directory_entry(where.name),
        directory_entries.encode(DirectoryEntry(record.name, record.generation)),
    )
    return record


async def delete(tx: Tx, where: Place) -> None:
    """Forget the table at once; its name is free and its entities are swept away later.

    The live service keeps the name for 40 seconds and more; its emulators do not, and nothing
    that is right there fails here.
    """
    record = await get(tx, where)
    tx.delete(where.part, keys.table_record)
    tx.delete(where.account_part, keys.directory_entry(where.name))
    tx.put(where.account_part, keys.doomed(record.generation, where.name), b"")


async def set_policies(tx: Tx, where: Place, policies: tuple[StoredPolicy, ...]) -> None:
    record = msgspec.structs.replace(await get(tx, where), policies=policies)
    tx.put(where.part, keys.table_record, table_records.encode(record))


@dataclass(frozen=True, slots=True)
class ListTables:
    limit: int
    begin: str = ""
    """The name, in lower case, of the first table that may be listed."""
    predicate: Predicate | None = None
    """Takes the name as the property TableName."""


class TablePage(NamedTuple):
    names: list[str]
    next_name: str | None


async def list_tables(tx: ReadTx, account: str, wanted: ListTables) -> TablePage:
    """One page of the directory, in order of names without regard to case."""
    part = keys.account_partition(account)
    begin, end = keys.directory()
    begin = max(begin, keys.directory_entry(wanted.begin))
    names: list[str] = []
    examined = 0
    while rows := await tx.scan(part, begin, end, limit=_scan_rows):
        for key, raw in rows:
            if len(names) == wanted.limit or examined == tables_examined_max:
                return TablePage(names, keys.directory_name(key))
            examined += 1
            name = directory_entries.decode(raw).name
            if wanted.predicate is None or wanted.predicate("", "", 0, {"TableName": name}):
                names.append(name)
        begin = after(rows[-1][0])
    return TablePage(names, None)
