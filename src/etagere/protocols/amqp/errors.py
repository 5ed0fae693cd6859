"""What goes wrong on a connection, and how far it reaches.

AmqpFault             the peer did what AMQP forbids; the engine answers it, no caller sees it
+- ConnectionFault    ends the connection
|  +- DecodeFault     bytes that are no AMQP value; from `decoding`, `sections` and `performatives`
+- SessionFault       ends one session
+- LinkFault          ends one link

EncodeError           a value of ours that has no encoding: a mistake of the caller
"""

from typing import Final

from etagere.protocols.amqp.values import Symbol

# AMQP 1.0 part 2, section 2.8.15
internal_error: Final = Symbol("amqp:internal-error")
not_found: Final = Symbol("amqp:not-found")
unauthorized_access: Final = Symbol("amqp:unauthorized-access")
decode_error: Final = Symbol("amqp:decode-error")
resource_limit_exceeded: Final = Symbol("amqp:resource-limit-exceeded")
not_allowed: Final = Symbol("amqp:not-allowed")
invalid_field: Final = Symbol("amqp:invalid-field")
not_implemented: Final = Symbol("amqp:not-implemented")
resource_locked: Final = Symbol("amqp:resource-locked")
precondition_failed: Final = Symbol("amqp:precondition-failed")
resource_deleted: Final = Symbol("amqp:resource-deleted")
illegal_state: Final = Symbol("amqp:illegal-state")
frame_size_too_small: Final = Symbol("amqp:frame-size-too-small")
# section 2.8.16
connection_forced: Final = Symbol("amqp:connection:forced")
framing_error: Final = Symbol("amqp:connection:framing-error")
# section 2.8.17
window_violation: Final = Symbol("amqp:session:window-violation")
errant_link: Final = Symbol("amqp:session:errant-link")
handle_in_use: Final = Symbol("amqp:session:handle-in-use")
unattached_handle: Final = Symbol("amqp:session:unattached-handle")
# section 2.8.18
detach_forced: Final = Symbol("amqp:link:detach-forced")
transfer_limit_exceeded: Final = Symbol("amqp:link:transfer-limit-exceeded")
message_size_exceeded: Final = Symbol("amqp:link:message-size-exceeded")
stolen: Final = Symbol("amqp:link:stolen")


class AmqpFault(Exception):  # noqa: N818 - blame lies with the peer
    def __init__(self, condition: Symbol, description: str) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


class ConnectionFault(AmqpFault):
    pass


class DecodeFault(ConnectionFault):
    def __init__(self, description: str) -> None:
        super().__init__(decode_error, description)


class SessionFault(AmqpFault):
    pass


class LinkFault(AmqpFault):
    def __init__(self, condition: Symbol, description: str, handle: int) -> None:
        super().__init__(condition, description)
        self.handle = handle


class EncodeError(ValueError):
    pass
