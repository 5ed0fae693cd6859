"""Which process is at a copy from elsewhere: it claims the copy, and renews that while it lives.

A copy outlives the process that began it: when that one has ended, or lost sight of the blob
because its container was renamed, another takes the copy over.  Whether it has ended can only be
guessed, by a claim that was not renewed; so every step of a copy asks whether the copy is still its
own, and a process that was wrongly given up stops at its next step.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import msgspec

from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.kv.contract import ReadTx, StoreError, Tx
from etagere.services.blob import keys
from etagere.services.blob.blobs import Where, stand
from etagere.services.blob.content import Home
from etagere.services.blob.records import BlobRecord, PendingCopy, pending_copies
from etagere.services.blob.service import BlobService

renewed_every_seconds: Final = 20.0
lasts: Final = seconds(90)


async def still_pending(tx: ReadTx, where: Where, copy_id: str) -> tuple[Home, BlobRecord]:
    """Where the copy's destination is; raises Refused when the copy has ended."""
    standing = await stand(tx, where)
    record = standing.record
    if record is None or record.copy is None or record.copy.status != "pending":
        raise Refused("NoPendingCopyOperation")
    if record.copy.copy_id != copy_id:
        raise Refused("CopyIdMismatch")
    return standing.home, record


async def still_ours(tx: ReadTx, where: Where, pending: PendingCopy) -> tuple[Home, BlobRecord]:
    """The same, for a step of the copy itself; refused as well when another has taken it over."""
    home, record = await still_pending(tx, where, pending.copy_id)
    raw = await tx.get(home.part, keys.pending(home.generation, where.name))
    if raw is None or pending_copies.decode(raw).owner != pending.owner:
        raise Refused("PendingCopyOperation")
    return home, record


def claim(tx: Tx, home: Home, where: Where, pending: PendingCopy) -> None:
    """Write that its owner is at the copy."""
    row = keys.pending(home.generation, where.name)
    tx.put(home.part, row, pending_copies.encode(msgspec.structs.replace(pending, claimed=tx.now)))


async def renew(tx: Tx, where: Where, pending: PendingCopy) -> None:
    home, _ = await still_ours(tx, where, pending)
    claim(tx, home, where, pending)


def lapses(pending: PendingCopy, valid_from: int, now: Timestamp) -> Timestamp | None:
    """When the claim will have lapsed; None if it has.

    One from before `valid_from` is of a server that has ended, and so is one from far ahead: a
    virtual clock begins anew with each server.
    """
    if pending.claimed < valid_from or abs(now - pending.claimed) >= lasts:
        return None
    return Timestamp(pending.claimed + lasts)


@asynccontextmanager
async def claimed(service: BlobService, where: Where, pending: PendingCopy) -> AsyncIterator[None]:
    """Renews the claim meanwhile."""
    renewing = asyncio.ensure_future(_keep_on(service, where, pending))
    try:
        yield
    finally:
        renewing.cancel()


async def _keep_on(service: BlobService, where: Where, pending: PendingCopy) -> None:
    with suppress(Refused, StoreError):  # the next step of the copy meets with the same
        while True:
            await asyncio.sleep(renewed_every_seconds)
            await service.write((where.part,), partial(renew, where=where, pending=pending))
