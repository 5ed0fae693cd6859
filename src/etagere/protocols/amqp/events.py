"""What happened on a connection, for its caller."""

import msgspec

from etagere.protocols.amqp.links import Delivery, Link, Session
from etagere.protocols.amqp.outcomes import DeliveryState, Error
from etagere.protocols.amqp.performatives import Attach, Open


class SaslShown(msgspec.Struct, frozen=True):
    """The peer showed who it is; the caller answers with `SaslDecision`."""

    mechanism: str
    response: bytes
    hostname: str | None


class ConnectionOpened(msgspec.Struct, frozen=True):
    open: Open


class SessionBegun(msgspec.Struct, frozen=True):
    session: Session


class LinkAttached(msgspec.Struct, frozen=True):
    """The peer asks for a link; the caller answers with `AcceptLink` or `RefuseLink`."""

    link: Link
    attach: Attach


class TransferReceived(msgspec.Struct, frozen=True):
    """A whole message.  Unless settled, the caller answers with `SettleReceived`."""

    link: Link
    delivery_id: int
    tag: bytes
    message_format: int
    settled: bool
    payload: bytes
    state: DeliveryState | None = None
    oversized: bool = False
    """Larger than the link takes: the payload was thrown away."""


class TransfersReceived(msgspec.Struct, frozen=True):
    """Whole messages that came one after the other, alike in everything else, on one link.

    Nobody answers by their tags, which are not kept.
    """

    link: Link
    delivery_ids: list[int]
    message_format: int
    settled: bool
    buffer: bytes
    spans: list[tuple[int, int]]
    """Where in the buffer each payload begins and ends."""

    def each(self) -> list[TransferReceived]:
        """The same, one by one."""
        return [
            TransferReceived(
                self.link,
                delivery_id,
                b"",
                self.message_format,
                self.settled,
                self.buffer[start:end],
            )
            for delivery_id, (start, end) in zip(self.delivery_ids, self.spans, strict=True)
        ]


class CreditGranted(msgspec.Struct, frozen=True):
    """`link.credit`, `link.drain` or the room in the session's window changed.

    With `link.drain` the caller sends what it has, then `CompleteDrain`.
    """

    link: Link


class DispositionReceived(msgspec.Struct, frozen=True):
    """The peer settled, or asks to settle, deliveries of ours on one link.

    Unless `settled`, it waits for `SettleSent`.
    """

    link: Link
    deliveries: list[Delivery]
    state: DeliveryState | None
    settled: bool


class DispositionUnmatched(msgspec.Struct, frozen=True):
    """The peer asks to settle deliveries that were settled before; `SettleUnmatched` answers."""

    session: Session
    first: int
    last: int
    state: DeliveryState | None


class LinkDetached(msgspec.Struct, frozen=True):
    """The peer detached a link; `DetachLink` answers, unless `withdrawn` before it was accepted."""

    link: Link
    closed: bool
    error: Error | None
    withdrawn: bool = False


class LinkFailed(msgspec.Struct, frozen=True):
    """We detached a link because the peer broke a rule on it."""

    link: Link
    error: Error


class SessionEnded(msgspec.Struct, frozen=True):
    """With its links; everything is answered."""

    session: Session
    links: list[Link]
    error: Error | None
    orderly: bool
    """The peer ended it (or the connection), rather than its fault or a lost connection."""


class ConnectionClosed(msgspec.Struct, frozen=True):
    """The last event; every session was reported before."""

    error: Error | None
    orderly: bool


Event = (
    SaslShown
    | ConnectionOpened
    | SessionBegun
    | LinkAttached
    | TransferReceived
    | TransfersReceived
    | CreditGranted
    | DispositionReceived
    | DispositionUnmatched
    | LinkDetached
    | LinkFailed
    | SessionEnded
    | ConnectionClosed
)
