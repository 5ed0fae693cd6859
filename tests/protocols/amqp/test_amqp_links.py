"""Sessions and links: AMQP 1.0 part 2, 2.5 and 2.6."""

from typing import Any

import pytest
from amqp_peer import Peer

from etagere.protocols.amqp.commands import (
    AcceptLink,
    DetachLink,
    EndSession,
    GrantCredit,
    RefuseLink,
    SendTransfer,
)
from etagere.protocols.amqp.events import (
    CreditGranted,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SessionBegun,
    SessionEnded,
    TransferReceived,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.outcomes import Coordinator, Error, Source, Target
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Transfer,
)
from etagere.protocols.amqp.values import Described, Symbol, ULong


@pytest.fixture
def peer() -> Peer:
    peer = Peer()
    peer.open()
    return peer


def test_begin_is_answered_on_the_same_channel(peer: Peer) -> None:
    peer.say(Begin(None, 77, 2048, 0xFFFFFFFF), 3)
    assert peer.hear() == [(3, Begin(3, 1, 5_000, 5_000, 255), b"")]
    assert peer.event(SessionBegun).session.channel == 3


def test_end_is_answered_once_and_late_frames_are_dropped(peer: Peer) -> None:
    peer.begin(1)
    link = peer.attach(receiver=True, channel=1)
    peer.say(End(), 1)
    assert peer.hear() == [(1, End(), b"")]
    ended = peer.event(SessionEnded)
    assert (ended.links, ended.orderly) == ([link], True)
    # pyAMQP detaches its management links after the end of their session.
    peer.say(Detach(0, closed=False), 1)
    peer.say(Flow(1, 1, 1, 1), 1)
    peer.say(End(), 1)
    assert peer.hear() == []
    assert peer.events() == []
    peer.begin(1)
    peer.attach(receiver=True, channel=1)


def test_our_end_discards_until_the_answer(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=False)
    error = Error(Symbol("amqp:internal-error"))
    peer.command(EndSession(link.session, error))
    assert peer.hear() == [(0, End(error), b"")]
    assert peer.event(SessionEnded).links == [link]
    peer.say(Transfer(0, 0, b"t"), payload=b"late")
    peer.say(End())
    assert peer.hear() == []
    assert peer.events() == []
    peer.begin()


def test_a_peer_may_begin_anew_without_answering_our_end(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=False)
    peer.command(EndSession(link.session))
    peer.hear()
    peer.events()
    peer.begin()
    peer.attach(receiver=False)


@pytest.mark.parametrize("receiver", [True, False])
def test_attach_is_answered_with_its_own_words(peer: Peer, receiver: bool) -> None:
    peer.begin(2)
    source = Source("amqps://localhost:5672/q", filter={Symbol("f"): Described(ULong(1), "x")})
    target = Target("/target")
    peer.say(Attach("näme", 7, receiver, 1, 1, source, target, initial_delivery_count=None), 2)
    attached = peer.event(LinkAttached)
    assert attached.attach.source == source
    assert attached.link.sends is receiver
    assert peer.hear() == []
    peer.command(AcceptLink(attached.link, source, target, 262_144, {Symbol("p"): ULong(1)}))
    ((channel, attach, _),) = peer.hear()
    assert channel == 2
    assert attach == Attach(
        "näme",
        7,
        not receiver,
        1,
        1,
        source,
        target,
        initial_delivery_count=0 if receiver else None,
        max_message_size=262_144,
        properties={Symbol("p"): ULong(1)},
    )


def test_a_coordinator_is_a_target(peer: Peer) -> None:
    peer.begin()
    target = Coordinator((Symbol("amqp:local-transactions"),))
    peer.say(Attach("tx", 0, False, 0, 0, Source(), target))
    attached = peer.event(LinkAttached)
    assert attached.attach.target == target
    peer.command(AcceptLink(attached.link, Source(), target))
    assert peer.heard()[0].target == target


@pytest.mark.parametrize("receiver", [True, False])
def test_refusal_is_an_attach_without_terminus_then_a_detach(peer: Peer, receiver: bool) -> None:
    peer.begin()
    link = peer.attach(receiver=receiver, accept=False)
    error = Error(Symbol("amqp:not-found"), "No such queue.")
    peer.command(RefuseLink(link, error))
    attach, detach = peer.heard()
    assert (attach.source, attach.target) == (None, None)  # go-amqp wants both
    assert detach == Detach(0, True, error)
    peer.say(Detach(0, closed=True))
    assert peer.heard() == []
    assert peer.events() == []
    peer.attach(receiver=receiver)


def test_a_peer_that_leaves_before_its_answer_gets_none(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=True, accept=False)
    peer.say(Detach(0, closed=True))
    assert peer.event(LinkDetached) == LinkDetached(link, True, None, withdrawn=True)
    peer.command(AcceptLink(link, Source(), Target()))
    peer.command(RefuseLink(link, Error(Symbol("com.microsoft:timeout"))))
    peer.command(DetachLink(link))
    assert peer.heard() == []
    peer.say(Flow(1, 1, 1, 1, 0, 0, 5))
    assert peer.events() == []
    peer.attach(receiver=True)


def test_detach_waits_for_the_caller(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=True)
    peer.say(Flow(1, 100, 0, 100, 0, 0, 5))
    peer.event(CreditGranted)
    peer.say(Detach(0, closed=True))
    assert peer.event(LinkDetached) == LinkDetached(link, True, None)
    assert peer.heard() == []
    assert not link.live
    peer.command(SendTransfer(link, bytes(16), b"", b"x", settled=True))
    assert peer.heard() == []
    peer.command(DetachLink(link))
    assert peer.heard() == [Detach(0, True)]
    peer.command(DetachLink(link))
    assert peer.heard() == []
    # Late frames for the handle are no fault, and it can be used again.
    peer.say(Flow(1, 100, 0, 100, 0, 0, 5))
    peer.say(Detach(0, closed=True))
    assert peer.heard() == []
    assert peer.attach(receiver=False) is not link


def test_a_handle_may_be_taken_again_before_our_answer(peer: Peer) -> None:
    peer.begin()
    first = peer.attach(receiver=True)
    peer.say(Detach(0, closed=True))
    peer.say(Attach("second", 0, False, 0, 0, Source(), Target("q")))
    detached, attached = peer.events()
    assert isinstance(detached, LinkDetached)
    assert isinstance(attached, LinkAttached)
    assert peer.heard() == [Detach(0, True)]
    peer.command(DetachLink(first))
    peer.command(AcceptLink(attached.link, Source(), Target("q")))
    assert [type(one) for one in peer.heard()] == [Attach]


def test_our_detach(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=True)
    error = Error(Symbol("amqp:link:detach-forced"))
    peer.command(DetachLink(link, error))
    peer.command(DetachLink(link, error))
    assert peer.heard() == [Detach(0, True, error)]
    peer.say(Flow(1, 100, 0, 100, 0, 0, 5))
    peer.say(Detach(0, closed=True))
    assert peer.heard() == []
    assert peer.events() == []


@pytest.mark.parametrize(
    ("frame", "condition"),
    [
        (Flow(1, 1, 0, 1, 5, 0, 1), "amqp:session:unattached-handle"),
        (Transfer(5, 0, b"t"), "amqp:session:unattached-handle"),
        (Detach(5, True), "amqp:session:unattached-handle"),
        (Attach("again", 0, True), "amqp:session:handle-in-use"),
    ],
)
def test_faults_end_the_session_only(peer: Peer, frame: Any, condition: str) -> None:
    peer.begin(1)
    peer.begin(2)
    bad = peer.attach(receiver=False, channel=1)
    good = peer.attach(receiver=False, channel=2)
    peer.say(frame, 1)
    ((channel, end, _),) = peer.hear()
    assert channel == 1
    assert isinstance(end, End)
    assert end.error is not None
    assert end.error.condition == condition
    ended = peer.event(SessionEnded)
    assert (ended.links, ended.orderly) == ([bad], False)
    assert good.live
    peer.say(Transfer(0, 0, b"t"), 2, b"payload")
    assert peer.event(TransferReceived).link is good


def test_a_tag_may_be_the_letters_of_a_uuid(peer: Peer) -> None:
    """Java's older azure-servicebus has such; AMQP itself ends at 32 bytes."""
    peer.begin()
    link = peer.attach(receiver=False)
    peer.say(Transfer(0, 0, b"5480e949-704c-4fc9-be2c-d4ef3d77b97c"), payload=b"payload")
    assert peer.event(TransferReceived).link is link


@pytest.mark.parametrize("receiver", [True, False])
def test_a_detach_is_answered_before_the_end_that_follows_it(peer: Peer, receiver: bool) -> None:
    """Java's older azure-servicebus sends both at once, and waits for both."""
    peer.begin()
    link = peer.attach(receiver=receiver)
    other = peer.attach(receiver=receiver, handle=1)
    peer.say(Detach(0, closed=True))
    peer.say(End())
    assert peer.heard() == [Detach(0, closed=True), End()]
    detached, ended = peer.events()
    assert isinstance(detached, LinkDetached)
    assert detached.link is link
    assert isinstance(ended, SessionEnded)
    assert set(ended.links) == {link, other}


@pytest.mark.parametrize(
    ("frame", "condition"),
    [
        (Transfer(0, None, b"t"), "amqp:invalid-field"),
        (Transfer(0, 0, None), "amqp:invalid-field"),
        (Transfer(0, 0, bytes(65)), "amqp:invalid-field"),
        (Transfer(1, 0, b"t"), "amqp:not-allowed"),
    ],
)
def test_faults_detach_the_link_only(peer: Peer, frame: Transfer, condition: str) -> None:
    peer.begin()
    links = {
        0: peer.attach(receiver=False, handle=0),
        1: peer.attach(receiver=True, handle=1),
        2: peer.attach(receiver=False, handle=2),
    }
    peer.say(frame, payload=b"payload")
    (detach,) = peer.heard()
    assert detach.closed
    assert detach.handle == frame.handle
    assert detach.error.condition == condition
    assert peer.event(LinkFailed).link is links[frame.handle]
    peer.say(Transfer(2, 5, b"t"), payload=b"payload")
    assert peer.event(TransferReceived).link is links[2]
    peer.say(frame, payload=b"again")
    assert peer.events() == []


def test_an_unknown_settle_mode_is_refused(peer: Peer) -> None:
    peer.begin()
    peer.say(Attach("l", 0, True, 3, 0, Source("q"), Target()))
    assert [type(one) for one in peer.heard()] == [Attach, Detach]
    peer.event(LinkFailed)


def test_handles_and_links_are_bounded() -> None:
    peer = Peer(Limits(handle_max=3, links_per_connection_max=3))
    peer.open()
    peer.begin(0)
    peer.begin(1)
    for handle in range(3):
        peer.attach(receiver=True, handle=handle)
    peer.say(Attach("fourth", 0, True), 1)
    assert peer.heard()[-1].error.condition == "amqp:resource-limit-exceeded"
    peer = Peer(Limits(handle_max=3))
    peer.open()
    peer.begin(0)
    peer.say(Attach("far", 4, True))
    (close,) = peer.heard()
    assert isinstance(close, Close)


def test_links_that_went_make_room() -> None:
    peer = Peer(Limits(links_per_connection_max=2))
    peer.open()
    for _ in range(5):
        peer.begin()
        for _ in range(3):
            link = peer.attach(receiver=True)
            peer.say(Detach(0, closed=True))
            peer.events()
            peer.command(DetachLink(link))
        peer.attach(receiver=True)
        peer.attach(receiver=True, handle=1)
        peer.say(End())
        peer.events()
        peer.hear()


# ---- credit and windows


def test_credit_is_counted_from_the_peer_s_delivery_count(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=True)
    peer.say(Flow(1, 100, 0, 100, 0, 0, 3))
    peer.events()
    for _ in range(2):
        peer.command(SendTransfer(link, bytes(16), b"", b"x", settled=True))
    assert link.credit == 1
    peer.say(Flow(1, 100, 0, 100, 0, 0, 4))  # sent before it saw the two
    assert link.credit == 2
    peer.say(Flow(3, 100, 0, 100, 0, 2, 0))
    assert link.credit == 0
    peer.say(Flow(3, 100, 0, 100, 0, 0, 1))  # lowered below what was sent already
    assert link.credit == 0


def test_credit_before_the_answer_counts(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=True, accept=False)
    peer.say(Flow(1, 100, 0, 100, 0, 0, 3))
    peer.event(CreditGranted)
    peer.command(AcceptLink(link, Source("queue"), Target()))
    assert (link.credit, link.live) == (3, True)


def test_a_sender_s_own_flows_mean_nothing(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=False)
    peer.command(GrantCredit(link, 1000))
    peer.hear()
    for _ in range(3):
        peer.say(Flow(1, 65_536, 0, 65_536, 0, 0, 10_000))
    assert peer.events() == []
    assert link.credit == 1000


def test_echo(peer: Peer) -> None:
    peer.begin()
    peer.attach(receiver=True)
    peer.say(Flow(1, 100, 0, 100, echo=True))
    assert peer.heard() == [Flow(0, 5_000, 1, 5_000)]
    peer.say(Flow(1, 100, 0, 100, 0, 0, 7, echo=True))
    assert peer.heard() == [Flow(0, 5_000, 1, 5_000, 0, 0, 7, 0)]


def test_credit_is_granted_with_our_count(peer: Peer) -> None:
    peer.begin()
    link = peer.attach(receiver=False)
    peer.command(GrantCredit(link, 1000))
    assert peer.heard() == [Flow(0, 5_000, 1, 5_000, 0, 0, 1000, 0)]
    peer.say(Transfer(0, 0, b"t", 0, True), payload=b"x")
    peer.command(GrantCredit(link, 1000))
    assert peer.heard() == [Flow(1, 4_999, 1, 5_000, 0, 1, 1000, 0)]


def test_an_overdraft_is_taken_only_so_far() -> None:
    peer = Peer(Limits(credit_overdraft_max=2))
    peer.open()
    peer.begin()
    peer.attach(receiver=False)
    for number in range(3):
        peer.say(Transfer(0, number, b"t", 0, True), payload=b"x")
    (detach,) = peer.heard()
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"
    assert [type(event) for event in peer.events()] == [
        TransferReceived,
        TransferReceived,
        LinkFailed,
    ]


def test_our_window_is_opened_before_it_is_used_up() -> None:
    peer = Peer(Limits(incoming_window_transfers=10))
    peer.open()
    peer.begin()
    link = peer.attach(receiver=False)
    peer.command(GrantCredit(link, 1000))
    peer.hear()
    for number in range(100):
        peer.say(Transfer(0, number, b"t", 0, True), payload=b"x")
        for flow in peer.heard():
            assert flow == Flow(number + 1, 10, 1, 5_000)
    assert len(peer.events()) == 100
