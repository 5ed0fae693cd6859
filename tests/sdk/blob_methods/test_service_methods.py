"""Every public method of azure-storage-blob's BlobServiceClient, synchronous and asynchronous."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import (
    BlobAnalyticsLogging,
    BlobSasPermissions,
    CorsRule,
    Metrics,
    PublicAccess,
    RetentionPolicy,
    StaticWebsite,
    generate_blob_sas,
)

from etagere.testing import EtagereServer, ServerProcess

from .using import AsyncCredential, Credential, Using, done, listed, methods, pages_of, sdks, soon


class OfService:
    """Named as the methods of BlobServiceClient."""

    async def from_connection_string(self, using: Using) -> None:
        service = await using.service()
        assert service.account_name == using.account.account_name
        assert [each.name for each in await listed(service.list_containers())] == ["things"]

    async def close(self, using: Using) -> None:
        service = await using.service()
        await listed(service.list_containers())
        await done(service.close())

    async def create_container(self, using: Using) -> None:
        service = await using.service()
        made = await done(
            service.create_container(
                "made", metadata={"Colour": "red"}, public_access=PublicAccess.Blob
            )
        )
        found = await done(made.get_container_properties())
        assert (found.name, found.metadata) == ("made", {"Colour": "red"})
        assert found.public_access == "blob"
        with pytest.raises(ResourceExistsError) as refused:
            await done(service.create_container("made"))
        assert refused.value.error_code == "ContainerAlreadyExists"

    async def delete_container(self, using: Using) -> None:
        service = await using.service()
        container = service.get_container_client("things")
        lease = await done(container.acquire_lease(15))
        with pytest.raises(HttpResponseError) as refused:
            await done(service.delete_container("things"))
        assert refused.value.error_code == "LeaseIdMissing"
        await done(service.delete_container("things", lease=lease))
        assert await listed(service.list_containers()) == []
        with pytest.raises(ResourceNotFoundError):
            await done(service.delete_container("things"))

    async def undelete_container(self, using: Using) -> None:
        service = await using.service()
        container = service.get_container_client("things")
        await done(container.upload_blob("kept", b"data"))
        await done(service.delete_container("things"))
        (deleted,) = await listed(service.list_containers(include_deleted=True))
        assert deleted.deleted
        back = await done(service.undelete_container(deleted.name, deleted.version))
        assert [each.name for each in await listed(back.list_blobs())] == ["kept"]

    async def list_containers(self, using: Using) -> None:
        service = await using.service()
        for number in range(5):
            await done(service.create_container(f"list-{number}", metadata={"n": str(number)}))
        pages = await pages_of(
            service.list_containers(
                name_starts_with="list-", include_metadata=True, include_system=True,
                results_per_page=2,
            )
        )  # fmt: skip
        assert [[(each.name, each.metadata["n"]) for each in page] for page in pages] == [
            [("list-0", "0"), ("list-1", "1")], [("list-2", "2"), ("list-3", "3")],
            [("list-4", "4")],
        ]  # fmt: skip

    async def find_blobs_by_tags(self, using: Using) -> None:
        service = await using.service()
        await done(service.create_container("other"))
        for container in ("things", "other"):
            client = service.get_container_client(container)
            for number in range(3):
                tags = {"number": str(number), "where": container}
                await done(client.upload_blob(f"b{number}", b"", tags=tags))
        pages = await pages_of(service.find_blobs_by_tags("\"number\" >= '1'", results_per_page=3))
        assert [[(each.container_name, each.name) for each in page] for page in pages] == [
            [("other", "b1"), ("other", "b2"), ("things", "b1")], [("things", "b2")],
        ]  # fmt: skip
        assert pages[0][0].tags == {"number": "1"}
        found = await listed(service.find_blobs_by_tags("@container = 'other' AND number = '0'"))
        assert [each.name for each in found] == ["b0"]

    async def set_service_properties(self, using: Using) -> None:
        service = await using.service()
        retained = RetentionPolicy(enabled=True, days=5)
        await done(
            service.set_service_properties(
                analytics_logging=BlobAnalyticsLogging(
                    read=True, write=True, delete=True, retention_policy=retained
                ),
                hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=retained),
                minute_metrics=Metrics(enabled=False),
                cors=[CorsRule(["https://a.b", "*"], ["GET", "PUT"], max_age_in_seconds=30)],
                target_version="2021-12-02",
                delete_retention_policy=retained,
                static_website=StaticWebsite(
                    enabled=True, index_document="index.html", error_document404_path="404.html"
                ),
            )
        )
        found = await done(service.get_service_properties())
        assert (found["analytics_logging"].write, found["hour_metrics"].include_apis) == (
            True,
            True,
        )
        assert found["cors"][0].allowed_origins == "https://a.b,*"
        assert found["target_version"] == "2021-12-02"
        assert found["delete_retention_policy"].days == 5
        assert found["static_website"].error_document404_path == "404.html"

    async def get_service_properties(self, using: Using) -> None:
        found = await done((await using.service()).get_service_properties())
        assert found["cors"] == []
        assert found["delete_retention_policy"].enabled is False
        assert found["static_website"].enabled is False

    async def get_service_stats(self, using: Using) -> None:
        # The client finds a secondary by its host's name; a proxy brings any name to the server.
        with ServerProcess(["--in-memory", "--services=blob"]) as process:
            account = EtagereServer(process)
            service = await using.opened(
                using.sdk.BlobServiceClient(
                    f"http://{account.account_name}.blob.core.windows.net",
                    credential=account.account_key,
                    proxies={"http": f"http://127.0.0.1:{urlsplit(account.blob_url).port}"},
                    retry_total=0,
                )
            )
            found = (await done(service.get_service_stats()))["geo_replication"]
        assert found["status"] == "live"
        assert abs(found["last_sync_time"] - datetime.now(UTC)) < timedelta(minutes=5)

    async def get_account_information(self, using: Using) -> None:
        found = await done((await using.service()).get_account_information())
        assert (found["account_kind"], found["sku_name"]) == ("StorageV2", "Standard_LRS")
        assert found["is_hns_enabled"] is False

    async def get_user_delegation_key(self, using: Using) -> None:
        service = await using.opened(
            using.sdk.BlobServiceClient(
                using.account.blob_url,
                credential=AsyncCredential() if using.sdk is sdks["waiting"] else Credential(),
                **using.options,
            )
        )
        start = datetime.now(UTC) - timedelta(minutes=5)
        key = await done(service.get_user_delegation_key(start, soon()))
        assert key.signed_service == "b"
        await done(service.get_container_client("things").upload_blob("signed", b"by somebody"))
        token = generate_blob_sas(
            using.account.account_name, "things", "signed", user_delegation_key=key,
            permission=BlobSasPermissions(read=True), expiry=soon(),
        )  # fmt: skip
        url = f"{using.account.blob_url.rstrip('/')}/things/signed?{token}"
        blob = await using.opened(using.sdk.BlobClient.from_blob_url(url, **using.options))
        assert await done((await done(blob.download_blob())).readall()) == b"by somebody"
        with pytest.raises(HttpResponseError) as refused:
            await done(blob.delete_blob())
        assert refused.value.error_code == "AuthorizationPermissionMismatch"

    async def get_container_client(self, using: Using) -> None:
        found = (await using.service()).get_container_client("things")
        assert (await done(found.get_container_properties())).name == "things"

    async def get_blob_client(self, using: Using) -> None:
        service = await using.service()
        blob = service.get_blob_client("things", "a/b c/\u00e4#?%.txt")
        await done(blob.upload_blob(b"named"))
        (found,) = await listed(service.get_container_client("things").list_blobs())
        assert found.name == "a/b c/\u00e4#?%.txt"
        again = service.get_blob_client("things", found.name)
        assert await done((await done(again.download_blob())).readall()) == b"named"


service_methods = sorted(methods(OfService))


@pytest.mark.parametrize("sdk", sorted(sdks))
def test_no_method_is_left_out(sdk: str) -> None:
    client: Any = sdks[sdk]
    assert methods(client.BlobServiceClient) == set(service_methods)


@pytest.mark.parametrize("method", service_methods)
async def test_method(using: Using, method: str) -> None:
    await getattr(OfService(), method)(using)
