"""Who refers to an extent, and what happens to one that nobody refers to any more.

The truth is in the store, changed in the same transaction as the record that refers:

- In the holder's own partition a `held` row counts its references.  Almost every change (a blob
  overwritten, a snapshot, a block list committed) touches this partition only.
- In one of a few shard partitions, chosen by the extent's id, an *edge* says which partitions hold
  the extent at all, so that copies between containers share bytes.  A write that refers to an
  extent which its partition did not hold before names `shard_of` it as well.

Dropping the last reference leaves the edge, and a row that says when it is due: for a grace period
streams that have begun go on, and a new reference costs nothing.  Then `reap` removes the edge
and, if it was the last, gives the extent up (a row in the shard says so) and removes the file.

If the process dies after                                  this is left, and repaired by
    sealing, before the transaction that holds             an orphan: `scrub`, once it is old
    the transaction that holds                             nothing is wrong
    the transaction that drops                             a due row: `reap`
    reap's transaction, before the file is removed         an orphan, given up: `scrub`
    reap's removal of the file                             the given-up row: `scrub`
    scrub's transaction, before the file is removed        an orphan, given up: `scrub`, next time

Why no file goes that somebody refers to: an edge appears and disappears only in a serializable
write on its shard, and a file is removed only after such a write found no edge and gave the extent
up, in one step.  A copy that commits before it has left an edge to be found; one that comes
after finds the extent given up and gets ExtentGone (the source is not what it was: read it again).
An upload is the one who comes with neither edge nor given-up row; so the row stays longer than
anybody could sit on an id before referring to it, and a copy asks for more (`share`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final

from etagere.base.clock import Timestamp, seconds
from etagere.extents import keys
from etagere.extents.contract import ExtentGone, ExtentId, ExtentStore
from etagere.extents.keys import shard_of
from etagere.kv.contract import Engine, Partition, ReadTx, Tx
from etagere.kv.tuples import after

__all__ = [
    "Held",
    "drop",
    "due_topic",
    "give_up",
    "grace_default",
    "hold",
    "next_due",
    "reap",
    "scrub",
    "shard_of",
    "share",
]

grace_default: Final = seconds(60)

orphan_refused_for: Final = seconds(24 * 3600)
"""How long nobody may refer to what was never referred to.  Far above the time between sealing an
extent and the end of the transaction that was to refer to it."""

reaped_refused_for: Final = seconds(3600)
"""The same for what was once referred to: its upload is long over, so that this only catches
somebody who takes a reference with `hold` where `share` is called for."""

forgotten_a_step: Final = 4

scrub_age_default: Final = seconds(24 * 3600)
"""Younger files may belong to uploads whose transaction is still to come."""

reap_batch: Final = 64
scrub_batch: Final = 256

_fields: Final = Struct("<IQ")


@dataclass(frozen=True, slots=True)
class Held:
    """How often a partition refers to an extent; at zero, when that ends for good."""

    count: int
    due: Timestamp

    def encode(self) -> bytes:
        return _fields.pack(self.count, self.due)

    @classmethod
    def decode(cls, raw: bytes) -> "Held":
        count, due = _fields.unpack(raw)
        return cls(count, Timestamp(due))


_not_due: Final = Timestamp(0)


def due_topic(part: Partition) -> bytes:
    """Notified when something in this partition has become due after its grace."""
    return b"extents due " + part


async def hold(tx: Tx, part: Partition, extent_ids: Iterable[bytes]) -> None:
    """Refer to each of these once more (once for each time that it is given).

    Those that the partition does not hold yet must have been uploaded for this transaction; it
    names `shard_of` them.  ExtentGone if one has been given up.
    """
    for extent_id, times in Counter(extent_ids).items():
        if not await _hold_again(tx, part, ExtentId(extent_id), times):
            await _hold_first(tx, part, ExtentId(extent_id), times)


async def share(tx: Tx, part: Partition, extent_ids: Iterable[bytes]) -> None:
    """Refer to extents that some record, read in another transaction, refers to: a copy.

    The write names `shard_of` each.  ExtentGone if one is no longer held by anybody: the record was
    overwritten meanwhile, and its grace has passed.
    """
    for extent_id, times in Counter(map(ExtentId, extent_ids)).items():
        if await _hold_again(tx, part, extent_id, times):
            continue
        shard = shard_of(extent_id)
        if not await tx.scan(shard, *keys.edges_of(extent_id), limit=1):
            raise ExtentGone("nobody holds the extent any more", extent_id)
        await _hold_first(tx, part, extent_id, times)


async def drop(
    tx: Tx, part: Partition, extent_ids: Iterable[bytes], *, grace: int = grace_default
) -> None:
    """Refer to each of these once less."""
    for some_id, times in Counter(extent_ids).items():
        extent_id = ExtentId(some_id)
        raw = await tx.get(part, keys.held(extent_id))
        assert raw is not None, "dropping what was never held"
        count = Held.decode(raw).count - times
        assert count >= 0, "dropping more than was held"
        if count:
            tx.put(part, keys.held(extent_id), Held(count, _not_due).encode())
            continue
        moment = Timestamp(tx.now + grace)
        tx.put(part, keys.held(extent_id), Held(0, moment).encode())
        tx.put(part, keys.due(moment, extent_id), b"")
        tx.notify(due_topic(part))


async def _hold_again(tx: Tx, part: Partition, extent_id: ExtentId, times: int) -> bool:
    """Count on, if the partition holds the extent or has not let go of it for good."""
    raw = await tx.get(part, keys.held(extent_id))
    if raw is None:
        return False
    held = Held.decode(raw)
    if not held.count:
        tx.delete(part, keys.due(held.due, extent_id))
    tx.put(part, keys.held(extent_id), Held(held.count + times, _not_due).encode())
    return True


async def _hold_first(tx: Tx, part: Partition, extent_id: ExtentId, times: int) -> None:
    shard = shard_of(extent_id)
    if await tx.get(shard, keys.given_up(extent_id)) is not None:
        raise ExtentGone("the extent has been given up", extent_id)
    tx.put(shard, keys.edge(extent_id, part), b"")
    tx.put(part, keys.held(extent_id), Held(times, _not_due).encode())


async def next_due(tx: ReadTx, part: Partition) -> Timestamp | None:
    """When `reap` will next find something to do in this partition."""
    rows = await tx.scan(part, *keys.all_due(), limit=1)
    return keys.due_extent(rows[0][0])[0] if rows else None


async def reap(engine: Engine, store: ExtentStore, part: Partition, now: Timestamp) -> bool:
    """Let go of some of what is due in this partition; false if nothing was."""

    async def find(tx: ReadTx) -> list[tuple[Timestamp, ExtentId]]:
        rows = await tx.scan(part, *keys.due_until(now), limit=reap_batch)
        return [keys.due_extent(key) for key, _ in rows]

    due = await engine.read(find)
    if not due:
        return False

    async def let_go(tx: Tx) -> list[ExtentId]:
        freed = []
        for moment, extent_id in due:
            if await _let_go(tx, part, moment, extent_id):
                freed.append(extent_id)
        return freed

    shards = {shard_of(extent_id) for _, extent_id in due}
    for extent_id in await engine.write((part, *sorted(shards)), let_go):
        await store.remove(extent_id)
    return True


async def _let_go(tx: Tx, part: Partition, moment: Timestamp, extent_id: ExtentId) -> bool:
    """End a partition's hold; whether the extent was given up with it."""
    tx.delete(part, keys.due(moment, extent_id))
    raw = await tx.get(part, keys.held(extent_id))
    if raw is None or Held.decode(raw) != Held(0, moment):
        return False  # another reaper was here, or somebody refers to it again
    tx.delete(part, keys.held(extent_id))
    tx.delete(shard_of(extent_id), keys.edge(extent_id, part))
    if not await _give_up(tx, extent_id, reaped_refused_for):
        return False
    await _forget_some(tx, extent_id)
    return True


async def _give_up(tx: Tx, extent_id: ExtentId, refused_for: int) -> bool:
    """Refuse the extent from now on, unless somebody holds it."""
    shard = shard_of(extent_id)
    if await tx.scan(shard, *keys.edges_of(extent_id), limit=1):
        return False
    until = tx.now + refused_for
    tx.put(shard, keys.given_up(extent_id), until.to_bytes(8, "big"))
    return True


async def _forget_some(tx: Tx, extent_id: ExtentId) -> None:
    """Where a row comes, look at its neighbours and drop those whose time has passed.

    Ids are random, so this looks everywhere in time: of rows that come at some rate, a third more
    are kept than those whose time has not passed.
    """
    shard = shard_of(extent_id)
    begin, end = after(keys.given_up(extent_id)), keys.all_given_up()[1]
    for key, until in await tx.scan(shard, begin, end, limit=forgotten_a_step):
        if int.from_bytes(until, "big") <= tx.now:
            tx.delete(shard, key)


async def give_up(engine: Engine, store: ExtentStore, extent_ids: Iterable[bytes]) -> None:
    """Remove those of these extents that nobody holds: an upload whose transaction was refused.

    Safe also when it is not known whether that transaction was committed.
    """
    some = [ExtentId(extent_id) for extent_id in extent_ids]

    async def body(tx: Tx) -> list[ExtentId]:
        return [
            extent_id for extent_id in some if await _give_up(tx, extent_id, orphan_refused_for)
        ]

    shards = {shard_of(extent_id) for extent_id in some}
    for extent_id in await engine.write(tuple(sorted(shards)), body):
        await store.remove(extent_id)


async def scrub(
    engine: Engine, store: ExtentStore, now: Timestamp, *, age: int = scrub_age_default
) -> int:
    """Remove orphans that were last written `age` ago, and say how many there were.

    `now` is compared with the files' times: the real clock, even where a virtual one rules.  It
    walks over everything that is stored, in small steps; once a day is often enough.
    """
    removed = 0
    old: list[ExtentId] = []
    async for stored in store.list():
        if stored.modified + age <= now:
            old.append(stored.id)
            if len(old) == scrub_batch:
                removed += await _remove_orphans(engine, store, old)
                old = []
    removed += await _remove_orphans(engine, store, old)
    for shard in keys.all_shards():
        await _forget_given_up(engine, shard)
    return removed


async def _remove_orphans(engine: Engine, store: ExtentStore, some: list[ExtentId]) -> int:
    async def unheld(tx: ReadTx) -> list[ExtentId]:
        return [
            extent_id
            for extent_id in some
            if not await tx.scan(shard_of(extent_id), *keys.edges_of(extent_id), limit=1)
        ]

    orphans = await engine.read(unheld)
    if orphans:
        await give_up(engine, store, orphans)
    return len(orphans)


async def _forget_given_up(engine: Engine, shard: Partition) -> None:
    """Drop the rows whose time has passed, a page at a time."""
    begin, end = keys.all_given_up()
    while True:
        await asyncio.sleep(0)  # an embedded engine reads without letting others go on
        page = partial(_expired, shard=shard, begin=begin, end=end)
        expired, begin, more = await engine.read(page)
        if expired:
            await engine.write((shard,), partial(_forget, shard=shard, rows=expired))
        if not more:
            return


async def _expired(
    tx: ReadTx, shard: Partition, begin: bytes, end: bytes
) -> tuple[list[bytes], bytes, bool]:
    rows = await tx.scan(shard, begin, end, limit=scrub_batch)
    expired = [key for key, until in rows if int.from_bytes(until, "big") <= tx.now]
    return expired, after(rows[-1][0]) if rows else begin, len(rows) == scrub_batch


async def _forget(tx: Tx, shard: Partition, rows: list[bytes]) -> None:
    for key in rows:
        until = await tx.get(shard, key)
        if until is not None and int.from_bytes(until, "big") <= tx.now:
            tx.delete(shard, key)
