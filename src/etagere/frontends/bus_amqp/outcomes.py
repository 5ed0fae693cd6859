"""What a client's delivery state asks of the broker."""

from collections.abc import Mapping
from typing import Any, Final

from etagere.frontends.bus_amqp import errors
from etagere.protocols.amqp.outcomes import (
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
)
from etagere.services.bus.messages import (
    Abandon,
    DeadLetter,
    Defer,
    Outcome,
    complete,
    release,
)

reason_key: Final = "DeadLetterReason"
description_key: Final = "DeadLetterErrorDescription"


def outcome_of(state: DeliveryState | None) -> Outcome:
    match state:
        case Accepted():
            return complete
        case Released() | None:
            return release
        case Modified():
            # .NET, Go and JS abandon without saying that the delivery failed.
            changes = _names(state.message_annotations)
            return Defer(changes) if state.undeliverable_here else Abandon(changes)
        case Rejected():
            return dead_letter_of(state)
        case _:
            return release


def dead_letter_of(state: Rejected) -> DeadLetter:
    """With the reasons of the SDKs, or with whatever error another client gave."""
    error = state.error
    if error is None:
        return DeadLetter()
    info = _names(error.info)
    if error.condition == errors.dead_letter or reason_key in info:
        reason = info.pop(reason_key, None)
        description = info.pop(description_key, None)
        return DeadLetter(_text(reason), _text(description), info)
    return DeadLetter(str(error.condition), error.description, info)


def _names(changes: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Symbols on the wire, names of application properties in the message."""
    return {str(name): value for name, value in (changes or {}).items()}


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str) else None
