"""What a caller asks a connection to do.

The peer may have ended a link, a session or the connection in the meantime: a command for something
that is gone does nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from etagere.protocols.amqp.links import Delivery, Link, Session
from etagere.protocols.amqp.outcomes import Coordinator, DeliveryState, Error, Source, Target


class SaslDecision(msgspec.Struct, frozen=True):
    approved: bool


class AcceptLink(msgspec.Struct, frozen=True):
    """The termini are repeated to the peer as given: pyAMQP compares the addresses."""

    link: Link
    source: Source
    target: Target | Coordinator
    max_message_size: int | None = None
    properties: dict[Any, Any] | None = None
    offered_capabilities: tuple[Any, ...] | None = None


class RefuseLink(msgspec.Struct, frozen=True):
    link: Link
    error: Error


class GrantCredit(msgspec.Struct, frozen=True):
    """From now on the peer may send `credit` messages on a link that receives."""

    link: Link
    credit: int


class SendTransfer(msgspec.Struct, frozen=True):
    """A message in two runs of bytes; the link must have credit."""

    link: Link
    tag: bytes
    head: bytes
    tail: bytes
    settled: bool
    message_format: int = 0
    context: Any = None


class SendTransfers(msgspec.Struct, frozen=True):
    """Unsettled messages, each with its tag for a context; the link must have credit for all."""

    link: Link
    tags: Sequence[bytes]
    heads: Sequence[bytes]
    tails: Sequence[bytes]


class AcceptReceived(msgspec.Struct, frozen=True):
    """`SettleReceived` with `accepted`, for several."""

    link: Link
    delivery_ids: Sequence[int]


class SettleReceived(msgspec.Struct, frozen=True):
    """Answer a `TransferReceived` that was not settled."""

    link: Link
    delivery_id: int
    state: DeliveryState


class SettleSent(msgspec.Struct, frozen=True):
    """Answer a `DispositionReceived` that was not settled, whole or in part."""

    deliveries: Sequence[Delivery]
    state: DeliveryState
    forget: bool = True
    """False keeps the deliveries, so that the peer may ask again (after `server-busy`)."""


class SettleUnmatched(msgspec.Struct, frozen=True):
    session: Session
    first: int
    last: int
    state: DeliveryState


class CompleteDrain(msgspec.Struct, frozen=True):
    """Everything that could be sent was: use up the rest of the credit and say so."""

    link: Link


class DetachLink(msgspec.Struct, frozen=True):
    """Detach a link, or answer the peer's detach."""

    link: Link
    error: Error | None = None


class EndSession(msgspec.Struct, frozen=True):
    session: Session
    error: Error | None = None


class CloseConnection(msgspec.Struct, frozen=True):
    error: Error | None = None


Command = (
    SaslDecision
    | AcceptLink
    | RefuseLink
    | GrantCredit
    | SendTransfer
    | SendTransfers
    | AcceptReceived
    | SettleReceived
    | SettleSent
    | SettleUnmatched
    | CompleteDrain
    | DetachLink
    | EndSession
    | CloseConnection
)
