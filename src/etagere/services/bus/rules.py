"""Rules of subscriptions: how they are described, and how they are made ready to run.

Rules without an action are alternatives and give one copy at most; each matching rule with an
action gives a copy of its own, changed by it (Service Bus, topic filters and actions).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

import msgspec

from etagere.base.clock import ticks_per_second, timestamp_first, timestamp_never
from etagere.services.bus import errors, names
from etagere.services.bus.actions import Action, parse_action
from etagere.services.bus.correlation import CorrelationFields, CorrelationFilter
from etagere.services.bus.sql_evaluate import Subject, condition_of, integer_max, integer_min
from etagere.services.bus.sql_filter import parse_filter
from etagere.services.bus.sql_tree import Value

default_rule_name: Final = "$Default"
compatibility_level: Final = 20

_epoch: Final = datetime(1970, 1, 1, tzinfo=UTC)
_microsecond: Final = timedelta(microseconds=1)
_ticks_per_microsecond: Final = ticks_per_second // 1_000_000


class ValueKind(Enum):
    """The types that values in rules have on the wire."""

    string = "string"
    int = "int"
    long = "long"
    boolean = "boolean"
    double = "double"
    date_time = "dateTime"
    duration = "duration"
    null = "null"


class TypedValue(msgspec.Struct, frozen=True):
    """A value with the type that it came with, so that it can go back with it."""

    kind: ValueKind
    value: str | int | float | bool | None
    """Times and durations in ticks."""
    zoned: bool = True
    """Whether a time came with its offset from UTC; without one it means UTC, and goes back so."""

    def plain(self) -> Value:
        """As expressions compare it."""
        value = self.value
        match self.kind:
            case ValueKind.date_time:
                assert isinstance(value, int)
                return _epoch + value // _ticks_per_microsecond * _microsecond
            case ValueKind.duration:
                assert isinstance(value, int)
                return value // _ticks_per_microsecond * _microsecond
            case _:
                return value


def typed(value: Value) -> TypedValue:
    """A Python value with the type that is usual for it; ValueError if there is none."""
    match value:
        case None:
            return TypedValue(ValueKind.null, None)
        case bool():
            return TypedValue(ValueKind.boolean, value)
        case str():
            return TypedValue(ValueKind.string, str(value))
        case int():
            return TypedValue(ValueKind.long, int(value))
        case float():
            return TypedValue(ValueKind.double, float(value))
        case datetime():
            zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
            ticks = (zoned - _epoch) // _microsecond * _ticks_per_microsecond
            return TypedValue(ValueKind.date_time, ticks)
        case timedelta():
            return TypedValue(ValueKind.duration, value // _microsecond * _ticks_per_microsecond)
        case _:
            raise ValueError("no rule can hold a value of this type")


class SqlFilter(msgspec.Struct, frozen=True, tag="sql"):
    expression: str
    parameters: Mapping[str, TypedValue] = {}


class TrueFilter(msgspec.Struct, frozen=True, tag="true"):
    pass


class FalseFilter(msgspec.Struct, frozen=True, tag="false"):
    pass


class CorrelationRuleFilter(msgspec.Struct, frozen=True, tag="correlation", kw_only=True):
    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: Mapping[str, TypedValue] = {}


class SqlAction(msgspec.Struct, frozen=True):
    expression: str
    parameters: Mapping[str, TypedValue] = {}


RuleFilter = SqlFilter | TrueFilter | FalseFilter | CorrelationRuleFilter


class RuleDescription(msgspec.Struct, frozen=True, kw_only=True):
    name: str = default_rule_name
    filter: RuleFilter = TrueFilter()
    action: SqlAction | None = None
    created_at: int = 0


default_rule: Final = RuleDescription()

Matcher = Callable[[Subject], bool]


class Rule(msgspec.Struct, frozen=True):
    """A rule made ready to be run on messages."""

    name: str
    matches: Matcher
    action: Action | None


def compiled(rule: RuleDescription) -> Rule:
    """Refused with `com.microsoft:argument-error` if name, filter or action are not valid."""
    names.check_rule_name(rule.name)
    action = rule.action
    return Rule(
        rule.name,
        _matcher(rule.filter),
        Action(parse_action(action.expression, _plain(action.parameters))) if action else None,
    )


def _plain(values: Mapping[str, TypedValue]) -> dict[str, Value]:
    for name, typed_value in values.items():
        value = typed_value.value
        if isinstance(value, int) and not integer_min <= value <= integer_max:
            raise errors.out_of_range(name, "The value of a parameter is out of range.")
        if typed_value.kind is ValueKind.date_time and not (
            timestamp_first <= int(value or 0) <= timestamp_never
        ):
            raise errors.out_of_range(name, "The time of a parameter is out of range.")
    return {name: value.plain() for name, value in values.items()}


def _matcher(wanted: RuleFilter) -> Matcher:
    match wanted:
        case TrueFilter():
            return lambda _subject: True
        case FalseFilter():
            return lambda _subject: False
        case SqlFilter():
            condition = condition_of(parse_filter(wanted.expression, _plain(wanted.parameters)))
            return lambda subject: condition(subject) is True
        case CorrelationRuleFilter():
            fields = msgspec.structs.asdict(wanted)
            fields["properties"] = _plain(wanted.properties)
            return CorrelationFilter(CorrelationFields(**fields)).matches
