"""Descriptions of queues, topics and subscriptions as XML, both ways, from one table each.

Children are read in any order, unknown ones ignored, missing ones their default: the SDKs differ in
all of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.frontends.bus_admin.durations import format_duration, parse_duration
from etagere.frontends.common import xml
from etagere.frontends.common.xml import Node
from etagere.kernel.dates import format_iso
from etagere.services.bus import errors
from etagere.services.bus.administration import Counts, EntityInfo
from etagere.services.bus.descriptions import (
    AuthorizationRule,
    Description,
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
    partitions_of,
)

D = TypeVar("D", QueueDescription, TopicDescription, SubscriptionDescription)

namespace: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
counts_namespace: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
instance_namespace: Final = "http://www.w3.org/2001/XMLSchema-instance"
large_messages_since: Final = "2021-05"
filter_counts_since: Final = "2024-05"
never_accessed: Final = "0001-01-01T00:00:00"


class Context(NamedTuple):
    """What else goes into an answer."""

    info: EntityInfo
    base: str
    """`https://HOST/`, before forwarding targets."""
    version: str
    kilobytes: int
    """The largest message where the description leaves it to the tier."""
    tier: Tier


class Property(NamedTuple):
    element: str
    field: str = ""
    """The description's; "" for what only answers have."""
    read: Callable[[str, str], object] | None = None
    write: Callable[[Any, Context], str | None] | None = None
    """The text, or None to leave the element out."""
    raw: bool = False
    """`write` gives XML."""


def _invalid(element: str, text: str) -> Refused:
    return errors.argument(element, f"The value '{text}' of {element} is not valid.")


def _read_duration(element: str, text: str) -> int:
    ticks = parse_duration(text)
    if ticks is None:
        raise _invalid(element, text)
    return ticks


def _read_integer(element: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise _invalid(element, text)
    return int(text)


def _read_boolean(element: str, text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise _invalid(element, text)
    return text.lower() in ("true", "1")


def _read_text(_element: str, text: str) -> str | None:
    return text or None


def _read_status(element: str, text: str) -> EntityStatus:
    try:
        return EntityStatus(text)
    except ValueError:
        raise _invalid(element, text) from None


def _duration(element: str, field: str) -> Property:
    return Property(element, field, _read_duration, lambda value, _: format_duration(value))


def _integer(element: str, field: str) -> Property:
    return Property(element, field, _read_integer, lambda value, _: str(value))


def _boolean(element: str, field: str) -> Property:
    return Property(element, field, _read_boolean, lambda value, _: "true" if value else "false")


def _text(element: str, field: str) -> Property:
    return Property(element, field, _read_text, lambda value, _: value)


def _path(element: str, field: str) -> Property:
    return Property(element, field, _read_text, _address)


def _address(target: str | None, at: Context) -> str | None:
    return target if target is None or "://" in target else at.base + target


def _shown(element: str, write: Callable[[Context], str | None], *, raw: bool = False) -> Property:
    return Property(element, "", None, lambda _, at: write(at), raw)


def _counts(counts: Counts) -> str:
    rows = (
        ("ActiveMessageCount", counts.active),
        ("DeadLetterMessageCount", counts.dead_letter),
        ("ScheduledMessageCount", counts.scheduled),
        ("TransferMessageCount", counts.transfer),
        ("TransferDeadLetterMessageCount", counts.transfer_dead_letter),
    )
    inner = "".join(f"<d2p1:{name}>{count}</d2p1:{name}>" for name, count in rows)
    return f'<CountDetails xmlns:d2p1="{counts_namespace}">{inner}</CountDetails>'


def _write_rules(rules: tuple[AuthorizationRule, ...], _at: Context) -> str:
    if not rules:
        return "<AuthorizationRules />"
    return (
        "<AuthorizationRules>" + "".join(map(_authorization_rule, rules)) + "</AuthorizationRules>"
    )


def _authorization_rule(rule: AuthorizationRule) -> str:
    rights = "".join(f"<AccessRights>{right}</AccessRights>" for right in rule.rights)
    created, modified = Timestamp(rule.created_at), Timestamp(rule.modified_at)
    return (
        '<AuthorizationRule i:type="SharedAccessAuthorizationRule">'
        "<ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue>"
        f"<Rights>{rights}</Rights>"
        f"<CreatedTime>{format_iso(created)}</CreatedTime>"
        f"<ModifiedTime>{format_iso(modified)}</ModifiedTime>"
        + xml.element("KeyName", rule.name)
        + xml.element("PrimaryKey", rule.primary_key)
        + xml.element("SecondaryKey", rule.secondary_key)
        + "</AuthorizationRule>"
    )


def _accessed(at: Context) -> str:
    """A subscription's begins with its creation, an entity's with its first use (azservicebus,
    `TestAdminClient_ListSubscriptionRuntimeProperties`, `TestAdminClient_QueueWithMaxValues`)."""
    accessed = at.info.accessed_at
    if not accessed and isinstance(at.info.description, SubscriptionDescription):
        accessed = at.info.created_at
    return format_iso(accessed) if accessed else never_accessed


_lock = _duration("LockDuration", "lock_duration")
_ttl = _duration("DefaultMessageTimeToLive", "default_ttl")
_idle = _duration("AutoDeleteOnIdle", "auto_delete_on_idle")
_window = _duration("DuplicateDetectionHistoryTimeWindow", "duplicate_window")
_size = Property(
    "MaxSizeInMegabytes",
    "max_size_megabytes",
    _read_integer,
    lambda value, at: str(value * partitions_of(at.info.description, at.tier)),
)
_duplicates = _boolean("RequiresDuplicateDetection", "requires_duplicate_detection")
_session = _boolean("RequiresSession", "requires_session")
_expiration = _boolean("DeadLetteringOnMessageExpiration", "dead_letter_on_expiration")
_deliveries = _integer("MaxDeliveryCount", "max_delivery_count")
_batched = _boolean("EnableBatchedOperations", "enable_batched_operations")
_anonymous = _boolean("IsAnonymousAccessible", "is_anonymous_accessible")
_ordering = _boolean("SupportOrdering", "support_ordering")
_partitioning = _boolean("EnablePartitioning", "enable_partitioning")
_express = _boolean("EnableExpress", "enable_express")
_metadata = _text("UserMetadata", "user_metadata")
_forward = _path("ForwardTo", "forward_to")
_forward_dead = _path("ForwardDeadLetteredMessagesTo", "forward_dead_lettered_to")
_status = Property("Status", "status", _read_status, lambda value, _: value.value)
_rules = Property("AuthorizationRules", "authorization_rules", None, _write_rules, raw=True)
_large = Property(
    "MaxMessageSizeInKilobytes",
    "max_message_kilobytes",
    _read_integer,
    lambda value, at: str(value or at.kilobytes) if at.version >= large_messages_since else None,
)
_created = _shown("CreatedAt", lambda at: format_iso(at.info.created_at))
_updated = _shown("UpdatedAt", lambda at: format_iso(at.info.updated_at))
_accessed_at = _shown("AccessedAt", _accessed)
_available = _shown("EntityAvailabilityStatus", lambda _: "Available")
_message_count = _shown("MessageCount", lambda at: str(at.info.counts.all))
_bytes = _shown("SizeInBytes", lambda at: str(at.info.size_bytes))
_count_details = _shown("CountDetails", lambda at: _counts(at.info.counts), raw=True)


def _filter_count(of: Callable[[EntityInfo], int]) -> Callable[[Context], str | None]:
    return lambda at: str(of(at.info)) if at.version >= filter_counts_since else None


queue: Final = (
    _lock, _size, _duplicates, _session, _ttl, _expiration, _window, _deliveries, _batched, _bytes,
    _message_count, _anonymous, _rules, _status, _forward, _metadata, _created, _updated,
    _accessed_at, _ordering, _count_details, _idle, _partitioning, _available, _forward_dead,
    _express, _large,
)  # fmt: skip
topic: Final = (
    _ttl, _size, _duplicates, _window, _batched, _bytes,
    _boolean("FilteringMessagesBeforePublishing", "filtering_messages_before_publishing"),
    _anonymous, _rules, _status, _metadata, _created, _updated, _accessed_at, _ordering,
    _count_details, _shown("SubscriptionCount", lambda at: str(at.info.subscriptions)),
    _shown("SqlFilterCount", _filter_count(lambda info: info.sql_filters)),
    _shown("CorrelationFilterCount", _filter_count(lambda info: info.correlation_filters)),
    _idle, _partitioning, _available,
    _boolean("EnableSubscriptionPartitioning", "enable_subscription_partitioning"),
    _express, _large,
)  # fmt: skip
subscription: Final = (
    _lock, _session, _ttl, _expiration,
    _boolean("DeadLetteringOnFilterEvaluationExceptions", "dead_letter_on_filter_failure"),
    _message_count, _deliveries, _batched, _status, _forward, _created, _updated, _accessed_at,
    _count_details, _metadata, _forward_dead, _idle, _available,
)  # fmt: skip

_tables: Final[Mapping[type[Description], tuple[str, tuple[Property, ...]]]] = {
    QueueDescription: ("QueueDescription", queue),
    TopicDescription: ("TopicDescription", topic),
    SubscriptionDescription: ("SubscriptionDescription", subscription),
}
element_types: Final[Mapping[str, type[Description]]] = {
    name: kind for kind, (name, _) in _tables.items()
}


def encode(at: Context) -> str:
    """The XxxDescription element."""
    description = at.info.description
    name, table = _tables[type(description)]
    parts = [f'<{name} xmlns="{namespace}" xmlns:i="{instance_namespace}">']
    for row in table:
        assert row.write is not None
        text = row.write(getattr(description, row.field) if row.field else None, at)
        if text is not None:
            parts.append(text if row.raw else xml.element(row.element, text))
    parts.append(f"</{name}>")
    return "".join(parts)


NewKey = Callable[[], str]


def decode(
    node: Node, kind: type[D], name: str, new_key: NewKey, now: Timestamp, *, large: bool = True
) -> D:
    """Read a description; raises Refused for values that are not of their type.

    `large`: whether the size of messages is looked at.
    """
    values: dict[str, object] = {"name": name}
    for row in _tables[kind][1]:
        if row.read is None or (row is _large and not large):
            continue
        child = node.child(row.element)
        if child is None or _is_nil(child):
            continue
        text = child.text.strip()
        if text or row.read is _read_text:
            values[row.field] = row.read(row.element, text)
    if values.get("enable_partitioning"):
        values.setdefault("support_ordering", False)
    rules = node.child("AuthorizationRules")
    if rules is not None and kind is not SubscriptionDescription:
        values["authorization_rules"] = tuple(
            _read_rule(rule, new_key, now) for rule in rules.all("AuthorizationRule")
        )
    return kind(**values)  # type: ignore[arg-type]  # the table names the fields


def _is_nil(node: Node) -> bool:
    return any(
        name.rpartition(":")[2] == "nil" and value == "true"
        for name, value in node.attributes.items()
    )


def _read_rule(node: Node, new_key: NewKey, now: Timestamp) -> AuthorizationRule:
    name = (node.text_of("KeyName") or "").strip()
    if not name:
        raise errors.argument("KeyName", "An authorization rule needs a key name.")
    granted = node.child("Rights")
    return AuthorizationRule(
        name=name,
        rights=tuple(right.text.strip() for right in granted.children) if granted else (),
        primary_key=node.text_of("PrimaryKey") or new_key(),
        secondary_key=node.text_of("SecondaryKey") or new_key(),
        created_at=now,
        modified_at=now,
    )
