"""Put Block List is all or nothing, also where the server is killed among many who commit lists to
the same blob.  (tests/app/test_crash.py kills under writers that each have names of their own.)"""

import asyncio
import os
import random
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from etagere.testing import ServerProcess

from .competitors import Client, Competitors, create_container
from .conftest import arguments, check
from .contents import content, version_of, version_within

committers = 6
names = ("a", "b")
kills = int(os.environ.get("ETAGERE_KILLS", "20")) // 4
block_sizes = (900, 80_000, 40_000)

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Commit:
    version: str
    called: int
    returned: int | None = None
    """None: nobody was told, so it may have happened or not."""


@dataclass(slots=True)
class Contest:
    """What was asked of one blob."""

    commits: list[Commit] = field(default_factory=list)

    def allowed(self) -> set[str | None]:
        """The versions that may be there: all but those that another one certainly followed."""
        told = [each for each in self.commits if each.returned is not None]
        latest = max((each.called for each in told), default=0)
        found: set[str | None] = {
            each.version for each in self.commits if each.returned is None or each.returned > latest
        }
        return found if told else found | {None}


class Committer:
    def __init__(self, number: int, chance: random.Random, contests: dict[str, Contest]) -> None:
        self._number = number
        self._chance = chance
        self._contests = contests
        self.done = 0
        self._asked = 0

    async def run(self, client: Client, events: "count[int]") -> None:
        try:
            while True:
                await self._step(client, events)
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            return  # the server was killed

    async def _step(self, client: Client, events: "count[int]") -> None:
        name = self._chance.choice(names)
        self._asked += 1
        version = f"c{self._number}x{self._asked}"
        whole = content(version, sum(block_sizes))
        blocks = [f"{version}-{n}" for n in range(len(block_sizes))]
        at = 0
        for block, size in zip(blocks, block_sizes, strict=True):
            staged = await client.stage(name, block, whole[at : at + size])
            assert staged.status == 201, staged
            at += size
        asked = Commit(version, next(events))
        contest = self._contests[name]
        contest.commits.append(asked)
        reply = await client.commit(name, blocks)
        if reply.status == 201:
            asked.returned = next(events)
            self.done += 1
        else:
            # Another's list came first, and discarded the blocks.
            assert (reply.status, reply.code) == (400, "InvalidBlockList")
            contest.commits.remove(asked)


async def verify(client: Client, contests: dict[str, Contest], events: "count[int]") -> None:
    """Each blob is one whole version that may be there; which one is known from now on."""
    for name, contest in contests.items():
        found = await client.get(name)
        assert found.status in (200, 404)
        version = version_of(found.body) if found.status == 200 else None
        if found.status == 200:
            assert version is not None, f"{len(found.body)} bytes that nobody committed"
        assert version in contest.allowed(), f"{name}: {version} is there"
        contest.commits.clear()
        if version is not None:
            contest.commits.append(Commit(version, next(events), next(events)))


@pytest.mark.timeout(300)
async def test_lists_are_whole_after_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("ETAGERE_SEED", random.randrange(2**32)))
    print(f"ETAGERE_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    data = tmp_path / "data"
    contests = {name: Contest() for name in names}
    events = count(1)
    crew = [Committer(n, random.Random(seed + n), contests) for n in range(committers)]
    for number in range(kills + 1):
        server = await asyncio.to_thread(ServerProcess, arguments(data))
        try:
            url = server.urls["blob"]
            if number == 0:
                await create_container(url)
            async with Competitors(url, committers) as crowd:
                await verify(crowd.clients[0], contests, events)
                if number == kills:
                    break
                tasks = [
                    asyncio.create_task(committer.run(client, events))
                    for committer, client in zip(crew, crowd.clients, strict=True)
                ]
                await asyncio.sleep(chance.uniform(0.3, 1.2))
                await asyncio.to_thread(server.kill)
                await asyncio.gather(*tasks)
        finally:
            await asyncio.to_thread(server.stop)
        await asyncio.to_thread(check, data)
    assert sum(committer.done for committer in crew) > 5 * kills


def test_the_check_can_fail() -> None:
    """A version that another one certainly followed may not be there, nor may none at all."""
    contest = Contest([Commit("old", 1, 2), Commit("new", 3, 4), Commit("perhaps", 5)])
    assert contest.allowed() == {"new", "perhaps"}
    contest = Contest([Commit("one", 1, 4), Commit("other", 2, 3)])
    assert contest.allowed() == {"one", "other"}
    assert Contest([Commit("perhaps", 1)]).allowed() == {"perhaps", None}
    assert version_of(content("v1", 500)) == "v1"
    assert version_of(content("v1", 500)[:250] + content("v2", 500)[250:]) is None
    assert version_of(content("v1", 500)[:499]) is None
    assert version_within(content("v1", 500)[128:400]) == ("v1", 500)
    assert version_within(content("v1", 500)[128:400] + content("v1", 600)[400:]) is None
