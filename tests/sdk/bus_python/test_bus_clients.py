"""Connections, credentials and their ends, after azure-servicebus's `test_sb_client.py`."""

import socket
import time

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
)
from azure.servicebus._base_handler import ServiceBusSharedKeyCredential, _generate_sas_token
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)
from bus_server import Bus, BusThread, listener_only, root, sender_only

from etagere.auth.bus_sas import SasRule
from etagere.frontends.bus_amqp.idle import IdleLimits

quick = {"retry_total": 0, "retry_backoff_factor": 0.05}


def connect(text: str) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(text, **quick)


def test_a_wrong_key(bus: Bus, name: str) -> None:
    bus.queue(name)
    wrong = SasRule(root.name, root.rights, "wrong")
    with (
        connect(bus.connection_string(wrong)) as client,
        pytest.raises(ServiceBusAuthenticationError),
        client.get_queue_sender(name) as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_an_unknown_key_name(bus: Bus, name: str) -> None:
    bus.queue(name)
    unknown = SasRule("nobody", root.rights, "SAS_KEY_VALUE")
    with (
        connect(bus.connection_string(unknown)) as client,
        pytest.raises(ServiceBusAuthenticationError),
        client.get_queue_receiver(name) as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)


def test_a_missing_entity(bus: Bus) -> None:
    with connect(bus.connection_string()) as client:
        with pytest.raises(ServiceBusAuthenticationError), client.get_queue_sender("no") as sender:
            sender.send_messages(ServiceBusMessage("x"))
        with (
            pytest.raises(ServiceBusAuthenticationError),
            client.get_subscription_receiver("no", "sub") as receiver,
        ):
            receiver.receive_messages(max_wait_time=1)


def test_a_listener_cannot_send(bus: Bus, name: str) -> None:
    bus.queue(name)
    with connect(bus.connection_string(listener_only)) as client:
        with client.get_queue_receiver(name) as receiver:
            assert receiver.receive_messages(max_wait_time=1) == []
        with (
            pytest.raises(ServiceBusAuthorizationError, match="'Send' claim"),
            client.get_queue_sender(name) as sender,
        ):
            sender.send_messages(ServiceBusMessage("x"))


def test_a_sender_cannot_listen(bus: Bus, name: str) -> None:
    bus.queue(name)
    with connect(bus.connection_string(sender_only)) as client:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("x"))
            assert sender.schedule_messages(ServiceBusMessage("y"), _soon())
        with pytest.raises(ServiceBusError), client.get_queue_receiver(name) as receiver:
            receiver.receive_messages(max_wait_time=1)
        with pytest.raises(ServiceBusError), client.get_queue_receiver(name) as receiver:
            receiver.peek_messages(1)


def _soon() -> object:
    from datetime import UTC, datetime, timedelta

    return datetime.now(UTC) + timedelta(minutes=1)


def test_an_entity_s_own_key(bus: Bus) -> None:
    bus.queue("other")
    bus.queue("another")
    rule = SasRule("entity", frozenset(), "ENTITY_KEY")
    with connect(bus.connection_string(rule, "other")) as client:
        with client.get_queue_sender("other") as sender:
            sender.send_messages(ServiceBusMessage("x"))
        with pytest.raises(ValueError, match="EntityPath"):
            client.get_queue_sender("another")
    with (
        connect(bus.connection_string(rule)) as client,
        pytest.raises(ServiceBusAuthenticationError),
        client.get_queue_sender("another") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


@pytest.mark.parametrize("kind", ["shared", "named", "sas"])
def test_credentials(bus: Bus, name: str, kind: str) -> None:
    bus.queue(name)
    if kind == "shared":
        credential: object = ServiceBusSharedKeyCredential(root.name, root.primary_key)
    elif kind == "named":
        credential = AzureNamedKeyCredential(root.name, root.primary_key)
    else:
        uri = f"sb://localhost:{bus.port}/{name}"
        token = _generate_sas_token(uri, root.name, root.primary_key)
        credential = AzureSasCredential(token.token)
    # `use_tls` is what a connection string says with UseDevelopmentEmulator.
    with (
        ServiceBusClient(f"localhost:{bus.port}", credential, use_tls=False, **quick) as client,
        client.get_queue_sender(name) as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_names_in_any_case_and_with_slashes(bus: Bus, name: str) -> None:
    bus.queue(f"{name}/Sub.Folder/_x1")
    with connect(bus.connection_string()) as client:
        with client.get_queue_sender(f"{name}/SUB.folder/_X1") as sender:
            sender.send_messages(ServiceBusMessage("x"))
        with client.get_queue_receiver(f"{name}/sub.folder/_x1") as receiver:
            receiver.complete_message(receiver.receive_messages()[0])


def test_a_deleted_queue_ends_its_links(bus: Bus, name: str) -> None:
    bus.queue(name)
    with connect(bus.connection_string()) as client, client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x"))
        bus.run(lambda: bus.broker.administration.delete(name))
        # The first try finds the link gone, the next one no entity.
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("x"))
        with pytest.raises(ServiceBusAuthenticationError):
            sender.send_messages(ServiceBusMessage("x"))


def test_no_server(bus: Bus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    text = bus.connection_string().replace(f":{bus.port};", f":{port};")
    with (
        connect(text) as client,
        pytest.raises(ServiceBusError),
        client.get_queue_sender("q") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_closing_the_client_closes_what_it_made(bus: Bus, name: str) -> None:
    bus.queue(name)
    client = connect(bus.connection_string())
    sender = client.get_queue_sender(name)
    receiver = client.get_queue_receiver(name)
    sender.send_messages(ServiceBusMessage("x"))
    (message,) = receiver.receive_messages()
    receiver.complete_message(message)
    client.close()
    with pytest.raises(ValueError, match="shutdown"):
        sender.send_messages(ServiceBusMessage("x"))


def test_last_settlements_of_a_client_that_leaves_count(bus: Bus, name: str) -> None:
    """It closes without reading our answers; everything that it said before is heard."""
    bus.queue(name)
    for _ in range(3):
        with connect(bus.connection_string()) as client:
            with client.get_queue_sender(name) as sender:
                sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
            receiver = client.get_queue_receiver(
                name, receive_mode=ServiceBusReceiveMode.PEEK_LOCK, prefetch_count=20
            )
            got = []
            while len(got) < 20:
                got += receiver.receive_messages(max_message_count=20, max_wait_time=5)
            for message in got:
                receiver.complete_message(message)
            receiver.close()
    with connect(bus.connection_string()) as client, client.get_queue_receiver(name) as receiver:
        assert receiver.peek_messages(1) == []


def test_a_broken_connection_gives_locks_back_at_once(bus: Bus, name: str) -> None:
    bus.queue(name)
    with connect(bus.connection_string()) as client:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        broken = connect(bus.connection_string())
        victim = broken.get_queue_receiver(name)
        (message,) = victim.receive_messages()
        assert message.delivery_count == 0
        victim._handler._connection._transport.sock.shutdown(socket.SHUT_RDWR)
        with client.get_queue_receiver(name) as receiver:
            (again,) = receiver.receive_messages(max_wait_time=5)
            assert again.delivery_count == 1
            receiver.complete_message(again)
        broken.close()


def test_connections_without_links_are_closed_and_come_back() -> None:
    idle = IdleLimits(link_seconds_max=30)
    with BusThread(idle=idle) as bus:
        bus.queue("q")
        with connect(bus.connection_string()) as client, client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("one"))
            bus.advance(31)
            time.sleep(0.3)
            client._config.retry_total = 3
            sender._config.retry_total = 3
            sender.send_messages(ServiceBusMessage("two"))
            with client.get_queue_receiver("q") as receiver:
                got = []
                while len(got) < 2:
                    got += receiver.receive_messages(max_message_count=2, max_wait_time=5)
