"""Much at a time: large blobs in parallel and with checksums, many files at once, a data set."""

import asyncio
import hashlib
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceModifiedError
from azure.storage.blob import BlobServiceClient
from azure.storage.blob.aio import BlobServiceClient as AsyncBlobServiceClient

from etagere.testing import EtagereServer, ServerProcess

kibibyte = 1 << 10
mebibyte = 1 << 20
workers = 3
data_set = Path(__file__).parent / "data_set.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("large")
    arguments = [f"--data={folder}/data", "--services=blob", f"--workers={workers}"]
    with ServerProcess(arguments) as process:
        yield process
    assert "rror" not in process.said, process.said


@pytest.fixture
def account(process: ServerProcess) -> Iterator[EtagereServer]:
    made = EtagereServer(process)
    yield made
    made.close()


class Noise:
    """A long file that is never in memory, and its digest."""

    def __init__(self, size: int) -> None:
        self._chance = random.Random(size)
        self._left = size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        self._left -= size
        data = self._chance.randbytes(size)
        self.digest.update(data)
        return data


@pytest.mark.parametrize("checksum", ["crc64", "md5"])
def test_a_large_blob_goes_up_and_down_in_parallel(
    account: EtagereServer, tmp_path: Path, checksum: str
) -> None:
    size = 300 * mebibyte
    with BlobServiceClient.from_connection_string(
        account.connection_string, retry_total=0,
        max_block_size=8 * mebibyte, max_single_put_size=mebibyte,
        max_chunk_get_size=4 * mebibyte, max_single_get_size=4 * mebibyte,
    ) as service:  # fmt: skip
        blob = service.create_container("large").get_blob_client("blob")
        noise = Noise(size)
        blob.upload_blob(noise, length=size, max_concurrency=8, validate_content=checksum)
        stream = blob.download_blob(max_concurrency=8, validate_content=checksum)
        with (tmp_path / "found").open("w+b") as found:
            assert stream.readinto(found) == size
            found.seek(0)
            assert hashlib.file_digest(found, "sha256").digest() == noise.digest.digest()
        committed, staged = blob.get_block_list("all")
        assert ([each.size for each in committed[:-1]], staged) == ([8 * mebibyte] * 37, [])


async def test_many_files_at_once(account: EtagereServer) -> None:
    """As azcopy copies a folder: sizes on both sides of every border, all names listed after."""
    sizes = [
        *(0, 1, 4096, 64 * kibibyte, 64 * kibibyte + 1, mebibyte - 1, mebibyte, mebibyte + 1),
        *(4 * mebibyte, 5 * mebibyte + 3),
    ]
    files = {
        f"folder {number % 5}/sub/{number:04d} ä#%.bin": random.Random(number).randbytes(
            sizes[number % len(sizes)]
        )
        for number in range(120)
    }
    async with AsyncBlobServiceClient.from_connection_string(
        account.connection_string, retry_total=0,
        max_block_size=mebibyte - 1, max_single_put_size=mebibyte - 1,
        max_single_get_size=mebibyte, max_chunk_get_size=mebibyte,
    ) as service:  # fmt: skip
        container = await service.create_container("folder")
        together = asyncio.Semaphore(16)

        async def copy(name: str, data: bytes) -> None:
            async with together:
                blob = container.get_blob_client(name)
                await blob.upload_blob(data, max_concurrency=4, validate_content=True)
                stream = await blob.download_blob(max_concurrency=4, validate_content=True)
                assert await stream.readall() == data, name

        await asyncio.gather(*(copy(name, data) for name, data in files.items()))
        found = {each.name: each.size async for each in container.list_blobs(results_per_page=50)}
        assert found == {name: len(data) for name, data in files.items()}
        tops = [each.name async for each in container.walk_blobs()]
        assert tops == [f"folder {number}/" for number in range(5)]
        names = list(files)
        for at in range(0, len(names), 50):
            async for answer in await container.delete_blobs(*names[at : at + 50]):
                assert answer.status_code == 202
        assert [each async for each in container.list_blobs()] == []


def test_a_download_in_parts_is_of_one_version_or_refused(account: EtagereServer) -> None:
    """Readers of many requests, while the blob is overwritten (section 'Managing concurrency')."""
    with BlobServiceClient.from_connection_string(
        account.connection_string, retry_total=0,
        max_single_get_size=256 * kibibyte, max_chunk_get_size=256 * kibibyte,
    ) as service:  # fmt: skip
        blob = service.create_container("changing").get_blob_client("blob")
        versions = [bytes([number]) * (3 * mebibyte) for number in range(12)]
        blob.upload_blob(versions[0])
        done = False

        def read(_: int) -> tuple[int, int]:
            whole = refused = 0
            while not done:
                try:
                    found = blob.download_blob(max_concurrency=3).readall()
                except ResourceModifiedError:
                    refused += 1
                else:
                    assert found in versions, "parts of two versions"
                    whole += 1
            return whole, refused

        with ThreadPoolExecutor(3) as pool:
            reading = [pool.submit(read, number) for number in range(3)]
            try:
                for version in versions * 2:
                    blob.upload_blob(version, overwrite=True)
            finally:
                done = True
            found = [each.result() for each in reading]
        assert sum(refused for _, refused in found) > 0, "nobody was overtaken"
        assert blob.download_blob().readall() == versions[-1]


def test_a_partitioned_data_set(account: EtagereServer) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(data_set), account.connection_string],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["partitions", "one_file", "files"]
