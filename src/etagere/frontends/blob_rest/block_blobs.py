"""Block blobs over HTTP (Azure: 'Put Blob', 'Put Block', 'Put Block List', 'Get Block List')."""

from functools import partial

from awscrt.checksums import crc64nvme

from etagere.auth.failure import unauthenticated
from etagere.auth.identity import anonymous
from etagere.base.errors import invalid_header
from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.bodies import (
    check_document_digests,
    receive,
    transfer_digest,
)
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.creation import new_blob
from etagere.frontends.blob_rest.encryption import request_encrypted, seal_of, with_seal
from etagere.frontends.blob_rest.names import check_blob_name
from etagere.frontends.blob_rest.structured import content_length, echo
from etagere.frontends.common.headers import body_length, encode_base64
from etagere.frontends.common.message import Response
from etagere.services.blob import block_blobs
from etagere.services.blob.blobs import Where
from etagere.services.blob.guard import validators


async def put(call: BlobCall) -> Response:
    return await with_seal(call, _put)


async def _put(call: BlobCall, where: Where, seal: Seal | None) -> Response:
    check_blob_name(where.name)
    guard = call.guard()
    wanted = new_blob(call, standard=True, seal=seal)
    limit = decode.limit_for(call.version, decode.put_blob_bytes_max)
    body = await receive(call, limit, md5=True, seal=seal, also=wanted.headers.md5)
    record = await call.blobs.keep(
        where.part,
        body,
        partial(
            block_blobs.put,
            where=where,
            guard=guard,
            wanted=wanted,
            received=body,
            keeping=call.keeping(),
        ),
    )
    headers = encode.written(record)
    headers["Content-MD5"] = encode_base64(body.md5)
    headers["x-ms-content-crc64"] = encode_base64(body.crc64)
    headers.update(echo(call))
    return Response(201, headers)


async def put_block(call: BlobCall) -> Response:
    return await with_seal(call, _put_block)


async def _put_block(call: BlobCall, where: Where, seal: Seal | None) -> Response:
    check_blob_name(where.name)
    block_id = decode.block_id(call.request)
    guard = call.lease_guard()
    if content_length(call) == 0:
        raise invalid_header("Content-Length", "0")
    limit = decode.limit_for(call.version, decode.block_bytes_max)
    body = await receive(call, limit, md5=False, seal=seal)
    await call.blobs.keep(
        where.part,
        body,
        partial(block_blobs.stage, where=where, guard=guard, block_id=block_id, received=body),
    )
    return Response(201, {**transfer_digest(call, body), **request_encrypted(seal)})


async def put_block_list(call: BlobCall) -> Response:
    request = call.request
    where = call.base()
    check_blob_name(where.name)
    guard = call.guard()
    wanted = new_blob(call, standard=False, seal=await seal_of(call))
    body_length(request)
    data = await request.body.read(decode.block_list_bytes_max)
    check_document_digests(request, data)
    blocks = decode.block_list(data)
    record = await call.blobs.write(
        (where.part,),
        partial(
            block_blobs.commit,
            where=where,
            guard=guard,
            wanted=wanted,
            blocks=blocks,
            keeping=call.keeping(),
        ),
    )
    headers = encode.written(record)
    headers["x-ms-content-crc64"] = encode_base64(crc64nvme(data).to_bytes(8, "little"))
    return Response(201, headers)


async def get_block_list(call: BlobCall) -> Response:
    committed, uncommitted = decode.block_list_types(call.request)
    if uncommitted and call.identity is anonymous:
        # What is public is what has been committed.
        raise unauthenticated(call.version, call.request.method, service="b")
    # The live service was seen to heed the condition on tags, and no other.
    where, guard = call.where(), call.if_tags_guard()
    found = await call.blobs.read(
        partial(
            block_blobs.block_list,
            where=where,
            guard=guard,
            committed=committed,
            uncommitted=uncommitted,
        )
    )
    headers = {"Content-Type": "application/xml"}
    if found.record is not None:
        headers.update(validators(found.record))
    headers["x-ms-blob-content-length"] = str(found.record.size if found.record else 0)
    body = encode.block_list(found, committed=committed, uncommitted=uncommitted)
    return Response(200, headers, body)
