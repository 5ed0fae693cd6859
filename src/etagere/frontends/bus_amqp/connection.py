"""One client's connection: what the engine reports goes to handlers, what they want goes back."""

from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from msgspec.structs import replace

from etagere.auth.bus_sas import listen, send
from etagere.base.clock import Clock, Timestamp, ticks_per_second, timestamp_never
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.frontends.bus_amqp.alarm import Alarm
from etagere.frontends.bus_amqp.cbs import TokenPolicy, put_token
from etagere.frontends.bus_amqp.coordinator import CoordinatorLink
from etagere.frontends.bus_amqp.exchange import Answerer, ReplyLink, RequestLink
from etagere.frontends.bus_amqp.grants import Grants
from etagere.frontends.bus_amqp.host import Cancellable, Host
from etagere.frontends.bus_amqp.idle import IdleLimits, LinkTracker, link_idle_text
from etagere.frontends.bus_amqp.links import LinkHandler, ReceiverLink, SenderLink
from etagere.frontends.bus_amqp.management import Management
from etagere.frontends.bus_amqp.requests import Request
from etagere.frontends.bus_amqp.routes import Route, RouteKind, route_of
from etagere.frontends.bus_amqp.sasl import SaslJudge
from etagere.frontends.bus_amqp.sessions import (
    SessionWish,
    locked_until_property,
    locked_until_utc,
    session_wish,
    wait_ticks,
)
from etagere.frontends.bus_amqp.transactions import Transactions
from etagere.protocols.amqp.commands import (
    AcceptLink,
    CloseConnection,
    Command,
    DetachLink,
    RefuseLink,
    SaslDecision,
    SettleSent,
    SettleUnmatched,
)
from etagere.protocols.amqp.connection import Connection
from etagere.protocols.amqp.events import (
    ConnectionClosed,
    ConnectionOpened,
    CreditGranted,
    DispositionReceived,
    DispositionUnmatched,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SaslShown,
    SessionBegun,
    SessionEnded,
    TransferReceived,
    TransfersReceived,
)
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.links import Link, Session
from etagere.protocols.amqp.outcomes import (
    Coordinator,
    DeliveryState,
    Error,
    Rejected,
    Source,
    Target,
)
from etagere.protocols.amqp.values import Symbol, ULong
from etagere.services.bus.broker import Broker
from etagere.services.bus.catalogue import Node
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.errors import lock_lost, session_lost
from etagere.services.bus.messages import ReceiveMode

batch_size_property: Final = Symbol("com.microsoft:max-message-batch-size")
via_property: Final = Symbol("com.microsoft:transfer-destination-address")
request_bytes_max: Final = 1_048_576
distribution_copy: Final = Symbol("copy")
sessionful: Final = object()
"""In `Session.context`: locks of messages on it are those of a Service Bus session."""
settled_by_sender: Final = 1
"""`snd-settle-mode` of a receiver that wants messages deleted as they are sent."""


@dataclass(frozen=True, slots=True)
class BusServer:
    """What all connections share."""

    broker: Broker
    clock: Clock
    entropy: Entropy
    policy: TokenPolicy
    namespace: str = "sbemulatorns"
    limits: Limits | None = None
    """None for those of the broker's tier."""
    idle: IdleLimits = field(default_factory=IdleLimits)
    wall: Clock | None = None
    """The time that clients sign, by which tokens run out; None for `clock`."""


_standard_limits: Final = Limits()
_premium_limits: Final = Limits(frame_bytes_in_max=1_048_576)


def limits_of(tier: Tier) -> Limits:
    return _premium_limits if tier is Tier.premium else _standard_limits


class BusConnection:
    """The `Wire` of its links.  Its host hands in bytes and writes out what `data_to_send` has."""

    def __init__(
        self, server: BusServer, host: Host, now: Timestamp, *, certified: bool = False
    ) -> None:
        """`certified`: the client showed a certificate that was verified."""
        self.server = server
        self.host = host
        self.now = now
        self.entropy = server.entropy
        self.broker = server.broker
        self.speaker = errors.Speaker(server.clock, server.entropy, server.namespace)
        self.transactions = Transactions(server.broker, self)
        self.held_bytes = 0
        self.grants = Grants()
        if not server.policy.check:
            self.grants.allow_everything()
        limits = limits_of(server.broker.tier) if server.limits is None else server.limits
        self.engine = Connection(f"{server.entropy.uuid()}_G0", limits, host.steady_now())
        self._wall: Clock = server.clock if server.wall is None else server.wall
        self._sasl = SaslJudge(server.policy, self.grants, certified=certified)
        self._tracker: LinkTracker | None = None
        self._handlers: dict[int, LinkHandler] = {}
        """By identity of the link."""
        self._names: dict[str, LinkHandler] = {}
        self._reply_links: list[ReplyLink] = []
        self._delivered: set[ReceiverLink] = set()
        self._accepting: dict[int, Cancellable] = {}
        self._idle_alarm = Alarm(host.at, self._rang)
        self._life_alarm = Alarm(host.at_steady, self._beat)
        self._alarms_stale = True
        """Something happened that may be due earlier than the alarms."""
        self._over = False

    # ---- the host's side

    @property
    def finished(self) -> bool:
        return self.engine.finished

    def receive(self, data: bytes, now: Timestamp) -> None:
        self.now = now
        self.engine.receive_data(data, self.host.steady_now())
        self._handle_events()

    def lost(self, now: Timestamp) -> None:
        """Everything that the client sent has been handed in, and no more will come."""
        self.now = now
        self.engine.receive_eof(self.host.steady_now())
        self._handle_events()

    def data_to_send(self) -> bytes:
        data = self.engine.data_to_send()
        if self._alarms_stale:
            self._set_alarms()
        return data

    def written(self) -> None:
        """What `data_to_send` gave is on its way: ask for more."""
        delivered = self._delivered
        if delivered:
            self._delivered = set()
            for link in delivered:
                link.flushed()

    def uncongested(self) -> None:
        for handler in list(self._handlers.values()):
            handler.uncongested()

    def shut_down(self) -> None:
        """The server stops."""
        self.engine.handle_timer(self.host.steady_now())
        text = "The server is shutting down; connect again."
        self.send(CloseConnection(self.speaker.error(errors.connection_forced, text)))
        self._handle_events()

    # ---- the links' side

    def send(self, command: Command) -> None:
        self.engine.send(command)

    def draw_id(self) -> str:
        return self.entropy.token(16).hex()

    def allows(self, right: str, path: str) -> bool:
        return self.grants.allows(right, path, self._wall.now())

    def touch(self, link_name: object) -> None:
        if isinstance(link_name, str):
            handler = self._names.get(link_name)
            if handler is not None:
                handler.active_at = self.now

    def delivered(self, receiver_link: ReceiverLink) -> None:
        self._delivered.add(receiver_link)

    def end(self, handler: LinkHandler, error: Error) -> None:
        self._gone(handler.link, broken=False)
        self._alarms_stale = True
        self.send(DetachLink(handler.link, error))
        self.host.wake()

    # ---- events

    def _handle_events(self) -> None:
        next_event = self.engine.next_event
        while (event := next_event()) is not None:
            if isinstance(event, TransfersReceived):
                handler = event.link.context
                if handler is not None:
                    handler.transferred_in_a_run(event)
            elif isinstance(event, TransferReceived):
                handler = event.link.context
                if handler is not None:
                    handler.transferred(event)
            elif isinstance(event, DispositionReceived):
                handler = event.link.context
                if handler is not None:
                    handler.disposed(event)
                elif not event.settled:
                    error = self._lock_lost(event.link.session)
                    self.send(SettleSent(event.deliveries, Rejected(error)))
            elif isinstance(event, CreditGranted):
                handler = event.link.context
                if handler is not None:
                    handler.credited()
            else:
                self._alarms_stale = True
                self._handle(event)
        if self._alarms_stale:
            self._set_alarms()

    def _handle(self, event: Event) -> None:
        match event:
            case SaslShown():
                self.send(SaslDecision(approved=self._sasl.approves(event)))
            case ConnectionOpened():
                steady_now = self.host.steady_now()
                self._tracker = LinkTracker(self.server.idle, self.now, steady_now)
                if self.grants:
                    self._tracker.authorized()
            case LinkAttached():
                self._attached(event.link)
            case DispositionUnmatched():
                self._settled_before(event)
            case LinkDetached():
                self._gone(event.link, broken=False)
                if not event.withdrawn:
                    self.send(DetachLink(event.link))
            case LinkFailed():
                self._gone(event.link, broken=False)
            case SessionEnded():
                for link in event.links:
                    self._gone(link, broken=not event.orderly)
            case ConnectionClosed():
                self._closed()
            case TransferReceived() | TransfersReceived() | DispositionReceived():
                pass
            case CreditGranted() | SessionBegun():
                pass
            case _:
                assert_never(event)

    def _settled_before(self, event: DispositionUnmatched) -> None:
        error = self._lock_lost(event.session)
        self.send(SettleUnmatched(event.session, event.first, event.last, Rejected(error)))

    def _lock_lost(self, session: Session) -> Error:
        if session.context is sessionful:
            return self.speaker.refusal(session_lost())
        return self.speaker.refusal(lock_lost())

    def _closed(self) -> None:
        if self._over:
            return
        self._over = True
        for handler in list(self._handlers.values()):
            self._gone(handler.link, broken=True)
        for job in self._accepting.values():
            job.cancel()
        self._accepting.clear()
        self.broker.connection_lost(self)
        self._idle_alarm.cancel()
        self._life_alarm.cancel()

    def _gone(self, link: Link, *, broken: bool) -> None:
        """A link is over, for whatever reason."""
        job = self._stop_accepting(link)
        if job is not None:
            job.cancel()
        handler = self._handlers.pop(id(link), None)
        if handler is None:
            return
        link.context = None
        if self._names.get(link.name) is handler:
            del self._names[link.name]
        if isinstance(handler, ReplyLink):
            self._reply_links.remove(handler)
        if isinstance(handler, ReceiverLink):
            self._delivered.discard(handler)
        handler.closed(broken=broken)
        if handler.idles and self._tracker is not None:
            self._tracker.link_went(self.now)

    # ---- attaching

    def _attached(self, link: Link) -> None:
        try:
            self._attach(link)
        except Refused as refused:
            self._refuse(link, self.speaker.refusal(refused))

    def _refuse(self, link: Link, error: Error) -> None:
        self.send(RefuseLink(link, error))
        self.host.wake()

    def _attach(self, link: Link) -> None:
        attach = link.attach
        if link.sends:
            source = attach.source
            if source is None:
                raise Refused(errors.invalid_field, message="The link has no source.")
            if source.distribution_mode == distribution_copy:
                raise Refused(
                    errors.not_implemented,
                    message="Messages are not copied to a link; peek at them instead.",
                )
            self._attach_receiver(link, source, route_of(source.address))
            return
        target = attach.target
        if isinstance(target, Coordinator):
            coordinator = CoordinatorLink(self, link)
            self._take(link, coordinator)
            self._accept(link, source=attach.source or Source(), target=target)
            coordinator.grant()
            return
        if target is None:
            raise Refused(errors.invalid_field, message="The link has no target.")
        self._attach_sender(link, target, route_of(target.address))

    def _attach_sender(self, link: Link, target: Target, route: Route) -> None:
        source = link.attach.source or Source()
        if route.kind is not RouteKind.entity:
            answerer = self._answerer(route)
            path = self._authorize_node(route)
            requests = RequestLink(self, link, route, path, "", answerer, self._reply_links)
            self._take(link, requests)
            self._accept(link, source=source, target=target, max_message_size=request_bytes_max)
            requests.grant()
            return
        path = self._authorize(send, "Send", route)
        sender_link = SenderLink(self, link, path, send)
        destination = (link.attach.properties or {}).get(via_property)
        if destination is not None:
            # The link's address is what sends go through, this one where they end.
            final = route_of(destination)
            self._authorize(send, "Send", final)
            sender_link.via = route.path
            route = final
        sender = self.broker.open_sender(route.path, sender_link)
        sender_link.open(sender)
        self._take(link, sender_link)
        node = sender.node
        self._accept(
            link,
            source=source,
            target=target,
            max_message_size=node.message_bytes_max,
            properties={batch_size_property: ULong(node.batch_bytes_max)},
        )
        sender_link.grant()

    def _attach_receiver(self, link: Link, source: Source, route: Route) -> None:
        target = link.attach.target or Target()
        if route.kind is not RouteKind.entity:
            self._answerer(route)
            path = self._authorize_node(route)
            replies = ReplyLink(self, link, route, path, "")
            self._take(link, replies)
            self._reply_links.append(replies)
            self._accept(link, source=source, target=target)
            return
        path = self._authorize(listen, "Listen", route)
        wish = session_wish(source.filter)
        mode = ReceiveMode.peek_lock
        if link.attach.snd_settle_mode == settled_by_sender:
            mode = ReceiveMode.receive_and_delete
        receiver_link = ReceiverLink(self, link, path, listen, mode)
        if wish is not None:
            job = self.host.spawn(self._accept_session(receiver_link, route, wish))
            self._accepting[id(link)] = job
            if self._tracker is not None:
                self._tracker.link_came()
            return
        receiver_link.open(
            self.broker.open_receiver(route.path, mode, receiver_link, connection=self)
        )
        self._take(link, receiver_link)
        self._accept(link, source=source, target=target)
        receiver_link.credited()

    async def _accept_session(
        self, receiver_link: ReceiverLink, route: Route, wish: SessionWish
    ) -> None:
        """Wait for a session; cancelled when the client leaves first."""
        link = receiver_link.link
        source = link.attach.source
        assert source is not None
        try:
            receiver = await self.broker.accept_session(
                route.path,
                wish.session_id,
                receiver_link.mode,
                receiver_link,
                connection=self,
                wait_ticks=wait_ticks(link.attach.properties),
            )
        except Refused as refused:
            if self._stop_accepting(link) is not None:
                self._refuse(link, self.speaker.refusal(refused, route.path))
            return
        if self._stop_accepting(link) is None:
            receiver.close(broken=False)
            return
        receiver_link.open(receiver)
        link.session.context = sessionful
        self._take(link, receiver_link)
        self._accept(
            link,
            source=replace(source, filter=wish.answer(receiver.session_id)),
            target=link.attach.target or Target(),
            properties={locked_until_property: locked_until_utc(receiver.locked_until)},
        )
        receiver_link.credited()
        self.host.wake()

    def _stop_accepting(self, link: Link) -> Cancellable | None:
        job = self._accepting.pop(id(link), None)
        if job is not None and self._tracker is not None:
            self._tracker.link_went(self.now)
        return job

    def _take(self, link: Link, handler: LinkHandler) -> None:
        link.context = handler
        self._handlers[id(link)] = handler
        self._names[link.name] = handler
        if handler.idles and self._tracker is not None:
            self._tracker.link_came()

    def _accept(
        self,
        link: Link,
        *,
        source: Source,
        target: Target | Coordinator,
        max_message_size: int | None = None,
        properties: dict[Any, Any] | None = None,
    ) -> None:
        self.send(AcceptLink(link, source, target, max_message_size, properties))

    # ---- rights

    def _authorize(self, right: str, claim: str, route: Route) -> str:
        """The path in folded case; missing entities are told apart from missing rights."""
        path = route.path.casefold()
        if not self.allows(right, path):
            self._find(route)
            raise Refused(
                errors.unauthorized,
                message=f"Unauthorized access. '{claim}' claim(s) are required to perform this "
                f"operation. Resource: 'sb://{self.server.namespace}.servicebus.windows.net/"
                f"{route.path}'.",
            )
        return path

    def _authorize_node(self, route: Route) -> str:
        """Management needs a token, whatever its rights; `$cbs` needs none.

        One for the entity covers its node; JS's rule manager has one for the node alone.
        """
        if route.kind is RouteKind.cbs:
            return ""
        path = route.node
        if not self.grants.knows(path, self._wall.now()):
            raise Refused(
                errors.unauthorized,
                message="Unauthorized access. A token is required to perform this operation.",
            )
        return path

    def _find(self, route: Route) -> Node:
        return self.broker.resolve(route.path)

    def _answerer(self, route: Route) -> Answerer:
        if route.kind is RouteKind.cbs:
            return self
        if route.kind is RouteKind.management:
            self._find(route)
            return Management(self, self.broker, route.path, self)
        raise Refused(errors.not_implemented, message="The namespace has no management node.")

    def ask(
        self,
        request: Request,
        link: RequestLink,
        state: DeliveryState | None,  # noqa: ARG002
    ) -> None:
        """`$cbs`.  Tokens take no part in transactions, whatever `state` says."""
        now = self._wall.now()
        response = put_token(
            request, self.grants, self.server.policy, self.broker, now, self.speaker
        )
        self._alarms_stale = True  # the token runs out some time
        if self.grants and self._tracker is not None:
            self._tracker.authorized()
        link.answer(request, response)

    # ---- time

    def _set_alarms(self) -> None:
        self._alarms_stale = False
        if not self._over:
            self._idle_alarm.set(self._next_idle())
            self._life_alarm.set(self._next_beat())

    def _next_idle(self) -> Timestamp | None:
        """When something has been idle for too long, or a token runs out."""
        moments = [self._next_expiry()]
        if self._tracker is not None:
            closing = self._tracker.due()
            if closing is not None:
                moments.append(closing[0])
        idle = min((one.active_at for one in self._handlers.values() if one.idles), default=None)
        if idle is not None:
            moments.append(self._link_due(idle))
        return min((moment for moment in moments if moment is not None), default=None)

    def _next_beat(self) -> Timestamp | None:
        """When to say or to miss a sign of life, or a token; in steady time."""
        moments = [self.engine.get_timer()]
        if self._tracker is not None:
            closing = self._tracker.token_due()
            if closing is not None:
                moments.append(closing[0])
        return min((moment for moment in moments if moment is not None), default=None)

    def _next_expiry(self) -> Timestamp | None:
        """When a token runs out, by the server's clock as it goes now.

        Who moves that clock does not make tokens old; the alarm is early then, and set anew.
        """
        expires_at = self.grants.next_expiry()
        if expires_at is None or expires_at >= timestamp_never:
            return None
        return Timestamp(self.now + max(0, expires_at - self._wall.now()))

    def _link_due(self, active_at: Timestamp) -> Timestamp:
        return Timestamp(active_at + self.server.idle.link_seconds_max * ticks_per_second)

    def _rang(self) -> None:
        self.now = now = self.server.clock.now()
        if self.grants.drop_expired(self._wall.now()):
            self._drop_unauthorized()
        for handler in list(self._handlers.values()):
            if handler.idles and self._link_due(handler.active_at) <= now:
                text = link_idle_text.format(self._idle_text())
                self.end(handler, self.speaker.error(errors.detach_forced, text, handler.path))
        if self._tracker is not None:
            self._close_when_due(self._tracker.due(), now)
        self._look_again()

    def _beat(self) -> None:
        now = self.host.steady_now()
        self.engine.handle_timer(now)
        if self._tracker is not None:
            self._close_when_due(self._tracker.token_due(), now)
        self._look_again()

    def _close_when_due(self, closing: tuple[Timestamp, str] | None, now: Timestamp) -> None:
        if closing is not None and closing[0] <= now:
            error = self.speaker.error(errors.connection_forced, closing[1])
            self.send(CloseConnection(error))

    def _look_again(self) -> None:
        self._handle_events()
        self._alarms_stale = True
        self.host.wake()

    def _idle_text(self) -> str:
        minutes, seconds = divmod(self.server.idle.link_seconds_max, 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"

    def _drop_unauthorized(self) -> None:
        """A token ran out: the links that relied on it end."""
        for handler in list(self._handlers.values()):
            if not handler.right:
                continue
            if not self.allows(handler.right, handler.path):
                text = "ExpiredToken: The token of the link is expired."
                self.end(handler, self.speaker.error(errors.unauthorized, text, handler.path))
