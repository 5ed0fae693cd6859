"""A message as filters and actions see it; sections are read when somebody asks."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final
from uuid import UUID

from etagere.services.bus.messages import MessageState, Properties, PropertyValue, SectionCodec
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.sql_evaluate import missing
from etagere.services.bus.sql_tree import Value

_epoch: Final = datetime(1970, 1, 1, tzinfo=UTC)

_from_properties: Final = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "ContentType": "content_type",
    "Label": "subject",
    "To": "to",
    "ReplyTo": "reply_to",
    "SessionId": "group_id",
    "ReplyToSessionId": "reply_to_group_id",
}

field_of_system_property: Final[Mapping[str, str]] = _from_properties
"""Those that actions may write, and the fields of the properties section that they are."""


class MessageSubject:
    __slots__ = ("_application", "_codec", "_folded", "_ids", "_message", "_properties", "_seed")

    def __init__(self, message: StoredMessage, codec: SectionCodec, seed: bytes) -> None:
        self._message = message
        self._codec = codec
        self._seed = seed
        self._ids = 0
        self._application: Mapping[str, PropertyValue] | None = None
        self._folded: dict[str, PropertyValue] | None = None
        self._properties: Properties | None = None

    @property
    def application(self) -> Mapping[str, PropertyValue]:
        if self._application is None:
            self._application = self._codec.application_properties(self._message.tail)
        return self._application

    def user(self, name: str) -> Value:
        found = self.application.get(name, missing)
        if found is not missing:
            return found
        if self._folded is None:
            self._folded = {key.casefold(): value for key, value in self.application.items()}
        return self._folded.get(name.casefold(), missing)

    def user_exactly(self, name: str) -> Value:
        return self.application.get(name, missing)

    def new_id(self) -> UUID:
        # Of a seed drawn before: a transaction's body gives the same whenever it is run again.
        self._ids += 1
        digest = blake2b(self._ids.to_bytes(8, "big"), key=self._seed, digest_size=16).digest()
        return UUID(bytes=digest, version=4)

    def system(self, name: str) -> Value:
        field = _from_properties.get(name)
        if field is not None:
            if self._properties is None:
                self._properties = self._codec.properties(self._message.tail)
            value: Value = getattr(self._properties, field)
            return value
        message = self._message
        match name:
            case "EnqueuedTimeUtc":
                return _time(message.enqueued_at)
            case "ScheduledEnqueueTimeUtc":
                return _time(message.scheduled_at) if message.scheduled_at else None
            case "TimeToLive":
                return timedelta(milliseconds=message.ttl_ms) if message.ttl_ms else None
            case "SequenceNumber" | "EnqueuedSequenceNumber":
                return message.enqueued_number
            case "PartitionKey":
                return message.partition_key
            case "DeliveryCount":
                return message.delivery_count
            case "ForcePersistence":
                return False
            case "State":
                return MessageState(message.state).name.capitalize()
            case "Size":
                return message.size
            case _:
                raise AssertionError(name)


def _time(ticks: int) -> datetime:
    return _epoch + timedelta(microseconds=ticks // 10)
