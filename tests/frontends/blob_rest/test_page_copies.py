"""Copies of page blobs: maps of their own over the same bytes, built in steps."""

import base64
import hashlib

import pytest

from etagere.services.blob import page_copies

from .serving import RawClient, Reply, Server
from .test_page_blobs import chunk, clear, content, create, ranges, snapshot, write
from .together import at_once

large = hashlib.shake_128(b"large").digest(3 * chunk)
small = hashlib.shake_128(b"small").digest(1024)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_copies, "rows_per_step", 2)


@pytest.fixture
def disk(raw: RawClient, container: str) -> str:
    """With extents over several chunks, inline pieces, and pieces that were cut."""
    path = f"{container}/disk"
    made = create(raw, path, 16 * chunk, x_ms_blob_sequence_number="7", x_ms_meta_a="b")
    assert made.status == 201
    assert write(raw, path, chunk - 512, large).status == 201
    for number in (6, 8, 9, 12, 15):
        assert write(raw, path, number * chunk + 512, small).status == 201
    assert write(raw, path, 2 * chunk, small).status == 201
    assert clear(raw, path, 3 * chunk, 3 * chunk + 512).status == 201
    assert clear(raw, path, 9 * chunk + 512, 9 * chunk + 1024).status == 201
    return path


def copy(raw: RawClient, server: Server, source: str, path: str, **headers: str) -> Reply:
    mark = "&" if "?" in source else "?"
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{server.url}{source}{mark}{raw.sas}"
    return raw("PUT", path, None, {"x-ms-copy-source": url, **sent})


def is_like(raw: RawClient, path: str, source: str, **query: str) -> None:
    assert content(raw, path) == content(raw, source, **query)
    assert ranges(raw, path) == ranges(raw, source, **query)


def everything_goes(raw: RawClient, server: Server, *paths: str) -> None:
    for path in paths:
        gone = raw("DELETE", path, headers={"x-ms-delete-snapshots": "include"})
        assert gone.status == 202, gone.text
    for _ in range(3):
        server.clock.advance(3600)
        server.sweep()
    assert server.problems() == []
    assert server.run(server.extents.usage()).extents == 0


def test_a_copy_in_the_same_container(raw: RawClient, server: Server, disk: str) -> None:
    done = copy(raw, server, disk, "/things/copy")
    assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success"), done.text
    is_like(raw, "/things/copy", disk)
    head = raw("HEAD", "/things/copy")
    assert head.etag == done.etag
    assert head.headers["x-ms-blob-type"] == "PageBlob"
    assert head.headers["x-ms-blob-sequence-number"] == "7"
    assert head.headers["x-ms-meta-a"] == "b"
    assert head.headers["x-ms-copy-progress"] == f"{16 * chunk}/{16 * chunk}"
    assert server.run(server.extents.usage()).extents == 1
    assert server.problems() == []
    # From here on they are two.
    assert write(raw, disk, 0, b"1" * 512).status == 201
    assert write(raw, "/things/copy", 0, b"2" * 512).status == 201
    assert clear(raw, disk, chunk, 4 * chunk).status == 201
    body = content(raw, "/things/copy")
    assert body[:512] == b"2" * 512
    assert body[chunk : 2 * chunk] == large[512 : chunk + 512]
    assert raw("HEAD", "/things/copy").headers["x-ms-copy-status"] == "success"
    server.clock.advance(3600)
    server.sweep()
    assert content(raw, "/things/copy") == body
    everything_goes(raw, server, disk, "/things/copy")


def test_a_copy_into_another_container(raw: RawClient, server: Server, disk: str) -> None:
    assert raw("PUT", "/other", restype="container").status == 201
    assert copy(raw, server, disk, "/other/copy").status == 202
    is_like(raw, "/other/copy", disk)
    assert server.run(server.extents.usage()).extents == 1
    before = content(raw, "/other/copy")
    assert raw("DELETE", disk).status == 202
    server.clock.advance(3600)
    server.sweep()
    assert content(raw, "/other/copy") == before
    everything_goes(raw, server, "/other/copy")


def test_a_snapshot_put_back_in_place(raw: RawClient, server: Server, disk: str) -> None:
    taken = snapshot(raw, disk)
    before = content(raw, disk)
    assert clear(raw, disk, 0, 16 * chunk).status == 201
    assert write(raw, disk, 0, b"x" * 512).status == 201
    done = copy(raw, server, f"{disk}?snapshot={taken}", disk)
    assert done.status == 202, done.text
    assert content(raw, disk) == before
    server.clock.advance(3600)
    server.sweep()
    assert content(raw, disk) == before
    assert content(raw, disk, snapshot=taken) == before
    refused = raw("GET", disk, comp="pagelist", prevsnapshot=taken)
    assert (refused.status, refused.code) == (409, "BlobOverwritten")
    everything_goes(raw, server, disk)


def test_a_copy_onto_itself(raw: RawClient, server: Server, disk: str) -> None:
    before = content(raw, disk)
    assert copy(raw, server, disk, disk).status == 202
    assert content(raw, disk) == before
    everything_goes(raw, server, disk)


def test_an_empty_disk(raw: RawClient, server: Server, container: str) -> None:
    assert create(raw, f"{container}/a", 8 * 1024**4).status == 201
    assert copy(raw, server, f"{container}/a", f"{container}/b").status == 202
    assert raw("HEAD", f"{container}/b").headers["content-length"] == str(8 * 1024**4)
    assert ranges(raw, f"{container}/b") == []


def test_a_synchronous_copy(raw: RawClient, server: Server, disk: str) -> None:
    done = copy(raw, server, disk, "/things/copy", x_ms_requires_sync="true")
    assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success")
    is_like(raw, "/things/copy", disk)


def test_a_block_blob_of_a_disk(raw: RawClient, server: Server, disk: str) -> None:
    done = copy(raw, server, disk, "/things/block", x_ms_blob_type="BlockBlob")
    assert done.status == 201, done.text
    assert raw("HEAD", "/things/block").headers["x-ms-blob-type"] == "BlockBlob"
    assert content(raw, "/things/block") == content(raw, disk)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"If_Match": '"0x1"'}, 412, "ConditionNotMet"),
        ({"x_ms_source_if_match": '"0x1"'}, 412, "SourceConditionNotMet"),
        ({"x_ms_lease_id": "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"}, 412, ""),
    ],
)
def test_what_is_refused_leaves_nothing(
    raw: RawClient,
    server: Server,
    disk: str,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    assert create(raw, "/things/copy", 512).status == 201
    etag = raw("HEAD", "/things/copy").etag
    reply = copy(raw, server, disk, "/things/copy", **headers)
    assert (reply.status, reply.code) == (status, code or reply.code)
    assert raw("HEAD", "/things/copy").etag == etag
    assert server.problems() == []
    everything_goes(raw, server, disk, "/things/copy")


def test_other_types_stay_what_they_are(raw: RawClient, server: Server, disk: str) -> None:
    assert raw.put_blob("/things/block").status == 201
    onto_block = copy(raw, server, disk, "/things/block")
    assert (onto_block.status, onto_block.code) == (409, "InvalidBlobType")
    onto_disk = copy(raw, server, "/things/block", disk)
    assert (onto_disk.status, onto_disk.code) == (409, "InvalidBlobType")


def test_a_copy_under_another_key(raw: RawClient, server: Server, disk: str) -> None:
    """Encrypted otherwise: everything is read and written anew, zeros stay holes."""
    key = b"k" * 32
    sent = {
        "x_ms_encryption_key": base64.b64encode(key).decode(),
        "x_ms_encryption_key_sha256": base64.b64encode(hashlib.sha256(key).digest()).decode(),
        "x_ms_encryption_algorithm": "AES256",
    }
    done = copy(raw, server, disk, "/things/copy", **sent)
    assert done.status == 202, done.text
    with_key = {name.replace("_", "-"): value for name, value in sent.items()}
    got = raw("GET", "/things/copy", headers=with_key)
    assert got.body == content(raw, disk)
    listed = raw("GET", "/things/copy", headers=with_key, comp="pagelist")
    plain = raw("GET", disk, comp="pagelist")
    assert listed.text == plain.text
    scoped = copy(raw, server, disk, "/things/scoped", x_ms_encryption_scope="secret")
    assert scoped.status == 202, scoped.text
    assert content(raw, "/things/scoped") == content(raw, disk)
    assert raw("PUT", "/other", restype="container").status == 201
    again = copy(raw, server, "/things/scoped", "/other/scoped", x_ms_encryption_scope="secret")
    assert again.status == 202, again.text
    assert content(raw, "/other/scoped") == content(raw, disk)
    assert server.problems() == []


def test_a_copy_is_of_one_moment(raw: RawClient, server: Server, disk: str) -> None:
    """The source is written to while it is copied, all of it each time with one byte."""
    for start in range(0, 16 * chunk, chunk):
        assert write(raw, disk, start, bytes((1,)) * 512).status == 201

    def work(client: RawClient, number: int) -> None:
        if number == 0:
            for turn in range(2, 12):
                for start in range(0, 16 * chunk, chunk):
                    assert write(client, disk, start, bytes((turn,)) * 512).status == 201
            return
        for turn in range(6):
            path = f"/things/copy-{number}-{turn}"
            assert copy(client, server, disk, path).status == 202
            body = content(client, path)
            marks = [body[start] for start in range(0, 16 * chunk, chunk)]
            assert marks == sorted(marks, reverse=True)
            assert marks[0] - marks[-1] in (0, 1)

    at_once(server, 3, work)
    server.clock.advance(3600)
    server.sweep()
    assert server.problems() == []


def test_a_container_that_is_deleted_meanwhile(
    raw: RawClient, server: Server, disk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was built goes with it, and nothing comes after."""
    assert raw("PUT", "/other", restype="container").status == 201
    steps = 0
    step = page_copies._step

    async def interrupted(*arguments: object, **options: object) -> int | None:
        nonlocal steps
        steps += 1
        if steps == 3:
            await delete()
        return await step(*arguments, **options)

    async def delete() -> None:
        from etagere.services.blob import containers
        from etagere.services.blob.guard import unguarded

        where = containers.place(server.account.name, "other")
        await server.engine.write(
            (where.account_part, where.part),
            lambda tx: containers.delete(tx, where, unguarded),
        )

    monkeypatch.setattr(page_copies, "_step", interrupted)
    reply = copy(raw, server, disk, "/other/copy")
    assert (reply.status, reply.code) == (404, "ContainerNotFound")
    for _ in range(3):
        server.clock.advance(3600)
        server.sweep()
    assert server.problems() == []
    everything_goes(raw, server, disk)


# ---- incremental copies


def follow(
    raw: RawClient, server: Server, source: str, moment: str, path: str = "/things/copy"
) -> Reply:
    url = f"{server.url}{source}?{f'snapshot={moment}&' if moment else ''}{raw.sas}"
    return raw("PUT", path, None, {"x-ms-copy-source": url}, comp="incrementalcopy")


def test_following_a_blob_from_snapshot_to_snapshot(
    raw: RawClient, server: Server, disk: str
) -> None:
    path = "/things/copy"
    taken, copied = [], []
    for turn in range(3):
        assert write(raw, disk, turn * chunk, bytes((turn + 1,)) * 512).status == 201
        taken.append(snapshot(raw, disk))
        done = follow(raw, server, disk, taken[-1])
        assert (done.status, done.headers["x-ms-copy-status"]) == (202, "success"), done.text
        head = raw("HEAD", path)
        assert head.etag == done.etag
        assert head.headers["x-ms-incremental-copy"] == "true"
        copied.append(head.headers["x-ms-copy-destination-snapshot"])
    assert len(set(copied)) == 3
    for source, destination in zip(taken, copied, strict=True):
        assert content(raw, path, snapshot=destination) == content(raw, disk, snapshot=source)
        assert ranges(raw, path, snapshot=destination) == ranges(raw, disk, snapshot=source)
    listed = raw("GET", "/things", restype="container", comp="list", include="copy,snapshots").text
    assert listed.count("<IncrementalCopy>true</IncrementalCopy>") == 4
    assert f"<CopyDestinationSnapshot>{copied[-1]}</CopyDestinationSnapshot>" in listed
    between = raw("GET", path, comp="pagelist", snapshot=copied[1], prevsnapshot=copied[0])
    assert (between.status, between.code) == (409, "PreviousSnapshotOperationNotSupported")
    everything_goes(raw, server, disk, path)


def test_only_copies_write_to_what_follows(raw: RawClient, server: Server, disk: str) -> None:
    path = "/things/copy"
    assert follow(raw, server, disk, snapshot(raw, disk)).status == 202
    before = content(raw, path)
    for refused in (
        write(raw, path, 0, b"x" * 512),
        clear(raw, path, 0, 512),
        create(raw, path, 512),
        raw("PUT", path, comp="snapshot"),
        raw("PUT", path, None, {"x-ms-blob-content-length": "512"}, comp="properties"),
        copy(raw, server, disk, path),
    ):
        assert (refused.status, refused.code) == (409, "OperationNotAllowedOnIncrementalCopyBlob")
    assert raw("PUT", path, None, {"x-ms-meta-c": "d"}, comp="metadata").status == 200
    assert raw("HEAD", path).headers["x-ms-incremental-copy"] == "true"
    assert content(raw, path) == before
    assert follow(raw, server, disk, snapshot(raw, disk)).status == 202


def test_what_cannot_be_followed(raw: RawClient, server: Server, disk: str) -> None:
    first, second = snapshot(raw, disk), snapshot(raw, disk)
    other = "/things/other"
    assert create(raw, other, 512).status == 201
    others = snapshot(raw, other)
    assert raw.put_blob("/things/block").status == 201
    blocks = snapshot(raw, "/things/block")
    for source, moment, path, status, code in (
        (disk, "", "/things/copy", 409, "IncrementalCopySourceMustBeSnapshot"),
        (disk, "2001-01-01T00:00:00.0000000Z", "/things/copy", 404, "BlobNotFound"),
        ("/things/block", blocks, "/things/copy", 409, "InvalidSourceBlobType"),
        (disk, second, "/things/copy", 202, ""),
        (disk, second, "/things/copy", 409, "IncrementalCopyOfEarlierVersionSnapshotNotAllowed"),
        (disk, first, "/things/copy", 409, "IncrementalCopyOfEarlierVersionSnapshotNotAllowed"),
        (other, others, "/things/copy", 409, "IncrementalCopyBlobMismatch"),
        (disk, second, other, 409, "IncrementalCopyBlobMismatch"),
        (disk, second, "/things/block", 409, "InvalidBlobType"),
    ):
        reply = follow(raw, server, source, moment, path)
        assert (reply.status, reply.code) == (status, code)
    elsewhere = {"x-ms-copy-source": "http://elsewhere.invalid/c/b?snapshot=x"}
    reply = raw("PUT", "/things/far", None, elsewhere, comp="incrementalcopy")
    assert (reply.status, reply.code) == (409, "InvalidSourceBlobUrl")
    missing = raw("PUT", "/things/far", None, comp="incrementalcopy")
    assert (missing.status, missing.code) == (400, "MissingRequiredHeader")
    assert server.problems() == []
