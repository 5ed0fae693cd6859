import struct
import tracemalloc
import uuid
from typing import Any

import pytest
from amqp_values import same, scalars, values
from azure.servicebus._pyamqp import _decode as pyamqp_decode
from azure.servicebus._pyamqp import _encode as pyamqp_encode
from hypothesis import given
from hypothesis import strategies as st

from etagere.protocols.amqp.decoding import decode, decode_whole, skip
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import DecodeFault, EncodeError
from etagere.protocols.amqp.limits import compound_items_max, nesting_max
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


@given(values)
def test_what_is_encoded_decodes_to_itself(value: Any) -> None:
    encoded = encode(value)
    decoded, stop = decode(encoded)
    assert stop == len(encoded)
    assert same(decoded, value)


@given(values, st.binary(max_size=5))
def test_skip_stops_where_decode_does(value: Any, rest: bytes) -> None:
    encoded = encode(value)
    assert skip(encoded + rest, 0, len(encoded) + len(rest)) == len(encoded)


@given(values, st.data())
def test_a_value_cut_short_is_a_decode_fault(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DecodeFault):
        decode(encoded[:cut])
    with pytest.raises(DecodeFault):
        decode(encoded, 0, cut)
    with pytest.raises(DecodeFault):
        skip(encoded, 0, cut)


@given(st.binary(max_size=200))
def test_random_bytes_decode_or_fault(noise: bytes) -> None:
    try:
        _, stop = decode(noise)
    except DecodeFault:
        return
    assert 0 < stop <= len(noise)
    assert skip(noise, 0, len(noise)) == stop


@given(values, st.data())
def test_damaged_values_decode_or_fault(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except DecodeFault:
        return


# Part 1, section 1.6: one row for each encoding.
encodings = [
    ("40", None),
    ("5600", False),
    ("5601", True),
    ("41", True),
    ("42", False),
    ("50ff", UByte(255)),
    ("60ffff", UShort(65535)),
    ("70ffffffff", UInt(2**32 - 1)),
    ("52ff", UInt(255)),
    ("43", UInt(0)),
    ("80ffffffffffffffff", ULong(2**64 - 1)),
    ("53ff", ULong(255)),
    ("44", ULong(0)),
    ("5180", Byte(-128)),
    ("618000", Short(-32768)),
    ("7180000000", Int(-(2**31))),
    ("54ff", Int(-1)),
    ("818000000000000000", -(2**63)),
    ("55ff", -1),
    ("723fc00000", Float32(1.5)),
    ("823ff8000000000000", 1.5),
    ("7401020304", Decimal32(b"\1\2\3\4")),
    ("840102030405060708", Decimal64(bytes(range(1, 9)))),
    ("940102030405060708090a0b0c0d0e0f10", Decimal128(bytes(range(1, 17)))),
    ("730001f600", Char("\U0001f600")),
    ("830000000000000001", Milliseconds(1)),
    ("980102030405060708090a0b0c0d0e0f10", Uuid(bytes(range(1, 17)))),
    ("a0020102", b"\1\2"),
    ("b0000000020102", b"\1\2"),
    ("a102c3a9", "é"),
    ("b100000002c3a9", "é"),
    ("a3026162", Symbol("ab")),
    ("b3000000026162", Symbol("ab")),
    ("45", []),
    ("c003024041", [None, True]),
    ("d000000006000000024041", [None, True]),
    ("c10502a1016b41", {"k": True}),
    ("d10000000800000002a1016b41", {"k": True}),
    ("e00a02700000000100000002", Array(UInt, (UInt(1), UInt(2)))),
    ("f00000000d00000002700000000100000002", Array(UInt, (UInt(1), UInt(2)))),
    ("e00100", Array(type(None), ())),
    ("e00702005301560100", Array(bool, (True, False), ULong(1))),
    ("00531045", Described(ULong(0x10), [])),
    ("00a3016145", Described(Symbol("a"), [])),
    ("0080000000000000001045", Described(ULong(0x10), [])),
]


@pytest.mark.parametrize(("wire", "value"), encodings)
def test_every_encoding_of_the_standard(wire: str, value: Any) -> None:
    assert same(decode_whole(bytes.fromhex(wire)), value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (UInt(0), 1),
        (UInt(255), 2),
        (UInt(256), 5),
        (ULong(0), 1),
        (ULong(255), 2),
        (ULong(256), 9),
        (Int(-128), 2),
        (Int(128), 5),
        (127, 2),
        (128, 9),
        ([], 1),
        ([None] * 254, 3 + 254),
        ([None] * 255, 9 + 255),
        ("x" * 255, 2 + 255),
        ("x" * 256, 5 + 256),
        ({}, 3),
    ],
)
def test_encodings_are_the_shortest(value: Any, size: int) -> None:
    assert len(encode(value)) == size


@pytest.mark.parametrize(
    "wire",
    [
        "",
        "3f",  # no such constructor
        "5602",  # neither true nor false
        "730000d800",  # half of a surrogate pair
        "7300110000",  # beyond Unicode
        "a101ff",  # not UTF-8
        "a301ff",  # not ASCII
        "a0ff00",  # a length beyond the end
        "b0ffffffff00",
        "c0ff0140",  # a size beyond the end
        "c0020240",  # more items than bytes
        "c0020040",  # bytes beyond the items
        "c00140",  # a size without room for the count's items
        "c000",  # no count
        "d000000000",
        "d0000000000000000040",
        "c10201a0",  # an odd count
        "c1050440414041",  # one key twice
        "c103024541",  # a list as key
        "e0020170",  # no item
        "e00201ff",  # no such constructor in an array
        "e00101",  # no constructor in an array
        "e0020100",  # no descriptor
        "e005010053ff00",  # described twice
        "e0022140",  # more nulls than are let through
        "f0000000050000ffff40",
        "f000000005ffffffff45",
        "d0ffffffffffffffff",
        "00",  # no descriptor
        "0053",
        "005310",  # nothing described
    ],
)
def test_hostile_encodings_are_decode_faults(wire: str) -> None:
    with pytest.raises(DecodeFault) as caught:
        decode_whole(bytes.fromhex(wire))
    assert caught.value.condition == "amqp:decode-error"


def _nested(levels: int, kind: str) -> bytes:
    data = b"\x40"
    for _ in range(levels):
        if kind == "described":
            data = b"\x00\x53\x01" + data
        elif kind == "descriptor":
            data = b"\x00" + data + b"\x40"
        elif kind == "array":
            data = b"\xf0" + struct.pack(">II", len(data) + 4, 1) + data
        else:
            data = b"\xd0" + struct.pack(">II", len(data) + 4, 1) + data
    return data


@pytest.mark.parametrize("kind", ["list", "described", "descriptor"])
def test_nesting_is_bounded(kind: str) -> None:
    decode_whole(_nested(nesting_max, kind))
    with pytest.raises(DecodeFault):
        decode_whole(_nested(nesting_max + 1, kind))
    with pytest.raises(DecodeFault):
        decode_whole(_nested(20_000, kind))


def test_arrays_nest_no_deeper_either() -> None:
    with pytest.raises(DecodeFault):
        decode_whole(_nested(10_000, "array"))


def test_skip_is_not_led_into_recursion() -> None:
    deep = b"\x00" * 100_000
    with pytest.raises(DecodeFault):
        skip(deep, 0, len(deep))


def test_a_count_costs_no_more_memory_than_its_bytes() -> None:
    one = b"\xf0" + struct.pack(">II", 5, compound_items_max) + b"\x40"
    hostile = b"\xd0" + struct.pack(">II", 4 + len(one) * 1000, 1000) + one * 1000
    tracemalloc.start()
    with pytest.raises(DecodeFault):
        decode_whole(hostile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "value",
    [
        object(),
        UByte(256),
        UByte(-1),
        UShort(65536),
        UInt(-1),
        UInt(2**32),
        ULong(2**64),
        Byte(128),
        Short(40_000),
        Int(2**31),
        2**63,
        Milliseconds(2**63),
        Float32(1e300),
        Symbol("é"),
        Uuid(b"short"),
        Array(UByte, (UByte(1), 300)),
        Array(UInt, (-1,)),
        Array(object, ()),
        Array(Symbol, ("é",)),
        [object()],
    ],
)
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    with pytest.raises(EncodeError):
        encode(value)


# ---- against pyAMQP, the codec inside azure-servicebus


def _for_pyamqp(value: Any) -> Any:
    """What pyAMQP's decoder gives for a value of ours."""
    if isinstance(value, Symbol):
        return str(value).encode()
    if isinstance(value, str):
        return str(value).encode()
    if isinstance(value, Uuid):
        return uuid.UUID(bytes=bytes(value))
    if isinstance(value, list):
        return [_for_pyamqp(item) for item in value]
    if isinstance(value, dict):
        return {_for_pyamqp(key): _for_pyamqp(item) for key, item in value.items()}
    if isinstance(value, Array):
        return [_for_pyamqp(item) for item in value.items]
    return value


_known_to_pyamqp = (
    type(None), bool, UByte, UShort, UInt, ULong, Byte, Short, Int, int, float, Float32,
    Milliseconds, Uuid, bytes, str, Symbol,
)  # fmt: skip
_plain = scalars.filter(lambda value: isinstance(value, _known_to_pyamqp)).filter(
    lambda value: type(value) in _known_to_pyamqp
)
_tree = st.recursive(
    _plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.one_of(st.text(max_size=20)), inner, max_size=4),
        # Not empty: pyAMQP's decoder then leaves the constructor behind.
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4).map(
            lambda numbers: Array(int, tuple(numbers))
        ),
        st.lists(st.binary(min_size=16, max_size=16).map(Uuid), min_size=1, max_size=4).map(
            lambda uuids: Array(Uuid, tuple(uuids))
        ),
    ),
    max_leaves=12,
)


@given(_tree)
def test_pyamqp_reads_what_we_write(value: Any) -> None:
    encoded = memoryview(encode(value))
    rest, decoded = pyamqp_decode._DECODE_BY_CONSTRUCTOR[encoded[0]](encoded[1:])
    assert len(rest) == 0
    assert decoded == _for_pyamqp(value)


@given(_tree)
def test_we_read_what_pyamqp_writes(value: Any) -> None:
    out = bytearray()
    pyamqp_encode.encode_value(out, _to_pyamqp(value))
    decoded, stop = decode(bytes(out))
    assert stop == len(out)
    assert same(decoded, value)


_pyamqp_names = {
    UByte: "UBYTE",
    UShort: "USHORT",
    UInt: "UINT",
    ULong: "ULONG",
    Byte: "BYTE",
    Short: "SHORT",
    Int: "INT",
    int: "LONG",
    Float32: "FLOAT",
    float: "DOUBLE",
    Milliseconds: "TIMESTAMP",
    Symbol: "SYMBOL",
    str: "STRING",
    bytes: "BINARY",
    Uuid: "UUID",
    bool: "BOOL",
}


def _to_pyamqp(value: Any) -> Any:
    if value is None:
        return {"TYPE": "NULL", "VALUE": None}
    if isinstance(value, list):
        return {"TYPE": "LIST", "VALUE": [_to_pyamqp(item) for item in value]}
    if isinstance(value, dict):
        pairs = [(_to_pyamqp(key), _to_pyamqp(item)) for key, item in value.items()]
        return {"TYPE": "MAP", "VALUE": pairs}
    if isinstance(value, Array):
        return {"TYPE": "ARRAY", "VALUE": [_to_pyamqp(item) for item in value.items]}
    plain: Any = value
    if isinstance(value, Uuid):
        plain = uuid.UUID(bytes=bytes(value))
    elif isinstance(value, Symbol):
        plain = str(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        plain = int(value)
    elif isinstance(value, float):
        plain = float(value)
    return {"TYPE": _pyamqp_names[type(value)], "VALUE": plain}
