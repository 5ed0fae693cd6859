"""A worker that takes a dead one's place misses nothing that changes while it starts."""

import asyncio
from itertools import count
from types import SimpleNamespace

import pytest

from etagere.app import workers as replacing
from etagere.app.configuration import configure
from etagere.app.workers import Worker, Workers


class Line:
    """A worker's end of the link, which answers `start` when it is let."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.may_start = asyncio.Event()
        self.failure = ""
        self.told = []

    async def ask(self, command, fields=None):
        self.told.append((command, dict(fields or {})))
        if command == "start":
            await self.may_start.wait()
            return self.failure
        return command

    async def close(self):
        pass


class Staged(Workers):
    """Without processes."""

    def __init__(self) -> None:
        super().__init__(configure({"in_memory": True}, {}), (), None)
        self.lines = []
        self._numbers = count(1)

    async def _launch(self) -> Worker:
        self.lines.append(Line())
        process = SimpleNamespace(pid=next(self._numbers), wait=lambda: -9, kill=lambda: None)
        return Worker(process, self.lines[-1])


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it looks at has no event
            await asyncio.sleep(0.001)


@pytest.fixture
async def staged(monkeypatch):
    monkeypatch.setattr(replacing, "restart_seconds_min", 0)
    staged = Staged()
    await staged.launch(2)
    for line in staged.lines:
        line.may_start.set()
    await staged.start({}, lambda: [("what", {"there": "is"})])
    yield staged
    for keeper in staged._keepers:
        keeper.cancel()
    await asyncio.gather(*staged._keepers, return_exceptions=True)


async def test_what_changes_during_its_start_is_told_after_its_start(staged):
    staged.lines[0].lost.set()
    await until(lambda: len(staged.lines) == 3 and staged.lines[2].told)
    telling = asyncio.create_task(staged.tell("put_account", {"name": "new"}))
    await until(lambda: len(staged.lines[2].told) == 2)
    staged.lines[2].may_start.set()
    assert await telling == ["put_account", "put_account"]
    (first, started), second = staged.lines[2].told
    assert first == "start"
    assert started["state"] == [("what", {"there": "is"})]
    assert second == ("put_account", {"name": "new"})
    assert staged.pids() == [2, 3]


async def test_one_that_does_not_start_is_told_nothing_more(staged):
    staged.lines[0].lost.set()
    await until(lambda: len(staged.lines) == 3 and staged.lines[2].told)
    staged.lines[2].failure = "no"
    staged.lines[2].may_start.set()
    await until(lambda: len(staged.lines) == 4 and staged.lines[3].told)
    staged.lines[3].may_start.set()
    assert await staged.tell("clear_faults") == ["clear_faults", "clear_faults"]
    assert len(staged.lines[2].told) == 1
    await until(lambda: staged.pids() == [2, 4])
