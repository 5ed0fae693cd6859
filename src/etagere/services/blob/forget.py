"""Forgetting an account's blobs at once: what an administrator does, not an operation."""

from functools import partial
from typing import Final

from etagere.kv.contract import Engine, Partition, Tx
from etagere.services.blob import containers, keys
from etagere.services.blob.containers import container_names, place
from etagere.services.blob.following import FollowingEngine
from etagere.services.blob.records import deleted_containers
from etagere.services.common import service_properties

containers_a_step: Final = 256


async def forget(engine: Engine, account: str) -> None:
    """Doom every container, leased, retained or not; the sweep takes their rows and extents."""
    following = FollowingEngine(engine)
    while names := await engine.read(partial(container_names, account=account, start="")):
        for name in names:
            where = place(account, name)
            body = partial(containers.forget, where=where)
            await following.write((where.account_part, where.part), body)
    part = keys.account_partition(account)
    while await engine.write((part,), partial(_end_retention, account=account)):
        pass
    properties = service_properties.partition("blob", account)
    await engine.write((properties,), partial(_clear, part=properties))


async def _end_retention(tx: Tx, account: str) -> bool:
    part = keys.account_partition(account)
    rows = await tx.scan(part, *keys.deleted_containers(), limit=containers_a_step)
    for key, raw in rows:
        name, _ = keys.kept_container(key)
        tx.delete(part, key)
        containers.doom(tx, part, name, deleted_containers.decode(raw).record)
    return len(rows) == containers_a_step


async def _clear(tx: Tx, part: Partition) -> None:
    service_properties.clear(tx, part)
