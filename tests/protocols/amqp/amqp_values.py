"""Hypothesis strategies for AMQP values."""

from typing import Any

from hypothesis import strategies as st

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


def _unsigned(kind: type, bits: int) -> st.SearchStrategy[Any]:
    edge = st.sampled_from([0, 1, 127, 128, 255, 256, 2**bits - 1]).filter(lambda n: n < 2**bits)
    return st.one_of(edge, st.integers(0, 2**bits - 1)).map(kind)


def _signed(kind: type, bits: int) -> st.SearchStrategy[Any]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    edge = st.sampled_from([low, -129, -128, -1, 0, 127, 128, high]).filter(
        lambda n: low <= n <= high
    )
    return st.one_of(edge, st.integers(low, high)).map(kind)


symbols = st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol)
strings = st.text(max_size=300)
binaries = st.binary(max_size=300)

scalars_by_kind: dict[type, st.SearchStrategy[Any]] = {
    type(None): st.none(),
    bool: st.booleans(),
    UByte: _unsigned(UByte, 8),
    UShort: _unsigned(UShort, 16),
    UInt: _unsigned(UInt, 32),
    ULong: _unsigned(ULong, 64),
    Byte: _signed(Byte, 8),
    Short: _signed(Short, 16),
    Int: _signed(Int, 32),
    int: _signed(int, 64),
    Float32: st.floats(width=32, allow_nan=False).map(Float32),
    float: st.floats(allow_nan=False),
    Char: st.characters(exclude_categories=("Cs",)).map(Char),
    Milliseconds: _signed(Milliseconds, 64),
    Uuid: st.binary(min_size=16, max_size=16).map(Uuid),
    Decimal32: st.binary(min_size=4, max_size=4).map(Decimal32),
    Decimal64: st.binary(min_size=8, max_size=8).map(Decimal64),
    Decimal128: st.binary(min_size=16, max_size=16).map(Decimal128),
    bytes: binaries,
    str: strings,
    Symbol: symbols,
}
scalars = st.one_of(*scalars_by_kind.values())
keys = st.one_of(symbols, strings, scalars_by_kind[ULong])


def _maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[Any, Any]]:
    return st.dictionaries(keys, values, max_size=5)


@st.composite
def arrays(draw: st.DrawFn, items: st.SearchStrategy[Any]) -> Array:
    kind = draw(st.sampled_from([*scalars_by_kind, list, dict]))
    if kind is list:
        one: st.SearchStrategy[Any] = st.lists(items, max_size=3)
    elif kind is dict:
        one = _maps(items)
    else:
        one = scalars_by_kind[kind]
    descriptor = draw(st.one_of(st.none(), scalars_by_kind[ULong], symbols))
    return Array(kind, tuple(draw(st.lists(one, max_size=6))), descriptor)


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=6),
        _maps(inner),
        st.builds(Described, st.one_of(scalars_by_kind[ULong], symbols), inner),
        arrays(inner),
    )


values = st.recursive(scalars, _wider, max_leaves=12)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in AMQP type, at every depth."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Described):
        return same(left.descriptor, right.descriptor) and same(left.value, right.value)
    if isinstance(left, Array):
        return (
            left.kind is right.kind
            and same(left.descriptor, right.descriptor)
            and same(list(left.items), list(right.items))
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            same(one, other) and same(left[one], right[other])
            for one, other in zip(left, right, strict=True)
        )
    return bool(left == right)
