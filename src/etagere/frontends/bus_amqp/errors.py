"""AMQP error conditions as this service uses them: one table, and the texts' common end."""

from typing import Final

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.kernel.dates import format_iso_seconds
from etagere.protocols.amqp.errors import AmqpFault
from etagere.protocols.amqp.outcomes import Error
from etagere.protocols.amqp.values import Symbol

message_lock_lost: Final = "com.microsoft:message-lock-lost"
session_lock_lost: Final = "com.microsoft:session-lock-lost"
timed_out: Final = "com.microsoft:timeout"
server_busy: Final = "com.microsoft:server-busy"
argument_error: Final = "com.microsoft:argument-error"
operation_cancelled: Final = "com.microsoft:operation-cancelled"
container_close: Final = "com.microsoft:container-close"
dead_letter: Final = "com.microsoft:dead-letter"
not_found: Final = "amqp:not-found"
not_allowed: Final = "amqp:not-allowed"
not_implemented: Final = "amqp:not-implemented"
invalid_field: Final = "amqp:invalid-field"
internal_error: Final = "amqp:internal-error"
unauthorized: Final = "amqp:unauthorized-access"
message_too_large: Final = "amqp:link:message-size-exceeded"
detach_forced: Final = "amqp:link:detach-forced"
connection_forced: Final = "amqp:connection:forced"
unknown_transaction: Final = "amqp:transaction:unknown-id"

statuses: Final = {
    "com.microsoft:argument-error": 400,
    "com.microsoft:argument-out-of-range": 400,
    "com.microsoft:entity-disabled": 400,
    "com.microsoft:auth-failed": 401,
    "com.microsoft:message-not-found": 404,
    "com.microsoft:session-not-found": 404,
    "com.microsoft:timeout": 408,
    "com.microsoft:entity-already-exists": 409,
    "com.microsoft:message-lock-lost": 410,
    "com.microsoft:session-lock-lost": 410,
    "com.microsoft:session-cannot-be-locked": 410,
    "com.microsoft:precondition-failed": 412,
    "com.microsoft:server-busy": 503,
    "com.microsoft:operation-cancelled": 503,
    "com.microsoft:container-close": 503,
    "amqp:not-allowed": 400,
    "amqp:invalid-field": 400,
    "amqp:decode-error": 400,
    "amqp:transaction:unknown-id": 400,
    "amqp:unauthorized-access": 401,
    "amqp:resource-limit-exceeded": 403,
    "amqp:link:message-size-exceeded": 403,
    "amqp:not-found": 404,
    "amqp:internal-error": 500,
    "amqp:not-implemented": 501,
}
"""The status that a management response carries with each condition."""

retried_by_clients: Final = frozenset(
    (timed_out, server_busy, internal_error, operation_cancelled, container_close)
)
"""Conditions after which SDKs try again: a settlement refused with one may be repeated."""


def status_of(condition: str) -> int:
    return statuses.get(condition, 500)


class Speaker:
    """Says what went wrong, with the tracking id and the time that support would ask for."""

    __slots__ = ("_clock", "_entropy", "_namespace")

    def __init__(self, clock: Clock, entropy: Entropy, namespace: str) -> None:
        self._clock = clock
        self._entropy = entropy
        self._namespace = namespace

    def describe(self, message: str, path: str = "") -> str:
        tracking_id = self._entropy.uuid()
        system = self._namespace + _system_of(path)
        at = format_iso_seconds(self._clock.now()).rstrip("Z")
        return f"{message} TrackingId:{tracking_id}_B0, SystemTracker:{system}, Timestamp:{at}"

    def error(self, condition: str, message: str, path: str = "") -> Error:
        return Error(Symbol(condition), self.describe(message, path))

    def refusal(self, refused: Refused, path: str = "") -> Error:
        return self.error(refused.code, refused.message or refused.code, path)

    def fault(self, fault: AmqpFault, path: str = "") -> Error:
        return self.error(fault.condition, fault.description, path)

    def unauthorized(self, claim: str, path: str) -> Error:
        return self.error(
            unauthorized,
            f"Unauthorized access. '{claim}' claim(s) are required to perform this operation. "
            f"Resource: 'sb://{self._namespace}.servicebus.windows.net/{path}'.",
            path,
        )


def _system_of(path: str) -> str:
    """What a path is called in a tracking text."""
    topic, subscriptions, name = path.partition("/Subscriptions/")
    if not subscriptions:
        topic, subscriptions, name = path.partition("/subscriptions/")
    if subscriptions:
        return f":Topic:{topic}|{name}"
    return f":Queue:{path}" if path else ""
