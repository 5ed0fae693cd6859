"""obstore: the Rust crate object_store, with which Delta Lake, Polars and DataFusion work."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.request import urlopen

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import AzureStore

from .conftest import Container


@pytest.fixture
def store(container: Container) -> AzureStore:
    return AzureStore(
        container_name=container.name,
        account_name=container.account,
        account_key=container.key,
        endpoint=container.endpoint,
        client_options={"allow_http": True},
    )


def names(store: AzureStore, prefix: str, offset: str | None = None) -> list[str]:
    return [item["path"] for page in obstore.list(store, prefix, offset=offset) for item in page]


def test_parts_are_put_together(store: AzureStore) -> None:
    sent = os.urandom(6_000_000)
    obstore.put(store, "a/large", sent, use_multipart=True, chunk_size=1_000_000, max_concurrency=4)
    assert bytes(obstore.get(store, "a/large").bytes()) == sent
    found = obstore.get_ranges(store, "a/large", starts=[0, 5_999_990], ends=[10, 6_000_000])
    assert [bytes(part) for part in found] == [sent[:10], sent[-10:]]
    with obstore.open_writer(store, "a/written") as writer:
        writer.write(sent[:3_000_000])
        writer.write(sent[3_000_000:])
    assert obstore.head(store, "a/written")["size"] == len(sent)


def test_conditions(store: AzureStore) -> None:
    obstore.put(store, "one", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "one", b"2", mode="create")
    tag = obstore.head(store, "one")["e_tag"]
    assert tag is not None
    obstore.put(store, "one", b"3", mode={"e_tag": tag})
    with pytest.raises(PreconditionError):
        obstore.put(store, "one", b"4", mode={"e_tag": tag})
    obstore.copy(store, "one", "copy", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        obstore.copy(store, "one", "copy", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        obstore.rename(store, "one", "copy", overwrite=False)
    obstore.rename(store, "one", "two")
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "one")
    assert bytes(obstore.get(store, "two").bytes()) == b"3"


def test_a_log_of_numbered_entries_takes_each_number_once(store: AzureStore) -> None:
    """As Delta tables commit: list from the last entry that is known, then create the next."""

    def append(writer: int) -> int:
        last, lost = 0, 0
        for _ in range(8):
            while True:
                last += len(names(store, "log", offset=f"log/{last:020}.json"))
                try:
                    obstore.put(store, f"log/{last + 1:020}.json", b"%d" % writer, mode="create")
                    break
                except AlreadyExistsError:
                    lost += 1
        return lost

    obstore.put(store, "log/00000000000000000000.json", b"-", mode="create")
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(append, range(4)))
    entries = names(store, "log")
    assert entries == [f"log/{number:020}.json" for number in range(33)]
    authors = Counter(bytes(obstore.get(store, entry).bytes()) for entry in entries[1:])
    assert authors == {b"%d" % writer: 8 for writer in range(4)}


def test_listings(store: AzureStore) -> None:
    for name in ("a/1", "a/2", "b c+%ü/1", "d"):
        obstore.put(store, name, b"x")
    assert names(store, "") == ["a/1", "a/2", "b c+%ü/1", "d"]
    assert names(store, "b c+%ü") == ["b c+%ü/1"]
    assert names(store, "", offset="a/1") == ["a/2", "b c+%ü/1", "d"]
    level = obstore.list_with_delimiter(store)
    assert level["common_prefixes"] == ["a", "b c+%ü"]
    assert [item["path"] for item in level["objects"]] == ["d"]
    obstore.delete(store, ["a/1", "a/2", "b c+%ü/1"])
    assert names(store, "") == ["d"]


def test_attributes_and_signed_addresses(store: AzureStore) -> None:
    sent = {"Content-Type": "text/x", "Cache-Control": "no-cache", "shelf": "2"}
    obstore.put(store, "kept", b"kept", attributes=sent, tags={"kind": "a b"})
    assert dict(obstore.get(store, "kept").attributes) == sent
    address = obstore.sign(store, "GET", "kept", timedelta(minutes=5))
    with urlopen(address) as answer:
        assert answer.read() == b"kept"
