"""Every public method of azure-storage-blob's BlobClient, synchronous and asynchronous."""

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import md5
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
    BlobBlock,
    BlobImmutabilityPolicyMode,
    BlobType,
    ContentSettings,
    DelimitedTextDialect,
    ImmutabilityPolicy,
    PremiumPageBlobTier,
    RehydratePriority,
    RetentionPolicy,
    SequenceNumberAction,
    StandardBlobTier,
)

from .using import Using, content, done, kibibyte, listed, mebibyte, methods, pages_of, sdks

page = b"p" * 512


async def refused(
    code: str, call: Callable[[], Any], kind: type[Exception] = HttpResponseError
) -> None:
    with pytest.raises(kind) as caught:
        await done(call())
    assert caught.value.error_code == code  # type: ignore[attr-defined]


class OfBlob:
    """Named as the methods of BlobClient."""

    async def from_connection_string(self, using: Using) -> None:
        blob = await using.opened(
            using.sdk.BlobClient.from_connection_string(
                using.connection_string, "things", "a", **using.options
            )
        )
        await done(blob.upload_blob(b"data"))
        assert await content(blob) == b"data"

    async def from_blob_url(self, using: Using) -> None:
        url = f"{using.account.blob_url.rstrip('/')}/things/a%20b/%C3%A4?{using.token('rwc')}"
        blob = await using.opened(using.sdk.BlobClient.from_blob_url(url, **using.options))
        assert blob.blob_name == "a b/\u00e4"
        await done(blob.upload_blob(b"data"))
        assert await content(blob) == b"data"

    async def close(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        await done(blob.close())

    async def get_account_information(self, using: Using) -> None:
        found = await done((await using.blob()).get_account_information())
        assert found["sku_name"] == "Standard_LRS"

    async def exists(self, using: Using) -> None:
        blob = await using.blob("a")
        assert await done(blob.exists()) is False
        await done(blob.stage_block("0001", b"data"))
        assert await done(blob.exists()) is False
        await done(blob.upload_blob(b""))
        assert await done(blob.exists()) is True

    async def get_blob_properties(self, using: Using) -> None:
        blob = await using.blob("a")
        made = await done(blob.upload_blob(b"data", metadata={"Up": "1"}, tags={"k": "v"}))
        found = await done(blob.get_blob_properties())
        assert (found.etag, found.last_modified) == (made["etag"], made["last_modified"])
        assert found.creation_time == found.last_modified
        assert (found.size, found.blob_type, found.metadata) == (4, BlobType.BlockBlob, {"Up": "1"})
        assert bytes(found.content_settings.content_md5) == md5(b"data").digest()
        assert (found.blob_tier, found.blob_tier_inferred, found.tag_count) == ("Hot", True, 1)
        assert (found.lease.state, found.lease.status) == ("available", "unlocked")
        assert found.server_encrypted is True
        with pytest.raises(HttpResponseError) as caught:
            await done(
                blob.get_blob_properties(
                    etag=made["etag"], match_condition=MatchConditions.IfModified
                )
            )
        assert caught.value.status_code == 304
        with pytest.raises(ResourceNotFoundError):
            await done((await using.blob("nothing")).get_blob_properties())

    async def upload_blob(self, using: Using) -> None:
        blob = await using.blob("a", max_single_put_size=kibibyte, max_block_size=kibibyte)
        data = bytes(range(256)) * 20
        seen: list[int] = []

        def hook(current: int, total: int | None) -> None:
            del total
            seen.append(current)

        async def async_hook(current: int, total: int | None) -> None:
            hook(current, total)

        report = hook if using.sdk is sdks["blocking"] else async_hook
        await done(
            blob.upload_blob(
                io.BytesIO(data), max_concurrency=3, validate_content=True, progress_hook=report
            )
        )
        assert await content(blob) == data
        assert max(seen) == len(data)
        assert len((await done(blob.get_block_list()))[0]) == 5
        await refused("BlobAlreadyExists", lambda: blob.upload_blob(b"x"), ResourceExistsError)
        etag = (await done(blob.get_blob_properties())).etag
        await done(blob.upload_blob(b"new", overwrite=True, etag=etag,
                                    match_condition=MatchConditions.IfNotModified))  # fmt: skip
        with pytest.raises(ResourceModifiedError):
            await done(blob.upload_blob(b"late", overwrite=True, etag=etag,
                                        match_condition=MatchConditions.IfNotModified))  # fmt: skip
        pages = await using.blob("pages")
        await done(pages.upload_blob(page * 4, blob_type=BlobType.PageBlob))
        assert await content(pages) == page * 4
        log = await using.blob("log")
        for _ in range(2):
            await done(log.upload_blob(b"line\n", blob_type=BlobType.AppendBlob))
        assert await content(log) == b"line\n" * 2

    async def upload_blob_from_url(self, using: Using) -> None:
        source = await using.blob("source", b"data" * 50_000)
        blob = await using.blob("a")
        await done(
            blob.upload_blob_from_url(
                using.source(source), tags={"k": "v"}, metadata={"m": "1"},
                standard_blob_tier=StandardBlobTier.COOL,
                source_content_md5=md5(b"data" * 50_000).digest(),
            )
        )  # fmt: skip
        assert await content(blob) == b"data" * 50_000
        found = await done(blob.get_blob_properties())
        assert (found.metadata, found.tag_count, found.blob_tier) == ({"m": "1"}, 1, "Cool")
        await refused("BlobAlreadyExists", lambda: blob.upload_blob_from_url(using.source(source)))

    async def download_blob(self, using: Using) -> None:
        blob = await using.blob(
            "a", max_single_get_size=64 * kibibyte, max_chunk_get_size=64 * kibibyte
        )
        data = bytes(range(256)) * 2000
        await done(blob.upload_blob(data))
        assert await content(blob, max_concurrency=4, validate_content=True) == data
        assert await content(blob, offset=1000, length=100_000) == data[1000:101_000]
        stream = await done(blob.download_blob())
        pieces = await listed(stream.chunks())
        assert b"".join(pieces) == data
        assert len(pieces) == len(data) // (64 * kibibyte) + 1
        stream = await done(blob.download_blob())
        target = io.BytesIO()
        await done(stream.readinto(target))
        assert target.getvalue() == data
        text = await using.blob("text", "gr\u00fc\u00df".encode())
        assert await content(text, encoding="utf-8") == "gr\u00fc\u00df"
        empty = await using.blob("empty", b"")
        assert await content(empty) == b""
        stream = await done(blob.download_blob())  # its first part is here already
        await done(blob.upload_blob(data[::-1], overwrite=True))
        with pytest.raises(ResourceModifiedError):
            await done(stream.readall())

    async def query_blob(self, using: Using) -> None:
        blob = await using.blob("a", b"name,age\nAnn,31\nBob,7\n")
        found = await done(
            blob.query_blob(
                "SELECT name FROM BlobStorage WHERE age > 30",
                blob_format=DelimitedTextDialect(has_header=True),
                output_format=DelimitedTextDialect(has_header=False),
            )
        )
        assert await done(found.readall()) == b"Ann\n"

    async def delete_blob(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        await done(blob.create_snapshot())
        await refused("SnapshotsPresent", blob.delete_blob)
        await done(blob.delete_blob(delete_snapshots="include"))
        await refused("BlobNotFound", blob.delete_blob, ResourceNotFoundError)

    async def undelete_blob(self, using: Using) -> None:
        service = await using.service()
        retained = RetentionPolicy(enabled=True, days=5)
        await done(service.set_service_properties(delete_retention_policy=retained))
        blob = await using.blob("a", b"data")
        await done(blob.delete_blob())
        assert not await done(blob.exists())
        await done(blob.undelete_blob())
        assert await content(blob) == b"data"

    async def set_http_headers(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        settings = ContentSettings("text/x", "gzip", "fr", "inline", "max-age=5")
        await done(blob.set_http_headers(settings))
        found = (await done(blob.get_blob_properties())).content_settings
        assert (
            found.content_type, found.content_encoding, found.content_language,
            found.content_disposition, found.cache_control, found.content_md5,
        ) == ("text/x", "gzip", "fr", "inline", "max-age=5", None)  # fmt: skip

    async def set_blob_metadata(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        before = (await done(blob.get_blob_properties())).etag
        await done(blob.set_blob_metadata({"Up": "1"}))
        found = await done(blob.get_blob_properties())
        assert found.metadata == {"Up": "1"}
        assert found.etag != before
        await done(blob.set_blob_metadata())
        assert (await done(blob.get_blob_properties())).metadata == {}

    async def set_blob_tags(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        before = (await done(blob.get_blob_properties())).etag
        await done(blob.set_blob_tags({"k": "v"}))
        assert (await done(blob.get_blob_properties())).etag == before
        await refused(
            "ConditionNotMet",
            lambda: blob.set_blob_tags({"x": "y"}, if_tags_match_condition="k='other'"),
        )

    async def get_blob_tags(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        assert await done(blob.get_blob_tags()) == {}
        await done(blob.set_blob_tags({"b c": "1", "a": "x/y:z"}))
        assert await done(blob.get_blob_tags()) == {"b c": "1", "a": "x/y:z"}

    async def acquire_lease(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        lease = await done(blob.acquire_lease(15, lease_id="1" * 8 + "-1111" * 3 + "-" + "1" * 12))
        assert lease.id == "11111111-1111-1111-1111-111111111111"
        await refused("LeaseIdMissing", blob.delete_blob)
        await done(blob.delete_blob(lease=lease))

    async def create_snapshot(self, using: Using) -> None:
        blob = await using.blob("a", b"old")
        taken = await done(blob.create_snapshot(metadata={"taken": "1"}))
        await done(blob.upload_blob(b"new", overwrite=True))
        container = await using.container()
        snapshot = container.get_blob_client("a", snapshot=taken["snapshot"])
        assert await content(snapshot) == b"old"
        assert (await done(snapshot.get_blob_properties())).metadata == {"taken": "1"}
        await done(snapshot.delete_blob())
        await refused("BlobNotFound", snapshot.get_blob_properties, ResourceNotFoundError)

    async def start_copy_from_url(self, using: Using) -> None:
        source = await using.blob("source")
        await done(source.upload_blob(b"data", metadata={"m": "1"}, tags={"k": "v"}))
        blob = await using.blob("a")
        found = await done(blob.start_copy_from_url(source.url))
        assert found["copy_status"] == "success"
        properties = await done(blob.get_blob_properties())
        assert (properties.metadata, properties.copy.status) == ({"m": "1"}, "success")
        assert properties.copy.progress == "4/4"
        sync = await using.blob("sync")
        await done(sync.start_copy_from_url(using.source(source), requires_sync=True))
        assert await content(sync) == b"data"
        disk = await using.page_blob()
        snapshot = await done(disk.create_snapshot())
        follower = await using.blob("follower")
        await done(
            follower.start_copy_from_url(
                f"{disk.url}?snapshot={snapshot['snapshot']}", incremental_copy=True
            )
        )
        assert (await done(follower.get_blob_properties())).copy.incremental_copy is True

    async def abort_copy(self, using: Using) -> None:
        blob = await using.blob("a")
        started = await done(blob.start_copy_from_url(using.elsewhere))
        assert started["copy_status"] == "pending"
        await refused("PendingCopyOperation", lambda: blob.upload_blob(b"x", overwrite=True))
        await done(blob.abort_copy(started["copy_id"]))
        found = await done(blob.get_blob_properties())
        assert (found.copy.status, found.size) == ("aborted", 0)
        await refused("NoPendingCopyOperation", lambda: blob.abort_copy(started["copy_id"]))

    async def set_standard_blob_tier(self, using: Using) -> None:
        blob = await using.blob("a", b"data")
        await done(blob.set_standard_blob_tier(StandardBlobTier.ARCHIVE))
        await refused("BlobArchived", blob.download_blob)
        await done(
            blob.set_standard_blob_tier(
                StandardBlobTier.HOT, rehydrate_priority=RehydratePriority.high
            )
        )
        found = await done(blob.get_blob_properties())
        assert found.archive_status == "rehydrate-pending-to-hot"

    async def set_premium_page_blob_tier(self, using: Using) -> None:
        premium = await using.with_account(sku="Premium_LRS")
        disk = await premium.page_blob()
        await done(disk.set_premium_page_blob_tier(PremiumPageBlobTier.P20))
        assert (await done(disk.get_blob_properties())).blob_tier == "P20"

    async def set_immutability_policy(self, using: Using) -> None:
        other = await using.with_account(versioning=True, immutable_storage_with_versioning=True)
        blob = await other.blob("a", b"data")
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
        policy = ImmutabilityPolicy(
            expiry_time=until, policy_mode=BlobImmutabilityPolicyMode.UNLOCKED
        )
        await done(blob.set_immutability_policy(policy))
        found = (await done(blob.get_blob_properties())).immutability_policy
        assert (found.expiry_time, found.policy_mode) == (until, "unlocked")
        await refused("BlobImmutableDueToPolicy", lambda: blob.set_blob_metadata({"a": "1"}))
        await done(blob.delete_immutability_policy())

    async def delete_immutability_policy(self, using: Using) -> None:
        other = await using.with_account(versioning=True, immutable_storage_with_versioning=True)
        blob = await other.blob("a", b"data")
        until = datetime.now(UTC) + timedelta(days=2)
        await done(
            blob.set_immutability_policy(
                ImmutabilityPolicy(
                    expiry_time=until, policy_mode=BlobImmutabilityPolicyMode.UNLOCKED
                )
            )
        )
        await done(blob.delete_immutability_policy())
        await done(blob.set_blob_metadata({"a": "1"}))
        assert (await done(blob.get_blob_properties())).immutability_policy.policy_mode is None

    async def set_legal_hold(self, using: Using) -> None:
        other = await using.with_account(versioning=True, immutable_storage_with_versioning=True)
        blob = await other.blob("a", b"data")
        await done(blob.set_legal_hold(True))
        assert (await done(blob.get_blob_properties())).has_legal_hold is True
        await refused("BlobImmutableDueToLegalHold", blob.delete_blob)
        await done(blob.set_legal_hold(False))
        await done(blob.delete_blob())

    # ---- blocks

    async def stage_block(self, using: Using) -> None:
        blob = await using.blob("a")
        await done(blob.stage_block("0001", b"data", validate_content=True))
        await done(blob.stage_block("0002", io.BytesIO(b"more"), length=4))
        _, staged = await done(blob.get_block_list("all"))
        assert [(each.id, each.size) for each in staged] == [("0001", 4), ("0002", 4)]
        await refused("InvalidBlobOrBlock", lambda: blob.stage_block("00003", b"data"))

    async def stage_block_from_url(self, using: Using) -> None:
        source = await using.blob("source", b"0123456789")
        blob = await using.blob("a")
        await done(blob.stage_block_from_url("0001", using.source(source), 2, 5))
        await done(blob.commit_block_list([BlobBlock("0001")]))
        assert await content(blob) == b"23456"

    async def get_block_list(self, using: Using) -> None:
        blob = await using.blob("a")
        await done(blob.stage_block("0001", b"one"))
        await done(blob.commit_block_list([BlobBlock("0001")]))
        await done(blob.stage_block("0002", b"two!"))
        committed, staged = await done(blob.get_block_list("all"))
        assert [(each.id, each.size) for each in committed] == [("0001", 3)]
        assert [(each.id, each.size) for each in staged] == [("0002", 4)]

    async def commit_block_list(self, using: Using) -> None:
        blob = await using.blob("a")
        for number in range(3):
            await done(blob.stage_block(f"000{number}", f"<{number}>".encode()))
        made = await done(
            blob.commit_block_list(
                [BlobBlock("0002"), BlobBlock("0000"), BlobBlock("0002")], metadata={"m": "1"},
                content_settings=ContentSettings("text/plain"), tags={"k": "v"},
            )
        )  # fmt: skip
        assert await content(blob) == b"<2><0><2>"
        await refused("InvalidBlockList", lambda: blob.commit_block_list([BlobBlock("0009")]))
        assert (await done(blob.get_blob_properties())).etag == made["etag"]

    # ---- append blobs

    async def create_append_blob(self, using: Using) -> None:
        log = await using.blob("log")
        await done(log.create_append_blob(metadata={"m": "1"}, tags={"k": "v"}))
        found = await done(log.get_blob_properties())
        assert (found.blob_type, found.size, found.tag_count) == (BlobType.AppendBlob, 0, 1)

    async def append_block(self, using: Using) -> None:
        log = await using.append_blob()
        first = await done(log.append_block(b"one", validate_content=True))
        second = await done(log.append_block(b"two", appendpos_condition=3, maxsize_condition=6))
        assert (first["blob_append_offset"], second["blob_append_offset"]) == ("0", "3")
        assert second["blob_committed_block_count"] == 2
        await refused(
            "AppendPositionConditionNotMet", lambda: log.append_block(b"x", appendpos_condition=3)
        )
        await refused(
            "MaxBlobSizeConditionNotMet", lambda: log.append_block(b"x", maxsize_condition=6)
        )

    async def append_block_from_url(self, using: Using) -> None:
        source = await using.blob("source", b"0123456789")
        log = await using.append_blob()
        await done(log.append_block_from_url(using.source(source), 3, 4))
        assert await content(log) == b"3456"

    async def seal_append_blob(self, using: Using) -> None:
        log = await using.append_blob()
        found = await done(log.seal_append_blob())
        assert found["blob_sealed"] is True
        await refused("BlobIsSealed", lambda: log.append_block(b"x"))

    # ---- page blobs

    async def create_page_blob(self, using: Using) -> None:
        disk = await using.blob("disk")
        await done(disk.create_page_blob(mebibyte, sequence_number=7, metadata={"m": "1"}))
        found = await done(disk.get_blob_properties())
        assert (found.blob_type, found.size) == (BlobType.PageBlob, mebibyte)
        assert found.page_blob_sequence_number == 7
        assert await content(disk, offset=0, length=1024) == bytes(1024)

    async def upload_page(self, using: Using) -> None:
        disk = await using.page_blob()
        await done(disk.upload_page(page, 512, 512, validate_content=True))
        assert await content(disk, offset=0, length=1536) == bytes(512) + page + bytes(512)
        await refused(
            "SequenceNumberConditionNotMet",
            lambda: disk.upload_page(page, 0, 512, if_sequence_number_lt=0),
        )

    async def upload_pages_from_url(self, using: Using) -> None:
        source = await using.blob("source", b"a" * 512 + b"b" * 512)
        disk = await using.page_blob()
        await done(disk.upload_pages_from_url(using.source(source), 1024, 512, 512))
        assert await content(disk, offset=1024, length=1024) == b"b" * 512 + bytes(512)

    async def clear_page(self, using: Using) -> None:
        disk = await using.page_blob()
        await done(disk.upload_page(page * 2, 0, 1024))
        await done(disk.clear_page(0, 512))
        assert await content(disk, offset=0, length=1024) == bytes(512) + page

    async def get_page_ranges(self, using: Using) -> None:
        disk = await using.page_blob()
        await done(disk.upload_page(page, 0, 512))
        taken = (await done(disk.create_snapshot()))["snapshot"]
        await done(disk.upload_page(page, 1024, 512))
        await done(disk.clear_page(0, 512))
        with pytest.deprecated_call():
            found = await done(disk.get_page_ranges())
        assert found == ([{"start": 1024, "end": 1535}], [])
        with pytest.deprecated_call():
            found = await done(disk.get_page_ranges(previous_snapshot_diff=taken))
        assert found == ([{"start": 1024, "end": 1535}], [{"start": 0, "end": 511}])

    async def list_page_ranges(self, using: Using) -> None:
        disk = await using.page_blob("disk", 16 * 512)
        for number in range(0, 8, 2):
            await done(disk.upload_page(page, number * 512, 512))
        found = await pages_of(disk.list_page_ranges(results_per_page=3))
        assert [[each.start // 512 for each in ranges] for ranges in found] == [[0, 2, 4], [6]]

    async def get_page_range_diff_for_managed_disk(self, using: Using) -> None:
        disk = await using.page_blob()
        taken = (await done(disk.create_snapshot()))["snapshot"]
        await done(disk.upload_page(page, 512, 512))
        filled, cleared = await done(
            disk.get_page_range_diff_for_managed_disk(f"{disk.url}?snapshot={taken}")
        )
        assert (filled, cleared) == ([{"start": 512, "end": 1023}], [])

    async def resize_blob(self, using: Using) -> None:
        disk = await using.page_blob()
        await done(disk.resize_blob(8192))
        assert (await done(disk.get_blob_properties())).size == 8192

    async def set_sequence_number(self, using: Using) -> None:
        disk = await using.page_blob()
        await done(disk.set_sequence_number(SequenceNumberAction.Update, "9"))
        await done(disk.set_sequence_number(SequenceNumberAction.Max, "5"))
        found = await done(disk.set_sequence_number(SequenceNumberAction.Increment))
        assert found["blob_sequence_number"] == 10


blob_methods = sorted(methods(OfBlob))


@pytest.mark.parametrize("sdk", sorted(sdks))
def test_no_method_is_left_out(sdk: str) -> None:
    client: Any = sdks[sdk]
    assert methods(client.BlobClient) == set(blob_methods)


@pytest.mark.parametrize("method", blob_methods)
async def test_method(using: Using, method: str) -> None:
    await getattr(OfBlob(), method)(using)
