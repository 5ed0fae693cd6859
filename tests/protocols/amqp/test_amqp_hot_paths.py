"""Each hot path against the table-driven one: same fields wherever it takes a frame at all."""

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from etagere.protocols.amqp.accepted import pack_accepted, walk_accepted
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.flows import pack_credit, walk_flow
from etagere.protocols.amqp.outcomes import Accepted, accepted, released
from etagere.protocols.amqp.performatives import (
    Disposition,
    Flow,
    Performative,
    Transfer,
    read_performative,
)
from etagere.protocols.amqp.transfer_in import walk_transfer
from etagere.protocols.amqp.transfer_out import pack_transfer
from etagere.protocols.amqp.values import UInt

numbers = st.one_of(st.sampled_from([0, 1, 255, 256, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))


def _wide_uint(value: int | None) -> list[bytes]:
    """All encodings of a uint."""
    if value is None:
        return [b"\x40"]
    forms = [b"\x70" + struct.pack(">I", value)]
    if value < 256:
        forms.append(b"\x52" + bytes((value,)))
    if value == 0:
        forms.append(b"\x43")
    return forms


def _boolean(value: bool | None) -> list[bytes]:
    if value is None:
        return [b"\x40"]
    return [b"\x41", b"\x56\x01"] if value else [b"\x42", b"\x56\x00"]


@st.composite
def listed(draw: st.DrawFn, code: int, fields: list[list[bytes]]) -> bytes:
    """A performative with any choice of encodings, of either list form, cut after any field."""
    least = draw(st.integers(0, len(fields)))
    if draw(st.integers(0, 3)):
        least = len(fields)
    parts = [draw(st.sampled_from(forms)) for forms in fields[:least]]
    content = b"".join(parts)
    if len(content) < 255 and draw(st.booleans()):
        return bytes((0, 0x53, code, 0xC0, len(content) + 1, len(parts))) + content
    return bytes((0, 0x53, code, 0xD0)) + struct.pack(">II", len(content) + 4, len(parts)) + content


optional = st.one_of(st.none(), numbers)
optional_boolean = st.sampled_from([None, True, False])


def _mostly(value: bytes, *others: bytes) -> list[bytes]:
    return [value, value, value, *others]


@st.composite
def transfers(draw: st.DrawFn) -> bytes:
    tag = draw(st.one_of(st.none(), st.binary(max_size=40)))
    state = b"\x40" if draw(st.integers(0, 5)) else encode_composite(accepted)
    return draw(
        listed(
            0x14,
            [
                _wide_uint(draw(numbers)),
                _wide_uint(draw(optional)),
                [b"\x40" if tag is None else encode(tag)],
                _wide_uint(draw(optional)),
                _boolean(draw(optional_boolean)),
                _boolean(draw(optional_boolean)),
                _mostly(b"\x40", b"\x50\x00", b"\x50\x01"),
                [state],
                _mostly(b"\x40", b"\x42", b"\x41", b"\x56\x00"),
                _mostly(b"\x42", b"\x40", b"\x41"),
                _mostly(b"\x40", b"\x42", b"\x41"),
            ],
        )
    )


def _read(body: bytes, end: int) -> tuple[Performative, int] | None:
    try:
        return read_performative(body, 0, end)
    except DecodeFault:
        return None


def _check_transfer(body: bytes, end: int) -> bool:
    """Whether the hot path took it."""
    walked = walk_transfer(body, 3, end)
    if walked is None:
        return False
    read = _read(body, end)
    assert read is not None
    transfer, at = read
    assert isinstance(transfer, Transfer)
    assert walked == (
        transfer.handle,
        transfer.delivery_id,
        transfer.delivery_tag,
        transfer.message_format or 0,
        bool(transfer.settled),
        transfer.more,
        at,
    )
    assert transfer.state is None
    assert transfer.rcv_settle_mode is None
    assert not transfer.resume
    assert not transfer.aborted
    return True


@given(transfers(), st.binary(max_size=30), st.binary(max_size=30))
def test_transfer_in(body: bytes, payload: bytes, next_frame: bytes) -> None:
    _check_transfer(body + payload + next_frame, len(body) + len(payload))


@given(transfers(), st.data())
def test_damaged_transfer_in(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body + b"\x00\x53\x75\xa0\x01x")
    damaged[data.draw(st.integers(3, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(4, len(damaged)))
    _check_transfer(bytes(damaged), end)


def test_the_hot_path_takes_the_shapes_of_the_clients() -> None:
    payload = b"\x00\x53\x75\xa0\x01x"
    full = encode_composite(Transfer(1, 700, b"\0\0\0\7", 0, False))
    assert _check_transfer(full + payload, len(full + payload))
    trimmed = b"\x00\x53\x14\xd0\x00\x00\x00\x10\x00\x00\x00\x06\x43\x70\x00\x00\x00\x01"
    trimmed += b"\xa0\x011\x43\x42\x42"
    assert _check_transfer(trimmed + payload, len(trimmed + payload))


outcome_forms = [
    b"\x00\x53\x24\x45",
    b"\x00\x53\x24\xc0\x01\x00",
    b"\x00\x53\x24\xd0\x00\x00\x00\x04\x00\x00\x00\x00",
    b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x24\x45",
    encode_composite(released),
    b"\x40",
]


@st.composite
def dispositions(draw: st.DrawFn) -> bytes:
    return draw(
        listed(
            0x15,
            [
                _boolean(draw(st.booleans())),
                _wide_uint(draw(numbers)),
                _wide_uint(draw(optional)),
                _boolean(draw(optional_boolean)),
                outcome_forms,
                _boolean(draw(optional_boolean)),
            ],
        )
    )


def _check_disposition(body: bytes, end: int) -> bool:
    walked = walk_accepted(body, 3, end)
    if walked is None:
        return False
    read = _read(body, end)
    assert read is not None
    disposition, _ = read
    assert isinstance(disposition, Disposition)
    last = disposition.first if disposition.last is None else disposition.last
    assert walked == (disposition.role, disposition.first, last, disposition.settled)
    assert disposition.state == Accepted()
    return True


@given(dispositions(), st.binary(max_size=20))
def test_disposition_in(body: bytes, next_frame: bytes) -> None:
    _check_disposition(body + next_frame, len(body))


@given(dispositions(), st.data())
def test_damaged_disposition_in(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    damaged[data.draw(st.integers(3, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    _check_disposition(bytes(damaged), data.draw(st.integers(4, len(damaged))))


def test_every_spelling_of_accepted_is_taken() -> None:
    for form in outcome_forms[:3]:
        for rest in (b"", b"\x40", b"\x42"):
            content = b"\x41\x43\x40\x42" + form + rest
            count = 6 if rest else 5
            body = bytes((0, 0x53, 0x15, 0xC0, len(content) + 1, count)) + content
            assert _check_disposition(body, len(body))


@st.composite
def flows(draw: st.DrawFn) -> bytes:
    fields = [_wide_uint(draw(optional)) for _ in range(8)]
    for required in (1, 2, 3):
        if draw(st.integers(0, 7)):
            fields[required] = _wide_uint(draw(numbers))
    fields += [_boolean(draw(optional_boolean)), _boolean(draw(optional_boolean))]
    fields.append(_mostly(b"\x40", b"\xc1\x01\x00"))
    return draw(listed(0x13, fields))


def _check_flow(body: bytes, end: int) -> bool:
    walked = walk_flow(body, 3, end)
    if walked is None:
        return False
    read = _read(body, end)
    assert read is not None
    flow: Any = read[0]
    assert isinstance(flow, Flow)
    assert walked == tuple(getattr(flow, name) for name in flow.__struct_fields__[:-1])
    assert flow.properties is None
    return True


@given(flows(), st.binary(max_size=20))
def test_flow_in(body: bytes, next_frame: bytes) -> None:
    _check_flow(body + next_frame, len(body))


@given(flows(), st.data())
def test_damaged_flow_in(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    damaged[data.draw(st.integers(3, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    _check_flow(bytes(damaged), data.draw(st.integers(4, len(damaged))))


def test_a_generic_flow_is_taken() -> None:
    body = encode_composite(Flow(1, 2, 3, 4, 5, 6, 7))
    assert _check_flow(body, len(body))


@given(
    st.integers(0, 0xFFFF),
    st.integers(0, 255),
    numbers,
    st.binary(min_size=16, max_size=16),
    st.booleans(),
    st.binary(max_size=100),
)
def test_transfer_out(
    channel: int, handle: int, delivery_id: int, tag: bytes, settled: bool, payload: bytes
) -> None:
    frame = pack_transfer(channel, encode(UInt(handle)), delivery_id, tag, settled, len(payload))
    assert frame is not None
    frame += payload
    size, offset, kind, on = struct.unpack_from(">IBBH", frame)
    assert (size, offset, kind, on) == (len(frame), 2, 0, channel)
    transfer, at = read_performative(frame, 8, len(frame))
    assert transfer == Transfer(handle, delivery_id, tag, 0, settled)
    assert frame[at:] == payload


def test_transfer_out_leaves_the_unusual_alone() -> None:
    assert pack_transfer(0, encode(UInt(0)), 0, b"short", False, 0) is None
    assert pack_transfer(0, encode(UInt(300)), 0, bytes(16), False, 0) is None


@given(st.integers(0, 0xFFFF), st.booleans(), numbers, numbers)
def test_accepted_out(channel: int, role: bool, first: int, last: int) -> None:
    frame = pack_accepted(channel, role, first, last)
    assert struct.unpack_from(">IBBH", frame) == (len(frame), 2, 0, channel)
    assert read_performative(frame, 8, len(frame))[0] == Disposition(
        role, first, last, True, accepted
    )


@given(st.integers(0, 0xFFFF), st.lists(numbers, min_size=7, max_size=7))
def test_credit_out(channel: int, fields: list[int]) -> None:
    frame = pack_credit(channel, *fields)
    assert struct.unpack_from(">IBBH", frame) == (len(frame), 2, 0, channel)
    assert read_performative(frame, 8, len(frame))[0] == Flow(*fields, available=0)
