"""What lies on the disk: snapshots, versions and copies within an account move no bytes and share
them, and once all that held them is gone and the grace period is over the bytes are gone too."""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobBlock, BlobClient, BlobServiceClient, ContainerClient

from etagere.testing import EtagereServer, ServerProcess

mebibyte = 1 << 20
size = 12 * mebibyte
data = hashlib.shake_256(b"on the disk").digest(size)
shares_each = 5
wait_seconds_max = 60

pytestmark = pytest.mark.slow


class Disk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def extents(self) -> tuple[int, int]:
        """How many files there are of runs of bytes, and what they occupy."""
        files = [path.stat() for path in (self._folder / "extents").rglob("*") if path.is_file()]
        return len(files), sum(each.st_blocks for each in files) * 512

    def store(self) -> int:
        return (self._folder / "data.mdb").stat().st_blocks * 512


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("space") / "data"


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[ServerProcess]:
    with ServerProcess([f"--data={folder}", "--clock=virtual", "--services=blob"]) as process:
        yield process


@pytest.fixture
def disk(folder: Path, process: ServerProcess) -> Iterator[Disk]:
    """Nothing lies there before a test, and nothing after it."""
    disk = Disk(folder)
    assert disk.extents() == (0, 0)
    yield disk
    assert disk.extents() == (0, 0)


@pytest.fixture(params=[False, True], ids=["plain", "versions"])
def account(request: pytest.FixtureRequest, process: ServerProcess) -> Iterator[EtagereServer]:
    made = EtagereServer(process, {"versioning": request.param, "container_soft_delete_days": 3})
    yield made
    made.close()


@pytest.fixture
def service(account: EtagereServer) -> Iterator[BlobServiceClient]:
    with BlobServiceClient.from_connection_string(
        account.connection_string, retry_total=0
    ) as client:
        yield client


def put_whole(blob: BlobClient) -> None:
    blob.upload_blob(data, overwrite=True)


def put_list(blob: BlobClient) -> None:
    """More blocks than a record carries, large and small ones."""
    cuts = [0, *range(5000, 60_000, 5000), *range(mebibyte, size + 1, mebibyte)]
    blocks = [BlobBlock(f"{number:04d}") for number in range(len(cuts) - 1)]
    for block, begin, end in zip(blocks, cuts, cuts[1:], strict=False):
        blob.stage_block(block.id, data[begin:end])
    blob.commit_block_list(blocks)


def append(blob: BlobClient) -> None:
    blob.create_append_blob()
    for at in range(0, size, mebibyte):
        blob.append_block(data[at : at + mebibyte])


def put_pages(blob: BlobClient) -> None:
    blob.create_page_blob(size * 4)
    for at in range(0, size, 4 * mebibyte):
        blob.upload_page(data[at : at + 4 * mebibyte], at, 4 * mebibyte)


def read(blob: BlobClient) -> bytes:
    found = blob.download_blob().readall()
    assert isinstance(found, bytes)
    return found[:size]


def eventually_empty(disk: Disk, account: EtagereServer) -> None:
    """The grace of a list is over, then that of what it held: time has to be moved twice."""
    until = time.monotonic() + wait_seconds_max
    while disk.extents() != (0, 0):
        assert time.monotonic() < until, f"still there: {disk.extents()}"
        account.advance(3600)
        time.sleep(0.1)


kinds = pytest.mark.parametrize("write", [put_whole, put_list, append, put_pages])


@kinds
def test_sharing(
    service: BlobServiceClient, account: EtagereServer, disk: Disk,
    write: Callable[[BlobClient], None],
) -> None:  # fmt: skip
    container, other = service.create_container("one"), service.create_container("other")
    blob = container.get_blob_client("blob")
    write(blob)
    account.advance(3600)  # whatever the writing itself left behind
    files, occupied = disk.extents()
    assert size * 0.99 < occupied < size * 1.05
    store = disk.store()

    snapshots = []
    for number in range(shares_each):
        snapshots.append(str(blob.create_snapshot()["snapshot"]))
        blob.set_blob_metadata({"number": str(number)})  # a version, where they are kept
        source = container.get_blob_client("blob", snapshot=snapshots[-1]).url
        for place in (container, other):
            copy = place.get_blob_client(f"copy{number}")
            copied = copy.start_copy_from_url(source)
            assert copied["copy_status"] == "success"
    blob.start_copy_from_url(blob.url + f"?snapshot={snapshots[0]}")
    assert disk.extents() == (files, occupied), "bytes were moved"
    assert disk.store() - store < mebibyte
    for place in (container, other):
        assert read(place.get_blob_client(f"copy{shares_each - 1}")) == data
    assert read(container.get_blob_client("blob", snapshot=snapshots[1])) == data

    # One after another goes, and while there is one the bytes stay.
    _delete_all(container)
    for number in range(shares_each - 1):
        other.delete_blob(f"copy{number}")
    account.advance(3600)
    account.advance(3600)
    time.sleep(0.5)
    assert disk.extents() == (files, occupied)
    assert read(other.get_blob_client(f"copy{shares_each - 1}")) == data
    _delete_all(other)
    assert disk.extents() == (files, occupied), "there was no grace"
    eventually_empty(disk, account)


@kinds
def test_undeleted_and_deleted_for_good(
    service: BlobServiceClient, account: EtagereServer, disk: Disk,
    write: Callable[[BlobClient], None],
) -> None:  # fmt: skip
    from azure.storage.blob import RetentionPolicy

    service.set_service_properties(delete_retention_policy=RetentionPolicy(enabled=True, days=2))
    container = service.create_container("one")
    blob = container.get_blob_client("blob")
    write(blob)
    account.advance(3600)
    files, occupied = disk.extents()
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="include")
    account.advance(86_400)
    time.sleep(0.3)
    assert disk.extents() == (files, occupied)
    blob.undelete_blob()
    if not blob.exists():  # versions come back, none of them as the current one
        (latest, *_) = sorted(
            (each.version_id for each in container.list_blobs(include=["versions"])), reverse=True
        )
        blob.start_copy_from_url(f"{blob.url}?versionid={latest}")
    assert read(blob) == data
    account.advance(5 * 86_400)
    time.sleep(0.3)
    assert read(blob) == data
    assert disk.extents() == (files, occupied)
    _delete_all(container)
    account.advance(86_400)
    time.sleep(0.3)
    assert disk.extents() == (files, occupied)
    account.advance(2 * 86_400)
    eventually_empty(disk, account)


def test_containers_that_are_restored_and_deleted_for_good(
    service: BlobServiceClient, account: EtagereServer, disk: Disk
) -> None:
    container = service.create_container("one")
    for number, write in enumerate((put_whole, put_list, append, put_pages)):
        write(container.get_blob_client(f"blob{number}"))
    staged = container.get_blob_client("staged")
    staged.stage_block("0000", data)
    account.advance(3600)
    before = disk.extents()
    container.delete_container()
    account.advance(86_400)
    time.sleep(0.3)
    assert disk.extents() == before
    (deleted,) = [each for each in service.list_containers(include_deleted=True) if each.deleted]
    service.undelete_container("one", str(deleted.version))
    for number in range(4):
        assert read(container.get_blob_client(f"blob{number}")) == data
    account.advance(5 * 86_400)
    time.sleep(0.3)
    assert disk.extents()[1] >= 4 * size
    container.delete_container()
    account.advance(4 * 86_400)
    eventually_empty(disk, account)


def _delete_all(container: ContainerClient) -> None:
    for each in list(container.list_blobs()):
        container.delete_blob(each.name, delete_snapshots="include")
    for each in list(container.list_blobs(include=["versions"])):
        container.get_blob_client(each.name, version_id=each.version_id).delete_blob()
