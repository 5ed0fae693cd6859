"""Page blobs against lists that say of every page what was last written to it, and when it was last
written or cleared."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from etagere.extents.references import grace_default
from etagere.services.blob.history import Keeping, Snapshots
from etagere.services.blob.page_pins import held_for

from .page_driver import PageDriver, make_steps_small, page, pages_per_chunk

chunks = 4
pages_max = chunks * pages_per_chunk

# Around the borders of chunks, where things happen; anywhere else now and then.
edges = sorted(
    {
        min(max(chunk * pages_per_chunk + off, 0), pages_max)
        for chunk in range(chunks + 1)
        for off in (-8, -1, 0, 1, 8)
    }
)
positions = st.one_of(st.sampled_from(edges), st.sampled_from(edges), st.integers(0, pages_max))
seldom = st.integers(0, 7).map(lambda n: n == 0)
"""Whether to do what leaves little for the steps after it."""
limits = st.sampled_from([None, 1, 2, 5])

Tags = list[int]
"""By page: the tag that it was filled with, or 0."""


class State(NamedTuple):
    tags: Tags
    touched: list[int]
    """By page, also those that were cut off: the number of the last change that wrote or cleared
    it, or 0."""


def tags_of(data: bytes) -> Tags:
    assert len(data) % page == 0
    found = []
    for at in range(0, len(data), page):
        tag = data[at : at + 4]
        assert data[at : at + page] == tag * (page // 4)
        found.append(int.from_bytes(tag, "big"))
    return found


def written_ranges(tags: Tags, first: int, last: int) -> list[tuple[int, int]]:
    return [
        (numbers[0] * page, (numbers[-1] + 1) * page)
        for there, group in groupby(range(first, last), lambda n: bool(tags[n]))
        if there and (numbers := list(group))
    ]


def changed_ranges(old: State, new: State, first: int, last: int) -> list[tuple[int, int, bool]]:
    def change(number: int) -> str:
        if old.touched[number] == new.touched[number]:
            return ""
        return "written" if new.tags[number] else "cleared"

    return [
        (numbers[0] * page, (numbers[-1] + 1) * page, kind == "cleared")
        for kind, group in groupby(range(first, last), change)
        if kind and (numbers := list(group))
    ]


class Reading(NamedTuple):
    body: AsyncGenerator[bytes, None]
    taken: bytearray
    expected: Tags
    until: int
    """It may rest no longer: for as long as its pin holds or, where one look sufficed, for the
    grace period in which what was found stays."""


class PageBlobMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.driver = PageDriver()
        self.run(self.driver.begin())
        self.current: Tags = []
        self.touched: list[int] = []
        self.changes = 0
        self.life = 0
        self.snapshots: dict[int, tuple[int, State]] = {}
        """By moment: which life of the blob it is of, and its pages."""
        self.trashed: dict[int, tuple[int, State]] = {}
        self.reading: list[Reading] = []
        self.removing: dict[Any, bytes] = {}
        self._create(pages_max)

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def _create(self, size: int) -> None:
        self.run(self.driver.create(size * page))
        self.current = [0] * size
        self.touched = [0] * pages_max
        self.life += 1

    def _state(self) -> State:
        return State(list(self.current), list(self.touched))

    def _touch(self, first: int, last: int) -> None:
        self.changes += 1
        self.touched[first:last] = [self.changes] * (last - first)

    def _span(self, one: int, two: int) -> tuple[int, int]:
        """Some pages of the current blob, at least one."""
        size = len(self.current)
        first, last = sorted((min(one, size), min(two, size)))
        if first == last:
            first, last = (first, first + 1) if first < size else (size - 1, size)
        return first, last

    # ---- changes

    @rule(one=positions, length=st.sampled_from([1, 2, 7, 8, 9, 20, 300]))
    def write(self, one: int, length: int) -> None:
        first, last = self._span(one, one + length)
        tag = self.run(self.driver.write(first * page, last * page))
        self.current[first:last] = [tag] * (last - first)
        self._touch(first, last)

    @rule(one=positions, two=positions)
    def clear(self, one: int, two: int) -> None:
        self._clear(*self._span(one, two))

    @rule(one=positions, count=st.integers(1, 6), gap=st.sampled_from([2, 3, 100]))
    def clear_pages(self, one: int, count: int, gap: int) -> None:
        """Some that do not lie side by side."""
        for number in range(count):
            at = one + number * gap
            self._clear(*self._span(at, at + 1))

    def _clear(self, first: int, last: int) -> None:
        self.run(self.driver.clear(first * page, last * page))
        self.current[first:last] = [0] * (last - first)
        self._touch(first, last)

    @rule(
        size=st.sampled_from([1, pages_per_chunk, 2 * pages_per_chunk + 5, pages_max]),
        really=seldom,
    )
    def resize(self, size: int, really: bool) -> None:
        if not really:
            size = pages_max
        self.run(self.driver.resize(size * page))
        if size < len(self.current):
            self._touch(size, len(self.current))
        self.current = (self.current + [0] * size)[:size]

    @precondition(lambda self: len(self.snapshots) < 6)
    @rule()
    def snapshot(self) -> None:
        moment = self.run(self.driver.snapshot())
        self.snapshots[moment] = (self.life, self._state())

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data(), soft=st.booleans())
    def delete_snapshot(self, data: Any, soft: bool) -> None:
        moment = data.draw(st.sampled_from(sorted(self.snapshots)))
        keeping = Keeping(retention_days=1 if soft else 0)
        self.run(self.driver.delete_snapshot(moment, keeping))
        gone = self.snapshots.pop(moment)
        if soft:
            self.trashed[moment] = gone

    @precondition(lambda self: self.trashed)
    @rule()
    def undelete(self) -> None:
        self.run(self.driver.undelete())
        self.snapshots.update(self.trashed)
        self.trashed = {}

    @rule(size=st.sampled_from([pages_per_chunk + 1, pages_max]), really=seldom, snapshots=seldom)
    def overwrite(self, size: int, really: bool, snapshots: bool) -> None:
        if really and snapshots:
            self.run(self.driver.delete(Snapshots.INCLUDE))
            self.snapshots = {}
        if really:
            self._create(size)

    # ---- reading

    @rule(data=st.data(), one=positions, two=positions, limit=limits)
    def look(self, data: Any, one: int, two: int, limit: int | None) -> None:
        """At some of some state: its bytes, what was written, what changed since a snapshot."""
        moment = data.draw(st.sampled_from([0, *sorted(self.snapshots)]))
        life, state = self.snapshots[moment] if moment else (self.life, self._state())
        tags = state.tags
        first, last = sorted((min(one, len(tags)), min(two, len(tags))))
        if first == last:
            return
        start, end = first * page, last * page
        assert tags_of(self.run(self.driver.read(moment, start, end))) == tags[first:last]
        written = self.run(self.driver.written(moment, start, end, limit))
        assert written == written_ranges(tags, first, last)
        for previous, (old_life, old) in self.snapshots.items():
            if old_life == life and (not moment or previous <= moment):
                changed = self.run(self.driver.changed(previous, moment, start, end, limit))
                assert changed == changed_ranges(old, state, first, last)

    @precondition(lambda self: len(self.reading) < 3)
    @rule()
    def begin_download(self) -> None:
        pins = self.run(self.driver.pins())
        download = self.run(self.driver.open(0, 0, 0))
        if isinstance(download.body, bytes):
            assert tags_of(download.body) == self.current
        else:
            is_pinned = self.run(self.driver.pins()) > pins
            until = self.driver.clock.now() + (held_for if is_pinned else grace_default)
            self.reading.append(Reading(download.body, bytearray(), list(self.current), until))

    @precondition(lambda self: self.reading)
    @rule(data=st.data(), pieces=st.integers(0, 4))
    def go_on_downloading(self, data: Any, pieces: int) -> None:
        """Or give up."""
        index = data.draw(st.integers(0, len(self.reading) - 1))
        body, taken, expected, _ = self.reading[index]
        for _ in range(pieces):
            piece = self.run(anext(body, None))
            if piece is None:
                assert tags_of(bytes(taken)) == expected
                break
            taken += piece
        else:
            if pieces:
                return
            self.run(body.aclose())
        del self.reading[index]

    # ---- what goes on in the background

    @rule(data=st.data())
    def remove_some(self, data: Any) -> None:
        """Some steps of one removal, whichever; several may be under way."""
        due = self.run(self.driver.unheld())
        self.removing = {key: at for key, at in self.removing.items() if key in due}
        if not due:
            return
        unheld = data.draw(st.sampled_from(due))
        begin = self.removing.pop(unheld, b"")
        for _ in range(data.draw(st.sampled_from([1, 9]))):
            begin = self.run(self.driver.remove_some(unheld, begin))
            if not begin:
                return
        if data.draw(st.booleans()):  # else: it starts again, as after a crash
            self.removing[unheld] = begin

    @rule()
    def sweep(self) -> None:
        self.driver.clock.advance(70)
        for reading in self.reading:
            if reading.until <= self.driver.clock.now():
                self.run(reading.body.aclose())
        self.reading = [one for one in self.reading if one.until > self.driver.clock.now()]
        self.run(self.driver.sweep())
        self._compare()

    @rule()
    def compare(self) -> None:
        self._compare()

    def _compare(self) -> None:
        """All that there is now with each snapshot, and each snapshot with the one before it."""
        alike = [moment for moment, (life, _) in self.snapshots.items() if life == self.life]
        pairs = [*pairwise(sorted(alike)), *((moment, 0) for moment in alike)]
        for previous, moment in pairs:
            new = self.snapshots[moment][1] if moment else self._state()
            size = len(new.tags)
            changed = self.run(self.driver.changed(previous, moment, 0, size * page, None))
            assert changed == changed_ranges(self.snapshots[previous][1], new, 0, size)

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert self.run(self.driver.problems()) == []

    def teardown(self) -> None:
        try:
            self._compare()
            for reading in self.reading:
                self.run(reading.body.aclose())
            self.run(self.driver.delete(Snapshots.INCLUDE))
            for _ in range(4):
                self.driver.clock.advance(100_000)
                self.run(self.driver.sweep())
            assert self.run(self.driver.problems()) == []
            assert self.run(self.driver.leftovers()) == []
            assert self.run(self.driver.extents.usage()).extents == 0
        finally:
            self.runner.close()


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        make_steps_small(patched)
        yield


PageBlobMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40)
TestPageBlobs = pytest.mark.slow(PageBlobMachine.TestCase)
