"""Damage of every kind is found, and where there is none, nothing is."""

import msgspec
import pytest

from etagere.kv.contract import Partition
from etagere.kv.tuples import pack
from etagere.services.bus import keys, records

from .harness import Defer, make_bus, message, peek_lock, problems, stores

large = "l" * 40_000


@pytest.fixture
async def bus():
    """Messages of every kind; the store is not checked afterwards."""
    bus = await make_bus()
    await bus.queue(requires_duplicate_detection=True)
    await bus.queue("s", requires_session=True)
    await bus.topic()
    await bus.subscription(name="one")
    await bus.subscription(name="two")
    await bus.subscription(name="three")
    await bus.send(
        message("plain", message_id="1"),
        message("expires", message_id="2", ttl=100),
        message("later", message_id="3", at=1000),
        message(large, message_id="4"),
    )
    await bus.queue("together")
    await bus.send(*[message("one of many") for _ in range(64)], to="together")
    await bus.send(*[message(text, session=text) for text in ("a", "b", "b")], to="s")
    await bus.send(message(large), to="t")
    await bus.session("a", "s")
    await bus.broker.set_session_state("s", "a", b"state")
    receiver = await bus.receiver(mode=peek_lock, credit=1)
    assert await bus.settle(receiver, receiver.deliveries[0], Defer()) is None
    await bus.settle_down()
    assert problems(bus.engine) == []
    stores.remove(bus.engine)
    return bus


async def rows(bus):
    """(partition, key, value) of every row of the bus."""
    found = []
    tx = bus.engine.at_rest()
    for part in list(tx.partitions()):
        found += [(part, *row) for row in await tx.scan(part, b"", b"\xff" * 9, limit=10_000)]
    return found


async def put(bus, part, key, value):
    async def body(tx):
        if value is None:
            tx.delete(part, key)
        else:
            tx.put(part, key, value)

    await bus.engine.write((part,), body)


async def test_every_missing_row_is_noticed(bus):
    seen = set()
    for part, key, value in await rows(bus):
        if key.startswith(b"\xff\xff\xff\xffR"):
            continue  # a subscription may have any number of rules
        await put(bus, part, key, None)
        assert problems(bus.engine), (part, key)
        await put(bus, part, key, value)
        seen.add(key[4:5] if keys.is_whole(key) else key[:1])
    assert problems(bus.engine) == []
    assert seen >= set(map(bytes, zip(b"cmotexhszdwbrS", strict=True)))


async def test_every_row_that_does_not_decode_is_noticed(bus):
    for part, key, value in await rows(bus):
        if keys.is_left_of_pack(key):
            continue  # any bytes say something
        if not keys.is_whole(key) or key[4:5] in b"cmosSR":
            for damaged in (b"", b"\xff" + value[1:], value[:-1]):
                await put(bus, part, key, damaged)
                assert problems(bus.engine), (part, key)
            await put(bus, part, key, value)
    assert problems(bus.engine) == []


async def test_rows_that_should_not_be_there_are_noticed(bus):
    parts = {part for part, key, _ in await rows(bus) if keys.is_whole(key)}
    strays = [
        b"",
        b"\0\0\0\0",
        b"\0\0\0\0q",
        b"\0\0\0\0m12345",
        b"\0\0\0\0x\xff12345678",
        keys.counters(3),
        keys.counters(400),
        keys.due(0, 5, 6),
        keys.expiry(0, 5, 6),
        keys.head(0, 9),
        keys.session(0, "nobody"),
        keys.session_state(0, "nobody"),
        keys.session_message(0, "nobody", 7),
        keys.duplicate(0, b"d" * 16),
        keys.duplicate_age(0, 7, b"d" * 16),
        keys.message(0, 999),
        keys.chunk_of_pack(0, 32 * 31, 0),
        keys.chunk_of_pack(0, 0, 9),
        keys.left_of_pack(0, 32 * 31),
        keys.left_of_pack(0, 33),
        keys.left_of_pack(keys.rests, 32),
        keys.chunk_of_pack(keys.rests, 32, 0),
        keys.message(0, 32) + b"x",
        keys.message(0, 32) + b"xy",
        keys.aside(0, 999),
        keys.rest(0, 999, 0),
        keys.rest(0, 4, 7),
        keys.rest_holders(0, 999),
        keys.subscription("nobody"),
        keys.rule(99, "nobody"),
        b"\xff\xff\xff\xffQ",
        b"\xff\xff\xff\xffS1",
        b"\xff\xff\xff\xfe",
    ]
    for part in sorted(parts):
        for key in strays:
            await put(bus, part, key, b"\x01")
            assert problems(bus.engine), (part, key)
            await put(bus, part, key, None)
        await put(bus, part, keys.rest_holders(0, 4), (7).to_bytes(4, "big"))
        assert problems(bus.engine)
        await put(bus, part, keys.rest_holders(0, 4), None)
    # One part's own rest is shared, and its row was just taken away.
    catalogue = keys.catalogue(bus.broker._core.namespace)
    for key in (pack("entity", "nobody"), pack("entity"), pack("other"), pack("doomed", "x")):
        await put(bus, catalogue, key, b"\x01")
        assert problems(bus.engine)
        await put(bus, catalogue, key, None)
    await put(bus, Partition(pack("bus", "elsewhere", 5)), keys.counters(0), b"\x01")
    assert any("not in the catalogue" in each for each in problems(bus.engine))


async def test_a_pack_and_what_is_left_of_it_must_agree(bus):
    whole = {(part, key): value for part, key, value in await rows(bus)}
    (part, key) = next(place for place in whole if keys.is_left_of_pack(place[1]))
    first = keys.first_number_of(key)
    chunks = whole[part, key][-1:]
    for bits in (b"\0" * 4, b"\xff" * 3, b"\xff" * 5, b"\x7f" + b"\xff" * 3):
        damaged = bits + chunks
        await put(bus, part, key, damaged)
        assert problems(bus.engine), damaged
        await put(bus, part, key, whole[part, key])
    assert problems(bus.engine) == []
    await put(bus, part, keys.message(0, first), records.messages.encode(message_in(whole)))
    assert any("a row of its own" in each for each in problems(bus.engine))


def message_in(whole):
    raw = b"".join(value for (_, key), value in sorted(whole.items()) if keys.is_chunk_of_pack(key))
    return records.packs.decode(raw)[0]


@pytest.mark.parametrize("name", ["active", "deferred", "scheduled", "bytes", "expiring"])
async def test_a_wrong_count_is_noticed(bus, name):
    wrong = 0
    for part, key, value in await rows(bus):
        if keys.is_whole(key) and key[4:5] == b"c":
            counters = records.counters.decode(value)
            changed = msgspec.structs.replace(counters, **{name: getattr(counters, name) + 1})
            await put(bus, part, key, records.counters.encode(changed))
            assert any(f"{name}, but" in each for each in problems(bus.engine))
            await put(bus, part, key, value)
            wrong += 1
    assert wrong >= 15


async def test_numbers_still_to_be_given_are_noticed(bus):
    for part, key, value in await rows(bus):
        if not keys.is_whole(key) or key[4:5] != b"c":
            continue
        counters = records.counters.decode(value)
        if counters.active:
            counters.last_number = 0
            await put(bus, part, key, records.counters.encode(counters))
            assert any("still to be given" in each for each in problems(bus.engine))
            await put(bus, part, key, value)


async def test_what_is_being_swept_away_is_not_damage(bus):
    """A crash in the middle of a deletion leaves rows and a marker; the next start goes on."""
    entities = {
        record.description.name: record
        for part, key, value in await rows(bus)
        if not keys.is_whole(key)
        for record in [records.entities.decode(value)]
    }
    namespace = bus.broker._core.namespace
    catalogue = keys.catalogue(namespace)
    queue, topic = entities["q"], entities["t"]
    await put(bus, catalogue, keys.entity_record("q"), None)
    assert problems(bus.engine)
    await put(bus, catalogue, keys.doomed(queue.id), b"")
    assert problems(bus.engine) == []
    part = keys.entity(namespace, topic.id)
    await put(bus, part, keys.subscription("two"), None)
    await put(bus, part, keys.rule(2, "$default"), None)
    assert problems(bus.engine)
    await put(bus, catalogue, keys.doomed_node(topic.id, 2), b"")
    for index in range(3):
        await put(bus, part, keys.counters(2 * keys.logs_per_node + index), None)
    assert problems(bus.engine) == []
    await bus.restart()
    await bus.settle_down()
    assert problems(bus.engine) == []
