"""Correlation filters: every field that is given must be equal, exactly (Service Bus, topic
filters).  Numbers are equal by value, whatever their width."""

from collections.abc import Mapping
from typing import Final

import msgspec

from etagere.services.bus import errors
from etagere.services.bus.sql_evaluate import Subject, compare, missing
from etagere.services.bus.sql_tree import Comparison, Value


class CorrelationFields(msgspec.Struct, frozen=True, kw_only=True):
    correlation_id: str | None = None
    message_id: str | None = None
    to: str | None = None
    reply_to: str | None = None
    label: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    properties: Mapping[str, Value] = {}


_system_names: Final[Mapping[str, str]] = {
    "correlation_id": "CorrelationId",
    "message_id": "MessageId",
    "to": "To",
    "reply_to": "ReplyTo",
    "label": "Label",
    "session_id": "SessionId",
    "reply_to_session_id": "ReplyToSessionId",
    "content_type": "ContentType",
}


class CorrelationFilter:
    """The fields made ready to be compared with any number of messages."""

    __slots__ = ("_system", "_user")

    def __init__(self, fields: CorrelationFields) -> None:
        self._system = tuple(
            (name, value)
            for field, name in _system_names.items()
            if (value := getattr(fields, field)) is not None
        )
        self._user = tuple(fields.properties.items())
        if not self._system and not self._user:
            raise errors.argument(
                "CorrelationFilter", "A correlation filter needs at least one field or property."
            )

    def matches(self, message: Subject) -> bool:
        for name, wanted in self._system:
            if message.system(name) != wanted:
                return False
        for name, value in self._user:
            found = message.user_exactly(name)
            if found is missing:
                return False
            if value is None:
                if found is not None:
                    return False
            elif not compare(Comparison.equal, found, value):
                return False
        return True
