"""Whole runs from one seed: clients at random, a store that fails commits, crashes, a moving clock.

A store may fail a commit before it is durable or after it (nobody can tell which), and the broker
may be killed at any moment.  What everybody saw is recorded, and checked as it happens and at the
end: no acknowledged message is lost, none is held twice at once, none is delivered after it was
completed, numbers have no gaps and no repeats, sessions are in order and one receiver's at a time,
and transactions happen whole or not at all.
"""

import asyncio
import random

import pytest

from etagere.base.errors import Refused
from etagere.kv.contract import StoreClosed, StoreFailed
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import QueueDescription
from etagere.services.bus.messages import MessageState

from .harness import (
    Abandon,
    Defer,
    HandClock,
    Receiving,
    SeededEntropy,
    body_of,
    codec,
    complete,
    make_bus,
    message,
    peek_lock,
    receive_and_delete,
    release,
    seconds,
    start,
    stores,
)

lost = ("com.microsoft:message-lock-lost", "com.microsoft:session-lock-lost")


answers_seconds_max = 5
"""Everything is over by then: the clock is the simulation's own."""


class FlakyStore:
    """Fault points of the engine: commits fail now and then, before or after they happened, and so
    do readings."""

    def __init__(self, chance):
        self.chance = chance
        self.enabled = False
        self.failures = 0
        self.random = random.Random(1)

    def reach(self, point, subject=""):
        if self.enabled and self.random.random() < self.chance:
            self.failures += 1
            raise StoreFailed(point)


class Mortal:
    """The engine as one process sees it: gone for it once it is killed."""

    def __init__(self, engine, faults):
        self.engine = engine
        self.faults = faults
        self.limits = engine.limits
        self.killed = False
        self.in_flight = 0

    async def read(self, body):
        if self.killed:
            raise StoreClosed
        self.faults.reach("read")
        return await self.engine.read(body)

    async def write(self, parts, body):
        if self.killed:
            raise StoreClosed
        self.in_flight += 1
        try:
            result = await self.engine.write(parts, body)
        finally:
            self.in_flight -= 1
        if self.killed:
            raise StoreClosed
        return result


class Fate:
    """What is known of one message."""

    def __init__(self, body, session=None):
        self.body = body
        self.session = session
        self.acknowledged = False
        self.number = None
        self.holder = None
        self.until = 0
        self.settling = None
        self.completed = False
        """Somebody was told so."""
        self.may_be_gone = False
        """Somebody tried to complete it, and was not told that it failed for sure."""
        self.doubt = False
        """A settlement of the present lock ended with an error of the store."""
        self.deferred = False

    @property
    def is_held(self):
        return self.holder is not None and not self.holder.dead


class Client:
    """A receiver's sink in a simulation."""

    def __init__(self, run, session=None):
        self.run = run
        self.session = session
        self.dead = False
        self.link = None
        self.held = {}
        self.drained_once = False

    def deliver(self, delivery):
        if not self.dead:
            self.run.watch(self.run.delivered, self, delivery)

    def deliver_run(self, run):
        for delivery in run.each():
            self.deliver(delivery)

    def drained(self):
        self.drained_once = True

    def settled(self, ticket, refusal):
        if not self.dead:
            self.run.watch(self.run.settled, self, ticket, refusal)

    def completed_each(self, tickets, refusal):
        for ticket in tickets:
            self.settled(ticket, refusal)

    def detached(self, refusal):
        if self.dead:
            return
        assert refusal.code in lost or refusal.code == "com.microsoft:container-close"
        self.run.forget(self)

    def settle(self, fate, outcome):
        token = self.held[fate]
        fate.settling = outcome
        if outcome is complete:
            fate.may_be_gone = True
        self.link.settle(token, outcome, (fate, token))

    def complete_each(self, fates):
        for fate in fates:
            fate.settling = complete
            fate.may_be_gone = True
        tickets = [(fate, self.held[fate]) for fate in fates]
        self.link.complete_each([token for _, token in tickets], tickets)


class Sender:
    """A sender's sink in a simulation; its tickets are fates."""

    def sent(self, fate, refusal):
        if refusal is None:
            fate.acknowledged = True
        else:
            assert refusal.code == "amqp:internal-error"

    def sent_each(self, fates, refusal):
        for fate in fates:
            self.sent(fate, refusal)

    def detached(self, refusal):
        assert refusal.code == "com.microsoft:container-close"


class Simulation:
    def __init__(self, seed, *, sessions, chance, crashes, schedules=True):
        self.random = random.Random(seed)
        self.clock = HandClock()
        self.faults = FlakyStore(chance)
        self.faults.random.seed(seed + 1)
        self.store = MemoryEngine(self.clock, faults=self.faults)
        stores.append(self.store)
        self.entropy = SeededEntropy(seed)
        self.sessions = sessions
        self.crashes = crashes
        self.schedules = schedules
        self.fates = {}
        self.numbers = {}
        self.clients = []
        self.made = 0
        self.answered = 0
        self.last_done = {}
        self.tasks = set()
        self.transactions = []
        self.violations = []

    async def start(self):
        self.engine = Mortal(self.store, self.faults)
        self.broker = await Broker.open(self.engine, self.clock, self.entropy, codec)

    async def crash(self):
        for client in list(self.clients):
            self.forget(client)
        for fate in self.fates.values():
            fate.holder = None
        old = self.engine
        old.killed = True
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        while old.in_flight:  # noqa: ASYNC110 - commits under way happen, or not, before the end
            await asyncio.sleep(0)
        enabled, self.faults.enabled = self.faults.enabled, False
        await self.start()
        self.faults.enabled = enabled

    def spawn(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.violations.append(task.exception())

    # ---- what clients see

    def watch(self, see, *arguments):
        """Callbacks must not raise: what is wrong is kept for the end of the step."""
        try:
            see(*arguments)
        except AssertionError as violation:
            self.violations.append(violation)

    def delivered(self, client, delivery):
        body = body_of(delivery)
        fate = self.fates[body]
        assert not fate.completed, f"{body} was delivered after it was completed"
        if fate.is_held and fate.until > self.clock.time:
            # Its holder has given it up, and only does not know yet that this is durable.
            twice = f"{body} is locked by two receivers at once"
            assert fate.settling is not None, twice
            assert fate.settling is not complete, twice
        self.numbered(fate, delivery.sequence_number)
        if client.session is not None:
            assert delivery.session_id == fate.session == client.session
            self.check_order(fate)
        if delivery.lock_token is None:
            fate.completed = fate.may_be_gone = True
            fate.holder = None
            return
        if fate.holder is not None:
            fate.holder.held.pop(fate, None)
        fate.holder = client
        fate.until = delivery.locked_until
        fate.settling = None
        fate.doubt = False
        client.held[fate] = delivery.lock_token

    def numbered(self, fate, number):
        """A number is one message's for ever, and an active message has one number."""
        self.given(number, fate.body)
        assert fate.number in (None, number), f"{fate.body} has two numbers"
        fate.number = number

    def given(self, number, to):
        first = self.numbers.setdefault(number, to)
        assert first == to, f"the number {number} was given twice: to {first} and to {to}"

    def check_order(self, fate):
        """Everything before it in its session is done with, or held by this very receiver."""
        for other in self.fates.values():
            if (
                other.session == fate.session
                and other is not fate
                and other.number is not None
                and other.number < fate.number
            ):
                assert other.may_be_gone or other.deferred or other.is_held, (
                    f"{fate.body} came before {other.body}"
                )

    def settled(self, client, ticket, refusal):
        fate, token = ticket
        assert client.held.get(fate) == token, "an answer came after the next delivery"
        outcome, fate.settling = fate.settling, None
        if refusal is None:
            client.held.pop(fate, None)
            if fate.holder is client:
                fate.holder = None
            if outcome is complete:
                fate.completed = True
            elif isinstance(outcome, Defer):
                fate.deferred = True
            return
        if refusal.code in lost:
            over = fate.holder is not client or fate.until <= self.clock.time
            assert over or fate.doubt, f"the lock of {fate.body} was lost for no reason"
            client.held.pop(fate, None)
            if fate.holder is client:
                fate.holder = None
        else:
            assert refusal.code == "amqp:internal-error"
            fate.doubt = True

    def forget(self, client):
        client.dead = True
        if client in self.clients:
            self.clients.remove(client)
        for fate in client.held:
            if fate.holder is client:
                fate.holder = None

    # ---- what clients do

    async def step(self):
        action = self.random.choices(
            [
                self.send,
                self.send_run,
                self.open,
                self.settle_some,
                self.give_credit,
                self.close_one,
                self.pass_time,
                self.transact,
                self.browse,
                self.send_later,
                self.crash,
            ],
            [20, 10, 6, 40, 20, 4, 4, 6, 10, 4 * self.schedules, 0.5 if self.crashes else 0],
        )[0]
        result = action()
        if asyncio.iscoroutine(result):
            await result
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)
        if self.violations:
            raise self.violations[0]

    def new_fate(self):
        self.made += 1
        session = self.random.choice("abc") if self.sessions else None
        fate = self.fates[f"m{self.made}"] = Fate(f"m{self.made}", session)
        return fate

    def send(self):
        fates = [self.new_fate() for _ in range(self.random.choice([1, 1, 1, 3]))]
        self.spawn(self.sending(fates))

    def send_run(self):
        link = self.broker.open_sender("q", Sender())
        fates = [self.new_fate() for _ in range(self.random.randrange(1, 6))]
        messages = [message(fate.body, session=fate.session) for fate in fates]
        link.send_each(messages, fates, alike=not self.sessions)

    async def sending(self, fates):
        try:
            await self.broker.send("q", [message(f.body, session=f.session) for f in fates])
        except Refused as refusal:
            assert refusal.code == "amqp:internal-error"  # noqa: PT017
            return
        for fate in fates:
            fate.acknowledged = True

    def browse(self):
        """Whoever looks at everything remembers whose number is whose."""
        self.spawn(self.browsing())

    async def browsing(self):
        try:
            found = await self.broker.peek("q", 1, 1000)
        except (StoreClosed, StoreFailed):
            return
        for delivery in found:
            body = body_of(delivery)
            if delivery.state is MessageState.scheduled:
                self.given(delivery.sequence_number, body)
            else:
                self.numbered(self.fates[body], delivery.sequence_number)

    def send_later(self):
        self.spawn(self.scheduling(self.new_fate()))

    async def scheduling(self, fate):
        """It is scheduled under one number, and active under another one."""
        at = (self.clock.time - start) / seconds(1) + self.random.choice([1, 5, 60])
        try:
            (number,) = await self.broker.schedule(
                "q", [message(fate.body, session=fate.session, at=at)]
            )
        except Refused as refusal:
            assert refusal.code == "amqp:internal-error"  # noqa: PT017
            return
        self.given(number, fate.body)
        fate.acknowledged = True

    def open(self):
        if len(self.clients) >= 5:
            return
        if self.sessions:
            self.spawn(self.accepting(self.random.choice(["a", "b", "c", None, None])))
            return
        client = Client(self)
        # What is between the store and the wire when the process dies, receive-and-delete loses.
        deletes = not self.crashes and self.random.random() < 0.15
        mode = receive_and_delete if deletes else peek_lock
        client.link = self.broker.open_receiver("q", mode, client, connection=client)
        self.clients.append(client)

    async def accepting(self, session):
        client = Client(self)
        try:
            client.link = await self.broker.accept_session(
                "q", session, peek_lock, client, connection=client, wait_ticks=seconds(5)
            )
        except Refused as refusal:
            assert refusal.code in (  # noqa: PT017
                "com.microsoft:timeout",
                "com.microsoft:session-cannot-be-locked",
                "com.microsoft:session-lock-lost",  # as soon as it was granted
            )
            return
        client.session = client.link.session_id
        rivals = [other for other in self.clients if other.session == client.session]
        assert not rivals, f"session {client.session} is held by two receivers at once"
        self.clients.append(client)

    def give_credit(self):
        if self.clients:
            client = self.random.choice(self.clients)
            client.link.set_credit(self.random.randrange(8), drain=self.random.random() < 0.2)

    def settle_some(self):
        holders = [client for client in self.clients if client.held]
        if not holders:
            return
        client = self.random.choice(holders)
        some = self.random.sample(list(client.held), min(len(client.held), 3))
        some = [fate for fate in some if fate.settling is None and fate.holder is client]
        if some and self.random.random() < 0.4:
            client.complete_each(some)
            return
        for fate in some:
            outcomes = [complete, complete, complete, release, Abandon()]
            client.settle(fate, self.random.choice(outcomes))

    def close_one(self):
        if not self.clients:
            return
        client = self.random.choice(self.clients)
        broken = self.random.random() < 0.5
        if not broken and not self.sessions:
            # Its locks go on without it; it hears of nothing any more.
            client.dead = True
            self.clients.remove(client)
            for fate in client.held:
                if fate.holder is client:
                    fate.holder = Ghost()
        else:
            self.forget(client)
        client.link.close(broken=broken)

    async def pass_time(self):
        self.clock.time += seconds(self.random.choice([0.1, 1, 20, 45]))
        self.broker.tick(self.clock.now())
        for _ in range(20):
            await asyncio.sleep(0)
            due = self.broker.next_due()
            if due is not None and due <= self.clock.time:
                self.broker.tick(self.clock.now())

    def transact(self):
        """Complete one message and send another, as one."""
        holders = [client for client in self.clients if client.held]
        if not holders:
            return
        client = self.random.choice(holders)
        fate = self.random.choice(list(client.held))
        if fate.settling is not None or fate.holder is not client:
            return
        transaction = self.broker.begin_transaction(client)
        token = client.held[fate]
        try:
            transaction.settle("q", token, complete)
        except Refused as refusal:
            assert refusal.code in lost  # noqa: PT017
            transaction.rollback()
            return
        fate.settling = complete
        self.spawn(self.transacting(transaction, client, token, fate, self.new_fate()))

    async def transacting(self, transaction, client, token, fate, successor):
        transaction.send("q", [message(successor.body, session=successor.session)])
        record = [fate, successor, "unknown"]
        self.transactions.append(record)
        before = fate.may_be_gone
        fate.may_be_gone = True
        until, fate.until = fate.until, fate.until + seconds(120)
        try:
            await transaction.commit()
        except Refused as refusal:
            fate.until = until
            if refusal.code in lost:
                record[2] = "refused"
                fate.may_be_gone = before
                client.held.pop(fate, None)
                fate.settling = None
            else:
                fate.doubt = True
                fate.settling = None
            return
        record[2] = "committed"
        successor.acknowledged = True
        self.settled(client, (fate, token), None)

    # ---- the end

    async def finish(self):
        self.faults.enabled = False
        for client in list(self.clients):
            self.forget(client)
            client.link.close(broken=True)
        for _ in range(5):
            self.clock.time += seconds(70)
            await self.broker.catch_up()
        if self.tasks:
            _, waiting = await asyncio.wait(self.tasks, timeout=answers_seconds_max)
            calls = sorted(task.get_coro().__name__ for task in waiting)
            assert not calls, f"nobody ever answered {calls}"
        if self.violations:
            raise self.violations[0]
        left = await self.everything_left("q")
        buried = await self.everything_left("q/$DeadLetterQueue")
        for delivery in left:
            fate = self.fates[body_of(delivery)]
            assert not fate.completed, f"{fate.body} is there after it was completed"
            self.numbered(fate, delivery.sequence_number)
        bodies = [body_of(one) for one in left + buried]
        assert len(set(bodies)) == len(bodies), "a message is there twice"
        there = set(bodies)
        for fate in self.fates.values():
            if fate.acknowledged and not fate.may_be_gone:
                assert fate.body in there, f"{fate.body} was acknowledged, and is lost"
        last = self.broker.resolve("q").state.target.log
        last_number = self.broker._core.catalogue.logs[last].counters.last_number
        assert max(self.numbers, default=0) <= last_number
        for fate, successor, outcome in self.transactions:
            happened = successor.body in there or successor.number is not None
            if outcome == "committed":
                assert happened
                assert fate.body not in there
            elif outcome == "refused":
                assert not happened
        counters = self.broker.administration.get("q")
        assert counters.counts.active == len(left)
        assert counters.counts.dead_letter == len(buried)
        if not self.sessions:
            await self.receive_everything([one.sequence_number for one in left])
        return there

    async def receive_everything(self, numbers):
        """Nothing stays locked, whatever failed."""
        sink = Receiving()
        sink.link = self.broker.open_receiver("q", peek_lock, sink, connection=sink)
        sink.link.set_credit(len(numbers) + 1, drain=True)
        await self.broker.catch_up()
        assert [one.sequence_number for one in sink.deliveries] == numbers

    async def everything_left(self, path):
        found, first = [], 0
        while True:
            page = await self.broker.peek(path, first, 100)
            if not page:
                return found
            found.extend(page)
            first = page[-1].sequence_number + 1


class Ghost:
    """Holds the locks of a receiver that closed in an orderly way."""

    dead = False

    def __init__(self):
        self.held = {}


async def simulate(seed, *, sessions, chance, crashes, schedules=True, steps=400):
    simulation = Simulation(
        seed, sessions=sessions, chance=chance, crashes=crashes, schedules=schedules
    )
    await simulation.start()
    await simulation.broker.administration.create(
        QueueDescription(name="q", requires_session=sessions, max_delivery_count=20)
    )
    simulation.faults.enabled = True
    for _ in range(steps):
        await simulation.step()
    await simulation.finish()
    return simulation


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sessions", [False, True])
@pytest.mark.parametrize("crashes", [False, True])
async def test_with_a_store_that_fails(seed, sessions, crashes):
    simulation = await simulate(seed, sessions=sessions, chance=0.05, crashes=crashes)
    assert simulation.faults.failures
    assert any(fate.completed for fate in simulation.fates.values())


@pytest.mark.parametrize("seed", range(100, 104))
@pytest.mark.parametrize("sessions", [False, True])
async def test_every_number_belongs_to_one_message(seed, sessions):
    # What becomes active while nobody looks has had a number that nobody saw.
    simulation = await simulate(seed, sessions=sessions, chance=0.0, crashes=True, schedules=False)
    log = simulation.broker.resolve("q").state.target.log
    last = simulation.broker._core.catalogue.logs[log].counters.last_number
    assert sorted(simulation.numbers) == list(range(1, last + 1))


@pytest.mark.parametrize("seed", range(6))
async def test_a_publish_is_everywhere_or_nowhere_though_the_store_fails(seed):
    """Fan-out, an action, forwarding and dead-lettering are one step, whatever fails."""
    rng = random.Random(seed)
    bus = await make_bus(faults=(faults := FlakyStore(0.3)))
    await bus.topic()
    await bus.queue("end")
    await bus.subscription(name="one")
    await bus.subscription(name="forwards", forward_to="end")
    await bus.subscription(name="sessions", requires_session=True)
    faults.enabled = True
    acknowledged = set()

    async def publish(body):
        try:
            await bus.broker.send("t", [message(f"{body}.1"), message(f"{body}.2")])
        except Refused as refusal:
            assert refusal.code == "amqp:internal-error"  # noqa: PT017
        else:
            acknowledged.update((f"{body}.1", f"{body}.2"))

    publishing = []
    for number in range(60):
        publishing.append(asyncio.create_task(publish(number)))
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
    await asyncio.gather(*publishing)
    faults.enabled = False
    await bus.broker.idle()
    places = [
        [body_of(x) for x in await bus.peek(path, count=1000)]
        for path in (
            "t/subscriptions/one",
            "end",
            "t/subscriptions/sessions/$DeadLetterQueue",
        )
    ]
    assert places[0] == places[1] == places[2]
    assert len(set(places[0])) == len(places[0])
    assert acknowledged <= set(places[0])
    assert faults.failures
    bodies = set(places[0])
    assert all((f"{n}.1" in bodies) is (f"{n}.2" in bodies) for n in range(60))
    one = bus.counts("t/subscriptions/one")
    assert one.active == len(bodies)
