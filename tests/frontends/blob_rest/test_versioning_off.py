"""What becomes of versions after versioning was turned off (Azure: 'Blob versioning', 'Enable or
disable blob versioning')."""

import dataclasses
from collections.abc import Iterator

import pytest

from etagere.services.common.accounts import development_account

from .serving import RawClient, Reply, Server
from .test_history import entries, find, retain

path = "/things/a"


@pytest.fixture
def versioned() -> Iterator[tuple[Server, RawClient]]:
    server = Server(dataclasses.replace(development_account(), versioning=True))
    raw = RawClient(server.port)
    assert raw("PUT", "/things", restype="container").status == 201
    yield server, raw
    raw.close()
    server.stop()


def overwrite(raw: RawClient) -> Reply:
    return raw.put_blob(path, b"after")


def commit_no_blocks(raw: RawClient) -> Reply:
    return raw("PUT", path, "<BlockList />", comp="blocklist")


def set_metadata(raw: RawClient) -> Reply:
    return raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata")


def set_properties(raw: RawClient) -> Reply:
    return raw("PUT", path, None, {"x-ms-blob-content-type": "a/b"}, comp="properties")


@pytest.mark.parametrize("days", [0, 7])
@pytest.mark.parametrize(
    "change", [overwrite, commit_no_blocks, set_metadata, set_properties], ids=lambda f: f.__name__
)
def test_what_was_made_as_a_version_stays_one(versioned, change, days: int) -> None:
    """'Modifying the current version creates a blob that is not a version.  All subsequent updates
    to the blob will overwrite its data without saving the previous state.  All existing versions
    persist as previous versions.'"""
    server, raw = versioned
    ids = [
        raw.put_blob(path, data, x_ms_tags=f"n={data.decode()}").headers["x-ms-version-id"]
        for data in (b"1", b"2")
    ]
    retain(raw, days)
    server.change_account(versioning=False)
    assert raw("HEAD", path).headers["x-ms-version-id"] == ids[1]
    for _ in range(2):
        changed = change(raw)
        assert changed.status in (200, 201)
        assert "x-ms-version-id" not in changed.headers
        head = raw("HEAD", path)
        assert "x-ms-version-id" not in head.headers
        assert "x-ms-is-current-version" not in head.headers
        assert entries(raw, "versions") == [("a", "versionid"), ("a", "versionid"), ("a",)]
        assert [raw("GET", path, versionid=name).body for name in ids] == [b"1", b"2"]
        assert find(raw, "n = '2'", include="versions").count("things/a") >= 1
    assert raw("DELETE", path, versionid=ids[1]).status == 202
    assert raw("GET", path).status == 200
    assert raw("DELETE", path).status == 202
    assert entries(raw, "versions") == [("a", "versionid")]


@pytest.mark.parametrize("days", [0, 7])
def test_deleting_the_current_version_leaves_it_as_an_earlier_one(versioned, days: int) -> None:
    server, raw = versioned
    name = raw.put_blob(path, b"1" * 100_000).headers["x-ms-version-id"]
    retain(raw, days)
    server.change_account(versioning=False)
    deleted = raw("DELETE", path)
    assert deleted.status == 202
    assert deleted.headers["x-ms-delete-type-permanent"] == "false"
    assert raw("GET", path).code == "BlobNotFound"
    assert raw("GET", path, versionid=name).body == b"1" * 100_000
    assert entries(raw, "versions") == [("a", "versionid")]
    assert raw("DELETE", path, versionid=name).status == 202
    server.clock.advance(8 * 86_400)
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_a_snapshot_is_no_change_and_makes_no_version(versioned) -> None:
    server, raw = versioned
    name = raw.put_blob(path, b"1").headers["x-ms-version-id"]
    server.change_account(versioning=False)
    assert raw("PUT", path, None, comp="snapshot").status == 201
    assert raw("HEAD", path).headers["x-ms-version-id"] == name
    assert entries(raw, "versions") == [("a", "versionid", "iscurrentversion")]


def test_what_makes_no_versions_changes_the_version_that_is_there(versioned) -> None:
    """(Azure: 'Put Page' and the properties of page blobs make none while versioning is on.)"""
    server, raw = versioned
    headers = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}
    name = raw("PUT", path, None, headers).headers["x-ms-version-id"]
    server.change_account(versioning=False)
    larger = {"x-ms-blob-content-length": "1024"}
    assert raw("PUT", path, None, larger, comp="properties").status == 200
    head = raw("HEAD", path, versionid=name)
    assert head.headers["content-length"] == "1024"
    assert head.headers["x-ms-is-current-version"] == "true"


def test_turned_on_again(versioned) -> None:
    """The blob that was no version is kept as one when it is changed."""
    server, raw = versioned
    raw.put_blob(path, b"1")
    server.change_account(versioning=False)
    raw.put_blob(path, b"2")
    server.change_account(versioning=True)
    raw.put_blob(path, b"3")
    assert entries(raw, "versions") == [
        ("a", "versionid"),
        ("a", "versionid"),
        ("a", "versionid", "iscurrentversion"),
    ]
