"""What the Queue service says of pop receipts, and Service Bus of locks and settlement, written
down a second time."""

from itertools import product

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from etagere.base.clock import Timestamp, ticks_per_second, timestamp_never
from etagere.kernel.message_lock import (
    Custody,
    Fate,
    LockEnd,
    LockRules,
    Phase,
    Place,
    Standing,
    extend,
    fate_of,
    lock_ends,
    peek_locks,
    phase_of,
    pop_receipts,
    standing_of,
    take,
)

second = ticks_per_second
start = Timestamp(1_700_000_000 * second)


def at(seconds: float) -> Timestamp:
    return Timestamp(start + round(seconds * second))


# Columns: before, at and after the end of the lock; rows: before, at and after the message's own
# end, which lies before, at or after that of the lock.
queue_phases = {
    (10, 30): {9: "hidden", 10: "visible", 11: "visible", 29: "visible", 30: "expired"},
    (10, 10): {9: "hidden", 10: "expired", 11: "expired"},
    (30, 10): {9: "hidden", 10: "expired", 11: "expired", 29: "expired", 30: "expired"},
    (0, 10): {0: "visible", 9: "visible", 10: "expired"},
}
bus_phases = {
    (10, 30): {9: "hidden", 10: "visible", 11: "visible", 29: "visible", 30: "expired"},
    (10, 10): {9: "hidden", 10: "expired", 11: "expired"},
    (30, 10): {9: "hidden", 10: "hidden", 11: "hidden", 29: "hidden", 30: "expired"},
    (0, 10): {0: "visible", 9: "visible", 10: "expired"},
}
standings = {
    # phase, token: a storage queue's, Service Bus's
    ("hidden", "current"): ("good", "good"),
    ("hidden", "old"): ("stale", "stale"),
    ("visible", "current"): ("good", "stale"),
    ("visible", "old"): ("stale", "stale"),
    ("expired", "current"): ("gone", "gone"),
    ("expired", "old"): ("gone", "gone"),
}


@pytest.mark.parametrize(
    ("rules", "table", "column"), [(pop_receipts, queue_phases, 0), (peek_locks, bus_phases, 1)]
)
def test_phases_and_tokens_to_the_tick(
    rules: LockRules, table: dict[tuple[int, int], dict[int, str]], column: int
):
    for (until, expires), cells in table.items():
        custody = Custody("current", at(until), 1)
        for moment, phase in cells.items():
            for now in (at(moment), Timestamp(at(moment + 1) - 1)):
                assert phase_of(custody, now, rules, at(expires)) is Phase(phase)
                for token in ("current", "old"):
                    standing = standing_of(custody, token, now, rules, at(expires))
                    assert standing is Standing(standings[phase, token][column])


def test_messages_without_an_end_never_expire():
    custody = Custody(1, at(10), 0)
    for rules in (pop_receipts, peek_locks):
        assert phase_of(custody, Timestamp(timestamp_never - 1), rules) is Phase.VISIBLE


def test_taking_hides_counts_and_changes_the_token():
    for rules, count in ((pop_receipts, 1), (peek_locks, 0)):
        taken = take(Custody("old", start, 0), "new", at(5), 30 * second, rules)
        assert taken == Custody("new", at(35), count)
        assert standing_of(taken, "old", at(5), rules) is Standing.STALE
        assert standing_of(taken, "new", at(5), rules) is Standing.GOOD
        assert phase_of(taken, Timestamp(at(35) - 1), rules) is Phase.HIDDEN
        assert phase_of(taken, at(35), rules) is Phase.VISIBLE


def test_a_hidden_message_cannot_be_taken():
    with pytest.raises(AssertionError):
        take(Custody("a", at(1), 0), "b", Timestamp(at(1) - 1), second, pop_receipts)


def test_extending_is_counted_from_now():
    """Renew gives the full duration again, not what was left and more."""
    custody = Custody("a", at(30), 2)
    assert extend(custody, "a", at(20), 30 * second) == Custody("a", at(50), 2)
    shortened = extend(custody, "b", at(20), 0)
    assert shortened == Custody("b", at(20), 2)
    assert phase_of(shortened, at(20), pop_receipts) is Phase.VISIBLE


# event: place, how much the count rises
fates = {
    LockEnd.COMPLETED: ("deleted", 0),
    LockEnd.ABANDONED: ("home", 1),
    LockEnd.RELEASED: ("home", 0),
    LockEnd.DEFERRED: ("deferred", 1),
    LockEnd.DEAD_LETTERED: ("dead letter", 0),
    LockEnd.EXPIRED: ("home", 1),
    LockEnd.DETACHED: ("locked", 0),
    LockEnd.CONNECTION_LOST: ("home", 1),
    LockEnd.SESSION_CLOSED: ("home", 0),
    LockEnd.SESSION_EXPIRED: ("home", 1),
    LockEnd.ENTITY_UPDATED: ("home", 0),
    LockEnd.RESTARTED: ("home", 0),
    LockEnd.ROLLED_BACK: ("locked", 0),
}
places = {
    "deleted": Place.DELETED,
    "home": Place.HOME,
    "deferred": Place.DEFERRED,
    "dead letter": Place.DEAD_LETTER,
    "locked": Place.LOCKED,
}


def test_every_end_has_a_row():
    assert set(lock_ends) == set(LockEnd) == set(fates)


@pytest.mark.parametrize("end", LockEnd)
@pytest.mark.parametrize("deliveries_max", [None, 1, 2, 10])
def test_what_becomes_of_a_locked_message(end: LockEnd, deliveries_max: int | None):
    place, rise = fates[end]
    if deliveries_max is None:
        rise = 0  # dead letters are not counted
    for count in range(12):
        expected = Fate(places[place], count + rise)
        if (
            deliveries_max is not None
            and place == "home"
            and rise
            and count + rise >= deliveries_max
        ):
            expected = Fate(Place.DEAD_LETTER, count + rise, exceeded=True)
        assert fate_of(end, count, deliveries_max) == expected


def test_ten_deliveries_are_made_before_a_message_is_dead_lettered():
    count = 0
    for delivery in range(1, 11):
        fate = fate_of(LockEnd.ABANDONED, count, 10)
        count = fate.count
        assert fate.exceeded is (delivery == 10)
    assert count == 10


def test_custody_is_stored_as_messagepack():
    custody = Custody(12345, at(1), 3)
    packed = msgspec.msgpack.encode(custody)
    assert msgspec.msgpack.decode(packed, type=Custody[int]) == custody
    locked = Custody(b"0123456789abcdef", at(1), 3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(locked), type=Custody[bytes]) == locked


class OneMessage(RuleBasedStateMachine):
    """Consumers fight over one message; a model remembers every token and when it ended."""

    lock_rules = pop_receipts
    lifetime = 100

    def __init__(self) -> None:
        super().__init__()
        self.now = start
        self.custody = Custody(0, start, 0)
        self.expires = at(self.lifetime)
        self.history = [(0, start)]
        self.taken = 0

    @rule(ticks=st.sampled_from([0, 1, second - 1, second, 5 * second, 29 * second, 30 * second]))
    def wait(self, ticks: int) -> None:
        self.now = Timestamp(self.now + ticks)

    def phase(self) -> Phase:
        return phase_of(self.custody, self.now, self.lock_rules, self.expires)

    @precondition(lambda self: self.phase() is Phase.VISIBLE)
    @rule(duration=st.sampled_from([1, 5, 30, 200]))
    def get(self, duration: int) -> None:
        token = len(self.history)
        self.custody = take(self.custody, token, self.now, duration * second, self.lock_rules)
        self.taken += 1
        self.history.append((token, Timestamp(self.now + duration * second)))

    @rule(token=st.integers(0, 100), duration=st.sampled_from([0, 1, 30]))
    def update(self, token: int, duration: int) -> None:
        token %= len(self.history)
        standing = standing_of(self.custody, token, self.now, self.lock_rules, self.expires)
        last, until = self.history[-1]
        usable = token == last and (self.lock_rules.token_outlives_lock or self.now < until)
        alive = self.now < self.expires or (
            self.lock_rules.lock_outlives_message and self.now < until
        )
        assert (standing is Standing.GOOD) == (usable and alive)
        assert (standing is Standing.GONE) == (not alive)
        if standing is not Standing.GOOD:
            return
        new = len(self.history)
        self.custody = extend(self.custody, new, self.now, duration * second)
        self.history.append((new, Timestamp(self.now + duration * second)))

    @invariant()
    def count_is_what_the_rules_count(self) -> None:
        assert self.custody.count == (self.taken if self.lock_rules.counted_when_taken else 0)

    @invariant()
    def at_most_one_token_is_good(self) -> None:
        good = [
            token
            for token, _ in self.history
            if standing_of(self.custody, token, self.now, self.lock_rules, self.expires)
            is Standing.GOOD
        ]
        assert len(good) <= 1


class OneLockedMessage(OneMessage):
    lock_rules = peek_locks


TestPopReceipts = OneMessage.TestCase
TestPeekLocks = OneLockedMessage.TestCase
TestPopReceipts.settings = TestPeekLocks.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)


def test_rules_differ_in_every_point():
    for name, (queue, bus) in product(
        ["token_outlives_lock", "lock_outlives_message", "counted_when_taken"],
        [(pop_receipts, peek_locks)],
    ):
        assert getattr(queue, name) is not getattr(bus, name)
