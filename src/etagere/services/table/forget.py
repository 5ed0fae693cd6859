"""Forgetting an account's tables at once: what an administrator does, not an operation."""

from functools import partial
from typing import Final

from etagere.base.errors import Refused
from etagere.kv.contract import Engine, Partition, Tx
from etagere.services.common import service_properties
from etagere.services.table.tables import ListTables, delete, list_tables, place

tables_a_page: Final = 256


async def forget(engine: Engine, account: str) -> None:
    """Delete every table; the sweep takes their entities."""
    wanted = ListTables(tables_a_page)
    while names := (await engine.read(partial(list_tables, account=account, wanted=wanted))).names:
        for name in names:
            where = place(account, name)
            try:
                await engine.write((where.account_part, where.part), partial(delete, where=where))
            except Refused:
                continue  # somebody else deleted it
    properties = service_properties.partition("table", account)
    await engine.write((properties,), partial(_clear, part=properties))


async def _clear(tx: Tx, part: Partition) -> None:
    service_properties.clear(tx, part)
