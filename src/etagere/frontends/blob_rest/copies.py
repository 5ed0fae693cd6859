"""Copies over HTTP (Azure: 'Copy Blob', 'Copy Blob From URL', 'Put Blob From URL', 'Put Block From
URL', 'Abort Copy Blob')."""

from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from etagere.base.errors import Refused, invalid_header, missing_query
from etagere.frontends.blob_rest import decode, encode, tiers
from etagere.frontends.blob_rest.bodies import crc64_always_since
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.creation import new_blob
from etagere.frontends.blob_rest.encryption import (
    request_encrypted,
    seal_of,
    unlocking,
)
from etagere.frontends.blob_rest.names import check_blob_name
from etagere.frontends.blob_rest.source_bytes import (
    Taken,
    check_own,
    must_be_empty,
    no_digests,
    open_elsewhere,
    read_own,
    source_digests,
    source_key_of,
    take,
    take_checked,
    transfer_digest,
    verified_source,
)
from etagere.frontends.blob_rest.sources import (
    OtherUrl,
    OwnBlob,
    Source,
    cannot_verify,
    find_source,
)
from etagere.frontends.common.headers import boolean, encode_base64, required
from etagere.frontends.common.message import Response
from etagere.kernel.conditions import (
    SourceKind,
    parse_conditions,
    source_headers,
)
from etagere.kv.contract import ReadTx
from etagere.services.blob import (
    block_blobs,
    copies,
    keys,
    page_copies,
    remote_copies,
    resealing,
)
from etagere.services.blob.copies import CopyBlob, PagesNotShared, SealedOtherwise, TagOption
from etagere.services.blob.creation import NewBlob
from etagere.services.blob.fetching import Fetched
from etagere.services.blob.records import BlobRecord

_seal_header: Final = "x-ms-seal-blob"
sync_bytes_max: Final = 256 * 1024 * 1024
put_from_url_bytes_max: Final = 5000 * 1024 * 1024
block_from_url_bytes_max: Final = (
    ("2019-12-12", 4000 * 1024 * 1024),
    ("", 100 * 1024 * 1024),
)


async def _wanted(
    call: BlobCall, kind: SourceKind, copy_id: str, bytes_max: int | None
) -> CopyBlob:
    request = call.request
    option = (call.header("x-ms-copy-source-tag-option") or "REPLACE").upper()
    if option not in ("REPLACE", "COPY"):
        raise invalid_header("x-ms-copy-source-tag-option", option)
    if option == "COPY" and "x-ms-tags" in request.headers:
        raise invalid_header("x-ms-copy-source-tag-option", option)
    return CopyBlob(
        copy_id=copy_id,
        source_url=required(request, "x-ms-copy-source"),
        new=new_blob(call, standard=False, seal=await seal_of(call)),
        tag_option=TagOption(option),
        priority=tiers.priority(request),
        source_conditions=parse_conditions(request.headers, source_headers),
        source_kind=kind,
        bytes_max=bytes_max,
    )


async def copy(call: BlobCall) -> Response:
    """Copy Blob: from this server it is done at once, from elsewhere it goes on."""
    where, guard, keeping = call.base(), call.guard(), call.keeping()
    check_blob_name(where.name)
    wanted = await _wanted(call, SourceKind.COPY, call.blobs.entropy.uuid(), None)
    wanted = replace(wanted, sealed=_sealed(call))
    source = await find_source(call, same_account_is_enough=True)
    if isinstance(source, OwnBlob):
        record = await _copy(call, source, wanted)
    else:
        await remote_copies.admit(call.blobs, where, guard)
        fetched = await _open_elsewhere(call, source, wanted)
        record = await remote_copies.start(
            call.blobs, call.account.name, where, guard, wanted, source.headers, keeping, fetched
        )
    return Response(202, _copied(record))


async def _open_elsewhere(call: BlobCall, source: OtherUrl, wanted: CopyBlob) -> Fetched:
    """A copy begins when its source has answered; a source that cannot be had makes no copy."""
    try:
        return await open_elsewhere(call, source)
    except Refused as refused:
        if refused.status in (304, 412) and not wanted.source_conditions.absent:
            raise Refused("SourceConditionNotMet") from None
        raise


def _sealed(call: BlobCall) -> bool | None:
    """x-ms-seal-blob; without it a copy is sealed as its source is (seen on the live service)."""
    return boolean(call.request, _seal_header) if call.header(_seal_header) else None


def _copied(record: BlobRecord) -> dict[str, str]:
    headers = encode.written(record)
    assert record.copy is not None
    headers["x-ms-copy-id"] = record.copy.copy_id
    headers["x-ms-copy-status"] = record.copy.status
    return headers


async def copy_from_url(call: BlobCall) -> Response:
    """Copy Blob From URL: done when it answers, up to 256 MiB.

    The live service was seen to want a source authorized even in the account of the request.
    """
    check_blob_name(call.base().name)
    wanted = await _wanted(call, SourceKind.FROM_URL, call.blobs.entropy.uuid(), sync_bytes_max)
    source = await verified_source(call, same_account_is_enough=False)
    record, _ = await _copy_checked(call, source, wanted, sync_bytes_max)
    headers = _copied(record)
    if "x-ms-source-content-md5" in call.request.headers:
        headers["Content-MD5"] = call.request.headers["x-ms-source-content-md5"]
    return Response(202, headers)


async def _copy_checked(
    call: BlobCall, source: Source, wanted: CopyBlob, bytes_max: int
) -> tuple[BlobRecord, bytes]:
    """Copy what has the digests that the request says it has; returns its CRC64 as well, if its
    bytes had to be read."""
    sent = source_digests(call)
    if isinstance(source, OtherUrl):
        taken = await take(call, source, None, bytes_max, wanted.new.seal)
        try:
            sent.check(taken.body.md5, taken.body.crc64)
        except Refused:
            await call.blobs.discard(taken.body)
            raise
        return await _put_taken(call, taken, wanted), taken.body.crc64
    if sent == no_digests:
        return await _copy_own(call, source, wanted), b""
    checked = await check_own(call, source, sent, bytes_max)
    wanted = replace(wanted, source_conditions=checked.still)
    return await _copy_own(call, source, wanted), checked.crc64


async def copy_incrementally(call: BlobCall) -> Response:
    """Incremental Copy Blob: a page blob's next snapshot, into a blob that follows it."""
    must_be_empty(call)
    where, guard = call.base(), call.guard()
    check_blob_name(where.name)
    source = await find_source(call, same_account_is_enough=True)
    if isinstance(source, OtherUrl):
        raise Refused("InvalidSourceBlobUrl")
    url = required(call.request, "x-ms-copy-source")
    seal = await seal_of(call)
    wanted = CopyBlob(
        copy_id=call.blobs.entropy.uuid(),
        source_url=url,
        new=NewBlob(may_overwrite=call.grant.may_overwrite, seal=seal),
        from_elsewhere=source.account != call.account.name,
    )
    unlock = unlocking(call, source.account, None)
    record = await page_copies.follow(
        call.blobs, source.where, where, guard, wanted, call.keeping(), unlock
    )
    return Response(202, _copied(record))


async def put_from_url(call: BlobCall) -> Response:
    """Put Blob From URL: a block blob of what a source has, with properties of its own."""
    must_be_empty(call)
    where = call.base()
    check_blob_name(where.name)
    wanted = await _wanted(call, SourceKind.FROM_URL, "", put_from_url_bytes_max)
    with_properties = boolean(call.request, "x-ms-copy-source-blob-properties", default=True)
    own_headers = decode.content_headers(call.request, standard=False)
    replaces = not with_properties or decode.names_content_headers(call.request.headers)
    wanted = copies.as_block_blob(wanted, own_headers if replaces else None)
    source = await verified_source(call, same_account_is_enough=False)
    record, crc64 = await _copy_checked(call, source, wanted, put_from_url_bytes_max)
    headers = encode.written(record)
    if record.headers.md5:
        headers["Content-MD5"] = encode_base64(record.headers.md5)
    if crc64 and call.version >= crc64_always_since:
        headers["x-ms-content-crc64"] = encode_base64(crc64)
    return Response(201, headers)


async def put_block_from_url(call: BlobCall) -> Response:
    must_be_empty(call)
    where, guard = call.base(), call.lease_guard()
    check_blob_name(where.name)
    block_id = decode.block_id(call.request)
    seal = await seal_of(call)
    limit = decode.limit_for(call.version, block_from_url_bytes_max)
    body = await take_checked(call, limit, seal)
    await call.blobs.keep(
        where.part,
        body,
        partial(block_blobs.stage, where=where, guard=guard, block_id=block_id, received=body),
    )
    return Response(201, {**request_encrypted(seal), **transfer_digest(call, body)})


_unreadable: Final = frozenset(
    {
        "BlobNotFound",
        "BlobArchived",
        "BlobUsesCustomerSpecifiedEncryption",
        "BlobDoesNotUseCustomerSpecifiedEncryption",
    }
)


async def _copy(call: BlobCall, source: OwnBlob, wanted: CopyBlob) -> BlobRecord:
    """Share the source's bytes or, if they are encrypted otherwise, read and write them."""
    wanted = replace(wanted, from_elsewhere=source.account != call.account.name)
    try:
        return await copies.copy(
            call.blobs, source.where, call.base(), call.guard(), wanted, call.keeping()
        )
    except PagesNotShared:
        return await _copy_pages(call, source, wanted)
    except SealedOtherwise:
        customer = source_key_of(call)
        return await resealing.copy(
            call.blobs,
            source.where,
            call.base(),
            call.guard(),
            wanted,
            call.keeping(),
            b"" if customer is None else customer.sha256,
            unlocking(call, source.account, customer),
        )


async def _copy_pages(call: BlobCall, source: OwnBlob, wanted: CopyBlob) -> BlobRecord:
    """A page blob's content is read into a block blob, where that is what the copy is to be."""
    if wanted.block_blob:
        taken = await read_own(call, source, None, put_from_url_bytes_max, wanted.new.seal)
        return await _put_taken(call, taken, wanted)
    customer = source_key_of(call)
    return await page_copies.copy(
        call.blobs,
        source.where,
        call.base(),
        call.guard(),
        wanted,
        call.keeping(),
        b"" if customer is None else customer.sha256,
        unlocking(call, source.account, customer),
    )


async def _copy_own(call: BlobCall, source: OwnBlob, wanted: CopyBlob) -> BlobRecord:
    try:
        return await _copy(call, source, wanted)
    except Refused as refused:
        if refused.code in _unreadable or (
            refused.code == "ContainerNotFound" and not await _is_there(call, source)
        ):
            raise cannot_verify(refused) from None
        raise


async def _is_there(call: BlobCall, source: OwnBlob) -> bool:
    """Whether the source's container is there: if so, it was the destination's that is not."""

    async def find(tx: ReadTx) -> bool:
        return await tx.get(source.where.part, keys.container_record) is not None

    return await call.blobs.read(find)


async def _put_taken(call: BlobCall, taken: Taken, wanted: CopyBlob) -> BlobRecord:
    where, guard, keeping = call.base(), call.guard(), call.keeping()
    tags = wanted.new.tags
    if taken.record is not None and wanted.tag_option is TagOption.COPY:
        tags = taken.record.tags
    new = msgspec.structs.replace(
        wanted.new,
        tags=tags,
        headers=wanted.headers or remote_copies.source_headers(taken.headers),
        metadata=wanted.new.metadata or remote_copies.source_metadata(taken.headers),
    )
    return await call.blobs.keep(
        where.part,
        taken.body,
        partial(
            block_blobs.put,
            where=where,
            guard=guard,
            wanted=new,
            received=taken.body,
            keeping=keeping,
            copy_state=copies.finished(wanted, taken.body.size, call.blobs.clock.now()),
        ),
    )


async def abort(call: BlobCall) -> Response:
    where, guard = call.base(), call.lease_guard()
    action = call.header("x-ms-copy-action") or ""
    if action.lower() != "abort":
        raise invalid_header("x-ms-copy-action", action)
    copy_id = call.query("copyid")
    if not copy_id:
        raise missing_query("copyid")
    await call.blobs.write(
        (where.part,), partial(remote_copies.abort, where=where, guard=guard, copy_id=copy_id)
    )
    return Response(204)
