"""The two commonest steps, many at a time: plain sends, and completed messages.

An operation for each would cost more than what it does.  These are gathered while they wait for
their transaction; each is still answered for itself.
"""

from typing import Any, Final

from etagere.kv.contract import Partition
from etagere.services.bus import errors
from etagere.services.bus.deposit import begin_life
from etagere.services.bus.ledger import Ledger, Log, Opened
from etagere.services.bus.locks import Lock
from etagere.services.bus.messages import Message
from etagere.services.bus.operations import Answer, Operation, Report, weight_least
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.topology import Target

gathered_max: Final = 512
gathered_bytes_max: Final = 1024 * 1024

Sent = tuple[tuple[Message, ...], Any]
"""The messages of one send, and what its report is to be given with it."""

Completed = tuple[Lock, Any, Answer | None]


def store_plain(ledger: Ledger, opened: Opened, target: Target, message: Message) -> int:
    """One row, and nothing of the message is looked at; its number."""
    scheduled_at = message.scheduled_at
    stored = StoredMessage(
        message.tail,
        message.header,
        message.delivery_annotations,
        message.annotations,
        message.size,
        ledger.now,
        0,
        0,
        0,
        None,
        message.ttl_ms,
        message.partition_key,
        scheduled_at or 0,
        dead_letter_source=message.dead_letter_source,
    )
    if scheduled_at is not None and scheduled_at > ledger.now:
        return ledger.schedule(opened.log, stored)
    begin_life(stored, ledger.now, target.description)
    return ledger.append_plain(opened, stored)


class Sends:
    """Sends to one plain queue, in order.  Reported once, with all of them refused or none."""

    __slots__ = ("_target", "alone", "items", "parts", "report", "state", "weight")

    def __init__(self, target: Target, report: Report) -> None:
        self.parts: tuple[Partition, ...] = (target.part,)
        self.report = report
        self.state: Any = None
        self.alone = False
        self.weight = 0
        self.items: list[Sent] = []
        self._target = target

    @property
    def is_full(self) -> bool:
        return len(self.items) >= gathered_max or self.weight >= gathered_bytes_max

    def add(self, messages: tuple[Message, ...], size: int, ticket: Any) -> None:
        self.items.append((messages, ticket))
        self.weight += size + weight_least

    def split(self) -> list[Operation]:
        """Each for itself: one of them brought the transaction down."""
        return [self._with(item) for item in self.items]

    def _with(self, item: Sent) -> "Sends":
        one = Sends(self._target, self.report)
        one.items = [item]
        one.weight = sum(message.size for message in item[0])
        return one

    async def apply(self, ledger: Ledger) -> None:
        target = self._target
        opened = ledger.opened(target.log) or await ledger.open(target.log)
        if opened is None:
            raise errors.entity_not_found(target.path)
        for messages, _ in self.items:
            for message in messages:
                store_plain(ledger, opened, target, message)


class Completions:
    """Locked messages of a log without sessions that are done with, and lie in one row each."""

    __slots__ = ("_log", "alone", "items", "parts", "report", "state")

    def __init__(self, log: Log, report: Report) -> None:
        self.parts: tuple[Partition, ...] = (log.part,)
        self.report = report
        self.state: Any = None
        self.alone = False
        self.items: list[Completed] = []
        self._log = log

    @property
    def weight(self) -> int:
        return weight_least * len(self.items)

    def split(self) -> list[Operation]:
        return [self._with(item) for item in self.items]

    def _with(self, item: Completed) -> "Completions":
        one = Completions(self._log, self.report)
        one.items = [item]
        one.state = self.state
        return one

    async def apply(self, ledger: Ledger) -> bool:
        """False if the log is gone, and the messages with it."""
        log = self._log
        opened = ledger.opened(log) or await ledger.open(log)
        if opened is None:
            return False
        for lock, _, _ in self.items:
            held = lock.held
            ledger.erase_plain(opened, held.number, held.size, held.expires_at)
        return True
