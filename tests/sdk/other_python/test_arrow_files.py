"""pyarrow's AzureFileSystem: Azure's SDK for C++."""

import os
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from pyarrow.fs import FileSelector, FileType

from .conftest import Container

arrow_azure = pytest.importorskip("pyarrow._azurefs", reason="this pyarrow was built without Azure")


@pytest.fixture
def files(container: Container) -> "arrow_azure.AzureFileSystem":
    address = urlsplit(container.endpoint).netloc
    return arrow_azure.AzureFileSystem(
        container.account,
        account_key=container.key,
        blob_storage_authority=address,
        blob_storage_scheme="http",
        dfs_storage_authority=address,  # only asked where the account has a hierarchical namespace
        dfs_storage_scheme="http",
    )


def test_streams(files: "arrow_azure.AzureFileSystem", container: Container) -> None:
    path, sent = f"{container.name}/folder/large", os.urandom(12_000_000)
    with files.open_output_stream(path, metadata={"Content-Type": "text/x"}) as out:
        out.write(sent)
    with files.open_input_file(path) as found:
        assert found.metadata()["Content-Type"] == b"text/x"
    with files.open_append_stream(path) as out:
        out.write(b"tail")
    with files.open_input_file(path) as found:
        assert found.size() == len(sent) + 4
        found.seek(len(sent) - 2)
        assert found.read() == sent[-2:] + b"tail"


def test_datasets(files: "arrow_azure.AzureFileSystem", container: Container) -> None:
    table = pa.table({"n": list(range(1000)), "part": [n % 3 for n in range(1000)]})
    parquet.write_table(table, f"{container.name}/table.parquet", filesystem=files)
    assert parquet.read_table(f"{container.name}/table.parquet", filesystem=files) == table
    root = f"{container.name}/set"
    dataset.write_dataset(table, root, filesystem=files, format="parquet", partitioning=["part"])
    assert dataset.dataset(root, filesystem=files, partitioning=["part"]).count_rows() == 1000


def test_folders(files: "arrow_azure.AzureFileSystem", container: Container) -> None:
    files.create_dir(f"{container.name}/a/b", recursive=True)
    with files.open_output_stream(f"{container.name}/a/file") as out:
        out.write(b"1")
    files.copy_file(f"{container.name}/a/file", f"{container.name}/a/copy")
    selected = files.get_file_info(FileSelector(f"{container.name}/a", recursive=True))
    assert {(item.base_name, item.type) for item in selected} == {
        ("b", FileType.Directory),
        ("copy", FileType.File),
        ("file", FileType.File),
    }
    files.delete_file(f"{container.name}/a/file")
    files.delete_dir(f"{container.name}/a")
    assert files.get_file_info(f"{container.name}/a").type is FileType.NotFound
    files.delete_dir(container.name)
    assert files.get_file_info(container.name).type is FileType.NotFound
