"""The owner of a log whose messages are handed out by session, each to one receiver at a time.

A session that is held is a stream of its own.  Its lock is the lock of all its messages: they have
tokens, but their time is the session's.  A session whose holder is gone is *closing* until all that
was on its way to the store has arrived; the next holder finds it as the store has it, in order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from etagere.base.clock import Timestamp, seconds, timestamp_never
from etagere.base.errors import Refused
from etagere.kernel.message_lock import (
    Custody,
    LockEnd,
    Standing,
    extend,
    peek_locks,
    standing_of,
    take,
)
from etagere.services.bus import errors
from etagere.services.bus.credit import Taker
from etagere.services.bus.locks import Lock, never_taken
from etagere.services.bus.messages import ReceiveMode
from etagere.services.bus.names import SubQueue
from etagere.services.bus.overriding import override
from etagere.services.bus.owner import DrawTokens, OwnerBase, read_retry_ticks
from etagere.services.bus.stream import FindSession, Stream
from etagere.services.bus.topology import Target
from etagere.services.bus.window import Row

forever: Final = timestamp_never
waiters_max: Final = 5000
"""Clients that wait for a session of one entity at the same time."""

overstay_ticks: Final = seconds(5)
"""How long a receiver that deletes keeps its link when its session's lock has run out, if nobody
else wants a session: it has no message to lose, and the service lets it come to its end
(azure-servicebus, `test_session_by_queue_client_conn_str_receive_handler_receiveanddelete`)."""


class Hold:
    """A session and who has it."""

    __slots__ = ("closing", "custody", "session_id", "stream", "successors", "taker")

    def __init__(
        self, session_id: str, taker: Taker, stream: Stream, custody: Custody[bytes]
    ) -> None:
        self.session_id = session_id
        self.taker = taker
        self.stream = stream
        self.custody = custody
        self.closing = False
        self.successors: deque[Acceptance] = deque()
        """Who asked for this very session while it was closing."""

    @property
    def until(self) -> Timestamp:
        return self.custody.until

    @property
    def may_overstay(self) -> bool:
        return self.taker.mode is ReceiveMode.receive_and_delete


class Acceptance:
    """A request for a session: a named one, or the next with messages."""

    __slots__ = ("answer", "deadline", "session_id", "taker")

    def __init__(
        self,
        session_id: str | None,
        taker: Taker,
        deadline: Timestamp,
        answer: Callable[["Hold | None", Refused | None], None],
    ) -> None:
        self.session_id = session_id
        self.taker = taker
        self.deadline = deadline
        self.answer = answer


class SessionOwner(OwnerBase):
    def __init__(
        self,
        target: Target,
        sub_queue: SubQueue,
        last_number: int,
        draw_tokens: DrawTokens,
    ) -> None:
        super().__init__(target, sub_queue, draw_tokens)
        self.holds: dict[str, Hold] = {}
        self._next_expected = last_number + 1
        self._waiters: deque[Acceptance] = deque()
        self._overstaying: dict[Hold, None] = {}
        self._searching = False
        self._news = False
        """Whether messages came since the search began."""
        self._search_due: Timestamp = timestamp_never
        """When to search again after an error of the store."""
        self._due: Timestamp = timestamp_never

    # ---- accepting

    def accept(self, acceptance: Acceptance, now: Timestamp) -> None:
        session_id = acceptance.session_id
        if session_id is None and len(self._waiters) >= waiters_max:
            refusal = Refused(
                errors.quota_exceeded, message="As many clients as may wait for a session do."
            )
            self.notices.append((acceptance.answer, (None, refusal)))
            return
        if session_id is None:
            for overstaying in list(self._overstaying):
                self._expire(overstaying, now)
            self._waiters.append(acceptance)
            self._due = min(self._due, acceptance.deadline)
            self._search()
            return
        hold = self.holds.get(session_id)
        if hold is not None and not hold.closing and hold.until <= now:
            self._expire(hold, now)
            hold = self.holds.get(session_id)
        if hold is None:
            self._grant(acceptance, session_id, now)
        elif hold.closing:
            hold.successors.append(acceptance)
        else:
            self._refuse_held(acceptance)

    def cancel(self, acceptance: Acceptance) -> None:
        """Who asked has gone."""
        for queue in (self._waiters, *(hold.successors for hold in self.holds.values())):
            if acceptance in queue:
                queue.remove(acceptance)

    def _refuse_held(self, acceptance: Acceptance) -> None:
        refusal = Refused(
            errors.session_cannot_be_locked,
            message="The requested session cannot be accepted. It may be locked by another "
            "receiver.",
        )
        self.notices.append((acceptance.answer, (None, refusal)))

    def _grant(self, acceptance: Acceptance, session_id: str, now: Timestamp) -> None:
        custody = take(never_taken, self._draw_tokens(1)[0], now, self.lock_duration, peek_locks)
        stream = Stream(self, self._next_expected, session_id)
        stream.credit.add(acceptance.taker)
        hold = Hold(session_id, acceptance.taker, stream, custody)
        self.holds[session_id] = hold
        self._due = min(self._due, hold.until)
        self.notices.append((acceptance.answer, (hold, None)))

    def _search(self) -> None:
        if self._waiters and not self._searching and self.enabled:
            self._searching = True
            self._news = False
            self.requests.append(FindSession(frozenset(self.holds)))

    def session_found(self, session_id: str | None, now: Timestamp) -> None:
        self._searching = False
        if session_id is not None and session_id not in self.holds and self._waiters:
            self._grant(self._waiters.popleft(), session_id, now)
            self._search()
        elif session_id is not None or self._news:
            self._search()
        else:
            self._answer_late(now)

    def search_failed(self, now: Timestamp) -> None:
        self._searching = False
        if self._waiters:
            self._search_due = Timestamp(now + read_retry_ticks)
        self._answer_late(now)

    def _answer_late(self, now: Timestamp) -> None:
        """Whose time was up while it searched has its answer now."""
        self._due = now
        self.tick(now)

    # ---- holders

    def held(self, session_id: str, now: Timestamp) -> Hold:
        """The hold on this session; refused if nobody has it."""
        hold = self.holds.get(session_id)
        if hold is None or not self._is_good(hold, now):
            raise errors.session_lost()
        return hold

    @staticmethod
    def _is_good(hold: Hold, now: Timestamp) -> bool:
        token = hold.custody.token
        standing = standing_of(hold.custody, token, now, peek_locks)
        return not hold.closing and standing is Standing.GOOD

    def set_credit(self, hold: Hold, credit: int, *, drain: bool) -> None:
        if not hold.closing:
            hold.stream.set_credit(hold.taker, credit, drain=drain)
            self.wake(hold.stream)

    def renew_session(self, session_id: str, now: Timestamp) -> Timestamp:
        hold = self.held(session_id, now)
        hold.custody = extend(hold.custody, hold.custody.token, now, self.lock_duration)
        return hold.until

    def close(self, hold: Hold, now: Timestamp) -> None:
        """The receiver has closed, or its connection is lost."""
        if not hold.closing:
            self._close(hold, LockEnd.SESSION_CLOSED, now)

    def _expire(self, hold: Hold, now: Timestamp) -> None:
        self._detach(hold, errors.session_lost())
        self._close(hold, LockEnd.SESSION_EXPIRED, now)

    def _detach(self, hold: Hold, refusal: Refused) -> None:
        self.notices.append((hold.taker.receiver.detached, (refusal,)))

    def _close(self, hold: Hold, end: LockEnd, now: Timestamp) -> None:
        hold.closing = True
        self._overstaying.pop(hold, None)
        hold.stream.leave(hold.taker)
        for lock in self.locks:
            if lock.home is not hold.stream or lock.is_ending:
                continue
            if end is LockEnd.SESSION_EXPIRED:
                self.end(lock, end)
            else:
                self.remove_lock(lock)
                if not lock.held.state:
                    self.give_back(hold.stream, lock.held.number, None, lock.held.expires_at, now)
        self.came_back(hold.stream, now)

    # ---- for locks and streams

    @override
    def take_custody(
        self,
        stream: Stream | None,
        now: Timestamp,  # noqa: ARG002 - the session's time counts
        count: int,
    ) -> tuple[Custody[bytes], Timestamp]:
        assert stream is not None
        assert stream.session_id is not None
        custody = Custody(self._draw_tokens(1)[0], forever, count)
        return custody, self.holds[stream.session_id].until

    @override
    def lock_terms(
        self,
        stream: Stream,
        now: Timestamp,  # noqa: ARG002 - the session's time counts
    ) -> tuple[Timestamp, Timestamp]:
        assert stream.session_id is not None
        return forever, self.holds[stream.session_id].until

    @override
    def good_lock(self, token: bytes, now: Timestamp) -> Lock | None:
        lock = super().good_lock(token, now)
        if lock is None or not self._is_good(self._hold_of(lock.home), now):
            return None
        return lock

    @override
    def lost(self) -> Refused:
        return errors.session_lost()

    @override
    def renew(self, token: bytes, now: Timestamp) -> Timestamp | None:
        """A message's lock is its session's."""
        lock = self.good_lock(token, now)
        if lock is None or lock.home.session_id is None:
            return None
        return self.renew_session(lock.home.session_id, now)

    def _hold_of(self, stream: Stream) -> Hold:
        assert stream.session_id is not None
        hold = self.holds[stream.session_id]
        assert hold.stream is stream
        return hold

    @override
    def is_closing(self, stream: Stream | None) -> bool:
        return stream is not None and self._hold_of(stream).closing

    @override
    def parted(self, stream: Stream | None, now: Timestamp) -> None:
        if stream is not None:
            self.came_back(stream, now)

    @override
    def came_back(self, stream: Stream, now: Timestamp) -> None:
        assert stream.session_id is not None
        hold = self.holds.get(stream.session_id)
        if hold is None or hold.stream is not stream:
            return
        if not hold.closing:
            self.wake(stream)
        elif stream.outstanding == 0:
            self._release(hold, now)

    def _release(self, hold: Hold, now: Timestamp) -> None:
        """Nothing of the session is on its way any more."""
        del self.holds[hold.session_id]
        if hold.successors:
            self._grant(hold.successors.popleft(), hold.session_id, now)
            for acceptance in hold.successors:
                self._refuse_held(acceptance)
        else:
            self._search()

    # ---- the log

    @property
    def takers(self) -> list[Taker]:
        return [hold.taker for hold in self.holds.values() if not hold.closing]

    def reported(self, before: int, last: int, rows: Sequence[Row], now: Timestamp) -> None:
        self._next_expected = max(self._next_expected, last + 1)
        touched: dict[str, list[Row]] = {}
        for row in rows:
            assert row[1].session_id is not None
            touched.setdefault(row[1].session_id, []).append(row)
        for session_id, new in touched.items():
            hold = self.holds.get(session_id)
            if hold is None:
                self._news = True
            else:
                hold.stream.window.reported(before, last, new, demand=0)
                self.came_back(hold.stream, now)
        if self._news:
            self._search()

    def thaw(self, removed: set[int], now: Timestamp) -> None:
        self._frozen -= 1
        self.swept(removed)
        for hold in list(self.holds.values()):
            self.came_back(hold.stream, now)

    def swept(self, removed: set[int]) -> None:
        for hold in self.holds.values():
            hold.stream.window.discard(removed)

    @override
    def doubt(self, now: Timestamp) -> None:
        self.doubtful = True
        self._news = True
        for hold in list(self.holds.values()):
            hold.stream.window.doubt()
            self.came_back(hold.stream, now)
        self._search()

    # ---- time and change

    @override
    def next_due(self) -> Timestamp:
        return min(super().next_due(), self._due, self._search_due)

    @override
    def tick(self, now: Timestamp) -> None:
        super().tick(now)
        if now >= self._search_due:
            self._search_due = timestamp_never
            self._search()
        if now < self._due:
            return
        for hold in list(self.holds.values()):
            if hold.closing or hold.until > now:
                continue
            if hold.may_overstay and not self._waiters and now < hold.until + overstay_ticks:
                self._overstaying[hold] = None
            else:
                self._expire(hold, now)
        # Nobody is turned away while a search might yet find something.
        waiters = () if self._searching else tuple(self._waiters)
        for acceptance in waiters:
            if acceptance.deadline <= now:
                self._waiters.remove(acceptance)
                refusal = Refused(
                    errors.timed_out, message="No session with messages became available in time."
                )
                self.notices.append((acceptance.answer, (None, refusal)))
        self._due = min(
            (
                *(self._look_at(hold) for hold in self.holds.values() if not hold.closing),
                *(waiter.deadline for waiter in waiters if waiter.deadline > now),
            ),
            default=timestamp_never,
        )

    def _look_at(self, hold: Hold) -> Timestamp:
        """When a hold is over, or may be."""
        return Timestamp(hold.until + overstay_ticks) if hold in self._overstaying else hold.until

    @override
    def reconfigured(self, target: Target, now: Timestamp) -> None:
        """The sessions' locks are released, and their receivers have to accept them anew."""
        self.target = target
        refusal = Refused(errors.detach_forced, message="The entity was updated.")
        for hold in list(self.holds.values()):
            if not hold.closing:
                self._detach(hold, refusal)
                self._close(hold, LockEnd.ENTITY_UPDATED, now)
        self._search()
