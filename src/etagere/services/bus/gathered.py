"""The two commonest steps, many at a time: plain sends, and completed messages.

An operation for each would cost more than what it does.  These are gathered while they wait for
their transaction; each is still answered for itself.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

import msgspec

from etagere.kv.contract import Partition
from etagere.services.bus import errors
from etagere.services.bus.deposit import begin_life, expiry_of
from etagere.services.bus.ledger import Ledger, Log, Opened
from etagere.services.bus.locks import Lock
from etagere.services.bus.messages import Message
from etagere.services.bus.operations import Answer, Operation, Report, weight_least
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.topology import Target

gathered_max: Final = 512
gathered_bytes_max: Final = 1024 * 1024


class Sent(msgspec.Struct, frozen=True):
    """The messages of one send, or of several that came together."""

    messages: Sequence[Message]
    ticket: tuple[Any, Sequence[Any], int]
    """For the report: the link, a ticket for each send, and the bytes of all of them."""
    apart: bool
    """Each message is a send of its own."""

    def each(self) -> list["Sent"]:
        if not self.apart:
            return [self]
        link, tickets, _ = self.ticket
        return [
            Sent((message,), (link, (ticket,), message.size), apart=True)
            for message, ticket in zip(self.messages, tickets, strict=True)
        ]


class Completed(msgspec.Struct, frozen=True):
    """Locked messages that one receiver is done with."""

    locks: Sequence[Lock]
    ticket: Any
    """Of several, a sequence with a ticket for each."""
    answer: Answer | None
    """Told the ticket; nobody if there is none."""

    def each(self) -> list["Completed"]:
        if len(self.locks) == 1:
            return [self]
        tickets = repeat(None) if self.answer is None else self.ticket
        return [
            Completed((lock,), (ticket,), self.answer)
            for lock, ticket in zip(self.locks, tickets, strict=False)
        ]


def store_plain(ledger: Ledger, opened: Opened, target: Target, messages: list[Message]) -> None:
    """One row for each, and nothing of the message is looked at."""
    now, description = ledger.now, target.description
    expires_at = expiry_of(now, description.default_ttl)
    run: list[StoredMessage] = []
    expire = expires_at > 0
    for message in messages:
        scheduled_at = message.scheduled_at
        stored = StoredMessage(
            message.tail,
            message.header,
            message.delivery_annotations,
            message.annotations,
            message.size,
            now,
            0,
            expires_at,
            0,
            None,
            message.ttl_ms,
            message.partition_key,
            scheduled_at or 0,
            0,
            0,
            message.dead_letter_source,
        )
        if scheduled_at is not None and scheduled_at > now:
            ledger.append_run(opened, run, expire=expire)
            run = []
            stored.expires_at = 0  # its life has not begun
            ledger.schedule(opened.log, stored)
            continue
        if message.ttl_ms is not None:
            expire = True
            begin_life(stored, now, description)
        run.append(stored)
    ledger.append_run(opened, run, expire=expire)


class Sends:
    """Sends to one plain queue, in order.  Reported once, with all of them refused or none."""

    __slots__ = ("_count", "_target", "alone", "items", "parts", "report", "state", "weight")

    def __init__(self, target: Target, report: Report) -> None:
        self.parts: tuple[Partition, ...] = (target.part,)
        self.report = report
        self.state: Any = None
        self.alone = False
        self.weight = 0
        self.items: list[Sent] = []
        self._target = target
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self._count >= gathered_max or self.weight >= gathered_bytes_max

    def add(
        self, messages: Sequence[Message], size: int, ticket: tuple[Any, Sequence[Any], int]
    ) -> None:
        self.items.append(Sent(messages, ticket, apart=False))
        self.weight += size + weight_least
        self._count += 1

    def add_each(
        self, messages: Sequence[Message], size: int, ticket: tuple[Any, Sequence[Any], int]
    ) -> None:
        """Each message is a send of its own, with a ticket of its own."""
        self.items.append(Sent(messages, ticket, apart=True))
        self.weight += size + weight_least * len(messages)
        self._count += len(messages)

    @property
    def is_one(self) -> bool:
        """There is nothing to split."""
        if len(self.items) > 1:
            return False
        (item,) = self.items
        return not item.apart or len(item.messages) == 1

    def split(self) -> list[Operation]:
        """Each for itself: one of them brought the transaction down."""
        return [self._with(one) for item in self.items for one in item.each()]

    def _with(self, item: Sent) -> "Sends":
        one = Sends(self._target, self.report)
        one.items = [item]
        one.weight = sum(message.size for message in item.messages)
        return one

    async def apply(self, ledger: Ledger) -> None:
        target = self._target
        opened = ledger.opened(target.log) or await ledger.open(target.log)
        if opened is None:
            raise errors.entity_not_found(target.path)
        store_plain(
            ledger, opened, target, [message for item in self.items for message in item.messages]
        )


class Completions:
    """Locked messages of a log without sessions that are done with, and lie in one row each."""

    __slots__ = ("_count", "_log", "alone", "items", "parts", "report", "state")

    def __init__(self, log: Log, report: Report) -> None:
        self.parts: tuple[Partition, ...] = (log.part,)
        self.report = report
        self.state: Any = None
        self.alone = False
        self.items: list[Completed] = []
        self._log = log
        self._count = 0

    @property
    def weight(self) -> int:
        return weight_least * self._count

    @property
    def is_full(self) -> bool:
        return self._count >= gathered_max

    def add(self, item: Completed) -> None:
        self.items.append(item)
        self._count += len(item.locks)

    @property
    def is_one(self) -> bool:
        return self._count == 1

    def split(self) -> list[Operation]:
        return [self._with(one) for item in self.items for one in item.each()]

    def _with(self, item: Completed) -> "Completions":
        one = Completions(self._log, self.report)
        one.add(item)
        one.state = self.state
        return one

    async def apply(self, ledger: Ledger) -> bool:
        """False if the log is gone, and the messages with it."""
        log = self._log
        opened = ledger.opened(log) or await ledger.open(log)
        if opened is None:
            return False
        messages = [lock.held for item in self.items for lock in item.locks]
        await ledger.erase_run(
            opened,
            [held.number for held in messages],
            sum([held.size for held in messages]),
            [(held.expires_at, held.number) for held in messages if held.expires_at],
        )
        return True
