"""A message as its sections (AMQP 1.0 part 3, 3.2), taken apart and put together as raw bytes.

Nothing from the properties on is ever decoded or copied into another form: it is the message's
`tail`, and what a broker adds goes in front of it.
"""

from typing import Any, Final

from etagere.protocols.amqp.composites import (
    Composite,
    Field,
    anything,
    binary,
    boolean,
    layout,
    read_composite,
    string,
    symbol,
    ubyte,
    uint,
)
from etagere.protocols.amqp.decoding import check_compound, decode, decode_whole, read_u32, skip
from etagere.protocols.amqp.encoding import encode, pack_u32
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.values import Symbol, ULong

header_code: Final = 0x70
delivery_annotations_code: Final = 0x71
message_annotations_code: Final = 0x72
properties_code: Final = 0x73
application_properties_code: Final = 0x74
data_code: Final = 0x75
sequence_code: Final = 0x76
value_code: Final = 0x77
footer_code: Final = 0x78

_by_name: Final = {
    Symbol("amqp:header:list"): header_code,
    Symbol("amqp:delivery-annotations:map"): delivery_annotations_code,
    Symbol("amqp:message-annotations:map"): message_annotations_code,
    Symbol("amqp:properties:list"): properties_code,
    Symbol("amqp:application-properties:map"): application_properties_code,
    Symbol("amqp:data:binary"): data_code,
    Symbol("amqp:amqp-sequence:list"): sequence_code,
    Symbol("amqp:amqp-value:*"): value_code,
    Symbol("amqp:footer:map"): footer_code,
}
_repeatable: Final = (data_code, sequence_code)
_bodies: Final = (data_code, sequence_code, value_code)


class Header(Composite, frozen=True):
    durable: bool = False
    priority: int = 4
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0


layout(
    header_code,
    "amqp:header:list",
    Header,
    Field(boolean, default=False),
    Field(ubyte, default=4),
    Field(uint),
    Field(boolean, default=False),
    Field(uint, default=0),
)


class Properties(Composite, frozen=True):
    """Part 3, 3.2.4; ids keep their type, which is one of four."""

    message_id: Any = None
    user_id: bytes | None = None
    to: Any = None
    subject: str | None = None
    reply_to: Any = None
    correlation_id: Any = None
    content_type: Symbol | None = None
    content_encoding: Symbol | None = None
    absolute_expiry_time: Any = None
    creation_time: Any = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


layout(
    properties_code,
    "amqp:properties:list",
    Properties,
    Field(anything),
    Field(binary),
    Field(anything),
    Field(string),
    Field(anything),
    Field(anything),
    Field(symbol),
    Field(symbol),
    Field(anything),
    Field(anything),
    Field(string),
    Field(uint),
    Field(string),
)


class Sections:
    """Each section raw, with its descriptor; empty where there is none."""

    __slots__ = ("delivery_annotations", "header", "message_annotations", "tail")

    def __init__(
        self,
        header: bytes = b"",
        delivery_annotations: bytes = b"",
        message_annotations: bytes = b"",
        tail: bytes = b"",
    ) -> None:
        self.header = header
        self.delivery_annotations = delivery_annotations
        self.message_annotations = message_annotations
        self.tail = tail


def section_at(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """(code, where the content begins) of the section at `at`."""
    if at + 3 > end or buffer[at] != 0x00:
        raise DecodeFault("A section has no descriptor.")
    if buffer[at + 1] == 0x53:
        code = buffer[at + 2]
        if not header_code <= code <= footer_code:
            raise DecodeFault("A section is unknown.")
        return code, at + 3
    descriptor, content = decode(buffer, at + 1, end)
    if type(descriptor) is ULong and header_code <= descriptor <= footer_code:
        return int(descriptor), content
    if type(descriptor) is Symbol and descriptor in _by_name:
        return _by_name[descriptor], content
    raise DecodeFault("A section is unknown.")


def split(payload: bytes) -> Sections:
    """A whole message; its sections are known and complete.

    They should come in order (3.2), and mostly do; but pyAMQP writes delivery annotations last, so
    any order is taken and put right.
    """
    sections = Sections()
    end = len(payload)
    at = 0
    last = 0
    seen = 0
    tail_at = -1
    in_order = True
    tail_parts: list[tuple[int, bytes]] = []
    while at < end:
        code, content = section_at(payload, at, end)
        if content >= end:
            raise DecodeFault("A value is cut short.")
        stop = skip(payload, content, end)
        if seen >> code & 1 and not (code == last and code in _repeatable):
            raise DecodeFault("A message has a section twice.")
        seen |= 1 << code
        if code not in _bodies:
            check_compound(payload, content, stop)
        part = payload[at:stop]
        if code >= properties_code:
            tail_parts.append((code, part))
            if tail_at < 0:
                tail_at = at
        elif code == message_annotations_code:
            sections.message_annotations = part
        elif code == header_code:
            sections.header = part
        else:
            sections.delivery_annotations = part
        if code < last:
            in_order = False
        last = code
        at = stop
    if sum(seen >> code & 1 for code in _bodies) > 1:
        raise DecodeFault("A message has bodies of different kinds.")
    if in_order:
        sections.tail = payload[tail_at:] if tail_at >= 0 else b""
    else:
        tail_parts.sort(key=_code_of)
        sections.tail = b"".join([part for _, part in tail_parts])
    return sections


def _code_of(part: tuple[int, bytes]) -> int:
    return part[0]


def batch_members(payload: bytes) -> list[tuple[int, int]]:
    """Where the messages are that the data sections of a batch hold (message format 0x80013700)."""
    members: list[tuple[int, int]] = []
    at = 0
    end = len(payload)
    while at < end:
        code, content = section_at(payload, at, end)
        stop = skip(payload, content, end)
        if code == data_code:
            members.append((data_at(payload, content), stop))
        elif code in _bodies:
            raise DecodeFault("A batch's body is not data.")
        at = stop
    return members


def data_of(buffer: bytes, content: int, stop: int) -> bytes:
    """What a data section holds."""
    return buffer[data_at(buffer, content) : stop]


def data_at(buffer: bytes, content: int) -> int:
    """Where a data section's own bytes begin."""
    constructor = buffer[content]
    if constructor == 0xA0:
        return content + 2
    if constructor == 0xB0:
        return content + 5
    raise DecodeFault("A data section is not binary.")


def read_header(section: bytes) -> Header:
    value, stop = decode(section)
    header = read_composite(value)
    if not isinstance(header, Header) or stop != len(section):
        raise DecodeFault("A header section is not a header.")
    return header


def read_properties(section: bytes) -> Properties:
    value, stop = decode(section)
    properties = read_composite(value)
    if not isinstance(properties, Properties) or stop != len(section):
        raise DecodeFault("A properties section is not one.")
    return properties


def read_map(section: bytes) -> dict[Any, Any]:
    """The content of a section that is a map; nothing for no section, or null."""
    if not section:
        return {}
    _, content = section_at(section, 0, len(section))
    value = decode_whole(section, content)
    if value is None:
        return {}
    if type(value) is not dict:
        raise DecodeFault("A section is not a map.")
    return value


def map_items(section: bytes) -> tuple[int, bytes]:
    """(count as on the wire, raw keys and values) of a section that is a map."""
    if not section:
        return 0, b""
    end = len(section)
    _, content = section_at(section, 0, end)
    if content >= end:
        raise DecodeFault("A value is cut short.")
    constructor = section[content]
    if constructor == 0xC1 and content + 3 <= end:
        return section[content + 2], section[content + 3 :]
    if constructor == 0xD1 and content + 9 <= end:
        return read_u32(section, content + 5)[0], section[content + 9 :]
    if constructor == 0x40:
        return 0, b""
    raise DecodeFault("A section is not a map.")


def list_items(buffer: bytes, content: int, stop: int) -> tuple[int, bytes]:
    """(count, raw fields) of a list at `content`."""
    constructor = buffer[content]
    if constructor == 0x45:
        return 0, b""
    if constructor == 0xC0 and content + 3 <= stop:
        return buffer[content + 2], buffer[content + 3 : stop]
    if constructor == 0xD0 and content + 9 <= stop:
        return read_u32(buffer, content + 5)[0], buffer[content + 9 : stop]
    raise DecodeFault("A section is not a list.")


def list_section(code: int, count: int, fields: bytes) -> bytes:
    """A section from raw fields."""
    return _compound_section(code, 0xC0, count, fields)


def map_section(code: int, count: int, items: bytes) -> bytes:
    """A section from raw keys and values."""
    return _compound_section(code, 0xC1, count, items)


def _compound_section(code: int, constructor: int, count: int, items: bytes) -> bytes:
    """`constructor` is that of the one-byte form; the four-byte form is 0x10 higher."""
    size = len(items)
    if size < 255 and count < 256:
        return bytes((0x00, 0x53, code, constructor, size + 1, count)) + items
    wide = bytes((0x00, 0x53, code, constructor | 0x10))
    return wide + pack_u32(size + 4) + pack_u32(count) + items


def section(code: int, value: Any) -> bytes:
    """A section from a value."""
    return bytes((0x00, 0x53, code)) + encode(value)
