"""Both sides of the limits on what is sent (Service Bus, quotas)."""

from collections.abc import Callable
from typing import Any

import pytest
from asking import Node, request, root_login
from bus_server import Bus, start, stop
from raw_amqp import RawClient, data_message

from etagere.protocols.amqp.outcomes import Accepted, Rejected, Source
from etagere.protocols.amqp.performatives import Detach, Disposition
from etagere.protocols.amqp.sections import section
from etagere.protocols.amqp.values import Symbol
from etagere.services.bus.descriptions import QueueDescription, Tier

too_large = "amqp:link:message-size-exceeded"
out_of_range = "com.microsoft:argument-out-of-range"
message_bytes = 262_144
batch_format = 0x80013700
batch_limit = Symbol("com.microsoft:max-message-batch-size")
piece_bytes = 100_000


@pytest.fixture
async def client(bus: Bus) -> Any:
    await bus.broker.administration.create(QueueDescription(name="q"))
    await bus.broker.administration.create(QueueDescription(name="s", requires_session=True))
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    yield client
    client.hang_up()


async def sent(client: RawClient, payload: bytes, message_format: int = 0) -> str | None:
    """The condition that it was refused with; the link can still be used."""
    number = client._delivery_id
    pieces = range(0, len(payload), piece_bytes)
    for at in pieces:
        client._delivery_id = number
        client.transfer(
            payload[at : at + piece_bytes], message_format=message_format, more=at != pieces[-1]
        )
    outcome = await client.expect(Disposition)
    assert (outcome.first, outcome.settled) == (number, True)
    await client.send_accepted(data_message())
    if isinstance(outcome.state, Accepted):
        return None
    assert isinstance(outcome.state, Rejected)
    assert outcome.state.error is not None
    return str(outcome.state.error.condition)


def body_so_that(whole: int, make: Callable[[bytes], bytes]) -> bytes:
    """A message of so many bytes altogether."""
    payload = make(bytes(whole - len(make(bytes(1_000))) + 1_000))
    assert len(payload) == whole
    return payload


@pytest.mark.parametrize("properties", [{}, {"message_id": "id"}, {"subject": "x" * 200}])
async def test_a_message_s_bytes(client: RawClient, properties: dict[str, Any]) -> None:
    def make(body: bytes) -> bytes:
        return data_message(body, **properties)

    assert await sent(client, body_so_that(message_bytes, make)) is None
    assert await sent(client, body_so_that(message_bytes + 1, make)) == too_large
    assert await sent(client, body_so_that(2 * message_bytes, make)) == too_large


async def test_a_batch_s_bytes(client: RawClient) -> None:
    """The same with its envelope."""

    def make(body: bytes) -> bytes:
        members = (data_message(b"small", message_id="a"), data_message(body, message_id="b"))
        return b"".join(section(0x75, one) for one in members)

    assert await sent(client, body_so_that(message_bytes, make), batch_format) is None
    assert await sent(client, body_so_that(message_bytes + 1, make), batch_format) == too_large


@pytest.mark.parametrize(("kilobytes", "whole"), [(None, 1_048_576), (2_048, 2_097_152)])
async def test_premium_s_bytes(kilobytes: int | None, whole: int) -> None:
    """As many as the entity takes; a batch has at most one megabyte even then."""
    bus = await start(tier=Tier.premium)
    try:
        description = QueueDescription(name="q", max_message_kilobytes=kilobytes)
        await bus.broker.administration.create(description)
        client = await RawClient.open(bus.port, login=root_login)
        attach = await client.attach("q")
        assert attach.max_message_size == whole
        assert attach.properties == {batch_limit: 1_048_576}
        assert await sent(client, body_so_that(whole, data_message)) is None
        assert await sent(client, body_so_that(whole + 1, data_message)) == too_large

        def batch(body: bytes) -> bytes:
            return b"".join(section(0x75, data_message(one)) for one in (b"small", body))

        assert await sent(client, body_so_that(1_048_576, batch), batch_format) is None
        assert await sent(client, body_so_that(1_050_000, batch), batch_format) == too_large
        client.hang_up()
    finally:
        await stop(bus)


def with_properties(**values: Any) -> bytes:
    return section(0x74, values) + data_message()


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ({"p": "x" * 32_768}, {"p": "x" * 32_769}),
        ({"p": b"x" * 32_768}, {"p": b"x" * 32_769}),
        ({"p": "ü" * 16_384}, {"p": "ü" * 16_385}),
        ({"n" * 32_767: 1}, {"n" * 32_768: 1}),
        ({"a": "x" * 32_700, "b": "x" * 32_700}, {"a": "x" * 32_768, "b": "x" * 32_768}),
    ],
    ids=["text", "bytes", "letters", "name", "all of them"],
)
async def test_a_property_s_bytes(
    client: RawClient, within: dict[str, Any], beyond: dict[str, Any]
) -> None:
    assert await sent(client, with_properties(**within)) is None
    assert await sent(client, with_properties(**beyond)) == too_large


async def test_all_headers_bytes(client: RawClient) -> None:
    """The properties section counts as well."""
    for text, refusal in (("x" * 300, None), ("x" * 2_000, too_large)):
        payload = section(0x73, [None, None, None, text]) + with_properties(
            a="x" * 32_000, b="x" * 32_000
        )
        assert await sent(client, payload) == refusal


@pytest.mark.parametrize("field", ["message_id", "group_id"])
async def test_an_id_s_characters(client: RawClient, field: str) -> None:
    assert await sent(client, data_message(**{field: "ü" * 128})) is None
    assert await sent(client, data_message(**{field: "x" * 129})) == out_of_range


async def test_a_partition_key_s_characters(client: RawClient) -> None:
    def keyed(key: str) -> bytes:
        return section(0x72, {Symbol("x-opt-partition-key"): key}) + data_message()

    assert await sent(client, keyed("x" * 128)) is None
    assert await sent(client, keyed("x" * 129)) == out_of_range


async def test_the_name_of_an_accepted_session_s_characters(client: RawClient) -> None:
    for handle, (length, accepted) in enumerate(((128, True), (129, False)), 1):
        name = "x" * length
        filters = {Symbol("com.microsoft:session-filter"): name}
        attach = await client.attach(
            "s", handle=handle, receiver=True, source=Source("s", filter=filters)
        )
        assert (attach.source is not None) is accepted
    detach = await client.expect(Detach)
    assert detach.error is not None
    assert detach.error.condition == out_of_range


async def test_scheduled_messages_have_the_same_limits(client: RawClient) -> None:
    node = await Node.open(client, "q/$management", handles=(3, 4))
    for payload, status in (
        (data_message(message_id="x" * 128), 200),
        (data_message(message_id="x" * 129), 400),
        (with_properties(p="x" * 32_769), 403),
        (data_message(bytes(250_000)), 200),
    ):
        number = client._delivery_id
        whole = request(
            {"operation": "com.microsoft:schedule-message"},
            {"messages": [{"message": payload}]},
            message_id=f"id-{number}",
        )
        pieces = range(0, len(whole), piece_bytes)
        for at in pieces:
            client._delivery_id = number
            client.transfer(whole[at : at + piece_bytes], handle=3, more=at != pieces[-1])
        assert (await node.answer()).application["statusCode"] == status
