"""Immutability policies and legal holds, over HTTP, with time moved by hand."""

import base64
from dataclasses import replace
from email.utils import formatdate

import pytest

from etagere.base.clock import ticks_per_second
from etagere.services.common.accounts import development_account

from .serving import RawClient, Reply, Server

day = 86_400
policies = "immutabilityPolicies"


@pytest.fixture
def container(raw: RawClient) -> str:
    headers = {"x-ms-immutable-storage-with-versioning-enabled": "true"}
    assert raw("PUT", "/things", None, headers, restype="container").status == 201
    return "/things"


def date(server: Server, days: float) -> str:
    return formatdate(server.clock.now() // ticks_per_second + days * day, usegmt=True)


def policy(server: Server, days: float, mode: str = "") -> dict[str, str]:
    headers = {"x-ms-immutability-policy-until-date": date(server, days)}
    if mode:
        headers["x-ms-immutability-policy-mode"] = mode
    return headers


def protect(server: Server, raw: RawClient, path: str, days: float, mode: str = "") -> Reply:
    return raw("PUT", path, None, policy(server, days, mode), comp=policies)


def hold(raw: RawClient, path: str, held: str) -> Reply:
    return raw("PUT", path, None, {"x-ms-legal-hold": held}, comp="legalhold")


def head(raw: RawClient, path: str) -> dict[str, str]:
    reply = raw("HEAD", path)
    assert reply.status == 200
    return reply.headers


changes = [
    ("DELETE", {}, {}, None),
    ("PUT", {}, {"x-ms-blob-type": "BlockBlob"}, b"new"),
    ("PUT", {"comp": "blocklist"}, {}, b"<BlockList></BlockList>"),
    ("PUT", {"comp": "metadata"}, {"x-ms-meta-a": "b"}, None),
    ("PUT", {"comp": "properties"}, {"x-ms-blob-content-type": "a/b"}, None),
    ("PUT", {}, {"x-ms-copy-source": "SOURCE"}, None),
    ("PUT", {}, {"x-ms-copy-source": "SOURCE", "x-ms-requires-sync": "true"}, None),
    ("PUT", {}, {"x-ms-copy-source": "SOURCE", "x-ms-blob-type": "BlockBlob"}, None),
]


@pytest.mark.parametrize(("method", "query", "headers", "body"), changes)
@pytest.mark.parametrize("protection", ["unlocked", "locked", "hold"])
def test_what_is_protected_is_not_changed(
    server: Server,
    raw: RawClient,
    container: str,
    method: str,
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes | None,
    protection: str,
) -> None:
    path = f"{container}/a"
    put = raw.put_blob(path, b"data")
    raw.put_blob(f"{container}/b", b"other")
    if protection == "hold":
        assert hold(raw, path, "true").status == 200
        code = "BlobImmutableDueToLegalHold"
    else:
        assert protect(server, raw, path, 2, protection).status == 200
        code = "BlobImmutableDueToPolicy"
    source = f"{server.url}{container}/b?{raw.sas}"
    headers = {n: source if v == "SOURCE" else v for n, v in headers.items()}
    refused = raw(method, path, body, headers, **query)
    assert (refused.status, refused.code) == (409, code), refused.text
    got = raw("GET", path)
    assert (got.body, got.etag) == (b"data", put.etag)
    if protection == "hold":
        assert hold(raw, path, "false").status == 200
    else:
        server.clock.advance(2 * day + 1)
    done = raw(method, path, body, headers, **query)
    assert done.status in (200, 201, 202), done.text


def test_append_blobs_are_protected(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw("PUT", path, b"", {"x-ms-blob-type": "AppendBlob"})
    assert raw("PUT", path, b"x", comp="appendblock").status == 201
    assert protect(server, raw, path, 1).status == 200
    for query in ({"comp": "appendblock"}, {"comp": "seal"}):
        refused = raw("PUT", path, b"x" if query["comp"] == "appendblock" else None, **query)
        assert (refused.status, refused.code) == (409, "BlobImmutableDueToPolicy")
    assert raw("GET", path).body == b"x"


def test_what_protection_leaves_alone(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    put = raw.put_blob(path, b"data")
    done = protect(server, raw, path, 1, "Unlocked")
    assert "etag" not in done.headers
    assert done.headers["x-ms-immutability-policy-mode"] == "unlocked"
    assert hold(raw, path, "true").headers["x-ms-legal-hold"] == "true"
    found = head(raw, path)
    assert (found["etag"], found["last-modified"]) == (put.etag, put.headers["last-modified"])
    tags = "<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>"
    assert raw("PUT", path, tags, comp="tags").status == 204
    assert raw("PUT", path, None, {"x-ms-access-tier": "Cool"}, comp="tier").status == 200
    moment = raw("PUT", path, comp="snapshot").headers["x-ms-snapshot"]
    assert raw("DELETE", path, snapshot=moment).status == 202
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    assert raw("PUT", path, None, acquire, comp="lease").status == 201
    # A lease does not hold policies back.
    assert protect(server, raw, path, 2).status == 200
    assert hold(raw, path, "false").status == 200


@pytest.mark.parametrize(
    ("before", "after", "days", "status"),
    [
        ("unlocked", "unlocked", 10, 200),
        ("unlocked", "unlocked", 2, 200),
        ("unlocked", "locked", 2, 200),
        ("unlocked", "", 2, 200),
        ("locked", "locked", 10, 200),
        ("locked", "", 10, 200),
        ("locked", "locked", 2, 409),
        ("locked", "unlocked", 10, 409),
        ("locked", "unlocked", 2, 409),
    ],
)
@pytest.mark.parametrize("expired", [False, True])
def test_a_locked_policy_is_only_extended(
    server: Server,
    raw: RawClient,
    container: str,
    before: str,
    after: str,
    days: int,
    status: int,
    expired: bool,
) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"data")
    assert protect(server, raw, path, 5, before).status == 200
    at_first = head(raw, path)
    wanted = policy(server, days, after)
    if expired and days > 5:
        server.clock.advance(6 * day)
    reply = raw("PUT", path, None, wanted, comp=policies)
    assert reply.status == status, reply.text
    found = head(raw, path)
    if status == 409:
        assert reply.code == "BlobImmutableDueToPolicy"
        for name in ("until-date", "mode"):
            header = f"x-ms-immutability-policy-{name}"
            assert found[header] == at_first[header]
        return
    assert found["x-ms-immutability-policy-until-date"] == next(iter(wanted.values()))
    mode = "locked" if "locked" in (before, after) else "unlocked"
    assert found["x-ms-immutability-policy-mode"] == mode


def test_policies_are_deleted_unless_locked(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path, b"data")
    assert raw("DELETE", path, comp=policies).status == 200
    protect(server, raw, path, 5)
    hold(raw, path, "true")
    assert raw("DELETE", path, comp=policies).status == 200
    found = head(raw, path)
    assert "x-ms-immutability-policy-until-date" not in found
    assert found["x-ms-legal-hold"] == "true"
    hold(raw, path, "false")
    assert raw.put_blob(path, b"new").status == 201
    protect(server, raw, path, 5, "Locked")
    for _ in range(2):
        refused = raw("DELETE", path, comp=policies)
        assert (refused.status, refused.code) == (409, "BlobImmutableDueToPolicy")
        assert head(raw, path)["x-ms-immutability-policy-mode"] == "locked"
        server.clock.advance(6 * day)  # locked it stays, when its time is over
    assert raw("DELETE", path).status == 202


def test_blobs_are_created_protected(server: Server, raw: RawClient, container: str) -> None:
    wanted = policy(server, 3, "Locked")
    assert raw.put_blob(f"{container}/put", b"x", **wanted).status == 201
    block = base64.b64encode(b"1").decode()
    raw("PUT", f"{container}/list", b"x", comp="block", blockid=block)
    text = f"<BlockList><Latest>{block}</Latest></BlockList>"
    assert raw("PUT", f"{container}/list", text, wanted, comp="blocklist").status == 201
    append = {"x-ms-blob-type": "AppendBlob", **wanted}
    assert raw("PUT", f"{container}/append", b"", append).status == 201
    source = {"x-ms-copy-source": f"{server.url}{container}/put?{raw.sas}"}
    assert raw("PUT", f"{container}/copy", None, {**source, **wanted}).status == 202
    sync = {**source, "x-ms-requires-sync": "true", "x-ms-legal-hold": "true"}
    assert raw("PUT", f"{container}/held", None, sync).status == 202
    for name in ("put", "list", "append", "copy"):
        assert head(raw, f"{container}/{name}")["x-ms-immutability-policy-mode"] == "locked"
        assert raw("DELETE", f"{container}/{name}").code == "BlobImmutableDueToPolicy"
    assert "x-ms-immutability-policy-mode" not in head(raw, f"{container}/held")
    assert raw("DELETE", f"{container}/held").code == "BlobImmutableDueToLegalHold"


def test_listings_say_it_when_asked(server: Server, raw: RawClient, container: str) -> None:
    protect_headers = policy(server, 3)
    raw.put_blob(f"{container}/a", b"x", **protect_headers, x_ms_legal_hold="true")
    raw.put_blob(f"{container}/b", b"x")

    def listed(include: str) -> str:
        return raw("GET", container, restype="container", comp="list", include=include).text

    until = protect_headers["x-ms-immutability-policy-until-date"]
    element = f"<ImmutabilityPolicyUntilDate>{until}</ImmutabilityPolicyUntilDate>"
    both = listed("immutabilitypolicy,legalhold")
    assert both.count(element) == 1
    assert both.count("<ImmutabilityPolicyMode>unlocked</ImmutabilityPolicyMode>") == 1
    assert both.count("<LegalHold>true</LegalHold>") == 1
    assert "Immutability" not in listed("legalhold")
    assert "LegalHold" not in listed("immutabilitypolicy")
    assert "Immutability" not in listed("")


@pytest.mark.parametrize(
    ("headers", "query", "code"),
    [
        ({}, {"comp": policies}, "MissingRequiredHeader"),
        ({"until-date": "soon"}, {"comp": policies}, "InvalidHeaderValue"),
        ({"until-date": "Sun, 06 Nov 1994 08:49:37 GMT"}, {"comp": policies}, "InvalidHeaderValue"),
        ({"until-date": "+3", "mode": "Mutable"}, {"comp": policies}, "InvalidHeaderValue"),
        ({}, {"comp": "legalhold"}, "MissingRequiredHeader"),
        ({"hold": "maybe"}, {"comp": "legalhold"}, "InvalidHeaderValue"),
        ({"mode": "Locked"}, {}, "MissingRequiredHeader"),
        ({"until-date": "soon"}, {}, "InvalidHeaderValue"),
        ({"until-date": "Sun, 06 Nov 1994 08:49:37 GMT"}, {}, "InvalidHeaderValue"),
        ({"hold": "1"}, {}, "InvalidHeaderValue"),
    ],
)
def test_bad_requests_change_nothing(
    server: Server,
    raw: RawClient,
    container: str,
    headers: dict[str, str],
    query: dict[str, str],
    code: str,
) -> None:
    path = f"{container}/a"
    put = raw.put_blob(path, b"data")
    names = {
        "until-date": "x-ms-immutability-policy-until-date",
        "mode": "x-ms-immutability-policy-mode",
        "hold": "x-ms-legal-hold",
    }
    sent = {names[n]: date(server, 3) if v == "+3" else v for n, v in headers.items()}
    if not query:
        sent["x-ms-blob-type"] = "BlockBlob"
    reply = raw("PUT", path, None if query else b"new", sent, **query)
    assert (reply.status, reply.code) == (400, code), reply.text
    found = head(raw, path)
    assert found["etag"] == put.etag
    assert not [name for name in found if "immutability" in name or "legal" in name]


def test_the_one_condition(server: Server, raw: RawClient, container: str) -> None:
    path = f"{container}/a"
    raw.put_blob(path)
    unmet = {"If-Unmodified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"}
    reply = raw("PUT", path, None, {**policy(server, 2), **unmet}, comp=policies)
    assert (reply.status, reply.code) == (412, "ConditionNotMet")
    assert "x-ms-immutability-policy-mode" not in head(raw, path)
    ignored = {"If-Match": '"0x0"'}
    assert raw("PUT", path, None, {**policy(server, 2), **ignored}, comp=policies).status == 200


def test_nothing_there(server: Server, raw: RawClient, container: str) -> None:
    for reply in (
        protect(server, raw, f"{container}/nothing", 1),
        hold(raw, f"{container}/nothing", "true"),
        raw("DELETE", f"{container}/nothing", comp=policies),
    ):
        assert (reply.status, reply.code) == (404, "BlobNotFound")


def test_other_containers_know_no_policies(server: Server, raw: RawClient) -> None:
    raw("PUT", "/plain", restype="container")
    raw.put_blob("/plain/a")
    for reply in (
        protect(server, raw, "/plain/a", 1),
        hold(raw, "/plain/a", "true"),
        raw.put_blob("/plain/a", b"new", **policy(server, 1)),
        raw.put_blob("/plain/b", b"new", x_ms_legal_hold="true"),
    ):
        assert (reply.status, reply.code) == (409, "InvalidOperation")
    assert raw("GET", "/plain/a").body == b"data"
    assert raw("HEAD", "/plain/b").status == 404
    assert raw("DELETE", "/plain", restype="container").status == 202


def test_a_signature_needs_the_permission(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    writer = RawClient(server.port, permissions="rwdl")
    for reply in (
        protect(server, writer, f"{container}/a", 1),
        hold(writer, f"{container}/a", "true"),
        writer.put_blob(f"{container}/b", b"x", **policy(server, 1)),
    ):
        assert (reply.status, reply.code) == (403, "AuthorizationPermissionMismatch")
    assert writer.put_blob(f"{container}/b", b"x").status == 201
    writer.close()


def test_a_container_with_blobs_is_not_deleted(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    refused = raw("DELETE", container, restype="container")
    assert (refused.status, refused.code) == (409, "ContainerProtectedFromDeletion")
    assert raw("GET", f"{container}/a").status == 200
    raw("DELETE", f"{container}/a")
    assert raw("DELETE", container, restype="container").status == 202


class TestVersions:
    @pytest.fixture
    def server(self):
        account = replace(
            development_account(), versioning=True, immutable_storage_with_versioning=True
        )
        running = Server(account)
        yield running
        running.stop()

    @pytest.fixture
    def container(self, raw: RawClient) -> str:
        assert raw("PUT", "/things", restype="container").status == 201
        return "/things"

    def test_each_version_is_protected_by_itself(
        self, server: Server, raw: RawClient, container: str
    ) -> None:
        path = f"{container}/a"
        first = raw.put_blob(path, b"one").headers["x-ms-version-id"]
        raw.put_blob(path, b"two")
        reply = raw("PUT", path, None, policy(server, 2), comp=policies, versionid=first)
        assert reply.status == 200, reply.text
        refused = raw("DELETE", path, versionid=first)
        assert (refused.status, refused.code) == (409, "BlobImmutableDueToPolicy")
        assert raw.put_blob(path, b"three").status == 201
        assert raw("DELETE", path).status == 202
        refused = raw("DELETE", container, restype="container")
        assert refused.code == "ContainerProtectedFromDeletion"
        server.clock.advance(2 * day + 1)
        assert raw("DELETE", path, versionid=first).status == 202
        assert raw("GET", path, versionid=first).status == 404
