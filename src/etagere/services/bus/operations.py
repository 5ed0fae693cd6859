"""What entities ask of the store: each operation is one step of a transaction's body.

An operation is immutable from when it is handed in until it has its result: its `apply` may run on
another thread, and more than once.  It looks before it writes: one that raises `Refused` has
written nothing, so that many can share a transaction.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.message_lock import LockEnd
from etagere.kv.contract import Partition
from etagere.services.bus.deposit import Depositor
from etagere.services.bus.descriptions import TopicDescription
from etagere.services.bus.ledger import Ledger, Log
from etagere.services.bus.messages import Message, MessageState, Outcome, SectionCodec
from etagere.services.bus.names import SubQueue
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.settlement import Held, Settled, Settler, gone, leaves
from etagere.services.bus.topology import Reach, Target

Report = Callable[[Any, Any, Refused | None, Timestamp], None]
"""Called on the loop with the operation, its result or why there is none, and the time."""

Answer = Callable[[Any, Refused | None], None]
"""Tells who asked: with the ticket that was given, and why not, if not."""


class Operation(Protocol):
    alone: bool
    """Whether it needs a transaction of its own: it may refuse after having written."""

    @property
    def parts(self) -> tuple[Partition, ...]: ...

    @property
    def weight(self) -> int:
        """About how many bytes it writes."""
        ...

    report: Report
    state: Any
    """Whose effects want to be carried out after the report; None for nobody's."""

    async def apply(self, ledger: Ledger) -> Any: ...


weight_least: Final = 256


class Send:
    """Messages of one send, all or none; the result is their numbers."""

    __slots__ = (
        "_codec",
        "_messages",
        "_reach",
        "_seed",
        "_target",
        "alone",
        "parts",
        "report",
        "state",
        "ticket",
        "weight",
    )

    def __init__(
        self,
        target: Target,
        reach: Reach,
        messages: Sequence[Message],
        weight: int,
        codec: SectionCodec,
        seed: bytes,
        report: Report,
        ticket: Any = None,
    ) -> None:
        self.parts = reach.parts
        self.report = report
        self.state: Any = None
        self._target = target
        self._reach = reach
        self._messages = messages
        self._codec = codec
        self._seed = seed
        self.weight = weight
        self.ticket = ticket
        description = target.description
        self.alone = (
            isinstance(description, TopicDescription)
            and description.filtering_messages_before_publishing
        )

    async def apply(self, ledger: Ledger) -> list[int]:
        depositor = Depositor(ledger, self._reach, self._codec, self._seed)
        return [await depositor.send(self._target, message) for message in self._messages]


class Settle:
    """The end of a lock; the result is `Settled`."""

    __slots__ = (
        "_codec",
        "_reach",
        "_seed",
        "_target",
        "_verify",
        "alone",
        "answer",
        "end",
        "held",
        "lock",
        "outcome",
        "parts",
        "report",
        "state",
        "sub_queue",
        "ticket",
        "weight",
    )

    def __init__(
        self,
        target: Target,
        sub_queue: SubQueue,
        held: Held,
        end: LockEnd,
        outcome: Outcome | None,
        report: Report,
        *,
        lock: Any = None,
        ticket: Any = None,
        answer: Answer | None = None,
    ) -> None:
        self.parts: tuple[Partition, ...] = (target.part,)
        self.report = report
        self.state: Any = None
        self.alone = False
        self._target = target
        self.sub_queue = sub_queue
        self.held = held
        self.end = end
        self.outcome = outcome
        self.lock = lock
        self.ticket = ticket
        self.answer = answer
        self._verify = False
        self.weight = weight_least + (0 if end is LockEnd.COMPLETED else held.size)

    @property
    def may_move(self) -> bool:
        """Whether the message may end up in another log."""
        return self.end is not LockEnd.COMPLETED

    def prepare(self, reach: Reach, codec: SectionCodec, seed: bytes) -> None:
        self.parts = reach.parts
        self._reach = reach
        self._codec = codec
        self._seed = seed

    def verify(self) -> None:
        """Look whether the row is still there: a commit before may have happened unheard of."""
        self._verify = True

    async def apply(self, ledger: Ledger) -> Settled:
        held = self.held
        log = self._target.log_of(self.sub_queue)
        if self.end is LockEnd.COMPLETED:
            if ledger.opened(log) is None and await ledger.open(log) is None:
                return gone
            if held.session_id is None and held.rest is None and not held.state:
                if self._verify and await ledger.active(log, held.number) is None:
                    return gone
                await ledger.erase(log, held.number, held.size, held.expires_at)
                return leaves
            return await _complete(ledger, log, held)
        depositor = Depositor(ledger, self._reach, self._codec, self._seed)
        settler = Settler(ledger, depositor, self._target, self._codec)
        return await settler.settle(self.sub_queue, held, self.end, self.outcome)


async def _complete(ledger: Ledger, log: Log, held: Held) -> Settled:
    message = await (ledger.aside if held.state else ledger.active)(log, held.number)
    if message is None:
        return gone
    await ledger.take(log, held.number, message)
    if message.rest is not None:
        await ledger.release_rest(log.part, message.rest)
    return leaves


class Expire:
    """Messages whose time to live is over; the result is how many were there."""

    __slots__ = (
        "_codec",
        "_reach",
        "_seed",
        "_target",
        "alone",
        "numbers",
        "parts",
        "report",
        "state",
        "weight",
    )

    def __init__(
        self,
        target: Target,
        numbers: Sequence[int],
        reach: Reach,
        codec: SectionCodec,
        seed: bytes,
        report: Report,
    ) -> None:
        self.parts = reach.parts
        self.report = report
        self.state: Any = None
        self.alone = False
        self._target = target
        self.numbers = numbers
        self.weight = weight_least * len(numbers)
        self._reach = reach
        self._codec = codec
        self._seed = seed

    async def apply(self, ledger: Ledger) -> int:
        depositor = Depositor(ledger, self._reach, self._codec, self._seed)
        settler = Settler(ledger, depositor, self._target, self._codec)
        count = 0
        for number in self.numbers:
            if await settler.expire(SubQueue.active, number) is leaves:
                count += 1
        return count


class PutBack:
    """A message that was taken for a receiver and did not reach it, if it is not there still; the
    result is its number."""

    __slots__ = (
        "_log",
        "alone",
        "message",
        "number",
        "parts",
        "report",
        "state",
        "stream",
        "weight",
    )

    def __init__(self, log: Log, number: int, message: StoredMessage, report: Report) -> None:
        self.parts = (log.part,)
        self.report = report
        self.state: Any = None
        self.alone = False
        self._log = log
        self.number = number
        self.message = message
        self.stream: Any = None
        self.weight = message.size

    async def apply(self, ledger: Ledger) -> int:
        log = self._log
        if await ledger.open(log) is not None and await ledger.active(log, self.number) is None:
            message = self.message
            if message.rest is not None:
                message = _copy_without_rest(message)
            await ledger.put_back(log, self.number, message)
        return self.number


def _copy_without_rest(message: StoredMessage) -> StoredMessage:
    copy = StoredMessage(
        message.tail,
        message.header,
        message.delivery_annotations,
        message.annotations,
        message.size,
        message.enqueued_at,
        message.delivery_count,
        message.expires_at,
        message.enqueued_number,
        message.session_id,
        message.ttl_ms,
        message.partition_key,
        message.scheduled_at,
        int(MessageState.active),
        message.hops,
        message.dead_letter_source,
    )
    assert copy.rest is None
    return copy
