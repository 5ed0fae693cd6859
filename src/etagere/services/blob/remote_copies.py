"""Copy Blob from elsewhere: it goes on after the response, and can be aborted (Azure: 'Copy Blob',
'Abort Copy Blob').

    open      the source has answered: what it says of itself decides what the copy will be
    start     one transaction makes the destination a blob of the source's type whose copy is
              pending, and leaves a row that says so; from then on nothing else may change the blob
    fetch     the source's bytes become an extent, or inline bytes; those of a page blob are written
              to the destination, which has its full length from the start
    finish    one transaction puts them in place, if the copy is still the pending one
    abort     one transaction ends it: the blob stays, empty

If the process dies while it fetches, the row is found at the next start and the copy begins anew,
provided that the source is still the same; if it dies after `finish` has committed, the row is gone
with it.
"""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final

import msgspec

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.extents.spool import Received
from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import LeaseKind, Use, use
from etagere.kernel.ranges import page_bytes
from etagere.kv.contract import Partition, ReadTx, StoreError, Tx
from etagere.services.blob import content, keys, page_map
from etagere.services.blob.blobs import Where, must_exist, must_take_writes, save, stand
from etagere.services.blob.content import Home
from etagere.services.blob.copies import CopyBlob
from etagere.services.blob.copy_claims import claim, claimed, lapses, still_ours, still_pending
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
pages_per_write_bytes: Final = 4 * 1024 * 1024
_metadata_prefix: Final = "x-ms-meta-"
_kinds: Final = {"AppendBlob": BlobType.APPEND, "PageBlob": BlobType.PAGE}


async def admit(service: BlobService, where: Where, guard: Guard) -> None:
    """Refuse what `start` would refuse of the destination, before the source is asked."""

    async def look(tx: ReadTx) -> None:
        admit_write((await stand(tx, where)).record, guard, tx.now, WriteKind.CREATE)

    await service.read(look)


async def start(
    service: BlobService,
    account: str,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    headers: dict[str, str],
    keeping: Keeping,
    fetched: Fetched,
) -> BlobRecord:
    """Begin, with a source that has answered; the copy goes on in this process when this has
    returned.

    A customer's key would have to be kept until the copy is done, and it never is.
    """
    try:
        _check(wanted, fetched)
    except Refused:
        fetched.close()
        raise
    pending = PendingCopy(
        copy_id=wanted.copy_id,
        url=wanted.source_url,
        headers=headers,
        claimed=service.clock.now(),
        keeps_metadata=bool(wanted.new.metadata),
        account=account,
        scope="" if wanted.new.seal is None else wanted.new.seal.scope,
        etag=_strong(fetched.headers.get("etag", "")),
        sealed=wanted.sealed,
        owner=service.entropy.uuid(),
    )
    body = partial(
        _start,
        where=where,
        guard=guard,
        wanted=wanted,
        pending=pending,
        keeping=keeping,
        fetched=fetched,
    )

    async def begin() -> BlobRecord:
        try:
            record = await service.write((where.part,), body)
        except BaseException:
            fetched.close()
            raise
        go_on(service, where, pending, fetched)
        return record

    # Whoever asked may leave meanwhile: what has been begun goes on all the same.
    return await asyncio.shield(asyncio.ensure_future(begin()))


def _check(wanted: CopyBlob, fetched: Fetched) -> None:
    if wanted.new.seal is not None and wanted.new.seal.key_sha256:
        raise Refused("InvalidHeaderValue", {"HeaderName": "x-ms-encryption-key"})
    kind = _kind(fetched)
    if wanted.sealed is not None and kind is not BlobType.APPEND:
        raise Refused("InvalidBlobType")
    if kind is BlobType.PAGE and (fetched.length is None or fetched.length % page_bytes):
        raise Refused("CannotVerifyCopySource", status=400)


def _kind(fetched: Fetched) -> BlobType:
    """What a source says that it is; one that is no blob becomes a block blob."""
    return _kinds.get(fetched.headers.get("x-ms-blob-type", ""), BlobType.BLOCK)


def _strong(etag: str) -> str:
    return "" if etag.startswith("W/") else etag


def go_on(
    service: BlobService, where: Where, pending: PendingCopy, fetched: Fetched | None = None
) -> None:
    """With a source that has answered, or (None) one that is to be asked again."""
    task = asyncio.get_running_loop().create_task(_run(service, where, pending, fetched))
    service.copying[pending.copy_id] = task
    task.add_done_callback(partial(_gone, service, pending.copy_id))


def _gone(service: BlobService, copy_id: str, task: asyncio.Task[None]) -> None:
    if service.copying.get(copy_id) is task:
        del service.copying[copy_id]


async def _start(
    tx: Tx,
    where: Where,
    guard: Guard,
    wanted: CopyBlob,
    pending: PendingCopy,
    keeping: Keeping,
    fetched: Fetched,
) -> BlobRecord:
    standing = await stand(tx, where)
    home, old = standing.home, standing.record
    lease = admit_write(old, guard, tx.now, WriteKind.CREATE)
    if lease is not None and not lease.infinite:
        raise Refused("InfiniteLeaseDurationRequired")
    if old is not None:
        must_take_writes(old)
    kind = _kind(fetched)
    size = (fetched.length or 0) if kind is BlobType.PAGE else 0
    await make_way(tx, home, where.name, old, wanted.new, kind, keeping)
    record = new_record(tx, home, where.name, old, wanted.new, kind, lease, keeping, size=size)
    if kind is BlobType.PAGE:
        record.page_map = page_map.create(tx, home)
    record.copy = CopyState(pending.copy_id, pending.url, "pending", 0, fetched.length or 0)
    save(tx, home, where.name, record)
    claim(tx, home, where, pending)
    return record


async def _run(
    service: BlobService, where: Where, pending: PendingCopy, fetched: Fetched | None
) -> None:
    """Fetch and finish; a failure is recorded with the blob.

    What cannot even be recorded (no room, a server that stops) is left pending, for `resume`.
    """
    with contextlib.suppress(Refused, StoreError):  # Refused: aborted, or gone with its container
        try:
            if fetched is None:
                before, pending = pending, _owned(service, pending)
                fetched = await _ask_again(service, where, before, pending)
            async with claimed(service, where, pending):
                received = await _take(service, where, pending, fetched)
        except (CannotFetch, Refused) as failure:
            await _end(service, where, pending, "failed", str(failure))
            return
        await service.keep(
            where.part,
            received,
            partial(_finish, where=where, pending=pending, fetched=fetched, received=received),
        )


def _owned(service: BlobService, pending: PendingCopy) -> PendingCopy:
    return msgspec.structs.replace(pending, owner=service.entropy.uuid())


async def _ask_again(
    service: BlobService, where: Where, before: PendingCopy, pending: PendingCopy
) -> Fetched:
    """The source of a copy that another process began; it must be the same still."""
    take_over = partial(_take_over, where=where, before=before, pending=pending)
    kind = await service.write((where.part,), take_over)
    if service.fetcher is None:
        raise CannotFetch("This server fetches nothing from elsewhere.")
    condition = {"If-Match": pending.etag} if pending.etag else {}
    fetched = await service.fetcher.fetch(pending.url, {**pending.headers, **condition})
    same = kind is _kind(fetched) and (
        not pending.etag or fetched.headers.get("etag") == pending.etag
    )
    if fetched.status == 200 and same:
        return fetched
    fetched.close()
    if fetched.status in (200, 412):
        raise CannotFetch("412 The source has changed.")
    raise CannotFetch(f"{fetched.status} The source answered with an error.")


async def _take_over(tx: Tx, where: Where, before: PendingCopy, pending: PendingCopy) -> BlobType:
    """Claim the copy, and take back the pages that were copied; returns the blob's type."""
    home, record = await still_ours(tx, where, before)
    claim(tx, home, where, pending)
    if record.page_map is not None:
        record.page_map = await page_map.clear(tx, home, record.page_map, 0, record.size)
        save(tx, home, where.name, record)
    return record.kind


async def _take(
    service: BlobService, where: Where, pending: PendingCopy, fetched: Fetched
) -> Received:
    """All of the source; of a page blob nothing: its pages have been written when this returns."""
    with contextlib.closing(fetched):
        seal = None
        if pending.scope:
            seal = await service.vault.seal_of_scope(pending.account, pending.scope)
        if _kind(fetched) is not BlobType.PAGE:
            return await service.receive(
                fetched.chunks, fetched.length, remote_bytes_max, md5=False, seal=seal
            )
        at = 0
        async for pages in _in_pages(fetched.chunks):
            if pages.count(0) != len(pages):
                received = await service.receive(
                    _only(pages), len(pages), len(pages), md5=False, seal=seal
                )
                write = partial(_write, where=where, pending=pending, at=at, received=received)
                await service.keep(where.part, received, write)
            at += len(pages)
        if at != fetched.length:
            raise CannotFetch("the source stopped half-way")
    return Received(0, b"", None, b"", b"")


async def _in_pages(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in writes as large as Put Page takes them."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        while len(held) >= pages_per_write_bytes:
            yield bytes(held[:pages_per_write_bytes])
            del held[:pages_per_write_bytes]
    if held:
        yield bytes(held)


async def _only(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _write(tx: Tx, where: Where, pending: PendingCopy, at: int, received: Received) -> None:
    home, record = await still_ours(tx, where, pending)
    assert record.page_map is not None, "a page blob has a map"
    assert record.copy is not None
    if at + received.size > record.size:
        raise Refused("RequestBodyTooLarge")
    record.page_map = await page_map.write(tx, home, record.page_map, at, received)
    record.copy = msgspec.structs.replace(record.copy, done=at + received.size)
    save(tx, home, where.name, record)


async def _finish(
    tx: Tx, where: Where, pending: PendingCopy, fetched: Fetched, received: Received
) -> None:
    home, record = await still_ours(tx, where, pending)
    said = fetched.headers
    finished = msgspec.structs.replace(
        record,
        etag=tx.stamp(),
        modified=tx.now,
        headers=source_headers(said),
        metadata=record.metadata if pending.keeps_metadata else source_metadata(said),
    )
    if record.kind is BlobType.PAGE:
        finished.sequence = _number(said.get("x-ms-blob-sequence-number", ""))
    else:
        pieces = await keep(tx, home, received)
        finished.pieces, finished.list_id = await content.lay_out(tx, home, pieces)
        finished.size = received.size
    if record.kind is BlobType.APPEND:
        finished.block_count = len(finished.pieces)
        sealed = said.get("x-ms-blob-sealed") == "true"
        finished.sealed = sealed if pending.sealed is None else pending.sealed
    size = finished.size
    finished.copy = CopyState(pending.copy_id, pending.url, "success", size, size, tx.now)
    save(tx, home, where.name, finished)
    tx.delete(home.part, keys.pending(home.generation, where.name))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def source_headers(headers: Mapping[str, str]) -> ContentHeaders:
    """A blob's properties as an HTTP source states them."""
    return ContentHeaders(
        md5=_digest(headers.get("content-md5", "")),
        content_type=headers.get("content-type", "application/octet-stream"),
        encoding=headers.get("content-encoding", ""),
        language=headers.get("content-language", ""),
        disposition=headers.get("content-disposition", ""),
        cache_control=headers.get("cache-control", ""),
    )


def _digest(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return found if len(found) == 16 else b""


def source_metadata(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name[len(_metadata_prefix) :]: value
        for name, value in headers.items()
        if name.startswith(_metadata_prefix) and len(name) > len(_metadata_prefix)
    }


async def _end(
    service: BlobService, where: Where, pending: PendingCopy, status: str, why: str
) -> None:
    body = partial(_ended, where=where, pending=pending, status=status, why=why)
    await service.write((where.part,), body)


async def _ended(tx: Tx, where: Where, pending: PendingCopy, status: str, why: str) -> None:
    home, record = await still_ours(tx, where, pending)
    await _set_ended(tx, home, where.name, record, status, why)


async def _set_ended(
    tx: Tx, home: Home, name: str, record: BlobRecord, status: str, why: str
) -> None:
    """What there is of the copy goes, and the blob has no length."""
    assert record.copy is not None
    state = msgspec.structs.replace(record.copy, status=status, completed=tx.now, description=why)
    ended = msgspec.structs.replace(record, etag=tx.stamp(), modified=tx.now, copy=state, size=0)
    if record.page_map is not None:
        ended.page_map = await page_map.clear(tx, home, record.page_map, 0, record.size)
    save(tx, home, name, ended)
    tx.delete(home.part, keys.pending(home.generation, name))


async def abort(tx: Tx, where: Where, guard: Guard, copy_id: str) -> None:
    """Abort Copy Blob: the blob stays, empty, with a new ETag."""
    standing = await stand(tx, where)
    record = must_exist(standing.record)
    use(record.lease, guard.lease_id, tx.now, LeaseKind.BLOB, Use.ANNOTATE)
    home, record = await still_pending(tx, where, copy_id)
    await _set_ended(tx, home, where.name, record, "aborted", "")


async def resume(
    service: BlobService, part: Partition, container: ContainerRecord
) -> Timestamp | None:
    """Go on with the copies that another process began and did not end, or that lost sight of
    their blob when its container was renamed; returns when to look at the others again."""
    home = content.home_of(part, container)
    valid_from = max(service.started, container.renamed)

    async def find(tx: ReadTx) -> list[tuple[str, PendingCopy, Timestamp | None]]:
        rows = await tx.scan(home.part, *keys.all_pending(home.generation), limit=1000)
        found = [(keys.name_of(key), pending_copies.decode(raw)) for key, raw in rows]
        return [(name, each, lapses(each, valid_from, tx.now)) for name, each in found]

    again: Timestamp | None = None
    for name, pending, lapse in await service.read(find):
        if pending.copy_id in service.copying:
            continue
        if lapse is None:
            go_on(service, Where(part, name), pending)
        else:
            again = lapse if again is None else min(again, lapse)
    return again
