"""Page blobs with azure-storage-blob."""

import io
from collections.abc import Callable

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import (
    BlobClient,
    BlobServiceClient,
    BlobType,
    ContentSettings,
    PremiumPageBlobTier,
    SequenceNumberAction,
)

from etagere.testing import EtagereServer

mebibyte = 1 << 20


@pytest.fixture
def disk(service: BlobServiceClient) -> BlobClient:
    blob = service.create_container("disks").get_blob_client("disk")
    blob.create_page_blob(4 * mebibyte, ContentSettings(content_type="application/x-vhd"))
    return blob


def ranges(blob: BlobClient, **options: object) -> list[tuple[int, int, bool]]:
    return [(one.start, one.end, one.cleared) for one in blob.list_page_ranges(**options)]


def test_creating_writing_and_reading(disk: BlobClient) -> None:
    done = disk.upload_page(b"a" * 1024, 512, 1024)
    assert done["blob_sequence_number"] == 0
    disk.upload_page(b"b" * 512, mebibyte, 512)
    disk.clear_page(1024, 512)
    properties = disk.get_blob_properties()
    assert properties.blob_type == BlobType.PageBlob
    assert properties.size == 4 * mebibyte
    assert properties.page_blob_sequence_number == 0
    assert properties.etag != done["etag"]
    assert properties.content_settings.content_type == "application/x-vhd"
    assert ranges(disk) == [(512, 1023, False), (mebibyte, mebibyte + 511, False)]
    data = disk.download_blob().readall()
    assert data[512:1024] == b"a" * 512
    assert data[1024:2048] == bytes(1024)
    assert len(data) == 4 * mebibyte
    assert disk.download_blob(offset=1000, length=30).readall() == b"a" * 24 + bytes(6)


def test_uploading_as_a_page_blob(
    account: EtagereServer, client_of: Callable[..., BlobServiceClient]
) -> None:
    """The client leaves out pages of zeros, and asks for the ranges before it reads in pieces."""
    service = client_of(
        account, max_page_size=mebibyte, max_single_get_size=mebibyte, max_chunk_get_size=mebibyte
    )
    blob = service.create_container("disks").get_blob_client("disk")
    data = b"x" * mebibyte + bytes(3 * mebibyte) + b"y" * 2 * mebibyte
    blob.upload_blob(data, blob_type=BlobType.PageBlob, premium_page_blob_tier="P4")
    assert [(start, end) for start, end, _ in ranges(blob)] == [
        (0, mebibyte - 1),
        (4 * mebibyte, 6 * mebibyte - 1),
    ]
    assert blob.download_blob().readall() == data
    assert blob.get_blob_properties().blob_tier == PremiumPageBlobTier.P4.value
    blob.upload_blob(
        io.BytesIO(data[::-1]), length=len(data), blob_type=BlobType.PageBlob, overwrite=True
    )
    assert blob.download_blob(max_concurrency=3).readall() == data[::-1]


def test_paging_through_ranges(disk: BlobClient) -> None:
    for number in range(11):
        disk.upload_page(b"x" * 512, number * 2048, 512)
    pages = [list(page) for page in disk.list_page_ranges(results_per_page=4).by_page()]
    assert [len(page) for page in pages] == [4, 4, 3]
    assert [one.start for page in pages for one in page] == [n * 2048 for n in range(11)]
    assert ranges(disk, offset=4096, length=2048) == [(4096, 4607, False)]


def test_what_changed_since_a_snapshot(disk: BlobClient, service: BlobServiceClient) -> None:
    disk.upload_page(b"a" * 2048, 0, 2048)
    first = disk.create_snapshot()["snapshot"]
    disk.upload_page(b"b" * 512, 512, 512)
    disk.clear_page(1024, 512)
    second = disk.create_snapshot()["snapshot"]
    disk.upload_page(b"c" * 512, mebibyte, 512)
    expected = [(512, 1023, False), (1024, 1535, True)]
    assert ranges(disk, previous_snapshot=first) == [
        *expected,
        (mebibyte, mebibyte + 511, False),
    ]
    later = service.get_blob_client("disks", "disk", snapshot=second)
    assert ranges(later, previous_snapshot=first) == expected
    url = f"{disk.url}?snapshot={first}"
    filled, cleared = disk.get_page_range_diff_for_managed_disk(url)
    assert [(one["start"], one["end"]) for one in cleared] == [(1024, 1535)]
    assert [one["start"] for one in filled] == [512, mebibyte]
    disk.create_page_blob(512)
    with pytest.raises(HttpResponseError) as refused:
        ranges(disk, previous_snapshot=second)
    assert refused.value.error_code == "BlobOverwritten"


def test_what_was_written_and_cleared_since_a_snapshot(disk: BlobClient) -> None:
    first = disk.create_snapshot()
    disk.upload_page(b"a" * 1536, 0, 1536)
    second = disk.create_snapshot()
    disk.clear_page(512, 512)
    with pytest.deprecated_call():
        filled, cleared = disk.get_page_ranges(previous_snapshot_diff=first)
    assert [(one["start"], one["end"]) for one in filled] == [(0, 511), (1024, 1535)]
    assert [(one["start"], one["end"]) for one in cleared] == [(512, 1023)]
    assert ranges(disk, previous_snapshot=second) == [(512, 1023, True)]
    pages = disk.list_page_ranges(previous_snapshot=first, results_per_page=2).by_page()
    assert [len(list(page)) for page in pages] == [2, 1]


def test_sequence_numbers(disk: BlobClient) -> None:
    def action(what: SequenceNumberAction, number: str | None = None) -> int:
        return disk.set_sequence_number(what, number)["blob_sequence_number"]

    assert action(SequenceNumberAction.Update, "5") == 5
    assert action(SequenceNumberAction.Max, "3") == 5
    assert action(SequenceNumberAction.Max, "8") == 8
    assert action(SequenceNumberAction.Increment) == 9
    assert disk.get_blob_properties().page_blob_sequence_number == 9
    disk.upload_page(b"x" * 512, 0, 512, if_sequence_number_eq=9)
    disk.upload_page(b"x" * 512, 0, 512, if_sequence_number_lte=9)
    disk.clear_page(0, 512, if_sequence_number_lt=10)
    for condition in ("if_sequence_number_eq", "if_sequence_number_lte"):
        with pytest.raises(HttpResponseError) as refused:
            disk.upload_page(b"x" * 512, 0, 512, **{condition: 8})
        assert refused.value.error_code == "SequenceNumberConditionNotMet"


def test_resizing(disk: BlobClient) -> None:
    disk.upload_page(b"x" * 2048, 0, 2048)
    disk.resize_blob(1024)
    assert disk.download_blob().readall() == b"x" * 1024
    disk.resize_blob(2048)
    assert disk.download_blob().readall() == b"x" * 1024 + bytes(1024)
    with pytest.raises(HttpResponseError) as refused:
        disk.upload_page(b"x" * 512, 2048, 512)
    assert refused.value.error_code == "InvalidPageRange"


def test_conditions_and_leases(disk: BlobClient) -> None:
    etag = disk.get_blob_properties().etag
    condition = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    disk.upload_page(b"x" * 512, 0, 512, **condition)
    with pytest.raises(ResourceModifiedError):
        disk.upload_page(b"x" * 512, 0, 512, **condition)
    lease = disk.acquire_lease()
    with pytest.raises(HttpResponseError) as refused:
        disk.clear_page(0, 512)
    assert refused.value.error_code == "LeaseIdMissing"
    disk.clear_page(0, 512, lease=lease)
    assert ranges(disk, lease=lease) == []


def test_a_disk_of_eight_tebibytes(service: BlobServiceClient) -> None:
    blob = service.create_container("disks").get_blob_client("huge")
    size = 8 << 40
    blob.create_page_blob(size)
    blob.upload_page(b"e" * 512, size - 512, 512)
    assert ranges(blob) == [(size - 512, size - 1, False)]
    assert blob.download_blob(offset=size - 513, length=2).readall() == b"\0e"
    blob.clear_page(0, size)
    assert ranges(blob) == []


def test_what_is_not_there(service: BlobServiceClient) -> None:
    container = service.create_container("disks")
    with pytest.raises(ResourceNotFoundError):
        container.get_blob_client("none").upload_page(b"x" * 512, 0, 512)
    container.upload_blob("block", b"x")
    with pytest.raises(ResourceExistsError) as refused:
        container.get_blob_client("block").upload_page(b"x" * 512, 0, 512)
    assert refused.value.error_code == "InvalidBlobType"


def test_versions_keep_what_was(disk: BlobClient, service: BlobServiceClient) -> None:
    disk.upload_page(b"a" * 512, 0, 512)
    first = disk.get_blob_properties().version_id
    second = disk.set_blob_metadata({"a": "b"})["version_id"]
    disk.upload_page(b"b" * 512, 0, 512)
    third = disk.create_page_blob(512)["version_id"]
    contents = [
        service.get_blob_client("disks", "disk", version_id=version)
        .download_blob(offset=0, length=512)
        .readall()
        for version in (first, second, third)
    ]
    assert contents == [b"a" * 512, b"b" * 512, bytes(512)]


def test_copies_and_incremental_copies(disk: BlobClient, service: BlobServiceClient) -> None:
    disk.upload_page(b"a" * 512, 0, 512)
    first = disk.create_snapshot()["snapshot"]
    disk.upload_page(b"b" * 512, mebibyte, 512)
    second = disk.create_snapshot()["snapshot"]
    whole = service.get_blob_client("disks", "whole")
    assert whole.start_copy_from_url(disk.url)["copy_status"] == "success"
    assert ranges(whole) == [(0, 511, False), (mebibyte, mebibyte + 511, False)]
    follower = service.get_blob_client("disks", "follower")
    for moment in (first, second):
        url = f"{disk.url}?snapshot={moment}"
        assert follower.start_copy_from_url(url, incremental_copy=True)["copy_status"] == "success"
    properties = follower.get_blob_properties()
    assert properties.copy.incremental_copy is True
    latest = service.get_blob_client(
        "disks", "follower", snapshot=properties.copy.destination_snapshot
    )
    assert ranges(latest) == ranges(whole)
    with pytest.raises(ResourceExistsError) as refused:
        follower.upload_page(b"c" * 512, 0, 512)
    assert refused.value.error_code == "OperationNotAllowedOnIncrementalCopyBlob"


def test_content_that_is_validated_in_segments(disk: BlobClient) -> None:
    data = bytes(range(256)) * 8192
    disk.upload_page(data, 0, len(data), validate_content="crc64")
    assert disk.download_blob(validate_content="crc64").readall() == data + bytes(2 * mebibyte)
    disk.upload_blob(
        io.BytesIO(data),
        length=len(data),
        blob_type=BlobType.PageBlob,
        overwrite=True,
        validate_content="crc64",
    )
    assert disk.download_blob(validate_content="crc64").readall() == data
