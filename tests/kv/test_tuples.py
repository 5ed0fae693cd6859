"""Order, round trip and ranges of the tuple codec."""

import enum
import functools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etagere.kv import tuples
from etagere.kv.tuples import (
    Item,
    MalformedTuple,
    after,
    pack,
    pack_number,
    pack_text,
    range_of,
    range_of_prefix,
    unpack,
)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.text(
    st.sampled_from("\0\x01a\x7f\x80\uffff\U0010ffff"), max_size=6
)
blobs = st.binary(max_size=6) | st.lists(st.sampled_from((0, 1, 254, 255)), max_size=6).map(bytes)
integers = st.integers(tuples.integer_min, tuples.integer_max) | st.sampled_from(
    [sign * (1 << shift) + d for sign in (1, -1) for shift in range(0, 64, 8) for d in (-1, 0, 1)]
)
items = st.none() | st.booleans() | texts | blobs | integers
rows = st.lists(items, max_size=4).map(tuple)

_rank = {type(None): 0, bool: 1, bytes: 2, str: 3, int: 4}


def compare_items(a: Item, b: Item) -> int:
    """The order that the docstring promises, said another way."""
    if type(a) is not type(b):
        return _rank[type(a)] - _rank[type(b)]
    if a is None or b is None:
        return 0
    return (a > b) - (a < b)  # type: ignore[operator]  # of one type, by the line above


def compare(a: tuple[Item, ...], b: tuple[Item, ...]) -> int:
    for x, y in zip(a, b, strict=False):
        if order := compare_items(x, y):
            return order
    return len(a) - len(b)


@given(rows)
@example(("", "\0", b"", b"\0\xff\0", 0, -1, None))
def test_what_was_packed_comes_back(row):
    assert unpack(pack(*row)) == row
    assert [type(item) for item in unpack(pack(*row))] == [type(item) for item in row]


@given(rows, rows)
@example(("a",), ("a\0",))
@example(("a", "b"), ("a\0b",))
@example((-256,), (-255,))
@example((255,), (256,))
def test_bytes_order_like_tuples(a, b):
    order = (pack(*a) > pack(*b)) - (pack(*a) < pack(*b))
    expected = compare(a, b)
    assert order == (expected > 0) - (expected < 0)


@given(st.lists(rows, max_size=30))
def test_sorting_bytes_sorts_tuples(many):
    assert [unpack(p) for p in sorted(pack(*row) for row in many)] == sorted(
        many, key=functools.cmp_to_key(compare)
    )


@given(rows, rows)
def test_range_covers_exactly_the_tuples_with_that_prefix(prefix, row):
    begin, end = range_of(*prefix)
    inside = compare(row[: len(prefix)], prefix) == 0 and len(row) >= len(prefix)
    assert (begin <= pack(*row) < end) == inside
    assert begin <= pack(*prefix, *row) < end


@given(rows, texts | blobs, rows)
@example((), "", ("\0",))
@example((), "a\0", ("a\0\0",))
@example((), b"\xff", (b"\xff\xff",))
def test_range_of_a_text_prefix(front, prefix, row):
    begin, end = range_of_prefix(*front, prefix)
    at = len(front)
    inside = (
        len(row) > at
        and compare(row[:at], front) == 0
        and type(row[at]) is type(prefix)
        and row[at].startswith(prefix)
    )
    assert (begin <= pack(*row) < end) == inside
    assert begin <= pack(*front, prefix + prefix, *row) < end


@given(rows, rows)
def test_after_is_the_next_key(a, b):
    assert not pack(*a) < pack(*b) < after(pack(*a))
    assert pack(*a) < after(pack(*a))


@given(st.binary(max_size=12) | st.lists(st.sampled_from(b"\0\x05\x06\x10\x11\x1f\x20\x21a\xff")))
@example(b"\x21\0")
@example(b"\x1f\xff")
@example(b"\x11\xc3\0")
def test_unpack_takes_only_what_pack_makes(data):
    data = bytes(data)
    try:
        row = unpack(data)
    except MalformedTuple:
        return
    assert pack(*row) == data


@pytest.mark.parametrize(
    "damaged", [b"\0", b"\xff", b"\x11a", b"\x10\0\xff", b"\x28\1", b"\x21\0", b"\x1f\xff", b"\x30"]
)
def test_damage_is_named(damaged):
    with pytest.raises(MalformedTuple):
        unpack(damaged)


@pytest.mark.parametrize("item", ["\ud800", "a\udfff", 2**64, -(2**64)])
def test_what_cannot_be_packed(item):
    with pytest.raises(ValueError):
        pack(item)


def test_subclasses_pack_as_what_they_extend():
    class Kind(enum.IntEnum):
        A = 3

    class Name(enum.StrEnum):
        A = "x\0"

    assert pack(Kind.A, Name.A) == pack(3, "x\0")


def test_ranges_of_a_text_prefix_need_a_text():
    with pytest.raises(TypeError):
        range_of_prefix("a", 1)


@given(texts, integers)
def test_one_item_alone_is_packed_as_ever(text, number):
    assert pack_text(text) + pack_number(number) == pack(text, number)


def test_a_number_beyond_64_bits_is_refused_alone_too():
    for number in (tuples.integer_max + 1, tuples.integer_min - 1):
        with pytest.raises(ValueError, match="64 bits"):
            pack_number(number)
