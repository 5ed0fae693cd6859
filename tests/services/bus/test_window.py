"""Windows and credit on their own, beside plain lists."""

from hypothesis import given
from hypothesis import strategies as st

from etagere.services.bus.credit import CreditQueue, Taker
from etagere.services.bus.messages import ReceiveMode
from etagere.services.bus.records import Rest, StoredMessage
from etagere.services.bus.window import (
    Window,
    loaded_messages_max,
    small_messages_max,
    window_messages_max,
)


def stored(number, rest=None, size=1):
    tail = b"" if rest else b"t"
    return StoredMessage(tail, b"", b"", b"", size, 0, 0, 0, 0, None, None, rest=rest)


class Store:
    """The log behind a window: what is there, and what was told of it."""

    def __init__(self):
        self.rows = {}
        self.last = 0

    def load(self, after, limit):
        return [(n, self.rows[n]) for n in sorted(self.rows) if n > after][:limit]


steps = st.lists(
    st.tuples(
        st.sampled_from(["commit", "report", "load", "take", "back", "delete", "forget", "doubt"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(steps)
def test_everything_is_given_once_and_in_order_whatever_the_reports_say(steps):
    store, window = Store(), Window()
    unreported, taken, given = [], [], []
    for what, n in steps:
        if what == "commit":
            before = store.last
            for _ in range(n + 1):
                store.last += 1
                store.rows[store.last] = stored(store.last)
            rows = [(x, store.rows[x]) for x in range(before + 1, store.last + 1)]
            unreported.append((before, store.last, rows))
        elif what == "report" and unreported:
            before, last, rows = unreported.pop(n % len(unreported))  # in any order
            window.reported(before, last, rows, demand=(n % 2) * 400)
        elif what == "load" and (limit := window.wants_load(n)):
            window.loading = True
            version, after = window.version, window.horizon
            if n % 2 and unreported:
                before, last, rows = unreported.pop(0)
                window.reported(before, last, rows, demand=1)
            rows = store.load(after, limit)
            window.loaded(rows, all_read=len(rows) < limit, version=version)
        elif what == "take":
            numbers = window.wants_fetch()
            if numbers:
                window.fetched(numbers, [(x, store.rows[x]) for x in numbers if x in store.rows])
            row = window.front()
            if row is not None:
                window.take(row[0])
                assert row[0] not in taken
                taken.append(row[0])
        elif what == "back" and taken:
            number = taken.pop(n % len(taken))
            window.put_back(number, store.rows[number] if n % 2 else None)
        elif what == "delete" and store.rows:
            number = sorted(store.rows)[n % len(store.rows)]
            if number not in taken:
                del store.rows[number]
                window.discard({number})
        elif what == "forget":
            window.forget()
        elif what == "doubt":
            window.doubt()
    # In the end everything comes out, in order, and nothing twice.
    for report in unreported:
        window.reported(*report, demand=1)
    for _ in range(1000):
        numbers = window.wants_fetch()
        if numbers:
            window.fetched(numbers, [(x, store.rows[x]) for x in numbers if x in store.rows])
        row = window.front()
        if row is not None:
            window.take(row[0])
            given.append(row[0])
            continue
        limit = window.wants_load(10)
        if not limit:
            break
        window.loading = True
        version, after = window.version, window.horizon
        rows = store.load(after, limit)
        window.loaded(rows, all_read=len(rows) < limit, version=version)
    assert given == sorted(set(store.rows) - set(taken))


def test_long_messages_are_fetched_one_at_a_time():
    window = Window()
    rest = Rest(0, 1, 1)
    window.loaded([(n, stored(n, rest)) for n in (1, 2)], all_read=True, version=0)
    assert window.front() is None
    assert window.wants_fetch() == [1]
    whole = stored(1)
    window.fetched([1], [(1, whole)])
    assert window.front() == (1, whole)
    window.take(1)
    assert window.wants_fetch() == [2]
    window.fetched([2], [])
    assert window.is_exhausted


def test_of_a_commit_that_does_not_fit_the_rest_is_left_in_the_store():
    many = [(n, stored(n, size=32_768)) for n in range(1, 1001)]
    for demand, taken in ((1, window_messages_max), (600, 600), (2000, 1000)):
        window = Window()
        window.loaded([], all_read=True, version=0)
        window.reported(0, 1000, many, demand=demand)
        assert [row[0] for row in window.ready] == list(range(1, taken + 1))
        assert window.horizon == taken
        assert window.complete is (taken == 1000)
    small = [(n, stored(n, size=800)) for n in range(1, 8001)]
    kept = Window()
    kept.loaded([], all_read=True, version=0)
    kept.reported(0, 3000, small[:3000], demand=1)
    assert kept.complete
    kept.reported(3000, 8000, small[3000:], demand=1)
    assert [row[0] for row in kept.ready] == list(range(1, small_messages_max + 1))
    assert not kept.complete
    idle = Window()
    idle.loaded([], all_read=True, version=0)
    idle.reported(0, 1000, many, demand=0)
    assert not idle.ready
    assert idle.wants_load(1000) == loaded_messages_max


changes = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.booleans()), max_size=60)


@given(changes)
def test_credit_is_served_as_a_queue_of_single_units(changes):
    queue = CreditQueue()
    takers = [Taker(None, ReceiveMode.peek_lock, None) for _ in range(3)]
    for taker in takers:
        queue.add(taker)
    units = []  # who gave each unit, oldest first
    for who, credit, serve in changes:
        taker = takers[who]
        queue.set_credit(taker, credit)
        have = units.count(who)
        units.extend([who] * (credit - have))
        for _ in range(have - credit):
            del units[len(units) - 1 - units[::-1].index(who)]  # its youngest
        if serve:
            front = queue.front()
            assert front is (takers[units[0]] if units else None)
            if front is not None:
                queue.use(front)
                front.credit -= 1
                units.pop(0)
    assert [taker.credit for taker in takers] == [units.count(who) for who in range(3)]
    assert queue.demand == len(units)
