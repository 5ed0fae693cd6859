"""The broker: what frontends call.  SKELETON, being filled; signatures are meant to stay.

One process, one event loop; every method is called from that loop.  Addresses are entity paths as
clients write them after the frontend took off scheme, host and `/$management`: `queue`,
`topic/Subscriptions/sub`, each with `/$DeadLetterQueue` or `/$Transfer/$DeadLetterQueue` behind it;
letter case does not matter.

Refusals are `Refused` with an AMQP condition as code (see `errors`).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Protocol

from etagere.base.clock import Clock, Timestamp
from etagere.base.entropy import Entropy
from etagere.kv.contract import Engine
from etagere.services.bus.links import ReceiverSink, SenderSink
from etagere.services.bus.messages import (
    Delivery,
    Message,
    Outcome,
    ReceiveMode,
    SectionCodec,
)


class Timer(Protocol):
    """Sleeps by the injected clock: a virtual clock that is moved wakes it at once."""

    async def sleep_until(self, due: Timestamp) -> None: ...


class Tier(Enum):
    basic = "Basic"
    standard = "Standard"
    premium = "Premium"


class SubQueue(Enum):
    active = ""
    dead_letter = "$DeadLetterQueue"
    transfer_dead_letter = "$Transfer/$DeadLetterQueue"


class EntityKind(Enum):
    queue = "Queue"
    topic = "Topic"
    subscription = "Subscription"


class Node(Protocol):
    """An address resolved: what stands behind it now."""

    @property
    def kind(self) -> EntityKind: ...
    @property
    def path(self) -> str:
        """Canonical, in the case that the entity was created with, without the sub-queue."""
        ...

    @property
    def sub_queue(self) -> SubQueue: ...
    @property
    def requires_session(self) -> bool:
        """Of this very node: false for sub-queues."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """`max-message-size` of attach replies."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """`com.microsoft:max-message-batch-size`."""
        ...


class Sender(Protocol):
    @property
    def node(self) -> Node: ...

    def send(self, messages: Sequence[Message], ticket: Any) -> None:
        """Store all of `messages` (a batch is one call) or none; `sink.sent(ticket, refusal)`.

        Returns at once; any number may be outstanding.  Order of calls is order of sequence
        numbers.  `ticket` None is a pre-settled send: stored if valid, else dropped.
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


class Transaction(Protocol):
    """A unit of sends and settlements on one top-level entity, applied whole or not at all."""

    @property
    def id(self) -> bytes: ...

    def send(self, address: str, messages: Sequence[Message], *, via: str | None = None) -> None:
        """Validate and buffer.  `via` names the entity that the send goes through."""
        ...

    def settle(self, address: str, token: bytes, outcome: Outcome) -> None:
        """Check the lock and buffer; the message stays locked until the end."""
        ...

    async def schedule(self, address: str, messages: Sequence[Message]) -> list[int]:
        """Sequence numbers are reserved now and used when the transaction commits."""
        ...

    def cancel_scheduled(self, address: str, numbers: Sequence[int]) -> None: ...

    async def commit(self) -> None:
        """Durable on return; a refusal means that nothing was applied and it is rolled back."""
        ...

    def rollback(self) -> None: ...


next_session: Final = None
"""For `accept_session`: any session with messages that nobody holds."""


class Broker(Protocol):
    """(Becomes a class; `open` is a classmethod.)"""

    @classmethod
    async def open(
        cls,
        engine: Engine,
        clock: Clock,
        entropy: Entropy,
        codec: SectionCodec,
        timer: Timer,
        *,
        namespace: str = "sbemulatorns",
        tier: Tier = Tier.standard,
    ) -> "Broker": ...

    async def close(self) -> None:
        """Detach every link with `com.microsoft:container-close` and finish pending writes."""
        ...

    # ---- time: the runner does this by itself once opened; tests without a runner call them

    def next_due(self) -> Timestamp | None: ...

    def tick(self, now: Timestamp) -> None: ...

    # ---- links

    def resolve(self, address: str) -> Node:
        """`amqp:not-found` unless an entity with this path exists (longest name wins)."""
        ...

    def open_sender(self, address: str, sink: SenderSink) -> Sender:
        """Refused for subscriptions and sub-queues (`amqp:not-allowed`), missing entities and ones
        that do not take sends (`com.microsoft:entity-disabled`)."""
        ...

    def open_receiver(
        self, address: str, mode: ReceiveMode, sink: ReceiverSink, *, connection: object
    ) -> Receiver:
        """Refused for topics, session entities, forwarding entities and disabled ones."""
        ...

    async def accept_session(
        self,
        address: str,
        session_id: str | None,
        mode: ReceiveMode,
        sink: ReceiverSink,
        *,
        connection: object,
        wait_ticks: int,
    ) -> SessionReceiver:
        """Lock the named session, or the next available within `wait_ticks`.

        Cancel the call when the client leaves: nothing stays locked.  Refused with
        `com.microsoft:session-cannot-be-locked`, `com.microsoft:timeout`, `amqp:not-allowed`.
        """
        ...

    def begin_transaction(self, connection: object, *, cross_entity: bool = False) -> Transaction:
        """`cross_entity`: senders go through the entity that the first operation touched."""
        ...

    def find_transaction(self, connection: object, transaction_id: bytes) -> Transaction:
        """Refused with `amqp:transaction:unknown-id`."""
        ...

    def connection_lost(self, connection: object) -> None:
        """Roll back what the connection began.  Links are closed one by one by the frontend."""
        ...

    # ---- one call, one answer: `$management` and HTTP.  All may be run concurrently.

    async def send(self, address: str, messages: Sequence[Message]) -> None:
        """Durable on return."""
        ...

    async def receive(self, address: str, mode: ReceiveMode, *, wait_ticks: int) -> Delivery | None:
        """One message, or None when the wait is over (HTTP peek-lock and destructive read)."""
        ...

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
        ...

    async def renew_locks(self, address: str, tokens: Sequence[bytes]) -> list[Timestamp]: ...

    async def settle(
        self,
        address: str,
        tokens: Sequence[bytes],
        outcome: Outcome,
        *,
        session_id: str | None = None,
    ) -> None:
        """All or nothing (update-disposition, HTTP complete and unlock)."""
        ...

    async def schedule(self, address: str, messages: Sequence[Message]) -> list[int]: ...

    async def cancel_scheduled(self, address: str, numbers: Sequence[int]) -> None: ...

    async def receive_deferred(
        self,
        address: str,
        numbers: Sequence[int],
        mode: ReceiveMode,
        *,
        session_id: str | None = None,
        connection: object = None,
    ) -> list[Delivery]: ...

    async def delete_messages(
        self, address: str, count: int, enqueued_before: Timestamp, *, session_id: str | None = None
    ) -> int: ...

    async def renew_session(self, address: str, session_id: str) -> Timestamp: ...

    async def session_state(self, address: str, session_id: str) -> bytes | None: ...

    async def set_session_state(
        self, address: str, session_id: str, state: bytes | None
    ) -> None: ...

    async def list_sessions(
        self, address: str, updated_after: Timestamp | None, *, skip: int, top: int
    ) -> list[str]:
        """`updated_after` None lists sessions with active messages or state."""
        ...

    # Rules (`add_rule`, `remove_rule`, `list_rules`), entities (`create_queue`, `update_queue`,
    # `delete_entity`, `get_*`, `list_*`) follow with `entities.py`.
