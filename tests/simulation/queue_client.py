"""A client of the Queue service: puts, takes, updates and deletes messages, and lets time pass."""

import asyncio
import re
from random import Random
from typing import Any
from urllib.parse import quote

from .history import Record
from .world import Answer, World

queues = ("tasks0", "tasks1")
forgetful = 0.2
"""How often a receipt that an Update has replaced is tried all the same."""
_message = re.compile(r"<QueueMessage>(.*?)</QueueMessage>", re.DOTALL)


class QueueClient:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.chance = Random(world.chance.random())
        self._written = 0
        self._held: list[tuple[str, str, str]] = []
        """(queue, message, receipt), good or not any more."""

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            queue = self.chance.choice(queues)
            await self.chance.choices(
                (self._put, self._get, self._peek, self._update, self._delete, self._rest),
                (25, 30, 5, 15, 20, 12),
            )[0](queue)

    async def _ask(
        self, queue: str, kind: str, method: str, path: str, query: str, body: str, **args: Any
    ) -> tuple[Record, Answer | None]:
        record = self.world.history.begin(self.name, "queue", queue, kind, args, self.world.now())
        answer = await self.world.ask(
            record, "queue", method, f"/{queue}/messages{path}", query, {}, body.encode()
        )
        return record, answer

    def _text(self) -> str:
        self._written += 1
        return f"{self.name}.{self._written}"

    async def _put(self, queue: str) -> None:
        text = self._text()
        hidden = self.chance.choice((0, 0, 0, 3, 30))
        record, answer = await self._ask(
            queue,
            "put",
            "POST",
            "",
            f"visibilitytimeout={hidden}&messagettl=-1",
            _document(text),
            text=text,
            hidden=hidden,
        )
        if answer is not None and answer.status == 201:
            (found,) = _read(answer)
            record.found = {"id": found["MessageId"], "receipt": found["PopReceipt"]}
            self._held.append((queue, found["MessageId"], found["PopReceipt"]))

    async def _get(self, queue: str) -> None:
        await self.take(queue, self.chance.choice((1, 1, 2, 5)), self.chance.choice((1, 5, 30)))

    async def take(self, queue: str, count: int, hidden: int) -> int:
        record, answer = await self._ask(
            queue,
            "get",
            "GET",
            "",
            f"numofmessages={count}&visibilitytimeout={hidden}",
            "",
            hidden=hidden,
        )
        if answer is None or answer.status != 200:
            return 0
        found = _read(answer)
        record.found["messages"] = [
            {
                "id": each["MessageId"],
                "receipt": each["PopReceipt"],
                "count": int(each["DequeueCount"]),
                "text": each["MessageText"],
            }
            for each in found
        ]
        self._held += [(queue, each["MessageId"], each["PopReceipt"]) for each in found]
        return len(found)

    async def _peek(self, queue: str) -> None:
        record, answer = await self._ask(
            queue, "peek", "GET", "", "peekonly=true&numofmessages=32", ""
        )
        if answer is not None and answer.status == 200:
            record.found["messages"] = [
                {
                    "id": each["MessageId"],
                    "count": int(each["DequeueCount"]),
                    "text": each["MessageText"],
                }
                for each in _read(answer)
            ]

    def _pick(self) -> tuple[str, str, str] | None:
        if not self._held:
            return None
        return self._held.pop(self.chance.randrange(len(self._held)))

    async def _update(self, queue: str) -> None:
        picked = self._pick()
        if picked is None:
            return
        queue, message, receipt = picked
        hidden = self.chance.choice((0, 1, 10, 30))
        text = self._text()
        record, answer = await self._ask(
            queue,
            "update",
            "PUT",
            f"/{message}",
            f"popreceipt={quote(receipt, safe='')}&visibilitytimeout={hidden}",
            _document(text),
            id=message,
            receipt=receipt,
            hidden=hidden,
            text=text,
        )
        if answer is not None and answer.status == 204:
            record.found["receipt"] = answer.headers["x-ms-popreceipt"]
            self._held.append((queue, message, answer.headers["x-ms-popreceipt"]))
            if self.chance.random() < forgetful:
                self._held.append((queue, message, receipt))

    async def _delete(self, queue: str) -> None:
        picked = self._pick()
        if picked is None:
            return
        queue, message, receipt = picked
        query = f"popreceipt={quote(receipt, safe='')}"
        await self._ask(
            queue, "delete", "DELETE", f"/{message}", query, "", id=message, receipt=receipt
        )

    async def _rest(self, queue: str) -> None:
        del queue
        await asyncio.sleep(self.chance.choice((0, 0.001, 0.1, 1, 5)))


def _document(text: str) -> str:
    return f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"


def _read(answer: Answer) -> list[dict[str, str]]:
    return [
        dict(re.findall(r"<(\w+)>([^<]*)</\1>", inner))
        for inner in _message.findall(answer.body.decode())
    ]
