"""The documentation's tables of container and blob operations, row by row over HTTP.

(Azure: 'Managing concurrency in Blob storage', and the pages of the operations that came later.)
Written down again here, independent of the operation table that the server routes by; the last test
holds the two against each other.
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from etagere.frontends.blob_rest.routes import operations
from etagere.frontends.common.operations import Conditions, LeaseUse
from etagere.services.common.accounts import development_account

from .serving import KeyClient, RawClient, Reply, Server

lease_id = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
other_id = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
old, new = "Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT"
wrong = '"0x8D0000000000000"'


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation: how to ask for it, and what the tables say of it."""

    name: str
    method: str
    path: str
    etag: bool = False
    """Whether the answer has an ETag and Last-Modified."""
    conditions: str = ""
    """read, write (both: all of them), tags (x-ms-if-tags only), unmodified (If-Unmodified-Since
    only), or "" where conditional headers are ignored."""
    lease: str = ""
    """usable (an id that is sent must be right), enforced (without it the operation is refused),
    own (rules of its own, see `test_leases`), or "" where an id is not looked at."""
    changes: bool = False
    """Whether ETag and Last-Modified of what it is done to are others afterwards."""
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    makes: bool = False
    """Whether what it is about comes of it: there is nothing to compare with."""

    @property
    def of_container(self) -> bool:
        return self.query.get("restype") == "container"

    @property
    def of_blob(self) -> bool:
        return self.path.count("/") == 2


_c = {"restype": "container"}
_source = {"x-ms-copy-source": "{url}/con/source?{sas}"}


def _blob(name: str, path: str, **more: object) -> Row:
    return Row(name=name, method="PUT", path=f"/con/{path}", **more)


def _write(name: str, path: str, **more: object) -> Row:
    """What most operations that change a blob have in common."""
    return _blob(name, path, etag=True, conditions="write", lease="enforced", changes=True, **more)


def _get(name: str, path: str = "b", **more: object) -> Row:
    return Row(name=name, method="GET", path=f"/con/{path}", etag=True, lease="usable", **more)


containers = (
    Row(
        name="CreateContainer",
        method="PUT",
        path="/new",
        etag=True,
        changes=True,
        query=_c,
        makes=True,
    ),
    Row(
        name="GetContainerProperties",
        method="GET",
        path="/con",
        etag=True,
        lease="usable",
        query=_c,
    ),
    Row(
        name="GetContainerMetadata",
        method="GET",
        path="/con",
        etag=True,
        lease="usable",
        query={**_c, "comp": "metadata"},
    ),
    Row(
        name="SetContainerMetadata",
        method="PUT",
        path="/con",
        etag=True,
        conditions="write",
        lease="usable",
        changes=True,
        query={**_c, "comp": "metadata"},
    ),
    Row(
        name="GetContainerAcl",
        method="GET",
        path="/con",
        etag=True,
        lease="usable",
        query={**_c, "comp": "acl"},
    ),
    Row(
        name="SetContainerAcl",
        method="PUT",
        path="/con",
        etag=True,
        conditions="write",
        lease="usable",
        changes=True,
        query={**_c, "comp": "acl"},
    ),
    Row(
        name="DeleteContainer",
        method="DELETE",
        path="/con",
        conditions="write",
        lease="enforced",
        query=_c,
    ),
    Row(
        name="LeaseContainer",
        method="PUT",
        path="/con",
        etag=True,
        conditions="write",
        lease="own",
        query={**_c, "comp": "lease"},
        headers={
            "x-ms-lease-action": "acquire",
            "x-ms-lease-duration": "-1",
            "x-ms-proposed-lease-id": lease_id,
        },
    ),
    Row(name="ListBlobs", method="GET", path="/con", query={**_c, "comp": "list"}),
    Row(
        name="RestoreContainer",
        method="PUT",
        path="/gone",
        changes=True,
        query={**_c, "comp": "undelete"},
        headers={
            "x-ms-deleted-container-name": "gone",
            "x-ms-deleted-container-version": "{gone}",
        },
        makes=True,
    ),
    Row(
        name="RenameContainer",
        method="PUT",
        path="/new",
        changes=True,
        lease="own",
        query={**_c, "comp": "rename"},
        headers={"x-ms-source-container-name": "con"},
        makes=True,
    ),
)

blobs = (
    _write("PutBlob", "b", headers={"x-ms-blob-type": "BlockBlob"}, body="new"),
    _get("GetBlob", conditions="read"),
    dataclasses.replace(_get("GetBlobProperties", conditions="read"), method="HEAD"),
    _write("SetBlobProperties", "b", query={"comp": "properties"}),
    _get("GetBlobMetadata", conditions="read", query={"comp": "metadata"}),
    _write("SetBlobMetadata", "b", query={"comp": "metadata"}),
    _blob(
        "LeaseBlob",
        "b",
        etag=True,
        conditions="write",
        lease="own",
        query={"comp": "lease"},
        headers={
            "x-ms-lease-action": "acquire",
            "x-ms-lease-duration": "-1",
            "x-ms-proposed-lease-id": lease_id,
        },
    ),
    _blob(
        "SnapshotBlob",
        "b",
        etag=True,
        conditions="write",
        lease="usable",
        query={"comp": "snapshot"},
    ),
    _write("CopyBlob", "b", headers=_source),
    Row(
        name="DeleteBlob",
        method="DELETE",
        path="/con/b",
        conditions="write",
        lease="enforced",
    ),
    _blob("PutBlock", "b", lease="enforced", query={"comp": "block", "blockid": "AAAA"}, body="x"),
    _write("PutBlockList", "b", query={"comp": "blocklist"}, body="<BlockList/>"),
    _get("GetBlockList", query={"comp": "blocklist"}, conditions="tags"),
    _write(
        "PutPage",
        "disk",
        query={"comp": "page"},
        headers={"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"},
        body="x" * 512,
    ),
    _get("GetPageRanges", "disk", conditions="read", query={"comp": "pagelist"}),
)

later = (
    _write("PutBlob", "log", headers={"x-ms-blob-type": "AppendBlob"}),
    _write("AppendBlock", "log", query={"comp": "appendblock"}, body="x"),
    _write("AppendBlockFromUrl", "log", query={"comp": "appendblock"}, headers=_source),
    _write("AppendBlobSeal", "log", query={"comp": "seal"}),
    _write(
        "PutBlob",
        "disk",
        headers={"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"},
    ),
    _write(
        "PutPageFromUrl",
        "disk",
        query={"comp": "page"},
        headers={
            "x-ms-page-write": "update",
            "x-ms-range": "bytes=0-511",
            "x-ms-source-range": "bytes=0-511",
            **_source,
        },
    ),
    _write(
        "PutPage",
        "disk",
        query={"comp": "page"},
        headers={"x-ms-page-write": "clear", "x-ms-range": "bytes=0-511"},
    ),
    _write("PutBlobFromUrl", "b", headers={"x-ms-blob-type": "BlockBlob", **_source}),
    _write("CopyBlobFromUrl", "b", headers={"x-ms-requires-sync": "true", **_source}),
    _blob(
        "PutBlockFromUrl",
        "b",
        lease="enforced",
        query={"comp": "block", "blockid": "AAAA"},
        headers=_source,
    ),
    _blob(
        "IncrementalCopyBlob",
        "follower",
        etag=True,
        conditions="write",
        lease="own",
        changes=True,
        query={"comp": "incrementalcopy"},
        headers={"x-ms-copy-source": "{url}/con/disk?snapshot={snapshot}&{sas}"},
    ),
    _blob(
        "SetBlobTier",
        "b",
        conditions="tags",
        lease="enforced",
        query={"comp": "tier"},
        headers={"x-ms-access-tier": "Cool"},
    ),
    _blob(
        "SetBlobTags",
        "b",
        conditions="tags",
        lease="enforced",
        query={"comp": "tags"},
        body="<Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>",
    ),
    Row(
        name="GetBlobTags",
        method="GET",
        path="/con/b",
        conditions="tags",
        lease="usable",
        query={"comp": "tags"},
    ),
    Row(
        name="SetImmutabilityPolicy",
        method="PUT",
        path="/worm/b",
        conditions="unmodified",
        query={"comp": "immutabilityPolicies"},
        headers={"x-ms-immutability-policy-until-date": new},
    ),
    Row(
        name="DeleteImmutabilityPolicy",
        method="DELETE",
        path="/worm/b",
        query={"comp": "immutabilityPolicies"},
    ),
    Row(
        name="SetLegalHold",
        method="PUT",
        path="/worm/b",
        query={"comp": "legalhold"},
        headers={"x-ms-legal-hold": "false"},
    ),
    _blob("UndeleteBlob", "b", query={"comp": "undelete"}),
    dataclasses.replace(
        _get(
            "QueryBlobContents",
            conditions="read",
            query={"comp": "query"},
            body="<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * from BlobStorage"
            "</Expression></QueryRequest>",
        ),
        method="POST",
    ),
)

rows = (*containers, *blobs, *later)


class Subject:
    """What the operations are done to, with clients that may do all of them."""

    def __init__(self) -> None:
        account = dataclasses.replace(development_account(), container_soft_delete_days=7)
        self.server = Server(account)
        self.raw = raw = RawClient(self.server.port)
        self.keyed = KeyClient(self.server.port)
        self.made = {"url": self.server.url, "sas": raw.sas}
        for name in ("con", "gone"):
            assert raw("PUT", f"/{name}", restype="container").status == 201
        assert raw("DELETE", "/gone", restype="container").status == 202
        listed = raw("GET", "/", comp="list", include="deleted").text
        self.made["gone"] = re.findall("<Version>(.*?)</Version>", listed)[0]
        worm = {"x-ms-immutable-storage-with-versioning-enabled": "true"}
        assert raw("PUT", "/worm", headers=worm, restype="container").status == 201
        for path in ("/con/b", "/worm/b"):
            assert raw.put_blob(path, x_ms_tags="k=v").status == 201
        assert raw.put_blob("/con/source", b"s" * 512).status == 201
        log = {"x-ms-blob-type": "AppendBlob", "x-ms-tags": "k=v"}
        assert raw("PUT", "/con/log", b"", log).status == 201
        disk = {
            "x-ms-blob-type": "PageBlob",
            "x-ms-blob-content-length": "1024",
            "x-ms-tags": "k=v",
        }
        assert raw("PUT", "/con/disk", b"", disk).status == 201
        self.follow()
        self.follow(only_snapshot=True)

    def follow(self, *, only_snapshot: bool = False) -> None:
        """A blob that follows another; the next snapshot is there to be copied."""
        taken = self.raw("PUT", "/con/disk", comp="snapshot")
        self.made["snapshot"] = taken.headers["x-ms-snapshot"]
        if not only_snapshot:
            source = self._filled("{url}/con/disk?snapshot={snapshot}&{sas}")
            headers = {"x-ms-copy-source": source, "x-ms-tags": "k=v"}
            reply = self.raw("PUT", "/con/follower", headers=headers, comp="incrementalcopy")
            assert reply.status == 202, reply.text
            tags = "<Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>"
            assert self.raw("PUT", "/con/follower", tags, comp="tags").status == 204

    def _filled(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.made[found[1]], text)

    def __call__(self, row: Row, **headers: str) -> Reply:
        client = self.keyed if row.query.get("comp") == "acl" else self.raw
        sent = {name: self._filled(value) for name, value in row.headers.items()}
        return client(row.method, row.path, row.body, {**sent, **headers}, **row.query)

    def current(self, row: Row) -> Reply:
        return self.raw("HEAD", row.path, **(_c if row.of_container else {}))

    def lease(self, row: Row) -> None:
        headers = {
            "x-ms-lease-action": "acquire",
            "x-ms-lease-duration": "-1",
            "x-ms-proposed-lease-id": lease_id,
        }
        query = _c if row.of_container else {}
        reply = self.raw("PUT", row.path, None, headers, comp="lease", **query)
        assert reply.status == 201, reply.text

    def stop(self) -> None:
        self.raw.close()
        self.keyed.close()
        self.server.stop()


@pytest.fixture
def subject() -> Iterator[Subject]:
    running = Subject()
    yield running
    running.stop()


def of_all(*names: str) -> pytest.MarkDecorator:
    """Each row whose conditions are one of these."""
    chosen = [row for row in rows if not names or row.conditions in names]
    return pytest.mark.parametrize("row", chosen, ids=lambda row: f"{row.name}-{row.path[1:]}")


@of_all()
def test_etag_is_returned_and_changed_as_the_table_says(subject: Subject, row: Row) -> None:
    before = subject.current(row)
    subject.server.clock.advance(2)
    reply = subject(row)
    assert reply.status < 300, reply.text
    assert ("etag" in reply.headers) == row.etag
    assert ("last-modified" in reply.headers) == row.etag
    after = subject.current(row)
    if row.method == "DELETE" and not row.query.get("comp"):
        assert after.status == 404
        return
    assert after.status == 200
    if not row.makes:
        assert (after.etag != before.etag) == row.changes
        modified = after.headers["last-modified"] != before.headers["last-modified"]
        assert modified == row.changes
    if row.etag:
        assert reply.etag == after.etag
        assert reply.headers["last-modified"] == after.headers["last-modified"]


def ignored(row: Row, etag: str) -> list[dict[str, str]]:
    """Conditions that are not met, and that the operation does not look at."""
    found = [
        {"If-Match": wrong},
        {"If-None-Match": etag},
        {"If-None-Match": "*"},
        {"If-Modified-Since": new},
        {"If-Match": wrong, "If-None-Match": etag},
    ]
    if row.conditions != "unmodified":
        found.append({"If-Unmodified-Since": old})
    if row.of_blob and row.conditions != "tags":
        found.append({"x-ms-if-tags": "k = 'other'"})
    return found


@of_all("", "tags", "unmodified")
def test_conditions_are_ignored_where_the_table_says(subject: Subject, row: Row) -> None:
    etag = wrong if row.makes else subject.current(row).etag
    for headers in ignored(row, etag):
        reply = subject(row, **headers)
        assert reply.status < 300, (headers, reply.text)
        if row.makes:
            return


@of_all("read", "write")
def test_each_condition_holds_and_fails(subject: Subject, row: Row) -> None:
    now = subject.current(row)
    unmet = 304 if row.conditions == "read" else 412
    for headers, status in (
        ({"If-Match": wrong}, 412),
        ({"If-None-Match": now.etag}, unmet),
        ({"If-Modified-Since": now.headers["last-modified"]}, unmet),
        ({"If-Modified-Since": new}, unmet),
        ({"If-Unmodified-Since": old}, 412),
        *([({"x-ms-if-tags": "k = 'other'"}, 412)] if row.of_blob else []),
    ):
        reply = subject(row, **headers)
        assert (reply.status, reply.code) == (status, "ConditionNotMet"), headers
        if status == 304:
            assert reply.etag == now.etag
            assert reply.headers["last-modified"] == now.headers["last-modified"]
            assert reply.body == b""
    assert subject.current(row).etag == now.etag
    for headers in (
        {"If-None-Match": wrong},
        {"If-Modified-Since": old},
        {"If-Unmodified-Since": new},
        {"If-Unmodified-Since": "{modified}"},
        {"If-Match": "{etag}"},
        {"If-Match": "{bare}"},
        {"If-Match": "*"},
        *([{"x-ms-if-tags": "k = 'v'"}] if row.of_blob else []),
    ):
        fresh = Subject()
        now = fresh.current(row)
        filled = {
            name: value.format(
                etag=now.etag, bare=now.etag.strip('"'), modified=now.headers["last-modified"]
            )
            for name, value in headers.items()
        }
        reply = fresh(row, **filled)
        assert reply.status < 300, (filled, reply.text)
        fresh.stop()


@of_all("tags")
def test_the_one_condition_on_tags(subject: Subject, row: Row) -> None:
    refused = subject(row, **{"x-ms-if-tags": "k = 'other'"})
    assert (refused.status, refused.code) == (412, "ConditionNotMet")
    assert subject(row, **{"x-ms-if-tags": "k = 'v'"}).status < 300


@of_all("unmodified")
def test_the_one_condition_on_the_date(subject: Subject, row: Row) -> None:
    refused = subject(row, **{"If-Unmodified-Since": old})
    assert (refused.status, refused.code) == (412, "ConditionNotMet")
    assert subject(row, **{"If-Unmodified-Since": new}).status < 300


@of_all("write")
def test_writes_refuse_combinations(subject: Subject, row: Row) -> None:
    for headers in (
        {"If-Match": "*", "If-None-Match": wrong},
        {"If-Match": "*", "If-Modified-Since": old},
        {"If-None-Match": wrong, "If-Unmodified-Since": new},
        {"If-Modified-Since": old, "If-Unmodified-Since": new},
        {"If-Match": "*", "If-Unmodified-Since": new, "If-Modified-Since": old},
    ):
        reply = subject(row, **headers)
        expected = (400, "MultipleConditionHeadersNotSupported")
        assert (reply.status, reply.code) == expected, headers


@of_all("write")
def test_writes_take_the_etag_of_a_pair(subject: Subject, row: Row) -> None:
    """If-Match stands before If-Unmodified-Since, If-None-Match before If-Modified-Since."""
    for headers in (
        {"If-Match": wrong, "If-Unmodified-Since": new},
        {"If-None-Match": subject.current(row).etag, "If-Modified-Since": old},
    ):
        reply = subject(row, **headers)
        assert (reply.status, reply.code) == (412, "ConditionNotMet")
    reply = subject(row, **{"If-Match": "*", "If-Unmodified-Since": old})
    assert reply.status < 300, reply.text
    fresh = Subject()
    reply = fresh(row, **{"If-None-Match": wrong, "If-Modified-Since": new})
    assert reply.status < 300, reply.text
    fresh.stop()


@of_all("read")
def test_reads_combine_conditions(subject: Subject, row: Row) -> None:
    """If-Match and If-Unmodified-Since both, and of the other two whichever holds."""
    etag = subject.current(row).etag
    for headers, expected in (
        ({"If-Match": etag, "If-Unmodified-Since": old}, 412),
        ({"If-Match": wrong, "If-Unmodified-Since": new}, 412),
        ({"If-Match": etag, "If-Unmodified-Since": new}, 200),
        ({"If-None-Match": etag, "If-Modified-Since": old}, 200),
        ({"If-None-Match": wrong, "If-Modified-Since": new}, 200),
        ({"If-None-Match": etag, "If-Modified-Since": new}, 304),
        ({"If-Match": etag, "If-None-Match": etag}, 304),
        ({"If-Match": wrong, "If-None-Match": etag}, 412),
        ({"If-Match": wrong, "If-None-Match": wrong, "If-Modified-Since": old}, 412),
        ({"If-Match": etag, "If-None-Match": wrong, "If-Unmodified-Since": new}, 200),
        ({"If-Match": f'{wrong}, {etag}, "0x1"'}, 200),
        ({"If-Match": f'{wrong}, "0x1"'}, 412),
        ({"If-None-Match": f"{wrong}, {etag}"}, 304),
        ({"If-None-Match": f'{wrong}, "0x1"'}, 200),
        ({"If-Match": f"W/{etag}"}, 412),
        ({"If-Match": "*"}, 200),
        ({"If-Match": etag, "x-ms-if-tags": "k = 'other'"}, 412),
        ({"If-None-Match": etag, "x-ms-if-tags": "k = 'v'"}, 304),
        ({"If-Modified-Since": "null"}, 200),
    ):
        reply = subject(row, **headers)
        assert reply.status == expected, (headers, reply.code)
        assert reply.code == ("" if expected == 200 else "ConditionNotMet")


@of_all("read")
def test_older_reads_take_one_condition(subject: Subject, row: Row) -> None:
    """Before 2013-08-15 reads were evaluated as writes are, but for what unmet is."""
    if row.name == "QueryBlobContents":
        return  # since 2019-12-12
    etag = subject.current(row).etag
    for headers, expected in (
        ({"If-Match": etag, "If-None-Match": wrong}, 400),
        ({"If-Match": f"{wrong}, {etag}"}, 400),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": etag, "If-Modified-Since": old}, 304),
        ({"If-Modified-Since": new}, 304),
        ({"If-Match": wrong}, 412),
        ({"If-Unmodified-Since": old}, 412),
        ({"If-Match": etag, "If-Unmodified-Since": old}, 200),
    ):
        reply = subject(row, **{"x-ms-version": "2012-02-12", **headers})
        assert reply.status == expected, (headers, reply.text)
    reply = subject(row, **{"x-ms-version": "2015-12-11", "If-None-Match": "*"})
    assert reply.status == 304


@pytest.mark.parametrize("row", rows, ids=lambda row: f"{row.name}-{row.path[1:]}")
def test_lease_is_enforced_where_the_table_says(subject: Subject, row: Row) -> None:
    if row.lease == "own" or row.makes:
        return  # see `test_leases`, `test_rename_container` and `test_page_copies`
    subject.lease(row)
    refused = subject(row, **{"x-ms-lease-id": other_id})
    if row.lease:
        kind = "Container" if row.of_container else "Blob"
        assert refused.status == 412
        assert refused.code == f"LeaseIdMismatchWith{kind}Operation"
    else:
        assert refused.status < 300, refused.text
    without = subject(row)
    if row.lease == "enforced":
        assert (without.status, without.code) == (412, "LeaseIdMissing")
    else:
        assert without.status < 300, without.text
    if row.lease:
        assert subject(row, **{"x-ms-lease-id": lease_id}).status < 300
    if row.lease and row.method != "DELETE":
        assert subject.current(row).headers["x-ms-lease-state"] == "leased"


@pytest.mark.parametrize("row", [*blobs, *later], ids=lambda row: f"{row.name}-{row.path[1:]}")
def test_a_lease_that_ended_is_forgotten_by_what_changes_the_blob(
    subject: Subject, row: Row
) -> None:
    """And by Put Block; whatever else is done, it stays broken."""
    if row.lease == "own" or row.name == "DeleteBlob":
        return
    subject.lease(row)
    broken = {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"}
    assert subject.raw("PUT", row.path, headers=broken, comp="lease").status == 202
    if row.lease:
        for lost in (lease_id, other_id):
            reply = subject(row, **{"x-ms-lease-id": lost})
            assert (reply.status, reply.code) == (412, "LeaseLost")
    assert subject(row).status < 300
    forgets = row.changes or row.name.startswith("PutBlock")
    state = subject.current(row).headers["x-ms-lease-state"]
    assert state == ("available" if forgets else "broken")


creations = [row for row in rows if row.name in {"PutBlob", "PutBlockList", "PutBlobFromUrl",
             "CopyBlob", "CopyBlobFromUrl"}]  # fmt: skip
updates = [row for row in rows if row.conditions == "write" and row not in creations]


@pytest.mark.parametrize("row", creations, ids=lambda row: f"{row.name}-{row.path[1:]}")
def test_if_none_match_star_creates_only(subject: Subject, row: Row) -> None:
    fresh = dataclasses.replace(row, path="/con/fresh")
    star = {"If-None-Match": "*"}
    assert subject(fresh, **star).status < 300
    again = subject(fresh, **star)
    assert (again.status, again.code) == (409, "BlobAlreadyExists")
    assert subject(row, **star).code == "BlobAlreadyExists"
    missing = dataclasses.replace(row, path="/con/missing")
    for unmet in ({"If-Match": wrong}, {"If-Match": "*"}, {"x-ms-if-tags": "k = 'v'"}):
        reply = subject(missing, **unmet)
        assert (reply.status, reply.code) == (412, "ConditionNotMet")
    for met in ({"If-None-Match": wrong}, {"If-Modified-Since": new}, {"If-Unmodified-Since": old}):
        assert subject(missing, **met).status < 300
        assert subject.raw("DELETE", missing.path).status == 202
    subject.lease(row)
    held = subject(row, **star)
    assert (held.status, held.code) == (412, "LeaseIdMissing")
    assert subject(row, **{**star, "x-ms-lease-id": lease_id}).status < 300


@pytest.mark.parametrize("row", updates, ids=lambda row: f"{row.name}-{row.path[1:]}")
def test_if_none_match_star_on_what_exists(subject: Subject, row: Row) -> None:
    reply = subject(row, **{"If-None-Match": "*"})
    if row.name == "SetBlobProperties":
        assert reply.status == 200
    elif row.name == "IncrementalCopyBlob":
        assert (reply.status, reply.code) == (409, "BlobAlreadyExists")
    else:
        assert (reply.status, reply.code) == (412, "ConditionNotMet")


@of_all("read")
def test_reads_of_what_is_not_there(subject: Subject, row: Row) -> None:
    missing = dataclasses.replace(row, path="/con/missing")
    for headers in (
        {"If-Match": wrong},
        {"If-None-Match": "*"},
        {"If-None-Match": wrong},
        {"If-Unmodified-Since": old},
        {"x-ms-lease-id": lease_id},
    ):
        reply = subject(missing, **headers)
        assert (reply.status, reply.code) == (404, "BlobNotFound"), headers


def test_uncommitted_blobs_match_any_etag_in_older_versions(subject: Subject) -> None:
    raw = subject.raw
    for version, status in (("2016-05-31", 201), ("2017-04-17", 412)):
        path = f"/con/staged-{version}"
        assert raw("PUT", path, b"x", comp="block", blockid="AAAA").status == 201
        headers = {"If-Match": "*", "x-ms-version": version}
        reply = raw("PUT", path, "<BlockList/>", headers, comp="blocklist")
        assert reply.status == status


def test_conditions_are_of_the_snapshot_that_is_read(subject: Subject) -> None:
    raw = subject.raw
    taken = raw("PUT", "/con/b", comp="snapshot")
    name = taken.headers["x-ms-snapshot"]
    assert raw.put_blob("/con/b", b"newer").status == 201
    current = raw("HEAD", "/con/b").etag
    assert raw("GET", "/con/b", headers={"If-Match": taken.etag}, snapshot=name).status == 200
    assert raw("GET", "/con/b", headers={"If-Match": current}, snapshot=name).status == 412
    assert raw("GET", "/con/b", headers={"If-None-Match": current}, snapshot=name).status == 200


def test_dates_are_compared_in_whole_seconds(subject: Subject) -> None:
    raw = subject.raw
    modified = raw("HEAD", "/con/b").headers["last-modified"]
    moment = datetime.strptime(modified, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    for seconds, since, until in ((-1, 200, 412), (0, 304, 200), (1, 304, 200)):
        date = format_datetime(moment + timedelta(seconds=seconds), usegmt=True)
        assert raw("GET", "/con/b", headers={"If-Modified-Since": date}).status == since
        assert raw("GET", "/con/b", headers={"If-Unmodified-Since": date}).status == until


def test_the_order_of_checks(subject: Subject) -> None:
    """Syntax, container, blob, lease, conditions, type, state: the first that fails is told."""
    raw = subject.raw
    lease = {"x-ms-lease-id": "nonsense"}
    append = {"comp": "appendblock"}
    unmet = {"If-Match": wrong}
    other = {"x-ms-lease-id": other_id}
    ask = [
        ("/none/none", lease, "InvalidHeaderValue"),
        ("/none/none", unmet, "ContainerNotFound"),
        ("/con/none", other, "BlobNotFound"),
        ("/con/b", {**unmet, **other}, "LeaseNotPresentWithBlobOperation"),
        ("/con/b", unmet, "ConditionNotMet"),
        ("/con/b", {"x-ms-blob-condition-appendpos": "7"}, "InvalidBlobType"),
        ("/con/log", {**unmet, "x-ms-blob-condition-appendpos": "7"}, "ConditionNotMet"),
        ("/con/log", {"x-ms-blob-condition-appendpos": "7"}, "AppendPositionConditionNotMet"),
    ]
    for path, headers, code in ask:
        assert raw("PUT", path, b"x", headers, **append).code == code, (path, headers)
    assert raw("PUT", "/con/log", comp="seal").status == 200
    assert raw("PUT", "/con/log", b"x", unmet, **append).code == "ConditionNotMet"
    assert raw("PUT", "/con/log", b"x", **append).code == "BlobIsSealed"
    unmet["x-ms-range"] = "bytes=5000-"
    assert raw("GET", "/con/b", headers=unmet).code == "ConditionNotMet"
    assert raw("GET", "/con/b", headers={"x-ms-range": "bytes=5000-"}).code == "InvalidRange"


def test_the_operation_table_says_the_same() -> None:
    conditions = {
        "": {Conditions.NONE, Conditions.SOURCE_ONLY},
        "read": {Conditions.READ},
        "write": {Conditions.WRITE, Conditions.WRITE_AND_SOURCE},
        "tags": {Conditions.TAGS_ONLY},
        "unmodified": {Conditions.UNMODIFIED_ONLY},
    }
    leases = {"": LeaseUse.NONE, "usable": LeaseUse.OPTIONAL, "enforced": LeaseUse.ENFORCED}
    declared = {row.name: row for row in operations.rows}
    for row in rows:
        found = declared[row.name]
        assert found.returns_etag == row.etag, row.name
        assert found.conditions in conditions[row.conditions], row.name
        assert found.changes_etag == row.changes, row.name
        if row.lease != "own":
            assert found.lease is leases[row.lease], row.name


def test_every_operation_has_its_row() -> None:
    elsewhere = {
        "AbortCopyBlob": "test_copies",
        "BlobBatch": "test_batch",
        "BreakBlobLease": "test_leases",
        "BreakContainerLease": "test_leases",
        "DeleteBlobPermanently": "test_history",
        "DeleteBlobVersion": "test_history",
        "FindBlobsByTags": "test_history",
        "GetAccountInformation": "test_front_door",
        "GetBlobServiceProperties": "test_front_door",
        "GetBlobServiceStats": "test_front_door",
        "GetUserDelegationKey": "test_front_door",
        "GetWebContent": "test_website",
        "ListContainers": "test_listing",
        "SetBlobExpiry": "test_expiry",
        "SetBlobServiceProperties": "test_front_door",
    }
    assert {row.name for row in operations.rows} == {row.name for row in rows} | set(elsewhere)
