"""Access tiers and rehydration, over HTTP, with time moved by hand."""

import base64
import dataclasses
import uuid
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime

import pytest

from etagere.services.common.accounts import development_account

from .serving import RawClient, Server

hour = 3600


@pytest.fixture
def raw(server: Server):
    client = RawClient(server.port, version="2026-06-06")
    yield client
    client.close()


def set_tier(raw: RawClient, path: str, tier: str, headers: dict[str, str] | None = None, **query):
    return raw(
        "PUT", path, None, {"x-ms-access-tier": tier, **(headers or {})}, comp="tier", **query
    )


def head(raw: RawClient, path: str, **query) -> dict[str, str]:
    reply = raw("HEAD", path, **query)
    assert reply.status == 200
    return reply.headers


def listed(raw: RawClient, container: str, include: str = "") -> str:
    return raw("GET", container, restype="container", comp="list", include=include).text


def archived(raw: RawClient, path: str) -> None:
    raw.put_blob(path, b"cold data")
    assert set_tier(raw, path, "Archive").status == 200


def test_a_tier_that_nobody_set_is_inferred(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    found = head(raw, f"{container}/a")
    assert found["x-ms-access-tier"] == "Hot"
    assert found["x-ms-access-tier-inferred"] == "true"
    assert "x-ms-access-tier-change-time" not in found
    assert "<AccessTier>Hot</AccessTier><AccessTierInferred>true</AccessTierInferred>" in listed(
        raw, container
    )


@pytest.mark.parametrize("tier", ["Hot", "Cool", "Cold", "Archive", "Smart"])
def test_a_blob_is_created_in_a_tier(raw: RawClient, container: str, tier: str) -> None:
    assert raw.put_blob(f"{container}/put", b"x", x_ms_access_tier=tier.lower()).status == 201
    block = base64.b64encode(b"1").decode()
    raw("PUT", f"{container}/list", b"x", comp="block", blockid=block)
    commit = raw(
        "PUT",
        f"{container}/list",
        f"<BlockList><Latest>{block}</Latest></BlockList>",
        {"x-ms-access-tier": tier},
        comp="blocklist",
    )
    assert commit.status == 201
    for name in ("put", "list"):
        found = head(raw, f"{container}/{name}")
        assert found["x-ms-access-tier"] == tier
        assert "x-ms-access-tier-inferred" not in found
        assert found["x-ms-access-tier-change-time"] == found["last-modified"]
    assert listed(raw, container).count(f"<AccessTier>{tier}</AccessTier>") == 2


@pytest.mark.parametrize("before", ["Hot", "Cool", "Cold", "Smart"])
@pytest.mark.parametrize("after", ["Hot", "Cool", "Cold", "Archive", "Smart"])
def test_online_tiers_change_at_once(
    server: Server, raw: RawClient, container: str, before: str, after: str
) -> None:
    path = f"{container}/a"
    put = raw.put_blob(path, b"x", x_ms_access_tier=before)
    server.clock.advance(60)
    reply = set_tier(raw, path, after)
    assert (reply.status, reply.body) == (200, b"")
    assert "etag" not in reply.headers
    found = head(raw, path)
    assert found["x-ms-access-tier"] == after
    assert (found["etag"], found["last-modified"]) == (put.etag, put.headers["last-modified"])
    changed = found["x-ms-access-tier-change-time"] != found["last-modified"]
    assert changed == (before != after)
    assert raw("GET", path).status == (409 if after == "Archive" else 200)


@pytest.mark.parametrize(
    ("method", "query", "headers", "body"),
    [
        ("GET", {}, {}, None),
        ("GET", {}, {"x-ms-range": "bytes=0-1"}, None),
        ("PUT", {}, {"x-ms-blob-type": "BlockBlob"}, b"new"),
        ("PUT", {"comp": "metadata"}, {"x-ms-meta-a": "b"}, None),
        ("PUT", {"comp": "properties"}, {"x-ms-blob-content-type": "a/b"}, None),
        ("PUT", {"comp": "snapshot"}, {}, None),
        ("PUT", {"comp": "block", "blockid": "AAAA"}, {}, b"block"),
        ("PUT", {"comp": "blocklist"}, {}, b"<BlockList></BlockList>"),
    ],
)
@pytest.mark.parametrize("rehydrating", [False, True])
def test_what_is_archived_is_out_of_reach(
    raw: RawClient, container: str, method, query, headers, body, rehydrating: bool
) -> None:
    path = f"{container}/a"
    archived(raw, path)
    if rehydrating:
        set_tier(raw, path, "Hot")
    before = head(raw, path)["etag"]
    reply = raw(method, path, body, headers, **query)
    assert (reply.status, reply.code) == (409, "BlobArchived"), reply.text
    assert head(raw, path)["etag"] == before


def test_what_an_archived_blob_still_allows(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    archived(raw, path)
    assert raw("GET", path, comp="metadata").status == 200
    tags = "<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>"
    assert raw("PUT", path, tags, comp="tags").status == 204
    assert raw("GET", path, comp="tags").status == 200
    assert set_tier(raw, path, "Archive").status == 200
    assert raw("DELETE", path).status == 202


@pytest.mark.parametrize(("priority", "hours"), [("", 15), ("Standard", 15), ("High", 1)])
@pytest.mark.parametrize("tier", ["Hot", "Cool", "Cold", "Smart"])
def test_rehydration_is_done_by_time(
    server: Server, raw: RawClient, container: str, priority: str, hours: int, tier: str
) -> None:
    path = f"{container}/a"
    archived(raw, path)
    before = head(raw, path)
    wanted = {"x-ms-rehydrate-priority": priority} if priority else {}
    assert set_tier(raw, path, tier, wanted).status == 202
    server.clock.advance(hours * hour - 60)
    found = head(raw, path)
    status = f"rehydrate-pending-to-{tier.lower()}"
    assert found["x-ms-access-tier"] == "Archive"
    assert found["x-ms-archive-status"] == status
    assert found["x-ms-rehydrate-priority"] == (priority or "Standard")
    text = listed(raw, container)
    assert f"<ArchiveStatus>{status}</ArchiveStatus>" in text
    assert f"<RehydratePriority>{priority or 'Standard'}</RehydratePriority>" in text
    server.clock.advance(61)
    found = head(raw, path)
    assert found["x-ms-access-tier"] == tier
    assert "x-ms-archive-status" not in found
    assert "x-ms-rehydrate-priority" not in found
    assert found["x-ms-access-tier-change-time"] != before["x-ms-access-tier-change-time"]
    assert found["etag"] == before["etag"]
    assert "<ArchiveStatus>" not in listed(raw, container)
    assert raw("GET", path).body == b"cold data"
    # The next write stores what time has done.
    assert raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata").status == 200
    assert head(raw, path)["x-ms-access-tier"] == tier
    assert raw.put_blob(path, b"new").status == 201
    assert head(raw, path)["x-ms-access-tier"] == tier


def test_a_rehydration_is_hurried_and_not_turned(
    server: Server, raw: RawClient, container: str
) -> None:
    path = f"{container}/a"
    archived(raw, path)
    assert set_tier(raw, path, "Cool").status == 202
    for other in ("Hot", "Cold", "Archive"):
        refused = set_tier(raw, path, other, {"x-ms-rehydrate-priority": "High"})
        assert (refused.status, refused.code) == (409, "BlobBeingRehydrated")
    assert head(raw, path)["x-ms-rehydrate-priority"] == "Standard"
    assert set_tier(raw, path, "Cool", {"x-ms-rehydrate-priority": "High"}).status == 202
    assert head(raw, path)["x-ms-rehydrate-priority"] == "High"
    assert set_tier(raw, path, "Cool", {"x-ms-rehydrate-priority": "Standard"}).status == 202
    assert head(raw, path)["x-ms-rehydrate-priority"] == "High"
    server.clock.advance(hour + 1)
    assert head(raw, path)["x-ms-access-tier"] == "Cool"
    assert set_tier(raw, path, "Hot").status == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MissingRequiredHeader"),
        ({"x-ms-access-tier": "Lukewarm"}, "InvalidHeaderValue"),
        ({"x-ms-access-tier": "P10"}, "InvalidBlobTier"),
        ({"x-ms-access-tier": "Hot", "x-ms-rehydrate-priority": "Soon"}, "InvalidHeaderValue"),
        ({"x-ms-access-tier": "Hot", "x-ms-if-tags": "not a condition"}, "InvalidHeaderValue"),
        ({"x-ms-access-tier": "Hot", "x-ms-lease-id": "not an id"}, "InvalidHeaderValue"),
    ],
)
def test_bad_requests_change_nothing(raw: RawClient, container: str, headers, code) -> None:
    raw.put_blob(f"{container}/a", b"x", x_ms_access_tier="Cool")
    reply = raw("PUT", f"{container}/a", None, headers, comp="tier")
    assert (reply.status, reply.code) == (400, code), reply.text
    assert head(raw, f"{container}/a")["x-ms-access-tier"] == "Cool"


def test_tiers_have_their_versions(server: Server, container: str) -> None:
    for version, tier, status in (
        ("2021-10-04", "Cold", 400),
        ("2021-12-02", "Cold", 200),
        ("2026-04-06", "Smart", 400),
        ("2026-06-06", "Smart", 200),
    ):
        client = RawClient(server.port, version=version)
        client.put_blob(f"{container}/a")
        assert set_tier(client, f"{container}/a", tier).status == status
        client.close()


def test_nothing_there(raw: RawClient, container: str) -> None:
    reply = set_tier(raw, f"{container}/nothing", "Cool")
    assert (reply.status, reply.code) == (404, "BlobNotFound")
    reply = set_tier(raw, "/nowhere/nothing", "Cool")
    assert (reply.status, reply.code) == (404, "ContainerNotFound")


def test_bad_tiers_of_new_blobs(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    for headers, code in (
        ({"x-ms-blob-type": "BlockBlob", "x-ms-access-tier": "None"}, "InvalidHeaderValue"),
        ({"x-ms-blob-type": "BlockBlob", "x-ms-access-tier": "P4"}, "InvalidBlobTier"),
        ({"x-ms-blob-type": "AppendBlob", "x-ms-access-tier": "Cool"}, "InvalidBlobTier"),
    ):
        reply = raw("PUT", path, b"", headers)
        assert (reply.status, reply.code) == (400, code), reply.text
        assert raw("HEAD", path).status == 404


def test_append_blobs_have_no_tiers(raw: RawClient, container: str) -> None:
    raw("PUT", f"{container}/a", b"", {"x-ms-blob-type": "AppendBlob"})
    reply = set_tier(raw, f"{container}/a", "Cool")
    assert (reply.status, reply.code) == (409, "InvalidBlobType")
    assert "x-ms-access-tier" not in head(raw, f"{container}/a")


def test_a_lease_holds_tiers_back(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path)
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "15"}
    lease_id = raw("PUT", path, None, acquire, comp="lease").headers["x-ms-lease-id"]
    reply = set_tier(raw, path, "Cool")
    assert (reply.status, reply.code) == (412, "LeaseIdMissing")
    reply = set_tier(raw, path, "Cool", {"x-ms-lease-id": str(uuid.uuid4())})
    assert (reply.status, reply.code) == (412, "LeaseIdMismatchWithBlobOperation")
    assert head(raw, path)["x-ms-access-tier"] == "Hot"
    assert set_tier(raw, path, "Cool", {"x-ms-lease-id": lease_id}).status == 200


def test_of_the_conditions_only_tags_are_looked_at(raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"x", x_ms_tags="state=done")
    unmet = {"x-ms-if-tags": "state = 'open'"}
    reply = set_tier(raw, path, "Cool", unmet)
    assert (reply.status, reply.code) == (412, "ConditionNotMet")
    assert head(raw, path)["x-ms-access-tier"] == "Hot"
    assert set_tier(raw, path, "Cool", {"x-ms-if-tags": "state = 'done'"}).status == 200
    assert set_tier(raw, path, "Hot", {"If-Match": '"0x0"'}).status == 200


def test_snapshots_have_tiers_of_their_own(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"data")
    moment = raw("PUT", path, comp="snapshot").headers["x-ms-snapshot"]
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    raw("PUT", path, None, acquire, comp="lease")
    assert set_tier(raw, path, "Archive", snapshot=moment).status == 200
    assert raw("GET", path, snapshot=moment).code == "BlobArchived"
    assert raw("GET", path).body == b"data"
    assert head(raw, path)["x-ms-access-tier"] == "Hot"
    assert set_tier(raw, path, "Hot", snapshot=moment).status == 202
    server.clock.advance(15 * hour + 1)
    assert raw("GET", path, snapshot=moment).body == b"data"


# ---- copies


def copy(raw: RawClient, server: Server, path: str, source: str, **headers: str):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{server.url}{source}?{raw.sas}"
    return raw("PUT", path, None, {"x-ms-copy-source": url, **sent})


def test_copies_are_given_tiers(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"data", x_ms_access_tier="Cool")
    for name, sync in (("b", ""), ("c", "true")):
        more = {"x_ms_requires_sync": sync} if sync else {}
        copied = copy(
            raw, server, f"{container}/{name}", f"{container}/a", x_ms_access_tier="Cold", **more
        )
        assert copied.status == 202, copied.text
        assert head(raw, f"{container}/{name}")["x-ms-access-tier"] == "Cold"
    put = copy(
        raw,
        server,
        f"{container}/d",
        f"{container}/a",
        x_ms_blob_type="BlockBlob",
        x_ms_access_tier="Archive",
    )
    assert put.status == 201
    assert raw("GET", f"{container}/d").code == "BlobArchived"


def test_an_archived_source_is_copied_to_be_rehydrated(
    server: Server, raw: RawClient, container: str
) -> None:
    source = f"{container}/a"
    archived(raw, source)
    path = f"{container}/b"
    for headers in ({}, {"x_ms_access_tier": "Archive"}):
        refused = copy(raw, server, path, source, **headers)
        assert (refused.status, refused.code) == (409, "BlobArchived")
    for headers in ({"x_ms_requires_sync": "true"}, {"x_ms_blob_type": "BlockBlob"}):
        refused = copy(raw, server, path, source, x_ms_access_tier="Hot", **headers)
        assert (refused.status, refused.code) == (409, "CannotVerifyCopySource")
    assert raw("HEAD", path).status == 404
    done = copy(raw, server, path, source, x_ms_access_tier="Hot", x_ms_rehydrate_priority="High")
    assert done.status == 202
    found = head(raw, path)
    assert found["x-ms-access-tier"] == "Archive"
    assert found["x-ms-archive-status"] == "rehydrate-pending-to-hot"
    assert raw("GET", path).code == "BlobArchived"
    server.clock.advance(hour + 1)
    assert raw("GET", path).body == b"cold data"
    assert head(raw, source)["x-ms-access-tier"] == "Archive"
    assert copy(raw, server, source, path).code == "BlobArchived"


def test_a_smart_blob_cools_down(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"x", x_ms_access_tier="Smart")
    for days, tier in ((29, "Hot"), (2, "Cool"), (60, "Cold")):
        server.clock.advance(days * 86_400)
        assert head(raw, path)["x-ms-smart-access-tier"] == tier
        assert f"<SmartAccessTier>{tier}</SmartAccessTier>" in listed(raw, container)


# ---- deleting what has been in its tier for long enough


@pytest.mark.parametrize(
    ("kind", "seconds", "status"),
    [
        ("modified", -10, 202),
        ("modified", 0, 412),
        ("modified", 10, 412),
        ("unmodified", -10, 412),
        ("unmodified", 0, 202),
        ("unmodified", 10, 202),
    ],
)
@pytest.mark.parametrize("explicit", [True, False])
def test_deleting_by_the_age_of_the_tier(
    server: Server, raw: RawClient, container: str, kind: str, seconds: int, status: int, explicit
) -> None:
    path = f"{container}/a"
    raw.put_blob(path)
    if explicit:
        server.clock.advance(100)
        set_tier(raw, path, "Cool")
    found = head(raw, path)
    name = "x-ms-access-tier-change-time" if explicit else "x-ms-creation-time"
    moment = parsedate_to_datetime(found[name]) + timedelta(seconds=seconds)
    condition = {f"x-ms-access-tier-if-{kind}-since": format_datetime(moment, usegmt=True)}
    reply = raw("DELETE", path, None, condition)
    assert reply.status == status, reply.text
    if status == 412:
        assert reply.code == "ConditionNotMet"
        assert head(raw, path)["etag"] == found["etag"]


def test_bad_conditions_on_tiers(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path)
    bad = raw("DELETE", path, None, {"x-ms-access-tier-if-modified-since": "yesterday"})
    assert (bad.status, bad.code) == (400, "InvalidHeaderValue")
    old = RawClient(server.port, version="2026-02-06")
    date = {"x-ms-access-tier-if-modified-since": "Sun, 06 Nov 1994 08:49:37 GMT"}
    refused = old("DELETE", path, None, date)
    assert (refused.status, refused.code) == (400, "InvalidHeaderValue")
    assert raw("DELETE", path, None, date).status == 202
    old.close()


@pytest.mark.parametrize(
    ("size", "tier"), [(512, "P10"), (128 * 1024**3, "P10"), (200 * 1024**3, "P20")]
)
@pytest.mark.parametrize("sku", ["Premium_LRS", "Standard_LRS"])
def test_page_blobs_of_premium_accounts_have_a_tier_of_their_size(
    sku: str, size: int, tier: str
) -> None:
    server = Server(dataclasses.replace(development_account(), sku=sku))
    client = RawClient(server.port)
    client("PUT", "/things", restype="container")
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(size)}
    client("PUT", "/things/disk", b"", disk)
    found = head(client, "/things/disk")
    page = listed(client, "/things")
    if sku.startswith("Premium"):
        assert found["x-ms-access-tier"] == tier
        assert found["x-ms-access-tier-inferred"] == "true"
        assert f"<AccessTier>{tier}</AccessTier><AccessTierInferred>true<" in page
        assert set_tier(client, "/things/disk", "P40").status == 200
        assert head(client, "/things/disk")["x-ms-access-tier"] == "P40"
        assert "x-ms-access-tier-inferred" not in head(client, "/things/disk")
    else:
        assert "x-ms-access-tier" not in found
        assert "AccessTier" not in page
    client.close()
    server.stop()
