"""A disk that fills up under queues, tables and the bus: clear refusals, reads that go on, nothing
acknowledged that is lost, room again for whoever makes it.  (Blobs: tests/app/test_crash.py.)"""

import json
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError
from azure.storage.queue import QueueServiceClient

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerProcess

pytestmark = pytest.mark.slow
large = "x" * 30_000


@pytest.fixture
def server(small_disk_of):
    place = small_disk_of("24m")
    config = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "q"}]}]}}
    (place / "config.json").write_text(json.dumps(config))
    with ServerProcess(
        ["--data", str(place / "data"), "--bus-config", str(place / "config.json")]
    ) as running:
        yield running


def connection_string(server: ServerProcess) -> str:
    endpoints = f"QueueEndpoint={server.urls['queue']};TableEndpoint={server.urls['table']};"
    return f"AccountName={development_name};AccountKey={development_key};{endpoints}"


def is_clear(error: Exception) -> bool:
    """Whether it says that there is no room."""
    if isinstance(error, HttpResponseError):
        return error.status_code == 507 and "InsufficientStorage" in str(error)
    return isinstance(error, ServiceBusError) and "StoreFull" in str(error)


def fill(write: Callable[[int], object], limit: int = 2000) -> int:
    """How many were acknowledged before three in a row were not, each with a clear refusal."""
    refusals: list[Exception] = []
    for number in range(limit):
        try:
            write(number - len(refusals))
        except (HttpResponseError, ServiceBusError) as error:
            refusals.append(error)
        if len(refusals) == 3:
            assert all(map(is_clear, refusals)), refusals
            return number - 2
    raise AssertionError("the disk is never full")


def test_a_queue(server: ServerProcess) -> None:
    with QueueServiceClient.from_connection_string(
        connection_string(server), retry_total=0
    ) as service:
        queue = service.create_queue("queue")
        there = fill(lambda number: queue.send_message(f"{number} {large}"))
        assert there > 50
        assert queue.peek_messages()[0].content == f"0 {large}"
        gone = []
        for message in queue.receive_messages(messages_per_page=32, max_messages=there // 2):
            gone.append(message.content)
            queue.delete_message(message)
        assert len(gone) == there // 2
        queue.send_message("again")
    assert server.process.poll() is None


def test_a_table(server: ServerProcess) -> None:
    with (
        TableServiceClient.from_connection_string(
            connection_string(server), retry_total=0
        ) as service,
        service.create_table("entities") as table,
    ):

        def write(number: int) -> None:
            table.create_entity({"PartitionKey": "p", "RowKey": f"{number:05d}", "large": large})

        there = fill(write)
        found = [entity["RowKey"] for entity in table.list_entities(select="RowKey")]
        assert found == [f"{number:05d}" for number in range(there)]
        for number in range(there // 2):
            table.delete_entity("p", f"{number:05d}")
        write(there)
        assert len(list(table.list_entities(select="RowKey"))) == there - there // 2 + 1


def test_the_bus(server: ServerProcess) -> None:
    port = urlsplit(server.urls["amqp"]).port
    client = ServiceBusClient.from_connection_string(
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
        retry_total=0,
    )
    with client, client.get_queue_sender("q") as sender:
        there = fill(lambda number: sender.send_messages(ServiceBusMessage(f"{number} {large}")))
        assert there > 50
        with client.get_queue_receiver(
            "q", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as receiver:
            found = []
            while len(found) < there:
                found += [str(each) for each in receiver.receive_messages(100, max_wait_time=20)]
            assert found == [f"{number} {large}" for number in range(there)]
        sender.send_messages(ServiceBusMessage("again"))
