"""Who is let in, under which version, and what every answer carries."""

import http.client
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.storage.blob import (
    AccessPolicy,
    BlobClient,
    BlobSasPermissions,
    ContainerClient,
    ContainerSasPermissions,
    generate_blob_sas,
    generate_container_sas,
)

from etagere.services.common.accounts import development_account, development_key, development_name

from .serving import RawClient, Reply, Server


def soon(**more: float) -> datetime:
    return datetime.now(UTC) + timedelta(**(more or {"hours": 1}))


def test_every_answer_carries_the_common_headers(raw: RawClient, container: str) -> None:
    for reply in (
        raw("GET", f"{container}/none", headers={"x-ms-client-request-id": "mine"}),
        raw("HEAD", container, headers={"x-ms-client-request-id": "mine"}, restype="container"),
        raw("PUT", f"{container}/a", b"x", {"x-ms-client-request-id": "mine"}),
    ):
        uuid.UUID(reply.headers["x-ms-request-id"])
        assert reply.headers["x-ms-version"] == raw.version
        assert reply.headers["x-ms-client-request-id"] == "mine"
        assert reply.headers["date"].endswith("GMT")
        assert reply.headers["server"].startswith("Windows-Azure-Blob/1.0")


@pytest.mark.parametrize("value", ["x" * 1025, "caf\u00e9"])
def test_a_client_request_id_that_is_not_echoed(raw: RawClient, container: str, value: str) -> None:
    reply = raw("HEAD", container, headers={"x-ms-client-request-id": value}, restype="container")
    assert "x-ms-client-request-id" not in reply.headers


def test_an_error_says_what_was_wrong(raw: RawClient, container: str) -> None:
    reply = raw("PUT", f"{container}/a", b"x", {"x-ms-blob-type": "Odd"})
    assert reply.status == 400
    assert "<HeaderName>x-ms-blob-type</HeaderName><HeaderValue>Odd</HeaderValue>" in reply.text
    request_id = reply.headers["x-ms-request-id"]
    assert f"RequestId:{request_id}\nTime:" in reply.text
    head = raw("HEAD", f"{container}/none")
    assert (head.status, head.code, head.body) == (404, "BlobNotFound", b"")


@pytest.mark.parametrize("version", ["2008-10-27", "2015-02-21", "2026-10-06", "2031-01-01"])
def test_versions_known_and_newer_are_served(server: Server, raw: RawClient, version: str) -> None:
    newer = RawClient(server.port, version=version)
    reply = newer("GET", "/", comp="list")
    assert reply.status == (200 if version > "2009" else 400)
    assert reply.headers["x-ms-version"] == version
    newer.close()


@pytest.mark.parametrize("version", ["2019-01-01", "nonsense", "2031-13-01"])
def test_versions_that_never_were(server: Server, raw: RawClient, version: str) -> None:
    odd = RawClient(server.port, version=version)
    reply = odd("GET", "/", comp="list")
    assert (reply.status, reply.code) == (400, "InvalidHeaderValue")
    odd.close()


def test_nobody_is_let_in_without_a_reason(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    reply = raw("GET", f"{container}/a", signed=False)
    assert (reply.status, reply.code) == (401, "NoAuthenticationInformation")
    assert reply.headers["www-authenticate"].startswith("Bearer authorization_uri=")
    assert raw("DELETE", f"{container}/a", signed=False).status == 401


@pytest.mark.parametrize(
    ("access", "blob", "listing"), [("blob", 200, 401), ("container", 200, 200)]
)
def test_public_access(raw: RawClient, access: str, blob: int, listing: int) -> None:
    headers = {"x-ms-blob-public-access": access}
    raw("PUT", "/public", headers=headers, restype="container")
    raw.put_blob("/public/a", b"open")
    assert raw("GET", "/public/a", signed=False).status == blob
    assert raw("GET", "/public", signed=False, restype="container", comp="list").status == listing
    assert raw("GET", "/public", signed=False, restype="container").status == listing
    assert raw.put_blob("/public/b").status == 201
    assert raw("PUT", "/public/c", b"", {"x-ms-blob-type": "BlockBlob"}, signed=False).status == 401
    assert raw("HEAD", "/public", restype="container").headers["x-ms-blob-public-access"] == access


def test_an_account_may_forbid_public_access() -> None:
    import dataclasses

    server = Server(dataclasses.replace(development_account(), allow_public_access=False))
    raw = RawClient(server.port)
    refused = raw("PUT", "/pub", headers={"x-ms-blob-public-access": "blob"}, restype="container")
    assert (refused.status, refused.code) == (409, "PublicAccessNotPermitted")
    raw("PUT", "/pub", restype="container")
    anonymous = raw("GET", "/pub/a", signed=False)
    assert (anonymous.status, anonymous.code) == (409, "PublicAccessNotPermitted")
    raw.close()
    server.stop()


def test_wrong_keys_are_refused(server: Server, container: str) -> None:
    wrong = development_key[:-6] + "AAAA=="
    with ContainerClient(server.url, container[1:], credential=wrong, retry_total=0) as client:
        with pytest.raises(ClientAuthenticationError) as refused:
            client.get_container_properties()
        assert refused.value.status_code == 403


def test_a_stored_policy_governs_its_tokens(server: Server, container: str) -> None:
    with server.sdk() as client:
        things = client.get_container_client(container[1:])
        things.upload_blob("a", b"data")
        policy = AccessPolicy(ContainerSasPermissions(read=True), soon(), soon(hours=-1))
        things.set_container_access_policy({"readers": policy})
        token = generate_container_sas(
            development_name, container[1:], development_key, policy_id="readers"
        )
        reader = BlobClient(server.url, container[1:], "a", credential=token, retry_total=0)
        assert reader.download_blob().readall() == b"data"
        with pytest.raises(HttpResponseError, match="AuthorizationPermissionMismatch"):
            reader.delete_blob()
        things.set_container_access_policy({})
        with pytest.raises(ClientAuthenticationError):
            reader.download_blob()
        reader.close()


def test_create_does_not_mean_overwrite(server: Server, raw: RawClient, container: str) -> None:
    token = generate_blob_sas(
        development_name, container[1:], "a", account_key=development_key,
        permission=BlobSasPermissions(create=True), expiry=soon(),
    )  # fmt: skip
    blob = BlobClient(server.url, container[1:], "a", credential=token, retry_total=0)
    blob.upload_blob(b"one")
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_blob(b"two", overwrite=True)
    assert refused.value.status_code == 403
    blob.close()
    assert raw("GET", f"{container}/a").body == b"one"


def test_a_token_may_replace_headers(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"x", Content_Type="text/plain")
    token = generate_blob_sas(
        development_name, container[1:], "a", account_key=development_key,
        permission=BlobSasPermissions(read=True), expiry=soon(),
        content_type="text/html", content_disposition="attachment",
    )  # fmt: skip
    reply = raw("GET", f"{container}/a?{token}", signed=False)
    client = http.client.HTTPConnection("127.0.0.1", server.port)
    client.request("GET", f"/{development_name}{container}/a?{token}")
    reply = Reply(client.getresponse())
    client.close()
    assert reply.headers["content-type"] == "text/html"
    assert reply.headers["content-disposition"] == "attachment"


def test_the_secondary_reads_and_does_not_write(raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"x")
    assert raw("GET", f"{container}/a", secondary=True).body == b"x"
    refused = raw("DELETE", f"{container}/a", secondary=True)
    assert (refused.status, refused.code) == (403, "InsufficientAccountPermissions")
    stats = raw("GET", "/", secondary=True, restype="service", comp="stats")
    assert "<Status>live</Status>" in stats.text
    assert raw("GET", "/", restype="service", comp="stats").code == "InvalidQueryParameterValue"


def test_host_style(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a", b"x")
    client = http.client.HTTPConnection("127.0.0.1", server.port)
    host = f"{development_name}.blob.localhost:{server.port}"
    client.request("GET", f"{container}/a?{raw.sas}", headers={"Host": host})
    reply = Reply(client.getresponse())
    assert (reply.status, reply.body) == (200, b"x")
    client.close()


def test_the_root_container(raw: RawClient) -> None:
    assert raw("PUT", "/$root", restype="container").status == 201
    assert raw.put_blob("/top.txt", b"x").status == 201
    assert raw("GET", "/top.txt").body == b"x"
    assert raw("GET", "/$root/top.txt").body == b"x"


def test_account_information(raw: RawClient, container: str) -> None:
    for path in ("/", container, f"{container}/none"):
        reply = raw("GET", path, restype="account", comp="properties")
        assert reply.status == 200
        assert reply.headers["x-ms-sku-name"] == "Standard_LRS"
        assert reply.headers["x-ms-account-kind"] == "StorageV2"


def test_cross_origin_requests(server: Server, raw: RawClient, container: str) -> None:
    rule = (
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>https://a.example</AllowedOrigins>"
        "<AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders>"
        "<ExposedHeaders>x-ms-*</ExposedHeaders><MaxAgeInSeconds>7</MaxAgeInSeconds>"
        "</CorsRule></Cors></StorageServiceProperties>"
    )
    assert raw("PUT", "/", rule, restype="service", comp="properties").status == 202
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
    reply = raw("OPTIONS", f"{container}/none", headers=asked, signed=False)
    assert reply.status == 200
    assert reply.headers["access-control-max-age"] == "7"
    asked["Access-Control-Request-Method"] = "PUT"
    refused = raw("OPTIONS", f"{container}/none", headers=asked, signed=False)
    assert (refused.status, refused.code) == (403, "CorsPreflightFailure")
    raw.put_blob(f"{container}/a")
    got = raw("GET", f"{container}/a", headers={"Origin": "https://a.example"})
    assert got.headers["access-control-allow-origin"] == "https://a.example"
    assert "x-ms-request-id" in got.headers["access-control-expose-headers"]
    assert got.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ab", "OutOfRangeInput"),
        ("a" * 64, "OutOfRangeInput"),
        ("Upper", "InvalidResourceName"),
        ("a--b", "InvalidResourceName"),
        ("-abc", "InvalidResourceName"),
        ("abc-", "InvalidResourceName"),
        ("a_bc", "InvalidResourceName"),
    ],
)
def test_container_names(raw: RawClient, name: str, code: str) -> None:
    reply = raw("PUT", f"/{name}", restype="container")
    assert (reply.status, reply.code) == (400, code)


def test_a_deleted_container_s_name_is_free_at_once(
    server: Server, raw: RawClient, container: str
) -> None:
    raw.put_blob(f"{container}/a", b"x" * 100_000)
    first = raw("HEAD", container, restype="container").etag
    assert raw("DELETE", container, restype="container").status == 202
    assert raw("GET", f"{container}/a").code == "ContainerNotFound"
    assert raw("PUT", container, restype="container").status == 201
    assert raw("HEAD", container, restype="container").etag != first
    assert raw("GET", f"{container}/a").code == "BlobNotFound"
    server.sweep()
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_metadata_has_limits(raw: RawClient, container: str) -> None:
    for headers, code in (
        ({"x-ms-meta-": "x"}, "EmptyMetadataKey"),
        ({"x-ms-meta-1a": "x"}, "InvalidMetadata"),
        ({"x-ms-meta-a-b": "x"}, "InvalidMetadata"),
        ({"x-ms-meta-a": "x" * 8192}, "MetadataTooLarge"),
    ):
        reply = raw("PUT", container, None, headers, restype="container", comp="metadata")
        assert (reply.status, reply.code) == (400, code), headers


@pytest.mark.parametrize("access", ["", "blob", "container"])
def test_what_everybody_may_do(raw: RawClient, access: str) -> None:
    """Each operation on a container and on its blobs, by the level at which it is open."""
    headers = {"x-ms-blob-public-access": access} if access else {}
    raw("PUT", "/con", headers=headers, restype="container")
    raw.put_blob("/con/b")
    raw("PUT", "/con/b", b"x", comp="block", blockid="AAAA")
    taken = raw("PUT", "/con/b", comp="snapshot").headers["x-ms-snapshot"]
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}
    raw("PUT", "/con/disk", headers=disk)
    container = {"restype": "container"}
    for level, method, path, query in (
        ("blob", "GET", "/con/b", {}),
        ("blob", "HEAD", "/con/b", {}),
        ("blob", "GET", "/con/b", {"snapshot": taken}),
        ("blob", "GET", "/con/b", {"comp": "metadata"}),
        ("blob", "GET", "/con/b", {"comp": "blocklist"}),
        ("blob", "GET", "/con/disk", {"comp": "pagelist"}),
        ("container", "GET", "/con", container),
        ("container", "HEAD", "/con", container),
        ("container", "GET", "/con", {**container, "comp": "metadata"}),
        ("container", "GET", "/con", {**container, "comp": "list"}),
        ("never", "GET", "/con", {**container, "comp": "acl"}),
        ("never", "GET", "/con/b", {"comp": "tags"}),
        ("never", "GET", "/con/b", {"comp": "blocklist", "blocklisttype": "uncommitted"}),
        ("never", "GET", "/con/b", {"comp": "blocklist", "blocklisttype": "all"}),
        ("never", "PUT", "/con/b", {"comp": "metadata"}),
        ("never", "PUT", "/con/b", {"comp": "lease"}),
        ("never", "DELETE", "/con/b", {}),
        ("never", "DELETE", "/con", container),
        ("never", "GET", "/", {"comp": "list"}),
    ):
        reply = raw(method, path, signed=False, **query)
        allowed = access == level or (access == "container" and level == "blob")
        if allowed:
            assert reply.status == 200, (method, path, query, reply.text)
        else:
            assert reply.status in (401, 403), (method, path, query, reply.status)


def test_etags_were_not_quoted_once(server: Server, raw: RawClient, container: str) -> None:
    raw.put_blob(f"{container}/a")
    for version, quoted in (("2009-09-19", False), ("2011-08-18", True), ("2015-02-21", True)):
        headers = {"x-ms-version": version}
        for reply in (
            raw("HEAD", f"{container}/a", headers=headers),
            raw("GET", f"{container}/a", headers=headers),
            raw("HEAD", container, headers=headers, restype="container"),
            raw.put_blob(f"{container}/b", b"x", **headers),
        ):
            assert reply.etag.startswith('"') == quoted, (version, reply.etag)
            assert (
                raw("GET", f"{container}/a", headers={**headers, "If-None-Match": '"0x1"'}).status
                == 200
            )


def test_tags_have_a_permission_of_their_own(server: Server, raw: RawClient) -> None:
    raw("PUT", "/con", restype="container")
    raw.put_blob("/con/a", b"x", x_ms_tags="k=v")
    disk = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512"}
    without = RawClient(server.port, "rwdlac")
    source = {"x-ms-copy-source": f"{server.url}/con/a?{without.sas}"}
    readable = {"x-ms-copy-source": f"{server.url}/con/a?{raw.sas}"}
    by_tags = {"x-ms-if-tags": "k = 'v'"}
    tags = {"x-ms-tags": "a=b"}
    block = {"x-ms-blob-type": "BlockBlob"}
    for method, headers, query in (
        ("GET", by_tags, {}),
        ("DELETE", by_tags, {}),
        ("PUT", {"x-ms-access-tier": "Cool", **by_tags}, {"comp": "tier"}),
        ("PUT", by_tags, {"comp": "metadata"}),
        ("PUT", {**block, **tags}, {}),
        ("PUT", {**disk, **tags}, {}),
        ("PUT", {"x-ms-blob-type": "AppendBlob", **tags}, {}),
        ("PUT", {**readable, **tags}, {}),
        ("PUT", {**source, "x-ms-copy-source-tag-option": "COPY"}, {}),
        ("PUT", {**source, "x-ms-source-if-tags": "k = 'v'"}, {}),
        ("GET", {}, {"comp": "tags"}),
    ):
        reply = without(method, "/con/a", headers=headers, **query)
        assert (reply.status, reply.code) == (403, "AuthorizationPermissionMismatch"), headers
    listed = without("GET", "/con", restype="container", comp="list", include="tags")
    assert (listed.status, listed.code) == (403, "AuthorizationPermissionMismatch")
    from_url = {**block, **source, "x-ms-copy-source-tag-option": "COPY"}
    refused = without("PUT", "/con/a", headers=from_url)
    assert (refused.status, refused.code) == (403, "CannotVerifyCopySource")
    copied = {**source, "x-ms-copy-source-tag-option": "REPLACE"}
    assert without("PUT", "/con/b", headers=copied).status == 202
    assert without("GET", "/con/a").status == 200
    assert raw("GET", "/con/a", headers=by_tags).status == 200
    without.close()


def test_tags_are_unknown_to_older_versions(server: Server, raw: RawClient, container: str) -> None:
    """What a version does not know, it ignores."""
    older = RawClient(server.port, version="2019-07-07")
    assert older.put_blob(f"{container}/a", b"x", x_ms_tags="k=v").status == 201
    assert "x-ms-tag-count" not in raw("HEAD", f"{container}/a").headers
    unmet = {"x-ms-if-tags": "k = 'v'"}
    assert older("GET", f"{container}/a", headers=unmet).status == 200
    assert raw("GET", f"{container}/a", headers=unmet).status == 412
    older.close()
