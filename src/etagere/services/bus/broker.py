"""The broker: what frontends call.

One process, one event loop; every method is called from that loop.  Addresses are entity paths as
clients write them after the frontend took off scheme, host and `/$management`: `queue`, `topic`,
`topic/Subscriptions/sub`, each with `/$DeadLetterQueue` or `/$Transfer/$DeadLetterQueue` behind it;
letter case does not matter.  Refusals are `Refused` with an AMQP condition as code (`errors`).

What is durable and what is not, at every point where the process may die:

- A send is answered after the transaction that holds all of its copies (subscriptions, forwarding
  targets, dead-letter queues) is on stable storage.  Killed before that, the message may be there
  or not, and the sender has heard nothing; killed after it, it is there.
- A peek-lock delivery changes nothing in the store.  Locks and sessions' locks are in memory and
  gone with the process; their messages are active again, their delivery count as it was.
- A settlement is answered after it is durable.  Killed before that, the message is delivered again
  or is not, and the receiver has heard nothing: completing is at-least-once processing.
- A lock that ran out, or whose connection broke, has its failure counted durably before the
  message is given to anybody else.
- Receive-and-delete deletes durably and then writes to the wire: at most once.  Killed between the
  two, the message is lost, as when the wire loses it; nothing else loses one.  A message whose
  receiver left in between goes back into the log.
- A transaction commits in one transaction of the store; killed before, it never was.
- Scheduled messages, expiry, duplicates' ids, forwarding and the sweeping away of deleted entities
  go by indexes in the store, and go on where they were.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from etagere.base.clock import Clock, Timestamp
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.kv.contract import Engine
from etagere.services.bus import errors
from etagere.services.bus.administration import Administration, sweep_away
from etagere.services.bus.catalogue import Node
from etagere.services.bus.core import Core, Timers
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.housekeeping import Housekeeping
from etagere.services.bus.links import ReceiverSink, SenderSink
from etagere.services.bus.loading import load_catalogue
from etagere.services.bus.messages import (
    Delivery,
    Message,
    Outcome,
    ReceiveMode,
    SectionCodec,
)
from etagere.services.bus.names import EntityKind, SubQueue
from etagere.services.bus.receiving import (
    ReceiverLink,
    SessionReceiverLink,
    accept_session,
    open_receiver,
    receive_one,
)
from etagere.services.bus.requests import Requests
from etagere.services.bus.sending import SenderLink, check_takes_sends, send
from etagere.services.bus.transactions import Transaction, Transactions

__all__ = [
    "Broker",
    "EntityKind",
    "Node",
    "Receiver",
    "Sender",
    "SessionReceiver",
    "SubQueue",
    "Tier",
    "Transaction",
    "next_session",
]


class Sender(Protocol):
    @property
    def node(self) -> Node: ...

    def send(self, messages: Sequence[Message], ticket: Any) -> None:
        """Store all of `messages` (a batch is one call) or none; `sink.sent(ticket, refusal)`.

        Returns at once; any number may be outstanding.  Order of calls is order of sequence
        numbers.  `ticket` None is a pre-settled send: stored if valid, else dropped.
        """
        ...

    def send_each(
        self, messages: Sequence[Message], tickets: Sequence[Any], *, alike: bool
    ) -> None:
        """`send` for each message by itself; `sink.sent_each` or `sink.sent` for the tickets.

        `alike`: they differ in their message ids, which are equally long, and in what follows the
        properties, and in nothing else.
        """
        ...

    def close(self) -> None: ...


class Receiver(Protocol):
    @property
    def node(self) -> Node: ...

    @property
    def mode(self) -> ReceiveMode: ...

    def set_credit(self, credit: int, *, drain: bool = False) -> None:
        """From now on at most `credit` more messages may be delivered (0 pauses).

        Absolute, already counted against the link's delivery-count; each `deliver` uses one up.
        Lower it to hold deliveries back while a window or a socket is full.  With `drain` the
        broker delivers what it has, sets credit to 0 and calls `drained` (always, soon).
        """
        ...

    def settle(self, token: bytes, outcome: Outcome, ticket: Any) -> None:
        """Apply `outcome` to the message locked by `token`; `sink.settled(ticket, refusal)`."""
        ...

    def complete_each(self, tokens: Sequence[bytes], tickets: Sequence[Any] | None) -> None:
        """`settle` with `complete` for each; `sink.completed_each` for the tickets, or without
        tickets nobody is told how it went."""
        ...

    def close(self, *, broken: bool) -> None:
        """`broken`: the connection was lost with the link attached, its locks are released at once.
        Otherwise (detach, end, close) message locks stay until they expire and can be settled and
        renewed by token.  A session's lock is released in both cases."""
        ...


class SessionReceiver(Receiver, Protocol):
    @property
    def session_id(self) -> str: ...

    @property
    def locked_until(self) -> Timestamp: ...


next_session: Final = None
"""For `accept_session`: any session with messages that nobody holds."""


class Broker:
    def __init__(self, core: Core) -> None:
        """Use `open`."""
        self._core = core
        self._requests = Requests(core)
        self._transactions = Transactions(core)
        self.administration = Administration(core)
        """Entities and rules."""
        self._housekeeping = Housekeeping(core, self.administration)
        self.administration.watch_idleness = self._housekeeping.watch_idleness

    @classmethod
    async def open(
        cls,
        engine: Engine,
        clock: Clock,
        entropy: Entropy,
        codec: SectionCodec,
        timers: Timers | None = None,
        *,
        namespace: str = "sbemulatorns",
        tier: Tier = Tier.standard,
    ) -> "Broker":
        """Without `timers` time does nothing by itself: call `tick` when `next_due` says."""
        core = Core(engine, clock, entropy, codec, namespace=namespace, tier=tier, timers=timers)
        broker = cls(core)
        doomed = await load_catalogue(core)
        for entity in core.catalogue.entities.values():
            for node in entity.nodes:
                broker.administration.watch(node)
        for entity_id, number in doomed:
            core.spawn(sweep_away(core, entity_id, number))
        return broker

    async def close(self) -> None:
        """Detach every link with `com.microsoft:container-close` and finish what is under way."""
        core = self._core
        core.closed = True
        core.disarm()
        refusal = Refused(errors.container_close, message="The broker is stopping.")
        for entity in core.catalogue.entities.values():
            for node in entity.nodes:
                for link in list(node.links):
                    link.detached(refusal)
        await core.idle()

    @property
    def namespace(self) -> str:
        return self._core.namespace

    @property
    def tier(self) -> Tier:
        return self._core.tier

    # ---- time

    def next_due(self) -> Timestamp | None:
        return self._core.next_due()

    def tick(self, now: Timestamp) -> None:
        self._core.tick(now)

    async def idle(self) -> None:
        """Return when nothing is on its way to or from the store."""
        await self._core.idle()

    async def catch_up(self) -> None:
        """Do everything that is due by now, and what follows from it: for tests without timers."""
        core = self._core
        await core.idle()
        while (due := core.next_due()) is not None and due <= core.clock.now():
            core.tick(core.clock.now())
            await core.idle()

    # ---- links

    def resolve(self, address: str) -> Node:
        """`amqp:not-found` unless an entity with this path exists."""
        return self._core.catalogue.resolve(address)

    def open_sender(self, address: str, sink: SenderSink) -> Sender:
        """Refused for subscriptions and sub-queues (`amqp:not-allowed`), missing entities and ones
        that do not take sends (`com.microsoft:entity-disabled`)."""
        node = self.resolve(address)
        check_takes_sends(node)
        if not node.sends_allowed:
            raise errors.disabled(node.path)
        return SenderLink(self._core, node, sink)

    def open_receiver(
        self, address: str, mode: ReceiveMode, sink: ReceiverSink, *, connection: object
    ) -> ReceiverLink:
        """Refused for topics, session entities, forwarding entities and disabled ones."""
        return open_receiver(self._core, self.resolve(address), mode, sink, connection)

    async def accept_session(
        self,
        address: str,
        session_id: str | None,
        mode: ReceiveMode,
        sink: ReceiverSink,
        *,
        connection: object,
        wait_ticks: int,
    ) -> SessionReceiverLink:
        """Lock the named session, or the next available within `wait_ticks`.

        Cancel the call when the client leaves: nothing stays locked.  Refused with
        `com.microsoft:session-cannot-be-locked`, `com.microsoft:timeout`, `amqp:not-allowed`.
        """
        return await accept_session(
            self._core, self.resolve(address), session_id, mode, sink, connection, wait_ticks
        )

    # ---- transactions

    def begin_transaction(self, connection: object, *, cross_entity: bool = False) -> Transaction:
        """`cross_entity`: senders go through the entity that the first operation touched."""
        return self._transactions.begin(connection, cross_entity=cross_entity)

    def find_transaction(self, connection: object, transaction_id: bytes) -> Transaction:
        """Refused with `amqp:transaction:unknown-id`."""
        return self._transactions.find(connection, transaction_id)

    def connection_lost(self, connection: object) -> None:
        """Roll back what the connection began.  Links are closed one by one by the frontend."""
        self._transactions.connection_lost(connection)

    # ---- one call, one answer: `$management` and HTTP.  All may be run concurrently.

    async def send(self, address: str, messages: Sequence[Message]) -> None:
        """Durable on return."""
        await send(self._core, self.resolve(address), messages)

    async def receive(self, address: str, mode: ReceiveMode, *, wait_ticks: int) -> Delivery | None:
        """One message, or None when the wait is over (HTTP peek-lock and destructive read)."""
        return await receive_one(self._core, self.resolve(address), mode, wait_ticks)

    async def peek(
        self,
        address: str,
        from_sequence_number: int,
        count: int,
        *,
        session_id: str | None = None,
        bytes_max: int = 1 << 18,
    ) -> list[Delivery]:
        """Up to `count` messages of every state in sequence order, fewer when `bytes_max` of them
        is reached; at least one if there is one."""
        return await self._requests.peek(
            address, from_sequence_number, count, session_id, bytes_max
        )

    async def renew_locks(self, address: str, tokens: Sequence[bytes]) -> list[Timestamp]:
        return await self._requests.renew_locks(address, tokens)

    async def settle(
        self,
        address: str,
        tokens: Sequence[bytes],
        outcome: Outcome,
        *,
        session_id: str | None = None,
    ) -> None:
        """All or nothing (update-disposition, HTTP complete and unlock)."""
        await self._requests.settle(address, tokens, outcome, session_id)

    async def schedule(self, address: str, messages: Sequence[Message]) -> list[int]:
        """The numbers under which they can be cancelled."""
        return await self._requests.schedule(address, messages)

    async def cancel_scheduled(self, address: str, numbers: Sequence[int]) -> None:
        """All or none: `com.microsoft:message-not-found`."""
        await self._requests.cancel_scheduled(address, numbers)

    async def receive_deferred(
        self,
        address: str,
        numbers: Sequence[int],
        mode: ReceiveMode,
        *,
        session_id: str | None = None,
        connection: object = None,  # noqa: ARG002 - these locks are no link's, and outlive all
    ) -> list[Delivery]:
        """All or none: `com.microsoft:message-not-found`."""
        return await self._requests.receive_deferred(address, numbers, mode, session_id)

    async def delete_messages(
        self, address: str, count: int, enqueued_before: Timestamp, *, session_id: str | None = None
    ) -> int:
        """How many were deleted of the oldest that nobody holds."""
        return await self._requests.delete_messages(address, count, enqueued_before, session_id)

    async def renew_session(self, address: str, session_id: str) -> Timestamp:
        return await self._requests.renew_session(address, session_id)

    async def session_state(self, address: str, session_id: str) -> bytes | None:
        return await self._requests.session_state(address, session_id)

    async def set_session_state(self, address: str, session_id: str, state: bytes | None) -> None:
        await self._requests.set_session_state(address, session_id, state)

    async def list_sessions(
        self, address: str, updated_after: Timestamp | None, *, skip: int, top: int
    ) -> list[str]:
        """`updated_after` None lists sessions with active messages or state."""
        return await self._requests.list_sessions(address, updated_after, skip, top)
