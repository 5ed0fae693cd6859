"""Removing what no operation waits for: cleared and deleted messages, and expired ones.

Everything goes in small steps, so that nobody is held up.
"""

from typing import Final, NamedTuple

from etagere.kv.contract import Engine, Partition, ReadTx, Tx
from etagere.services.queue import keys, records
from etagere.services.queue.messages import remove_expired

rows_a_step: Final = 500
expired_a_step: Final = 125
queues_a_step: Final = 100


class _Doomed(NamedTuple):
    key: bytes
    generation: int
    queue: str


async def sweep_step(engine: Engine, account: str) -> bool:
    """Delete some rows of one generation that was cleared or deleted; false if there is none."""
    account_part = keys.account_partition(account)

    async def first(tx: ReadTx) -> _Doomed | None:
        rows = await tx.scan(account_part, *keys.all_doomed(), limit=1)
        if not rows:
            return None
        key = rows[0][0]
        return _Doomed(key, *keys.doomed_generation(key))

    doomed = await engine.read(first)
    if doomed is None:
        return False
    queue_part = keys.queue_partition(account, doomed.queue)

    async def delete(tx: Tx) -> None:
        room = rows_a_step
        for begin, end in keys.everything(doomed.generation):
            rows = await tx.scan(queue_part, begin, end, limit=room)
            for key, _ in rows:
                tx.delete(queue_part, key)
            room -= len(rows)
            if room == 0:
                return
        tx.delete(account_part, doomed.key)

    await engine.write((account_part, queue_part), delete)
    return True


async def expire_step(engine: Engine, account: str, first_name: str = "") -> str | None:
    """Remove the expired messages of some queues, from `first_name` on, in order of names.

    Returns the name to go on with, or None after the last queue.
    """
    account_part = keys.account_partition(account)

    async def look(tx: ReadTx) -> tuple[list[str], str | None]:
        begin, end = keys.directory()
        begin = max(begin, keys.directory_entry(first_name))
        rows = await tx.scan(account_part, begin, end, limit=queues_a_step + 1)
        names = [keys.directory_name(key) for key, _ in rows]
        follower = names[queues_a_step] if len(names) > queues_a_step else None
        return [name for name in names[:queues_a_step] if await expired(tx, name)], follower

    async def expired(tx: ReadTx, name: str) -> bool:
        part = keys.queue_partition(account, name)
        raw = await tx.get(part, keys.head)
        assert raw is not None, "the directory names only queues that exist"
        head = records.heads.decode(raw)
        return bool(await tx.scan(part, *keys.expired_at(head.generation, tx.now), limit=1))

    names, follower = await engine.read(look)
    for name in names:
        part = keys.queue_partition(account, name)
        while await _expire(engine, part):
            pass
    return follower


async def _expire(engine: Engine, part: Partition) -> int:
    return await engine.write((part,), lambda tx: remove_expired(tx, part, expired_a_step))
