import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.services.queue.receipts import (
    message_id,
    order_bits,
    parse_message_id,
    parse_pop_receipt,
    pop_receipt,
    tail_bits,
    tail_of,
)

orders = st.integers(0, 2**order_bits - 1)
tails = st.integers(0, 2**tail_bits - 1)


@given(orders, tails)
def test_message_ids_are_guids_that_come_back(order: int, tail: int):
    text = message_id(order, tail)
    guid = uuid.UUID(text)
    assert str(guid) == text
    assert guid.version == 8
    assert guid.variant == uuid.RFC_4122
    assert parse_message_id(text) == (order, tail)
    assert parse_message_id(text.upper()) == (order, tail)


@given(orders, orders, tails, tails)
def test_message_ids_are_in_order_of_insertion(one: int, two: int, a: int, b: int):
    if one < two:
        assert message_id(one, a) < message_id(two, b)


@given(st.binary(min_size=8, max_size=8))
def test_eight_random_bytes_are_enough_for_a_tail(chance: bytes):
    tail = tail_of(chance)
    assert 0 <= tail < 2**tail_bits
    assert parse_message_id(message_id(1, tail)) == (1, tail)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0b5b7c6e-6f2f-4c5e-9b8e-5a1f1f0f0f0f",
        message_id(5, 5)[:-1],
        message_id(5, 5).replace("-", ""),
        message_id(5, 5) + "\n",
    ],
)
def test_ids_that_were_never_given_out(text: str):
    assert parse_message_id(text) is None


@given(orders)
def test_pop_receipts_are_base64_without_anything_to_escape(stamp: int):
    text = pop_receipt(stamp)
    assert text.isalnum()
    base64.b64decode(text, validate=True)
    assert parse_pop_receipt(text) == stamp


@given(orders, orders)
def test_each_stamp_has_its_own_receipt(one: int, two: int):
    assert (pop_receipt(one) == pop_receipt(two)) == (one == two)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "AgAAAAMAAAAAAAAA",
        "AgAAAAMAAAAAAAAAxxxx",
        pop_receipt(5)[:-1],
        pop_receipt(5) + "=",
        pop_receipt(5)[:-4] + "====",
        pop_receipt(0xABC).lower(),
        "é" * 20,
    ],
)
def test_what_is_no_receipt(text: str):
    assert parse_pop_receipt(text) is None


@given(st.text(max_size=60))
def test_any_text_is_read(text: str):
    parse_message_id(text)
    parse_pop_receipt(text)


@given(st.text(alphabet="ABCD0123+/=-89ab", min_size=20, max_size=20))
def test_any_text_of_the_right_length_is_read(text: str):
    stamp = parse_pop_receipt(text)
    assert stamp is None or pop_receipt(stamp) == text
