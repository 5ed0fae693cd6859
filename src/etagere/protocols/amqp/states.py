"""The lifecycles of a connection, its SASL exchange, its sessions and links, as tables.

Each table maps (state, input) to (effect, next state).  Effects are names; `connection` has the
function for each.  A pair that is missing is a mistake of ours and raises; what a peer must not do
stands in the table as `refuse`.  Reference: AMQP 1.0 part 2, 2.4.6, 2.5.5, 2.6; part 5, 5.3.
"""

from enum import Enum, auto
from typing import Final


class ConnectionState(Enum):
    start = auto()
    """Nothing has come yet."""
    sasl = auto()
    """SASL's header was exchanged; `SaslState` says how far its exchange is."""
    secured = auto()
    """SASL succeeded; nothing may be written until the peer's AMQP header has come."""
    headers = auto()
    """AMQP's header was exchanged."""
    open = auto()
    close_sent = auto()
    """We closed; what comes is discarded until the answer."""
    closed = auto()


class ConnectionInput(Enum):
    amqp_header = auto()
    sasl_header = auto()
    other_header = auto()
    """TLS by upgrade, another version, or no AMQP at all."""
    sasl_succeeded = auto()
    sasl_failed = auto()
    open = auto()
    frame = auto()
    """A performative of a session: begin to end."""
    close = auto()
    end_of_input = auto()
    fault = auto()
    """The peer broke a rule that the connection depends on, or fell silent."""
    close_command = auto()


class ConnectionEffect(Enum):
    none = auto()
    offer_mechanisms = auto()
    answer_header = auto()
    decline_header = auto()
    answer_open = auto()
    dispatch = auto()
    answer_close = auto()
    refuse = auto()
    """A frame out of order: becomes a `fault`."""
    send_close = auto()
    send_open_and_close = auto()
    """Before `open` a close alone would not be understood (2.4.1)."""
    drop = auto()
    """Nothing more can be said."""
    report_end = auto()
    report_loss = auto()


class SaslState(Enum):
    offered = auto()
    challenged = auto()
    judging = auto()
    """The caller decides about what the peer showed."""
    done = auto()


class SaslInput(Enum):
    init = auto()
    init_without_response = auto()
    """A mechanism that needs a response came without an initial one."""
    init_unknown = auto()
    """A mechanism that was not offered."""
    response = auto()
    other = auto()
    approved = auto()
    denied = auto()


class SaslEffect(Enum):
    ask_caller = auto()
    challenge = auto()
    succeed = auto()
    fail = auto()
    refuse = auto()
    none = auto()


class SessionState(Enum):
    unmapped = auto()
    mapped = auto()
    end_sent = auto()


class SessionInput(Enum):
    begin = auto()
    frame = auto()
    end = auto()
    fault = auto()
    end_command = auto()


class SessionEffect(Enum):
    answer_begin = auto()
    dispatch = auto()
    answer_end = auto()
    send_end = auto()
    forget = auto()
    none = auto()
    refuse = auto()


class LinkState(Enum):
    detached = auto()
    attach_received = auto()
    """The caller decides whether to accept."""
    attached = auto()
    detach_received = auto()
    """The caller may still settle; then it answers."""
    detach_sent = auto()


class LinkInput(Enum):
    attach = auto()
    frame = auto()
    """Flow, transfer or disposition."""
    detach = auto()
    fault = auto()
    accept = auto()
    reject = auto()
    detach_command = auto()


class LinkEffect(Enum):
    ask_caller = auto()
    refuse = auto()
    send_attach = auto()
    send_attach_and_detach = auto()
    """A refusal: a null terminus, then the reason (2.6.3)."""
    dispatch = auto()
    withdraw = auto()
    """The peer left before it had an answer: it gets none, an unknown handle would confuse it."""
    report_detach = auto()
    answer_detach = auto()
    send_detach = auto()
    forget = auto()
    forget_and_ask = auto()
    """The peer took the handle again without answering our detach."""
    answer_and_ask = auto()
    """The peer took the handle again without waiting for our answer to its detach."""
    none = auto()


_C = ConnectionState
_CI = ConnectionInput
_CE = ConnectionEffect

connection_table: Final[
    dict[tuple[ConnectionState, ConnectionInput], tuple[ConnectionEffect, ConnectionState]]
] = {
    (_C.start, _CI.amqp_header): (_CE.answer_header, _C.headers),
    (_C.start, _CI.sasl_header): (_CE.offer_mechanisms, _C.sasl),
    (_C.start, _CI.other_header): (_CE.decline_header, _C.closed),
    (_C.start, _CI.end_of_input): (_CE.report_loss, _C.closed),
    (_C.start, _CI.fault): (_CE.drop, _C.closed),
    (_C.start, _CI.close_command): (_CE.drop, _C.closed),
    (_C.sasl, _CI.sasl_succeeded): (_CE.none, _C.secured),
    (_C.sasl, _CI.sasl_failed): (_CE.drop, _C.closed),
    (_C.sasl, _CI.end_of_input): (_CE.report_loss, _C.closed),
    (_C.sasl, _CI.fault): (_CE.drop, _C.closed),
    (_C.sasl, _CI.close_command): (_CE.drop, _C.closed),
    (_C.secured, _CI.amqp_header): (_CE.answer_header, _C.headers),
    (_C.secured, _CI.sasl_header): (_CE.decline_header, _C.closed),
    (_C.secured, _CI.other_header): (_CE.decline_header, _C.closed),
    (_C.secured, _CI.end_of_input): (_CE.report_loss, _C.closed),
    (_C.secured, _CI.fault): (_CE.drop, _C.closed),
    (_C.secured, _CI.close_command): (_CE.drop, _C.closed),
    (_C.headers, _CI.open): (_CE.answer_open, _C.open),
    (_C.headers, _CI.frame): (_CE.refuse, _C.headers),
    (_C.headers, _CI.close): (_CE.refuse, _C.headers),
    (_C.headers, _CI.end_of_input): (_CE.report_loss, _C.closed),
    (_C.headers, _CI.fault): (_CE.send_open_and_close, _C.closed),
    (_C.headers, _CI.close_command): (_CE.send_open_and_close, _C.closed),
    (_C.open, _CI.open): (_CE.refuse, _C.open),
    (_C.open, _CI.frame): (_CE.dispatch, _C.open),
    (_C.open, _CI.close): (_CE.answer_close, _C.closed),
    (_C.open, _CI.end_of_input): (_CE.report_loss, _C.closed),
    (_C.open, _CI.fault): (_CE.send_close, _C.close_sent),
    (_C.open, _CI.close_command): (_CE.send_close, _C.close_sent),
    (_C.close_sent, _CI.open): (_CE.none, _C.close_sent),
    (_C.close_sent, _CI.frame): (_CE.none, _C.close_sent),
    (_C.close_sent, _CI.close): (_CE.report_end, _C.closed),
    (_C.close_sent, _CI.end_of_input): (_CE.report_end, _C.closed),
    (_C.close_sent, _CI.fault): (_CE.report_end, _C.closed),
    (_C.close_sent, _CI.close_command): (_CE.none, _C.close_sent),
    (_C.closed, _CI.end_of_input): (_CE.none, _C.closed),
    (_C.closed, _CI.fault): (_CE.none, _C.closed),
    (_C.closed, _CI.close_command): (_CE.none, _C.closed),
    (_C.closed, _CI.sasl_succeeded): (_CE.none, _C.closed),
    (_C.closed, _CI.sasl_failed): (_CE.none, _C.closed),
}
"""Headers come only before `headers`, performatives only from it on: `unreachable` has the rest."""

connection_unreachable: Final = frozenset(
    {
        (state, happened)
        for state in (_C.start, _C.sasl, _C.secured)
        for happened in (_CI.open, _CI.frame, _CI.close)
    }
    | {
        (state, happened)
        for state in (_C.headers, _C.open, _C.close_sent, _C.sasl)
        for happened in (_CI.amqp_header, _CI.sasl_header, _CI.other_header)
    }
    | {
        (state, happened)
        for state in (_C.start, _C.secured, _C.headers, _C.open, _C.close_sent)
        for happened in (_CI.sasl_succeeded, _CI.sasl_failed)
    }
    | {
        (_C.closed, happened)
        for happened in (
            _CI.amqp_header,
            _CI.sasl_header,
            _CI.other_header,
            _CI.open,
            _CI.frame,
            _CI.close,
        )
    }
    | {(_C.headers, _CI.sasl_succeeded), (_C.headers, _CI.sasl_failed)}
)
"""Pairs that the reader of bytes cannot produce: the state decides what it looks for."""

_S = SaslState
_SI = SaslInput
_SE = SaslEffect

sasl_table: Final[dict[tuple[SaslState, SaslInput], tuple[SaslEffect, SaslState]]] = {
    (_S.offered, _SI.init): (_SE.ask_caller, _S.judging),
    (_S.offered, _SI.init_without_response): (_SE.challenge, _S.challenged),
    (_S.offered, _SI.init_unknown): (_SE.fail, _S.done),
    (_S.offered, _SI.response): (_SE.refuse, _S.offered),
    (_S.offered, _SI.other): (_SE.refuse, _S.offered),
    (_S.offered, _SI.approved): (_SE.none, _S.offered),
    (_S.offered, _SI.denied): (_SE.none, _S.offered),
    (_S.challenged, _SI.init): (_SE.refuse, _S.challenged),
    (_S.challenged, _SI.init_without_response): (_SE.refuse, _S.challenged),
    (_S.challenged, _SI.init_unknown): (_SE.refuse, _S.challenged),
    (_S.challenged, _SI.response): (_SE.ask_caller, _S.judging),
    (_S.challenged, _SI.other): (_SE.refuse, _S.challenged),
    (_S.challenged, _SI.approved): (_SE.none, _S.challenged),
    (_S.challenged, _SI.denied): (_SE.none, _S.challenged),
    (_S.judging, _SI.init): (_SE.refuse, _S.judging),
    (_S.judging, _SI.init_without_response): (_SE.refuse, _S.judging),
    (_S.judging, _SI.init_unknown): (_SE.refuse, _S.judging),
    (_S.judging, _SI.response): (_SE.refuse, _S.judging),
    (_S.judging, _SI.other): (_SE.refuse, _S.judging),
    (_S.judging, _SI.approved): (_SE.succeed, _S.done),
    (_S.judging, _SI.denied): (_SE.fail, _S.done),
    (_S.done, _SI.init): (_SE.refuse, _S.done),
    (_S.done, _SI.init_without_response): (_SE.refuse, _S.done),
    (_S.done, _SI.init_unknown): (_SE.refuse, _S.done),
    (_S.done, _SI.response): (_SE.refuse, _S.done),
    (_S.done, _SI.other): (_SE.refuse, _S.done),
    (_S.done, _SI.approved): (_SE.none, _S.done),
    (_S.done, _SI.denied): (_SE.none, _S.done),
}

_N = SessionState
_NI = SessionInput
_NE = SessionEffect

session_table: Final[
    dict[tuple[SessionState, SessionInput], tuple[SessionEffect, SessionState]]
] = {
    (_N.unmapped, _NI.begin): (_NE.answer_begin, _N.mapped),
    (_N.unmapped, _NI.frame): (_NE.refuse, _N.unmapped),
    (_N.unmapped, _NI.end): (_NE.refuse, _N.unmapped),
    (_N.unmapped, _NI.fault): (_NE.none, _N.unmapped),
    (_N.unmapped, _NI.end_command): (_NE.none, _N.unmapped),
    (_N.mapped, _NI.begin): (_NE.refuse, _N.mapped),
    (_N.mapped, _NI.frame): (_NE.dispatch, _N.mapped),
    (_N.mapped, _NI.end): (_NE.answer_end, _N.unmapped),
    (_N.mapped, _NI.fault): (_NE.send_end, _N.end_sent),
    (_N.mapped, _NI.end_command): (_NE.send_end, _N.end_sent),
    # The peer may begin anew on the channel without having answered our end.
    (_N.end_sent, _NI.begin): (_NE.answer_begin, _N.mapped),
    (_N.end_sent, _NI.frame): (_NE.none, _N.end_sent),
    (_N.end_sent, _NI.end): (_NE.forget, _N.unmapped),
    (_N.end_sent, _NI.fault): (_NE.none, _N.end_sent),
    (_N.end_sent, _NI.end_command): (_NE.none, _N.end_sent),
}

_L = LinkState
_LI = LinkInput
_LE = LinkEffect

link_table: Final[dict[tuple[LinkState, LinkInput], tuple[LinkEffect, LinkState]]] = {
    (_L.detached, _LI.attach): (_LE.ask_caller, _L.attach_received),
    (_L.detached, _LI.frame): (_LE.refuse, _L.detached),
    (_L.detached, _LI.detach): (_LE.refuse, _L.detached),
    (_L.detached, _LI.fault): (_LE.none, _L.detached),
    (_L.detached, _LI.accept): (_LE.none, _L.detached),
    (_L.detached, _LI.reject): (_LE.none, _L.detached),
    (_L.detached, _LI.detach_command): (_LE.none, _L.detached),
    (_L.attach_received, _LI.attach): (_LE.refuse, _L.attach_received),
    (_L.attach_received, _LI.frame): (_LE.dispatch, _L.attach_received),
    (_L.attach_received, _LI.detach): (_LE.withdraw, _L.detached),
    (_L.attach_received, _LI.fault): (_LE.send_attach_and_detach, _L.detach_sent),
    (_L.attach_received, _LI.accept): (_LE.send_attach, _L.attached),
    (_L.attach_received, _LI.reject): (_LE.send_attach_and_detach, _L.detach_sent),
    (_L.attach_received, _LI.detach_command): (_LE.send_attach_and_detach, _L.detach_sent),
    (_L.attached, _LI.attach): (_LE.refuse, _L.attached),
    (_L.attached, _LI.frame): (_LE.dispatch, _L.attached),
    (_L.attached, _LI.detach): (_LE.report_detach, _L.detach_received),
    (_L.attached, _LI.fault): (_LE.send_detach, _L.detach_sent),
    (_L.attached, _LI.accept): (_LE.none, _L.attached),
    (_L.attached, _LI.reject): (_LE.none, _L.attached),
    (_L.attached, _LI.detach_command): (_LE.send_detach, _L.detach_sent),
    (_L.detach_received, _LI.attach): (_LE.answer_and_ask, _L.attach_received),
    (_L.detach_received, _LI.frame): (_LE.none, _L.detach_received),
    (_L.detach_received, _LI.detach): (_LE.none, _L.detach_received),
    (_L.detach_received, _LI.fault): (_LE.none, _L.detach_received),
    (_L.detach_received, _LI.accept): (_LE.none, _L.detach_received),
    (_L.detach_received, _LI.reject): (_LE.none, _L.detach_received),
    (_L.detach_received, _LI.detach_command): (_LE.answer_detach, _L.detached),
    (_L.detach_sent, _LI.attach): (_LE.forget_and_ask, _L.attach_received),
    (_L.detach_sent, _LI.frame): (_LE.none, _L.detach_sent),
    (_L.detach_sent, _LI.detach): (_LE.forget, _L.detached),
    (_L.detach_sent, _LI.fault): (_LE.none, _L.detach_sent),
    (_L.detach_sent, _LI.accept): (_LE.none, _L.detach_sent),
    (_L.detach_sent, _LI.reject): (_LE.none, _L.detach_sent),
    (_L.detach_sent, _LI.detach_command): (_LE.none, _L.detach_sent),
}
