"""Every filter says of every entity what the plainest evaluation says; no plan loses a row."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.services.table.entity import read_members
from etagere.services.table.filter_match import predicate_of, reads_properties
from etagere.services.table.filter_parse import (
    And,
    Compare,
    Family,
    Literal,
    Not,
    Operator,
    Or,
    Property,
    Truth,
    comparisons_max,
    depth_max,
    parse,
)
from etagere.services.table.filter_plan import KeyRange, Plan, before, plan

from .filters import Entity, Expression, entities, expressions

rows = st.lists(entities(), max_size=12, unique_by=lambda e: (e.partition_key, e.row_key))


def _properties(entity: Entity):
    return read_members(list(entity.members.items())).properties


def _is_in(entity: Entity, ranges: tuple[KeyRange, ...]) -> bool:
    position = before(entity.partition_key, entity.row_key)
    return any(r.begin <= position < r.end for r in ranges)


@given(expressions, rows)
@settings(max_examples=300)
def test_a_predicate_says_what_the_naive_evaluation_says(
    expression: Expression, table: list[Entity]
):
    holds = predicate_of(parse(expression.text))
    for entity in table:
        got = holds(entity.partition_key, entity.row_key, entity.stamp, _properties(entity))
        assert got == expression.matches(entity), expression.text


@given(expressions, rows)
@settings(max_examples=300)
def test_a_plan_loses_no_row_and_its_residual_settles_the_rest(
    expression: Expression, table: list[Entity]
):
    found = plan(parse(expression.text))
    for entity in table:
        inside = _is_in(entity, found.ranges)
        own = _properties(entity)
        if not found.residual_reads_properties:
            own = {}
        matches = inside and (
            found.residual is None
            or found.residual(entity.partition_key, entity.row_key, entity.stamp, own)
        )
        assert matches == expression.matches(entity), expression.text


@given(expressions)
@settings(max_examples=150)
def test_ranges_are_in_order_and_do_not_overlap(expression: Expression):
    ranges = plan(parse(expression.text)).ranges
    for found in ranges:
        assert found.begin < found.end
    for one, next_one in pairwise(ranges):
        assert one.end < next_one.begin


def _rows_read(text: str, keys: list[tuple[str, str]]) -> list[tuple[str, str]]:
    ranges = plan(parse(text)).ranges
    return [(pk, rk) for pk, rk in keys if any(r.begin <= before(pk, rk) < r.end for r in ranges)]


_grid = [(pk, rk) for pk in ("a", "b", "c", "d") for rk in ("1", "2", "3", "4")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PartitionKey eq 'b' and RowKey eq '2'", [("b", "2")]),
        ("RowKey eq '2' and PartitionKey eq 'b' and Age gt 5", [("b", "2")]),
        ("'b' eq PartitionKey and '2' eq RowKey", [("b", "2")]),
        ("PartitionKey eq 'b' and RowKey ge '2' and RowKey lt '4'", [("b", "2"), ("b", "3")]),
        ("PartitionKey eq 'b' and (Age eq 1 or Age eq 2)", [("b", r) for r in "1234"]),
        (
            "(PartitionKey eq 'd' and RowKey eq '1') or (PartitionKey eq 'a' and RowKey eq '3')",
            [("a", "3"), ("d", "1")],
        ),
        (
            "PartitionKey eq 'a' and (RowKey eq '4' or RowKey eq '1') and Flag",
            [("a", "1"), ("a", "4")],
        ),
        ("PartitionKey gt 'c'", [("d", r) for r in "1234"]),
        ("not (PartitionKey le 'c')", [("d", r) for r in "1234"]),
        ("not (PartitionKey ne 'b' or RowKey ne '2')", [("b", "2")]),
        (
            "PartitionKey gt 'c' or (PartitionKey eq 'c' and RowKey gt '3')",
            [("c", "4"), *(("d", r) for r in "1234")],
        ),
        ("PartitionKey eq 'a' and PartitionKey eq 'b'", []),
        ("PartitionKey eq 5", []),
        ("PartitionKey eq 'b' and false", []),
        ("RowKey eq '2'", _grid),
        ("Age eq 5", _grid),
        ("PartitionKey eq 'b' or Age eq 5", _grid),
        ("PartitionKey ne 'b'", [k for k in _grid if k[0] != "b"]),
        ("PartitionKey eq 'b' and RowKey ne '2'", [("b", "1"), ("b", "3"), ("b", "4")]),
    ],
)
def test_only_rows_inside_the_planned_ranges_are_read(text: str, expected: list[tuple[str, str]]):
    assert _rows_read(text, _grid) == expected


def _plan(text: str) -> Plan:
    return plan(parse(text))


def test_conditions_on_keys_alone_leave_nothing_to_test():
    assert _plan("PartitionKey eq 'a' and RowKey ge 'b'").residual is None
    assert _plan("PartitionKey ge 'a' and PartitionKey lt 'b'").residual is None
    assert _plan("PartitionKey eq 'a' or PartitionKey eq 'c'").residual is None
    assert _plan("RowKey eq 'a'").residual is not None


def test_what_the_ranges_settle_is_not_tested_again():
    found = _plan("PartitionKey eq 'a' and Timestamp gt datetime'2020-01-01T00:00:00Z'")
    assert found.residual is not None
    assert not found.residual_reads_properties
    assert found.residual("elsewhere", "", 2**62, {})


def test_a_plan_with_too_many_pieces_becomes_coarser_and_stays_right():
    pks = " or ".join(f"PartitionKey eq 'p{n:03}'" for n in range(60))
    rks = " or ".join(f"RowKey eq 'r{n:03}'" for n in range(60))
    found = _plan(f"({pks}) and ({rks})")
    assert len(found.ranges) <= 1024
    assert found.residual is not None
    inside = before("p005", "r007")
    assert any(r.begin <= inside < r.end for r in found.ranges)
    assert found.residual("p005", "r007", 1, {})
    assert not found.residual("p005", "r0075", 1, {})


def test_not_binds_looser_than_a_comparison_and_tighter_than_and():
    assert parse("not a eq 1 and b eq 2 or c eq 3") == Or(
        (
            And(
                (
                    Not(Compare(Operator.EQ, Property("a"), Literal(Family.NUMBER, 1))),
                    Compare(Operator.EQ, Property("b"), Literal(Family.NUMBER, 2)),
                )
            ),
            Compare(Operator.EQ, Property("c"), Literal(Family.NUMBER, 3)),
        )
    )


def test_parentheses_around_an_operand_leave_it_one():
    for text in ("(Age) gt 5", "Age gt (5)", "((Age)) gt ((5))", "((Age) gt (5))"):
        assert parse(text) == Compare(Operator.GT, Property("Age"), Literal(Family.NUMBER, 5))
    assert parse("((flag))") == Truth(Property("flag"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a eq 5", 5),
        ("a eq -5", -5),
        ("a eq 5L", 5),
        ("a eq 9223372036854775807L", 2**63 - 1),
        ("a eq 5.0", 5.0),
        ("a eq 1e3", 1000.0),
        ("a eq 'it''s'", "it's"),
        ("a eq X'0aFF'", b"\x0a\xff"),
        ("a eq binary''", b""),
        ("a eq datetime'1970-01-01T00:00:01Z'", 10_000_000),
        ("a eq datetime'1970-01-01T00:00:00.0000001Z'", 1),
        ("a eq guid'0000000A-0000-0000-0000-000000000000'", "0000000a-0000-0000-0000-000000000000"),
        ("a eq true", True),
    ],
)
def test_literals(text: str, value: object):
    found = parse(text)
    assert isinstance(found, Compare)
    assert isinstance(found.right, Literal)
    assert found.right.value == value
    assert type(found.right.value) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a", "a eq", "eq 5", "a eq 5 and", "a EQ 5", "a = 5", "(a eq 5", "a eq 5)",
        "a eq 'x", "a eq ''x'", "5", "'x'", "a eq b eq c", "(a eq 1) eq true", "a eq 5x",
        "a eq 1.5L", "a eq 9223372036854775808", "a eq 1e999", "a eq datetime'yesterday'",
        "a eq datetime'2021-13-01T00:00:00Z'", "a eq guid'5'", "a eq X'0'", "a eq X'zz'",
        "a eq X'0 0'", "not", "and", "a and or b", "a eq not", "a, b", "a eq null()", "-", "a\x00",
        "a eq 5 b eq 6", "()", "(5)", "5)", "not (5)", "(not 5)", "(5 and a)", "(a and 5)",
        "(5) and a", "a eq (5", "(a eq 1 or 'x')", "((5) eq a) or (5)",
        "a not b", "a eq 1 not b eq 2", "(a) not (b)",
        "a eq \ud800", "a eq '\ud800'",
    ],
)  # fmt: skip
def test_what_is_no_filter_is_refused(text: str):
    if text == "a":
        assert parse(text) == Truth(Property("a"))
        return
    with pytest.raises(Refused) as refusal:
        parse(text)
    assert refusal.value.code in ("InvalidInput", "NotImplemented")


def test_a_refusal_names_the_position():
    with pytest.raises(Refused) as refusal:
        parse("Age gt 5 and Name ==")
    assert refusal.value.message is not None
    assert "position 18" in refusal.value.message


@pytest.mark.parametrize(
    "text", ["startswith(Name, 'a')", "substringof('a', Name) eq true", "Age add 1 eq 2"]
)
def test_functions_and_arithmetic_are_not_implemented(text: str):
    with pytest.raises(Refused) as refusal:
        parse(text)
    assert refusal.value.code == "NotImplemented"


def test_conditions_joined_two_by_two_are_one_list():
    """As .NET's CombineFilters and its LINQ write them: parentheses around each pair."""
    text = "a eq 1"
    for n in range(2, depth_max + 1):
        text = f"({text}) or (a eq {n})"
    joined = parse(text)
    assert isinstance(joined, Or)
    assert [each.right.value for each in joined.conditions] == list(range(1, depth_max + 1))
    holds = predicate_of(joined)
    assert holds("p", "r", 1, {"a": depth_max})
    assert not holds("p", "r", 1, {"a": depth_max + 1})


def test_the_deepest_nesting_is_followed():
    text, wanted = "flag", True
    for n in range(depth_max):
        operator, left = ("and", "RowKey ne 'x'") if n % 2 else ("or", "RowKey eq 'x'")
        text, wanted = f"{left} {operator} not ({text})", not wanted
    found = parse(text)
    assert plan(found).residual is not None
    assert reads_properties(found)
    assert predicate_of(found)("p", "r", 1, {"flag": True}) is wanted


def test_depth_size_and_count_are_bounded():
    assert parse("(" * depth_max + "a" + ")" * depth_max) == Truth(Property("a"))
    parse(" or ".join(["a eq 1"] * comparisons_max))
    parse("not " * 5000 + "a")
    for text in (
        "(" * (depth_max + 1) + "a" + ")" * (depth_max + 1),
        "(" * 30_000,
        " or ".join(["a eq 1"] * (comparisons_max + 1)),
        " and ".join(["a"] * (comparisons_max + 1)),
        "a eq '" + "x" * 40_000 + "'",
    ):
        with pytest.raises(Refused) as refusal:
            parse(text)
        assert refusal.value.code == "InvalidInput"


_pieces = st.sampled_from(
    [
        "(", ")", "and", "or", "not", "eq", "ne", "gt", "ge", "lt", "le", "PartitionKey", "RowKey",
        "Timestamp", "a", "'x'", "''", "'", "5", "-5", "5L", "1.5", "1e9", "e", ".", "NaN", "-",
        "Infinity", "-Infinity", "true", "false", "datetime'", "datetime'2020-01-01T00:00:00Z'",
        "guid'", "X'00'", "X'", "binary'0'", ",", "\t", "é", "\ud800", "add", "startswith(",
    ]
)  # fmt: skip


@given(st.lists(_pieces, max_size=30).map(" ".join) | st.lists(_pieces).map("".join) | st.text())
@settings(max_examples=800)
@example("not not a")
def test_the_parser_answers_or_refuses(text: str):
    try:
        condition = parse(text)
    except Refused:
        return
    found = plan(condition)
    reads_properties(condition)
    predicate_of(condition)("p", "r", 1, {"a": 1})
    assert list(found.ranges) == sorted(found.ranges, key=lambda r: r.begin)
