"""Sweeping away what deleted tables held, in small steps that hold nobody up."""

from typing import Final, NamedTuple

from etagere.kv.contract import Engine, ReadTx, Tx
from etagere.services.table import keys

rows_a_step: Final = 500


class _Doomed(NamedTuple):
    key: bytes
    generation: int
    table: str


async def sweep_step(engine: Engine, account: str) -> bool:
    """Delete some of the entities of one deleted table; false if there is nothing to sweep."""
    account_part = keys.account_partition(account)

    async def first(tx: ReadTx) -> _Doomed | None:
        rows = await tx.scan(account_part, *keys.all_doomed(), limit=1)
        if not rows:
            return None
        key = rows[0][0]
        return _Doomed(key, *keys.doomed_table(key))

    doomed = await engine.read(first)
    if doomed is None:
        return False
    table_part = keys.table_partition(account, doomed.table)

    async def delete(tx: Tx) -> None:
        begin, end = keys.entities(doomed.generation)
        rows = await tx.scan(table_part, begin, end, limit=rows_a_step)
        for key, _ in rows:
            tx.delete(table_part, key)
        if len(rows) < rows_a_step:
            tx.delete(account_part, doomed.key)

    await engine.write((account_part, table_part), delete)
    return True
