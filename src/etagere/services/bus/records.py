"""What the bus keeps in the store."""

from typing import Final

import msgspec

from etagere.kv.layers.records import Codec
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from etagere.services.bus.rules import RuleDescription


class Rest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the tail of a large message lies, in rows that several messages may share."""

    log: int
    number: int
    chunks: int


class StoredMessage(msgspec.Struct, array_like=True, gc=False):
    """One row is one message.  Fields that are read in no hurry come last."""

    tail: bytes
    """Empty while `rest` is not None."""
    header: bytes
    delivery_annotations: bytes
    annotations: bytes
    size: int
    enqueued_at: int
    delivery_count: int
    expires_at: int
    """0 for never."""
    enqueued_number: int
    """The number at the entity that it was first sent to; 0 while it is this row's own."""
    session_id: str | None
    ttl_ms: int | None
    """What the sender set, or less where the entity's default is shorter."""
    partition_key: str | None = None
    scheduled_at: int = 0
    state: int = 0
    """`MessageState`."""
    hops: int = 0
    dead_letter_source: str | None = None
    rest: Rest | None = None


class LogCounters(msgspec.Struct, array_like=True, gc=False):
    """One row per log, written with every change of it.  Its absence means that the log is gone."""

    last_number: int = 0
    active: int = 0
    deferred: int = 0
    scheduled: int = 0
    bytes: int = 0
    expiring: int = 0
    """Active messages that have an expiry."""
    accessed_at: int = 0
    revision: int = 0
    """One higher with every write: the order of writes, for whoever hears of them out of it."""


class SessionRecord(msgspec.Struct, array_like=True, gc=False):
    """There while the session has active messages or a state."""

    active: int = 0
    head: int = 0
    """Number of its oldest active message, if any."""
    state_bytes: int | None = None
    """None without a state."""
    updated_at: int = 0
    """When its state was last set."""


class EntityRecord(msgspec.Struct, kw_only=True):
    id: int
    description: QueueDescription | TopicDescription
    created_at: int
    updated_at: int
    nodes: int = 1
    """Numbers given to subscriptions so far, none twice; 0 is the entity's own."""


class SubscriptionRecord(msgspec.Struct, kw_only=True):
    number: int
    description: SubscriptionDescription
    created_at: int
    updated_at: int


messages: Final[Codec[StoredMessage]] = Codec(1, StoredMessage)
packs: Final[Codec[list[StoredMessage]]] = Codec(1, list[StoredMessage])
counters: Final[Codec[LogCounters]] = Codec(1, LogCounters)
sessions: Final[Codec[SessionRecord]] = Codec(1, SessionRecord)
entities: Final[Codec[EntityRecord]] = Codec(1, EntityRecord)
subscriptions: Final[Codec[SubscriptionRecord]] = Codec(1, SubscriptionRecord)
rules: Final[Codec[RuleDescription]] = Codec(1, RuleDescription)
