"""Append blobs over HTTP: creating, appending at conditions, sealing, and many at once."""

import base64
import hashlib
import threading
from collections.abc import Iterator

import pytest
from awscrt.checksums import crc64nvme

from etagere.services.blob import append_blobs
from etagere.services.common.accounts import Account, development_account

from .serving import RawClient, Reply, Server
from .together import at_once

lease_id = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
other_id = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
old = "Mon, 01 Jan 2001 00:00:00 GMT"
new = "Fri, 31 Dec 2100 00:00:00 GMT"


def create(raw: RawClient, path: str, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw("PUT", path, b"", {"x-ms-blob-type": "AppendBlob", **sent})


def append(raw: RawClient, path: str, data: bytes, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw("PUT", path, data, sent, comp="appendblock")


def seal(raw: RawClient, path: str, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return raw("PUT", path, None, sent, comp="seal")


def content(raw: RawClient, path: str, **query: str) -> bytes:
    reply = raw("GET", path, **query)
    assert reply.status == 200, reply.text
    return reply.body


@pytest.fixture
def log(raw: RawClient, container: str) -> str:
    path = f"{container}/log"
    assert create(raw, path).status == 201
    return path


def test_creating_one_with_all_it_may_have(raw: RawClient, container: str) -> None:
    path = f"{container}/log"
    made = create(
        raw,
        path,
        x_ms_blob_content_type="text/plain",
        x_ms_blob_cache_control="no-cache",
        x_ms_meta_Color="red",
        x_ms_tags="kind=log",
    )
    assert made.status == 201
    assert made.headers["x-ms-request-server-encrypted"] == "true"
    head = raw("HEAD", path)
    assert head.etag == made.etag
    assert head.headers["x-ms-blob-type"] == "AppendBlob"
    assert head.headers["content-length"] == "0"
    assert head.headers["content-type"] == "text/plain"
    assert head.headers["cache-control"] == "no-cache"
    assert head.headers["x-ms-meta-color"] == "red"
    assert head.headers["x-ms-tag-count"] == "1"
    assert head.headers["x-ms-blob-committed-block-count"] == "0"
    assert "x-ms-blob-sealed" not in head.headers
    assert content(raw, path) == b""
    listed = raw("GET", container, restype="container", comp="list").text
    assert "<BlobType>AppendBlob</BlobType>" in listed


def test_a_body_cannot_come_with_the_creation(raw: RawClient, container: str) -> None:
    reply = raw("PUT", f"{container}/log", b"x", {"x-ms-blob-type": "AppendBlob"})
    assert (reply.status, reply.code) == (400, "InvalidHeaderValue")
    assert raw("HEAD", f"{container}/log").status == 404


def test_it_takes_versions_that_know_append_blobs(raw: RawClient, container: str) -> None:
    reply = create(raw, f"{container}/log", x_ms_version="2014-02-14")
    assert (reply.status, reply.code) == (400, "InvalidHeaderValue")


def test_appends_follow_each_other(raw: RawClient, log: str) -> None:
    etags = {raw("HEAD", log).etag}
    for number, (data, offset) in enumerate([(b"one", 0), (b"two", 3), (b"and three", 6)]):
        reply = append(raw, log, data)
        assert reply.status == 201, reply.text
        assert reply.headers["x-ms-blob-append-offset"] == str(offset)
        assert reply.headers["x-ms-blob-committed-block-count"] == str(number + 1)
        assert reply.headers["x-ms-request-server-encrypted"] == "true"
        crc64 = base64.b64encode(crc64nvme(data).to_bytes(8, "little")).decode()
        assert reply.headers["x-ms-content-crc64"] == crc64
        assert "content-md5" not in reply.headers
        etags.add(reply.etag)
        assert raw("HEAD", log).etag == reply.etag
    assert len(etags) == 4
    assert content(raw, log) == b"onetwoand three"
    ranged = raw("GET", log, headers={"x-ms-range": "bytes=2-6"})
    assert (ranged.status, ranged.body) == (206, b"etwoa")
    head = raw("HEAD", log)
    assert head.headers["x-ms-blob-committed-block-count"] == "3"
    assert head.headers["content-length"] == "15"


def test_digests_are_checked(raw: RawClient, log: str) -> None:
    md5 = base64.b64encode(hashlib.md5(b"data").digest()).decode()
    crc64 = base64.b64encode(crc64nvme(b"data").to_bytes(8, "little")).decode()
    done = append(raw, log, b"data", Content_MD5=md5)
    assert (done.status, done.headers["content-md5"]) == (201, md5)
    assert "x-ms-content-crc64" not in done.headers
    assert append(raw, log, b"data", x_ms_content_crc64=crc64).status == 201
    for headers, code in (
        ({"Content_MD5": md5}, "Md5Mismatch"),
        ({"x_ms_content_crc64": crc64}, "Crc64Mismatch"),
        ({"Content_MD5": "xx"}, "InvalidMd5"),
        ({"Content_MD5": md5, "x_ms_content_crc64": crc64}, "BothCrc64AndMd5HeaderPresent"),
    ):
        refused = append(raw, log, b"other", **headers)
        assert (refused.status, refused.code) == (400, code)
    assert content(raw, log) == b"datadata"


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 300_000])
def test_blocks_on_both_sides_of_the_border_to_extents(raw: RawClient, log: str, size: int) -> None:
    blocks = [hashlib.shake_128(bytes((n,))).digest(size) for n in range(5)]
    for block in blocks:
        assert append(raw, log, block).status == 201
    whole = b"".join(blocks)
    assert content(raw, log) == whole
    first, last = size // 2, 4 * size
    part = raw("GET", log, headers={"x-ms-range": f"bytes={first}-{last}"})
    assert part.body == whole[first : last + 1]


def test_many_small_blocks_are_read_in_steps(raw: RawClient, log: str) -> None:
    expected = b""
    for number in range(90):
        block = hashlib.shake_128(number.to_bytes(2, "big")).digest(20_000 + number)
        assert append(raw, log, block).status == 201
        expected += block
    assert content(raw, log) == expected
    part = raw("GET", log, headers={"x-ms-range": "bytes=1234567-"})
    assert part.body == expected[1234567:]


@pytest.mark.parametrize(
    ("version", "limit"), [("2022-11-02", 100 * 1024 * 1024), ("2021-12-02", 4 * 1024 * 1024)]
)
def test_how_large_a_block_may_be(raw: RawClient, log: str, version: str, limit: int) -> None:
    # Only announced: the server answers before it has read what is too long.
    refused = append(raw, log, b"", x_ms_version=version, Content_Length=str(limit + 1))
    assert (refused.status, refused.code) == (413, "RequestBodyTooLarge")
    assert f"<MaxLimit>{limit}</MaxLimit>" in refused.text


def test_a_block_of_four_mebibytes(raw: RawClient, log: str) -> None:
    data = hashlib.shake_128(b"large").digest(4 * 1024 * 1024)
    assert append(raw, log, data, x_ms_version="2020-10-02").status == 201
    assert content(raw, log) == data


def test_an_empty_block_is_refused(raw: RawClient, log: str) -> None:
    reply = append(raw, log, b"")
    assert (reply.status, reply.code) == (400, "InvalidHeaderValue")


def test_no_more_blocks_than_the_limit(
    raw: RawClient, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_blobs, "committed_blocks_max", 3)
    for _ in range(3):
        assert append(raw, log, b"x").status == 201
    refused = append(raw, log, b"x")
    assert (refused.status, refused.code) == (409, "BlockCountExceedsLimit")
    assert content(raw, log) == b"xxx"


def test_the_limit_is_fifty_thousand() -> None:
    assert append_blobs.committed_blocks_max == 50_000


# ---- conditions


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"x_ms_blob_condition_appendpos": "5"}, 201, ""),
        ({"x_ms_blob_condition_appendpos": "4"}, 412, "AppendPositionConditionNotMet"),
        ({"x_ms_blob_condition_appendpos": "6"}, 412, "AppendPositionConditionNotMet"),
        ({"x_ms_blob_condition_appendpos": "-1"}, 400, "InvalidHeaderValue"),
        ({"x_ms_blob_condition_appendpos": "five"}, 400, "InvalidHeaderValue"),
        ({"x_ms_blob_condition_maxsize": "8"}, 201, ""),
        ({"x_ms_blob_condition_maxsize": "7"}, 412, "MaxBlobSizeConditionNotMet"),
        ({"x_ms_blob_condition_maxsize": "3"}, 412, "MaxBlobSizeConditionNotMet"),
        ({"x_ms_blob_condition_maxsize": "1e3"}, 400, "InvalidHeaderValue"),
        ({"x_ms_blob_condition_appendpos": "5", "x_ms_blob_condition_maxsize": "8"}, 201, ""),
        (
            {"x_ms_blob_condition_appendpos": "0", "x_ms_blob_condition_maxsize": "1"},
            412,
            "AppendPositionConditionNotMet",
        ),
        ({"If_Match": '"0x1"'}, 412, "ConditionNotMet"),
        ({"If_Match": "*"}, 201, ""),
        ({"If_None_Match": "*"}, 412, "ConditionNotMet"),
        ({"If_None_Match": '"0x1"'}, 201, ""),
        ({"If_Modified_Since": new}, 412, "ConditionNotMet"),
        ({"If_Modified_Since": old}, 201, ""),
        ({"If_Unmodified_Since": old}, 412, "ConditionNotMet"),
        ({"If_Unmodified_Since": new}, 201, ""),
        ({"x_ms_if_tags": "kind = 'log'"}, 201, ""),
        ({"x_ms_if_tags": "kind = 'else'"}, 412, "ConditionNotMet"),
    ],
)
def test_conditions_of_an_append(
    raw: RawClient, container: str, headers: dict[str, str], status: int, code: str
) -> None:
    path = f"{container}/log"
    assert create(raw, path, x_ms_tags="kind=log").status == 201
    assert append(raw, path, b"12345").status == 201
    before = raw("HEAD", path).etag
    reply = append(raw, path, b"abc", **headers)
    assert (reply.status, reply.code) == (status, code)
    assert content(raw, path) == (b"12345abc" if status == 201 else b"12345")
    assert (raw("HEAD", path).etag == before) == (status != 201)


def test_appending_to_what_is_no_append_blob(raw: RawClient, container: str) -> None:
    missing = append(raw, f"{container}/none", b"x")
    assert (missing.status, missing.code) == (404, "BlobNotFound")
    assert raw.put_blob(f"{container}/block").status == 201
    wrong = append(raw, f"{container}/block", b"x")
    assert (wrong.status, wrong.code) == (409, "InvalidBlobType")
    assert seal(raw, f"{container}/block").code == "InvalidBlobType"
    assert seal(raw, f"{container}/none").code == "BlobNotFound"
    snapshot = append(raw, f"{container}/block", b"x")
    assert snapshot.status == 409


def test_a_snapshot_is_not_appended_to(raw: RawClient, log: str) -> None:
    taken = raw("PUT", log, comp="snapshot").headers["x-ms-snapshot"]
    reply = raw("PUT", log, b"x", comp="appendblock", snapshot=taken)
    assert (reply.status, reply.code) == (400, "InvalidQueryParameterValue")


def test_block_operations_on_an_append_blob(raw: RawClient, log: str) -> None:
    staged = raw("PUT", log, b"x", comp="block", blockid="AAAA")
    assert (staged.status, staged.code) == (409, "InvalidBlobType")
    committed = raw("PUT", log, "<BlockList/>", comp="blocklist")
    assert (committed.status, committed.code) == (409, "InvalidBlobType")
    assert raw("GET", log, comp="blocklist").code == "InvalidBlobType"
    assert raw.put_blob(log).code == "InvalidBlobType"


# ---- sealing


def test_a_sealed_blob_is_read_but_not_appended_to(raw: RawClient, log: str) -> None:
    assert append(raw, log, b"done").status == 201
    before = raw("HEAD", log).etag
    sealed = seal(raw, log)
    assert (sealed.status, sealed.headers["x-ms-blob-sealed"]) == (200, "true")
    assert sealed.etag != before
    head = raw("HEAD", log)
    assert (head.etag, head.headers["x-ms-blob-sealed"]) == (sealed.etag, "true")
    assert raw("GET", log).headers["x-ms-blob-sealed"] == "true"
    refused = append(raw, log, b"more")
    assert (refused.status, refused.code) == (409, "BlobIsSealed")
    again = seal(raw, log)
    assert (again.status, again.etag) == (200, sealed.etag)
    listed = raw("GET", log.rpartition("/")[0], restype="container", comp="list").text
    assert "<Sealed>true</Sealed>" in listed
    assert raw("PUT", log, None, {"x-ms-meta-a": "b"}, comp="metadata").status == 200
    assert append(raw, log, b"more").code == "BlobIsSealed"
    assert create(raw, log).status == 201
    assert append(raw, log, b"anew").status == 201
    assert content(raw, log) == b"anew"


def test_conditions_of_sealing(raw: RawClient, log: str) -> None:
    assert append(raw, log, b"four").status == 201
    wrong = seal(raw, log, x_ms_blob_condition_appendpos="3")
    assert (wrong.status, wrong.code) == (412, "AppendPositionConditionNotMet")
    assert seal(raw, log, If_Match='"0x1"').code == "ConditionNotMet"
    assert seal(raw, log, x_ms_blob_condition_appendpos="4").status == 200


# ---- leases


def test_leases_hold_back_appends_and_seals(raw: RawClient, server: Server, log: str) -> None:
    acquire = {
        "x-ms-lease-action": "acquire",
        "x-ms-lease-duration": "15",
        "x-ms-proposed-lease-id": lease_id,
    }
    assert append(raw, log, b"x", x_ms_lease_id=lease_id).code == "LeaseNotPresentWithBlobOperation"
    assert raw("PUT", log, None, acquire, comp="lease").status == 201
    for ask in (
        lambda **headers: append(raw, log, b"x", **headers),
        lambda **headers: create(raw, log, **headers),
        lambda **headers: seal(raw, log, **headers),
    ):
        missing = ask()
        assert (missing.status, missing.code) == (412, "LeaseIdMissing")
        wrong = ask(x_ms_lease_id=other_id)
        assert (wrong.status, wrong.code) == (412, "LeaseIdMismatchWithBlobOperation")
    assert create(raw, log, x_ms_lease_id=lease_id).status == 201
    assert append(raw, log, b"held", x_ms_lease_id=lease_id).status == 201
    server.clock.advance(16)
    lost = append(raw, log, b"x", x_ms_lease_id=lease_id)
    assert (lost.status, lost.code) == (412, "LeaseLost")
    assert append(raw, log, b"free").status == 201
    renewed = raw(
        "PUT", log, None, {"x-ms-lease-action": "renew", "x-ms-lease-id": lease_id}, comp="lease"
    )
    assert renewed.code == "LeaseIdMismatchWithLeaseOperation"
    assert content(raw, log) == b"heldfree"


# ---- what shares a list that grows


def take_snapshot(raw: RawClient, path: str) -> str:
    taken = raw("PUT", path, comp="snapshot")
    assert taken.status == 201, taken.text
    return taken.headers["x-ms-snapshot"]


def test_a_snapshot_does_not_see_later_appends(raw: RawClient, log: str) -> None:
    taken = []
    expected = []
    for number in range(6):
        taken.append(take_snapshot(raw, log))
        expected.append(content(raw, log))
        assert append(raw, log, f"<{number}>".encode()).status == 201
    for moment, was in zip(taken, expected, strict=True):
        assert content(raw, log, snapshot=moment) == was
        head = raw("HEAD", log, snapshot=moment)
        assert head.headers["content-length"] == str(len(was))
        assert head.headers["x-ms-blob-committed-block-count"] == str(len(was) // 3)
    assert content(raw, log) == b"<0><1><2><3><4><5>"


def test_a_snapshot_outlives_the_blob_and_its_list(
    raw: RawClient, server: Server, log: str
) -> None:
    large = hashlib.shake_128(b"l").digest(100_000)
    for block in (b"small", large):
        assert append(raw, log, block).status == 201
    taken = take_snapshot(raw, log)
    assert append(raw, log, large).status == 201
    assert create(raw, log).status == 201
    server.clock.advance(3600)
    server.sweep()
    assert content(raw, log) == b""
    assert content(raw, log, snapshot=taken) == b"small" + large
    assert append(raw, log, b"another life").status == 201
    assert raw("DELETE", log, headers={"x-ms-delete-snapshots": "only"}).status == 202
    server.clock.advance(3600)
    server.sweep()
    assert content(raw, log) == b"another life"
    assert raw("GET", log, snapshot=taken).status == 404
    server.clock.advance(100_000)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_a_copy_grows_apart_from_its_source(raw: RawClient, server: Server, log: str) -> None:
    for number in range(12):
        assert append(raw, log, f"<{number}>".encode()).status == 201
    taken = take_snapshot(raw, log)
    was = content(raw, log)
    assert append(raw, log, b"later").status == 201
    target = log + "-copy"
    source = f"{server.url}{log}?snapshot={taken}&{raw.sas}"
    copied = raw("PUT", target, None, {"x-ms-copy-source": source})
    assert copied.status == 202, copied.text
    assert content(raw, target) == was
    assert raw("HEAD", target).headers["x-ms-blob-committed-block-count"] == "12"
    done = append(raw, target, b"[apart]")
    assert done.headers["x-ms-blob-append-offset"] == str(len(was))
    assert done.headers["x-ms-blob-committed-block-count"] == "13"
    assert content(raw, target) == was + b"[apart]"
    assert content(raw, log) == was + b"later"
    assert content(raw, log, snapshot=taken) == was


def test_a_copy_of_few_blocks_grows(raw: RawClient, server: Server, log: str) -> None:
    assert append(raw, log, b"one").status == 201
    source = f"{server.url}{log}?{raw.sas}"
    assert raw("PUT", log + "2", None, {"x-ms-copy-source": source}).status == 202
    taken = take_snapshot(raw, log + "2")
    assert append(raw, log + "2", b"two").status == 201
    assert append(raw, log + "2", b"three").status == 201
    assert content(raw, log + "2") == b"onetwothree"
    assert content(raw, log + "2", snapshot=taken) == b"one"
    assert content(raw, log) == b"one"


@pytest.fixture
def versioned() -> Iterator[Server]:
    account = development_account()
    running = Server(Account(**{**_fields(account), "versioning": True}))
    yield running
    running.stop()


def _fields(account: Account) -> dict[str, object]:
    return {name: getattr(account, name) for name in account.__dataclass_fields__}


def test_versions_come_of_creation_and_metadata_only(versioned: Server) -> None:
    raw = RawClient(versioned.port)
    assert raw("PUT", "/things", restype="container").status == 201
    path = "/things/log"
    first = create(raw, path).headers["x-ms-version-id"]
    assert append(raw, path, b"a").status == 201
    assert raw("HEAD", path).headers["x-ms-version-id"] == first
    second = raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata").headers[
        "x-ms-version-id"
    ]
    assert second != first
    assert append(raw, path, b"b").status == 201
    assert seal(raw, path).status == 200
    assert raw("HEAD", path).headers["x-ms-version-id"] == second
    assert raw("PUT", path, None, comp="properties").status == 200
    assert raw("HEAD", path).headers["x-ms-version-id"] == second
    third = create(raw, path).headers["x-ms-version-id"]
    assert content(raw, path, versionid=first) == b"a"
    assert content(raw, path, versionid=second) == b"ab"
    assert content(raw, path, versionid=third) == b""
    listed = raw("GET", "/things", restype="container", comp="list", include="versions").text
    assert listed.count("<VersionId>") == 3
    raw.close()


# ---- many at once


def test_appenders_get_contiguous_offsets_of_their_own(server: Server, log: str) -> None:
    history: list[tuple[int, bytes, int]] = []

    def work(client: RawClient, number: int) -> None:
        for turn in range(12):
            data = f"<{number}:{turn}:{'x' * (number * 7 + turn)}>".encode()
            reply = append(client, log, data)
            assert reply.status == 201, reply.text
            offset = int(reply.headers["x-ms-blob-append-offset"])
            count = int(reply.headers["x-ms-blob-committed-block-count"])
            history.append((offset, data, count))

    at_once(server, 12, work)
    history.sort()
    assert len(history) == 144
    end = 0
    for position, (offset, data, count) in enumerate(history):
        assert offset == end
        assert count == position + 1
        end += len(data)
    raw = RawClient(server.port)
    assert content(raw, log) == b"".join(data for _, data, _ in history)
    raw.close()


def test_of_those_that_append_at_one_position_one_wins(server: Server, log: str) -> None:
    length = 0
    for turn in range(5):
        replies = _race(server, log, turn, length)
        won = [data for status, _, data in replies if status == 201]
        assert len(won) == 1
        lost = [(status, code) for status, code, _ in replies if status != 201]
        assert lost == [(412, "AppendPositionConditionNotMet")] * 9
        length += len(won[0])


def _race(server: Server, log: str, turn: int, position: int) -> list[tuple[int, str, bytes]]:
    replies: list[tuple[int, str, bytes]] = []

    def work(client: RawClient, number: int) -> None:
        data = f"<{turn}:{number}>".encode()
        reply = append(client, log, data, x_ms_blob_condition_appendpos=str(position))
        replies.append((reply.status, reply.code, data))

    at_once(server, 10, work)
    return replies


def test_of_those_that_match_one_etag_one_wins(server: Server, raw: RawClient, log: str) -> None:
    etag = raw("HEAD", log).etag
    statuses: list[int] = []
    at_once(
        server,
        10,
        lambda client, _: statuses.append(append(client, log, b"x", If_Match=etag).status),
    )
    assert sorted(statuses) == [201] + [412] * 9
    assert content(raw, log) == b"x"


def test_readers_see_whole_appends(server: Server, raw: RawClient, log: str) -> None:
    """Each append is a run of one letter of a known length: a reader never finds part of one."""
    stop = threading.Event()
    seen: list[int] = []

    def work(client: RawClient, number: int) -> None:
        if number < 4:
            for turn in range(15):
                letter = bytes((97 + (number * 15 + turn) % 26,))
                assert append(client, log, letter * 1000).status == 201
            if number == 0:
                stop.set()
            return
        while not stop.is_set():
            body = content(client, log)
            assert len(body) % 1000 == 0
            for at in range(0, len(body), 1000):
                assert body[at : at + 1000] == body[at : at + 1] * 1000
            seen.append(len(body))

    at_once(server, 6, work)
    assert seen
    assert len(content(raw, log)) == 60_000
