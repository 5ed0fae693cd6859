"""Transactions over coordinator links (AMQP 1.0 part 4; Service Bus, transaction processing)."""

import uuid
from typing import Any

import pytest
from asking import Node, root_login
from bus_server import Bus
from raw_amqp import RawClient, data_message

from etagere.base.clock import seconds
from etagere.protocols.amqp.composites import composite_value
from etagere.protocols.amqp.outcomes import (
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Rejected,
    Source,
    TransactionalState,
    accepted,
)
from etagere.protocols.amqp.performatives import Attach, Begin, Detach, Disposition, Transfer
from etagere.protocols.amqp.sections import section
from etagere.protocols.amqp.values import Array, Symbol, Uuid
from etagere.services.bus.descriptions import QueueDescription

coordinator = 9


@pytest.fixture
async def client(bus: Bus) -> Any:
    for name in ("q", "other"):
        await bus.broker.administration.create(QueueDescription(name=name))
    client = await RawClient.open(bus.port, login=root_login)
    yield client
    client.hang_up()


async def control(client: RawClient) -> None:
    """A coordinator link on a session of its own."""
    target = Coordinator(None)
    client.say(Begin(None, 0, 100, 100), channel=1)
    await client.until(Begin)
    client.say(Attach("tx", coordinator, False, 0, 0, Source(), target), channel=1)
    attach = await client.expect(Attach)
    assert attach.target == target


async def say(client: RawClient, wish: Any) -> Any:
    """To the coordinator; the outcome."""
    number = client._delivery_id
    client._delivery_id += 1
    transfer = Transfer(coordinator, number, b"t", 0, False)
    client.say(transfer, section(0x77, composite_value(wish)), channel=1)
    outcome = await client.expect(Disposition)
    assert (outcome.first, outcome.settled) == (number, True)
    return outcome.state


async def declare(client: RawClient) -> bytes:
    state = await say(client, Declare())
    assert isinstance(state, Declared)
    assert 0 < len(state.transaction_id) <= 32
    return state.transaction_id


async def count(bus: Bus, name: str = "q") -> int:
    return len(await bus.broker.peek(name, 1, 100))


async def send_within(client: RawClient, transaction_id: bytes) -> Any:
    client.transfer(data_message(), state=TransactionalState(transaction_id))
    outcome = await client.expect(Disposition)
    assert outcome.settled
    return outcome.state


@pytest.mark.parametrize("fail", [False, True])
async def test_sends_and_settlements_together(bus: Bus, client: RawClient, fail: bool) -> None:
    await control(client)
    await client.attach("q", handle=0)
    await client.send_accepted(data_message(b"first"))
    await client.attach("q", handle=1, receiver=True, rcv_settle_mode=1)
    client.credit(1, handle=1)
    transfer = await client.receive()
    transaction_id = await declare(client)
    within = TransactionalState(transaction_id, accepted)
    assert await send_within(client, transaction_id) == within
    assert transfer.delivery_id is not None
    client.say(Disposition(True, transfer.delivery_id, None, False, within))
    answer = await client.expect(Disposition)
    assert (answer.role, answer.settled, answer.state) == (False, True, within)
    assert await count(bus) == 1
    assert await say(client, Discharge(transaction_id, fail)) == accepted
    assert await count(bus) == 1
    bodies = [delivery.tail for delivery in await bus.broker.peek("q", 1, 10)]
    assert (b"first" in bodies[0]) is fail
    state = await say(client, Discharge(transaction_id))
    assert state.error.condition == "amqp:transaction:unknown-id"


async def test_dead_lettering_is_answered_without_its_error(bus: Bus, client: RawClient) -> None:
    """As it is outside: an error would mean that it failed."""
    await control(client)
    await client.attach("q")
    await client.send_accepted(data_message())
    await client.attach("q", handle=1, receiver=True, rcv_settle_mode=1)
    client.credit(1, handle=1)
    number = (await client.receive()).delivery_id
    assert number is not None
    transaction_id = await declare(client)
    wish = Rejected(Error(Symbol("com.microsoft:dead-letter"), None, {}))
    within = TransactionalState(transaction_id, wish)
    client.say(Disposition(True, number, None, False, within))
    outcome = await client.expect(Disposition)
    assert outcome.state == TransactionalState(transaction_id, Rejected())
    assert await say(client, Discharge(transaction_id, False)) == accepted
    assert await count(bus, "q/$DeadLetterQueue") == 1


async def test_unknown_transactions(client: RawClient) -> None:
    await control(client)
    state = await say(client, Discharge(b"nothing"))
    assert state.error.condition == "amqp:transaction:unknown-id"
    await client.attach("q")
    assert (await send_within(client, b"nothing")).error.condition == "amqp:transaction:unknown-id"


async def test_one_entity_only(bus: Bus, client: RawClient) -> None:
    await control(client)
    await client.attach("q", handle=0)
    await client.attach("other", handle=1)
    transaction_id = await declare(client)
    await send_within(client, transaction_id)
    client.transfer(data_message(), handle=1, state=TransactionalState(transaction_id))
    state: Any = (await client.expect(Disposition)).state
    assert state.error.condition == "amqp:not-allowed"
    assert await say(client, Discharge(transaction_id)) == accepted
    assert (await count(bus), await count(bus, "other")) == (1, 0)


async def test_losing_the_coordinator_rolls_back(bus: Bus, client: RawClient) -> None:
    await control(client)
    await client.attach("q")
    transaction_id = await declare(client)
    await send_within(client, transaction_id)
    client.say(Detach(coordinator, True), channel=1)
    await client.expect(Detach)
    state = await send_within(client, transaction_id)
    assert state.error.condition == "amqp:transaction:unknown-id"
    assert await count(bus) == 0


async def test_losing_the_connection_rolls_back(bus: Bus, client: RawClient) -> None:
    await control(client)
    await client.attach("q")
    await send_within(client, await declare(client))
    client.writer.transport.abort()
    other = await RawClient.open(bus.port, login=root_login)
    await other.attach("q")
    await other.send_accepted(data_message())
    assert await count(bus) == 1
    other.hang_up()


async def test_scheduling_within(bus: Bus, client: RawClient) -> None:
    await control(client)
    node = await Node.open(client, "q/$management", handles=(3, 4))
    transaction_id = await declare(client)
    node.ask(
        {"operation": "com.microsoft:schedule-message"},
        {"messages": [{"message": data_message()}]},
        fields={"state": TransactionalState(transaction_id)},
    )
    answer = await node.answer()
    assert answer.application["statusCode"] == 200
    assert await count(bus) == 0
    assert await say(client, Discharge(transaction_id)) == accepted
    assert await count(bus) == 1


async def test_one_request_settles_all_of_its_messages_or_none(bus: Bus, client: RawClient) -> None:
    await control(client)
    await client.attach("q")
    await client.send_accepted(data_message())
    await client.attach("q", handle=1, receiver=True, rcv_settle_mode=1)
    client.credit(1, handle=1)
    tag = (await client.receive()).delivery_tag
    assert tag is not None
    token = Uuid(uuid.UUID(bytes_le=tag).bytes)
    node = await Node.open(client, "q/$management", handles=(3, 4))
    for tokens, status in (([token, Uuid(bytes(16))], 410), ([token], 200)):
        # In another transaction each time: what the first enlisted, the second could not have.
        node.ask(
            {"operation": "com.microsoft:update-disposition"},
            {"disposition-status": "completed", "lock-tokens": Array(Uuid, tuple(tokens))},
            fields={"state": TransactionalState(await declare(client))},
        )
        assert (await node.answer()).application["statusCode"] == status


async def test_a_hundred_messages_and_two_minutes(bus: Bus, client: RawClient) -> None:
    await control(client)
    await client.attach("q")
    transaction_id = await declare(client)
    within = TransactionalState(transaction_id, accepted)
    assert [await send_within(client, transaction_id) for _ in range(100)] == [within] * 100
    refused = await send_within(client, transaction_id)
    assert refused.error.condition == "amqp:resource-limit-exceeded"
    bus.clock.advance(seconds(80))  # it goes on by itself, too
    assert await say(client, Discharge(transaction_id)) == accepted
    assert await count(bus) == 100
    late = await declare(client)
    await send_within(client, late)
    bus.clock.advance(seconds(120.1))
    refused = await say(client, Discharge(late))
    assert refused.error.condition == "amqp:transaction:unknown-id"
    assert await count(bus) == 100


async def test_what_is_no_wish(client: RawClient) -> None:
    await control(client)
    for number, payload in enumerate((section(0x77, "x"), section(0x75, b"x"), b"junk")):
        transfer = Transfer(coordinator, 100 + number, b"t", 0, False)
        client.say(transfer, payload, channel=1)
        outcome: Any = (await client.expect(Disposition)).state
        assert outcome.error.condition == "amqp:decode-error"
    state = await say(client, Declare(b"global"))
    assert state.error.condition == "amqp:not-implemented"
