"""Links to entities: a client's sender puts messages into the broker, its receiver takes them out.

Each link has one handler, which lies in `Link.context`.  Handlers of entity links are the broker's
sinks; they turn its callbacks into AMQP without waiting for anything.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from etagere.base.clock import Timestamp
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.frontends.bus_amqp.host import Host
from etagere.frontends.bus_amqp.messages import write_head, write_heads
from etagere.frontends.bus_amqp.outcomes import outcome_of
from etagere.frontends.bus_amqp.reader import MessageReader
from etagere.frontends.bus_amqp.transactions import Transactions
from etagere.protocols.amqp.commands import (
    AcceptReceived,
    Command,
    CompleteDrain,
    GrantCredit,
    SendTransfer,
    SendTransfers,
    SettleReceived,
    SettleSent,
)
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.events import DispositionReceived, TransferReceived, TransfersReceived
from etagere.protocols.amqp.links import Delivery as SentDelivery
from etagere.protocols.amqp.links import Link
from etagere.protocols.amqp.outcomes import (
    Accepted,
    DeliveryState,
    Error,
    Rejected,
    TransactionalState,
    accepted,
)
from etagere.services.bus.broker import Receiver, Sender
from etagere.services.bus.deliveries import LockedRun
from etagere.services.bus.messages import Delivery, Message, ReceiveMode, release
from etagere.services.bus.overriding import override

S = TypeVar("S")

sender_credit: Final = 1_000
"""Messages that a client may have under way on one link."""

tranche_first: Final = 16
tranche_most: Final = 256
tranche_bytes: Final = 1_048_576
"""How much the broker is asked for at once: a slow client must not fill our memory."""


class Wire(Protocol):
    """The connection, as its links use it."""

    host: Host
    speaker: errors.Speaker
    entropy: Entropy
    transactions: Transactions
    now: Timestamp
    held_bytes: int
    """Of messages that came and are not stored yet."""

    def send(self, command: Command) -> None: ...

    def draw_id(self) -> str:
        """For a message that came without one."""
        ...

    def allows(self, right: str, path: str) -> bool:
        """Whether the client showed a token for this; `path` in folded case."""
        ...

    def delivered(self, receiver_link: "ReceiverLink") -> None:
        """Call its `flushed` once what was sent is written."""
        ...

    def end(self, handler: "LinkHandler", error: Error) -> None:
        """Detach its link and forget it."""
        ...

    def touch(self, link_name: object) -> None:
        """Something was done on behalf of this link: it is not idle."""
        ...


def _echo(state: S) -> S | Rejected:
    """A dead-lettered message is answered without its error: an error would mean failure."""
    return Rejected() if isinstance(state, Rejected) else state


class LinkHandler:
    """What every link must do; the defaults are for links to which it cannot happen."""

    idles = True
    """Whether the connection ends it when nothing comes over it for long."""

    def __init__(self, wire: Wire, link: Link, path: str, right: str) -> None:
        self.wire = wire
        self.link = link
        self.path = path
        """In folded case: what its right must cover."""
        self.right = right
        self.active_at = wire.now

    def transferred(self, event: TransferReceived) -> None:
        """The engine lets no transfer through on links that we send on."""

    def transferred_in_a_run(self, event: TransfersReceived) -> None:
        for one in event.each():
            self.transferred(one)

    def credited(self) -> None:
        """Nor credit on others."""

    def disposed(self, event: DispositionReceived) -> None:
        """Nor settlements of what was never sent."""

    def uncongested(self) -> None:
        """The socket takes data again."""

    def closed(self, *, broken: bool) -> None:
        """The link is over; `broken` if nobody said so in order."""

    def fail(self, error: Error) -> None:
        """End the link from our side."""
        self.wire.end(self, error)


class Tickets(Sequence[tuple[int, int]]):
    """Of the sends of a run: each delivery's id, or -1 if it came settled, and its bytes."""

    __slots__ = ("_sizes", "bytes", "delivery_ids")

    def __init__(
        self, delivery_ids: Sequence[int] | None, sizes: Sequence[int], total: int
    ) -> None:
        self.delivery_ids = delivery_ids
        self._sizes = sizes
        self.bytes = total

    @override
    def __len__(self) -> int:
        return len(self._sizes)

    @override
    def __getitem__(self, index: Any) -> Any:
        return (-1 if self.delivery_ids is None else self.delivery_ids[index]), self._sizes[index]


class SenderLink(LinkHandler):
    """The client sends: the broker's `SenderSink`."""

    def __init__(self, wire: Wire, link: Link, path: str, right: str) -> None:
        super().__init__(wire, link, path, right)
        self.sender: Sender | None = None
        self._reader = MessageReader(wire.draw_id)
        self.via: str | None = None
        """The entity that sends in transactions go through."""
        self._under_way = 0
        """Messages that the broker has not stored yet."""
        self._under_way_bytes = 0

    def open(self, sender: Sender) -> None:
        self.sender = sender

    def grant(self) -> None:
        """Again once half is used up by what was stored, so that what waits is bounded."""
        credit = sender_credit - self._under_way
        if self.link.credit <= credit - (sender_credit >> 1):
            self.wire.send(GrantCredit(self.link, credit))

    @override
    def transferred(self, event: TransferReceived) -> None:
        self.active_at = self.wire.now
        sender = self.sender
        if sender is None:
            return
        try:
            messages = self._messages(event)
            if event.state is not None:
                self._in_transaction(event, messages)
                return
        except Refused as refused:
            self._refuse(event, self.wire.speaker.refusal(refused, sender.node.path))
            return
        except DecodeFault as fault:
            self._refuse(event, self.wire.speaker.fault(fault, sender.node.path))
            return
        size = len(event.payload)
        self._under_way += 1
        self._under_way_bytes += size
        self.wire.held_bytes += size
        # Settled ones get a ticket too: what waits has to be counted.
        sender.send(messages, (-1 if event.settled else event.delivery_id, size))

    @override
    def transferred_in_a_run(self, event: TransfersReceived) -> None:
        sender = self.sender
        if sender is None or event.message_format:
            super().transferred_in_a_run(event)
            return
        try:
            messages, alike = self._reader.read_run(event.buffer, event.spans)
        except (Refused, DecodeFault):
            super().transferred_in_a_run(event)  # for each to be told about itself
            return
        wire = self.wire
        self.active_at = wire.now
        sizes = [end - start for start, end in event.spans]
        size = sum(sizes)
        self._under_way += len(sizes)
        self._under_way_bytes += size
        wire.held_bytes += size
        numbers = None if event.settled else event.delivery_ids
        sender.send_each(messages, Tickets(numbers, sizes, size), alike=alike)

    def _messages(self, event: TransferReceived) -> list[Message]:
        if event.oversized:
            raise Refused(
                errors.message_too_large,
                message="The received message is larger than the link's maximum of "
                f"{self.link.max_message_size} bytes.",
            )
        return self._reader.read(event.message_format, event.payload)

    def _in_transaction(self, event: TransferReceived, messages: list[Message]) -> None:
        state = event.state
        if not isinstance(state, TransactionalState):
            raise Refused(errors.not_implemented, message="A transfer's state is not supported.")
        assert self.sender is not None
        transaction = self.wire.transactions.find(state.transaction_id)
        transaction.send(self.sender.node.path, messages, via=self.via)
        done = TransactionalState(state.transaction_id, accepted)
        self.wire.send(SettleReceived(self.link, event.delivery_id, done))
        self.grant()

    def _refuse(self, event: TransferReceived, error: Error) -> None:
        """A message that came settled is dropped without a word."""
        self.wire.send(SettleReceived(self.link, event.delivery_id, Rejected(error)))
        self.grant()

    def sent(self, ticket: Any, refusal: Refused | None) -> None:
        if self.sender is None:
            return  # closed meanwhile
        delivery_id, size = ticket
        wire = self.wire
        self._under_way -= 1
        self._under_way_bytes -= size
        wire.held_bytes -= size
        if delivery_id >= 0:
            if refusal is None:
                wire.send(SettleReceived(self.link, delivery_id, accepted))
            else:
                error = wire.speaker.refusal(refusal, self.sender.node.path)
                wire.send(SettleReceived(self.link, delivery_id, Rejected(error)))
        if self.link.credit <= sender_credit >> 1:
            self.grant()
        wire.host.wake()

    def sent_each(self, tickets: Sequence[Any], refusal: Refused | None) -> None:
        if refusal is not None or not isinstance(tickets, Tickets):
            for ticket in tickets:
                self.sent(ticket, refusal)
            return
        if self.sender is None:
            return
        wire = self.wire
        self._under_way -= len(tickets)
        self._under_way_bytes -= tickets.bytes
        wire.held_bytes -= tickets.bytes
        if tickets.delivery_ids is not None:
            wire.send(AcceptReceived(self.link, tickets.delivery_ids))
        if self.link.credit <= sender_credit >> 1:
            self.grant()
        wire.host.wake()

    def detached(self, refusal: Refused) -> None:
        """The broker ended it; `sender` is closed already, and closing it again does no harm."""
        self.fail(self.wire.speaker.refusal(refusal, self.path))

    @override
    def closed(self, *, broken: bool) -> None:  # noqa: ARG002 - the same either way
        if self.sender is not None:
            self.sender.close()
            self.sender = None
        self._forget()

    def _forget(self) -> None:
        self.wire.held_bytes -= self._under_way_bytes
        self._under_way_bytes = 0
        self._under_way = 0


class ReceiverLink(LinkHandler):
    """The client receives: the broker's `ReceiverSink`."""

    def __init__(self, wire: Wire, link: Link, path: str, right: str, mode: ReceiveMode) -> None:
        super().__init__(wire, link, path, right)
        self.mode = mode
        self.receiver: Receiver | None = None
        self._asked = 0
        """Of the broker, and not delivered yet."""
        self._tranche = tranche_first
        self._tranche_bytes = 0
        self._tranche_count = 0
        self._draining = False

    def open(self, receiver: Receiver) -> None:
        self.receiver = receiver

    # ---- from the client

    @override
    def credited(self) -> None:
        self.active_at = self.wire.now
        self._ask()

    @override
    def uncongested(self) -> None:
        self._ask()

    def _ask(self) -> None:
        """Pass the client's credit on, as far as windows and the socket allow."""
        receiver = self.receiver
        link = self.link
        if receiver is None or not link.live:
            return
        room = min(link.credit, link.session.sendable(), self._tranche)
        if self.wire.host.congested:
            room = 0
        # With a tranche at a time; while nothing can be sent, nothing can be said to be all.
        drain = link.drain and (room > 0 or link.credit <= 0)
        if room == self._asked and not drain:
            return
        self._asked = room
        self._draining = drain
        receiver.set_credit(room, drain=drain)

    @override
    def disposed(self, event: DispositionReceived) -> None:
        self.active_at = self.wire.now
        receiver = self.receiver
        state = event.state
        if type(state) is Accepted and receiver is not None:
            deliveries = event.deliveries
            tokens = [delivery.context for delivery in deliveries]
            receiver.complete_each(tokens, None if event.settled else deliveries)
            return
        for delivery in event.deliveries:
            self._settle(receiver, delivery, event.state, event.settled)

    def _settle(
        self,
        receiver: Receiver | None,
        delivery: SentDelivery,
        state: DeliveryState | None,
        settled: bool,
    ) -> None:
        if receiver is None:
            return
        if isinstance(state, TransactionalState):
            self._settle_in_transaction(receiver, delivery, state)
            return
        ticket = None if settled else (delivery, state)
        receiver.settle(delivery.context, outcome_of(state), ticket)

    def _settle_in_transaction(
        self, receiver: Receiver, delivery: SentDelivery, state: TransactionalState
    ) -> None:
        try:
            transaction = self.wire.transactions.find(state.transaction_id)
            transaction.settle(receiver.node.path, delivery.context, outcome_of(state.outcome))
        except Refused as refused:
            error = self.wire.speaker.refusal(refused, receiver.node.path)
            self.wire.send(SettleSent([delivery], Rejected(error)))
            return
        echo = TransactionalState(state.transaction_id, _echo(state.outcome))
        self.wire.send(SettleSent([delivery], echo))

    # ---- from the broker

    def deliver(self, delivery: Delivery) -> None:
        link = self.link
        receiver = self.receiver
        token = delivery.lock_token
        self._asked = max(0, self._asked - 1)
        if not link.live or link.credit <= 0:
            # The client left or lowered its credit in the meantime.
            if receiver is not None and token is not None:
                receiver.settle(token, release, None)
            return
        head = write_head(delivery)
        size = len(head) + len(delivery.tail)
        largest = link.attach.max_message_size
        if token is not None and largest and size > largest:
            self._too_large(token, largest)
            return
        # One that is deleted already is sent all the same: else it would be lost for certain.
        wire = self.wire
        wire.send(
            SendTransfer(
                link,
                wire.entropy.token(16) if token is None else token,
                head,
                delivery.tail,
                settled=token is None,
                context=token,
            )
        )
        self._tranche_bytes += size
        self._tranche_count += 1
        self.active_at = wire.now
        wire.delivered(self)
        wire.host.wake()

    def deliver_run(self, run: LockedRun) -> None:
        link = self.link
        tokens = run.tokens
        count = len(tokens)
        if not link.live or link.credit < count or link.attach.max_message_size:
            for delivery in run.each():
                self.deliver(delivery)
            return
        wire = self.wire
        heads, tails = write_heads(run)
        self._asked = max(0, self._asked - count)
        wire.send(SendTransfers(link, tokens, heads, tails))
        self._tranche_bytes += sum(map(len, heads)) + sum(map(len, tails))
        self._tranche_count += count
        self.active_at = wire.now
        wire.delivered(self)
        wire.host.wake()

    def _too_large(self, token: bytes, largest: int) -> None:
        if self.receiver is not None:
            self.receiver.settle(token, release, None)
        self.fail(
            self.wire.speaker.error(
                errors.message_too_large,
                f"A message is larger than the {largest} bytes that the receiver takes.",
                self.path,
            )
        )

    def flushed(self) -> None:
        """What was delivered has been written: ask for more, as much as seems to fit."""
        if self._tranche_count:
            average = self._tranche_bytes // self._tranche_count + 1
            self._tranche = max(1, min(tranche_most, tranche_bytes // average))
            self._tranche_bytes = 0
            self._tranche_count = 0
        self._ask()

    def drained(self) -> None:
        used_up = self._asked == 0
        self._asked = 0
        if not self._draining:
            return
        self._draining = False
        if used_up and self.link.credit > 0:
            # There may be more than was asked for: once this is written, the rest of the credit.
            if not self._tranche_count:
                self._ask()
            return
        self.wire.send(CompleteDrain(self.link))
        self.wire.host.wake()

    def settled(self, ticket: Any, refusal: Refused | None) -> None:
        delivery, state = ticket
        wire = self.wire
        if refusal is None:
            wire.send(SettleSent([delivery], _echo(state)))
        else:
            error = wire.speaker.refusal(refusal, self.path)
            again = refusal.code in errors.retried_by_clients
            wire.send(SettleSent([delivery], Rejected(error), forget=not again))
        wire.host.wake()

    def completed_each(self, tickets: Sequence[SentDelivery], refusal: Refused | None) -> None:
        if refusal is not None:
            for delivery in tickets:
                self.settled((delivery, accepted), refusal)
            return
        self.wire.send(SettleSent(tickets, accepted))
        self.wire.host.wake()

    def detached(self, refusal: Refused) -> None:
        """As with senders."""
        self.fail(self.wire.speaker.refusal(refusal, self.path))

    @override
    def closed(self, *, broken: bool) -> None:
        if self.receiver is not None:
            receiver = self.receiver
            self.receiver = None
            receiver.close(broken=broken)
