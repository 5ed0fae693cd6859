"""Append blobs with azure-storage-blob."""

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobClient, BlobServiceClient, BlobType, ContentSettings

from etagere.testing import EtagereServer


@pytest.fixture
def log(service: BlobServiceClient) -> BlobClient:
    blob = service.create_container("logs").get_blob_client("log")
    blob.create_append_blob(ContentSettings(content_type="text/plain"), {"app": "shop"})
    return blob


def test_creating_appending_and_reading(log: BlobClient) -> None:
    for number in range(5):
        done = log.append_block(f"line {number}\n")
        assert done["blob_append_offset"] == str(number * 7)
        assert done["blob_committed_block_count"] == number + 1
        assert done["request_server_encrypted"] is True
    properties = log.get_blob_properties()
    assert properties.blob_type == BlobType.AppendBlob
    assert properties.append_blob_committed_block_count == 5
    assert properties.size == 35
    assert properties.content_settings.content_type == "text/plain"
    assert properties.metadata == {"app": "shop"}
    assert properties.is_append_blob_sealed is None
    assert log.download_blob(encoding="utf-8").readall().splitlines()[3] == "line 3"
    assert log.download_blob(offset=7, length=6).readall() == b"line 1"


def test_uploading_as_an_append_blob(
    account: EtagereServer, client_of: Callable[..., BlobServiceClient]
) -> None:
    service = client_of(account, max_block_size=1 << 20)
    blob = service.create_container("logs").get_blob_client("log")
    data = bytes(range(256)) * 40_000  # 10 MB: several blocks
    blob.upload_blob(data, blob_type=BlobType.AppendBlob)
    assert blob.get_blob_properties().append_blob_committed_block_count == 10
    blob.upload_blob(b"more", blob_type=BlobType.AppendBlob)
    assert blob.download_blob().readall() == data + b"more"
    blob.upload_blob(b"new", blob_type=BlobType.AppendBlob, overwrite=True)
    assert blob.download_blob().readall() == b"new"
    stream = io.BytesIO(b"x" * 100_000)
    blob.upload_blob(stream, blob_type=BlobType.AppendBlob, validate_content=True)
    assert blob.download_blob(validate_content=True).readall() == b"new" + b"x" * 100_000


def test_appending_at_conditions(log: BlobClient) -> None:
    log.append_block(b"12345", appendpos_condition=0)
    with pytest.raises(HttpResponseError) as wrong_place:
        log.append_block(b"x", appendpos_condition=0)
    assert wrong_place.value.error_code == "AppendPositionConditionNotMet"
    assert log.append_block(b"6789", maxsize_condition=9)["blob_append_offset"] == "5"
    with pytest.raises(HttpResponseError) as too_long:
        log.append_block(b"x", maxsize_condition=9)
    assert too_long.value.error_code == "MaxBlobSizeConditionNotMet"
    etag = log.get_blob_properties().etag
    log.append_block(b"!", etag=etag, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceModifiedError):
        log.append_block(b"!", etag=etag, match_condition=MatchConditions.IfNotModified)
    assert log.download_blob().readall() == b"123456789!"


def test_sealing(log: BlobClient, service: BlobServiceClient) -> None:
    log.append_block(b"done")
    assert log.seal_append_blob()["blob_sealed"] is True
    assert log.get_blob_properties().is_append_blob_sealed is True
    with pytest.raises(ResourceExistsError) as refused:
        log.append_block(b"more")
    assert refused.value.error_code == "BlobIsSealed"
    (listed,) = service.get_container_client("logs").list_blobs()
    assert listed.blob_type == BlobType.AppendBlob
    log.create_append_blob()
    log.append_block(b"again")
    assert log.download_blob().readall() == b"again"


def test_leases_and_snapshots(log: BlobClient, service: BlobServiceClient) -> None:
    log.append_block(b"one")
    lease = log.acquire_lease(lease_duration=15)
    with pytest.raises(HttpResponseError) as refused:
        log.append_block(b"two")
    assert refused.value.error_code == "LeaseIdMissing"
    taken = log.create_snapshot()
    log.append_block(b"two", lease=lease)
    lease.release()
    snapshot = service.get_blob_client("logs", "log", snapshot=taken["snapshot"])
    assert snapshot.download_blob().readall() == b"one"
    assert snapshot.get_blob_properties().append_blob_committed_block_count == 1
    assert log.download_blob().readall() == b"onetwo"


def test_copying(log: BlobClient, service: BlobServiceClient) -> None:
    log.append_block(b"one")
    copy = service.get_blob_client("logs", "copy")
    copy.start_copy_from_url(log.url)
    properties = copy.get_blob_properties()
    assert properties.blob_type == BlobType.AppendBlob
    assert properties.copy.status == "success"
    copy.append_block(b"two")
    assert copy.download_blob().readall() == b"onetwo"
    assert log.download_blob().readall() == b"one"


def test_what_is_not_there(service: BlobServiceClient) -> None:
    container = service.create_container("logs")
    with pytest.raises(ResourceNotFoundError):
        container.get_blob_client("none").append_block(b"x")
    container.upload_blob("block", b"x")
    with pytest.raises(ResourceExistsError) as refused:
        container.get_blob_client("block").append_block(b"x")
    assert refused.value.error_code == "InvalidBlobType"


def test_many_threads_append(log: BlobClient) -> None:
    def append(number: int) -> tuple[int, bytes]:
        data = f"<{number}>".encode()
        return int(log.append_block(data)["blob_append_offset"]), data

    with ThreadPoolExecutor(8) as pool:
        done = sorted(pool.map(append, range(60)))
    assert log.download_blob().readall() == b"".join(data for _, data in done)
    end = 0
    for offset, data in done:
        assert offset == end
        end += len(data)


def test_content_that_is_validated_in_segments(log: BlobClient) -> None:
    """The client sends, and asks for, structured bodies."""
    data = bytes(range(256)) * 1000
    log.append_block(data, validate_content="crc64")
    log.upload_blob(io.BytesIO(data), blob_type=BlobType.AppendBlob, validate_content="crc64")
    assert log.download_blob(validate_content="crc64").readall() == data * 2
    part = log.download_blob(offset=5, length=1000, validate_content="crc64").readall()
    assert part == data[5:1005]


def test_a_block_blob_that_is_validated_in_segments(
    account: EtagereServer, client_of: Callable[..., BlobServiceClient]
) -> None:
    service = client_of(
        account,
        max_single_put_size=1 << 20,
        max_block_size=4 << 20,
        max_single_get_size=4 << 20,
        max_chunk_get_size=1 << 20,
    )
    data = bytes(range(256)) * 60_000  # 15 MB: several blocks up, several chunks down
    blob = service.create_container("files").get_blob_client("large")
    blob.upload_blob(io.BytesIO(data), validate_content="crc64", max_concurrency=4)
    assert blob.download_blob(validate_content="crc64").readall() == data
    assert blob.download_blob().readall() == data
