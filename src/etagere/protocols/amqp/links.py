"""A session's and a link's own numbers; what may happen to them stands in `states`."""

from collections import deque
from typing import Any, Final

import msgspec

from etagere.protocols.amqp.performatives import Attach
from etagere.protocols.amqp.states import LinkState, SessionState

serial_mask: Final = 0xFFFFFFFF
serial_half: Final = 0x80000000
"""Sequence numbers count modulo 2^32 and compare as RFC 1982 says (part 2, 2.8.10)."""

# Looking up a member of an Enum is dear in Python 3.11.
_attached: Final = LinkState.attached
_mapped: Final = SessionState.mapped


def serial_distance(later: int, earlier: int) -> int:
    """How far `later` is ahead of `earlier`; negative if it is behind."""
    distance = (later - earlier) & serial_mask
    return distance - 0x100000000 if distance >= serial_half else distance


class Delivery(msgspec.Struct, eq=False):
    """A message that we sent and that is not settled yet."""

    link: "Link"
    id: int
    tag: bytes
    context: Any
    """The caller's own; the engine never looks at it."""


class PendingTransfer:
    """A message, or the part of one, that the peer's session window had no room for."""

    __slots__ = (
        "at",
        "context",
        "delivery_id",
        "link",
        "message_format",
        "payload",
        "settled",
        "tag",
    )

    def __init__(
        self,
        link: "Link",
        tag: bytes,
        message_format: int,
        settled: bool,
        payload: bytes,
        context: Any,
    ) -> None:
        self.link = link
        self.delivery_id = -1
        """Given when the first frame is written: a link that goes before leaves no gap."""
        self.tag = tag
        self.message_format = message_format
        self.settled = settled
        self.payload = payload
        self.context = context
        self.at = 0


class PendingDrain:
    """The answer to a drain, behind the transfers that it speaks of."""

    __slots__ = ("link",)

    def __init__(self, link: "Link") -> None:
        self.link = link


class Session:
    __slots__ = (
        "channel",
        "context",
        "departed_handles",
        "incoming_window",
        "links",
        "next_delivery_id",
        "next_incoming_id",
        "next_outgoing_id",
        "pending",
        "remote_incoming_window",
        "run_first",
        "run_last",
        "run_role",
        "run_state",
        "state",
        "unsettled",
        "unsettled_in",
    )

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.state = SessionState.unmapped
        self.next_incoming_id = 0
        self.incoming_window = 0
        self.next_outgoing_id = 1
        self.remote_incoming_window = 0
        self.next_delivery_id = 0
        self.links: dict[int, Link] = {}
        self.departed_handles: set[int] = set()
        """Handles that were detached: late frames for them are no fault."""
        self.unsettled: dict[int, Delivery] = {}
        """Our deliveries, by id."""
        self.unsettled_in: dict[int, Link] = {}
        """The peer's deliveries that it waits to hear about."""
        self.pending: deque[PendingTransfer | PendingDrain] = deque()
        # A run of dispositions that have one outcome and rising ids, not yet written.
        self.run_role = False
        self.run_first = -1
        self.run_last = -1
        self.run_state = b""
        self.context: Any = None

    def sendable(self) -> int:
        """Transfers that the peer's window still takes; 0 while some wait already."""
        if self.pending:
            return 0
        return max(self.remote_incoming_window, 0)


class Link:
    """One link as seen from here; callers read it, and keep what they like in `context`."""

    __slots__ = (
        "attach",
        "context",
        "credit",
        "delivery_count",
        "drain",
        "handle",
        "handle_bytes",
        "max_message_size",
        "name",
        "partial",
        "partial_bytes",
        "partial_format",
        "partial_id",
        "partial_resumed",
        "partial_settled",
        "partial_state",
        "partial_tag",
        "sends",
        "session",
        "state",
    )

    def __init__(self, session: Session, attach: Attach) -> None:
        self.session = session
        self.attach = attach
        self.name = attach.name
        self.handle = attach.handle
        self.handle_bytes = b""
        self.sends = attach.role
        """We send to the peer, which attached as the receiver."""
        self.state = LinkState.detached
        self.delivery_count = 0
        self.credit = 0
        """Left to use: by us if we send, by the peer otherwise (below zero if it overdrew)."""
        self.drain = False
        self.max_message_size = 0
        """Of the peer's messages; bytes."""
        self.partial: list[bytes] | None = None
        """What has come of a message that is not complete; empty once it is known too large."""
        self.partial_bytes = 0
        self.partial_id = 0
        self.partial_tag = b""
        self.partial_format = 0
        self.partial_resumed = False
        self.partial_settled = False
        self.partial_state: Any = None
        self.context: Any = None

    @property
    def live(self) -> bool:
        """Whether anything may still be sent on it."""
        return self.state is _attached and self.session.state is _mapped
