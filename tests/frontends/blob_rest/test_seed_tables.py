"""The documentation's tables of container and blob operations, row by row over HTTP.

(Azure: 'Managing concurrency in Blob storage'.)  Written down again here, independent of the
operation table that the server routes by; the last test holds the two against each other.
"""

from dataclasses import dataclass

import pytest

from etagere.frontends.blob_rest.routes import operations
from etagere.frontends.common.operations import Conditions, LeaseUse

from .serving import RawClient, Reply

lease_id = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
other_id = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"


@dataclass(frozen=True)
class Row:
    """One operation: how to ask for it, and what the tables say of it."""

    name: str
    method: str
    path: str
    etag: bool
    conditions: bool
    lease: str  # "" | usable | enforced
    changes: bool
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None

    def ask(self, raw: RawClient, **headers: str) -> Reply:
        return raw(
            self.method,
            self.path,
            self.body,
            {**dict(self.headers), **headers},
            **dict(self.query),
        )


_c = ("restype", "container")

containers = (
    Row("GetContainerProperties", "GET", "/con", True, False, "usable", False, (_c,)),
    Row(
        "GetContainerMetadata",
        "GET",
        "/con",
        True,
        False,
        "usable",
        False,
        (_c, ("comp", "metadata")),
    ),
    Row(
        "SetContainerMetadata",
        "PUT",
        "/con",
        True,
        True,
        "usable",
        True,
        (_c, ("comp", "metadata")),
    ),
    Row("DeleteContainer", "DELETE", "/con", False, True, "enforced", False, (_c,)),
    Row("ListBlobs", "GET", "/con", False, False, "", False, (_c, ("comp", "list"))),
)

blobs = (
    Row(
        "PutBlob",
        "PUT",
        "/con/b",
        True,
        True,
        "enforced",
        True,
        (),
        (("x-ms-blob-type", "BlockBlob"),),
        "new",
    ),
    Row("GetBlob", "GET", "/con/b", True, True, "usable", False),
    Row("GetBlobProperties", "HEAD", "/con/b", True, True, "usable", False),
    Row(
        "SetBlobProperties",
        "PUT",
        "/con/b",
        True,
        True,
        "enforced",
        True,
        (("comp", "properties"),),
    ),
    Row("GetBlobMetadata", "GET", "/con/b", True, True, "usable", False, (("comp", "metadata"),)),
    Row("SetBlobMetadata", "PUT", "/con/b", True, True, "enforced", True, (("comp", "metadata"),)),
    Row("DeleteBlob", "DELETE", "/con/b", False, True, "enforced", False),
    Row(
        "PutBlock",
        "PUT",
        "/con/b",
        False,
        False,
        "enforced",
        False,
        (("comp", "block"), ("blockid", "AAAA")),
        (),
        "x",
    ),
    Row(
        "PutBlockList",
        "PUT",
        "/con/b",
        True,
        True,
        "enforced",
        True,
        (("comp", "blocklist"),),
        (),
        "<BlockList/>",
    ),
    Row("GetBlockList", "GET", "/con/b", True, False, "usable", False, (("comp", "blocklist"),)),
    Row(
        "PutBlob",
        "PUT",
        "/con/log",
        True,
        True,
        "enforced",
        True,
        (),
        (("x-ms-blob-type", "AppendBlob"),),
    ),
    Row(
        "PutBlob",
        "PUT",
        "/con/disk",
        True,
        True,
        "enforced",
        True,
        (),
        (("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "512")),
    ),
    Row(
        "PutPage",
        "PUT",
        "/con/disk",
        True,
        True,
        "enforced",
        True,
        (("comp", "page"),),
        (("x-ms-page-write", "clear"), ("x-ms-range", "bytes=0-511")),
    ),
    Row(
        "AppendBlock",
        "PUT",
        "/con/log",
        True,
        True,
        "enforced",
        True,
        (("comp", "appendblock"),),
        (),
        "x",
    ),
    Row(
        "AppendBlobSeal",
        "PUT",
        "/con/log",
        True,
        True,
        "enforced",
        True,
        (("comp", "seal"),),
    ),
    Row(
        "PutPage",
        "PUT",
        "/con/disk",
        True,
        True,
        "enforced",
        True,
        (("comp", "page"),),
        (("x-ms-page-write", "update"), ("x-ms-range", "bytes=0-511")),
        "x" * 512,
    ),
    Row("GetPageRanges", "GET", "/con/disk", True, True, "usable", False, (("comp", "pagelist"),)),
)

rows = (*containers, *blobs)


@pytest.fixture
def subject(raw: RawClient) -> RawClient:
    assert raw("PUT", "/con", restype="container").status == 201
    assert raw.put_blob("/con/b").status == 201
    log = {"x-ms-blob-type": "AppendBlob"}
    assert raw("PUT", "/con/log", b"", log).status == 201
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"}
    assert raw("PUT", "/con/disk", b"", disk).status == 201
    return raw


def current(raw: RawClient, row: Row) -> Reply:
    query = {"restype": "container"} if row in containers else {}
    return raw("HEAD", row.path, **query)


def lease(raw: RawClient, row: Row, action: str = "acquire") -> None:
    query = {"restype": "container"} if row in containers else {}
    headers = {
        "x-ms-lease-action": action,
        "x-ms-lease-duration": "-1",
        "x-ms-proposed-lease-id": lease_id,
    }
    assert raw("PUT", row.path, None, headers, comp="lease", **query).status == 201


@pytest.mark.parametrize("row", rows, ids=lambda row: row.name)
def test_etag_is_returned_and_changed_as_the_table_says(subject: RawClient, row: Row) -> None:
    before = current(subject, row)
    reply = row.ask(subject)
    assert reply.status < 300, reply.text
    assert ("etag" in reply.headers) == row.etag
    assert ("last-modified" in reply.headers) == row.etag
    after = current(subject, row)
    if row.method == "DELETE":
        assert after.status == 404
        return
    assert (after.etag != before.etag) == row.changes
    if row.etag:
        assert reply.etag == after.etag


@pytest.mark.parametrize("row", rows, ids=lambda row: row.name)
def test_conditions_are_taken_where_the_table_says(subject: RawClient, row: Row) -> None:
    reply = row.ask(subject, **{"If-Match": '"0x1"'})
    if not row.conditions:
        assert reply.status < 300
        return
    assert reply.status == 412
    assert reply.code == "ConditionNotMet"
    before = current(subject, row)
    assert row.ask(subject, **{"If-Match": before.etag}).status < 300


@pytest.mark.parametrize("row", [row for row in rows if row.conditions], ids=lambda row: row.name)
def test_each_condition_holds_and_fails(subject: RawClient, row: Row) -> None:
    now = current(subject, row)
    read = row.method in ("GET", "HEAD")
    unmet = 304 if read else 412
    old, new = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT"
    for headers, status in (
        ({"If-Match": '"0x8D0000000000000"'}, 412),
        ({"If-None-Match": now.etag}, unmet),
        ({"If-Modified-Since": now.headers["last-modified"]}, unmet),
        ({"If-Modified-Since": new}, unmet),
        ({"If-Unmodified-Since": old}, 412),
    ):
        reply = row.ask(subject, **headers)
        assert (reply.status, reply.code) == (status, "ConditionNotMet"), headers
        if status == 304:
            assert reply.etag == now.etag
            assert reply.body == b""
    assert current(subject, row).etag == now.etag
    for headers in (
        {"If-None-Match": '"0x8D0000000000000"'},
        {"If-Modified-Since": old},
        {"If-Unmodified-Since": new},
        {"If-Match": "*"},
    ):
        reply = row.ask(subject, **headers)
        assert reply.status < 300, (headers, reply.text)
        if row.method == "DELETE":
            return


@pytest.mark.parametrize(
    "row",
    [row for row in rows if row.conditions and row.method not in ("GET", "HEAD")],
    ids=lambda row: row.name,
)
def test_writes_refuse_combinations(subject: RawClient, row: Row) -> None:
    headers = {"If-Match": "*", "If-None-Match": '"0x1"'}
    reply = row.ask(subject, **headers)
    assert (reply.status, reply.code) == (400, "MultipleConditionHeadersNotSupported")


@pytest.mark.parametrize("row", rows, ids=lambda row: row.name)
def test_lease_is_enforced_where_the_table_says(subject: RawClient, row: Row) -> None:
    lease(subject, row)
    wrong = row.ask(subject, **{"x-ms-lease-id": other_id})
    if row.lease:
        kind = "Container" if row in containers else "Blob"
        assert wrong.status == 412
        assert wrong.code == f"LeaseIdMismatchWith{kind}Operation"
    else:
        assert wrong.status < 300
    without = row.ask(subject)
    if row.lease == "enforced":
        assert without.status == 412
        assert without.code == "LeaseIdMissing"
        assert row.ask(subject, **{"x-ms-lease-id": lease_id}).status < 300
    else:
        assert without.status < 300, without.text


@pytest.mark.parametrize(("name", "path"), [("Container", "/con"), ("Blob", "/con/b")])
def test_lease_actions_take_conditions(subject: RawClient, name: str, path: str) -> None:
    query = {"restype": "container"} if name == "Container" else {}
    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    refused = subject("PUT", path, None, {**headers, "If-Match": '"0x1"'}, comp="lease", **query)
    assert (refused.status, refused.code) == (412, "ConditionNotMet")
    etag = subject("HEAD", path, **query).etag
    done = subject("PUT", path, None, {**headers, "If-Match": etag}, comp="lease", **query)
    assert (done.status, done.etag) == (201, etag)


@pytest.mark.parametrize("body", ["new", "<BlockList/>"])
def test_if_none_match_star(subject: RawClient, body: str) -> None:
    def create(path: str, **headers: str) -> Reply:
        sent = {"If-None-Match": "*", **headers}
        if body == "new":
            return subject.put_blob(path, b"new", **sent)
        return subject("PUT", path, body, sent, comp="blocklist")

    assert create("/con/fresh").status == 201
    again = create("/con/fresh")
    assert (again.status, again.code) == (409, "BlobAlreadyExists")
    blob = next(row for row in blobs if row.name == "GetBlob")
    lease(subject, blob)
    held = create("/con/b")
    assert (held.status, held.code) == (412, "LeaseIdMissing")
    assert create("/con/b", **{"x-ms-lease-id": lease_id}).status == 201


def test_if_none_match_star_on_a_read(subject: RawClient) -> None:
    reply = subject("GET", "/con/b", headers={"If-None-Match": "*"})
    assert (reply.status, reply.code) == (400, "UnsatisfiableCondition")


def test_conditions_on_a_missing_blob(subject: RawClient) -> None:
    reply = subject("GET", "/con/none", headers={"If-Match": '"0x1"'})
    assert (reply.status, reply.code) == (404, "BlobNotFound")
    reply = subject.put_blob("/con/none", b"x", **{"If-Match": '"0x1"'})
    assert (reply.status, reply.code) == (412, "ConditionNotMet")


def test_the_operation_table_says_the_same() -> None:
    declared = {row.name: row for row in operations.rows}
    for row in rows:
        found = declared[row.name]
        assert found.returns_etag == row.etag, row.name
        assert (found.conditions is not Conditions.NONE) == row.conditions, row.name
        assert found.changes_etag == row.changes, row.name
        expected = {"": LeaseUse.NONE, "usable": LeaseUse.OPTIONAL, "enforced": LeaseUse.ENFORCED}
        assert found.lease is expected[row.lease], row.name
