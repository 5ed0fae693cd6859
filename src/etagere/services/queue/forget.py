"""Forgetting an account's queues at once: what an administrator does, not an operation."""

from functools import partial
from typing import Final

from etagere.base.errors import Refused
from etagere.kv.contract import Engine, Partition, Tx
from etagere.services.common import service_properties
from etagere.services.queue.queues import ListQueues, delete, list_queues, place

queues_a_page: Final = 256


async def forget(engine: Engine, account: str) -> None:
    """Delete every queue; the sweep takes their messages."""
    wanted = ListQueues(queues_a_page)
    while page := (await engine.read(partial(list_queues, account=account, wanted=wanted))).entries:
        for entry in page:
            where = place(account, entry.name)
            try:
                await engine.write((where.account_part, where.part), partial(delete, where=where))
            except Refused:
                continue  # somebody else deleted it
    properties = service_properties.partition("queue", account)
    await engine.write((properties,), partial(_clear, part=properties))


async def _clear(tx: Tx, part: Partition) -> None:
    service_properties.clear(tx, part)
