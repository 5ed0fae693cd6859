"""azure-servicebus against queues, after its own live tests (`test_queues.py`)."""

import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    ServiceBusError,
)
from bus_server import Bus

received_and_deleted = ServiceBusReceiveMode.RECEIVE_AND_DELETE


def send(client: ServiceBusClient, name: str, *bodies: object) -> None:
    messages = [
        body if isinstance(body, ServiceBusMessage) else ServiceBusMessage(str(body))
        for body in bodies
    ]
    with client.get_queue_sender(name) as sender:
        sender.send_messages(messages)


def receive(client: ServiceBusClient, name: str, count: int, **options: object) -> list[str]:
    """Bodies of `count` messages, completed."""
    bodies: list[str] = []
    options.setdefault("max_wait_time", 5)
    with client.get_queue_receiver(name, **options) as receiver:
        for message in receiver:
            bodies.append(str(message))
            if "receive_mode" not in options:
                receiver.complete_message(message)
            if len(bodies) == count:
                break
    return bodies


def is_empty(client: ServiceBusClient, name: str) -> bool:
    with client.get_queue_receiver(name) as receiver:
        return not receiver.peek_messages(max_message_count=1)


def test_peek_lock(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    before = datetime.now(UTC)
    with client.get_queue_sender(name) as sender:
        for number in range(10):
            message = ServiceBusMessage(
                f"message {number}",
                application_properties={"key": "value", "int": 1, "long": 2**30, "f": 1.5},
                subject="test",
                content_type="text/plain",
                correlation_id="cid",
                message_id=str(number),
                partition_key="pkey",
                to="to",
                reply_to="reply_to",
                time_to_live=timedelta(seconds=60),
            )
            sender.send_messages(message)
    with client.get_queue_receiver(name, max_wait_time=1) as receiver:
        count = 0
        for message in receiver:
            assert str(message) == f"message {count}"
            assert message.delivery_count == 0
            assert message.application_properties == {
                b"key": b"value", b"int": 1, b"long": 2**30, b"f": 1.5,
            }  # fmt: skip
            assert message.subject == "test"
            assert message.content_type == "text/plain"
            assert message.correlation_id == "cid"
            assert message.message_id == str(count)
            assert message.partition_key == "pkey"
            assert (message.to, message.reply_to) == ("to", "reply_to")
            assert message.time_to_live == timedelta(seconds=60)
            assert message.sequence_number == message.enqueued_sequence_number == count + 1
            assert message.enqueued_time_utc is not None
            assert message.enqueued_time_utc >= before - timedelta(seconds=1)
            assert message.expires_at_utc == message.enqueued_time_utc + timedelta(seconds=60)
            assert message.locked_until_utc is not None
            assert message.lock_token is not None
            delivered = message.raw_amqp_message.delivery_annotations
            assert delivered is not None
            assert delivered[b"x-opt-lock-token"] == message.lock_token
            assert message.state is ServiceBusMessageState.ACTIVE
            receiver.complete_message(message)
            count += 1
        assert count == 10
    assert is_empty(client, name)


def test_nothing_is_invented(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, "plain")
    with client.get_queue_receiver(name) as receiver:
        (message,) = receiver.receive_messages()
        assert not message.time_to_live
        assert not message.session_id
        assert not message.subject
        assert not message.application_properties
        assert message.dead_letter_reason is None
        assert message.dead_letter_source is None
        assert message.partition_key is None
        assert message.scheduled_enqueue_time_utc is None
        assert message.message_id  # the service gives one where the sender gave none
        receiver.complete_message(message)


def test_receive_and_delete(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, *range(10))
    bodies = receive(client, name, 10, receive_mode=received_and_deleted)
    assert bodies == [str(number) for number in range(10)]
    assert is_empty(client, name)
    with client.get_queue_receiver(name, receive_mode=received_and_deleted) as receiver:
        send(client, name, "one")
        (message,) = receiver.receive_messages()
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            receiver.complete_message(message)


@pytest.mark.parametrize("prefetch", [0, 5, 50])
def test_prefetch(bus: Bus, client: ServiceBusClient, name: str, prefetch: int) -> None:
    bus.queue(name)
    send(client, name, *range(20))
    assert len(receive(client, name, 20, prefetch_count=prefetch)) == 20
    assert is_empty(client, name)


def test_messages_beyond_interest_come_back_untouched(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    """Credit left on the link takes late arrivals, which the client releases."""
    bus.queue(name)
    send(client, name, "first")
    with client.get_queue_receiver(name) as receiver:
        (first,) = receiver.receive_messages(max_message_count=10, max_wait_time=1)
        receiver.complete_message(first)
        send(client, name, "late 1", "late 2")
        time.sleep(0.3)
        late = receiver.receive_messages(max_message_count=10, max_wait_time=1)
        while len(late) < 2:
            late += receiver.receive_messages(max_message_count=10, max_wait_time=1)
        assert [str(message) for message in late] == ["late 1", "late 2"]
        for message in late:
            assert message.delivery_count == 0
            receiver.complete_message(message)


def test_batches(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    with client.get_queue_sender(name) as sender:
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == 262_144
        while True:
            try:
                batch.add_message(ServiceBusMessage(b"x" * 1_000))
            except MessageSizeExceededError:
                break
        sender.send_messages(batch)
        small = sender.create_message_batch(max_size_in_bytes=1_000)
        small.add_message(ServiceBusMessage("small"))
        sender.send_messages(small)
    count = len(batch) + 1
    assert count > 200
    with client.get_queue_receiver(name, receive_mode=received_and_deleted) as receiver:
        numbers: list[int] = []
        while len(numbers) < count:
            got = receiver.receive_messages(max_message_count=count, max_wait_time=5)
            assert got
            numbers += [message.sequence_number or 0 for message in got]
    assert numbers == list(range(1, count + 1))


def test_a_list_too_large_for_a_batch_is_refused(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    with client.get_queue_sender(name) as sender, pytest.raises(MessageSizeExceededError):
        sender.send_messages([ServiceBusMessage("x" * 100_000) for _ in range(3)])


def test_message_sizes(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    with client.get_queue_sender(name) as sender:
        with pytest.raises(MessageSizeExceededError) as caught:
            sender.send_messages(ServiceBusMessage("x" * 256 * 1024))
        assert "TrackingId" in str(caught.value)
        sender.send_messages(ServiceBusMessage("y" * 250 * 1024))  # the link is still good
    assert receive(client, name, 1) == ["y" * 250 * 1024]


def test_sending_twice(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    message = ServiceBusMessage("again")
    with client.get_queue_sender(name) as sender:
        sender.send_messages(message)
        sender.send_messages(message)
        sender.send_messages([message, message])
        sender.send_messages({"body": "mapping"})
    assert receive(client, name, 5) == ["again"] * 4 + ["mapping"]


def test_abandon(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, "one", "two")
    with client.get_queue_receiver(name) as receiver:
        (one,) = receiver.receive_messages()
        receiver.abandon_message(one)
        again: list[ServiceBusReceivedMessage] = []
        while len(again) < 2:
            again += receiver.receive_messages(max_message_count=2)
        assert [(str(message), message.delivery_count) for message in again] == [
            ("one", 1),
            ("two", 0),
        ]
        for message in again:
            receiver.complete_message(message)


def test_too_many_attempts_end_in_the_dead_letter_queue(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name, max_delivery_count=3)
    send(client, name, "poison")
    with client.get_queue_receiver(name) as receiver:
        for attempt in range(3):
            (message,) = receiver.receive_messages()
            assert message.delivery_count == attempt
            receiver.abandon_message(message)
    with client.get_queue_receiver(name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (message,) = receiver.receive_messages()
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert message.dead_letter_error_description is not None
        receiver.complete_message(message)
    assert is_empty(client, name)


def test_dead_letter(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, *range(3))
    with client.get_queue_receiver(name, max_wait_time=1) as receiver:
        for message in receiver:
            receiver.dead_letter_message(
                message, reason="Testing reason", error_description="Testing description"
            )
    assert is_empty(client, name)
    with client.get_queue_receiver(
        name, sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=1
    ) as receiver:
        count = 0
        for message in receiver:
            assert message.dead_letter_reason == "Testing reason"
            assert message.dead_letter_error_description == "Testing description"
            properties = message.application_properties
            assert properties is not None
            assert properties[b"DeadLetterReason"] == b"Testing reason"
            receiver.complete_message(message)
            count += 1
        assert count == 3


def test_dead_letter_without_a_reason(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, "one")
    with client.get_queue_receiver(name) as receiver:
        receiver.dead_letter_message(receiver.receive_messages()[0])
    with client.get_queue_receiver(name, sub_queue="deadletter") as receiver:
        (message,) = receiver.receive_messages()
        assert message.dead_letter_reason is None


@pytest.mark.parametrize("settle", ["complete", "abandon", "defer", "dead_letter"])
def test_deferred(bus: Bus, client: ServiceBusClient, name: str, settle: str) -> None:
    bus.queue(name)
    send(client, name, *range(3))
    numbers: list[int] = []
    with client.get_queue_receiver(name, max_wait_time=1) as receiver:
        for message in receiver:
            numbers.append(message.sequence_number or 0)
            receiver.defer_message(message)
        assert len(numbers) == 3
        peeked = receiver.peek_messages(5, sequence_number=1)
        states = [message.state for message in peeked]
        assert states == [ServiceBusMessageState.DEFERRED] * 3
        deferred = receiver.receive_deferred_messages(numbers)
        assert [str(message) for message in deferred] == ["0", "1", "2"]
        for message in deferred:
            assert isinstance(message, ServiceBusReceivedMessage)
            assert message.lock_token
            assert message.locked_until_utc
            assert message.state is ServiceBusMessageState.DEFERRED
            receiver.renew_message_lock(message)
            getattr(receiver, f"{settle}_message")(message)
        if settle in ("abandon", "defer"):
            again = receiver.receive_deferred_messages(numbers)
            assert len(again) == 3
        else:
            with pytest.raises(MessageNotFoundError):
                receiver.receive_deferred_messages(numbers)


def test_deferred_and_deleted(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, "one")
    with client.get_queue_receiver(name) as receiver:
        (message,) = receiver.receive_messages()
        receiver.defer_message(message)
    with client.get_queue_receiver(name, receive_mode=received_and_deleted) as receiver:
        (again,) = receiver.receive_deferred_messages(message.sequence_number)
        assert str(again) == "one"
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([message.sequence_number, 99])
        with pytest.raises(ServiceBusError):
            receiver.receive_deferred_messages([5])


def test_peek(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    with client.get_queue_receiver(name) as receiver:
        assert receiver.peek_messages(10) == []
        send(client, name, *range(10))
        assert [str(message) for message in receiver.peek_messages(3)] == ["0", "1", "2"]
        assert [str(message) for message in receiver.peek_messages(3)] == ["3", "4", "5"]
        (from_two,) = receiver.peek_messages(1, sequence_number=2)
        assert str(from_two) == "1"
        assert from_two.lock_token is None
        with pytest.raises(ValueError, match="peeked"):
            receiver.complete_message(from_two)
        (locked,) = receiver.receive_messages()
        assert str(receiver.peek_messages(1, sequence_number=1)[0]) == "0"
        receiver.complete_message(locked)


def test_parallel_peeks_get_their_own_answers(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    send(client, name, *range(10))
    failures: list[object] = []
    with client.get_queue_receiver(name) as receiver:

        def peek(number: int) -> None:
            found = receiver.peek_messages(1, sequence_number=number)
            if [message.sequence_number for message in found] != [number]:
                failures.append((number, found))

        threads = [threading.Thread(target=peek, args=(number + 1,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert failures == []


def test_locks_are_renewed(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q", lock_duration=10)
    send(own_client, "q", "one")
    with own_client.get_queue_receiver("q") as receiver:
        (message,) = receiver.receive_messages()
        for _ in range(3):
            own_bus.advance(8)
            before = message.locked_until_utc
            until = receiver.renew_message_lock(message)
            assert before is not None
            assert until > before + timedelta(seconds=5)
            assert message.locked_until_utc == until
        receiver.complete_message(message)
    assert is_empty(own_client, "q")


@pytest.mark.slow
def test_auto_lock_renewer(bus: Bus, client: ServiceBusClient, name: str) -> None:
    """The shortest locks that there are, of a message and of a session, kept past their time."""
    bus.queue(name, lock_duration=5)
    bus.queue(f"{name}-s", lock_duration=5, requires_session=True)
    send(client, name, "one")
    send(client, f"{name}-s", ServiceBusMessage("two", session_id="s"))
    with (
        AutoLockRenewer() as renewer,
        client.get_queue_receiver(name) as receiver,
        client.get_queue_receiver(f"{name}-s", session_id="s") as sessions,
    ):
        (message,) = receiver.receive_messages()
        (in_session,) = sessions.receive_messages()
        renewer.register(receiver, message, max_lock_renewal_duration=30)
        renewer.register(sessions, sessions.session, max_lock_renewal_duration=30)
        time.sleep(7)
        assert message.auto_renew_error is None
        assert sessions.session.auto_renew_error is None
        receiver.complete_message(message)
        sessions.complete_message(in_session)
    assert is_empty(client, name)


def test_an_expired_lock_is_lost(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q", lock_duration=30)
    send(own_client, "q", "one")
    with own_client.get_queue_receiver("q") as receiver:
        (message,) = receiver.receive_messages()
        own_bus.advance(31)
        with pytest.raises(MessageLockLostError):
            receiver.renew_message_lock(message)
        # The client does not ask when it knows; a fresh object does.
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        (again,) = receiver.receive_messages()
        assert again.delivery_count == 1
        receiver.complete_message(again)
    assert is_empty(own_client, "q")


def test_changing_a_queue_ends_its_locks(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, "one")
    with client.get_queue_receiver(name) as receiver:
        (message,) = receiver.receive_messages()
        from etagere.services.bus.descriptions import QueueDescription

        described = QueueDescription(name=name, max_delivery_count=5)
        bus.run(lambda: bus.broker.administration.update(described))
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        (again,) = receiver.receive_messages()
        assert again.delivery_count == 0
        receiver.complete_message(again)


def test_time_to_live(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q", dead_letter_on_expiration=True)
    message = ServiceBusMessage("short", time_to_live=timedelta(seconds=30))
    send(own_client, "q", message, "long")
    own_bus.advance(31)
    assert receive(own_client, "q", 1) == ["long"]
    with own_client.get_queue_receiver("q", sub_queue="deadletter") as receiver:
        (expired,) = receiver.receive_messages()
        assert str(expired) == "short"
        assert expired.dead_letter_reason == "TTLExpiredException"
        receiver.complete_message(expired)


def test_duplicates_are_dropped(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name, requires_duplicate_detection=True)
    message_id = uuid.uuid4()
    with client.get_queue_sender(name) as sender:
        for number in range(5):
            sender.send_messages(ServiceBusMessage(str(number), message_id=str(message_id)))
        sender.send_messages(
            [ServiceBusMessage("5", message_id=str(message_id)), ServiceBusMessage("other")]
        )
    assert receive(client, name, 2) == ["0", "other"]
    assert is_empty(client, name)


def test_scheduled(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.queue("q")
    due = datetime.now(UTC) + timedelta(minutes=2)
    with own_client.get_queue_sender("q") as sender:
        one = ServiceBusMessage("one")
        one.scheduled_enqueue_time_utc = due
        sender.send_messages(one)
        numbers = sender.schedule_messages(
            [ServiceBusMessage("two"), ServiceBusMessage("three"), ServiceBusMessage("four")], due
        )
        assert len(numbers) == 3
        sender.cancel_scheduled_messages(numbers[1:2])
        with pytest.raises(ServiceBusError):
            sender.cancel_scheduled_messages([numbers[1]])
    with own_client.get_queue_receiver("q") as receiver:
        peeked = receiver.peek_messages(5)
        assert [message.state for message in peeked] == [ServiceBusMessageState.SCHEDULED] * 3
        assert receiver.receive_messages(max_wait_time=1) == []
        own_bus.advance(121)
        got: list[ServiceBusReceivedMessage] = []
        while len(got) < 3:
            got += receiver.receive_messages(max_message_count=3, max_wait_time=5)
        assert sorted(str(message) for message in got) == ["four", "one", "two"]
        for message in got:
            asked = message.scheduled_enqueue_time_utc
            assert asked is not None
            assert abs(asked - due) < timedelta(milliseconds=1)
            assert message.enqueued_time_utc is not None
            assert message.enqueued_time_utc >= asked
            assert message.state is ServiceBusMessageState.ACTIVE
            receiver.complete_message(message)


def test_all_kinds_of_bodies(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    value = AmqpAnnotatedMessage(
        value_body={"a": [1, 2.5, None, True]},
        header=AmqpMessageHeader(durable=True, priority=7),
        footer={"footer": "f"},
        delivery_annotations={"delivery": 1},
        annotations={"mine": "x"},
        application_properties={"p": 1},
    )
    sequence = AmqpAnnotatedMessage(sequence_body=[[1, "two"], [3]])
    data = AmqpAnnotatedMessage(data_body=[b"one", b"two"])
    with client.get_queue_sender(name) as sender:
        sender.send_messages([value, sequence])
        sender.send_messages(data)
        sender.send_messages(ServiceBusMessage(None))
    with client.get_queue_receiver(name) as receiver:
        got: list[ServiceBusReceivedMessage] = []
        while len(got) < 4:
            got += receiver.receive_messages(max_message_count=4, max_wait_time=5)
        first = got[0].raw_amqp_message
        assert first.body_type is AmqpMessageBodyType.VALUE
        assert first.body == {b"a": [1, 2.5, None, True]}
        assert first.header is not None
        assert (first.header.durable, first.header.priority) == (True, 7)
        assert first.footer == {b"footer": b"f"}
        assert first.delivery_annotations is not None
        assert first.delivery_annotations[b"delivery"] == 1
        assert first.annotations is not None
        assert first.annotations[b"mine"] == b"x"
        assert list(got[1].raw_amqp_message.body) == [[1, b"two"], [3]]
        assert list(got[2].body) == [b"one", b"two"]
        assert got[3].body_type is AmqpMessageBodyType.VALUE
        for message in got:
            receiver.complete_message(message)


def test_settling_after_the_receiver_was_closed(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    """An orderly detach leaves locks alone: they are settled by token."""
    bus.queue(name)
    send(client, name, *range(4))
    with client.get_queue_receiver(name) as other:
        receiver = client.get_queue_receiver(name)
        got: list[ServiceBusReceivedMessage] = []
        while len(got) < 4:
            got += receiver.receive_messages(max_message_count=4, max_wait_time=5)
        receiver.close()
        other.complete_message(got[0])
        other.abandon_message(got[1])
        other.dead_letter_message(got[2], reason="r")
        other.renew_message_lock(got[3])
        other.defer_message(got[3])
        (again,) = other.receive_messages(max_message_count=4, max_wait_time=5)
        assert str(again) == "1"
        assert again.delivery_count == 1
        other.complete_message(again)


def test_a_second_settlement_is_the_client_s_mistake(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    send(client, name, "one")
    with client.get_queue_receiver(name) as receiver:
        (message,) = receiver.receive_messages()
        receiver.complete_message(message)
        with pytest.raises(ValueError, match="settled"):
            receiver.complete_message(message)


def test_competing_receivers_share(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.queue(name)
    send(client, name, *range(100))
    seen: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        with client.get_queue_receiver(name, max_wait_time=1) as receiver:
            for message in receiver:
                with lock:
                    seen.append(str(message))
                receiver.complete_message(message)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(int, seen)) == list(range(100))
    assert is_empty(client, name)


def test_a_waiting_receiver_gets_a_message_at_once(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.queue(name)
    with client.get_queue_receiver(name) as receiver:
        sender = threading.Timer(0.5, send, (client, name, "pushed"))
        sender.start()
        (message,) = receiver.receive_messages(max_wait_time=20)
        receiver.complete_message(message)
        sender.join()


def test_over_a_web_socket(bus: Bus, name: str) -> None:
    pytest.importorskip("websocket", reason="the SDK's sync client needs websocket-client")
    bus.queue(name)
    # azure-servicebus 7.15 drops the connection string's port for WebSockets, and keeps this one's.
    with ServiceBusClient.from_connection_string(
        bus.connection_string(),
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=f"sb://localhost:{bus.port}",
    ) as client:
        send(client, name, "ws")
        assert receive(client, name, 1) == ["ws"]
