"""Sessions: one receiver at a time, in order, with a state (Service Bus, message sessions)."""

import asyncio

import pytest

from etagere.services.bus.descriptions import EntityStatus, QueueDescription

from .harness import (
    Abandon,
    DeadLetter,
    Defer,
    Receiving,
    body_of,
    complete,
    make_bus,
    message,
    peek_lock,
    receive_and_delete,
    refused_async,
    release,
    seconds,
)

lost = "com.microsoft:session-lock-lost"
held = "com.microsoft:session-cannot-be-locked"
timed_out = "com.microsoft:timeout"


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue(requires_session=True)
    return bus


async def send(bus, *pairs):
    """ "a1" goes to session "a"."""
    await bus.send(*(message(one, session=one[0]) for one in pairs))


async def test_a_session_is_delivered_in_order_to_its_holder_only(bus):
    await send(bus, "a1", "b1", "a2", "b2", "a3")
    a = await bus.session("a", credit=10)
    b = await bus.session("b", credit=10)
    assert (a.bodies, b.bodies) == (["a1", "a2", "a3"], ["b1", "b2"])
    await send(bus, "b3", "a4")
    assert (a.bodies, b.bodies) == (["a1", "a2", "a3", "a4"], ["b1", "b2", "b3"])
    assert {one.session_id for one in a.deliveries} == {"a"}


async def test_a_held_session_cannot_be_taken(bus):
    await send(bus, "a1")
    a = await bus.session("a")
    assert (a.link.session_id, a.link.locked_until) == ("a", bus.clock.time + seconds(60))
    await refused_async(bus.session("a"), held)
    a.link.close(broken=False)
    await bus.session("a")


async def test_an_empty_session_can_be_named(bus):
    sink = await bus.session("", credit=5)
    assert sink.link.session_id == ""
    assert not sink.deliveries
    await bus.send(message("x", session=""))
    assert sink.bodies == ["x"]


async def test_the_next_session_is_the_one_with_the_oldest_message(bus):
    await send(bus, "c1", "a1", "b1", "c2")
    taken = [await bus.session(None) for _ in range(3)]
    assert [sink.link.session_id for sink in taken] == ["c", "a", "b"]
    await refused_async(bus.session(None), timed_out)


async def test_sessions_without_active_messages_are_not_next(bus):
    await send(bus, "a1", "b1")
    await bus.send(message("s", session="s", at=1000))
    a = await bus.session("a", credit=1)
    await bus.broker.set_session_state("q", "a", b"state")
    await bus.settle(a, a.deliveries[0], Defer())
    a.link.close(broken=False)
    b = await bus.session("b", credit=1)
    await bus.settle(b, b.deliveries[0], complete)
    b.link.close(broken=False)
    await refused_async(bus.session(None), timed_out)


async def test_waiting_for_a_session(bus):
    one = asyncio.create_task(bus.session(None, wait=30))
    two = asyncio.create_task(bus.session(None, wait=30))
    await bus.pass_seconds(20)
    await send(bus, "a1")
    assert (await one).link.session_id == "a"
    assert not two.done()
    await send(bus, "a2", "b1")
    assert (await two).link.session_id == "b"


async def test_waiting_in_vain(bus):
    waiting = asyncio.create_task(bus.session(None, wait=70))
    await bus.pass_seconds(69)
    assert not waiting.done()
    await bus.pass_seconds(1)
    await refused_async(waiting, timed_out)


async def test_who_waits_gets_a_session_that_is_given_back(bus):
    await send(bus, "a1")
    a = await bus.session("a")
    waiting = asyncio.create_task(bus.session(None, wait=30))
    await bus.settle_down()
    a.link.close(broken=False)
    assert (await waiting).link.session_id == "a"


@pytest.mark.parametrize("turns", range(12))
async def test_giving_up_waiting_at_any_moment_locks_nothing(bus, turns):
    sink = Receiving()
    waiting = asyncio.create_task(
        bus.broker.accept_session(
            "q", None, peek_lock, sink, connection="c", wait_ticks=seconds(30)
        )
    )
    await asyncio.sleep(0)
    sending = asyncio.create_task(bus.broker.send("q", [message("a1", session="a")]))
    for _ in range(turns):
        await asyncio.sleep(0)
    if waiting.done():
        waiting.result().close(broken=False)
    else:
        waiting.cancel()
    await sending
    await bus.settle_down()
    sink = await bus.session("a", credit=1)
    assert [one.delivery_count for one in sink.deliveries] == [0]


async def test_an_abandoned_message_is_served_again_before_what_follows(bus):
    await send(bus, "a1", "a2", "a3")
    a = await bus.session("a", credit=1)
    await bus.settle(a, a.deliveries[0], Abandon())
    a.link.set_credit(3)
    await bus.settle_down()
    assert a.bodies == ["a1", "a1", "a2", "a3"]
    assert [one.delivery_count for one in a.deliveries] == [0, 1, 0, 0]


@pytest.mark.parametrize("broken", [True, False])
async def test_closing_gives_the_session_back_at_once_without_counting(bus, broken):
    await send(bus, "a1", "a2")
    a = await bus.session("a", credit=2)
    a.link.close(broken=broken)
    again = await bus.session("a", credit=2)
    assert again.bodies == ["a1", "a2"]
    assert [one.delivery_count for one in again.deliveries] == [0, 0]
    assert (await bus.settle(again, a.deliveries[0], complete)).code == lost


async def test_a_session_that_closes_with_settlements_under_way_comes_back_in_order(bus):
    await send(bus, "a1", "a2", "a3")
    a = await bus.session("a", credit=3)
    a.link.settle(a.deliveries[0].lock_token, complete, 1)
    a.link.settle(a.deliveries[1].lock_token, Abandon(), 2)
    a.link.close(broken=True)
    again = await bus.session("a", credit=3)
    assert again.bodies == ["a2", "a3"]
    assert [one.delivery_count for one in again.deliveries] == [1, 0]


async def test_the_locks_end_with_the_session(bus):
    await send(bus, "a1", "a2")
    a = await bus.session("a", credit=2)
    await bus.pass_seconds(50)
    until = await bus.broker.renew_session("q", "a")
    assert until == bus.clock.time + seconds(60)
    await bus.pass_seconds(59)
    assert await bus.settle(a, a.deliveries[0], complete) is None
    assert a.refusal is None
    await bus.pass_seconds(1)
    assert a.refusal.code == lost
    assert (await bus.settle(a, a.deliveries[1], complete)).code == lost
    for call in (
        bus.broker.renew_session("q", "a"),
        bus.broker.session_state("q", "a"),
        bus.broker.set_session_state("q", "a", b"x"),
        bus.broker.settle("q", [a.deliveries[1].lock_token], complete, session_id="a"),
        bus.broker.receive_deferred("q", [1], peek_lock, session_id="a"),
    ):
        await refused_async(call, lost)
    again = await bus.session("a", credit=2)
    assert again.bodies == ["a2"]
    assert again.deliveries[0].delivery_count == 1


async def test_messages_are_renewed_with_their_session(bus):
    await send(bus, "a1")
    a = await bus.session("a", credit=1)
    await bus.pass_seconds(50)
    token = a.deliveries[0].lock_token
    assert await bus.broker.renew_locks("q", [token]) == [bus.clock.time + seconds(60)]
    assert a.link.locked_until == bus.clock.time + seconds(60)


async def test_ten_lost_sessions_dead_letter_a_message(bus):
    await send(bus, "a1", "a2")
    for count in range(10):
        a = await bus.session("a", credit=1)
        assert a.deliveries[0].delivery_count == count
        await bus.pass_seconds(60)
    a = await bus.session("a", credit=2)
    assert a.bodies == ["a2"]
    assert [body_of(one) for one in await bus.drain("q/$DeadLetterQueue")] == ["a1"]


async def test_the_dead_letter_queue_is_read_without_sessions(bus):
    await send(bus, "a1", "b1")
    for name in "ab":
        sink = await bus.session(name, credit=1)
        await bus.settle(sink, sink.deliveries[0], DeadLetter("x"))
    receiver = await bus.receiver("q/$DeadLetterQueue", credit=5)
    assert receiver.bodies == ["a1", "b1"]
    assert [one.session_id for one in receiver.deliveries] == ["a", "b"]


async def test_state_lives_until_it_is_set_to_null(bus):
    sink = await bus.session("a")
    assert await bus.broker.session_state("q", "a") is None
    await bus.broker.set_session_state("q", "a", b"\x00one")
    assert await bus.broker.session_state("q", "a") == b"\x00one"
    assert bus.broker.administration.get("q").size_bytes == 4
    sink.link.close(broken=False)
    await refused_async(bus.broker.session_state("q", "a"), lost)
    await bus.restart()
    await bus.session("a")
    assert await bus.broker.session_state("q", "a") == b"\x00one"
    await bus.broker.set_session_state("q", "a", b"")
    assert await bus.broker.session_state("q", "a") == b""
    await bus.broker.set_session_state("q", "a", None)
    assert await bus.broker.session_state("q", "a") is None
    assert bus.broker.administration.get("q").size_bytes == 0
    await refused_async(
        bus.broker.set_session_state("q", "a", b"x" * 262_145), "amqp:link:message-size-exceeded"
    )


async def test_listing_sessions(bus):
    await send(bus, "b1", "a1", "a2")
    await bus.session("s")
    await bus.broker.set_session_state("q", "s", b"x")
    await bus.pass_seconds(10)
    later = bus.clock.time
    await bus.session("t")
    await bus.pass_seconds(1)
    await bus.broker.set_session_state("q", "t", b"x")
    listed = bus.broker.list_sessions
    assert await listed("q", None, skip=0, top=100) == ["a", "b", "s", "t"]
    assert await listed("q", None, skip=1, top=2) == ["b", "s"]
    assert await listed("q", None, skip=9, top=2) == []
    assert await listed("q", later, skip=0, top=100) == ["t"]
    assert await listed("q", 0, skip=0, top=100) == ["s", "t"]
    await bus.queue("plain")
    await refused_async(listed("plain", None, skip=0, top=1), "amqp:not-allowed")


async def test_deferred_messages_need_the_session(bus):
    await send(bus, "a1", "b1")
    a = await bus.session("a", credit=1)
    await bus.settle(a, a.deliveries[0], Defer())
    receive = bus.broker.receive_deferred
    await refused_async(receive("q", [1], peek_lock), "amqp:not-allowed")
    await refused_async(receive("q", [1], peek_lock, session_id="b"), lost)
    b = await bus.session("b")
    await refused_async(
        receive("q", [1], peek_lock, session_id="b"), "com.microsoft:message-not-found"
    )
    b.link.close(broken=False)
    (found,) = await receive("q", [1], peek_lock, session_id="a")
    assert found.locked_until == a.link.locked_until
    a.link.close(broken=False)
    await refused_async(bus.broker.settle("q", [found.lock_token], complete), lost)
    a = await bus.session("a")
    (found,) = await receive("q", [1], receive_and_delete, session_id="a")
    assert body_of(found) == "a1"


async def test_receive_and_delete_in_a_session(bus):
    await send(bus, "a1", "b1", "a2")
    a = await bus.session("a", mode=receive_and_delete, credit=5)
    assert a.bodies == ["a1", "a2"]
    a.link.close(broken=True)
    assert bus.counts().active == 1


async def test_who_deletes_may_stay_a_little_when_the_session_s_lock_is_over(bus):
    """The Python SDK waits for more messages for as long as the lock lasts, beginning later."""
    await send(bus, "a1")
    sink = await bus.session("a", mode=receive_and_delete, credit=5)
    await bus.pass_seconds(61)
    assert sink.refusal is None
    await refused_async(bus.broker.renew_session("q", "a"), lost)
    await bus.pass_seconds(4)
    assert sink.refusal.code == lost


@pytest.mark.parametrize("named", [False, True])
async def test_who_overstays_makes_room(bus, named):
    await send(bus, "a1")
    sink = await bus.session("a", mode=receive_and_delete)
    await bus.pass_seconds(61)
    assert sink.refusal is None
    other = await bus.session("a" if named else None, credit=1)
    assert (other.link.session_id, other.bodies, sink.refusal.code) == ("a", ["a1"], lost)


async def test_nobody_overstays_whose_session_is_waited_for(bus):
    await send(bus, "a1")
    sink = await bus.session("a", mode=receive_and_delete)
    waiting = asyncio.create_task(bus.session(None, wait=600, credit=1))
    await bus.pass_seconds(59)
    assert sink.refusal is None
    await bus.pass_seconds(1)
    assert sink.refusal.code == lost
    assert (await waiting).bodies == ["a1"]


async def test_receive_and_delete_that_loses_its_receiver_keeps_the_order(bus):
    await send(bus, "a1", "a2", "a3")
    a = await bus.session("a", mode=receive_and_delete)
    a.link.set_credit(2)
    a.link.close(broken=True)
    again = await bus.session("a", mode=receive_and_delete, credit=5)
    assert a.bodies + again.bodies == ["a1", "a2", "a3"]


async def test_expired_messages_of_a_session(bus):
    await bus.send(
        message("a1", session="a", ttl=10), message("a2", session="a"), message("b", session="b")
    )
    await bus.pass_seconds(11)
    a = await bus.session(None, credit=5)
    assert (a.link.session_id, a.bodies) == ("a", ["a2"])


async def test_a_message_that_expired_while_its_session_was_held_goes_when_that_closes(bus):
    await bus.send(message("a1", session="a", ttl=45))
    a = await bus.session("a", credit=1)
    await bus.pass_seconds(59)
    assert bus.counts().active == 1
    a.link.close(broken=False)
    await bus.settle_down()
    assert bus.counts().all == 0


async def test_updating_the_entity_ends_the_sessions(bus):
    await send(bus, "a1")
    a = await bus.session("a", credit=1)
    description = bus.broker.administration.get("q").description
    await bus.broker.administration.update(description)
    await bus.settle_down()
    assert a.refusal.code == "amqp:link:detach-forced"
    again = await bus.session("a", credit=1)
    assert [one.delivery_count for one in again.deliveries] == [0]


async def test_released_messages_of_a_session_come_back_in_order(bus):
    await send(bus, "a1", "a2", "a3")
    a = await bus.session("a", credit=3)
    for one in reversed(list(a.deliveries)):
        await bus.settle(a, one, release)
    a.link.set_credit(3)
    await bus.settle_down()
    assert a.bodies == ["a1", "a2", "a3"] * 2


async def test_draining_a_session(bus):
    await send(bus, "a1")
    a = await bus.session("a")
    a.link.set_credit(5, drain=True)
    await bus.settle_down()
    assert (a.bodies, a.drains) == (["a1"], 1)


async def until(condition, *arguments):
    for _ in range(10_000):
        if condition(*arguments):
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came true")


def drained(sink):
    return sink.drains


def answered(sink):
    return len(sink.answers) == len(sink.deliveries)


async def test_many_workers_share_many_sessions(bus):
    total = 20
    await bus.send(*(message(f"{s}:{n}", session=f"s{s}") for n in range(5) for s in range(total)))
    seen = {}

    async def work():
        while True:
            sink = Receiving()
            try:
                sink.link = await bus.broker.accept_session(
                    "q", None, peek_lock, sink, connection="c", wait_ticks=0
                )
            except Exception:  # noqa: BLE001 - there is no session left
                return
            sink.link.set_credit(100, drain=True)
            await until(drained, sink)
            assert sink.link.session_id not in seen
            seen[sink.link.session_id] = sink.bodies
            for one in sink.deliveries:
                sink.link.settle(one.lock_token, complete, one.sequence_number)
            await until(answered, sink)
            sink.link.close(broken=False)

    workers = [asyncio.create_task(work()) for _ in range(5)]
    while not all(worker.done() for worker in workers):
        await asyncio.sleep(0)
        bus.broker.tick(bus.clock.now())
    assert seen == {f"s{s}": [f"{s}:{n}" for n in range(5)] for s in range(total)}
    assert bus.counts().active == 0


@pytest.mark.parametrize("how", ["deleted", "disabled", "forwarding", "closed"])
@pytest.mark.parametrize("named", [False, True])
async def test_who_waits_for_a_session_hears_what_becomes_of_the_entity(bus, how, named):
    sink = Receiving()
    if named:  # it is closing while its last settlement is on its way to the store
        await send(bus, "a1")
        holder = await bus.session("a", credit=1)
        holder.link.settle(holder.deliveries[0].lock_token, complete, 1)
        holder.link.close(broken=False)
    waiting = asyncio.create_task(
        bus.broker.accept_session(
            "q", "a" if named else None, peek_lock, sink, connection="c", wait_ticks=seconds(600)
        )
    )
    await asyncio.sleep(0)
    administration = bus.broker.administration
    code = "amqp:not-allowed"
    if how == "deleted":
        await administration.delete("q")
        code = "amqp:not-found"
    elif how == "closed":
        await bus.broker.close()
        code = "com.microsoft:container-close"
    else:
        await bus.queue("target")
        description = {"status": EntityStatus.disabled} if how == "disabled" else {}
        if how == "disabled":
            code = "com.microsoft:entity-disabled"
        else:
            description = {"forward_to": "target"}
        await administration.update(
            QueueDescription(name="q", requires_session=True, **description)
        )
    await bus.settle_down()
    if named and waiting.done() and waiting.exception() is None:
        assert sink.refusal is not None  # it had it for a moment
        assert sink.refusal.code == code
    else:
        await refused_async(waiting, code)
    if how in ("disabled", "forwarding"):
        await administration.update(QueueDescription(name="q", requires_session=True))
        assert (await bus.session("a")).link.session_id == "a"
