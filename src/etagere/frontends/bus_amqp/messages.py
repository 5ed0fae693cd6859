"""Messages between the wire and the broker: sections in, sections out, bodies untouched.

What leaves is the sender's own bytes from the properties on, behind a header and annotations made
here.  The commonest shape of those is written by one `Struct.pack`; the other path writes any, and
tests hold one against the other.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from etagere.base.clock import (
    Timestamp,
    ticks_per_millisecond,
    timestamp_first,
    timestamp_never,
)
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.decoding import skip
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.sections import (
    Header,
    batch_members,
    data_code,
    delivery_annotations_code,
    list_items,
    list_section,
    map_items,
    map_section,
    message_annotations_code,
    properties_code,
    read_header,
    read_map,
    section,
    section_at,
    split,
)
from etagere.protocols.amqp.usual_message import behind_empty_annotations, is_usual_tail
from etagere.protocols.amqp.values import Int, Milliseconds, Symbol, UByte, Uuid
from etagere.services.bus.deliveries import LockedRun, delivery_of
from etagere.services.bus.messages import Delivery, Message
from etagere.services.bus.sections import AmqpSections

batch_format: Final = 0x80013700
batch_members_max: Final = 100_000
ttl_absent: Final = 0xFFFFFFFF
"""A time-to-live that means none."""

sequence_number: Final = Symbol("x-opt-sequence-number")
enqueued_time: Final = Symbol("x-opt-enqueued-time")
enqueue_sequence_number: Final = Symbol("x-opt-enqueue-sequence-number")
locked_until: Final = Symbol("x-opt-locked-until")
lock_token: Final = Symbol("x-opt-lock-token")
message_state: Final = Symbol("x-opt-message-state")
partition_id: Final = Symbol("x-opt-partition-id")
dead_letter_source: Final = Symbol("x-opt-deadletter-source")
scheduled_time: Final = Symbol("x-opt-scheduled-enqueue-time")
partition_key: Final = Symbol("x-opt-partition-key")
via_partition_key: Final = Symbol("x-opt-via-partition-key")

_broker_s_own: Final = frozenset(
    (
        sequence_number,
        enqueued_time,
        enqueue_sequence_number,
        locked_until,
        lock_token,
        message_state,
        partition_id,
        dead_letter_source,
    )
)
"""Dropped on the way in: clients send on what they have received."""

DrawId = Callable[[], str]

_sections: Final = AmqpSections()
_usual_header: Final = b"\x00\x53\x70\xc0"
_default_header: Final = b"\x00\x53\x70\x45"
_short_list_of_properties: Final = b"\x00\x53\x73\xc0"
_long_list_of_properties: Final = b"\x00\x53\x73\xd0"
_headers_kept: Final = 1_024
_headers: Final[dict[bytes, Header]] = {}
_no_header: Final = Header()


def read_message(payload: bytes, draw_id: DrawId) -> Message:
    """One message; DecodeFault or Refused if it is not good."""
    header_bytes = 0
    header = _no_header
    if payload.startswith(_usual_header) and len(payload) > 4:
        header_bytes = 5 + payload[4]
        header = _header(payload[:header_bytes])
    elif payload.startswith(_default_header):
        header_bytes = 4
    tail_at = behind_empty_annotations(payload, header_bytes)
    if is_usual_tail(payload, tail_at):
        tail = payload[tail_at:]
        if not usual_id_at(tail):
            tail = with_message_id(tail, draw_id)
        if not header_bytes:
            return Message(tail, len(payload))
        ttl = None if header.ttl == ttl_absent else header.ttl
        return Message(tail, len(payload), payload[:header_bytes], ttl_ms=ttl)
    sections = split(payload)
    tail = sections.tail
    _check_values(tail)
    if not usual_id_at(tail):
        tail = with_message_id(tail, draw_id)
    message = Message(
        tail=tail,
        size=len(payload),
        header=sections.header,
        delivery_annotations=sections.delivery_annotations,
        annotations=sections.message_annotations,
    )
    if sections.header:
        ttl = _header(sections.header).ttl
        if ttl != ttl_absent:
            message.ttl_ms = ttl
    if sections.message_annotations:
        _take_annotations(message)
    if sections.delivery_annotations:
        annotations = read_map(sections.delivery_annotations)
        if lock_token in annotations:
            del annotations[lock_token]
            message.delivery_annotations = section(delivery_annotations_code, annotations)
        if not annotations:
            message.delivery_annotations = b""
    return message


def _check_values(tail: bytes) -> None:
    """What the broker will have to read of the message later can be read."""
    _sections.properties(tail)
    _sections.application_properties(tail)


def message_spans(message_format: int, payload: bytes) -> list[tuple[int, int]]:
    """Where the messages are that one transfer holds."""
    if message_format == 0:
        return [(0, len(payload))]
    if message_format != batch_format:
        raise Refused(errors.not_implemented, message="The message's format is unknown.")
    members = batch_members(payload)
    if not members or len(members) > batch_members_max:
        raise Refused(errors.argument_error, message="A batch holds no messages, or too many.")
    return members


def usual_id_at(tail: bytes) -> int:
    """Where the text of the message id is, if it is a short one in the usual place; or 0."""
    if tail.startswith(_short_list_of_properties):
        return 8 if tail[6:7] == b"\xa1" and tail[5] else 0
    if tail.startswith(_long_list_of_properties):
        return 14 if tail[12:13] == b"\xa1" and any(tail[8:12]) else 0
    return 0


def with_message_id(tail: bytes, draw_id: DrawId) -> bytes:
    """The service gives an id to a message that came without one: the JS SDK cannot settle others.

    Only the properties section changes.
    """
    end = len(tail)
    code, content = section_at(tail, 0, end) if tail else (0, 0)
    if code != properties_code:
        return section(properties_code, [draw_id()]) + tail
    stop = skip(tail, content, end)
    count, fields = list_items(tail, content, stop)
    if count and fields[:1] != b"\x40":
        return tail
    return (
        list_section(properties_code, max(count, 1), encode(draw_id()) + fields[1:]) + tail[stop:]
    )


def _header(raw: bytes) -> Header:
    """Senders use a handful of headers: remember how they read."""
    header = _headers.get(raw)
    if header is None:
        header = read_header(raw)
        if len(_headers) >= _headers_kept:
            _headers.clear()
        _headers[raw] = header
    return header


def _take_annotations(message: Message) -> None:
    annotations = read_map(message.annotations)
    if not all(isinstance(key, Symbol) for key in annotations):
        raise DecodeFault("A message annotation's name is not a symbol.")
    known = _known_annotations(annotations)
    scheduled = known.get(scheduled_time)
    if scheduled is not None:
        moment = Timestamp(scheduled * ticks_per_millisecond)
        message.scheduled_at = min(max(moment, timestamp_first), timestamp_never)
    message.partition_key = known.get(partition_key)
    if not annotations:
        message.annotations = b""  # many clients write what says nothing
        return
    own = _broker_s_own & annotations.keys()
    if own or any(annotations[name] is not value for name, value in known.items()):
        kept = {name: value for name, value in (annotations | known).items() if name not in own}
        for name, value in known.items():
            if value is None:
                del kept[name]
        message.annotations = section(message_annotations_code, kept) if kept else b""


def _known_annotations(annotations: dict[Any, Any]) -> dict[Symbol, Any]:
    """Those of a sender's that mean something here, as the types that they have.

    pyAMQP reads a string as bytes and a time as a number, and sends a message that it has received
    on with those.
    """
    known: dict[Symbol, Any] = {}
    for name in (partition_key, via_partition_key):
        if name in annotations:
            known[name] = _text_of(annotations[name])
    if scheduled_time in annotations:
        scheduled = annotations[scheduled_time]
        if scheduled is not None and not isinstance(scheduled, Milliseconds):
            if (
                not isinstance(scheduled, int)
                or not -(2**63) <= scheduled < 2**63
                or scheduled is True
            ):
                raise Refused(
                    errors.argument_error, message="The scheduled enqueue time is no timestamp."
                )
            scheduled = Milliseconds(scheduled)
        known[scheduled_time] = scheduled
    return known


def _text_of(value: object) -> str | None:
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            value = 0
    if value is not None and type(value) is not str:
        raise Refused(errors.argument_error, message="The partition key is not a string.")
    return value


# ---- out

_usual: Final = struct.Struct(">12sI25sIHH8s30sq22sq32sq21sq")
"""Header and delivery count; lock token as a delivery annotation; four message annotations."""
_usual_of_run: Final = struct.Struct(">12sI25sIHH8s30sq22sq32sq29s")
_locked: Final = struct.Struct(">21sq")
"""The same, with the end of the locks made once."""
_split_token: Final = struct.Struct("<IHH8s").unpack

_token_start: Final = b"\x00\x53\x71\xc1\x24\x02" + encode(lock_token) + b"\x98"
_sequence_start: Final = b"\x00\x53\x72\xc1\x84\x08" + encode(sequence_number) + b"\x81"
_enqueued_start: Final = encode(enqueued_time) + b"\x83"
_original_start: Final = encode(enqueue_sequence_number) + b"\x81"
_locked_start: Final = encode(locked_until) + b"\x83"

_header_starts: Final[dict[bytes, bytes]] = {}
"""By the sender's header, everything of ours up to the delivery count."""


def uuid_of(token: bytes) -> Uuid:
    """The lock token that a delivery tag is in .NET's byte order."""
    return Uuid(token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:])


def token_of(uuid: bytes) -> bytes:
    """The other way; the order is its own inverse."""
    return bytes(uuid_of(uuid))


def milliseconds(moment: Timestamp) -> Milliseconds:
    return Milliseconds(moment // ticks_per_millisecond)


def write_head(delivery: Delivery, *, state: bool = False) -> bytes:
    """Header and annotations in front of `delivery.tail`; `state` adds the message's state."""
    if (
        not state
        and delivery.ttl_ms is None
        and delivery.lock_token is not None
        and delivery.locked_until is not None
        and not delivery.annotations
        and not delivery.delivery_annotations
        and delivery.scheduled_at is None
        and delivery.partition_key is None
        and delivery.dead_letter_source is None
    ):
        return write_usual_head(delivery)
    return write_any_head(delivery, state=state)


def write_heads(run: LockedRun) -> tuple[list[bytes], list[bytes]]:
    """`write_head` for each of a run; and their tails."""
    heads: list[bytes] = []
    tails: list[bytes] = []
    locked = _locked.pack(_locked_start, run.locked_until // ticks_per_millisecond)
    pack, starts, split_token = _usual_of_run.pack, _header_starts, _split_token
    for (number, message), token in zip(run.rows, run.tokens, strict=True):
        tails.append(message.tail)
        start = starts.get(message.header)
        if (
            start is None
            or message.ttl_ms is not None
            or message.annotations
            or message.delivery_annotations
            or message.scheduled_at
            or message.partition_key is not None
            or message.dead_letter_source is not None
        ):
            heads.append(write_head(delivery_of(number, message, token, run.locked_until)))
            continue
        first, second, third, rest = split_token(token)
        heads.append(
            pack(
                start,
                message.delivery_count,
                _token_start,
                first,
                second,
                third,
                rest,
                _sequence_start,
                number,
                _enqueued_start,
                message.enqueued_at // ticks_per_millisecond,
                _original_start,
                message.enqueued_number or number,
                locked,
            )
        )
    return heads, tails


def write_usual_head(delivery: Delivery) -> bytes:
    """A locked message that has no annotations and no time to live from its sender."""
    assert delivery.lock_token is not None
    assert delivery.locked_until is not None
    start = _header_starts.get(delivery.header)
    if start is None:
        start = _header_start(delivery.header)
    first, second, third, rest = _split_token(delivery.lock_token)
    return _usual.pack(
        start,
        delivery.delivery_count,
        _token_start,
        first,
        second,
        third,
        rest,
        _sequence_start,
        delivery.sequence_number,
        _enqueued_start,
        delivery.enqueued_at // ticks_per_millisecond,
        _original_start,
        delivery.enqueued_sequence_number,
        _locked_start,
        delivery.locked_until // ticks_per_millisecond,
    )


def _header_start(raw: bytes) -> bytes:
    header = _header(raw) if raw else _no_header
    start = (
        b"\x00\x53\x70\xc0\x0b\x05"
        + encode(header.durable)
        + encode(UByte(header.priority))
        + b"\x40"
        + encode(header.first_acquirer)
        + b"\x70"
    )
    if len(_header_starts) >= _headers_kept:
        _header_starts.clear()
    _header_starts[raw] = start
    return start


def write_any_head(delivery: Delivery, *, state: bool) -> bytes:
    header = _header(delivery.header) if delivery.header else _no_header
    head = encode_composite(
        Header(
            header.durable,
            header.priority,
            delivery.ttl_ms,
            header.first_acquirer,
            delivery.delivery_count,
        )
    )
    if delivery.lock_token is not None:
        count, items = map_items(delivery.delivery_annotations)
        items += encode(lock_token) + encode(uuid_of(delivery.lock_token))
        head += map_section(delivery_annotations_code, count + 2, items)
    else:
        head += delivery.delivery_annotations
    own: dict[Symbol, Any] = {
        sequence_number: delivery.sequence_number,
        enqueued_time: milliseconds(delivery.enqueued_at),
        enqueue_sequence_number: delivery.enqueued_sequence_number,
    }
    if delivery.locked_until is not None:
        own[locked_until] = milliseconds(delivery.locked_until)
    if state:
        own[message_state] = Int(delivery.state)
    if delivery.dead_letter_source is not None:
        own[dead_letter_source] = delivery.dead_letter_source
    # Whoever sent over AMQP wrote these two as annotations, which come back as they are.
    if delivery.scheduled_at is not None and scheduled_time.encode() not in delivery.annotations:
        own[scheduled_time] = milliseconds(delivery.scheduled_at)
    if delivery.partition_key is not None and partition_key.encode() not in delivery.annotations:
        own[partition_key] = delivery.partition_key
    count, items = map_items(delivery.annotations)
    own_items = b"".join(encode(name) + encode(value) for name, value in own.items())
    return head + map_section(message_annotations_code, count + 2 * len(own), own_items + items)


def without_body(tail: bytes) -> bytes:
    """Properties and application properties only, with an empty body behind them."""
    at = 0
    end = len(tail)
    while at < end:
        code, content = section_at(tail, at, end)
        if code >= data_code:
            break
        at = skip(tail, content, end)
    return tail[:at] + section(data_code, b"")
