"""The locks of one entity's messages: who holds which message, by which token, until when.

Locks are in memory only: a restart releases them all (Service Bus, message transfers, locks, and
settlement: locks are volatile).  What a token is worth, and what the end of a lock does, is
decided by `kernel.message_lock`.
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final

import msgspec

from etagere.base.clock import Timestamp, timestamp_never
from etagere.kernel.message_lock import Custody, Standing, extend, peek_locks, standing_of, take
from etagere.services.bus.credit import Taker
from etagere.services.bus.settlement import Held

never_taken: Final = Custody(b"", Timestamp(0), 0)


class LockStatus(Enum):
    held = auto()
    settling = auto()
    """Its settlement is on the way to the store, and cannot be overtaken by time."""
    enlisted = auto()
    """A transaction will settle it; until that ends it does not run out."""
    committing = auto()
    """The transaction's end is on the way to the store."""


# Looking up a member of an Enum is dear in Python 3.11.
held: Final = LockStatus.held
settling: Final = LockStatus.settling


class Lock(msgspec.Struct, eq=False):
    token: bytes
    until: Timestamp
    held: Held
    taker: Taker | None
    """None when it was locked without a link."""
    home: Any
    """The stream that the message goes back to; None for a message set aside."""
    status: LockStatus = LockStatus.held
    returning: bool = False
    """Whether it is counted in its home's `returning`."""

    @property
    def custody(self) -> Custody[bytes]:
        """As `kernel.message_lock` sees it."""
        return Custody(self.token, self.until, self.held.count)

    @property
    def is_ending(self) -> bool:
        """Whether something on the way to the store will end it, and nothing else may."""
        return self.status is LockStatus.settling or self.status is LockStatus.committing


def new_custody(token: bytes, now: Timestamp, duration: int, count: int) -> Custody[bytes]:
    free = never_taken if count == 0 else Custody(b"", Timestamp(0), count)
    return take(free, token, now, duration, peek_locks)


class LockTable:
    """All locks of an entity, oldest first; all last equally long, so that is by expiry too.

    Where it is not (a clock that was set back, a duration that was changed), every lock is looked
    at until the table is empty again.  A session's locks end with the session and are given
    `timestamp_never`.
    """

    __slots__ = ("_aside", "_by_token", "_due", "_in_order", "_latest")

    def __init__(self) -> None:
        self._by_token: dict[bytes, Lock] = {}
        self._aside: set[int] = set()
        self._due: Timestamp = timestamp_never
        self._latest: Timestamp = Timestamp(0)
        self._in_order = True

    def __len__(self) -> int:
        return len(self._by_token)

    def __iter__(self) -> Iterator[Lock]:
        return iter(list(self._by_token.values()))

    @property
    def due(self) -> Timestamp:
        """Not later than when the next lock runs out."""
        return self._due

    def add(self, lock: Lock) -> None:
        token = lock.token
        self._put(token, lock)
        if lock.taker is not None:
            lock.taker.tokens.add(token)
        if lock.held.state:
            self._aside.add(lock.held.number)

    def add_run(self, tokens: Sequence[bytes], locks: Sequence[Lock]) -> None:
        """Locks on active messages that all last equally long; the caller tells their taker."""
        self._put(tokens[0], locks[0])
        self._by_token.update(zip(tokens, locks, strict=True))

    def find(self, token: bytes) -> Lock | None:
        return self._by_token.get(token)

    def good(self, token: bytes, now: Timestamp) -> Lock | None:
        """The lock, if it can be settled or renewed with this token now."""
        lock = self._by_token.get(token)
        if lock is None or lock.status is not held:
            return None
        good = standing_of(lock.custody, token, now, peek_locks) is Standing.GOOD
        return lock if good else None

    def plain_ones(self, tokens: Sequence[bytes], now: Timestamp) -> list[Lock] | None:
        """`good` for each, if that is so of all, and their messages are active and in one row each.

        Of a lock that was found by its token, only the time is in question.
        """
        locks = [
            lock
            for lock in map(self._by_token.get, tokens)
            if lock is not None
            and lock.status is held
            and now < lock.until
            and lock.held.rest is None
            and not lock.held.state
        ]
        # The same token may have come twice.
        return locks if len(locks) == len(tokens) == len(set(tokens)) else None

    def renew(self, lock: Lock, now: Timestamp, duration: int) -> Timestamp:
        """The full duration again."""
        token = lock.token
        del self._by_token[token]
        lock.until = extend(lock.custody, token, now, duration).until
        self._put(token, lock)  # now the youngest
        return lock.until

    def _put(self, token: bytes, lock: Lock) -> None:
        until = lock.until
        if not self._by_token:
            self._in_order = True
        elif until < self._latest:
            self._in_order = False
        if until < timestamp_never:
            self._latest = until
            self._due = min(self._due, until)
        self._by_token[token] = lock

    def remove(self, lock: Lock) -> None:
        token = lock.token
        del self._by_token[token]
        if lock.taker is not None:
            lock.taker.tokens.discard(token)
        if lock.held.state:
            self._aside.discard(lock.held.number)

    def remove_run(self, locks: Sequence[Lock]) -> None:
        """`remove` for each, of active messages."""
        by_token = self._by_token
        for lock in locks:
            token = lock.token
            del by_token[token]
            taker = lock.taker
            if taker is not None:
                taker.tokens.discard(token)

    def holds(self, lock: Lock) -> bool:
        return self._by_token.get(lock.token) is lock

    def is_locked_aside(self, number: int) -> bool:
        """Whether somebody holds this deferred message."""
        return number in self._aside

    def run_out(self, now: Timestamp) -> list[Lock]:
        """Locks whose time is over, oldest first; they stay for the caller to end."""
        if now < self._due:
            return []
        over: list[Lock] = []
        self._due = timestamp_never
        for lock in self._by_token.values():
            if lock.status is not LockStatus.held:
                continue
            if lock.until <= now:
                over.append(lock)
            elif lock.until < timestamp_never:
                self._due = min(self._due, lock.until)
                if self._in_order:
                    break
        return over

    def restore(self, lock: Lock) -> None:
        """A settlement failed or was rolled back: the lock is as it was, and may be over by now."""
        lock.status = LockStatus.held
        self._due = min(self._due, lock.until)
