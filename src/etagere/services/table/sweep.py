"""Sweeping away what deleted tables held."""

from etagere.kv.contract import Engine
from etagere.services.common import doomed
from etagere.services.common.doomed import Remains
from etagere.services.table import keys


async def sweep_step(engine: Engine, account: str) -> bool:
    """Delete some of the entities of one deleted table; false if there is nothing to sweep."""

    def remains_of(mark: bytes) -> Remains:
        generation, table = keys.doomed_table(mark)
        return keys.table_partition(account, table), (keys.entities(generation),)

    part = keys.account_partition(account)
    return await doomed.sweep_step(engine, part, keys.all_doomed(), remains_of)
