"""Nothing is acknowledged on the wire before it is durable (Service Bus, message transfers, locks,
and settlement)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asking import Node, root_login
from bus_server import Bus
from raw_amqp import RawClient, data_message, frame

from etagere.kv.engines.memory import MemoryEngine
from etagere.protocols.amqp.composites import composite_value
from etagere.protocols.amqp.outcomes import (
    Coordinator,
    Declare,
    Discharge,
    Error,
    Modified,
    Rejected,
    Source,
    TransactionalState,
    accepted,
)
from etagere.protocols.amqp.performatives import Attach, Disposition, Transfer
from etagere.protocols.amqp.sections import section
from etagere.protocols.amqp.values import Array, Symbol, Uuid
from etagere.services.bus.descriptions import QueueDescription

session_filter = Symbol("com.microsoft:session-filter")
coordinator = 9
Act = Callable[[RawClient, Node], Any]


@pytest.fixture
async def commits(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Event]:
    """While it is not set, no commit goes on."""
    going = asyncio.Event()
    going.set()
    write = MemoryEngine.write

    async def later(self: MemoryEngine, *arguments: Any) -> Any:
        await going.wait()
        return await write(self, *arguments)

    monkeypatch.setattr(MemoryEngine, "write", later)
    yield going
    going.set()  # the broker finishes what is under way


async def ready(bus: Bus, path: str) -> tuple[RawClient, Node]:
    """Three messages locked, as deliveries 0 to 2; room to send, and a transaction begun."""
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach(path, handle=1)
    for number in range(3):
        await client.send_accepted(data_message(group_id="one", message_id=str(number)), handle=1)
    source = Source(path, filter={session_filter: "one"} if path == "s" else None)
    await client.attach(path, receiver=True, rcv_settle_mode=1, source=source)
    node = await Node.open(client, f"{path}/$management", handles=(3, 4))
    client.say(Attach("tx", coordinator, False, 0, 0, Source(), Coordinator(None)))
    await client.until(Attach)
    client.credit(3)
    for _ in range(3):
        await client.until(Transfer)
    return client, node


def settling(state: Any, last: int = 0) -> Act:
    return lambda client, _: client.say(Disposition(True, 0, last, False, state))


def sending(**properties: Any) -> Act:
    def send(client: RawClient, _: Node) -> None:
        """All in one piece, and alike, as clients with many to send have it."""
        said = b""
        for number in range(300, 306):
            payload = data_message(message_id=f"more-{number}", **properties)
            said += frame(Transfer(1, number, number.to_bytes(4), 0, False), payload=payload)
        client.raw(said)

    return send


def asking(operation: str, body: dict[str, Any]) -> Act:
    return lambda _, node: node.ask({"operation": f"com.microsoft:{operation}"}, body)


ways: dict[str, Act] = {
    "complete": settling(accepted),
    "complete three": settling(accepted, 2),
    "abandon": settling(Modified(delivery_failed=True)),
    "defer": settling(Modified(undeliverable_here=True)),
    "dead-letter": settling(Rejected(Error(Symbol("com.microsoft:dead-letter"), None, {}))),
    "send": sending(),
    "send to a session": sending(group_id="one"),
}
in_sessions = set(ways) - {"send"}


@pytest.mark.parametrize(
    ("path", "way"),
    [("q", way) for way in ways] + [("s", way) for way in ways if way in in_sessions],
)
async def test_a_disposition_comes_after_the_commit(
    bus: Bus, commits: asyncio.Event, path: str, way: str
) -> None:
    for name in ("q", "s"):
        await bus.broker.administration.create(
            QueueDescription(name=name, requires_session=name == "s")
        )
    client, node = await ready(bus, path)
    commits.clear()
    ways[way](client, node)
    assert await heard_within(client, 0.05) is None, f"'{way}' was answered before it was durable"
    commits.set()
    outcome = await client.until(Disposition)
    assert outcome.settled
    assert not isinstance(outcome.state, Rejected) or outcome.state.error is None
    client.hang_up()


async def test_a_commit_is_answered_after_it(bus: Bus, commits: asyncio.Event) -> None:
    await bus.broker.administration.create(QueueDescription(name="q"))
    client, _ = await ready(bus, "q")

    def control(wish: Any) -> None:
        client.transfer(section(0x77, composite_value(wish)), handle=coordinator)

    control(Declare())
    declared: Any = (await client.until(Disposition)).state
    within = TransactionalState(declared.transaction_id, accepted)
    client.say(Disposition(True, 0, 2, False, within))
    assert (await client.until(Disposition)).state == within
    commits.clear()
    control(Discharge(declared.transaction_id, fail=False))
    assert await heard_within(client, 0.05) is None, "a commit was answered before it was durable"
    commits.set()
    assert (await client.until(Disposition)).state == accepted
    client.hang_up()


async def test_an_answer_of_management_comes_after_the_commit(
    bus: Bus, commits: asyncio.Event
) -> None:
    await bus.broker.administration.create(QueueDescription(name="q"))
    client, node = await ready(bus, "q")
    commits.clear()
    asking("schedule-message", {"messages": [{"message": data_message()}]})(client, node)
    asking("cancel-scheduled-message", {"sequence-numbers": Array(int, (9,))})(client, node)
    asking(
        "update-disposition",
        {"disposition-status": "completed", "lock-tokens": Array(Uuid, (Uuid(bytes(16)),))},
    )(client, node)
    refused = await node.answer()  # what is refused needs no commit
    assert refused.application["statusCode"] == 410
    assert await heard_within(client, 0.05) is None, "management answered before it was durable"
    commits.set()
    statuses = {int((await node.answer()).application["statusCode"]) for _ in range(2)}
    assert statuses == {200, 404}
    client.hang_up()


async def heard_within(client: RawClient, seconds: float) -> Any:
    """A disposition or an answer, if one comes."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                heard = await client.hear()
                if isinstance(heard, Disposition | Transfer):
                    return heard
    except TimeoutError:
        return None
