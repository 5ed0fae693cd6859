"""Every end of a lock, for messages active, deferred and dead-lettered (Service Bus, message
transfers, locks, and settlement)."""

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
    refused,
    refused_async,
    release,
    seconds,
)

lost = "com.microsoft:message-lock-lost"
dead = "q/$DeadLetterQueue"


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue()
    return bus


def state_of(bus, path="q"):
    counts = bus.counts(path)
    return counts.active, counts.dead_letter


# outcome -> (active, dead-lettered, redelivered with this count or None)
outcomes = [
    (complete, (0, 0), None),
    (release, (1, 0), 0),
    (Abandon(), (1, 0), 1),
    (Defer(), (1, 0), None),
    (DeadLetter("r", "d"), (0, 1), None),
]


@pytest.mark.parametrize(("outcome", "state", "count"), outcomes)
async def test_outcome_of_an_active_message(bus, outcome, state, count):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    assert await bus.settle(receiver, receiver.deliveries.popleft(), outcome) is None
    assert state_of(bus) == state
    receiver.link.set_credit(1)
    await bus.settle_down()
    assert [one.delivery_count for one in receiver.deliveries] == ([] if count is None else [count])


@pytest.mark.parametrize(("outcome", "state", "count"), outcomes)
async def test_outcome_of_a_deferred_message(bus, outcome, state, count):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries.popleft(), Defer())
    (delivery,) = await bus.broker.receive_deferred("q", [1], peek_lock)
    assert (delivery.state, delivery.delivery_count) == (1, 1)
    assert await bus.settle(receiver, delivery, outcome) is None
    assert state_of(bus) == state
    if isinstance(outcome, DeadLetter) or outcome is complete:
        await refused_async(
            bus.broker.receive_deferred("q", [1], peek_lock), "com.microsoft:message-not-found"
        )
    else:
        # It stays deferred, whatever else is done with it.
        (delivery,) = await bus.broker.receive_deferred("q", [1], peek_lock)
        assert delivery.delivery_count == 1 + (outcome is not release)
    assert not receiver.deliveries


@pytest.mark.parametrize(("outcome", "state", "count"), outcomes)
async def test_outcome_in_the_dead_letter_queue(bus, outcome, state, count):
    await bus.send("m")
    main = await bus.receiver(credit=1)
    await bus.settle(main, main.deliveries[0], DeadLetter())
    receiver = await bus.receiver(dead, credit=1)
    delivery = receiver.deliveries.popleft()
    assert delivery.delivery_count == 0
    refusal = await bus.settle(receiver, delivery, outcome)
    if isinstance(outcome, DeadLetter):
        assert refusal.code == "amqp:not-allowed"
        assert await bus.settle(receiver, delivery, complete) is None
    else:
        assert refusal is None
        assert state_of(bus) == (0, 0 if outcome is complete else 1)


async def test_nothing_is_dead_lettered_out_of_the_dead_letter_queue(bus):
    """Nor counted there: a dead letter goes on showing how often it had failed."""
    await bus.send("m")
    main = await bus.receiver(credit=2)
    await bus.settle(main, main.deliveries[0], Abandon())
    await bus.settle(main, main.deliveries[1], DeadLetter())
    receiver = await bus.receiver(dead)
    for _ in range(15):
        receiver.link.set_credit(1)
        await bus.settle_down()
        assert receiver.deliveries[0].delivery_count == 1
        await bus.settle(receiver, receiver.deliveries.popleft(), Abandon())
    assert state_of(bus) == (0, 1)


@pytest.mark.parametrize("first", [complete, release, Abandon(), Defer(), DeadLetter()])
@pytest.mark.parametrize("second", [complete, release, Abandon(), Defer(), DeadLetter()])
async def test_the_first_settlement_wins(bus, first, second):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    delivery = receiver.deliveries[0]
    receiver.link.settle(delivery.lock_token, first, 1)
    receiver.link.settle(delivery.lock_token, second, 2)
    await bus.settle_down()
    assert receiver.answers[1] is None
    assert receiver.answers[2].code == lost


@pytest.mark.parametrize("outcome", [complete, release, Abandon(), Defer(), DeadLetter()])
async def test_a_token_is_worth_nothing_after_the_lock_ran_out(bus, outcome):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    await bus.pass_seconds(60)
    refusal = await bus.settle(receiver, receiver.deliveries[0], outcome)
    assert refusal.code == lost
    token = receiver.deliveries[0].lock_token
    await refused_async(bus.broker.renew_locks("q", [token]), lost)
    assert state_of(bus) == (1, 0)
    receiver.link.set_credit(1)
    await bus.settle_down()
    assert receiver.deliveries[1].delivery_count == 1


async def test_a_token_is_good_up_to_the_last_moment(bus):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    delivery = receiver.deliveries[0]
    assert delivery.locked_until == bus.clock.time + seconds(60)
    bus.clock.time = delivery.locked_until - 1
    assert await bus.settle(receiver, delivery, complete) is None


async def test_nobody_settles_with_a_token_that_was_never_given(bus):
    receiver = await bus.receiver()
    receiver.link.settle(bytes(16), complete, 1)
    receiver.link.settle(b"", complete, 2)
    await bus.settle_down()
    assert [receiver.answers[ticket].code for ticket in (1, 2)] == [lost, lost]


async def test_settlements_without_a_ticket_are_applied_and_not_answered(bus):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    receiver.link.settle(receiver.deliveries[0].lock_token, complete, None)
    receiver.link.settle(bytes(16), complete, None)
    await bus.settle_down()
    assert receiver.answers == {}
    assert state_of(bus) == (0, 0)


async def test_renewing_gives_the_full_duration_again(bus):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    delivery = receiver.deliveries[0]
    for _ in range(10):
        await bus.pass_seconds(50)
        until = await bus.broker.renew_locks("q", [delivery.lock_token])
        assert until == [bus.clock.time + seconds(60)]
    assert await bus.settle(receiver, delivery, complete) is None


async def test_renewal_is_all_or_nothing(bus):
    await bus.send("a", "b")
    receiver = await bus.receiver(credit=2)
    a, b = (one.lock_token for one in receiver.deliveries)
    await bus.settle(receiver, receiver.deliveries[1], complete)
    await bus.pass_seconds(50)
    await refused_async(bus.broker.renew_locks("q", [a, b]), lost)
    await bus.pass_seconds(10)
    await refused_async(bus.broker.renew_locks("q", [a]), lost)


async def test_messages_come_back_at_their_place(bus):
    await bus.send("1", "2", "3", "4", "5")
    receiver = await bus.receiver(credit=3)
    one, two, three = receiver.deliveries
    await bus.settle(receiver, three, Abandon())
    await bus.settle(receiver, one, release)
    await bus.settle(receiver, two, Abandon())
    receiver.deliveries.clear()
    receiver.link.set_credit(5)
    await bus.settle_down()
    assert receiver.bodies == ["1", "2", "3", "4", "5"]
    assert [one.delivery_count for one in receiver.deliveries] == [0, 1, 1, 0, 0]
    assert [one.sequence_number for one in receiver.deliveries] == [1, 2, 3, 4, 5]


async def test_ten_failures_dead_letter_a_message(bus):
    await bus.send(message("m", properties={"mine": 1}))
    receiver = await bus.receiver()
    for count in range(10):
        receiver.link.set_credit(1)
        await bus.settle_down()
        assert receiver.deliveries[-1].delivery_count == count
        if count % 2:
            await bus.settle(receiver, receiver.deliveries[-1], Abandon())
        else:
            await bus.pass_seconds(60)
    receiver.link.set_credit(1)
    await bus.settle_down()
    assert len(receiver.deliveries) == 10
    (buried,) = await bus.drain(dead)
    assert properties_of(buried) == {
        "mine": 1,
        "DeadLetterReason": "MaxDeliveryCountExceeded",
        "DeadLetterErrorDescription": "Message could not be consumed after 10 delivery attempts.",
    }
    assert (buried.enqueued_sequence_number, buried.sequence_number) == (1, 1)


async def test_releases_do_not_count(bus):
    await bus.send("m")
    receiver = await bus.receiver()
    for _ in range(20):
        receiver.link.set_credit(1)
        await bus.settle_down()
        assert receiver.deliveries[-1].delivery_count == 0
        await bus.settle(receiver, receiver.deliveries[-1], release)


async def test_properties_to_modify(bus):
    await bus.send(message("m", message_id="id", properties={"keep": 1, "change": "old"}))
    receiver = await bus.receiver(credit=3)
    await bus.settle(receiver, receiver.deliveries[0], Abandon({"change": "new", "add": True}))
    assert properties_of(receiver.deliveries[1]) == {"keep": 1, "change": "new", "add": True}
    assert body_of(receiver.deliveries[1]) == "m"
    await bus.settle(receiver, receiver.deliveries[1], Defer({"why": "later"}))
    (deferred,) = await bus.broker.receive_deferred("q", [1], peek_lock)
    assert properties_of(deferred)["why"] == "later"
    await bus.settle(
        receiver, deferred, DeadLetter("reason", None, {"DeadLetterReason": "x", "more": 2})
    )
    (buried,) = await bus.drain(dead)
    assert properties_of(buried) == {
        "keep": 1,
        "change": "new",
        "add": True,
        "why": "later",
        "DeadLetterReason": "reason",
        "more": 2,
    }


async def test_headers_that_grow_too_large_dead_letter_the_message(bus):
    await bus.send("m")
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], Abandon({"much": "x" * 70_000}))
    (buried,) = await bus.drain(dead)
    assert properties_of(buried)["DeadLetterReason"] == "HeaderSizeExceeded"
    assert "much" not in properties_of(buried)


async def test_an_orderly_close_keeps_the_locks(bus):
    await bus.send("a", "b")
    receiver = await bus.receiver(credit=1)
    receiver.link.close(broken=False)
    other = await bus.receiver(credit=2)
    assert other.bodies == ["b"]
    token = receiver.deliveries[0].lock_token
    await bus.broker.renew_locks("q", [token])
    await bus.broker.settle("q", [token], complete)
    assert bus.counts().active == 1


async def test_an_orderly_close_lets_the_locks_run_out(bus):
    await bus.send("a")
    receiver = await bus.receiver(credit=1)
    receiver.link.close(broken=False)
    other = await bus.receiver(credit=1)
    await bus.pass_seconds(59)
    assert not other.deliveries
    await bus.pass_seconds(1)
    assert [one.delivery_count for one in other.deliveries] == [1]


async def test_a_broken_connection_releases_the_locks_at_once(bus):
    await bus.send("a", "b")
    receiver = await bus.receiver(credit=2)
    other = await bus.receiver(credit=2)
    receiver.link.close(broken=True)
    await bus.settle_down()
    assert other.bodies == ["a", "b"]
    assert [one.delivery_count for one in other.deliveries] == [1, 1]
    token = receiver.deliveries[0].lock_token
    await refused_async(bus.broker.settle("q", [token], complete), lost)


async def test_a_settlement_on_its_way_when_the_connection_breaks_is_done(bus):
    await bus.send("a", "b")
    receiver = await bus.receiver(credit=2)
    receiver.link.settle(receiver.deliveries[0].lock_token, complete, 1)
    receiver.link.close(broken=True)
    await bus.settle_down()
    other = await bus.receiver(credit=2)
    assert other.bodies == ["b"]


async def test_updating_the_entity_releases_every_lock(bus):
    await bus.send("a", "b")
    receiver = await bus.receiver(credit=2)
    delivery = receiver.deliveries[0]
    description = bus.broker.administration.get("q").description
    await bus.broker.administration.update(description)
    assert (await bus.settle(receiver, delivery, complete)).code == lost
    receiver.link.set_credit(2)
    await bus.settle_down()
    assert receiver.bodies == ["a", "b", "a", "b"]
    assert [one.delivery_count for one in receiver.deliveries] == [0, 0, 0, 0]
    assert receiver.refusal is None


async def test_a_restart_releases_every_lock(bus):
    await bus.send("a")
    receiver = await bus.receiver(credit=1)
    await bus.restart()
    token = receiver.deliveries[0].lock_token
    await refused_async(bus.broker.settle("q", [token], complete), lost)
    again = await bus.receiver(credit=1)
    assert again.bodies == ["a"]
    assert again.deliveries[0].delivery_count == 0


async def test_failures_counted_before_a_restart_still_count(bus):
    await bus.send("a")
    receiver = await bus.receiver(credit=1)
    await bus.settle(receiver, receiver.deliveries[0], Abandon())
    await bus.restart()
    again = await bus.receiver(credit=1)
    assert again.deliveries[0].delivery_count == 1


async def test_settling_several_at_once_is_all_or_nothing(bus):
    await bus.send("a", "b", "c")
    receiver = await bus.receiver(credit=3)
    a, b, c = (one.lock_token for one in receiver.deliveries)
    await bus.broker.settle("q", [c], complete)
    await refused_async(bus.broker.settle("q", [a, b, c], complete), lost)
    assert bus.counts().active == 2
    await bus.broker.settle("q", [a, b, a], DeadLetter("x", "y"))
    assert state_of(bus) == (0, 2)


async def test_two_receivers_never_hold_the_same_message(bus):
    await bus.send(*(str(n) for n in range(20)))
    one = await bus.receiver(credit=5)
    two = await bus.receiver(credit=5)
    assert one.bodies == [str(n) for n in range(5)]
    assert two.bodies == [str(n) for n in range(5, 10)]
    # Settled through another link, or none.
    two.link.settle(one.deliveries[0].lock_token, complete, 1)
    await bus.settle_down()
    assert two.answers[1] is None


async def test_sending_to_a_sub_queue_or_subscription_is_not_allowed(bus):
    for path in (dead, "q/$Transfer/$DeadLetterQueue"):
        refused(lambda path=path: bus.broker.open_sender(path, None), "amqp:not-allowed")
        await refused_async(bus.broker.send(path, [message()]), "amqp:not-allowed")
    assert await bus.drain() == []
