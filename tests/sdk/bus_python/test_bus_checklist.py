"""What azure-servicebus' own live tests try and the other modules here do not, in both forms."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    TransportType,
)
from azure.servicebus.aio import AutoLockRenewer as AutoLockRenewerAio
from azure.servicebus.aio import ServiceBusClient as ServiceBusClientAio
from azure.servicebus.exceptions import MessageLockLostError, MessageSizeExceededError
from bus_server import Bus, BusThread

from etagere.base.clock import seconds
from etagere.frontends.bus_amqp.idle import IdleLimits
from etagere.services.bus.descriptions import QueueDescription, Tier

received_and_deleted = ServiceBusReceiveMode.RECEIVE_AND_DELETE


def connect_aio(bus: Bus) -> ServiceBusClientAio:
    return ServiceBusClientAio.from_connection_string(
        bus.connection_string(), retry_total=0, retry_backoff_factor=0.05
    )


# ---- listing sessions


def test_sessions_are_listed(bus: Bus, client: ServiceBusClient, name: str) -> None:
    """Those with active messages or state; by default page after page of a hundred."""
    bus.queue(name, requires_session=True)
    assert list(client.list_queue_sessions(name)) == []
    wanted = sorted(f"s{number:03d}" for number in range(230))
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage("x", session_id=session) for session in wanted])
    assert list(client.list_queue_sessions(name)) == wanted
    with client.get_queue_receiver(name, session_id="s000", max_wait_time=5) as receiver:
        for message in receiver:
            receiver.complete_message(message)
            break
    assert list(client.list_queue_sessions(name)) == wanted[1:]
    with client.get_queue_receiver(name, session_id="state only") as receiver:
        before = datetime.now(UTC) - timedelta(seconds=1)
        receiver.session.set_state(b"state")
    assert list(client.list_queue_sessions(name)) == [*wanted[1:], "state only"]
    assert list(client.list_queue_sessions(name, state_updated_after=before)) == ["state only"]
    after = datetime.now(UTC) + timedelta(hours=1)
    assert list(client.list_queue_sessions(name, state_updated_after=after)) == []


def test_sessions_of_subscriptions_are_listed(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.topic(name, "sub", requires_session=True)
    with client.get_topic_sender(name) as sender:
        sender.send_messages([ServiceBusMessage("x", session_id=session) for session in "ab"])
    assert list(client.list_subscription_sessions(name, "sub")) == ["a", "b"]


async def test_sessions_are_listed_by_the_asyncio_client(aio_bus: Bus) -> None:
    await aio_bus.broker.administration.create(QueueDescription(name="q", requires_session=True))
    async with connect_aio(aio_bus) as client:
        async with client.get_queue_sender("q") as sender:
            await sender.send_messages([ServiceBusMessage("x", session_id=name) for name in "abc"])
        assert [name async for name in client.list_queue_sessions("q")] == ["a", "b", "c"]


# ---- receivers


def test_a_message_is_completed_by_another_receiver(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
    with client.get_queue_receiver(name) as one:
        (message,) = one.receive_messages(1, 5)
    with client.get_queue_receiver(name) as other:
        other.complete_message(message)
        (rest,) = other.receive_messages(1, 5)
        assert str(rest) == "2"
        other.complete_message(rest)
        assert other.peek_messages(5) == []


def test_receivers_that_delete_come_and_go(bus: Bus, client: ServiceBusClient, name: str) -> None:
    """Each takes what it asks for, and leaves the rest to the next."""
    bus.queue(name)
    bodies = [str(number) for number in range(10)]
    with client.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(body) for body in bodies])
    found: list[str] = []
    while len(found) < 10:
        with client.get_queue_receiver(name, receive_mode=received_and_deleted) as receiver:
            messages = receiver.receive_messages(3, 5)
            assert messages
            found += [str(message) for message in messages]
    assert found == bodies


def test_clients_are_told_apart_by_their_identifiers(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    with (
        client.get_queue_sender(name, client_identifier="a sender") as sender,
        client.get_queue_receiver(name, client_identifier="a receiver") as receiver,
    ):
        assert (sender.client_identifier, receiver.client_identifier) == ("a sender", "a receiver")
        sender.send_messages(ServiceBusMessage("x"))
        (message,) = receiver.receive_messages(1, 5)
        receiver.complete_message(message)


def test_message_sizes_over_a_web_socket(bus: Bus, name: str) -> None:
    bus.queue(name)
    with (
        ServiceBusClient.from_connection_string(
            bus.connection_string(),
            transport_type=TransportType.AmqpOverWebsocket,
            custom_endpoint_address=f"sb://localhost:{bus.port}",
            retry_total=0,
        ) as client,
        client.get_queue_sender(name) as sender,
        client.get_queue_receiver(name) as receiver,
    ):
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage("x" * 256 * 1024))
        sender.send_messages(ServiceBusMessage("y" * 250 * 1024))
        (message,) = receiver.receive_messages(1, 20)
        assert len(str(message)) == 250 * 1024
        receiver.complete_message(message)


# ---- time


@pytest.fixture
def patient() -> Iterator[Bus]:
    with BusThread(idle=IdleLimits()) as bus:
        yield bus


def test_four_minutes_of_silence_cost_nothing(patient: Bus) -> None:
    """Neither side's timeouts are over, and no retry is needed."""
    patient.queue("q", lock_duration=300)
    with (
        ServiceBusClient.from_connection_string(
            patient.connection_string(), retry_total=0
        ) as client,
        client.get_queue_sender("q") as sender,
        client.get_queue_receiver("q") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("before"))
        (message,) = receiver.receive_messages(1, 5)
        patient.advance(245)
        receiver.complete_message(message)
        sender.send_messages(ServiceBusMessage("after"))
        (message,) = receiver.receive_messages(1, 20)
        assert str(message) == "after"
        receiver.complete_message(message)


def test_many_locks_are_renewed_again_and_again(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q", lock_duration=30)
    with own_client.get_queue_sender("q") as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(60)])
    with own_client.get_queue_receiver("q", prefetch_count=100) as receiver:
        messages = []
        while len(messages) < 60:
            messages += receiver.receive_messages(60, 5)
        for _ in range(3):
            own_bus.advance(20)
            for message in messages:
                until = receiver.renew_message_lock(message)
                left = until.timestamp() - own_bus.clock.now() / seconds(1)
                assert 20 < left <= 30
        for message in messages:
            receiver.complete_message(message)
        assert receiver.peek_messages(5) == []


@pytest.mark.slow
async def test_the_asyncio_renewer(aio_bus: Bus) -> None:
    """Of a message and of a session, with the shortest locks that there are."""
    create = aio_bus.broker.administration.create
    await create(QueueDescription(name="q", lock_duration=seconds(5)))
    await create(QueueDescription(name="s", lock_duration=seconds(5), requires_session=True))
    lost: list[object] = []

    async def tell(renewable: object, error: object) -> None:
        lost.append((renewable, error))

    async with connect_aio(aio_bus) as client, AutoLockRenewerAio() as renewer:
        async with client.get_queue_sender("q") as sender:
            await sender.send_messages([ServiceBusMessage("kept"), ServiceBusMessage("let go")])
        async with client.get_queue_sender("s") as sender:
            await sender.send_messages(ServiceBusMessage("x", session_id="s"))
        async with (
            client.get_queue_receiver("q") as receiver,
            client.get_queue_receiver("s", session_id="s") as session,
        ):
            messages = []
            while len(messages) < 2:
                messages += await receiver.receive_messages(2 - len(messages), 5)
            kept, let_go = messages
            (in_session,) = await session.receive_messages(1, 5)
            renewer.register(receiver, kept, 30, on_lock_renew_failure=tell)
            renewer.register(session, session.session, 30, on_lock_renew_failure=tell)
            await asyncio.sleep(7)
            await receiver.complete_message(kept)
            await session.complete_message(in_session)
            with pytest.raises(MessageLockLostError):
                await receiver.complete_message(let_go)
    assert lost == []


def test_premium_takes_what_standard_does_not() -> None:
    """As much as the entity says in one message, and a megabyte in a batch.

    This SDK's receivers want no more than a megabyte: what is larger stays for others, unless it
    was deleted already, and would be lost.
    """
    with BusThread(tier=Tier.premium) as bus:
        bus.queue("q", max_message_kilobytes=4096)
        with (
            ServiceBusClient.from_connection_string(
                bus.connection_string(), retry_total=0
            ) as client,
            client.get_queue_sender("q") as sender,
            client.get_queue_receiver("q") as receiver,
            client.get_queue_receiver("q", receive_mode=received_and_deleted) as deleting,
        ):
            sender.send_messages(ServiceBusMessage("x" * 3 * 1024 * 1024))
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(ServiceBusMessage("x" * 5 * 1024 * 1024))
            assert sender.create_message_batch().max_size_in_bytes == 1024 * 1024
            with pytest.raises(MessageSizeExceededError):
                receiver.receive_messages(1, 20)
            (message,) = deleting.receive_messages(1, 20)
            assert (len(str(message)), message.delivery_count) == (3 * 1024 * 1024, 0)
