"""A broker on a strict store in memory, with a clock that is moved by hand, and plain clients."""

import asyncio
import random
import uuid
from collections import deque

import pytest

from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.runner import run
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.values import Described, ULong
from etagere.services.bus.broker import Broker
from etagere.services.bus.check import BusChecker
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
)
from etagere.services.bus.messages import (
    Abandon,
    DeadLetter,
    Defer,
    Message,
    ReceiveMode,
    complete,
    release,
)
from etagere.services.bus.rules import default_rule
from etagere.services.bus.sections import AmqpSections

peek_lock = ReceiveMode.peek_lock
receive_and_delete = ReceiveMode.receive_and_delete
start = Timestamp(1_700_000_000 * 10_000_000)
codec = AmqpSections()


class HandClock:
    def __init__(self):
        self.time = start

    def now(self):
        return Timestamp(self.time)


class SeededEntropy:
    def __init__(self, seed=0):
        self._random = random.Random(seed)

    def token(self, size):
        return self._random.randbytes(size)

    def uuid(self):
        return str(uuid.UUID(bytes=self.token(16)))


def section(code, value):
    return encode(Described(ULong(code), value))


def message(
    body="b",
    *,
    message_id=None,
    session=None,
    subject=None,
    properties=None,
    ttl=None,
    at=None,
    partition_key=None,
    correlation_id=None,
    to=None,
):
    """A message as a frontend would hand it in; `ttl` and `at` in seconds."""
    fields = [message_id, None, to, subject, None, correlation_id, None, None, None, None, session]
    while fields and fields[-1] is None:
        fields.pop()
    tail = b""
    if fields:
        tail += section(0x73, fields)
    if properties:
        tail += section(0x74, properties)
    tail += section(0x75, body.encode() if isinstance(body, str) else body)
    return Message(
        tail,
        len(tail),
        ttl_ms=None if ttl is None else int(ttl * 1000),
        scheduled_at=None if at is None else Timestamp(start + seconds(at)),
        partition_key=partition_key,
    )


def body_of(delivery):
    """The body of a message made by `message`."""
    at = codec.headers_bytes(delivery.tail)
    from etagere.protocols.amqp.decoding import decode

    return decode(delivery.tail, at)[0].value.decode()


def properties_of(delivery):
    return dict(codec.application_properties(delivery.tail))


class Receiving:
    """A receiver's sink that keeps what it is given."""

    def __init__(self):
        self.deliveries = deque()
        self.drains = 0
        self.answers = {}
        self.refusal = None
        self.link = None

    def deliver(self, delivery):
        self.deliveries.append(delivery)

    def deliver_run(self, run):
        for delivery in run.each():
            self.deliver(delivery)

    def drained(self):
        self.drains += 1

    def settled(self, ticket, refusal):
        self.answers[ticket] = refusal

    def completed_each(self, tickets, refusal):
        for ticket in tickets:
            self.settled(ticket, refusal)

    def detached(self, refusal):
        self.refusal = refusal

    @property
    def bodies(self):
        return [body_of(delivery) for delivery in self.deliveries]


class Sending:
    def __init__(self):
        self.answers = {}
        self.order = []
        self.refusal = None

    def sent(self, ticket, refusal):
        assert ticket not in self.answers
        self.answers[ticket] = refusal
        self.order.append(ticket)

    def sent_each(self, tickets, refusal):
        for ticket in tickets:
            self.sent(ticket, refusal)

    def detached(self, refusal):
        self.refusal = refusal


class Bus:
    """A broker and what its tests say most often."""

    def __init__(self, engine, clock, entropy, tier):
        self.engine = engine
        self.clock = clock
        self.entropy = entropy
        self.tier = tier
        self.broker = None
        self._tickets = 0

    async def start(self):
        self.broker = await Broker.open(
            self.engine, self.clock, self.entropy, codec, tier=self.tier
        )
        return self

    async def restart(self):
        """As after a crash: nothing of the old broker is told."""
        await self.broker.idle()
        return await self.start()

    # ---- time

    async def settle_down(self):
        await self.broker.catch_up()

    async def pass_seconds(self, count):
        """Move the clock, stopping wherever something is due."""
        for _ in range(5):  # tasks that were just made reach the broker first
            await asyncio.sleep(0)
        target = self.clock.time + seconds(count)
        await self.broker.idle()
        while (due := self.broker.next_due()) is not None and due <= target:
            self.clock.time = max(self.clock.time, due)
            await self.broker.catch_up()
        self.clock.time = target
        await self.broker.catch_up()

    # ---- entities

    async def queue(self, name="q", **properties):
        return await self.broker.administration.create(QueueDescription(name=name, **properties))

    async def topic(self, name="t", **properties):
        return await self.broker.administration.create(TopicDescription(name=name, **properties))

    async def subscription(self, topic="t", name="s", rule=default_rule, **properties):
        return await self.broker.administration.create_subscription(
            topic, SubscriptionDescription(name=name, **properties), rule
        )

    def counts(self, path="q"):
        return self.broker.administration.get(path).counts

    # ---- messages

    async def send(self, *messages, to="q"):
        """Over a link, where plain messages that come together are stored together."""
        made = [message(one) if isinstance(one, str) else one for one in messages]
        sink = Sending()
        self.broker.open_sender(to, sink).send(made, 0)
        await self.settle_down()
        if sink.answers[0] is not None:
            raise sink.answers[0]

    async def receiver(self, path="q", mode=peek_lock, credit=0, connection="c"):
        sink = Receiving()
        sink.link = self.broker.open_receiver(path, mode, sink, connection=connection)
        if credit:
            sink.link.set_credit(credit)
        await self.settle_down()
        return sink

    async def session(self, session_id, path="q", mode=peek_lock, credit=0, wait=0):
        sink = Receiving()
        accepting = asyncio.create_task(
            self.broker.accept_session(
                path, session_id, mode, sink, connection="c", wait_ticks=seconds(wait)
            )
        )
        await self.settle_down()
        sink.link = await accepting
        if credit:
            sink.link.set_credit(credit)
        await self.settle_down()
        return sink

    async def settle(self, sink, delivery, outcome):
        """The refusal, or None."""
        self._tickets += 1
        ticket = self._tickets
        sink.link.settle(delivery.lock_token, outcome, ticket)
        await self.settle_down()
        return sink.answers.pop(ticket)

    async def receive(self, path="q", mode=peek_lock, wait=0):
        delivery = await self.broker.receive(path, mode, wait_ticks=seconds(wait))
        await self.settle_down()
        return delivery

    async def drain(self, path="q"):
        """Receive and delete everything there is."""
        out = []
        while (delivery := await self.receive(path, receive_and_delete)) is not None:
            out.append(delivery)
        return out

    async def peek(self, path="q", first=0, count=100, **more):
        return await self.broker.peek(path, first, count, **more)


stores = []
"""Those that the running test has made; what must hold of each is checked after it."""


def problems(store):
    """What `etagere check` would say of the bus."""
    return [str(finding) for finding in run(BusChecker().check, store.at_rest())]


async def make_bus(*, tier=Tier.standard, seed=0, clock=None, **engine_options):
    clock = clock or HandClock()
    engine = MemoryEngine(clock, **engine_options)
    stores.append(engine)
    return await Bus(engine, clock, SeededEntropy(seed), tier).start()


def refused(call, code):
    with pytest.raises(Refused) as refusal:
        call()
    assert refusal.value.code == code


async def refused_async(awaitable, code):
    with pytest.raises(Refused) as refusal:
        await awaitable
    assert refusal.value.code == code


__all__ = [
    "Abandon",
    "Bus",
    "DeadLetter",
    "Defer",
    "HandClock",
    "Receiving",
    "SeededEntropy",
    "Sending",
    "body_of",
    "complete",
    "make_bus",
    "message",
    "peek_lock",
    "problems",
    "properties_of",
    "receive_and_delete",
    "refused",
    "refused_async",
    "release",
    "seconds",
    "start",
    "stores",
]
