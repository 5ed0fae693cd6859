"""Rules as XML, both ways: filters, actions, and the typed values inside them."""

import re
from collections.abc import Mapping
from typing import Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.frontends.bus_admin.descriptions_xml import instance_namespace, namespace
from etagere.frontends.bus_admin.durations import format_duration, parse_duration
from etagere.frontends.common import xml
from etagere.frontends.common.xml import Node
from etagere.kernel.dates import format_iso, parse_iso
from etagere.services.bus import errors
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
    default_rule_name,
)

compatibility_level: Final = "20"
_offset_at_end: Final = re.compile(r"(?:Z|T.*[+-]\d\d:\d\d)$").search
_schema: Final = "http://www.w3.org/2001/XMLSchema"
_correlation_fields: Final = (
    ("CorrelationId", "correlation_id"),
    ("MessageId", "message_id"),
    ("To", "to"),
    ("ReplyTo", "reply_to"),
    ("Label", "label"),
    ("SessionId", "session_id"),
    ("ReplyToSessionId", "reply_to_session_id"),
    ("ContentType", "content_type"),
)


def encode(rule: RuleDescription) -> str:
    """RuleDescription; an action is always there, if only an empty one."""
    action = '<Action i:type="EmptyRuleAction" />'
    if rule.action is not None:
        action = (
            '<Action i:type="SqlRuleAction">'
            + xml.element("SqlExpression", rule.action.expression)
            + f"<CompatibilityLevel>{compatibility_level}</CompatibilityLevel>"
            + _parameters(rule.action.parameters)
            + "</Action>"
        )
    return (
        f'<RuleDescription xmlns="{namespace}" xmlns:i="{instance_namespace}">'
        f"{_filter(rule.filter)}{action}"
        f"<CreatedAt>{format_iso(Timestamp(rule.created_at))}</CreatedAt>"
        f"{xml.element('Name', rule.name)}</RuleDescription>"
    )


def _filter(found: RuleFilter) -> str:
    match found:
        case TrueFilter():
            return _sql_filter("TrueFilter", "1=1", {})
        case FalseFilter():
            return _sql_filter("FalseFilter", "1=0", {})
        case SqlFilter():
            return _sql_filter("SqlFilter", found.expression, found.parameters)
        case CorrelationRuleFilter():
            fields = "".join(
                xml.element(name, getattr(found, field)) for name, field in _correlation_fields
            )
            properties = _pairs("Properties", found.properties)
            return f'<Filter i:type="CorrelationFilter">{fields}{properties}</Filter>'


def _sql_filter(kind: str, expression: str, parameters: Mapping[str, TypedValue]) -> str:
    return (
        f'<Filter i:type="{kind}">{xml.element("SqlExpression", expression)}'
        f"<CompatibilityLevel>{compatibility_level}</CompatibilityLevel>"
        f"{_parameters(parameters)}</Filter>"
    )


def _parameters(values: Mapping[str, TypedValue]) -> str:
    return _pairs("Parameters", values) if values else ""


def _pairs(name: str, values: Mapping[str, TypedValue]) -> str:
    if not values:
        return f"<{name} />"
    inner = "".join(
        f"<KeyValueOfstringanyType>{xml.element('Key', key)}{_value(value)}"
        "</KeyValueOfstringanyType>"
        for key, value in values.items()
    )
    return f"<{name}>{inner}</{name}>"


def _value(value: TypedValue) -> str:
    """The prefix has four characters: the JavaScript SDK cuts off five."""
    if value.kind is ValueKind.null or value.value is None:
        return '<Value i:nil="true" />'
    kind = value.kind.value
    return f'<Value i:type="d6p1:{kind}" xmlns:d6p1="{_schema}">{xml.escape(_text(value))}</Value>'


def _text(value: TypedValue) -> str:
    found = value.value
    match value.kind:
        case ValueKind.boolean:
            return "true" if found else "false"
        case ValueKind.date_time:
            assert isinstance(found, int)
            text = format_iso(Timestamp(found))
            return text if value.zoned else text.removesuffix("Z")
        case ValueKind.duration:
            assert isinstance(found, int)
            return format_duration(found)
        case ValueKind.double:
            return repr(float(found or 0.0))
        case _:
            return str(found)


def decode(node: Node, name: str) -> RuleDescription:
    """Read a RuleDescription, or the DefaultRuleDescription of a new subscription."""
    wanted = node.child("Filter")
    action = node.child("Action")
    return RuleDescription(
        name=name or (node.text_of("Name") or "").strip() or default_rule_name,
        filter=TrueFilter() if wanted is None else _read_filter(wanted),
        action=None if action is None else _read_action(action),
    )


def _kind(node: Node) -> str:
    for name, value in node.attributes.items():
        if name.rpartition(":")[2] == "type":
            return value.rpartition(":")[2]
    return ""


def _read_filter(node: Node) -> RuleFilter:
    match _kind(node):
        case "TrueFilter":
            return TrueFilter()
        case "FalseFilter":
            return FalseFilter()
        case "SqlFilter":
            expression = _required(node, "SqlExpression")
            return SqlFilter(expression, _read_pairs(node.child("Parameters")))
        case "CorrelationFilter":
            fields = {field: node.text_of(name) for name, field in _correlation_fields}
            return CorrelationRuleFilter(**fields, properties=_read_pairs(node.child("Properties")))
        case kind:
            raise errors.argument("Filter", f"'{kind}' is not a kind of filter.")


def _read_action(node: Node) -> SqlAction | None:
    match _kind(node):
        case "EmptyRuleAction" | "":
            return None
        case "SqlRuleAction":
            expression = _required(node, "SqlExpression")
            return SqlAction(expression, _read_pairs(node.child("Parameters")))
        case kind:
            raise errors.argument("Action", f"'{kind}' is not a kind of action.")


def _required(node: Node, name: str) -> str:
    text = node.text_of(name)
    if text is None:
        raise errors.argument(name, f"The element {name} is missing.")
    return text


def _read_pairs(node: Node | None) -> dict[str, TypedValue]:
    found: dict[str, TypedValue] = {}
    for pair in node.children if node is not None else ():
        key, value = pair.text_of("Key"), pair.child("Value")
        if not key or value is None:
            raise errors.argument("Properties", "A property needs a key and a value.")
        found[key] = _read_value(key, value)
    return found


def _read_value(key: str, node: Node) -> TypedValue:
    if any(n.rpartition(":")[2] == "nil" and v == "true" for n, v in node.attributes.items()):
        return TypedValue(ValueKind.null, None)
    kind, text = _kind(node) or "string", node.text
    try:
        return _parse_value(kind, text)
    except ValueError:
        raise _not_a(key, kind, text) from None


def _parse_value(kind: str, text: str) -> TypedValue:
    match kind:
        case "string":
            return TypedValue(ValueKind.string, text)
        case "int" | "long" | "short" | "byte":
            return TypedValue(ValueKind.int if kind == "int" else ValueKind.long, int(text))
        case "double" | "float" | "decimal":
            return TypedValue(ValueKind.double, float(text))
        case "boolean":
            if text.strip().lower() not in ("true", "false", "1", "0"):
                raise ValueError
            return TypedValue(ValueKind.boolean, text.strip().lower() in ("true", "1"))
        case "dateTime":
            moment = parse_iso(text.strip())
            if moment is None:
                raise ValueError
            zoned = _offset_at_end(text.strip()) is not None
            return TypedValue(ValueKind.date_time, moment, zoned)
        case "duration":
            ticks = parse_duration(text)
            if ticks is None:
                raise ValueError
            return TypedValue(ValueKind.duration, ticks)
        case _:
            raise ValueError


def _not_a(key: str, kind: str, text: str) -> Refused:
    return errors.argument(key, f"The value '{text}' is not of type {kind}.")
