"""Transfers and dispositions of one connection, both ways."""

from collections import deque
from typing import Final

from etagere.protocols.amqp.commands import (
    SendTransfer,
    SettleReceived,
    SettleSent,
    SettleUnmatched,
)
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.errors import (
    ConnectionFault,
    LinkFault,
    SessionFault,
    invalid_field,
    not_allowed,
    resource_limit_exceeded,
    transfer_limit_exceeded,
    unattached_handle,
    window_violation,
)
from etagere.protocols.amqp.events import (
    CreditGranted,
    DispositionReceived,
    DispositionUnmatched,
    Event,
    TransferReceived,
)
from etagere.protocols.amqp.flows import pack_credit
from etagere.protocols.amqp.limits import Limits, frame_bytes_min
from etagere.protocols.amqp.links import (
    Delivery,
    Link,
    PendingDrain,
    PendingTransfer,
    Session,
    serial_distance,
    serial_mask,
)
from etagere.protocols.amqp.outbox import Outbox, frame_header
from etagere.protocols.amqp.outcomes import (
    Accepted,
    DeliveryState,
    Received,
    accepted,
    accepted_bytes,
)
from etagere.protocols.amqp.performatives import Flow, Transfer
from etagere.protocols.amqp.states import LinkState, SessionState
from etagere.protocols.amqp.transfer_out import pack_transfer

_receiver: Final = True
_sender: Final = False
# Looking up a member of an Enum costs Python 3.11 as much as a whole step of a hot path.
_attached: Final = LinkState.attached
_attach_received: Final = LinkState.attach_received
_mapped: Final = SessionState.mapped


class Deliveries:
    __slots__ = (
        "_events",
        "_limits",
        "_outbox",
        "_partial_bytes",
        "_window_half",
        "frame_bytes_out",
    )

    def __init__(self, limits: Limits, outbox: Outbox, events: deque[Event]) -> None:
        self._limits = limits
        self._outbox = outbox
        self._events = events
        self._partial_bytes = 0
        self._window_half = limits.incoming_window_transfers >> 1
        """The window is opened again before less than this is left of it."""
        self.frame_bytes_out = frame_bytes_min
        """What the peer takes in one frame; known once it has opened."""

    # ---- in: transfers

    def received_whole(
        self,
        session: Session,
        handle: int,
        delivery_id: int,
        tag: bytes,
        message_format: int,
        settled: bool,
        payload: bytes,
    ) -> Link | None:
        """The commonest transfer, a whole message on a link that wants it: the link.

        None if there is anything unusual about it; nothing is changed then.
        """
        link = session.links.get(handle)
        if (
            link is None
            or link.state is not _attached
            or link.sends
            or link.partial is not None
            or link.credit <= 0
            or len(payload) > link.max_message_size
            or len(tag) > self._limits.delivery_tag_bytes_max
            or session.incoming_window <= self._window_half
        ):
            return None
        session.incoming_window -= 1
        session.next_incoming_id = (session.next_incoming_id + 1) & serial_mask
        link.credit -= 1
        link.delivery_count = (link.delivery_count + 1) & serial_mask
        if not settled:
            session.unsettled_in[delivery_id] = link
        self._events.append(
            TransferReceived(link, delivery_id, tag, message_format, settled, payload)
        )
        return link

    def received(
        self,
        session: Session,
        handle: int,
        delivery_id: int | None,
        tag: bytes | None,
        message_format: int,
        settled: bool,
        more: bool,
        buffer: bytes,
        at: int,
        end: int,
        state: DeliveryState | None = None,
        aborted: bool = False,
        resumed: bool = False,
    ) -> None:
        """One transfer frame, whose payload is buffer[at:end].

        Nothing outlives its link here, so that what is resumed is never known, and ignored as a
        receiver must (AMQP 1.0 part 2, 2.7.5): it may have been accepted before.
        """
        window = session.incoming_window - 1
        if window < 0:
            raise SessionFault(window_violation, "More transfers than the session's window takes.")
        session.incoming_window = window
        session.next_incoming_id = (session.next_incoming_id + 1) & serial_mask
        if window <= self._window_half:
            self.open_window(session)
        link = session.links.get(handle)
        if link is None:
            if handle in session.departed_handles:
                return
            raise SessionFault(unattached_handle, "A transfer is for no attached link.")
        if link.state is not _attached and link.state is not _attach_received:
            return
        if link.sends:
            raise LinkFault(not_allowed, "A receiver sent a transfer.", handle)
        if link.partial is not None:
            self._continued(link, delivery_id, settled, more, buffer[at:end], state, aborted)
            return
        if delivery_id is None or tag is None:
            raise LinkFault(invalid_field, "A delivery begins without its id or tag.", handle)
        if len(tag) > self._limits.delivery_tag_bytes_max:
            raise LinkFault(invalid_field, "A delivery tag is too long.", handle)
        if link.credit <= -self._limits.credit_overdraft_max:
            raise LinkFault(transfer_limit_exceeded, "More transfers than credit.", handle)
        if more and not aborted:
            link.partial = []
            link.partial_bytes = 0
            link.partial_id = delivery_id
            link.partial_tag = tag
            link.partial_format = message_format
            link.partial_settled = settled
            link.partial_resumed = resumed
            link.partial_state = state
            self._keep(link, buffer[at:end])
            return
        link.credit -= 1
        link.delivery_count = (link.delivery_count + 1) & serial_mask
        if aborted or resumed:
            return
        if not settled:
            session.unsettled_in[delivery_id] = link
        oversized = end - at > link.max_message_size
        self._events.append(
            TransferReceived(
                link,
                delivery_id,
                tag,
                message_format,
                settled,
                b"" if oversized else buffer[at:end],
                state,
                oversized,
            )
        )

    def _continued(
        self,
        link: Link,
        delivery_id: int | None,
        settled: bool,
        more: bool,
        payload: bytes,
        state: DeliveryState | None,
        aborted: bool,
    ) -> None:
        if delivery_id is not None and delivery_id != link.partial_id:
            raise LinkFault(
                invalid_field, "A delivery begins before another one is complete.", link.handle
            )
        if settled:
            link.partial_settled = True
        if state is not None:
            link.partial_state = state
        if not aborted:
            self._keep(link, payload)
            if more:
                return
        link.credit -= 1
        link.delivery_count = (link.delivery_count + 1) & serial_mask
        parts = link.partial
        assert parts is not None
        oversized = link.partial_bytes > link.max_message_size
        self.drop_partial(link)
        if aborted or link.partial_resumed:
            return
        if not link.partial_settled:
            link.session.unsettled_in[link.partial_id] = link
        self._events.append(
            TransferReceived(
                link,
                link.partial_id,
                link.partial_tag,
                link.partial_format,
                link.partial_settled,
                b"" if oversized else b"".join(parts),
                link.partial_state,
                oversized,
            )
        )

    def _keep(self, link: Link, payload: bytes) -> None:
        assert link.partial is not None
        held = link.partial_bytes <= link.max_message_size
        link.partial_bytes += len(payload)
        if link.partial_bytes <= link.max_message_size:
            self._partial_bytes += len(payload)
            if self._partial_bytes > self._limits.partial_bytes_max:
                raise ConnectionFault(
                    resource_limit_exceeded, "Too many bytes of incomplete messages."
                )
            link.partial.append(payload)
        elif held:  # it has just grown too large: what came so far is of no use
            self._partial_bytes -= link.partial_bytes - len(payload)
            link.partial.clear()

    def drop_partial(self, link: Link) -> None:
        if link.partial is not None:
            if link.partial_bytes <= link.max_message_size:
                self._partial_bytes -= link.partial_bytes
            link.partial = None

    def forget(self, link: Link) -> None:
        """The link is gone; so is everything that was on its way."""
        self.drop_partial(link)
        session = link.session
        if link.sends:
            ours = [number for number, one in session.unsettled.items() if one.link is link]
            for number in ours:
                del session.unsettled[number]
        else:
            theirs = [number for number, one in session.unsettled_in.items() if one is link]
            for number in theirs:
                del session.unsettled_in[number]

    # ---- in: dispositions

    def disposed(
        self,
        session: Session,
        role: bool,
        first: int,
        last: int,
        settled: bool,
        state: DeliveryState | None,
    ) -> None:
        if first == last and role is _receiver and isinstance(state, Accepted):
            delivery = session.unsettled.get(first)
            if delivery is not None:  # the commonest disposition
                if settled:
                    del session.unsettled[first]
                self._events.append(DispositionReceived(delivery.link, [delivery], state, settled))
                return
        count = serial_distance(last, first) + 1
        if count <= 0:
            raise SessionFault(invalid_field, "A disposition's range runs backwards.")
        if role is _sender:
            if settled:
                for delivery_id in _known(session.unsettled_in, first, count):
                    del session.unsettled_in[delivery_id]
            return
        if not settled and (state is None or isinstance(state, Received)):
            return  # says how far a delivery has come, and asks for nothing
        ids = _known(session.unsettled, first, count)
        self._matched(session, ids, settled, state)
        if not settled and len(ids) < count:
            for gap_first, gap_last in _gaps(ids, first, last, session.next_delivery_id):
                self._events.append(DispositionUnmatched(session, gap_first, gap_last, state))

    def _matched(
        self, session: Session, ids: list[int], settled: bool, state: DeliveryState | None
    ) -> None:
        """One event for each run of deliveries on one link."""
        run: list[Delivery] = []
        for delivery_id in ids:
            delivery = session.unsettled[delivery_id]
            if settled:
                del session.unsettled[delivery_id]
            if run and delivery.link is not run[0].link:
                self._events.append(DispositionReceived(run[0].link, run, state, settled))
                run = []
            run.append(delivery)
        if run:
            self._events.append(DispositionReceived(run[0].link, run, state, settled))

    # ---- out

    def send(self, command: SendTransfer) -> None:
        link = command.link
        session = link.session
        if link.state is not _attached or session.state is not _mapped:
            return
        assert link.sends
        assert link.credit > 0
        if session.run_first >= 0 and session.run_role is _receiver:
            self._outbox.flush_run(session)  # a request is acknowledged before its answer
        link.credit -= 1
        link.delivery_count = (link.delivery_count + 1) & serial_mask
        head = command.head
        tail = command.tail
        if (
            not session.pending
            and session.remote_incoming_window > 0
            and not command.message_format
        ):
            delivery_id = session.next_delivery_id
            frame = pack_transfer(
                session.channel,
                link.handle_bytes,
                delivery_id,
                command.tag,
                command.settled,
                len(head) + len(tail),
            )
            if frame is not None and len(frame) + len(head) + len(tail) <= self.frame_bytes_out:
                session.next_delivery_id = (delivery_id + 1) & serial_mask
                if not command.settled:
                    session.unsettled[delivery_id] = Delivery(
                        link, delivery_id, command.tag, command.context
                    )
                session.remote_incoming_window -= 1
                session.next_outgoing_id = (session.next_outgoing_id + 1) & serial_mask
                parts = self._outbox.parts
                parts.append(frame)
                parts.append(head)
                parts.append(tail)
                return
        session.pending.append(
            PendingTransfer(
                link,
                command.tag,
                command.message_format,
                command.settled,
                head + tail,
                command.context,
            )
        )
        self.pump(session)

    def _begin(
        self, session: Session, link: Link, tag: bytes, settled: bool, context: object
    ) -> int:
        delivery_id = session.next_delivery_id
        session.next_delivery_id = (delivery_id + 1) & serial_mask
        if not settled:
            session.unsettled[delivery_id] = Delivery(link, delivery_id, tag, context)
        return delivery_id

    def pump(self, session: Session) -> None:
        """Write what waits, as far as the peer's window goes."""
        pending = session.pending
        while pending:
            first = pending[0]
            if not first.link.live:
                pending.popleft()
            elif isinstance(first, PendingDrain):
                pending.popleft()
                self._write_drained(first.link)
            elif session.remote_incoming_window <= 0:
                return
            elif self._write_part(session, first):
                pending.popleft()

    def _write_part(self, session: Session, transfer: PendingTransfer) -> bool:
        """One frame; whether it was the last one."""
        if transfer.delivery_id < 0:
            transfer.delivery_id = self._begin(
                session, transfer.link, transfer.tag, transfer.settled, transfer.context
            )
        performative = Transfer(
            transfer.link.handle,
            transfer.delivery_id,
            transfer.tag,
            transfer.message_format,
            transfer.settled,
        )
        body = encode_composite(performative)
        room = self.frame_bytes_out - frame_header.size - len(body)
        assert room > 0
        at = transfer.at
        end = at + room
        if end < len(transfer.payload):
            performative = Transfer(
                transfer.link.handle,
                transfer.delivery_id,
                transfer.tag,
                transfer.message_format,
                transfer.settled,
                more=True,
            )
            body = encode_composite(performative)  # as long as before: booleans take one byte
        transfer.at = end
        session.remote_incoming_window -= 1
        session.next_outgoing_id = (session.next_outgoing_id + 1) & serial_mask
        self._outbox.body(session.channel, body + transfer.payload[at:end])
        return end >= len(transfer.payload)

    def settle_received(self, command: SettleReceived) -> None:
        session = command.link.session
        if session.unsettled_in.pop(command.delivery_id, None) is None:
            return
        if session.state is _mapped:
            state = accepted_bytes if command.state is accepted else _state_bytes(command.state)
            self._outbox.settle(session, _receiver, command.delivery_id, state)

    def settle_sent(self, command: SettleSent) -> None:
        state = accepted_bytes if command.state is accepted else _state_bytes(command.state)
        for delivery in command.deliveries:
            session = delivery.link.session
            if session.unsettled.get(delivery.id) is not delivery:
                continue
            if command.forget:
                del session.unsettled[delivery.id]
            if session.state is _mapped:
                self._outbox.settle(session, _sender, delivery.id, state)

    def settle_unmatched(self, command: SettleUnmatched) -> None:
        session = command.session
        if session.state is _mapped:
            state = _state_bytes(command.state)
            self._outbox.settle_range(session, _sender, command.first, command.last, state)

    def complete_drain(self, link: Link) -> None:
        if not link.live or not link.sends:
            return
        link.drain = False
        if link.session.pending:
            link.session.pending.append(PendingDrain(link))
        else:
            self._write_drained(link)

    def _write_drained(self, link: Link) -> None:
        """Go's client wants `echo` false, all want it even if there was no credit left."""
        link.delivery_count = (link.delivery_count + link.credit) & serial_mask
        link.credit = 0
        self.write_flow(link.session, link, drain=True)

    # ---- flow

    def open_window(self, session: Session) -> None:
        session.incoming_window = self._limits.incoming_window_transfers
        self.write_flow(session, None)

    def write_flow(self, session: Session, link: Link | None, *, drain: bool = False) -> None:
        self._outbox.frame(
            session.channel,
            Flow(
                session.next_incoming_id,
                session.incoming_window,
                session.next_outgoing_id,
                self._limits.outgoing_window_transfers,
                None if link is None else link.handle,
                None if link is None else link.delivery_count,
                None if link is None else max(link.credit, 0),
                None if link is None else 0,
                drain,
            ),
        )

    def grant(self, link: Link, credit: int) -> None:
        if not link.live or link.sends:
            return
        session = link.session
        link.credit = credit
        self._outbox.raw(
            pack_credit(
                session.channel,
                session.next_incoming_id,
                session.incoming_window,
                session.next_outgoing_id,
                self._limits.outgoing_window_transfers,
                link.handle,
                link.delivery_count,
                credit,
            )
        )

    def flow(
        self,
        session: Session,
        next_incoming_id: int | None,
        incoming_window: int,
        handle: int | None,
        delivery_count: int | None,
        link_credit: int | None,
        drain: bool,
        echo: bool,
    ) -> None:
        """A flow from the peer (part 2, 2.5.6 and 2.6.7)."""
        was_full = session.remote_incoming_window <= 0 or bool(session.pending)
        seen = 1 if next_incoming_id is None else next_incoming_id
        in_flight = serial_distance(session.next_outgoing_id, seen)
        session.remote_incoming_window = incoming_window - in_flight
        if session.pending:
            self.pump(session)
        link = None
        if handle is not None:
            link = session.links.get(handle)
            if link is None:
                if handle in session.departed_handles:
                    return
                raise SessionFault(unattached_handle, "A flow is for no attached link.")
            self._link_flow(link, delivery_count, link_credit, drain, echo)
        elif echo:
            self.write_flow(session, None)
        if was_full and session.sendable():
            for other in session.links.values():
                if other is not link and other.sends and other.credit > 0 and other.live:
                    self._events.append(CreditGranted(other))

    def _link_flow(
        self,
        link: Link,
        delivery_count: int | None,
        link_credit: int | None,
        drain: bool,
        echo: bool,
    ) -> None:
        if link.state is not _attached and link.state is not _attach_received:
            return
        if link.sends:
            if link_credit is not None:
                used = serial_distance(link.delivery_count, delivery_count or 0)
                link.credit = max(link_credit - used, 0)
            link.drain = drain
            self._events.append(CreditGranted(link))
        if echo and not drain and link.live:
            self.write_flow(link.session, link)


def _state_bytes(state: DeliveryState) -> bytes:
    return accepted_bytes if isinstance(state, Accepted) else encode_composite(state)


def _known(table: dict[int, Delivery] | dict[int, Link], first: int, count: int) -> list[int]:
    """The ids of first..first+count-1 that are in `table`, in order; a range may be hostile."""
    if count == 1:
        return [first] if first in table else []
    if count <= len(table):
        return [
            number & serial_mask
            for number in range(first, first + count)
            if number & serial_mask in table
        ]
    inside = [number for number in table if (number - first) & serial_mask < count]
    inside.sort(key=lambda number: (number - first) & serial_mask)
    return inside


def _gaps(ids: list[int], first: int, last: int, unsent: int) -> list[tuple[int, int]]:
    """The runs between first and last that are not in `ids`, without ids never sent."""
    if serial_distance(last, unsent) >= 0:
        last = (unsent - 1) & serial_mask
    gaps: list[tuple[int, int]] = []
    at = first
    for number in ids:
        if serial_distance(number, at) > 0:
            gaps.append((at, (number - 1) & serial_mask))
        at = (number + 1) & serial_mask
    if serial_distance(last, at) >= 0:
        gaps.append((at, last))
    return gaps
