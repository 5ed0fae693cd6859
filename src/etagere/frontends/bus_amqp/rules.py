"""Rules of subscriptions in `$management`: maps on the way in, described lists on the way out."""

from typing import Any, Final

from etagere.base.clock import ticks_per_millisecond
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.protocols.amqp.values import Described, Int, Milliseconds, Symbol, ULong
from etagere.services.bus.names import parse_address
from etagere.services.bus.rules import (
    CorrelationRuleFilter,
    FalseFilter,
    RuleDescription,
    RuleFilter,
    SqlAction,
    SqlFilter,
    TrueFilter,
    TypedValue,
    ValueKind,
    compatibility_level,
    typed,
)

# Filters have ten digits of code, the description and the actions eleven.
sql_filter_code: Final = ULong(0x1370000006)
true_filter_code: Final = ULong(0x1370000007)
false_filter_code: Final = ULong(0x1370000008)
correlation_filter_code: Final = ULong(0x1370000009)
rule_description_code: Final = ULong(0x13700000004)
empty_action_code: Final = ULong(0x13700000005)
sql_action_code: Final = ULong(0x13700000006)
timespan_code: Final = Symbol("com.microsoft:timespan")

_correlation_fields: Final = (
    ("correlation-id", "correlation_id"),
    ("message-id", "message_id"),
    ("to", "to"),
    ("reply-to", "reply_to"),
    ("label", "label"),
    ("session-id", "session_id"),
    ("reply-to-session-id", "reply_to_session_id"),
    ("content-type", "content_type"),
)


def subscription_of(path: str) -> tuple[str, str]:
    """(topic, subscription); only they have rules."""
    address = parse_address(path)
    if address.subscription is None:
        raise Refused(errors.not_allowed, message="Only subscriptions have rules.")
    return address.entity, address.subscription


def read_rule(name: str, description: Any) -> RuleDescription:
    if not isinstance(description, dict):
        raise _wrong("rule-description")
    action = description.get("sql-rule-action")
    return RuleDescription(
        name=name,
        filter=_read_filter(description),
        action=None if action is None else SqlAction(_expression(action, "sql-rule-action")),
    )


def _read_filter(description: dict[Any, Any]) -> RuleFilter:
    if "sql-filter" in description:
        return SqlFilter(_expression(description["sql-filter"], "sql-filter"))
    if "correlation-filter" in description:
        return _read_correlation(description["correlation-filter"])
    if "true-filter" in description:
        return TrueFilter()
    if "false-filter" in description:
        return FalseFilter()
    raise _wrong("rule-description")


def _expression(value: Any, name: str) -> str:
    expression = value.get("expression") if isinstance(value, dict) else None
    if expression is None and name == "sql-rule-action" and isinstance(value, dict):
        return ""
    if not isinstance(expression, str):
        raise _wrong(name)
    return str(expression)


def _read_correlation(value: Any) -> CorrelationRuleFilter:
    if not isinstance(value, dict):
        raise _wrong("correlation-filter")
    fields: dict[str, Any] = {}
    for wire, name in _correlation_fields:
        field = value.get(wire)
        if field is not None and not isinstance(field, str):
            raise _wrong(wire)
        fields[name] = None if field is None else str(field)
    properties = value.get("properties") or {}
    if not isinstance(properties, dict):
        raise _wrong("properties")
    fields["properties"] = {str(name): _read_value(item) for name, item in properties.items()}
    return CorrelationRuleFilter(**fields)


def _read_value(value: Any) -> TypedValue:
    match value:
        case Int():
            return TypedValue(ValueKind.int, int(value))
        case Milliseconds():
            return TypedValue(ValueKind.date_time, int(value) * ticks_per_millisecond)
        case Described() if value.descriptor == timespan_code and isinstance(value.value, int):
            return TypedValue(ValueKind.duration, int(value.value))
        case bytes():
            raise _wrong("properties")
        case _:
            try:
                return typed(value)
            except ValueError:
                raise _wrong("properties") from None


def _wrong(name: str) -> Refused:
    return Refused(errors.argument_error, message=f"The rule's '{name}' is not valid.")


def write_rule(rule: RuleDescription) -> Described:
    action = rule.action
    # Never null: the JS SDK reads its descriptor.
    written_action = Described(empty_action_code, [])
    if action is not None:
        written_action = Described(sql_action_code, [action.expression, Int(compatibility_level)])
    created_at = Milliseconds(rule.created_at // ticks_per_millisecond)
    fields = [_write_filter(rule.filter), written_action, rule.name, created_at]
    return Described(rule_description_code, fields)


def _write_filter(wanted: RuleFilter) -> Described:
    match wanted:
        case SqlFilter():
            return Described(sql_filter_code, [wanted.expression, Int(compatibility_level)])
        case TrueFilter():
            return Described(true_filter_code, [])
        case FalseFilter():
            return Described(false_filter_code, [])
        case CorrelationRuleFilter():
            fields: list[Any] = [getattr(wanted, name) for _, name in _correlation_fields]
            properties = {name: _write_value(value) for name, value in wanted.properties.items()}
            return Described(correlation_filter_code, [*fields, properties])


def _write_value(value: TypedValue) -> Any:
    plain = value.value
    match value.kind:
        case ValueKind.int:
            return Int(plain or 0)
        case ValueKind.date_time:
            return Milliseconds(int(plain or 0) // ticks_per_millisecond)
        case ValueKind.duration:
            return Described(timespan_code, int(plain or 0))
        case _:
            return plain
