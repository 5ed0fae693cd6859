"""Appends and page writes whose content comes from another blob."""

import base64
import hashlib

import pytest

from .serving import RawClient, Reply, Server

data = hashlib.shake_128(b"source").digest(200_000)
md5 = base64.b64encode(hashlib.md5(data[512:1536]).digest()).decode()


@pytest.fixture
def source(raw: RawClient, server: Server, container: str) -> str:
    """The URL of a block blob, with a SAS."""
    assert raw.put_blob(f"{container}/source", data).status == 201
    return f"{server.url}{container}/source?{raw.sas}"


@pytest.fixture
def log(raw: RawClient, container: str) -> str:
    assert raw("PUT", f"{container}/log", b"", {"x-ms-blob-type": "AppendBlob"}).status == 201
    return f"{container}/log"


@pytest.fixture
def disk(raw: RawClient, container: str) -> str:
    sent = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1048576"}
    assert raw("PUT", f"{container}/disk", b"", sent).status == 201
    return f"{container}/disk"


def append(raw: RawClient, log: str, source: str, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw("PUT", log, b"", {"x-ms-copy-source": source, **sent}, comp="appendblock")


def write(raw: RawClient, disk: str, source: str, **headers: str) -> Reply:
    sent = {
        "x-ms-page-write": "update",
        "x-ms-copy-source": source,
        "x-ms-range": "bytes=1024-2047",
        "x-ms-source-range": "bytes=512-1535",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return raw("PUT", disk, b"", sent, comp="page")


def test_appending_all_or_a_part(raw: RawClient, log: str, source: str) -> None:
    whole = append(raw, log, source)
    assert whole.status == 201, whole.text
    assert whole.headers["x-ms-blob-append-offset"] == "0"
    assert "x-ms-content-crc64" in whole.headers
    part = append(raw, log, source, x_ms_source_range="bytes=512-1535", x_ms_source_content_md5=md5)
    assert part.headers["x-ms-blob-append-offset"] == "200000"
    assert part.headers["x-ms-blob-committed-block-count"] == "2"
    assert part.headers["content-md5"] == md5
    assert raw("GET", log).body == data + data[512:1536]


def test_new_versions_always_tell_the_crc64(server: Server, raw: RawClient, container: str) -> None:
    """Beside the MD5 that a request asked for; older versions tell one of them."""
    sent = {"Content-MD5": base64.b64encode(hashlib.md5(b"x").digest()).decode()}
    for version, both in (("2026-06-06", False), ("2026-10-06", True)):
        client = RawClient(server.port, version=version)
        reply = client("PUT", f"{container}/b", b"x", sent, comp="block", blockid="AAAA")
        assert reply.headers["content-md5"] == sent["Content-MD5"]
        assert ("x-ms-content-crc64" in reply.headers) is both
        client.close()


@pytest.mark.parametrize(("version", "told"), [("2026-06-06", False), ("2026-10-06", True)])
def test_new_versions_tell_the_crc64_of_a_source_that_was_read(
    server: Server, raw: RawClient, container: str, source: str, version: str, *, told: bool
) -> None:
    client = RawClient(server.port, version=version)
    sent = {
        "x-ms-blob-type": "BlockBlob",
        "x-ms-copy-source": source,
        "x-ms-source-content-md5": base64.b64encode(hashlib.md5(data).digest()).decode(),
    }
    done = client("PUT", f"{container}/copy", None, sent)
    assert done.status == 201
    assert done.headers["content-md5"] == sent["x-ms-source-content-md5"]
    assert ("x-ms-content-crc64" in done.headers) is told
    other = {**sent, "x-ms-source-content-md5": md5, "x-ms-copy-source-blob-properties": "false"}
    assert client("PUT", f"{container}/copy", None, other).code == "Md5Mismatch"
    head = client("HEAD", f"{container}/copy")
    assert head.headers["content-md5"] == sent["x-ms-source-content-md5"]
    client.close()


def test_new_versions_tell_the_tier_with_the_content(
    server: Server, raw: RawClient, container: str
) -> None:
    raw.put_blob(f"{container}/b", x_ms_access_tier="Cool")
    for version, tier in (("2026-06-06", None), ("2026-10-06", "Cool")):
        client = RawClient(server.port, version=version)
        assert client("GET", f"{container}/b").headers.get("x-ms-access-tier") == tier
        assert client("HEAD", f"{container}/b").headers["x-ms-access-tier"] == "Cool"
        client.close()


def test_writing_pages(raw: RawClient, disk: str, source: str) -> None:
    done = write(raw, disk, source, x_ms_source_content_md5=md5)
    assert done.status == 201, done.text
    assert done.headers["x-ms-blob-sequence-number"] == "0"
    assert done.headers["content-md5"] == md5
    body = raw("GET", disk).body
    assert body[1024:2048] == data[512:1536]
    assert body[:1024] == bytes(1024)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"If_Match": '"0x1"'}, 412, "ConditionNotMet"),
        ({"x_ms_source_if_match": '"0x1"'}, 412, "CannotVerifyCopySource"),
        ({"x_ms_source_if_none_match": "*"}, 0, "CannotVerifyCopySource"),
        ({"x_ms_source_content_md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, 400, "Md5Mismatch"),
        ({"x_ms_source_content_crc64": "AAAAAAAAAAA="}, 400, "Crc64Mismatch"),
        ({"x_ms_source_range": "bytes=0-x"}, 400, "InvalidHeaderValue"),
        ({"x_ms_source_range": "bytes=999999-1000510"}, 416, "CannotVerifyCopySource"),
        ({"x_ms_copy_source": "nonsense"}, 400, "InvalidHeaderValue"),
        ({"x_ms_lease_id": "a" * 8 + "-aaaa-aaaa-aaaa-" + "a" * 12}, 412, ""),
    ],
)
def test_what_both_refuse(
    raw: RawClient,
    server: Server,
    log: str,
    disk: str,
    source: str,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    for path, ask in ((log, append), (disk, write)):
        etag = raw("HEAD", path).etag
        reply = ask(raw, path, source, **headers)
        assert reply.status == (status or reply.status), reply.text
        assert reply.status >= 300
        assert reply.code == (code or reply.code)
        assert raw("HEAD", path).etag == etag
    # Only the source's own extent: what was read and then refused is gone.
    assert server.run(server.extents.usage()).extents == 1


def test_a_source_that_is_missing(raw: RawClient, log: str, disk: str, source: str) -> None:
    missing = source.replace("/source?", "/none?")
    for path, ask in ((log, append), (disk, write)):
        reply = ask(raw, path, missing)
        assert (reply.status, reply.code) == (404, "CannotVerifyCopySource")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"x_ms_if_sequence_number_eq": "7"}, 412, "SequenceNumberConditionNotMet"),
        ({"x_ms_page_write": "clear"}, 400, "InvalidHeaderValue"),
        ({"x_ms_page_write": ""}, 400, "MissingRequiredHeader"),
        ({"x_ms_source_range": ""}, 400, "MissingRequiredHeader"),
        ({"x_ms_source_range": "bytes=0-511"}, 400, "InvalidHeaderValue"),
        ({"x_ms_range": "bytes=1-512"}, 416, "InvalidPageRange"),
        ({"x_ms_range": "bytes=0-4194815"}, 413, "RequestBodyTooLarge"),
        ({"x_ms_range": "bytes=1048064-1049087"}, 416, "InvalidPageRange"),
    ],
)
def test_what_page_writes_refuse(
    raw: RawClient, disk: str, source: str, headers: dict[str, str], status: int, code: str
) -> None:
    reply = write(raw, disk, source, **headers)
    assert (reply.status, reply.code) == (status, code)
    assert raw("GET", disk).body == bytes(1048576)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"x_ms_blob_condition_appendpos": "1"}, 412, "AppendPositionConditionNotMet"),
        ({"x_ms_blob_condition_maxsize": "1000"}, 412, "MaxBlobSizeConditionNotMet"),
    ],
)
def test_what_appends_refuse(
    raw: RawClient, log: str, source: str, headers: dict[str, str], status: int, code: str
) -> None:
    reply = append(raw, log, source, **headers)
    assert (reply.status, reply.code) == (status, code)
    assert raw("GET", log).body == b""


def test_an_append_that_is_too_long(raw: RawClient, server: Server, log: str) -> None:
    assert raw.put_blob("/things/large", bytes(4 * 1024 * 1024 + 1)).status == 201
    url = f"{server.url}/things/large?{raw.sas}"
    reply = append(raw, log, url, x_ms_version="2021-12-02")
    assert (reply.status, reply.code) == (413, "RequestBodyTooLarge")
    assert append(raw, log, url).status == 201


def test_from_one_page_blob_to_another(raw: RawClient, server: Server, disk: str) -> None:
    """Pages that were never written are zeros in the copy, and count as written."""
    pages = {"x-ms-page-write": "update", "x-ms-range": "bytes=512-1023"}
    assert raw("PUT", disk, b"x" * 512, pages, comp="page").status == 201
    url = f"{server.url}{disk}?{raw.sas}"
    sent = {"x_ms_range": "bytes=4096-6143", "x_ms_source_range": "bytes=0-2047"}
    assert write(raw, disk, url, **sent).status == 201
    assert raw("GET", disk).body[4096:6144] == bytes(512) + b"x" * 512 + bytes(1024)
    listed = raw("GET", disk, comp="pagelist").text
    assert "<Start>4096</Start><End>6143</End>" in listed
