"""What an entity is told to be: properties, their defaults and their ranges.

Durations are in ticks.  The defaults are the service's documented ones; the tables of ranges are
those of the administration API ("Create queue", "Create topic", "Create subscription").
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

import msgspec

from etagere.base.clock import seconds
from etagere.base.errors import Refused
from etagere.services.bus import errors, names

forever: Final = 2**63 - 1
"""P10675199DT2H48M5.4775807S: the longest duration, and the wire's word for "no limit"."""

minute: Final = seconds(60)
day: Final = seconds(86_400)
lock_duration_least: Final = seconds(5)
lock_duration_most: Final = 5 * minute
duplicate_window_least: Final = seconds(20)
duplicate_window_most: Final = 7 * day
ttl_least: Final = seconds(1)
ttl_most_in_basic: Final = 14 * day
idle_least: Final = 5 * minute
delivery_count_most: Final = 2**31 - 1
metadata_chars_max: Final = 1024
authorization_rules_max: Final = 12
message_kilobytes_standard: Final = 256
message_kilobytes_premium: Final = 1024
message_kilobytes_premium_most: Final = 102_400
partitions: Final = 16
rights: Final = frozenset(("Manage", "Send", "Listen"))


class Tier(Enum):
    basic = "Basic"
    standard = "Standard"
    premium = "Premium"


class EntityStatus(Enum):
    active = "Active"
    disabled = "Disabled"
    send_disabled = "SendDisabled"
    receive_disabled = "ReceiveDisabled"


class AuthorizationRule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    rights: tuple[str, ...]
    primary_key: str
    secondary_key: str
    created_at: int = 0
    modified_at: int = 0


class QueueDescription(msgspec.Struct, frozen=True, kw_only=True, tag="queue"):
    name: str
    lock_duration: int = minute
    max_size_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    requires_session: bool = False
    default_ttl: int = forever
    dead_letter_on_expiration: bool = False
    duplicate_window: int = 10 * minute
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    is_anonymous_accessible: bool = False
    authorization_rules: tuple[AuthorizationRule, ...] = ()
    status: EntityStatus = EntityStatus.active
    forward_to: str | None = None
    """The target's path, or its address."""
    user_metadata: str | None = None
    support_ordering: bool = True
    auto_delete_on_idle: int = forever
    enable_partitioning: bool = False
    forward_dead_lettered_to: str | None = None
    enable_express: bool = False
    max_message_kilobytes: int | None = None
    """None for the tier's default."""


class TopicDescription(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    name: str
    default_ttl: int = forever
    max_size_megabytes: int = 1024
    requires_duplicate_detection: bool = False
    duplicate_window: int = 10 * minute
    enable_batched_operations: bool = True
    filtering_messages_before_publishing: bool = False
    is_anonymous_accessible: bool = False
    authorization_rules: tuple[AuthorizationRule, ...] = ()
    status: EntityStatus = EntityStatus.active
    user_metadata: str | None = None
    support_ordering: bool = True
    auto_delete_on_idle: int = forever
    enable_partitioning: bool = False
    enable_subscription_partitioning: bool = False
    enable_express: bool = False
    max_message_kilobytes: int | None = None


class SubscriptionDescription(msgspec.Struct, frozen=True, kw_only=True, tag="subscription"):
    name: str
    lock_duration: int = minute
    requires_session: bool = False
    default_ttl: int = forever
    dead_letter_on_expiration: bool = False
    dead_letter_on_filter_failure: bool = True
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: EntityStatus = EntityStatus.active
    forward_to: str | None = None
    user_metadata: str | None = None
    forward_dead_lettered_to: str | None = None
    auto_delete_on_idle: int = forever


Description = QueueDescription | TopicDescription | SubscriptionDescription
D = TypeVar("D", bound=Description)


def sends_allowed(description: Description) -> bool:
    """A disabled subscription still collects messages."""
    if isinstance(description, SubscriptionDescription):
        return True
    return description.status in (EntityStatus.active, EntityStatus.receive_disabled)


def receives_allowed(description: Description) -> bool:
    return description.status in (EntityStatus.active, EntityStatus.send_disabled)


def message_bytes_max(description: Description, tier: Tier) -> int:
    if tier is not Tier.premium:
        return message_kilobytes_standard * 1024
    kilobytes = getattr(description, "max_message_kilobytes", None)
    return (kilobytes or message_kilobytes_premium) * 1024


def batch_bytes_max(tier: Tier) -> int:
    return 1024 * 1024 if tier is Tier.premium else message_kilobytes_standard * 1024


def partitions_of(description: Description, tier: Tier) -> int:
    """How many times its size an entity may hold."""
    partitioned = getattr(description, "enable_partitioning", False) and tier is Tier.standard
    return partitions if partitioned else 1


def entity_bytes_max(description: QueueDescription | TopicDescription, tier: Tier) -> int:
    return description.max_size_megabytes * 1024 * 1024 * partitions_of(description, tier)


# ---- checks


_sizes: Final = frozenset(1024 * n for n in range(1, 6))


def _ranged(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise errors.out_of_range(name, f"The value of {name} is out of range.")


def _common(description: Description, tier: Tier) -> None:
    name = description.name
    ttl_most = ttl_most_in_basic if tier is Tier.basic else forever
    if description.default_ttl != forever or tier is not Tier.basic:
        _ranged("DefaultMessageTimeToLive", description.default_ttl, ttl_least, ttl_most)
    _ranged("AutoDeleteOnIdle", description.auto_delete_on_idle, idle_least, forever)
    if len(description.user_metadata or "") > metadata_chars_max:
        raise errors.out_of_range("UserMetadata", "UserMetadata is longer than 1024 characters.")
    if isinstance(description, SubscriptionDescription):
        names.check_subscription_name(name)
    else:
        names.check_entity_name(name)
        _check_top(description, tier)
    if not isinstance(description, TopicDescription):
        _check_receivable(description, tier)


def _check_top(description: QueueDescription | TopicDescription, tier: Tier) -> None:
    if description.is_anonymous_accessible:
        raise errors.argument("IsAnonymousAccessible", "There is no anonymous access.")
    sizes = set(_sizes)
    if tier is Tier.premium:
        sizes |= {10_240, 20_480, 40_960, 81_920}
    if description.max_size_megabytes not in sizes:
        raise errors.out_of_range("MaxSizeInMegabytes", "The entity's size is not one on offer.")
    _ranged(
        "DuplicateDetectionHistoryTimeWindow",
        description.duplicate_window,
        duplicate_window_least,
        duplicate_window_most,
    )
    kilobytes = description.max_message_kilobytes
    if kilobytes is not None:
        if tier is Tier.premium:
            _ranged(
                "MaxMessageSizeInKilobytes",
                kilobytes,
                message_kilobytes_premium,
                message_kilobytes_premium_most,
            )
        elif kilobytes != message_kilobytes_standard:
            raise errors.argument(
                "MaxMessageSizeInKilobytes", "Only a premium namespace takes this property."
            )
    if tier is Tier.premium and (description.enable_partitioning or description.enable_express):
        raise errors.argument(
            "EnablePartitioning", "A premium namespace has no partitioned and no express entities."
        )
    if description.enable_express and description.requires_duplicate_detection:
        raise errors.argument("EnableExpress", "An express entity cannot detect duplicates.")
    if tier is Tier.basic and description.requires_duplicate_detection:
        raise errors.forbidden_in_tier("The basic tier has no duplicate detection.")
    _check_authorization(description.authorization_rules)


def _check_authorization(rules: tuple[AuthorizationRule, ...]) -> None:
    if len(rules) > authorization_rules_max:
        raise Refused(
            errors.quota_exceeded, message="An entity has at most 12 authorization rules."
        )
    if len({rule.name.casefold() for rule in rules}) != len(rules):
        raise errors.argument("AuthorizationRules", "Two authorization rules share a name.")
    for rule in rules:
        given = set(rule.rights)
        if not given or not given <= rights:
            raise errors.argument("AuthorizationRules", "An authorization rule's rights are wrong.")
        if "Manage" in given and given != rights:
            raise errors.argument("AuthorizationRules", "Manage requires Send and Listen.")


def _check_receivable(description: QueueDescription | SubscriptionDescription, tier: Tier) -> None:
    _ranged("LockDuration", description.lock_duration, lock_duration_least, lock_duration_most)
    _ranged("MaxDeliveryCount", description.max_delivery_count, 1, delivery_count_most)
    if tier is Tier.basic and description.requires_session:
        raise errors.forbidden_in_tier("The basic tier has no sessions.")
    if tier is Tier.basic and (description.forward_to or description.forward_dead_lettered_to):
        raise errors.forbidden_in_tier("The basic tier does not forward.")


_statuses: Final[Mapping[type, frozenset[EntityStatus]]] = {
    QueueDescription: frozenset(EntityStatus),
    TopicDescription: frozenset(
        (EntityStatus.active, EntityStatus.disabled, EntityStatus.send_disabled)
    ),
    SubscriptionDescription: frozenset(
        (EntityStatus.active, EntityStatus.disabled, EntityStatus.receive_disabled)
    ),
}


def checked(description: D, tier: Tier) -> D:
    """The description as it will be kept; refused if it is not one the service would take.

    Whether forwarding targets exist is for the catalogue to say.
    """
    if tier is Tier.basic and not isinstance(description, QueueDescription):
        raise errors.forbidden_in_tier("The basic tier has no topics.")
    description = _with_size_of_each(description, tier)
    _common(description, tier)
    if description.status not in _statuses[type(description)]:
        raise errors.argument("Status", "The entity cannot have this status.")
    changes: dict[str, object] = {}
    if not isinstance(description, TopicDescription):
        for field in ("forward_to", "forward_dead_lettered_to"):
            target = getattr(description, field)
            if target is not None:
                path = names.entity_path_of(target)
                # An address goes back as it came (azservicebus, `TestAdminClient_Forwarding`).
                changes[field] = (target if "://" in target else path) if path else None
    return msgspec.structs.replace(description, **changes) if changes else description


def _with_size_of_each(description: D, tier: Tier) -> D:
    """A partitioned entity is shown with the size of all its partitions, and comes back so."""
    if isinstance(description, SubscriptionDescription) or partitions_of(description, tier) == 1:
        return description
    one, rest = divmod(description.max_size_megabytes, partitions)
    if description.max_size_megabytes in _sizes or rest:
        return description
    return msgspec.structs.replace(description, max_size_megabytes=one)


_immutable: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning")


def checked_update(old: D, new: D, tier: Tier) -> D:
    """`new` in place of `old`, which keeps its name's letters and what cannot be changed.

    The service lets entities become smaller, express or self-forwarding too, as the live tests of
    azure-servicebus do (`test_mgmt_queue_update_success`, `test_mgmt_topic_update_success`).
    """
    new = checked(new, tier)
    for field in _immutable:
        if getattr(old, field, None) != getattr(new, field, None):
            name = "".join(word.capitalize() for word in field.split("_"))
            kind = type(new).__name__.removesuffix("Description")
            raise errors.argument(
                name,
                f"The value for the {name} property of an existing {kind} cannot be changed.",
            )
    return msgspec.structs.replace(new, name=old.name)
