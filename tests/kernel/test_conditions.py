"""The outcome tables of "Specifying conditional headers", written down a second time."""

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.conditions import (
    Conditions,
    Current,
    SourceKind,
    Verdict,
    WriteKind,
    blob_headers,
    evaluate_read,
    evaluate_source,
    evaluate_write,
    parse_conditions,
    several_etags_refusal,
    source_headers,
    unconditional,
)
from etagere.kernel.dates import format_http_date
from etagere.kernel.etag import etag_of
from etagere.kernel.tag_predicate import parse_tag_condition

second = ticks_per_second
modified = Timestamp(1_700_000_000 * second + 4_567_890)
mine = etag_of(modified)
other = etag_of(modified + 1)
current = Current(mine, modified, {"colour": "blue"})

before = Timestamp((1_700_000_000 - 1) * second)
same = Timestamp(1_700_000_000 * second)
after = Timestamp((1_700_000_000 + 1) * second)

old, middle, new = "2012-02-12", "2015-12-11", "2021-08-06"


@dataclass(frozen=True)
class Header:
    """One header's value, and whether its condition holds on `current`."""

    text: str | None
    holds: bool | None


absent = Header(None, None)
if_match = (
    absent,
    Header(mine, holds=True),
    Header(mine.strip('"'), holds=True),
    Header("*", holds=True),
    Header(other, holds=False),
    Header(f"W/{mine}", holds=False),
    Header('"unfinished', holds=False),
)
if_match_lists = (Header(f"{other}, {mine}", holds=True), Header(f'{other}, "x"', holds=False))
if_none_match = (
    absent,
    Header(other, holds=True),
    Header(f"W/{mine}", holds=True),
    Header(mine, holds=False),
    Header(mine.strip('"'), holds=False),
)
if_none_match_lists = (Header(f"{other}, {mine}", holds=False), Header(f'{other}, "x"', holds=True))
if_modified_since = (
    absent,
    Header(format_http_date(before), holds=True),
    Header(format_http_date(same), holds=False),
    Header(format_http_date(after), holds=False),
    Header("null", None),
)
if_unmodified_since = (
    absent,
    Header(format_http_date(before), holds=False),
    Header(format_http_date(same), holds=True),
    Header(format_http_date(after), holds=True),
    Header("yesterday", None),
)
if_tags = (
    absent,
    Header("colour = 'blue'", holds=True),
    Header("colour = 'red'", holds=False),
    Header("size > '1'", holds=False),
)


def conditions_of(*headers: Header) -> Conditions:
    names = (
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "x-ms-if-tags",
    )
    return parse_conditions(
        {
            name: header.text
            for name, header in zip(names, headers, strict=False)
            if header.text is not None
        }
    )


def read_cases():
    return product(
        if_match + if_match_lists,
        if_none_match + if_none_match_lists,
        if_modified_since,
        if_unmodified_since,
        if_tags,
    )


def test_every_combination_of_read_conditions():
    """pass = IM and IUS and (INM or IMS); unmet 412 for the first two, 304 for the others."""
    for im, inm, ims, ius, tags in read_cases():
        conditions = conditions_of(im, inm, ims, ius, tags)
        either = [header.holds for header in (inm, ims) if header.holds is not None]
        if im.holds is False or ius.holds is False:
            expected = Verdict.FAILED
        elif either and not any(either):
            expected = Verdict.NOT_MODIFIED
        elif tags.holds is False:
            expected = Verdict.FAILED
        else:
            expected = Verdict.PROCEED
        for version in ("2013-08-15", middle, new):
            assert evaluate_read(conditions, current, version) is expected, conditions
        assert evaluate_read(conditions, None, new) is Verdict.MISSING


def single_cases():
    return product(if_match, if_none_match, if_modified_since, if_unmodified_since, if_tags)


def write_expectation(
    im: Header, inm: Header, ims: Header, ius: Header, tags: Header
) -> tuple[Verdict, bool]:
    """Expected verdict on `current`, and whether INM or IMS decided it."""
    headers = {
        name
        for name, header in zip(("IM", "INM", "IMS", "IUS"), (im, inm, ims, ius), strict=True)
        if header.holds is not None
    }
    decider = {
        frozenset(): None,
        frozenset({"IM"}): im,
        frozenset({"INM"}): inm,
        frozenset({"IMS"}): ims,
        frozenset({"IUS"}): ius,
        frozenset({"INM", "IMS"}): inm,
        frozenset({"IM", "IUS"}): im,
    }.get(frozenset(headers), absent)
    if decider is absent:
        return Verdict.MULTIPLE, False
    if decider is not None and not decider.holds:
        return Verdict.FAILED, decider in (inm, ims)
    if tags.holds is False:
        return Verdict.FAILED, False
    return Verdict.PROCEED, False


def test_every_combination_of_write_conditions():
    for case in single_cases():
        conditions = conditions_of(*case)
        expected, _ = write_expectation(*case)
        for kind in WriteKind:
            assert evaluate_write(conditions, current, kind) is expected, (conditions, kind)


def test_every_combination_of_old_read_conditions():
    for case in single_cases():
        conditions = conditions_of(*case)
        expected, by_difference = write_expectation(*case)
        if by_difference:
            expected = Verdict.NOT_MODIFIED
        assert evaluate_read(conditions, current, old) is expected, conditions


def test_writes_on_what_is_not_there():
    for case in single_cases():
        im, _, _, _, tags = case
        conditions = conditions_of(*case)
        combined, _ = write_expectation(*case)
        for kind in WriteKind:
            verdict = evaluate_write(conditions, None, kind)
            if combined is Verdict.MULTIPLE:
                assert verdict is Verdict.MULTIPLE
            elif im.text is not None or (tags.text is not None and kind is WriteKind.CREATE):
                assert verdict is Verdict.FAILED
            else:
                assert verdict is Verdict.PROCEED


def test_any_match_on_uncommitted_blocks_depends_on_the_version():
    anything = conditions_of(Header("*", None))
    for kind in WriteKind:
        assert evaluate_write(anything, None, kind) is Verdict.FAILED
        verdict = evaluate_write(anything, None, kind, uncommitted_matches=True)
        assert verdict is Verdict.PROCEED
        exact = conditions_of(Header(mine, None))
        assert evaluate_write(exact, None, kind, uncommitted_matches=True) is Verdict.FAILED


none_at_all = Header("*", None)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (WriteKind.CREATE, (409, "BlobAlreadyExists")),
        (WriteKind.UPDATE, (412, "ConditionNotMet")),
        (WriteKind.SET_PROPERTIES, (0, "")),
        (WriteKind.FLUSH, (304, "ConditionNotMet")),
    ],
)
def test_wildcard_if_none_match_on_writes(kind: WriteKind, expected: tuple[int, str]):
    for ims in (absent, *if_modified_since):
        conditions = conditions_of(absent, none_at_all, ims)
        verdict = evaluate_write(conditions, current, kind)
        assert (verdict.status, verdict.code) == expected
        assert evaluate_write(conditions, None, kind) is Verdict.PROCEED


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (old, Verdict.NOT_MODIFIED),
        (middle, Verdict.NOT_MODIFIED),
        ("2016-05-31", Verdict.UNSATISFIABLE),
        (new, Verdict.UNSATISFIABLE),
    ],
)
def test_wildcard_if_none_match_on_reads(version: str, expected: Verdict):
    conditions = conditions_of(absent, none_at_all)
    assert evaluate_read(conditions, current, version) is expected
    assert evaluate_read(conditions, None, version) is Verdict.MISSING


def test_failed_if_match_is_told_before_the_unsatisfiable_wildcard():
    conditions = conditions_of(Header(other, None), none_at_all)
    assert evaluate_read(conditions, current, new) is Verdict.FAILED


@pytest.mark.parametrize("names", ["if-match", "if-none-match"])
def test_several_etags_are_refused_on_writes_and_old_reads(names: str):
    text = f'{mine}, "x"'
    conditions = parse_conditions({names: text})
    for kind in WriteKind:
        for state in (current, None):
            assert evaluate_write(conditions, state, kind) is Verdict.SEVERAL_ETAGS
    assert evaluate_read(conditions, current, old) is Verdict.SEVERAL_ETAGS
    assert evaluate_read(conditions, current, new) is not Verdict.SEVERAL_ETAGS
    refusal = several_etags_refusal(conditions)
    assert refusal.code == Verdict.SEVERAL_ETAGS.code
    assert refusal.details["HeaderName"].lower() == names
    assert refusal.details["HeaderValue"] == text


@pytest.mark.parametrize("name", ["if-modified-since", "if-unmodified-since"])
def test_two_dates_in_one_header_are_refused(name: str):
    text = f"{format_http_date(before)}, {format_http_date(after)}"
    with pytest.raises(Refused) as refusal:
        parse_conditions({name: text})
    assert refusal.value.code == "InvalidHeaderValue"
    assert refusal.value.details["HeaderName"].lower() == name
    assert refusal.value.details["HeaderValue"] == text


def test_a_tag_condition_that_is_none_is_refused():
    with pytest.raises(Refused) as refusal:
        parse_conditions({"x-ms-if-tags": "colour blue"})
    assert refusal.value.code == "InvalidHeaderValue"
    assert refusal.value.details["HeaderName"] == "x-ms-if-tags"


def test_no_headers_are_no_conditions():
    assert parse_conditions({}) is unconditional
    assert parse_conditions({"if-match": "", "range": "bytes=0-"}) is unconditional
    assert parse_conditions({"if-modified-since": "null"}).absent
    assert not parse_conditions({"if-match": "*"}).absent


def test_each_family_reads_its_own_headers():
    headers = {
        "if-match": "a",
        "x-ms-source-if-match": "b",
        "x-ms-source-if-tags": "x = '1'",
        "x-ms-blob-if-match": "c",
    }
    seen = [
        parse_conditions(headers),
        parse_conditions(headers, source_headers),
        parse_conditions(headers, blob_headers),
    ]
    assert [found.if_match.etags for found in seen if found.if_match] == [("a",), ("b",), ("c",)]
    assert [found.if_tags is not None for found in seen] == [False, True, False]


def test_every_combination_of_source_conditions():
    for im, inm, ims, ius, tags in read_cases():
        conditions = conditions_of(im, inm, ims, ius, tags)
        either = [header.holds for header in (inm, ims) if header.holds is not None]
        if im.holds is False or ius.holds is False:
            expected = ((412, "CannotVerifyCopySource"), (412, "SourceConditionNotMet"))
        elif either and not any(either):
            expected = ((304, "CannotVerifyCopySource"), (412, "SourceConditionNotMet"))
        elif tags.holds is False:
            expected = ((412, "CannotVerifyCopySource"), (412, "ConditionNotMet"))
        else:
            expected = ((0, ""), (0, ""))
        for kind, outcome in zip((SourceKind.FROM_URL, SourceKind.COPY), expected, strict=True):
            verdict = evaluate_source(conditions, current, kind)
            assert (verdict.status, verdict.code) == outcome
            assert evaluate_source(conditions, None, kind) is Verdict.MISSING


def test_wildcard_if_none_match_on_a_source_is_unmet():
    conditions = conditions_of(absent, none_at_all)
    verdict = evaluate_source(conditions, current, SourceKind.FROM_URL)
    assert verdict is Verdict.SOURCE_NOT_MODIFIED
    assert evaluate_source(conditions, current, SourceKind.COPY) is Verdict.SOURCE_UNMET


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "if-match": st.text(max_size=30),
            "if-none-match": st.text(max_size=30),
            "if-modified-since": st.text(max_size=30),
            "if-unmodified-since": st.text(max_size=30),
            "x-ms-if-tags": st.text(max_size=30),
        },
    ),
    st.sampled_from([current, None]),
)
def test_any_headers_get_an_answer(headers: dict[str, str], state: Current | None):
    refused: Refused | None = None
    conditions = unconditional
    try:
        conditions = parse_conditions(headers)
    except Refused as refusal:
        refused = refusal
    assert refused is None or refused.code == "InvalidHeaderValue"
    for version in (old, middle, new):
        assert isinstance(evaluate_read(conditions, state, version), Verdict)
    for kind in WriteKind:
        assert isinstance(evaluate_write(conditions, state, kind), Verdict)
    for source in SourceKind:
        assert isinstance(evaluate_source(conditions, state, source), Verdict)


def test_tag_conditions_are_carried_as_predicates():
    conditions = parse_conditions({"x-ms-if-tags": "a = 'b'"})
    assert conditions.if_tags == parse_tag_condition("a = 'b'")
