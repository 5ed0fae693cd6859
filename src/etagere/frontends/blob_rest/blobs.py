"""Blob operations over HTTP that all types of blob share (Azure: 'Operations on blobs')."""

import hashlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from awscrt.checksums import crc64nvme

from etagere.auth.sas_token import ResponseOverrides, no_overrides
from etagere.base.errors import Refused, invalid_header
from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.containers import leased_response
from etagere.frontends.common.headers import boolean, encode_base64, metadata, metadata_headers
from etagere.frontends.common.message import Response
from etagere.kernel.lease import LeaseKind
from etagere.kernel.lease_request import parse_lease_request
from etagere.kernel.ranges import content_range, parse_read_range
from etagere.services.blob import blobs
from etagere.services.blob.blobs import Snapshots
from etagere.services.blob.guard import validators
from etagere.services.blob.records import BlobRecord

range_digest_bytes_max: Final = 4 * 1024 * 1024


async def get(call: BlobCall) -> Response:
    wanted = parse_read_range(call.request.headers)
    digest = _range_digest(call, ranged=wanted is not None)
    download = await call.blobs.open_download(call.where(), call.guard(), wanted)
    record, part = download.record, download.part
    headers = encode.blob_headers(record, call.blobs.clock.now())
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


def _range_digest(call: BlobCall, *, ranged: bool) -> str:
    """Which digest of the range is asked for: "md5", "crc64" or "" for none."""
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
    headers.update(encode.tier_headers(record))
    _override(call.grant.overrides, headers)
    headers["Content-Length"] = str(record.size)
    if record.headers.md5:
        headers["Content-MD5"] = encode_base64(record.headers.md5)
    return Response(200, headers)


async def get_metadata(call: BlobCall) -> Response:
    record = await _read(call)
    return Response(200, {**validators(record), **metadata_headers(record.metadata)})


async def _read(call: BlobCall) -> BlobRecord:
    where, guard = call.where(), call.guard()
    return (await call.blobs.read(partial(blobs.read, where=where, guard=guard))).record


async def set_metadata(call: BlobCall) -> Response:
    where = call.base()
    record = await call.blobs.write(
        (where.part,),
        partial(
            blobs.set_metadata, where=where, guard=call.guard(), metadata=metadata(call.request)
        ),
    )
    return Response(200, {**validators(record), "x-ms-request-server-encrypted": "true"})


async def set_properties(call: BlobCall) -> Response:
    where = call.base()
    record = await call.blobs.write(
        (where.part,),
        partial(
            blobs.set_headers,
            where=where,
            guard=call.guard(),
            headers=decode.changed_headers(call.request),
        ),
    )
    return Response(200, validators(record))


async def delete(call: BlobCall) -> Response:
    where = call.base()
    value = call.header("x-ms-delete-snapshots") or ""
    try:
        snapshots = Snapshots(value.lower())
    except ValueError:
        raise invalid_header("x-ms-delete-snapshots", value) from None
    await call.blobs.write(
        (where.part,),
        partial(blobs.delete, where=where, guard=call.guard(), snapshots=snapshots),
    )
    return Response(202, {"x-ms-delete-type-permanent": "true"})


async def lease(call: BlobCall) -> Response:
    where = call.base()
    wanted = parse_lease_request(call.request.headers, LeaseKind.BLOB)
    leased = await call.blobs.write(
        (where.part,),
        partial(
            blobs.lease,
            where=where,
            guard=call.guard_of_conditions(),
            request=wanted,
            fresh_id=call.blobs.entropy.uuid(),
        ),
    )
    return leased_response(wanted.action.value, leased.record, leased.change)
