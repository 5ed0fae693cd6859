"""Receivers: links that messages are delivered on, sessions, and a single message for HTTP."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.services.bus import errors
from etagere.services.bus.catalogue import LogState, Node
from etagere.services.bus.competing_owner import CompetingOwner
from etagere.services.bus.core import Core
from etagere.services.bus.credit import Taker
from etagere.services.bus.deliveries import LockedRun
from etagere.services.bus.links import ReceiverSink
from etagere.services.bus.messages import Delivery, Outcome, ReceiveMode, release
from etagere.services.bus.names import EntityKind, SubQueue
from etagere.services.bus.overriding import override
from etagere.services.bus.sending import key_chars_max
from etagere.services.bus.session_owner import Acceptance, Hold, SessionOwner

links_max: Final = 5000
"""Senders and receivers attached to one entity."""


def check_gives_messages(node: Node) -> None:
    """Messages can be received from the address now."""
    if node.kind is EntityKind.topic and node.sub_queue is SubQueue.active:
        raise Refused(errors.not_allowed, message="Messages cannot be received from a topic.")
    if not node.receives_allowed:
        raise errors.disabled(node.path)
    if node.sub_queue is SubQueue.active and node.state.target.forward_to is not None:
        raise Refused(
            errors.not_allowed,
            message="Cannot create message receiver on an entity with auto-forwarding enabled.",
        )


def check_without_session(node: Node) -> None:
    if node.requires_session:
        raise Refused(
            errors.not_allowed,
            message="It is not possible for an entity that requires sessions to create a "
            "non-sessionful message receiver.",
        )


def _check_links(node: Node) -> None:
    if len(node.state.links) >= links_max:
        raise Refused(
            errors.quota_exceeded,
            message=f"The entity has {links_max} links, and cannot have more.",
        )


class ReceiverLink:
    """What `links.Receiver` promises."""

    __slots__ = (
        "_answer",
        "_answer_each",
        "_closed",
        "_core",
        "_owner",
        "_sink",
        "_state",
        "_taker",
        "node",
    )

    def __init__(
        self, core: Core, node: Node, mode: ReceiveMode, sink: ReceiverSink, connection: object
    ) -> None:
        self.node = node
        self._core = core
        self._sink = sink
        self._answer = sink.settled
        self._answer_each = sink.completed_each
        self._state: LogState = node.state.logs[node.sub_queue]
        self._owner = core.owner_of(self._state)
        self._taker = Taker(self, mode, connection)
        self._closed = False

    @property
    def mode(self) -> ReceiveMode:
        return self._taker.mode

    def attach(self) -> None:
        assert isinstance(self._owner, CompetingOwner)
        self.node.state.links.add(self)
        self._owner.attach(self._taker)

    def set_credit(self, credit: int, *, drain: bool = False) -> None:
        if self._closed:
            return
        core = self._core
        self.node.state.last_used = core.clock.now()
        self._give_credit(credit, drain=drain)
        core.touch(self._state)

    def _give_credit(self, credit: int, *, drain: bool) -> None:
        assert isinstance(self._owner, CompetingOwner)
        self._owner.set_credit(self._taker, credit, drain=drain)

    def settle(self, token: bytes, outcome: Outcome, ticket: Any) -> None:
        core = self._core
        now = core.clock.now()
        self.node.state.last_used = now
        answer = None if ticket is None else self._answer
        self._owner.settle(token, outcome, ticket, answer, now)
        core.touch(self._state)

    def complete_each(self, tokens: Sequence[bytes], tickets: Sequence[Any] | None) -> None:
        core = self._core
        now = core.clock.now()
        self.node.state.last_used = now
        if tickets is None:
            self._owner.complete_each(tokens, (None,) * len(tokens), None, now)
        else:
            self._owner.complete_each(tokens, tickets, self._answer_each, now)
        core.touch(self._state)

    def close(self, *, broken: bool) -> None:
        if self._closed:
            return
        self._leave()
        self.node.state.last_used = self._core.clock.now()
        self._detach(broken=broken)
        self._core.touch(self._state)

    def _leave(self) -> None:
        self._closed = True
        self.node.state.links.discard(self)

    def _detach(self, *, broken: bool) -> None:
        assert isinstance(self._owner, CompetingOwner)
        self._owner.detach(self._taker, broken=broken)

    # ---- called by the owner

    def deliver(self, delivery: Delivery) -> None:
        self._sink.deliver(delivery)

    def deliver_run(self, run: LockedRun) -> None:
        self._sink.deliver_run(run)

    def drained(self) -> None:
        if not self._closed:
            self._sink.drained()

    def detached(self, refusal: Refused) -> None:
        """The broker ends the link."""
        if not self._closed:
            self.close(broken=False)
            self._sink.detached(refusal)


class SessionReceiverLink(ReceiverLink):
    """What `links.SessionReceiver` promises."""

    __slots__ = ("_accepted", "_hold", "_lost", "_waiting")

    def __init__(
        self, core: Core, node: Node, mode: ReceiveMode, sink: ReceiverSink, connection: object
    ) -> None:
        super().__init__(core, node, mode, sink, connection)
        self._hold: Hold | None = None
        self._accepted = False
        self._waiting: asyncio.Future[Hold] | None = None
        self._lost: Refused | None = None

    @property
    def session_id(self) -> str:
        assert self._hold is not None
        return self._hold.session_id

    @property
    def locked_until(self) -> Timestamp:
        assert self._hold is not None
        return self._hold.until

    async def accept(self, session_id: str | None, wait_ticks: int) -> None:
        owner = self._owner
        assert isinstance(owner, SessionOwner)
        future: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
        self._waiting = future

        def answer(hold: Hold | None, refusal: Refused | None) -> None:
            if refusal is not None:
                if not future.done():
                    future.set_exception(refusal)
                return
            assert hold is not None
            if future.done():  # who asked has gone
                owner.close(hold, self._core.clock.now())
            else:
                self._hold = hold
                future.set_result(hold)

        now = self._core.clock.now()
        deadline = Timestamp(now + wait_ticks)
        acceptance = Acceptance(session_id, self._taker, deadline, answer)
        self.node.state.links.add(self)  # who waits is told what becomes of the entity, too
        owner.accept(acceptance, now)
        self._core.touch(self._state)
        try:
            await future
        except BaseException:
            self._give_up(owner, acceptance, future)
            raise
        if self._lost is not None:
            self._give_up(owner, acceptance, future)
            raise self._lost
        self._accepted = True

    def _give_up(
        self, owner: SessionOwner, acceptance: Acceptance, future: asyncio.Future[Hold]
    ) -> None:
        """Nobody will have what may have been granted already."""
        self._leave()
        owner.cancel(acceptance)
        if future.done() and not future.cancelled() and future.exception() is None:
            owner.close(future.result(), self._core.clock.now())
            self._core.touch(self._state)

    @override
    def detached(self, refusal: Refused) -> None:
        if self._accepted:
            super().detached(refusal)
            return
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_exception(refusal)
        else:
            self._lost = refusal  # before who asked even heard that it was granted

    @override
    def _give_credit(self, credit: int, *, drain: bool) -> None:
        assert isinstance(self._owner, SessionOwner)
        assert self._hold is not None
        self._owner.set_credit(self._hold, credit, drain=drain)

    @override
    def _detach(
        self,
        *,
        broken: bool,  # noqa: ARG002 - a session is released either way
    ) -> None:
        assert isinstance(self._owner, SessionOwner)
        assert self._hold is not None
        self._owner.close(self._hold, self._core.clock.now())


def open_receiver(
    core: Core, node: Node, mode: ReceiveMode, sink: ReceiverSink, connection: object
) -> ReceiverLink:
    check_gives_messages(node)
    check_without_session(node)
    _check_links(node)
    node.state.last_used = core.clock.now()
    link = ReceiverLink(core, node, mode, sink, connection)
    link.attach()
    return link


async def accept_session(
    core: Core,
    node: Node,
    session_id: str | None,
    mode: ReceiveMode,
    sink: ReceiverSink,
    connection: object,
    wait_ticks: int,
) -> SessionReceiverLink:
    check_gives_messages(node)
    if not node.requires_session:
        raise Refused(
            errors.not_allowed,
            message="It is not possible to create a sessionful message receiver for an entity that "
            "does not require sessions.",
        )
    if session_id is not None and len(session_id) > key_chars_max:
        raise errors.out_of_range(
            "SessionId", f"SessionId is longer than {key_chars_max} characters."
        )
    _check_links(node)
    node.state.last_used = core.clock.now()
    link = SessionReceiverLink(core, node, mode, sink, connection)
    await link.accept(session_id, wait_ticks)
    return link


class _OneMessage:
    """The sink of a receiver that lives for one message."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Delivery | None]
        self.future = asyncio.get_running_loop().create_future()
        self.link: ReceiverLink | None = None

    def deliver(self, delivery: Delivery) -> None:
        if not self.future.done():
            self.future.set_result(delivery)
        else:
            self.refuse(delivery)

    def deliver_run(self, run: LockedRun) -> None:
        for delivery in run.each():
            self.deliver(delivery)

    def refuse(self, delivery: Delivery | None) -> None:
        """Nobody will ever hear of this delivery."""
        if delivery is not None and delivery.lock_token is not None and self.link is not None:
            self.link.settle(delivery.lock_token, release, None)

    def drained(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def settled(self, ticket: Any, refusal: Refused | None) -> None:
        pass

    def completed_each(self, tickets: Sequence[Any], refusal: Refused | None) -> None:
        pass

    def detached(self, refusal: Refused) -> None:
        if not self.future.done():
            self.future.set_exception(refusal)


async def receive_one(
    core: Core, node: Node, mode: ReceiveMode, wait_ticks: int
) -> Delivery | None:
    """One message, or None when the wait is over."""
    sink = _OneMessage()
    link = sink.link = open_receiver(core, node, mode, sink, None)
    waiting = object()
    link.set_credit(1, drain=wait_ticks <= 0)

    def give_up(_now: Timestamp) -> None:
        # A drain answers with what there is in the last moment, or with nothing.
        if not sink.future.done():
            link.set_credit(1, drain=True)

    if wait_ticks > 0:
        core.call_at(waiting, Timestamp(core.clock.now() + wait_ticks), give_up)
    try:
        return await sink.future
    except asyncio.CancelledError:
        future = sink.future
        if future.done() and not future.cancelled() and future.exception() is None:
            sink.refuse(future.result())
        raise
    finally:
        core.agenda.drop(waiting)
        link.close(broken=False)
