"""Reads the official emulator's `Config.json`: the entities that a namespace should have.

The shape is `UserConfig.Namespaces[].{Name, Queues[], Topics[].Subscriptions[].Rules[]}` with
`Properties` named as the administration API names them and durations in ISO 8601.  Entities that
are there already are left as they are.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from etagere.base.clock import ticks_per_second
from etagere.base.errors import Refused
from etagere.services.bus import errors, names
from etagere.services.bus.administration import Administration
from etagere.services.bus.descriptions import (
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
    forever,
)
from etagere.services.bus.rules import (
    CorrelationRuleFilter,
    FalseFilter,
    RuleDescription,
    RuleFilter,
    SqlAction,
    SqlFilter,
    TrueFilter,
    default_rule,
    typed,
)

D = TypeVar("D", QueueDescription, SubscriptionDescription)

_duration: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,7})\d*)?S)?)?",
    re.ASCII,
)


class RuleEntry(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    properties: dict[str, Any] | None = None


class SubscriptionEntry(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    properties: dict[str, Any] | None = None
    rules: list[RuleEntry] | None = None


class TopicEntry(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    properties: dict[str, Any] | None = None
    subscriptions: list[SubscriptionEntry] | None = None


class QueueEntry(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    properties: dict[str, Any] | None = None


class NamespaceEntry(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    queues: list[QueueEntry] | None = None
    topics: list[TopicEntry] | None = None


class _UserConfig(msgspec.Struct, frozen=True, rename="pascal"):
    namespaces: list[NamespaceEntry] | None = None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    user_config: _UserConfig


_levels: Final = {
    name.casefold(): name
    for kind in (_File, _UserConfig, NamespaceEntry, TopicEntry, SubscriptionEntry)
    for name in kind.__struct_encode_fields__
}


def read(text: bytes) -> list[NamespaceEntry]:
    """The namespaces of a configuration file; refused if it is none.

    Letter case means nothing to .NET's configuration, nor does the mark that Windows' editors put
    in front.
    """
    try:
        found = _as_named(msgspec.json.decode(text.removeprefix(BOM_UTF8)))
        return msgspec.convert(found, _File).user_config.namespaces or []
    except (msgspec.MsgspecError, RecursionError) as error:
        raise errors.argument("Config", f"The configuration file is not valid: {error}") from None


def _as_named(value: Any) -> Any:
    """With the names of the levels as the structs above have them."""
    if isinstance(value, list):
        return [_as_named(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {_levels.get(key.casefold(), key): one for key, one in value.items()}
    return {key: one if key == "Properties" else _as_named(one) for key, one in named.items()}


async def apply(administration: Administration, namespace: NamespaceEntry) -> None:
    """Create what is not there yet.  Forwarding targets may stand anywhere in the file."""
    later: list[QueueDescription | tuple[str, SubscriptionDescription]] = []
    for entry in namespace.queues or ():
        queue = queue_of(entry)
        if await _create(administration, _without_forwarding(queue)) and _forwards(queue):
            later.append(queue)
    for topic in namespace.topics or ():
        await _create(administration, topic_of(topic))
        for child in topic.subscriptions or ():
            subscription = subscription_of(child)
            if await _create_subscription(administration, topic.name, child) and _forwards(
                subscription
            ):
                later.append((topic.name, subscription))
    for forwarding in later:
        if isinstance(forwarding, QueueDescription):
            await administration.update(forwarding)
        else:
            await administration.update_subscription(*forwarding)


async def _create(
    administration: Administration, description: QueueDescription | TopicDescription
) -> bool:
    try:
        await administration.create(description)
    except Refused as refusal:
        if refusal.code != errors.entity_exists:
            raise
        return False
    return True


async def _create_subscription(
    administration: Administration, topic: str, entry: SubscriptionEntry
) -> bool:
    rules = [rule_of(rule) for rule in entry.rules or ()]
    first = rules[0] if rules else default_rule
    description = _without_forwarding(subscription_of(entry))
    try:
        await administration.create_subscription(topic, description, first)
    except Refused as refusal:
        if refusal.code != errors.entity_exists:
            raise
        return False
    for rule in rules[1:]:
        await administration.add_rule(topic, description.name, rule)
    return True


def _forwards(description: QueueDescription | SubscriptionDescription) -> bool:
    return bool(description.forward_to or description.forward_dead_lettered_to)


def _without_forwarding(description: D) -> D:
    return msgspec.structs.replace(description, forward_to=None, forward_dead_lettered_to=None)


# ---- entries


def queue_of(entry: QueueEntry) -> QueueDescription:
    return QueueDescription(name=entry.name, **_fields(QueueDescription, entry.properties))


def topic_of(entry: TopicEntry) -> TopicDescription:
    return TopicDescription(name=entry.name, **_fields(TopicDescription, entry.properties))


def subscription_of(entry: SubscriptionEntry) -> SubscriptionDescription:
    fields = _fields(SubscriptionDescription, entry.properties)
    return SubscriptionDescription(name=entry.name, **fields)


def rule_of(entry: RuleEntry) -> RuleDescription:
    properties = {name.casefold(): value for name, value in (entry.properties or {}).items()}
    action = properties.get("action")
    names.check_rule_name(entry.name)
    return RuleDescription(
        name=entry.name,
        filter=_filter_of(entry.name, properties),
        action=None if action is None else SqlAction(_expression(entry.name, action)),
    )


def _filter_of(name: str, properties: Mapping[str, Any]) -> RuleFilter:
    kind = str(properties.get("filtertype", "")).casefold()
    if kind in ("sql", "sqlfilter"):
        return SqlFilter(_expression(name, properties.get("sqlfilter")))
    if kind in ("true", "truefilter"):
        return TrueFilter()
    if kind in ("false", "falsefilter"):
        return FalseFilter()
    if kind in ("correlation", "correlationfilter"):
        return _correlation_of(name, properties.get("correlationfilter"))
    raise errors.argument("FilterType", f"The rule '{name}' has an unknown type of filter.")


def _expression(name: str, value: Any) -> str:
    fields = _folded(name, value)
    expression = fields.get("sqlexpression")
    if not isinstance(expression, str):
        raise errors.argument("SqlExpression", f"The rule '{name}' has no expression.")
    return expression


_correlation_fields: Final = {
    "correlationid": "correlation_id",
    "messageid": "message_id",
    "to": "to",
    "replyto": "reply_to",
    "label": "label",
    "subject": "label",
    "sessionid": "session_id",
    "replytosessionid": "reply_to_session_id",
    "contenttype": "content_type",
}


def _correlation_of(name: str, value: Any) -> CorrelationRuleFilter:
    given: dict[str, Any] = {}
    for key, item in _folded(name, value).items():
        if key in ("properties", "applicationproperties"):
            properties = item if isinstance(item, dict) else {}
            try:
                given["properties"] = {str(k): typed(v) for k, v in properties.items()}
            except ValueError:
                raise errors.argument(
                    "Properties", f"The rule '{name}' has a property of no known type."
                ) from None
        elif key in _correlation_fields and item is not None:
            given[_correlation_fields[key]] = str(item)
    return CorrelationRuleFilter(**given)


def _folded(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.argument("Rule", f"The rule '{name}' lacks what its type needs.")
    return {str(key).casefold(): item for key, item in value.items()}


# ---- properties


_names: Final = {
    "lockduration": "lock_duration",
    "maxsizeinmegabytes": "max_size_megabytes",
    "requiresduplicatedetection": "requires_duplicate_detection",
    "requiressession": "requires_session",
    "defaultmessagetimetolive": "default_ttl",
    "deadletteringonmessageexpiration": "dead_letter_on_expiration",
    "deadletteringonfilterevaluationexceptions": "dead_letter_on_filter_failure",
    "duplicatedetectionhistorytimewindow": "duplicate_window",
    "maxdeliverycount": "max_delivery_count",
    "enablebatchedoperations": "enable_batched_operations",
    "status": "status",
    "forwardto": "forward_to",
    "usermetadata": "user_metadata",
    "autodeleteonidle": "auto_delete_on_idle",
    "enablepartitioning": "enable_partitioning",
    "forwarddeadletteredmessagesto": "forward_dead_lettered_to",
    "enableexpress": "enable_express",
    "maxmessagesizeinkilobytes": "max_message_kilobytes",
}
_durations: Final = frozenset(
    ("lock_duration", "default_ttl", "duplicate_window", "auto_delete_on_idle")
)
_texts: Final = frozenset(("forward_to", "user_metadata", "forward_dead_lettered_to"))
_numbers: Final = frozenset(("max_size_megabytes", "max_delivery_count", "max_message_kilobytes"))


def _fields(kind: type, properties: Mapping[str, Any] | None) -> dict[str, Any]:
    known = set(kind.__struct_fields__)  # type: ignore[attr-defined]  # a struct's
    fields: dict[str, Any] = {}
    for name, value in (properties or {}).items():
        field = _names.get(name.casefold())
        if field is None or field not in known:
            raise errors.argument(name, f"'{name}' is not a property of this kind of entity.")
        if value is None or value == "":
            continue  # as if it were not there; the official file has empty forwarding targets
        fields[field] = _value(name, field, value)
    return fields


def _value(name: str, field: str, value: Any) -> Any:
    if field in _durations:
        return duration_of(name, value)
    if field == "status":
        for status in EntityStatus:
            if str(value).casefold() == status.value.casefold():
                return status
        raise errors.argument(name, f"'{value}' is not a status.")
    wanted = str if field in _texts else int if field in _numbers else bool
    if type(value) is not wanted:
        raise errors.argument(name, f"The value of '{name}' has the wrong type.")
    return value


def duration_of(name: str, value: Any) -> int:
    """Ticks of an ISO 8601 duration; the longest there is stands for `forever`."""
    found = _duration.fullmatch(value) if isinstance(value, str) else None
    if found is None or value in ("P", "PT") or value.endswith("T"):
        raise errors.argument(name, f"'{value}' is not a duration.")
    days, hours, minutes, whole, fraction = found.groups()
    total = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60
    ticks = (total + int(whole or 0)) * ticks_per_second + int((fraction or "0").ljust(7, "0"))
    return min(ticks, forever)
