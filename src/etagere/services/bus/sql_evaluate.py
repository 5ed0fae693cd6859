"""Runs rule expressions: a tree becomes one function of a message, in three-valued logic.

None stands for NULL, for a missing property and for unknown.  A missing user property makes
comparisons, LIKE, IN and arithmetic unknown; NOT unknown is unknown; false AND unknown is false,
true OR unknown is true; a filter matches only on true (Service Bus, SQL filter, property
evaluation semantics).
"""

import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from etagere.services.bus import errors, like, sql_tree
from etagere.services.bus.sql_tree import Arithmetic, Comparison, Scope, Tree, Value


class FilterFailed(Exception):  # noqa: N818 - what it is called on dead-lettered messages
    """A filter or action could not be worked out for a message; its text says why."""


class Subject(Protocol):
    """A message as expressions see it."""

    def system(self, name: str) -> Value:
        """The system property of this name, one of `system_properties`."""
        ...

    def user(self, name: str) -> Value:
        """The user property of this name, letter case aside; `missing` if there is none."""
        ...

    def user_exactly(self, name: str) -> Value:
        """As `user`, but the name in its very letters."""
        ...

    def new_id(self) -> UUID: ...


class _Missing:
    pass


missing: Final = _Missing()

system_properties: Final[Mapping[str, str]] = {
    name.casefold(): name
    for name in (
        "CorrelationId",
        "MessageId",
        "ContentType",
        "Label",
        "To",
        "ReplyTo",
        "SessionId",
        "ReplyToSessionId",
        "EnqueuedTimeUtc",
        "ScheduledEnqueueTimeUtc",
        "TimeToLive",
        "SequenceNumber",
        "EnqueuedSequenceNumber",
        "PartitionKey",
        "DeliveryCount",
        "ForcePersistence",
        "State",
        "Size",
    )
} | {"subject": "Label"}

Evaluation = Callable[[Subject], Value]
Condition = Callable[[Subject], bool | None]

integer_max: Final = 2**63 - 1
integer_min: Final = -(2**63)


def condition_of(tree: Tree) -> Condition:
    """The tree as a condition: true, false, or None for unknown."""
    match tree:
        case sql_tree.Not():
            return _negation(condition_of(tree.operand))
        case sql_tree.And():
            return _conjunction(tuple(map(condition_of, tree.operands)))
        case sql_tree.Or():
            return _disjunction(tuple(map(condition_of, tree.operands)))
        case sql_tree.Compare():
            return _comparison(tree)
        case sql_tree.IsNull():
            return _null_test(tree)
        case sql_tree.In():
            return _membership(tree)
        case sql_tree.Like():
            return _likeness(tree)
        case sql_tree.Exists():
            return _existence(tree.property)
        case _:
            return _truth(value_of(tree))


def value_of(tree: Tree) -> Evaluation:
    """The tree as a value."""
    match tree:
        case sql_tree.Constant():
            value = tree.value
            return lambda _subject: value
        case sql_tree.Property():
            return _property(tree)
        case sql_tree.PropertyNamed():
            return _property_named(value_of(tree.name))
        case sql_tree.NewId():
            return lambda subject: subject.new_id()
        case sql_tree.Negative():
            operand = value_of(tree.operand)
            return lambda subject: _negative(operand(subject))
        case sql_tree.Positive():
            operand = value_of(tree.operand)
            return lambda subject: _number(operand(subject))
        case sql_tree.Calculate():
            left, right = value_of(tree.left), value_of(tree.right)
            calculation = tree.operator
            return lambda subject: _calculate(calculation, left(subject), right(subject))
        case _:
            return condition_of(tree)


# ---- logic


def _truth(evaluate: Evaluation) -> Condition:
    def condition(subject: Subject) -> bool | None:
        value = evaluate(subject)
        if value is None or isinstance(value, bool):
            return value
        raise FilterFailed("A condition is neither true nor false.")

    return condition


def _negation(operand: Condition) -> Condition:
    def condition(subject: Subject) -> bool | None:
        value = operand(subject)
        return None if value is None else not value

    return condition


def _conjunction(operands: tuple[Condition, ...]) -> Condition:
    def condition(subject: Subject) -> bool | None:
        result: bool | None = True
        for operand in operands:
            value = operand(subject)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return condition


def _disjunction(operands: tuple[Condition, ...]) -> Condition:
    def condition(subject: Subject) -> bool | None:
        result: bool | None = False
        for operand in operands:
            value = operand(subject)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return condition


# ---- comparisons


_orders: Final[Mapping[Comparison, Callable[[Any, Any], bool]]] = {
    Comparison.equal: operator.eq,
    Comparison.unequal: operator.ne,
    Comparison.less: operator.lt,
    Comparison.less_or_equal: operator.le,
    Comparison.greater: operator.gt,
    Comparison.greater_or_equal: operator.ge,
}


def compare(comparison: Comparison, left: Value, right: Value) -> bool | None:
    """Numbers by value across their widths, text by code units; other mixes are unknown."""
    if left is None or right is None:
        return None
    equality = comparison in (Comparison.equal, Comparison.unequal)
    if isinstance(left, bool) or isinstance(right, bool):
        if not (isinstance(left, bool) and isinstance(right, bool) and equality):
            return None
    elif isinstance(left, str) and isinstance(right, str):
        if not equality:  # ordinal means UTF-16 code units, which sort unlike code points
            left, right = _code_units(left), _code_units(right)
    elif not (_is_number(left) and _is_number(right)) and not _are_of_a_kind(left, right):
        return None
    with suppress(TypeError):  # times with and without a zone
        return _orders[comparison](left, right)
    return None


def _code_units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_of_a_kind(left: Value, right: Value) -> bool:
    return any(
        isinstance(left, kind) and isinstance(right, kind)
        for kind in (datetime, timedelta, UUID, bytes)
    )


def _comparison(tree: sql_tree.Compare) -> Condition:
    left, right, comparison = value_of(tree.left), value_of(tree.right), tree.operator
    return lambda subject: compare(comparison, left(subject), right(subject))


def _null_test(tree: sql_tree.IsNull) -> Condition:
    operand, negated = value_of(tree.operand), tree.negated
    return lambda subject: (operand(subject) is None) is not negated


def _membership(tree: sql_tree.In) -> Condition:
    operand, negated = value_of(tree.operand), tree.negated
    items = tuple(map(value_of, tree.items))

    def condition(subject: Subject) -> bool | None:
        value = operand(subject)
        unknown = False
        for item in items:
            equal = compare(Comparison.equal, value, item(subject))
            if equal:
                return not negated
            unknown = unknown or equal is None
        return None if unknown else negated

    return condition


def _likeness(tree: sql_tree.Like) -> Condition:
    operand, negated = value_of(tree.operand), tree.negated
    pattern_of = _pattern(tree)

    def condition(subject: Subject) -> bool | None:
        text = operand(subject)
        pattern = pattern_of(subject)
        if not isinstance(text, str) or pattern is None:
            return None
        return pattern.matches(text) is not negated

    return condition


def _pattern(tree: sql_tree.Like) -> Callable[[Subject], like.Pattern | None]:
    """Made once if the pattern is constant, as it nearly always is."""
    text, escape = tree.pattern, tree.escape
    if isinstance(text, sql_tree.Constant) and (
        escape is None or isinstance(escape, sql_tree.Constant)
    ):
        try:
            constant = _make_pattern(text.value, escape.value if escape else None)
        except FilterFailed as failed:
            raise errors.argument("SqlExpression", str(failed)) from None
        return lambda _subject: constant
    text_of = value_of(text)
    escape_of = value_of(escape) if escape is not None else lambda _subject: None
    return lambda subject: _make_pattern(text_of(subject), escape_of(subject))


def _make_pattern(text: Value, escape: Value) -> like.Pattern | None:
    if not isinstance(text, str):
        return None
    if escape is not None and not (isinstance(escape, str) and len(escape) == 1):
        raise FilterFailed("ESCAPE takes a single character.")
    try:
        return like.Pattern(text, escape)
    except like.MalformedPattern:
        raise FilterFailed("The pattern of LIKE ends in its escape character.") from None


# ---- properties


def _property(tree: sql_tree.Property) -> Evaluation:
    name = tree.name
    if tree.scope is Scope.sys:
        known = system_properties.get(name.casefold())
        if known is None:
            return _no_such_system_property
        return lambda subject: subject.system(known)

    def evaluate(subject: Subject) -> Value:
        value = subject.user(name)
        return None if value is missing else value

    return evaluate


def _no_such_system_property(_subject: Subject) -> Value:
    raise FilterFailed("The expression names a system property that does not exist.")


def _property_named(name_of: Evaluation) -> Evaluation:
    def evaluate(subject: Subject) -> Value:
        name = name_of(subject)
        if not isinstance(name, str):
            return None
        value = subject.user(name)
        return None if value is missing else value

    return evaluate


def _existence(tree: sql_tree.Property) -> Condition:
    if tree.scope is Scope.sys:
        value_of_system = _property(tree)
        return lambda subject: value_of_system(subject) is not None
    name = tree.name
    return lambda subject: subject.user(name) is not missing


# ---- arithmetic on int64 and double


def _number(value: Value) -> Value:
    if value is None or _is_number(value):
        return value
    raise FilterFailed("Arithmetic takes numbers.")


def _negative(value: Value) -> Value:
    value = _number(value)
    if value is None:
        return None
    assert isinstance(value, int | float)
    return _within_64_bits(-value)


def _within_64_bits(value: float) -> float:
    if isinstance(value, int) and not integer_min <= value <= integer_max:
        raise FilterFailed("Arithmetic left the range of 64 bits.")
    return value


def _calculate(calculation: Arithmetic, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if calculation is Arithmetic.plus and isinstance(left, str) and isinstance(right, str):
        return left + right
    left, right = _number(left), _number(right)
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    whole = isinstance(left, int) and isinstance(right, int)
    try:
        match calculation:
            case Arithmetic.plus:
                return _within_64_bits(left + right)
            case Arithmetic.minus:
                return _within_64_bits(left - right)
            case Arithmetic.times:
                return _within_64_bits(left * right)
            case Arithmetic.divide:
                return _within_64_bits(_quotient(left, right)) if whole else left / right
            case Arithmetic.modulo:
                return left - right * _quotient(left, right) if whole else math.fmod(left, right)
    except ZeroDivisionError:
        if whole:
            raise FilterFailed("A division by zero.") from None
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    except (OverflowError, ValueError):  # fmod by zero or of infinity
        return math.nan


def _quotient(left: float, right: float) -> int:
    """Towards zero, and exact, as int64 division is."""
    assert isinstance(left, int)
    assert isinstance(right, int)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient
