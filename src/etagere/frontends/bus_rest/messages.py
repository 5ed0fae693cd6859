"""Messages between HTTP and the broker: an ordinary AMQP message with one data section."""

from typing import Any, Final

from etagere.base.clock import ticks_per_millisecond
from etagere.base.errors import Refused
from etagere.frontends.bus_rest.properties import BrokerProperties
from etagere.protocols.amqp.decoding import decode, skip
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.sections import (
    application_properties_code,
    data_code,
    data_of,
    message_annotations_code,
    properties_code,
    section,
    section_at,
    value_code,
)
from etagere.protocols.amqp.values import Milliseconds, Symbol, UInt
from etagere.services.bus import errors
from etagere.services.bus.messages import Message

_field_order: Final = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)
_partition_key: Final = Symbol("x-opt-partition-key")
_scheduled: Final = Symbol("x-opt-scheduled-enqueue-time")


def make_message(
    body: bytes,
    said: BrokerProperties,
    custom: dict[str, Any],
    content_type: str | None,
    fresh_id: str,
) -> Message:
    """What a client sent, as the broker takes it."""
    fields: dict[str, Any] = {"message_id": fresh_id, **said.fields}
    if content_type:
        fields["content_type"] = _symbol(content_type)
    listed = [fields.get(name) for name in _field_order]
    while listed and listed[-1] is None:
        listed.pop()
    parts = [section(properties_code, listed)]
    if custom:
        parts.append(section(application_properties_code, custom))
    parts.append(section(data_code, body))
    tail = b"".join(parts)
    header = b""
    if said.ttl_ms is not None:
        header = b"\x00\x53\x70" + encode([None, None, UInt(said.ttl_ms)])
    annotations: dict[Any, Any] = {}
    if said.partition_key is not None:
        annotations[_partition_key] = said.partition_key
    if said.scheduled_at is not None:
        annotations[_scheduled] = Milliseconds(said.scheduled_at // ticks_per_millisecond)
    raw = section(message_annotations_code, annotations) if annotations else b""
    return Message(
        tail=tail,
        size=len(tail) + len(header) + len(raw),
        header=header,
        annotations=raw,
        ttl_ms=said.ttl_ms,
        scheduled_at=said.scheduled_at,
        partition_key=said.partition_key,
    )


def _symbol(text: str) -> Symbol:
    if not text.isascii():
        raise errors.argument("Content-Type", "The content type is not ASCII.")
    return Symbol(text)


def body_of(tail: bytes) -> bytes:
    """The bytes of a body: its data sections one after another, or a text or binary value's."""
    found: list[bytes] = []
    at, end = 0, len(tail)
    try:
        while at < end:
            code, content = section_at(tail, at, end)
            stop = skip(tail, content, end)
            if code == data_code:
                found.append(data_of(tail, content, stop))
            elif code == value_code:
                found.append(_value_of(tail, content, stop))
            at = stop
    except DecodeFault:
        raise Refused(errors.decode_error, message="The message's body cannot be read.") from None
    return b"".join(found)


def _value_of(tail: bytes, content: int, stop: int) -> bytes:
    """What AMQP's receivers are left to make sense of is given as it came."""
    try:
        value, _ = decode(tail, content, stop)
    except DecodeFault:
        return tail[content:stop]
    return _value_bytes(value)


def _value_bytes(value: object) -> bytes:
    match value:
        case str():
            return value.encode()
        case bytes():
            return value
        case None:
            return b""
        case _:
            return str(value).encode()
