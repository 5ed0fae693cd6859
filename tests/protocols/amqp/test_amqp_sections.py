"""Messages taken apart and put together: AMQP 1.0 part 3, section 3.2."""

import struct
from typing import Any

import pytest
from amqp_values import keys, same, scalars, values
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp import _decode as pyamqp_decode
from azure.servicebus._pyamqp import _encode as pyamqp_encode
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given
from hypothesis import strategies as st

from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.decoding import check_compound, decode_whole
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.sections import (
    Header,
    Properties,
    batch_members,
    map_items,
    map_section,
    read_header,
    read_map,
    read_properties,
    section,
    split,
)
from etagere.protocols.amqp.usual_message import behind_empty_annotations, is_usual_tail
from etagere.protocols.amqp.values import Described, Symbol, UInt, ULong, Uuid

maps = st.dictionaries(keys, scalars, max_size=6)
bodies = st.one_of(
    st.lists(st.binary(max_size=300), min_size=1, max_size=3).map(
        lambda parts: b"".join(section(0x75, part) for part in parts)
    ),
    st.lists(st.lists(scalars, max_size=4), min_size=1, max_size=3).map(
        lambda parts: b"".join(section(0x76, part) for part in parts)
    ),
    values.map(lambda value: section(0x77, value)),
)
headers = st.builds(
    Header,
    st.booleans(),
    st.integers(0, 255),
    st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)


@st.composite
def messages(draw: st.DrawFn) -> list[bytes]:
    """[header, delivery annotations, message annotations, tail], each maybe empty."""

    def maybe(part: bytes) -> bytes:
        return part if draw(st.booleans()) else b""

    properties = encode_composite(Properties(draw(st.text(max_size=40)), to=draw(st.text())))
    return [
        maybe(encode_composite(draw(headers))),
        maybe(section(0x71, draw(maps))),
        maybe(section(0x72, draw(maps))),
        maybe(properties)
        + maybe(section(0x74, draw(maps)))
        + maybe(draw(bodies))
        + maybe(section(0x78, draw(maps))),
    ]


@given(messages())
def test_a_message_is_its_sections(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    sections = split(whole)
    assert parts == [
        sections.header,
        sections.delivery_annotations,
        sections.message_annotations,
        sections.tail,
    ]


@given(messages(), st.data())
def test_damaged_messages_split_or_fault(parts: list[bytes], data: st.DataObject) -> None:
    damaged = bytearray(b"".join(parts) or b"\x00")
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    try:
        sections = split(bytes(damaged[:cut]))
    except DecodeFault:
        return
    parts = [sections.header, sections.delivery_annotations, sections.message_annotations]
    assert sorted(b"".join([*parts, sections.tail])) == sorted(damaged[:cut])


@given(st.binary(max_size=60))
def test_random_bytes_split_or_fault(noise: bytes) -> None:
    for function in (split, batch_members):
        try:
            function(noise)  # type: ignore[operator]  # two signatures
        except DecodeFault:
            continue


@pytest.mark.parametrize(
    "wire",
    [
        "0053",
        "005370",
        "ff5370",
        "005379" + "45",  # no such section
        "005380" + "45",
        "00a3017845",
        "00530045",
        "005375a000" + "00537740",  # two kinds of body
        "00537740" + "00537740",  # a value twice
        "005370c00100" + "005370c00100",
        "005373c00a01a103616263",  # a size beyond the end
        "005373c0030240",  # fewer fields than counted
        "005374c10301a10161"[:18],  # a key without a value
        "005375a0ff00",
        "005375b0000000ff00",
        "00537340" + "0053740000",
    ],
)
def test_bad_messages_are_decode_faults(wire: str) -> None:
    with pytest.raises(DecodeFault):
        split(bytes.fromhex(wire))


@given(messages(), st.data())
def test_any_order_is_put_right(parts: list[bytes], data: st.DataObject) -> None:
    """pyAMQP writes delivery annotations behind the footer."""
    sections = split(b"".join(data.draw(st.permutations(parts))))
    assert parts == [
        sections.header,
        sections.delivery_annotations,
        sections.message_annotations,
        sections.tail,
    ]


def test_a_tail_out_of_order_is_put_right() -> None:
    properties, body, footer = section(0x73, ["id"]), section(0x77, "b"), section(0x78, {})
    assert split(footer + body + properties).tail == properties + body + footer


@pytest.mark.parametrize("code", ["0053{:02x}", "008000000000000000{:02x}"])
def test_descriptors_of_any_width(code: str) -> None:
    header = bytes.fromhex(code.format(0x70)) + b"\x45"
    tail = bytes.fromhex(code.format(0x77)) + b"\xa1\x01x"
    sections = split(header + tail)
    assert (sections.header, sections.tail) == (header, tail)
    assert read_header(sections.header) == Header()


def test_descriptors_by_name() -> None:
    header = b"\x00" + encode(Symbol("amqp:header:list")) + b"\x45"
    tail = b"\x00" + encode(Symbol("amqp:data:binary")) + b"\xa0\x01x"
    sections = split(header + tail)
    assert (sections.header, sections.tail) == (header, tail)


@given(headers)
def test_headers_are_read(header: Header) -> None:
    assert read_header(encode_composite(header)) == header


def test_properties_keep_the_type_of_ids() -> None:
    for message_id in ("text", ULong(7), Uuid(bytes(16)), b"binary"):
        read = read_properties(encode_composite(Properties(message_id, correlation_id=message_id)))
        assert same(read.message_id, message_id)
        assert same(read.correlation_id, message_id)


@given(maps, maps)
def test_maps_are_joined_raw(first: dict[Any, Any], second: dict[Any, Any]) -> None:
    second = {key: value for key, value in second.items() if key not in first}
    one_count, one = map_items(section(0x72, first))
    other_count, other = map_items(section(0x72, second))
    joined = map_section(0x72, one_count + other_count, one + other)
    assert same(read_map(joined), {**first, **second})


def test_no_map_is_an_empty_one() -> None:
    assert map_items(b"") == (0, b"")
    assert map_items(section(0x72, None)) == (0, b"")
    assert read_map(b"") == {}
    assert read_map(section(0x72, None)) == {}


@pytest.mark.parametrize("wire", ["005372", "005372c1", "005372c101", "005372d1000000", "00537245"])
def test_what_is_no_map_is_a_fault(wire: str) -> None:
    with pytest.raises(DecodeFault):
        map_items(bytes.fromhex(wire))
    with pytest.raises(DecodeFault):
        read_map(bytes.fromhex(wire))


# ---- compounds are checked without being decoded


@given(st.one_of(st.lists(values, max_size=6), st.dictionaries(keys, values, max_size=6)))
def test_well_formed_compounds_pass(value: Any) -> None:
    encoded = encode(value)
    check_compound(encoded, 0, len(encoded))


@given(
    st.one_of(st.lists(scalars, max_size=6), st.dictionaries(keys, scalars, max_size=6)), st.data()
)
def test_damaged_compounds_that_pass_are_well_formed(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(encode(value))
    size_end = {0x45: 1, 0xC0: 2, 0xC1: 2}.get(damaged[0], 5)  # whoever calls knows where it stops
    if size_end < len(damaged):
        place = data.draw(st.integers(size_end, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        check_compound(bytes(damaged), 0, len(damaged))
    except DecodeFault:
        return
    reason = ""
    try:
        decode_whole(bytes(damaged))
    except DecodeFault as fault:
        reason = str(fault)
    # What is not looked into: texts, booleans, keys.
    looked_over = ("UTF-8", "ASCII", "Unicode", "boolean", "key")
    assert not reason or any(word in reason for word in looked_over), reason


# ---- batches


def test_a_batch_is_its_members() -> None:
    members = [section(0x75, b"x" * size) for size in (1, 300)]
    batch = encode_composite(Properties("id")) + b"".join(section(0x75, one) for one in members)
    assert [batch[start:end] for start, end in batch_members(batch)] == members
    assert batch_members(b"") == []


@pytest.mark.parametrize("wire", ["00537740", "005375a101" + "61", "005375"])
def test_what_is_no_batch_is_a_fault(wire: str) -> None:
    with pytest.raises(DecodeFault):
        batch_members(bytes.fromhex(wire))


# ---- as the Python SDK sees it


def test_what_the_sdk_encodes_is_split() -> None:
    message = ServiceBusMessage(
        b"body",
        application_properties={"a": 1, b"b": "x"},
        session_id="s",
        message_id="m",
        content_type="text/plain",
        correlation_id="c",
        partition_key="s",
    )
    amqp = message.raw_amqp_message
    encoded = bytearray()
    pyamqp_encode.encode_payload(encoded, PyamqpTransport.to_outgoing_amqp_message(amqp))
    sections = split(bytes(encoded))
    assert read_map(sections.message_annotations) == {Symbol("x-opt-partition-key"): "s"}
    again = b"".join(
        [
            encode_composite(Header(True, 4, None, False, 3)),
            section(0x71, {Symbol("x-opt-lock-token"): Uuid(bytes(16))}),
            section(0x72, {Symbol("x-opt-sequence-number"): 7}),
            sections.tail,
        ]
    )
    decoded = pyamqp_decode.decode_payload(memoryview(again))
    assert decoded.header.delivery_count == 3
    assert decoded.message_annotations == {b"x-opt-sequence-number": 7}
    assert decoded.properties.group_id == b"s"
    assert list(decoded.data) == [b"body"]


def test_section_of_a_described_value() -> None:
    assert split(section(0x77, Described(ULong(0x31), [UInt(1)]))).tail.startswith(b"\x00\x53\x77")


# ---- the hot path


def _check_usual(payload: bytes) -> bool:
    """Whether it was taken."""
    at = 0
    if payload.startswith(b"\x00\x53\x70\xc0") and len(payload) > 4:
        at = 5 + payload[4]
        try:
            read_header(payload[:at])
        except DecodeFault:
            return False
    tail_at = behind_empty_annotations(payload, at)
    if not is_usual_tail(payload, tail_at):
        return False
    sections = split(payload)
    assert (sections.header, sections.tail) == (payload[:at], payload[tail_at:])
    for annotations in (sections.delivery_annotations, sections.message_annotations):
        assert not annotations or not read_map(annotations)
    return True


@given(messages())
def test_usual_messages_are_split_the_same(parts: list[bytes]) -> None:
    _check_usual(b"".join(parts))


def _wide(properties: bytes) -> bytes:
    """The same section in a list whose size and count take four bytes."""
    size, count, fields = properties[4], properties[5], properties[6:]
    return properties[:3] + b"\xd0" + struct.pack(">II", size + 3, count) + fields


some_properties = st.builds(
    Properties,
    st.one_of(st.none(), st.text(max_size=40)),
    st.sampled_from([None, b"", b"user"]),
    to=st.one_of(st.none(), st.text(max_size=20)),
).map(encode_composite)
no_annotations = st.sampled_from(
    ["", "005371c10100", "005372c10100", "005372d10000000400000000",
     "005371c10100005372d10000000400000000"]
).map(bytes.fromhex)  # fmt: skip

usual = st.builds(
    lambda *parts: b"".join(parts),
    headers.map(encode_composite),
    no_annotations,
    st.one_of(
        st.sampled_from([b"", b"\x00\x53\x73\x45"]),
        some_properties,
        some_properties.filter(lambda one: one[3] == 0xC0).map(_wide),
    ),
    st.one_of(
        st.just(b""),
        st.dictionaries(st.text(), scalars, max_size=6).map(lambda value: section(0x74, value)),
    ),
    st.binary(max_size=400).map(lambda body: section(0x75, body)),
    st.sampled_from([b"", section(0x78, {}), b"\x00\x53\x78\xd1\0\0\0\4\0\0\0\0"]),
)


@given(usual)
def test_usual_messages_are_taken(payload: bytes) -> None:
    assert _check_usual(payload)


@given(usual, st.data())
def test_damaged_usual_messages_are_split_the_same(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    _check_usual(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


@given(st.binary(max_size=60))
def test_random_bytes_are_split_the_same(noise: bytes) -> None:
    _check_usual(noise)


def test_at_signs_are_not_nulls() -> None:
    """0x40 is null as a constructor, and an at sign in a text."""
    for text in ("@", "@@@@", "x@@", ""):
        payload = encode_composite(Properties(text, group_id=text)) + section(0x75, b"x")
        assert _check_usual(payload)
