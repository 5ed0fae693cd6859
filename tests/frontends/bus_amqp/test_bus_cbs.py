"""Tokens: put-token in the shapes of the SDKs, rights, and their end."""

import time
from typing import Any

import pytest
from asking import Node, request, sas
from bus_server import Bus, RealClock, start, stop
from raw_amqp import RawClient, data_message

from etagere.base.clock import seconds
from etagere.frontends.bus_amqp.requests import read_request
from etagere.protocols.amqp.outcomes import Source, Target
from etagere.protocols.amqp.performatives import Attach, Begin, Detach, Disposition, Flow, Transfer
from etagere.protocols.amqp.values import Int, ULong, Uuid
from etagere.services.bus.descriptions import QueueDescription

uri = "sb://localhost:5672/q"


@pytest.fixture
async def client(bus: Bus) -> Any:
    await bus.broker.administration.create(QueueDescription(name="q"))
    client = await RawClient.open(bus.port)
    yield client
    client.hang_up()


async def test_a_token_opens_the_entity(client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    answer = await cbs.put_token(sas(uri), uri)
    assert answer.application == {"status-code": 202, "status-description": "Accepted"}
    assert type(answer.application["status-code"]) is Int
    assert answer.properties.correlation_id == "request-1"
    await client.attach("q")
    await client.send_accepted(data_message())


async def test_nothing_opens_without_one(client: RawClient) -> None:
    for handle, (address, receiver) in enumerate(
        [("q", False), ("q", True), ("q/$management", False), ("q/$management", True)]
    ):
        await client.attach(address, handle=handle, receiver=receiver)
        detach = await client.expect(Detach)
        assert detach.error is not None
        assert detach.error.condition == "amqp:unauthorized-access"


@pytest.mark.parametrize("message_id", ["text", ULong(1), Uuid(bytes(range(16))), b"binary"])
async def test_correlation_ids_keep_their_type(client: RawClient, message_id: Any) -> None:
    cbs = await Node.open(client, "$cbs")
    cbs.ask({"operation": "put-token", "name": uri}, sas(uri), message_id=message_id)
    answer = await cbs.answer()
    assert answer.properties.correlation_id == message_id
    assert type(answer.properties.correlation_id) is type(message_id)


@pytest.mark.parametrize(
    ("token", "name", "status"),
    [
        (sas(uri, key="wrong"), uri, 401),
        (sas(uri, name="nobody"), uri, 401),
        (sas(uri, expiry=1), uri, 401),
        (sas("sb://localhost/other"), uri, 401),
        ("SharedAccessSignature nonsense", uri, 401),
        ("eyJ0eXAi.e30.x", uri, 401),
        (None, uri, 401),
        (sas("sb://h/missing"), "sb://h/missing", 404),
        (sas("sb://h/missing"), "sb://h/missing/$management", 404),
        (sas(uri), None, 400),
        (sas(uri), 5, 400),
    ],
)
async def test_refusals(client: RawClient, token: Any, name: Any, status: int) -> None:
    cbs = await Node.open(client, "$cbs")
    answer = await cbs.put_token(token, name)
    assert answer.application["status-code"] == status
    assert "TrackingId:" in answer.application["status-description"]
    if status == 404:
        assert "could not be found" in answer.application["status-description"]
    # The connection goes on, and a good token makes up for it.
    assert (await cbs.put_token(sas(uri), uri)).application["status-code"] == 202


async def test_unknown_operations(client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    cbs.ask({"operation": "delete-token", "name": uri}, "x")
    assert (await cbs.answer()).application["status-code"] == 501
    cbs.ask({}, None)
    assert (await cbs.answer()).application["status-code"] == 501


async def test_requests_that_are_no_messages(client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    client.transfer(b"nonsense", handle=cbs.out)
    outcome: Any = await client.expect(Disposition)
    assert outcome.state.error.condition == "amqp:decode-error"


# ---- as SDKs do it


async def test_javascript_names_its_reply_link(client: RawClient) -> None:
    """Its reply link has an empty target; reply-to is the link's name."""
    first = await Node.open(
        client, "$cbs", handles=(1, 2), reply_name="cbs-1", reply_to="cbs-1", snd_settle_mode=2
    )
    second = await Node.open(
        client, "$cbs", handles=(3, 4), reply_name="cbs-2", reply_to="cbs-2", snd_settle_mode=2
    )
    assert (await first.put_token(sas(uri), uri)).application["status-code"] == 202
    assert (await second.put_token(sas(uri), uri)).application["status-code"] == 202


async def test_an_answer_goes_to_the_address_that_the_request_names(client: RawClient) -> None:
    """Python, Java and Go name the target of their reply link."""
    first = await Node.open(
        client, "$cbs", handles=(1, 2), reply_target="here", reply_to="here", snd_settle_mode=2
    )
    second = await Node.open(
        client, "$cbs", handles=(3, 4), reply_target="there", reply_to="there", snd_settle_mode=2
    )
    for node in (first, second, first):
        assert (await node.put_token(sas(uri), uri)).application["status-code"] == 202


async def test_an_answer_comes_on_the_session_of_its_request(client: RawClient) -> None:
    """Java gives the reply links of all its sessions one address."""
    address = "cbs-client-reply-to"
    for channel in (0, 1):
        if channel:
            client.say(Begin(None, 0, 100, 100), channel=channel)
            await client.until(Begin)
        back = Attach(f"back-{channel}", 11, True, 0, 0, Source("$cbs"), Target(address))
        there = Attach(f"there-{channel}", 10, False, 0, 0, Source(None), Target("$cbs"))
        for attach in (back, there):
            client.say(attach, channel=channel)
            await client.until(Attach)
        client.say(Flow(1, 100, 0, 100, 11, 0, 10), channel=channel)
    asked = {"operation": "put-token", "name": uri}
    for number, (reply_to, channel) in enumerate(
        (reply_to, channel) for reply_to in (address, None, "nobody") for channel in (0, 1, 0)
    ):
        payload = request(asked, sas(uri), reply_to=reply_to)
        client.say(Transfer(10, number, b"t", 0, True), payload, channel=channel)
        answer = await client.until(Transfer)
        assert client.channel == channel
        assert (answer.handle, read_request(client.payload).application["status-code"]) == (11, 202)


async def test_javascript_s_rule_manager_has_a_token_for_the_node_alone(
    client: RawClient,
) -> None:
    cbs = await Node.open(client, "$cbs")
    await cbs.put_token(sas(f"{uri}/$management"), f"{uri}/$management")
    node = await Node.open(client, "q/$management", handles=(1, 2))
    answer = await node.manage("peek-message", {"from-sequence-number": 0, "message-count": Int(1)})
    assert answer.application["statusCode"] == 204
    await client.attach("q", handle=0)
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:unauthorized-access"


async def test_java_gives_one_credit_a_request(bus: Bus, client: RawClient) -> None:
    """All its connections use one reply address."""
    other = await RawClient.open(bus.port)
    nodes = [
        await Node.open(
            one, "$cbs", reply_target="cbs-client-reply-to", reply_to="cbs-client-reply-to",
            credit=0,
        )
        for one in (client, other)
    ]  # fmt: skip
    for node in nodes:
        application = {"operation": "put-token", "name": uri}
        node.ask(application, sas(uri), message_id=ULong(1))
        node.ask(application, sas(uri), message_id=ULong(2))
    for node in nodes:
        for number in (1, 2):
            node.client.credit(1, handle=node.back, delivery_count=number - 1)
            assert (await node.answer()).properties.correlation_id == number
    other.hang_up()


async def test_go_opens_links_for_each_token(client: RawClient) -> None:
    for number in range(3):
        reply = f"cbs-reply-to-{number}"
        cbs = await Node.open(client, "$cbs", reply_target=reply, reply_to=reply, snd_settle_mode=1)
        assert (await cbs.put_token(sas(uri), uri)).application["status-code"] == 202
        for handle in (cbs.out, cbs.back):
            client.say(Detach(handle, True))
            await client.expect(Detach)


async def test_python_calls_its_signatures_jwt(client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs", reply_target="$cbs")
    answer = await cbs.put_token(sas(uri), uri, type="jwt")
    assert answer.application["status-code"] == 202


async def test_tokens_may_come_as_data(client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    answer = await cbs.put_token(sas(uri).encode(), uri)
    assert answer.application["status-code"] == 202


# ---- rights and time


async def test_rights(bus: Bus, client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    token = sas(uri, key="SENDER_KEY", name="sender")
    await cbs.put_token(token, uri)
    await client.attach("q", handle=0)
    await client.attach("q", handle=1, receiver=True)
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert "'Listen' claim(s) are required" in (detach.error.description or "")
    client.say(Detach(1, True))
    # Tokens for other scopes stand beside it.
    await cbs.put_token(sas(f"{uri}/$DeadLetterQueue"), f"{uri}/$DeadLetterQueue")
    attach = await client.attach("q/$DeadLetterQueue", handle=2, receiver=True)
    assert attach.source is not None


async def test_a_token_s_end_ends_its_links(bus: Bus, client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    soon = int(time.time()) + 30
    await cbs.put_token(sas(uri, expiry=soon), uri)
    await client.attach("q", handle=0)
    await client.attach("q", handle=1, receiver=True)
    bus.clock.advance(seconds(31))
    for _ in range(2):
        detach = await client.until(Detach)
        assert detach.handle in (0, 1)
        assert detach.error is not None
        assert detach.error.condition == "amqp:unauthorized-access"
        assert "ExpiredToken" in (detach.error.description or "")
        client.say(Detach(detach.handle, True))


async def test_a_token_renewed_in_time_keeps_them(bus: Bus, client: RawClient) -> None:
    cbs = await Node.open(client, "$cbs")
    await cbs.put_token(sas(uri, expiry=int(time.time()) + 30), uri)
    await client.attach("q")
    bus.clock.advance(seconds(20))
    await cbs.put_token(sas(uri), uri)
    bus.clock.advance(seconds(20))
    await client.send_accepted(data_message())


async def test_moving_the_server_s_clock_makes_no_token_old() -> None:
    """Clients sign the real time, whatever a tester makes of the server's."""
    bus = await start(wall=RealClock())
    clients = [await RawClient.open(bus.port)]
    try:
        await bus.broker.administration.create(QueueDescription(name="q"))
        cbs = await Node.open(clients[0], "$cbs")
        await cbs.put_token(sas(uri, expiry=int(time.time()) + 100), uri)
        await clients[0].attach("q")
        bus.clock.advance(seconds(300))
        await clients[0].send_accepted(data_message())
        bus.clock.advance(seconds(7_200))
        clients.append(await RawClient.open(bus.port))
        cbs = await Node.open(clients[1], "$cbs")
        soon = int(time.time()) + 2
        answer = await cbs.put_token(sas(uri, expiry=soon), uri)
        assert answer.application["status-code"] == 202
        await clients[1].attach("q")
        # It ends with real time, and not a moment before.
        detach = await clients[1].until(Detach)
        assert time.time() >= soon
        assert detach.error is not None
        assert "ExpiredToken" in (detach.error.description or "")
    finally:
        for client in clients:
            client.hang_up()
        await stop(bus)


async def test_the_namespace_has_no_management(client: RawClient) -> None:
    await client.attach("$management")
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-implemented"
