"""Transactions: whole or not at all, whatever ends them (Service Bus, transaction processing)."""

import asyncio

import pytest

from etagere.services.bus.descriptions import EntityStatus, QueueDescription, Tier

from .harness import (
    Abandon,
    DeadLetter,
    Defer,
    body_of,
    complete,
    make_bus,
    message,
    properties_of,
    refused,
    refused_async,
    release,
)

lost = "com.microsoft:message-lock-lost"
unknown = "amqp:transaction:unknown-id"
dead = "q/$DeadLetterQueue"


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue()
    await bus.queue("other")
    return bus


async def five_locked(bus):
    await bus.send("a", "b", "c", "d", "e")
    receiver = await bus.receiver(credit=5)
    return receiver, [one.lock_token for one in receiver.deliveries]


async def test_a_commit_applies_everything(bus):
    receiver, (a, b, c, d, e) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message("new1"), message("new2")])
    transaction.settle("q", a, complete)
    transaction.settle("q", b, Abandon({"p": 1}))
    transaction.settle("q", c, Defer())
    transaction.settle("q", d, DeadLetter("why"))
    transaction.settle("q", e, release)
    numbers = await transaction.schedule("q", [message("later", at=50)])
    await bus.settle_down()
    assert bus.counts().all == 5
    await transaction.commit()
    await bus.settle_down()
    assert numbers == [6]
    counts = bus.counts()
    assert (counts.active, counts.dead_letter, counts.scheduled) == (5, 1, 1)
    receiver.deliveries.clear()
    receiver.link.set_credit(10)
    await bus.settle_down()
    assert receiver.bodies == ["b", "e", "new1", "new2"]
    assert [one.delivery_count for one in receiver.deliveries] == [1, 0, 0, 0]
    assert properties_of(receiver.deliveries[0]) == {"p": 1}
    await bus.pass_seconds(50)
    assert receiver.bodies[4:] == ["later"]


async def test_a_rollback_applies_nothing_and_gives_the_locks_back(bus):
    receiver, (a, b, c, d, e) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message("new")])
    transaction.settle("q", a, complete)
    transaction.settle("q", b, DeadLetter())
    await transaction.schedule("q", [message("later", at=50)])
    for token in (a, b):
        receiver.link.settle(token, complete, token)
    await bus.settle_down()
    assert {receiver.answers[token].code for token in (a, b)} == {lost}
    transaction.rollback()
    await bus.settle_down()
    assert bus.counts().all == 5
    await bus.broker.settle("q", [a, b, c, d, e], complete)
    assert bus.counts().all == 0


async def test_an_enlisted_lock_lasts_as_long_as_the_transaction(bus):
    receiver, (a, _b, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.settle("q", a, complete)
    await bus.pass_seconds(100)
    receiver.link.set_credit(10)
    await bus.settle_down()
    assert receiver.bodies[5:] == ["b", "c", "d", "e"]
    await transaction.commit()
    assert bus.counts().active == 4
    again = bus.broker.begin_transaction("c")
    token = receiver.deliveries[5].lock_token
    again.settle("q", token, complete)
    await bus.pass_seconds(100)
    again.rollback()
    await bus.settle_down()
    assert receiver.bodies[9:] == ["c", "d", "e", "b"]  # its own time had run out meanwhile
    assert receiver.deliveries[12].delivery_count == 2


async def test_a_transaction_that_takes_too_long_is_rolled_back(bus):
    receiver, (_a, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    await bus.pass_seconds(1000)  # not begun: only the first operation starts the time
    receiver.link.set_credit(1)
    await bus.settle_down()
    transaction.send("q", [message("new")])
    token = receiver.deliveries[5].lock_token
    transaction.settle("q", token, complete)
    await bus.pass_seconds(119)
    assert bus.broker.find_transaction("c", transaction.id) is transaction
    await bus.pass_seconds(1)
    refused(lambda: bus.broker.find_transaction("c", transaction.id), unknown)
    await refused_async(transaction.commit(), unknown)
    refused(lambda: transaction.settle("q", token, complete), unknown)
    refused(lambda: transaction.send("q", [message()]), unknown)
    assert bus.counts().active == 5


async def test_a_lost_connection_rolls_back_what_it_began(bus):
    receiver, (a, *_) = await five_locked(bus)
    mine, others = bus.broker.begin_transaction("mine"), bus.broker.begin_transaction("other")
    mine.send("q", [message("mine")])
    mine.settle("q", a, complete)
    others.send("q", [message("others")])
    refused(lambda: bus.broker.find_transaction("other", mine.id), unknown)
    bus.broker.connection_lost("mine")
    receiver.link.close(broken=True)
    await bus.settle_down()
    await others.commit()
    found = await bus.drain()
    assert [body_of(one) for one in found] == ["a", "b", "c", "d", "e", "others"]
    assert found[0].delivery_count == 1


async def test_a_lock_lost_before_the_commit_refuses_all_of_it(bus):
    _receiver, (a, b, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message("new")])
    transaction.settle("q", a, complete)
    transaction.settle("q", b, complete)
    await bus.broker.administration.update(bus.broker.administration.get("q").description)
    await refused_async(transaction.commit(), lost)
    assert bus.counts().active == 5


async def test_what_cannot_be_done_when_it_commits_refuses_all_of_it(bus):
    _receiver, (a, *_) = await five_locked(bus)
    (number,) = await bus.broker.schedule("q", [message(at=100)])
    transaction = bus.broker.begin_transaction("c")
    transaction.settle("q", a, complete)
    transaction.cancel_scheduled("q", [number])
    await bus.broker.cancel_scheduled("q", [number])
    await refused_async(transaction.commit(), "com.microsoft:message-not-found")
    assert bus.counts().active == 5
    await bus.broker.settle("q", [a], complete)  # the lock was given back


async def test_what_is_wrong_is_refused_when_it_is_enlisted(bus):
    _, (a, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    refused(lambda: transaction.settle("q", bytes(16), complete), lost)
    refused(lambda: transaction.settle("other", bytes(16), complete), "amqp:not-allowed")
    refused(
        lambda: transaction.send("q", [message("x" * 300_000)]), "amqp:link:message-size-exceeded"
    )
    refused(lambda: transaction.send("absent", [message()]), "amqp:not-found")
    transaction.settle("q", a, complete)
    refused(lambda: transaction.settle("q", a, complete), lost)
    refused(lambda: transaction.send("other", [message()]), "amqp:not-allowed")
    await transaction.commit()
    assert bus.counts().active == 4


async def test_at_most_a_hundred_messages(bus):
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message()] * 99)
    refused(lambda: transaction.send("q", [message()] * 2), "amqp:resource-limit-exceeded")
    transaction.send("q", [message()])
    refused(lambda: transaction.cancel_scheduled("q", [1]), "amqp:resource-limit-exceeded")
    await transaction.commit()
    assert bus.counts().active == 100
    assert bus.broker.resolve("q").state.entity.bytes_pending == 0


async def test_sends_through_an_entity(bus):
    _, (a, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.settle("q", a, complete)
    transaction.send("other", [message("x")], via="q")
    refused(lambda: transaction.send("q", [message()], via="other"), "amqp:not-allowed")
    await transaction.commit()
    assert (bus.counts().active, bus.counts("other").active) == (4, 1)
    crossing = bus.broker.begin_transaction("c", cross_entity=True)
    crossing.send("q", [message("first")])
    crossing.send("other", [message("second")])
    refused(lambda: crossing.settle("other", bytes(16), complete), "amqp:not-allowed")
    await crossing.commit()
    assert (bus.counts().active, bus.counts("other").active) == (5, 2)


async def test_sends_through_an_entity_to_one_that_is_disabled(bus):
    await bus.broker.administration.update(
        QueueDescription(name="other", status=EntityStatus.disabled)
    )
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message("kept")])
    transaction.send("other", [message("x")], via="q")
    await transaction.commit()
    assert bus.counts().transfer_dead_letter == 1
    (buried,) = await bus.drain("q/$Transfer/$DeadLetterQueue")
    assert body_of(buried) == "x"
    gone = bus.broker.begin_transaction("c")
    refused(lambda: gone.send("absent", [message()], via="q"), "amqp:not-found")


async def test_an_empty_transaction(bus):
    transaction = bus.broker.begin_transaction("c")
    await transaction.commit()
    await refused_async(transaction.commit(), unknown)
    transaction.rollback()


async def test_open_transactions_are_limited(bus):
    opened = [bus.broker.begin_transaction("c") for _ in range(100)]
    refused(lambda: bus.broker.begin_transaction("c"), "amqp:resource-limit-exceeded")
    opened[0].rollback()
    bus.broker.begin_transaction("c")
    bus.broker.begin_transaction("d")


async def test_a_commit_that_nobody_waits_for_any_more_is_applied(bus):
    _, (a, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.settle("q", a, complete)
    transaction.send("q", [message("new")])
    committing = asyncio.create_task(transaction.commit())
    await asyncio.sleep(0)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    await bus.settle_down()
    assert [body_of(one) for one in await bus.peek()] == ["b", "c", "d", "e", "new"]


async def test_transactions_in_a_session(bus):
    await bus.queue("s", requires_session=True)
    await bus.send(message("a1", session="a"), message("a2", session="a"), to="s")
    sink = await bus.session("a", "s", credit=2)
    one, two = (delivery.lock_token for delivery in sink.deliveries)
    transaction = bus.broker.begin_transaction("c")
    transaction.settle("s", one, complete)
    transaction.send("s", [message("a3", session="a")])
    refused(lambda: transaction.send("s", [message()]), "amqp:not-allowed")
    await transaction.commit()
    broken = bus.broker.begin_transaction("c")
    broken.settle("s", two, complete)
    sink.link.close(broken=False)
    await bus.settle_down()
    await refused_async(broken.commit(), "com.microsoft:session-lock-lost")
    again = await bus.session("a", "s", credit=5)
    assert again.bodies == ["a2", "a3"]


async def test_the_basic_tier_has_no_transactions():
    bus = await make_bus(tier=Tier.basic)
    refused(lambda: bus.broker.begin_transaction("c"), "amqp:not-allowed")


async def test_one_request_settles_all_of_its_messages_or_none(bus):
    receiver, (a, b, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    for tokens in ([a, bytes(16)], [bytes(16), a], [a, b, bytes(16)]):
        refused(lambda tokens=tokens: transaction.settle_each("q", tokens, complete), lost)
    receiver.link.settle(a, complete, "a")  # no transaction has it
    await bus.settle_down()
    assert receiver.answers == {"a": None}
    transaction.settle_each("q", [b, b], complete)  # the same one twice is one
    await transaction.commit()
    await bus.settle_down()
    assert bus.counts().all == 3


async def test_a_request_beyond_the_limit_of_a_transaction_enlists_nothing(bus):
    receiver, (a, b, *_) = await five_locked(bus)
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message()] * 99)
    refused(lambda: transaction.settle_each("q", [a, b], complete), "amqp:resource-limit-exceeded")
    receiver.link.settle(a, complete, "a")
    await bus.settle_down()
    assert receiver.answers == {"a": None}
    transaction.settle("q", b, complete)
    await transaction.commit()
    await bus.settle_down()
    assert bus.counts().all == 3 + 99
