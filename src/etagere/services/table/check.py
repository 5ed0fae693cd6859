"""What must hold of every table at rest; `etagere check` and the tests ask for it."""

from typing import Final

import msgspec

from etagere.kv.check import CheckTx, Finding
from etagere.kv.layers.records import DamagedRecord
from etagere.kv.layers.rows import every_row
from etagere.kv.tuples import unpack
from etagere.services.table import entity, keys
from etagere.services.table.records import directory_entries
from etagere.services.table.records import entities as entity_records
from etagere.services.table.records import tables as table_records


class TableChecker:
    """A `Checker` for the rows of all accounts' tables."""

    name: Final = "table"

    async def check(self, tx: CheckTx) -> list[Finding]:
        findings: list[Finding] = []
        for part in list(tx.partitions()):
            match unpack(part):
                case (keys.service, str(account)):
                    where, problems = account, await _check_directory(tx, account)
                case (keys.service, str(account), str(name)):
                    where = f"{account}/{name}"
                    problems = await _check_table(tx, account, name)
                case _:
                    continue
            findings += [Finding(self.name, where, problem) for problem in problems]
        return findings


async def _check_directory(tx: CheckTx, account: str) -> list[str]:
    """Every name in the directory is that of a table's record."""
    part = keys.account_partition(account)
    problems: list[str] = []
    async for key, raw in every_row(tx, part, *keys.directory()):
        name = keys.directory_name(key)
        record = await tx.get(keys.table_partition(account, name), keys.table_record)
        try:
            entry = directory_entries.decode(raw)
            if record is None:
                problems.append(f"table {name} is in the directory, but not there")
                continue
            table = table_records.decode(record)
        except DamagedRecord as damage:
            problems.append(f"table {name} does not decode: {damage}")
            continue
        if (entry.name, entry.generation) != (table.name, table.generation):
            problems.append(f"table {name} is not the one in the directory")
        if entry.name.lower() != name:
            problems.append(f"table {name} is called {entry.name}")
    return problems


async def _check_table(tx: CheckTx, account: str, name: str) -> list[str]:
    """A table's entities decode, and those of earlier generations wait to be swept away."""
    part = keys.table_partition(account, name)
    account_part = keys.account_partition(account)
    raw = await tx.get(part, keys.table_record)
    current = 0
    if raw is not None:
        try:
            current = table_records.decode(raw).generation
        except DamagedRecord:
            return []  # the directory's check says so
        if await tx.get(account_part, keys.directory_entry(name)) is None:
            return ["there, but not in the directory"]
    problems: list[str] = []
    swept: set[int] = set()
    async for key, raw_entity in every_row(tx, part, *keys.all_entities()):
        generation = keys.entity_generation(key)
        if generation == current:
            problems += _check_entity(key, raw_entity, tx.last_stamp)
        elif generation not in swept:
            swept.add(generation)
            if await tx.get(account_part, keys.doomed(generation, name)) is None:
                problems.append(f"entities of generation {generation}, which nothing sweeps away")
    return problems


def _check_entity(key: bytes, raw: bytes, last_stamp: int) -> list[str]:
    try:
        record = entity_records.decode(raw)
        entity.decode(record.properties)
    except (DamagedRecord, msgspec.MsgspecError, ValueError) as damage:
        return [f"entity {key.hex()} does not decode: {damage}"]
    if record.stamp > last_stamp:
        return [f"entity {key.hex()} has a stamp above the store's last one"]
    return []
