"""What settling a message does to its rows, once its owner has found the lock good.

`kernel.message_lock` decides where a message goes and whether the delivery counts as failed; this
puts it there.  An operation looks first and writes afterwards: if the row is gone (which only an
ambiguous failure of the store can bring about) it says so and changes nothing.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from etagere.kernel.message_lock import LockEnd, Place, fate_of
from etagere.services.bus.deposit import (
    DeadLetterCause,
    Depositor,
    deliveries_exceeded,
    headers_too_large,
    replace_tail,
    ttl_expired,
)
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from etagere.services.bus.ledger import Ledger, Log, fill
from etagere.services.bus.messages import (
    Abandon,
    Complete,
    DeadLetter,
    Defer,
    Outcome,
    PropertyValue,
    Release,
    SectionCodec,
)
from etagere.services.bus.names import SubQueue
from etagere.services.bus.records import Rest, StoredMessage
from etagere.services.bus.topology import Target

headers_bytes_max: Final = 64 * 1024

nothing_more: Final = DeadLetterCause(None, None)


class Held(msgspec.Struct, frozen=True, gc=False):
    """What the owner knows of a message without its row."""

    number: int
    size: int
    expires_at: int
    count: int
    """Failed deliveries so far."""
    session_id: str | None
    state: int
    rest: Rest | None


class Stays(msgspec.Struct, frozen=True):
    """The message is still in its log; `message` is its row now."""

    message: StoredMessage


class Leaves(msgspec.Struct, frozen=True):
    """The message is in this log no more."""


class Missing(msgspec.Struct, frozen=True):
    """There was no such row."""


Settled = Stays | Leaves | Missing
leaves: Final = Leaves()
gone: Final = Missing()


def lock_end_of(outcome: Outcome) -> LockEnd:
    match outcome:
        case Complete():
            return LockEnd.COMPLETED
        case Release():
            return LockEnd.RELEASED
        case Abandon():
            return LockEnd.ABANDONED
        case Defer():
            return LockEnd.DEFERRED
        case DeadLetter():
            return LockEnd.DEAD_LETTERED


def deliveries_max(target: Target, sub_queue: SubQueue) -> int | None:
    """Nothing is dead-lettered out of a dead-letter queue."""
    if sub_queue is not SubQueue.active or isinstance(target.description, TopicDescription):
        return None
    return target.description.max_delivery_count


class Settler:
    """Settles messages of one node's logs within one run of a transaction's body."""

    __slots__ = ("_codec", "_depositor", "_ledger", "_target")

    def __init__(
        self, ledger: Ledger, depositor: Depositor, target: Target, codec: SectionCodec
    ) -> None:
        self._ledger = ledger
        self._depositor = depositor
        self._target = target
        self._codec = codec

    async def settle(
        self, sub_queue: SubQueue, held: Held, end: LockEnd, outcome: Outcome | None
    ) -> Settled:
        """`outcome` is the client's, if this end of the lock has one."""
        ledger = self._ledger
        log = self._target.log_of(sub_queue)
        if await ledger.open(log) is None:
            return gone
        read = ledger.aside if held.state else ledger.active
        message = await read(log, held.number)
        if message is None:
            return gone
        most = deliveries_max(self._target, sub_queue)
        fate = fate_of(end, held.count, most)
        message.delivery_count = fate.count
        if fate.exceeded:
            assert most is not None
            return await self._dead_letter(log, held.number, message, deliveries_exceeded(most))
        changes = getattr(outcome, "changes", None) or {}
        match fate.place:
            case Place.DELETED:
                await ledger.take(log, held.number, message)
                if message.rest is not None:
                    await ledger.release_rest(log.part, message.rest)
                return leaves
            case Place.DEAD_LETTER:
                assert isinstance(outcome, DeadLetter)
                cause = DeadLetterCause(outcome.reason, outcome.description)
                return await self._dead_letter(log, held.number, message, cause, changes)
            case Place.HOME | Place.DEFERRED:
                aside = fate.place is Place.DEFERRED
                return await self._keep(log, held.number, message, changes, aside=aside)
            case Place.LOCKED:
                raise AssertionError(end)

    async def expire(self, sub_queue: SubQueue, number: int) -> Settled:
        """An active message whose time to live is over."""
        ledger = self._ledger
        log = self._target.log_of(sub_queue)
        if await ledger.open(log) is None:
            return gone
        message = await ledger.active(log, number)
        if message is None or not 0 < message.expires_at <= ledger.now:
            return gone
        description = self._target.description
        assert isinstance(description, QueueDescription | SubscriptionDescription)
        if description.dead_letter_on_expiration:
            return await self._dead_letter(log, number, message, ttl_expired)
        await ledger.take_active(log, number, message)
        if message.rest is not None:
            await ledger.release_rest(log.part, message.rest)
        return leaves

    async def _keep(
        self,
        log: Log,
        number: int,
        message: StoredMessage,
        changes: Mapping[str, PropertyValue],
        *,
        aside: bool,
    ) -> Settled:
        ledger = self._ledger
        old_rest, old_size = message.rest, message.size
        if changes:
            await fill(ledger.tx, log.part, message)
            tail = self._codec.change(message.tail, application=changes)
            if self._codec.headers_bytes(tail) > headers_bytes_max:
                return await self._dead_letter(log, number, message, headers_too_large)
            if old_rest is not None:
                await ledger.release_rest(log.part, old_rest)
                message.rest = None
            replace_tail(message, tail)
        if aside and not message.state:
            new_size, message.size = message.size, old_size
            await ledger.take_active(log, number, message)
            message.size = new_size
            ledger.defer(log, number, message)
        else:
            ledger.counters(log).bytes += message.size - old_size
            await ledger.rewrite(log, number, message)
        return Stays(message)

    async def _dead_letter(
        self,
        log: Log,
        number: int,
        message: StoredMessage,
        cause: DeadLetterCause,
        changes: Mapping[str, PropertyValue] | None = None,
    ) -> Settled:
        await self._ledger.take_whole(log, number, message)
        await self._depositor.dead_letter(self._target, message, cause, changes)
        return leaves
