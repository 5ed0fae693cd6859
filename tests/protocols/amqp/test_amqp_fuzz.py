"""Whatever comes in, only the peer's connection suffers, in AMQP's own way, in bounded memory."""

import struct
from typing import Any

import pytest
from amqp_peer import Peer, frame, start
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.base.clock import Timestamp, seconds
from etagere.protocols.amqp import connection as connection_module
from etagere.protocols.amqp import deliveries as deliveries_module
from etagere.protocols.amqp.commands import (
    AcceptLink,
    CompleteDrain,
    DetachLink,
    GrantCredit,
    RefuseLink,
    SaslDecision,
    SendTransfer,
    SettleReceived,
    SettleSent,
    SettleUnmatched,
)
from etagere.protocols.amqp.connection import Connection, amqp_header, sasl_header
from etagere.protocols.amqp.events import (
    ConnectionClosed,
    CreditGranted,
    DispositionReceived,
    DispositionUnmatched,
    LinkAttached,
    LinkDetached,
    SaslShown,
    TransferReceived,
    TransfersReceived,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.outcomes import (
    Error,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    accepted,
)
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    Transfer,
    read_performative,
    read_sasl,
)
from etagere.protocols.amqp.values import Symbol

small = Limits(
    frame_bytes_in_max=2_048,
    frame_bytes_out_max=1_024,
    handle_max=7,
    channel_max=7,
    incoming_window_transfers=20,
    message_bytes_default=3_000,
    partial_bytes_max=6_000,
    credit_overdraft_max=5,
)
lost = Rejected(Error(Symbol("com.microsoft:message-lock-lost")))


class Server:
    """Answers every event in the most ordinary way."""

    def __init__(self) -> None:
        self.now = start
        self.connection = Connection("server", small, self.now)
        self.written = b""
        self.closed = 0

    def receive(self, data: bytes) -> None:
        self.now = Timestamp(self.now + seconds(0.5))
        self.connection.receive_data(data, self.now)
        self.answer()

    def answer(self) -> None:
        connection = self.connection
        while (event := connection.next_event()) is not None:
            assert not self.closed
            match event:
                case SaslShown():
                    connection.send(SaslDecision(approved=event.mechanism != "EXTERNAL"))
                case LinkAttached():
                    if event.attach.name == "bad":
                        connection.send(RefuseLink(event.link, Error(Symbol("amqp:not-found"))))
                        continue
                    connection.send(AcceptLink(event.link, Source(), Target(), 3_000))
                    connection.send(GrantCredit(event.link, 10))
                case TransferReceived():
                    connection.send(SettleReceived(event.link, event.delivery_id, accepted))
                case TransfersReceived():
                    for one in event.delivery_ids:
                        connection.send(SettleReceived(event.link, one, accepted))
                case CreditGranted():
                    link = event.link
                    while link.live and link.credit > 0 and link.session.sendable() > 0:
                        if link.delivery_count > 50:
                            break
                        message = bytes(link.delivery_count * 40)
                        connection.send(
                            SendTransfer(link, bytes(16), b"", message, settled=link.credit > 3)
                        )
                    if link.drain:
                        connection.send(CompleteDrain(link))
                case DispositionReceived():
                    if not event.settled:
                        connection.send(SettleSent(event.deliveries, event.state or accepted))
                case DispositionUnmatched():
                    connection.send(SettleUnmatched(event.session, event.first, event.last, lost))
                case LinkDetached():
                    connection.send(DetachLink(event.link))
                case ConnectionClosed():
                    self.closed += 1
                case _:
                    pass
        self.written += connection.data_to_send()

    def finish(self) -> None:
        self.connection.receive_eof(self.now)
        self.answer()
        assert self.closed == 1
        assert self.connection.finished
        _check_output(self.written)


def _check_output(data: bytes) -> None:
    """All that was written is whole frames, and ids rise by one in each session."""
    next_ids: dict[int, int] = {}
    while data:
        if data.startswith(b"AMQP"):
            data = data[8:]
            continue
        size, offset, kind, channel = struct.unpack_from(">IBBH", data)
        assert 8 <= size <= len(data)
        one, data = data[:size], data[size:]
        if size == 8:
            continue
        if kind == 1:
            read_sasl(one, offset * 4, size)
            continue
        performative, _ = read_performative(one, offset * 4, size)
        if isinstance(performative, Begin):
            next_ids[channel] = -1
        elif isinstance(performative, Transfer):
            assert performative.delivery_id is not None
            assert performative.delivery_id - next_ids[channel] in (0, 1)
            next_ids[channel] = performative.delivery_id


numbers = st.one_of(st.integers(0, 5), st.sampled_from([255, 2**31, 2**32 - 1]))
handles = st.integers(0, 8)
maybe = st.one_of(st.none(), numbers)
states = st.sampled_from([None, accepted, Released(), Modified(True, True), lost])
performatives: st.SearchStrategy[Any] = st.one_of(
    st.builds(Begin, st.sampled_from([None, None, None, 3]), numbers, numbers, numbers),
    st.builds(
        Attach,
        st.sampled_from(["a", "b", "bad"]),
        handles,
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 1),
        st.sampled_from([None, Source("q")]),
        st.sampled_from([None, Target("q")]),
        initial_delivery_count=maybe,
    ),
    st.builds(
        Flow, maybe, numbers, numbers, numbers, st.one_of(st.none(), handles), maybe,
        st.integers(0, 9), maybe, st.booleans(), st.booleans(),
    ),
    st.builds(
        Transfer, handles, maybe, st.sampled_from([b"t", b"t", None]), maybe,
        st.sampled_from([None, True, False]), st.booleans(),
        state=states, aborted=st.sampled_from([False, False, False, True]),
    ),
    st.builds(Disposition, st.booleans(), numbers, maybe, st.booleans(), states),
    st.builds(Detach, handles, st.booleans()),
    st.builds(End),
    st.builds(Close),
    st.just(Open("again")),
)  # fmt: skip
beginning = sasl_header + frame(SaslInit(Symbol("ANONYMOUS"), b""), kind=1) + amqp_header
beginning += frame(Open("peer", max_frame_size=512)) + frame(Begin(None, 0, 100, 100))
beginning += frame(Attach("s", 0, False)) + frame(Attach("r", 1, True))


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    steps = draw(
        st.lists(
            st.tuples(performatives, st.sampled_from([0, 0, 0, 1, 2, 9]), st.integers(0, 1_500)),
            max_size=30,
        )
    )
    return beginning + b"".join(
        frame(one, channel, bytes(size) if isinstance(one, Transfer) else b"")
        for one, channel, size in steps
    )


def _split(data: st.DataObject, whole: bytes) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@settings(max_examples=300)
@given(conversations(), st.data())
def test_any_conversation_ends_in_order(conversation: bytes, data: st.DataObject) -> None:
    server = Server()
    for part in _split(data, conversation):
        server.receive(part)
    server.finish()


@settings(max_examples=300)
@given(conversations(), st.data())
def test_damaged_conversations_end_in_order(conversation: bytes, data: st.DataObject) -> None:
    damaged = bytearray(conversation)
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    server = Server()
    for part in _split(data, bytes(damaged)):
        server.receive(part)
    server.finish()


@given(conversations(), st.integers(1, 100))
def test_how_the_bytes_are_cut_changes_nothing(conversation: bytes, size: int) -> None:
    rest = conversation.removeprefix(beginning)
    pieces = [rest[at : at + size] for at in range(0, len(rest), size)]
    assert _observed([beginning, *pieces]) == _observed([beginning, rest])


def _observed(pieces: list[bytes]) -> tuple[list[Any], bytes]:
    """What a caller sees who only looks on, and what is written."""
    connection = Connection("server", small, start)
    seen: list[Any] = []
    written = b""
    for piece in pieces:
        connection.receive_data(piece, start)
        while (event := connection.next_event()) is not None:
            link = getattr(event, "link", None)
            seen.append((type(event), link and link.handle, getattr(event, "payload", None)))
            if isinstance(event, SaslShown):
                connection.send(SaslDecision(approved=True))
        written += connection.data_to_send()
    return seen, written


@settings(max_examples=200)
@given(conversations(), st.integers(1, 2_000))
def test_without_hot_paths_everything_is_the_same(conversation: bytes, size: int) -> None:
    pieces = [conversation[at : at + size] for at in range(0, len(conversation), size)]
    assert _answered(pieces, hot=True) == _answered(pieces, hot=False)


def _nothing(*_: Any) -> None:
    return None


def _answered(pieces: list[bytes], *, hot: bool) -> list[Any]:
    """Everything that was written, read again, by a server that answers."""
    server = Server()
    with pytest.MonkeyPatch.context() as patch:
        if not hot:
            for name in ("walk_transfer", "walk_accepted", "walk_flow"):
                patch.setattr(connection_module, name, _nothing)
            patch.setattr(deliveries_module, "pack_transfer", _nothing)
        for piece in pieces:
            server.receive(piece)
        server.finish()
    written: list[Any] = []
    data = server.written
    while data:
        if data.startswith(b"AMQP"):
            written.append(data[:8])
            data = data[8:]
            continue
        size, offset, kind, channel = struct.unpack_from(">IBBH", data)
        one, data = data[:size], data[size:]
        if size == 8 or kind == 1:
            written.append(one)
        else:
            performative, at = read_performative(one, offset * 4, size)
            written.append((channel, performative, one[at:]))
    return written


@given(st.lists(st.binary(max_size=100), max_size=10), st.sampled_from([b"", beginning]))
def test_random_bytes_end_in_order(noise: list[bytes], before: bytes) -> None:
    server = Server()
    server.receive(before)
    for part in noise:
        server.receive(part)
    server.finish()


@given(performatives, st.data())
def test_one_damaged_performative_is_read_or_refused(one: Any, data: st.DataObject) -> None:
    peer = Peer()
    peer.open()
    damaged = bytearray(frame(one))
    damaged[data.draw(st.integers(8, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    peer.raw(bytes(damaged))
    peer.events()
    peer.hear()
