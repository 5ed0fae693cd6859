"""A sequence number belongs to one message of its entity for ever, whichever way the message came
(Service Bus, message sequencing and timestamps: numbers are unique and gap-free, and rise)."""

import pytest

from .harness import (
    Abandon,
    DeadLetter,
    body_of,
    make_bus,
    message,
    receive_and_delete,
    seconds,
    start,
)


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.queue()
    await bus.queue("s", requires_session=True)
    await bus.queue("detecting", requires_duplicate_detection=True)
    await bus.queue("end")
    await bus.queue("start", forward_to="end")
    await bus.topic()
    await bus.subscription()
    await bus.subscription(name="sessions", requires_session=True)
    return bus


def new(body, **more):
    return message(body, session="one", message_id=body, **more)


async def at_once(bus, path, bodies):
    await bus.send(*(new(body) for body in bodies), to=path)


async def one_by_one(bus, path, bodies):
    for body in bodies:
        await bus.send(new(body), to=path)


async def in_a_transaction(bus, path, bodies):
    transaction = bus.broker.begin_transaction("c")
    for body in bodies:
        transaction.send(path, [new(body)])
    await transaction.commit()
    await bus.settle_down()


async def later(bus, path, bodies):
    at = (bus.clock.time - start) / seconds(1) + 5
    await bus.broker.schedule(path, [new(body, at=at) for body in bodies])
    await look(bus, path)
    await bus.pass_seconds(6)


async def later_in_a_transaction(bus, path, bodies):
    at = (bus.clock.time - start) / seconds(1) + 5
    transaction = bus.broker.begin_transaction("c")
    await transaction.schedule(path, [new(body, at=at) for body in bodies])
    await transaction.commit()
    await bus.pass_seconds(6)


ways = (at_once, one_by_one, in_a_transaction, later, later_in_a_transaction)
places = {
    "q": ("q",),
    "s": ("s",),
    "detecting": ("detecting",),
    "start": ("end",),
    "t": ("t/subscriptions/s", "t/subscriptions/sessions"),
}


async def look(bus, path):
    return [] if path in ("t", "start") else await bus.peek(path)


@pytest.mark.parametrize("path", places)
async def test_no_number_is_given_twice(bus, path):
    """With messages there, with all of them gone, and after a restart."""
    owners = {place: {} for place in places[path]}

    async def remember():
        for place, owner in owners.items():
            numbers = []
            for found in await bus.peek(place):
                number, body = found.sequence_number, body_of(found)
                assert owner.setdefault(number, body) == body, f"{number} was given twice"
                numbers.append(number)
            assert numbers == sorted(numbers)
            assert not numbers or numbers[-1] == max(owner), "numbers do not rise"

    made = 0
    for _ in range(2):
        for way in ways:
            for _ in range(2):
                bodies = [f"m{made + n}" for n in range(3)]
                made += 3
                await way(bus, path, bodies)
                await remember()
            for place in places[path]:
                await empty(bus, place)
        await bus.restart()
    for owner in owners.values():
        assert len(set(owner.values())) == made


async def empty(bus, place):
    if place in ("s", "t/subscriptions/sessions"):
        sink = await bus.session("one", place, mode=receive_and_delete, credit=100)
        sink.link.close(broken=False)
        await bus.settle_down()
    else:
        await bus.drain(place)
    assert not await bus.peek(place)


async def test_what_comes_back_keeps_its_number_and_a_dead_letter_gets_one(bus):
    await bus.send("a", "b")
    receiver = await bus.receiver(credit=2)
    first, second = receiver.deliveries
    await bus.settle(receiver, first, Abandon())
    await bus.settle(receiver, second, DeadLetter())
    await bus.send("c")
    assert [(x.sequence_number, body_of(x)) for x in await bus.peek()] == [(1, "a"), (3, "c")]
    (buried,) = await bus.peek("q/$DeadLetterQueue")
    assert (buried.sequence_number, buried.enqueued_sequence_number) == (1, 2)
