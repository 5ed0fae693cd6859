"""Blob index tags (Azure: 'Get Blob Tags', 'Set Blob Tags'); `tag_search` finds blobs by them."""

import msgspec

from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import Use
from etagere.kv.contract import ReadTx, Tx
from etagere.services.blob import keys
from etagere.services.blob.blobs import Where, find, must_exist, read, save
from etagere.services.blob.content import Home
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.records import blobs
from etagere.services.blob.tag_index import forget, remember


async def get_tags(tx: ReadTx, where: Where, guard: Guard) -> dict[str, str]:
    return (await read(tx, where, guard)).record.tags


async def set_tags(tx: Tx, where: Where, guard: Guard, tags: dict[str, str]) -> None:
    """Set Blob Tags: replaces all; the ETag stays, so a lease that has ended is not forgotten."""
    standing = await find(tx, where)
    home, record = standing.home, standing.record
    admit_write(record, guard, tx.now, WriteKind.UPDATE, Use.ANNOTATE)
    record = must_exist(record)
    is_current = not where.version or not await _is_earlier(tx, home, where)
    moment = keys.current_moment if is_current else where.version
    forget(tx, home, where.name, moment, record.tags)
    remember(tx, home, where.name, moment, tags)
    changed = msgspec.structs.replace(record, tags=tags)
    if is_current:
        save(tx, home, where.name, changed)
    else:
        row = keys.version(home.generation, where.name, where.version)
        tx.put(home.part, row, blobs.encode(changed))


async def _is_earlier(tx: ReadTx, home: Home, where: Where) -> bool:
    row = keys.version(home.generation, where.name, where.version)
    return await tx.get(home.part, row) is not None
