"""Sends through links: order, batches, pre-settled ones, numbers."""

import pytest

from .harness import Sending, body_of, make_bus, message


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue()
    return bus


async def test_pipelined_sends_are_answered_once_each_and_kept_in_order(bus):
    sink = Sending()
    sender = bus.broker.open_sender("q", sink)
    for number in range(100):
        sender.send([message(str(number))], number)
    assert sink.answers == {}
    await bus.settle_down()
    assert sink.answers == dict.fromkeys(range(100))
    assert sink.order == list(range(100))
    found = await bus.drain()
    assert [body_of(one) for one in found] == [str(n) for n in range(100)]
    assert [one.sequence_number for one in found] == list(range(1, 101))
    assert [one.enqueued_sequence_number for one in found] == list(range(1, 101))


async def test_a_send_is_answered_when_it_is_durable(bus):
    sink = Sending()
    sender = bus.broker.open_sender("q", sink)
    sender.send([message("a")], 1)
    while not sink.answers:
        import asyncio

        await asyncio.sleep(0)
    # Whatever the broker had in memory is gone.
    await bus.start()
    assert [body_of(one) for one in await bus.drain()] == ["a"]


async def test_a_batch_is_all_or_nothing_and_has_consecutive_numbers(bus):
    sink = Sending()
    one, two = bus.broker.open_sender("q", sink), bus.broker.open_sender("q", sink)
    one.send([message("a1"), message("a2")], 1)
    two.send([message("b1"), message("b2"), message("x" * 300_000)], 2)
    two.send([message("c1"), message("c2")], 3)
    await bus.settle_down()
    assert sink.answers[2].code == "amqp:link:message-size-exceeded"
    assert (sink.answers[1], sink.answers[3]) == (None, None)
    assert [body_of(one) for one in await bus.drain()] == ["a1", "a2", "c1", "c2"]


async def test_pre_settled_sends_are_stored_or_dropped_without_a_word(bus):
    sink = Sending()
    sender = bus.broker.open_sender("q", sink)
    sender.send([message("a")], None)
    sender.send([message("x" * 300_000)], None)
    await bus.settle_down()
    assert sink.answers == {}
    assert [body_of(one) for one in await bus.drain()] == ["a"]


async def test_a_closed_sender_is_refused(bus):
    sink = Sending()
    sender = bus.broker.open_sender("q", sink)
    sender.send([message("a")], 1)
    sender.close()
    sender.send([message("b")], 2)
    await bus.settle_down()
    assert sink.answers[1] is None
    assert sink.answers[2].code == "amqp:not-found"


async def test_deleting_the_entity_detaches_senders_and_refuses_what_is_under_way(bus):
    sink = Sending()
    sender = bus.broker.open_sender("q", sink)
    await bus.broker.administration.delete("q")
    assert sink.refusal.code == "amqp:not-found"
    sender.send([message("b")], 2)
    await bus.settle_down()
    assert sink.answers[2].code == "amqp:not-found"


async def test_long_messages_come_out_as_they_went_in(bus):
    await bus.topic()
    for name in ("s1", "s2", "s3"):
        await bus.subscription(name=name)
    long = "0123456789" * 20_000
    await bus.send(message(long), to="q")
    await bus.send(message(long), to="t")
    await bus.restart()
    for path in ("q", "t/subscriptions/s1", "t/subscriptions/s2", "t/subscriptions/s3"):
        (found,) = await bus.peek(path)
        assert body_of(found) == long
        (found,) = await bus.drain(path)
        assert body_of(found) == long
    assert bus.broker.administration.get("t").size_bytes == 0


async def test_the_rest_of_a_long_message_is_removed_with_its_last_holder(bus):
    await bus.topic()
    await bus.subscription(name="s1")
    await bus.subscription(name="s2")
    rows = bus.engine._rows._parts
    part = bus.broker.resolve("t").state.entity.part
    before = dict(rows[part])
    await bus.send(message("x" * 100_000), to="t")
    rests = [key for key in rows[part] if key[4:5] in (b"b", b"r")]
    assert len(rests) == 2  # one chunk, and how many hold it
    await bus.drain("t/subscriptions/s1")
    assert [key for key in rows[part] if key[4:5] == b"b"]
    await bus.drain("t/subscriptions/s2")
    assert dict(rows[part]).keys() == before.keys()
