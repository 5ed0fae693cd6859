"""azure-servicebus against sessions, after its own live tests (`test_sessions.py`)."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from bus_server import Bus


def send(client: ServiceBusClient, name: str, session_id: str, *bodies: object) -> None:
    with client.get_queue_sender(name) as sender:
        sender.send_messages(
            [ServiceBusMessage(str(body), session_id=session_id) for body in bodies]
        )


def test_a_session_in_order(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    send(client, name, "s", *range(5))
    send(client, name, "other", "x")
    with client.get_queue_receiver(name, session_id="s", max_wait_time=1) as receiver:
        assert receiver.session.session_id == "s"
        assert receiver.session.locked_until_utc is not None
        bodies = []
        for message in receiver:
            assert message.session_id == "s"
            bodies.append(str(message))
            receiver.complete_message(message)
        assert bodies == ["0", "1", "2", "3", "4"]


def test_receive_and_delete(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    send(client, name, "s", *range(5))
    with client.get_queue_receiver(
        name,
        session_id="s",
        receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
        max_wait_time=1,
    ) as receiver:
        assert [str(message) for message in receiver] == ["0", "1", "2", "3", "4"]


def test_abandoned_messages_are_next(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    send(client, name, "s", "one", "two")
    with client.get_queue_receiver(name, session_id="s") as receiver:
        (one,) = receiver.receive_messages()
        receiver.abandon_message(one)
        (again,) = receiver.receive_messages()
        assert (str(again), again.delivery_count) == ("one", 1)
        receiver.complete_message(again)


def test_sessions_and_plain_queues_do_not_mix(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    bus.queue(f"{name}-s", requires_session=True)
    with pytest.raises(ServiceBusError), client.get_queue_receiver(name, session_id="s"):
        pass
    with pytest.raises(ServiceBusError), client.get_queue_receiver(f"{name}-s") as receiver:
        receiver.receive_messages(max_wait_time=1)
    with (
        client.get_queue_sender(f"{name}-s") as sender,
        pytest.raises(ServiceBusError, match="TrackingId"),
    ):
        sender.send_messages(ServiceBusMessage("no session"))
    send(client, name, "s", "ignored session")
    with client.get_queue_receiver(name) as receiver:
        (message,) = receiver.receive_messages()
        assert message.session_id == "s"
        receiver.complete_message(message)


def test_next_available(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    with pytest.raises(OperationTimeoutError):
        client.get_queue_receiver(
            name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
        ).receive_messages()
    for session_id in ("a", "b", "c"):
        send(client, name, session_id, session_id)
    order = []
    for _ in range(3):
        with client.get_queue_receiver(
            name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=5
        ) as receiver:
            (message,) = receiver.receive_messages()
            assert message.session_id == receiver.session.session_id
            order.append(str(message))
            receiver.complete_message(message)
    assert order == ["a", "b", "c"]


def test_next_available_waits(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    timer = threading.Timer(1, send, (client, name, "late", "message"))
    timer.start()
    with client.get_queue_receiver(
        name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=20
    ) as receiver:
        assert receiver.session.session_id == "late"
    timer.join()


def test_an_empty_session_opens(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    with client.get_queue_receiver(name, session_id="empty") as receiver:
        assert receiver.receive_messages(max_wait_time=1) == []
    with client.get_queue_receiver(name, session_id="") as receiver:
        assert receiver.session.session_id == ""


def test_one_receiver_at_a_time(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    with client.get_queue_receiver(name, session_id="s"):
        with pytest.raises(SessionCannotBeLockedError):
            client.get_queue_receiver(name, session_id="s").receive_messages()
        with client.get_queue_receiver(name, session_id="t"):
            pass
    with client.get_queue_receiver(name, session_id="s"):
        pass  # free again at once


def test_locks_and_state(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q", requires_session=True, lock_duration=30)
    send(own_client, "q", "s", "one", "two")
    with own_client.get_queue_receiver("q", session_id="s") as receiver:
        session = receiver.session
        assert session.get_state() is None
        session.set_state("first")
        assert session.get_state() == b"first"
        session.set_state(None)
        assert session.get_state() is None
        session.set_state(b"kept")
        own_bus.advance(20)
        before = session.locked_until_utc
        assert before is not None
        assert session.renew_lock() > before + timedelta(seconds=5)
        (message,) = receiver.receive_messages()
        assert message.locked_until_utc is None or message.lock_token
        own_bus.advance(31)
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(message)
        with pytest.raises(SessionLockLostError):
            session.renew_lock()
    with own_client.get_queue_receiver("q", session_id="s") as receiver:
        assert receiver.session.get_state() == b"kept"
        (message,) = receiver.receive_messages()
        assert str(message) == "one"
        assert (message.delivery_count or 0) > 0
        receiver.complete_message(message)


def test_deferred(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    send(client, name, "s", *range(3))
    with client.get_queue_receiver(name, session_id="s", max_wait_time=1) as receiver:
        numbers = []
        for message in receiver:
            numbers.append(message.sequence_number)
            receiver.defer_message(message)
        deferred = receiver.receive_deferred_messages(numbers)
        assert [str(message) for message in deferred] == ["0", "1", "2"]
        receiver.complete_message(deferred[0])
        receiver.dead_letter_message(deferred[1], reason="r")
        receiver.abandon_message(deferred[2])
    with client.get_queue_receiver(name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (dead,) = receiver.receive_messages()
        assert (str(dead), dead.dead_letter_reason, dead.session_id) == ("1", "r", "s")
        receiver.complete_message(dead)


def test_peek(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    send(client, name, "s", "one")
    send(client, name, "t", "two")
    send(client, name, "s", "three")
    with client.get_queue_receiver(name, session_id="s") as receiver:
        assert [str(message) for message in receiver.peek_messages(5)] == ["one", "three"]


def test_scheduled(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q", requires_session=True)
    due = datetime.now(UTC) + timedelta(minutes=2)
    with own_client.get_queue_sender("q") as sender:
        numbers = sender.schedule_messages(
            [ServiceBusMessage("one", session_id="s"), ServiceBusMessage("two", session_id="s")],
            due,
        )
        sender.cancel_scheduled_messages(numbers[0])
    with own_client.get_queue_receiver("q", session_id="s") as receiver:
        assert receiver.receive_messages(max_wait_time=1) == []
        own_bus.advance(121)
    # The session's lock ran out with the time that passed.
    with own_client.get_queue_receiver("q", session_id="s") as receiver:
        (message,) = receiver.receive_messages(max_wait_time=5)
        assert str(message) == "two"
        receiver.complete_message(message)


def test_a_pool_of_workers(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    sessions = [f"session-{number}" for number in range(4)]
    for session_id in sessions:
        send(client, name, session_id, *range(5))
    seen: list[tuple[str, str]] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                with client.get_queue_receiver(
                    name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
                ) as receiver:
                    for message in receiver:
                        seen.append((message.session_id or "", str(message)))
                        receiver.complete_message(message)
        except OperationTimeoutError:
            return
        except BaseException as failure:  # noqa: BLE001 - shown by the test
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sorted(seen) == sorted((one, str(number)) for one in sessions for number in range(5))
    for session_id in sessions:
        assert [body for one, body in seen if one == session_id] == ["0", "1", "2", "3", "4"]


def test_partition_keys_are_session_ids(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_session=True)
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="s", partition_key="s"))
        with pytest.raises(ServiceBusError):
            amqp = ServiceBusMessage("x", session_id="s").raw_amqp_message
            amqp.annotations = {b"x-opt-partition-key": "other"}
            sender.send_messages(amqp)
    with client.get_queue_receiver(name, session_id="s") as receiver:
        message: ServiceBusReceivedMessage
        (message,) = receiver.receive_messages()
        assert message.partition_key == "s"
        receiver.complete_message(message)
