"""Page blobs over HTTP (Azure: 'Put Page', 'Get Page Ranges', 'Set Blob Properties')."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from etagere.base.errors import (
    Refused,
    invalid_header,
    invalid_query,
    missing_header,
    query_out_of_range,
)
from etagere.extents.encryption import Seal
from etagere.frontends.blob_rest import encode, source_bytes
from etagere.frontends.blob_rest.bodies import receive, transfer_digest
from etagere.frontends.blob_rest.call import BlobCall, moment
from etagere.frontends.blob_rest.creation import new_blob
from etagere.frontends.blob_rest.decode import too_large
from etagere.frontends.blob_rest.encryption import request_encrypted, seal_of, with_seal
from etagere.frontends.blob_rest.names import check_blob_name
from etagere.frontends.blob_rest.source_bytes import must_be_empty, take_checked
from etagere.frontends.blob_rest.sources import split_url
from etagere.frontends.blob_rest.structured import content_length
from etagere.frontends.common import xml
from etagere.frontends.common.addressing import decode, resolve
from etagere.frontends.common.headers import integer, query_integer, required
from etagere.frontends.common.message import Request, Response, read_query
from etagere.frontends.common.paging import decode_marker, encode_marker
from etagere.kernel.range_map import Change, Run
from etagere.kernel.ranges import Slice, page_bytes, parse_read_range, parse_write_range
from etagere.services.blob import page_blobs, page_ranges
from etagere.services.blob.blobs import Where
from etagere.services.blob.guard import validators
from etagere.services.blob.page_blobs import (
    PageProperties,
    SequenceAction,
    SequenceConditions,
    blob_bytes_max,
    sequence_max,
)
from etagere.services.blob.page_ranges import WantedRanges
from etagere.services.blob.records import BlobRecord

write_bytes_max: Final = 4 * 1024 * 1024
ranges_max: Final = 10_000
"""What one response lists; older versions know no markers and get everything."""
markers_since: Final = "2020-10-02"
previous_url_header: Final = "x-ms-previous-snapshot-url"
_length_header: Final = "x-ms-blob-content-length"
_sequence_header: Final = "x-ms-blob-sequence-number"
_action_header: Final = "x-ms-sequence-number-action"


async def put(call: BlobCall) -> Response:
    where = call.base()
    check_blob_name(where.name)
    must_be_empty(call)
    size = _blob_length(call.request)
    if size is None:
        raise missing_header(_length_header)
    sequence = integer(call.request, _sequence_header, 0, sequence_max) or 0
    record = await call.blobs.write(
        (where.part,),
        partial(
            page_blobs.put,
            where=where,
            guard=call.guard(),
            wanted=new_blob(call, standard=True, seal=await seal_of(call)),
            size=size,
            sequence=sequence,
            keeping=call.keeping(),
        ),
    )
    return Response(201, encode.written(record))


def _blob_length(request: Request) -> int | None:
    """A page blob's size: whole pages, up to 8 TiB."""
    size = integer(request, _length_header, 0, blob_bytes_max)
    if size is not None and size % page_bytes:
        raise invalid_header(_length_header, request.headers[_length_header])
    return size


async def put_page(call: BlobCall) -> Response:
    action = call.header("x-ms-page-write")
    match (action or "").lower():
        case "update":
            return await with_seal(call, _update)
        case "clear":
            return await _clear(call)
        case "":
            raise missing_header("x-ms-page-write")
        case _:
            raise invalid_header("x-ms-page-write", action or "")


async def _update(call: BlobCall, where: Where, seal: Seal | None) -> Response:
    guard, conditions = call.guard(), sequence_conditions(call)
    pages = _pages(call.request)
    if pages.length > write_bytes_max:
        raise too_large(write_bytes_max)
    length = content_length(call)
    if length > write_bytes_max:
        raise too_large(write_bytes_max)
    body = await receive(call, write_bytes_max, md5=False, seal=seal)
    if body.size != pages.length:
        await call.blobs.discard(body)
        raise invalid_header("Content-Length", str(length))
    record = await call.blobs.keep(
        where.part,
        body,
        partial(
            page_blobs.write,
            where=where,
            guard=guard,
            conditions=conditions,
            pages=pages,
            received=body,
        ),
    )
    return Response(201, {**page_headers(record), **transfer_digest(call, body)})


async def put_page_from_url(call: BlobCall) -> Response:
    """The source's range is as long as the pages."""
    where, guard, conditions = call.base(), call.guard(), sequence_conditions(call)
    must_be_empty(call)
    action = required(call.request, "x-ms-page-write")
    if action.lower() != "update":
        raise invalid_header("x-ms-page-write", action)
    pages = _pages(call.request)
    if pages.length > write_bytes_max:
        raise too_large(write_bytes_max)
    required(call.request, "x-ms-source-range")
    body = await take_checked(call, write_bytes_max, await seal_of(call), size=pages.length)
    record = await call.blobs.keep(
        where.part,
        body,
        partial(
            page_blobs.write,
            where=where,
            guard=guard,
            conditions=conditions,
            pages=pages,
            received=body,
        ),
    )
    return Response(201, {**page_headers(record), **source_bytes.transfer_digest(call, body)})


async def _clear(call: BlobCall) -> Response:
    where = call.base()
    must_be_empty(call)
    record = await call.blobs.write(
        (where.part,),
        partial(
            page_blobs.clear,
            where=where,
            guard=call.guard(),
            conditions=sequence_conditions(call),
            pages=_pages(call.request),
        ),
    )
    return Response(201, page_headers(record))


def _pages(request: Request) -> Slice:
    pages = parse_write_range(request.headers)
    if pages.start % page_bytes or pages.end % page_bytes:
        raise Refused("InvalidPageRange")
    return pages


def sequence_conditions(call: BlobCall) -> SequenceConditions:
    def number(relation: str) -> int | None:
        return integer(call.request, f"x-ms-if-sequence-number-{relation}", 0, sequence_max)

    return SequenceConditions(number("le"), number("lt"), number("eq"))


def page_headers(record: BlobRecord) -> dict[str, str]:
    return {
        **validators(record),
        _sequence_header: str(record.sequence),
        **request_encrypted(record),
    }


# ---- properties


def page_properties(request: Request) -> PageProperties | None:
    """What a Set Blob Properties says of a page blob alone, if anything."""
    size = _blob_length(request)
    sequence = integer(request, _sequence_header, 0, sequence_max)
    text = request.headers.get(_action_header)
    if not text:
        if sequence is not None:
            raise missing_header(_action_header)
        return None if size is None else PageProperties(size)
    try:
        action = SequenceAction(text.lower())
    except ValueError:
        raise invalid_header(_action_header, text) from None
    if action is SequenceAction.INCREMENT:
        if sequence is not None:
            raise invalid_header(_sequence_header, str(sequence))
        return PageProperties(size, action)
    if sequence is None:
        raise missing_header(_sequence_header)
    return PageProperties(size, action, sequence)


# ---- ranges


async def get_page_ranges(call: BlobCall) -> Response:
    where, guard, wanted = call.where(), call.guard(), _wanted(call)
    previous = _previous(call)
    ranges: Iterable[str]
    if previous is None:
        listed = await page_ranges.written(
            call.blobs.engine, call.blobs.clock, where, guard, wanted
        )
        record, following = listed.record, listed.next_offset
        ranges = map(_page_range, listed.runs)
    else:
        found = await page_ranges.changed(
            call.blobs.engine, call.blobs.clock, where, guard, wanted, previous
        )
        record, following = found.record, found.next_offset
        ranges = map(_changed_range, found.changes)
    marker = ""
    if call.version >= markers_since:
        marker = xml.element("NextMarker", "" if following is None else encode_marker(following))
    headers = {
        **validators(record),
        "Content-Type": "application/xml",
        _length_header: str(record.size),
    }
    body = f"{xml.declaration}<PageList>{''.join(ranges)}{marker}</PageList>"
    return Response(200, headers, body.encode())


def _page_range(run: Run) -> str:
    return f"<PageRange><Start>{run.start}</Start><End>{run.end - 1}</End></PageRange>"


def _changed_range(change: Change) -> str:
    name = "ClearRange" if change.cleared else "PageRange"
    return f"<{name}><Start>{change.start}</Start><End>{change.end - 1}</End></{name}>"


def _wanted(call: BlobCall) -> WantedRanges:
    part = parse_read_range(call.request.headers)
    if call.version < markers_since:
        return WantedRanges(part)
    limit = query_integer(call.request, "maxresults")
    if limit is not None and limit < 1:
        raise query_out_of_range("maxresults", str(limit), 1, ranges_max)
    marker = call.query("marker") or ""
    start = 0
    if marker:
        match decode_marker(marker):
            case (int(start),) if start >= 0:
                pass
            case _:
                raise invalid_query("marker", marker)
    return WantedRanges(part, start, min(limit or ranges_max, ranges_max))


def _previous(call: BlobCall) -> int | None:
    """The snapshot to compare with, named by its moment or (managed disks) by its URL."""
    text, url = call.query("prevsnapshot"), call.header(previous_url_header)
    if text is not None and url:
        raise invalid_header(previous_url_header, url)
    if text is not None:
        return moment("prevsnapshot", text)
    if not url:
        return None
    parts = split_url(previous_url_header, url)
    named, asked = (
        resolve(parts.netloc, parts.path or "/"),
        resolve(call.request.host, call.request.raw_path),
    )
    snapshot = read_query(parts.query).by_name.get("snapshot")
    if (
        snapshot is None
        or named.account != asked.account
        or decode(named.path) != decode(asked.path)
    ):
        raise invalid_header(previous_url_header, url)
    return moment("prevsnapshot", snapshot)
