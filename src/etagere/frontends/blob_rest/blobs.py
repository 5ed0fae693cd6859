"""Blob operations over HTTP that all types of blob share (Azure: 'Operations on blobs')."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from awscrt.checksums import crc64nvme

from etagere.auth.sas_token import ResponseOverrides, no_overrides
from etagere.base.clock import Timestamp
from etagere.base.errors import Refused, invalid_header, invalid_query
from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.bodies import check_document_digests
from etagere.frontends.blob_rest.call import BlobCall, fresh_id
from etagere.frontends.blob_rest.containers import leased_response
from etagere.frontends.blob_rest.encryption import (
    customer_key,
    keyed,
    open_with_key,
    seal_of,
)
from etagere.frontends.blob_rest.page_blobs import page_properties
from etagere.frontends.blob_rest.structured import wrap
from etagere.frontends.blob_rest.tiers import tier_conditions, tier_headers
from etagere.frontends.common import xml
from etagere.frontends.common.headers import boolean, encode_base64, metadata, metadata_headers
from etagere.frontends.common.message import Response
from etagere.kernel.dates import format_http_date, format_iso
from etagere.kernel.lease import LeaseKind
from etagere.kernel.lease_request import parse_lease_request
from etagere.kernel.ranges import content_range, parse_read_range
from etagere.kv.contract import Body, StoreError, Tx
from etagere.services.blob import (
    blobs,
    history,
    last_access,
    lifetime,
    page_blobs,
    properties,
    tags,
)
from etagere.services.blob.guard import validators
from etagere.services.blob.history import Snapshots
from etagere.services.blob.records import BlobRecord, BlobType

tiers_of_downloads_since: Final = "2026-10-06"
range_digest_bytes_max: Final = 4 * 1024 * 1024
lease_choices_since: Final = "2012-02-12"


async def get(call: BlobCall) -> Response:
    return wrap(call, await _get(call))


async def _get(call: BlobCall) -> Response:
    wanted = parse_read_range(call.request.headers)
    digest = _range_digest(call, ranged=wanted is not None)
    download = await open_with_key(call, wanted)
    record, part = download.record, download.part
    now = call.blobs.clock.now()
    headers = encode.blob_headers(record, now)
    if call.version >= tiers_of_downloads_since:
        headers.update(tier_headers(record, now, call.account))
    if call.account.last_access_tracking:
        headers.update(encode.last_access(record))
    if last_access.is_worth_noting(record, now, tracked=call.account.last_access_tracking):
        await _note(call, record)
    _override(call.grant.overrides, headers)
    headers["Content-Length"] = str(part.length)
    md5 = encode_base64(record.headers.md5) if record.headers.md5 else None
    if wanted is None:
        if md5:
            headers["Content-MD5"] = md5
        return Response(200, headers, download.body)
    headers["Content-Range"] = content_range(part, record.size)
    if md5:
        headers["x-ms-blob-content-md5"] = md5
    if not digest:
        return Response(206, headers, download.body)
    if part.length > range_digest_bytes_max:
        raise Refused("OutOfRangeInput")
    data = await _gather(download.body)
    if digest == "md5":
        headers["Content-MD5"] = encode_base64(hashlib.md5(data, usedforsecurity=False).digest())
    else:
        headers["x-ms-content-crc64"] = encode_base64(crc64nvme(data).to_bytes(8, "little"))
    return Response(206, headers, data)


async def _note(call: BlobCall, record: BlobRecord) -> None:
    """A store that takes no writes, for want of room, is read all the same."""
    where = call.where()
    with suppress(StoreError):
        await call.blobs.write(
            (where.part,), partial(last_access.note, where=where, etag=record.etag)
        )


def _range_digest(call: BlobCall, *, ranged: bool) -> str:
    """Which digest of the range is asked for: "md5", "crc64" or "" for none."""
    headers = call.request.headers
    if not ("x-ms-range-get-content-md5" in headers or "x-ms-range-get-content-crc64" in headers):
        return ""
    md5 = boolean(call.request, "x-ms-range-get-content-md5")
    crc64 = boolean(call.request, "x-ms-range-get-content-crc64")
    if md5 and crc64:
        raise invalid_header("x-ms-range-get-content-crc64", "true")
    name = "md5" if md5 else "crc64" if crc64 else ""
    if name and not ranged:
        raise invalid_header(f"x-ms-range-get-content-{name}", "true")
    return name


async def _gather(body: "bytes | AsyncIterator[bytes]") -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join([piece async for piece in body])


def _override(overrides: ResponseOverrides, headers: dict[str, str]) -> None:
    """What `rscc` and its kin in a SAS put in place of the blob's own headers."""
    if overrides is no_overrides:
        return
    replaced = {
        "Cache-Control": overrides.cache_control,
        "Content-Disposition": overrides.content_disposition,
        "Content-Encoding": overrides.content_encoding,
        "Content-Language": overrides.content_language,
        "Content-Type": overrides.content_type,
    }
    headers.update({name: value for name, value in replaced.items() if value})


async def get_properties(call: BlobCall) -> Response:
    record = await _read(call)
    headers = encode.blob_headers(record, call.blobs.clock.now())
    headers.update(tier_headers(record, call.blobs.clock.now(), call.account))
    if call.account.last_access_tracking:
        headers.update(encode.last_access(record))
    if record.expires:
        headers["x-ms-expiry-time"] = format_http_date(Timestamp(record.expires))
    _override(call.grant.overrides, headers)
    headers["Content-Length"] = str(record.size)
    if record.headers.md5:
        headers["Content-MD5"] = encode_base64(record.headers.md5)
    return Response(200, headers)


async def get_metadata(call: BlobCall) -> Response:
    record = await _read(call)
    return Response(200, {**validators(record), **metadata_headers(record.metadata)})


async def _read(call: BlobCall) -> BlobRecord:
    where, guard = call.where(), keyed(call.guard(), customer_key(call.request))
    return (await call.blobs.read(partial(blobs.read, where=where, guard=guard))).record


async def set_metadata(call: BlobCall) -> Response:
    where = call.base()
    record = await call.blobs.write(
        (where.part,),
        partial(
            properties.set_metadata,
            where=where,
            guard=call.guard(),
            metadata=metadata(call.request),
            keeping=call.keeping(),
            seal=await seal_of(call),
        ),
    )
    return Response(200, encode.written(record))


async def set_properties(call: BlobCall) -> Response:
    """The six content headers, replaced together if any is there; of page blobs also the length
    and the sequence number."""
    where, guard, request = call.base(), call.guard(), call.request
    headers = None
    if decode.names_content_headers(request.headers):
        headers = decode.changed_headers(request)
    pages = page_properties(request)
    body: Body[Tx, BlobRecord]
    if pages is None:
        body = partial(
            properties.set_headers,
            where=where,
            guard=guard,
            headers=headers,
            keeping=call.keeping(),
        )
    else:
        body = partial(
            page_blobs.set_properties, where=where, guard=guard, wanted=pages, headers=headers
        )
    record = await call.blobs.write((where.part,), body)
    result = validators(record)
    if record.kind is BlobType.PAGE:
        result["x-ms-blob-sequence-number"] = str(record.sequence)
    return Response(200, result)


async def snapshot(call: BlobCall) -> Response:
    where = call.base()
    taken, current = await call.blobs.write(
        (where.part,),
        partial(
            history.snapshot,
            where=where,
            guard=call.guard(),
            metadata=metadata(call.request),
            keeping=call.keeping(),
            seal=await seal_of(call),
        ),
    )
    headers = encode.written(current)
    headers.update(validators(taken))
    headers["x-ms-snapshot"] = format_iso(Timestamp(taken.snapshot))
    return Response(201, headers)


async def delete(call: BlobCall) -> Response:
    where, guard, keeping = call.where(), call.guard(), call.keeping()
    snapshots = _snapshots(call)
    if call.query("deletetype") is not None:
        return await _delete_permanently(call)
    tier = tier_conditions(call.request, call.version)
    body: Body[Tx, bool]
    if where.snapshot or where.version:
        if snapshots is not Snapshots.REFUSE:
            # x-ms-delete-snapshots speaks of a blob's snapshots, and a snapshot has none.
            raise Refused("InvalidOperation")
        body = partial(
            history.delete_moment, where=where, guard=guard, keeping=keeping, tier_conditions=tier
        )
    else:
        body = partial(
            history.delete,
            where=where,
            guard=guard,
            snapshots=snapshots,
            keeping=keeping,
            tier_conditions=tier,
        )
    permanent = await call.blobs.write((where.part,), body)
    return Response(202, {"x-ms-delete-type-permanent": "true" if permanent else "false"})


def _snapshots(call: BlobCall) -> Snapshots:
    value = call.header("x-ms-delete-snapshots") or ""
    try:
        return Snapshots(value.lower())
    except ValueError:
        raise invalid_header("x-ms-delete-snapshots", value) from None


async def _delete_permanently(call: BlobCall) -> Response:
    value = call.request.query["deletetype"]
    if value.lower() != "permanent":
        raise invalid_query("deletetype", value)
    retention = call.properties.delete_retention
    if not (call.account.permanent_delete or retention.allow_permanent_delete):
        raise Refused("InvalidOperation", status=409)
    where = call.where()
    await call.blobs.write((where.part,), partial(history.delete_permanently, where=where))
    return Response(202, {"x-ms-delete-type-permanent": "true"})


async def undelete(call: BlobCall) -> Response:
    where = call.base()
    await call.blobs.write((where.part,), partial(history.undelete, where=where))
    return Response(200)


async def set_expiry(call: BlobCall) -> Response:
    """Only accounts with a hierarchical namespace know it; to others it is a word like any."""
    if not call.account.hierarchical_namespace:
        raise invalid_query("comp", call.request.query["comp"], "The value is not supported.")
    where, wanted = call.base(), decode.expiry(call.request)
    record = await call.blobs.write(
        (where.part,), partial(lifetime.set_expiry, where=where, wanted=wanted)
    )
    return Response(200, validators(record))


async def get_tags(call: BlobCall) -> Response:
    where, guard = call.where(), call.tag_guard()
    found = await call.blobs.read(partial(tags.get_tags, where=where, guard=guard))
    body = (xml.declaration + encode.tag_set(found)).encode()
    return Response(200, {"Content-Type": "application/xml"}, body)


async def set_tags(call: BlobCall) -> Response:
    where, guard = call.where(), call.tag_guard()
    if where.snapshot:
        raise invalid_query("snapshot", call.request.query["snapshot"])
    data = await call.request.body.read()
    check_document_digests(call.request, data)
    wanted = decode.tags_document(data)
    await call.blobs.write(
        (where.part,), partial(tags.set_tags, where=where, guard=guard, tags=wanted)
    )
    return Response(204)


def _lease_headers(call: BlobCall) -> Mapping[str, str]:
    """Before 2012-02-12 every lease was for a minute, under an id of the server's choice that did
    not change, and was broken when the minute was over."""
    headers = call.request.headers
    if call.version >= lease_choices_since:
        return headers
    action = headers.get("x-ms-lease-action", "")
    if action.lower() == "change":
        raise invalid_header("x-ms-lease-action", action)
    newer = ("x-ms-proposed-lease-id", "x-ms-lease-break-period")
    kept = {name: value for name, value in headers.items() if name not in newer}
    return {**kept, "x-ms-lease-duration": "60"}


async def lease(call: BlobCall) -> Response:
    where = call.base()
    wanted = parse_lease_request(_lease_headers(call), LeaseKind.BLOB)
    leased = await call.blobs.write(
        (where.part,),
        partial(
            blobs.lease,
            where=where,
            guard=call.guard_of_conditions(),
            request=wanted,
            fresh_id=fresh_id(call, wanted),
        ),
    )
    return leased_response(wanted.action.value, leased.record, leased.change)
