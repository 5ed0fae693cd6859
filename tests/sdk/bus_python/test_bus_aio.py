"""azure-servicebus's asyncio clients, on the server's own loop, over TCP, TLS and WebSockets."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import (
    MessageLockLostError,
    OperationTimeoutError,
    SessionLockLostError,
)
from bus_server import Bus

from etagere.base.clock import seconds
from etagere.services.bus.descriptions import QueueDescription

quick = {"retry_total": 0, "retry_backoff_factor": 0.05}


def connect(bus: Bus, **options: object) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(bus.connection_string(), **(quick | options))


async def queue(bus: Bus, name: str, **properties: object) -> None:
    await bus.broker.administration.create(QueueDescription(name=name, **properties))


async def test_send_receive_settle(aio_bus: Bus) -> None:
    await queue(aio_bus, "q")
    async with connect(aio_bus) as client:
        async with client.get_queue_sender("q") as sender:
            await sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
            await sender.send_messages(ServiceBusMessage("5"))
        async with client.get_queue_receiver("q", prefetch_count=3) as receiver:
            settle = [
                receiver.complete_message,
                receiver.abandon_message,
                receiver.dead_letter_message,
                receiver.defer_message,
            ]
            numbers = []
            for act in settle:
                (message,) = await receiver.receive_messages()
                numbers.append((str(message), message.sequence_number))
                await act(message)
            assert [body for body, _ in numbers][:2] == ["0", "1"]
            (deferred,) = await receiver.receive_deferred_messages(numbers[3][1])
            await receiver.renew_message_lock(deferred)
            await receiver.complete_message(deferred)
            rest = []
            while len(rest) < 3:
                rest += await receiver.receive_messages(max_message_count=10, max_wait_time=5)
            for message in rest:
                await receiver.complete_message(message)
            assert await receiver.peek_messages(1) == []
        async with client.get_queue_receiver(
            "q", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            (dead,) = await receiver.receive_messages()
            await receiver.complete_message(dead)


async def test_many_sends_at_once(aio_bus: Bus) -> None:
    await queue(aio_bus, "q")
    async with connect(aio_bus) as client, client.get_queue_sender("q") as sender:
        for start_at in range(0, 50, 10):
            await asyncio.gather(
                *(
                    sender.send_messages(ServiceBusMessage(str(number)))
                    for number in range(start_at, start_at + 10)
                )
            )
        async with client.get_queue_receiver("q", max_wait_time=1) as receiver:
            got = []
            async for message in receiver:
                got.append(message.sequence_number)
                await receiver.complete_message(message)
            assert got == list(range(1, 51))


async def test_sessions(aio_bus: Bus) -> None:
    await queue(aio_bus, "q", requires_session=True, lock_duration=seconds(20))
    async with connect(aio_bus) as client:
        with pytest.raises(OperationTimeoutError):
            async with client.get_queue_receiver(
                "q", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
            ):
                pass
        async with client.get_queue_sender("q") as sender:
            await sender.send_messages(ServiceBusMessage("x", session_id="s"))
        async with client.get_queue_receiver(
            "q", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=5
        ) as receiver:
            assert receiver.session.session_id == "s"
            await receiver.session.set_state("state")
            assert await receiver.session.get_state() == b"state"
            (message,) = await receiver.receive_messages()
            await receiver.session.renew_lock()
            aio_bus.clock.advance(seconds(21))
            await asyncio.sleep(0.2)
            with pytest.raises(SessionLockLostError):
                await receiver.complete_message(message)


async def test_scheduled_and_expired(aio_bus: Bus) -> None:
    await queue(aio_bus, "q", lock_duration=seconds(30))
    async with connect(aio_bus) as client:
        async with client.get_queue_sender("q") as sender:
            due = datetime.now(UTC) + timedelta(minutes=1)
            (number, _) = await sender.schedule_messages(
                [ServiceBusMessage("a"), ServiceBusMessage("b")], due
            )
            await sender.cancel_scheduled_messages(number)
        async with client.get_queue_receiver("q") as receiver:
            aio_bus.clock.advance(seconds(61))
            (message,) = await receiver.receive_messages(max_wait_time=5)
            assert str(message) == "b"
            aio_bus.clock.advance(seconds(31))
            with pytest.raises(MessageLockLostError):
                await receiver.complete_message(message)


@pytest.mark.filterwarnings("ignore:ssl=None is deprecated")  # the SDK's way to call aiohttp
async def test_over_a_web_socket(aio_bus: Bus) -> None:
    await queue(aio_bus, "q")
    # The asyncio client knows no port for WebSockets but that of a custom endpoint.
    endpoint = f"http://localhost:{aio_bus.port}"
    async with connect(
        aio_bus,
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=endpoint,
    ) as client:
        async with client.get_queue_sender("q") as sender:
            await sender.send_messages(ServiceBusMessage("x" * 250 * 1024))
        async with client.get_queue_receiver("q") as receiver:
            (message,) = await receiver.receive_messages(max_wait_time=10)
            assert len(str(message)) == 250 * 1024
            await receiver.complete_message(message)
            assert await receiver.peek_messages(1) == []
