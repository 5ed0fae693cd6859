"""Who has a message, until when, and what becomes of it: pop receipts and peek-lock alike.

Taking a message hides it from everybody else until a moment, and gives the taker a token.  A
storage queue calls the two TimeNextVisible and pop receipt, Service Bus LockedUntil and lock
token; they differ in three points, which are the `LockRules`.  Sources: "Get Messages", "Update
Message" and "Delete Message" of the Queue service; "Message transfers, locks, and settlement" of
Service Bus.

What time does is worked out from `now` and never stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from etagere.base.clock import Timestamp, timestamp_never

T = TypeVar("T")


class Custody(msgspec.Struct, Generic[T], frozen=True, array_like=True, gc=False):
    """What taking a message and giving it back change about it."""

    token: T
    """Given to who took it last; for one that nobody has, whatever matches no token."""
    until: Timestamp
    """Hidden up to this moment, and visible at it."""
    count: int
    """Deliveries: those begun in a storage queue, those that failed in Service Bus."""


@dataclass(frozen=True, slots=True)
class LockRules:
    token_outlives_lock: bool
    """Whether the token is good after the lock's end, until somebody else takes the message."""
    lock_outlives_message: bool
    """Whether a message that expires while it is locked stays until the lock ends."""
    counted_when_taken: bool
    """Whether a delivery counts as it begins; if not, it counts when it fails."""


pop_receipts: Final = LockRules(
    token_outlives_lock=True, lock_outlives_message=False, counted_when_taken=True
)
peek_locks: Final = LockRules(
    token_outlives_lock=False, lock_outlives_message=True, counted_when_taken=False
)


@unique
class Phase(Enum):
    VISIBLE = "visible"
    HIDDEN = "hidden"
    EXPIRED = "expired"


@unique
class Standing(Enum):
    """What a token is worth."""

    GOOD = "good"
    STALE = "stale"
    """Another took the message since, or the lock ended."""
    GONE = "gone"
    """The message expired, and the token with it."""


def phase_of(
    custody: Custody[T], now: Timestamp, rules: LockRules, expires: Timestamp = timestamp_never
) -> Phase:
    hidden = now < custody.until
    if now >= expires and not (hidden and rules.lock_outlives_message):
        return Phase.EXPIRED
    return Phase.HIDDEN if hidden else Phase.VISIBLE


def standing_of(
    custody: Custody[T],
    token: T,
    now: Timestamp,
    rules: LockRules,
    expires: Timestamp = timestamp_never,
) -> Standing:
    """Whether a message may be settled, renewed or updated with this token."""
    phase = phase_of(custody, now, rules, expires)
    return standings[phase, custody.token == token, rules.token_outlives_lock]


standings: Final[Mapping[tuple[Phase, bool, bool], Standing]] = {
    # phase, the current token?, token outlives lock?
    (Phase.HIDDEN, True, True): Standing.GOOD,
    (Phase.HIDDEN, True, False): Standing.GOOD,
    (Phase.HIDDEN, False, True): Standing.STALE,
    (Phase.HIDDEN, False, False): Standing.STALE,
    (Phase.VISIBLE, True, True): Standing.GOOD,
    (Phase.VISIBLE, True, False): Standing.STALE,
    (Phase.VISIBLE, False, True): Standing.STALE,
    (Phase.VISIBLE, False, False): Standing.STALE,
    (Phase.EXPIRED, True, True): Standing.GONE,
    (Phase.EXPIRED, True, False): Standing.GONE,
    (Phase.EXPIRED, False, True): Standing.GONE,
    (Phase.EXPIRED, False, False): Standing.GONE,
}


def take(
    custody: Custody[T], token: T, now: Timestamp, duration: int, rules: LockRules
) -> Custody[T]:
    """Hide a visible message for `duration` ticks; `token` must be one never given before."""
    assert now >= custody.until
    return Custody(token, Timestamp(now + duration), custody.count + rules.counted_when_taken)


def extend(custody: Custody[T], token: T, now: Timestamp, duration: int) -> Custody[T]:
    """Hide for the full `duration` from now on: Update Message, with a new token, and RenewLock,
    with the same.  0 makes visible at once."""
    return Custody(token, Timestamp(now + duration), custody.count)


@unique
class LockEnd(Enum):
    """What can happen to the lock of a Service Bus message."""

    COMPLETED = "completed"
    ABANDONED = "abandoned"
    RELEASED = "released"
    DEFERRED = "deferred"
    DEAD_LETTERED = "dead-lettered"
    EXPIRED = "lock expired"
    DETACHED = "link detached, session ended or connection closed in an orderly way"
    CONNECTION_LOST = "connection lost while the receiver was attached"
    SESSION_CLOSED = "session receiver closed or its connection lost"
    SESSION_EXPIRED = "session lock expired"
    ENTITY_UPDATED = "properties of the entity updated"
    RESTARTED = "broker restarted"
    ROLLED_BACK = "transaction rolled back"


@unique
class Place(Enum):
    """Where a message is after its lock's end."""

    DELETED = "deleted"
    HOME = "where it was taken from: active or deferred, at its old position"
    DEFERRED = "deferred"
    DEAD_LETTER = "dead-letter queue"
    LOCKED = "still locked"


@dataclass(frozen=True, slots=True)
class Fate:
    place: Place
    count: int
    """Failed deliveries so far."""
    exceeded: bool = False
    """Whether it is dead-lettered for having failed once too often."""


class _Ending(NamedTuple):
    place: Place
    failed: bool = False
    """Whether the delivery counts as a failed one."""


lock_ends: Final[Mapping[LockEnd, _Ending]] = {
    LockEnd.COMPLETED: _Ending(Place.DELETED),
    LockEnd.ABANDONED: _Ending(Place.HOME, failed=True),
    LockEnd.RELEASED: _Ending(Place.HOME),
    LockEnd.DEFERRED: _Ending(Place.DEFERRED, failed=True),  # counted: unconfirmed
    LockEnd.DEAD_LETTERED: _Ending(Place.DEAD_LETTER),
    LockEnd.EXPIRED: _Ending(Place.HOME, failed=True),
    LockEnd.DETACHED: _Ending(Place.LOCKED),
    LockEnd.CONNECTION_LOST: _Ending(Place.HOME, failed=True),
    LockEnd.SESSION_CLOSED: _Ending(Place.HOME),
    LockEnd.SESSION_EXPIRED: _Ending(Place.HOME, failed=True),
    LockEnd.ENTITY_UPDATED: _Ending(Place.HOME),
    LockEnd.RESTARTED: _Ending(Place.HOME),
    LockEnd.ROLLED_BACK: _Ending(Place.LOCKED),
}


def fate_of(end: LockEnd, count: int, deliveries_max: int | None) -> Fate:
    """What becomes of a locked message that has failed `count` times.

    One that would go home after `deliveries_max` failures is dead-lettered instead.  None is for
    sub-queues, where nothing is, and nothing counted: a dead letter shows how often it had failed
    (azservicebus, `TestMessageSettlementUsingReceiver`).
    """
    ending = lock_ends[end]
    if deliveries_max is None:
        return Fate(ending.place, count)
    count += ending.failed
    if ending.failed and ending.place is Place.HOME and count >= deliveries_max:
        return Fate(Place.DEAD_LETTER, count, exceeded=True)
    return Fate(ending.place, count)
