"""Immutability policies and legal holds with azure-storage-blob."""

from datetime import datetime, timedelta

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobImmutabilityPolicyMode, BlobServiceClient, ImmutabilityPolicy

from etagere.testing import EtagereServer


def policy(
    account: EtagereServer,
    days: int,
    mode: BlobImmutabilityPolicyMode = BlobImmutabilityPolicyMode.UNLOCKED,
) -> ImmutabilityPolicy:
    until: datetime = account.now() + timedelta(days=days)
    return ImmutabilityPolicy(expiry_time=until, policy_mode=mode)


def test_a_policy_protects_until_its_time(
    account: EtagereServer, service: BlobServiceClient
) -> None:
    container = service.create_container("things")
    assert container.get_container_properties().immutable_storage_with_versioning_enabled
    blob = container.upload_blob("a", b"data")
    wanted = policy(account, 2)
    blob.set_immutability_policy(wanted)
    found = blob.get_blob_properties().immutability_policy
    assert found.policy_mode == "unlocked"
    assert found.expiry_time == wanted.expiry_time.replace(microsecond=0)
    (listed,) = container.list_blobs(include=["immutabilitypolicy", "legalhold"])
    assert listed.immutability_policy.policy_mode == "unlocked"
    for change in (
        lambda: blob.upload_blob(b"new", overwrite=True),
        lambda: blob.set_blob_metadata({"a": "b"}),
        blob.delete_blob,
    ):
        with pytest.raises(ResourceExistsError) as refused:
            change()
        assert refused.value.error_code == "BlobImmutableDueToPolicy"
    account.advance(2 * 86_400 + 1)
    blob.upload_blob(b"new", overwrite=True)
    assert blob.download_blob().readall() == b"new"


def test_a_locked_policy_stays(account: EtagereServer, service: BlobServiceClient) -> None:
    container = service.create_container("things")
    blob = container.get_blob_client("a")
    blob.upload_blob(
        b"data", immutability_policy=policy(account, 2, BlobImmutabilityPolicyMode.LOCKED)
    )
    with pytest.raises(HttpResponseError) as refused:
        blob.delete_immutability_policy()
    assert refused.value.status_code == 409
    with pytest.raises(HttpResponseError):
        blob.set_immutability_policy(policy(account, 1, BlobImmutabilityPolicyMode.LOCKED))
    blob.set_immutability_policy(policy(account, 5, BlobImmutabilityPolicyMode.LOCKED))
    account.advance(4 * 86_400)
    with pytest.raises(ResourceExistsError):
        blob.delete_blob()
    with pytest.raises(HttpResponseError) as refused:
        container.delete_container()
    assert refused.value.error_code == "ContainerProtectedFromDeletion"


def test_a_legal_hold(service: BlobServiceClient) -> None:
    container = service.create_container("things")
    blob = container.upload_blob("a", b"data", legal_hold=True)
    assert blob.get_blob_properties().has_legal_hold
    (listed,) = container.list_blobs(include=["legalhold"])
    assert listed.has_legal_hold
    with pytest.raises(ResourceExistsError) as refused:
        blob.delete_blob()
    assert refused.value.error_code == "BlobImmutableDueToLegalHold"
    assert blob.set_legal_hold(False)["legal_hold"] is False
    blob.delete_blob()
