"""AMQP's types where Python has none of its own.

Python's own stand for the commonest of their kind: `None`, `bool`, `int` (long), `float` (double),
`str` (string), `bytes` (binary), `list`, `dict` (map).  The classes here are subclasses, so that
values compare and count as usual, and an encoder still knows what was on the wire.
"""

from dataclasses import dataclass
from typing import Any


class Symbol(str):
    __slots__ = ()


class Char(str):
    __slots__ = ()


class UByte(int):
    __slots__ = ()


class UShort(int):
    __slots__ = ()


class UInt(int):
    __slots__ = ()


class ULong(int):
    __slots__ = ()


class Byte(int):
    __slots__ = ()


class Short(int):
    __slots__ = ()


class Int(int):
    __slots__ = ()


class Milliseconds(int):
    """AMQP's timestamp: milliseconds since 1970."""

    __slots__ = ()


class Float32(float):
    __slots__ = ()


class Uuid(bytes):
    """Sixteen bytes in the order of RFC 4122."""

    __slots__ = ()


class Decimal32(bytes):
    """The decimals are carried, never computed with."""

    __slots__ = ()


class Decimal64(bytes):
    __slots__ = ()


class Decimal128(bytes):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type; `kind` is the class that stands for it (`int` for long)."""

    kind: type
    items: tuple[Any, ...]
    descriptor: Any = None
    """If not None, each item is described by it."""
