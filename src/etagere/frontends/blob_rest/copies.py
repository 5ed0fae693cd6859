"""Copies over HTTP (Azure: 'Copy Blob', 'Copy Blob From URL', 'Put Blob From URL', 'Put Block From
URL', 'Abort Copy Blob')."""

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from etagere.base.errors import Refused, invalid_header, missing_query
from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import decode, encode, tiers
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.creation import new_blob
from etagere.frontends.blob_rest.encryption import (
    customer_key,
    keyed,
    request_encrypted,
    seal_of,
    source_key,
    unlocking,
)
from etagere.frontends.blob_rest.names import check_blob_name
from etagere.frontends.blob_rest.sources import (
    OtherUrl,
    OwnBlob,
    cannot_verify,
    find_source,
)
from etagere.frontends.common.headers import (
    body_length,
    boolean,
    digest,
    encode_base64,
    required,
)
from etagere.frontends.common.message import Response
from etagere.kernel.conditions import (
    SourceKind,
    parse_conditions,
    source_headers,
)
from etagere.kernel.ranges import RequestedRange, parse_range
from etagere.services.blob import block_blobs, copies, remote_copies, resealing
from etagere.services.blob.copies import CopyBlob, PagesNotShared, SealedOtherwise, TagOption
from etagere.services.blob.encryption import CustomerKey
from etagere.services.blob.fetching import CannotFetch, Fetched
from etagere.services.blob.guard import Guard
from etagere.services.blob.received import Received
from etagere.services.blob.records import BlobRecord

sync_bytes_max: Final = 256 * 1024 * 1024
source_keys_since: Final = "2026-04-06"
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
    source = await find_source(call, same_account_is_enough=True)
    if isinstance(source, OwnBlob):
        record = await _copy(call, source, wanted)
    else:
        record = await remote_copies.start(
            call.blobs, call.account.name, where, guard, wanted, source.headers, keeping
        )
    return Response(202, _copied(record))


def _copied(record: BlobRecord) -> dict[str, str]:
    headers = encode.written(record)
    assert record.copy is not None
    headers["x-ms-copy-id"] = record.copy.copy_id
    headers["x-ms-copy-status"] = record.copy.status
    return headers


async def copy_from_url(call: BlobCall) -> Response:
    """Copy Blob From URL: done when it answers, up to 256 MiB."""
    check_blob_name(call.base().name)
    wanted = await _wanted(call, SourceKind.FROM_URL, call.blobs.entropy.uuid(), sync_bytes_max)
    source = await _verified_source(call, same_account_is_enough=True)
    if isinstance(source, OtherUrl):
        taken = await _take(call, source, None, sync_bytes_max, wanted.new.seal)
        record = await _put_taken(call, taken, wanted, copied=True)
        return Response(202, _copied(record))
    record = await _copy_own(call, source, wanted)
    return Response(202, _copied(record))


async def put_from_url(call: BlobCall) -> Response:
    """Put Blob From URL: a block blob of what a source has, with properties of its own."""
    _must_be_empty(call)
    where = call.base()
    check_blob_name(where.name)
    wanted = await _wanted(call, SourceKind.FROM_URL, "", put_from_url_bytes_max)
    with_properties = boolean(call.request, "x-ms-copy-source-blob-properties", default=True)
    own_headers = decode.content_headers(call.request, standard=False)
    replaces = not with_properties or decode.names_content_headers(call.request.headers)
    wanted = copies.as_block_blob(wanted, own_headers if replaces else None)
    source = await _verified_source(call, same_account_is_enough=False)
    md5 = digest(call.request, "x-ms-source-content-md5", "md5")
    if isinstance(source, OtherUrl) or md5 is not None:
        # A digest of the source can only be compared with bytes that were read.
        taken = await _take(call, source, None, put_from_url_bytes_max, wanted.new.seal)
        _compare(md5, taken.body.md5)
        record = await _put_taken(call, taken, wanted, copied=False)
    else:
        record = await _copy_own(call, source, wanted)
    headers = encode.written(record)
    if record.headers.md5:
        headers["Content-MD5"] = encode_base64(record.headers.md5)
    return Response(201, headers)


async def put_block_from_url(call: BlobCall) -> Response:
    _must_be_empty(call)
    where, guard = call.base(), call.lease_guard()
    check_blob_name(where.name)
    block_id = decode.block_id(call.request)
    source = await _verified_source(call, same_account_is_enough=False)
    wanted = _source_range(call)
    limit = decode.limit_for(call.version, block_from_url_bytes_max)
    seal = await seal_of(call)
    body = (await _take(call, source, wanted, limit, seal)).body
    if not body.size:
        raise invalid_header("x-ms-copy-source", required(call.request, "x-ms-copy-source"))
    check_source_digests(call, body)
    await call.blobs.keep(
        where.part,
        body,
        partial(block_blobs.stage, where=where, guard=guard, block_id=block_id, received=body),
    )
    headers = request_encrypted(seal)
    if "x-ms-source-content-md5" in call.request.headers:
        headers["Content-MD5"] = encode_base64(body.md5)
    else:
        headers["x-ms-content-crc64"] = encode_base64(body.crc64)
    return Response(201, headers)


def check_source_digests(call: BlobCall, body: Received) -> None:
    """x-ms-source-content-md5 and -crc64, against what was read."""
    _compare(digest(call.request, "x-ms-source-content-md5", "md5"), body.md5)
    crc64 = digest(call.request, "x-ms-source-content-crc64", "crc64")
    if crc64 is not None and crc64 != body.crc64:
        raise Refused(
            "Crc64Mismatch",
            {
                "UserSpecifiedCrc64": encode_base64(crc64),
                "ServerCalculatedCrc64": encode_base64(body.crc64),
            },
        )


def _compare(sent: bytes | None, found: bytes) -> None:
    if sent is not None and sent != found:
        raise Refused(
            "Md5Mismatch",
            {
                "UserSpecifiedMd5": encode_base64(sent),
                "ServerCalculatedMd5": encode_base64(found),
            },
        )


def _must_be_empty(call: BlobCall) -> None:
    if body_length(call.request):
        raise invalid_header("Content-Length", str(call.request.content_length))


def _source_range(call: BlobCall) -> RequestedRange | None:
    text = call.header("x-ms-source-range")
    if not text:
        return None
    found = parse_range(text)
    if found is None:
        raise invalid_header("x-ms-source-range", text)
    return found


async def _verified_source(call: BlobCall, *, same_account_is_enough: bool) -> OwnBlob | OtherUrl:
    try:
        return await find_source(call, same_account_is_enough=same_account_is_enough)
    except Refused as refused:
        if refused.code in ("InvalidHeaderValue", "MissingRequiredHeader"):
            raise
        raise cannot_verify(refused) from None


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
        customer = _source_key(call)
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
    if not wanted.block_blob:
        raise Refused("InvalidSourceBlobType")
    taken = await _read_own(call, source, None, put_from_url_bytes_max, wanted.new.seal)
    return await _put_taken(call, taken, wanted, copied=False)


def _source_key(call: BlobCall) -> CustomerKey | None:
    customer = customer_key(call.request, source_key)
    if customer is not None and call.version < source_keys_since:
        raise invalid_header("x-ms-version", call.version)
    return customer


async def _copy_own(call: BlobCall, source: OwnBlob, wanted: CopyBlob) -> BlobRecord:
    try:
        return await _copy(call, source, wanted)
    except Refused as refused:
        if refused.code in _unreadable:
            raise cannot_verify(refused) from None
        raise


class _Taken(NamedTuple):
    """A source's bytes, and what its own headers say of them."""

    body: Received
    headers: dict[str, str]
    record: BlobRecord | None = None
    """The source, if it is a blob of this server."""


async def _take(
    call: BlobCall,
    source: OwnBlob | OtherUrl,
    wanted: RequestedRange | None,
    bytes_max: int,
    seal: Seal | None,
) -> _Taken:
    """Read a source, under the request's source conditions; raises CannotVerifyCopySource."""
    if isinstance(source, OwnBlob):
        return await _take_own(call, source, wanted, bytes_max, seal)
    headers = dict(source.headers)
    for name in ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"):
        value = call.header(f"x-ms-source-{name}")
        if value is not None:
            headers[name] = value
    if wanted is not None:
        last = "" if wanted.last is None else str(wanted.last)
        headers["Range"] = f"bytes={wanted.first}-{last}"
    if call.blobs.fetcher is None:
        raise Refused("CannotVerifyCopySource", status=403)
    try:
        fetched = await call.blobs.fetcher.fetch(source.url, headers)
        with closing(fetched):
            _check_fetched(fetched, ranged=wanted is not None)
            body = await call.blobs.receive(
                fetched.chunks, fetched.length, bytes_max, md5=True, seal=seal
            )
    except CannotFetch as failure:
        raise Refused("CannotVerifyCopySource", status=404) from failure
    return _Taken(body, dict(fetched.headers))


def _check_fetched(fetched: Fetched, *, ranged: bool) -> None:
    if fetched.status not in (200, 206):
        raise Refused(
            "CannotVerifyCopySource",
            {"CopySourceStatusCode": str(fetched.status)},
            status=fetched.status if 300 <= fetched.status < 500 else 500,
        )
    if ranged and fetched.status == 200:
        # The source knows no ranges: what it sends is not what was asked for.
        raise Refused("CannotVerifyCopySource", status=400)


async def _take_own(
    call: BlobCall,
    source: OwnBlob,
    wanted: RequestedRange | None,
    bytes_max: int,
    seal: Seal | None,
) -> _Taken:
    try:
        return await _read_own(call, source, wanted, bytes_max, seal)
    except Refused as refused:
        raise cannot_verify(refused) from None


async def _read_own(
    call: BlobCall,
    source: OwnBlob,
    wanted: RequestedRange | None,
    bytes_max: int,
    seal: Seal | None,
) -> _Taken:
    """Read a blob of this server, with a key of its own if it has one, and seal it anew."""
    conditions = parse_conditions(call.request.headers, source_headers)
    customer = _source_key(call)
    guard = keyed(Guard(conditions, None, call.version), customer)
    unlock = unlocking(call, source.account, customer)
    download = await call.blobs.open_download(source.where, guard, wanted, unlock)
    body = await call.blobs.receive(
        _chunks(download.body), download.part.length, bytes_max, md5=True, seal=seal
    )
    record = download.record
    headers = encode.blob_headers(record, call.blobs.clock.now())
    return _Taken(body, {name.lower(): value for name, value in headers.items()}, record)


async def _chunks(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        if body:
            yield body
        return
    async for piece in body:
        yield piece


async def _put_taken(
    call: BlobCall, taken: _Taken, wanted: CopyBlob, *, copied: bool
) -> BlobRecord:
    where, guard, keeping = call.base(), call.guard(), call.keeping()
    tags = wanted.new.tags
    if taken.record is not None and wanted.tag_option is TagOption.COPY:
        tags = taken.record.tags
    new = replace(
        wanted.new,
        tags=tags,
        headers=wanted.headers or remote_copies.source_headers(taken.headers),
        metadata=wanted.new.metadata or remote_copies.source_metadata(taken.headers),
    )
    copy_state = (
        copies.finished(wanted, taken.body.size, call.blobs.clock.now()) if copied else None
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
            copy_state=copy_state,
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
