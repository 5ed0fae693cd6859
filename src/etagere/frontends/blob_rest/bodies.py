"""Bodies of Blob requests, and their digests (Azure: 'Put Blob', Content-MD5)."""

import hashlib
from typing import Final

from awscrt.checksums import crc64nvme

from etagere.base.errors import Refused
from etagere.extents.encryption import Seal
from etagere.extents.spool import at_hand, inline_bytes_max
from etagere.frontends.blob_rest import decode
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.structured import (
    content_chunks,
    content_length,
    echo,
    is_structured,
)
from etagere.frontends.common.headers import digest, encode_base64
from etagere.frontends.common.message import Request
from etagere.services.blob.received import Received

crc64_always_since: Final = "2026-10-06"


async def receive(
    call: BlobCall, limit: int, *, md5: bool, seal: Seal | None, also: bytes = b""
) -> Received:
    """Take the body in, with its digests, and check it against those that the client sent.

    `also` is another MD5 that the body must have (Put Blob's x-ms-blob-content-md5), or b"".  Of a
    structured body, all of them speak of its content.
    """
    length = content_length(call)
    if length > limit:
        raise decode.too_large(limit)
    sent_md5, sent_crc64 = _sent_digests(call.request)
    md5 = md5 or sent_md5 is not None
    if length <= inline_bytes_max and not is_structured(call):
        body = at_hand(await call.request.body.read(length), md5=md5)
        if seal is not None:
            body = body._replace(seal=seal)
    else:
        body = await call.blobs.receive(content_chunks(call), length, limit, md5=md5, seal=seal)
    try:
        compare_md5(sent_md5, body.md5)
        compare_md5(also or None, body.md5)
        compare_crc64(sent_crc64, body.crc64)
    except Refused:
        await call.blobs.discard(body)
        raise
    return body


def _sent_digests(request: Request) -> tuple[bytes | None, bytes | None]:
    md5 = digest(request, "content-md5", "md5")
    crc64 = digest(request, "x-ms-content-crc64", "crc64")
    if md5 is not None and crc64 is not None:
        raise Refused("BothCrc64AndMd5HeaderPresent")
    return md5, crc64


def compare_md5(sent: bytes | None, found: bytes) -> None:
    if sent is not None and sent != found:
        raise Refused(
            "Md5Mismatch",
            {
                "UserSpecifiedMd5": encode_base64(sent),
                "ServerCalculatedMd5": encode_base64(found),
            },
        )


def compare_crc64(sent: bytes | None, found: bytes) -> None:
    if sent is not None and sent != found:
        raise Refused(
            "Crc64Mismatch",
            {
                "UserSpecifiedCrc64": encode_base64(sent),
                "ServerCalculatedCrc64": encode_base64(found),
            },
        )


def check_document_digests(request: Request, data: bytes) -> None:
    """Of an XML body, which the digests in the headers then speak of."""
    md5, crc64 = _sent_digests(request)
    if md5 is not None:
        compare_md5(md5, hashlib.md5(data, usedforsecurity=False).digest())
    if crc64 is not None:
        compare_crc64(crc64, crc64nvme(data).to_bytes(8, "little"))


def transfer_digest(
    call: BlobCall, body: Received, sent_md5: str = "content-md5"
) -> dict[str, str]:
    """Put Block and its kin return the kind of digest that the request had, CRC64 by default; new
    versions return it always."""
    digests = {}
    if sent_md5 in call.request.headers:
        digests["Content-MD5"] = encode_base64(body.md5)
    if not digests or call.version >= crc64_always_since:
        digests["x-ms-content-crc64"] = encode_base64(body.crc64)
    return digests | echo(call)
