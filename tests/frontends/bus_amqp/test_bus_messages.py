"""Messages between the wire and the broker."""

import uuid
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp import _decode as pyamqp_decode
from azure.servicebus._pyamqp import _encode as pyamqp_encode
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp, timestamp_first, timestamp_never
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp.messages import (
    batch_format,
    read_message,
    token_of,
    uuid_of,
    with_message_id,
    write_any_head,
    write_head,
    write_usual_head,
)
from etagere.frontends.bus_amqp.reader import MessageReader
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.sections import (
    Header,
    Properties,
    read_header,
    read_map,
    read_properties,
    section,
    split,
)
from etagere.protocols.amqp.values import Int, Milliseconds, Symbol, UInt, ULong, Uuid
from etagere.services.bus.messages import Delivery, Message, MessageState

tail = encode_composite(Properties("id")) + section(0x75, b"body")


def read(payload: bytes) -> Message:
    return read_message(payload, lambda: "drawn")


def read_all(message_format: int, payload: bytes) -> list[Message]:
    return MessageReader(lambda: "drawn").read(message_format, payload)


now = Timestamp(17_000_000_000_000_000)


def delivery(**changes: Any) -> Delivery:
    fields: dict[str, Any] = {
        "tail": tail,
        "header": b"",
        "delivery_annotations": b"",
        "annotations": b"",
        "sequence_number": 7,
        "enqueued_at": now,
        "enqueued_sequence_number": 7,
        "delivery_count": 0,
        "ttl_ms": None,
        "state": MessageState.active,
        "lock_token": bytes(range(16)),
        "locked_until": Timestamp(now + 600_000_000),
        "session_id": None,
        "scheduled_at": None,
        "partition_key": None,
        "dead_letter_source": None,
    }
    return Delivery(**(fields | changes))


headers = st.one_of(
    st.just(b""),
    st.builds(Header, st.booleans(), st.integers(0, 255), first_acquirer=st.booleans()).map(
        encode_composite
    ),
)
numbers = st.integers(0, 2**63 - 1)
big = st.integers(2**20, 2**62)


@given(headers, big, big, big, st.integers(0, 2**32 - 1), st.binary(min_size=16, max_size=16), big)
def test_the_usual_head_is_what_the_other_path_writes(
    header: bytes, sequence: int, enqueued: int, original: int, count: int, token: bytes, until: int
) -> None:
    one = delivery(
        header=header,
        sequence_number=sequence,
        enqueued_at=Timestamp(enqueued),
        enqueued_sequence_number=original,
        delivery_count=count,
        lock_token=token,
        locked_until=Timestamp(until),
    )
    usual = split(write_usual_head(one) + one.tail)
    other = split(write_any_head(one, state=False) + one.tail)
    assert read_header(usual.header) == read_header(other.header)
    assert usual.delivery_annotations == other.delivery_annotations
    assert usual.message_annotations == other.message_annotations
    assert usual.tail == other.tail == one.tail
    assert write_head(one) == write_usual_head(one)


@pytest.mark.parametrize(
    "changes",
    [
        {"ttl_ms": 5_000},
        {"annotations": section(0x72, {Symbol("mine"): 1})},
        {"delivery_annotations": section(0x71, {Symbol("mine"): 1})},
        {"scheduled_at": now},
        {"partition_key": "p"},
        {"dead_letter_source": "queue"},
        {"lock_token": None, "locked_until": None},
    ],
)
def test_what_is_unusual_is_left_to_the_other_path(changes: dict[str, Any]) -> None:
    one = delivery(**changes)
    assert write_head(one) == write_any_head(one, state=False)


def test_everything_on_the_wire() -> None:
    one = delivery(
        header=encode_composite(Header(True, 9, 1)),
        annotations=section(0x72, {Symbol("mine"): "x"}),
        delivery_annotations=section(0x71, {Symbol("mine"): "y"}),
        delivery_count=3,
        ttl_ms=5_000,
        state=MessageState.deferred,
        scheduled_at=now,
        partition_key="p",
        dead_letter_source="queue",
    )
    sections = split(write_head(one, state=True) + tail)
    assert read_header(sections.header) == Header(True, 9, 5_000, False, 3)
    assert read_map(sections.delivery_annotations) == {
        "mine": "y",
        "x-opt-lock-token": uuid.UUID(bytes_le=bytes(range(16))).bytes,
    }
    annotations = read_map(sections.message_annotations)
    assert annotations == {
        "x-opt-sequence-number": 7,
        "x-opt-enqueued-time": 1_700_000_000_000,
        "x-opt-enqueue-sequence-number": 7,
        "x-opt-locked-until": 1_700_000_060_000,
        "x-opt-message-state": 1,
        "x-opt-deadletter-source": "queue",
        "x-opt-scheduled-enqueue-time": 1_700_000_000_000,
        "x-opt-partition-key": "p",
        "mine": "x",
    }
    kinds = {str(name): type(value) for name, value in annotations.items()}
    assert kinds["x-opt-sequence-number"] is int
    assert kinds["x-opt-enqueued-time"] is Milliseconds
    assert kinds["x-opt-message-state"] is Int
    assert kinds["x-opt-deadletter-source"] is str


def test_peeked_and_deleted_messages_have_no_lock() -> None:
    sections = split(write_head(delivery(lock_token=None, locked_until=None), state=True) + tail)
    assert sections.delivery_annotations == b""
    assert Symbol("x-opt-locked-until") not in read_map(sections.message_annotations)


def test_annotations_that_came_over_amqp_are_not_said_twice() -> None:
    annotations = section(
        0x72,
        {
            Symbol("x-opt-scheduled-enqueue-time"): Milliseconds(5),
            Symbol("x-opt-partition-key"): "p",
        },
    )
    one = delivery(annotations=annotations, scheduled_at=now, partition_key="p")
    out = read_map(split(write_head(one) + tail).message_annotations)
    assert out[Symbol("x-opt-scheduled-enqueue-time")] == 5


def test_lock_tokens_are_guids() -> None:
    token = bytes(range(16))
    assert bytes(uuid_of(token)) == uuid.UUID(bytes_le=token).bytes
    assert token_of(uuid.UUID(bytes_le=token).bytes) == token


# ---- in


def test_a_message_is_read() -> None:
    header = encode_composite(Header(ttl=60_000))
    annotations = section(
        0x72,
        {
            Symbol("x-opt-scheduled-enqueue-time"): Milliseconds(1_700_000_000_000),
            Symbol("x-opt-partition-key"): "p",
            Symbol("mine"): UInt(1),
        },
    )
    payload = header + annotations + tail
    message = read(payload)
    assert message.tail == tail
    assert message.size == len(payload)
    assert (message.header, message.annotations) == (header, annotations)
    assert message.ttl_ms == 60_000
    assert message.scheduled_at == now
    assert message.partition_key == "p"


@pytest.mark.parametrize("sign", [1, -1])
def test_times_beyond_the_calendar_are_its_ends(sign: int) -> None:
    """They are a client's to send, and no fault of the store's."""
    scheduled = Milliseconds(sign * (2**63 - 1))
    annotations = section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): scheduled})
    message = read(annotations + tail)
    assert message.annotations == annotations
    assert message.scheduled_at == (timestamp_never if sign > 0 else timestamp_first)


@pytest.mark.parametrize("ttl", [None, 0xFFFFFFFF])
def test_no_time_to_live(ttl: int | None) -> None:
    assert read(encode_composite(Header(ttl=ttl)) + tail).ttl_ms is None


def test_what_only_the_broker_says_is_dropped() -> None:
    one = delivery(
        annotations=section(0x72, {Symbol("mine"): "x"}),
        delivery_annotations=section(0x71, {Symbol("mine"): "y"}),
        dead_letter_source="queue",
    )
    message = read(write_head(one, state=True) + tail)
    assert read_map(message.annotations) == {"mine": "x"}
    assert read_map(message.delivery_annotations) == {"mine": "y"}
    message = read(write_head(delivery()) + tail)
    assert message.annotations == b""
    assert message.delivery_annotations == b""


def test_what_pyamqp_received_it_may_send_on() -> None:
    """It takes strings for bytes, and times for numbers."""
    received = {
        Symbol("x-opt-partition-key"): b"p",
        Symbol("x-opt-via-partition-key"): b"v",
        Symbol("x-opt-scheduled-enqueue-time"): now // 10_000,
        Symbol("x-opt-sequence-number"): 7,
        Symbol("mine"): b"x",
    }
    message = read(section(0x72, received) + tail)
    assert (message.partition_key, message.scheduled_at) == ("p", now)
    kept = read_map(message.annotations)
    assert kept == {
        "x-opt-partition-key": "p",
        "x-opt-via-partition-key": "v",
        "x-opt-scheduled-enqueue-time": now // 10_000,
        "mine": b"x",
    }
    assert type(kept[Symbol("x-opt-scheduled-enqueue-time")]) is Milliseconds
    empty = dict.fromkeys(received)
    assert read(section(0x72, empty | {Symbol("mine"): 1}) + tail).annotations == section(
        0x72, {Symbol("mine"): 1}
    )


@pytest.mark.parametrize(
    "annotations",
    [
        {Symbol("x-opt-scheduled-enqueue-time"): "soon"},
        {Symbol("x-opt-scheduled-enqueue-time"): True},
        {Symbol("x-opt-scheduled-enqueue-time"): ULong(2**63)},
        {Symbol("x-opt-partition-key"): b"\xff"},
        {Symbol("x-opt-partition-key"): 5},
        {Symbol("x-opt-via-partition-key"): Symbol("p")},
    ],
)
def test_annotations_of_the_wrong_type_are_refused(annotations: dict[Any, Any]) -> None:
    with pytest.raises(Refused):
        read(section(0x72, annotations) + tail)


@pytest.mark.parametrize(
    "payload",
    [
        b"x",
        section(0x72, {"string": 1}) + tail,
        section(0x72, [1]) + tail,
        section(0x71, [1]) + tail,
        section(0x70, [1]) + tail,
        section(0x70, {"durable": True}) + tail,
        tail + tail,
    ],
)
def test_bad_messages(payload: bytes) -> None:
    with pytest.raises(DecodeFault):
        read(payload)


def _map(*items: bytes) -> bytes:
    """Application properties out of encoded names and values."""
    content = bytes([len(items)]) + b"".join(items)
    return b"\x00\x53\x74\xc1" + bytes([len(content)]) + content


def _list(*fields: bytes) -> bytes:
    content = bytes([len(fields)]) + b"".join(fields)
    return b"\x00\x53\x73\xc0" + bytes([len(content)]) + content


_name, _no_text, _no_symbol = b"\xa1\x01n", b"\xa1\x02\xff\xfe", b"\xa3\x01\xe9"


@pytest.mark.parametrize("behind", [b"", section(0x72, {Symbol("mine"): 1})])
@pytest.mark.parametrize(
    "sections",
    [
        _list(_no_text),
        _list(_name, b"\x40", b"\x40", _no_text),
        _list(b"\x40", b"\x40", b"\x40", b"\x40", b"\x40", b"\x40", _no_symbol),
        _list(_name, b"\x40", b"\x82" + bytes(8)),
        _list(b"\x45"),
        _list(*[b"\x40"] * 14),
        _map(_name, _no_text),
        _map(_name, _no_symbol),
        _map(_no_text, _name),
        _map(b"\x54\x01", _name),
        _map(b"\x40", _name),
        _map(_name, b"\x56\x02"),
        _map(_name, b"\x73\xff\xff\xff\xff"),
        _map(_name, b"\xb1\x00\x00\x00\x02\xff\xfe"),
    ],
)
def test_what_nobody_could_read_later_is_refused(behind: bytes, sections: bytes) -> None:
    """Filters, forwarding and dead-lettering read these; a message kept would stop all three."""
    for payload in (behind + sections + tail[-7:], behind + sections):
        with pytest.raises((DecodeFault, Refused)) as refused:
            read(payload)
        assert isinstance(refused.value, DecodeFault) or refused.value.code == "amqp:decode-error"


@pytest.mark.parametrize(
    "sections",
    [
        _list(b"\xa1\x02" + "ş".encode()),
        _map(b"\xa1\x02" + "ş".encode(), b"\xb1\x00\x00\x00\x02" + "ş".encode()),
        _map(_name, b"\x73\x00\x01\xf6\x00"),
        _map(_name, b"\x82" + bytes(8)),
        _map(_name, b"\xa0\x02\xff\xfe"),
    ],
)
def test_what_is_unusual_and_good_is_kept_as_it_is(sections: bytes) -> None:
    assert read(sections + section(0x75, b"x")).tail.endswith(sections[4:] + section(0x75, b"x"))


@given(st.binary(max_size=200))
def test_any_bytes(payload: bytes) -> None:
    for message_format in (0, batch_format):
        try:
            read_all(message_format, payload)
        except (DecodeFault, Refused):
            continue


def test_batches() -> None:
    members = [tail, encode_composite(Header()) + tail]
    payload = b"".join(section(0x75, member) for member in members)
    read = read_all(batch_format, payload)
    assert [message.size for message in read] == [len(member) for member in members]
    for empty in (b"", encode_composite(Header())):
        with pytest.raises(Refused):
            read_all(batch_format, empty)
    with pytest.raises(Refused):
        read_all(7, payload)


# ---- as the Python SDK writes and reads


def _encoded(message: Any) -> bytes:
    out = bytearray()
    amqp = getattr(message, "raw_amqp_message", message)
    pyamqp_encode.encode_payload(out, PyamqpTransport.to_outgoing_amqp_message(amqp))
    return bytes(out)


def test_what_the_sdk_sends_comes_back() -> None:
    payload = _encoded(
        ServiceBusMessage(
            b"body",
            application_properties={"a": 1},
            session_id="s",
            message_id="m",
            subject="l",
            content_type="t",
        )
    )
    message = read(payload)
    out = write_head(delivery(tail=message.tail, header=message.header, delivery_count=2))
    decoded = pyamqp_decode.decode_payload(memoryview(out + message.tail))
    assert decoded.header.delivery_count == 2
    assert decoded.delivery_annotations[b"x-opt-lock-token"] == uuid.UUID(bytes_le=bytes(range(16)))
    assert decoded.message_annotations[b"x-opt-sequence-number"] == 7
    assert decoded.properties.message_id == b"m"
    assert decoded.application_properties == {b"a": 1}
    assert list(decoded.data) == [b"body"]
    assert not decoded.header.ttl


def test_what_the_sdk_batches_is_taken_apart() -> None:
    batch = ServiceBusMessageBatch(max_size_in_bytes=100_000)
    for number in range(3):
        batch.add_message(ServiceBusMessage(f"body {number}"))
    out = bytearray()
    pyamqp_encode.encode_payload(out, batch._message)
    messages = read_all(batch_format, bytes(out))
    assert len(messages) == 3
    assert [f"body {number}".encode() in one.tail for number, one in enumerate(messages)] == [
        True
    ] * 3


def test_uuid_ids_stay_uuids() -> None:
    assert Uuid(bytes(16)) == bytes(16)
    payload = _encoded(ServiceBusMessage(b"x", correlation_id="c"))
    assert read(payload).tail.endswith(b"\x00\x53\x75\xa0\x01x")


@pytest.mark.parametrize(
    "properties",
    [
        b"",
        b"\x00\x53\x73\x45",
        b"\x00\x53\x73\xc0\x02\x01\x40",
        b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01t",
        encode_composite(Properties(to="t" * 300)),
    ],
)
def test_a_message_without_an_id_gets_one(properties: bytes) -> None:
    body = section(0x75, b"body")
    message = read(properties + body)
    assert message.tail.endswith(body)
    after = read_properties(message.tail.removesuffix(body))
    assert after.message_id == "drawn"
    if properties:
        assert after.to == read_properties(properties).to
    assert with_message_id(message.tail, lambda: "other") == message.tail


@pytest.mark.parametrize("message_id", ["x", "x" * 300, ULong(7), Uuid(bytes(16)), b"b", ""])
def test_an_id_is_left_as_it_is(message_id: Any) -> None:
    whole = encode_composite(Properties(message_id)) + section(0x75, b"body")
    assert read(whole).tail == whole
