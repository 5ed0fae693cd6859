"""The loop and the writer take turns: nothing is lost, reordered or left waiting between them."""

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from etagere.kv.contract import Partition
from etagere.kv.engines import turns as turns_module
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.turns import (
    Gate,
    Patience,
    Turns,
    skips_max,
    slow_commit_seconds_min,
    stand_still_seconds_max,
    waited_share,
)
from etagere.kv.tuples import pack

part = Partition(pack("turns"))


@pytest.fixture
async def engine(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path / "store", clock=clock, alone=True)
    yield engine
    await engine.close()


def putting(key: bytes, value: bytes = b"v"):
    async def body(tx):
        tx.put(part, key, value)
        return key

    return body


async def stored(engine) -> list[bytes]:
    async def body(tx):
        return [key for key, _ in await tx.scan(part, b"", b"\xff", limit=10_000)]

    return await engine.read(body)


async def test_what_comes_in_one_turn_of_the_loop_is_one_commit(engine):
    await engine.write((part,), putting(b"first"))
    before = engine.stats().commits.commits
    await asyncio.gather(*(engine.write((part,), putting(b"%03d" % n)) for n in range(100)))
    assert engine.stats().commits.commits == before + 1
    assert len(await stored(engine)) == 101


async def test_bodies_run_in_the_order_in_which_they_were_asked_for(engine):
    seen: list[int] = []

    def noting(number: int):
        async def body(tx):
            seen.append(number)
            tx.put(part, b"n", b"%d" % number)

        return body

    async def ask(numbers: range) -> None:
        await asyncio.gather(*(engine.write((part,), noting(n)) for n in numbers))

    first = asyncio.create_task(ask(range(50)))
    await asyncio.sleep(0)
    await asyncio.gather(first, ask(range(50, 100)))
    assert seen == list(range(100))


async def test_a_slow_body_stops_the_loop_for_no_longer_than_the_bound(engine):
    """It goes on while the body still runs: the body ends only once the loop says so."""
    may_end = threading.Event()

    async def slow(tx):
        assert may_end.wait(20)
        tx.put(part, b"slow", b"v")

    writing = asyncio.create_task(engine.write((part,), slow))
    await asyncio.sleep(stand_still_seconds_max * 3)
    assert not writing.done()
    assert await stored(engine) == []
    may_end.set()
    await writing
    assert await stored(engine) == [b"slow"]


async def test_writes_that_were_given_up_leave_nobody_waiting(engine):
    """A task that is cancelled before its body ran is handed over all the same, and comes back."""
    for _ in range(20):
        tasks = [asyncio.create_task(engine.write((part,), putting(b"gone"))) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(20):
        assert await engine.write((part,), putting(b"kept")) == b"kept"
        await asyncio.gather(*(engine.write((part,), putting(b"%d" % n)) for n in range(5)))


async def test_bodies_that_raise_come_back_too(engine):
    async def broken(tx):
        raise KeyError("mine")

    for _ in range(5):
        with pytest.raises(KeyError):
            await engine.write((part,), broken)
    async with asyncio.timeout(20):
        await engine.write((part,), putting(b"after"))


async def test_closing_does_what_was_gathered(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path / "store", clock=clock, alone=True)
    writing = [asyncio.create_task(engine.write((part,), putting(b"%d" % n))) for n in range(4)]
    await asyncio.sleep(0)  # asked for, not handed over
    await engine.close()
    assert await asyncio.gather(*writing) == [b"0", b"1", b"2", b"3"]
    again = LmdbEngine.open(tmp_path / "store", clock=clock)
    assert len(await stored(again)) == 4
    await again.close()


async def test_a_partition_s_version_rises_with_what_is_written_to_it(engine):
    other = Partition(pack("other"))

    async def broken(tx):
        tx.put(part, b"broken", b"v")
        raise KeyError("mine")

    before = engine.version(part), engine.version(other)
    assert (engine.version(part), engine.version(other)) == before
    await engine.write((part,), putting(b"k"))
    assert engine.version(part) > before[0]
    assert engine.version(other) == before[1]
    with pytest.raises(KeyError):
        await engine.write((part,), broken)
    await engine.reset()
    assert engine.version(other) > before[1]


async def test_what_was_read_under_a_version_holds_while_others_write(engine):
    """Once a write was acknowledged, nobody takes what was there before it for what is there."""
    known: tuple[int | None, int] = None, 0

    async def count(tx):
        return len(await tx.scan(part, b"", b"\xff", limit=10_000))

    async def counted() -> int:
        nonlocal known
        version = engine.version(part)
        if known[0] != version:
            known = version, await engine.read(count)
        return known[1]

    async def write() -> None:
        for number in range(200):
            await engine.write((part,), putting(b"%d" % number))
            assert await counted() == number + 1

    writing = asyncio.create_task(write())
    while not writing.done():
        await counted()
        await asyncio.sleep(0)
    await writing


async def test_where_others_write_too_no_version_is_known(tmp_path, clock):
    engine = LmdbEngine.open(tmp_path / "shared", clock=clock)
    assert engine.version(part) is None
    await engine.close()


def test_an_opening_that_came_too_late_is_forgotten():
    gate = Gate()
    gate.wait()  # in vain
    gate.open()
    gate.open()
    gate.close()
    began = time.monotonic()
    gate.wait()
    assert time.monotonic() - began >= stand_still_seconds_max / 2


async def test_nothing_is_handed_over_while_something_is_at_the_writer():
    taken: list[list[int]] = []
    gate = Gate()

    def take(entries):
        taken.append(list(entries))
        gate.open()

    turns: Turns[int] = Turns(take, gate)
    loop = asyncio.get_running_loop()
    turns.submit(1, loop)
    turns.submit(2, loop)
    await asyncio.sleep(0)
    turns.submit(3, loop)
    await asyncio.sleep(0)
    assert taken == [[1, 2]]
    assert len(turns) == 1
    turns.settled(1, loop)
    assert taken == [[1, 2]]
    turns.settled(1, loop)
    assert taken == [[1, 2], [3]]


slow = 10 * slow_commit_seconds_min


def test_fast_commits_and_single_clients_wait_for_nobody():
    patience = Patience()
    assert patience.seconds(slow_commit_seconds_min * 0.9, 16, 16) == 0
    assert patience.seconds(slow, 1, 0) == 0
    assert patience.wanted == 0


def test_a_slow_commit_is_waited_with_for_a_share_of_its_time():
    patience = Patience()
    for _ in range(5):
        assert patience.seconds(slow, 3, 2) == pytest.approx(slow * waited_share)
        assert patience.wanted == 5
        patience.over(4)
        assert patience.wanted == 0


def test_who_waited_in_vain_waits_less_and_less_often():
    patience = Patience()
    gaps = []
    for _ in range(9):
        gap = 0
        while not patience.seconds(slow, 8, 0):
            gap += 1
        gaps.append(gap)
        patience.over(1)
    assert gaps == [0, 1, 3, 7, 15, 31, 63, skips_max, skips_max]
    while not patience.seconds(slow, 8, 0):
        pass
    patience.over(8)
    assert patience.seconds(slow, 8, 0) > 0


class _Loop:
    """A loop whose time passes only when there is nothing else to do."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self._ready: list[tuple] = []
        self._later: list[list] = []
        monkeypatch.setattr(turns_module, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def call_soon(self, callback, *arguments):
        self._ready.append((callback, arguments))

    def call_later(self, seconds, callback, *arguments):
        entry = [self.now + seconds, callback, arguments]
        self._later.append(entry)
        return SimpleNamespace(cancel=lambda: entry in self._later and self._later.remove(entry))

    def run_for(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            while self._ready:
                callback, arguments = self._ready.pop(0)
                callback(*arguments)
            entry = min(self._later, key=lambda each: each[0], default=None)
            if entry is None or entry[0] > until:
                self.now = until
                return
            self._later.remove(entry)
            self.now = entry[0]
            entry[1](*entry[2])


class _SlowWriter:
    """Gives back what it was handed after a slow commit's time."""

    def __init__(self, loop: _Loop, *, asks_again: bool) -> None:
        self.loop = loop
        self.gate = Gate()
        self.turns: Turns[int] = Turns(self.take, self.gate)
        self.taken: list[int] = []
        self.asks_again = asks_again

    def ask(self, *numbers: int) -> None:
        for number in numbers:
            self.turns.submit(number, self.loop)  # type: ignore[arg-type]

    def take(self, entries):
        self.taken.append(len(entries))
        self.gate.open()
        self.loop.call_later(slow, self.settle, list(entries))

    def settle(self, entries):
        self.turns.settled(len(entries), self.loop)
        if self.asks_again:
            for entry in entries:  # clients that ask again as soon as they are answered
                self.loop.call_soon(self.ask, entry)


def test_those_who_ask_without_a_pause_share_one_slow_commit(monkeypatch):
    loop = _Loop(monkeypatch)
    writer = _SlowWriter(loop, asks_again=True)
    writer.ask(0, 1, 2, 3)
    loop.run_for(slow / 2)
    writer.ask(4, 5, 6, 7)  # while the first four are at the writer
    loop.run_for(slow * 9)
    assert writer.taken == [4, *[8] * 9]


def test_whoever_is_waited_for_in_vain_holds_nobody_up_for_long(monkeypatch):
    loop = _Loop(monkeypatch)
    writer = _SlowWriter(loop, asks_again=False)
    writer.ask(0, 1, 2, 3)
    loop.run_for(slow / 2)
    writer.ask(4)
    loop.run_for(slow * 0.8)
    assert writer.taken == [4]
    loop.run_for(slow * 0.1)
    assert writer.taken == [4, 1]
    loop.run_for(slow * 5)
    writer.ask(5)
    loop.run_for(0)
    assert writer.taken == [4, 1, 1]
    assert len(writer.turns) == 0


def test_nothing_is_handed_over_twice_by_a_timer_and_a_call(monkeypatch):
    """The one who completes the commit asks at the moment when the others have waited enough."""
    loop = _Loop(monkeypatch)
    writer = _SlowWriter(loop, asks_again=False)
    writer.ask(0, 1)
    loop.run_for(slow)
    writer.ask(2, 3)
    writer.turns._due()  # the timer comes before the call that the last of them made
    assert writer.taken == [2, 2]
    writer.ask(4)
    loop.run_for(slow / 2)
    assert writer.taken == [2, 2]
    loop.run_for(slow)
    assert writer.taken == [2, 2, 1]


def test_closing_does_what_was_held_back(monkeypatch):
    loop = _Loop(monkeypatch)
    writer = _SlowWriter(loop, asks_again=False)
    writer.ask(0, 1, 2, 3)
    loop.run_for(slow / 2)
    writer.ask(4)
    loop.run_for(slow * 0.6)
    assert writer.taken == [4]
    writer.turns.hand_over()
    assert writer.taken == [4, 1]
    loop.run_for(slow * 3)
    assert writer.taken == [4, 1]
