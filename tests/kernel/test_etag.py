import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.kernel.etag import bare, etag_of, parse_etags

stamp_2024 = 17_200_000_000_000_000


def test_looks_like_a_live_etag():
    etag = etag_of(stamp_2024)
    assert re.fullmatch(r'"0x8D[0-9A-F]{13}"', etag)
    assert bare(etag) == etag[1:-1]


def test_is_the_dot_net_tick_count():
    # 2020-01-01T00:00:00Z is 637134336000000000 ticks after 0001-01-01.
    ticks = 15_778_368_000_000_000
    assert etag_of(ticks) == f'"0x{637_134_336_000_000_000:X}"'


@given(st.integers(0, 2**56), st.integers(0, 2**56))
def test_distinct_stamps_make_distinct_etags_in_order(left: int, right: int):
    assert (etag_of(left) < etag_of(right)) == (left < right)
    assert (etag_of(left) == etag_of(right)) == (left == right)


@pytest.mark.parametrize(
    ("etag", "expected"),
    [('"a"', "a"), ("a", "a"), ('""', ""), ('"', '"'), ("", ""), ('W/"a"', 'W/"a"')],
)
def test_bare(etag: str, expected: str):
    assert bare(etag) == expected


@pytest.mark.parametrize(
    ("text", "wildcard", "etags", "count"),
    [
        ("*", True, (), 1),
        (" * ", True, (), 1),
        ('"0x8D1"', False, ("0x8D1",), 1),
        ("0x8D1", False, ("0x8D1",), 1),
        ('"a", "b"', False, ("a", "b"), 2),
        ('"a","b" ,c', False, ("a", "b", "c"), 3),
        ('"a,b"', False, ("a,b",), 1),
        ('W/"a"', False, (), 1),
        ('W/"a", "b"', False, ("b",), 2),
        ('*, "b"', True, ("b",), 2),
        ('""', False, ("",), 1),
        ('"open', False, (), 1),
        ('"', False, (), 1),
        ('a"b', False, (), 1),
        (',,"a",', False, ("a",), 1),
    ],
)
def test_parse(text: str, wildcard: bool, etags: tuple[str, ...], count: int):
    parsed = parse_etags(text)
    assert parsed is not None
    assert (parsed.any, parsed.etags, parsed.count) == (wildcard, etags, count)


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_an_empty_header_is_an_absent_one(text: str):
    assert parse_etags(text) is None


def test_quoted_and_bare_match_each_other():
    etag = etag_of(stamp_2024)
    for sent in (etag, bare(etag), f'{etag}, "other"'):
        parsed = parse_etags(sent)
        assert parsed is not None
        assert parsed.matches(etag)
        assert parsed.matches(bare(etag))
        assert not parsed.matches(etag_of(stamp_2024 + 1))


def test_weak_never_matches():
    etag = etag_of(stamp_2024)
    parsed = parse_etags(f"W/{etag}")
    assert parsed is not None
    assert not parsed.matches(etag)


def test_case_is_part_of_an_etag():
    parsed = parse_etags(etag_of(stamp_2024).lower())
    assert parsed is not None
    assert not parsed.matches(etag_of(stamp_2024))


@given(st.text(max_size=200))
def test_any_text_parses(text: str):
    parsed = parse_etags(text)
    assert parsed is None or (parsed.count >= len(parsed.etags) and parsed.count >= 1)


@given(st.text(alphabet='",*W/ ab', max_size=40))
def test_any_list_parses(text: str):
    parsed = parse_etags(text)
    if parsed is not None:
        assert parsed.count == len(parsed.etags) or parsed.any or "W/" in text or '"' in text


@given(st.lists(st.from_regex(r'[^"\x00-\x1f]{1,20}', fullmatch=True), min_size=1, max_size=5))
def test_a_quoted_list_comes_back(etags: list[str]):
    parsed = parse_etags(", ".join(f'"{etag}"' for etag in etags))
    assert parsed is not None
    assert parsed.etags == tuple(etags)
