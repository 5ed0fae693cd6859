"""Block blobs over HTTP (Azure: 'Put Blob', 'Put Block', 'Put Block List', 'Get Block List')."""

import hashlib
from functools import partial

from awscrt.checksums import crc64nvme

from etagere.base.errors import Refused, invalid_header
from etagere.frontends.blob_rest import decode, encode
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.names import check_blob_name
from etagere.frontends.common.headers import body_length, digest, encode_base64
from etagere.frontends.common.message import Response
from etagere.services.blob import block_blobs
from etagere.services.blob.guard import validators
from etagere.services.blob.received import Received


async def put(call: BlobCall) -> Response:
    request = call.request
    where = call.base()
    check_blob_name(where.name)
    guard = call.guard()
    wanted = decode.new_blob(request, standard=True, may_overwrite=call.grant.may_overwrite)
    limit = decode.limit_for(call.version, decode.put_blob_bytes_max)
    body = await receive(call, limit, md5=True, also=wanted.headers.md5)
    record = await call.blobs.keep(
        where.part,
        body,
        partial(block_blobs.put, where=where, guard=guard, wanted=wanted, received=body),
    )
    headers = validators(record)
    headers["Content-MD5"] = encode_base64(body.md5)
    headers["x-ms-content-crc64"] = encode_base64(body.crc64)
    headers["x-ms-request-server-encrypted"] = "true"
    return Response(201, headers)


async def receive(call: BlobCall, limit: int, *, md5: bool, also: bytes = b"") -> Received:
    """Take the body in, with its digests, and check it against those that the client sent."""
    request = call.request
    length = body_length(request)
    if length > limit:
        raise decode.too_large(limit)
    sent_md5 = digest(request, "content-md5", "md5")
    sent_crc64 = digest(request, "x-ms-content-crc64", "crc64")
    if sent_md5 is not None and sent_crc64 is not None:
        raise Refused("BothCrc64AndMd5HeaderPresent")
    body = await call.blobs.receive(
        request.body.chunks(), length, limit, md5=md5 or sent_md5 is not None
    )
    for sent in (sent_md5, also or None):
        if sent is not None and sent != body.md5:
            await call.blobs.discard(body)
            raise Refused(
                "Md5Mismatch",
                {
                    "UserSpecifiedMd5": encode_base64(sent),
                    "ServerCalculatedMd5": encode_base64(body.md5),
                },
            )
    if sent_crc64 is not None and sent_crc64 != body.crc64:
        await call.blobs.discard(body)
        raise Refused(
            "Crc64Mismatch",
            {
                "UserSpecifiedCrc64": encode_base64(sent_crc64),
                "ServerCalculatedCrc64": encode_base64(body.crc64),
            },
        )
    return body


def transfer_digest(call: BlobCall, body: Received) -> dict[str, str]:
    """Put Block and its kin return the kind of digest that the request had, CRC64 by default."""
    if "content-md5" in call.request.headers:
        return {"Content-MD5": encode_base64(body.md5)}
    return {"x-ms-content-crc64": encode_base64(body.crc64)}


async def put_block(call: BlobCall) -> Response:
    request = call.request
    where = call.base()
    check_blob_name(where.name)
    block_id = decode.block_id(request)
    guard = call.lease_guard()
    if body_length(request) == 0:
        raise invalid_header("Content-Length", "0")
    limit = decode.limit_for(call.version, decode.block_bytes_max)
    body = await receive(call, limit, md5=False)
    await call.blobs.keep(
        where.part,
        body,
        partial(block_blobs.stage, where=where, guard=guard, block_id=block_id, received=body),
    )
    return Response(201, {**transfer_digest(call, body), "x-ms-request-server-encrypted": "true"})


async def put_block_list(call: BlobCall) -> Response:
    request = call.request
    where = call.base()
    check_blob_name(where.name)
    guard = call.guard()
    wanted = decode.new_blob(request, standard=False, may_overwrite=call.grant.may_overwrite)
    body_length(request)
    data = await request.body.read(decode.block_list_bytes_max)
    _check_document(call, data)
    blocks = decode.block_list(data)
    record = await call.blobs.write(
        (where.part,),
        partial(block_blobs.commit, where=where, guard=guard, wanted=wanted, blocks=blocks),
    )
    headers = validators(record)
    headers["x-ms-content-crc64"] = encode_base64(crc64nvme(data).to_bytes(8, "little"))
    headers["x-ms-request-server-encrypted"] = "true"
    return Response(201, headers)


def _check_document(call: BlobCall, data: bytes) -> None:
    """Content-MD5 and x-ms-content-crc64 of a Put Block List are the document's."""
    sent = digest(call.request, "content-md5", "md5")
    if sent is not None:
        found = hashlib.md5(data, usedforsecurity=False).digest()
        if found != sent:
            raise Refused(
                "Md5Mismatch",
                {
                    "UserSpecifiedMd5": encode_base64(sent),
                    "ServerCalculatedMd5": encode_base64(found),
                },
            )
    sent = digest(call.request, "x-ms-content-crc64", "crc64")
    if sent is not None:
        found = crc64nvme(data).to_bytes(8, "little")
        if found != sent:
            raise Refused(
                "Crc64Mismatch",
                {
                    "UserSpecifiedCrc64": encode_base64(sent),
                    "ServerCalculatedCrc64": encode_base64(found),
                },
            )


async def get_block_list(call: BlobCall) -> Response:
    committed, uncommitted = decode.block_list_types(call.request)
    where, guard = call.where(), call.lease_guard()
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
