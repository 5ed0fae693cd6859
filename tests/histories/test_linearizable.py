"""What clients of a real server of several processes are told fits into one order of events: the
simulation's clients, over sockets, and its checkers.  Conditions, leases, lists, deletions,
appends; also where the server is killed in the midst of it all, and started again."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from etagere.testing import ServerProcess
from simulation.append_client import AppendClient, logs
from simulation.blob_client import leased_names, plain_names
from simulation.history import History, Outcome
from simulation.run import check as check_history
from simulation.run import tally

from .conftest import arguments, check
from .sockets import BusyClient, ServerGone, Sockets, furnish

blob_clients = 8
append_clients = 4
steps = 30
kills = max(2, int(os.environ.get("ETAGERE_KILLS", "20")) // 5)

pytestmark = pytest.mark.slow


def _seed() -> int:
    seed = int(os.environ.get("ETAGERE_SEED", random.randrange(2**32)))
    print(f"ETAGERE_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return seed


def _crew(world: Sockets) -> list[BusyClient | AppendClient]:
    blobs = [BusyClient(world, number) for number in range(blob_clients)]  # type: ignore[arg-type]
    return [*blobs, *(AppendClient(world, number) for number in range(append_clients))]  # type: ignore[arg-type]


async def _look(crew: list[BusyClient | AppendClient]) -> None:
    """Read everything once more: the last write must be there."""
    for each in crew[:1] + crew[-1:]:
        if isinstance(each, BusyClient):
            for name in (*plain_names, *leased_names):
                await each._get(name)
        else:
            for log in logs:
                await each.look(log)


def _proves_something(history: History, *told: str) -> None:
    counted = tally(history.records)
    missing = [what for what in told if not counted[what]]
    assert not missing, f"that happened to nobody: {missing}; {counted}"


async def test_a_history_of_three_workers(tmp_path: Path) -> None:
    world = Sockets(_seed())
    server = await asyncio.to_thread(ServerProcess, arguments(tmp_path / "data", workers=3))
    try:
        async with world.at(server.urls["blob"]):
            await furnish(world, logs)
            crew = _crew(world)
            await asyncio.gather(*(each.run(steps) for each in crew))
            await _look(crew)
    finally:
        await asyncio.to_thread(server.stop)
    assert check_history(world.history) == []
    _proves_something(
        world.history,
        "blob put 201", "blob put 412 ConditionNotMet", "blob lease 201", "log append 201",
        "blob lease 409 LeaseAlreadyPresent", "blob put 412 LeaseIdMissing", "blob get 200",
        "log append 412 AppendPositionConditionNotMet",
    )  # fmt: skip
    await asyncio.to_thread(check, tmp_path / "data")


@pytest.mark.timeout(300)
async def test_a_history_with_kills(tmp_path: Path) -> None:
    """What was answered before a kill is there after it; what was not is there whole or not."""
    world = Sockets(_seed())
    data = tmp_path / "data"
    crew = _crew(world)
    for number in range(kills + 1):
        server = await asyncio.to_thread(ServerProcess, arguments(data))
        try:
            async with world.at(server.urls["blob"]):
                if number == 0:
                    await furnish(world, logs)
                await _look(crew)
                if number == kills:
                    break
                tasks = [asyncio.create_task(_until_killed(each)) for each in crew]
                goal = len(world.history.records) + world.chance.randrange(10, 150)
                while len(world.history.records) < goal:  # noqa: ASYNC110 - a history tells nobody
                    await asyncio.sleep(0.002)
                await asyncio.to_thread(server.kill)
                await asyncio.gather(*tasks)
        finally:
            await asyncio.to_thread(server.stop)
        world.end_unanswered()
        await asyncio.to_thread(check, data)
    assert check_history(world.history) == []
    _proves_something(world.history, Outcome.MAYBE.value, "blob put 201", "log append 201")
    await asyncio.to_thread(check, data)


async def _until_killed(client: BusyClient | AppendClient) -> None:
    try:
        while True:
            await client.run(10)
    except ServerGone:
        pass
