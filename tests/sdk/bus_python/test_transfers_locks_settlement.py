"""What Service Bus' documentation says of "Message transfers, locks, and settlement", statement by
statement and in its order, as azure-servicebus and clients on the bare wire see it."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    ServiceBusError,
)
from bus_server import Bus
from raw_amqp import RawClient, data_message, frame

from etagere.base.clock import seconds
from etagere.kv.contract import StoreError
from etagere.protocols.amqp.outcomes import Accepted, Modified, Rejected, Released, accepted
from etagere.protocols.amqp.performatives import Close, Disposition, Flow, Transfer
from etagere.services.bus.descriptions import EntityStatus, QueueDescription
from etagere.services.bus.names import SubQueue
from etagere.testing import ServerProcess

login = b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE"
round_trip_seconds = 0.07


def connect(text: str, **options: Any) -> ServiceBusClient:
    options.setdefault("retry_total", 0)
    return ServiceBusClient.from_connection_string(text, retry_backoff_factor=0.05, **options)


@pytest.fixture
async def queue(aio_bus: Bus) -> str:
    await aio_bus.broker.administration.create(QueueDescription(name="q", max_delivery_count=3))
    return "q"


@pytest.fixture
async def client(aio_bus: Bus) -> AsyncIterator[ServiceBusClient]:
    async with connect(aio_bus.connection_string()) as connected:
        yield connected


@pytest.fixture
async def wire(aio_bus: Bus) -> AsyncIterator[RawClient]:
    raw = await RawClient.open(aio_bus.port, login=login)
    yield raw
    raw.hang_up()


async def send(client: ServiceBusClient, name: str, *bodies: str) -> None:
    async with client.get_queue_sender(name) as sender:
        for body in bodies:
            await sender.send_messages(ServiceBusMessage(body, message_id=body))


async def take(receiver: ServiceBusReceiver, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        more = await receiver.receive_messages(count - len(found), max_wait_time=20)
        assert more, [str(one) for one in found]
        found += more
    return found


def stored(bus: Bus, name: str = "q", sub_queue: SubQueue = SubQueue.active) -> int:
    """Messages that the broker has on stable storage."""
    counters = bus.broker.resolve(name).state.logs[sub_queue].counters
    return int(counters.active + counters.deferred)


async def pass_time(bus: Bus, count: float) -> None:
    """And what is due then has happened."""
    bus.clock.advance(seconds(count))
    await bus.broker.catch_up()


Write = Callable[..., Awaitable[Any]]


@contextmanager
def writing(bus: Bus, wrap: Callable[[Write], Write]) -> Iterator[None]:
    """The store's writes go through `wrap` meanwhile."""
    engine = bus.broker._core.engine
    assert isinstance(engine.write, Callable)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "write", wrap(engine.write))
        yield


@contextmanager
def stalled(bus: Bus, name: str) -> Iterator[asyncio.Event]:
    """Nothing of this entity reaches the store until the event is set."""
    part = bus.broker.resolve(name).state.entity.part
    go_on = asyncio.Event()

    def wrap(write: Write) -> Write:
        async def slow(parts: Any, body: Any) -> Any:
            if part in parts:
                await go_on.wait()
            return await write(parts, body)

        return slow

    try:
        with writing(bus, wrap):
            yield go_on
    finally:
        go_on.set()


async def hear_outcomes(wire: RawClient, count: int) -> dict[int, Any]:
    """By delivery id, for so many transfers."""
    found: dict[int, Any] = {}
    while len(found) < count:
        heard = await wire.until(Disposition)
        assert heard.role is True
        assert heard.settled
        for number in range(heard.first, (heard.first if heard.last is None else heard.last) + 1):
            assert number not in found
            found[number] = heard.state
    return found


# ---- the broker keeps messages; sends are settled


def test_messages_are_kept_until_they_are_fetched_through_a_crash_too(tmp_path: Path) -> None:
    arguments = ("--data", str(tmp_path / "data"), "--services", "bus")
    config = tmp_path / "Config.json"
    config.write_text('{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "q"}]}]}}')
    bodies = [str(number) for number in range(20)]

    async def told(server: ServerProcess, act: Callable[[ServiceBusClient], Any]) -> Any:
        port = server.urls["amqp"].rpartition(":")[2]
        text = (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )
        async with connect(text, retry_total=2) as client:
            return await act(client)

    async def fetch(client: ServiceBusClient) -> list[tuple[str, int]]:
        async with client.get_queue_receiver("q") as receiver:
            found = await take(receiver, len(bodies))
            return [(str(message), message.sequence_number) for message in found]

    with ServerProcess((*arguments, "--bus-config", str(config))) as server:
        asyncio.run(told(server, lambda client: send(client, "q", *bodies)))
        server.kill()
    with ServerProcess(arguments) as server:
        found = asyncio.run(told(server, fetch))
    assert found == [(body, number) for number, body in enumerate(bodies, 1)]


async def test_a_send_is_settled_when_the_message_is_stored_and_not_before(
    aio_bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    """Both sides agree: the call returns without a word when the broker has accepted."""
    async with client.get_queue_sender(queue) as sender:
        with stalled(aio_bus, queue) as go_on:
            sending = asyncio.create_task(sender.send_messages(ServiceBusMessage("x")))
            done, _ = await asyncio.wait([sending], timeout=0.3)
            assert not done
            assert stored(aio_bus) == 0
            go_on.set()
            assert await sending is None
        assert stored(aio_bus) == 1


@pytest.mark.parametrize(
    ("cause", "error", "text", "attempts"),
    [
        ("size", MessageSizeExceededError, "larger than", 1),
        ("session", ServiceBusError, "session", 1),
        ("status", MessagingEntityDisabledError, "disabled", 3),
    ],
)
async def test_a_rejection_has_a_tracking_id_and_says_whether_to_try_again(
    aio_bus: Bus,
    client: ServiceBusClient,
    cause: str,
    error: type[ServiceBusError],
    text: str,
    attempts: int,
) -> None:
    """The client may try three times, and does where the condition says that it may pass."""
    administration = aio_bus.broker.administration
    description = QueueDescription(name="picky", requires_session=cause == "session")
    await administration.create(description)
    body = "x" * (256 * 1024 if cause == "size" else 1)
    async with client.get_queue_sender("picky") as sender:
        await sender._open()
        sender._config.retry_total = 2
        if cause == "status":
            status = EntityStatus.send_disabled
            await administration.update(QueueDescription(name="picky", status=status))
        tried = 0
        send_once = sender._send

        async def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal tried
            tried += 1
            return await send_once(*arguments, **options)

        sender._send = counted
        with pytest.raises(error) as refused:
            await sender.send_messages(ServiceBusMessage(body))
        assert text in str(refused.value)
        assert "TrackingId:" in str(refused.value)
        assert "Timestamp:" in str(refused.value)
        assert tried == attempts


async def test_a_rejection_that_may_pass_is_tried_again_by_the_client(
    aio_bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    failures = 0

    def wrap(write: Write) -> Write:
        async def fails_once(parts: Any, body: Any) -> Any:
            nonlocal failures
            if not failures:
                failures += 1
                raise StoreError
            return await write(parts, body)

        return fails_once

    async with client.get_queue_sender(queue) as sender:
        sender._config.retry_total = 2
        with writing(aio_bus, wrap):
            await sender.send_messages(ServiceBusMessage("x"))
    assert (failures, stored(aio_bus)) == (1, 1)


# ---- transfers are pipelined


async def test_a_hundred_sends_are_under_way_on_one_link(
    aio_bus: Bus, wire: RawClient, queue: str
) -> None:
    await wire.attach(queue)
    await wire.expect(Flow)
    with stalled(aio_bus, queue) as go_on:
        numbers = [wire.transfer(data_message(b"%d" % n)) for n in range(100)]
        await wire.silence(0.3)
        go_on.set()
        outcomes = await hear_outcomes(wire, 100)
    assert outcomes == dict.fromkeys(numbers, accepted)
    assert stored(aio_bus) == 100


async def test_entities_do_not_wait_for_one_another_and_each_keeps_its_order(
    aio_bus: Bus, wire: RawClient, client: ServiceBusClient, queue: str
) -> None:
    """On one connection: what was sent to a slow queue first is completed last."""
    await aio_bus.broker.administration.create(QueueDescription(name="other"))
    await wire.attach(queue, handle=0)
    await wire.attach("other", handle=1)
    with stalled(aio_bus, queue) as go_on:
        slow = [wire.transfer(data_message(b"%d" % n), handle=0) for n in range(10)]
        fast = [wire.transfer(data_message(b"%d" % n), handle=1) for n in range(10)]
        assert await hear_outcomes(wire, 10) == dict.fromkeys(fast, accepted)
        go_on.set()
        assert await hear_outcomes(wire, 10) == dict.fromkeys(slow, accepted)
    for name in (queue, "other"):
        async with client.get_queue_receiver(name) as receiver:
            found = await take(receiver, 10)
        assert [int(str(message)) for message in found] == list(range(10))


class Distance:
    """A stretch of network in front of the bus: everything takes half a round trip each way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, near: Any, near_out: Any) -> None:
        far, far_out = await asyncio.open_connection("127.0.0.1", self._port)
        for source, sink in ((near, far_out), (far, near_out)):
            task = asyncio.create_task(self._carry(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: Any, sink: Any) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await source.read(65_536):
                loop.call_later(round_trip_seconds / 2, sink.write, data)
            await asyncio.sleep(round_trip_seconds)
        finally:
            sink.close()


@asynccontextmanager
async def far_away(bus: Bus) -> AsyncIterator[ServiceBusClient]:
    async with Distance(bus.port) as distance:
        text = bus.connection_string().replace(f":{bus.port};", f":{distance.port};")
        async with connect(text) as client:
            yield client


async def test_who_waits_for_each_send_pays_each_round_trip(aio_bus: Bus, queue: str) -> None:
    async with far_away(aio_bus) as client, client.get_queue_sender(queue) as sender:
        await sender._open()
        before = time.monotonic()
        for number in range(10):
            await sender.send_messages(ServiceBusMessage(str(number)))
        assert time.monotonic() - before >= 10 * round_trip_seconds
    assert stored(aio_bus) == 10


async def test_who_does_not_wait_shares_the_round_trip(aio_bus: Bus, queue: str) -> None:
    """A hundred sends take a few round trips, not a hundred."""
    async with Distance(aio_bus.port) as distance:
        wire = await RawClient.open(distance.port, login=login)
        try:
            await wire.attach(queue)
            before = time.monotonic()
            for number in range(100):
                wire.transfer(data_message(b"%d" % number))
            assert len(await hear_outcomes(wire, 100)) == 100
            assert time.monotonic() - before < 100 * round_trip_seconds / 2
        finally:
            wire.hang_up()


async def test_ten_sends_may_share_a_frame_s_way(aio_bus: Bus, wire: RawClient, queue: str) -> None:
    """In one piece of TCP, or cut anywhere; their acknowledgements may share a frame too."""
    await wire.attach(queue)
    ten = b"".join(
        frame(
            Transfer(0, number, struct.pack(">I", number), message_format=0, settled=False),
            payload=data_message(b"%d" % number),
        )
        for number in range(10)
    )
    wire.raw(ten)
    assert sorted(await hear_outcomes(wire, 10)) == list(range(10))
    assert stored(aio_bus) == 10


async def test_senders_may_bound_what_is_under_way_or_not(aio_bus: Bus, queue: str) -> None:
    """With ten at a time, and with as many as the link's credit allows, which is topped up."""
    numbers = iter(range(50))

    async def send_some(client: ServiceBusClient) -> None:
        async with client.get_queue_sender(queue) as sender:
            for number in numbers:
                await sender.send_messages(ServiceBusMessage(str(number)))

    async with connect(aio_bus.connection_string()) as client:
        await asyncio.gather(*(send_some(client) for _ in range(10)))
    assert stored(aio_bus) == 50
    wire = await RawClient.open(aio_bus.port, login=login)
    try:
        await wire.attach(queue)
        limit = sent = answered = 0
        while answered < 2_500:
            heard = await wire.hear()
            if isinstance(heard, Flow) and heard.handle == 0:
                limit = (heard.delivery_count or 0) + (heard.link_credit or 0)
            elif isinstance(heard, Disposition):
                last = heard.first if heard.last is None else heard.last
                answered += last - heard.first + 1
            while sent < min(limit, 2_500):
                wire.transfer(data_message(b"x"))
                sent += 1
        assert stored(aio_bus) == 2_550
    finally:
        wire.hang_up()


async def test_sends_that_nobody_waits_for_are_stored_all_the_same(
    aio_bus: Bus, wire: RawClient, queue: str
) -> None:
    await wire.attach(queue)
    for number in range(30):
        wire.transfer(data_message(b"%d" % number))
    wire.say(Close())
    wire.hang_up()
    wait = await RawClient.open(aio_bus.port, login=login)
    await wait.attach(queue, receiver=True)
    wait.credit(30)
    for _ in range(30):
        await wait.receive()
    wait.hang_up()


async def test_a_send_that_is_settled_already_has_no_outcome(
    aio_bus: Bus, wire: RawClient, queue: str
) -> None:
    """It counts as settled when it is sent: stored if it can be, and no word of it."""
    await wire.attach(queue)
    for number in range(5):
        wire.transfer(data_message(b"%d" % number), settled=True)
    wire.transfer(b"no message", settled=True)
    number = wire.transfer(data_message(b"asked for"))
    assert await hear_outcomes(wire, 1) == {number: accepted}
    await wire.silence()
    assert stored(aio_bus) == 6


# ---- receiving


async def test_receive_and_delete_is_settled_when_it_is_sent(
    aio_bus: Bus, wire: RawClient, client: ServiceBusClient, queue: str
) -> None:
    """A message that was on the wire is gone, whether or not anybody has read it."""
    await send(client, queue, "lost", "kept")
    await wire.attach(queue, receiver=True, snd_settle_mode=1)
    wire.credit(1)
    transfer = await wire.receive()
    assert transfer.settled
    await aio_bus.broker.idle()
    wire.writer.transport.abort()  # before the application could do anything about it
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    async with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        (message,) = await take(receiver, 1)
        assert str(message) == "kept"
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            await receiver.complete_message(message)
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            await receiver.renew_message_lock(message)
    assert stored(aio_bus) == 0


async def test_a_locked_message_is_its_receiver_s_alone_for_the_entity_s_duration(
    aio_bus: Bus, client: ServiceBusClient
) -> None:
    """Others receive what is available next; who has the lock can renew it."""
    description = QueueDescription(name="locks", lock_duration=seconds(30))
    await aio_bus.broker.administration.create(description)
    await send(client, "locks", "1", "2", "3")
    async with (
        client.get_queue_receiver("locks") as one,
        client.get_queue_receiver("locks") as other,
    ):
        (mine,) = await take(one, 1)
        now = aio_bus.clock.now()
        left = mine.locked_until_utc.timestamp() - now / seconds(1)
        assert 29 < left <= 30
        assert [str(message) for message in await take(other, 1)] == ["2"]
        await pass_time(aio_bus, 20)
        until = mine.locked_until_utc
        assert (await one.renew_message_lock(mine) - until).total_seconds() >= 19
        await pass_time(aio_bus, 20)  # forty in all: only the renewed one still lasts
        again = await take(other, 2)
        assert [(str(message), message.delivery_count) for message in again] == [
            ("2", 1),
            ("3", 0),
        ]
        await one.complete_message(mine)


@pytest.mark.parametrize("how", ["abandoned", "expired"])
async def test_what_comes_back_comes_first(
    aio_bus: Bus, client: ServiceBusClient, queue: str, how: str
) -> None:
    await send(client, queue, "1", "2", "3", "4")
    async with client.get_queue_receiver(queue) as receiver:
        first, second = await take(receiver, 2)
        if how == "abandoned":
            await receiver.abandon_message(second)
            await receiver.abandon_message(first)
        else:
            await pass_time(aio_bus, 61)
        found = [(str(message), message.delivery_count) for message in await take(receiver, 4)]
    assert found == [("1", 1), ("2", 1), ("3", 0), ("4", 0)]


@pytest.mark.parametrize("how", ["abandoned", "expired"])
async def test_what_comes_back_too_often_is_dead_lettered(
    aio_bus: Bus, client: ServiceBusClient, queue: str, how: str
) -> None:
    await send(client, queue, "poison")
    async with client.get_queue_receiver(queue) as receiver:
        for count in range(3):
            (message,) = await take(receiver, 1)
            assert message.delivery_count == count
            if how == "abandoned":
                await receiver.abandon_message(message)
            else:
                await pass_time(aio_bus, 61)
        assert await receiver.peek_messages(5) == []
    dead_letters = ServiceBusSubQueue.DEAD_LETTER
    async with client.get_queue_receiver(queue, sub_queue=dead_letters) as dead:
        (message,) = await take(dead, 1)
    assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert "3 delivery attempts" in message.dead_letter_error_description


async def test_the_things_to_do_with_a_message(
    aio_bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    """Complete, abandon, dead-letter with a reason, defer, and nothing at all."""
    bodies = ("complete", "abandon", "dead-letter", "defer", "nothing")
    await send(client, queue, *bodies)
    async with (
        client.get_queue_receiver(queue) as receiver,
        client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead,
    ):
        messages = dict(zip(bodies, await take(receiver, 5), strict=True))
        await receiver.complete_message(messages["complete"])
        await receiver.abandon_message(messages["abandon"])
        await receiver.dead_letter_message(
            messages["dead-letter"], reason="why", error_description="how"
        )
        await receiver.defer_message(messages["defer"])
        again = await take(receiver, 1)
        assert [str(message) for message in again] == ["abandon"]
        await receiver.complete_message(again[0])
        (letter,) = await take(dead, 1)
        assert (letter.dead_letter_reason, letter.dead_letter_error_description) == ("why", "how")
        await dead.complete_message(letter)
        number = messages["defer"].sequence_number
        (deferred,) = await receiver.receive_deferred_messages(number)
        await receiver.complete_message(deferred)
        # Nothing at all: it is locked until the lock runs out, and comes again.
        assert [str(message) for message in await receiver.peek_messages(5)] == ["nothing"]
        await pass_time(aio_bus, 61)
        (late,) = await take(receiver, 1)
        assert (str(late), late.delivery_count) == ("nothing", 1)
        await receiver.complete_message(late)
    assert stored(aio_bus) == 0


async def test_every_settlement_is_answered(
    aio_bus: Bus, wire: RawClient, client: ServiceBusClient, queue: str
) -> None:
    """On the wire: with the outcome that was asked for, or with a rejection that says why not."""
    await send(client, queue, "1", "2", "3", "4", "5")
    await wire.attach(queue, receiver=True, rcv_settle_mode=1)
    wire.credit(5)
    numbers = [(await wire.receive()).delivery_id for _ in range(5)]
    asked = [accepted, Modified(delivery_failed=True), Rejected(), Released(), accepted]
    for number, outcome in zip(numbers[:4], asked, strict=False):
        wire.say(Disposition(True, number, number, False, outcome))
        answer = await wire.until(Disposition)
        assert (answer.role, answer.first, answer.settled) == (False, number, True)
        assert type(answer.state) is type(outcome)
        assert not isinstance(answer.state, Rejected) or answer.state.error is None
    await pass_time(aio_bus, 61)
    wire.say(Disposition(True, numbers[4], numbers[4], False, accepted))
    answer = await wire.until(Disposition)
    assert answer.settled
    assert isinstance(answer.state, Rejected)
    assert answer.state.error is not None
    assert answer.state.error.condition == "com.microsoft:message-lock-lost"
    assert "TrackingId:" in (answer.state.error.description or "")


@pytest.mark.parametrize("act", ["complete", "abandon", "dead_letter", "defer", "renew"])
async def test_a_lock_that_is_over_fails_what_is_done_with_it(
    aio_bus: Bus, client: ServiceBusClient, queue: str, act: str
) -> None:
    await send(client, queue, "late")
    async with client.get_queue_receiver(queue) as receiver:
        (message,) = await take(receiver, 1)
        await pass_time(aio_bus, 61)
        with pytest.raises(MessageLockLostError):
            if act == "renew":
                await receiver.renew_message_lock(message)
            else:
                await getattr(receiver, f"{act}_message")(message)


async def test_a_settlement_that_the_store_refuses_fails_and_may_be_tried_again(
    aio_bus: Bus, wire: RawClient, client: ServiceBusClient, queue: str
) -> None:
    """The service's own condition is a reason too; nothing is half done."""
    await send(client, queue, "x")
    await wire.attach(queue, receiver=True, rcv_settle_mode=1)
    wire.credit(1)
    number = (await wire.receive()).delivery_id

    def wrap(_write: Write) -> Write:
        async def fails(_parts: Any, _body: Any) -> Any:
            raise StoreError

        return fails

    with writing(aio_bus, wrap):
        wire.say(Disposition(True, number, number, False, accepted))
        answer = await wire.until(Disposition)
    assert isinstance(answer.state, Rejected)
    assert stored(aio_bus) == 1
    wire.say(Disposition(True, number, number, False, accepted))
    assert isinstance((await wire.until(Disposition)).state, Accepted)
    assert stored(aio_bus) == 0


async def test_a_broken_connection_drops_its_locks(
    aio_bus: Bus, wire: RawClient, client: ServiceBusClient, queue: str
) -> None:
    """Links are not recovered on another connection, so nobody could settle by them."""
    await send(client, queue, "1", "2")
    await wire.attach(queue, receiver=True, rcv_settle_mode=1)
    wire.credit(2)
    assert [(await wire.receive()).delivery_id for _ in range(2)] == [0, 1]
    wire.writer.transport.abort()
    async with client.get_queue_receiver(queue) as receiver:
        found = await take(receiver, 2)  # long before the locks would have run out
        assert [(str(message), message.delivery_count) for message in found] == [
            ("1", 1),
            ("2", 1),
        ]


async def test_a_receiver_can_tell_a_repeat_by_the_sender_s_message_id(
    aio_bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    """A completion that failed after the work was done: the message comes again as it was."""
    await send(client, queue, "order-7")
    done: set[str] = set()
    works = 0
    async with client.get_queue_receiver(queue) as receiver:
        for attempt in range(2):
            (message,) = await take(receiver, 1)
            if message.message_id not in done:
                works += 1
                done.add(message.message_id)
            if not attempt:
                await pass_time(aio_bus, 61)
                with pytest.raises(MessageLockLostError):
                    await receiver.complete_message(message)
            else:
                assert (message.message_id, str(message)) == ("order-7", "order-7")
                assert message.delivery_count == 1
                await receiver.complete_message(message)
    assert works == 1
    assert stored(aio_bus) == 0


async def test_a_lock_is_lost_when_the_entity_is_changed(
    aio_bus: Bus, client: ServiceBusClient, queue: str
) -> None:
    await send(client, queue, "x")
    async with client.get_queue_receiver(queue) as receiver:
        (message,) = await take(receiver, 1)
        changed = QueueDescription(name=queue, max_delivery_count=4)
        await aio_bus.broker.administration.update(changed)
        with pytest.raises(MessageLockLostError):
            await receiver.complete_message(message)
        (again,) = await take(receiver, 1)  # and the client goes on
        assert (again.sequence_number, again.delivery_count) == (message.sequence_number, 0)
        await receiver.complete_message(again)


def test_a_lock_is_lost_when_the_service_restarts(tmp_path: Path) -> None:
    """To the client that held it too: it settles on its new link, by the token."""
    config = tmp_path / "Config.json"
    config.write_text('{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "q"}]}]}}')
    data = str(tmp_path / "data")
    server = ServerProcess(("--data", data, "--services", "bus", "--bus-config", str(config)))
    port = server.urls["amqp"].rpartition(":")[2]
    text = (
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )

    async def act() -> tuple[str, int, int]:
        nonlocal server
        async with connect(text, retry_total=5) as client:
            await send(client, "q", "x")
            async with client.get_queue_receiver("q") as receiver:
                (message,) = await take(receiver, 1)
                await asyncio.to_thread(server.stop)
                server = await asyncio.to_thread(
                    ServerProcess,
                    ("--data", data, "--services", "bus", "--amqp-port", port),
                )
                with pytest.raises(MessageLockLostError):
                    await receiver.complete_message(message)
            async with client.get_queue_receiver("q") as receiver:
                (again,) = await take(receiver, 1)
                await receiver.complete_message(again)
                return str(again), again.sequence_number - message.sequence_number, stopped

    stopped = 0
    try:
        assert asyncio.run(act()) == ("x", 0, 0)
    finally:
        server.stop()
