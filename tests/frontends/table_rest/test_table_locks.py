"""docs/table-locks.md, taken at its word: its code is run against blobs and tables."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient, TableTransactionError
from azure.storage.blob import BlobServiceClient

from .process import Process
from .serving import account, key

_document = Path(__file__).parents[3] / "docs" / "table-locks.md"


@pytest.fixture(scope="module")
def documented() -> SimpleNamespace:
    """What the document's code defines."""
    found: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", _document.read_text(), re.DOTALL):
        if "class " in block:
            exec(compile(block, _document, "exec"), found)
    return SimpleNamespace(**found)


@pytest.fixture(scope="module")
def clients(tmp_path_factory) -> Iterator[tuple[BlobServiceClient, TableServiceClient]]:
    process = Process(tmp_path_factory.mktemp("locks"), services="blob,table").start()
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
        f"BlobEndpoint={process.urls['blob']};TableEndpoint={process.urls['table']};"
    )
    with (
        BlobServiceClient.from_connection_string(text, api_version="2021-12-02") as blobs,
        TableServiceClient.from_connection_string(text) as tables,
    ):
        yield blobs, tables
    assert process.stop() == 0


def test_one_holder_at_a_time(documented, clients):
    blobs, tables = clients
    table = tables.create_table("Locked")
    table.upsert_entity({"PartitionKey": "p", "RowKey": "sum", "n": 0})
    inside: list[int] = []
    most = 0
    guard = threading.Lock()

    def work(number: int) -> None:
        nonlocal most
        lock = documented.TableLock(blobs, "Locked")
        for _ in range(3):
            assert lock.acquire(patience=60)
            with guard:
                inside.append(number)
                most = max(most, len(inside))
            # A read and a blind write: only the lock keeps updates from being lost.
            found = table.get_entity("p", "sum")
            lock.renew()
            table.upsert_entity({"PartitionKey": "p", "RowKey": "sum", "n": found["n"] + 1})
            with guard:
                inside.remove(number)
            lock.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert most == 1
    assert table.get_entity("p", "sum")["n"] == 12


def test_patience_ends(documented, clients):
    blobs, _ = clients
    holder, other = (documented.TableLock(blobs, "Patience") for _ in range(2))
    assert holder.acquire(patience=0)
    began = time.monotonic()
    assert not other.acquire(patience=0.2)
    assert time.monotonic() - began >= 0.2
    holder.release()
    assert other.acquire(patience=0)
    with pytest.raises(AssertionError):
        holder.renew()
    other.release()


def test_a_late_holder_is_fenced_off(documented, clients):
    _, tables = clients
    table = tables.create_table("Fenced")
    late = documented.Fence(table, "p")
    late.submit([("create", {"PartitionKey": "p", "RowKey": "1"})])
    late.submit([("create", {"PartitionKey": "p", "RowKey": "2"})])
    current = documented.Fence(table, "p")
    with pytest.raises(TableTransactionError) as refusal:
        late.submit([("create", {"PartitionKey": "p", "RowKey": "3"})])
    assert (refusal.value.status_code, refusal.value.index) == (412, 0)
    current.submit([("create", {"PartitionKey": "p", "RowKey": "4"})])
    assert issubclass(TableTransactionError, HttpResponseError)
    found = [each["RowKey"] for each in table.list_entities()]
    assert found == ["!fence", "1", "2", "4"]
