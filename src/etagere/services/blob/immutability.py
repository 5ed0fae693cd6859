"""Policies and holds that keep a blob from being changed (Azure: 'Set Blob Immutability Policy',
'Set Blob Legal Hold', 'Immutability policies for blob versions').

    policy      unlocked      locked
    extend      yes           yes
    shorten     yes           no
    lock        yes           it is
    delete      yes           no

A policy protects until its date has passed, a hold until it is cleared; `must_be_mutable` is what
every overwrite and deletion asks.  Both are properties of one blob, version or snapshot in a
container that was made for it, and leave ETag and Last-Modified alone.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kv.contract import Tx
from etagere.services.blob.blobs import Where, find, must_exist, save_found
from etagere.services.blob.guard import Guard, admit_write, unguarded
from etagere.services.blob.records import BlobRecord, ContainerRecord, Immutability

mutable: Final = Immutability()


def must_be_mutable(record: BlobRecord, now: Timestamp) -> None:
    """Refuse to overwrite or delete what a legal hold or a policy protects."""
    if record.immutability.legal_hold:
        raise Refused("BlobImmutableDueToLegalHold")
    if record.immutability.until > now:
        raise Refused("BlobImmutableDueToPolicy")


def must_support(container: ContainerRecord) -> None:
    """Unconfirmed: the code with which the live service refuses it in other containers."""
    if not container.versioned_immutability:
        raise Refused(
            "InvalidOperation",
            {"Reason": "Immutable storage with versioning is not enabled for the container."},
            status=409,
        )


def with_policy(
    current: Immutability, until: Timestamp, locked: bool | None, now: Timestamp
) -> Immutability:
    """A policy in place of the current one; `locked` is None where nothing was said of it."""
    if until <= now:
        raise Refused("InvalidHeaderValue", {"HeaderName": "x-ms-immutability-policy-until-date"})
    if current.locked and (until < current.until or locked is False):
        raise Refused("BlobImmutableDueToPolicy")
    return msgspec.structs.replace(current, until=until, locked=current.locked or bool(locked))


def without_policy(current: Immutability) -> Immutability:
    if current.locked:
        raise Refused("BlobImmutableDueToPolicy")
    return Immutability(legal_hold=current.legal_hold)


async def set_policy(
    tx: Tx, where: Where, guard: Guard, until: Timestamp, locked: bool | None
) -> Immutability:
    return await _change(
        tx, where, guard, lambda current: with_policy(current, until, locked, tx.now)
    )


async def delete_policy(tx: Tx, where: Where) -> None:
    """Where there is none, nothing happens."""
    await _change(tx, where, unguarded, without_policy)


async def set_legal_hold(tx: Tx, where: Where, *, held: bool) -> None:
    await _change(
        tx, where, unguarded, lambda current: msgspec.structs.replace(current, legal_hold=held)
    )


async def _change(
    tx: Tx, where: Where, guard: Guard, change: Callable[[Immutability], Immutability]
) -> Immutability:
    standing = await find(tx, where)
    record = must_exist(standing.record)
    # A lease does not hold policies back.
    admit_write(msgspec.structs.replace(record, lease=None), guard, tx.now, WriteKind.UPDATE)
    must_support(standing.container)
    changed = change(record.immutability)
    await save_found(
        tx, standing.home, where, msgspec.structs.replace(record, immutability=changed)
    )
    return changed
