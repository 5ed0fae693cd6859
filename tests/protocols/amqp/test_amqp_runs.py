"""Runs of frames beside the same frames one by one: whatever the bytes, the same comes of them."""

import struct
from typing import Any
from unittest.mock import patch

import msgspec
from amqp_peer import Peer, frame
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.protocols.amqp.commands import (
    AcceptReceived,
    Command,
    GrantCredit,
    SendTransfer,
    SendTransfers,
    SettleReceived,
    SettleSent,
)
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.events import (
    DispositionReceived,
    DispositionUnmatched,
    Event,
    LinkFailed,
    SessionEnded,
    TransferReceived,
    TransfersReceived,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.outcomes import Rejected, accepted
from etagere.protocols.amqp.performatives import Disposition, Flow, Transfer
from etagere.protocols.amqp.runs import Runs

sent_by_us = 40


def _started() -> Peer:
    """Two links that the peer sends on, two with deliveries of ours on them."""
    peer = Peer(Limits(incoming_window_transfers=60))
    peer.open()
    peer.begin()
    senders = [
        peer.attach(receiver=False, handle=n, name=f"in{n}", max_message_size=200) for n in (0, 1)
    ]
    for link in senders:
        peer.command(GrantCredit(link, 25))
    receivers = [peer.attach(receiver=True, handle=n, name=f"out{n}") for n in (2, 3)]
    for n in (2, 3):
        peer.say(Flow(1, 2048, 0, 2048, n, 0, 100))
    peer.events()
    for n in range(sent_by_us):
        link = receivers[n % 7 == 0]
        tag = n.to_bytes(16, "big")
        peer.command(SendTransfer(link, tag, b"", b"x", settled=False, context=n))
    peer.hear()
    return peer


def _plain(event: Event) -> list[Any]:
    """The event without the objects of its own connection, and taken apart."""
    if isinstance(event, TransfersReceived):
        return [one for each in event.each() for one in _plain(each)]
    if isinstance(event, TransferReceived):
        return [
            (
                event.link.name,
                event.delivery_id,
                event.message_format,
                event.settled,
                event.payload,
                event.state,
                event.oversized,
            )
        ]
    if isinstance(event, DispositionReceived):
        return [
            (event.link.name, one.id, one.context, event.state, event.settled)
            for one in event.deliveries
        ]
    if isinstance(event, DispositionUnmatched):
        return [(event.first, event.last, event.state)]
    if isinstance(event, LinkFailed):
        return [(event.link.name, event.error)]
    if isinstance(event, SessionEnded):
        return [("ended", event.error)]
    return [type(event)]


def _outcome(reads: list[bytes], *, runs: bool) -> list[Any]:
    def no_run(_self: Runs, _buffer: bytes, at: int, _length: int) -> int:
        return at

    peer = _started()
    with patch.object(Runs, "take", Runs.take if runs else no_run):
        found: list[Any] = []
        for read in reads:
            peer.connection.receive_data(read, peer.now)
            while (event := peer.connection.next_event()) is not None:
                found += _plain(event)
        found.append(peer.connection.data_to_send())
    session = peer.connection._sessions.mapped.get(0)
    if session is not None:
        found.append(
            (
                session.incoming_window,
                session.next_incoming_id,
                sorted(session.unsettled),
                list(session.unsettled_in),
                [(link.credit, link.delivery_count) for link in session.links.values()],
            )
        )
    return found


wide = st.integers(256, 2**32 - 1)


@st.composite
def transfer_runs(draw: st.DrawFn) -> list[bytes]:
    handle = draw(st.sampled_from([0, 0, 0, 1, 9]))
    settled = draw(st.sampled_from([False, False, True]))
    form = draw(st.sampled_from([0, 0, 0x80013700]))
    more = draw(st.integers(0, 15)) == 0
    tag_bytes = draw(st.sampled_from([4, 4, 1, 32, 33]))
    first = draw(wide)
    frames = []
    for n in range(draw(st.integers(1, 12))):
        tag = (n % 256).to_bytes(tag_bytes, "big")
        number = (first + n) & 0xFFFFFFFF
        payload = draw(st.sampled_from([b"", b"x", b"y" * 100, b"z" * 200, b"z" * 201]))
        transfer = Transfer(handle, number, tag, form, settled, more)
        frames.append(frame(transfer, payload=payload))
    return frames


@st.composite
def disposition_runs(draw: st.DrawFn) -> list[bytes]:
    settled = draw(st.booleans())
    first = draw(st.integers(0, sent_by_us))
    list8 = draw(st.booleans())
    frames = []
    for n in range(first, first + draw(st.integers(1, 12))):
        last = draw(st.sampled_from([n, n, n, n + 1, None]))
        role = b"\x42" if draw(st.integers(0, 15)) == 0 else b"\x41"
        content = role + b"\x70" + struct.pack(">I", n)
        content += b"\x40" if last is None else b"\x70" + struct.pack(">I", last)
        content += (b"\x41" if settled else b"\x42") + encode_composite(accepted)
        if list8:
            head = bytes((0, 0x53, 0x15, 0xC0, len(content) + 1, 5))
        else:
            head = b"\x00\x53\x15\xd0" + struct.pack(">II", len(content) + 4, 5)
        body = head + content
        frames.append(struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body)
    if draw(st.booleans()):
        frames.append(frame(Disposition(True, first, None, settled, accepted)))
    return frames


traffic = st.lists(st.one_of(transfer_runs(), disposition_runs()), min_size=1, max_size=5)


@settings(deadline=None)
@given(traffic, st.data())
def test_runs_change_nothing(runs: list[list[bytes]], data: st.DataObject) -> None:
    stream = bytearray(b"".join(one for run in runs for one in run))
    for _ in range(data.draw(st.integers(0, 2))):  # mostly one byte of thousands: inside a run
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(stream)))
    reads = [bytes(stream[:cut]), bytes(stream[cut:])]
    assert _outcome(reads, runs=True) == _outcome(reads, runs=False)


def test_runs_are_taken() -> None:
    peer = _started()
    transfers = [Transfer(0, 300 + n, struct.pack(">I", n), 0, False) for n in range(10)]
    peer.raw(b"".join(frame(one, payload=b"message") for one in transfers))
    kinds = []
    while (event := peer.connection.next_event()) is not None:
        kinds.append(type(event))
    assert kinds == [TransferReceived, TransferReceived, TransfersReceived]


def test_a_run_of_dispositions_is_one_event() -> None:
    peer = _started()
    frames = []
    for n in range(1, 7):
        content = b"\x41\x70" + struct.pack(">I", n) + b"\x40\x41\x00\x53\x24\x45"
        body = bytes((0, 0x53, 0x15, 0xC0, len(content) + 1, 5)) + content
        frames.append(struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body)
    peer.raw(b"".join(frames))
    first, others = peer.events()
    assert isinstance(first, DispositionReceived)
    assert isinstance(others, DispositionReceived)
    assert [one.id for one in others.deliveries] == [2, 3, 4, 5, 6]


# ---- commands


def _after(commands: list[Command], *, window: int, frame_bytes: int) -> list[Any]:
    """What is written of these, with the deliveries that are then unsettled."""
    peer = Peer()
    peer.open(max_frame_size=frame_bytes)
    peer.begin()
    sender = peer.attach(receiver=False, handle=0, name="in")
    peer.command(GrantCredit(sender, 100))
    receiver = peer.attach(receiver=True, handle=1, name="out")
    peer.say(Flow(1, window, 0, 2048, 1, 0, 50))
    for n in (300, 301, 302, 304, 306, 307):
        peer.say(Transfer(0, n, b"t", 0, False))
    peer.events()
    peer.hear()
    links = {"in": sender, "out": receiver}
    for command in commands:
        peer.command(msgspec.structs.replace(command, link=links[command.link]))  # type: ignore[union-attr,call-overload]
    written = peer.hear()
    session = receiver.session
    unsettled = [(one.id, one.tag, one.context) for one in session.unsettled.values()]
    numbers = (session.next_delivery_id, session.next_outgoing_id, session.remote_incoming_window)
    peer.say(Flow(1, 2048, 0, 2048, 1, 0, 50))  # and what had waited
    return [
        written,
        unsettled,
        numbers,
        list(session.unsettled_in),
        receiver.credit,
        receiver.delivery_count,
        peer.hear(),
    ]


@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 600), min_size=1, max_size=8),
            st.lists(st.sampled_from([300, 301, 302, 303, 304, 306, 307]), min_size=1, max_size=6),
        ),
        max_size=5,
    ),
    st.sampled_from([0, 3, 2048]),
    st.sampled_from([512, 65_536]),
)
def test_batches_say_what_single_commands_say(
    batches: list[list[int]], window: int, frame_bytes: int
) -> None:
    together: list[Any] = []
    singly: list[Any] = []
    for batch in batches:
        if 303 in batch or all(number < 308 for number in batch):
            together.append(AcceptReceived("in", batch))  # type: ignore[arg-type]
            singly += [SettleReceived("in", number, accepted) for number in batch]  # type: ignore[arg-type]
            continue
        tags = [n.to_bytes(16, "big") for n in range(len(batch))]
        heads = [b"h" * (n % 7) for n in batch]
        tails = [b"t" * n for n in batch]
        together.append(SendTransfers("out", tags, heads, tails))  # type: ignore[arg-type]
        singly += [
            SendTransfer("out", tag, head, tail, settled=False, context=tag)  # type: ignore[arg-type]
            for tag, head, tail in zip(tags, heads, tails, strict=True)
        ]
    expected = _after(singly, window=window, frame_bytes=frame_bytes)
    assert _after(together, window=window, frame_bytes=frame_bytes) == expected


def _confirmed(batches: list[tuple[list[int], bool, bool]], *, together: bool) -> list[Any]:
    """What is written of these outcomes, and what is then unsettled."""
    peer = _started()
    session = peer.attach(receiver=True, handle=9, name="another").session
    sent = dict(session.unsettled)
    for ids, good, forget in batches:
        state = accepted if good else Rejected()
        deliveries = [sent[number] for number in ids]
        for some in [deliveries] if together else [[one] for one in deliveries]:
            peer.command(SettleSent(some, state, forget))
    return [peer.hear(), list(session.unsettled)]


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.builds(range, st.integers(0, 20), st.integers(21, sent_by_us)).map(list),
                st.lists(st.integers(0, sent_by_us - 1), min_size=1, max_size=5),
            ),
            st.integers(0, 3).map(bool),
            st.integers(0, 3).map(bool),
        ),
        max_size=4,
    )
)
def test_outcomes_are_confirmed_together_as_singly(
    batches: list[tuple[list[int], bool, bool]],
) -> None:
    assert _confirmed(batches, together=True) == _confirmed(batches, together=False)
