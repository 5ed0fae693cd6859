"""From values to bytes of AMQP 1.0's type system (part 1), in their shortest form."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from etagere.protocols.amqp.errors import EncodeError
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

Encoder = Callable[[Any, list[bytes]], None]

pack_u32: Final = struct.Struct(">I").pack
_pack_u16: Final = struct.Struct(">H").pack
_pack_u64: Final = struct.Struct(">Q").pack
_pack_i8: Final = struct.Struct(">b").pack
_pack_i16: Final = struct.Struct(">h").pack
_pack_i32: Final = struct.Struct(">i").pack
_pack_i64: Final = struct.Struct(">q").pack
_pack_f32: Final = struct.Struct(">f").pack
_pack_f64: Final = struct.Struct(">d").pack


def encode(value: Any) -> bytes:
    """The shortest encoding of a value."""
    out: list[bytes] = []
    encode_into(value, out)
    return b"".join(out)


def encode_into(value: Any, out: list[bytes]) -> None:
    encoder = _encoders.get(type(value))
    if encoder is None:
        raise EncodeError("A value of this type has no AMQP encoding.")
    try:
        encoder(value, out)
    except struct.error:
        raise EncodeError("A number is outside the range of its AMQP type.") from None


def _encode_null(_value: None, out: list[bytes]) -> None:
    out.append(b"\x40")


def _encode_boolean(value: bool, out: list[bytes]) -> None:
    out.append(b"\x41" if value else b"\x42")


def _encode_ubyte(value: int, out: list[bytes]) -> None:
    out.append(b"\x50" + _pack_u8(value))


def _encode_ushort(value: int, out: list[bytes]) -> None:
    out.append(b"\x60" + _pack_u16(value))


def _encode_uint(value: int, out: list[bytes]) -> None:
    if value == 0:
        out.append(b"\x43")
    elif 0 < value < 256:
        out.append(b"\x52" + _pack_u8(value))
    else:
        out.append(b"\x70" + pack_u32(value))


def _encode_ulong(value: int, out: list[bytes]) -> None:
    if value == 0:
        out.append(b"\x44")
    elif 0 < value < 256:
        out.append(b"\x53" + _pack_u8(value))
    else:
        out.append(b"\x80" + _pack_u64(value))


def _encode_byte(value: int, out: list[bytes]) -> None:
    out.append(b"\x51" + _pack_i8(value))


def _encode_short(value: int, out: list[bytes]) -> None:
    out.append(b"\x61" + _pack_i16(value))


def _encode_int(value: int, out: list[bytes]) -> None:
    if -128 <= value < 128:
        out.append(b"\x54" + _pack_i8(value))
    else:
        out.append(b"\x71" + _pack_i32(value))


def _encode_long(value: int, out: list[bytes]) -> None:
    if -128 <= value < 128:
        out.append(b"\x55" + _pack_i8(value))
    else:
        out.append(b"\x81" + _pack_i64(value))


def _encode_milliseconds(value: int, out: list[bytes]) -> None:
    out.append(b"\x83" + _pack_i64(value))


def _encode_float32(value: float, out: list[bytes]) -> None:
    try:
        out.append(b"\x72" + _pack_f32(value))
    except OverflowError:
        raise EncodeError("A number is outside the range of its AMQP type.") from None


def _encode_double(value: float, out: list[bytes]) -> None:
    out.append(b"\x82" + _pack_f64(value))


def _encode_char(value: str, out: list[bytes]) -> None:
    out.append(b"\x73" + pack_u32(ord(value)))


def _encode_variable(code: int, content: bytes, out: list[bytes]) -> None:
    size = len(content)
    if size < 256:
        out.append(bytes((code, size)) + content)
    else:
        out.append(bytes((code | 0x10,)) + pack_u32(size) + content)


def _encode_binary(value: bytes, out: list[bytes]) -> None:
    _encode_variable(0xA0, value, out)


def _encode_string(value: str, out: list[bytes]) -> None:
    _encode_variable(0xA1, value.encode(), out)


def _encode_symbol(value: str, out: list[bytes]) -> None:
    try:
        _encode_variable(0xA3, value.encode("ascii"), out)
    except UnicodeEncodeError:
        raise EncodeError("A symbol is not ASCII.") from None


def _encode_raw(code: int, width: int) -> Encoder:
    def encode_raw(value: bytes, out: list[bytes]) -> None:
        if len(value) != width:
            raise EncodeError("A value has the wrong number of bytes.")
        out.append(bytes((code,)) + bytes(value))

    return encode_raw


def _encode_compound(code: int, count: int, items: list[bytes], out: list[bytes]) -> None:
    """`code` is that of the one-byte form; the four-byte form is 0x10 higher."""
    content = b"".join(items)
    size = len(content)
    if size < 255 and count < 256:
        out.append(bytes((code, size + 1, count)) + content)
    else:
        out.append(bytes((code | 0x10,)) + pack_u32(size + 4) + pack_u32(count) + content)


def _encode_list(value: Sequence[Any], out: list[bytes]) -> None:
    if not value:
        out.append(b"\x45")
        return
    items: list[bytes] = []
    for item in value:
        encode_into(item, items)
    _encode_compound(0xC0, len(value), items, out)


def _encode_map(value: dict[Any, Any], out: list[bytes]) -> None:
    items: list[bytes] = []
    for key, item in value.items():
        encode_into(key, items)
        encode_into(item, items)
    _encode_compound(0xC1, 2 * len(value), items, out)


def _encode_described(value: Described, out: list[bytes]) -> None:
    out.append(b"\x00")
    encode_into(value.descriptor, out)
    encode_into(value.value, out)


def _encode_array(value: Array, out: list[bytes]) -> None:
    out.append(_array_whole(value, _array_content(value)))


def _array_whole(value: Array, content: bytes) -> bytes:
    count = len(value.items)
    size = len(content)
    if size < 255 and count < 256:
        return bytes((0xE0, size + 1, count)) + content
    return b"\xf0" + pack_u32(size + 4) + pack_u32(count) + content


def _array_content(value: Array) -> bytes:
    """The constructor and the items, as they stand after the count."""
    out: list[bytes] = []
    if value.descriptor is not None:
        out.append(b"\x00")
        encode_into(value.descriptor, out)
    variable = _array_variable.get(value.kind)
    if variable is not None:
        code, to_bytes = variable
        parts = [to_bytes(item) for item in value.items]
        wide = any(len(part) > 255 for part in parts)
        out.append(bytes((code | 0x10 if wide else code,)))
        for part in parts:
            out.append(pack_u32(len(part)) if wide else bytes((len(part),)))
            out.append(part)
        return b"".join(out)
    fixed = _array_fixed.get(value.kind)
    if fixed is None:
        raise EncodeError("An array of this type has no AMQP encoding.")
    code, item_bytes = fixed
    out.append(bytes((code,)))
    try:
        out.extend([item_bytes(item) for item in value.items])
    except struct.error:
        raise EncodeError("A number is outside the range of its AMQP type.") from None
    return b"".join(out)


def _pack_u8(value: int) -> bytes:
    if not 0 <= value < 256:
        raise EncodeError("A number is outside the range of its AMQP type.")
    return bytes((value,))


def _boolean_byte(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def _no_bytes(_value: None) -> bytes:
    return b""


def _char_bytes(value: str) -> bytes:
    return pack_u32(ord(value))


def _list_bytes(value: Sequence[Any]) -> bytes:
    items: list[bytes] = []
    for item in value:
        encode_into(item, items)
    content = b"".join(items)
    return pack_u32(len(content) + 4) + pack_u32(len(value)) + content


def _map_bytes(value: dict[Any, Any]) -> bytes:
    items: list[bytes] = []
    for key, item in value.items():
        encode_into(key, items)
        encode_into(item, items)
    content = b"".join(items)
    return pack_u32(len(content) + 4) + pack_u32(2 * len(value)) + content


def _nested_array_bytes(value: Array) -> bytes:
    content = _array_content(value)
    return pack_u32(len(content) + 4) + pack_u32(len(value.items)) + content


def _string_bytes(value: str) -> bytes:
    return value.encode()


def _symbol_bytes(value: str) -> bytes:
    try:
        return value.encode("ascii")
    except UnicodeEncodeError:
        raise EncodeError("A symbol is not ASCII.") from None


def _binary_bytes(value: bytes) -> bytes:
    return value


_array_variable: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    bytes: (0xA0, _binary_bytes),
    str: (0xA1, _string_bytes),
    Symbol: (0xA3, _symbol_bytes),
}
_array_fixed: Final[dict[type, tuple[int, Callable[[Any], bytes]]]] = {
    type(None): (0x40, _no_bytes),
    bool: (0x56, _boolean_byte),
    UByte: (0x50, _pack_u8),
    UShort: (0x60, _pack_u16),
    UInt: (0x70, pack_u32),
    ULong: (0x80, _pack_u64),
    Byte: (0x51, _pack_i8),
    Short: (0x61, _pack_i16),
    Int: (0x71, _pack_i32),
    int: (0x81, _pack_i64),
    Float32: (0x72, _pack_f32),
    float: (0x82, _pack_f64),
    Char: (0x73, _char_bytes),
    Milliseconds: (0x83, _pack_i64),
    Uuid: (0x98, _binary_bytes),
    Decimal32: (0x74, _binary_bytes),
    Decimal64: (0x84, _binary_bytes),
    Decimal128: (0x94, _binary_bytes),
    list: (0xD0, _list_bytes),
    dict: (0xD1, _map_bytes),
    Array: (0xF0, _nested_array_bytes),
}
_encoders: Final[dict[type, Encoder]] = {
    type(None): _encode_null,
    bool: _encode_boolean,
    UByte: _encode_ubyte,
    UShort: _encode_ushort,
    UInt: _encode_uint,
    ULong: _encode_ulong,
    Byte: _encode_byte,
    Short: _encode_short,
    Int: _encode_int,
    int: _encode_long,
    Milliseconds: _encode_milliseconds,
    Float32: _encode_float32,
    float: _encode_double,
    Char: _encode_char,
    bytes: _encode_binary,
    str: _encode_string,
    Symbol: _encode_symbol,
    Uuid: _encode_raw(0x98, 16),
    Decimal32: _encode_raw(0x74, 4),
    Decimal64: _encode_raw(0x84, 8),
    Decimal128: _encode_raw(0x94, 16),
    list: _encode_list,
    tuple: _encode_list,
    dict: _encode_map,
    Described: _encode_described,
    Array: _encode_array,
}
