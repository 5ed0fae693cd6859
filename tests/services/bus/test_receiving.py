"""Credit, drains, modes, refusals to attach, and one message at a time."""

import asyncio

import pytest

from etagere.base.errors import Refused
from etagere.services.bus.descriptions import EntityStatus

from .harness import (
    Abandon,
    Receiving,
    complete,
    make_bus,
    message,
    peek_lock,
    receive_and_delete,
    refused,
    refused_async,
    release,
    seconds,
)

names = [str(n) for n in range(30)]


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue()
    return bus


async def test_messages_are_pushed_to_waiting_credit_in_order(bus):
    receiver = await bus.receiver(credit=3)
    await bus.send("a", "b")
    await bus.send("c", "d")
    assert receiver.bodies == ["a", "b", "c"]
    receiver.link.set_credit(1)
    await bus.settle_down()
    assert receiver.bodies == ["a", "b", "c", "d"]
    assert [one.sequence_number for one in receiver.deliveries] == [1, 2, 3, 4]


async def test_credit_is_served_in_the_order_in_which_it_came(bus):
    one, two = await bus.receiver(), await bus.receiver()
    one.link.set_credit(2)
    two.link.set_credit(1)
    one.link.set_credit(3)
    await bus.send("a", "b", "c", "d")
    assert (one.bodies, two.bodies) == (["a", "b", "d"], ["c"])


async def test_credit_can_be_taken_back(bus):
    one, two = await bus.receiver(credit=5), await bus.receiver(credit=5)
    one.link.set_credit(0)
    await bus.send("a")
    one.link.set_credit(1)
    two.link.set_credit(1)
    await bus.send("b", "c")
    assert (one.bodies, two.bodies) == (["c"], ["a", "b"])


@pytest.mark.parametrize("mode", [peek_lock, receive_and_delete])
async def test_a_drain_gives_what_there_is_and_takes_the_rest_of_the_credit(bus, mode):
    receiver = await bus.receiver(mode=mode)
    receiver.link.set_credit(0, drain=True)
    await bus.settle_down()
    assert receiver.drains == 1
    await bus.send("a", "b")
    receiver.link.set_credit(5, drain=True)
    await bus.settle_down()
    assert (receiver.bodies, receiver.drains) == (["a", "b"], 2)
    await bus.send("c")
    assert receiver.bodies == ["a", "b"]
    receiver.link.set_credit(1, drain=True)
    await bus.settle_down()
    assert (receiver.bodies, receiver.drains) == (["a", "b", "c"], 3)


async def test_a_drain_can_be_called_off(bus):
    receiver = await bus.receiver()
    receiver.link.set_credit(1, drain=True)
    receiver.link.set_credit(1)
    await bus.settle_down()
    await bus.send("a")
    assert receiver.bodies == ["a"]


async def test_receive_and_delete_leaves_nothing(bus):
    await bus.send(*names)
    receiver = await bus.receiver(mode=receive_and_delete, credit=30)
    assert receiver.bodies == names
    assert {one.lock_token for one in receiver.deliveries} == {None}
    assert bus.counts().active == 0
    await bus.restart()
    assert await bus.drain() == []


async def test_what_is_taken_for_a_receiver_that_left_goes_back(bus):
    await bus.send("a", "b", "c")
    receiver = await bus.receiver(mode=receive_and_delete)
    receiver.link.set_credit(3)
    receiver.link.close(broken=True)
    await bus.settle_down()
    assert bus.counts().active == 3 - len(receiver.deliveries)
    assert receiver.bodies + [one.delivery_count for one in receiver.deliveries] == []
    again = await bus.receiver(mode=receive_and_delete, credit=3)
    assert again.bodies == ["a", "b", "c"]


async def test_what_is_taken_beyond_lowered_credit_goes_back_in_order(bus):
    await bus.send(*names[:6])
    receiver = await bus.receiver(mode=receive_and_delete)
    receiver.link.set_credit(5)
    for _ in range(3):
        await asyncio.sleep(0)  # taken, and not durable yet
    receiver.link.set_credit(2)
    await bus.settle_down()
    assert receiver.bodies == names[:2]
    receiver.link.set_credit(10)
    await bus.settle_down()
    assert receiver.bodies == names[:6]


async def test_a_slow_receiver_holds_nothing_up(bus):
    slow = await bus.receiver(credit=1)
    fast = await bus.receiver(credit=100)
    await bus.send(*names)
    assert slow.bodies == ["0"]
    assert fast.bodies == names[1:]


async def test_sink_may_call_from_inside_its_callbacks(bus):
    await bus.send(*names)

    class Eager(Receiving):
        def deliver(self, delivery):
            super().deliver(delivery)
            self.link.settle(delivery.lock_token, complete, delivery.sequence_number)
            self.link.set_credit(1)

    sink = Eager()
    sink.link = bus.broker.open_receiver("q", peek_lock, sink, connection="c")
    sink.link.set_credit(1)
    await bus.settle_down()
    assert sink.bodies == names
    assert set(sink.answers.values()) == {None}


async def test_refusals_to_attach(bus):
    await bus.topic()
    await bus.subscription()
    await bus.queue("target")
    await bus.queue("forwarding", forward_to="target")
    await bus.queue("off", status=EntityStatus.disabled)
    await bus.queue("deaf", status=EntityStatus.receive_disabled)
    await bus.queue("mute", status=EntityStatus.send_disabled)
    await bus.queue("sessions", requires_session=True)
    sink = Receiving()

    def receive(path):
        return bus.broker.open_receiver(path, peek_lock, sink, connection="c")

    refused(lambda: receive("absent"), "amqp:not-found")
    refused(lambda: receive("t"), "amqp:not-allowed")
    refused(lambda: receive("t/$DeadLetterQueue"), "amqp:not-found")
    refused(lambda: receive("t/Subscriptions/absent"), "amqp:not-found")
    refused(lambda: receive("forwarding"), "amqp:not-allowed")
    refused(lambda: receive("off"), "com.microsoft:entity-disabled")
    refused(lambda: receive("deaf"), "com.microsoft:entity-disabled")
    refused(lambda: receive("sessions"), "amqp:not-allowed")
    refused(lambda: bus.broker.open_sender("off", sink), "com.microsoft:entity-disabled")
    refused(lambda: bus.broker.open_sender("mute", sink), "com.microsoft:entity-disabled")
    refused(lambda: bus.broker.open_sender("t/Subscriptions/s", sink), "amqp:not-allowed")
    refused(lambda: bus.broker.open_sender("absent", sink), "amqp:not-found")
    await refused_async(
        bus.broker.accept_session("q", "x", peek_lock, sink, connection="c", wait_ticks=1),
        "amqp:not-allowed",
    )
    for path in (
        "Q",
        "/q/",
        "q/$deadletterqueue",
        "forwarding/$DeadLetterQueue",
        "sessions/$DeadLetterQueue",
        "q/$Transfer/$DeadLetterQueue",
        "T/SUBSCRIPTIONS/S",
        "t/subscriptions/s/$DeadLetterQueue",
        "mute",
    ):
        receive(path).close(broken=False)
    bus.broker.open_sender("deaf", sink)


async def test_disabling_an_entity_ends_its_receivers(bus):
    receiver = await bus.receiver(credit=1)
    administration = bus.broker.administration
    description = administration.get("q").description
    for status in (EntityStatus.receive_disabled, EntityStatus.disabled):
        await administration.update(type(description)(name="q", status=status))
        await bus.settle_down()
        assert receiver.refusal.code == "com.microsoft:entity-disabled"
    await refused_async(bus.broker.send("q", [message()]), "com.microsoft:entity-disabled")
    await administration.update(type(description)(name="q"))
    await bus.send("a")
    again = await bus.receiver(credit=1)
    assert again.bodies == ["a"]


async def test_deleting_an_entity_ends_its_links(bus):
    receiver = await bus.receiver(credit=1)
    await bus.send("a")
    await bus.broker.administration.delete("q")
    await bus.settle_down()
    assert receiver.refusal.code == "amqp:not-found"
    await refused_async(bus.broker.send("q", [message()]), "amqp:not-found")
    await bus.queue()
    assert bus.counts().all == 0
    await bus.send("b")
    assert (await bus.receive(mode=receive_and_delete)).sequence_number == 1


async def test_closing_the_broker_detaches_everybody(bus):
    receiver = await bus.receiver(credit=1)
    await bus.broker.close()
    assert receiver.refusal.code == "com.microsoft:container-close"


# ---- one message, as HTTP asks for it


async def test_one_message(bus):
    assert await bus.receive() is None
    await bus.send("a")
    delivery = await bus.receive()
    assert delivery.lock_token is not None
    assert await bus.receive() is None
    await bus.broker.settle("q", [delivery.lock_token], complete)
    assert bus.counts().active == 0


async def test_waiting_for_one_message(bus):
    waiting = asyncio.create_task(bus.broker.receive("q", peek_lock, wait_ticks=seconds(30)))
    await bus.pass_seconds(20)
    assert not waiting.done()
    await bus.send("a")
    assert (await waiting).sequence_number == 1
    waiting = asyncio.create_task(bus.broker.receive("q", peek_lock, wait_ticks=seconds(30)))
    await bus.pass_seconds(31)
    assert await waiting is None
    await bus.send("b")
    assert bus.counts().active == 2
    receiver = await bus.receiver(credit=2)
    assert receiver.bodies == ["b"]


@pytest.mark.parametrize("turns", range(1, 6))
async def test_giving_up_waiting_for_one_message_at_any_moment(bus, turns):
    waiting = asyncio.create_task(bus.broker.receive("q", peek_lock, wait_ticks=seconds(30)))
    await asyncio.sleep(0)
    sending = asyncio.create_task(bus.broker.send("q", [message("a")]))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await sending
    await bus.settle_down()
    delivery = await bus.receive()
    assert delivery is not None
    assert delivery.delivery_count == 0


async def test_one_message_of_a_session_entity_is_refused(bus):
    await bus.queue("s", requires_session=True)
    await refused_async(bus.broker.receive("s", peek_lock, wait_ticks=0), "amqp:not-allowed")


# ---- many links


async def test_links_are_limited(bus, monkeypatch):
    monkeypatch.setattr("etagere.services.bus.receiving.links_max", 2)
    await bus.receiver()
    two = await bus.receiver()
    refused(
        lambda: bus.broker.open_receiver("q", peek_lock, Receiving(), connection="c"),
        "amqp:resource-limit-exceeded",
    )
    two.link.close(broken=False)
    await bus.receiver()


async def test_raising_and_lowering_credit_for_ever_takes_no_memory(bus):
    receiver, other = await bus.receiver(), await bus.receiver()
    stream = receiver.link._owner.stream
    for _ in range(5_000):
        receiver.link.set_credit(5)
        receiver.link.set_credit(0)
        other.link.set_credit(1)
        other.link.set_credit(0)
    await bus.settle_down()
    assert len(stream.credit._grants) < 100
    await bus.send("a")
    assert not receiver.deliveries
    receiver.link.set_credit(1)
    await bus.settle_down()
    assert receiver.bodies == ["a"]


async def test_released_messages_come_back_though_nobody_else_sends(bus):
    await bus.send("a")
    receiver = await bus.receiver(credit=1)
    other = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], release)
    assert other.bodies == ["a"]
    await bus.settle(other, other.deliveries[0], Abandon())
    receiver.link.set_credit(1)
    await bus.settle_down()
    assert receiver.bodies == ["a", "a"]


async def test_refusals_carry_conditions_for_every_message_that_is_wrong(bus):
    await bus.queue("s", requires_session=True)
    cases = [
        ("q", message("x" * 262_144), "amqp:link:message-size-exceeded"),
        ("q", message(message_id="x" * 129), "com.microsoft:argument-out-of-range"),
        ("q", message(session="x" * 129), "com.microsoft:argument-out-of-range"),
        ("q", message(partition_key="x" * 129), "com.microsoft:argument-out-of-range"),
        ("q", message(session="a", partition_key="b"), "com.microsoft:argument-error"),
        ("q", message(properties={"p": "x" * 66_000}), "amqp:link:message-size-exceeded"),
        ("s", message(), "amqp:not-allowed"),
    ]
    for path, wrong, code in cases:
        await refused_async(bus.broker.send(path, [message(session="ok"), wrong]), code)
        assert bus.counts(path).active == 0
    await bus.broker.send("q", [message("x" * 250_000, message_id="x" * 128)])
    await bus.broker.send("s", [message(session="")])


async def test_the_quota_of_an_entity(bus):
    await bus.queue("small", max_size_megabytes=1024)
    entity = bus.broker.resolve("small").state.entity
    entity.bytes = 1024 * 1024 * 1024 - 1000
    await bus.broker.send("small", [message("x" * 100)])
    with pytest.raises(Refused) as refusal:
        await bus.broker.send("small", [message("x" * 1000)])
    assert refusal.value.code == "amqp:resource-limit-exceeded"
    assert entity.bytes_pending == 0
