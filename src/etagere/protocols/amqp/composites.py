"""How a composite type (AMQP 1.0 part 1, section 1.4) stands in a table, and is read and written.

A composite is a `msgspec.Struct`; its `Layout` says what each field is on the wire.  Reading is
lenient about the width of an integer and strict about everything else; writing emits every field,
trailing nulls included, because older pyAMQP indexes fields without looking at the count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.values import Array, Described, Symbol, UByte, UInt, ULong, UShort


class Composite(msgspec.Struct, frozen=True):
    """Base of everything that AMQP encodes as a described list."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Field:
    kind: Kind
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Layout:
    code: int
    name: str
    """The symbolic descriptor, which AMQP allows in the code's place."""
    composite: type[Composite]
    fields: tuple[Field, ...]


_by_descriptor: Final[dict[Any, Layout]] = {}
_by_class: Final[dict[type, Layout]] = {}


def layout(code: int, name: str, composite: type[Composite], *fields: Field) -> None:
    """Enter a composite into the table."""
    assert len(fields) == len(composite.__struct_fields__)
    entry = Layout(code, name, composite, fields)
    assert code not in _by_descriptor
    _by_descriptor[code] = entry
    _by_descriptor[Symbol(name)] = entry
    _by_class[composite] = entry


def layouts() -> list[Layout]:
    return list(_by_class.values())


def read_composite(value: Any) -> Composite:
    """The composite that a decoded, described list stands for."""
    if type(value) is not Described:
        raise DecodeFault("A described list was expected.")
    descriptor = value.descriptor
    entry = None
    if type(descriptor) is ULong or type(descriptor) is Symbol:
        entry = _by_descriptor.get(descriptor)
    if entry is None:
        raise DecodeFault("A descriptor is unknown.")
    items = value.value
    if type(items) is not list:
        raise DecodeFault("A composite is not encoded as a list.")
    fields = entry.fields
    if len(items) > len(fields):
        raise DecodeFault("A composite has too many fields.")
    values: list[Any] = []
    for item, field in zip(items, fields, strict=False):
        if item is None:
            if field.required:
                raise DecodeFault("A mandatory field is null.")
            values.append(field.default)
        else:
            values.append(field.kind.read(item))
    for field in fields[len(items) :]:
        if field.required:
            raise DecodeFault("A mandatory field is missing.")
        values.append(field.default)
    return entry.composite(*values)


def composite_value(composite: Composite) -> Described:
    """The described list for `encoding.encode`."""
    entry = _by_class[type(composite)]
    values: list[Any] = []
    for name, field in zip(composite.__struct_fields__, entry.fields, strict=True):
        item = getattr(composite, name)
        values.append(None if item is None else field.kind.write(item))
    return Described(ULong(entry.code), values)


def encode_composite(composite: Composite) -> bytes:
    return encode(composite_value(composite))


def _same(value: Any) -> Any:
    return value


def _integer(name: str, largest: int, write: Callable[[int], Any]) -> Kind:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
            raise DecodeFault("A field is not an integer of its range.")
        return int(value)

    return Kind(name, read, write)


def _exactly(name: str, kind: type, write: Callable[[Any], Any] = _same) -> Kind:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise DecodeFault("A field has the wrong type.")
        return value

    return Kind(name, read, write)


def _read_symbol(value: Any) -> Symbol:
    if type(value) is not Symbol:
        raise DecodeFault("A field is not a symbol.")
    return value


def _read_symbols(value: Any) -> tuple[Symbol, ...]:
    if type(value) is Symbol:
        return (value,)
    if type(value) is Array and value.descriptor is None and value.kind in (Symbol, type(None)):
        return tuple(value.items)
    raise DecodeFault("A field is not a list of symbols.")


def _write_symbols(value: tuple[Symbol, ...]) -> Array:
    return Array(Symbol, tuple(Symbol(item) for item in value))


def _read_map(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise DecodeFault("A field is not a map.")
    return value


def composite_kind(name: str, allowed: Callable[[], tuple[type, ...]]) -> Kind:
    """A field that holds one of some composites; `allowed` is asked at use."""

    def read(value: Any) -> Composite:
        composite = read_composite(value)
        if type(composite) not in allowed():
            raise DecodeFault("A field holds the wrong composite.")
        return composite

    return Kind(name, read, composite_value)


ubyte: Final = _integer("ubyte", 0xFF, UByte)
ushort: Final = _integer("ushort", 0xFFFF, UShort)
uint: Final = _integer("uint", 0xFFFFFFFF, UInt)
ulong: Final = _integer("ulong", 0xFFFFFFFFFFFFFFFF, ULong)
boolean: Final = _exactly("boolean", bool)
string: Final = _exactly("string", str)
binary: Final = _exactly("binary", bytes)
symbol: Final = Kind("symbol", _read_symbol, Symbol)
symbols: Final = Kind("symbols", _read_symbols, _write_symbols)
fields_map: Final = Kind("map", _read_map, _same)
anything: Final = Kind("*", _same, _same)
