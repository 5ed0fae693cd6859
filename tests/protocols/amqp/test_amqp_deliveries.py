"""Transfers and dispositions: AMQP 1.0 part 2, 2.6.12-2.6.14 and 2.7.5-2.7.6."""

import pytest
from amqp_peer import Peer, frame

from etagere.protocols.amqp.commands import (
    CompleteDrain,
    DetachLink,
    GrantCredit,
    SendTransfer,
    SettleReceived,
    SettleSent,
    SettleUnmatched,
)
from etagere.protocols.amqp.events import (
    CreditGranted,
    DispositionReceived,
    DispositionUnmatched,
    LinkFailed,
    TransferReceived,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.links import Link
from etagere.protocols.amqp.outcomes import (
    Accepted,
    DeliveryState,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
    accepted,
)
from etagere.protocols.amqp.performatives import Detach, Disposition, Flow, Transfer
from etagere.protocols.amqp.values import Symbol


@pytest.fixture
def peer() -> Peer:
    peer = Peer()
    peer.open()
    peer.begin()
    return peer


def _receiver(peer: Peer, credit: int = 100, *, handle: int = 0, window: int = 10_000) -> Link:
    link = peer.attach(receiver=True, handle=handle, name=f"r{handle}")
    peer.say(Flow(1, window, 0, 100, handle, 0, credit))
    peer.event(CreditGranted)
    return link


def _sender(peer: Peer, *, handle: int = 0, max_message_size: int | None = None) -> Link:
    link = peer.attach(
        receiver=False, handle=handle, name=f"s{handle}", max_message_size=max_message_size
    )
    peer.command(GrantCredit(link, 1000))
    peer.hear()
    return link


def _tag(number: int) -> bytes:
    return number.to_bytes(16, "big")


# ---- in


def test_a_transfer(peer: Peer) -> None:
    link = _sender(peer)
    peer.say(Transfer(0, 41, b"\0\0\0\1", 0, False), payload=b"payload")
    assert peer.event(TransferReceived) == TransferReceived(
        link, 41, b"\0\0\0\1", 0, settled=False, payload=b"payload"
    )
    assert (link.credit, link.delivery_count) == (999, 1)
    peer.command(SettleReceived(link, 41, accepted))
    assert peer.heard() == [Disposition(True, 41, 41, True, accepted)]
    peer.command(SettleReceived(link, 41, accepted))
    assert peer.heard() == []


def test_a_batch_is_told_by_its_format(peer: Peer) -> None:
    _sender(peer)
    peer.say(Transfer(0, 0, b"t", 0x80013700, False), payload=b"payload")
    assert peer.event(TransferReceived).message_format == 0x80013700


def test_a_settled_transfer_wants_no_answer(peer: Peer) -> None:
    link = _sender(peer)
    peer.say(Transfer(0, 0, b"t", 0, True), payload=b"x")
    assert peer.event(TransferReceived).settled
    peer.command(SettleReceived(link, 0, accepted))
    assert peer.heard() == []


def test_a_transfer_with_a_transaction(peer: Peer) -> None:
    _sender(peer)
    state = TransactionalState(b"txn")
    peer.say(Transfer(0, 0, b"t", 0, False, state=state), payload=b"x")
    assert peer.event(TransferReceived).state == state


@pytest.mark.parametrize("repeat", [True, False])
def test_a_message_in_many_frames(peer: Peer, repeat: bool) -> None:
    """Continuations repeat the id and tag, or leave them out."""
    link = _sender(peer)
    peer.say(Transfer(0, 9, b"tag", 7, False, more=True), payload=b"one ")
    peer.say(Transfer(0, 9 if repeat else None, b"tag" if repeat else None, more=True), payload=b"")
    assert peer.events() == []
    assert link.credit == 1000
    peer.say(Transfer(0, 9 if repeat else None, None, settled=True), payload=b"two")
    assert peer.event(TransferReceived) == TransferReceived(
        link, 9, b"tag", 7, settled=True, payload=b"one two"
    )
    assert (link.credit, link.delivery_count) == (999, 1)


@pytest.mark.parametrize("frames", [1, 3])
def test_a_resumed_delivery_that_nobody_knows_is_ignored(peer: Peer, frames: int) -> None:
    link = _sender(peer)
    for left in reversed(range(frames)):
        peer.say(Transfer(0, 4, b"old", 0, more=left > 0, resume=True), payload=b"x")
    assert peer.events() == []
    assert (link.credit, link.delivery_count) == (999, 1)
    peer.say(Transfer(0, 5, b"new", 0, more=True), payload=b"one ")
    peer.say(Transfer(0, 5, b"new", 0), payload=b"two")
    assert peer.event(TransferReceived).payload == b"one two"


def test_links_may_take_turns_within_their_messages(peer: Peer) -> None:
    first = _sender(peer, handle=0)
    second = _sender(peer, handle=1)
    peer.say(Transfer(0, 0, b"a", 0, more=True), payload=b"a1")
    peer.say(Transfer(1, 1, b"b", 0, more=True), payload=b"b1")
    peer.say(Transfer(0), payload=b"a2")
    peer.say(Transfer(1), payload=b"b2")
    assert [(event.link, event.payload) for event in peer.events()] == [
        (first, b"a1a2"),
        (second, b"b1b2"),
    ]


@pytest.mark.parametrize("begun", [True, False])
def test_an_aborted_message_is_forgotten(peer: Peer, begun: bool) -> None:
    link = _sender(peer)
    if begun:
        peer.say(Transfer(0, 0, b"a", 0, more=True), payload=b"a1")
    peer.say(Transfer(0, 0, b"a", 0, aborted=True))
    assert peer.events() == []
    peer.say(Transfer(0, 1, b"b", 0, True), payload=b"next")
    assert peer.event(TransferReceived).payload == b"next"
    assert link.credit == 998


def test_a_delivery_inside_another_is_a_fault(peer: Peer) -> None:
    _sender(peer)
    peer.say(Transfer(0, 0, b"a", 0, more=True), payload=b"a1")
    peer.say(Transfer(0, 1, b"b", 0), payload=b"b1")
    assert peer.event(LinkFailed).error.condition == "amqp:invalid-field"


@pytest.mark.parametrize("frames", [1, 2, 5])
def test_a_message_that_is_too_large_is_reported_without_its_bytes(peer: Peer, frames: int) -> None:
    link = _sender(peer, max_message_size=1_000)
    for size, oversized in ((1_000, False), (1_001, True), (5_000, True), (999, False)):
        step = -(-size // frames)
        number = 0
        for at in range(0, size, step):
            more = at + step < size
            part = bytes(min(step, size - at))
            peer.say(Transfer(0, number, b"t", 0, False, more=more), payload=part)
        event = peer.event(TransferReceived)
        assert event.oversized is oversized
        assert len(event.payload) == (0 if oversized else size)
        peer.command(SettleReceived(link, number, Rejected()))
        assert len(peer.heard()) == 1
    assert link.live


def test_incomplete_messages_are_bounded_over_all_links() -> None:
    peer = Peer(Limits(partial_bytes_max=10_000))
    peer.open()
    peer.begin()
    for handle in range(3):
        _sender(peer, handle=handle)
        peer.say(Transfer(handle, handle, b"t", 0, more=True), payload=bytes(4_000))
    assert peer.heard()[-1].error.condition == "amqp:resource-limit-exceeded"


def test_messages_that_went_make_room() -> None:
    peer = Peer(Limits(partial_bytes_max=10_000))
    peer.open()
    peer.begin()
    for number in range(20):
        link = _sender(peer)
        peer.say(Transfer(0, number, b"t", 0, more=True), payload=bytes(6_000))
        if number % 4 == 0:
            peer.say(Transfer(0, aborted=True))
        elif number % 4 == 1:
            peer.say(Transfer(0), payload=bytes(1_000))
        peer.say(Detach(0, closed=True))
        peer.command(DetachLink(link))
        assert [type(one) for one in peer.heard()] == [Detach]
        peer.events()


# ---- settling what came


def _transfers(peer: Peer, numbers: list[int]) -> None:
    for number in numbers:
        peer.say(Transfer(0, number, b"t", 0, False), payload=b"x")


def test_acknowledgements_share_frames(peer: Peer) -> None:
    link = _sender(peer)
    _transfers(peer, list(range(10)))
    no = Rejected(Error(Symbol("com.microsoft:server-busy")))
    outcomes: list[tuple[int, DeliveryState]] = [
        (0, accepted), (1, Accepted()), (2, accepted), (4, accepted), (3, accepted),
        (5, no), (6, no), (7, accepted), (8, accepted),
    ]  # fmt: skip
    for number, outcome in outcomes:
        peer.command(SettleReceived(link, number, outcome))
    assert peer.heard() == [
        Disposition(True, 0, 2, True, accepted),
        Disposition(True, 4, 4, True, accepted),
        Disposition(True, 3, 3, True, accepted),
        Disposition(True, 5, 6, True, no),
        Disposition(True, 7, 8, True, accepted),
    ]


def test_acknowledgements_come_before_the_detach_and_the_end(peer: Peer) -> None:
    link = _sender(peer)
    _transfers(peer, [0, 1])
    peer.say(Detach(0, closed=True))
    peer.command(SettleReceived(link, 0, accepted))
    peer.command(SettleReceived(link, 1, accepted))
    peer.command(DetachLink(link))
    assert peer.heard() == [Disposition(True, 0, 1, True, accepted), Detach(0, True)]


def test_a_request_is_acknowledged_before_its_answer(peer: Peer) -> None:
    requests = _sender(peer, handle=0)
    replies = _receiver(peer, handle=1)
    _transfers(peer, [0])
    peer.command(SettleReceived(requests, 0, accepted))
    peer.command(SendTransfer(replies, _tag(0), b"", b"reply", settled=True))
    assert [type(one) for one in peer.heard()] == [Disposition, Transfer]


def test_what_the_sender_settles_itself_is_not_answered(peer: Peer) -> None:
    link = _sender(peer)
    _transfers(peer, [0, 1, 2])
    peer.say(Disposition(False, 0, 1, True, accepted))
    for number in range(3):
        peer.command(SettleReceived(link, number, accepted))
    assert peer.heard() == [Disposition(True, 2, 2, True, accepted)]


# ---- out


def test_sending(peer: Peer) -> None:
    link = _receiver(peer, credit=2)
    peer.command(SendTransfer(link, _tag(1), b"head", b"tail", settled=False, context="m1"))
    peer.command(SendTransfer(link, b"odd", b"head", b"tail", settled=True, message_format=5))
    assert peer.hear() == [
        (0, Transfer(0, 0, _tag(1), 0, False), b"headtail"),
        (0, Transfer(0, 1, b"odd", 5, True), b"headtail"),
    ]
    assert (link.credit, link.delivery_count) == (0, 2)
    assert list(link.session.unsettled) == [0]


def test_delivery_ids_have_no_gaps_over_all_links_of_a_session(peer: Peer) -> None:
    links = [_receiver(peer, handle=handle) for handle in range(3)]
    ids = []
    for number in range(30):
        link = links[number % 3]
        peer.command(SendTransfer(link, _tag(number), b"", b"x", settled=number % 2 == 0))
        ids += [transfer.delivery_id for transfer in peer.heard()]
    assert ids == list(range(30))


def test_a_large_message_is_split_as_the_peer_wants() -> None:
    peer = Peer()
    peer.open(max_frame_size=512)
    peer.begin()
    link = _receiver(peer)
    payload = bytes(range(256)) * 8
    peer.command(SendTransfer(link, _tag(0), payload[:100], payload[100:], settled=False))
    peer.command(SendTransfer(link, _tag(1), b"", b"small", settled=False))
    heard = peer.hear()
    transfers = [transfer for _, transfer, _ in heard]
    assert [transfer.delivery_id for transfer in transfers] == [0] * (len(heard) - 1) + [1]
    assert [transfer.more for transfer in transfers] == [True] * (len(heard) - 2) + [False, False]
    assert all(transfer.message_format == 0 for transfer in transfers)
    assert b"".join(part for _, _, part in heard[:-1]) == payload
    assert all(len(frame(transfer, 0, part)) <= 512 for _, transfer, part in heard)


def test_the_peer_s_window_is_kept_to() -> None:
    peer = Peer()
    peer.open(max_frame_size=512)
    peer.begin(window=2)
    link = _receiver(peer, window=2)
    other = peer.attach(receiver=True, handle=1)
    peer.command(SendTransfer(link, _tag(0), b"", bytes(1_500), settled=False))
    peer.command(SendTransfer(link, _tag(1), b"", b"second", settled=False))
    assert link.session.sendable() == 0
    assert len(peer.heard()) == 2
    peer.say(Flow(3, 1, 0, 100))
    assert len(peer.heard()) == 1
    peer.say(Flow(3, 1, 0, 100))  # says nothing new
    assert peer.heard() == []
    assert peer.events() == []
    peer.say(Flow(4, 3, 0, 100))
    assert [transfer.delivery_id for transfer in peer.heard()] == [0, 1]
    assert link.session.sendable() == 1
    assert [event.link for event in peer.events()] == [link]  # it has credit, the other has none
    assert other.credit == 0


def test_a_huge_window_is_a_window(peer: Peer) -> None:
    link = _receiver(peer, window=0xFFFFFFFF)
    peer.command(SendTransfer(link, _tag(0), b"", b"x", settled=True))
    assert len(peer.heard()) == 1
    assert link.session.sendable() == 0xFFFFFFFE


def test_a_link_that_goes_leaves_no_gap_in_the_ids() -> None:
    peer = Peer()
    peer.open()
    peer.begin(window=1)
    first = _receiver(peer, window=1)
    second = peer.attach(receiver=True, handle=1)
    peer.say(Flow(1, 1, 0, 100, 1, 0, 10))
    for number in range(3):
        peer.command(SendTransfer(first, _tag(number), b"", b"x", settled=False))
    peer.command(SendTransfer(second, _tag(9), b"", b"y", settled=False))
    peer.say(Detach(0, closed=True))
    peer.command(DetachLink(first))
    peer.say(Flow(2, 100, 0, 100))
    transfers = [one for one in peer.heard() if isinstance(one, Transfer)]
    assert [(one.delivery_id, one.delivery_tag) for one in transfers] == [
        (0, _tag(0)),
        (1, _tag(9)),
    ]


def test_drain_uses_up_the_credit(peer: Peer) -> None:
    link = _receiver(peer, credit=0)
    peer.say(Flow(1, 100, 0, 100, 0, 0, 10, drain=True))
    assert peer.event(CreditGranted).link is link
    assert link.drain
    peer.command(SendTransfer(link, _tag(0), b"", b"x", settled=True))
    peer.command(CompleteDrain(link))
    assert peer.heard()[1:] == [Flow(0, 5_000, 2, 5_000, 0, 10, 0, 0, drain=True)]
    assert (link.credit, link.delivery_count, link.drain) == (0, 10, False)


def test_drain_without_credit_is_answered_too(peer: Peer) -> None:
    link = _receiver(peer, credit=0)
    peer.say(Flow(1, 100, 0, 100, 0, 0, 0, drain=True, echo=True))
    peer.event(CreditGranted)
    peer.command(CompleteDrain(link))
    assert peer.heard() == [Flow(0, 5_000, 1, 5_000, 0, 0, 0, 0, drain=True)]


def test_the_answer_to_a_drain_stays_behind_its_transfers() -> None:
    peer = Peer()
    peer.open()
    peer.begin(window=0)
    link = _receiver(peer, credit=5, window=0)
    peer.command(SendTransfer(link, _tag(0), b"", b"x", settled=True))
    peer.command(CompleteDrain(link))
    assert peer.heard() == []
    peer.say(Flow(1, 100, 0, 100))
    transfer, flow = peer.heard()
    assert isinstance(transfer, Transfer)
    assert flow.drain
    assert flow.delivery_count == 5


# ---- settling what was sent


def _sent(peer: Peer, count: int, *, handle: int = 0) -> Link:
    link = _receiver(peer, handle=handle)
    for number in range(count):
        peer.command(SendTransfer(link, _tag(number), b"", b"x", settled=False, context=number))
    peer.hear()
    return link


@pytest.mark.parametrize(
    "state",
    [
        accepted,
        Released(),
        Modified(True, True, {Symbol("k"): "v"}),
        Rejected(Error(Symbol("com.microsoft:dead-letter"), "why", {Symbol("r"): "x"})),
        TransactionalState(b"txn", accepted),
    ],
)
def test_an_outcome_is_asked_for_and_answered(peer: Peer, state: DeliveryState) -> None:
    link = _sent(peer, 3)
    peer.say(Disposition(True, 0, 1, False, state))
    event = peer.event(DispositionReceived)
    assert event.link is link
    assert [delivery.context for delivery in event.deliveries] == [0, 1]
    assert [delivery.tag for delivery in event.deliveries] == [_tag(0), _tag(1)]
    assert (event.state, event.settled) == (state, False)
    peer.command(SettleSent(event.deliveries, state))
    assert peer.heard() == [Disposition(False, 0, 1, True, state)]
    peer.command(SettleSent(event.deliveries, state))
    assert peer.heard() == []
    assert list(link.session.unsettled) == [2]


def test_an_outcome_settled_by_the_peer_is_not_answered(peer: Peer) -> None:
    link = _sent(peer, 2)
    peer.say(Disposition(True, 0, None, True, Released()))
    event = peer.event(DispositionReceived)
    assert event.settled
    peer.command(SettleSent(event.deliveries, Released()))
    assert peer.heard() == []
    assert list(link.session.unsettled) == [1]


def test_a_refusal_that_can_be_tried_again(peer: Peer) -> None:
    _sent(peer, 1)
    busy = Rejected(Error(Symbol("com.microsoft:server-busy")))
    for _ in range(2):
        peer.say(Disposition(True, 0, 0, False, accepted))
        event = peer.event(DispositionReceived)
        peer.command(SettleSent(event.deliveries, busy, forget=False))
        assert peer.heard() == [Disposition(False, 0, 0, True, busy)]


def test_a_range_over_links_and_holes(peer: Peer) -> None:
    first = _receiver(peer, handle=0)
    second = _receiver(peer, handle=1)
    for number in range(8):
        link = first if number < 3 else second
        peer.command(SendTransfer(link, _tag(number), b"", b"x", settled=number == 5))
    peer.hear()
    peer.say(Disposition(True, 1, 1, True, accepted))
    peer.events()
    peer.say(Disposition(True, 0, 100, False, accepted))
    events = peer.events()
    matched = [event for event in events if isinstance(event, DispositionReceived)]
    assert [(event.link, [one.id for one in event.deliveries]) for event in matched] == [
        (first, [0, 2]),
        (second, [3, 4, 6, 7]),
    ]
    unmatched = [event for event in events if isinstance(event, DispositionUnmatched)]
    assert [(event.first, event.last) for event in unmatched] == [(1, 1), (5, 5)]
    lost = Rejected(Error(Symbol("com.microsoft:message-lock-lost")))
    peer.command(SettleUnmatched(unmatched[0].session, 1, 1, lost))
    assert peer.heard() == [Disposition(False, 1, 1, True, lost)]


def test_deliveries_go_with_their_link(peer: Peer) -> None:
    """Links are not resumed: what nobody can settle is not kept."""
    sent = _sent(peer, 3, handle=0)
    kept = _sent(peer, 1, handle=1)
    received = _sender(peer, handle=2)
    peer.say(Transfer(2, 0, b"t", 0, False), payload=b"x")
    for handle, link in ((0, sent), (2, received)):
        peer.say(Detach(handle, closed=True))
        peer.command(DetachLink(link))
    peer.events()
    peer.hear()
    assert list(kept.session.unsettled) == [3]
    assert not kept.session.unsettled_in
    peer.say(Disposition(True, 0, 3, False, accepted))
    matched, unmatched = peer.events()
    assert isinstance(matched, DispositionReceived)
    assert [one.id for one in matched.deliveries] == [3]
    assert isinstance(unmatched, DispositionUnmatched)
    assert (unmatched.first, unmatched.last) == (0, 2)


def test_settled_dispositions_for_unknown_ids_are_ignored(peer: Peer) -> None:
    _sent(peer, 1)
    peer.say(Disposition(True, 5, 9, True, accepted))
    peer.say(Disposition(True, 5, 9, False, accepted))  # never sent
    peer.say(Disposition(True, 0, 0, False, Received(0, 0)))
    peer.say(Disposition(True, 0, 0, False, None))
    assert peer.events() == []
    assert peer.heard() == []


def test_a_hostile_range_costs_nothing(peer: Peer) -> None:
    link = _sent(peer, 3)
    peer.say(Disposition(True, 0, 0x7FFFFFFF, False, Released()))
    assert len(peer.event(DispositionReceived).deliveries) == 3
    peer.say(Disposition(False, 0, 0x7FFFFFFF, True))
    peer.say(Disposition(True, 1, 0, False, accepted))
    assert peer.heard()[-1].error.condition == "amqp:invalid-field"
    assert not link.live


def test_ids_wrap_around(peer: Peer) -> None:
    link = _receiver(peer)
    link.session.next_delivery_id = 0xFFFFFFFE
    for number in range(4):
        peer.command(SendTransfer(link, _tag(number), b"", b"x", settled=False))
    assert [one.delivery_id for one in peer.heard()] == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]
    peer.say(Disposition(True, 0xFFFFFFFF, 0, False, accepted))
    assert [one.id for one in peer.event(DispositionReceived).deliveries] == [0xFFFFFFFF, 0]
