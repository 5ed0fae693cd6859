"""Messages found by their number: deferred ones, peeked ones, batch deletes."""

import asyncio

import pytest

from .harness import (
    Abandon,
    DeadLetter,
    Defer,
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
)

not_found = "com.microsoft:message-not-found"


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue()
    return bus


async def defer(bus, *bodies):
    await bus.send(*bodies)
    receiver = await bus.receiver(credit=len(bodies))
    for one in list(receiver.deliveries):
        await bus.settle(receiver, one, Defer())
    receiver.link.close(broken=False)
    return [one.sequence_number for one in receiver.deliveries]


async def test_deferred_messages_are_received_by_number_only(bus):
    numbers = await defer(bus, "a", "b")
    receiver = await bus.receiver(credit=5)
    assert not receiver.deliveries
    assert bus.counts().active == 2
    found = await bus.broker.receive_deferred("q", numbers[::-1], peek_lock)
    assert [body_of(one) for one in found] == ["b", "a"]
    assert {one.state for one in found} == {1}
    assert found[0].locked_until == bus.clock.time + seconds(60)
    assert len({one.lock_token for one in found}) == 2


async def test_deferred_receive_is_all_or_nothing(bus):
    (number,) = await defer(bus, "a")
    await bus.send("active")
    for numbers in ([number, 2], [number, 99], [0], [-1], [2**63 - 1]):
        for mode in (peek_lock, receive_and_delete):
            await refused_async(bus.broker.receive_deferred("q", numbers, mode), not_found)
    await refused_async(
        bus.broker.receive_deferred("q", [number, number], peek_lock),
        "com.microsoft:argument-error",
    )
    assert await bus.broker.receive_deferred("q", [], peek_lock) == []
    (found,) = await bus.broker.receive_deferred("q", [number], receive_and_delete)
    assert found.lock_token is None
    await refused_async(bus.broker.receive_deferred("q", [number], peek_lock), not_found)


async def test_a_deferred_message_is_locked_by_one_at_a_time(bus):
    (number,) = await defer(bus, "a")
    (first,) = await bus.broker.receive_deferred("q", [number], peek_lock)
    for mode in (peek_lock, receive_and_delete):
        await refused_async(bus.broker.receive_deferred("q", [number], mode), not_found)
    await bus.pass_seconds(60)
    (second,) = await bus.broker.receive_deferred("q", [number], peek_lock)
    assert second.delivery_count == first.delivery_count + 1
    await refused_async(
        bus.broker.settle("q", [first.lock_token], complete), "com.microsoft:message-lock-lost"
    )
    await bus.broker.settle("q", [second.lock_token], release)
    tries = [
        asyncio.create_task(bus.broker.receive_deferred("q", [number], mode))
        for mode in (peek_lock, receive_and_delete, peek_lock, receive_and_delete)
    ]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert len([one for one in results if isinstance(one, list)]) == 1


async def test_a_deferred_message_that_fails_too_often_is_dead_lettered(bus):
    (number,) = await defer(bus, "a")
    for _ in range(9):
        (found,) = await bus.broker.receive_deferred("q", [number], peek_lock)
        await bus.broker.settle("q", [found.lock_token], Abandon())
    await refused_async(bus.broker.receive_deferred("q", [number], peek_lock), not_found)
    (buried,) = await bus.drain("q/$DeadLetterQueue")
    assert properties_of(buried)["DeadLetterReason"] == "MaxDeliveryCountExceeded"


async def test_deferring_again_keeps_it_deferred(bus):
    (number,) = await defer(bus, "a")
    (found,) = await bus.broker.receive_deferred("q", [number], peek_lock)
    await bus.broker.settle("q", [found.lock_token], Defer({"again": 1}))
    (found,) = await bus.broker.receive_deferred("q", [number], peek_lock)
    assert properties_of(found) == {"again": 1}
    assert bus.counts().active == 1


async def test_messages_in_a_dead_letter_queue_can_be_deferred(bus):
    await bus.send("a")
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], DeadLetter())
    dead = await bus.receiver("q/$DeadLetterQueue", credit=1)
    await bus.settle(dead, dead.deliveries[0], Defer())
    assert bus.counts().dead_letter == 1
    (found,) = await bus.broker.receive_deferred("q/$DeadLetterQueue", [1], receive_and_delete)
    assert body_of(found) == "a"


async def test_long_deferred_messages(bus):
    (number,) = await defer(bus, "x" * 100_000)
    (found,) = await bus.broker.receive_deferred("q", [number], peek_lock)
    assert body_of(found) == "x" * 100_000
    await bus.broker.settle("q", [found.lock_token], Abandon({"p": 1}))
    (found,) = await bus.broker.receive_deferred("q", [number], peek_lock)
    assert (body_of(found), properties_of(found)) == ("x" * 100_000, {"p": 1})
    await bus.broker.settle("q", [found.lock_token], DeadLetter("r"))
    (found,) = await bus.drain("q/$DeadLetterQueue")
    assert body_of(found) == "x" * 100_000
    assert bus.broker.administration.get("q").size_bytes == 0
    rows = bus.engine._rows._parts[bus.broker.resolve("q").state.entity.part]
    assert not [key for key in rows if key[4:5] == b"b"]


# ---- peek


async def test_peek_shows_every_state_in_order_and_changes_nothing(bus):
    await bus.send("active", "locked", "deferred", message("scheduled", at=100), "last")
    receiver = await bus.receiver(credit=3)
    active, locked, deferred = receiver.deliveries
    await bus.settle(receiver, deferred, Defer())
    await bus.settle(receiver, active, release)
    for _ in range(2):
        found = await bus.peek()
        assert [(one.sequence_number, body_of(one), one.state) for one in found] == [
            (1, "active", 0),
            (2, "locked", 0),
            (3, "deferred", 1),
            (4, "scheduled", 2),
            (5, "last", 0),
        ]
        assert {(one.lock_token, one.locked_until) for one in found} == {(None, None)}
    assert await bus.settle(receiver, locked, complete) is None


async def test_peek_from_a_number_and_up_to_a_count(bus):
    await bus.send(*(str(n) for n in range(200)))
    assert [one.sequence_number for one in await bus.peek(first=5, count=3)] == [5, 6, 7]
    assert [one.sequence_number for one in await bus.peek(count=1)] == [1]
    assert len(await bus.peek(count=500)) == 200
    assert await bus.peek(first=201) == []
    assert await bus.peek(first=-5, count=1)
    await refused_async(bus.peek(count=0), "com.microsoft:argument-out-of-range")


async def test_peek_stops_before_the_answer_is_too_large(bus):
    for _ in range(4):
        await bus.send("x" * 50_000)
    assert len(await bus.peek(bytes_max=120_000)) == 2
    assert len(await bus.peek(bytes_max=10)) == 1


async def test_peek_of_sub_queues_and_sessions(bus):
    await bus.queue("s", requires_session=True)
    await bus.send(*(message(one, session=one[0]) for one in ("a1", "b1", "a2")), to="s")
    peeked = await bus.peek("s", session_id="a")
    assert [body_of(one) for one in peeked] == ["a1", "a2"]
    assert [body_of(one) for one in await bus.peek("s")] == ["a1", "b1", "a2"]
    assert await bus.peek("s", session_id="z") == []
    assert await bus.peek("s/$DeadLetterQueue") == []
    assert await bus.peek("s/$Transfer/$DeadLetterQueue") == []


# ---- batch delete


async def test_batch_delete_takes_the_oldest_that_nobody_holds(bus):
    await bus.send(*(str(n) for n in range(10)))
    receiver = await bus.receiver(credit=2)
    assert await bus.broker.delete_messages("q", 3, bus.clock.time + 1) == 3
    assert [body_of(one) for one in await bus.peek()] == ["0", "1", "5", "6", "7", "8", "9"]
    await bus.pass_seconds(10)
    await bus.send("new")
    assert await bus.broker.delete_messages("q", 500, bus.clock.time) == 5
    assert [body_of(one) for one in await bus.peek()] == ["0", "1", "new"]
    receiver.link.set_credit(5)
    await bus.settle_down()
    assert receiver.bodies == ["0", "1", "new"]
    assert await bus.settle(receiver, receiver.deliveries[0], complete) is None


async def test_batch_delete_of_what_is_in_the_window(bus):
    await bus.send(*(str(n) for n in range(50)))
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], release)
    assert await bus.broker.delete_messages("q", 49, bus.clock.time + 1) == 49
    receiver.link.set_credit(5)
    await bus.settle_down()
    assert receiver.bodies == ["0", "49"]


async def test_batch_delete_by_session_and_its_limits(bus):
    await bus.queue("s", requires_session=True)
    await bus.send(*(message(one, session=one[0]) for one in ("a1", "b1", "a2")), to="s")
    delete = bus.broker.delete_messages
    later = bus.clock.time + 1
    assert await delete("s", 10, later, session_id="a") == 2
    assert [body_of(one) for one in await bus.peek("s")] == ["b1"]
    for count in (0, 501):
        await refused_async(delete("q", count, later), "com.microsoft:argument-out-of-range")
    await bus.queue("p", enable_partitioning=True)
    await refused_async(delete("p", 1, later), "amqp:not-allowed")
    assert await delete("q", 1, later) == 0


async def test_nothing_is_delivered_that_a_batch_delete_is_taking(bus):
    await bus.send(*(str(n) for n in range(100)))
    receiver = await bus.receiver()
    deleting = asyncio.create_task(bus.broker.delete_messages("q", 50, bus.clock.time + 1))
    await asyncio.sleep(0)
    receiver.link.set_credit(100)
    assert await deleting == 50
    await bus.settle_down()
    assert receiver.bodies == [str(n) for n in range(50, 100)]
    for one in receiver.deliveries:
        receiver.link.settle(one.lock_token, complete, one.sequence_number)
    await bus.settle_down()
    assert set(receiver.answers.values()) == {None}
    assert bus.counts().active == 0
