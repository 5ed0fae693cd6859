"""`SectionCodec` for what messages are on the wire and in the store: AMQP 1.0 sections.

What nobody asked to change stays byte for byte as it came.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from etagere.base.errors import Refused
from etagere.protocols.amqp.decoding import decode, decode_whole, skip
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault, EncodeError
from etagere.protocols.amqp.values import Described, Milliseconds, Symbol, ULong, Uuid
from etagere.services.bus import errors
from etagere.services.bus.messages import PropertyValue

T = TypeVar("T")

properties_code: Final = 0x73
application_properties_code: Final = 0x74
_by_name: Final = {
    "amqp:properties:list": properties_code,
    "amqp:application-properties:map": application_properties_code,
}

_fields: Final = {
    "message_id": 0,
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "content_type": 6,
    "group_id": 10,
    "reply_to_group_id": 12,
}
_fields_most: Final = 13
_symbols: Final = frozenset(("content_type",))

_epoch: Final = datetime(1970, 1, 1, tzinfo=UTC)
_millisecond: Final = timedelta(milliseconds=1)
_null: Final = 0x40
_maps: Final = {0xC1: 1, 0xD1: 4}
"""Constructors of maps, and the bytes of their size and of their count."""
_constructor_bytes_max: Final = 5
"""Before the content of a text or of bytes: the type and the length."""
_timespan: Final = Symbol("com.microsoft:timespan")


class SectionProperties(msgspec.Struct, frozen=True):
    message_id: str | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    group_id: str | None = None
    reply_to_group_id: str | None = None


_no_properties: Final = SectionProperties()


class _Span(msgspec.Struct, frozen=True, gc=False):
    """A section: where its content begins and ends."""

    content: int
    end: int


class AmqpSections:
    def properties_bytes(self, tail: bytes) -> int:
        if len(tail) > 4 and tail[0] == 0 and tail[1] == 0x53:
            # By far the commonest: a list with a length of one byte behind a small descriptor.
            if tail[2] == properties_code and tail[3] == 0xC0:
                return 5 + tail[4]
            if tail[2] > properties_code:
                return 0
        return _refusing(_spans, tail)[2]

    def headers_bytes(self, tail: bytes) -> int:
        return _refusing(_spans, tail)[3]

    def largest_property(self, tail: bytes) -> tuple[int, int]:
        return _refusing(_largest_property, tail)

    def properties(self, tail: bytes) -> SectionProperties:
        return _refusing(_read_properties, tail)

    def application_properties(self, tail: bytes) -> Mapping[str, PropertyValue]:
        return {name: _plain(value) for name, value in _refusing(_read_application, tail).items()}

    def change(
        self,
        tail: bytes,
        *,
        application: Mapping[str, PropertyValue] | None = None,
        removed: Collection[str] = (),
        properties: Mapping[str, str | None] | None = None,
    ) -> bytes:
        def changed(tail: bytes) -> bytes:
            first, second, _, rest = _spans(tail)
            head = tail[: _end(first)]
            if properties:
                head = _changed_properties(tail, first, properties)
            middle = tail[_end(first) : rest]
            if application or removed:
                middle = _changed_application(tail, second, application or {}, removed)
            return head + middle + tail[rest:]

        return _refusing(changed, tail)


def _refusing(read: Callable[[bytes], T], tail: bytes) -> T:
    try:
        return read(tail)
    except (DecodeFault, IndexError):
        raise Refused(
            errors.decode_error, message="The message's sections are not valid AMQP."
        ) from None


def _end(span: _Span | None) -> int:
    return span.end if span else 0


def _spans(tail: bytes) -> tuple[_Span | None, _Span | None, int, int]:
    """Properties, application properties; bytes of the former, and of both together."""
    properties = application = None
    at = 0
    code, content = _descriptor(tail, at)
    if code == properties_code:
        at = skip(tail, content, len(tail))
        properties = _Span(content, at)
        code, content = _descriptor(tail, at)
    first = at
    if code == application_properties_code:
        at = skip(tail, content, len(tail))
        application = _Span(content, at)
    return properties, application, first, at


def _descriptor(tail: bytes, at: int) -> tuple[int, int]:
    """The section's code, -1 for none of ours, and where its content begins."""
    if at >= len(tail):
        return -1, at
    if tail[at] != 0:
        raise DecodeFault("A section has no descriptor.")
    if tail[at + 1] == 0x53:
        return tail[at + 2], at + 3
    descriptor, content = decode(tail, at + 1)
    if isinstance(descriptor, ULong):
        return int(descriptor), content
    return _by_name.get(str(descriptor), -1), content


def _read_list(tail: bytes, span: _Span) -> list[Any]:
    fields = decode_whole(tail, span.content, span.end)
    if not isinstance(fields, list) or len(fields) > _fields_most:
        raise DecodeFault("The properties section is not a list of properties.")
    return fields


def _read_properties(tail: bytes) -> SectionProperties:
    span = _spans(tail)[0]
    if span is None:
        return _no_properties
    fields = _read_list(tail, span)
    return SectionProperties(
        **{
            name: _text(fields[place]) if place < len(fields) else None
            for name, place in _fields.items()
        }
    )


def _text(value: Any) -> str | None:
    """The canonical text of an id, which may be a string, a UUID, a number or binary."""
    match value:
        case None:
            return None
        case str():
            return str(value)
        case Uuid():
            return str(UUID(bytes=bytes(value)))
        case bytes():
            return value.hex()
        case int():
            return str(int(value))
        case _:
            raise DecodeFault("A property has a type that it cannot have.")


def _read_application(tail: bytes) -> dict[str, Any]:
    span = _spans(tail)[1]
    if span is None:
        return {}
    values = decode_whole(tail, span.content, span.end)
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise DecodeFault("The application properties are not a map of names.")
    return values


def _plain(value: Any) -> PropertyValue:
    """As expressions compare it."""
    match value:
        case Uuid():
            return UUID(bytes=bytes(value))
        case Milliseconds():
            try:
                return _epoch + int(value) * _millisecond
            except OverflowError:
                return None
        case Described() if value.descriptor == _timespan and isinstance(value.value, int):
            try:
                return timedelta(microseconds=value.value / 10)
            except OverflowError:
                return None
        case _:
            return value


def _encoded(value: PropertyValue) -> bytes:
    if isinstance(value, UUID):
        value = Uuid(value.bytes)
    elif isinstance(value, datetime):
        value = Milliseconds((value - _epoch) // _millisecond)
    elif isinstance(value, timedelta):
        value = Described(_timespan, value // timedelta(microseconds=1) * 10)
    try:
        return encode(value)
    except EncodeError:
        raise errors.argument("Properties", "A property has no AMQP encoding.") from None


def _changed_properties(
    tail: bytes, span: _Span | None, changes: Mapping[str, str | None]
) -> bytes:
    fields = _read_list(tail, span) if span else []
    fields = list(fields) + [None] * (_fields_most - len(fields))
    for name, value in changes.items():
        fields[_fields[name]] = Symbol(value) if value and name in _symbols else value
    while fields and fields[-1] is None:
        fields.pop()
    return b"\x00\x53\x73" + encode(fields)


def _changed_application(
    tail: bytes,
    span: _Span | None,
    changes: Mapping[str, PropertyValue],
    removed: Collection[str],
) -> bytes:
    items = _raw_items(tail, span) if span else {}
    for name in removed:
        items.pop(name, None)
    for name, value in changes.items():
        items[name] = encode(name) + _encoded(value)
    if not items:
        return b""
    count = (2 * len(items)).to_bytes(4, "big")
    content = count + b"".join(items.values())
    return b"\x00\x53\x74\xd1" + len(content).to_bytes(4, "big") + content


def _raw_items(tail: bytes, span: _Span) -> dict[str, bytes]:
    """Name and value together as they came, by name, in order."""
    decode_whole(tail, span.content, span.end)  # checks all of it
    return {name: tail[at:stop] for name, at, _, stop in _places(tail, span)}


def _largest_property(tail: bytes) -> tuple[int, int]:
    span = _spans(tail)[1]
    chars = size = 0
    for name, _, value_at, stop in _places(tail, span) if span else ():
        chars = max(chars, len(name))
        size = max(size, stop - value_at - _constructor_bytes_max)
    return chars, size


def _places(tail: bytes, span: _Span) -> Iterator[tuple[str, int, int, int]]:
    """Each application property's name, and where it, its value, and the next one begin."""
    constructor = tail[span.content]
    if constructor == _null:
        return
    if constructor not in _maps:
        raise DecodeFault("The application properties are not a map.")
    at = span.content + 1 + 2 * _maps[constructor]
    while at < span.end:
        name, value_at = decode(tail, at, span.end)
        stop = skip(tail, value_at, span.end)
        if not isinstance(name, str):
            raise DecodeFault("The application properties are not a map of names.")
        yield str(name), at, value_at, stop
        at = stop
