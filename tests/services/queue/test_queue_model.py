"""A queue against a list: whatever is done, in whatever order, at whatever time."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from queue_driver import HandClock, QueueDriver, account

from etagere.base.clock import ticks_per_second, timestamp_never
from etagere.base.errors import Refused
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.queue import sweep


@dataclass
class Entry:
    """A message as the documents describe it."""

    id: str
    text: str
    inserted: int
    expires: int
    visible: int
    receipt: str
    count: int = 0
    receipts: list[str] = field(default_factory=list)


texts = st.sampled_from(["", "a", "b" * 2000])
visibilities = st.sampled_from([0, 1, 5, 30])
lives = st.sampled_from([1, 6, 40, 604_800, None])


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = HandClock()
        self.engine = MemoryEngine(self.clock)
        self.queue = QueueDriver(self.engine, self.clock)
        self.run(self.queue.create())
        self.entries: list[Entry] = []
        self.known: list[Entry] = []

    def teardown(self) -> None:
        assert self.run(self.queue.problems()) == []
        self.run(sweep.sweep(self.engine, account, self.clock.now()))
        assert self.run(self.queue.problems()) == []
        assert self.run(self.queue.count()) == len(self.entries)
        self.runner.close()

    def run(self, call):
        return self.runner.run(call)

    def visible(self) -> list[Entry]:
        found = [entry for entry in self.entries if entry.visible <= self.clock.at]
        return sorted(found, key=lambda entry: (entry.visible, self.entries.index(entry)))

    def refusal(self, call) -> str:
        try:
            self.run(call)
        except Refused as refusal:
            return refusal.code
        return ""

    @rule(
        ticks=st.sampled_from([0, 1, ticks_per_second - 1, ticks_per_second, 5 * ticks_per_second])
    )
    def wait(self, ticks: int) -> None:
        self.clock.at += ticks
        self.entries = [entry for entry in self.entries if entry.expires > self.clock.at]

    @rule(text=texts, visibility=visibilities, life=lives)
    def put(self, text: str, visibility: int, life: int | None) -> None:
        if life is not None and visibility >= life:
            return
        seen = self.run(self.queue.put(text, visibility, life))
        now = self.clock.at
        entry = Entry(
            seen.id,
            text,
            inserted=now,
            expires=timestamp_never if life is None else now + life * ticks_per_second,
            visible=now + visibility * ticks_per_second,
            receipt=seen.pop_receipt,
        )
        assert seen.id not in [known.id for known in self.known]
        assert (seen.inserted, seen.expires, seen.visible) == (now, entry.expires, entry.visible)
        self.renew(entry, seen.pop_receipt)
        self.entries.append(entry)
        self.known.append(entry)

    def renew(self, entry: Entry, receipt: str) -> None:
        assert all(receipt not in known.receipts for known in self.known)
        entry.receipt = receipt
        entry.receipts.append(receipt)

    @rule(count=st.integers(1, 5), visibility=st.sampled_from([1, 5, 30]))
    def get(self, count: int, visibility: int) -> None:
        got = self.run(self.queue.get(count, visibility))
        expected = self.visible()[:count]
        assert [seen.id for seen in got] == [entry.id for entry in expected]
        for seen, entry in zip(got, expected, strict=True):
            entry.count += 1
            entry.visible = self.clock.at + visibility * ticks_per_second
            self.renew(entry, seen.pop_receipt)
            self.compare(seen, entry)

    @rule(count=st.integers(1, 5))
    def peek(self, count: int) -> None:
        seen = self.run(self.queue.peek(count))
        expected = self.visible()[:count]
        assert [message.id for message in seen] == [entry.id for entry in expected]
        for message, entry in zip(seen, expected, strict=True):
            self.compare(message, entry)

    def compare(self, seen, entry: Entry) -> None:
        assert (seen.text, seen.inserted, seen.expires, seen.visible, seen.dequeue_count) == (
            entry.text,
            entry.inserted,
            entry.expires,
            entry.visible,
            entry.count,
        )

    def pick(self, which: int, receipt: int) -> tuple[Entry, str] | None:
        """Any message that ever was, with any receipt that it ever had, mostly the last."""
        if not self.known:
            return None
        entry = self.known[-1 - which % len(self.known)]
        return entry, entry.receipts[-1 - receipt % len(entry.receipts)]

    def good(self, entry: Entry, receipt: str) -> bool:
        return entry in self.entries and receipt == entry.receipt

    @rule(which=st.integers(0, 10), receipt=st.sampled_from([0, 0, 0, 1, 2]))
    def delete(self, which: int, receipt: int) -> None:
        picked = self.pick(which, receipt)
        if picked is None:
            return
        entry, token = picked
        code = self.refusal(self.queue.delete(entry.id, token))
        assert code == ("" if self.good(entry, token) else "MessageNotFound")
        if not code:
            self.entries.remove(entry)

    @rule(
        which=st.integers(0, 10),
        receipt=st.sampled_from([0, 0, 0, 1, 2]),
        visibility=visibilities,
        text=st.one_of(st.none(), texts),
    )
    def update(self, which: int, receipt: int, visibility: int, text: str | None) -> None:
        picked = self.pick(which, receipt)
        if picked is None:
            return
        entry, token = picked
        visible = self.clock.at + visibility * ticks_per_second
        expected = "" if self.good(entry, token) else "MessageNotFound"
        if not expected and visible > entry.expires:
            expected = "InvalidQueryParameterValue"
        if expected:
            assert self.refusal(self.queue.update(entry.id, token, visibility, text)) == expected
            return
        seen = self.run(self.queue.update(entry.id, token, visibility, text))
        entry.visible = visible
        entry.text = entry.text if text is None else text
        assert seen.visible == visible
        self.renew(entry, seen.pop_receipt)

    @rule()
    def clear(self) -> None:
        self.run(self.queue.clear())
        self.entries.clear()

    @rule()
    def drop_and_create(self) -> None:
        self.run(self.queue.drop())
        assert self.run(self.queue.create())
        self.entries.clear()

    @rule()
    def sweep(self) -> None:
        self.run(sweep.sweep(self.engine, account, self.clock.now()))

    @invariant()
    def count_is_exact(self) -> None:
        assert self.run(self.queue.count()) == len(self.entries)

    @invariant()
    def nothing_is_out_of_place(self) -> None:
        assert self.run(self.queue.problems()) == []


TestQueueModel = QueueMachine.TestCase
TestQueueModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
