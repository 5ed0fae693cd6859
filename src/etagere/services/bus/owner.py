"""The owner of one sequence of messages: who gets which message, and what ends a lock.

A state machine without input or output of its own.  Events are method calls with the time; after
some of them `advance` gives away what can be given away.  Effects are appended to lists, which the
caller then empties, in this order:

    answers      (callable, ticket, refusal): how settlements went; before what they led to
    deliveries   (taker, delivery or a run of them), in order: for the wire
    operations   steps for the store; each reports back with its result
    requests     other work on the store: `Load`, `Fetch`, `Lapse`, `FindSession`; answered by the
                 events of the same name in the past tense
    notices      (callable, arguments): ends of drains, sessions granted and lost

The log is in the store.  In memory are locks, bounded by the credit that receivers gave, and
windows, bounded by a constant.  `OwnerBase` is what both kinds share: `CompetingOwner` serves
competing receivers, `SessionOwner` hands out sessions.

What ends a lock, and what then becomes of the message, is `kernel.message_lock`'s table; an end
that counts as a failed delivery goes through the store before the message is available again, so
that a message that kills its receivers cannot kill them for ever.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from etagere.base.clock import Timestamp, seconds, timestamp_never
from etagere.base.errors import Refused
from etagere.kernel.message_lock import Custody, LockEnd, Place, lock_ends
from etagere.services.bus import errors
from etagere.services.bus.credit import Taker
from etagere.services.bus.deliveries import LockedRun, delivery_of
from etagere.services.bus.gathered import Completed, Completions
from etagere.services.bus.ledger import Log
from etagere.services.bus.locks import Lock, LockStatus, LockTable, settling
from etagere.services.bus.messages import (
    Complete,
    DeadLetter,
    Delivery,
    MessageState,
    Outcome,
    Release,
    complete,
)
from etagere.services.bus.names import SubQueue
from etagere.services.bus.operations import Answer, Operation, PutBack, Settle
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.settlement import Held, Settled, Stays, gone, lock_end_of
from etagere.services.bus.stream import Fetch, Lapse, Load, Request, Stream
from etagere.services.bus.topology import Target
from etagere.services.bus.window import Row

put_back_retry_ticks: Final = seconds(1)
read_retry_ticks: Final = seconds(1)
"""After a reading that the store refused."""

ends_at_home: Final = frozenset(
    end for end, ending in lock_ends.items() if ending.place is Place.HOME
)

_transactional: Final = (LockStatus.enlisted, LockStatus.committing)

DrawTokens = Callable[[int], list[bytes]]
"""So many tokens that were never given before."""

Notice = tuple[Callable[..., None], tuple[Any, ...]]


class OwnerBase:
    """What owners of competing receivers and of sessions share: locks and their ends."""

    def __init__(self, target: Target, sub_queue: SubQueue, draw_tokens: DrawTokens) -> None:
        self.target = target
        self.sub_queue = sub_queue
        self.log: Log = target.log_of(sub_queue)
        self.locks = LockTable()
        self.enabled = True
        """Whether the entity's status lets messages out."""
        self.doubtful = False
        """A commit may have happened unheard of: settlements look before they write."""
        self.deliveries: list[tuple[Taker, Delivery | LockedRun]] = []
        self.operations: list[Operation] = []
        self.requests: list[Request] = []
        self.answers: list[tuple[Answer, Any, Refused | None]] = []
        self.notices: list[Notice] = []
        self.in_transit: set[int] = set()
        """Numbers of active messages that something is about to take, without a lock."""
        self.aside_in_transit: set[int] = set()
        """The same of deferred messages."""
        self._awake: dict[Stream, None] = {}
        self._completions: Completions | None = None
        self._draw_tokens = draw_tokens
        self._frozen = 0
        self._stranded: list[tuple[Stream, int, StoredMessage]] = []
        self._stranded_due: Timestamp = timestamp_never
        self._unread: dict[Stream, None] = {}
        """Streams that asked the store for messages, and got an error."""
        self._unread_due: Timestamp = timestamp_never

    @property
    def delivering(self) -> bool:
        return self.enabled and not self._frozen

    @property
    def lock_duration(self) -> int:
        duration: int = getattr(self.target.description, "lock_duration", 0)
        return duration

    @property
    def unavailable(self) -> set[int]:
        """Numbers of active messages that are locked or on their way somewhere."""
        return {lock.held.number for lock in self.locks if not lock.held.state} | self.in_transit

    def freeze(self) -> None:
        """Deliver nothing while something goes through the log."""
        self._frozen += 1

    def wake(self, stream: Stream) -> None:
        """The stream may have something to give away: `advance` will see."""
        self._awake[stream] = None

    @property
    def is_awake(self) -> bool:
        """Whether there are effects, or may be after `advance`."""
        return bool(
            self._awake
            or self.answers
            or self.deliveries
            or self.operations
            or self.requests
            or self.notices
        )

    def advance(self, now: Timestamp) -> None:
        """Give away what the events since the last call have made available.

        Once for all of them: what a client gave back in the same breath comes first.
        """
        while self._awake:
            awake, self._awake = self._awake, {}
            for stream in awake:
                stream.advance(now)

    # ---- effects, for streams

    def request(self, request: Request) -> None:
        self.requests.append(request)

    def drained(self, taker: Taker) -> None:
        self.notices.append((taker.receiver.drained, ()))

    def deliver_run(
        self, stream: Stream, taker: Taker, rows: Sequence[Row], now: Timestamp
    ) -> None:
        """`deliver_locked` for active messages that lie in one row each."""
        ends, shown = self.lock_terms(stream, now)
        sessioned = self.log.sessioned
        tokens = self._draw_tokens(len(rows))
        locks: list[Lock] = []
        for (number, message), token in zip(rows, tokens, strict=True):
            session_id = message.session_id if sessioned else None
            size, expires_at, count = message.size, message.expires_at, message.delivery_count
            known = Held(number, size, expires_at, count, session_id, 0, None)
            locks.append(Lock(token, ends, known, taker, stream))
        self.locks.add_run(tokens, locks)
        taker.tokens.update(tokens)
        stream.outstanding += len(locks)
        self.deliveries.append((taker, LockedRun(rows, tokens, shown)))

    def deliver_locked(
        self, stream: Stream, taker: Taker, number: int, message: StoredMessage, now: Timestamp
    ) -> None:
        custody, until = self.take_custody(stream, now, message.delivery_count)
        token = custody.token
        self.add_lock(Lock(token, custody.until, self._held(number, message), taker, stream))
        self.deliveries.append((taker, delivery_of(number, message, token, until)))

    def take_away(self, stream: Stream, taker: Taker, number: int, message: StoredMessage) -> None:
        """Receive-and-delete.

        The message is deleted first and sent when that is durable: it goes on the wire at most
        once, whenever the process dies, and no message is on two wires.  What dies with the
        process between the two is lost as if the wire had lost it; what finds its receiver gone
        goes back into the log.
        """
        stream.outstanding += 1
        self.in_transit.add(number)
        operation = Settle(
            self.target,
            self.sub_queue,
            self._held(number, message),
            LockEnd.COMPLETED,
            None,
            self._taken_away,
            lock=(stream, taker, message),
        )
        if self.doubtful:
            operation.verify()
        self.operations.append(operation)

    def lapse(self, stream: Stream, number: int) -> None:
        stream.outstanding += 1
        self.in_transit.add(number)
        self.requests.append(Lapse(stream, [number]))

    def _held(self, number: int, message: StoredMessage) -> Held:
        return Held(
            number,
            message.size,
            message.expires_at,
            message.delivery_count,
            message.session_id if self.log.sessioned else None,
            message.state,
            message.rest,
        )

    def take_custody(
        self, stream: Stream | None, now: Timestamp, count: int
    ) -> tuple[Custody[bytes], Timestamp]:
        """A fresh lock, and until when its holder may count on it."""
        raise NotImplementedError

    def lock_terms(self, stream: Stream, now: Timestamp) -> tuple[Timestamp, Timestamp]:
        """When a lock taken now runs out by itself, and until when its holder may count on it."""
        raise NotImplementedError

    def add_lock(self, lock: Lock) -> None:
        self.locks.add(lock)
        if lock.home is not None:
            lock.home.outstanding += 1

    def remove_lock(self, lock: Lock) -> None:
        self.locks.remove(lock)
        self._mark_returning(lock, returning=False)
        if lock.home is not None:
            lock.home.outstanding -= 1

    def _mark_end(self, lock: Lock, end: LockEnd) -> None:
        if end is not LockEnd.COMPLETED and end in ends_at_home and not lock.held.state:
            self._mark_returning(lock, returning=True)

    def _mark_returning(self, lock: Lock, *, returning: bool) -> None:
        if lock.home is not None and lock.returning is not returning:
            lock.returning = returning
            lock.home.returning += 1 if returning else -1

    def _restore(self, lock: Lock) -> None:
        self._mark_returning(lock, returning=False)
        self.locks.restore(lock)

    # ---- receive-and-delete, answered

    def _taken_away(
        self, operation: Settle, result: Settled | None, refusal: Refused | None, now: Timestamp
    ) -> None:
        stream, taker, message = operation.lock
        number = operation.held.number
        taker.in_flight -= 1
        if refusal is not None or (result is not gone and (taker.closed or taker.credit <= 0)):
            # It was on no wire yet; after a failure of the store, it may be there or not.
            self._submit_put_back(stream, number, message)
            if not taker.closed:
                stream.set_credit(taker, taker.credit, drain=taker.draining)
            return
        self.in_transit.discard(number)
        stream.outstanding -= 1
        if result is not gone:
            taker.credit -= 1
            self.deliveries.append((taker, delivery_of(number, message, None, None)))
        else:
            stream.set_credit(taker, taker.credit, drain=taker.draining)
        self.came_back(stream, now)

    def _submit_put_back(self, stream: Stream, number: int, message: StoredMessage) -> None:
        operation = PutBack(self.log, number, message, self._put_back)
        operation.stream = stream
        self.operations.append(operation)

    def _put_back(
        self, operation: PutBack, _result: Any, refusal: Refused | None, now: Timestamp
    ) -> None:
        stream = operation.stream
        if refusal is not None:
            self._stranded.append((stream, operation.number, operation.message))
            self._stranded_due = Timestamp(now + put_back_retry_ticks)
            return
        self.in_transit.discard(operation.number)
        stream.outstanding -= 1
        self.give_back(stream, operation.number, None, operation.message.expires_at, now)
        self.came_back(stream, now)

    # ---- settlement

    def settle(
        self, token: bytes, outcome: Outcome, ticket: Any, answer: Answer | None, now: Timestamp
    ) -> None:
        lock = self.good_lock(token, now)
        if lock is not None and type(outcome) is Complete:  # by far the commonest
            plain = lock.held.rest is None and not lock.held.state
            if plain and not (self.log.sessioned or self.doubtful):
                self._complete(lock, ticket, answer)
            else:
                self.end(lock, LockEnd.COMPLETED, outcome, ticket, answer)
            return
        refusal = self.refuse_settlement(token, outcome, now)
        if refusal is not None or lock is None:
            if answer is not None:
                self.answers.append((answer, ticket, refusal))
        elif isinstance(outcome, Release):
            self.end_at_home(lock, now)
            if answer is not None:
                self.answers.append((answer, ticket, None))
        else:
            self.end(lock, lock_end_of(outcome), outcome, ticket, answer)

    def complete_each(
        self,
        tokens: Sequence[bytes],
        tickets: Sequence[Any],
        answer: Answer | None,
        now: Timestamp,
    ) -> None:
        """`settle` for messages that are all done with; answered with lists of their tickets."""
        if not (self.log.sessioned or self.doubtful):
            locks = self.locks.plain_ones(tokens, now)
            if locks is not None:
                for lock in locks:
                    lock.status = settling
                self._gathering().add(Completed(locks, tickets, answer))
                return
        for token, ticket in zip(tokens, tickets, strict=True):
            self.settle(token, complete, (ticket,), answer, now)

    def _complete(self, lock: Lock, ticket: Any, answer: Answer | None) -> None:
        lock.status = settling
        self._gathering().add(Completed((lock,), ticket, answer))

    def _gathering(self) -> Completions:
        """Completed messages that can still be added to."""
        gathering = self._completions
        if gathering is None or gathering.is_full:
            gathering = self._completions = Completions(self.log, self._completed)
            self.operations.append(gathering)
        return gathering

    def _completed(
        self, operation: Completions, done: bool | None, refusal: Refused | None, now: Timestamp
    ) -> None:
        answered = refusal or (None if done else self.lost())
        for done_with in operation.items:
            locks = done_with.locks
            if done_with.answer is not None:
                self.answers.append((done_with.answer, done_with.ticket, answered))
            if refusal is None:
                self.locks.remove_run(locks)
                locks[0].home.outstanding -= len(locks)  # without sessions there is one stream
            else:
                for lock in locks:
                    self.locks.restore(lock)
        if refusal is not None:
            self.tick(now)

    def take_operations(self) -> list[Operation]:
        """The steps for the store since the last time."""
        operations, self.operations, self._completions = self.operations, [], None
        return operations

    def refuse_settlement(self, token: bytes, outcome: Outcome, now: Timestamp) -> Refused | None:
        """Why the message cannot be settled so with this token now, if it cannot."""
        if self.good_lock(token, now) is None:
            return self.lost()
        if isinstance(outcome, DeadLetter) and self.sub_queue is not SubQueue.active:
            return Refused(
                errors.not_allowed,
                message="A message in a dead-letter queue cannot be dead-lettered.",
            )
        return None

    def good_lock(self, token: bytes, now: Timestamp) -> Lock | None:
        return self.locks.good(token, now)

    def lost(self) -> Refused:
        return errors.lock_lost()

    def end(
        self,
        lock: Lock,
        end: LockEnd,
        outcome: Outcome | None = None,
        ticket: Any = None,
        answer: Answer | None = None,
    ) -> None:
        """The lock is over, by way of the store."""
        lock.status = LockStatus.settling
        self._mark_end(lock, end)
        operation = Settle(
            self.target,
            self.sub_queue,
            lock.held,
            end,
            outcome,
            self._settled,
            lock=lock,
            ticket=ticket,
            answer=answer,
        )
        if self.doubtful:
            operation.verify()
        self.operations.append(operation)

    def settlement(self, lock: Lock, outcome: Outcome) -> Settle:
        """A step that settles an enlisted message, for whoever will report back with `ended`."""
        end = lock_end_of(outcome)
        self._mark_end(lock, end)
        operation = Settle(
            self.target, self.sub_queue, lock.held, end, outcome, _report_to_nobody, lock=lock
        )
        if self.doubtful:
            operation.verify()
        return operation

    def _settled(
        self, operation: Settle, result: Settled | None, refusal: Refused | None, now: Timestamp
    ) -> None:
        lock: Lock = operation.lock
        if operation.answer is not None:
            lost = self.lost() if result is gone else None
            self.answers.append((operation.answer, operation.ticket, refusal or lost))
        if refusal is None:
            self.ended(lock, result, now)
        elif operation.outcome is None or self.is_closing(lock.home):
            self.end_at_home(lock, now)
        else:
            self._restore(lock)  # the client may try again for as long as the lock lasts
            self.tick(now)
            self.parted(lock.home, now)

    def ended(self, lock: Lock, result: Settled | None, now: Timestamp) -> None:
        """The store has done what the lock's end asks for."""
        self.remove_lock(lock)
        if type(result) is Stays and result.message.state == MessageState.active:
            self._go_home(lock, result.message, now)
        else:
            self.parted(lock.home, now)

    def end_at_home(self, lock: Lock, now: Timestamp) -> None:
        """The lock is over, and the message's row is as it was."""
        self.remove_lock(lock)
        if lock.held.state:
            self.parted(lock.home, now)
        else:
            self._go_home(lock, None, now)

    def _go_home(self, lock: Lock, message: StoredMessage | None, now: Timestamp) -> None:
        """The message is active at its old place, unless it expired while it was locked."""
        held = lock.held
        self.give_back(lock.home, held.number, message, held.expires_at, now)
        self.came_back(lock.home, now)

    def give_back(
        self,
        stream: Stream,
        number: int,
        message: StoredMessage | None,
        expires_at: int,
        now: Timestamp,
    ) -> None:
        """A message that was out is available again.  No sweep has looked at it meanwhile."""
        if 0 < expires_at <= now:
            self.lapse(stream, number)
        else:
            stream.window.put_back(number, message)

    def lapsed(self, request: Lapse, now: Timestamp, *, failed: bool) -> None:
        """Expired messages are gone; or not, then they will be looked at again."""
        stream = request.stream
        assert stream is not None
        for number in request.numbers:
            self.in_transit.discard(number)
            stream.outstanding -= 1
            if failed:
                stream.window.put_back(number, None)
        if not failed or self.is_closing(stream):
            self.came_back(stream, now)

    def renew(self, token: bytes, now: Timestamp) -> Timestamp | None:
        """The new end of the lock; None if it is lost."""
        lock = self.good_lock(token, now)
        return None if lock is None else self.locks.renew(lock, now, self.lock_duration)

    # ---- transactions

    def enlist(self, token: bytes, outcome: Outcome, now: Timestamp) -> Lock:
        """Keep the lock for a transaction that will settle it."""
        refusal = self.refuse_settlement(token, outcome, now)
        if refusal is not None:
            raise refusal
        lock = self.locks.find(token)
        assert lock is not None
        lock.status = LockStatus.enlisted
        return lock

    def is_enlisted(self, lock: Lock) -> bool:
        return self.locks.holds(lock) and lock.status is LockStatus.enlisted

    def roll_back(self, lock: Lock, now: Timestamp) -> None:
        """The lock is as it was; it may be over by now."""
        if not self.locks.holds(lock) or lock.status not in _transactional:
            return  # something else has ended it
        if self.is_closing(lock.home):
            self.end_at_home(lock, now)
        else:
            self._restore(lock)
            self.tick(now)
            self.parted(lock.home, now)

    # ---- messages set aside

    def is_taken_aside(self, number: int) -> bool:
        """Whether somebody has this deferred message."""
        return number in self.aside_in_transit or self.locks.is_locked_aside(number)

    def lock_aside(
        self, rows: Sequence[Row], stream: Stream | None, now: Timestamp
    ) -> list[Delivery]:
        """Lock deferred messages, which nobody else holds."""
        deliveries = []
        for number, message in rows:
            assert not self.locks.is_locked_aside(number)
            custody, until = self.take_custody(stream, now, message.delivery_count)
            token = custody.token
            self.add_lock(Lock(token, custody.until, self._held(number, message), None, stream))
            deliveries.append(delivery_of(number, message, token, until))
        return deliveries

    # ---- time and change

    def next_due(self) -> Timestamp:
        return min(self.locks.due, self._stranded_due, self._unread_due)

    def tick(self, now: Timestamp) -> None:
        for lock in self.locks.run_out(now):
            self.end(lock, LockEnd.EXPIRED)
        if now >= self._stranded_due:
            self._stranded_due = timestamp_never
            stranded, self._stranded = self._stranded, []
            for stream, number, message in stranded:
                self._submit_put_back(stream, number, message)
        if now >= self._unread_due:
            self._unread_due = timestamp_never
            unread, self._unread = self._unread, {}
            for stream in unread:
                self.came_back(stream, now)

    def reconfigured(self, target: Target, now: Timestamp) -> None:
        """The entity was updated: all locks are released, the messages are as they were."""
        self.target = target
        self.freeze()  # all of them are back before the first is given away again
        for lock in self.locks:
            if not lock.is_ending:
                self.end_at_home(lock, now)
        self._frozen -= 1

    def doubt(self, now: Timestamp) -> None:
        """A commit failed, and may have happened all the same."""
        raise NotImplementedError

    # ---- for the two kinds of owners

    def came_back(self, stream: Stream, now: Timestamp) -> None:
        """The stream may have something to give away, or may have waited for this to close."""
        raise NotImplementedError

    def parted(self, stream: Stream | None, now: Timestamp) -> None:
        """A message has left the stream, which may have waited for this to close."""

    def is_closing(self, stream: Stream | None) -> bool:  # noqa: ARG002
        return False

    # ---- the store's answers

    def loaded(self, request: Load, rows: Sequence[Row], now: Timestamp, *, all_read: bool) -> None:
        request.stream.unreadable = False
        request.stream.window.loaded(rows, all_read=all_read, version=request.version)
        self.came_back(request.stream, now)

    def load_failed(self, request: Load, now: Timestamp) -> None:
        request.stream.window.load_failed()
        self._read_again_later(request.stream, now)

    def fetched(self, request: Fetch, rows: Sequence[Row], now: Timestamp) -> None:
        request.stream.unreadable = False
        request.stream.window.fetched(request.numbers, rows)
        self.came_back(request.stream, now)

    def fetch_failed(self, request: Fetch, now: Timestamp) -> None:
        request.stream.window.fetch_failed()
        self._read_again_later(request.stream, now)

    def _read_again_later(self, stream: Stream, now: Timestamp) -> None:
        """Receivers wait for what was not read, and nothing else may ever wake their stream.

        Who wants what there is, or nothing, does not wait for a store that goes on failing.
        """
        if stream.unreadable:
            stream.end_drains()
        stream.unreadable = True
        self._unread[stream] = None
        self._unread_due = min(self._unread_due, Timestamp(now + read_retry_ticks))


def _report_to_nobody(*_arguments: Any) -> None:
    pass
