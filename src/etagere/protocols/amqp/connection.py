"""One AMQP 1.0 connection, seen from the server: the way into this package.

The caller hands in bytes as they come and the time, takes events until there are none, answers them
with commands, and writes out what `data_to_send` gives.  A peer's fault never comes out as an
exception: it closes the link, the session or the connection that it belongs to, with an event.
"""

import struct
from collections import deque
from typing import Final, assert_never

from etagere.base.clock import Timestamp, ticks_per_millisecond, ticks_per_second
from etagere.protocols.amqp.accepted import walk_accepted
from etagere.protocols.amqp.batches import Batches
from etagere.protocols.amqp.commands import (
    AcceptLink,
    AcceptReceived,
    CloseConnection,
    Command,
    CompleteDrain,
    DetachLink,
    EndSession,
    GrantCredit,
    RefuseLink,
    SaslDecision,
    SendTransfer,
    SendTransfers,
    SettleReceived,
    SettleSent,
    SettleUnmatched,
)
from etagere.protocols.amqp.errors import (
    AmqpFault,
    ConnectionFault,
    DecodeFault,
    LinkFault,
    SessionFault,
    connection_forced,
    framing_error,
    illegal_state,
    invalid_field,
)
from etagere.protocols.amqp.events import ConnectionClosed, ConnectionOpened, Event, SaslShown
from etagere.protocols.amqp.flows import walk_flow
from etagere.protocols.amqp.inbox import Inbox
from etagere.protocols.amqp.limits import Limits, frame_bytes_min
from etagere.protocols.amqp.outbox import Outbox, amqp_frame, heartbeat, sasl_frame
from etagere.protocols.amqp.outcomes import Error, accepted
from etagere.protocols.amqp.performatives import (
    Close,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    read_performative,
    read_sasl,
)
from etagere.protocols.amqp.runs import Runs
from etagere.protocols.amqp.sessions import Sessions
from etagere.protocols.amqp.states import (
    ConnectionEffect,
    ConnectionInput,
    ConnectionState,
    SaslEffect,
    SaslInput,
    SaslState,
    SessionState,
    connection_table,
    sasl_table,
)
from etagere.protocols.amqp.transfer_in import walk_transfer
from etagere.protocols.amqp.values import Symbol

header_bytes: Final = 8
amqp_header: Final = b"AMQP\x00\x01\x00\x00"
sasl_header: Final = b"AMQP\x03\x01\x00\x00"
_headers: Final = {
    amqp_header: ConnectionInput.amqp_header,
    sasl_header: ConnectionInput.sasl_header,
}
# Looking up a member of an Enum costs Python 3.11 as much as a whole step of a hot path.
_open: Final = ConnectionState.open
_closed: Final = ConnectionState.closed
_mapped: Final = SessionState.mapped
_expecting_header: Final = (ConnectionState.start, ConnectionState.secured)
_needing_response: Final = frozenset((Symbol("PLAIN"),))
sasl_ok: Final = 0
sasl_auth: Final = 1

default_mechanisms: Final = tuple(
    Symbol(name) for name in ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")
)
_read_header: Final = struct.Struct(">IBBH").unpack_from


class Connection:
    __slots__ = (
        "_batches",
        "_born",
        "_close_sent_at",
        "_container_id",
        "_deaf",
        "_events",
        "_fault",
        "_inbox",
        "_limits",
        "_mechanism",
        "_mechanisms",
        "_now",
        "_outbox",
        "_peer_idle_ticks",
        "_received_at",
        "_runs",
        "_sasl",
        "_sasl_hostname",
        "_sent_at",
        "_sessions",
        "_state",
    )

    def __init__(
        self,
        container_id: str,
        limits: Limits,
        now: Timestamp,
        mechanisms: tuple[Symbol, ...] = default_mechanisms,
    ) -> None:
        self._container_id = container_id
        self._limits = limits
        self._mechanisms = mechanisms
        self._state = ConnectionState.start
        self._sasl = SaslState.offered
        self._mechanism = Symbol("")
        self._sasl_hostname: str | None = None
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._events: deque[Event] = deque()
        self._sessions = Sessions(limits, self._outbox, self._events)
        self._runs = Runs(limits, self._sessions.mapped, self._events)
        self._batches = Batches(self._outbox, self._sessions.deliveries)
        self._now = now
        self._born = now
        self._received_at = now
        self._sent_at = now
        self._close_sent_at = now
        self._peer_idle_ticks = 0
        self._fault: Error | None = None
        self._deaf = False
        """What comes cannot be told apart into frames any more."""

    # ---- the surface

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def finished(self) -> bool:
        """Nothing more will be said or heard: write out what is left, then close the transport."""
        return self._state is _closed

    def receive_data(self, data: bytes, now: Timestamp) -> None:
        self._now = now
        self._received_at = now
        if self._deaf or self._state is ConnectionState.closed:
            return
        buffer = self._inbox.push(data)
        if buffer:
            self._parse(buffer)

    def receive_eof(self, now: Timestamp) -> None:
        """The peer will send nothing more; all that it sent has been handed in."""
        self._now = now
        self._connection_input(ConnectionInput.end_of_input)

    def next_event(self) -> Event | None:
        events = self._events
        return events.popleft() if events else None

    def send(self, command: Command) -> None:
        if isinstance(command, SendTransfer):  # the commonest first
            self._sessions.deliveries.send(command)
            return
        match command:
            case SendTransfers():
                self._batches.send(command)
            case AcceptReceived():
                self._batches.accept(command)
            case SettleReceived():
                self._sessions.deliveries.settle_received(command)
            case SettleSent() if len(command.deliveries) > 1:
                self._batches.settle_sent(command)
            case SettleSent():
                self._sessions.deliveries.settle_sent(command)
            case GrantCredit():
                self._sessions.deliveries.grant(command.link, command.credit)
            case SettleUnmatched():
                self._sessions.deliveries.settle_unmatched(command)
            case CompleteDrain():
                self._sessions.deliveries.complete_drain(command.link)
            case AcceptLink():
                self._sessions.accept(command)
            case RefuseLink():
                self._sessions.refuse(command)
            case DetachLink():
                self._sessions.detach(command.link, command.error)
            case EndSession():
                self._sessions.end(command.session, command.error)
            case CloseConnection():
                self._close(ConnectionInput.close_command, command.error)
            case SaslDecision():
                self._sasl_input(SaslInput.approved if command.approved else SaslInput.denied)
            case _:
                assert_never(command)

    def data_to_send(self) -> bytes:
        data = self._outbox.take()
        if data:
            self._sent_at = self._now
        return data

    def get_timer(self) -> Timestamp | None:
        """When `handle_timer` wants to be called next."""
        match self._state:
            case ConnectionState.closed:
                return None
            case ConnectionState.close_sent:
                return self._after(self._close_sent_at, self._limits.close_seconds_max)
            case ConnectionState.open:
                silent = self._received_at + self._silence_ticks()
                if self._peer_idle_ticks == 0:
                    return Timestamp(silent)
                return Timestamp(min(silent, self._sent_at + (self._peer_idle_ticks >> 1)))
            case _:
                return self._after(self._born, self._limits.handshake_seconds_max)

    def handle_timer(self, now: Timestamp) -> None:
        self._now = now
        due = self.get_timer()
        if due is None or now < due:
            return
        if self._state is ConnectionState.open:
            if now >= self._received_at + self._silence_ticks():
                self._close(
                    ConnectionInput.fault, Error(connection_forced, "Nothing came for too long.")
                )
            else:
                self._outbox.raw(heartbeat)
        else:
            self._close(
                ConnectionInput.fault, Error(connection_forced, "The handshake took too long.")
            )

    # ---- bytes

    def _after(self, since: Timestamp, seconds: int) -> Timestamp:
        return Timestamp(since + seconds * ticks_per_second)

    def _silence_ticks(self) -> int:
        """Twice what we announced (part 2, 2.4.5 leaves room for a late frame)."""
        return 2 * self._limits.idle_timeout_milliseconds * ticks_per_millisecond

    def _parse(self, buffer: bytes) -> None:
        at = 0
        need = header_bytes
        while len(buffer) - at >= header_bytes:
            if self._state in _expecting_header:
                self._header(buffer[at : at + header_bytes])
                at += header_bytes
            elif self._state is ConnectionState.sasl:
                if self._sasl is SaslState.judging:
                    need = 0  # what follows the proof waits for the verdict
                    if len(buffer) - at > self._limits.frame_bytes_in_max:
                        self._framing_fault("Too much was sent before the verdict.")
                    break
                taken = self._sasl_frame(buffer, at)
                if taken == 0:
                    need = _read_header(buffer, at)[0]
                    break
                at += taken
            elif self._state is ConnectionState.closed:
                return
            else:
                at, need = self._frames(buffer, at)
                break
        if self._deaf or self._state is ConnectionState.closed:
            return
        self._inbox.keep(buffer[at:], need)

    def _resume(self) -> None:
        """Parse what waited for a verdict."""
        if len(self._inbox):
            buffer = self._inbox.push(b"")
            if buffer:
                self._parse(buffer)

    def _frames(self, buffer: bytes, at: int) -> tuple[int, int]:
        """(what was used up, bytes that the next frame takes in all)."""
        length = len(buffer)
        frame_bytes_max = self._limits.frame_bytes_in_max
        mapped = self._sessions.mapped
        deliveries = self._sessions.deliveries
        runs = self._runs
        while length - at >= header_bytes:
            if self._state is _open and (run_end := runs.take(buffer, at, length)) > at:
                at = run_end
                continue
            size, offset, kind, channel = _read_header(buffer, at)
            if size > frame_bytes_max:
                self._framing_fault("A frame is larger than the maximum.")
                return at, 0
            body = at + offset * 4
            end = at + size
            if offset < 2 or body > end or kind != amqp_frame:
                self._framing_fault("A frame's header is not one of AMQP.")
                return at, 0
            if end > length:
                return at, size
            at = end
            if body == end:
                continue  # a heartbeat
            try:
                session = mapped.get(channel)
                if (
                    session is not None
                    and session.state is _mapped
                    and self._state is _open
                    and buffer.startswith(b"\x00\x53", body)
                    and body + 3 < end
                ):
                    code = buffer[body + 2]
                    if code == 0x14:
                        transfer = walk_transfer(buffer, body + 3, end)
                        if transfer is not None:
                            handle, number, tag, form, settled, more, payload = transfer
                            if not more:
                                link = deliveries.received_whole(
                                    session, handle, number, tag, form, settled, buffer[payload:end]
                                )
                                if link is not None:
                                    if offset == 2:
                                        runs.walked_transfer(
                                            link, handle, form, settled, buffer, body - 8, payload
                                        )
                                    continue
                            deliveries.received(
                                session,
                                handle,
                                number,
                                tag,
                                form,
                                settled,
                                more,
                                buffer,
                                payload,
                                end,
                            )
                            continue
                    elif code == 0x15:
                        outcome = walk_accepted(buffer, body + 3, end)
                        if outcome is not None:
                            role, first, last, settled = outcome
                            if role and first == last and offset == 2:
                                runs.walked_accepted(session, settled, buffer, body - 8, end)
                            deliveries.disposed(session, role, first, last, settled, accepted)
                            continue
                    elif code == 0x13:
                        flow = walk_flow(buffer, body + 3, end)
                        if flow is not None:
                            seen, window, _, _, target, count, credit, _, drain, echo = flow
                            deliveries.flow(
                                session, seen, window, target, count, credit, drain, echo
                            )
                            continue
                self._frame(buffer, body, end, channel)
            except AmqpFault as fault:
                self._blame(fault, channel)
            if self._deaf or self._state is _closed:
                return at, 0
        return at, header_bytes

    def _frame(self, buffer: bytes, at: int, end: int, channel: int) -> None:
        """The table-driven path, for any performative."""
        performative, payload = read_performative(buffer, at, end)
        if isinstance(performative, Open):
            if performative.max_frame_size < frame_bytes_min:
                raise ConnectionFault(invalid_field, "The maximum frame size is below 512 bytes.")
            self._connection_input(ConnectionInput.open, opened=performative)
        elif isinstance(performative, Close):
            self._connection_input(ConnectionInput.close, error=performative.error)
        elif self._connection_input(ConnectionInput.frame) is ConnectionEffect.dispatch:
            self._sessions.dispatch(channel, performative, buffer, payload, end)

    def _framing_fault(self, description: str) -> None:
        self._deaf = True
        self._close(ConnectionInput.fault, Error(framing_error, description))

    def _blame(self, fault: AmqpFault, channel: int) -> None:
        """The one place that decides how far a peer's fault reaches."""
        error = Error(fault.condition, fault.description)
        if isinstance(fault, LinkFault):
            self._sessions.fail_link(channel, fault.handle, error)
        elif isinstance(fault, SessionFault):
            self._sessions.fail_session(channel, error)
        else:
            self._close(ConnectionInput.fault, error)

    # ---- the connection's lifecycle

    def _header(self, header: bytes) -> None:
        self._connection_input(_headers.get(header, ConnectionInput.other_header))

    def _close(self, happened: ConnectionInput, error: Error | None) -> None:
        self._connection_input(happened, error=error)

    def _connection_input(
        self,
        happened: ConnectionInput,
        *,
        error: Error | None = None,
        opened: Open | None = None,
    ) -> ConnectionEffect:
        effect, self._state = connection_table[self._state, happened]
        match effect:
            case ConnectionEffect.offer_mechanisms:
                self._outbox.raw(sasl_header)
                self._outbox.frame(0, SaslMechanisms(self._mechanisms), sasl_frame)
            case ConnectionEffect.answer_header:
                self._outbox.raw(amqp_header)
            case ConnectionEffect.decline_header:
                self._outbox.raw(sasl_header)
                self._report_closed(None, orderly=False)
            case ConnectionEffect.answer_open:
                assert opened is not None
                self._opened(opened)
            case ConnectionEffect.answer_close:
                self._outbox.flush_runs()
                self._sessions.end_all(error, orderly=True)
                self._outbox.frame(0, Close())
                self._report_closed(error, orderly=True)
            case ConnectionEffect.refuse:
                raise ConnectionFault(illegal_state, "A frame came out of order.")
            case ConnectionEffect.send_close:
                self._outbox.flush_runs()
                self._fault = error if happened is ConnectionInput.fault else None
                self._close_sent_at = self._now
                self._sessions.end_all(error, orderly=happened is not ConnectionInput.fault)
                self._outbox.frame(0, Close(error))
            case ConnectionEffect.send_open_and_close:
                self._write_open()
                self._outbox.frame(0, Close(error))
                self._report_closed(error, orderly=False)
            case ConnectionEffect.drop:
                self._report_closed(error, orderly=False)
            case ConnectionEffect.report_end:
                self._report_closed(self._fault, orderly=self._fault is None)
            case ConnectionEffect.report_loss:
                self._sessions.end_all(None, orderly=False)
                self._report_closed(None, orderly=False)
            case ConnectionEffect.dispatch | ConnectionEffect.none:
                pass
            case _:
                assert_never(effect)
        return effect

    def _opened(self, opened: Open) -> None:
        self._sessions.deliveries.frame_bytes_out = min(
            opened.max_frame_size, self._limits.frame_bytes_out_max
        )
        self._peer_idle_ticks = (opened.idle_time_out or 0) * ticks_per_millisecond
        self._write_open()
        self._events.append(ConnectionOpened(opened))

    def _write_open(self) -> None:
        self._outbox.frame(
            0,
            Open(
                self._container_id,
                max_frame_size=self._limits.frame_bytes_in_max,
                channel_max=self._limits.channel_max,
                idle_time_out=self._limits.idle_timeout_milliseconds,
            ),
        )

    def _report_closed(self, error: Error | None, *, orderly: bool) -> None:
        self._events.append(ConnectionClosed(error, orderly))

    # ---- SASL

    def _sasl_frame(self, buffer: bytes, at: int) -> int:
        """Bytes used; 0 if the frame is not whole."""
        size: int
        size, offset, kind, _ = _read_header(buffer, at)
        body = at + offset * 4
        end = at + size
        if size > self._limits.frame_bytes_in_max or offset < 2 or body > end or kind != sasl_frame:
            self._framing_fault("A frame's header is not one of SASL.")
            return size
        if end > len(buffer):
            return 0
        try:
            frame = read_sasl(buffer, body, end)
            if isinstance(frame, SaslInit):
                self._mechanism = frame.mechanism
                self._sasl_hostname = frame.hostname
                response = frame.initial_response
                if frame.mechanism not in self._mechanisms:
                    self._sasl_input(SaslInput.init_unknown)
                elif response is None and frame.mechanism in _needing_response:
                    self._sasl_input(SaslInput.init_without_response)
                else:
                    self._sasl_input(SaslInput.init, response or b"")
            elif isinstance(frame, SaslResponse):
                self._sasl_input(SaslInput.response, frame.response)
            else:
                self._sasl_input(SaslInput.other)
        except DecodeFault as fault:
            self._close(ConnectionInput.fault, Error(fault.condition, fault.description))
        return size

    def _sasl_input(self, happened: SaslInput, response: bytes = b"") -> None:
        effect, self._sasl = sasl_table[self._sasl, happened]
        match effect:
            case SaslEffect.ask_caller:
                self._events.append(SaslShown(self._mechanism, response, self._sasl_hostname))
            case SaslEffect.challenge:
                self._outbox.frame(0, SaslChallenge(b""), sasl_frame)
            case SaslEffect.succeed:
                if self._state is ConnectionState.sasl:
                    self._outbox.frame(0, SaslOutcome(sasl_ok), sasl_frame)
                    self._connection_input(ConnectionInput.sasl_succeeded)
                    self._resume()
            case SaslEffect.fail:
                if self._state is ConnectionState.sasl:
                    self._outbox.frame(0, SaslOutcome(sasl_auth), sasl_frame)
                    self._connection_input(ConnectionInput.sasl_failed)
            case SaslEffect.refuse:
                self._close(
                    ConnectionInput.fault, Error(illegal_state, "A SASL frame came out of order.")
                )
            case SaslEffect.none:
                pass
            case _:
                assert_never(effect)
