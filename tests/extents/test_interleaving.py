"""A copy, a reaper, a scrub and a crash, in every order that their steps can come in.

Each step is one call to the store or to the extents, which is where one task can be overtaken by
another; what happens inside is atomic.  All orders are walked, by choosing at each step who goes
on, and after each the books must balance: the bytes are there exactly if somebody refers to them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from etagere.extents import references
from etagere.extents.contract import ExtentGone, ExtentMissing
from etagere.extents.memory import MemoryExtents
from etagere.kv.engines.memory import MemoryEngine

from .conftest import HandClock, SeededEntropy, everything, get, put
from .holders import copy, delete, findings, look, parts, save

here, there, elsewhere = parts


class Stage:
    """Lets one actor at a time make one step."""

    def __init__(self) -> None:
        self._goes_on: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, actors: dict[str, Callable[["Actor"], Awaitable[None]]]) -> None:
        for name, play in actors.items():
            self._goes_on[name] = asyncio.Event()
            self._waiting[name] = asyncio.Event()
            self._tasks[name] = asyncio.ensure_future(self._run(name, play))
        for name in actors:
            await self._waiting[name].wait()

    async def _run(self, name, play) -> None:
        actor = Actor(self, name)
        try:
            await play(actor)
        finally:
            self._waiting[name].set()

    async def step(self, name: str) -> None:
        self._waiting[name].set()
        await self._goes_on[name].wait()
        self._goes_on[name].clear()

    @property
    def size(self) -> int:
        return len(self._tasks)

    def live(self) -> list[str]:
        return [name for name, task in self._tasks.items() if not task.done()]

    async def advance(self, name: str) -> None:
        self._waiting[name].clear()
        self._goes_on[name].set()
        await self._waiting[name].wait()
        await asyncio.sleep(0)  # a task that has ended is now done

    async def kill(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def outcome(self, name: str):
        return self._tasks[name].exception()


class Actor:
    """A task's own view of the stage, and of engine and extents through it."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name

    async def step(self) -> None:
        await self._stage.step(self._name)

    def through(self, inner, *calls: str):
        actor = self

        class Stepped:
            def __getattr__(self, name):
                found = getattr(inner, name)
                if name not in calls:
                    return found

                async def stepped(*args, **more):
                    await actor.step()
                    return await found(*args, **more)

                return stepped

        return Stepped()


class World:
    """An extent in a record of `here`, perhaps already dropped and due."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.engine = MemoryEngine(self.clock, strict=False)
        self.store = MemoryExtents(self.clock)
        self.extent = None

    async def prepare(self, *, dropped: bool) -> None:
        self.extent = await put(self.store, SeededEntropy(), b"the bytes")
        await save(self.engine, here, "source", (self.extent,))
        if dropped:
            await delete(self.engine, here, "source")
            self.clock.advance(3600)

    def for_actor(self, actor: Actor):
        return (
            actor.through(self.engine, "read", "write"),
            actor.through(self.store, "remove"),
        )

    def copier(self, target, name="copy"):
        async def play(actor: Actor) -> None:
            engine, _ = self.for_actor(actor)
            with suppress(ExtentGone):
                await copy(engine, target, name, (self.extent,))

        return play

    def dropper(self):
        async def play(actor: Actor) -> None:
            engine, _ = self.for_actor(actor)
            await delete(engine, here, "source")
            self.clock.advance(3600)

        return play

    def reaper(self, part=here):
        async def play(actor: Actor) -> None:
            engine, store = self.for_actor(actor)
            await references.reap(engine, store, part, self.clock.now())

        return play

    def scrubber(self):
        """As if the file were old: nothing but the references protects it."""

        async def play(actor: Actor) -> None:
            engine, store = self.for_actor(actor)
            await references._remove_orphans(engine, store, [self.extent.id])

        return play

    async def settle(self) -> None:
        """What the background does sooner or later."""
        self.clock.advance(3600)
        for part in parts:
            while await references.reap(self.engine, self.store, part, self.clock.now()):
                pass
        self.clock.advance(48 * 3600)
        await references.scrub(self.engine, self.store, self.clock.now())

    async def expect_balance(self) -> None:
        wrong = [f for f in await findings(self.engine, self.store) if not f.is_harmless]
        assert wrong == []
        holders = [
            name
            for part in parts
            for name in ("source", "copy", "other")
            if await look(self.engine, part, name)
        ]
        await self.settle()
        assert await findings(self.engine, self.store) == []
        if holders:
            assert await get(self.store, self.extent) == b"the bytes"
        else:
            assert await everything(self.store) == {}
            with pytest.raises(ExtentMissing):
                await get(self.store, self.extent)


async def walk(make_actors, *, dropped: bool) -> int:
    """Every schedule, to its end and cut off after each step."""
    pending: list[Sequence[str]] = [()]
    walked = 0
    while pending:
        chosen = list(pending.pop())
        world = World()
        await world.prepare(dropped=dropped)
        stage = Stage()
        await stage.begin(make_actors(world))
        for name in chosen:
            await stage.advance(name)
        # This run ends here, and others go on from the same place.
        pending += [(*chosen, name) for name in stage.live()]
        if not stage.live():
            assert [stage.outcome(name) for name in make_actors(world)] == [None] * stage.size
        await stage.kill()
        await world.expect_balance()
        walked += 1
    return walked


casts = {
    "copy to another partition, reaper": (
        True,
        lambda w: {"copy": w.copier(there), "reap": w.reaper()},
    ),
    "copy within the partition, reaper": (
        True,
        lambda w: {"copy": w.copier(here), "reap": w.reaper()},
    ),
    "two reapers, copy": (
        True,
        lambda w: {"one": w.reaper(), "two": w.reaper(), "copy": w.copier(there)},
    ),
    "drop, then reaper, copy": (
        False,
        lambda w: {"drop": w.dropper(), "reap": w.reaper(), "copy": w.copier(there)},
    ),
    "two copies, reaper": (
        True,
        lambda w: {
            "copy": w.copier(there),
            "other": w.copier(elsewhere, "other"),
            "reap": w.reaper(),
        },
    ),
    "scrub, reaper, copy": (
        True,
        lambda w: {"scrub": w.scrubber(), "reap": w.reaper(), "copy": w.copier(there)},
    ),
    "drop, reaper, scrub, copy, copy": (
        False,
        lambda w: {
            "drop": w.dropper(),
            "reap": w.reaper(),
            "scrub": w.scrubber(),
            "copy": w.copier(there),
            "other": w.copier(here, "other"),
        },
    ),
}


@pytest.mark.parametrize("cast", casts)
async def test_every_order(cast):
    dropped, make_actors = casts[cast]
    walked = await walk(make_actors, dropped=dropped)
    assert walked > 10  # the schedules are really walked


async def test_both_outcomes_of_the_race_occur():
    """The walk would prove nothing if the copy always won."""
    outcomes = set()
    for order in (("copy", "reap"), ("reap", "copy")):
        world = World()
        await world.prepare(dropped=True)
        stage = Stage()
        await stage.begin({"copy": world.copier(there), "reap": world.reaper()})
        for name in order:
            while name in stage.live():
                await stage.advance(name)
        outcomes.add(bool(await look(world.engine, there, "copy")))
        await world.expect_balance()
    assert outcomes == {True, False}


async def test_an_upload_in_progress_is_not_reaped():
    """Between sealing and the transaction that refers, in every order with a scrub."""

    def make_actors(world):
        world.clock.advance(1)

        async def upload(actor):
            engine, _ = world.for_actor(actor)
            world.extent = await put(world.store, SeededEntropy(7), b"the bytes")
            await actor.step()
            await save(engine, here, "source", (world.extent,))
            assert await get(world.store, world.extent) == b"the bytes"
            await delete(engine, here, "source")

        async def scrub(actor):
            engine = actor.through(world.engine, "write")
            store = actor.through(world.store, "remove")

            async def listed():
                async for stored in world.store.list():
                    await actor.step()
                    yield stored

            store.list = listed
            await references.scrub(engine, store, world.clock.now())

        return {"upload": upload, "scrub": scrub}

    assert await walk(make_actors, dropped=True) > 10
