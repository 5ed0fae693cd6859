"""One simulation from one seed: a history, and what is wrong with it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from . import append_client, blob_client, queue_client, table_client
from .append_client import AppendClient
from .appending import check_log
from .blob_client import BlobClient
from .history import History, Record
from .holding import check_leases, check_queue
from .linearizable import check_blob, check_partition
from .loop import LoopClock
from .queue_client import QueueClient
from .store import FaultyEngine, Weather
from .table_client import TableClient
from .world import World, account, listening

drain_name = "drain"
_append_blob = {"x-ms-blob-type": "AppendBlob"}
_seconds_of_calm = 700


@dataclass(frozen=True, slots=True)
class Size:
    """How many clients of each service there are, and how much each does."""

    clients: int = 6
    steps: int = 40


@dataclass(slots=True)
class Outcome:
    seed: int
    history: History
    problems: list[str]


def simulate(
    seed: int,
    make_engine: Callable[[LoopClock, Weather], FaultyEngine] = FaultyEngine,
    size: Size = Size(),
) -> Outcome:
    world = World(seed, make_engine)
    with listening(world):
        at_rest = world.loop.run(_live(world, size))
    problems = check(world.history)
    problems += [f"server: {text}" for text in world.surprises + world.loop.failures]
    problems += [f"store: {text}" for text in at_rest]
    return Outcome(seed, world.history, problems)


async def _live(world: World, size: Size) -> list[str]:
    weather = world.weather
    weather.calm = True
    await _furnish(world)
    weather.calm = False
    blobs = [BlobClient(world, number) for number in range(size.clients)]
    queues = [QueueClient(world, f"q{number}") for number in range(size.clients)]
    tables = [TableClient(world, number) for number in range(size.clients)]
    logs = [AppendClient(world, number) for number in range(size.clients // 2)]
    crew = (*blobs, *queues, *tables, *logs)
    tasks = [asyncio.create_task(each.run(size.steps)) for each in crew]
    sweeper = asyncio.create_task(world.sweep())
    await asyncio.gather(*tasks)
    weather.calm = True
    sweeper.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sweeper
    await asyncio.sleep(_seconds_of_calm)
    await _drain(world)
    await _look(blobs, tables, logs)
    await world.sweep_once()
    return await world.problems()


async def _furnish(world: World) -> None:
    requests = [
        ("blob", "PUT", f"/{blob_client.container}", "restype=container", {}, b""),
        *(
            ("blob", "PUT", f"/{blob_client.container}/{log}", "", _append_blob, b"")
            for log in append_client.logs
        ),
        *(("queue", "PUT", f"/{name}", "", {}, b"") for name in queue_client.queues),
        (
            "table",
            "POST",
            "/Tables",
            "",
            {"content-type": "application/json"},
            b'{"TableName":"%b"}' % table_client.table.encode(),
        ),
    ]
    for request in requests:
        answer = await world.handle(*request)
        assert answer.status == 201, (request, answer.status, answer.body)


async def _drain(world: World) -> None:
    """Take every message that is left: what was acknowledged must be among them."""
    drain = QueueClient(world, drain_name)
    for name in queue_client.queues:
        while await drain.take(name, 32, 1000):
            pass


async def _look(
    blobs: list[BlobClient], tables: list[TableClient], logs: list[AppendClient]
) -> None:
    """Read everything once more when all is quiet: the last write must be there."""
    for name in (*blob_client.plain_names, *blob_client.leased_names):
        await blobs[0]._get(name)
    for partition in table_client.partitions:
        await tables[0]._query(partition)
    for log in append_client.logs:
        await logs[0].look(log)


def check(history: History) -> list[str]:
    problems = []
    for name, records in history.of("blob").items():
        problems += check_blob(name, records)
        problems += check_leases(name, records)
    for name, records in history.of("log").items():
        problems += check_log(name, records)
    for name, records in history.of("queue").items():
        problems += check_queue(name, records, drain_name)
    for name, records in history.of("table").items():
        problems += check_partition(name, records, table_client.rows)
    return problems


def tally(records: list[Record]) -> Counter[str]:
    """How often each thing happened: a simulation in which nothing does proves nothing."""
    counted: Counter[str] = Counter()
    for record in records:
        counted[f"{record.service} {record.kind} {record.status} {record.code}".strip()] += 1
        counted[record.outcome.value] += 1
    return counted


__all__ = ["Outcome", "Size", "account", "check", "simulate", "tally"]
