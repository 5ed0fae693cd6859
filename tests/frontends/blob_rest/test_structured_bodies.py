"""Uploads and downloads whose content is in segments with checksums."""

import base64
import hashlib
import struct

import pytest
from awscrt.checksums import crc64nvme

from .serving import RawClient, Reply

value = "XSM/1.0; properties=crc64"


def message(segments: list[bytes]) -> bytes:
    body = b""
    for number, content in enumerate(segments, 1):
        body += struct.pack("<HQ", number, len(content)) + content
        body += struct.pack("<Q", crc64nvme(content))
    body += struct.pack("<Q", crc64nvme(b"".join(segments)))
    return struct.pack("<BQHH", 1, len(body) + 13, 1, len(segments)) + body


def opened(reply: Reply) -> bytes:
    """The content of a response, its checksums compared."""
    data = reply.body
    version, length, flags, count = struct.unpack_from("<BQHH", data)
    assert (version, length, flags) == (1, len(data), 1)
    at, found = 13, b""
    for number in range(1, count + 1):
        said, size = struct.unpack_from("<HQ", data, at)
        assert said == number
        content = data[at + 10 : at + 10 + size]
        at += 10 + size
        assert struct.unpack_from("<Q", data, at) == (crc64nvme(content),)
        at += 8
        found += content
    assert data[at:] == struct.pack("<Q", crc64nvme(found))
    return found


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] or [b""]


def headers(length: int, **more: str) -> dict[str, str]:
    sent = {name.replace("_", "-"): text for name, text in more.items()}
    return {"x-ms-structured-body": value, "x-ms-structured-content-length": str(length), **sent}


@pytest.mark.parametrize("size", [0, 1, 1000, 65_536, 300_000])
def test_put_blob_and_get_blob(raw: RawClient, container: str, size: int) -> None:
    data = hashlib.shake_128(b"s").digest(size)
    sent = headers(size, x_ms_blob_type="BlockBlob")
    put = raw("PUT", f"{container}/b", message(cut(data, 70_000)), sent)
    assert put.status == 201, put.text
    assert put.headers["x-ms-structured-body"] == value
    assert put.headers["content-md5"] == base64.b64encode(hashlib.md5(data).digest()).decode()
    assert raw("GET", f"{container}/b").body == data
    got = raw("GET", f"{container}/b", headers={"x-ms-structured-body": value})
    assert got.status == 200
    assert opened(got) == data
    assert got.headers["x-ms-structured-body"] == value
    assert got.headers["x-ms-structured-content-length"] == str(size)


def test_ranges_are_structured_too(raw: RawClient, container: str) -> None:
    data = hashlib.shake_128(b"s").digest(9_000_000)
    assert raw.put_blob(f"{container}/b", data).status == 201
    sent = {"x-ms-structured-body": value, "x-ms-range": "bytes=100-8500000"}
    got = raw("GET", f"{container}/b", headers=sent)
    assert got.status == 206
    assert got.headers["content-range"] == "bytes 100-8500000/9000000"
    assert opened(got) == data[100:8_500_001]
    assert struct.unpack_from("<BQHH", got.body)[3] == 3


def test_blocks_appends_and_pages(raw: RawClient, container: str) -> None:
    data = b"0123456789abcdef" * 64
    body, sent = message(cut(data, 500)), headers(len(data))
    staged = raw("PUT", f"{container}/block", body, sent, comp="block", blockid="AAAA")
    assert (staged.status, staged.headers["x-ms-structured-body"]) == (201, value)
    raw(
        "PUT",
        f"{container}/block",
        "<BlockList><Latest>AAAA</Latest></BlockList>",
        comp="blocklist",
    )
    assert raw("GET", f"{container}/block").body == data
    raw("PUT", f"{container}/log", b"", {"x-ms-blob-type": "AppendBlob"})
    appended = raw("PUT", f"{container}/log", body, sent, comp="appendblock")
    assert (appended.status, appended.headers["x-ms-structured-body"]) == (201, value)
    assert raw("GET", f"{container}/log").body == data
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "4096"}
    raw("PUT", f"{container}/disk", b"", disk)
    pages = {**sent, "x-ms-page-write": "update", "x-ms-range": "bytes=512-1535"}
    written = raw("PUT", f"{container}/disk", body, pages, comp="page")
    assert (written.status, written.headers["x-ms-structured-body"]) == (201, value)
    got = raw("GET", f"{container}/disk", headers={"x-ms-structured-body": value})
    assert opened(got) == bytes(512) + data + bytes(4096 - 1536)


def test_a_page_write_of_the_greatest_length(raw: RawClient, container: str) -> None:
    data = hashlib.shake_128(b"p").digest(4 * 1024 * 1024)
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(len(data))}
    raw("PUT", f"{container}/disk", b"", disk)
    pages = headers(len(data), x_ms_page_write="update", x_ms_range=f"bytes=0-{len(data) - 1}")
    assert raw("PUT", f"{container}/disk", message([data]), pages, comp="page").status == 201
    assert raw("GET", f"{container}/disk").body == data


@pytest.mark.parametrize("size", [1000, 200_000])
def test_what_is_refused(raw: RawClient, container: str, size: int) -> None:
    data = hashlib.shake_128(b"s").digest(size)
    good = message(cut(data, 600))
    flipped = bytearray(good)
    flipped[40] ^= 1
    in_trailer = bytearray(good)
    in_trailer[-1] ^= 1
    plain = {"x-ms-blob-type": "BlockBlob"}
    for body, sent, code in (
        (bytes(flipped), headers(size), "Crc64Mismatch"),
        (bytes(in_trailer), headers(size), "Crc64Mismatch"),
        (good, headers(size + 1), "InvalidInput"),
        (good, headers(size - 1), "InvalidInput"),
        (good[:-1], headers(size), "InvalidInput"),
        (good + b"x", headers(size), "InvalidInput"),
        (data, headers(size), "InvalidInput"),
        (b"", headers(size), "InvalidInput"),
        (good, {**headers(size), "x-ms-structured-content-length": "x"}, "InvalidHeaderValue"),
        (good, {"x-ms-structured-body": value}, "MissingRequiredHeader"),
        (good, {**headers(size), "x-ms-structured-body": "XSM/2.0"}, "InvalidHeaderValue"),
        (good, {**headers(size), "x-ms-version": "2024-08-04"}, "UnsupportedHeader"),
    ):
        reply = raw("PUT", f"{container}/b", body, {**plain, **sent})
        assert (reply.status, reply.code) == (400, code)
        assert raw("HEAD", f"{container}/b").status == 404
    assert raw("PUT", f"{container}/b", good, {**plain, **headers(size)}).status == 201


def test_limits_are_of_the_content(raw: RawClient, container: str) -> None:
    sent = headers(5000 * 1024 * 1024 + 1, x_ms_blob_type="BlockBlob", Content_Length="100")
    reply = raw("PUT", f"{container}/b", b"", sent)
    assert (reply.status, reply.code) == (413, "RequestBodyTooLarge")
