"""ETags and Timestamps are one stamp."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.services.table.etag import (
    etag_of,
    etags_of,
    matches,
    parse_if_match,
    timestamp_of,
    timestamps_of,
)

_stamp = 16239511667775430  # 2021-06-17T17:32:46.777543Z


def test_both_spellings_are_those_of_the_service():
    assert timestamp_of(_stamp) == "2021-06-17T17:32:46.777543Z"
    assert etag_of(_stamp) == "W/\"datetime'2021-06-17T17%3A32%3A46.777543Z'\""
    assert timestamp_of(_stamp // 10_000_000 * 10_000_000) == "2021-06-17T17:32:46Z"


@given(st.integers(0, 253_402_300_799 * 10**7))
def test_an_etag_matches_itself_and_not_its_neighbour(stamp: int):
    condition = parse_if_match(etag_of(stamp))
    assert matches(condition, stamp)
    assert not matches(condition, stamp + 1)


@pytest.mark.parametrize(
    "text",
    [
        "W/\"datetime'2021-06-17T17%3A32%3A46.777543Z'\"",
        "W/\"datetime'2021-06-17T17%3a32%3a46.777543Z'\"",
        "W/\"datetime'2021-06-17T17:32:46.777543Z'\"",
        'w/"datetime%272021-06-17T17:32:46.777543Z%27"',
        " W/\"datetime'2021-06-17T17%3A32%3A46.777543Z'\" ",
        "*",
    ],
)
def test_spellings_that_match(text: str):
    assert matches(parse_if_match(text), _stamp)


@pytest.mark.parametrize("text", ["W/\"datetime'2021-06-17T17%3A32%3A46Z'\"", 'W/"x"', 'W/""'])
def test_etags_of_nothing(text: str):
    assert not matches(parse_if_match(text), _stamp)


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", '"x"', "W/", 'W/"', "**", "*, *", 'W/"a", W/"b"', "datetime'2021'",
     "\"datetime'2021-06-17T17%3A32%3A46.777543Z'\""],
)  # fmt: skip
def test_what_is_no_etag_is_refused(text: str):
    with pytest.raises(Refused) as refusal:
        parse_if_match(text)
    assert refusal.value.code == "InvalidInput"


@given(
    st.integers(1, 10**11).flatmap(
        lambda second: st.integers(second * 10**7 - 120, second * 10**7 + 120)
    )
    | st.integers(10**7, 2**60),
    st.lists(st.integers(1, 3), max_size=120),
)
def test_stamps_of_several(first: int, steps: list[int]):
    stamps = list(itertools.accumulate(steps, initial=first))
    assert etags_of(stamps) == [etag_of(stamp) for stamp in stamps]
    assert timestamps_of(stamps) == [timestamp_of(stamp) for stamp in stamps]
