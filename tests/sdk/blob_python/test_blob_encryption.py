"""Customers' keys and encryption scopes with azure-storage-blob, and what is then on the disk."""

import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    BlobBlock,
    BlobClient,
    BlobServiceClient,
    ContainerEncryptionScope,
    ContainerSasPermissions,
    CustomerProvidedEncryptionKey,
    generate_container_sas,
)

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import EtagereServer

from .conftest import Deployment


def customer_key(key: bytes) -> CustomerProvidedEncryptionKey:
    return CustomerProvidedEncryptionKey(
        key_value=base64.b64encode(key).decode(),
        key_hash=base64.b64encode(hashlib.sha256(key).digest()).decode(),
    )


word = b"in plain sight "
secret = hashlib.sha256(b"customer").digest()
cpk = customer_key(secret)


def client(deployment: Deployment) -> BlobServiceClient:
    return BlobServiceClient(
        deployment.process.urls["blob"],
        credential={"account_name": development_name, "account_key": development_key},
        connection_verify=str(deployment.authority),
        retry_total=0,
    )


@pytest.mark.parametrize("seal", [{"cpk": cpk}, {"encryption_scope": "secrets"}])
def test_the_disk_has_ciphertext(
    deployment: Deployment, seal: dict[str, CustomerProvidedEncryptionKey | str]
) -> None:
    reading = {"cpk": cpk} if "cpk" in seal else {}
    contents: dict[str, bytes] = {}
    with client(deployment) as service:
        container = service.create_container("things")
        for name, size in (("small", 1000), ("large", 3_000_000)):
            contents[name] = word * (size // len(word))
            container.upload_blob(name, contents[name], **seal)
        blocks = container.get_blob_client("blocks")
        contents["blocks"] = b""
        for number in range(12):
            data = word * (100 * (number + 1))
            contents["blocks"] += data
            blocks.stage_block(f"{number:04}", data, **seal)
        blocks.commit_block_list([BlobBlock(f"{number:04}") for number in range(12)], **seal)
        appended = container.get_blob_client("appended")
        appended.create_append_blob(**seal)
        contents["appended"] = b""
        for count in (10, 10_000):
            appended.append_block(word * count, **seal)
            contents["appended"] += word * count
        disk = container.get_blob_client("disk")
        disk.create_page_blob(1 << 20, **seal)
        page = (word * 35)[:512] * 200
        disk.upload_page(page, offset=4096, length=len(page), **seal)
        contents["disk"] = bytes(4096) + page + bytes((1 << 20) - 4096 - len(page))
    stored = deployment.stored()
    assert word not in stored
    assert secret not in stored
    assert base64.b64encode(secret) not in stored
    checked = subprocess.run(
        [sys.executable, "-m", "etagere", "check", str(deployment.data)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    deployment.restart()
    with client(deployment) as service:
        for name, data in contents.items():
            blob = service.get_blob_client("things", name)
            assert blob.download_blob(**reading).readall() == data
            part = blob.download_blob(offset=401, length=333, **reading).readall()
            assert part == data[401:734]
        service.get_blob_client("things", "open").upload_blob(word * 1000)
    assert word in deployment.stored()


def test_without_the_key(service: BlobServiceClient) -> None:
    container = service.create_container("things")
    blob = container.upload_blob("a", b"data", cpk=cpk, metadata={"a": "b"})
    properties = blob.get_blob_properties(cpk=cpk)
    assert properties.encryption_key_sha256 == cpk.key_hash
    assert properties.server_encrypted
    other = customer_key(os.urandom(32))
    for attempt in (
        blob.download_blob,
        lambda: blob.download_blob(cpk=other),
        blob.get_blob_properties,
        lambda: blob.set_blob_metadata({"c": "d"}),
        lambda: blob.create_snapshot(cpk=other),
    ):
        with pytest.raises(HttpResponseError) as refused:
            attempt()
        assert refused.value.status_code == 409
    snapshot = blob.create_snapshot(cpk=cpk)
    at = container.get_blob_client("a", snapshot=snapshot["snapshot"])
    assert at.download_blob(cpk=cpk).readall() == b"data"
    (listed,) = container.list_blobs(include=["metadata"])
    assert listed.encrypted_metadata
    assert not listed.metadata


def test_large_uploads_and_downloads_in_parallel(
    account: EtagereServer, client_of: Callable[..., BlobServiceClient]
) -> None:
    service = client_of(
        account,
        max_single_put_size=100_000,
        max_block_size=150_001,
        max_single_get_size=100_000,
        max_chunk_get_size=70_001,
    )
    data = os.urandom(2_000_003)
    blob = service.create_container("things").get_blob_client("a")
    blob.upload_blob(data, cpk=cpk, max_concurrency=4)
    assert blob.download_blob(cpk=cpk, max_concurrency=4).readall() == data
    blob.upload_blob(data, cpk=cpk, overwrite=True, validate_content=True)
    assert blob.download_blob(cpk=cpk, validate_content=True).readall() == data


def test_a_container_with_a_scope(service: BlobServiceClient) -> None:
    scope = ContainerEncryptionScope("mine", prevent_encryption_scope_override=True)
    container = service.create_container("things", container_encryption_scope=scope)
    found = container.get_container_properties().encryption_scope
    assert found.default_encryption_scope == "mine"
    assert found.prevent_encryption_scope_override
    blob = container.upload_blob("a", b"data")
    assert blob.get_blob_properties().encryption_scope == "mine"
    with pytest.raises(HttpResponseError) as refused:
        container.upload_blob("b", b"data", encryption_scope="yours")
    assert refused.value.error_code == "RequestForbiddenByContainerEncryptionPolicy"
    (listed,) = container.list_blobs()
    assert (listed.name, listed.encryption_scope) == ("a", "mine")


def test_a_signature_with_a_scope(
    account: EtagereServer, shared: Deployment, service: BlobServiceClient
) -> None:
    container = service.create_container("things")
    sas = generate_container_sas(
        account.account_name,
        "things",
        account_key=account.account_key,
        permission=ContainerSasPermissions(read=True, write=True),
        expiry=account.now() + timedelta(hours=1),
        encryption_scope="signed",
    )
    with BlobClient(
        account.blob_url, "things", "a", credential=sas, connection_verify=str(shared.authority)
    ) as blob:
        blob.upload_blob(b"data")
    assert container.get_blob_client("a").get_blob_properties().encryption_scope == "signed"


def test_a_source_with_a_key(account: EtagereServer, service: BlobServiceClient) -> None:
    source = service.create_container("things").upload_blob("a", b"data" * 10_000, cpk=cpk)
    sas = generate_container_sas(
        account.account_name,
        "things",
        account_key=account.account_key,
        permission=ContainerSasPermissions(read=True),
        expiry=account.now() + timedelta(hours=1),
    )
    copy = service.get_blob_client("things", "b")
    url = f"{source.url}?{sas}"
    with pytest.raises(HttpResponseError) as refused:
        copy.upload_blob_from_url(url)
    assert refused.value.error_code == "CannotVerifyCopySource"
    copy.upload_blob_from_url(url, source_cpk=cpk)
    assert copy.download_blob().readall() == b"data" * 10_000
