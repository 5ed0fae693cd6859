"""Snapshots, versions, soft delete and index tags over HTTP."""

import dataclasses
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from etagere.services.common.accounts import development_account

from .serving import RawClient, Reply, Server

lease_id = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


@pytest.fixture
def versioned() -> Iterator[tuple[Server, RawClient]]:
    server = Server(dataclasses.replace(development_account(), versioning=True))
    raw = RawClient(server.port)
    assert raw("PUT", "/things", restype="container").status == 201
    yield server, raw
    raw.close()
    server.stop()


def retain(raw: RawClient, days: int, more: str = "") -> None:
    inner = f"<Enabled>true</Enabled><Days>{days}</Days>" if days else "<Enabled>false</Enabled>"
    inner += more
    body = (
        f"<StorageServiceProperties><DeleteRetentionPolicy>{inner}</DeleteRetentionPolicy>"
        "</StorageServiceProperties>"
    )
    assert raw("PUT", "/", body, restype="service", comp="properties").status == 202


def entries(raw: RawClient, include: str) -> list[tuple[str, ...]]:
    """(name, what it is...) of each entry of a listing."""
    reply = raw("GET", "/things", restype="container", comp="list", include=include)
    found = []
    for item in ET.fromstring(reply.body).find("Blobs"):
        kinds = [
            tag.lower()
            for tag in ("Deleted", "Snapshot", "VersionId", "IsCurrentVersion")
            if item.find(tag) is not None
        ]
        found.append((item.findtext("Name"), *kinds))
    return found


def take(raw: RawClient, path: str, **headers: str) -> str:
    reply = raw("PUT", path, None, headers, comp="snapshot")
    assert reply.status == 201, reply.text
    return reply.headers["x-ms-snapshot"]


# ---- snapshots


@pytest.mark.parametrize("size", [3, 100_000])
def test_a_snapshot_stays_as_it_was(
    server: Server, raw: RawClient, container: str, size: int
) -> None:
    path = f"{container}/a"
    put = raw.put_blob(path, b"o" * size, x_ms_meta_a="1")
    extents = server.run(server.extents.usage()).extents
    first = take(raw, path)
    assert server.run(server.extents.usage()).extents == extents
    raw.put_blob(path, b"n" * size)
    got = raw("GET", path, snapshot=first)
    assert (got.body, got.etag) == (b"o" * size, put.etag)
    assert got.headers["x-ms-meta-a"] == "1"
    assert "x-ms-lease-state" not in got.headers
    assert raw("GET", path).body == b"n" * size
    other = take(raw, path, **{"x-ms-meta-b": "2"})
    head = raw("HEAD", path, snapshot=other)
    assert head.headers["x-ms-meta-b"] == "2"
    assert head.etag != raw("HEAD", path).etag


def test_snapshots_in_one_tick_have_names_of_their_own(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    assert len({take(raw, f"{container}/a") for _ in range(20)}) == 20


def test_snapshots_hold_deletion_back(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"x" * 100_000)
    first, second = take(raw, path), take(raw, path)
    refused = raw("DELETE", path)
    assert (refused.status, refused.code) == (409, "SnapshotsPresent")
    both = raw("DELETE", path, headers={"x-ms-delete-snapshots": "include"}, snapshot=first)
    assert (both.status, both.code) == (400, "InvalidOperation")
    assert raw("DELETE", path, snapshot=first).status == 202
    assert raw("GET", path, snapshot=first).code == "BlobNotFound"
    assert raw("DELETE", path, headers={"x-ms-delete-snapshots": "only"}).status == 202
    assert raw("GET", path, snapshot=second).code == "BlobNotFound"
    take(raw, path)
    assert raw("DELETE", path, headers={"x-ms-delete-snapshots": "include"}).status == 202
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_a_lease_does_not_hold_a_snapshot_back(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path)
    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1",
               "x-ms-proposed-lease-id": lease_id}  # fmt: skip
    raw("PUT", path, None, headers, comp="lease")
    take(raw, path)
    take(raw, path, **{"x-ms-lease-id": lease_id})
    wrong = raw("PUT", path, None, {"x-ms-lease-id": lease_id.replace("a", "b")}, comp="snapshot")
    assert wrong.status == 412
    none = raw("PUT", f"{container}/none", None, {"x-ms-lease-id": lease_id}, comp="snapshot")
    assert (none.status, none.code) == (404, "BlobNotFound")


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("nonsense", 400, "InvalidQueryParameterValue"),
        ("2020-13-01T00:00:00.0000000Z", 400, "InvalidQueryParameterValue"),
        ("2020-01-01T00:00:00.0000000Z", 404, "BlobNotFound"),
    ],
)
def test_snapshots_that_are_none(
    raw: RawClient, container: str, name: str, status: int, code: str
) -> None:
    raw.put_blob(f"{container}/a")
    reply = raw("GET", f"{container}/a", snapshot=name)
    assert (reply.status, reply.code) == (status, code)


@pytest.mark.parametrize("comp", ["metadata", "properties", "lease", "snapshot", "block"])
def test_snapshots_are_not_written_to(raw: RawClient, container: str, comp: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path)
    name = take(raw, path)
    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    reply = raw("PUT", path, b"x", headers, comp=comp, snapshot=name, blockid="AAAA")
    assert reply.status == 400


# ---- versions


def test_every_write_of_a_versioned_blob_makes_a_version(versioned) -> None:
    _, raw = versioned
    path = "/things/a"
    ids = [raw.put_blob(path, str(n).encode()).headers["x-ms-version-id"] for n in range(3)]
    ids.append(
        raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata").headers["x-ms-version-id"]
    )
    assert ids == sorted(set(ids))
    assert [raw("GET", path, versionid=name).body for name in ids] == [b"0", b"1", b"2", b"2"]
    assert raw("HEAD", path).headers["x-ms-version-id"] == ids[-1]
    current = [raw("HEAD", path, versionid=name) for name in ids] + [raw("GET", path)]
    shown = [reply.headers.get("x-ms-is-current-version") for reply in current]
    assert shown == [None, None, None, "true", "true"]
    kinds = [entry[1:] for entry in entries(raw, "versions")]
    assert kinds == [("versionid",)] * 3 + [("versionid", "iscurrentversion")]
    assert raw("DELETE", path).status == 202
    assert raw("GET", path).code == "BlobNotFound"
    assert raw("GET", path, versionid=ids[-1]).body == b"2"
    assert [entry[1:] for entry in entries(raw, "versions")] == [("versionid",)] * 4
    assert entries(raw, "metadata") == []


def test_versions_are_deleted_by_name(versioned) -> None:
    server, raw = versioned
    first = raw.put_blob("/things/a", b"x" * 100_000).headers["x-ms-version-id"]
    second = raw.put_blob("/things/a", b"y").headers["x-ms-version-id"]
    refused = raw("DELETE", "/things/a", versionid=second)
    assert (refused.status, refused.code) == (409, "OperationNotAllowedOnRootBlob")
    assert raw("DELETE", "/things/a", versionid=first).status == 202
    assert raw("GET", "/things/a", versionid=first).code == "BlobNotFound"
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_deleted_versions_are_listed_in_their_places(versioned) -> None:
    _, raw = versioned
    retain(raw, 7)
    ids = [raw.put_blob("/things/a", b"x").headers["x-ms-version-id"] for _ in range(4)]
    for name in (ids[2], ids[0]):
        assert raw("DELETE", "/things/a", versionid=name).status == 202

    def listed(**query: object) -> list[str]:
        found: list[str] = []
        at = {}
        while True:
            reply = raw("GET", "/things", restype="container", comp="list", **query, **at)
            root = ET.fromstring(reply.body)
            found += [item.findtext("VersionId") for item in root.find("Blobs")]
            at = {"marker": root.findtext("NextMarker") or ""}
            if not at["marker"]:
                return found

    assert listed(include="versions,deleted") == ids
    assert listed(include="versions,deleted", maxresults=1) == ids
    assert listed(include="versions") == [ids[1], ids[3]]
    assert raw("PUT", "/things/a", comp="undelete").status == 200
    assert listed(include="versions") == ids
    assert raw("DELETE", "/things/a").status == 202
    assert listed(include="versions") == ids


def test_versions_are_named_in_every_listing(versioned) -> None:
    """The live service names the current version whether or not versions are asked for."""
    _, raw = versioned
    version = raw.put_blob("/things/a").headers["x-ms-version-id"]
    root = ET.fromstring(raw("GET", "/things", restype="container", comp="list").body)
    assert root.findtext("Blobs/Blob/VersionId") == version
    assert root.findtext("Blobs/Blob/IsCurrentVersion") == "true"


def test_names_that_have_only_versions_are_listed_on_request(versioned) -> None:
    """include=deletedwithversions: one entry stands for a name without a current blob."""
    _, raw = versioned
    for name in ("a", "b", "d/1", "d/2", "e"):
        for content in (b"1", b"last"):
            raw.put_blob(f"/things/{name}", content)
    for name in ("b", "d/1", "e"):
        raw("DELETE", f"/things/{name}")

    def listed(include: str = "deletedwithversions", **query: object) -> list[tuple[str, bool]]:
        found, at = [], ""
        while True:
            more = {"marker": at} if at else {}
            reply = raw("GET", "/things", restype="container", comp="list", include=include,
                        **query, **more)  # fmt: skip
            root = ET.fromstring(reply.body)
            for item in root.find("Blobs"):
                rootless = item.findtext("HasVersionsOnly") == "true"
                found.append((item.findtext("Name"), rootless))
                if rootless:
                    assert item.findtext("Properties/Content-Length") == "4"
                    assert item.find("VersionId") is None
            at = root.findtext("NextMarker")
            if not at:
                return found

    expected = [("a", False), ("b", True), ("d/1", True), ("d/2", False), ("e", True)]
    assert listed() == expected
    assert [listed(maxresults=size) for size in (1, 2, 3)] == [expected] * 3
    assert listed(delimiter="/") == [("a", False), ("b", True), ("d/", False), ("e", True)]
    assert listed(prefix="d/") == expected[2:4]
    assert listed("deleted") == [("a", False), ("d/2", False)]
    assert listed("deletedwithversions,versions", prefix="b", maxresults=1) == [
        ("b", False), ("b", False), ("b", True)
    ]  # fmt: skip


def test_names_whose_versions_are_all_deleted_are_listed_while_they_are_kept(versioned) -> None:
    server, raw = versioned
    retain(raw, 2)
    version = raw.put_blob("/things/a").headers["x-ms-version-id"]
    raw("DELETE", "/things/a")
    assert raw("DELETE", "/things/a", versionid=version).status == 202

    def listed() -> int:
        query = {"restype": "container", "comp": "list", "include": "deletedwithversions"}
        return raw("GET", "/things", **query).text.count("<HasVersionsOnly>true<")

    assert listed() == 1
    server.clock.advance(2 * 86_400)
    assert listed() == 0


def test_a_version_is_promoted_by_copying_it(versioned) -> None:
    server, raw = versioned
    first = raw.put_blob("/things/a", b"old").headers["x-ms-version-id"]
    raw.put_blob("/things/a", b"new")
    source = f"{server.url}/things/a?versionid={first}&{raw.sas}"
    assert raw("PUT", "/things/a", None, {"x-ms-copy-source": source}).status == 202
    assert raw("GET", "/things/a").body == b"old"


# ---- soft delete


def test_deleted_and_restored(server: Server, raw: RawClient, container: str) -> None:
    retain(raw, 7)
    path = f"{container}/a"
    raw.put_blob(path, b"x" * 100_000)
    take(raw, path)
    gone = raw("DELETE", path, headers={"x-ms-delete-snapshots": "include"})
    assert gone.headers["x-ms-delete-type-permanent"] == "false"
    assert raw("GET", path).code == "BlobNotFound"
    assert entries(raw, "deleted,snapshots") == [("a", "deleted", "snapshot"), ("a", "deleted")]
    assert entries(raw, "snapshots") == []
    assert raw("PUT", path, comp="undelete").status == 200
    assert raw("GET", path).body == b"x" * 100_000
    assert entries(raw, "deleted,snapshots") == [("a", "snapshot"), ("a",)]
    raw("DELETE", path, headers={"x-ms-delete-snapshots": "include"})
    server.clock.advance(7 * 86_400 - 60)
    server.sweep()
    assert len(entries(raw, "deleted,snapshots")) == 2
    server.clock.advance(120)
    server.sweep()
    assert entries(raw, "deleted,snapshots") == []
    assert raw("PUT", path, comp="undelete").code == "BlobNotFound"
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_what_is_overwritten_becomes_a_deleted_snapshot(raw: RawClient, container: str) -> None:
    retain(raw, 1)
    path = f"{container}/a"
    raw.put_blob(path, b"one")
    raw.put_blob(path, b"two")
    assert entries(raw, "deleted,snapshots") == [("a", "deleted", "snapshot"), ("a",)]
    assert raw("PUT", path, comp="undelete").status == 200
    reply = raw("GET", container, restype="container", comp="list", include="snapshots")
    name = ET.fromstring(reply.body).findtext("Blobs/Blob/Snapshot")
    assert raw("GET", path, snapshot=name).body == b"one"
    assert raw("GET", path).body == b"two"


def test_a_name_taken_anew_keeps_the_deleted_one_as_a_snapshot(
    raw: RawClient, container: str
) -> None:
    retain(raw, 1)
    path = f"{container}/a"
    raw.put_blob(path, b"one")
    raw("DELETE", path)
    raw.put_blob(path, b"two")
    raw("PUT", path, comp="undelete")
    assert entries(raw, "snapshots") == [("a", "snapshot"), ("a",)]
    assert raw("GET", path).body == b"two"


def test_without_retention_deleting_is_for_good(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    gone = raw("DELETE", f"{container}/a")
    assert gone.headers["x-ms-delete-type-permanent"] == "true"
    assert raw("PUT", f"{container}/a", comp="undelete").code == "BlobNotFound"
    raw.put_blob(f"{container}/b")
    assert raw("PUT", f"{container}/b", comp="undelete").status == 200


@pytest.mark.parametrize("by_account", [True, False])
def test_permanent_deletion(*, by_account: bool) -> None:
    """It is allowed by the account's settings, or by the service's properties."""
    server = Server(dataclasses.replace(development_account(), permanent_delete=by_account))
    raw = RawClient(server.port)
    raw("PUT", "/things", restype="container")
    retain(raw, 7, "" if by_account else "<AllowPermanentDelete>true</AllowPermanentDelete>")
    raw.put_blob("/things/a", b"x")
    name = take(raw, "/things/a")
    early = raw("DELETE", "/things/a", deletetype="permanent", snapshot=name)
    assert early.status == 409
    raw("DELETE", "/things/a", snapshot=name)
    assert entries(raw, "deleted,snapshots")[0] == ("a", "deleted", "snapshot")
    assert raw("DELETE", "/things/a", deletetype="permanent", snapshot=name).status == 202
    assert entries(raw, "deleted,snapshots") == [("a",)]
    raw.close()
    server.stop()


# ---- tags


def tags_of(reply: Reply) -> dict[str, str]:
    root = ET.fromstring(reply.body)
    return {tag.findtext("Key"): tag.findtext("Value") for tag in root.iter("Tag")}


def set_tags(raw: RawClient, path: str, tags: dict[str, str], **headers: str) -> Reply:
    inner = "".join(f"<Tag><Key>{k}</Key><Value>{v}</Value></Tag>" for k, v in tags.items())
    body = f"<Tags><TagSet>{inner}</TagSet></Tags>"
    return raw("PUT", path, body, headers, comp="tags")


def find(raw: RawClient, where: str, path: str = "/", **query: object) -> list[str]:
    reply = raw("GET", path, comp="blobs", where=where, **query)
    assert reply.status == 200, reply.text
    root = ET.fromstring(reply.body)
    return [
        blob.findtext("ContainerName") + "/" + blob.findtext("Name") for blob in root.iter("Blob")
    ]


def test_tags_are_set_without_changing_the_etag(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    put = raw.put_blob(path, b"", x_ms_tags="a=1&b=two%20words")
    assert tags_of(raw("GET", path, comp="tags")) == {"a": "1", "b": "two words"}
    assert set_tags(raw, path, {"c": "3"}).status == 204
    assert tags_of(raw("GET", path, comp="tags")) == {"c": "3"}
    head = raw("HEAD", path)
    assert (head.etag, head.headers["x-ms-tag-count"]) == (put.etag, "1")
    raw.put_blob(path, b"")
    assert tags_of(raw("GET", path, comp="tags")) == {}


def test_tag_conditions(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"", x_ms_tags="a=1")
    held = {"x-ms-if-tags": "\"a\" = '1'"}
    failed = {"x-ms-if-tags": "\"a\" = '2'"}
    assert raw("GET", path, headers=held).status == 200
    refused = raw("GET", path, headers=failed)
    assert (refused.status, refused.code) == (412, "ConditionNotMet")
    assert raw("PUT", path, None, {**failed, "x-ms-meta-a": "b"}, comp="metadata").status == 412
    assert set_tags(raw, path, {"a": "2"}, **failed).status == 412
    assert set_tags(raw, path, {"a": "2"}, **held).status == 204
    odd = raw("GET", path, headers={"x-ms-if-tags": "a = "})
    assert (odd.status, odd.code) == (400, "InvalidHeaderValue")


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ({f"k{n}": "v" for n in range(11)}, "TagsTooLarge"),
        ({"": "v"}, "EmptyTagName"),
        ({"k" * 129: "v"}, "TagsTooLarge"),
        ({"k": "v" * 257}, "TagsTooLarge"),
        ({"k!": "v"}, "InvalidTag"),
    ],
)
def test_tags_that_are_none(
    raw: RawClient, container: str, tags: dict[str, str], code: str
) -> None:
    raw.put_blob(f"{container}/a", b"", x_ms_tags="a=1")
    reply = set_tags(raw, f"{container}/a", tags)
    assert (reply.status, reply.code) == (400, code)
    assert tags_of(raw("GET", f"{container}/a", comp="tags")) == {"a": "1"}


def test_finding_by_tags(raw: RawClient, container: str) -> None:
    raw("PUT", "/other", restype="container")
    for number in range(12):
        where = "/other" if number % 3 == 0 else container
        raw.put_blob(
            f"{where}/{number:02d}", b"", x_ms_tags=f"n={number:02d}&even={number % 2 == 0}"
        )
    assert find(raw, "n = '05'") == ["things/05"]
    assert find(raw, "n >= '09' AND n < '11'") == ["other/09", "things/10"]
    assert find(raw, "even = 'True' AND n > '03'") == [
        "other/06",
        "things/04",
        "things/08",
        "things/10",
    ]
    assert find(raw, "@container = 'other' AND even = 'False'") == ["other/03", "other/09"]
    assert find(raw, "even = 'True'", "/other", restype="container") == ["other/00", "other/06"]
    assert find(raw, "n = '99'") == []
    found, marker = [], ""
    while True:
        query = {"marker": marker} if marker else {}
        reply = raw("GET", "/", comp="blobs", where="n >= '00'", maxresults=5, **query)
        root = ET.fromstring(reply.body)
        found += [blob.findtext("Name") for blob in root.iter("Blob")]
        marker = root.findtext("NextMarker")
        if not marker:
            break
    assert sorted(found) == [f"{number:02d}" for number in range(12)]
    set_tags(raw, f"{container}/05", {"n": "50"})
    raw("DELETE", f"{container}/04")
    assert find(raw, "n = '05'") == find(raw, "n = '04'") == []
    assert find(raw, "n = '50'") == ["things/05"]
    for bad in ("n <> '5'", "n = '5' OR n = '6'", "", "@container = 'x'"):
        reply = raw("GET", "/", comp="blobs", where=bad)
        assert reply.status == 400


# ---- containers


def test_a_deleted_container_is_restored_while_it_is_retained() -> None:
    account = dataclasses.replace(development_account(), container_soft_delete_days=2)
    server = Server(account)
    raw = RawClient(server.port)
    raw("PUT", "/things", restype="container")
    raw.put_blob("/things/a", b"x" * 100_000)

    def deleted() -> tuple[str | None, str | None]:
        reply = raw("GET", "/", comp="list", include="deleted")
        item = ET.fromstring(reply.body).find("Containers/Container")
        return (
            (None, None) if item is None else (item.findtext("Deleted"), item.findtext("Version"))
        )

    assert raw("DELETE", "/things", restype="container").status == 202
    assert raw("GET", "/things/a").code == "ContainerNotFound"
    assert raw("GET", "/", comp="list").text.count("<Container>") == 0
    flag, version = deleted()
    assert flag == "true"
    headers = {
        "x-ms-deleted-container-name": "things",
        "x-ms-deleted-container-version": version,
    }
    query = {"restype": "container", "comp": "undelete"}
    wrong = {**headers, "x-ms-deleted-container-version": "01"}
    assert raw("PUT", "/things", None, wrong, **query).code == "ContainerNotFound"
    assert raw("PUT", "/things", None, headers, **query).status == 201
    assert raw("GET", "/things/a").body == b"x" * 100_000
    raw("DELETE", "/things", restype="container")
    raw("PUT", "/things", restype="container")
    _, version = deleted()
    headers["x-ms-deleted-container-version"] = version
    taken = raw("PUT", "/things", None, headers, **query)
    assert (taken.status, taken.code) == (409, "ContainerAlreadyExists")
    server.clock.advance(3 * 86_400)
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert deleted()[0] is None
    assert server.run(server.extents.usage()).extents == 0
    raw.close()
    server.stop()


def test_pages_of_deleted_containers_tell_namesakes_apart() -> None:
    server = Server(dataclasses.replace(development_account(), container_soft_delete_days=2))
    raw = RawClient(server.port)
    for name in ("first", "first", "second"):
        raw("PUT", f"/{name}", restype="container")
        raw("DELETE", f"/{name}", restype="container")
    raw("PUT", "/first", restype="container")
    for size in (1, 2, 3):
        found: list[tuple[str | None, str | None]] = []
        at: str | None = ""
        while at is not None and len(found) < 10:
            more = {"marker": at} if at else {}
            root = ET.fromstring(
                raw("GET", "/", comp="list", include="deleted", maxresults=size, **more).body
            )
            found += [(item.findtext("Name"), item.findtext("Deleted"))
                      for item in root.find("Containers")]  # fmt: skip
            at = root.findtext("NextMarker") or None
        assert found == [("first", "true"), ("first", "true"), ("first", None), ("second", "true")]
    raw.close()
    server.stop()


@pytest.mark.parametrize("renamed", [False, True])
def test_a_deleted_container_is_restored_under_another_name(*, renamed: bool) -> None:
    server = Server(dataclasses.replace(development_account(), container_soft_delete_days=2))
    raw = RawClient(server.port)
    raw("PUT", "/first", restype="container")
    raw.put_blob("/first/a", b"x" * 100_000)
    if renamed:
        source = {"x-ms-source-container-name": "first"}
        assert raw("PUT", "/things", None, source, restype="container", comp="rename").status == 200
    name = "things" if renamed else "first"
    raw("DELETE", f"/{name}", restype="container")
    raw("PUT", f"/{name}", restype="container")
    raw.put_blob(f"/{name}/a", b"another's")
    listed = ET.fromstring(raw("GET", "/", comp="list", include="deleted").body)
    headers = {
        "x-ms-deleted-container-name": name,
        "x-ms-deleted-container-version": listed.findtext("Containers/Container/Version") or "",
    }
    query = {"restype": "container", "comp": "undelete"}
    bad = raw("PUT", "/no()such", None, headers, **query)
    assert (bad.status, bad.code) == (400, "InvalidResourceName")
    assert raw("PUT", "/back", None, headers, **query).status == 201
    assert raw("GET", "/back/a").body == b"x" * 100_000
    assert raw("GET", f"/{name}/a").body == b"another's"
    assert raw.put_blob("/back/a", b"written").status == 201
    assert raw("PUT", "/again", None, headers, **query).code == "ContainerNotFound"
    raw.close()
    server.stop()


def test_conditions_of_operations_on_tags(server: Server, raw: RawClient, container: str) -> None:
    """Theirs are called `x-ms-blob-if-*`, and known since 2026-02-06; the plain ones are never
    looked at."""
    path = f"{container}/a"
    made = raw.put_blob(path, b"x", x_ms_tags="k=v")
    newer, older = (RawClient(server.port, version=v) for v in ("2026-02-06", "2025-11-05"))
    past, future = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT"
    for name, unmet, met, status in (
        ("if-match", '"0x1"', made.etag, 412),
        ("if-none-match", made.etag, '"0x1"', 304),
        ("if-modified-since", future, past, 304),
        ("if-unmodified-since", past, future, 412),
    ):
        refused = newer("GET", path, headers={f"x-ms-blob-{name}": unmet}, comp="tags")
        assert (refused.status, refused.code) == (status, "ConditionNotMet"), name
        refused = set_tags(newer, path, {"k": "w"}, **{f"x-ms-blob-{name}": unmet})
        assert (refused.status, refused.code) == (412, "ConditionNotMet"), name
        assert tags_of(raw("GET", path, comp="tags")) == {"k": "v"}
        met_header = {f"x-ms-blob-{name}": met}
        assert newer("GET", path, headers=met_header, comp="tags").status == 200
        assert set_tags(newer, path, {"k": "v"}, **met_header).status == 204
        for client in (newer, older):
            assert client("GET", path, headers={name: unmet}, comp="tags").status == 200
            assert set_tags(client, path, {"k": "v"}, **{name: unmet}).status == 204
        assert older("GET", path, headers={f"x-ms-blob-{name}": unmet}, comp="tags").status == 200
        assert set_tags(older, path, {"k": "v"}, **{f"x-ms-blob-{name}": unmet}).status == 204
    assert raw("HEAD", path).etag == made.etag
    newer.close()
    older.close()
