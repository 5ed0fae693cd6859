"""Copy Blob from elsewhere: it goes on after the response, and can be aborted (Azure: 'Copy Blob',
'Abort Copy Blob').

    start     one transaction makes the destination an empty blob whose copy is pending, and leaves
              a row that says so; from then on nothing else may change the blob
    fetch     the source's bytes become an extent, or inline bytes
    finish    one transaction puts them in place, if the copy is still the pending one
    abort     one transaction ends it: the blob stays, empty

If the process dies while it fetches, the row is found at the next start and the copy begins anew;
if it dies after `finish` has committed, the row is gone with it.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from etagere.base.errors import Refused
from etagere.extents.spool import Received
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import LeaseKind, Use, use
from etagere.kv.contract import Partition, ReadTx, StoreError, Tx
from etagere.services.blob import content, keys
from etagere.services.blob.blobs import Where, must_exist, save, stand
from etagere.services.blob.content import Home
from etagere.services.blob.copies import CopyBlob
from etagere.services.blob.creation import make_way, new_record
from etagere.services.blob.fetching import CannotFetch, Fetched
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.history import Keeping
from etagere.services.blob.received import keep
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    ContainerRecord,
    ContentHeaders,
    CopyState,
    PendingCopy,
    pending_copies,
)
from etagere.services.blob.service import BlobService

remote_bytes_max: Final = 5000 * 1024 * 1024
_metadata_prefix: Final = "x-ms-meta-"


async def start(
    service: BlobService,
    account: str,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    headers: dict[str, str],
    keeping: Keeping,
) -> BlobRecord:
    """Begin; the copy goes on in this process when this has returned.

    A customer's key would have to be kept until the copy is done, and it never is.
    """
    if wanted.new.seal is not None and wanted.new.seal.key_sha256:
        raise Refused("InvalidHeaderValue", {"HeaderName": "x-ms-encryption-key"})
    pending = PendingCopy(
        copy_id=wanted.copy_id,
        url=wanted.source_url,
        headers=headers,
        started=service.clock.now(),
        keeps_metadata=bool(wanted.new.metadata),
        account=account,
        scope="" if wanted.new.seal is None else wanted.new.seal.scope,
    )
    record = await service.write(
        (where.part,),
        partial(_start, where=where, guard=guard, wanted=wanted, pending=pending, keeping=keeping),
    )
    go_on(service, where, pending)
    return record


def go_on(service: BlobService, where: Where, pending: PendingCopy) -> None:
    task = asyncio.get_running_loop().create_task(_run(service, where, pending))
    service.copying[pending.copy_id] = task
    task.add_done_callback(lambda _: service.copying.pop(pending.copy_id, None))


async def _start(
    tx: Tx, where: Where, guard: Guard, wanted: CopyBlob, pending: PendingCopy, keeping: Keeping
) -> BlobRecord:
    standing = await stand(tx, where)
    home, old = standing.home, standing.record
    lease = admit_write(old, guard, tx.now, WriteKind.CREATE)
    if lease is not None and not lease.infinite:
        raise Refused("InfiniteLeaseDurationRequired")
    await make_way(tx, home, where.name, old, wanted.new, BlobType.BLOCK, keeping)
    record = new_record(
        tx, home, where.name, old, wanted.new, BlobType.BLOCK, lease, keeping, size=0
    )
    record.copy = CopyState(pending.copy_id, pending.url, "pending", 0, 0)
    save(tx, home, where.name, record)
    row = keys.pending(home.generation, where.name)
    tx.put(home.part, row, pending_copies.encode(pending))
    return record


async def _run(service: BlobService, where: Where, pending: PendingCopy) -> None:
    """Fetch and finish; a failure is recorded with the blob.

    What cannot even be recorded (no room, a server that stops) is left pending, for `resume`.
    """
    with contextlib.suppress(Refused, StoreError):  # Refused: aborted, or gone with its container
        try:
            fetched, received = await _fetch(service, pending)
        except (CannotFetch, Refused) as failure:
            await _end(service, where, pending, "failed", str(failure))
            return
        await service.keep(
            where.part,
            received,
            partial(_finish, where=where, pending=pending, fetched=fetched, received=received),
        )


async def _fetch(service: BlobService, pending: PendingCopy) -> tuple[Fetched, Received]:
    if service.fetcher is None:
        raise CannotFetch("This server fetches nothing from elsewhere.")
    seal = None
    if pending.scope:
        seal = await service.vault.seal_of_scope(pending.account, pending.scope)
    fetched = await service.fetcher.fetch(pending.url, pending.headers)
    with contextlib.closing(fetched):
        if fetched.status != 200:
            raise CannotFetch(f"{fetched.status} The source answered with an error.")
        received = await service.receive(
            fetched.chunks, fetched.length, remote_bytes_max, md5=False, seal=seal
        )
    return fetched, received


async def _finish(
    tx: Tx, where: Where, pending: PendingCopy, fetched: Fetched, received: Received
) -> None:
    home, record = await _still_pending(tx, where, pending.copy_id)
    pieces = await keep(tx, home, received)
    layout = await content.lay_out(tx, home, pieces)
    metadata = record.metadata if pending.keeps_metadata else source_metadata(fetched.headers)
    finished = msgspec.structs.replace(
        record,
        etag=tx.stamp(),
        modified=tx.now,
        size=received.size,
        pieces=layout.pieces,
        list_id=layout.list_id,
        headers=source_headers(fetched.headers),
        metadata=metadata,
        copy=CopyState(
            pending.copy_id, pending.url, "success", received.size, received.size, tx.now
        ),
    )
    save(tx, home, where.name, finished)
    tx.delete(home.part, keys.pending(home.generation, where.name))


def source_headers(headers: Mapping[str, str]) -> ContentHeaders:
    """A blob's properties as an HTTP source states them."""
    return ContentHeaders(
        content_type=headers.get("content-type", "application/octet-stream"),
        encoding=headers.get("content-encoding", ""),
        language=headers.get("content-language", ""),
        disposition=headers.get("content-disposition", ""),
        cache_control=headers.get("cache-control", ""),
    )


def source_metadata(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name[len(_metadata_prefix) :]: value
        for name, value in headers.items()
        if name.startswith(_metadata_prefix) and len(name) > len(_metadata_prefix)
    }


async def _still_pending(tx: ReadTx, where: Where, copy_id: str) -> tuple[Home, BlobRecord]:
    standing = await stand(tx, where)
    record = standing.record
    if record is None or record.copy is None or record.copy.status != "pending":
        raise Refused("NoPendingCopyOperation")
    if record.copy.copy_id != copy_id:
        raise Refused("CopyIdMismatch")
    return standing.home, record


async def _end(
    service: BlobService, where: Where, pending: PendingCopy, status: str, why: str
) -> None:
    body = partial(_ended, where=where, copy_id=pending.copy_id, status=status, why=why)
    await service.write((where.part,), body)


async def _ended(tx: Tx, where: Where, copy_id: str, status: str, why: str) -> None:
    home, record = await _still_pending(tx, where, copy_id)
    _set_ended(tx, home, where.name, record, status, why)


def _set_ended(tx: Tx, home: Home, name: str, record: BlobRecord, status: str, why: str) -> None:
    assert record.copy is not None
    state = msgspec.structs.replace(record.copy, status=status, completed=tx.now, description=why)
    ended = msgspec.structs.replace(record, etag=tx.stamp(), modified=tx.now, copy=state)
    save(tx, home, name, ended)
    tx.delete(home.part, keys.pending(home.generation, name))


async def abort(tx: Tx, where: Where, guard: Guard, copy_id: str) -> None:
    """Abort Copy Blob: the blob stays, empty, with a new ETag."""
    standing = await stand(tx, where)
    record = must_exist(standing.record)
    use(record.lease, guard.lease_id, tx.now, LeaseKind.BLOB, Use.ANNOTATE)
    home, record = await _still_pending(tx, where, copy_id)
    _set_ended(tx, home, where.name, record, "aborted", "")


async def resume(service: BlobService, part: Partition, container: ContainerRecord) -> None:
    """Go on with the copies that another process began and did not end, or that lost sight of
    their blob when its container was renamed."""
    home = content.home_of(part, container)
    started_before = max(service.started, container.renamed)

    async def find(tx: ReadTx) -> list[tuple[str, PendingCopy]]:
        rows = await tx.scan(home.part, *keys.all_pending(home.generation), limit=1000)
        return [(keys.name_of(key), pending_copies.decode(raw)) for key, raw in rows]

    for name, pending in await service.read(find):
        if pending.started < started_before and pending.copy_id not in service.copying:
            go_on(service, Where(part, name), pending)
