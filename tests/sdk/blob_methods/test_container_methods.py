"""Every public method of azure-storage-blob's ContainerClient and BlobLeaseClient, synchronous and
asynchronous."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import (
    AccessPolicy,
    ContainerSasPermissions,
    ContentSettings,
    PremiumPageBlobTier,
    PublicAccess,
    RehydratePriority,
    RetentionPolicy,
    StandardBlobTier,
    generate_container_sas,
)

from .using import Using, content, done, listed, methods, pages_of, sdks, soon


async def deletes(container: Any, names: list[str], **options: Any) -> list[int]:
    """The statuses that a batch answers with."""
    answers = await done(container.delete_blobs(*names, **options))
    return [answer.status_code for answer in await listed(answers)]


class OfContainer:
    """Named as the methods of ContainerClient."""

    async def from_connection_string(self, using: Using) -> None:
        container = await using.opened(
            using.sdk.ContainerClient.from_connection_string(
                using.connection_string, "things", **using.options
            )
        )
        assert (await done(container.get_container_properties())).name == "things"

    async def from_container_url(self, using: Using) -> None:
        url = f"{using.account.blob_url.rstrip('/')}/things?{using.token()}"
        container = await using.opened(
            using.sdk.ContainerClient.from_container_url(url, **using.options)
        )
        await done(container.upload_blob("a", b"data"))
        assert [each.name for each in await listed(container.list_blobs())] == ["a"]

    async def close(self, using: Using) -> None:
        container = await using.container()
        await done(container.exists())
        await done(container.close())

    async def create_container(self, using: Using) -> None:
        container = await using.container("made")
        made = await done(container.create_container(metadata={"a": "1"}))
        found = await done(container.get_container_properties())
        assert (found.etag, found.metadata) == (made["etag"], {"a": "1"})

    async def delete_container(self, using: Using) -> None:
        container = await using.container()
        before = datetime.now(UTC) - timedelta(days=1)
        with pytest.raises(HttpResponseError) as refused:
            await done(container.delete_container(if_unmodified_since=before))
        assert refused.value.error_code == "ConditionNotMet"
        await done(container.delete_container())
        assert not await done(container.exists())

    async def exists(self, using: Using) -> None:
        assert await done((await using.container()).exists()) is True
        assert await done((await using.container("nothing")).exists()) is False

    async def acquire_lease(self, using: Using) -> None:
        container = await using.container()
        lease = await done(container.acquire_lease(20))
        found = await done(container.get_container_properties(lease=lease))
        assert (found.lease.status, found.lease.state, found.lease.duration) == (
            "locked", "leased", "fixed",
        )  # fmt: skip
        with pytest.raises(ResourceExistsError) as refused:
            await done(container.acquire_lease())
        assert refused.value.error_code == "LeaseAlreadyPresent"

    async def get_account_information(self, using: Using) -> None:
        found = await done((await using.container()).get_account_information())
        assert found["account_kind"] == "StorageV2"

    async def get_container_properties(self, using: Using) -> None:
        container = await using.container()
        found = await done(container.get_container_properties())
        assert found.public_access is None
        assert (found.has_immutability_policy, found.has_legal_hold) == (False, False)
        assert found.encryption_scope.default_encryption_scope == "$account-encryption-key"
        with pytest.raises(ResourceNotFoundError) as missing:
            await done((await using.container("nothing")).get_container_properties())
        assert missing.value.error_code == "ContainerNotFound"

    async def set_container_metadata(self, using: Using) -> None:
        container = await using.container()
        await done(container.set_container_metadata({"First": "1"}))
        await done(container.set_container_metadata({"Second": "2"}))
        assert (await done(container.get_container_properties())).metadata == {"Second": "2"}

    async def set_container_access_policy(self, using: Using) -> None:
        container = await using.container()
        policy = AccessPolicy(
            ContainerSasPermissions(read=True), soon(), datetime.now(UTC) - timedelta(hours=1)
        )
        await done(
            container.set_container_access_policy(
                {"readers": policy}, public_access=PublicAccess.Container
            )
        )
        await done(container.upload_blob("a", b"data"))
        token = generate_container_sas(
            using.account.account_name, "things", using.account.account_key, policy_id="readers"
        )
        url = f"{using.account.blob_url.rstrip('/')}/things?{token}"
        reader = await using.opened(
            using.sdk.ContainerClient.from_container_url(url, **using.options)
        )
        assert await content(reader.get_blob_client("a")) == b"data"
        with pytest.raises(HttpResponseError):
            await done(reader.delete_blob("a"))
        await done(container.set_container_access_policy({}))
        with pytest.raises(HttpResponseError) as refused:
            await content(reader.get_blob_client("a"))
        assert refused.value.status_code == 403

    async def get_container_access_policy(self, using: Using) -> None:
        container = await using.container()
        found = await done(container.get_container_access_policy())
        assert (found["public_access"], found["signed_identifiers"]) == (None, [])
        policy = AccessPolicy(ContainerSasPermissions(list=True, read=True), soon())
        await done(container.set_container_access_policy({"readers": policy}))
        found = await done(container.get_container_access_policy())
        (identifier,) = found["signed_identifiers"]
        assert identifier.id == "readers"
        assert identifier.access_policy.permission == "rl"

    async def upload_blob(self, using: Using) -> None:
        container = await using.container()
        blob = await done(
            container.upload_blob(
                "a", b"data", metadata={"Up": "yes"}, tags={"k": "v"}, validate_content=True,
                content_settings=ContentSettings("text/plain", cache_control="no-cache"),
                standard_blob_tier=StandardBlobTier.COOL,
            )
        )  # fmt: skip
        found = await done(blob.get_blob_properties())
        assert (found.metadata, found.tag_count, found.blob_tier) == ({"Up": "yes"}, 1, "Cool")
        assert found.content_settings.cache_control == "no-cache"
        with pytest.raises(ResourceExistsError) as refused:
            await done(container.upload_blob("a", b"other"))
        assert refused.value.error_code == "BlobAlreadyExists"
        await done(container.upload_blob("a", b"other", overwrite=True))
        assert await content(blob) == b"other"

    async def download_blob(self, using: Using) -> None:
        container = await using.container()
        await done(container.upload_blob("a", b"0123456789"))
        stream = await done(container.download_blob("a", offset=2, length=5, validate_content=True))
        assert await done(stream.readall()) == b"23456"
        assert (stream.size, stream.properties.content_range) == (5, "bytes 2-6/10")
        with pytest.raises(ResourceModifiedError):
            await done(
                container.download_blob(
                    "a", etag='"0x1"', match_condition=MatchConditions.IfNotModified
                )
            )

    async def delete_blob(self, using: Using) -> None:
        container = await using.container()
        blob = await done(container.upload_blob("a", b"data"))
        await done(blob.create_snapshot())
        with pytest.raises(ResourceExistsError) as refused:
            await done(container.delete_blob("a"))
        assert refused.value.error_code == "SnapshotsPresent"
        await done(container.delete_blob("a", delete_snapshots="only"))
        await done(container.delete_blob("a"))
        assert await listed(container.list_blobs(include=["snapshots"])) == []

    async def delete_blobs(self, using: Using) -> None:
        container = await using.container()
        names = [f"a {number}/\u00e4" for number in range(200)]
        for name in names:
            await done(container.upload_blob(name, b""))
        assert await deletes(container, names[:150]) == [202] * 150
        assert [each.name for each in await listed(container.list_blobs())] == sorted(names[150:])
        found = await deletes(container, [names[0], names[199]], raise_on_any_failure=False)
        assert found == [404, 202]

    async def set_standard_blob_tier_blobs(self, using: Using) -> None:
        container = await using.container()
        for name in "abc":
            await done(container.upload_blob(name, b"data"))
        found = await done(container.set_standard_blob_tier_blobs("Cool", "a", "b"))
        assert [answer.status_code for answer in await listed(found)] == [200, 200]
        mixed = [
            {"name": "a", "blob_tier": "Archive"},
            {"name": "c", "blob_tier": "Cold", "rehydrate_priority": RehydratePriority.high},
        ]
        await listed(await done(container.set_standard_blob_tier_blobs(None, *mixed)))
        tiers = [each.blob_tier for each in await listed(container.list_blobs())]
        assert tiers == ["Archive", "Cool", "Cold"]

    async def set_premium_page_blob_tier_blobs(self, using: Using) -> None:
        premium = await using.with_account(sku="Premium_LRS")
        container = await premium.container()
        for name in "ab":
            await premium.page_blob(name)
        found = await done(
            container.set_premium_page_blob_tier_blobs(PremiumPageBlobTier.P20, "a", "b")
        )
        assert [answer.status_code for answer in await listed(found)] == [200, 200]
        assert {each.blob_tier for each in await listed(container.list_blobs())} == {"P20"}

    async def list_blobs(self, using: Using) -> None:
        service = await using.service()
        retained = RetentionPolicy(enabled=True, days=5)
        await done(service.set_service_properties(delete_retention_policy=retained))
        container = service.get_container_client("things")
        for number in range(7):
            await done(
                container.upload_blob(
                    f"list/{number}", b"data", metadata={"n": str(number)}, tags={"t": "1"}
                )
            )
        await done(container.get_blob_client("list/1").create_snapshot())
        await done(container.delete_blob("list/6"))
        await done(container.get_blob_client("list/staged").stage_block("0001", b"data"))
        await done(
            container.get_blob_client("list/copy").start_copy_from_url(
                container.get_blob_client("list/0").url
            )
        )
        await done(container.upload_blob("other", b""))
        pages = await pages_of(
            container.list_blobs(
                name_starts_with="list/", results_per_page=4,
                include=["snapshots", "metadata", "uncommittedblobs", "copy", "deleted", "tags"],
            )
        )  # fmt: skip
        found = [each for page in pages for each in page]
        assert [len(page) for page in pages] == [4, 4, 2]
        assert [each.name.removeprefix("list/") for each in found] == [
            *"01123456", "copy", "staged",
        ]  # fmt: skip
        assert found[1].snapshot is not None
        assert [each.name for each in found if each.deleted] == ["list/6"]
        assert found[2].metadata == {"n": "1"}
        assert found[2].tags == {"t": "1"}
        assert found[8].copy.status == "success"
        assert found[9].size == 0
        assert [each.name for each in await listed(container.list_blobs())][-1] == "other"

    async def list_blob_names(self, using: Using) -> None:
        container = await using.container()
        for name in ("a/1", "a/2", "b"):
            await done(container.upload_blob(name, b""))
        assert await listed(container.list_blob_names()) == ["a/1", "a/2", "b"]
        found = await pages_of(container.list_blob_names(name_starts_with="a/", results_per_page=1))
        assert found == [["a/1"], ["a/2"]]

    async def walk_blobs(self, using: Using) -> None:
        container = await using.container()
        for name in ("a/1", "a/b/2", "a/b/3", "b", "c/4"):
            await done(container.upload_blob(name, b"", metadata={"n": name[-1]}))
        top = await listed(container.walk_blobs(include=["metadata"]))
        assert [each.name for each in top] == ["a/", "c/", "b"]  # the client puts prefixes first
        assert top[2].metadata == {"n": "b"}
        assert [each.name for each in await listed(top[0])] == ["a/b/", "a/1"]
        pages = await pages_of(
            container.walk_blobs(name_starts_with="a/", delimiter="/", results_per_page=1)
        )
        assert [[each.name for each in page] for page in pages] == [["a/1"], ["a/b/"]]

    async def find_blobs_by_tags(self, using: Using) -> None:
        container = await using.container()
        for number in range(4):
            await done(container.upload_blob(f"b{number}", b"", tags={"n": str(number)}))
        found = await pages_of(
            container.find_blobs_by_tags("n > '0' AND n < '9'", results_per_page=2)
        )
        assert [[each.name for each in page] for page in found] == [["b1", "b2"], ["b3"]]

    async def get_blob_client(self, using: Using) -> None:
        container = await using.container()
        blob = container.get_blob_client("a")
        await done(blob.upload_blob(b"old"))
        snapshot = (await done(blob.create_snapshot()))["snapshot"]
        await done(blob.upload_blob(b"new", overwrite=True))
        assert await content(container.get_blob_client("a", snapshot=snapshot)) == b"old"


class OfLease:
    """Named as the methods of BlobLeaseClient; of blobs and of containers."""

    async def acquire(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        other = "22222222-2222-2222-2222-222222222222"
        lease = using.sdk.BlobLeaseClient(blob, "11111111-1111-1111-1111-111111111111")
        await done(lease.acquire(-1))
        assert lease.id == "11111111-1111-1111-1111-111111111111"
        assert (await done(blob.get_blob_properties())).lease.duration == "infinite"
        with pytest.raises(HttpResponseError) as refused:
            await done(blob.upload_blob(b"other", overwrite=True))
        assert refused.value.error_code == "LeaseIdMissing"
        await done(blob.upload_blob(b"other", overwrite=True, lease=lease))
        await done(blob.commit_block_list([], lease=lease))
        with pytest.raises(HttpResponseError) as wrong:
            await done(blob.commit_block_list([], lease=other))
        assert wrong.value.error_code == "LeaseIdMismatchWithBlobOperation"

    async def renew(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        lease = await done(blob.acquire_lease(15))
        using.account.advance(10)
        await done(lease.renew())
        using.account.advance(10)
        assert (await done(blob.get_blob_properties())).lease.state == "leased"
        using.account.advance(10)
        assert (await done(blob.get_blob_properties())).lease.state == "expired"
        await done(lease.renew())

    async def change(self, using: Using) -> None:
        container = await using.container()
        lease = await done(container.acquire_lease(15))
        await done(lease.change("33333333-3333-3333-3333-333333333333"))
        assert lease.id == "33333333-3333-3333-3333-333333333333"
        await done(container.delete_container(lease=lease))

    async def release(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        first = await done(blob.acquire_lease(15))
        former = using.sdk.BlobLeaseClient(blob, first.id)
        await done(first.release())
        await done(blob.acquire_lease(15))
        with pytest.raises(ResourceExistsError) as refused:
            await done(former.release())
        assert refused.value.error_code == "LeaseIdMismatchWithLeaseOperation"

    async def break_lease(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        lease = await done(blob.acquire_lease(60))
        left = await done(lease.break_lease(lease_break_period=20))
        assert left in (19, 20)
        assert (await done(blob.get_blob_properties())).lease.state == "breaking"
        using.account.advance(21)
        assert (await done(blob.get_blob_properties())).lease.state == "broken"
        assert await done(using.sdk.BlobLeaseClient(blob).break_lease()) == 0


container_methods = sorted(methods(OfContainer))
lease_methods = sorted(methods(OfLease))


@pytest.mark.parametrize("sdk", sorted(sdks))
def test_no_method_is_left_out(sdk: str) -> None:
    client: Any = sdks[sdk]
    assert methods(client.ContainerClient) == set(container_methods)
    assert methods(client.BlobLeaseClient) == set(lease_methods)


@pytest.mark.parametrize("method", container_methods)
async def test_container_method(using: Using, method: str) -> None:
    await getattr(OfContainer(), method)(using)


@pytest.mark.parametrize("method", lease_methods)
async def test_lease_method(using: Using, method: str) -> None:
    await getattr(OfLease(), method)(using)
