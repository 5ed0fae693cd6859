"""Forwarding, dead letters forwarded, hops, and what happens when the target cannot take it."""

import pytest

from etagere.services.bus.descriptions import EntityStatus, QueueDescription

from .harness import (
    DeadLetter,
    body_of,
    complete,
    make_bus,
    message,
    properties_of,
    refused_async,
)


@pytest.fixture
async def bus():
    return await make_bus()


def reason(delivery):
    return properties_of(delivery)["DeadLetterReason"]


async def test_messages_go_straight_to_the_target(bus):
    await bus.queue("b")
    await bus.queue("a", forward_to="sb://host:5671/B")
    assert bus.broker.administration.get("a").description.forward_to == "sb://host:5671/B"
    await bus.send("other", to="b")
    await bus.send("m", to="a")
    receiver = await bus.receiver("b", credit=5)
    assert receiver.bodies == ["other", "m"]
    assert receiver.deliveries[1].sequence_number == 2
    assert receiver.deliveries[1].enqueued_sequence_number == 1
    assert receiver.deliveries[1].dead_letter_source is None
    assert bus.counts("a").all == 0


async def test_forwarding_into_a_topic_and_out_of_subscriptions(bus):
    await bus.queue("end")
    await bus.topic()
    await bus.subscription(name="one", forward_to="end")
    await bus.subscription(name="two")
    await bus.queue("start", forward_to="t")
    await bus.send("m", "x" * 50_000, to="start")
    assert [body_of(x) for x in await bus.drain("end")] == ["m", "x" * 50_000]
    assert [body_of(x) for x in await bus.drain("t/subscriptions/two")] == ["m", "x" * 50_000]


async def test_four_hops_and_no_more(bus):
    await bus.queue("q5")
    for n in range(4, -1, -1):
        await bus.queue(f"q{n}", forward_to=f"q{n + 1}")
    await bus.send("four", to="q1")
    await bus.send("five", to="q0")
    assert [body_of(x) for x in await bus.drain("q5")] == ["four"]
    (buried,) = await bus.drain("q4/$DeadLetterQueue")
    assert (body_of(buried), reason(buried)) == ("five", "MaxTransferHopCountExceeded")


async def test_a_circle_ends_in_a_dead_letter_queue(bus):
    administration = bus.broker.administration
    await bus.queue("a")
    await bus.queue("b", forward_to="a")
    await administration.update(QueueDescription(name="a", forward_to="b"))
    await bus.send("m", to="a")
    assert bus.counts("a").dead_letter + bus.counts("b").dead_letter == 1


@pytest.mark.parametrize("dead", [False, True])
async def test_an_entity_that_forwards_to_itself_keeps_no_message_for_ever(bus, dead):
    """The service takes such an update; hops are what ends it."""
    await bus.queue("a")
    target = {"forward_to": "a"} | ({"forward_dead_lettered_to": "a"} if dead else {})
    await bus.broker.administration.update(QueueDescription(name="a", **target))
    await bus.send("m", to="a")
    (buried,) = await bus.drain("a/$DeadLetterQueue")
    assert reason(buried) == "MaxTransferHopCountExceeded"


@pytest.mark.parametrize("how", ["disabled", "deleted", "full"])
async def test_a_target_that_cannot_take_it(bus, how):
    administration = bus.broker.administration
    await bus.queue("b")
    await bus.queue("a", forward_to="b")
    if how == "disabled":
        await administration.update(QueueDescription(name="b", status=EntityStatus.send_disabled))
    elif how == "deleted":
        await administration.delete("b")
    else:
        bus.broker.resolve("b").state.entity.bytes = 2**30 + 1
    await bus.send("m", to="a")
    (buried,) = await bus.drain("a/$DeadLetterQueue")
    assert reason(buried) == "AutoForwardingFailed"


async def test_targets_must_exist_and_be_others(bus):
    await refused_async(bus.queue("a", forward_to="absent"), "amqp:not-found")
    await refused_async(bus.queue("a", forward_to="A"), "com.microsoft:argument-error")
    await refused_async(bus.queue("a", forward_dead_lettered_to="absent"), "amqp:not-found")


async def test_dead_letters_are_forwarded_with_their_source(bus):
    await bus.queue("graves")
    await bus.queue("Q", forward_dead_lettered_to="graves")
    await bus.send(message("m", ttl=1), to="q")
    receiver = await bus.receiver("q", credit=1)
    await bus.settle(receiver, receiver.deliveries[0], DeadLetter("why", "because"))
    assert bus.counts("q").dead_letter == 0
    receiver = await bus.receiver("graves", credit=1)
    (buried,) = receiver.deliveries
    assert buried.dead_letter_source == "Q"
    assert buried.enqueued_sequence_number == 1
    assert properties_of(buried) == {
        "DeadLetterReason": "why",
        "DeadLetterErrorDescription": "because",
    }
    assert await bus.settle(receiver, buried, complete) is None


async def test_expired_messages_are_forwarded_too(bus):
    await bus.queue("graves")
    await bus.queue(forward_dead_lettered_to="graves", dead_letter_on_expiration=True)
    await bus.send(message("m", ttl=10))
    await bus.pass_seconds(11)
    assert bus.counts("graves").active == 1
    await bus.pass_seconds(11)
    assert bus.counts("graves").active == 0  # it brought its own time to live


async def test_dead_letters_stay_if_they_cannot_be_forwarded(bus):
    await bus.queue("graves")
    await bus.queue(forward_dead_lettered_to="graves")
    await bus.broker.administration.delete("graves")
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], DeadLetter())
    assert bus.counts().dead_letter == 1


async def test_a_session_target_gets_sessions_or_dead_letters(bus):
    await bus.queue("b", requires_session=True)
    await bus.queue("a", forward_to="b")
    await bus.send(message("with", session="x"), message("without"), to="a")
    sink = await bus.session("x", "b", credit=5)
    assert sink.bodies == ["with"]
    (buried,) = await bus.drain("b/$DeadLetterQueue")
    assert reason(buried) == "Session ID is null."


async def test_duplicates_are_detected_at_the_target(bus):
    await bus.queue("b", requires_duplicate_detection=True)
    await bus.queue("a", forward_to="b")
    await bus.send(message("one", message_id="1"), message("two", message_id="1"), to="a")
    assert [body_of(x) for x in await bus.drain("b")] == ["one"]


async def test_scheduled_messages_are_forwarded_when_they_are_due(bus):
    await bus.queue("b")
    await bus.queue("a", forward_to="b")
    await bus.send(message("m", at=10), to="a")
    assert (bus.counts("a").scheduled, bus.counts("b").all) == (1, 0)
    await bus.pass_seconds(10)
    assert bus.counts("b").active == 1


async def test_a_queue_that_begins_to_forward_hands_on_what_it_has(bus):
    await bus.queue("b")
    await bus.queue("a")
    await bus.send(*(str(n) for n in range(250)), to="a")
    receiver = await bus.receiver("a", credit=3)
    await bus.broker.administration.update(QueueDescription(name="a", forward_to="b"))
    await bus.settle_down()
    assert receiver.refusal.code == "amqp:not-allowed"
    assert (bus.counts("a").active, bus.counts("b").active) == (0, 250)
    assert [body_of(x) for x in await bus.drain("b")] == [str(n) for n in range(250)]


async def test_an_entity_with_sessions_may_forward(bus):
    await bus.queue("b")
    await bus.queue("a", requires_session=True, forward_to="b")
    await bus.send(message("x", session="s"), to="a")
    assert [body_of(x) for x in await bus.drain("b")] == ["x"]
    await refused_async(bus.send("y", to="a"), "amqp:not-allowed")


async def test_an_entity_with_sessions_that_begins_to_forward(bus):
    await bus.queue("b")
    await bus.queue("a", requires_session=True)
    await bus.send(message("1", session="s"), message("2", session="s"), to="a")
    await bus.send(message("3", session="other"), to="a")
    await bus.broker.administration.update(
        QueueDescription(name="a", requires_session=True, forward_to="b")
    )
    await bus.settle_down()
    assert (bus.counts("a").active, bus.counts("b").active) == (0, 3)
    assert [body_of(x) for x in await bus.drain("b")] == ["1", "2", "3"]


async def test_handing_on_goes_on_after_a_restart(bus):
    await bus.queue("b")
    await bus.queue("a")
    await bus.send(*(str(n) for n in range(250)), to="a")
    await bus.broker.administration.update(QueueDescription(name="a", forward_to="b"))
    await bus.start()
    await bus.settle_down()
    assert (bus.counts("a").active, bus.counts("b").active) == (0, 250)
