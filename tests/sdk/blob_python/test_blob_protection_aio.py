"""The same through the asyncio client, many at once."""

import asyncio
import base64
import hashlib
import os

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import CustomerProvidedEncryptionKey, StandardBlobTier
from azure.storage.blob.aio import BlobServiceClient

from etagere.testing import EtagereServer

from .conftest import Deployment


def new_key() -> CustomerProvidedEncryptionKey:
    key = os.urandom(32)
    return CustomerProvidedEncryptionKey(
        key_value=base64.b64encode(key).decode(),
        key_hash=base64.b64encode(hashlib.sha256(key).digest()).decode(),
    )


async def test_of_many_keys_each_opens_its_own(account: EtagereServer, shared: Deployment) -> None:
    async with BlobServiceClient.from_connection_string(
        account.connection_string, connection_verify=str(shared.authority), retry_total=0
    ) as service:
        container = await service.create_container("things")

        async def one(number: int) -> None:
            cpk, data = new_key(), os.urandom(50_000 + 5_000 * number)
            blob = await container.upload_blob(str(number), data, cpk=cpk)
            assert await (await blob.download_blob(cpk=cpk)).readall() == data
            with pytest.raises(HttpResponseError) as refused:
                await blob.download_blob(cpk=new_key())
            assert refused.value.error_code == "BlobUsesCustomerSpecifiedEncryption"

        await asyncio.gather(*(one(number) for number in range(10)))


async def test_of_writers_with_different_keys_one_is_left(
    account: EtagereServer, shared: Deployment
) -> None:
    """Whoever wrote last, key and content belong together."""
    async with BlobServiceClient.from_connection_string(
        account.connection_string, connection_verify=str(shared.authority), retry_total=0
    ) as service:
        container = await service.create_container("things")
        blob = container.get_blob_client("a")
        made = [(new_key(), os.urandom(30_000 + 20_000 * number)) for number in range(8)]
        await asyncio.gather(
            *(blob.upload_blob(data, overwrite=True, cpk=cpk) for cpk, data in made)
        )
        opened = 0
        for cpk, data in made:
            try:
                download = await blob.download_blob(cpk=cpk)
            except HttpResponseError as refused:
                if refused.error_code != "BlobUsesCustomerSpecifiedEncryption":
                    raise
            else:
                assert await download.readall() == data
                opened += 1
        assert opened == 1


async def test_of_archiving_and_reading_nothing_is_torn(
    account: EtagereServer, shared: Deployment
) -> None:
    async with BlobServiceClient.from_connection_string(
        account.connection_string, connection_verify=str(shared.authority), retry_total=0
    ) as service:
        container = await service.create_container("things")
        blob = await container.upload_blob("a", b"data" * 50_000)

        async def read() -> bool:
            try:
                return await (await blob.download_blob()).readall() == b"data" * 50_000
            except HttpResponseError as error:
                return error.error_code == "BlobArchived"

        outcomes = await asyncio.gather(
            blob.set_standard_blob_tier(StandardBlobTier.ARCHIVE), *(read() for _ in range(10))
        )
        assert all(outcomes[1:])
        assert (await blob.get_blob_properties()).blob_tier == "Archive"
