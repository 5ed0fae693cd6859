"""One queue and its operations by their names, for tests that move time by hand."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.services.queue import check, messages, queues
from etagere.services.queue.messages import (
    GetMessages,
    PutMessage,
    SeenMessage,
    UpdateMessage,
)
from etagere.services.queue.queues import Place, QueueView
from etagere.services.queue.receipts import parse_pop_receipt, tail_of

account = "devstoreaccount1"


class HandClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.at = 17_000_000_000_000_000

    def now(self) -> Timestamp:
        return Timestamp(self.at)

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * ticks_per_second)


class QueueDriver:
    """One queue, its operations by their names."""

    def __init__(self, engine: Any, clock: HandClock, name: str = "tasks") -> None:
        self.engine = engine
        self.clock = clock
        self.where: Place = queues.place(account, name)
        self._random = random.Random(17)

    async def write(self, body: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self.engine.write((self.where.part,), body)

    async def create(self, metadata: dict[str, str] | None = None) -> bool:
        return await self.engine.write(
            self.where.parts, lambda tx: queues.create(tx, self.where, metadata or {})
        )

    async def drop(self) -> None:
        await self.engine.write(self.where.parts, lambda tx: queues.delete(tx, self.where))

    async def clear(self) -> None:
        await self.engine.write(self.where.parts, lambda tx: queues.clear(tx, self.where))

    async def view(self) -> QueueView:
        return await self.engine.read(lambda tx: queues.view(tx, self.where.part))

    async def count(self) -> int:
        return (await self.view()).approximate_count

    def wanted_put(self, text: str, visibility: int, ttl: int | None) -> PutMessage:
        return PutMessage(text, tail_of(self._random.randbytes(8)), visibility, ttl)

    async def put(self, text: str = "", visibility: int = 0, ttl: int | None = 604_800):
        wanted = self.wanted_put(text, visibility, ttl)
        return await self.write(lambda tx: messages.put(tx, self.where.part, wanted))

    async def get(self, count: int = 1, visibility: int = 30) -> list[SeenMessage]:
        return await messages.get(self.engine, self.where.part, GetMessages(count, visibility))

    async def peek(self, count: int = 1) -> list[SeenMessage]:
        return await messages.peek(self.engine, self.where.part, count)

    async def update(
        self,
        message_id: str,
        receipt: str,
        visibility: int,
        text: str | None = None,
        **options: Any,
    ) -> SeenMessage:
        stamp = parse_pop_receipt(receipt)
        assert stamp is not None
        wanted = UpdateMessage(message_id, stamp, visibility, text)
        return await self.write(lambda tx: messages.update(tx, self.where.part, wanted, **options))

    async def delete(self, message_id: str, receipt: str, **options: Any) -> None:
        stamp = parse_pop_receipt(receipt)
        assert stamp is not None
        await self.write(
            lambda tx: messages.delete(tx, self.where.part, message_id, stamp, **options)
        )

    async def problems(self) -> list[str]:
        return await self.engine.read(lambda tx: check.check_account(tx, account))
