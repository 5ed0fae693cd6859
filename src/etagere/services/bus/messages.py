"""Messages as they enter, rest in and leave the broker.

The broker never decodes a body.  A message is a few runs of bytes, each a whole AMQP section (or
several) exactly as its sender encoded it, and the handful of values that the broker itself acts on.
Whatever has to be read out of the sections (ids, properties for filters) goes through
`SectionCodec`, only when somebody asks, and at most once.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Protocol

import msgspec

from etagere.base.clock import Timestamp

PropertyValue = object
"""A value inside application properties: None, bool, int, float, str, bytes, uuid.UUID,
`datetime.datetime`, or whatever typed value the codec uses; the broker only passes it on."""


class ReceiveMode(IntEnum):
    """The wire's numbers (`receiver-settle-mode` of receive-by-sequence-number)."""

    receive_and_delete = 0
    peek_lock = 1


class MessageState(IntEnum):
    """The wire's numbers (`x-opt-message-state`)."""

    active = 0
    deferred = 1
    scheduled = 2


class Message(msgspec.Struct, gc=False):
    """One message on its way in, as a frontend read it.

    Annotations that only the broker may set (`x-opt-sequence-number`, `x-opt-locked-until` and
    their like) must have been dropped by the frontend: clients send received messages on.
    """

    tail: bytes
    """From the properties section on: properties, application properties, body, footer; raw."""
    size: int
    """Bytes of the whole encoded message as it came, all sections."""
    header: bytes = b""
    """The header section, raw, or nothing.  Its delivery-count is ignored."""
    delivery_annotations: bytes = b""
    """The section, raw, or nothing."""
    annotations: bytes = b""
    """The message-annotations section, raw and without the broker's own keys, or nothing."""
    ttl_ms: int | None = None
    """`header.ttl`; None when absent or 0xFFFFFFFF."""
    scheduled_at: Timestamp | None = None
    """`x-opt-scheduled-enqueue-time`."""
    partition_key: str | None = None
    """`x-opt-partition-key`."""
    dead_letter_source: str | None = None


class Delivery(msgspec.Struct, gc=False):
    """One message on its way out: to a receiver, or in the answer of peek and deferred receive."""

    tail: bytes
    header: bytes
    delivery_annotations: bytes
    annotations: bytes
    sequence_number: int
    enqueued_at: Timestamp
    enqueued_sequence_number: int
    """The number at the entity that the message was first sent to."""
    delivery_count: int
    """Failed deliveries so far: 0 the first time."""
    ttl_ms: int | None
    """To be written into the header; None when the sender set none."""
    state: MessageState
    lock_token: bytes | None
    """16 random bytes: the delivery-tag as it is, the lock token read as a .NET GUID
    (`uuid.UUID(bytes_le=...)`).  None on peek and on receive-and-delete."""
    locked_until: Timestamp | None
    session_id: str | None
    scheduled_at: Timestamp | None
    partition_key: str | None
    dead_letter_source: str | None


class Complete(msgspec.Struct, frozen=True):
    """Done: the message is deleted."""


class Release(msgspec.Struct, frozen=True):
    """Given back untouched: active at its place, the delivery count unchanged."""


class Abandon(msgspec.Struct, frozen=True):
    """Failed: active at its place, the delivery count one higher."""

    changes: Mapping[str, PropertyValue] = {}
    """Properties to modify: they overwrite application properties."""


class Defer(msgspec.Struct, frozen=True):
    """Set aside: from now on found by its sequence number only."""

    changes: Mapping[str, PropertyValue] = {}


class DeadLetter(msgspec.Struct, frozen=True):
    """Moved to the dead-letter queue."""

    reason: str | None = None
    description: str | None = None
    changes: Mapping[str, PropertyValue] = {}


Outcome = Complete | Release | Abandon | Defer | DeadLetter
complete = Complete()
release = Release()
abandon = Abandon()


class Properties(Protocol):
    """The properties section, read.  Ids of whatever type are given as their canonical text."""

    @property
    def message_id(self) -> str | None: ...
    @property
    def correlation_id(self) -> str | None: ...
    @property
    def to(self) -> str | None: ...
    @property
    def subject(self) -> str | None: ...
    @property
    def reply_to(self) -> str | None: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def group_id(self) -> str | None:
        """The session id."""
        ...

    @property
    def reply_to_group_id(self) -> str | None: ...


class SectionCodec(Protocol):
    """What the broker has to ask of the sections' encoding; pure functions of bytes.

    A tail that is not what `Message.tail` says raises `Refused("amqp:decode-error")`.
    """

    def properties_bytes(self, tail: bytes) -> int:
        """Length of the properties section at the front of `tail`, without decoding it; 0 if none.

        The broker skips length checks of ids when the whole section is shorter than their limit.
        """
        ...

    def headers_bytes(self, tail: bytes) -> int:
        """Length of the properties and application properties together."""
        ...

    def largest_property(self, tail: bytes) -> tuple[int, int]:
        """Of the application properties: characters of the longest name, bytes of the largest
        value; 0 and 0 if there are none."""
        ...

    def properties(self, tail: bytes) -> Properties: ...

    def application_properties(self, tail: bytes) -> Mapping[str, PropertyValue]: ...

    def change(
        self,
        tail: bytes,
        *,
        application: Mapping[str, PropertyValue] | None = None,
        removed: Collection[str] = (),
        properties: Mapping[str, str | None] | None = None,
    ) -> bytes:
        """`tail` with application properties set and removed and fields of the properties section
        replaced (by their names in `Properties`); every other byte as it was."""
        ...
