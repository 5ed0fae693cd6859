"""Steps that go through a log: by number, by time, or from its beginning.

As with every `Operation`, they look first and write afterwards, and may be run again.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from etagere.kv.contract import Partition
from etagere.services.bus import browsing, errors, keys
from etagere.services.bus.deposit import Depositor, drop_old_duplicates, forwarding_failed
from etagere.services.bus.ledger import Ledger, Log, fill
from etagere.services.bus.messages import Message, MessageState, SectionCodec
from etagere.services.bus.names import SubQueue
from etagere.services.bus.operations import Operation, Report, weight_least
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.settlement import Settler, gone, leaves
from etagere.services.bus.topology import Reach, Target
from etagere.services.bus.window import Row

scanned_rows_max: Final = 10_000
"""How many rows a single step looks at."""

page_rows: Final = 256


class Surroundings(msgspec.Struct, frozen=True):
    """What a step needs that puts messages somewhere else."""

    target: Target
    reach: Reach
    codec: SectionCodec
    seed: bytes

    def depositor(self, ledger: Ledger) -> Depositor:
        return Depositor(ledger, self.reach, self.codec, self.seed)

    def settler(self, ledger: Ledger) -> Settler:
        return Settler(ledger, self.depositor(ledger), self.target, self.codec)


class _Step:
    """What all steps have in common; `alone` and `weight` as `Operation` says."""

    __slots__ = ("alone", "parts", "report", "state", "weight")

    def __init__(
        self, parts: tuple[Partition, ...], report: Report, weight: int = weight_least
    ) -> None:
        self.parts = parts
        self.report = report
        self.state: Any = None
        self.alone = False
        self.weight = weight


number_max: Final = 2**63 - 1


def check_numbers(numbers: Sequence[int]) -> None:
    """Refused if one of them is no sequence number at all."""
    if not all(0 < number <= number_max for number in numbers):
        raise errors.no_such_message()


class CancelScheduled(_Step):
    """All of these scheduled messages, or none."""

    __slots__ = ("_log", "_numbers")

    def __init__(self, log: Log, numbers: Sequence[int], report: Report) -> None:
        super().__init__((log.part,), report)
        self._log = log
        self._numbers = tuple(dict.fromkeys(numbers))

    async def apply(self, ledger: Ledger) -> None:
        log = self._log
        if await ledger.open(log) is None:
            raise errors.no_such_message()
        rows: list[Row] = []
        for number in self._numbers:
            message = await ledger.aside(log, number)
            if message is None or message.state != MessageState.scheduled:
                raise errors.no_such_message()
            rows.append((number, message))
        for number, message in rows:
            await _forget_aside(ledger, log, number, message)


async def _forget_aside(ledger: Ledger, log: Log, number: int, message: StoredMessage) -> None:
    ledger.take_aside(log, number, message)
    if message.rest is not None:
        await ledger.release_rest(log.part, message.rest)


class TakeDeferred(_Step):
    """Receive-and-delete of deferred messages, all or none; the result is the messages."""

    __slots__ = ("_log", "_numbers", "_session_id")

    def __init__(
        self, log: Log, numbers: Sequence[int], session_id: str | None, report: Report
    ) -> None:
        super().__init__((log.part,), report)
        self._log = log
        self._numbers = tuple(numbers)
        self._session_id = session_id

    async def apply(self, ledger: Ledger) -> list[Row]:
        log = self._log
        if await ledger.open(log) is None:
            raise errors.no_such_message()
        rows: list[Row] = []
        for number in self._numbers:
            message = await ledger.aside(log, number)
            if message is None or message.state != MessageState.deferred:
                raise errors.no_such_message()
            if self._session_id is not None and message.session_id != self._session_id:
                raise errors.no_such_message()
            rows.append((number, await fill(ledger.tx, log.part, message)))
        for number, message in rows:
            await _forget_aside(ledger, log, number, message)
        return rows


class DeleteBatch(_Step):
    """The oldest active messages that nobody holds; the result is their numbers."""

    __slots__ = ("_before", "_count", "_log", "_session_id", "_skip")

    def __init__(
        self,
        log: Log,
        count: int,
        before: int,
        session_id: str | None,
        skip: frozenset[int],
        report: Report,
    ) -> None:
        super().__init__((log.part,), report, weight_least * count)
        self._log = log
        self._count = count
        self._before = before
        self._session_id = session_id
        self._skip = skip

    async def apply(self, ledger: Ledger) -> set[int]:
        log = self._log
        if await ledger.open(log) is None:
            return set()
        removed: set[int] = set()
        scanned = after = 0
        while len(removed) < self._count and scanned < scanned_rows_max:
            rows, all_read = await self._load(ledger, after)
            for number, message in rows:
                if number not in self._skip and len(removed) < self._count:
                    await self._remove(ledger, number, message, removed)
            scanned += len(rows)
            if all_read:
                break
            after = rows[-1][0]
        return removed

    async def _load(self, ledger: Ledger, after: int) -> tuple[list[Row], bool]:
        """Some of the messages, and whether these are all."""
        if self._session_id is None:
            return await browsing.load(ledger.tx, self._log, after, page_rows)
        return await browsing.load_session(ledger.tx, self._log, self._session_id, after, page_rows)

    async def _remove(
        self, ledger: Ledger, number: int, message: StoredMessage, removed: set[int]
    ) -> None:
        log = self._log
        if message.enqueued_at >= self._before:
            return
        await ledger.take_active(log, number, message)
        if message.rest is not None:
            await ledger.release_rest(log.part, message.rest)
        removed.add(number)


class Activate(_Step):
    """Scheduled messages whose time has come; the result is when the next is due, or None."""

    __slots__ = ("_around", "_limit")

    def __init__(self, around: Surroundings, limit: int, report: Report) -> None:
        super().__init__(around.reach.parts, report, weight_least * limit)
        self._around = around
        self._limit = limit

    async def apply(self, ledger: Ledger) -> int | None:
        target = self._around.target
        log = target.log
        if await ledger.open(log) is None:
            return None
        begin, end = keys.due_until(log.number, ledger.now)
        for key, _ in await ledger.tx.scan(log.part, begin, end, limit=self._limit):
            number = keys.number_of(key)
            message = await ledger.aside(log, number)
            assert message is not None
            await fill(ledger.tx, log.part, message)
            await _forget_aside(ledger, log, number, message)
            message.rest = None
            message.state = int(MessageState.active)
            message.enqueued_number = 0
            await self._around.depositor(ledger).place(target, message)
        _, last = keys.due_until(log.number, 2**63)
        rows = await ledger.tx.scan(log.part, begin, last, limit=1)
        return keys.time_of(rows[0][0]) if rows else None


class Sweep(_Step):
    """Messages that have expired by a moment and that nobody holds.

    The result is their numbers, the last row of the index that was looked at, and when the first
    message behind that expires.
    """

    __slots__ = ("_around", "_cursor", "_limit", "_skip", "_until")

    def __init__(
        self,
        around: Surroundings,
        cursor: bytes | None,
        until: int,
        skip: frozenset[int],
        limit: int,
        report: Report,
    ) -> None:
        super().__init__(around.reach.parts, report, weight_least * limit)
        self._around = around
        self._cursor = cursor
        self._until = until
        self._skip = skip
        self._limit = limit

    async def apply(self, ledger: Ledger) -> tuple[set[int], bytes | None, int | None]:
        log = self._around.target.log
        if await ledger.open(log) is None:
            return set(), None, None
        begin, end = keys.expired_until(log.number, self._until)
        if self._cursor is not None:
            begin = self._cursor + b"\0"
        removed: set[int] = set()
        settler = self._around.settler(ledger)
        cursor = self._cursor
        for key, _ in await ledger.tx.scan(log.part, begin, end, limit=self._limit):
            cursor = key
            number = keys.number_of(key)
            if number in self._skip:
                continue
            if await settler.expire(SubQueue.active, number) is leaves:
                removed.add(number)
        _, last = keys.expired_until(log.number, 2**63)
        following = cursor + b"\0" if cursor is not None else begin
        rows = await ledger.tx.scan(log.part, following, last, limit=1)
        return removed, cursor, keys.time_of(rows[0][0]) if rows else None


class DropDuplicateIds(_Step):
    """Ids that duplicate detection need not remember any longer; the result is when to look
    again, or None if there is nothing left."""

    __slots__ = ("_limit", "_log", "_window")

    def __init__(self, log: Log, window: int, limit: int, report: Report) -> None:
        super().__init__((log.part,), report, weight_least * limit)
        self._log = log
        self._window = window
        self._limit = limit

    async def apply(self, ledger: Ledger) -> int | None:
        log = self._log
        if await ledger.open(log) is None:
            return None
        await drop_old_duplicates(ledger, log, ledger.now - self._window, self._limit)
        begin, end = keys.duplicates_until(log.number, 2**63)
        rows = await ledger.tx.scan(log.part, begin, end, limit=1)
        return keys.time_of(rows[0][0]) + self._window if rows else None


class HandOn(_Step):
    """Active messages of an entity that began to forward when it had some already.

    The result is the numbers of those that left.
    """

    __slots__ = ("_around", "_limit", "_skip")

    def __init__(
        self, around: Surroundings, skip: frozenset[int], limit: int, report: Report
    ) -> None:
        super().__init__(around.reach.parts, report, weight_least * limit)
        self._around = around
        self._skip = skip
        self._limit = limit

    async def apply(self, ledger: Ledger) -> set[int]:
        target = self._around.target
        log = target.log
        if await ledger.open(log) is None or target.forward_to is None:
            return set()
        left: set[int] = set()
        after, all_read = 0, False
        while not (left or all_read):
            rows, all_read = await browsing.load(ledger.tx, log, after, self._limit)
            for number, message in rows:
                if number not in self._skip:
                    await ledger.take_whole(log, number, message)
                    await self._around.depositor(ledger).forward(target, message)
                    left.add(number)
            after = rows[-1][0] if rows else after
        return left


class SetSessionState(_Step):
    __slots__ = ("_log", "_session_id", "_value")

    def __init__(self, log: Log, session_id: str, value: bytes | None, report: Report) -> None:
        super().__init__((log.part,), report, weight_least + len(value or b""))
        self._log = log
        self._session_id = session_id
        self._value = value

    async def apply(self, ledger: Ledger) -> None:
        if await ledger.open(self._log) is None:
            raise errors.session_lost()
        await ledger.set_state(self._log, self._session_id, self._value)


class ReserveNumbers(_Step):
    """Sequence numbers for messages that a transaction will schedule; the result is the numbers."""

    __slots__ = ("_count", "_log")

    def __init__(self, log: Log, count: int, report: Report) -> None:
        super().__init__((log.part,), report)
        self._log = log
        self._count = count

    async def apply(self, ledger: Ledger) -> list[int]:
        if await ledger.open(self._log) is None:
            raise errors.entity_not_found("")
        return [ledger.next_number(self._log) for _ in range(self._count)]


class ScheduleReserved(_Step):
    """Schedule messages under numbers reserved for them."""

    __slots__ = ("_around", "_messages", "_numbers")

    def __init__(
        self,
        around: Surroundings,
        messages: Sequence[Message],
        numbers: Sequence[int],
        report: Report,
    ) -> None:
        weight = sum(message.size + weight_least for message in messages)
        super().__init__(around.reach.parts, report, weight)
        self._around = around
        self._messages = tuple(messages)
        self._numbers = tuple(numbers)

    async def apply(self, ledger: Ledger) -> list[int]:
        depositor = self._around.depositor(ledger)
        return [
            await depositor.send(self._around.target, message, reserved=number)
            for number, message in zip(self._numbers, self._messages, strict=True)
        ]


class DeadLetterTransfer(_Step):
    """Messages sent through an entity to one that is disabled: they end in the transfer
    dead-letter queue of the former."""

    __slots__ = ("_around", "_messages", "_path")

    def __init__(
        self, around: Surroundings, messages: Sequence[Message], path: str, report: Report
    ) -> None:
        weight = sum(message.size + weight_least for message in messages)
        super().__init__(around.reach.parts, report, weight)
        self._around = around
        self._messages = tuple(messages)
        self._path = path

    async def apply(self, ledger: Ledger) -> None:
        target = self._around.target
        if await ledger.open(target.log) is None:
            raise errors.entity_not_found(target.path)
        depositor = self._around.depositor(ledger)
        cause = forwarding_failed(self._path, "the entity is disabled")
        for message in self._messages:
            draft = depositor.draft(message)
            draft.enqueued_number = ledger.next_number(target.log)
            log = target.transfer_dead_letter
            await depositor.dead_letter(target, draft, cause, log=log)


class Together(_Step):
    """Several steps as one: all of them happen, or none.  The result is their results."""

    __slots__ = ("steps",)

    def __init__(self, steps: Sequence[Operation], report: Report) -> None:
        parts = tuple(sorted({part for step in steps for part in step.parts}))
        super().__init__(parts, report, sum(step.weight for step in steps))
        self.steps = tuple(steps)
        self.alone = True

    async def apply(self, ledger: Ledger) -> list[Any]:
        results = []
        for step in self.steps:
            result = await step.apply(ledger)
            if result is gone:
                raise errors.lock_lost()
            results.append(result)
        return results
