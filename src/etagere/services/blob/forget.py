"""Forgetting an account's blobs at once: what an administrator does, not an operation."""

from functools import partial
from typing import Final

from etagere.kv.contract import Engine, Partition, Tx
from etagere.services.blob import keys
from etagere.services.blob.containers import Place, container_names, place
from etagere.services.blob.records import containers
from etagere.services.common import service_properties

containers_a_step: Final = 256


async def forget(engine: Engine, account: str) -> None:
    """Doom every container, leased, retained or not; the sweep takes their rows and extents."""
    while names := await engine.read(partial(container_names, account=account, start="")):
        for name in names:
            where = place(account, name)
            await engine.write((where.account_part, where.part), partial(_doom, where=where))
    part = keys.account_partition(account)
    while await engine.write((part,), partial(_end_retention, account=account)):
        pass
    properties = service_properties.partition("blob", account)
    await engine.write((properties,), partial(_clear, part=properties))


async def _doom(tx: Tx, where: Place) -> None:
    raw = await tx.get(where.part, keys.container_record)
    if raw is not None:
        tx.delete(where.part, keys.container_record)
        doomed = keys.doomed(containers.decode(raw).generation, where.name)
        tx.put(where.account_part, doomed, b"")
    tx.delete(where.account_part, keys.directory_entry(where.name))


async def _end_retention(tx: Tx, account: str) -> bool:
    part = keys.account_partition(account)
    rows = await tx.scan(part, *keys.deleted_containers(), limit=containers_a_step)
    for key, _ in rows:
        name, generation = keys.kept_container(key)
        tx.delete(part, key)
        tx.put(part, keys.doomed(generation, name), b"")
    return len(rows) == containers_a_step


async def _clear(tx: Tx, part: Partition) -> None:
    service_properties.clear(tx, part)
