"""A long queue costs what a short one costs: counted in rows read and in messages held."""

import asyncio

import pytest

from etagere.kv.engines.lmdb import LmdbEngine
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import QueueDescription
from etagere.services.bus.window import loaded_messages_max, window_messages_max

from .harness import (
    HandClock,
    Receiving,
    SeededEntropy,
    Sending,
    codec,
    complete,
    message,
    peek_lock,
    release,
    seconds,
)

backlog = 50_000


class Counting:
    """The engine, with the rows that its readers were given counted."""

    def __init__(self, engine):
        self.engine = engine
        self.limits = engine.limits
        self.rows = 0

    async def read(self, body):
        return await self.engine.read(lambda tx: body(CountingTx(tx, self)))

    async def write(self, parts, body):
        return await self.engine.write(parts, body)


class CountingTx:
    def __init__(self, tx, counts):
        self.tx = tx
        self.now = tx.now
        self.counts = counts

    async def get(self, part, key):
        self.counts.rows += 1
        return await self.tx.get(part, key)

    async def scan(self, part, begin, end, *, limit, reverse=False):
        rows = await self.tx.scan(part, begin, end, limit=limit, reverse=reverse)
        self.counts.rows += len(rows)
        return rows


async def until(condition):
    while not condition():  # noqa: ASYNC110 - the store's thread is what it waits for
        await asyncio.sleep(0.001)


async def filled(engine, clock, count=backlog, **properties):
    broker = await Broker.open(engine, clock, SeededEntropy(), codec)
    await broker.administration.create(QueueDescription(name="q", **properties))
    sink = Sending()
    sender = broker.open_sender("q", sink)
    sessions = properties.get("requires_session")
    for number in range(0, count, 100):
        batch = [
            message(str(n), session=f"s{n % 1000}" if sessions else None)
            for n in range(number, number + 100)
        ]
        sender.send(batch, number)
    await until(lambda: len(sink.answers) == count // 100)
    assert set(sink.answers.values()) == {None}
    await broker.close()


def held_in_memory(broker):
    stream = broker.resolve("q").state.logs
    return sum(len(state.owner.stream.window) for state in stream.values() if state.owner)


@pytest.mark.slow
async def test_the_first_of_a_long_queue_is_there_at_once(tmp_path):
    clock = HandClock()
    engine = LmdbEngine.open(tmp_path, clock=clock, durability="relaxed")
    await filled(engine, clock)
    counting = Counting(engine)
    broker = await Broker.open(counting, clock, SeededEntropy(1), codec)
    assert counting.rows < 50, "opening reads no messages"
    sink = Receiving()
    sink.link = broker.open_receiver("q", peek_lock, sink, connection="c")
    counting.rows = 0
    sink.link.set_credit(1)
    await until(lambda: sink.deliveries)
    assert sink.deliveries[0].sequence_number == 1
    assert counting.rows <= window_messages_max
    # Ever more credit reads ever on, and holds no more than a load brings.
    for _ in range(20):
        taken = len(sink.deliveries)
        sink.link.set_credit(100)
        await until(lambda taken=taken: len(sink.deliveries) == taken + 100)
        assert held_in_memory(broker) <= loaded_messages_max
    assert counting.rows <= 2001 + loaded_messages_max
    assert [one.sequence_number for one in sink.deliveries] == list(range(1, 2002))
    # What comes back from far behind is read by its number.
    counting.rows = 0
    sink.link.settle(sink.deliveries[0].lock_token, complete, 1)
    for one in list(sink.deliveries)[1:6]:
        sink.link.settle(one.lock_token, release, 2)
    sink.deliveries.clear()
    sink.link.set_credit(5)
    await until(lambda: len(sink.deliveries) == 5)
    assert [one.sequence_number for one in sink.deliveries] == [2, 3, 4, 5, 6]
    assert counting.rows <= 32
    await until(lambda: 1 in sink.answers)
    assert broker.administration.get("q").counts.active == backlog - 1
    sink.link.close(broken=False)
    await until(lambda: held_in_memory(broker) == 0)
    await broker.close()
    await engine.close()


@pytest.mark.slow
async def test_peeking_deferring_and_sessions_in_a_long_queue(tmp_path):
    clock = HandClock()
    engine = LmdbEngine.open(tmp_path, clock=clock, durability="relaxed")
    await filled(engine, clock, 20_000, requires_session=True)
    counting = Counting(engine)
    broker = await Broker.open(counting, clock, SeededEntropy(1), codec)
    counting.rows = 0
    sink = Receiving()
    sink.link = await broker.accept_session(
        "q", None, peek_lock, sink, connection="c", wait_ticks=seconds(1)
    )
    assert sink.link.session_id == "s0"
    sink.link.set_credit(20)
    await until(lambda: len(sink.deliveries) == 20)
    assert [one.sequence_number for one in sink.deliveries] == list(range(1, 20_000, 1000))
    assert counting.rows < 200
    counting.rows = 0
    found = await broker.peek("q", 15_000, 3)
    assert [one.sequence_number for one in found] == [15_000, 15_001, 15_002]
    assert counting.rows <= 10
    counting.rows = 0
    other = await broker.accept_session(
        "q", None, peek_lock, Receiving(), connection="c", wait_ticks=seconds(1)
    )
    assert other.session_id == "s1"
    assert counting.rows < 70
    await broker.close()
    await engine.close()
