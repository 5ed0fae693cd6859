"""Messages of a run beside the same messages one by one."""

import struct
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp.messages import (
    batch_format,
    read_message,
    write_head,
    write_heads,
)
from etagere.frontends.bus_amqp.reader import MessageReader
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.sections import Header, Properties, section
from etagere.protocols.amqp.values import Milliseconds, Symbol
from etagere.services.bus.deliveries import LockedRun, delivery_of
from etagere.services.bus.messages import Message
from etagere.services.bus.records import StoredMessage

now = 17_000_000_000_000_000
number = st.integers(0, 2**63 - 1)
header_section = st.sampled_from(
    [b"", encode_composite(Header(durable=True)), encode_composite(Header(ttl=5000, priority=9))]
)
annotations_section = st.sampled_from(
    [b"", section(0x72, {Symbol("x-opt-partition-key"): "k"}), section(0x72, {Symbol("a"): 1})]
)


@st.composite
def stored_messages(draw: st.DrawFn) -> StoredMessage:
    usual = draw(st.integers(0, 2)) > 0
    return StoredMessage(
        section(0x75, draw(st.binary(max_size=20))),
        draw(header_section),
        b"" if usual else section(0x71, {Symbol("d"): 1}),
        b"" if usual else draw(annotations_section),
        1,
        draw(st.integers(0, now * 2)),
        draw(st.integers(0, 1000)),
        0,
        draw(st.sampled_from([0, 0, 1, 2**40])),
        None,
        None if usual else draw(st.sampled_from([None, 0, 70_000])),
        None if usual else draw(st.sampled_from([None, "k"])),
        0 if usual else draw(st.sampled_from([0, now])),
        dead_letter_source=None if usual else draw(st.sampled_from([None, "q"])),
    )


@given(
    st.lists(st.tuples(number, stored_messages(), st.binary(min_size=16, max_size=16)), max_size=6),
    st.integers(0, now * 2),
)
def test_heads_of_a_run(
    messages: list[tuple[int, StoredMessage, bytes]], locked_until: int
) -> None:
    until = Timestamp(locked_until)
    run = LockedRun(
        [(number, message) for number, message, _ in messages],
        [token for _, _, token in messages],
        until,
    )
    for _ in range(2):  # headers are known the second time
        heads, tails = write_heads(run)
        singles = [delivery_of(n, message, token, until) for n, message, token in messages]
        assert heads == [write_head(one) for one in singles]
        assert tails == [one.tail for one in singles]
    assert run.each() == singles


def _outcome(read: Any, payload: bytes) -> Message | type[Exception]:
    try:
        message: Message = read(payload)
    except (Refused, DecodeFault) as refused:
        return type(refused)
    return message


def _read_one(reader: MessageReader, payload: bytes) -> Message:
    buffer = b"before" + payload + b"behind"
    messages, _ = reader.read_run(buffer, [(6, 6 + len(payload))])
    (message,) = messages
    return message


_empty_and_wide = bytes.fromhex("005372d10000000400000000")


def _wide(properties: bytes) -> bytes:
    """The same section in a list whose size and count take four bytes."""
    size, count, fields = properties[4], properties[5], properties[6:]
    return properties[:3] + b"\xd0" + struct.pack(">II", size + 3, count) + fields


@st.composite
def payload_families(draw: st.DrawFn) -> list[bytes]:
    """Messages as one client writes them, and some that differ."""
    head = draw(header_section)
    if draw(st.integers(0, 4)) == 0:
        head += section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): Milliseconds(5)})
    elif draw(st.booleans()):
        head += draw(st.sampled_from([section(0x71, {}), section(0x72, {}), _empty_and_wide]))
    application = draw(st.sampled_from([b"", section(0x74, {"a": 1}), section(0x74, {"b": "c"})]))
    if draw(st.integers(0, 4)) == 0:
        application = section(0x74, {f"name {n}": "x" * 20 for n in range(20)})
    subject = draw(st.sampled_from([None, "subject"]))
    footer = section(0x78, {}) if draw(st.integers(0, 3)) == 0 else b""
    id_bytes = draw(st.sampled_from([None, None, 0, 1, 16, 255]))
    wide = draw(st.booleans())
    payloads = []
    for n in range(draw(st.integers(1, 6))):
        message_id = None if id_bytes is None else str(n % 10) * id_bytes
        properties = encode_composite(Properties(message_id, subject=subject))
        if wide and properties[3] == 0xC0:
            properties = _wide(properties)
        body = section(0x75, bytes(draw(st.sampled_from([0, 1, 255, 256, 400]))))
        payloads.append(head + properties + application + body + footer)
    return payloads


@given(st.lists(payload_families(), min_size=1, max_size=4), st.data())
def test_what_is_read_in_a_run(families: list[list[bytes]], data: st.DataObject) -> None:
    payloads = [payload for family in families for payload in family]
    for _ in range(data.draw(st.integers(0, 3))):
        which = data.draw(st.integers(0, len(payloads) - 1))
        damaged = bytearray(payloads[which])
        damaged[data.draw(st.integers(0, min(60, len(damaged)) - 1))] = data.draw(
            st.integers(0, 255)
        )
        payloads[which] = bytes(damaged)
    reader = MessageReader(lambda: "drawn")
    for payload in payloads:
        expected = _outcome(lambda raw: read_message(raw, lambda: "drawn"), payload)
        assert _outcome(lambda raw: _read_one(reader, raw), payload) == expected


@given(payload_families(), st.data())
def test_a_message_is_read_the_same_whatever_its_form(
    payloads: list[bytes], data: st.DataObject
) -> None:
    damaged = bytearray(data.draw(st.sampled_from(payloads)))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        # Two properties of one name, each spelt in its own way.
        pairs = b"\xa1\x01a\x41\xb1\x00\x00\x00\x01a\x42"
        twice = b"\x00\x53\x74\xc1" + bytes((1 + len(pairs), 4)) + pairs
        damaged = bytearray(encode_composite(Properties("id")) + twice + section(0x75, b"body"))
    for payload in (*payloads, bytes(damaged)):
        found = _outcome(lambda raw: read_message(raw, lambda: "drawn"), payload)
        with patch("etagere.frontends.bus_amqp.messages.is_usual_tail", return_value=False):
            assert found == _outcome(lambda raw: read_message(raw, lambda: "drawn"), payload)


_some_id = "0b5bd0a6-7ec3-4a0e-8f4d-6a4bd3a0a9d7"


@pytest.mark.parametrize(
    ("head", "properties", "footer"),
    [
        (encode_composite(Header(durable=True)), encode_composite(Properties(_some_id)), b""),
        # As azure-servicebus, @azure/service-bus, Java's and Go's write them; ids are often left
        # to the service.
        (b"", encode_composite(Properties(_some_id)), b""),
        (b"", b"\x00\x53\x73\xc0\x0e\x0d" + b"\x40" * 13, b""),
        (b"\x00\x53\x70\x45" + _empty_and_wide, _wide(encode_composite(Properties(_some_id))), b""),
        (b"\x00\x53\x70\x45" + _empty_and_wide, b"\x00\x53\x73\x45", b""),
        (
            section(0x71, {}) + section(0x72, {}),
            _wide(encode_composite(Properties(_some_id, b""))),
            section(0x78, {}),
        ),
        (_empty_and_wide, _wide(encode_composite(Properties(_some_id))), b""),
    ],
)
def test_the_shapes_of_clients_are_learnt(head: bytes, properties: bytes, footer: bytes) -> None:
    payloads = [head + properties + section(0x75, bytes([n] * 1000)) + footer for n in range(6)]
    ends = list(accumulate(map(len, payloads)))
    spans = list(zip([0, *ends], ends, strict=False))
    reader = MessageReader(lambda: "a" * 32)
    reader.read_run(b"".join(payloads), spans[:1])
    messages, alike = reader.read_run(b"".join(payloads), spans)
    assert alike
    assert messages == [read_message(payload, lambda: "a" * 32) for payload in payloads]
    assert not any(message.annotations or message.delivery_annotations for message in messages)


def test_a_batch_is_read_as_its_members_are() -> None:
    payloads = [
        encode_composite(Properties(f"id {n}")) + section(0x75, bytes(1000 + n)) for n in range(5)
    ]
    batch = b"".join(section(0x75, payload) for payload in payloads)
    reader = MessageReader(lambda: "drawn")
    messages = reader.read(batch_format, batch)
    assert messages == [read_message(payload, lambda: "drawn") for payload in payloads]
    assert reader._used


def test_the_shape_is_used() -> None:
    """Or the test above would compare a function with itself."""
    reader = MessageReader(lambda: "drawn")
    payloads = [
        encode_composite(Properties(f"id {n}")) + section(0x75, bytes(1000 + n)) for n in range(5)
    ]
    ends = list(accumulate(map(len, payloads)))
    spans = list(zip([0, *ends], ends, strict=False))
    assert reader.read_run(b"".join(payloads), spans[:1])[1] is False
    messages, alike = reader.read_run(b"".join(payloads), spans)
    assert alike
    assert reader._used
    assert [message.size for message in messages] == [len(payload) for payload in payloads]
    assert [message.tail for message in messages] == payloads
    other = encode_composite(Properties("a longer id")) + section(0x75, bytes(1000))
    spans.append((ends[-1], ends[-1] + len(other)))
    messages, alike = reader.read_run(b"".join([*payloads, other]), spans)
    assert not alike
    assert messages[-1].tail == other
