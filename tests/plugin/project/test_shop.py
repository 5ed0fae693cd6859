"""A project of somebody who tests an application against `etagere_server`."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.storage.blob import BlobLeaseClient, BlobServiceClient
from azure.storage.queue import QueueServiceClient


@pytest.fixture
def blobs(etagere_server):
    client = BlobServiceClient.from_connection_string(
        etagere_server.connection_string, retry_total=0
    )
    with client:
        yield client


@pytest.mark.parametrize("visit", [1, 2])
def test_every_test_has_an_account_of_its_own(blobs, visit):
    """The second visit would find the first one's container."""
    blobs.create_container("orders")
    assert [container.name for container in blobs.list_containers()] == ["orders"]


def test_a_lease_ends_when_time_is_moved(etagere_server, blobs):
    container = blobs.create_container("orders")
    BlobLeaseClient(container).acquire(15)
    with pytest.raises(ResourceExistsError):
        BlobLeaseClient(container).acquire(15)
    etagere_server.advance(16)
    BlobLeaseClient(container).acquire(15)


def test_a_message_comes_back_when_time_is_moved(etagere_server):
    service = QueueServiceClient.from_connection_string(etagere_server.connection_string)
    with service:
        queue = service.create_queue("work")
        queue.send_message("paint the shelves")
        assert [message.content for message in queue.receive_messages(visibility_timeout=300)]
        assert list(queue.receive_messages()) == []
        etagere_server.advance(301)
        assert [message.content for message in queue.receive_messages()] == ["paint the shelves"]


def test_time_can_stand_still_and_be_set(etagere_server):
    etagere_server.freeze()
    assert etagere_server.now() == etagere_server.now()
    when = datetime(2031, 5, 17, 12, tzinfo=UTC)
    etagere_server.set_time(when)
    assert etagere_server.now() == when
    etagere_server.advance(60)
    assert etagere_server.now() == when + timedelta(seconds=60)


def test_time_goes_back_to_normal_afterwards(etagere_server):
    assert abs(etagere_server.now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_armed_fault_happens_as_often_as_it_was_armed(etagere_server, blobs):
    etagere_server.faults.arm("throttle", "CreateContainer", count=2)
    for _ in range(2):
        with pytest.raises(HttpResponseError) as caught:
            blobs.create_container("orders")
        assert caught.value.status_code == 503
    blobs.create_container("orders")
    assert etagere_server.faults.armed()[0]["hits"] == 2


def test_faults_do_not_outlive_their_test(etagere_server, blobs):
    assert etagere_server.faults.armed() == []
    blobs.create_container("orders")


def test_an_account_can_be_emptied(etagere_server, blobs):
    blobs.create_container("orders").upload_blob("a", b"1")
    etagere_server.reset()
    assert list(blobs.list_containers()) == []
    assert "CreateContainer" in etagere_server.metrics()
    assert etagere_server.blob_url.endswith(etagere_server.account_name)


def test_urls_and_the_key_for_clients_that_take_no_connection_string(etagere_server):
    name, key = etagere_server.account_name, etagere_server.account_key
    with TableServiceClient(
        etagere_server.table_url, credential=AzureNamedKeyCredential(name, key)
    ) as tables:
        tables.create_table("orders").create_entity({"PartitionKey": "p", "RowKey": "r"})
        assert [table.name for table in tables.list_tables()] == ["orders"]
    credential = {"account_name": name, "account_key": key}
    with QueueServiceClient(etagere_server.queue_url, credential=credential) as queues:
        assert list(queues.list_queues()) == []


def test_messages_of_service_bus(etagere_server):
    """Its entities are in the configuration file that the server was started with."""
    with ServiceBusClient.from_connection_string(etagere_server.bus_connection_string) as bus:
        with bus.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("one shelf"))
        with bus.get_queue_receiver("orders", max_wait_time=20) as receiver:
            (message,) = receiver.receive_messages()
            assert str(message) == "one shelf"
            receiver.complete_message(message)
