"""Page blobs over HTTP: creating, writing and clearing pages, listing ranges, sequence numbers."""

import base64
import hashlib
import re
import threading
from collections.abc import Iterator

import pytest
from awscrt.checksums import crc64nvme

from etagere.services.common.accounts import Account, development_account

from .serving import RawClient, Reply, Server
from .together import at_once

lease_id = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
other_id = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
old = "Mon, 01 Jan 2001 00:00:00 GMT"
new = "Fri, 31 Dec 2100 00:00:00 GMT"
chunk = 128 * 1024
mebibyte = 1024 * 1024
sequence_max = 2**63 - 1


def _headers(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def create(raw: RawClient, path: str, size: int = 8 * chunk, **headers: str) -> Reply:
    sent = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(size)}
    return raw("PUT", path, b"", {**sent, **_headers(headers)})


def write(raw: RawClient, path: str, start: int, data: bytes, **headers: str) -> Reply:
    sent = {"x-ms-page-write": "update", "x-ms-range": f"bytes={start}-{start + len(data) - 1}"}
    return raw("PUT", path, data, {**sent, **_headers(headers)}, comp="page")


def clear(raw: RawClient, path: str, start: int, end: int, **headers: str) -> Reply:
    sent = {"x-ms-page-write": "clear", "x-ms-range": f"bytes={start}-{end - 1}"}
    return raw("PUT", path, b"", {**sent, **_headers(headers)}, comp="page")


def set_properties(raw: RawClient, path: str, **headers: str) -> Reply:
    return raw("PUT", path, None, _headers(headers), comp="properties")


def content(raw: RawClient, path: str, **query: str) -> bytes:
    reply = raw("GET", path, **query)
    assert reply.status == 200, reply.text
    return reply.body


def snapshot(raw: RawClient, path: str) -> str:
    taken = raw("PUT", path, comp="snapshot")
    assert taken.status == 201, taken.text
    return taken.headers["x-ms-snapshot"]


def parsed(reply: Reply) -> list[tuple[str, int, int]]:
    assert reply.status == 200, reply.text
    assert reply.text.startswith('<?xml version="1.0" encoding="utf-8"?><PageList>')
    found = re.findall(
        r"<(PageRange|ClearRange)><Start>(\d+)</Start><End>(\d+)</End></\1>", reply.text
    )
    return [(name[0], int(start), int(end) + 1) for name, start, end in found]


def ranges(raw: RawClient, path: str, **query: str) -> list[tuple[str, int, int]]:
    return parsed(raw("GET", path, comp="pagelist", **query))


@pytest.fixture
def disk(raw: RawClient, container: str) -> str:
    path = f"{container}/disk"
    assert create(raw, path).status == 201
    return path


# ---- creating


def test_creating_one_with_all_it_may_have(raw: RawClient, container: str) -> None:
    path = f"{container}/disk"
    made = create(
        raw,
        path,
        1024,
        x_ms_blob_sequence_number="7",
        x_ms_blob_content_type="application/x-vhd",
        x_ms_meta_Color="red",
        x_ms_tags="kind=disk",
        x_ms_access_tier="P10",
    )
    assert made.status == 201, made.text
    assert made.headers["x-ms-request-server-encrypted"] == "true"
    head = raw("HEAD", path)
    assert head.etag == made.etag
    assert head.headers["x-ms-blob-type"] == "PageBlob"
    assert head.headers["content-length"] == "1024"
    assert head.headers["content-type"] == "application/x-vhd"
    assert head.headers["x-ms-blob-sequence-number"] == "7"
    assert head.headers["x-ms-meta-color"] == "red"
    assert head.headers["x-ms-tag-count"] == "1"
    assert head.headers["x-ms-access-tier"] == "P10"
    assert content(raw, path) == bytes(1024)
    listed = raw("GET", container, restype="container", comp="list").text
    assert "<BlobType>PageBlob</BlobType>" in listed
    assert "<x-ms-blob-sequence-number>7</x-ms-blob-sequence-number>" in listed


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x_ms_blob_content_length": "513"}, "InvalidHeaderValue"),
        ({"x_ms_blob_content_length": "-512"}, "InvalidHeaderValue"),
        ({"x_ms_blob_content_length": str(8 * 1024**4 + 512)}, "InvalidHeaderValue"),
        ({"x_ms_blob_content_length": "lots"}, "InvalidHeaderValue"),
        ({"x_ms_blob_content_length": ""}, "MissingRequiredHeader"),
        ({"x_ms_blob_sequence_number": "-1"}, "InvalidHeaderValue"),
        ({"x_ms_blob_sequence_number": str(2**63)}, "InvalidHeaderValue"),
        ({"x_ms_access_tier": "P11"}, "InvalidHeaderValue"),
    ],
)
def test_what_creation_refuses(
    raw: RawClient, container: str, headers: dict[str, str], code: str
) -> None:
    reply = create(raw, f"{container}/disk", 512, **headers)
    assert (reply.status, reply.code) == (400, code)
    assert raw("HEAD", f"{container}/disk").status == 404


def test_a_body_cannot_come_with_the_creation(raw: RawClient, container: str) -> None:
    sent = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}
    reply = raw("PUT", f"{container}/disk", b"x" * 512, sent)
    assert (reply.status, reply.code) == (400, "InvalidHeaderValue")


@pytest.mark.parametrize("size", [0, 512, 8 * 1024**4])
def test_sizes(raw: RawClient, container: str, size: int) -> None:
    path = f"{container}/disk"
    assert create(raw, path, size, x_ms_blob_sequence_number=str(sequence_max)).status == 201
    head = raw("HEAD", path)
    assert head.headers["content-length"] == str(size)
    assert head.headers["x-ms-blob-sequence-number"] == str(sequence_max)
    assert ranges(raw, path) == []


def test_creating_again_starts_anew(raw: RawClient, server: Server, disk: str) -> None:
    assert write(raw, disk, 0, b"x" * 512).status == 201
    taken = snapshot(raw, disk)
    assert create(raw, disk, 1024).status == 201
    assert content(raw, disk) == bytes(1024)
    assert content(raw, disk, snapshot=taken)[:512] == b"x" * 512
    assert raw.put_blob(disk).code == "InvalidBlobType"
    server.clock.advance(100)
    server.sweep()
    assert content(raw, disk, snapshot=taken)[:512] == b"x" * 512


# ---- pages


def test_pages_are_where_they_were_put(raw: RawClient, disk: str) -> None:
    before = raw("HEAD", disk).etag
    data = hashlib.shake_128(b"pages").digest(3 * 512)
    put = write(raw, disk, chunk - 512, data)
    assert put.status == 201, put.text
    assert put.etag != before
    assert put.headers["x-ms-blob-sequence-number"] == "0"
    assert put.headers["x-ms-request-server-encrypted"] == "true"
    crc64 = base64.b64encode(crc64nvme(data).to_bytes(8, "little")).decode()
    assert put.headers["x-ms-content-crc64"] == crc64
    got = raw("GET", disk)
    assert got.etag == put.etag
    expected = bytes(chunk - 512) + data + bytes(8 * chunk - chunk - 2 * 512)
    assert got.body == expected
    part = raw("GET", disk, headers={"x-ms-range": f"bytes={chunk - 10}-{chunk + 9}"})
    assert (part.status, part.body) == (206, expected[chunk - 10 : chunk + 10])
    assert ranges(raw, disk) == [("P", chunk - 512, chunk + 1024)]


@pytest.mark.parametrize("size", [512, 65_536, 65_536 + 512, 4 * mebibyte])
def test_writes_on_both_sides_of_the_border_to_extents(
    raw: RawClient, container: str, size: int
) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 8 * mebibyte).status == 201
    expected = bytearray(8 * mebibyte)
    for turn, start in enumerate((0, 1024, mebibyte - 512, 3 * mebibyte + 512)):
        data = hashlib.shake_128(bytes((turn,))).digest(size)
        assert write(raw, path, start, data).status == 201
        expected[start : start + size] = data
    assert content(raw, path) == expected
    assert clear(raw, path, 2048, mebibyte).status == 201
    expected[2048:mebibyte] = bytes(mebibyte - 2048)
    assert content(raw, path) == expected
    first, last = 1000, 5 * mebibyte
    part = raw("GET", path, headers={"x-ms-range": f"bytes={first}-{last}"})
    assert part.body == expected[first : last + 1]


def test_cleared_pages_are_zeros_and_not_listed(raw: RawClient, disk: str) -> None:
    assert write(raw, disk, 0, b"x" * (2 * chunk)).status == 201
    done = clear(raw, disk, 512, chunk + 512)
    assert done.status == 201
    assert "x-ms-content-crc64" not in done.headers
    assert ranges(raw, disk) == [("P", 0, 512), ("P", chunk + 512, 2 * chunk)]
    body = content(raw, disk)
    assert body[:512] == b"x" * 512
    assert body[512 : chunk + 512] == bytes(chunk)
    assert body[chunk + 512 : 2 * chunk] == b"x" * (chunk - 512)
    assert clear(raw, disk, 0, 8 * chunk).status == 201
    assert ranges(raw, disk) == []
    assert content(raw, disk) == bytes(8 * chunk)


def test_digests_are_checked(raw: RawClient, disk: str) -> None:
    data = b"d" * 512
    md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
    done = write(raw, disk, 0, data, Content_MD5=md5)
    assert (done.status, done.headers["content-md5"]) == (201, md5)
    refused = write(raw, disk, 0, b"e" * 512, Content_MD5=md5)
    assert (refused.status, refused.code) == (400, "Md5Mismatch")
    assert content(raw, disk)[:512] == data


@pytest.mark.parametrize(
    ("headers", "length", "status", "code"),
    [
        ({"x-ms-range": "bytes=0-510"}, 511, 416, "InvalidPageRange"),
        ({"x-ms-range": "bytes=1-512"}, 512, 416, "InvalidPageRange"),
        ({"x-ms-range": f"bytes={8 * chunk}-{8 * chunk + 511}"}, 512, 416, "InvalidPageRange"),
        ({"x-ms-range": "bytes=0-"}, 512, 400, "InvalidHeaderValue"),
        ({"x-ms-range": "bytes=512-0"}, 512, 400, "InvalidHeaderValue"),
        ({"x-ms-range": "pages=0-511"}, 512, 400, "InvalidHeaderValue"),
        ({}, 512, 400, "MissingRequiredHeader"),
        ({"Range": "bytes=0-511"}, 512, 201, ""),
        ({"x-ms-range": "bytes=0-511", "Range": "bytes=1-2"}, 512, 201, ""),
        ({"x-ms-range": "bytes=0-1023"}, 512, 400, "InvalidHeaderValue"),
        ({"x-ms-range": "bytes=0-511"}, 1024, 400, "InvalidHeaderValue"),
        ({"x-ms-range": f"bytes=0-{4 * mebibyte + 511}"}, 512, 413, "RequestBodyTooLarge"),
        ({"x-ms-range": "bytes=0-511", "x-ms-page-write": "erase"}, 512, 400, "InvalidHeaderValue"),
        ({"x-ms-range": "bytes=0-511", "x-ms-page-write": ""}, 512, 400, "MissingRequiredHeader"),
        ({"x-ms-range": "bytes=0-511", "x-ms-page-write": "clear"}, 512, 400, "InvalidHeaderValue"),
        ({"x-ms-range": "bytes=0-511", "x-ms-page-write": "Update"}, 512, 201, ""),
        ({"x-ms-range": f"bytes=0-{8 * chunk + 511}", "x-ms-page-write": "clear"}, 0, 416, ""),
    ],
)
def test_what_put_page_refuses(
    raw: RawClient, disk: str, headers: dict[str, str], length: int, status: int, code: str
) -> None:
    etag = raw("HEAD", disk).etag
    sent = {"x-ms-page-write": "update", **headers}
    reply = raw("PUT", disk, b"x" * length, sent, comp="page")
    assert reply.status == status, reply.text
    assert reply.code == (code or reply.code)
    assert (raw("HEAD", disk).etag == etag) == (status != 201)


def test_four_mebibytes_at_most(raw: RawClient, container: str) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 8 * mebibyte).status == 201
    too_much = write(raw, path, 0, b"x" * (4 * mebibyte + 512))
    assert (too_much.status, too_much.code) == (413, "RequestBodyTooLarge")
    assert clear(raw, path, 0, 8 * mebibyte).status == 201


def test_writing_to_what_is_no_page_blob(raw: RawClient, container: str) -> None:
    missing = write(raw, f"{container}/none", 0, b"x" * 512)
    assert (missing.status, missing.code) == (404, "BlobNotFound")
    assert raw.put_blob(f"{container}/block").status == 201
    for reply in (
        write(raw, f"{container}/block", 0, b"x" * 512),
        clear(raw, f"{container}/block", 0, 512),
        raw("GET", f"{container}/block", comp="pagelist"),
        set_properties(raw, f"{container}/block", x_ms_blob_content_length="512"),
    ):
        assert (reply.status, reply.code) == (409, "InvalidBlobType")


# ---- conditions


@pytest.mark.parametrize(
    ("headers", "met"),
    [
        ({"x_ms_if_sequence_number_le": "5"}, True),
        ({"x_ms_if_sequence_number_le": "4"}, False),
        ({"x_ms_if_sequence_number_lt": "6"}, True),
        ({"x_ms_if_sequence_number_lt": "5"}, False),
        ({"x_ms_if_sequence_number_eq": "5"}, True),
        ({"x_ms_if_sequence_number_eq": "6"}, False),
        ({"x_ms_if_sequence_number_eq": "5", "x_ms_if_sequence_number_lt": "5"}, False),
    ],
)
def test_sequence_conditions(
    raw: RawClient, container: str, headers: dict[str, str], met: bool
) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 1024, x_ms_blob_sequence_number="5").status == 201
    for reply in (write(raw, path, 0, b"x" * 512, **headers), clear(raw, path, 0, 512, **headers)):
        if met:
            assert (reply.status, reply.headers["x-ms-blob-sequence-number"]) == (201, "5")
        else:
            assert (reply.status, reply.code) == (412, "SequenceNumberConditionNotMet")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"If_Match": '"0x1"'}, "ConditionNotMet"),
        ({"If_Match": "*"}, ""),
        ({"If_None_Match": "*"}, "ConditionNotMet"),
        ({"If_Modified_Since": new}, "ConditionNotMet"),
        ({"If_Modified_Since": old}, ""),
        ({"If_Unmodified_Since": old}, "ConditionNotMet"),
        ({"If_Unmodified_Since": new}, ""),
        ({"x_ms_if_tags": "kind = 'disk'"}, ""),
        ({"x_ms_if_tags": "kind = 'else'"}, "ConditionNotMet"),
    ],
)
def test_conditions_of_writes(
    raw: RawClient, container: str, headers: dict[str, str], code: str
) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 1024, x_ms_tags="kind=disk").status == 201
    for ask in (
        lambda: write(raw, path, 0, b"x" * 512, **headers),
        lambda: clear(raw, path, 0, 512, **headers),
    ):
        before = raw("HEAD", path).etag
        reply = ask()
        assert (reply.status, reply.code) == ((412, code) if code else (201, ""))
        assert (raw("HEAD", path).etag == before) == bool(code)


def test_conditions_of_listing_ranges(raw: RawClient, disk: str) -> None:
    etag = raw("HEAD", disk).etag
    for headers, status in (
        ({"If-Match": etag}, 200),
        ({"If-Match": '"0x1"'}, 412),
        ({"If-None-Match": etag}, 304),
        ({"If-Modified-Since": new}, 304),
        ({"If-Unmodified-Since": old}, 412),
    ):
        assert raw("GET", disk, headers=headers, comp="pagelist").status == status


def test_leases_hold_back_writes(raw: RawClient, server: Server, disk: str) -> None:
    acquire = {
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "15",
        "x-ms-proposed-lease-id": lease_id,
    }
    assert raw("PUT", disk, None, acquire, comp="lease").status == 201
    for ask in (
        lambda **headers: write(raw, disk, 0, b"x" * 512, **headers),
        lambda **headers: clear(raw, disk, 0, 512, **headers),
        lambda **headers: create(raw, disk, **headers),
        lambda **headers: set_properties(raw, disk, x_ms_blob_content_length="1024", **headers),
    ):
        missing = ask()
        assert (missing.status, missing.code) == (412, "LeaseIdMissing")
        wrong = ask(x_ms_lease_id=other_id)
        assert (wrong.status, wrong.code) == (412, "LeaseIdMismatchWithBlobOperation")
        assert ask(x_ms_lease_id=lease_id).status in (200, 201)
    listed = raw("GET", disk, headers={"x-ms-lease-id": other_id}, comp="pagelist")
    assert (listed.status, listed.code) == (412, "LeaseIdMismatchWithBlobOperation")
    assert raw("GET", disk, comp="pagelist").status == 200
    server.clock.advance(16)
    lost = write(raw, disk, 0, b"x" * 512, x_ms_lease_id=lease_id)
    assert (lost.status, lost.code) == (412, "LeaseLost")
    assert write(raw, disk, 0, b"x" * 512).status == 201


# ---- sequence numbers and sizes


@pytest.mark.parametrize(
    ("headers", "status", "outcome"),
    [
        ({"action": "max", "number": "9"}, 200, "9"),
        ({"action": "max", "number": "3"}, 200, "5"),
        ({"action": "update", "number": "3"}, 200, "3"),
        ({"action": "Update", "number": "0"}, 200, "0"),
        ({"action": "increment"}, 200, "6"),
        ({"action": "increment", "number": "1"}, 400, "InvalidHeaderValue"),
        ({"action": "update"}, 400, "MissingRequiredHeader"),
        ({"action": "max"}, 400, "MissingRequiredHeader"),
        ({"number": "7"}, 400, "MissingRequiredHeader"),
        ({"action": "decrement", "number": "7"}, 400, "InvalidHeaderValue"),
        ({"action": "update", "number": "-1"}, 400, "InvalidHeaderValue"),
        ({"action": "update", "number": str(2**63)}, 400, "InvalidHeaderValue"),
    ],
)
def test_sequence_actions(
    raw: RawClient, container: str, headers: dict[str, str], status: int, outcome: str
) -> None:
    path = f"{container}/disk"
    made = create(raw, path, 1024, x_ms_blob_sequence_number="5")
    sent = {
        {"action": "x_ms_sequence_number_action", "number": "x_ms_blob_sequence_number"}[name]: v
        for name, v in headers.items()
    }
    reply = set_properties(raw, path, **sent)
    assert reply.status == status, reply.text
    head = raw("HEAD", path)
    if status == 200:
        assert reply.headers["x-ms-blob-sequence-number"] == outcome
        assert head.headers["x-ms-blob-sequence-number"] == outcome
        assert head.etag == reply.etag != made.etag
    else:
        assert reply.code == outcome
        assert (head.headers["x-ms-blob-sequence-number"], head.etag) == ("5", made.etag)


def test_a_sequence_number_that_cannot_grow(raw: RawClient, container: str) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 512, x_ms_blob_sequence_number=str(sequence_max)).status == 201
    reply = set_properties(raw, path, x_ms_sequence_number_action="increment")
    assert (reply.status, reply.code) == (409, "SequenceNumberIncrementTooLarge")


def test_resizing(raw: RawClient, disk: str) -> None:
    assert write(raw, disk, 0, b"x" * (8 * chunk)).status == 201
    shrunk = set_properties(raw, disk, x_ms_blob_content_length=str(chunk + 512))
    assert shrunk.status == 200
    assert shrunk.headers["x-ms-blob-sequence-number"] == "0"
    head = raw("HEAD", disk)
    assert (head.headers["content-length"], head.etag) == (str(chunk + 512), shrunk.etag)
    assert content(raw, disk) == b"x" * (chunk + 512)
    beyond = write(raw, disk, chunk + 512, b"y" * 512)
    assert (beyond.status, beyond.code) == (416, "InvalidPageRange")
    assert set_properties(raw, disk, x_ms_blob_content_length=str(4 * chunk)).status == 200
    assert content(raw, disk) == b"x" * (chunk + 512) + bytes(3 * chunk - 512)
    assert ranges(raw, disk) == [("P", 0, chunk + 512)]
    for size in ("100", "-512", str(8 * 1024**4 + 512)):
        reply = set_properties(raw, disk, x_ms_blob_content_length=size)
        assert (reply.status, reply.code) == (400, "InvalidHeaderValue")


def test_resizing_beyond_what_the_tier_takes(raw: RawClient, container: str) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 1024, x_ms_access_tier="P4").status == 201
    refused = set_properties(raw, path, x_ms_blob_content_length=str(64 * 1024**3))
    assert (refused.status, refused.code) == (409, "BlobTierInadequateForContentLength")
    assert set_properties(raw, path, x_ms_blob_content_length=str(32 * 1024**3)).status == 200


def test_properties_that_are_not_named_stay(raw: RawClient, container: str) -> None:
    path = f"{container}/disk"
    assert create(raw, path, 1024, x_ms_blob_content_type="a/b").status == 201
    assert set_properties(raw, path, x_ms_blob_content_length="512").status == 200
    assert set_properties(raw, path, x_ms_sequence_number_action="increment").status == 200
    assert raw("HEAD", path).headers["content-type"] == "a/b"
    both = set_properties(
        raw, path, x_ms_blob_content_length="2048", x_ms_blob_content_language="en"
    )
    assert both.status == 200
    head = raw("HEAD", path)
    assert "content-type" not in head.headers
    assert head.headers["content-language"] == "en"
    assert head.headers["content-length"] == "2048"
    assert head.headers["x-ms-blob-sequence-number"] == "1"


# ---- ranges


def test_ranges_are_joined_across_writes_and_chunks(raw: RawClient, disk: str) -> None:
    for start in (0, 512, 2048, chunk - 512, chunk, 3 * chunk):
        assert write(raw, disk, start, b"x" * 512).status == 201
    expected = [
        ("P", 0, 1024),
        ("P", 2048, 2560),
        ("P", chunk - 512, chunk + 512),
        ("P", 3 * chunk, 3 * chunk + 512),
    ]
    reply = raw("GET", disk, comp="pagelist")
    assert parsed(reply) == expected
    assert reply.headers["x-ms-blob-content-length"] == str(8 * chunk)
    assert reply.headers["content-type"] == "application/xml"
    assert reply.etag == raw("HEAD", disk).etag
    assert "last-modified" in reply.headers
    part = {"x-ms-range": f"bytes=512-{chunk - 1}"}
    assert parsed(raw("GET", disk, headers=part, comp="pagelist")) == [
        ("P", 512, 1024),
        ("P", 2048, 2560),
        ("P", chunk - 512, chunk),
    ]
    open_end = {"Range": f"bytes={chunk}-"}
    assert parsed(raw("GET", disk, headers=open_end, comp="pagelist")) == [
        ("P", chunk, chunk + 512),
        ("P", 3 * chunk, 3 * chunk + 512),
    ]
    beyond = raw("GET", disk, headers={"x-ms-range": f"bytes={8 * chunk}-"}, comp="pagelist")
    assert (beyond.status, beyond.code) == (416, "InvalidRange")


def test_paging_through_ranges(raw: RawClient, disk: str) -> None:
    starts = [number * 1024 for number in range(0, 1000, 37)]
    for start in starts:
        assert write(raw, disk, start, b"x" * 512).status == 201
    found, marker, pages = [], "", 0
    while True:
        query = {"marker": marker} if marker else {}
        reply = raw("GET", disk, comp="pagelist", maxresults=5, **query)
        page = parsed(reply)
        assert len(page) <= 5
        found += page
        pages += 1
        following = re.search("<NextMarker>(.+)</NextMarker>", reply.text)
        if following is None:
            assert "<NextMarker />" in reply.text
            break
        marker = following[1]
    assert [start for _, start, _ in found] == starts
    assert pages == 6
    for query, code in (
        ({"maxresults": 0}, "OutOfRangeQueryParameterValue"),
        ({"maxresults": "many"}, "InvalidQueryParameterValue"),
        ({"marker": "nonsense"}, "InvalidQueryParameterValue"),
    ):
        refused = raw("GET", disk, comp="pagelist", **query)
        assert (refused.status, refused.code) == (400, code)


def test_older_versions_get_all_ranges_at_once(raw: RawClient, disk: str) -> None:
    for number in range(5):
        assert write(raw, disk, number * 1024, b"x" * 512).status == 201
    old_version = {"x-ms-version": "2020-08-04"}
    reply = raw("GET", disk, headers=old_version, comp="pagelist", maxresults=2)
    assert len(parsed(reply)) == 5
    assert "NextMarker" not in reply.text


def test_ranges_of_a_snapshot_stay(raw: RawClient, disk: str) -> None:
    assert write(raw, disk, 0, b"x" * 1024).status == 201
    taken = snapshot(raw, disk)
    assert clear(raw, disk, 0, 512).status == 201
    assert write(raw, disk, 4096, b"y" * 512).status == 201
    assert ranges(raw, disk, snapshot=taken) == [("P", 0, 1024)]
    assert ranges(raw, disk) == [("P", 512, 1024), ("P", 4096, 4608)]


def test_what_changed_since_a_snapshot(raw: RawClient, disk: str) -> None:
    assert write(raw, disk, 0, b"x" * 2048).status == 201
    first = snapshot(raw, disk)
    assert ranges(raw, disk, prevsnapshot=first) == []
    assert write(raw, disk, 512, b"y" * 512).status == 201
    assert clear(raw, disk, 1024, 1536).status == 201
    second = snapshot(raw, disk)
    assert write(raw, disk, chunk - 512, b"z" * 1024).status == 201
    assert clear(raw, disk, 3 * chunk, 4 * chunk).status == 201
    assert ranges(raw, disk, prevsnapshot=first) == [
        ("P", 512, 1024),
        ("C", 1024, 1536),
        ("P", chunk - 512, chunk + 512),
        ("C", 3 * chunk, 4 * chunk),
    ]
    assert ranges(raw, disk, prevsnapshot=second) == [
        ("P", chunk - 512, chunk + 512),
        ("C", 3 * chunk, 4 * chunk),
    ]
    assert ranges(raw, disk, snapshot=second, prevsnapshot=first) == [
        ("P", 512, 1024),
        ("C", 1024, 1536),
    ]
    assert ranges(raw, disk, snapshot=second, prevsnapshot=second) == []
    reply = raw("GET", disk, comp="pagelist", prevsnapshot=first, maxresults=2)
    assert len(parsed(reply)) == 2
    marker = re.search("<NextMarker>(.+)</NextMarker>", reply.text)
    assert marker is not None
    rest = ranges(raw, disk, prevsnapshot=first, maxresults="2", marker=marker[1])
    assert rest == [("P", chunk - 512, chunk + 512), ("C", 3 * chunk, 4 * chunk)]


@pytest.mark.parametrize("version", ["2026-10-06", "2019-02-02"])
def test_what_was_written_and_cleared_since_a_snapshot_is_cleared(
    raw: RawClient, disk: str, version: str
) -> None:
    """The first snapshot had nothing there, as the blob has now; the second had something."""

    def since(**query: str) -> list[tuple[str, int, int]]:
        return parsed(raw("GET", disk, headers={"x-ms-version": version}, comp="pagelist", **query))

    first = snapshot(raw, disk)
    assert write(raw, disk, 0, b"x" * 1536).status == 201
    second = snapshot(raw, disk)
    assert clear(raw, disk, 512, 1024).status == 201
    assert since(prevsnapshot=first) == [
        ("P", 0, 512),
        ("C", 512, 1024),
        ("P", 1024, 1536),
    ]
    assert since(prevsnapshot=second) == [("C", 512, 1024)]
    between = since(snapshot=second, prevsnapshot=first)
    assert between == [("P", 0, 1536)]
    assert since() == [("P", 0, 512), ("P", 1024, 1536)]


def test_differences_in_pages_that_begin_with_a_clear(raw: RawClient, disk: str) -> None:
    taken = snapshot(raw, disk)
    assert write(raw, disk, 0, b"x" * 1536).status == 201
    assert clear(raw, disk, 512, 1024).status == 201
    assert clear(raw, disk, 4 * chunk + 512, 6 * chunk).status == 201
    assert write(raw, disk, 5 * chunk, b"y" * 512).status == 201
    expected = [
        ("P", 0, 512),
        ("C", 512, 1024),
        ("P", 1024, 1536),
        ("C", 4 * chunk + 512, 5 * chunk),
        ("P", 5 * chunk, 5 * chunk + 512),
        ("C", 5 * chunk + 512, 6 * chunk),
    ]
    for limit, sizes in ((1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2])):
        pages, marker = [], ""
        while not pages or marker:
            query = {"marker": marker} if marker else {}
            reply = raw("GET", disk, comp="pagelist", prevsnapshot=taken, maxresults=limit, **query)
            pages.append(parsed(reply))
            following = re.search("<NextMarker>(.+)</NextMarker>", reply.text)
            marker = following[1] if following else ""
        assert [len(page) for page in pages] == sizes
        assert [one for page in pages for one in page] == expected
    part = raw(
        "GET",
        disk,
        headers={"x-ms-range": f"bytes=512-{4 * chunk + 1023}"},
        comp="pagelist",
        prevsnapshot=taken,
    )
    assert parsed(part) == [
        ("C", 512, 1024),
        ("P", 1024, 1536),
        ("C", 4 * chunk + 512, 4 * chunk + 1024),
    ]


def test_what_was_cut_off_and_is_back_is_cleared(raw: RawClient, disk: str) -> None:
    taken = snapshot(raw, disk)
    assert write(raw, disk, 2 * chunk, b"x" * 512).status == 201
    for size in (chunk, 4 * chunk):
        assert set_properties(raw, disk, x_ms_blob_content_length=str(size)).status == 200
    assert ranges(raw, disk, prevsnapshot=taken) == [("C", chunk, 4 * chunk)]


def test_a_snapshot_keeps_what_had_been_cleared_when_it_was_taken(
    raw: RawClient, disk: str
) -> None:
    first = snapshot(raw, disk)
    assert clear(raw, disk, 0, 1024).status == 201
    second = snapshot(raw, disk)
    assert write(raw, disk, 0, b"x" * 512).status == 201
    third = snapshot(raw, disk)
    assert ranges(raw, disk, snapshot=second, prevsnapshot=first) == [("C", 0, 1024)]
    assert ranges(raw, disk, snapshot=third, prevsnapshot=second) == [("P", 0, 512)]
    assert ranges(raw, disk, prevsnapshot=first) == [("P", 0, 512), ("C", 512, 1024)]
    assert raw("DELETE", disk, snapshot=second).status == 202
    assert ranges(raw, disk, prevsnapshot=first) == [("P", 0, 512), ("C", 512, 1024)]


def test_differences_that_cannot_be_told(raw: RawClient, disk: str) -> None:
    first = snapshot(raw, disk)
    assert write(raw, disk, 0, b"x" * 512).status == 201
    second = snapshot(raw, disk)
    newer = raw("GET", disk, comp="pagelist", snapshot=first, prevsnapshot=second)
    assert (newer.status, newer.code) == (400, "PreviousSnapshotCannotBeNewer")
    missing = raw("GET", disk, comp="pagelist", prevsnapshot="2001-01-01T00:00:00.0000000Z")
    assert (missing.status, missing.code) == (409, "PreviousSnapshotNotFound")
    nonsense = raw("GET", disk, comp="pagelist", prevsnapshot="yesterday")
    assert (nonsense.status, nonsense.code) == (400, "InvalidQueryParameterValue")
    assert create(raw, disk).status == 201
    overwritten = raw("GET", disk, comp="pagelist", prevsnapshot=second)
    assert (overwritten.status, overwritten.code) == (409, "BlobOverwritten")
    before = ranges(raw, disk, snapshot=second, prevsnapshot=first)
    assert before == [("P", 0, 512)]


def test_a_previous_snapshot_named_by_its_url(raw: RawClient, server: Server, disk: str) -> None:
    first = snapshot(raw, disk)
    assert write(raw, disk, 0, b"x" * 512).status == 201
    name = "x-ms-previous-snapshot-url"
    for url, code in (
        (f"{server.url}{disk}?snapshot={first}", ""),
        (f"{server.url}{disk}", "InvalidHeaderValue"),
        (f"{server.url}/things/other?snapshot={first}", "InvalidHeaderValue"),
        (f"{server.url}{disk}?snapshot=yesterday", "InvalidQueryParameterValue"),
        ("nonsense", "InvalidHeaderValue"),
    ):
        reply = raw("GET", disk, headers={name: url}, comp="pagelist")
        assert reply.code == code, url
        if not code:
            assert parsed(reply) == [("P", 0, 512)]
    url = f"{server.url}{disk}?snapshot={first}"
    both = raw("GET", disk, headers={name: url}, comp="pagelist", prevsnapshot=first)
    assert (both.status, both.code) == (400, "InvalidHeaderValue")


# ---- sparse


def test_a_huge_sparse_blob_is_read_as_it_is_asked_for(raw: RawClient, container: str) -> None:
    path = f"{container}/disk"
    size = 8 * 1024**4
    assert create(raw, path, size).status == 201
    middle = size // 2
    assert write(raw, path, middle, b"m" * 512).status == 201
    assert write(raw, path, size - 512, b"e" * 512).status == 201
    assert ranges(raw, path) == [("P", middle, middle + 512), ("P", size - 512, size)]
    around = raw("GET", path, headers={"x-ms-range": f"bytes={middle - 3}-{middle + 2}"})
    assert around.body == b"\0\0\0mmm"
    tail = raw("GET", path, headers={"x-ms-range": f"bytes={size - 20 * mebibyte}-"})
    assert len(tail.body) == 20 * mebibyte
    assert tail.body == bytes(20 * mebibyte - 512) + b"e" * 512
    assert tail.headers["content-range"] == f"bytes {size - 20 * mebibyte}-{size - 1}/{size}"
    assert clear(raw, path, 0, size).status == 201
    assert ranges(raw, path) == []


def test_a_digest_of_a_range(raw: RawClient, disk: str) -> None:
    assert write(raw, disk, 512, b"x" * 512).status == 201
    reply = raw(
        "GET",
        disk,
        headers={"x-ms-range": "bytes=0-1023", "x-ms-range-get-content-md5": "true"},
    )
    expected = hashlib.md5(bytes(512) + b"x" * 512).digest()
    assert reply.headers["content-md5"] == base64.b64encode(expected).decode()


# ---- versions and soft delete


def _serving(**settings: object) -> Server:
    account = development_account()
    fields = {name: getattr(account, name) for name in account.__dataclass_fields__}
    return Server(Account(**{**fields, **settings}))


@pytest.fixture
def versioned() -> Iterator[Server]:
    running = _serving(versioning=True)
    yield running
    running.stop()


def test_versions_come_of_creation_and_metadata_only(versioned: Server) -> None:
    raw = RawClient(versioned.port)
    assert raw("PUT", "/things", restype="container").status == 201
    path = "/things/disk"
    first = create(raw, path, 1024).headers["x-ms-version-id"]
    assert write(raw, path, 0, b"a" * 512).status == 201
    assert set_properties(raw, path, x_ms_sequence_number_action="increment").status == 200
    assert raw("HEAD", path).headers["x-ms-version-id"] == first
    changed = raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata")
    second = changed.headers["x-ms-version-id"]
    assert second != first
    assert write(raw, path, 512, b"b" * 512).status == 201
    assert clear(raw, path, 0, 512).status == 201
    assert raw("HEAD", path).headers["x-ms-version-id"] == second
    third = create(raw, path, 512).headers["x-ms-version-id"]
    assert content(raw, path, versionid=first) == b"a" * 512 + bytes(512)
    assert content(raw, path, versionid=second) == bytes(512) + b"b" * 512
    assert content(raw, path, versionid=third) == bytes(512)
    assert raw("DELETE", path, versionid=first).status == 202
    versioned.clock.advance(100)
    versioned.sweep()
    assert content(raw, path, versionid=second) == bytes(512) + b"b" * 512
    raw.close()


def test_a_soft_deleted_page_blob_comes_back(raw: RawClient, server: Server, disk: str) -> None:
    policy = (
        "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>1</Days>"
        "</DeleteRetentionPolicy></StorageServiceProperties>"
    )
    assert raw("PUT", "/", policy, restype="service", comp="properties").status == 202
    assert write(raw, disk, 0, b"x" * 512).status == 201
    taken = snapshot(raw, disk)
    assert write(raw, disk, 0, b"y" * 512).status == 201
    gone = raw("DELETE", disk, headers={"x-ms-delete-snapshots": "include"})
    assert gone.status == 202
    server.clock.advance(3600)
    server.sweep()
    assert raw("PUT", disk, None, comp="undelete").status == 200
    assert content(raw, disk)[:512] == b"y" * 512
    assert content(raw, disk, snapshot=taken)[:512] == b"x" * 512
    assert ranges(raw, disk, prevsnapshot=taken) == [("P", 0, 512)]
    assert raw("DELETE", disk, headers={"x-ms-delete-snapshots": "include"}).status == 202
    for _ in range(3):
        server.clock.advance(100_000)
        server.sweep()
    assert raw("PUT", disk, None, comp="undelete").status == 404


# ---- many at once


def test_writers_of_different_pages_do_not_disturb_each_other(
    server: Server, raw: RawClient, disk: str
) -> None:
    def work(client: RawClient, number: int) -> None:
        for turn in range(12):
            page = turn * 8 + number
            assert write(client, disk, page * 512, bytes((number + 1,)) * 512).status == 201

    at_once(server, 8, work)
    expected = b"".join(bytes((page % 8 + 1,)) * 512 for page in range(96))
    assert content(raw, disk)[: len(expected)] == expected
    assert ranges(raw, disk) == [("P", 0, len(expected))]


def test_writers_that_were_superseded_are_kept_out(
    server: Server, raw: RawClient, disk: str
) -> None:
    """Each owner of the blob raises the sequence number, and writes only while it is its own."""
    history: list[tuple[int, int]] = []

    def work(client: RawClient, number: int) -> None:
        for _ in range(6):
            raised = set_properties(client, disk, x_ms_sequence_number_action="increment")
            assert raised.status == 200
            mine = raised.headers["x-ms-blob-sequence-number"]
            data = int(mine).to_bytes(4, "big") * 128
            reply = write(client, disk, 0, data, x_ms_if_sequence_number_eq=mine)
            history.append((int(mine), reply.status))
            if reply.status != 201:
                assert (reply.status, reply.code) == (412, "SequenceNumberConditionNotMet")

    at_once(server, 8, work)
    assert sorted(number for number, _ in history) == list(range(1, 49))
    last = max(number for number, status in history if status == 201)
    assert int.from_bytes(content(raw, disk)[:4], "big") == last
    assert dict(history)[48] == 201


def test_of_those_that_match_one_etag_one_wins(server: Server, raw: RawClient, disk: str) -> None:
    etag = raw("HEAD", disk).etag
    statuses: list[int] = []

    def work(client: RawClient, number: int) -> None:
        reply = write(client, disk, 0, bytes((number,)) * 512, If_Match=etag)
        statuses.append(reply.status)

    at_once(server, 10, work)
    assert sorted(statuses) == [201] + [412] * 9


def test_readers_never_see_a_mix(server: Server, raw: RawClient, container: str) -> None:
    """Two regions are always written alike, one after the other; whoever reads both in one request
    sees them equal, or the first ahead by one turn, while snapshots come and go."""
    path = f"{container}/disk"
    size = 3 * mebibyte
    assert create(raw, path, size).status == 201
    stop = threading.Event()
    seen: list[int] = []

    def region(turn: int) -> bytes:
        return turn.to_bytes(2, "big") * 256

    def work(client: RawClient, number: int) -> None:
        if number == 0:
            for turn in range(1, 11):
                for start in (0, size - 512):
                    assert write(client, path, start, region(turn)).status == 201
                # What lies between makes it too long for one look at the store.
                filler = bytes((turn,)) * (60 * 1024)
                for start in range(chunk, size - chunk, 2 * chunk):
                    assert write(client, path, start, filler).status == 201
                if turn % 3 == 0:
                    snapshot(client, path)
            stop.set()
            return
        while not stop.is_set():
            body = content(client, path)
            first, last = int.from_bytes(body[:2], "big"), int.from_bytes(body[-2:], "big")
            assert body[:512] == region(first)
            assert body[-512:] == region(last)
            assert first - last in (0, 1)
            fillers = [body[start] for start in range(chunk, size - chunk, 2 * chunk)]
            assert fillers == sorted(fillers, reverse=True)
            assert fillers[0] - fillers[-1] in (0, 1)
            seen.append(first)

    at_once(server, 4, work)
    assert seen
    server.clock.advance(1000)
    server.sweep()
    assert server.problems() == []
