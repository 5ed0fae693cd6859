"""Headers, SASL, open and close, timers: AMQP 1.0 part 2, 2.2-2.4, and part 5, 5.3."""

import struct

import pytest
from amqp_peer import Peer, frame

from etagere.protocols.amqp.commands import CloseConnection, SaslDecision
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.connection import amqp_header, sasl_header
from etagere.protocols.amqp.events import (
    ConnectionClosed,
    ConnectionOpened,
    SaslShown,
    SessionBegun,
    SessionEnded,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.outcomes import Error
from etagere.protocols.amqp.performatives import (
    Begin,
    Close,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from etagere.protocols.amqp.values import Symbol

anonymous = frame(SaslInit(Symbol("ANONYMOUS"), b""), kind=1)


def test_sasl_then_open() -> None:
    peer = Peer()
    peer.raw(sasl_header)
    (mechanisms,) = peer.heard()
    assert peer.headers == [sasl_header]
    assert mechanisms == SaslMechanisms(
        tuple(Symbol(name) for name in ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"))
    )
    peer.raw(frame(SaslInit(Symbol("ANONYMOUS"), b"\0key", "localhost"), kind=1))
    assert peer.event(SaslShown) == SaslShown("ANONYMOUS", b"\0key", "localhost")
    assert peer.heard() == []
    peer.command(SaslDecision(approved=True))
    # rhea hangs if anything is written behind the outcome.
    assert peer.heard() == [SaslOutcome(0)]
    peer.raw(amqp_header)
    assert peer.heard() == []
    assert peer.headers == [sasl_header, amqp_header]
    peer.say(Open("peer", "localhost"))
    assert peer.event(ConnectionOpened).open.container_id == "peer"
    (opened,) = peer.heard()
    assert opened == Open(
        "server", max_frame_size=262_144, channel_max=4_999, idle_time_out=240_000
    )


def test_performatives_carry_every_field() -> None:
    peer = Peer()
    peer.raw(amqp_header + frame(Open("peer")))
    written = peer.connection.data_to_send()
    # Header, then 00 53 10 c0 <size> <count>: older pyAMQP indexes fields without a check.
    assert written[8 + 8 : 8 + 8 + 4] == b"\x00\x53\x10\xc0"
    assert written[8 + 8 + 5] == 10


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_any_split_of_the_bytes_is_the_same(size: int) -> None:
    peer = Peer()
    data = sasl_header + anonymous
    for at in range(0, len(data), size):
        peer.raw(data[at : at + size])
    peer.event(SaslShown)
    peer.command(SaslDecision(approved=True))
    data = amqp_header + frame(Open("peer")) + frame(None) + frame(Begin(None, 0, 10, 10), 7)
    for at in range(0, len(data), size):
        peer.raw(data[at : at + size])
    assert [type(event) for event in peer.events()] == [ConnectionOpened, SessionBegun]


def test_what_comes_before_the_verdict_waits_for_it() -> None:
    peer = Peer()
    peer.raw(sasl_header + anonymous + amqp_header + frame(Open("peer")))
    peer.event(SaslShown)
    peer.hear()
    peer.command(SaslDecision(approved=True))
    assert [type(one) for one in peer.heard()] == [SaslOutcome, Open]
    peer.event(ConnectionOpened)


def test_a_flood_before_the_verdict_is_cut_off() -> None:
    peer = Peer(Limits(frame_bytes_in_max=1024))
    peer.raw(sasl_header + anonymous)
    peer.event(SaslShown)
    for _ in range(20):
        peer.raw(bytes(100))
    assert peer.event(ConnectionClosed).error.condition == "amqp:connection:framing-error"
    assert peer.connection.finished


def test_no_sasl_at_all() -> None:
    peer = Peer()
    peer.raw(amqp_header + frame(Open("peer")))
    assert [type(event) for event in peer.events()] == [ConnectionOpened]
    assert [type(one) for one in peer.heard()] == [Open]


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x02\x01\x00\x00", b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x00", b"GET / HT"],
)
def test_a_header_we_do_not_speak_is_answered_with_ours(header: bytes) -> None:
    peer = Peer()
    peer.raw(header)
    assert peer.connection.data_to_send() == sasl_header
    assert peer.connection.finished
    assert peer.event(ConnectionClosed) == ConnectionClosed(None, orderly=False)


def test_a_second_sasl_header_is_declined() -> None:
    peer = Peer()
    peer.raw(sasl_header + anonymous)
    peer.events()
    peer.command(SaslDecision(approved=True))
    peer.hear()
    peer.raw(sasl_header)
    assert peer.connection.data_to_send() == sasl_header
    assert peer.connection.finished


def test_sasl_denied() -> None:
    peer = Peer()
    peer.raw(sasl_header + frame(SaslInit(Symbol("PLAIN"), b"\0rule\0wrong"), kind=1))
    assert peer.event(SaslShown).response == b"\0rule\0wrong"
    peer.hear()
    peer.command(SaslDecision(approved=False))
    assert peer.heard() == [SaslOutcome(1)]
    assert peer.connection.finished
    peer.event(ConnectionClosed)


def test_a_mechanism_that_was_not_offered() -> None:
    peer = Peer()
    peer.raw(sasl_header + frame(SaslInit(Symbol("SCRAM-SHA-1"), b"n,,"), kind=1))
    assert [type(one) for one in peer.heard()] == [SaslMechanisms, SaslOutcome]
    assert peer.connection.finished


def test_plain_by_challenge() -> None:
    peer = Peer()
    peer.raw(sasl_header + frame(SaslInit(Symbol("PLAIN")), kind=1))
    assert peer.heard()[1:] == [SaslChallenge(b"")]
    peer.raw(frame(SaslResponse(b"\0rule\0key"), kind=1))
    assert peer.event(SaslShown) == SaslShown("PLAIN", b"\0rule\0key", None)


@pytest.mark.parametrize(
    "wrong",
    [
        frame(SaslResponse(b""), kind=1),
        frame(SaslMechanisms((Symbol("X"),)), kind=1),
        frame(Open("peer"), kind=1),
        frame(Open("peer"), kind=0),
        frame(SaslInit(Symbol("PLAIN")), kind=1, payload=b"x"),
        b"\x00\x00\x00\x08\x01\x01\x00\x00",
        b"\xff\xff\xff\xff\x02\x01\x00\x00",
        b"\x00\x00\x00\x0c\x02\x01\x00\x00\x00\x53\x41\xc0",
    ],
)
def test_sasl_out_of_order_ends_the_connection(wrong: bytes) -> None:
    peer = Peer()
    peer.raw(sasl_header + wrong)
    assert peer.connection.finished
    assert peer.event(ConnectionClosed).orderly is False


# ---- open, close


def test_close_is_answered_and_ends_what_was_open() -> None:
    peer = Peer()
    peer.open()
    peer.begin(3)
    peer.say(Close())
    assert peer.heard() == [Close()]
    ended, closed = peer.events()
    assert isinstance(ended, SessionEnded)
    assert ended.orderly
    assert closed == ConnectionClosed(None, orderly=True)
    assert peer.connection.finished
    peer.raw(b"whatever")
    peer.connection.receive_eof(peer.now)
    assert peer.events() == []


def test_a_lost_connection_is_not_orderly() -> None:
    peer = Peer()
    peer.open()
    peer.begin()
    peer.connection.receive_eof(peer.now)
    ended, closed = peer.events()
    assert isinstance(ended, SessionEnded)
    assert not ended.orderly
    assert closed == ConnectionClosed(None, orderly=False)


def test_our_close_discards_until_the_answer() -> None:
    peer = Peer()
    peer.open()
    peer.begin()
    error = Error(Symbol("amqp:connection:forced"), "Enough.")
    peer.command(CloseConnection(error))
    assert peer.heard() == [Close(error)]
    assert [type(event) for event in peer.events()] == [SessionEnded]
    peer.say(Begin(None, 0, 1, 1), 5)
    peer.say(Flow(0, 1, 0, 1), 5)
    assert peer.events() == []
    assert not peer.connection.finished
    peer.say(Close())
    assert peer.event(ConnectionClosed) == ConnectionClosed(None, orderly=True)
    assert peer.heard() == []


def test_our_close_waits_only_so_long() -> None:
    peer = Peer()
    peer.open()
    peer.command(CloseConnection())
    peer.pass_seconds(4)
    assert not peer.connection.finished
    peer.pass_seconds(1)
    assert peer.connection.finished
    peer.event(ConnectionClosed)


def test_a_close_before_open_says_who_we_are_first() -> None:
    peer = Peer()
    peer.raw(amqp_header)
    peer.say(Begin(None, 0, 1, 1))
    assert [type(one) for one in peer.heard()] == [Open, Close]
    assert peer.connection.finished


def test_open_twice_is_a_fault() -> None:
    peer = Peer()
    peer.open()
    peer.say(Open("peer"))
    (close,) = peer.heard()
    assert close.error.condition == "amqp:illegal-state"


def test_a_tiny_frame_size_is_refused() -> None:
    peer = Peer()
    peer.raw(amqp_header + frame(Open("peer", max_frame_size=511)))
    assert peer.heard()[-1].error.condition == "amqp:invalid-field"


# ---- faults of framing


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (struct.pack(">IBBH", 262_145, 2, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 7, 2, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 8, 1, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 8, 3, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 8, 2, 1, 0), "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\xff\xff\xff\xff", "amqp:decode-error"),
        (frame(SaslOutcome(0)), "amqp:decode-error"),
        (frame(Error(Symbol("x"))), "amqp:decode-error"),
        (frame(Begin(None, 0, 1, 1), payload=b"more"), "amqp:decode-error"),
        (frame(Flow(0, 1, 0, 1), 9), "amqp:connection:framing-error"),
        (frame(Begin(None, 0, 1, 1), 5_000), "amqp:connection:framing-error"),
        (frame(Begin(4, 0, 1, 1), 4), "amqp:invalid-field"),
        (frame(Begin(None, 0, 1, 1), 1), "amqp:not-allowed"),
    ],
)
def test_faults_close_the_connection(data: bytes, condition: str) -> None:
    peer = Peer()
    peer.open()
    peer.begin(1)
    peer.raw(data)
    (close,) = peer.heard()
    assert isinstance(close, Close)
    assert close.error is not None
    assert close.error.condition == condition
    ended = peer.event(SessionEnded)
    assert not ended.orderly
    peer.say(Close())
    peer.pass_seconds(5)
    assert peer.event(ConnectionClosed).error.condition == condition
    assert peer.connection.finished


def test_a_frame_with_a_longer_header_is_read() -> None:
    peer = Peer()
    peer.open()
    body = encode_composite(Begin(None, 0, 1, 1))
    peer.raw(struct.pack(">IBBH", len(body) + 16, 4, 0, 2) + b"extended" + body)
    peer.event(SessionBegun)


# ---- time


def test_heartbeats_at_half_of_what_the_peer_wants() -> None:
    peer = Peer()
    peer.open(idle_milliseconds=60_000)
    due = peer.connection.get_timer()
    assert due == peer.now + 30 * 10_000_000
    peer.pass_seconds(29)
    assert peer.heard() == []
    peer.pass_seconds(1)
    assert peer.heard() == [None]
    peer.pass_seconds(29)
    assert peer.heard() == []
    peer.pass_seconds(1)
    assert peer.heard() == [None]


def test_a_silent_peer_is_closed_after_twice_our_timeout() -> None:
    peer = Peer()
    peer.open()
    peer.pass_seconds(470)
    peer.say(None)
    peer.pass_seconds(479)
    assert peer.events() == []
    peer.pass_seconds(1)
    (close,) = peer.heard()
    assert close.error.condition == "amqp:connection:forced"


@pytest.mark.parametrize("begun", [b"", b"AMQ", sasl_header, amqp_header])
def test_the_handshake_has_a_deadline(begun: bytes) -> None:
    peer = Peer()
    peer.raw(begun)
    peer.pass_seconds(19)
    assert not peer.connection.finished
    peer.pass_seconds(1)
    assert peer.connection.finished
    assert peer.event(ConnectionClosed).orderly is False
    assert peer.connection.get_timer() is None
