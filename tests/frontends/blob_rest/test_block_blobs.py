"""Block blobs over HTTP: putting, staging, committing, reading back."""

import base64
import hashlib
from xml.etree import ElementTree as ET

import pytest
from awscrt.checksums import crc64nvme

from etagere.services.blob import block_blobs

from .serving import RawClient, Server


def block_id(number: int) -> str:
    return base64.b64encode(f"{number:06d}".encode()).decode()


def block_list(*blocks: tuple[str, str]) -> str:
    inner = "".join(f"<{source}>{name}</{source}>" for source, name in blocks)
    return f'<?xml version="1.0" encoding="utf-8"?><BlockList>{inner}</BlockList>'


def stage(raw: RawClient, path: str, number: int, data: bytes) -> None:
    reply = raw("PUT", path, data, comp="block", blockid=block_id(number))
    assert reply.status == 201, reply.text
    assert "etag" not in reply.headers


def commit(raw: RawClient, path: str, *blocks: tuple[str, str], **headers: str):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw("PUT", path, block_list(*blocks), sent, comp="blocklist")


def test_what_is_put_is_what_is_got(raw: RawClient, container: str) -> None:
    put = raw.put_blob(f"{container}/a", b"hello", Content_Type="text/plain", x_ms_meta_Color="red")
    assert put.status == 201
    md5 = base64.b64encode(hashlib.md5(b"hello").digest()).decode()
    assert put.headers["content-md5"] == md5
    crc = base64.b64encode(crc64nvme(b"hello").to_bytes(8, "little")).decode()
    assert put.headers["x-ms-content-crc64"] == crc
    got = raw("GET", f"{container}/a")
    assert (got.status, got.body) == (200, b"hello")
    assert got.headers["content-type"] == "text/plain"
    assert got.headers["content-md5"] == md5
    assert got.headers["x-ms-meta-color"] == "red"
    assert got.etag == put.etag
    head = raw("HEAD", f"{container}/a")
    assert (head.status, head.headers["content-length"]) == (200, "5")
    assert head.headers["x-ms-access-tier"] == "Hot"


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3_000_000])
def test_sizes_on_both_sides_of_the_border_to_extents(
    raw: RawClient, container: str, size: int
) -> None:
    data = hashlib.shake_128(b"seed").digest(size)
    assert raw.put_blob(f"{container}/a", data).status == 201
    assert raw("GET", f"{container}/a").body == data
    if size > 10:
        part = raw("GET", f"{container}/a", headers={"x-ms-range": f"bytes=3-{size - 2}"})
        assert (part.status, part.body) == (206, data[3 : size - 1])
        assert part.headers["content-range"] == f"bytes 3-{size - 2}/{size}"
        assert "content-md5" not in part.headers
        assert "x-ms-blob-content-md5" in part.headers


def test_a_range_that_begins_at_the_end_is_416(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/empty", b"")
    reply = raw("GET", f"{container}/empty", headers={"Range": "bytes=0-"})
    assert (reply.status, reply.code) == (416, "InvalidRange")
    assert reply.headers["content-range"] == "bytes */0"


def test_the_digest_of_a_range(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"0123456789")
    reply = raw(
        "GET",
        f"{container}/a",
        headers={"x-ms-range": "bytes=2-4", "x-ms-range-get-content-md5": "true"},
    )
    assert reply.headers["content-md5"] == base64.b64encode(hashlib.md5(b"234").digest()).decode()
    whole = raw("GET", f"{container}/a", headers={"x-ms-range-get-content-md5": "true"})
    assert (whole.status, whole.code) == (400, "InvalidHeaderValue")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-MD5": base64.b64encode(b"0" * 16).decode()}, "Md5Mismatch"),
        ({"Content-MD5": "c2hvcnQ="}, "InvalidMd5"),
        ({"x-ms-content-crc64": base64.b64encode(b"0" * 8).decode()}, "Crc64Mismatch"),
        ({"x-ms-blob-content-md5": base64.b64encode(b"0" * 16).decode()}, "Md5Mismatch"),
        (
            {
                "Content-MD5": base64.b64encode(hashlib.md5(b"data").digest()).decode(),
                "x-ms-content-crc64": base64.b64encode(b"0" * 8).decode(),
            },
            "BothCrc64AndMd5HeaderPresent",
        ),
    ],
)
@pytest.mark.parametrize("size", [4, 100_000])
def test_wrong_digests_change_nothing(
    server: Server, raw: RawClient, container: str, headers: dict[str, str], code: str, size: int
) -> None:
    before = raw.put_blob(f"{container}/a", b"before")
    reply = raw.put_blob(f"{container}/a", b"data" * (size // 4), **headers)
    assert (reply.status, reply.code) == (400, code)
    assert raw("GET", f"{container}/a").etag == before.etag
    assert server.run(server.extents.usage()).extents == 0


def test_blocks_are_invisible_until_committed(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    stage(raw, path, 1, b"one")
    stage(raw, path, 2, b"two" * 50_000)
    assert raw("GET", path).code == "BlobNotFound"
    listed = raw("GET", path, comp="blocklist", blocklisttype="all")
    assert listed.status == 200
    assert "etag" not in listed.headers
    assert listed.text.count("<Block>") == 2
    assert "<CommittedBlocks />" in listed.text
    done = commit(raw, path, ("Latest", block_id(2)), ("Uncommitted", block_id(1)))
    assert done.status == 201, done.text
    assert raw("GET", path).body == b"two" * 50_000 + b"one"
    listed = raw("GET", path, comp="blocklist", blocklisttype="all")
    assert "<UncommittedBlocks />" in listed.text
    assert listed.etag == done.etag


def test_a_missing_block_refuses_the_whole_list(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    stage(raw, path, 1, b"one")
    assert commit(raw, path, ("Latest", block_id(1))).status == 201
    stage(raw, path, 2, b"two")
    for blocks in (
        [("Latest", block_id(2)), ("Latest", block_id(3))],
        [("Committed", block_id(2))],
        [("Uncommitted", block_id(1))],
    ):
        reply = commit(raw, path, *blocks)
        assert (reply.status, reply.code) == (400, "InvalidBlockList")
    assert raw("GET", path).body == b"one"
    listed = raw("GET", path, comp="blocklist", blocklisttype="uncommitted")
    assert block_id(2) in listed.text


def test_committed_blocks_are_used_again_and_dropped(
    server: Server, raw: RawClient, container: str
) -> None:
    path = f"{container}/a"
    large = b"x" * 70_000
    stage(raw, path, 1, large)
    stage(raw, path, 2, b"two")
    commit(raw, path, ("Latest", block_id(1)), ("Latest", block_id(2)))
    stage(raw, path, 3, b"three")
    done = commit(
        raw,
        path,
        ("Committed", block_id(1)),
        ("Latest", block_id(3)),
        ("Committed", block_id(1)),
    )
    assert done.status == 201
    assert raw("GET", path).body == large + b"three" + large
    assert server.problems() == []
    commit(raw, path)
    assert raw("GET", path).body == b""
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_the_list_of_a_snapshot(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    for number in range(3):
        stage(raw, path, number, b"x" * (number + 1))
    commit(raw, path, ("Latest", block_id(0)), ("Latest", block_id(1)))
    taken = raw("PUT", path, comp="snapshot")
    snapshot = taken.headers["x-ms-snapshot"]
    commit(raw, path, ("Latest", block_id(1)))
    stage(raw, path, 2, b"other")
    found = raw("GET", path, comp="blocklist", blocklisttype="all", snapshot=snapshot)
    sizes = [block.findtext("Size") for block in ET.fromstring(found.body).iter("Block")]
    assert sizes == ["1", "2"], "what was committed then, and nothing that is staged now"
    assert found.etag == taken.etag
    assert found.headers["x-ms-blob-content-length"] == "3"
    none = "2025-01-01T00:00:00.0000000Z"
    missing = raw("GET", path, comp="blocklist", snapshot=none)
    assert (missing.status, missing.code) == (404, "BlobNotFound")


def test_the_same_id_again_replaces_the_staged_block(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    stage(raw, path, 1, b"old")
    stage(raw, path, 1, b"new")
    commit(raw, path, ("Latest", block_id(1)))
    assert raw("GET", path).body == b"new"


def test_block_ids_of_one_blob_have_one_length(raw: RawClient, container: str) -> None:
    stage(raw, f"{container}/a", 1, b"one")
    other = base64.b64encode(b"longer than the first").decode()
    reply = raw("PUT", f"{container}/a", b"two", comp="block", blockid=other)
    assert (reply.status, reply.code) == (400, "InvalidBlobOrBlock")


def test_many_blocks_are_listed_in_pages_and_read_in_ranges(
    server: Server, raw: RawClient, container: str
) -> None:
    path = f"{container}/a"
    count = 1500
    for number in range(count):
        stage(raw, path, number, f"{number:04d}".encode())
    names = [("Latest", block_id(number)) for number in range(count)]
    assert commit(raw, path, *names).status == 201
    whole = b"".join(f"{number:04d}".encode() for number in range(count))
    assert raw("GET", path).body == whole
    for first, last in ((0, 0), (2046, 2050), (4095, 4101), (5990, 5999), (1, 5998)):
        part = raw("GET", path, headers={"Range": f"bytes={first}-{last}"})
        assert part.body == whole[first : last + 1]
    assert server.problems() == []
    raw.put_blob(path, b"small")
    server.clock.advance(3600)
    server.sweep()
    assert server.problems() == []


def test_staged_blocks_are_forgotten_after_a_week(
    server: Server, raw: RawClient, container: str
) -> None:
    path = f"{container}/a"
    stage(raw, path, 1, b"x" * 100_000)
    server.clock.advance(6.9 * 86_400)
    server.sweep()
    assert raw("GET", path, comp="blocklist", blocklisttype="all").status == 200
    server.clock.advance(0.2 * 86_400)
    server.sweep()
    assert raw("GET", path, comp="blocklist", blocklisttype="all").code == "BlobNotFound"
    server.clock.advance(120)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


@pytest.mark.parametrize(
    ("headers", "query", "body", "status", "code"),
    [
        ({}, {}, b"x", 400, "MissingRequiredHeader"),
        ({"x-ms-blob-type": "Nonsense"}, {}, b"x", 400, "InvalidHeaderValue"),
        ({}, {"comp": "block"}, b"x", 400, "MissingRequiredQueryParameter"),
        ({}, {"comp": "block", "blockid": "!"}, b"x", 400, "InvalidQueryParameterValue"),
        ({}, {"comp": "block", "blockid": "AAAA"}, b"", 400, "InvalidHeaderValue"),
        ({}, {"comp": "blocklist"}, b"<BlockList>", 400, "InvalidXmlDocument"),
        ({}, {"comp": "blocklist"}, b"<Other/>", 400, "InvalidXmlDocument"),
        (
            {},
            {"comp": "blocklist"},
            b"<BlockList><Odd>AA==</Odd></BlockList>",
            400,
            "InvalidXmlDocument",
        ),
        (
            {},
            {"comp": "blocklist"},
            b"<BlockList><Latest>!</Latest></BlockList>",
            400,
            "InvalidXmlNodeValue",
        ),
        (
            {},
            {"comp": "blocklist"},
            b'<!DOCTYPE x [<!ENTITY a "b">]><BlockList>&a;</BlockList>',
            400,
            "InvalidXmlDocument",
        ),
        ({}, {"comp": "nonsense"}, b"", 400, "InvalidQueryParameterValue"),
    ],
)
def test_bad_writes(
    raw: RawClient, container: str, headers, query, body: bytes, status: int, code: str
) -> None:
    reply = raw("PUT", f"{container}/a", body, headers, **query)
    assert (reply.status, reply.code) == (status, code), reply.text
    assert raw("HEAD", f"{container}/a").status == 404


def test_no_more_staged_blocks_than_the_limit(
    raw: RawClient, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert block_blobs.uncommitted_blocks_max == 100_000
    assert block_blobs.committed_blocks_max == 50_000
    monkeypatch.setattr(block_blobs, "uncommitted_blocks_max", 3)
    for number in range(3):
        name = base64.b64encode(f"{number}".encode()).decode()
        put = raw("PUT", f"{container}/a", b"x", comp="block", blockid=name)
        assert put.status == 201
    fourth = raw("PUT", f"{container}/a", b"x", comp="block", blockid="Mw==")
    assert (fourth.status, fourth.code) == (409, "BlockCountExceedsLimit")
    again = raw("PUT", f"{container}/a", b"y", comp="block", blockid="MA==")
    assert again.status == 201, "it takes the place of another"
    listed = raw("GET", f"{container}/a", comp="blocklist", blocklisttype="all")
    assert listed.text.count("<Block>") == 3
