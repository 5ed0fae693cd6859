# ruff: noqa: ARG001 - all decoders have one signature
"""From bytes to values of AMQP 1.0's type system (part 1).

Decoding trusts nothing: every length is checked against what encloses it, every count against what
its items must at least take, and nesting is bounded.  Whatever is wrong comes out as `DecodeFault`.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.limits import compound_items_max, nesting_max, zero_width_items_max
from etagere.protocols.amqp.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Milliseconds,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)

Decoder = Callable[[bytes, int, int, int], tuple[Any, int]]
"""(buffer, position after the constructor, end, nesting) to (value, position after it)."""

read_u16: Final = struct.Struct(">H").unpack_from
read_u32: Final = struct.Struct(">I").unpack_from
read_u64: Final = struct.Struct(">Q").unpack_from
_read_i8: Final = struct.Struct(">b").unpack_from
_read_i16: Final = struct.Struct(">h").unpack_from
_read_i32: Final = struct.Struct(">i").unpack_from
_read_i64: Final = struct.Struct(">q").unpack_from
_read_f32: Final = struct.Struct(">f").unpack_from
_read_f64: Final = struct.Struct(">d").unpack_from


def decode(buffer: bytes, at: int = 0, end: int = -1) -> tuple[Any, int]:
    """The value that begins at `at`, and where it stops; `end` is where the buffer's use stops."""
    return _decode(buffer, at, len(buffer) if end < 0 else end, 0)


def decode_whole(buffer: bytes, at: int = 0, end: int = -1) -> Any:
    """The one value between `at` and `end`."""
    if end < 0:
        end = len(buffer)
    value, stop = _decode(buffer, at, end, 0)
    if stop != end:
        raise DecodeFault("Bytes are left over after a value.")
    return value


def _decode(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    if at >= end:
        raise DecodeFault("A value is cut short.")
    return _decoders[buffer[at]](buffer, at + 1, end, depth)


def _unknown(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    raise DecodeFault("A constructor is unknown.")


def _constant(value: Any) -> Decoder:
    def decode_constant(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        return value, at

    return decode_constant


def _empty_list(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    return [], at


def _fixed(width: int, read: Callable[[bytes, int], tuple[Any, ...]], kind: type | None) -> Decoder:
    """A number that takes `width` bytes; `kind` None keeps what `read` gives."""

    def decode_fixed(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        stop = at + width
        if stop > end:
            raise DecodeFault("A value is cut short.")
        value = read(buffer, at)[0]
        return (value if kind is None else kind(value)), stop

    return decode_fixed


def _boolean(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    if at >= end:
        raise DecodeFault("A value is cut short.")
    if buffer[at] > 1:
        raise DecodeFault("A boolean is neither true nor false.")
    return buffer[at] == 1, at + 1


def _read_u8(buffer: bytes, at: int) -> tuple[int]:
    return (buffer[at],)


def _raw(width: int, kind: type) -> Decoder:
    def decode_raw(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        stop = at + width
        if stop > end:
            raise DecodeFault("A value is cut short.")
        return kind(buffer[at:stop]), stop

    return decode_raw


def _char(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    stop = at + 4
    if stop > end:
        raise DecodeFault("A value is cut short.")
    point = read_u32(buffer, at)[0]
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise DecodeFault("A char is no Unicode character.")
    return Char(chr(point)), stop


def _extent(buffer: bytes, at: int, end: int, width: int) -> tuple[int, int]:
    """Where the variable-width content after a length of `width` bytes begins and stops."""
    start = at + width
    if start > end:
        raise DecodeFault("A value is cut short.")
    stop = start + (buffer[at] if width == 1 else read_u32(buffer, at)[0])
    if stop > end:
        raise DecodeFault("A length reaches beyond what encloses it.")
    return start, stop


def _binary(width: int) -> Decoder:
    def decode_binary(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        start, stop = _extent(buffer, at, end, width)
        return buffer[start:stop], stop

    return decode_binary


def _string(width: int) -> Decoder:
    def decode_string(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        start, stop = _extent(buffer, at, end, width)
        try:
            return buffer[start:stop].decode(), stop
        except UnicodeDecodeError:
            raise DecodeFault("A string is not UTF-8.") from None

    return decode_string


def _symbol(width: int) -> Decoder:
    def decode_symbol(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        start, stop = _extent(buffer, at, end, width)
        try:
            return Symbol(buffer[start:stop].decode("ascii")), stop
        except UnicodeDecodeError:
            raise DecodeFault("A symbol is not ASCII.") from None

    return decode_symbol


def _compound(buffer: bytes, at: int, end: int, width: int, depth: int) -> tuple[int, int, int]:
    """(count, first item, stop) of a list, map or array."""
    if depth >= nesting_max:
        raise DecodeFault("Values are nested too deeply.")
    start, stop = _extent(buffer, at, end, width)
    first = start + width
    if first > stop:
        raise DecodeFault("A count is cut short.")
    count = buffer[start] if width == 1 else read_u32(buffer, start)[0]
    if count > compound_items_max:
        raise DecodeFault("A compound value has too many items.")
    return count, first, stop


def _items(buffer: bytes, at: int, stop: int, count: int, depth: int) -> list[Any]:
    if count > stop - at:
        raise DecodeFault("A count is larger than what encloses it.")
    items: list[Any] = []
    for _ in range(count):
        if at >= stop:
            raise DecodeFault("A value is cut short.")
        item, at = _decoders[buffer[at]](buffer, at + 1, stop, depth)
        items.append(item)
    if at != stop:
        raise DecodeFault("A size and its items disagree.")
    return items


def _list(width: int) -> Decoder:
    def decode_list(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        count, first, stop = _compound(buffer, at, end, width, depth)
        return _items(buffer, first, stop, count, depth + 1), stop

    return decode_list


def _map(width: int) -> Decoder:
    def decode_map(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        count, first, stop = _compound(buffer, at, end, width, depth)
        if count & 1:
            raise DecodeFault("A map has a key without a value.")
        items = _items(buffer, first, stop, count, depth + 1)
        try:
            pairs = dict(zip(items[::2], items[1::2], strict=True))
        except TypeError:
            raise DecodeFault("A map has a key of an unsupported type.") from None
        if len(pairs) * 2 != count:
            raise DecodeFault("A map has one key twice.")
        return pairs, stop

    return decode_map


def _array(width: int) -> Decoder:
    def decode_array(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        count, at, stop = _compound(buffer, at, end, width, depth)
        if count == 0 and at == stop:
            return Array(type(None), ()), stop
        if at >= stop:
            raise DecodeFault("An array has no constructor.")
        descriptor = None
        constructor = buffer[at]
        at += 1
        if constructor == 0x00:
            descriptor, at = _decode(buffer, at, stop, depth + 1)
            if at >= stop:
                raise DecodeFault("An array has no constructor.")
            constructor = buffer[at]
            at += 1
        kind = _kinds.get(constructor)
        if kind is None:
            raise DecodeFault("An array has an unknown constructor.")
        if count > (zero_width_items_max if constructor in _zero_width else stop - at):
            raise DecodeFault("A count is larger than what encloses it.")
        one = _decoders[constructor]
        items: list[Any] = []
        for _ in range(count):
            item, at = one(buffer, at, stop, depth + 1)
            items.append(item)
        if at != stop:
            raise DecodeFault("A size and its items disagree.")
        return Array(kind, tuple(items), descriptor), stop

    return decode_array


def _described(buffer: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    if depth >= nesting_max:
        raise DecodeFault("Values are nested too deeply.")
    descriptor, at = _decode(buffer, at, end, depth + 1)
    value, at = _decode(buffer, at, end, depth + 1)
    return Described(descriptor, value), at


_constructors: Final[tuple[tuple[int, type, Decoder], ...]] = (
    (0x40, type(None), _constant(None)),
    (0x41, bool, _constant(True)),
    (0x42, bool, _constant(False)),
    (0x43, UInt, _constant(UInt(0))),
    (0x44, ULong, _constant(ULong(0))),
    (0x45, list, _empty_list),
    (0x50, UByte, _fixed(1, _read_u8, UByte)),
    (0x51, Byte, _fixed(1, _read_i8, Byte)),
    (0x52, UInt, _fixed(1, _read_u8, UInt)),
    (0x53, ULong, _fixed(1, _read_u8, ULong)),
    (0x54, Int, _fixed(1, _read_i8, Int)),
    (0x55, int, _fixed(1, _read_i8, None)),
    (0x56, bool, _boolean),
    (0x60, UShort, _fixed(2, read_u16, UShort)),
    (0x61, Short, _fixed(2, _read_i16, Short)),
    (0x70, UInt, _fixed(4, read_u32, UInt)),
    (0x71, Int, _fixed(4, _read_i32, Int)),
    (0x72, Float32, _fixed(4, _read_f32, Float32)),
    (0x73, Char, _char),
    (0x74, Decimal32, _raw(4, Decimal32)),
    (0x80, ULong, _fixed(8, read_u64, ULong)),
    (0x81, int, _fixed(8, _read_i64, None)),
    (0x82, float, _fixed(8, _read_f64, None)),
    (0x83, Milliseconds, _fixed(8, _read_i64, Milliseconds)),
    (0x84, Decimal64, _raw(8, Decimal64)),
    (0x94, Decimal128, _raw(16, Decimal128)),
    (0x98, Uuid, _raw(16, Uuid)),
    (0xA0, bytes, _binary(1)),
    (0xA1, str, _string(1)),
    (0xA3, Symbol, _symbol(1)),
    (0xB0, bytes, _binary(4)),
    (0xB1, str, _string(4)),
    (0xB3, Symbol, _symbol(4)),
    (0xC0, list, _list(1)),
    (0xC1, dict, _map(1)),
    (0xD0, list, _list(4)),
    (0xD1, dict, _map(4)),
    (0xE0, Array, _array(1)),
    (0xF0, Array, _array(4)),
)
_kinds: Final[dict[int, type]] = {code: kind for code, kind, _ in _constructors}
_zero_width: Final = frozenset((0x40, 0x41, 0x42, 0x43, 0x44, 0x45))


def _decoder_table() -> list[Decoder]:
    table: list[Decoder] = [_unknown] * 256
    table[0x00] = _described
    for code, _, decoder in _constructors:
        table[code] = decoder
    return table


_decoders: Final = _decoder_table()


def skip(buffer: bytes, at: int, end: int) -> int:
    """Where the value at `at` stops, without looking inside it."""
    values = 1
    while values:
        if at >= end:
            raise DecodeFault("A value is cut short.")
        constructor = buffer[at]
        at += 1
        if constructor == 0x00:
            values += 1  # a descriptor, then what it describes
            continue
        values -= 1
        width = _widths[constructor]
        if width >= 0:
            at += width
        elif width == _width_unknown:
            raise DecodeFault("A constructor is unknown.")
        else:
            at = _extent(buffer, at, end, -width)[1]
        if at > end:
            raise DecodeFault("A value is cut short.")
    return at


_width_unknown: Final = -100


def _width_table() -> list[int]:
    """Bytes after each constructor; -1 and -4 stand for a length of one and of four bytes."""
    by_class = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 0xA: -1, 0xC: -1, 0xE: -1}
    by_class |= {0xB: -4, 0xD: -4, 0xF: -4}
    return [by_class[code >> 4] if code in _kinds else _width_unknown for code in range(256)]


_widths: Final = _width_table()


def check_compound(buffer: bytes, at: int, stop: int) -> None:
    """Raise unless a list or map at `at` that stops at `stop` is well formed.

    Scalars are only measured, not looked into; anything nested is decoded.
    """
    constructor = buffer[at]
    if constructor in (0x40, 0x45):
        return
    if constructor in (0xC0, 0xC1):
        if at + 3 > stop:
            raise DecodeFault("A count is cut short.")
        count = buffer[at + 2]
        item = at + 3
    elif constructor in (0xD0, 0xD1):
        if at + 9 > stop:
            raise DecodeFault("A count is cut short.")
        count = read_u32(buffer, at + 5)[0]
        item = at + 9
    else:
        raise DecodeFault("A section is neither a list nor a map.")
    if count > stop - item:
        raise DecodeFault("A count is larger than what encloses it.")
    if constructor & 1 and count & 1:
        raise DecodeFault("A map has a key without a value.")
    for _ in range(count):
        if item >= stop:
            raise DecodeFault("A value is cut short.")
        width = flat_widths[buffer[item]]
        if width >= 0:
            item += 1 + width
        elif width == -1:
            item += 2 + (buffer[item + 1] if item + 1 < stop else stop)
        elif width == -4:
            item += 5 + (read_u32(buffer, item + 1)[0] if item + 5 <= stop else stop)
        else:
            decode_whole(buffer, at, stop)
            return
    if item != stop:
        raise DecodeFault("A size and its items disagree.")


flat_widths: Final = [
    _width_unknown if code >= 0xC0 else width for code, width in enumerate(_widths)
]
