"""`$management`: each operation, the types of its answers, its refusals."""

import asyncio
import uuid
from typing import Any

import pytest
from asking import Node, root_login
from bus_server import Bus
from raw_amqp import RawClient, data_message

from etagere.base.clock import seconds, ticks_per_millisecond
from etagere.frontends.bus_amqp.management import operations
from etagere.frontends.bus_amqp.requests import read_request
from etagere.kv.contract import StoreFailed
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.outcomes import Source, Target
from etagere.protocols.amqp.performatives import Flow
from etagere.protocols.amqp.sections import Header, read_map, section, split
from etagere.protocols.amqp.values import (
    Array,
    Described,
    Int,
    Milliseconds,
    Symbol,
    UByte,
    UInt,
    ULong,
    Uuid,
)
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)

lost = "com.microsoft:message-lock-lost"
session_filter = Symbol("com.microsoft:session-filter")


@pytest.fixture
async def client(bus: Bus) -> Any:
    administration = bus.broker.administration
    await administration.create(QueueDescription(name="q"))
    await administration.create(QueueDescription(name="s", requires_session=True))
    await administration.create(TopicDescription(name="t"))
    await administration.create_subscription("t", SubscriptionDescription(name="sub"))
    client = await RawClient.open(bus.port, login=root_login)
    yield client
    client.hang_up()


@pytest.fixture
async def node(client: RawClient) -> Node:
    return await Node.open(client, "q/$management")


async def put(client: RawClient, path: str, *payloads: bytes) -> None:
    await client.attach(path, handle=0)
    for payload in payloads:
        await client.send_accepted(payload)
    from etagere.protocols.amqp.performatives import Detach

    client.say(Detach(0, True))
    await client.until(Detach)


async def lock(client: RawClient, path: str, count: int) -> list[Uuid]:
    """Lock tokens of the first messages."""
    await client.attach(path, handle=1, receiver=True, rcv_settle_mode=1)
    client.credit(count, handle=1)
    tokens = []
    for _ in range(count):
        transfer = await client.receive()
        tag = transfer.delivery_tag
        assert tag is not None
        token = read_map(split(client.payload).delivery_annotations)[Symbol("x-opt-lock-token")]
        assert uuid.UUID(bytes=bytes(token)).bytes_le == tag
        tokens.append(token)
    return tokens


def check(answer: Any, status: int, condition: str | None = None) -> None:
    assert answer.application["statusCode"] == status, answer
    assert type(answer.application["statusCode"]) is Int
    assert isinstance(answer.application["statusDescription"], str)
    if condition is None:
        assert "errorCondition" not in answer.application
    else:
        assert answer.application["errorCondition"] == condition
        assert type(answer.application["errorCondition"]) is Symbol


async def test_renew_lock(bus: Bus, client: RawClient, node: Node) -> None:
    await put(client, "q", data_message(), data_message())
    tokens = await lock(client, "q", 2)
    bus.clock.advance(seconds(30))
    answer = await node.manage("renew-lock", {"lock-tokens": Array(Uuid, tuple(tokens))})
    check(answer, 200)
    expirations = answer.body["expirations"]
    assert expirations.kind is Milliseconds
    now = bus.clock.now() // ticks_per_millisecond
    assert all(55_000 < until - now <= 60_000 for until in expirations.items)
    # Lists and binary do as well, as some clients send them.
    answer = await node.manage("renew-lock", {"lock-tokens": [bytes(tokens[0])]})
    check(answer, 200)
    answer = await node.manage("renew-lock", {"lock-tokens": [tokens[0], Uuid(bytes(16))]})
    check(answer, 410, lost)
    bus.clock.advance(seconds(61))
    answer = await node.manage("renew-lock", {"lock-tokens": Array(Uuid, tuple(tokens))})
    check(answer, 410, lost)


async def test_peek(client: RawClient, node: Node) -> None:
    answer = await node.manage("peek-message", {"from-sequence-number": 1, "message-count": Int(5)})
    check(answer, 204, "com.microsoft:message-not-found")
    header = encode_composite(Header(durable=True, priority=2))
    await put(client, "q", header + data_message(b"one"), data_message(b"two"))
    answer = await node.manage("peek-message", {"from-sequence-number": 0, "message-count": Int(5)})
    check(answer, 200)
    assert type(answer.body["messages"]) is list
    first = split(answer.body["messages"][0]["message"])
    annotations = read_map(first.message_annotations)
    assert annotations["x-opt-sequence-number"] == 1
    assert annotations["x-opt-message-state"] == 0
    assert type(annotations["x-opt-message-state"]) is Int
    assert first.tail.endswith(section(0x75, b"one"))
    answer = await node.manage(
        "peek-message",
        {"from-sequence-number": 2, "message-count": Int(5), "omit-message-body": True},
    )
    (only,) = answer.body["messages"]
    assert split(only["message"]).tail.endswith(section(0x75, b""))
    for count in (0, -1):
        answer = await node.manage(
            "peek-message", {"from-sequence-number": 2, "message-count": Int(count)}
        )
        check(answer, 400, "com.microsoft:argument-out-of-range")


async def test_schedule_and_cancel(bus: Bus, client: RawClient, node: Node) -> None:
    due = bus.clock.now() // ticks_per_millisecond + 60_000
    annotations = section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): Milliseconds(due)})
    messages = [
        {"message-id": str(number), "message": annotations + data_message(str(number).encode())}
        for number in range(3)
    ]
    answer = await node.manage("schedule-message", {"messages": messages})
    check(answer, 200)
    numbers = answer.body["sequence-numbers"]
    assert (numbers.kind, numbers.items) == (int, (1, 2, 3))
    answer = await node.manage("cancel-scheduled-message", {"sequence-numbers": [2]})
    check(answer, 200)
    answer = await node.manage("cancel-scheduled-message", {"sequence-numbers": Array(int, (1, 2))})
    check(answer, 404, "com.microsoft:message-not-found")
    peeked = await bus.broker.peek("q", 1, 10)
    assert [one.sequence_number for one in peeked] == [1, 3]


async def test_deferred(client: RawClient, node: Node) -> None:
    await put(client, "q", data_message(b"one"), data_message(b"two"))
    tokens = await lock(client, "q", 2)
    answer = await node.manage(
        "update-disposition",
        {"disposition-status": "defered", "lock-tokens": Array(Uuid, tuple(tokens)),
         "properties-to-modify": {"why": "later"}},
    )  # fmt: skip
    check(answer, 200)
    answer = await node.manage(
        "receive-by-sequence-number",
        {"sequence-numbers": Array(int, (1, 2)), "receiver-settle-mode": UInt(1)},
    )
    check(answer, 200)
    tokens = [message["lock-token"] for message in answer.body["messages"]]
    assert all(type(token) is Uuid for token in tokens)
    for message in answer.body["messages"]:
        sections = split(message["message"])
        inside = read_map(sections.delivery_annotations)[Symbol("x-opt-lock-token")]
        assert inside == message["lock-token"]
        annotations = read_map(sections.message_annotations)
        assert annotations["x-opt-message-state"] == 1
        assert type(annotations["x-opt-locked-until"]) is Milliseconds
        assert read_request(message["message"]).application == {"why": "later"}
    answer = await node.manage(
        "update-disposition", {"disposition-status": "completed", "lock-tokens": [tokens[0]]}
    )
    check(answer, 200)
    answer = await node.manage(
        "receive-by-sequence-number",
        {"sequence-numbers": [1], "receiver-settle-mode": UByte(0)},
    )
    check(answer, 404, "com.microsoft:message-not-found")


async def test_dead_letters(client: RawClient, node: Node) -> None:
    await put(client, "q", data_message(b"one"))
    tokens = await lock(client, "q", 1)
    answer = await node.manage(
        "update-disposition",
        {"disposition-status": "suspended", "lock-tokens": Array(Uuid, tuple(tokens)),
         "deadletter-reason": "r", "deadletter-description": "d"},
    )  # fmt: skip
    check(answer, 200)
    dead = await Node.open(client, "q/$DeadLetterQueue/$management", handles=(20, 21))
    answer = await dead.manage("peek-message", {"from-sequence-number": 0, "message-count": Int(5)})
    (message,) = answer.body["messages"]
    assert b"DeadLetterReason" in message["message"]
    answer = await node.manage(
        "update-disposition", {"disposition-status": "completed", "lock-tokens": tokens}
    )
    check(answer, 410, lost)


async def test_sessions(bus: Bus, client: RawClient) -> None:
    await put(client, "s", data_message(group_id="b"), data_message(group_id="a"))
    node = await Node.open(client, "s/$management")
    year_10000 = Milliseconds(253_402_300_800_000)
    body = {"last-updated-time": year_10000, "skip": Int(0), "top": Int(100)}
    answer = await node.manage("get-message-sessions", body)
    check(answer, 200)
    ids = answer.body["sessions-ids"]
    assert (ids.kind, ids.items) == (str, ("a", "b"))
    assert answer.body["skip"] == 2
    answer = await node.manage("get-message-sessions", body | {"skip": Int(2)})
    check(answer, 204, "com.microsoft:session-not-found")
    answer = await node.manage(
        "get-message-sessions", body | {"last-updated-time": Milliseconds(0)}
    )
    check(answer, 204, "com.microsoft:session-not-found")
    for operation in ("renew-session-lock", "get-session-state"):
        answer = await node.manage(operation, {"session-id": "a"})
        check(answer, 410, "com.microsoft:session-lock-lost")
    await client.attach(
        "s", handle=5, receiver=True, source=Source("s", filter={session_filter: "a"}),
        target=Target(),
    )  # fmt: skip
    answer = await node.manage("renew-session-lock", {"session-id": "a"})
    check(answer, 200)
    assert type(answer.body["expiration"]) is Milliseconds
    answer = await node.manage("get-session-state", {"session-id": "a"})
    assert answer.body == {"session-state": None}
    answer = await node.manage("set-session-state", {"session-id": "a", "session-state": b"x"})
    check(answer, 200)
    answer = await node.manage("get-session-state", {"session-id": "a"})
    assert answer.body == {"session-state": b"x"}
    for none in (b"", None):  # Go says the first
        answer = await node.manage("set-session-state", {"session-id": "a", "session-state": none})
        check(answer, 200)
        answer = await node.manage("get-session-state", {"session-id": "a"})
        assert answer.body == {"session-state": None}
        await node.manage("set-session-state", {"session-id": "a", "session-state": b"x"})
    answer = await node.manage("set-session-state", {"session-id": "a", "session-state": "x"})
    check(answer, 400, "com.microsoft:argument-error")
    answer = await node.manage(
        "get-message-sessions", body | {"last-updated-time": Milliseconds(0)}
    )
    assert answer.body["sessions-ids"].items == ("a",)


async def test_rules(client: RawClient) -> None:
    node = await Node.open(client, "t/Subscriptions/sub/$management")
    listing = {"skip": Int(0), "top": Int(2_147_483_647)}
    answer = await node.manage("enumerate-rules", listing)
    (first,) = answer.body["rules"]
    description = first["rule-description"]
    assert description.descriptor == 0x13700000004
    wanted, action, name, created = description.value
    assert wanted == Described(ULong(0x1370000007), [])
    assert action == Described(ULong(0x13700000005), [])
    assert name == "$Default"
    assert type(created) is Milliseconds
    answer = await node.manage(
        "add-rule",
        {"rule-name": "sql", "rule-description": {
            "sql-filter": {"expression": "a = 1"},
            "sql-rule-action": {"expression": "SET b = 2"}}},
    )  # fmt: skip
    check(answer, 200)
    correlation = {"label": "l", "properties": {"i": Int(1), "s": "x", "t": Milliseconds(5)}}
    answer = await node.manage(
        "add-rule",
        {"rule-name": "correlation", "rule-description": {"correlation-filter": correlation}},
    )
    check(answer, 200)
    answer = await node.manage("enumerate-rules", listing)
    rules = {
        one["rule-description"].value[2]: one["rule-description"].value
        for one in answer.body["rules"]
    }
    assert rules["sql"][0] == Described(ULong(0x1370000006), ["a = 1", Int(20)])
    assert rules["sql"][1] == Described(ULong(0x13700000006), ["SET b = 2", Int(20)])
    fields = rules["correlation"][0]
    assert fields.descriptor == 0x1370000009
    assert fields.value[4] == "l"
    assert fields.value[8] == {"i": 1, "s": "x", "t": 5}
    assert type(fields.value[8]["t"]) is Milliseconds
    answer = await node.manage("enumerate-rules", {"skip": Int(1), "top": Int(1)})
    assert len(answer.body["rules"]) == 1
    answer = await node.manage(
        "add-rule", {"rule-name": "sql", "rule-description": {"sql-filter": {"expression": "1=1"}}}
    )
    check(answer, 409, "com.microsoft:entity-already-exists")
    for bad in ({"sql-filter": {"expression": "("}}, {"sql-filter": 1}, {}, None,
                {"correlation-filter": {}}, {"correlation-filter": {"label": 1}}):  # fmt: skip
        answer = await node.manage("add-rule", {"rule-name": "bad", "rule-description": bad})
        check(answer, 400, "com.microsoft:argument-error")
    answer = await node.manage("remove-rule", {"rule-name": "sql"})
    check(answer, 200)
    answer = await node.manage("remove-rule", {"rule-name": "sql"})
    check(answer, 404, "amqp:not-found")
    for name in ("correlation", "$Default"):
        await node.manage("remove-rule", {"rule-name": name})
    answer = await node.manage("enumerate-rules", listing)
    check(answer, 204)


async def test_only_subscriptions_have_rules(node: Node) -> None:
    answer = await node.manage("enumerate-rules", {"skip": Int(0), "top": Int(1)})
    check(answer, 400, "amqp:not-allowed")


async def test_batch_delete(bus: Bus, client: RawClient, node: Node) -> None:
    await put(client, "q", *(data_message() for _ in range(5)))
    later = Milliseconds(bus.clock.now() // ticks_per_millisecond + 1_000)
    answer = await node.manage(
        "batch-delete-messages", {"message-count": Int(3), "enqueued-time-utc": later}
    )
    check(answer, 200)
    assert answer.body == {"message-count": 3}
    assert type(answer.body["message-count"]) is Int
    await node.manage(
        "batch-delete-messages", {"message-count": Int(500), "enqueued-time-utc": later}
    )
    answer = await node.manage(
        "batch-delete-messages", {"message-count": Int(3), "enqueued-time-utc": later}
    )
    check(answer, 204)


@pytest.mark.parametrize("operation", sorted(operations))
@pytest.mark.parametrize(
    "body", [None, "text", {}, {"messages": 5, "lock-tokens": "x", "sequence-numbers": {}}]
)
async def test_bad_bodies_get_an_answer(node: Node, operation: str, body: Any) -> None:
    answer = await node.manage(operation.partition(":")[2], body)
    assert answer.application["statusCode"] == 400


async def test_unknown_operations(node: Node) -> None:
    check(await node.manage("fly", {}), 501, "amqp:not-implemented")
    node.ask({}, {})
    check(await node.answer(), 501, "amqp:not-implemented")


async def test_rights(bus: Bus, client: RawClient) -> None:
    listener = await RawClient.open(bus.port, login=b"\0listener\0LISTENER_KEY")
    node = await Node.open(listener, "q/$management")
    peek = {"from-sequence-number": 0, "message-count": Int(5)}
    check(await node.manage("peek-message", peek), 204, "com.microsoft:message-not-found")
    check(await node.manage("schedule-message", {"messages": []}), 401, "amqp:unauthorized-access")
    listener.hang_up()
    sender = await RawClient.open(bus.port, login=b"\0sender\0SENDER_KEY")
    node = await Node.open(sender, "q/$management")
    check(await node.manage("peek-message", peek), 401, "amqp:unauthorized-access")
    answer = await node.manage("schedule-message", {"messages": [{"message": data_message()}]})
    check(answer, 200)
    sender.hang_up()
    await client.close()


async def test_many_requests_at_once(client: RawClient, node: Node) -> None:
    await put(client, "q", *(data_message() for _ in range(10)))
    for number in range(1, 11):
        body = {"from-sequence-number": number, "message-count": Int(1)}
        node.ask({"operation": "com.microsoft:peek-message"}, body, message_id=ULong(number))
    for _ in range(10):
        answer = await node.answer()
        annotations = read_map(split(answer.body["messages"][0]["message"]).message_annotations)
        assert annotations["x-opt-sequence-number"] == answer.properties.correlation_id


async def test_the_client_s_patience_is_kept(
    bus: Bus, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forever(*_: Any, **__: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(bus.broker, "peek", forever)
    node.ask(
        {"operation": "com.microsoft:peek-message", "com.microsoft:server-timeout": UInt(5_000)},
        {"from-sequence-number": 0, "message-count": Int(5)},
    )
    await asyncio.sleep(0.05)
    bus.clock.advance(seconds(5.1))
    check(await node.answer(), 408, "com.microsoft:timeout")


async def test_a_store_that_fails_is_told(
    bus: Bus, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> list[Any]:
        raise StoreFailed

    peek = {"from-sequence-number": 0, "message-count": Int(5)}
    with monkeypatch.context() as patch:
        patch.setattr(bus.broker, "peek", fail)
        check(await node.manage("peek-message", peek), 500, "amqp:internal-error")
    check(await node.manage("peek-message", peek), 204, "com.microsoft:message-not-found")


async def test_a_drain_of_a_reply_link_is_answered(client: RawClient, node: Node) -> None:
    client.credit(5, handle=node.back, drain=True)
    drained = await client.until(Flow)
    while drained.handle != node.back:
        drained = await client.until(Flow)
    assert (drained.link_credit, drained.drain, drained.delivery_count) == (0, True, 5)
    client.credit(1, handle=node.back, delivery_count=5)
    check(await node.manage("fly", {}), 501, "amqp:not-implemented")


async def test_replies_are_settled_as_asked(client: RawClient) -> None:
    node = await Node.open(client, "q/$management", snd_settle_mode=1)
    check(await node.manage("fly", {}), 501, "amqp:not-implemented")


async def test_an_associated_link_is_not_idle(bus: Bus, client: RawClient, node: Node) -> None:
    await client.attach("q", handle=0, name="busy")
    peek = {"from-sequence-number": 0, "message-count": Int(5)}
    for _ in range(3):
        bus.clock.advance(seconds(400))
        await node.manage("peek-message", peek, application={"associated-link-name": "busy"})
    await client.send_accepted(data_message())
