"""What is removed later: deleted containers' rows, released piece lists, forgotten staged blocks,
extents that nobody refers to.

Foreground operations only mark; this walks over the marks in small steps, each a transaction of
its own, so that nobody waits long behind one.  A process that dies between two steps finds the
marks again.  One process of a server sweeps.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Final, NamedTuple

from etagere.base.clock import Timestamp, seconds
from etagere.extents import references
from etagere.kv.contract import Engine, Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import (
    content,
    history,
    keys,
    lifetime,
    logs,
    page_map,
    page_pins,
    page_removal,
    remote_copies,
)
from etagere.services.blob.blobs import drop_staged
from etagere.services.blob.containers import container_names, doom
from etagere.services.blob.content import Home
from etagere.services.blob.records import (
    BlobRecord,
    ContainerRecord,
    Piece,
    blobs,
    containers,
    deleted_containers,
    piece_pages,
    staged_blocks,
    uncommitted_blobs,
)
from etagere.services.blob.service import BlobService

rows_per_step: Final = 256
pages_per_step: Final = 2
"""Of piece lists, whose rows are large."""
steps_per_sweep: Final = 128
"""Of deleted containers, which may have millions of rows: what else is due comes in between."""
rest_seconds: Final = 0.002
"""Between these steps, about as long as one takes: writes that somebody waits for have the store to
themselves half of the time."""
staged_kept_for: Final = seconds(7 * 86_400)
"""Staged blocks are forgotten a week after the last one was staged."""
look_for_staged_every: Final = seconds(3600)


async def sweep(service: BlobService, account: str, now: Timestamp) -> Timestamp:
    """Remove what is due in one account; returns when to look again at the latest."""
    again = Timestamp(now + look_for_staged_every)
    async for name in _names(service.engine, account):
        part = keys.container_partition(account, name)
        record = await service.engine.read(partial(_record, part=part))
        if record is not None:
            home = content.home_of(part, record)
            again = min(again, await _sweep_lists(service.engine, home, now) or again)
            again = min(again, await _sweep_trash(service.engine, home) or again)
            again = min(again, await _sweep_lifetimes(service.engine, home) or again)
            again = min(again, await _sweep_pins(service.engine, home, now) or again)
            again = min(again, await _sweep_page_maps(service.engine, home, now) or again)
            await _sweep_staged(service.engine, home)
            again = min(again, await remote_copies.resume(service, part, record) or again)
            again = min(again, await _reap(service, home.part, now) or again)
    again = min(again, await logs.expire(service, account) or again)
    again = min(again, await _end_retention(service.engine, account, now) or again)
    steps = _Steps()
    for mark in await service.engine.read(partial(_doomed, account=account)):
        again = min(again, await _sweep_doomed(service, account, mark, now, steps) or again)
    return again


async def _names(engine: Engine, account: str) -> AsyncIterator[str]:
    start = ""
    while page := await engine.read(partial(container_names, account=account, start=start)):
        for name in page:
            yield name
        start = page[-1] + "\0"


async def _record(tx: ReadTx, part: Partition) -> ContainerRecord | None:
    raw = await tx.get(part, keys.container_record)
    return None if raw is None else containers.decode(raw)


async def _reap(service: BlobService, part: Partition, now: Timestamp) -> Timestamp | None:
    while await references.reap(service.engine, service.extents, part, now):
        pass
    return await service.engine.read(partial(references.next_due, part=part))


# ---- soft-deleted blobs whose retention is over


async def _sweep_trash(engine: Engine, home: Home) -> Timestamp | None:
    """Returns when the next one's will be."""
    while True:
        now, due = await engine.write((home.part,), partial(_expire, home=home))
        if due is None or due > now:
            return due


async def _expire(tx: Tx, home: Home) -> tuple[Timestamp, Timestamp | None]:
    return tx.now, await history.expire(tx, home, rows_per_step)


async def _sweep_lifetimes(engine: Engine, home: Home) -> Timestamp | None:
    """Blobs whose expiry time has passed; returns when the next one's will have."""
    while True:
        now, due = await engine.write((home.part,), partial(_end_lifetimes, home=home))
        if due is None or due > now:
            return due


async def _end_lifetimes(tx: Tx, home: Home) -> tuple[Timestamp, Timestamp | None]:
    return tx.now, await lifetime.end_some(tx, home)


# ---- piece lists that nobody holds


async def _sweep_lists(engine: Engine, home: Home, now: Timestamp) -> Timestamp | None:
    """Take apart lists whose grace is over; returns when the next one's will be."""
    while True:
        rows = await engine.read(partial(_garbage, home=home))
        if not rows:
            return None
        for list_id, due in rows:
            if due > now:
                return due
            while await engine.write(
                (home.part,), partial(_shorten, home=home, list_id=list_id, due=due)
            ):
                pass


async def _garbage(tx: ReadTx, home: Home) -> list[tuple[int, Timestamp]]:
    rows = await tx.scan(home.part, *keys.all_garbage(home.generation), limit=rows_per_step)
    return [keys.garbage_list(key) for key, _ in rows]


async def _shorten(tx: Tx, home: Home, list_id: int, due: Timestamp) -> bool:
    """Release one page's pieces; false when the list was gone, and its mark goes too."""
    rows = await tx.scan(home.part, *keys.piece_pages(home.generation, list_id), limit=1)
    if not rows:
        tx.delete(home.part, keys.garbage(home.generation, due, list_id))
        return False
    key, raw = rows[0]
    await content.release(tx, home, piece_pages.decode(raw))
    tx.delete(home.part, key)
    return True


# ---- states of page maps that nobody holds


async def _sweep_pins(engine: Engine, home: Home, now: Timestamp) -> Timestamp | None:
    """Let go of what downloads of processes that have ended had pinned."""
    while True:
        due = await engine.read(partial(page_pins.next_expiry, home=home))
        if due is None or due > now:
            return due
        await engine.write((home.part,), partial(page_pins.expire, home=home, limit=rows_per_step))


async def _sweep_page_maps(engine: Engine, home: Home, now: Timestamp) -> Timestamp | None:
    """Remove epochs whose grace is over; returns when the next one's will be."""
    while True:
        unheld = await engine.read(partial(page_removal.next_unheld, home=home))
        if unheld is None:
            return None
        if unheld.due > now:
            return unheld.due
        begin = b""
        while True:
            body = partial(page_removal.remove_some, home=home, unheld=unheld, begin=begin)
            begin = await engine.write((home.part,), body)
            if not begin:
                break


# ---- staged blocks that nobody committed


async def _sweep_staged(engine: Engine, home: Home) -> None:
    begin, end = keys.unfinished_named(home.generation, "")
    while True:
        names, begin = await engine.read(partial(_stale, home=home, begin=begin, end=end))
        for name in names:
            await engine.write((home.part,), partial(_forget, home=home, name=name))
        if not begin:
            return


async def _stale(tx: ReadTx, home: Home, begin: bytes, end: bytes) -> tuple[list[str], bytes]:
    rows = await tx.scan(home.part, begin, end, limit=rows_per_step)
    names = [
        keys.name_of(key)
        for key, raw in rows
        if uncommitted_blobs.decode(raw).last_staged + staged_kept_for <= tx.now
    ]
    return names, after(rows[-1][0]) if len(rows) == rows_per_step else b""


async def _forget(tx: Tx, home: Home, name: str) -> None:
    raw = await tx.get(home.part, keys.unfinished(home.generation, name))
    if raw is not None and uncommitted_blobs.decode(raw).last_staged + staged_kept_for <= tx.now:
        await drop_staged(tx, home, name)


# ---- deleted containers


class _Mark(NamedTuple):
    generation: int
    name: str


class _Steps:
    """How many may still be taken in one sweep."""

    def __init__(self) -> None:
        self._left = steps_per_sweep

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0


async def _end_retention(engine: Engine, account: str, now: Timestamp) -> Timestamp | None:
    """Doom the soft-deleted containers whose time is up; returns when the next one's will be."""
    part = keys.account_partition(account)

    async def body(tx: Tx) -> Timestamp | None:
        soonest: Timestamp | None = None
        begin, end = keys.deleted_containers()
        while rows := await tx.scan(part, begin, end, limit=rows_per_step):
            for key, raw in rows:
                kept = deleted_containers.decode(raw)
                until = Timestamp(kept.retained_until)
                if until <= now:
                    name, _ = keys.kept_container(key)
                    tx.delete(part, key)
                    doom(tx, part, name, kept.record)
                elif soonest is None or until < soonest:
                    soonest = until
            begin = after(rows[-1][0])
        return soonest

    return await engine.write((part,), body)


async def _doomed(tx: ReadTx, account: str) -> list[_Mark]:
    rows = await tx.scan(keys.account_partition(account), *keys.all_doomed(), limit=rows_per_step)
    return [_Mark(*keys.doomed_container(key)) for key, _ in rows]


async def _sweep_doomed(
    service: BlobService, account: str, mark: _Mark, now: Timestamp, steps: _Steps
) -> Timestamp | None:
    """Remove some of a generation's rows; the mark stays until its extents are let go of as well.

    Returns when to go on.
    """
    home = Home(keys.container_partition(account, mark.name), mark.generation)
    for lane in keys.everything(mark.generation):
        while await service.engine.write((home.part,), partial(_empty, home=home, lane=lane)):
            if not steps.take():
                return now
            await asyncio.sleep(rest_seconds)
    due = await _reap(service, home.part, now)
    if due is None:
        part = keys.account_partition(account)

        async def done(tx: Tx) -> None:
            tx.delete(part, keys.doomed(mark.generation, mark.name))

        await service.engine.write((part,), done)
    return due


async def _empty(tx: Tx, home: Home, lane: keys.Lane) -> bool:
    """Delete some rows of one kind, and let go of the extents that they refer to.

    Inline pieces and counts of holders are rows of the generation themselves and go with it.
    """
    limit = pages_per_step if lane.kind is keys.RowKind.PIECES else rows_per_step
    rows = await tx.scan(home.part, *lane.bounds, limit=limit + 1)
    if lane.kind is keys.RowKind.CHUNK:
        extents = page_map.extents_ending(rows, limit)
    else:
        pieces = (piece for _, raw in rows[:limit] for piece in _pieces(lane, raw))
        extents = [piece.extent for piece in pieces if piece.extent]
    await references.drop(tx, home.part, extents)
    for key, _ in rows[:limit]:
        tx.delete(home.part, key)
    return len(rows) > limit


def _pieces(lane: keys.Lane, raw: bytes) -> tuple[Piece, ...]:
    match lane.kind:
        case keys.RowKind.STAGED:
            return (staged_blocks.decode(raw).piece,)
        case keys.RowKind.PIECES:
            return piece_pages.decode(raw)
        case keys.RowKind.BLOB | keys.RowKind.SNAPSHOT | keys.RowKind.VERSION | keys.RowKind.TRASH:
            return _own(blobs.decode(raw))
        case _:
            return ()


def _own(record: BlobRecord) -> tuple[Piece, ...]:
    return record.pieces
