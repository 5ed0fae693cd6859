"""Storage Analytics logging: what is asked for gets into `$logs`, in the documented format."""

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import (
    BlobAnalyticsLogging,
    BlobServiceClient,
    ContainerClient,
    RetentionPolicy,
    generate_container_sas,
)
from azure.storage.queue import QueueAnalyticsLogging, QueueServiceClient
from azure.storage.queue import RetentionPolicy as QueueRetention

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerProcess

fields = (
    "version start operation status code latency server_latency way requester owner service url "
    "key request_id count client version_header request_header request_packet response_header "
    "response_packet length request_md5 server_md5 etag modified conditions agent referrer "
    "client_request_id"
).split()
_field = re.compile(r'("[^"]*"|[^;"]*);')


def split(line: str) -> list[str]:
    """A line's fields; quoted ones may have semicolons."""
    return [match[1] for match in _field.finditer(f"{line};")]


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess(["--in-memory", "--clock", "virtual"]) as running:
        yield running


@pytest.fixture
def blobs(server: ServerProcess) -> Iterator[BlobServiceClient]:
    with BlobServiceClient(
        server.urls["blob"], credential=development_key, retry_total=0
    ) as client:
        yield client


def logs_of(
    blobs: BlobServiceClient, prefix: str = "blob/", lines: int = 1
) -> list[dict[str, str]]:
    """The lines of all logs, once there are so many."""
    container = blobs.get_container_client("$logs")
    until = time.monotonic() + 30
    while True:
        found: list[dict[str, str]] = []
        try:
            for blob in container.list_blobs(name_starts_with=prefix):
                text = container.download_blob(blob.name).readall().decode()
                assert text.endswith("\n")
                for line in text.splitlines():
                    values = split(line)
                    assert len(values) == len(fields), line
                    found.append(dict(zip(fields, values, strict=True)))
        except ResourceNotFoundError:
            pass
        if len(found) >= lines or time.monotonic() > until:
            return found
        time.sleep(0.1)


def ask_for(blobs: BlobServiceClient, **kinds: bool) -> None:
    policy = RetentionPolicy(enabled=True, days=2)
    blobs.set_service_properties(
        analytics_logging=BlobAnalyticsLogging(**kinds, retention_policy=policy)
    )


def test_only_what_is_asked_for_is_logged(blobs: BlobServiceClient) -> None:
    container = blobs.create_container("things")
    container.upload_blob("a", b"before")
    ask_for(blobs, write=True)
    container.upload_blob('b;"', b"logged", metadata={"a": "b"})
    container.download_blob("a").readall()
    container.delete_blob("a")
    [line] = logs_of(blobs)
    assert line["version"] == "1.0"
    assert line["operation"] == "PutBlob"
    assert line["status"] == "Success"
    assert line["code"] == "201"
    assert line["way"] == "authenticated"
    assert line["requester"] == line["owner"] == development_name
    assert line["service"] == "blob"
    assert line["url"].startswith('"http://127.0.0.1:')
    assert line["key"] == f'"/{development_name}/things/b;&quot;"'
    assert line["count"] == "0"
    assert line["client"].startswith("127.0.0.1")
    assert line["request_packet"] == line["length"] == "6"
    properties = container.get_blob_client('b;"').get_blob_properties()
    assert line["etag"] == '"' + properties.etag.replace('"', "&quot;") + '"'
    assert line["modified"] == f"{properties.last_modified:%A, %d-%b-%y %H:%M:%S} GMT"
    assert line["agent"].startswith('"azsdk-python-storage-blob')
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", line["start"])


def test_how_logs_are_named_and_what_is_said_of_them(blobs: BlobServiceClient) -> None:
    ask_for(blobs, write=True, delete=True)
    container = blobs.create_container("things")
    container.delete_container()
    assert [line["operation"] for line in logs_of(blobs, lines=2)] == [
        "CreateContainer",
        "DeleteContainer",
    ]
    first, *_ = blobs.get_container_client("$logs").list_blobs(include=["metadata"])
    now = first.creation_time
    assert first.name in {
        f"blob/{now:%Y/%m/%d/%H}00/000000.log",
        f"blob/{now:%Y/%m/%d}/{now.hour - 1:02}00/000000.log",
    }
    assert first.blob_type == "BlockBlob"
    assert first.metadata["LogType"] == "write,delete"
    assert first.metadata["LogVersion"] == "1.0"
    assert first.metadata["StartTime"] <= first.metadata["EndTime"] <= f"{now:%FT%TZ}"
    blobs.create_container("more").close()
    logs_of(blobs, lines=3)
    names = [blob.name for blob in blobs.get_container_client("$logs").list_blobs()]
    assert len(names) == 2
    assert names[1].endswith(("000001.log", "000000.log"))
    assert [each.name for each in blobs.list_containers()] == ["more"]


def test_failures_and_how_they_were_authorized(
    server: ServerProcess, blobs: BlobServiceClient
) -> None:
    container = blobs.create_container("things", public_access="blob")
    container.upload_blob("a", b"x")
    ask_for(blobs, read=True)
    with pytest.raises(HttpResponseError):
        container.download_blob("none")
    token = generate_container_sas(
        development_name,
        "things",
        account_key=development_key,
        permission="r",
        expiry=datetime(2090, 1, 1, tzinfo=UTC),
    )
    with ContainerClient.from_container_url(f"{container.url}?{token}", retry_total=0) as reader:
        reader.download_blob("a").readall()
        with pytest.raises(HttpResponseError):
            list(reader.list_blobs())
    for name in ("a", "none"):  # of what is anonymous, failures are not logged
        try:
            urllib.request.urlopen(f"{container.url}/{name}?a=1&b=2").close()
        except urllib.error.HTTPError as error:
            error.close()
    found = [
        (line["operation"], line["status"], line["code"], line["way"], line["requester"])
        for line in logs_of(blobs, lines=4)
        if "logs" not in line["key"]
    ]
    assert found == [
        ("GetBlob", "BlobNotFound", "404", "authenticated", development_name),
        ("GetBlob", "SASSuccess", "206", "sas", ""),
        ("ListBlobs", "SASAuthorizationError", "403", "sas", ""),
        ("GetBlob", "AnonymousSuccess", "200", "anonymous", ""),
    ]
    lines = logs_of(blobs, lines=4)
    assert "sig=XXXXX" in lines[1]["url"]
    assert token.rpartition("sig=")[2] not in str(lines)
    assert lines[3]["url"].endswith('/things/a?a=1&amp;b=2"')


def test_version_2_has_room_for_bearers(blobs: BlobServiceClient) -> None:
    blobs.set_service_properties(
        analytics_logging=BlobAnalyticsLogging(
            version="2.0", write=True, retention_policy=RetentionPolicy(enabled=False)
        )
    )
    blobs.create_container("things").close()
    logs = blobs.get_container_client("$logs")
    until = time.monotonic() + 30
    while True:
        try:
            [log] = logs.list_blobs(include=["metadata"])
            break
        except ResourceNotFoundError:
            assert time.monotonic() < until
            time.sleep(0.1)
    assert log.metadata["LogVersion"] == "2.0"
    values = split(logs.download_blob(log.name).readall().decode().rstrip("\n"))
    assert values[0] == "2.0"
    assert len(values) == len(fields) + 8
    assert values[-8:] == [""] * 8


def test_a_copy_is_three_lines(blobs: BlobServiceClient) -> None:
    container = blobs.create_container("things")
    container.upload_blob("a", b"x")
    ask_for(blobs, write=True)
    container.get_blob_client("b").start_copy_from_url(container.get_blob_client("a").url)
    lines = logs_of(blobs, lines=3)
    assert [(line["operation"], line["count"]) for line in lines] == [
        ("CopyBlob", "0"),
        ("CopyBlobSource", "1"),
        ("CopyBlobDestination", "2"),
    ]
    assert len({line["request_id"] for line in lines}) == 1
    assert lines[1]["key"].endswith('/things/a"')
    assert [bool(line["etag"]) for line in lines] == [True, False, False]


def test_logs_are_deleted_when_their_time_is_up(
    server: ServerProcess, blobs: BlobServiceClient
) -> None:
    ask_for(blobs, write=True)
    blobs.create_container("things").close()
    assert len(logs_of(blobs)) == 1
    logs = blobs.get_container_client("$logs")
    server.admin.ask("POST", "/clock/advance", {"seconds": 2 * 86_400 - 3600})
    blobs.create_container("more").close()
    assert len(logs_of(blobs, lines=2)) == 2
    server.admin.ask("POST", "/clock/advance", {"seconds": 3700})
    until = time.monotonic() + 20
    while len(list(logs.list_blobs())) != 1 and time.monotonic() < until:
        time.sleep(0.1)
    [line] = logs_of(blobs)
    assert line["key"].endswith('/more"')


def test_queues_are_logged_as_well(server: ServerProcess, blobs: BlobServiceClient) -> None:
    with QueueServiceClient(
        server.urls["queue"], credential=development_key, retry_total=0
    ) as queues:
        queues.set_service_properties(
            analytics_logging=QueueAnalyticsLogging(
                read=True,
                write=True,
                delete=True,
                retention_policy=QueueRetention(enabled=False),
            )
        )
        with queues.create_queue("work") as queue:
            queue.send_message("hello")
            queue.delete_queue()
    lines = logs_of(blobs, "queue/", lines=3)
    assert [line["operation"] for line in lines] == ["CreateQueue", "PutMessage", "DeleteQueue"]
    assert {line["service"] for line in lines} == {"queue"}


def test_what_was_not_stored_yet_is_stored_at_the_end(tmp_path) -> None:
    arguments = ["--data", str(tmp_path / "data")]
    with (
        ServerProcess(arguments) as server,
        BlobServiceClient(server.urls["blob"], credential=development_key, retry_total=0) as client,
    ):
        ask_for(client, write=True)
        client.create_container("things").close()
    with (
        ServerProcess(arguments) as server,
        BlobServiceClient(server.urls["blob"], credential=development_key, retry_total=0) as client,
    ):
        assert [line["operation"] for line in logs_of(client)] == ["CreateContainer"]
