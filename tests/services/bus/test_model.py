"""The broker beside the model: whatever clients do in whatever order, both agree.

The store is the strict one (every transaction's body runs twice), the clock is virtual, and what
the broker holds is compared with the model after every step.
"""

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from etagere.base.errors import Refused

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
    release,
    seconds,
    start,
)
from .model import Queue, State

pick = st.integers(0, 1_000_000)
some_seconds = st.sampled_from([0.5, 1, 5, 10, 30, 59, 60, 61, 120, 700])


class Machine(RuleBasedStateMachine):
    """What queues with and without sessions have in common."""

    properties = {}

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.bodies = 0

    def run(self, work):
        return self.loop.run_until_complete(work)

    def call(self, function, *arguments, **more):
        """From inside the loop, as a frontend would."""

        async def called():
            return function(*arguments, **more)

        return self.run(called())

    @initialize(window=st.sampled_from([None, 30]), buried=st.booleans())
    def begin(self, window, buried):
        self.bus = self.run(make_bus())
        more = {}
        if window is not None:
            more = {"requires_duplicate_detection": True, "duplicate_window": seconds(window)}
        self.run(
            self.bus.queue(
                dead_letter_on_expiration=buried, max_delivery_count=3, **more, **self.properties
            )
        )
        self.model = Queue(
            self.bus.clock.time,
            failures_max=3,
            expired_are_buried=buried,
            window=None if window is None else seconds(window),
        )

    def teardown(self):
        if hasattr(self, "bus"):
            self.run(self.bus.broker.close())
        self.loop.close()

    def new_body(self):
        self.bodies += 1
        return f"m{self.bodies}"

    def send_one(self, *, session=None, ttl=None, late=None, message_id=None):
        body = self.new_body()
        due = None if late is None else self.bus.clock.time + seconds(late)
        at = None if due is None else (due - start) / 10_000_000
        self.run(
            self.bus.send(message(body, session=session, ttl=ttl, at=at, message_id=message_id))
        )
        self.model.send(body, ttl=ttl, due=due, message_id=message_id, session=session)

    @rule(count=some_seconds)
    def time_passes(self, count):
        self.run(self.bus.pass_seconds(count))
        self.model.advance(self.bus.clock.time)
        self.time_has_passed()

    def time_has_passed(self):
        pass

    def outcome(self, one, kind):
        model = self.model
        match kind:
            case "complete":
                model.remove(one)
                return complete
            case "release":
                model.give_back(one)
                return release
            case "abandon":
                model.fail(one)
                return Abandon()
            case "defer":
                model.defer(one)
                return Defer()
            case "bury":
                model.bury(one, "r")
                return DeadLetter("r")

    @invariant()
    def agree(self):
        if not hasattr(self, "bus"):
            return
        found = self.run(self.bus.peek())
        assert [(x.sequence_number, body_of(x), int(x.state)) for x in found] == (
            self.model.listing()
        )
        assert [x.delivery_count for x in found] == [
            one.count for _, one in sorted(self.model.kept.items())
        ]
        buried = self.run(self.bus.peek("q/$DeadLetterQueue"))
        assert sorted((body_of(x), properties_of(x)["DeadLetterReason"]) for x in buried) == (
            sorted((one.body, one.reason) for one in self.model.buried)
        )
        assert [x.sequence_number for x in buried] == list(range(1, len(buried) + 1))
        counts = self.bus.counts()
        states = [one.state for one in self.model.kept.values()]
        assert counts.scheduled == states.count(State.scheduled)
        assert counts.active == len(states) - counts.scheduled
        assert counts.dead_letter == len(self.model.buried)
        size = self.bus.broker.administration.get("q").size_bytes
        assert size == sum(x.size for x in self.sizes(found + buried))

    def sizes(self, deliveries):
        class Sized:
            def __init__(self, delivery):
                self.size = len(delivery.tail)

        return [Sized(one) for one in deliveries]

    @rule()
    def restarts(self):
        self.run(self.bus.restart())
        self.model.restart()
        self.run(self.bus.settle_down())
        self.has_restarted()

    def has_restarted(self):
        pass


class QueueMachine(Machine):
    @rule(
        ttl=st.sampled_from([None, None, 10, 45]),
        late=st.sampled_from([None, None, 20]),
        message_id=st.sampled_from([None, "a", "b"]),
    )
    def send(self, ttl, late, message_id):
        self.send_one(ttl=ttl, late=late, message_id=message_id)

    @rule()
    def receive(self):
        delivery = self.run(self.bus.receive())
        available = self.model.available()
        if not available:
            assert delivery is None
            return
        one = available[0]
        assert (delivery.sequence_number, body_of(delivery), delivery.delivery_count) == (
            one.number,
            one.body,
            one.count,
        )
        assert delivery.locked_until == self.model.now + self.model.lock
        self.model.take(one, delivery.lock_token)

    @rule()
    def receive_and_delete_one(self):
        delivery = self.run(self.bus.receive(mode=receive_and_delete))
        available = self.model.available()
        if not available:
            assert delivery is None
        else:
            assert body_of(delivery) == available[0].body
            self.model.remove(available[0])

    @precondition(lambda self: hasattr(self, "model") and self.model.held())
    @rule(which=pick, kind=st.sampled_from(["complete", "release", "abandon", "defer", "bury"]))
    def settle(self, which, kind):
        held = self.model.held()
        one = held[which % len(held)]
        token = one.token
        self.run(self.bus.broker.settle("q", [token], self.outcome(one, kind)))
        self.run(self.bus.settle_down())
        try:
            self.run(self.bus.broker.settle("q", [token], complete))
        except Refused as refusal:
            assert refusal.code == "com.microsoft:message-lock-lost"  # noqa: PT017
        else:
            raise AssertionError("settled twice")

    @precondition(lambda self: hasattr(self, "model") and self.model.held())
    @rule(which=pick)
    def renew(self, which):
        held = self.model.held()
        one = held[which % len(held)]
        (until,) = self.run(self.bus.broker.renew_locks("q", [one.token]))
        one.until = self.model.now + self.model.lock
        assert until == one.until

    @precondition(lambda self: hasattr(self, "model") and self.model.kept)
    @rule(which=pick, mode=st.sampled_from([peek_lock, receive_and_delete]))
    def receive_deferred(self, which, mode):
        numbers = sorted(self.model.kept)
        one = self.model.kept[numbers[which % len(numbers)]]
        try:
            (delivery,) = self.run(self.bus.broker.receive_deferred("q", [one.number], mode))
        except Refused as refusal:
            assert refusal.code == "com.microsoft:message-not-found"  # noqa: PT017
            assert one.locked or one.state is not State.deferred
            return
        assert one.state is State.deferred
        assert not one.locked
        if mode is peek_lock:
            self.model.take(one, delivery.lock_token)
        else:
            self.model.remove(one)

    @precondition(lambda self: hasattr(self, "model") and self.model.kept)
    @rule(which=pick)
    def cancel_scheduled(self, which):
        numbers = sorted(self.model.kept)
        one = self.model.kept[numbers[which % len(numbers)]]
        try:
            self.run(self.bus.broker.cancel_scheduled("q", [one.number]))
        except Refused:
            assert one.state is not State.scheduled
        else:
            assert one.state is State.scheduled
            self.model.remove(one)

    @rule(count=st.integers(1, 3))
    def delete_batch(self, count):
        deleted = self.run(self.bus.broker.delete_messages("q", count, self.bus.clock.time + 1))
        chosen = self.model.available()[:count]
        assert deleted == len(chosen)
        for one in chosen:
            self.model.remove(one)

    @rule(first=pick, kinds=st.lists(st.sampled_from(["complete", "abandon", "bury"]), max_size=3),
          commits=st.booleans())  # fmt: skip
    def transaction(self, first, kinds, commits):
        transaction = self.call(self.bus.broker.begin_transaction, "c")
        held = self.model.held()
        chosen = held[first % (len(held) + 1) :][: len(kinds)]
        body = self.new_body()
        self.call(transaction.send, "q", [message(body)])
        plan = list(zip(chosen, kinds, strict=False))
        outcomes = {"complete": complete, "abandon": Abandon(), "bury": DeadLetter("r")}
        for one, kind in plan:
            self.call(transaction.settle, "q", one.token, outcomes[kind])
        if not commits:
            self.call(transaction.rollback)
            self.run(self.bus.settle_down())
            return
        self.run(transaction.commit())
        self.model.send(body)
        for one, kind in plan:
            self.outcome(one, kind)
        self.run(self.bus.settle_down())


class SessionMachine(Machine):
    properties = {"requires_session": True}

    def __init__(self):
        super().__init__()
        self.sinks = {}
        self.states = {}

    @rule(
        session=st.sampled_from("abc"),
        ttl=st.sampled_from([None, None, 45]),
        late=st.sampled_from([None, None, 20]),
    )
    def send(self, session, ttl, late):
        self.send_one(session=session, ttl=ttl, late=late)

    @rule(session=st.sampled_from([*"abc", None]))
    def accept(self, session):
        expected, code = session, None
        if session is None:
            firsts = {
                name: available[0].number
                for name in "abc"
                if name not in self.sinks and (available := self.model.available(name))
            }
            expected = min(firsts, key=firsts.get, default=None)
            code = None if expected else "com.microsoft:timeout"
        elif session in self.sinks:
            code = "com.microsoft:session-cannot-be-locked"
        try:
            sink = self.run(self.bus.session(session))
        except Refused as refusal:
            assert refusal.code == code  # noqa: PT017
            return
        assert code is None
        assert sink.link.session_id == expected
        assert sink.link.locked_until == self.model.now + self.model.lock
        sink.until = sink.link.locked_until
        self.sinks[expected] = sink

    @precondition(lambda self: self.sinks)
    @rule(which=pick, credit=st.integers(1, 3))
    def receive(self, which, credit):
        name = sorted(self.sinks)[which % len(self.sinks)]
        sink = self.sinks[name]
        sink.deliveries.clear()
        self.call(sink.link.set_credit, credit, drain=True)
        self.run(self.bus.settle_down())
        expected = self.model.available(name)[:credit]
        assert sink.bodies == [one.body for one in expected]
        for one, delivery in zip(expected, sink.deliveries, strict=True):
            assert delivery.delivery_count == one.count
            assert delivery.locked_until == sink.until
            self.model.take(one, delivery.lock_token, until=sink.until)

    @precondition(lambda self: hasattr(self, "model") and self.model.held())
    @rule(which=pick, kind=st.sampled_from(["complete", "release", "abandon", "defer", "bury"]))
    def settle(self, which, kind):
        held = self.model.held()
        one = held[which % len(held)]
        sink = self.sinks[one.session]
        self.call(sink.link.settle, one.token, self.outcome(one, kind), 1)
        self.run(self.bus.settle_down())
        assert sink.answers.pop(1) is None

    @precondition(lambda self: self.sinks)
    @rule(which=pick)
    def renew(self, which):
        name = sorted(self.sinks)[which % len(self.sinks)]
        sink = self.sinks[name]
        sink.until = self.run(self.bus.broker.renew_session("q", name))
        assert sink.until == self.model.now + self.model.lock
        for one in self.model.held():
            if one.session == name:
                one.until = sink.until

    @precondition(lambda self: self.sinks)
    @rule(which=pick, broken=st.booleans())
    def close(self, which, broken):
        name = sorted(self.sinks)[which % len(self.sinks)]
        self.call(self.sinks.pop(name).link.close, broken=broken)
        self.run(self.bus.settle_down())
        for one in self.model.held():
            if one.session == name:
                self.model.give_back(one)
        self.run(self.bus.settle_down())

    @precondition(lambda self: self.sinks)
    @rule(which=pick, value=st.sampled_from([None, b"", b"x", b"y" * 50]))
    def set_state(self, which, value):
        name = sorted(self.sinks)[which % len(self.sinks)]
        self.run(self.bus.broker.set_session_state("q", name, value))
        self.states[name] = value

    @precondition(lambda self: self.sinks)
    @rule(which=pick)
    def get_state(self, which):
        name = sorted(self.sinks)[which % len(self.sinks)]
        found = self.run(self.bus.broker.session_state("q", name))
        assert found == self.states.get(name)

    @precondition(lambda self: self.sinks)
    @rule(which=pick, mode=st.sampled_from([peek_lock, receive_and_delete]))
    def receive_deferred(self, which, mode):
        name = sorted(self.sinks)[which % len(self.sinks)]
        mine = [
            one
            for one in self.model.kept.values()
            if one.session == name and one.state is State.deferred and not one.locked
        ]
        if not mine:
            return
        one = mine[which % len(mine)]
        (delivery,) = self.run(
            self.bus.broker.receive_deferred("q", [one.number], mode, session_id=name)
        )
        if mode is peek_lock:
            self.model.take(one, delivery.lock_token, until=self.sinks[name].until)
        else:
            self.model.remove(one)

    def time_has_passed(self):
        for name, sink in list(self.sinks.items()):
            over = sink.until <= self.bus.clock.time
            assert (sink.refusal is not None) is over
            if over:
                assert sink.refusal.code == "com.microsoft:session-lock-lost"
                del self.sinks[name]

    def has_restarted(self):
        self.sinks.clear()

    def sizes(self, deliveries):
        class Sized:
            def __init__(self, size):
                self.size = size

        states = [Sized(len(value)) for value in self.states.values() if value]
        return super().sizes(deliveries) + states


small = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueue = QueueMachine.TestCase
TestQueue.settings = small
TestSessions = SessionMachine.TestCase
TestSessions.settings = small
