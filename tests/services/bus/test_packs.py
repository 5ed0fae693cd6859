"""Messages in packs against a dictionary: whatever happens to them, they are found as before."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.kv.contract import DamagedRecord, Partition
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.tuples import pack
from etagere.services.bus import browsing, keys, packs
from etagere.services.bus.ledger import Ledger, Log
from etagere.services.bus.records import LogCounters, StoredMessage, counters

from .harness import (
    Abandon,
    DeadLetter,
    Defer,
    HandClock,
    body_of,
    complete,
    make_bus,
    message,
    peek_lock,
    problems,
    release,
)

part = Partition(pack("bus", "n", 1))
block = packs.block_messages


def stored(size=10, body=b"b"):
    return StoredMessage(body, b"", b"", b"", size, 1, 0, 0, 0, None, None)


class Model:
    """One log in the store, and what should be in it."""

    def __init__(self):
        self.engine = MemoryEngine(HandClock())
        self.log = Log(part, 0)
        self.messages = {}
        self.erased = {}
        self.last = 0

    async def write(self, change):
        async def body(tx):
            ledger = Ledger(tx)
            opened = await ledger.open(self.log)
            await change(ledger, opened)
            ledger.finish()

        await self.engine.write((part,), body)

    async def start(self):
        async def body(tx):
            tx.put(part, keys.counters(0), counters.encode(LogCounters()))

        await self.engine.write((part,), body)

    async def append(self, count, size):
        new = [stored(size, b"%d" % (self.last + n + 1)) for n in range(count)]

        async def change(ledger, opened):
            ledger.append_run(opened, new, expire=False)

        await self.write(change)
        for one in new:
            self.last += 1
            self.messages[self.last] = one

    async def erase(self, numbers):
        gone = {number: self.messages.pop(number) for number in numbers}
        self.erased |= gone

        async def change(ledger, opened):
            await ledger.erase_run(opened, numbers, sum(m.size for m in gone.values()), [])

        await self.write(change)

    async def put_back(self, number):
        self.messages[number] = self.erased.pop(number)

        async def change(ledger, _opened):
            await ledger.put_back(self.log, number, self.messages[number])

        await self.write(change)

    async def rewrite(self, number):
        old = self.messages[number]
        self.messages[number] = new = stored(old.size, old.tail + b"+")

        async def change(ledger, _opened):
            await ledger.rewrite(self.log, number, new)

        await self.write(change)

    async def check(self, limit, first):
        async def body(tx):
            seen, after, all_read = [], 0, False
            while not all_read:
                rows, all_read = await browsing.load(tx, self.log, after, limit)
                assert len(rows) <= limit
                assert rows or all_read
                seen += rows
                after = rows[-1][0] if rows else after
            assert seen == sorted(self.messages.items())
            for number in range(1, self.last + 1):
                found = await browsing.fetch(tx, self.log, [number])
                there = self.messages.get(number)
                assert found == ([] if there is None else [(number, there)])
            peeked = await browsing.peek(tx, self.log, first, limit, 10**9, None)
            assert (
                peeked == [row for row in sorted(self.messages.items()) if row[0] >= first][:limit]
            )
            counted = counters.decode(await tx.get(part, keys.counters(0)))
            assert counted.active == len(self.messages)
            assert counted.bytes == sum(one.size for one in self.messages.values())
            if not self.messages:
                begin, end = keys.log_range(0)
                assert len(await tx.scan(part, begin, end, limit=2)) == 1  # the counters

        await self.engine.read(body)


@given(data=st.data())
@settings(max_examples=60)
def test_what_is_in_packs_is_found_changed_and_forgotten_as_if_it_had_a_row(data):
    async def scenario():
        model = Model()
        await model.start()
        for _ in range(data.draw(st.integers(1, 8))):
            there, erased = sorted(model.messages), sorted(model.erased)
            choices = ["append"] + ["erase", "rewrite"] * bool(there) + ["put_back"] * bool(erased)
            match data.draw(st.sampled_from(choices)):
                case "append":
                    sizes = st.sampled_from([10, 10, packs.pack_bytes_max // block + 1])
                    await model.append(data.draw(st.integers(1, 3 * block)), data.draw(sizes))
                case "erase":
                    first = data.draw(st.integers(0, len(there) - 1))
                    run = there[first : first + data.draw(st.integers(1, 3 * block))]
                    if data.draw(st.booleans()):  # some of them, in any order
                        some = st.lists(st.sampled_from(run), min_size=1, unique=True)
                        run = data.draw(some)
                    await model.erase(run)
                case "rewrite":
                    await model.rewrite(data.draw(st.sampled_from(there)))
                case "put_back":
                    await model.put_back(data.draw(st.sampled_from(erased)))
            await model.check(data.draw(st.integers(1, 100)), data.draw(st.integers(0, 200)))
        await model.erase(sorted(model.messages)) if model.messages else None
        await model.check(10, 0)

    asyncio.run(scenario())


@given(
    numbers=st.lists(st.integers(1, 2**63 - 1) | st.integers(1, 200), min_size=1, unique=True)
    | st.builds(lambda first, count: list(range(first, first + count)), *[st.integers(1, 300)] * 2)
)
def test_numbers_are_sorted_into_blocks(numbers):
    found = packs.by_block(numbers)
    assert sorted(numbers) == sorted(
        first + at for first, bits in found.items() for at in range(block) if bits >> at & 1
    )
    assert all(0 < bits < 1 << block for bits in found.values())


async def kinds(bus):
    """How many rows there are of each kind in the queue's own log: of what is left of packs as l,
    of their chunks as p."""
    tx = bus.engine.at_rest()
    found = {}
    for each in tx.partitions():
        for key, _ in await tx.scan(each, *keys.log_range(0), limit=10_000):
            is_left, is_chunk = keys.is_left_of_pack(key), keys.is_chunk_of_pack(key)
            kind = b"l" if is_left else b"p" if is_chunk else key[4:5]
            found[kind] = found.get(kind, 0) + 1
    return found


async def sent(count=4 * block):
    """A broker with so many messages in a queue, that came at one go."""
    bus = await make_bus()
    await bus.queue(max_delivery_count=2)
    await bus.send(*[message(str(number)) for number in range(1, count + 1)])
    return bus


async def test_packs_with_little_left_in_them():
    blocks = 12
    bus = await sent(blocks * block)
    receiver = await bus.receiver(mode=peek_lock, credit=blocks * block)
    deferred = blocks * block - 1
    left = {*range(block, blocks * block, block), deferred}
    for delivery in list(receiver.deliveries):
        number = delivery.sequence_number
        if number == deferred:
            receiver.link.settle(delivery.lock_token, Defer(), None)
        elif number not in left:
            receiver.link.settle(delivery.lock_token, complete, None)
    await bus.settle_down()
    assert await kinds(bus) == {b"c": 1, b"p": blocks - 1, b"l": blocks - 1, b"o": 1}
    for count in (1, 2, 33, 40, 64, 100):
        peeked = await bus.peek(count=count)
        assert [each.sequence_number for each in peeked] == sorted(left)[:count]
    receiver.link.close(broken=True)
    await bus.settle_down()
    again = await bus.receiver(mode=peek_lock, credit=100)
    assert [each.sequence_number for each in again.deliveries] == sorted(left - {deferred})


async def test_messages_sent_together_lie_together():
    bus = await sent()
    # Numbers begin with 1: the first block is not whole, and the last has one message.
    assert await kinds(bus) == {b"c": 1, b"p": 3, b"l": 3, b"m": block}
    bus = await sent(2 * block + packs.pack_messages_min - 1)
    assert await kinds(bus) == {b"c": 1, b"p": 2, b"l": 2, b"m": block - 1}


async def test_a_chunk_is_a_page_long():
    bus = await make_bus()
    await bus.queue()
    await bus.send(*[message("x" * 1000) for _ in range(2 * block - 1)])
    found = await kinds(bus)
    assert found.pop(b"p") == -(-block * 1000 // packs.chunk_bytes) + 1
    assert found == {b"c": 1, b"l": 1, b"m": block - 1}


async def test_long_messages_do_not():
    bus = await make_bus()
    await bus.queue()
    long = "x" * (packs.pack_bytes_max // block)
    await bus.send(*[message(long) for _ in range(2 * block)])
    assert await kinds(bus) == {b"c": 1, b"m": 2 * block}


async def test_messages_whose_rests_lie_elsewhere_are_loaded_many_at_once():
    bus = await make_bus()
    await bus.queue()
    count = 2 * browsing.loaded_rows_at_once
    await bus.send(*[message("x" * 33_000) for _ in range(3)])
    for _ in range(count // 4):
        await bus.send(*[message("x" * 33_000) for _ in range(4)])
    tx = bus.engine.at_rest()
    (home,) = [each for each in tx.partitions() if await tx.get(each, keys.message(0, 1))]
    rows, all_read = await bus.engine.read(lambda tx: browsing.load(tx, Log(home, 0), 0, count))
    assert (len(rows), all_read) == (count, False)
    assert all(one.rest is not None and not one.tail for _, one in rows)


@pytest.mark.parametrize("restart", [False, True])
async def test_every_way_out_of_a_pack(restart):
    count = 4 * block
    bus = await sent(count)
    if restart:
        await bus.restart()
    receiver = await bus.receiver(mode=peek_lock, credit=count)
    ways = [complete, release, Abandon(), Defer(), DeadLetter("because")]
    deliveries = list(receiver.deliveries)
    assert [body_of(each) for each in deliveries] == [str(n + 1) for n in range(count)]
    receiver.link.set_credit(0)
    for number, delivery in enumerate(deliveries):
        assert await bus.settle(receiver, delivery, ways[number % len(ways)]) is None
    assert problems(bus.engine) == []
    # What was completed is gone; released and abandoned ones come again, in their order.
    bodies = {str(n + 1): n % len(ways) for n in range(count)}
    again = await bus.drain()
    assert [body_of(each) for each in again] == [b for b, way in bodies.items() if way in (1, 2)]
    dead = await bus.drain("q/$deadletterqueue")
    assert [body_of(each) for each in dead] == [b for b, way in bodies.items() if way == 4]
    peeked = await bus.peek(count=count)
    assert [body_of(each) for each in peeked] == [b for b, way in bodies.items() if way == 3]
    assert set(await kinds(bus)) == {b"c", b"o"}


async def test_damage_is_refused_and_found():
    bus = await sent()
    tx = bus.engine.at_rest()
    (home,) = [each for each in tx.partitions() if await tx.get(each, keys.left_of_pack(0, block))]
    key = keys.chunk_of_pack(0, block, 0)
    whole = await tx.get(home, key)
    for damaged in (None, whole[:-1], b""):

        async def damage(tx, damaged=damaged):
            if damaged is None:
                tx.delete(home, key)
            else:
                tx.put(home, key, damaged)

        await bus.engine.write((home,), damage)
        assert problems(bus.engine)
        with pytest.raises(DamagedRecord):
            await bus.engine.read(lambda tx: packs.load(tx, home, 0, 0, 100))

    async def mend(tx):
        tx.put(home, key, whole)

    await bus.engine.write((home,), mend)
    assert problems(bus.engine) == []
