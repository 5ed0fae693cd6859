"""Copies over HTTP, inside the server and from a plain HTTP source."""

import base64
import hashlib
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from azure.core.exceptions import HttpResponseError

from .serving import RawClient, Reply, Server

large = hashlib.shake_128(b"copy").digest(300_000)
sparse = bytes(5 * 1024 * 1024) + large[:1024] + bytes(4 * 1024 * 1024 - 1024)
typed = {"AppendBlob": large, "PageBlob": sparse}


def md5_of(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()


class Elsewhere(BaseHTTPRequestHandler):
    """A web server that is not Azure's: /slow waits, /gone breaks off, /none is missing, and
    /AppendBlob and /PageBlob are what blobs of these types say of themselves."""

    release = threading.Event()
    etag = '"pinned"'

    def do_GET(self) -> None:
        if self.path == "/none":
            self.send_error(404)
            return
        kind = self.path[1:].split("?")[0]
        blob = typed.get(kind, large)
        if self.headers.get("If-Match") not in (None, self.etag):
            self.send_error(412)
            return
        self.send_response(200)
        if kind in typed:
            self.send_header("x-ms-blob-type", kind)
            self.send_header("x-ms-blob-sequence-number", "7")
            self.send_header("x-ms-blob-sealed", "true")
            self.send_header("ETag", self.etag)
        self.send_header("Content-Type", "image/png")
        self.send_header("x-ms-meta-from", "elsewhere")
        self.send_header("Content-Length", str(len(blob)))
        self.send_header("Content-MD5", md5_of(blob))
        self.end_headers()
        if "slow" in self.path:
            self.release.wait(20)
        self.wfile.write(blob if "gone" not in self.path else blob[:1000])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    Elsewhere.release.clear()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Elsewhere.release.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


def copy(raw: RawClient, path: str, source: str, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw("PUT", path, None, {"x-ms-copy-source": source, **sent})


def url_of(server: Server, raw: RawClient, path: str) -> str:
    return f"{server.url}{path}?{raw.sas}"


def settled(raw: RawClient, path: str) -> Reply:
    """The blob once its copy is no longer pending."""
    until = time.monotonic() + 20
    while True:
        head = raw("HEAD", path)
        if head.headers["x-ms-copy-status"] != "pending" or time.monotonic() > until:
            return head
        time.sleep(0.02)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("size", [0, 5, 300_000])
def test_a_copy_shares_what_it_copies(
    server: Server, raw: RawClient, container: str, size: int, *, other: bool
) -> None:
    raw("PUT", "/elsewhere", restype="container")
    path = "/elsewhere/b" if other else f"{container}/b"
    put = raw.put_blob(
        f"{container}/a", large[:size], Content_Type="text/plain", x_ms_meta_Colour="red"
    )
    before = server.run(server.extents.usage())
    done = copy(raw, path, url_of(server, raw, f"{container}/a"))
    assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success"), done.text
    got = raw("GET", path)
    assert got.body == large[:size]
    assert got.etag == done.etag != put.etag
    assert got.headers["content-type"] == "text/plain"
    assert got.headers["x-ms-meta-colour"] == "red"
    assert got.headers["x-ms-copy-id"] == done.headers["x-ms-copy-id"]
    assert got.headers["x-ms-copy-progress"] == f"{size}/{size}"
    assert server.run(server.extents.usage()) == before
    assert server.problems() == []
    raw("DELETE", f"{container}/a")
    server.clock.advance(3600)
    server.sweep()
    assert raw("GET", path).body == large[:size]
    raw("DELETE", path)
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_a_list_of_many_blocks_is_copied_with_its_blocks(
    server: Server, raw: RawClient, container: str
) -> None:
    raw("PUT", "/elsewhere", restype="container")
    ids = [base64.b64encode(f"{n:04d}".encode()).decode() for n in range(20)]
    for block_id in ids:
        raw("PUT", f"{container}/a", block_id.encode(), comp="block", blockid=block_id)
    document = "".join(f"<Latest>{block_id}</Latest>" for block_id in ids)
    raw("PUT", f"{container}/a", f"<BlockList>{document}</BlockList>", comp="blocklist")
    for path in (f"{container}/b", "/elsewhere/b"):
        assert copy(raw, path, url_of(server, raw, f"{container}/a")).status == 202
        assert raw("GET", path).body == "".join(ids).encode()
        listed = raw("GET", path, comp="blocklist")
        assert [listed.text.find(block_id) > 0 for block_id in ids] == [True] * 20
    raw("DELETE", f"{container}/a")
    server.clock.advance(3600)
    server.sweep()
    assert raw("GET", f"{container}/b").body == "".join(ids).encode()


def test_metadata_of_the_request_replaces_the_source_s(
    server: Server, raw: RawClient, container: str
) -> None:
    raw.put_blob(f"{container}/a", b"x", x_ms_meta_one="1")
    copy(raw, f"{container}/b", url_of(server, raw, f"{container}/a"), x_ms_meta_two="2")
    head = raw("HEAD", f"{container}/b")
    assert "x-ms-meta-one" not in head.headers
    assert head.headers["x-ms-meta-two"] == "2"
    raw("PUT", f"{container}/b", None, {"x-ms-meta-three": "3"}, comp="metadata")
    assert "x-ms-copy-id" not in raw("HEAD", f"{container}/b").headers


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ({"x-ms-source-if-match": '"0x1"'}, 412),
        ({"x-ms-source-if-none-match": "*"}, 412),
        ({"x-ms-source-if-unmodified-since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 412),
        ({"If-Match": '"0x1"'}, 412),
    ],
)
def test_conditions_of_source_and_destination(
    server: Server, raw: RawClient, container: str, condition: dict[str, str], status: int
) -> None:
    raw.put_blob(f"{container}/a", b"x")
    reply = copy(raw, f"{container}/b", url_of(server, raw, f"{container}/a"), **condition)
    assert reply.status == status
    assert raw("HEAD", f"{container}/b").status == 404


def test_a_sync_copy_answers_for_its_source(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"data")
    source = url_of(server, raw, f"{container}/a")
    done = copy(raw, f"{container}/b", source, x_ms_requires_sync="true")
    assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success")
    missing = copy(raw, f"{container}/c", url_of(server, raw, f"{container}/no"),
                   x_ms_requires_sync="true")  # fmt: skip
    assert (missing.status, missing.code) == (404, "CannotVerifyCopySource")
    private = copy(raw, f"{container}/c", f"{server.url}{container}/a", x_ms_requires_sync="true")
    assert (private.status, private.code) == (401, "CannotVerifyCopySource")
    assert private.headers["x-ms-copy-source-status-code"] == "401"
    assert private.headers["x-ms-copy-source-error-code"] == "NoAuthenticationInformation"


def test_put_blob_from_url(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", large, Content_Type="text/plain")
    source = url_of(server, raw, f"{container}/a")
    kind = {"x-ms-blob-type": "BlockBlob"}
    done = copy(raw, f"{container}/b", source, **kind)
    assert done.status == 201, done.text
    got = raw("GET", f"{container}/b")
    assert (got.body, got.headers["content-type"]) == (large, "text/plain")
    assert "x-ms-copy-id" not in got.headers
    again = copy(raw, f"{container}/b", source, **kind, **{"If-None-Match": "*"})
    assert (again.status, again.code) == (409, "BlobAlreadyExists")
    wrong = {"x-ms-source-content-md5": base64.b64encode(b"0" * 16).decode()}
    reply = copy(raw, f"{container}/c", source, **kind, **wrong)
    assert (reply.status, reply.code) == (400, "Md5Mismatch")


def test_put_block_from_url(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", large)
    headers = {
        "x-ms-copy-source": url_of(server, raw, f"{container}/a"),
        "x-ms-source-range": "bytes=1000-200999",
    }
    done = raw("PUT", f"{container}/b", None, headers, comp="block", blockid="AAAA")
    assert done.status == 201, done.text
    document = "<BlockList><Latest>AAAA</Latest></BlockList>"
    raw("PUT", f"{container}/b", document, comp="blocklist")
    assert raw("GET", f"{container}/b").body == large[1000:201_000]
    headers["x-ms-source-if-match"] = '"0x1"'
    refused = raw("PUT", f"{container}/b", None, headers, comp="block", blockid="AAAA")
    assert (refused.status, refused.code) == (412, "CannotVerifyCopySource")


def test_a_copy_from_elsewhere_goes_on_after_the_answer(
    server: Server, raw: RawClient, container: str, elsewhere: str
) -> None:
    path = f"{container}/b"
    started = copy(raw, path, f"{elsewhere}/slow")
    assert (started.status, started.headers["x-ms-copy-status"]) == (202, "pending")
    for refused in (
        raw.put_blob(path, b"x"),
        raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata"),
        raw("PUT", path, None, comp="snapshot"),
        raw("DELETE", path),
        raw("PUT", path, None, {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"},
            comp="lease"),
    ):  # fmt: skip
        assert (refused.status, refused.code) == (409, "PendingCopyOperation"), refused.text
    assert raw("GET", path).body == b""
    Elsewhere.release.set()
    done = settled(raw, path)
    assert done.headers["x-ms-copy-status"] == "success"
    assert done.etag != started.etag
    got = raw("GET", path)
    assert got.body == large
    assert got.headers["content-type"] == "image/png"
    assert got.headers["x-ms-meta-from"] == "elsewhere"


@pytest.mark.parametrize("page", ["/gone", "/AppendBlob?gone", "/PageBlob?gone"])
def test_a_copy_that_fails_says_so(
    raw: RawClient, container: str, elsewhere: str, page: str
) -> None:
    copy(raw, f"{container}/b", f"{elsewhere}{page}")
    head = settled(raw, f"{container}/b")
    assert head.headers["x-ms-copy-status"] == "failed"
    assert head.headers["x-ms-copy-status-description"]
    assert head.headers["content-length"] == "0"
    assert raw("DELETE", f"{container}/b").status == 202
    assert raw.put_blob(f"{container}/b", b"x").status == 201


@pytest.mark.parametrize(
    ("source", "status"), [("/none", 404), ("nowhere", 404), ("/PageBlob", 412)]
)
def test_a_source_that_cannot_be_had_makes_no_copy(
    raw: RawClient, container: str, elsewhere: str, source: str, status: int
) -> None:
    """It is asked before anything is changed, and its answer is the request's."""
    before = raw.put_blob(f"{container}/b", b"x")
    url = "http://127.0.0.1:1/x" if source == "nowhere" else f"{elsewhere}{source}"
    unmet = {"x_ms_source_if_match": '"0x1"'} if status == 412 else {}
    refused = copy(raw, f"{container}/b", url, **unmet)
    code = "SourceConditionNotMet" if unmet else "CannotVerifyCopySource"
    assert (refused.status, refused.code) == (status, code)
    assert raw("HEAD", f"{container}/b").etag == before.etag
    missing = copy(raw, "/not-there/b", url)
    assert (missing.status, missing.code) == (404, "ContainerNotFound")
    unmet = copy(raw, f"{container}/b", url, If_Match='"0x1"')
    assert (unmet.status, unmet.code) == (412, "ConditionNotMet")


@pytest.mark.parametrize("kind", sorted(typed))
def test_a_blob_that_is_elsewhere_keeps_its_type(
    raw: RawClient, container: str, elsewhere: str, kind: str
) -> None:
    path = f"{container}/b"
    assert copy(raw, path, f"{elsewhere}/{kind}").status == 202
    head = settled(raw, path)
    assert head.headers["x-ms-copy-status"] == "success"
    assert head.headers["x-ms-blob-type"] == kind
    assert head.headers["content-md5"] == md5_of(typed[kind])
    assert raw("GET", path).body == typed[kind]
    if kind == "AppendBlob":
        assert head.headers["x-ms-blob-sealed"] == "true"
        assert head.headers["x-ms-blob-committed-block-count"] == "1"
        assert copy(raw, path, f"{elsewhere}/{kind}", x_ms_seal_blob="false").status == 202
        assert "x-ms-blob-sealed" not in settled(raw, path).headers
        raw("PUT", path, b"more", comp="appendblock")
        assert raw("GET", path).body == large + b"more"
    else:
        assert head.headers["x-ms-blob-sequence-number"] == "7"
        ranges = raw("GET", path, comp="pagelist").text
        # The writes are of 4 MiB; of the third, which is zeros, nothing is stored.
        assert "<Start>4194304</Start><End>8388607</End>" in ranges
        assert ranges.count("<PageRange>") == 1
    other = copy(raw, path, f"{elsewhere}/page")
    assert (other.status, other.code) == (409, "InvalidBlobType")


def test_a_pending_page_blob_has_its_length_and_loses_it_when_aborted(
    raw: RawClient, container: str, elsewhere: str
) -> None:
    path = f"{container}/b"
    started = copy(raw, path, f"{elsewhere}/PageBlob?slow")
    head = raw("HEAD", path)
    assert head.headers["content-length"] == str(len(sparse))
    assert head.headers["x-ms-copy-progress"] == f"0/{len(sparse)}"
    query = {"comp": "copy", "copyid": started.headers["x-ms-copy-id"]}
    assert raw("PUT", path, None, {"x-ms-copy-action": "abort"}, **query).status == 204
    Elsewhere.release.set()
    assert raw("HEAD", path).headers["content-length"] == "0"
    assert raw("GET", path).body == b""


def test_two_names_of_this_machine_are_one_server(
    server: Server, raw: RawClient, container: str
) -> None:
    """A page blob's copy shares its pages, which a download of it would not."""
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"}
    raw("PUT", f"{container}/a", headers=disk)
    source = url_of(server, raw, f"{container}/a").replace("127.0.0.1", "localhost")
    done = copy(raw, f"{container}/b", source)
    assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success")


def test_a_pending_copy_is_aborted(
    server: Server, raw: RawClient, container: str, elsewhere: str
) -> None:
    path = f"{container}/b"
    started = copy(raw, path, f"{elsewhere}/slow", x_ms_meta_a="b")
    copy_id = started.headers["x-ms-copy-id"]
    action = {"x-ms-copy-action": "abort"}
    wrong = raw("PUT", path, None, action, comp="copy", copyid=copy_id[::-1])
    assert (wrong.status, wrong.code) == (409, "CopyIdMismatch")
    assert raw("PUT", path, None, action, comp="copy", copyid=copy_id).status == 204
    again = raw("PUT", path, None, action, comp="copy", copyid=copy_id)
    assert (again.status, again.code) == (409, "NoPendingCopyOperation")
    head = raw("HEAD", path)
    assert head.headers["x-ms-copy-status"] == "aborted"
    assert head.headers["x-ms-meta-a"] == "b"
    Elsewhere.release.set()
    time.sleep(0.2)
    assert raw("GET", path).body == b""


def test_a_sync_copy_from_elsewhere(raw: RawClient, container: str, elsewhere: str) -> None:
    done = copy(raw, f"{container}/b", f"{elsewhere}/page", x_ms_requires_sync="true")
    assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success")
    assert raw("GET", f"{container}/b").body == large
    missing = copy(raw, f"{container}/c", f"{elsewhere}/none", x_ms_requires_sync="true")
    assert (missing.status, missing.code) == (404, "CannotVerifyCopySource")
    assert missing.headers["x-ms-copy-source-status-code"] == "404"
    broken = copy(raw, f"{container}/c", f"{elsewhere}/gone", x_ms_requires_sync="true")
    assert (broken.status, broken.code) == (404, "CannotVerifyCopySource")


@pytest.mark.parametrize("kind", [{"x_ms_requires_sync": "true"}, {"x_ms_blob_type": "BlockBlob"}])
@pytest.mark.parametrize("remote", [False, True])
def test_digests_of_a_copy_s_source_are_compared(
    server: Server,
    raw: RawClient,
    container: str,
    elsewhere: str,
    kind: dict[str, str],
    *,
    remote: bool,
) -> None:
    """A source that is not what the client says it is, is not copied, and leaves nothing."""
    raw.put_blob(f"{container}/a", large)
    source = f"{elsewhere}/page" if remote else url_of(server, raw, f"{container}/a")
    md5 = base64.b64encode(hashlib.md5(large).digest()).decode()
    before = server.run(server.extents.usage()).extents
    for sent, code in (
        ({"x_ms_source_content_md5": "A" * 22 + "=="}, "Md5Mismatch"),
        ({"x_ms_source_content_md5": "nonsense"}, "InvalidMd5"),
        ({"x_ms_source_content_crc64": "A" * 11 + "="}, "Crc64Mismatch"),
    ):
        refused = copy(raw, f"{container}/b", source, **kind, **sent)
        assert (refused.status, refused.code) == (400, code)
        assert raw("HEAD", f"{container}/b").status == 404
    assert server.run(server.extents.usage()).extents == before
    done = copy(raw, f"{container}/b", source, **kind, x_ms_source_content_md5=md5)
    assert done.headers["content-md5"] == md5
    assert raw("GET", f"{container}/b").body == large


@pytest.mark.parametrize(
    ("sealed", "header", "becomes"),
    [
        (True, {}, True),
        (False, {}, False),
        (False, {"x_ms_seal_blob": "true"}, True),
        (True, {"x_ms_seal_blob": "true"}, True),
        (True, {"x_ms_seal_blob": "false"}, False),
    ],
)
def test_copies_of_sealed_blobs(
    server: Server,
    raw: RawClient,
    container: str,
    header: dict[str, str],
    *,
    sealed: bool,
    becomes: bool,
) -> None:
    """Seen on the live service: a copy is sealed as its source is, unless the request says."""
    path = f"{container}/a"
    raw("PUT", path, b"", {"x-ms-blob-type": "AppendBlob"})
    raw("PUT", path, b"one", comp="appendblock")
    if sealed:
        assert raw("PUT", path, b"", comp="seal").status == 200
    for target in (f"{container}/b", "/another/b"):
        raw("PUT", "/another", restype="container")
        assert copy(raw, target, url_of(server, raw, path), **header).status == 202
        assert (raw("HEAD", target).headers.get("x-ms-blob-sealed") == "true") is becomes
        appended = raw("PUT", target, b"two", comp="appendblock")
        assert appended.status == (409 if becomes else 201)


def test_only_append_blobs_are_sealed_by_copying(
    server: Server, raw: RawClient, container: str
) -> None:
    raw.put_blob(f"{container}/a")
    source = url_of(server, raw, f"{container}/a")
    refused = copy(raw, f"{container}/b", source, x_ms_seal_blob="true")
    assert (refused.status, refused.code) == (409, "InvalidBlobType")
    wrong = copy(raw, f"{container}/b", source, x_ms_seal_blob="perhaps")
    assert (wrong.status, wrong.code) == (400, "InvalidHeaderValue")


def test_the_sdk_copies_within_its_account(server: Server, container: str) -> None:
    with server.sdk() as client:
        things = client.get_container_client(container[1:])
        source = things.upload_blob("a", b"data")
        target = things.get_blob_client("b")
        assert target.start_copy_from_url(source.url)["copy_status"] == "success"
        assert target.download_blob().readall() == b"data"
        taken = source.create_snapshot()
        source.upload_blob(b"newer", overwrite=True)
        things.get_blob_client("a").start_copy_from_url(
            f"{source.url}?snapshot={taken['snapshot']}"
        )
        assert source.download_blob().readall() == b"data"
        with pytest.raises(HttpResponseError, match="CannotVerifyCopySource"):
            # Only Copy Blob takes the signature of the request for the source as well.
            target.start_copy_from_url(source.url, requires_sync=True)
        with pytest.raises(HttpResponseError, match="CannotVerifyCopySource"):
            target.upload_blob_from_url(source.url, overwrite=True)


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x/y", "http:///x"])
def test_impossible_sources(raw: RawClient, container: str, url: str) -> None:
    reply = copy(raw, f"{container}/b", url)
    assert reply.status == 400
    assert reply.code in ("InvalidHeaderValue", "MissingRequiredHeader")


def acquire(raw: RawClient, path: str, seconds: int = -1) -> dict[str, str]:
    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": str(seconds)}
    reply = raw("PUT", path, headers=headers, comp="lease")
    assert reply.status == 201, reply.text
    return {"x-ms-lease-id": reply.headers["x-ms-lease-id"]}


def test_leases_and_copies_that_take_time(raw: RawClient, container: str, elsewhere: str) -> None:
    """A pending copy needs a lease that does not end under it, and its id to be aborted; conditions
    are not looked at, and no ETag is returned."""
    path = f"{container}/b"
    raw.put_blob(path)
    finite = acquire(raw, path, 60)
    source = {"x-ms-copy-source": f"{elsewhere}/slow"}
    refused = raw("PUT", path, headers={**source, **finite})
    assert (refused.status, refused.code) == (412, "InfiniteLeaseDurationRequired")
    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    proposed = {"x-ms-proposed-lease-id": finite["x-ms-lease-id"]}
    assert raw("PUT", path, headers={**headers, **proposed}, comp="lease").status == 201
    assert raw("PUT", path, headers=source).code == "LeaseIdMissing"
    started = raw("PUT", path, headers={**source, **finite})
    assert (started.status, started.headers["x-ms-copy-status"]) == (202, "pending")
    query = {"comp": "copy", "copyid": started.headers["x-ms-copy-id"]}
    action = {"x-ms-copy-action": "abort"}
    for sent, code in (
        ({}, "LeaseIdMissing"),
        ({"x-ms-lease-id": "b" * 32}, "LeaseIdMismatchWithBlobOperation"),
    ):
        refused = raw("PUT", path, headers={**action, **sent}, **query)
        assert (refused.status, refused.code) == (412, code)
    wrong = {"If-Match": '"0x1"', "If-None-Match": started.etag}
    done = raw("PUT", path, headers={**action, **finite, **wrong}, **query)
    assert done.status == 204
    assert "etag" not in done.headers
    head = raw("HEAD", path)
    assert head.etag != started.etag
    assert head.headers["x-ms-lease-state"] == "leased"
    Elsewhere.release.set()


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("lease", True),
        ("block", True),
        ("snapshot", True),
        ("tags", True),
        ("tier", True),
        ("metadata", False),
        ("properties", False),
        ("blocklist", False),
        ("", False),
    ],
)
def test_what_a_blob_remembers_of_its_copy(
    server: Server, raw: RawClient, container: str, change: str, *, kept: bool
) -> None:
    path = f"{container}/b"
    raw.put_blob(f"{container}/a")
    done = copy(raw, path, url_of(server, raw, f"{container}/a"))
    headers = {
        "lease": {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "15"},
        "tier": {"x-ms-access-tier": "Cool"},
        "": {"x-ms-blob-type": "BlockBlob"},
    }.get(change, {})
    bodies = {
        "block": "x",
        "blocklist": "<BlockList/>",
        "tags": "<Tags><TagSet/></Tags>",
        "": "new",
    }
    query = {"comp": change} if change else {}
    if change == "block":
        query["blockid"] = "AAAA"
    assert raw("PUT", path, bodies.get(change), headers, **query).status < 300
    head = raw("HEAD", path).headers
    assert head.get("x-ms-copy-id") == (done.headers["x-ms-copy-id"] if kept else None)
    assert ("x-ms-copy-status" in head) == kept


def test_a_page_blob_remembers_its_copy_while_pages_are_written(
    server: Server, raw: RawClient, container: str
) -> None:
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"}
    raw("PUT", f"{container}/disk", headers=disk)
    copy(raw, f"{container}/b", url_of(server, raw, f"{container}/disk"))
    page = {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}
    assert raw("PUT", f"{container}/b", b"x" * 512, page, comp="page").status == 201
    assert "x-ms-copy-id" in raw("HEAD", f"{container}/b").headers
    raw("PUT", f"{container}/b", comp="metadata")
    assert "x-ms-copy-id" not in raw("HEAD", f"{container}/b").headers


def test_a_copy_does_not_change_a_blob_s_type(
    server: Server, raw: RawClient, container: str
) -> None:
    raw.put_blob(f"{container}/block")
    raw("PUT", f"{container}/append", headers={"x-ms-blob-type": "AppendBlob"})
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}
    raw("PUT", f"{container}/page", headers=disk)
    for source in ("block", "append", "page"):
        url = url_of(server, raw, f"{container}/{source}")
        for target in ("block", "append", "page"):
            reply = copy(raw, f"{container}/{target}", url)
            if source == target:
                assert reply.status == 202, reply.text
            else:
                assert (reply.status, reply.code) == (409, "InvalidBlobType")
        fresh = f"{container}/copy-of-{source}"
        assert copy(raw, fresh, url).status == 202
        kind = raw("HEAD", fresh).headers["x-ms-blob-type"]
        assert kind == source.capitalize() + "Blob"


def test_a_copy_onto_itself(server: Server, raw: RawClient, container: str) -> None:
    """Discards what is staged; a snapshot is promoted, and the snapshots stay."""
    path = f"{container}/a"
    raw.put_blob(path, b"old")
    taken = raw("PUT", path, comp="snapshot").headers["x-ms-snapshot"]
    raw.put_blob(path, b"new")
    raw("PUT", path, b"x", comp="block", blockid="AAAA")
    assert "AAAA" in raw("GET", path, comp="blocklist", blocklisttype="all").text
    assert copy(raw, path, url_of(server, raw, path)).status == 202
    assert "AAAA" not in raw("GET", path, comp="blocklist", blocklisttype="all").text
    assert raw("GET", path).body == b"new"
    source = f"{server.url}{path}?snapshot={taken}&{raw.sas}"
    assert copy(raw, path, source).status == 202
    assert raw("GET", path).body == b"old"
    assert raw("GET", path, snapshot=taken).body == b"old"
    fresh = f"{container}/b"
    assert copy(raw, fresh, url_of(server, raw, path)).status == 202
    listed = raw("GET", container, restype="container", comp="list", include="snapshots").text
    assert listed.count("<Name>a</Name>") == 2
    assert listed.count("<Name>b</Name>") == 1


@pytest.mark.parametrize("way", ["copy", "sync", "put"])
@pytest.mark.parametrize(
    ("headers", "tags"),
    [
        ({}, {}),
        ({"x_ms_tags": "own=1"}, {"own": "1"}),
        ({"x_ms_copy_source_tag_option": "REPLACE"}, {}),
        ({"x_ms_copy_source_tag_option": "COPY"}, {"k": "v"}),
    ],
)
def test_tags_of_copies(
    server: Server,
    raw: RawClient,
    container: str,
    way: str,
    headers: dict[str, str],
    tags: dict[str, str],
) -> None:
    raw.put_blob(f"{container}/a", b"x", x_ms_tags="k=v")
    ways = {
        "copy": {},
        "sync": {"x_ms_requires_sync": "true"},
        "put": {"x_ms_blob_type": "BlockBlob"},
    }
    source = url_of(server, raw, f"{container}/a")
    done = copy(raw, f"{container}/b", source, **ways[way], **headers)
    assert done.status < 300, done.text
    text = raw("GET", f"{container}/b", comp="tags").text
    assert dict(re.findall("<Key>(.*?)</Key><Value>(.*?)</Value>", text)) == tags


def test_a_pending_copy_goes_on_where_its_container_goes(
    server: Server, raw: RawClient, container: str, elsewhere: str
) -> None:
    started = copy(raw, f"{container}/b", f"{elsewhere}/slow")
    assert started.headers["x-ms-copy-status"] == "pending"
    server.clock.advance(5)
    headers = {"x-ms-source-container-name": container[1:]}
    assert raw("PUT", "/renamed", headers=headers, restype="container", comp="rename").status == 200
    assert raw.put_blob("/renamed/b").code == "PendingCopyOperation"
    Elsewhere.release.set()
    until = time.monotonic() + 20
    while raw("HEAD", "/renamed/b").headers["x-ms-copy-status"] == "pending":
        assert time.monotonic() < until
        server.sweep()
        time.sleep(0.05)
    assert raw("GET", "/renamed/b").body == large
    assert server.problems() == []


@pytest.mark.parametrize("kind", sorted(typed))
@pytest.mark.parametrize("changed", [False, True])
def test_a_copy_that_is_gone_on_with_wants_the_source_that_it_began_with(
    server: Server,
    raw: RawClient,
    container: str,
    elsewhere: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    changed: bool,
) -> None:
    """As it is after a restart: here the copy has lost sight of its blob."""
    copy(raw, f"{container}/b", f"{elsewhere}/{kind}?slow")
    server.clock.advance(5)
    headers = {"x-ms-source-container-name": container[1:]}
    raw("PUT", "/renamed", headers=headers, restype="container", comp="rename")
    if changed:
        monkeypatch.setattr(Elsewhere, "etag", '"another"')
    Elsewhere.release.set()
    until = time.monotonic() + 20
    while (head := raw("HEAD", "/renamed/b")).headers["x-ms-copy-status"] == "pending":
        assert time.monotonic() < until
        server.sweep()
        time.sleep(0.05)
    assert head.headers["x-ms-copy-status"] == ("failed" if changed else "success")
    assert raw("GET", "/renamed/b").body == (b"" if changed else typed[kind])
    assert server.problems() == []


def settled_by_sweeps(server: Server, raw: RawClient, path: str) -> Reply:
    until = time.monotonic() + 20
    while (head := raw("HEAD", path)).headers["x-ms-copy-status"] == "pending":
        assert time.monotonic() < until
        server.sweep()
        time.sleep(0.05)
    return head


@pytest.mark.parametrize("kind", sorted(typed))
def test_a_copy_whose_process_has_died_is_taken_over(
    server: Server, raw: RawClient, container: str, elsewhere: str, kind: str
) -> None:
    """As a worker's is, when another goes on: once its claim has lapsed, and not before."""
    path = f"{container}/b"
    started = copy(raw, path, f"{elsewhere}/{kind}?slow")
    copy_id = started.headers["x-ms-copy-id"]

    async def die() -> None:
        server.service.copying[copy_id].cancel()

    server.run(die())
    Elsewhere.release.set()
    server.sweep()
    assert copy_id not in server.service.copying
    assert raw("HEAD", path).headers["x-ms-copy-status"] == "pending"
    server.clock.advance(90)
    assert settled_by_sweeps(server, raw, path).headers["x-ms-copy-status"] == "success"
    assert raw("GET", path).body == typed[kind]


@pytest.mark.parametrize("ahead", [3600, -3600])
@pytest.mark.parametrize("kind", sorted(typed))
def test_a_process_that_was_given_up_wrongly_does_no_harm(
    server: Server, raw: RawClient, container: str, elsewhere: str, kind: str, ahead: int
) -> None:
    """Two processes are at one copy, of which one has taken it over: whatever each of them does,
    the blob becomes what the source is, and the first one's end is not the copy's."""
    path = f"{container}/b"
    started = copy(raw, path, f"{elsewhere}/{kind}?slow")
    copy_id = started.headers["x-ms-copy-id"]
    first = server.service.copying.pop(copy_id)
    server.clock.advance(ahead)
    server.sweep()
    assert server.service.copying[copy_id] is not first
    Elsewhere.release.set()
    assert settled_by_sweeps(server, raw, path).headers["x-ms-copy-status"] == "success"
    assert raw("GET", path).body == typed[kind]
    until = time.monotonic() + 20
    while not first.done():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert raw("GET", path).body == typed[kind]
    assert raw("HEAD", path).headers["x-ms-copy-status"] == "success"
    assert server.problems() == []


def test_put_blob_from_url_with_properties_or_without(
    server: Server, raw: RawClient, container: str
) -> None:
    raw.put_blob(f"{container}/a", b"x", Content_Type="text/plain", x_ms_meta_m="1")
    source = url_of(server, raw, f"{container}/a")
    for value, kind in (("true", "text/plain"), ("false", "application/octet-stream")):
        done = copy(
            raw,
            f"{container}/b",
            source,
            x_ms_blob_type="BlockBlob",
            x_ms_copy_source_blob_properties=value,
        )
        assert done.status == 201, done.text
        head = raw("HEAD", f"{container}/b").headers
        assert head["content-type"] == kind
        assert "x-ms-copy-id" not in head


def test_what_is_too_large_to_be_copied_is_not_read_for_its_digest(
    server: Server, raw: RawClient, container: str
) -> None:
    """Eight sparse terabytes would take hours."""
    sent = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(8 * 1024**4)}
    assert raw("PUT", f"{container}/disk", None, sent).status == 201
    source = {
        "x-ms-copy-source": f"{server.url}{container}/disk?{raw.sas}",
        "x-ms-source-content-md5": "A" * 22 + "==",
    }
    for how in ({"x-ms-requires-sync": "true"}, {"x-ms-blob-type": "BlockBlob"}):
        refused = raw("PUT", f"{container}/copy", None, source | how)
        assert (refused.status, refused.code) == (413, "RequestBodyTooLarge")
    assert raw("HEAD", f"{container}/copy").status == 404
