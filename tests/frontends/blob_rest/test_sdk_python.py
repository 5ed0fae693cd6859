"""azure-storage-blob as applications use it, sync and aio, and a Parquet data set through adlfs."""

import asyncio
import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobBlock, BlobLeaseClient, ContentSettings, StandardBlobTier
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

from .serving import Server

data = hashlib.shake_256(b"sdk").digest(9_000_000)


def test_large_parallel_transfers_with_checksums(server: Server, container: str) -> None:
    with server.sdk(
        max_single_put_size=64 * 1024, max_block_size=512 * 1024,
        max_single_get_size=256 * 1024, max_chunk_get_size=512 * 1024,
    ) as client:  # fmt: skip
        blob = client.get_blob_client(container[1:], "large")
        blob.upload_blob(data, max_concurrency=8, validate_content=True)
        found = blob.download_blob(max_concurrency=8, validate_content=True).readall()
        assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()
        assert (
            blob.download_blob(offset=4_000_000, length=70_000).readall()
            == (data[4_000_000:4_070_000])
        )
        committed, _ = blob.get_block_list("all")
        assert sum(block.size for block in committed) == len(data)


def test_optimistic_concurrency(server: Server, container: str) -> None:
    with server.sdk() as client:
        blob = client.get_blob_client(container[1:], "counter")
        blob.upload_blob(b"0")

        def add(times: int) -> None:
            for _ in range(times):
                while True:
                    found = blob.download_blob()
                    value, etag = int(found.readall()), found.properties.etag
                    try:
                        blob.upload_blob(
                            str(value + 1), overwrite=True, etag=etag,
                            match_condition=MatchConditions.IfNotModified,
                        )  # fmt: skip
                    except ResourceModifiedError:
                        continue
                    break

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(add, [8] * 6))
        assert blob.download_blob().readall() == b"48"


def test_pessimistic_concurrency(server: Server, container: str) -> None:
    with server.sdk() as client:
        blob = client.get_blob_client(container[1:], "a")
        blob.upload_blob(b"1")
        lease = blob.acquire_lease(15)
        with pytest.raises(HttpResponseError, match="LeaseIdMissing"):
            blob.upload_blob(b"2", overwrite=True)
        blob.upload_blob(b"2", overwrite=True, lease=lease)
        with pytest.raises(ResourceExistsError, match="LeaseAlreadyPresent"):
            BlobLeaseClient(blob).acquire(15)
        lease.renew()
        server.clock.advance(16)
        with pytest.raises(HttpResponseError, match="LeaseLost"):
            blob.upload_blob(b"3", overwrite=True, lease=lease)
        blob.upload_blob(b"3", overwrite=True)
        assert blob.download_blob().readall() == b"3"


def test_properties_metadata_tags_tiers(server: Server, container: str) -> None:
    with server.sdk() as client:
        blob = client.get_blob_client(container[1:], "a")
        settings = ContentSettings("text/plain", "gzip", "fr", "inline", "no-cache")
        blob.upload_blob(b"x", metadata={"UP": "val"}, tags={"a": "1"}, content_settings=settings,
                         standard_blob_tier=StandardBlobTier.COOL)  # fmt: skip
        found = blob.get_blob_properties()
        assert found.metadata == {"UP": "val"}
        assert found.content_settings.content_language == "fr"
        assert found.content_settings.content_encoding == "gzip"
        assert (found.blob_tier, found.tag_count) == ("Cool", 1)
        blob.set_http_headers(ContentSettings("text/html"))
        found = blob.get_blob_properties()
        assert found.content_settings.content_type == "text/html"
        assert found.content_settings.cache_control is None
        blob.set_blob_metadata({"other": "1"})
        assert blob.get_blob_properties().metadata == {"other": "1"}
        names = [tagged.name for tagged in client.find_blobs_by_tags("\"a\"='1'")]
        assert names == ["a"]


def test_blocks_and_soft_deletion(server: Server, container: str) -> None:
    with server.sdk() as client:
        client.set_service_properties(delete_retention_policy=_retention(7))
        blob = client.get_blob_client(container[1:], "a")
        for name in ("one", "two"):
            blob.stage_block(name, name.encode())
        blob.commit_block_list([BlobBlock("two"), BlobBlock("one")])
        assert blob.download_blob().readall() == b"twoone"
        blob.delete_blob()
        with pytest.raises(ResourceNotFoundError):
            blob.get_blob_properties()
        things = client.get_container_client(container[1:])
        (deleted,) = things.list_blobs(include=["deleted"])
        assert (deleted.deleted, deleted.remaining_retention_days) == (True, 6)
        blob.undelete_blob()
        assert blob.download_blob().readall() == b"twoone"
        blob.delete_blob()
        server.clock.advance(8 * 86_400)
        assert list(things.list_blobs(include=["deleted"])) == []
        server.sweep()


def _retention(days: int):
    from azure.storage.blob import RetentionPolicy

    return RetentionPolicy(enabled=True, days=days)


def test_the_asyncio_client(server: Server, container: str) -> None:
    async def main() -> None:
        async with AsyncBlobServiceClient.from_connection_string(
            server.connection_string, retry_total=0
        ) as client:
            things = client.get_container_client(container[1:])
            names = [f"blob-{number:02d}" for number in range(30)]
            await asyncio.gather(*(things.upload_blob(name, name.encode()) for name in names))
            assert [blob.name async for blob in things.list_blobs()] == names
            stream = await things.download_blob("blob-07")
            assert await stream.readall() == b"blob-07"
            results = await asyncio.gather(
                *(things.upload_blob("only-once", b"x") for _ in range(8)), return_exceptions=True
            )
            failures = [result for result in results if isinstance(result, Exception)]
            assert len(failures) == 7
            assert all(isinstance(failure, ResourceExistsError) for failure in failures)

    asyncio.run(main())


_dataset = """
import sys, json
import pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq
from adlfs import AzureBlobFileSystem
fs = AzureBlobFileSystem(connection_string=sys.argv[1])
table = pa.table({"year": [2020, 2021] * 500, "n": list(range(1000))})
ds.write_dataset(table, "things/set", format="parquet", partitioning=["year"], filesystem=fs,
                 partitioning_flavor="hive")
found = ds.dataset("things/set", format="parquet", partitioning="hive", filesystem=fs)
rows = found.to_table(filter=ds.field("year") == 2021)
fs.invalidate_cache()
print(json.dumps([rows.num_rows, sum(rows["n"].to_pylist()), len(fs.find("things/set"))]))
fs.rm("things/set", recursive=True)
fs.invalidate_cache()
print(fs.exists("things/set"))
"""


def test_a_parquet_data_set_through_fsspec(server: Server, container: str) -> None:
    """In a process of its own: adlfs leaves its loop to the interpreter's end."""
    assert container == "/things"
    ran = subprocess.run(
        [sys.executable, "-c", _dataset, server.connection_string],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    first, last = ran.stdout.split("\n")[:2]
    assert json.loads(first) == [500, sum(range(1, 1000, 2)), 2]
    assert last == "False"
