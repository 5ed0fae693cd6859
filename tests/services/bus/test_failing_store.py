"""What clients wait for while the store fails: everything has its answer, and goes on afterwards.

And what they wait for while a commit takes long: nobody is told that something is so before it is
durable (Service Bus, message transfers, locks, and settlement: the outcome of a transfer and of a
settlement is the broker's word that it is stored).
"""

import asyncio

import pytest

from etagere.base.errors import Refused
from etagere.kv.contract import StoreFailed
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.bus.descriptions import Tier

from .harness import (
    Abandon,
    Bus,
    DeadLetter,
    Defer,
    HandClock,
    Receiving,
    SeededEntropy,
    Sending,
    complete,
    message,
    peek_lock,
    receive_and_delete,
    release,
    seconds,
    stores,
)


class ObstinateStore(MemoryEngine):
    """Refuses to read when it is told to, and keeps commits waiting."""

    def __init__(self, clock):
        super().__init__(clock)
        self.fails_to_read = False
        self.fails_after_commits = False
        self.commits = asyncio.Event()
        self.commits.set()

    async def read(self, body):
        if self.fails_to_read:
            raise StoreFailed
        return await super().read(body)

    async def write(self, parts, body):
        await self.commits.wait()
        result = await super().write(parts, body)
        if self.fails_after_commits:
            raise StoreFailed
        return result


@pytest.fixture
async def bus():
    clock = HandClock()
    store = ObstinateStore(clock)
    stores.append(store)
    bus = await Bus(store, clock, SeededEntropy(), Tier.standard).start()
    await bus.queue()
    await bus.queue("s", requires_session=True)
    return bus


# ---- readings that fail


def accept_next(bus, sink, wait):
    return asyncio.create_task(
        bus.broker.accept_session(
            "s", None, peek_lock, sink, connection="c", wait_ticks=seconds(wait)
        )
    )


async def test_who_waits_for_a_session_is_told_in_time_though_the_search_fails(bus):
    bus.engine.fails_to_read = True
    accepting = accept_next(bus, Receiving(), 5)
    await bus.pass_seconds(6)
    assert accepting.done(), "nobody told it that its time was up"
    with pytest.raises(Refused) as refusal:
        await accepting
    assert refusal.value.code == "com.microsoft:timeout"


async def test_whose_time_is_up_during_a_search_that_fails_is_told(bus):
    started, goes_on = asyncio.Event(), asyncio.Event()

    async def read(_body):
        started.set()
        await goes_on.wait()
        raise StoreFailed

    bus.engine.read = read
    accepting = accept_next(bus, Receiving(), 5)
    await started.wait()
    bus.clock.time += seconds(6)
    bus.broker.tick(bus.clock.now())
    assert not accepting.done()
    goes_on.set()
    await bus.settle_down()
    assert accepting.done(), "nobody told it that its time was up"
    assert accepting.exception().code == "com.microsoft:timeout"


async def test_a_session_is_found_once_the_store_reads_again(bus):
    await bus.send(message("a", session="one"), to="s")
    bus.engine.fails_to_read = True
    accepting = accept_next(bus, Receiving(), 60)
    await bus.pass_seconds(0)
    bus.engine.fails_to_read = False
    await bus.pass_seconds(2)
    assert accepting.done(), "the search was never made again"
    assert (await accepting).session_id == "one"


@pytest.mark.parametrize("drain", [False, True])
async def test_a_receiver_gets_its_messages_once_the_store_reads_again(bus, drain):
    await bus.send("a", "b")
    bus.engine.fails_to_read = True
    receiver = await bus.receiver()
    receiver.link.set_credit(5, drain=drain)
    await bus.settle_down()
    assert not receiver.deliveries
    bus.engine.fails_to_read = False
    await bus.pass_seconds(2)
    assert receiver.bodies == ["a", "b"]
    assert receiver.drains == drain


async def test_a_drain_does_not_wait_for_a_store_that_goes_on_failing(bus):
    await bus.send("a")
    bus.engine.fails_to_read = True
    receiver = await bus.receiver()
    receiver.link.set_credit(5, drain=True)
    await bus.pass_seconds(3)
    assert receiver.drains == 1
    receiving = asyncio.create_task(bus.broker.receive("q", peek_lock, wait_ticks=seconds(5)))
    await bus.pass_seconds(8)
    assert receiving.done()
    assert await receiving is None
    bus.engine.fails_to_read = False
    receiver.link.set_credit(5, drain=True)
    await bus.pass_seconds(3)
    assert receiver.bodies == ["a"]


async def test_the_holder_of_a_session_gets_its_messages_once_the_store_reads_again(bus):
    await bus.send(message("a", session="one"), to="s")
    sink = await bus.session("one", "s")
    bus.engine.fails_to_read = True
    sink.link.set_credit(5)
    await bus.settle_down()
    bus.engine.fails_to_read = False
    await bus.pass_seconds(2)
    assert sink.bodies == ["a"]


async def test_what_came_back_is_read_again_once_the_store_reads_again(bus):
    long = "x" * 100_000
    await bus.send(long)
    receiver = await bus.receiver(credit=1)
    bus.engine.fails_to_read = True
    await bus.settle(receiver, receiver.deliveries.pop(), Abandon())
    receiver.link.set_credit(1)
    await bus.settle_down()
    bus.engine.fails_to_read = False
    await bus.pass_seconds(2)
    assert receiver.bodies == [long]


async def test_what_is_due_is_found_though_nobody_heard_of_its_commit(bus):
    """Counters and moments are read again after a commit in doubt, as often as that takes."""
    bus.engine.fails_after_commits = bus.engine.fails_to_read = True
    with pytest.raises(Refused):
        await bus.send(message("a", at=30))
    await bus.pass_seconds(1)
    bus.engine.fails_after_commits = bus.engine.fails_to_read = False
    await bus.pass_seconds(5)
    assert bus.counts().scheduled == 1
    await bus.pass_seconds(30)
    assert bus.counts().active == 1
    receiver = await bus.receiver(credit=1)
    assert receiver.bodies == ["a"]


# ---- commits that take long


class Told(Receiving, Sending):
    """Counts whatever it is told."""

    def __init__(self):
        Receiving.__init__(self)
        Sending.__init__(self)
        self.count = 0

    def sent(self, ticket, refusal):
        assert refusal is None
        self.count += 1

    def settled(self, ticket, refusal):
        assert refusal is None
        self.count += 1


async def locked(bus, path="q", count=3):
    """A receiver that was given messages, which it has not settled."""
    session = "one" if path == "s" else None
    await bus.send(*(message("b", session=session) for _ in range(count)), to=path)
    sink = Told()
    if session is None:
        sink.link = bus.broker.open_receiver(path, peek_lock, sink, connection="c")
    else:
        sink.link = await bus.broker.accept_session(
            path, session, peek_lock, sink, connection="c", wait_ticks=0
        )
    sink.link.set_credit(count)
    await bus.settle_down()
    return sink, [one.lock_token for one in sink.deliveries]


def settling(path, outcome):
    async def prepare(bus):
        sink, tokens = await locked(bus, path)
        return sink, lambda: sink.link.settle(tokens[0], outcome, 1)

    return prepare


def completing_a_run(path):
    async def prepare(bus):
        sink, tokens = await locked(bus, path)
        return sink, lambda: sink.link.complete_each(tokens, [1, 2, 3])

    return prepare


async def completing_in_doubt(bus):
    sink, tokens = await locked(bus)
    node = bus.broker.resolve("q")
    node.state.logs[node.sub_queue].owner.doubt(bus.clock.now())
    return sink, lambda: sink.link.settle(tokens[0], complete, 1)


def calling(path, call):
    """One request, one answer."""

    async def prepare(bus):
        _sink, tokens = await locked(bus, path)
        told = Told()

        async def called():
            await call(bus, tokens)
            told.count += 1

        def begin():
            told.task = asyncio.create_task(called())

        return told, begin

    return prepare


def sending(path, *, run):
    async def prepare(bus):
        sink = Told()
        link = bus.broker.open_sender(path, sink)
        made = [message("b", session="one") for _ in range(3)]
        if run:
            return sink, lambda: link.send_each(made, [1, 2, 3], alike=False)
        return sink, lambda: link.send(made, 1)

    return prepare


async def committing(bus, tokens):
    transaction = bus.broker.begin_transaction("c")
    transaction.send("q", [message("b")])
    transaction.settle("q", tokens[0], complete)
    await transaction.commit()


promises = {
    "complete": settling("q", complete),
    "complete, in a session": settling("s", complete),
    "complete, in doubt": completing_in_doubt,
    "complete, a run": completing_a_run("q"),
    "complete, a run in a session": completing_a_run("s"),
    "abandon": settling("q", Abandon()),
    "defer": settling("q", Defer()),
    "dead-letter": settling("q", DeadLetter()),
    "update-disposition": calling("q", lambda bus, t: bus.broker.settle("q", t, complete)),
    "update-disposition of one": calling(
        "q", lambda bus, t: bus.broker.settle("q", t[:1], complete)
    ),
    "send": sending("q", run=False),
    "send, a run": sending("q", run=True),
    "send to a session": sending("s", run=False),
    "send at once": calling("q", lambda bus, _: bus.broker.send("q", [message("b")])),
    "schedule": calling("q", lambda bus, _: bus.broker.schedule("q", [message("b", at=60)])),
    "commit": calling("q", committing),
    "delete a batch": calling("q", lambda bus, _: bus.broker.delete_messages("q", 1, seconds(1))),
    "set a session's state": calling(
        "s", lambda bus, _: bus.broker.set_session_state("s", "one", b"x")
    ),
    "receive and delete": calling(
        "q",
        lambda bus, t: asyncio.gather(
            bus.broker.settle("q", t, release),
            bus.broker.receive("q", receive_and_delete, wait_ticks=seconds(1)),
        ),
    ),
}


@pytest.mark.parametrize("way", promises)
async def test_nobody_is_told_before_it_is_durable(bus, way):
    told, begin = await promises[way](bus)
    bus.engine.commits.clear()
    begin()
    for _ in range(50):
        await asyncio.sleep(0)
    early = told.count
    bus.engine.commits.set()
    await bus.settle_down()
    assert early == 0, f"'{way}' was acknowledged before it was durable"
    assert told.count > 0
