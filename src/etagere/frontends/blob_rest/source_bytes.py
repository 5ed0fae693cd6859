"""What the source of a copy has: its bytes, read for the From URL operations.

(Azure: 'Put Block From URL', 'Append Block From URL', 'Put Page From URL', 'Put Blob From URL'.)
Whatever keeps the source from being read is CannotVerifyCopySource, with the source's own status.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Final, NamedTuple

from awscrt.checksums import crc64nvme

from etagere.base.errors import Refused, invalid_header
from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import bodies, encode
from etagere.frontends.blob_rest.bodies import compare_crc64, compare_md5
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.blob_rest.decode import too_large
from etagere.frontends.blob_rest.encryption import customer_key, keyed, source_key, unlocking
from etagere.frontends.blob_rest.sources import (
    OtherUrl,
    OwnBlob,
    cannot_verify,
    find_source,
    source_refused,
)
from etagere.frontends.common.headers import body_length, digest, required
from etagere.kernel.conditions import (
    Conditions,
    multiple_read_conditions_since,
    parse_conditions,
    source_headers,
)
from etagere.kernel.etag import etag_of, parse_etags
from etagere.kernel.ranges import RequestedRange, parse_range
from etagere.services.blob.encryption import CustomerKey
from etagere.services.blob.fetching import CannotFetch, Fetched
from etagere.services.blob.guard import Guard
from etagere.services.blob.received import Received
from etagere.services.blob.records import BlobRecord

source_keys_since: Final = "2026-04-06"


async def verified_source(call: BlobCall, *, same_account_is_enough: bool) -> OwnBlob | OtherUrl:
    try:
        return await find_source(call, same_account_is_enough=same_account_is_enough)
    except Refused as refused:
        if refused.code in ("InvalidHeaderValue", "MissingRequiredHeader"):
            raise
        raise cannot_verify(refused) from None


def source_range(call: BlobCall) -> RequestedRange | None:
    text = call.header("x-ms-source-range")
    if not text:
        return None
    found = parse_range(text)
    if found is None:
        raise invalid_header("x-ms-source-range", text)
    return found


def must_be_empty(call: BlobCall) -> None:
    """The content comes from the source."""
    if body_length(call.request):
        raise invalid_header("Content-Length", str(call.request.content_length))


def source_key_of(call: BlobCall) -> CustomerKey | None:
    customer = customer_key(call.request, source_key)
    if customer is not None and call.version < source_keys_since:
        raise invalid_header("x-ms-version", call.version)
    return customer


class Taken(NamedTuple):
    """A source's bytes, and what its own headers say of them."""

    body: Received
    headers: dict[str, str]
    record: BlobRecord | None = None
    """The source, if it is a blob of this server."""


async def take(
    call: BlobCall,
    source: OwnBlob | OtherUrl,
    wanted: RequestedRange | None,
    bytes_max: int,
    seal: Seal | None,
) -> Taken:
    """Read a source, under the request's source conditions; raises CannotVerifyCopySource."""
    if isinstance(source, OwnBlob):
        return await _take_own(call, source, wanted, bytes_max, seal)
    fetched = await open_elsewhere(call, source, wanted)
    try:
        with closing(fetched):
            body = await call.blobs.receive(
                fetched.chunks, fetched.length, bytes_max, md5=True, seal=seal
            )
    except CannotFetch as failure:
        raise Refused("CannotVerifyCopySource", status=404) from failure
    return Taken(body, dict(fetched.headers))


async def open_elsewhere(
    call: BlobCall, source: OtherUrl, wanted: RequestedRange | None = None
) -> Fetched:
    """The answer of a source that is not this server's, under the request's source conditions."""
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
    except CannotFetch as failure:
        raise Refused("CannotVerifyCopySource", status=404) from failure
    try:
        _check_fetched(fetched, ranged=wanted is not None)
    except Refused:
        fetched.close()
        raise
    return fetched


def _check_fetched(fetched: Fetched, *, ranged: bool) -> None:
    if fetched.status not in (200, 206):
        code = fetched.headers.get("x-ms-error-code", "")
        status = fetched.status if 300 <= fetched.status < 500 else 500
        raise source_refused(status, fetched.status, code)
    if ranged and fetched.status == 200:
        # The source knows no ranges: what it sends is not what was asked for.
        raise Refused("CannotVerifyCopySource", status=400)


async def _take_own(
    call: BlobCall,
    source: OwnBlob,
    wanted: RequestedRange | None,
    bytes_max: int,
    seal: Seal | None,
) -> Taken:
    _source_guard(call)  # what is wrong with the request itself is no matter of the source
    try:
        return await read_own(call, source, wanted, bytes_max, seal)
    except Refused as refused:
        if refused.code == "RequestBodyTooLarge":
            raise  # it can be read, but there is no room for it
        raise cannot_verify(refused) from None


async def read_own(
    call: BlobCall,
    source: OwnBlob,
    wanted: RequestedRange | None,
    bytes_max: int,
    seal: Seal | None,
) -> Taken:
    """Read a blob of this server, with a key of its own if it has one, and seal it anew."""
    guard, customer = _source_guard(call)
    unlock = unlocking(call, source.account, customer)
    download = await call.blobs.open_download(source.where, guard, wanted, unlock)
    body = await call.blobs.receive(
        _chunks(download.body), download.part.length, bytes_max, md5=True, seal=seal
    )
    record = download.record
    headers = encode.blob_headers(record, call.blobs.clock.now())
    return Taken(body, {name.lower(): value for name, value in headers.items()}, record)


def _source_guard(call: BlobCall) -> tuple[Guard, CustomerKey | None]:
    """Conditions on a source combine as a read's did before `If-None-Match: *` was refused there:
    of a source, it is not met (CannotVerifyCopySource with 304)."""
    conditions = parse_conditions(call.request.headers, source_headers)
    customer = source_key_of(call)
    return keyed(Guard(conditions, None, multiple_read_conditions_since), customer), customer


async def _chunks(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        if body:
            yield body
        return
    async for piece in body:
        yield piece


class SourceDigests(NamedTuple):
    """x-ms-source-content-md5 and -crc64, as far as they were sent."""

    md5: bytes | None
    crc64: bytes | None

    def check(self, md5: bytes, crc64: bytes) -> None:
        compare_md5(self.md5, md5)
        compare_crc64(self.crc64, crc64)


no_digests: Final = SourceDigests(None, None)


def source_digests(call: BlobCall) -> SourceDigests:
    return SourceDigests(
        digest(call.request, "x-ms-source-content-md5", "md5"),
        digest(call.request, "x-ms-source-content-crc64", "crc64"),
    )


class Checked(NamedTuple):
    """What was read of a source, to see whether it is what the client says."""

    still: Conditions
    """What the source meets as long as it is the blob that was read."""
    crc64: bytes


async def check_own(
    call: BlobCall, source: OwnBlob, sent: SourceDigests, bytes_max: int
) -> Checked:
    """Compare what the client says of a blob of this server with its bytes; those of one that is
    too large to be copied are not read."""
    guard, customer = _source_guard(call)
    unlock = unlocking(call, source.account, customer)
    try:
        download = await call.blobs.open_download(source.where, guard, None, unlock)
    except Refused as refused:
        raise cannot_verify(refused) from None
    md5, crc64 = hashlib.md5(usedforsecurity=False), 0
    async for piece in _chunks(download.body):
        if download.part.length > bytes_max:
            raise too_large(bytes_max)
        md5.update(piece)
        crc64 = crc64nvme(piece, crc64)
    checked = Checked(
        Conditions(if_match=parse_etags(etag_of(download.record.etag))),
        crc64.to_bytes(8, "little"),
    )
    sent.check(md5.digest(), checked.crc64)
    return checked


async def take_checked(
    call: BlobCall, limit: int, seal: Seal | None, *, size: int | None = None
) -> Received:
    """The part of the source that the request names, with the digests and (if given) of the size
    that it must have."""
    source = await verified_source(call, same_account_is_enough=False)
    sent = source_digests(call)
    body = (await take(call, source, source_range(call), limit, seal)).body
    try:
        if not body.size:
            raise invalid_header("x-ms-copy-source", required(call.request, "x-ms-copy-source"))
        if size is not None and body.size != size:
            raise invalid_header("x-ms-source-range", call.header("x-ms-source-range") or "")
        sent.check(body.md5, body.crc64)
    except Refused:
        await call.blobs.discard(body)
        raise
    return body


def transfer_digest(call: BlobCall, body: Received) -> dict[str, str]:
    """The kind of digest that the request had of the source, CRC64 by default."""
    return bodies.transfer_digest(call, body, "x-ms-source-content-md5")
