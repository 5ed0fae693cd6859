"""Sessions and links of one connection: begin and end, attach and detach, and who gets a frame."""

from collections import deque
from typing import Final, assert_never

from etagere.protocols.amqp.commands import AcceptLink, RefuseLink
from etagere.protocols.amqp.deliveries import Deliveries
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.errors import (
    ConnectionFault,
    LinkFault,
    SessionFault,
    framing_error,
    handle_in_use,
    illegal_state,
    invalid_field,
    not_allowed,
    resource_limit_exceeded,
    unattached_handle,
)
from etagere.protocols.amqp.events import (
    Event,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SessionBegun,
    SessionEnded,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.links import Link, Session
from etagere.protocols.amqp.outbox import Outbox
from etagere.protocols.amqp.outcomes import Error
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from etagere.protocols.amqp.states import (
    LinkEffect,
    LinkInput,
    LinkState,
    SessionEffect,
    SessionInput,
    SessionState,
    link_table,
    session_table,
)
from etagere.protocols.amqp.values import UInt

SessionFrame = Begin | Attach | Flow | Transfer | Disposition | Detach | End

_unmapped: Final = SessionState.unmapped


class Sessions:
    __slots__ = (
        "_departed_channels",
        "_events",
        "_limits",
        "_link_count",
        "_outbox",
        "deliveries",
        "mapped",
    )

    def __init__(self, limits: Limits, outbox: Outbox, events: deque[Event]) -> None:
        self._limits = limits
        self._outbox = outbox
        self._events = events
        self.deliveries = Deliveries(limits, outbox, events)
        self.mapped: dict[int, Session] = {}
        self._departed_channels: set[int] = set()
        self._link_count = 0

    # ---- frames

    def dispatch(self, channel: int, frame: SessionFrame, buffer: bytes, at: int, end: int) -> None:
        if isinstance(frame, Begin):
            self._session_input(channel, SessionInput.begin, begin=frame)
            return
        if channel not in self.mapped and channel in self._departed_channels:
            return  # pyAMQP goes on writing on a channel that it has ended
        if isinstance(frame, End):
            self._session_input(channel, SessionInput.end, error=frame.error)
            return
        if self._session_input(channel, SessionInput.frame) is not SessionEffect.dispatch:
            return
        session = self.mapped[channel]
        match frame:
            case Transfer():
                self.deliveries.received(
                    session,
                    frame.handle,
                    frame.delivery_id,
                    frame.delivery_tag,
                    frame.message_format or 0,
                    bool(frame.settled),
                    frame.more,
                    buffer,
                    at,
                    end,
                    frame.state,
                    frame.aborted,
                    frame.resume,
                )
            case Disposition():
                last = frame.first if frame.last is None else frame.last
                self.deliveries.disposed(
                    session, frame.role, frame.first, last, frame.settled, frame.state
                )
            case Flow():
                self.deliveries.flow(
                    session,
                    frame.next_incoming_id,
                    frame.incoming_window,
                    frame.handle,
                    frame.delivery_count,
                    frame.link_credit,
                    frame.drain,
                    frame.echo,
                )
            case Attach():
                self._attach(session, frame)
            case Detach():
                self._detach(session, frame)
            case _:
                assert_never(frame)

    # ---- sessions

    def _session_input(
        self,
        channel: int,
        happened: SessionInput,
        *,
        begin: Begin | None = None,
        error: Error | None = None,
    ) -> SessionEffect:
        session = self.mapped.get(channel)
        state = _unmapped if session is None else session.state
        effect, following = session_table[state, happened]
        match effect:
            case SessionEffect.answer_begin:
                assert begin is not None
                self._begin(channel, begin)
            case SessionEffect.answer_end:
                assert session is not None
                self._outbox.flush_run(session)
                self._answer_detaches(session)
                self._forget(session, error, orderly=True)
                self._outbox.frame(channel, End())
            case SessionEffect.send_end:
                assert session is not None
                session.state = following
                self._outbox.flush_run(session)
                self._report_ended(session, error, orderly=happened is SessionInput.end_command)
                self._outbox.frame(channel, End(error))
            case SessionEffect.forget:
                del self.mapped[channel]
                self._departed_channels.add(channel)
            case SessionEffect.refuse:
                if happened is SessionInput.begin:
                    raise ConnectionFault(not_allowed, "A channel was begun twice.")
                raise ConnectionFault(framing_error, "A frame is for a channel that was not begun.")
            case SessionEffect.dispatch | SessionEffect.none:
                pass
            case _:
                assert_never(effect)
        return effect

    def _begin(self, channel: int, begin: Begin) -> None:
        if channel > self._limits.channel_max:
            raise ConnectionFault(framing_error, "A channel is above the agreed maximum.")
        if begin.remote_channel is not None:
            raise ConnectionFault(invalid_field, "A begin answers one that was never sent.")
        session = Session(channel)
        session.state = SessionState.mapped
        session.next_incoming_id = begin.next_outgoing_id
        session.incoming_window = self._limits.incoming_window_transfers
        session.remote_incoming_window = begin.incoming_window
        self.mapped[channel] = session
        self._departed_channels.discard(channel)
        self._outbox.frame(
            channel,
            Begin(
                channel,
                session.next_outgoing_id,
                session.incoming_window,
                self._limits.outgoing_window_transfers,
                self._limits.handle_max,
            ),
        )
        self._events.append(SessionBegun(session))

    def _answer_detaches(self, session: Session) -> None:
        """Who ends a session with the links that it has just detached may still wait for them."""
        for link in session.links.values():
            if link.state is LinkState.detach_received:
                self._outbox.frame(session.channel, Detach(link.handle, closed=True))

    def _forget(self, session: Session, error: Error | None, *, orderly: bool) -> None:
        session.state = _unmapped
        del self.mapped[session.channel]
        self._departed_channels.add(session.channel)
        self._report_ended(session, error, orderly=orderly)

    def _report_ended(self, session: Session, error: Error | None, *, orderly: bool) -> None:
        """Its links go with it; those whose detach the peer waits for need no other answer."""
        links = [link for link in session.links.values() if link.state is not LinkState.detach_sent]
        for link in session.links.values():
            self.deliveries.drop_partial(link)
            link.state = LinkState.detached
            self._link_count -= 1
        session.links.clear()
        session.pending.clear()
        session.unsettled.clear()
        session.unsettled_in.clear()
        self._events.append(SessionEnded(session, links, error, orderly))

    def end(self, session: Session, error: Error | None) -> None:
        """Our own wish."""
        if self.mapped.get(session.channel) is session:
            self._session_input(session.channel, SessionInput.end_command, error=error)

    def fail_session(self, channel: int, error: Error) -> None:
        """The peer broke a rule."""
        self._session_input(channel, SessionInput.fault, error=error)

    def end_all(self, error: Error | None, *, orderly: bool) -> None:
        """The connection is over; nothing is written."""
        for session in list(self.mapped.values()):
            if session.state is SessionState.mapped:
                session.state = _unmapped
                self._report_ended(session, error, orderly=orderly)
        self.mapped.clear()

    # ---- links

    def _attach(self, session: Session, attach: Attach) -> None:
        handle = attach.handle
        if handle > self._limits.handle_max:
            raise ConnectionFault(framing_error, "A handle is above the agreed maximum.")
        link = session.links.get(handle)
        state = LinkState.detached if link is None else link.state
        effect, following = link_table[state, LinkInput.attach]
        match effect:
            case LinkEffect.ask_caller:
                pass
            case LinkEffect.forget_and_ask:
                assert link is not None
                self._drop(link)
            case LinkEffect.answer_and_ask:
                assert link is not None
                self._outbox.flush_run(session)
                self._outbox.frame(session.channel, Detach(handle, closed=True))
                self._drop(link)
            case _:
                raise SessionFault(handle_in_use, "A handle was attached twice.")
        link = Link(session, attach)
        link.state = following
        link.handle_bytes = encode(UInt(handle))
        link.max_message_size = self._limits.message_bytes_default
        if not link.sends:
            link.delivery_count = attach.initial_delivery_count or 0
        session.links[handle] = link
        session.departed_handles.discard(handle)
        self._link_count += 1
        if self._link_count > self._limits.links_per_connection_max:
            raise ConnectionFault(resource_limit_exceeded, "Too many links on a connection.")
        if attach.snd_settle_mode > 2 or attach.rcv_settle_mode > 1:
            raise LinkFault(invalid_field, "A settle mode is unknown.", handle)
        self._events.append(LinkAttached(link, attach))

    def _drop(self, link: Link) -> None:
        """With its deliveries: links are not resumed, nobody can settle them any more."""
        self.deliveries.forget(link)
        link.state = LinkState.detached
        link.session.links.pop(link.handle, None)
        link.session.departed_handles.add(link.handle)
        self._link_count -= 1

    def _detach(self, session: Session, frame: Detach) -> None:
        link = session.links.get(frame.handle)
        if link is None:
            if frame.handle in session.departed_handles:
                return
            raise SessionFault(unattached_handle, "A detach is for no attached link.")
        effect, following = link_table[link.state, LinkInput.detach]
        link.state = following
        match effect:
            case LinkEffect.withdraw:
                self._drop(link)
                self._events.append(LinkDetached(link, frame.closed, frame.error, withdrawn=True))
            case LinkEffect.report_detach:
                self.deliveries.drop_partial(link)
                self._events.append(LinkDetached(link, frame.closed, frame.error))
            case LinkEffect.forget:
                self._drop(link)
            case _:
                assert effect is LinkEffect.none

    def accept(self, command: AcceptLink) -> None:
        link = command.link
        if self._link_command(link, LinkInput.accept) is not LinkEffect.send_attach:
            return
        attach = link.attach
        if not link.sends and command.max_message_size is not None:
            link.max_message_size = command.max_message_size
        self._outbox.frame(
            link.session.channel,
            Attach(
                attach.name,
                attach.handle,
                not attach.role,
                attach.snd_settle_mode,
                attach.rcv_settle_mode,
                command.source,
                command.target,
                initial_delivery_count=0 if link.sends else None,
                max_message_size=command.max_message_size,
                offered_capabilities=command.offered_capabilities,
                properties=command.properties,
            ),
        )

    def refuse(self, command: RefuseLink) -> None:
        link = command.link
        if self._link_command(link, LinkInput.reject) is LinkEffect.send_attach_and_detach:
            self._write_refusal(link, command.error)

    def _write_refusal(self, link: Link, error: Error) -> None:
        """An attach without termini, then why (part 2, 2.6.3).

        Only ours has to be null; Azure's own client in Go waits for the reason if both are.
        """
        attach = link.attach
        channel = link.session.channel
        self._outbox.frame(
            channel,
            Attach(
                attach.name,
                attach.handle,
                not attach.role,
                attach.snd_settle_mode,
                attach.rcv_settle_mode,
                None,
                None,
                initial_delivery_count=0 if link.sends else None,
            ),
        )
        self._outbox.frame(channel, Detach(attach.handle, closed=True, error=error))

    def detach(self, link: Link, error: Error | None) -> None:
        """Our own wish, or the answer to the peer's."""
        effect = self._link_command(link, LinkInput.detach_command)
        session = link.session
        match effect:
            case LinkEffect.send_detach:
                self.deliveries.drop_partial(link)
                self._outbox.flush_run(session)
                self._outbox.frame(session.channel, Detach(link.handle, closed=True, error=error))
            case LinkEffect.answer_detach:
                self._outbox.flush_run(session)
                self._outbox.frame(session.channel, Detach(link.handle, closed=True, error=error))
                self._drop(link)
            case LinkEffect.send_attach_and_detach:
                self._write_refusal(link, error or Error(illegal_state, "The link was detached."))
            case _:
                assert effect is LinkEffect.none

    def fail_link(self, channel: int, handle: int, error: Error) -> None:
        """The peer broke a rule on a link."""
        session = self.mapped[channel]
        link = session.links[handle]
        effect, link.state = link_table[link.state, LinkInput.fault]
        match effect:
            case LinkEffect.send_attach_and_detach:
                self._write_refusal(link, error)
            case LinkEffect.send_detach:
                self._outbox.flush_run(session)
                self._outbox.frame(channel, Detach(handle, closed=True, error=error))
            case _:
                assert effect is LinkEffect.none
                return
        self.deliveries.drop_partial(link)
        self._events.append(LinkFailed(link, error))

    def _link_command(self, link: Link, happened: LinkInput) -> LinkEffect:
        effect, link.state = link_table[link.state, happened]
        return effect
