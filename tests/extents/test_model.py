"""Any history of uploads, copies, deletions, reaping, scrubbing and crashes, against a model.

The model knows only which record refers to what.  At any moment every extent that is referred to
is there, whole; in the end nothing else is.

One thing is taken for granted: nobody refers to an upload for the first time later than a scrub may
take it and its id is refused, which is two days after it was sealed.
"""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from etagere.extents import references
from etagere.extents.contract import Extent, ExtentGone
from etagere.extents.memory import MemoryExtents
from etagere.kv.engines.memory import MemoryEngine

from .conftest import HandClock, SeededEntropy, everything, get, put
from .holders import copy, delete, findings, look, parts, save

names = ("a", "b")


class Crash(Exception):  # noqa: N818
    pass


class Crashing:
    """Extents whose process dies when the files are about to be removed."""

    def __init__(self, inner: MemoryExtents, removals: int | None) -> None:
        self._inner = inner
        self._removals = removals

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def remove(self, extent_id) -> None:
        if self._removals is not None:
            if self._removals == 0:
                raise Crash
            self._removals -= 1
        await self._inner.remove(extent_id)


crash_points = st.one_of(st.none(), st.integers(0, 2))
some_part = st.sampled_from(parts)
some_name = st.sampled_from(names)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = HandClock()
        self.entropy = SeededEntropy()
        self.engine = MemoryEngine(self.clock)
        self.store = MemoryExtents(self.clock)
        self.bytes: dict[Extent, bytes] = {}
        self.records: dict[tuple[bytes, str], tuple[Extent, ...]] = {}
        self.sealed: list[tuple[Extent, int]] = []
        self.read: list[tuple[Extent, ...]] = []
        self.last_referred: dict[Extent, int] = {}

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def referred(self) -> Counter[Extent]:
        return Counter(extent for extents in self.records.values() for extent in extents)

    def forget(self, key) -> None:
        for extent in self.records.pop(key, ()):
            self.last_referred[extent] = self.clock.at

    @rule(size=st.integers(0, 50))
    def upload(self, size):
        data = self.entropy.token(size)
        extent = self.run(put(self.store, self.entropy, data))
        self.bytes[extent] = data
        self.sealed.append((extent, self.clock.at))

    @precondition(lambda self: self.sealed)
    @rule(part=some_part, name=some_name, times=st.integers(1, 3), data=st.data())
    def commit(self, part, name, times, data):
        """A record takes new extents, and some that the partition holds already."""
        patience = references.scrub_age_default + references.orphan_refused_for
        self.sealed = [one for one in self.sealed if self.clock.at - one[1] < patience]
        if not self.sealed:
            return
        count = data.draw(st.integers(1, len(self.sealed)))
        taken, self.sealed = self.sealed[:count], self.sealed[count:]
        beside = [
            e for (holder, _), extents in self.records.items() if holder == part for e in extents
        ]
        again = data.draw(st.lists(st.sampled_from(beside), max_size=3)) if beside else []
        extents = tuple(extent for extent, _ in taken) * times + tuple(again)
        try:
            self.run(save(self.engine, part, name, extents))
        except ExtentGone:
            oldest = min(sealed_at for _, sealed_at in taken)
            assert self.clock.at - oldest >= references.scrub_age_default
        else:
            self.forget((part, name))
            self.records[part, name] = extents

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def begin_copy(self, data):
        part, name = data.draw(st.sampled_from(sorted(self.records)))
        found = self.run(look(self.engine, part, name))
        assert found == self.records[part, name]
        self.read.append(found)

    @precondition(lambda self: self.read)
    @rule(part=some_part, name=some_name)
    def finish_copy(self, part, name):
        extents = self.read.pop(0)
        try:
            self.run(copy(self.engine, part, name, extents))
        except ExtentGone:
            referred = self.referred()
            gone = [extent for extent in extents if extent not in referred]
            assert any(
                self.clock.at - self.last_referred[extent] >= references.grace_default
                for extent in gone
            )
        else:
            self.forget((part, name))
            self.records[part, name] = extents

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def delete(self, data):
        part, name = data.draw(st.sampled_from(sorted(self.records)))
        self.run(delete(self.engine, part, name))
        self.forget((part, name))

    @rule(seconds=st.sampled_from([1, 30, 60, 3600, 24 * 3600, 49 * 3600]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule(part=some_part, crash=crash_points)
    def reap(self, part, crash):
        with suppress(Crash):
            self.run(
                references.reap(self.engine, Crashing(self.store, crash), part, self.clock.now())
            )

    @rule(crash=crash_points)
    def scrub(self, crash):
        with suppress(Crash):
            self.run(references.scrub(self.engine, Crashing(self.store, crash), self.clock.now()))

    @invariant()
    def what_is_referred_to_is_there(self):
        for extent in self.referred():
            assert self.run(get(self.store, extent)) == self.bytes[extent]

    @invariant()
    def the_books_balance(self):
        found = self.run(findings(self.engine, self.store))
        assert [finding for finding in found if not finding.is_harmless] == []

    @invariant()
    def within_the_grace_nothing_goes(self):
        there = self.run(everything(self.store))
        for extent, moment in self.last_referred.items():
            if self.clock.at - moment < references.grace_default:
                assert extent.id in there

    def teardown(self):
        try:
            self.clock.advance(3600)
            for part in parts:
                while self.run(references.reap(self.engine, self.store, part, self.clock.now())):
                    pass
            self.clock.advance(48 * 3600)
            self.run(references.scrub(self.engine, self.store, self.clock.now()))
            there = self.run(everything(self.store))
            assert set(there) == {extent.id for extent in self.referred()}
            assert self.run(findings(self.engine, self.store)) == []
        finally:
            self.runner.close()


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = pytest.mark.slow(Histories.TestCase)
