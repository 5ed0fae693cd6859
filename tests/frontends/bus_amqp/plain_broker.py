"""As little of a broker as links need: queues in memory, no time, no store, no checks.

It shows what the frontend asks for and can be told what to answer; the real broker has tests of its
own.
"""

import asyncio
from collections import deque
from typing import Any

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.messages import (
    Complete,
    Delivery,
    Message,
    MessageState,
    Outcome,
    ReceiveMode,
)

lock_ticks = 600_000_000


class PlainNode:
    def __init__(self, path: str) -> None:
        self.path = path
        self.message_bytes_max = 262_144
        self.batch_bytes_max = 262_144
        self.requires_session = False


class PlainQueue:
    def __init__(self, path: str) -> None:
        self.node = PlainNode(path)
        self.number = 0
        self.ready: deque[tuple[int, int, Message]] = deque()
        self.locked: dict[bytes, tuple[int, int, Message]] = {}
        self.receivers: list[PlainReceiver] = []
        self.outcomes: list[Outcome] = []

    def push(self) -> None:
        for receiver in self.receivers:
            while self.ready and receiver.credit > 0:
                receiver.credit -= 1
                receiver.sink.deliver(receiver.lock(*self.ready.popleft()))


class PlainSender:
    def __init__(self, queue: PlainQueue, sink: Any) -> None:
        self.node = queue.node
        self.queue = queue
        self.sink = sink
        self.closed = False
        self.refusal: Refused | None = None

    def send(self, messages: list[Message], ticket: Any) -> None:
        asyncio.get_running_loop().call_soon(self._store, messages, ticket)

    def _store(self, messages: list[Message], ticket: Any) -> None:
        refusal = self.queue.node.path == "refusing" and Refused("amqp:resource-limit-exceeded")
        if not refusal:
            for message in messages:
                self.queue.number += 1
                self.queue.ready.append((self.queue.number, 0, message))
        if not self.closed:
            self.sink.sent(ticket, refusal or None)
        self.queue.push()

    def close(self) -> None:
        self.closed = True


class PlainReceiver:
    def __init__(self, broker: "PlainBroker", queue: PlainQueue, mode: ReceiveMode, sink: Any):
        self.broker = broker
        self.node = queue.node
        self.queue = queue
        self.mode = mode
        self.sink = sink
        self.credit = 0
        self.closed: bool | None = None
        self.session_id = ""
        self.locked_until = Timestamp(broker.clock.now() + lock_ticks)
        queue.receivers.append(self)

    def lock(self, number: int, count: int, message: Message) -> Delivery:
        token = None
        until = None
        if self.mode is ReceiveMode.peek_lock:
            token = self.broker.entropy.token(16)
            until = Timestamp(self.broker.clock.now() + lock_ticks)
            self.queue.locked[token] = (number, count, message)
        return delivery_of(number, count, message, token, until, self.broker.clock.now())

    def set_credit(self, credit: int, *, drain: bool = False) -> None:
        self.credit = credit
        self.queue.push()
        if drain:
            self.credit = 0
            asyncio.get_running_loop().call_soon(self.sink.drained)

    def settle(self, token: bytes, outcome: Outcome, ticket: Any) -> None:
        self.queue.outcomes.append(outcome)
        entry = self.queue.locked.pop(token, None)
        refusal = None
        if entry is None:
            refusal = Refused("com.microsoft:message-lock-lost", message="Gone.")
        elif not isinstance(outcome, Complete):
            number, count, message = entry
            self.queue.ready.appendleft((number, count + 1, message))
        if ticket is not None:
            asyncio.get_running_loop().call_soon(self.sink.settled, ticket, refusal)
        asyncio.get_running_loop().call_soon(self.queue.push)

    def close(self, *, broken: bool) -> None:
        self.closed = broken
        self.queue.receivers.remove(self)


def delivery_of(
    number: int,
    count: int,
    message: Message,
    token: bytes | None,
    until: Timestamp | None,
    now: Timestamp,
) -> Delivery:
    return Delivery(
        tail=message.tail,
        header=message.header,
        delivery_annotations=message.delivery_annotations,
        annotations=message.annotations,
        sequence_number=number,
        enqueued_at=now,
        enqueued_sequence_number=number,
        delivery_count=count,
        ttl_ms=message.ttl_ms,
        state=MessageState.active,
        lock_token=token,
        locked_until=until,
        session_id=None,
        scheduled_at=message.scheduled_at,
        partition_key=message.partition_key,
        dead_letter_source=None,
    )


class PlainBroker:
    tier = Tier.standard

    def __init__(self, clock: Any, entropy: Any, *names: str) -> None:
        self.clock = clock
        self.entropy = entropy
        self.queues = {name: PlainQueue(name) for name in names}
        self.lost: list[object] = []

    def resolve(self, address: str) -> PlainNode:
        return self._queue(address).node

    def _queue(self, address: str) -> PlainQueue:
        queue = self.queues.get(address.casefold())
        if queue is None:
            raise Refused(
                "amqp:not-found",
                message=f"The messaging entity '{address}' could not be found.",
            )
        return queue

    def open_sender(self, address: str, sink: Any) -> PlainSender:
        return PlainSender(self._queue(address), sink)

    def open_receiver(
        self, address: str, mode: ReceiveMode, sink: Any, *, connection: object
    ) -> PlainReceiver:
        return PlainReceiver(self, self._queue(address), mode, sink)

    async def accept_session(
        self,
        address: str,
        session_id: str | None,
        mode: ReceiveMode,
        sink: Any,
        *,
        connection: object,
        wait_ticks: int,
    ) -> PlainReceiver:
        if session_id is None:
            await asyncio.sleep(wait_ticks / 10_000_000)
            raise Refused("com.microsoft:timeout", message="No session.")
        receiver = PlainReceiver(self, self._queue(address), mode, sink)
        receiver.session_id = session_id
        return receiver

    async def peek(
        self, address: str, from_sequence_number: int, count: int, **_: Any
    ) -> list[Delivery]:
        return [
            delivery_of(number, failed, message, None, None, self.clock.now())
            for number, failed, message in self._queue(address).ready
            if number >= from_sequence_number
        ][:count]

    async def renew_locks(self, address: str, tokens: list[bytes]) -> list[Timestamp]:
        return [Timestamp(self.clock.now() + lock_ticks) for _ in tokens]

    async def schedule(self, address: str, messages: list[Message]) -> list[int]:
        return [index + 1 for index, _ in enumerate(messages)]

    def connection_lost(self, connection: object) -> None:
        self.lost.append(connection)
