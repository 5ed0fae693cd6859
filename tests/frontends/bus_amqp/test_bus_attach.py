"""Links: addresses, refusals, sessions, as AMQP clients of all kinds ask for them."""

import re
from typing import Any

import pytest
from asking import root_login
from bus_server import Bus
from raw_amqp import RawClient, data_message

from etagere.base.clock import seconds, ticks_before_unix
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp.connection import limits_of
from etagere.frontends.bus_amqp.errors import Speaker
from etagere.frontends.bus_amqp.routes import RouteKind, route_of
from etagere.kv.contract import StoreFailed
from etagere.kv.engines.memory import MemoryEngine
from etagere.protocols.amqp.outcomes import Source, Target, accepted
from etagere.protocols.amqp.performatives import Attach, Close, Detach, Disposition, End, Transfer
from etagere.protocols.amqp.sections import read_map, split
from etagere.protocols.amqp.values import Described, Symbol, UInt, ULong
from etagere.servers.real import SystemEntropy
from etagere.services.bus.descriptions import (
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
)

session_filter = Symbol("com.microsoft:session-filter")
filter_code = ULong(0x137000000C)


@pytest.fixture
async def client(bus: Bus) -> Any:
    administration = bus.broker.administration
    await administration.create(QueueDescription(name="Queue/a"))
    await administration.create(QueueDescription(name="s", requires_session=True))
    await administration.create(QueueDescription(name="off", status=EntityStatus.disabled))
    await administration.create(QueueDescription(name="fwd", forward_to="Queue/a"))
    await administration.create(TopicDescription(name="t"))
    await administration.create_subscription("t", SubscriptionDescription(name="sub"))
    client = await RawClient.open(bus.port, login=root_login)
    yield client
    client.hang_up()


@pytest.mark.parametrize(
    ("address", "kind", "path"),
    [
        ("q", RouteKind.entity, "q"),
        ("/q", RouteKind.entity, "q"),
        ("amqps://localhost:15672/q1", RouteKind.entity, "q1"),
        ("sb://h/a%2Fb/", RouteKind.entity, "a/b"),
        ("t/Subscriptions/s/$DLQ", RouteKind.entity, "t/Subscriptions/s/$DLQ"),
        ("$cbs", RouteKind.cbs, ""),
        ("$CBS", RouteKind.cbs, ""),
        ("amqp://h/$cbs", RouteKind.cbs, ""),
        ("$management", RouteKind.namespace_management, ""),
        ("q/$management", RouteKind.management, "q"),
        ("q/$DeadLetterQueue/$Management", RouteKind.management, "q/$DeadLetterQueue"),
    ],
)  # fmt: skip
def test_addresses(address: str, kind: RouteKind, path: str) -> None:
    route = route_of(address)
    assert (route.kind, route.path) == (kind, path)


@pytest.mark.parametrize("address", [None, "", "/", "sb://host/", 5, "x" * 3_000])
def test_what_is_no_address(address: Any) -> None:
    with pytest.raises(Refused):
        route_of(address)


@pytest.mark.parametrize(
    "address", ["Queue/a", "/queue/A", "amqps://localhost:5672/QUEUE/a", "t", "sb://h/t/"]
)
async def test_addresses_are_repeated_as_sent(client: RawClient, address: str) -> None:
    attach = await client.attach(address, name="näme", snd_settle_mode=2, rcv_settle_mode=1)
    assert isinstance(attach.target, Target)
    assert attach.target.address == address
    assert (attach.name, attach.role) == ("näme", True)
    assert (attach.snd_settle_mode, attach.rcv_settle_mode) == (2, 1)
    assert attach.max_message_size == 262_144
    assert attach.properties == {"com.microsoft:max-message-batch-size": 262_144}
    assert type(attach.properties[Symbol("com.microsoft:max-message-batch-size")]) is ULong
    await client.send_accepted(data_message())


@pytest.mark.parametrize(
    ("address", "receiver", "condition"),
    [
        ("missing", False, "amqp:not-found"),
        ("missing", True, "amqp:not-found"),
        ("t/Subscriptions/missing", True, "amqp:not-found"),
        ("t/Subscriptions/sub", False, "amqp:not-allowed"),
        ("Queue/a/$DeadLetterQueue", False, "amqp:not-allowed"),
        ("t", True, "amqp:not-allowed"),
        ("s", True, "amqp:not-allowed"),
        ("fwd", True, "amqp:not-allowed"),
        ("off", False, "com.microsoft:entity-disabled"),
        ("off", True, "com.microsoft:entity-disabled"),
        ("missing/$management", False, "amqp:not-found"),
        (None, True, "amqp:invalid-field"),
        ("", False, "amqp:invalid-field"),
    ],
)
async def test_refusals(
    client: RawClient, address: str | None, receiver: bool, condition: str
) -> None:
    attach = await client.attach(address, receiver=receiver)
    assert (attach.source if receiver else attach.target) is None
    detach = await client.expect(Detach)
    assert detach.closed
    assert detach.error is not None
    assert detach.error.condition == condition
    assert "TrackingId:" in (detach.error.description or "")
    client.say(Detach(0, True))
    await client.attach("Queue/a")
    await client.send_accepted(data_message())


def test_tracking_texts_name_the_entity(bus: Bus) -> None:
    speaker = Speaker(bus.clock, SystemEntropy(), "ns")
    text = speaker.describe("Why.", "t/Subscriptions/s")
    assert re.fullmatch(
        r"Why\. TrackingId:[0-9a-f-]{36}_B0, SystemTracker:ns:Topic:t\|s, "
        r"Timestamp:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
        text,
    )
    assert "SystemTracker:ns:Queue:q," in speaker.describe("Why.", "q")
    assert "SystemTracker:ns," in speaker.describe("Why.")


def test_frames_are_as_large_as_the_tier_s_messages() -> None:
    assert limits_of(Tier.basic).frame_bytes_in_max == 262_144
    assert limits_of(Tier.standard).frame_bytes_in_max == 262_144
    assert limits_of(Tier.premium).frame_bytes_in_max == 1_048_576


async def test_null_termini(client: RawClient) -> None:
    for receiver in (True, False):
        client.say(Attach("x", 0, receiver))
        await client.expect(Attach)
        detach = await client.expect(Detach)
        assert detach.error is not None
        assert detach.error.condition == "amqp:invalid-field"
        client.say(Detach(0, True))


async def test_unknown_filters_are_refused(client: RawClient) -> None:
    filters = {Symbol("apache.org:selector-filter:string"): "a = 1"}
    await client.attach("Queue/a", receiver=True, source=Source("Queue/a", filter=filters))
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-implemented"


async def test_messages_are_not_copied_to_browsers(client: RawClient) -> None:
    attach = await client.attach(
        "Queue/a", receiver=True, source=Source("Queue/a", distribution_mode=Symbol("copy"))
    )
    assert attach.source is None
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-implemented"


async def test_receive_and_delete_is_a_settled_sender(bus: Bus, client: RawClient) -> None:
    await client.attach("Queue/a", handle=0)
    await client.send_accepted(data_message())
    await client.attach("Queue/a", handle=1, receiver=True, snd_settle_mode=1)
    client.credit(1, handle=1)
    transfer = await client.receive()
    assert transfer.settled is True
    assert len(transfer.delivery_tag or b"") == 16
    sections = split(client.payload)
    assert sections.delivery_annotations == b""
    assert Symbol("x-opt-locked-until") not in read_map(sections.message_annotations)
    assert await bus.broker.peek("Queue/a", 1, 10) == []


# ---- sessions


async def accept(
    client: RawClient, value: Any, *, handle: int = 0, wait_ms: int | None = None, path: str = "s"
) -> Attach:
    properties = None
    if wait_ms is not None:
        properties = {Symbol("com.microsoft:timeout"): UInt(wait_ms)}
    return await client.attach(
        path,
        handle=handle,
        receiver=True,
        rcv_settle_mode=1,
        source=Source(path, filter={session_filter: value}),
        properties=properties,
    )


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("session_id", ["name", "", "ü" * 100])
async def test_filters_are_answered_in_their_form(
    bus: Bus, client: RawClient, described: bool, session_id: str
) -> None:
    asked: Any = Described(filter_code, session_id) if described else session_id
    attach = await accept(client, asked)
    assert attach.source is not None
    assert attach.source.filter == {session_filter: asked}
    if described:
        assert type(attach.source.filter[session_filter].descriptor) is ULong
    assert attach.properties is not None
    until = attach.properties[Symbol("com.microsoft:locked-until-utc")]
    assert type(until) is int
    left = until - ticks_before_unix - bus.clock.now()
    assert seconds(50) < left <= seconds(60)


@pytest.mark.parametrize("described", [True, False])
async def test_the_next_session_is_named(client: RawClient, described: bool) -> None:
    await client.attach("s", handle=1)
    await client.send_accepted(data_message(group_id="waiting"), handle=1)
    attach = await accept(client, Described(filter_code, None) if described else None)
    assert attach.source is not None
    assert attach.source.filter is not None
    value = attach.source.filter[session_filter]
    name = value.value if described else value
    assert name == "waiting"
    assert type(name) is str
    client.credit(1)
    await client.receive()


@pytest.mark.parametrize("value", [5, b"binary", ["list"], Described(filter_code, UInt(1))])
async def test_ids_are_strings(client: RawClient, value: Any) -> None:
    await accept(client, value)
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"


async def test_shared_sessions_are_not_there(client: RawClient) -> None:
    name = Symbol("com.microsoft:non-exclusive-session-filter:list")
    filters = {name: Described(ULong(0x137000000E), ["s", None])}
    await client.attach("s", receiver=True, source=Source("s", filter=filters))
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-implemented"


async def test_a_held_session_cannot_be_had(bus: Bus, client: RawClient) -> None:
    await accept(client, "one")
    other = await RawClient.open(bus.port, login=root_login)
    await accept(other, "one")
    detach = await other.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "com.microsoft:session-cannot-be-locked"
    other.say(Detach(0, True))
    client.say(Detach(0, True))
    await client.expect(Detach)
    assert (await accept(other, "one")).source is not None
    other.hang_up()


async def test_no_session_in_time(bus: Bus, client: RawClient) -> None:
    client.say(
        Attach(
            "next", 0, True, 0, 1, Source("s", filter={session_filter: None}), Target(),
            properties={Symbol("com.microsoft:timeout"): UInt(70_000)},
        )
    )  # fmt: skip
    await client.silence()
    bus.clock.advance(seconds(69))
    await client.silence()
    bus.clock.advance(seconds(1.1))
    attach = await client.expect(Attach)
    assert attach.source is None
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "com.microsoft:timeout"


async def test_no_session_in_time_while_the_store_fails(
    bus: Bus, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise StoreFailed

    monkeypatch.setattr(MemoryEngine, "read", fail)
    client.say(
        Attach(
            "next", 0, True, 0, 1, Source("s", filter={session_filter: None}), Target(),
            properties={Symbol("com.microsoft:timeout"): UInt(70_000)},
        )
    )  # fmt: skip
    for _ in range(3):  # it searches again and again
        await client.silence(0.02)
        bus.clock.advance(seconds(20))
    await client.silence(0.02)
    bus.clock.advance(seconds(11))
    await client.expect(Attach)
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "com.microsoft:timeout"


@pytest.mark.parametrize("how", ["detach", "end", "close", "abort"])
async def test_who_leaves_while_waiting_locks_nothing(
    bus: Bus, client: RawClient, how: str
) -> None:
    client.say(Attach("next", 0, True, 0, 1, Source("s", filter={session_filter: None}), Target()))
    await client.silence(0.05)
    match how:
        case "detach":
            client.say(Detach(0, True))
        case "end":
            client.say(End())
            await client.expect(End)
        case "close":
            client.say(Close())
            await client.expect(Close)
        case "abort":
            client.writer.transport.abort()
    other = await RawClient.open(bus.port, login=root_login)
    await other.attach("s", handle=1)
    await other.send_accepted(data_message(group_id="x"), handle=1)
    if how in ("detach", "end"):
        await client.silence(0.05)  # its attach has no answer any more
    assert (await accept(other, "x")).source is not None
    other.hang_up()


async def test_a_lost_session_lock_detaches(bus: Bus, client: RawClient) -> None:
    await client.attach("s", handle=1)
    await client.send_accepted(data_message(group_id="x"), handle=1)
    await accept(client, "x")
    client.credit(1)
    transfer = await client.receive()
    bus.clock.advance(seconds(61))
    detach = await client.until(Detach)
    assert detach.error is not None
    assert detach.error.condition == "com.microsoft:session-lock-lost"
    assert transfer.delivery_id is not None
    for _ in range(2):  # before and after its own detach
        client.say(Disposition(True, transfer.delivery_id, None, False, accepted))
        answer: Any = await client.expect(Disposition)
        assert answer.settled
        assert answer.state.error.condition == "com.microsoft:session-lock-lost"
        client.say(Detach(0, True))
    await accept(client, "x")
    client.credit(1)
    await client.until(Transfer)


# ---- settling


async def test_dispositions_for_what_is_settled_already(client: RawClient) -> None:
    await client.attach("Queue/a", handle=0)
    for _ in range(3):
        await client.send_accepted(data_message())
    await client.attach("Queue/a", handle=1, receiver=True, rcv_settle_mode=1)
    client.credit(3, handle=1)
    for _ in range(3):
        await client.receive()
    client.say(Disposition(True, 1, 1, False, accepted))
    assert (await client.expect(Disposition)).state == accepted
    client.say(Disposition(True, 0, 2, False, accepted))
    answers: dict[int, Any] = {}
    while len(answers) < 3:
        answer = await client.expect(Disposition)
        assert answer.settled
        assert answer.role is False
        for number in range(answer.first, (answer.last or answer.first) + 1):
            answers[number] = answer.state
    assert answers[0] == answers[2] == accepted
    assert answers[1].error.condition == "com.microsoft:message-lock-lost"
    client.say(Disposition(True, 0, 2, True, accepted))
    await client.silence()
