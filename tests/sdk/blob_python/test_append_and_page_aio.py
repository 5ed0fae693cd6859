"""Append and page blobs with azure-storage-blob's asyncio clients."""

import asyncio
import io
from collections.abc import AsyncIterator

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobType, SequenceNumberAction
from azure.storage.blob.aio import BlobServiceClient

from etagere.testing import EtagereServer

from .conftest import Deployment

mebibyte = 1 << 20


@pytest.fixture
async def service(account: EtagereServer, shared: Deployment) -> AsyncIterator[BlobServiceClient]:
    async with BlobServiceClient.from_connection_string(
        account.connection_string,
        connection_verify=str(shared.authority),
        retry_total=0,
        max_page_size=mebibyte,  # aiohttp warns of larger bodies
    ) as client:
        yield client


async def test_appending(service: BlobServiceClient) -> None:
    container = await service.create_container("logs")
    log = container.get_blob_client("log")
    await log.create_append_blob(metadata={"app": "shop"})
    done = await asyncio.gather(*(log.append_block(f"<{n}>") for n in range(40)))
    offsets = sorted(int(one["blob_append_offset"]) for one in done)
    text = (await (await log.download_blob()).readall()).decode()
    assert len(set(offsets)) == 40
    assert sorted(text.replace(">", "> ").split()) == sorted(f"<{n}>" for n in range(40))
    with pytest.raises(HttpResponseError) as refused:
        await log.append_block(b"x", appendpos_condition=1)
    assert refused.value.error_code == "AppendPositionConditionNotMet"
    await log.upload_blob(io.BytesIO(b"y" * 100_000), blob_type=BlobType.AppendBlob)
    await log.seal_append_blob()
    properties = await log.get_blob_properties()
    assert properties.is_append_blob_sealed is True
    assert properties.append_blob_committed_block_count == 41
    assert properties.metadata == {"app": "shop"}
    with pytest.raises(HttpResponseError) as sealed:
        await log.append_block(b"x")
    assert sealed.value.error_code == "BlobIsSealed"


async def test_conditional_appends_have_one_winner(service: BlobServiceClient) -> None:
    container = await service.create_container("logs")
    log = container.get_blob_client("log")
    await log.create_append_blob()
    outcomes = await asyncio.gather(
        *(log.append_block(b"x" * 10, appendpos_condition=0) for _ in range(12)),
        return_exceptions=True,
    )
    won = [one for one in outcomes if not isinstance(one, BaseException)]
    assert len(won) == 1
    codes = {one.error_code for one in outcomes if isinstance(one, HttpResponseError)}
    assert codes == {"AppendPositionConditionNotMet"}


async def test_pages(service: BlobServiceClient) -> None:
    container = await service.create_container("disks")
    disk = container.get_blob_client("disk")
    await disk.create_page_blob(4 * mebibyte, sequence_number=3)
    await asyncio.gather(*(disk.upload_page(bytes([n]) * 512, n * 512, 512) for n in range(1, 9)))
    taken = (await disk.create_snapshot())["snapshot"]
    await disk.clear_page(512, 1024)
    await disk.upload_page(b"z" * 512, 2 * mebibyte, 512, if_sequence_number_eq=3)
    found = [(one.start, one.end) async for one in disk.list_page_ranges()]
    assert found == [(1536, 4607), (2 * mebibyte, 2 * mebibyte + 511)]
    changed = [
        (one.start, one.end, one.cleared)
        async for one in disk.list_page_ranges(previous_snapshot=taken)
    ]
    assert changed == [(512, 1535, True), (2 * mebibyte, 2 * mebibyte + 511, False)]
    snapshot = container.get_blob_client("disk", snapshot=taken)
    data = await (await snapshot.download_blob()).readall()
    assert data[512:4608] == b"".join(bytes([n]) * 512 for n in range(1, 9))
    raised = await disk.set_sequence_number(SequenceNumberAction.Increment)
    assert raised["blob_sequence_number"] == 4
    await disk.resize_blob(mebibyte)
    assert (await disk.get_blob_properties()).size == mebibyte


async def test_a_page_blob_up_and_down(service: BlobServiceClient) -> None:
    container = await service.create_container("disks")
    disk = container.get_blob_client("disk")
    data = b"a" * mebibyte + bytes(7 * mebibyte) + b"b" * mebibyte
    await disk.upload_blob(data, blob_type=BlobType.PageBlob, validate_content="crc64")
    stream = await disk.download_blob(max_concurrency=3, validate_content="crc64")
    assert await stream.readall() == data
    found = [one.start async for one in disk.list_page_ranges()]
    assert found == [0, 8 * mebibyte]


async def test_writers_that_were_superseded_are_kept_out(service: BlobServiceClient) -> None:
    container = await service.create_container("disks")
    disk = container.get_blob_client("disk")
    await disk.create_page_blob(512)

    async def own_and_write() -> int:
        raised = await disk.set_sequence_number(SequenceNumberAction.Increment)
        mine = int(raised["blob_sequence_number"])
        data = mine.to_bytes(4, "big") * 128
        await disk.upload_page(data, 0, 512, if_sequence_number_eq=mine)
        return mine

    outcomes = await asyncio.gather(*(own_and_write() for _ in range(20)), return_exceptions=True)
    assert 20 in outcomes
    lost = [one for one in outcomes if isinstance(one, BaseException)]
    assert all(isinstance(one, HttpResponseError) for one in lost)
    codes = {one.error_code for one in lost if isinstance(one, HttpResponseError)}
    assert codes <= {"SequenceNumberConditionNotMet"}
    data = await (await disk.download_blob()).readall()
    assert int.from_bytes(data[:4], "big") == 20
