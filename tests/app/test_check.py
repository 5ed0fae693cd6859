"""`etagere check` on what a real server has stored: sound as it is, and each damage is told."""

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import lmdb
import pytest
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from etagere.app.cli import main
from etagere.kv.tuples import pack, unpack_from
from etagere.services.blob.keys import RowKind
from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerProcess

config = {
    "UserConfig": {
        "Namespaces": [
            {
                "Name": "sbemulatorns",
                "Queues": [{"Name": "queue.1", "Properties": {}}],
                "Topics": [
                    {
                        "Name": "topic.1",
                        "Properties": {},
                        "Subscriptions": [{"Name": "one", "Properties": {}, "Rules": []}],
                    }
                ],
            }
        ]
    }
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that every service has written to."""
    place = tmp_path_factory.mktemp("stored")
    (place / "config.json").write_text(json.dumps(config))
    arguments = ["--data", str(place / "data"), "--bus-config", str(place / "config.json")]
    with ServerProcess(arguments) as server:
        endpoints = "".join(
            f"{name.capitalize()}Endpoint={server.urls[name]};"
            for name in ("blob", "queue", "table")
        )
        string = f"AccountName={development_name};AccountKey={development_key};{endpoints}"
        with BlobServiceClient.from_connection_string(string) as blobs:
            blobs.set_service_properties(cors=[])
            container = blobs.create_container("container")
            container.upload_blob("small", b"abc").set_blob_tags({"key": "value"})
            container.upload_blob("large", b"b" * 500_000)
        with QueueServiceClient.from_connection_string(string) as queues:
            queues.create_queue("queue").send_message("text")
        with TableServiceClient.from_connection_string(string) as tables:
            tables.create_table("table").create_entity({"PartitionKey": "p", "RowKey": "r"})
        port = urlsplit(server.urls["amqp"]).port
        with (
            ServiceBusClient.from_connection_string(
                f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
                "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
            ) as bus,
            bus.get_queue_sender("queue.1") as queue_sender,
            bus.get_topic_sender("topic.1") as topic_sender,
        ):
            for sender in (queue_sender, topic_sender):
                sender.send_messages([ServiceBusMessage(b"m" * size) for size in (10, 100_000)])
    return place / "data"


@pytest.fixture
def data(stored: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "data"
    shutil.copytree(stored, copy)
    return copy


def check(data: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["check", str(data)])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_what_every_service_wrote_is_sound(stored, capsys):
    status, out, err = check(stored, capsys)
    assert (status, out, err) == (0, f"{stored} is sound\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("service", ["blob", "queue", "table", "bus"])
def test_rows_that_are_missing_are_told_by_service(data, service, capsys):
    """Each of them; at the least the checker that looks for it knows of it."""
    with lmdb.open(str(data), map_size=2**30) as env:
        with env.begin() as txn:
            rows = [
                (key, value)
                for key, value in txn.cursor()
                if key.startswith(pack(service)) and not _may_be_missing(key)
            ]
        assert len(rows) >= 3
        assert all(len(key) < env.max_key_size() for key, _ in rows)
    told = 0
    for key, value in rows:
        _change(data, key, None)
        status, out, err = check(data, capsys)
        told += status
        if status:
            assert out.count("\n") >= 1
            assert any(line.startswith((f"{service}: ", "extents: ")) for line in out.splitlines())
            assert err.startswith(f"etagere: {data} has ")
        _change(data, key, value)
    assert told >= len(rows) - _rows_on_their_own[service], f"{told} of {len(rows)}"
    assert check(data, capsys)[0] == 0


def _may_be_missing(key: bytes) -> bool:
    return b"\xff\xff\xff\xffR" in key  # rules of a subscription, of which there may be none


_rows_on_their_own = {"blob": 1, "queue": 0, "table": 1, "bus": 0}
"""Rows that nothing else counts or points to: an entity of a table, an account's properties."""


@pytest.mark.slow
def test_rows_that_are_damaged_are_told_and_never_end_the_check(data, capsys):
    with lmdb.open(str(data), map_size=2**30) as env, env.begin() as txn:
        rows = [(key, value) for key, value in txn.cursor() if value]
    unnoticed = []
    for key, value in rows:
        for damaged in (value[:-1], b"\xff" + value[1:]):
            if damaged == value:
                continue
            _change(data, key, damaged)
            status, _, err = check(data, capsys)
            assert err.startswith(f"etagere: {data} has ") if status else err == ""
            if not status:
                unnoticed.append((key, damaged))
        _change(data, key, value)
    assert check(data, capsys)[0] == 0
    assert len(rows) > 25
    # What is not told: bytes of a small blob or of a message, which have no checksum of their own,
    # and a stamp that is merely higher than it was.
    others = [(key, damaged) for key, damaged in unnoticed if not _is_content(key)]
    assert [key for key, _ in others] == [b"\x01stamp"]
    cut = {key for key, value in rows if (key, value[:-1]) in unnoticed}
    assert not any(key.startswith(pack("blob")) for key in cut), "a blob's size is known"


def _is_content(key: bytes) -> bool:
    part, at = unpack_from(key, 0)
    match part:
        case ("blob", _, _):
            return unpack_from(key, at + 1)[0][0] == RowKind.DATA
        case ("bus", _, _):
            return key[at + 1 :].startswith(b"\xff\xff\xff\xfeb")
        case _:
            return False


def _change(data: Path, key: bytes, value: bytes | None) -> None:
    with lmdb.open(str(data), map_size=2**30) as env, env.begin(write=True) as txn:
        if value is None:
            assert txn.delete(key)
        else:
            txn.put(key, value)


def test_damaged_and_missing_extents_are_told(data, capsys):
    (extent,) = [path for path in (data / "extents").rglob("*") if path.is_file()]
    good = extent.read_bytes()
    extent.write_bytes(good[:1000] + bytes((good[1000] ^ 1,)) + good[1001:])
    status, out, err = check(data, capsys)
    assert status == 1
    assert out.startswith("extents: ")
    assert err == f"etagere: {data} has 1 fault\n"
    extent.unlink()
    status, out, _ = check(data, capsys)
    assert status == 1
    assert out.startswith("extents: ")
    extent.write_bytes(good)
    assert check(data, capsys)[0] == 0


def test_extents_that_nobody_needs_are_no_damage(data, capsys):
    (extent,) = [path for path in (data / "extents").rglob("*") if path.is_file()]
    stray = extent.with_name(extent.name[:-4] + "0000")
    stray.write_bytes(extent.read_bytes())
    status, out, _ = check(data, capsys)
    assert status == 0
    assert "extents: 1 nobody needs" in out
