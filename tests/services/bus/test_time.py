"""What a moved clock does: expiry, scheduling, duplicate windows, idle entities."""

import pytest

from etagere.base.errors import Refused
from etagere.services.bus.descriptions import QueueDescription, Tier

from .harness import (
    Defer,
    Receiving,
    Sending,
    body_of,
    complete,
    make_bus,
    message,
    peek_lock,
    properties_of,
    receive_and_delete,
    refused_async,
    release,
    seconds,
    start,
)

dead = "q/$DeadLetterQueue"


@pytest.fixture
async def bus():
    return await make_bus()


# ---- time to live


async def test_an_expired_message_vanishes(bus):
    await bus.queue()
    await bus.send(message("a", ttl=10), "b")
    await bus.pass_seconds(9)
    assert bus.counts().active == 2
    await bus.pass_seconds(2)
    assert bus.counts().active == 1
    assert [body_of(one) for one in await bus.drain()] == ["b"]
    assert bus.broker.administration.get("q").size_bytes == 0


async def test_an_expired_message_is_dead_lettered_if_so_configured(bus):
    await bus.queue(dead_letter_on_expiration=True)
    await bus.send(message("a", ttl=10, properties={"mine": 1}))
    await bus.pass_seconds(11)
    (buried,) = await bus.drain(dead)
    assert properties_of(buried) == {
        "mine": 1,
        "DeadLetterReason": "TTLExpiredException",
        "DeadLetterErrorDescription": "The message expired and was dead lettered.",
    }
    await bus.send(message("b", ttl=10))
    await bus.pass_seconds(11)
    await bus.pass_seconds(100_000)
    assert bus.counts().dead_letter == 1


async def test_an_expired_message_is_not_delivered_before_the_sweep_either(bus):
    await bus.queue()
    await bus.send(message("a", ttl=10), "b")
    bus.clock.time += seconds(20)
    receiver = await bus.receiver(credit=2)
    assert receiver.bodies == ["b"]


async def test_the_shorter_of_message_and_entity_counts(bus):
    await bus.queue(default_ttl=seconds(60))
    await bus.send("none", message("short", ttl=30), message("long", ttl=90))
    receiver = await bus.receiver(credit=3)
    assert [one.ttl_ms for one in receiver.deliveries] == [None, 30_000, 60_000]
    receiver.link.close(broken=True)
    await bus.pass_seconds(59)
    assert bus.counts().active == 2
    await bus.pass_seconds(2)
    assert bus.counts().active == 0


async def test_topic_and_subscription_defaults_both_apply(bus):
    await bus.topic(default_ttl=seconds(60))
    await bus.subscription(name="longer", default_ttl=seconds(90))
    await bus.subscription(name="shorter", default_ttl=seconds(30))
    await bus.send("m", to="t")
    await bus.pass_seconds(31)
    assert bus.counts("t/subscriptions/longer").active == 1
    assert bus.counts("t/subscriptions/shorter").active == 0
    await bus.pass_seconds(30)
    assert bus.counts("t/subscriptions/longer").active == 0


async def test_a_locked_message_does_not_expire_until_its_lock_ends(bus):
    await bus.queue(dead_letter_on_expiration=True)
    await bus.send(message("a", ttl=10), message("b", ttl=10), message("c", ttl=10))
    receiver = await bus.receiver(credit=3)
    await bus.pass_seconds(30)
    assert bus.counts().active == 3
    assert await bus.settle(receiver, receiver.deliveries[0], complete) is None
    assert await bus.settle(receiver, receiver.deliveries[1], release) is None
    assert (bus.counts().active, bus.counts().dead_letter) == (1, 1)
    await bus.pass_seconds(31)
    assert (bus.counts().active, bus.counts().dead_letter) == (0, 2)


async def test_deferred_messages_are_not_purged(bus):
    await bus.queue()
    await bus.send(message("a", ttl=10))
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], Defer())
    await bus.pass_seconds(100)
    (found,) = await bus.broker.receive_deferred("q", [1], receive_and_delete)
    assert body_of(found) == "a"


async def test_many_expire_and_locked_ones_are_skipped(bus):
    await bus.queue()
    await bus.send(*(message(str(n), ttl=10) for n in range(250)))
    receiver = await bus.receiver(credit=120)
    await bus.pass_seconds(20)
    assert bus.counts().active == 120
    for one in list(receiver.deliveries)[:20]:
        receiver.link.settle(one.lock_token, complete, one.sequence_number)
    await bus.pass_seconds(60)
    assert bus.counts().active == 0
    assert set(receiver.answers.values()) == {None}


async def test_expiry_goes_on_after_a_restart(bus):
    await bus.queue()
    await bus.send(message("a", ttl=10), message("b", ttl=1000))
    await bus.restart()
    await bus.pass_seconds(11)
    assert bus.counts().active == 1


async def test_a_zero_time_to_live_is_over_at_once(bus):
    await bus.queue(dead_letter_on_expiration=True)
    await bus.send(message("a", ttl=0))
    await bus.settle_down()
    assert (bus.counts().active, bus.counts().dead_letter) == (0, 1)


async def test_huge_times_to_live_are_for_ever(bus):
    await bus.queue()
    await bus.send(message("a", ttl=2**32 / 1000 - 1))
    await bus.pass_seconds(86_400 * 40)
    assert bus.counts().active == 1


# ---- scheduling


async def test_scheduled_messages_become_active_when_they_are_due(bus):
    await bus.queue()
    numbers = await bus.broker.schedule("q", [message("late", at=20), message("soon", at=10)])
    assert numbers == [1, 2]
    receiver = await bus.receiver(credit=5)
    assert bus.counts().scheduled == 2
    await bus.pass_seconds(9)
    assert not receiver.deliveries
    await bus.pass_seconds(1)
    assert receiver.bodies == ["soon"]
    soon = receiver.deliveries[0]
    assert soon.sequence_number == 3
    assert soon.enqueued_at == start + seconds(10)
    assert soon.scheduled_at == start + seconds(10)
    assert soon.state == 0
    await bus.pass_seconds(10)
    assert receiver.bodies == ["soon", "late"]
    assert bus.counts().scheduled == 0


async def test_a_time_in_the_past_is_now(bus):
    await bus.queue()
    await bus.send(message("a", at=-5), message("b", at=0))
    assert (bus.counts().active, bus.counts().scheduled) == (2, 0)


async def test_cancelling_scheduled_messages(bus):
    await bus.queue()
    numbers = await bus.broker.schedule("q", [message("a", at=10), message("b", at=10)])
    not_there = "com.microsoft:message-not-found"
    await refused_async(bus.broker.cancel_scheduled("q", [numbers[0], 99]), not_there)
    await bus.broker.cancel_scheduled("q", [numbers[0]])
    await refused_async(bus.broker.cancel_scheduled("q", [numbers[0]]), not_there)
    await bus.pass_seconds(11)
    await refused_async(bus.broker.cancel_scheduled("q", [numbers[1]]), not_there)
    assert [body_of(one) for one in await bus.drain()] == ["b"]
    assert bus.broker.administration.get("q").size_bytes == 0


async def test_many_scheduled_for_one_moment(bus):
    await bus.queue()
    await bus.send(*(message(str(n), at=10) for n in range(250)))
    await bus.pass_seconds(10)
    assert bus.counts().active == 250
    assert [body_of(one) for one in await bus.drain()] == [str(n) for n in range(250)]


async def test_scheduling_goes_on_after_a_restart(bus):
    await bus.queue()
    await bus.send(message("a", at=10))
    await bus.restart()
    await bus.pass_seconds(11)
    assert bus.counts().active == 1


async def test_scheduled_messages_of_a_topic_wait_there_and_fan_out(bus):
    await bus.topic()
    await bus.send(message("a", at=10), to="t")
    await bus.subscription(name="late")
    assert bus.counts("t").scheduled == 1
    (peeked,) = await bus.peek("t")
    assert peeked.state == 2
    await bus.pass_seconds(10)
    assert bus.counts("t").scheduled == 0
    assert [body_of(one) for one in await bus.drain("t/subscriptions/late")] == ["a"]


async def test_the_time_to_live_of_a_scheduled_message_begins_when_it_is_due(bus):
    await bus.queue()
    await bus.send(message("a", at=100, ttl=10))
    await bus.pass_seconds(105)
    assert bus.counts().active == 1
    await bus.pass_seconds(6)
    assert bus.counts().active == 0


async def test_long_scheduled_messages(bus):
    await bus.queue()
    await bus.send(message("x" * 100_000, at=10), message("y" * 100_000, at=10))
    await bus.broker.cancel_scheduled("q", [2])
    await bus.pass_seconds(10)
    (found,) = await bus.drain()
    assert body_of(found) == "x" * 100_000
    rows = bus.engine._rows._parts[bus.broker.resolve("q").state.entity.part]
    assert not [key for key in rows if key[4:5] == b"b"]


async def test_the_basic_tier_schedules_nothing():
    bus = await make_bus(tier=Tier.basic)
    await bus.queue()
    await refused_async(bus.broker.send("q", [message(at=10)]), "amqp:not-allowed")


# ---- duplicates


async def test_repeats_are_accepted_and_dropped_within_the_window(bus):
    await bus.queue(requires_duplicate_detection=True, duplicate_window=seconds(20))
    await bus.send(message("a", message_id="1"), message("b", message_id="2"))
    await bus.send(message("again", message_id="1"), message("c", message_id="3"))
    assert [body_of(one) for one in await bus.drain()] == ["a", "b", "c"]
    await bus.send(message("consumed before", message_id="1"))
    await bus.send(message("no id"), message("no id"))
    assert [body_of(one) for one in await bus.drain()] == ["no id", "no id"]
    await bus.restart()
    await bus.pass_seconds(19)
    await bus.send(message("still", message_id="1"))
    assert await bus.drain() == []
    await bus.pass_seconds(2)
    await bus.send(message("new", message_id="1"))
    assert [body_of(one) for one in await bus.drain()] == ["new"]


async def test_ids_are_compared_by_their_text(bus):
    from uuid import UUID

    from etagere.protocols.amqp.values import ULong, Uuid

    await bus.queue(requires_duplicate_detection=True)
    one = UUID(int=1)
    await bus.send(message("a", message_id=Uuid(one.bytes)), message("b", message_id=str(one)))
    await bus.send(message("c", message_id=ULong(5)), message("d", message_id="5"))
    assert [body_of(one) for one in await bus.drain()] == ["a", "c"]


async def test_scheduled_ids_count(bus):
    await bus.queue(requires_duplicate_detection=True)
    await bus.send(message("a", message_id="1", at=10))
    await bus.send(message("b", message_id="1"))
    await bus.pass_seconds(10)
    assert [body_of(one) for one in await bus.drain()] == ["a"]


async def test_a_topic_detects_duplicates_for_its_subscriptions(bus):
    await bus.topic(requires_duplicate_detection=True)
    await bus.subscription()
    await bus.send(message("a", message_id="1"), to="t")
    await bus.send(message("b", message_id="1"), to="t")
    assert [body_of(one) for one in await bus.drain("t/subscriptions/s")] == ["a"]


async def test_partitioned_entities_compare_the_partition_key_too(bus):
    await bus.queue(requires_duplicate_detection=True, enable_partitioning=True)
    await bus.send(
        message("a", message_id="1", partition_key="x"),
        message("b", message_id="1", partition_key="y"),
        message("c", message_id="1", partition_key="x"),
    )
    assert [body_of(one) for one in await bus.drain()] == ["a", "b"]


async def test_old_ids_are_forgotten(bus):
    await bus.queue(requires_duplicate_detection=True, duplicate_window=seconds(20))
    await bus.send(*(message(message_id=str(n)) for n in range(50)))
    rows = bus.engine._rows._parts[bus.broker.resolve("q").state.entity.part]
    assert len([key for key in rows if key[4:5] in (b"d", b"w")]) == 100
    await bus.pass_seconds(41)
    assert not [key for key in rows if key[4:5] in (b"d", b"w")]


# ---- idle entities


async def test_an_idle_queue_is_deleted(bus):
    await bus.queue(auto_delete_on_idle=seconds(300))
    await bus.pass_seconds(299)
    await bus.send("a")
    await bus.pass_seconds(299)
    await bus.peek()
    await bus.pass_seconds(299)
    assert bus.broker.resolve("q")
    await bus.pass_seconds(2)
    await refused_async(bus.broker.send("q", [message()]), "amqp:not-found")
    assert bus.engine._rows._parts.keys() <= {bus_catalogue(bus)}


def bus_catalogue(bus):
    from etagere.services.bus import keys

    return keys.catalogue(bus.broker.namespace)


async def test_attached_receivers_keep_an_entity(bus):
    await bus.queue(auto_delete_on_idle=seconds(300))
    sink = Receiving()
    link = bus.broker.open_receiver("q", peek_lock, sink, connection="c")
    await bus.pass_seconds(5000)
    assert bus.broker.resolve("q")
    link.close(broken=False)
    await bus.pass_seconds(301)
    await refused_async(bus.broker.send("q", [message()]), "amqp:not-found")


async def test_attached_senders_alone_do_not_keep_an_entity(bus):
    await bus.topic(auto_delete_on_idle=seconds(300))
    await bus.subscription(auto_delete_on_idle=seconds(600))
    sink = Sending()
    bus.broker.open_sender("t", sink)
    await bus.pass_seconds(301)
    assert sink.refusal.code == "amqp:not-found"


async def test_an_idle_subscription_is_deleted_alone(bus):
    await bus.topic()
    await bus.subscription(auto_delete_on_idle=seconds(300))
    await bus.send("a", to="t")
    await bus.pass_seconds(301)
    await bus.send("b", to="t")
    await refused_async(bus.peek("t/subscriptions/s"), "amqp:not-found")


async def test_a_forwarding_entity_never_idles_out(bus):
    await bus.queue("target")
    info = await bus.queue("q", forward_to="target", auto_delete_on_idle=seconds(300))
    assert info.description.auto_delete_on_idle == seconds(300)  # kept, for when it stops
    await bus.pass_seconds(1000)
    assert bus.broker.resolve("q")
    stopped = QueueDescription(name="q", auto_delete_on_idle=seconds(300))
    await bus.broker.administration.update(stopped)
    await bus.pass_seconds(1000)
    with pytest.raises(Refused):
        bus.broker.resolve("q")
