"""What must hold of every queue at rest; `etagere check` and the tests ask for it.

Nothing here is kept that grows with a queue: each message's rows are looked up, and then rows are
counted, so that none can be there that no message has.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from etagere.base.clock import timestamp_never
from etagere.kv.check import CheckTx, Finding
from etagere.kv.contract import Partition, ReadTx
from etagere.kv.layers.records import DamagedRecord
from etagere.kv.layers.rows import every_row
from etagere.kv.tuples import unpack
from etagere.services.queue import keys, records
from etagere.services.queue.keys import Range
from etagere.services.queue.records import Message, QueueHead

problems_max: Final = 100
"""What is told of one queue; more of the same helps nobody."""


class QueueChecker:
    """A `Checker` for the rows of all accounts' queues."""

    name: Final = "queue"

    async def check(self, tx: CheckTx) -> list[Finding]:
        findings: list[Finding] = []
        for part in tx.partitions():
            match unpack(part):
                case (keys.service, str(account)):
                    findings += [
                        Finding(self.name, f"{account}/{name}", "in the directory, but not there")
                        async for name in _directory(tx, account)
                        if not await _is_there(tx, keys.queue_partition(account, name))
                    ]
                case (keys.service, str(account), str(name)):
                    findings += [
                        Finding(self.name, f"{account}/{name}", problem)
                        for problem in await check_queue(tx, account, name, tx.last_stamp)
                    ]
                case _:
                    pass
        return findings


async def check_account(tx: ReadTx, account: str) -> list[str]:
    """What is wrong with the queues of an account; nothing, if all is well."""
    return [
        f"queue {name}: {problem}"
        async for name in _directory(tx, account)
        for problem in await check_queue(tx, account, name)
    ]


async def check_queue(
    tx: ReadTx, account: str, name: str, last_stamp: int | None = None
) -> list[str]:
    part, account_part = keys.queue_partition(account, name), keys.account_partition(account)
    listed = await tx.get(account_part, keys.directory_entry(name)) is not None
    raw = await tx.get(part, keys.head)
    problems: list[str] = []
    head = None
    try:
        head = None if raw is None else records.heads.decode(raw)
        properties = await tx.get(part, keys.properties)
        if properties is not None:
            records.properties.decode(properties)
    except DamagedRecord as damage:
        return [f"does not decode: {damage}"]
    if listed and not await _is_there(tx, part):
        problems.append("in the directory, but not there")
    if not listed and (raw is not None or await tx.get(part, keys.properties) is not None):
        problems.append("there, but not in the directory")
    for generation in {generation async for generation in _generations(tx, part)}:
        if head is not None and generation == head.generation:
            continue
        if await tx.get(account_part, keys.doomed(generation, name)) is None:
            problems.append(f"rows of generation {generation}, which nothing sweeps away")
    if head is not None:
        census = _Census(part, head, problems)
        await census.take(tx)
        if last_stamp is not None and census.last_stamp > last_stamp:
            problems.append("a stamp above the store's last one")
    return problems[:problems_max]


@dataclass(slots=True)
class _Census:
    """The messages of a queue counted, and with them the rows that they must have."""

    part: Partition
    head: QueueHead
    problems: list[str]
    messages: int = 0
    expiries: int = 0
    texts: int = 0
    last_stamp: int = 0

    async def take(self, tx: ReadTx) -> None:
        generation = self.head.generation
        self.last_stamp = generation
        async for key, value in every_row(tx, self.part, *keys.messages(generation)):
            self.messages += 1
            try:
                await self._count(tx, key, records.messages.decode(value))
            except DamagedRecord as damage:
                self._tell(f"row {key.hex()} does not decode: {damage}")
        if self.messages != self.head.count:
            self._tell(f"{self.messages} messages, but {self.head.count} counted")
        for what, rows, expected in (
            ("due times", keys.dues(generation), self.messages),
            ("expiry times", keys.expiries(generation), self.expiries),
            ("texts", keys.texts(generation), self.texts),
        ):
            found = await _length(tx, self.part, rows)
            if found != expected:
                self._tell(f"{found} {what}, where there should be {expected}")

    async def _count(self, tx: ReadTx, key: bytes, message: Message) -> None:
        generation = self.head.generation
        rows = keys.rows_at(generation, key)
        order = rows.order
        self.last_stamp = max(self.last_stamp, order, message.custody.token)
        if await tx.get(self.part, rows.due(message.custody.until)) != key:
            self._tell(f"message {order} has no due time")
        if message.expires != timestamp_never:
            self.expiries += 1
            if await tx.get(self.part, rows.expiry(message.expires)) != key:
                self._tell(f"message {order} has no expiry time")
        if message.text is None:
            self.texts += 1
            if await tx.get(self.part, rows.text) is None:
                self._tell(f"message {order} has no text")

    def _tell(self, problem: str) -> None:
        if len(self.problems) < problems_max:
            self.problems.append(problem)


async def _is_there(tx: ReadTx, part: Partition) -> bool:
    """Whether a queue has its head, and with it its properties."""
    return None not in (await tx.get(part, keys.head), await tx.get(part, keys.properties))


async def _directory(tx: ReadTx, account: str) -> AsyncIterator[str]:
    async for key, _ in every_row(tx, keys.account_partition(account), *keys.directory()):
        yield keys.directory_name(key)


async def _generations(tx: ReadTx, part: Partition) -> AsyncIterator[int]:
    """Every generation that has rows, once for each kind of them."""
    begin, end = keys.generations()
    while rows := await tx.scan(part, begin, end, limit=1):
        kind, generation, *_ = unpack(rows[0][0])
        assert isinstance(kind, int)
        assert isinstance(generation, int)
        yield generation
        _, begin = keys.of_kind(kind, generation)


async def _length(tx: ReadTx, part: Partition, rows: Range) -> int:
    count = 0
    async for _ in every_row(tx, part, *rows):
        count += 1
    return count
