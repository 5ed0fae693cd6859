"""Actions and correlation filters."""

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.services.bus.actions import Action, parse_action, statements_max
from etagere.services.bus.correlation import CorrelationFields, CorrelationFilter
from etagere.services.bus.sql_evaluate import FilterFailed

from .subjects import PlainSubject
from .test_sql_filter import words


def apply(text, message=None, parameters=None):
    return Action(parse_action(text, parameters or {})).apply(message or PlainSubject())


def test_statements_see_what_those_before_them_did():
    changes = apply("SET a = 1; SET b = a + 1 SET A = b * 10; REMOVE b; SET c = b")
    assert changes.application == {"A": 20, "c": None}
    assert changes.removed == {"a", "b", "c"}


def test_system_properties_that_can_be_set():
    message = PlainSubject(user={"x": "v"}, system={"Label": "old"})
    changes = apply(
        "SET sys.Label = sys.Label + 'er'; SET sys.Subject = sys.Label + '!';"
        "SET sys.MessageId = newid(); SET sys.TimeToLive = @ttl; SET sys.To = NULL",
        message,
        {"ttl": timedelta(seconds=3)},
    )
    assert changes.system == {
        "Label": "older!",
        "MessageId": "00000000-0000-0000-0000-000000000001",
        "TimeToLive": timedelta(seconds=3),
        "To": None,
    }
    assert message.system("Label") == "old"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "a = 1",
        "SET a",
        "SET a =",
        "SET a = 1 = 1",
        "SET sys.SequenceNumber = 1",
        "SET sys.EnqueuedTimeUtc = 1",
        "SET sys.Nothing = 1",
        "REMOVE sys.Label",
        "REMOVE 1",
        "SET 'a' = 1",
        "SET a = 1,",
        "REMOVE a " * (statements_max + 1),
    ],
)
def test_malformed_actions(text):
    with pytest.raises(Refused) as refused:
        parse_action(text)
    assert refused.value.code == "com.microsoft:argument-error"


def test_the_most_statements_that_are_taken():
    assert len(parse_action("REMOVE a " * statements_max)) == statements_max


@pytest.mark.parametrize(
    "text", ["SET sys.Label = 1", "SET sys.TimeToLive = 5", "SET a = 'x' * 2", "SET a = 1 / 0"]
)
def test_actions_that_fail(text):
    with pytest.raises(FilterFailed):
        apply(text)


@given(st.one_of(st.text(max_size=80), st.lists(words, max_size=25).map(" ".join)))
def test_any_text_is_an_action_or_refused(text):
    try:
        statements = parse_action("SET a = 1 " + text, {"p": 1})
    except Refused:
        return
    with contextlib.suppress(FilterFailed):
        Action(statements).apply(PlainSubject(user={"size": 1, "color": "red"}))


message = PlainSubject(
    user={"n": 5, "s": "x", "b": True, "nil": None}, system={"Label": "l", "CorrelationId": "c"}
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"label": "l"}, True),
        ({"label": "L"}, False),
        ({"label": "l", "correlation_id": "c"}, True),
        ({"label": "l", "correlation_id": "d"}, False),
        ({"to": "x"}, False),
        ({"properties": {"n": 5}}, True),
        ({"properties": {"n": 5.0}}, True),
        ({"properties": {"n": "5"}}, False),
        ({"properties": {"N": 5}}, False),
        ({"properties": {"b": True}}, True),
        ({"properties": {"b": 1}}, False),
        ({"properties": {"nil": None}}, True),
        ({"properties": {"s": None}}, False),
        ({"properties": {"s": "x", "n": 5}, "label": "l"}, True),
        ({"properties": {"s": "x", "absent": 5}}, False),
    ],
)
def test_correlation(fields, expected):
    assert CorrelationFilter(CorrelationFields(**fields)).matches(message) is expected


def test_an_empty_correlation_filter_is_refused():
    with pytest.raises(Refused):
        CorrelationFilter(CorrelationFields())
