"""Append blobs over HTTP (Azure: 'Put Blob', 'Append Block', 'Append Block From URL',
'Append Blob Seal')."""

from functools import partial
from typing import Final

from etagere.base.errors import invalid_header
from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import decode, encode, source_bytes
from etagere.frontends.blob_rest.bodies import receive, transfer_digest
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.creation import new_blob
from etagere.frontends.blob_rest.encryption import request_encrypted, seal_of, with_seal
from etagere.frontends.blob_rest.names import check_blob_name
from etagere.frontends.blob_rest.structured import content_length
from etagere.frontends.common.headers import integer
from etagere.frontends.common.message import Response
from etagere.services.blob import append_blobs
from etagere.services.blob.append_blobs import AppendConditions, Appended
from etagere.services.blob.blobs import Where
from etagere.services.blob.guard import validators

block_bytes_max: Final = (("2022-11-02", 100 * 1024 * 1024), ("", 4 * 1024 * 1024))
"""The sizes that one append may have, by the oldest version that takes them."""
position_max: Final = 2**63 - 1


async def put(call: BlobCall) -> Response:
    where = call.base()
    check_blob_name(where.name)
    source_bytes.must_be_empty(call)
    record = await call.blobs.write(
        (where.part,),
        partial(
            append_blobs.put,
            where=where,
            guard=call.guard(),
            wanted=new_blob(call, standard=True, seal=await seal_of(call)),
            keeping=call.keeping(),
        ),
    )
    return Response(201, encode.written(record))


async def append_block(call: BlobCall) -> Response:
    return await with_seal(call, _append_block)


async def _append_block(call: BlobCall, where: Where, seal: Seal | None) -> Response:
    guard, conditions = call.guard(), append_conditions(call)
    if content_length(call) == 0:
        raise invalid_header("Content-Length", "0")
    limit = decode.limit_for(call.version, block_bytes_max)
    body = await receive(call, limit, md5=False, seal=seal)
    appended = await call.blobs.keep(
        where.part,
        body,
        partial(
            append_blobs.append,
            where=where,
            guard=guard,
            conditions=conditions,
            received=body,
        ),
    )
    return Response(201, {**appended_headers(appended), **transfer_digest(call, body)})


async def append_block_from_url(call: BlobCall) -> Response:
    source_bytes.must_be_empty(call)
    where, guard, conditions = call.base(), call.guard(), append_conditions(call)
    limit = decode.limit_for(call.version, block_bytes_max)
    body = await source_bytes.take_checked(call, limit, await seal_of(call))
    appended = await call.blobs.keep(
        where.part,
        body,
        partial(
            append_blobs.append,
            where=where,
            guard=guard,
            conditions=conditions,
            received=body,
        ),
    )
    headers = appended_headers(appended)
    return Response(201, {**headers, **source_bytes.transfer_digest(call, body)})


async def seal(call: BlobCall) -> Response:
    where = call.base()
    record = await call.blobs.write(
        (where.part,),
        partial(
            append_blobs.seal,
            where=where,
            guard=call.guard(),
            conditions=append_conditions(call),
        ),
    )
    return Response(200, {**validators(record), "x-ms-blob-sealed": "true"})


def append_conditions(call: BlobCall) -> AppendConditions:
    return AppendConditions(
        integer(call.request, "x-ms-blob-condition-appendpos", 0, position_max),
        integer(call.request, "x-ms-blob-condition-maxsize", 0, position_max),
    )


def appended_headers(appended: Appended) -> dict[str, str]:
    record = appended.record
    return {
        **validators(record),
        "x-ms-blob-append-offset": str(appended.offset),
        "x-ms-blob-committed-block-count": str(record.block_count),
        **request_encrypted(record),
    }
