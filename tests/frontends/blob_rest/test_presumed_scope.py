"""Small bodies are taken in before anybody knows of the container's default scope: what is stored
is encrypted in it all the same."""

from collections.abc import Iterator

import pytest

from etagere.extents.spool import inline_bytes_max
from etagere.frontends.common.structured_body import Encoder

from .serving import RawClient, Reply, Server
from .test_encryption import block_id, commit, plain, stored

sizes = (512, 4096, inline_bytes_max, inline_bytes_max + 512)
in_scope = {"x-ms-default-encryption-scope": "secrets"}
structured = {"x-ms-structured-body": "XSM/1.0; properties=crc64"}


@pytest.fixture
def raw(server: Server) -> Iterator[RawClient]:
    client = RawClient(server.port, version="2026-04-06")
    yield client
    client.close()


@pytest.fixture
def scoped(raw: RawClient) -> str:
    """A container that was another one, without a scope, a moment ago."""
    assert raw("PUT", "/scoped", restype="container").status == 201
    assert write(raw, "put", "/scoped/before", b"x").status == 201
    assert raw("DELETE", "/scoped", restype="container").status == 202
    assert raw("PUT", "/scoped", None, in_scope, restype="container").status == 201
    return "/scoped"


def write(raw: RawClient, way: str, path: str, data: bytes, framed: bool = False) -> Reply:
    """Make the blob, where that is an operation of its own, and give it this content."""
    extra, body = {}, data
    if framed:
        encoder = Encoder(len(data))
        body = b"".join([encoder.begin(), *encoder.encode(data), encoder.end()])
        extra = {**structured, "x-ms-structured-content-length": str(len(data))}
    if way == "put":
        return raw("PUT", path, body, {"x-ms-blob-type": "BlockBlob", **extra})
    if way == "stage":
        reply = raw("PUT", path, body, extra, comp="block", blockid=block_id(0))
        assert commit(raw, path, [0], {}).status == 201
        return reply
    if way == "append":
        assert raw("PUT", path, b"", {"x-ms-blob-type": "AppendBlob"}).status == 201
        return raw("PUT", path, body, extra, comp="appendblock")
    made = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(len(data))}
    assert raw("PUT", path, b"", made).status == 201
    pages = {"x-ms-page-write": "update", "x-ms-range": f"bytes=0-{len(data) - 1}"}
    return raw("PUT", path, body, {**pages, **extra}, comp="page")


@pytest.mark.parametrize("framed", [False, True], ids=["plain", "structured"])
@pytest.mark.parametrize("size", sizes)
@pytest.mark.parametrize("way", ["put", "stage", "append", "page"])
def test_what_is_stored_is_in_the_containers_scope(
    server: Server, raw: RawClient, scoped: str, way: str, size: int, framed: bool
) -> None:
    for name in ("first", "second"):
        data = plain(size, name)
        reply = write(raw, way, f"{scoped}/{name}", data, framed)
        assert (reply.status, reply.headers["x-ms-encryption-scope"]) == (201, "secrets")
        found = raw("GET", f"{scoped}/{name}")
        assert (found.body, found.headers["x-ms-encryption-scope"]) == (data, "secrets")
    assert b"plain text" not in stored(server, scoped)


@pytest.mark.parametrize("way", ["put", "stage", "append", "page"])
def test_where_there_is_no_scope_nothing_is_encrypted(
    server: Server, raw: RawClient, way: str
) -> None:
    assert raw("PUT", "/open", restype="container").status == 201
    reply = write(raw, way, "/open/a", plain(4096))
    assert reply.status == 201
    assert "x-ms-encryption-scope" not in reply.headers
    assert b"plain text" in stored(server, "/open")


def test_digests_are_checked_whichever_way_a_body_goes(raw: RawClient, scoped: str) -> None:
    wrong = {"x-ms-blob-type": "BlockBlob", "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}
    for _ in range(2):
        assert raw("PUT", f"{scoped}/a", b"x", wrong).code == "Md5Mismatch"
    assert raw("HEAD", f"{scoped}/a").status == 404
