"""Request and reply links of `$cbs` and `$management`: who gets which answer.

A reply goes to a link of the same connection: the one whose target address is the request's
reply-to, else the one whose name it is (JS), else the latest one of the session.
"""

from collections import deque
from typing import Any, Final, Protocol

from etagere.frontends.bus_amqp.links import LinkHandler, Wire
from etagere.frontends.bus_amqp.requests import Request, Response, read_request, write_response
from etagere.frontends.bus_amqp.routes import Route, RouteKind
from etagere.protocols.amqp.commands import (
    CompleteDrain,
    GrantCredit,
    SendTransfer,
    SettleReceived,
    SettleSent,
)
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.events import DispositionReceived, TransferReceived
from etagere.protocols.amqp.links import Link
from etagere.protocols.amqp.outcomes import (
    DeliveryState,
    Rejected,
    Target,
    TransactionalState,
    accepted,
)
from etagere.services.bus.overriding import override

request_credit: Final = 200
replies_waiting_max: Final = 1_000
"""Java gives one credit a request; who asks and never listens is cut off here."""


def may_idle_out(route: Route) -> bool:
    """Clients keep the links of `$cbs` for an hour between two tokens; pyAMQP waits for ever for a
    token's answer when they are ended under it."""
    return route.kind is not RouteKind.cbs


class ReplyLink(LinkHandler):
    """The client receives answers, as its credit allows."""

    def __init__(self, wire: Wire, link: Link, route: Route, path: str, right: str) -> None:
        super().__init__(wire, link, path, right)
        self.route = route
        self.idles = may_idle_out(route)
        self._waiting: deque[bytes] = deque()

    @property
    def target_address(self) -> Any:
        target = self.link.attach.target
        return target.address if isinstance(target, Target) else None

    def reply(self, payload: bytes) -> None:
        if len(self._waiting) >= replies_waiting_max:
            self._waiting.popleft()
        self._waiting.append(payload)
        self.credited()

    @override
    def credited(self) -> None:
        self.active_at = self.wire.now
        link = self.link
        while self._waiting and link.live and link.credit > 0 and link.session.sendable() > 0:
            payload = self._waiting.popleft()
            self.wire.send(
                SendTransfer(
                    link,
                    self.wire.entropy.token(16),
                    b"",
                    payload,
                    settled=link.attach.snd_settle_mode == 1,
                )
            )
            self.wire.host.wake()
        if link.drain:
            self.wire.send(CompleteDrain(link))
            self.wire.host.wake()

    @override
    def disposed(self, event: DispositionReceived) -> None:
        """Whatever the client thinks of an answer, it was one."""
        if not event.settled:
            self.wire.send(SettleSent(event.deliveries, event.state or accepted))


class Answerer(Protocol):
    """What stands behind a node."""

    def ask(self, request: Request, link: "RequestLink", state: DeliveryState | None) -> None:
        """Call `link.answer` once, now or later."""
        ...


class RequestLink(LinkHandler):
    """The client sends requests."""

    def __init__(
        self,
        wire: Wire,
        link: Link,
        route: Route,
        path: str,
        right: str,
        answerer: Answerer,
        reply_links: list[ReplyLink],
    ) -> None:
        super().__init__(wire, link, path, right)
        self.route = route
        self.idles = may_idle_out(route)
        self._answerer = answerer
        self._reply_links = reply_links
        """All of the connection, the latest last."""
        self._under_way = 0

    def grant(self) -> None:
        credit = request_credit - self._under_way
        if self.link.credit <= credit - (request_credit >> 1):
            self.wire.send(GrantCredit(self.link, credit))

    @override
    def transferred(self, event: TransferReceived) -> None:
        self.active_at = self.wire.now
        try:
            request = read_request(event.payload)  # one that was too large has come without bytes
        except DecodeFault as fault:
            error = self.wire.speaker.fault(fault, self.path)
            self.wire.send(SettleReceived(self.link, event.delivery_id, Rejected(error)))
            self.grant()
            return
        state: DeliveryState = accepted
        if isinstance(event.state, TransactionalState):
            state = TransactionalState(event.state.transaction_id, accepted)
        self.wire.send(SettleReceived(self.link, event.delivery_id, state))
        self._under_way += 1
        self._answerer.ask(request, self, event.state)

    def answer(self, request: Request, response: Response) -> None:
        self._under_way -= 1
        self.grant()
        self.wire.host.wake()
        reply_link = self._reply_link(request.properties.reply_to)
        if reply_link is not None:
            reply_link.reply(write_response(request, response))

    def _reply_link(self, reply_to: Any) -> ReplyLink | None:
        node = self.route.node
        links = [one for one in self._reply_links if one.route.node == node and one.link.live]
        links.sort(key=lambda one: one.link.session is not self.link.session)
        if reply_to is not None:
            for one in links:
                if one.target_address == reply_to:
                    return one
            for one in links:
                if one.link.name == reply_to:
                    return one
        same = [one for one in links if one.link.session is self.link.session]
        links = same or links
        return links[-1] if links else None
