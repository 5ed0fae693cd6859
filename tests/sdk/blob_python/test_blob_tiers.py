"""Tiers as azure-storage-blob sets and shows them."""

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import (
    BlobServiceClient,
    PremiumPageBlobTier,
    RehydratePriority,
    StandardBlobTier,
)

from etagere.testing import EtagereServer


def test_a_blob_goes_to_the_archive_and_comes_back(
    account: EtagereServer, service: BlobServiceClient
) -> None:
    container = service.create_container("things")
    blob = container.get_blob_client("a")
    blob.upload_blob(b"data" * 1000, standard_blob_tier=StandardBlobTier.COOL)
    assert blob.get_blob_properties().blob_tier == "Cool"
    before = blob.get_blob_properties()
    blob.set_standard_blob_tier(StandardBlobTier.ARCHIVE)
    with pytest.raises(HttpResponseError) as refused:
        blob.download_blob()
    assert refused.value.error_code == "BlobArchived"
    blob.set_standard_blob_tier(StandardBlobTier.HOT)
    pending = blob.get_blob_properties()
    assert pending.archive_status == "rehydrate-pending-to-hot"
    assert pending.rehydrate_priority == "Standard"
    blob.set_standard_blob_tier(StandardBlobTier.HOT, rehydrate_priority=RehydratePriority.high)
    (listed,) = container.list_blobs()
    assert listed.blob_tier == "Archive"
    assert listed.archive_status == "rehydrate-pending-to-hot"
    account.advance(3601)
    after = blob.get_blob_properties()
    assert (after.blob_tier, after.archive_status) == ("Hot", None)
    assert after.etag == before.etag
    assert after.blob_tier_change_time > before.blob_tier_change_time
    assert blob.download_blob().readall() == b"data" * 1000


def test_an_archived_blob_is_copied_to_a_tier(
    account: EtagereServer, service: BlobServiceClient
) -> None:
    container = service.create_container("things")
    source = container.upload_blob("a", b"data", standard_blob_tier=StandardBlobTier.ARCHIVE)
    copy = container.get_blob_client("b")
    with pytest.raises(ResourceExistsError) as refused:
        copy.start_copy_from_url(source.url)
    assert refused.value.error_code == "BlobArchived"
    copy.start_copy_from_url(
        source.url,
        standard_blob_tier=StandardBlobTier.COOL,
        rehydrate_priority=RehydratePriority.high,
    )
    assert copy.get_blob_properties().archive_status == "rehydrate-pending-to-cool"
    account.advance(3601)
    assert copy.download_blob().readall() == b"data"


def test_many_blobs_in_one_batch(service: BlobServiceClient) -> None:
    container = service.create_container("things")
    for name in ("a", "b", "c"):
        container.upload_blob(name, b"data")
    replies = list(container.set_standard_blob_tier_blobs(StandardBlobTier.COOL, "a", "b", "c"))
    assert [reply.status_code for reply in replies] == [200] * 3
    assert {blob.blob_tier for blob in container.list_blobs()} == {"Cool"}


def test_tiers_of_page_blobs_only_rise(service: BlobServiceClient) -> None:
    blob = service.create_container("things").get_blob_client("disk")
    blob.create_page_blob(64 * 1024**3, premium_page_blob_tier=PremiumPageBlobTier.P10)
    assert blob.get_blob_properties().blob_tier == "P10"
    blob.set_premium_page_blob_tier(PremiumPageBlobTier.P20)
    with pytest.raises(HttpResponseError) as refused:
        blob.set_premium_page_blob_tier(PremiumPageBlobTier.P15)
    assert refused.value.error_code == "CannotChangeToLowerTier"
    assert blob.get_blob_properties().blob_tier == "P20"
    blob.resize_blob(128 * 1024**3)
    small = service.get_blob_client("things", "small")
    small.create_page_blob(64 * 1024**3)
    with pytest.raises(HttpResponseError) as refused:
        small.set_premium_page_blob_tier(PremiumPageBlobTier.P4)
    assert refused.value.error_code == "BlobTierInadequateForContentLength"
