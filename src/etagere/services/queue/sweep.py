"""Removing what no operation waits for: cleared and deleted messages, and expired ones.

Everything goes in small steps, so that nobody is held up.
"""

from functools import partial
from typing import Final, NamedTuple

from etagere.base.clock import Timestamp, seconds
from etagere.kv.contract import Engine, Partition, ReadTx
from etagere.services.common import doomed
from etagere.services.common.doomed import Remains
from etagere.services.queue import keys, records
from etagere.services.queue.messages import remove_expired

expired_a_step: Final = 250
queues_a_step: Final = 100
seconds_between_min: Final = 1
"""Expired messages are out of sight at once; removing them can wait for company."""


async def sweep_step(engine: Engine, account: str) -> bool:
    """Delete some rows of one generation that was cleared or deleted; false if there is none."""

    def remains_of(mark: bytes) -> Remains:
        generation, queue = keys.doomed_generation(mark)
        return keys.queue_partition(account, queue), keys.everything(generation)

    part = keys.account_partition(account)
    return await doomed.sweep_step(engine, part, keys.all_doomed(), remains_of)


async def sweep(engine: Engine, account: str, now: Timestamp) -> Timestamp | None:
    """Do all that is due in an account; returns when there will be something more to do.

    None if nothing that is there now will ever be due.
    """
    while await sweep_step(engine, account):
        pass
    follower: str | None = ""
    due: list[Timestamp] = []
    while follower is not None:
        looked = await _expire_some(engine, account, follower)
        follower = looked.follower
        due += looked.next_due
    return max(min(due), Timestamp(now + seconds(seconds_between_min))) if due else None


class _Looked(NamedTuple):
    follower: str | None
    """The first queue that was not looked at."""
    expired: list[str]
    """The queues that have expired messages."""
    next_due: list[Timestamp]
    """When the next messages of the others expire."""


async def _expire_some(engine: Engine, account: str, first_name: str) -> _Looked:
    account_part = keys.account_partition(account)

    async def look(tx: ReadTx) -> _Looked:
        begin, end = keys.directory()
        begin = max(begin, keys.directory_entry(first_name))
        rows = await tx.scan(account_part, begin, end, limit=queues_a_step + 1)
        names = [keys.directory_name(key) for key, _ in rows]
        looked = _Looked(names[queues_a_step] if len(names) > queues_a_step else None, [], [])
        for name in names[:queues_a_step]:
            due = await _first_expiry(tx, keys.queue_partition(account, name))
            if due is not None and due <= tx.now:
                looked.expired.append(name)
            elif due is not None:
                looked.next_due.append(due)
        return looked

    looked = await engine.read(look)
    for name in looked.expired:
        part = keys.queue_partition(account, name)
        while await _expire(engine, part) == expired_a_step:
            pass
        due = await engine.read(partial(_first_expiry, part=part))
        if due is not None:
            looked.next_due.append(due)
    return looked


async def _first_expiry(tx: ReadTx, part: Partition) -> Timestamp | None:
    raw = await tx.get(part, keys.head)
    if raw is None:
        return None
    rows = await tx.scan(part, *keys.expiries(records.heads.decode(raw).generation), limit=1)
    return keys.expiry_time(rows[0][0]) if rows else None


async def _expire(engine: Engine, part: Partition) -> int:
    return await engine.write((part,), lambda tx: remove_expired(tx, part, expired_a_step))
