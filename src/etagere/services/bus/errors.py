"""What the broker refuses with: one name per AMQP error condition.

`Refused.code` is the condition itself; frontends add the tracking id and, over HTTP, turn the
condition into a status.  Texts are what users of the service know, since SDKs compare some of them.
"""

from typing import Final

from etagere.base.errors import Refused

not_found: Final = "amqp:not-found"
not_allowed: Final = "amqp:not-allowed"
not_implemented: Final = "amqp:not-implemented"
invalid_field: Final = "amqp:invalid-field"
decode_error: Final = "amqp:decode-error"
internal_error: Final = "amqp:internal-error"
quota_exceeded: Final = "amqp:resource-limit-exceeded"
message_too_large: Final = "amqp:link:message-size-exceeded"
detach_forced: Final = "amqp:link:detach-forced"
unknown_transaction: Final = "amqp:transaction:unknown-id"
transaction_timeout: Final = "amqp:transaction:timeout"
message_lock_lost: Final = "com.microsoft:message-lock-lost"
session_lock_lost: Final = "com.microsoft:session-lock-lost"
session_cannot_be_locked: Final = "com.microsoft:session-cannot-be-locked"
message_not_found: Final = "com.microsoft:message-not-found"
session_not_found: Final = "com.microsoft:session-not-found"
entity_disabled: Final = "com.microsoft:entity-disabled"
entity_exists: Final = "com.microsoft:entity-already-exists"
argument_error: Final = "com.microsoft:argument-error"
argument_out_of_range: Final = "com.microsoft:argument-out-of-range"
timed_out: Final = "com.microsoft:timeout"
server_busy: Final = "com.microsoft:server-busy"
container_close: Final = "com.microsoft:container-close"


def entity_not_found(path: str) -> Refused:
    # JS and Java recognise the case by this wording.
    return Refused(
        not_found, {"Entity": path}, message=f"The messaging entity '{path}' could not be found."
    )


def lock_lost() -> Refused:
    return Refused(
        message_lock_lost,
        message="The lock supplied is invalid. Either the lock expired, or the message has already "
        "been removed from the queue.",
    )


def session_lost() -> Refused:
    return Refused(
        session_lock_lost,
        message="The session lock has expired on the MessageSession. Accept a new MessageSession.",
    )


def no_such_message() -> Refused:
    return Refused(
        message_not_found,
        message="Failed to lock one or more specified messages. The message does not exist.",
    )


def no_matching_subscription() -> Refused:
    return Refused(
        "com.microsoft:no-matching-subscription",
        message="There is no matching subscription found for the message.",
    )


def disabled(path: str) -> Refused:
    return Refused(
        entity_disabled,
        {"Entity": path},
        message=f"Messaging entity '{path}' is currently disabled.",
    )


def argument(name: str, message: str) -> Refused:
    return Refused(argument_error, {"Argument": name}, message=message)


def out_of_range(name: str, message: str) -> Refused:
    return Refused(argument_out_of_range, {"Argument": name}, message=message)


def forbidden_in_tier(message: str) -> Refused:
    return Refused(not_allowed, {"SubCode": "40301"}, message=message)
