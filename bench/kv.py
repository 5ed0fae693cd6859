"""The store alone: `python -m bench.kv [--rows 1000000] [--seconds 2] [--engine lmdb] [--profile]`.

One process, one event loop; the clients are tasks of it, so what is measured includes asyncio.
"""

import argparse
import asyncio
import cProfile
import pstats
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.tuples import pack, range_of

clients = 64
value = b"v" * 200
part = Partition(pack("account", "container"))


class RealClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time_ns() // 100)


def open_engine(name: str, directory: str) -> Any:
    if name == "memory":
        return MemoryEngine(RealClock(), strict=False)
    durability = "relaxed" if name == "lmdb-relaxed" else "sync"
    return LmdbEngine.open(Path(directory) / "store", clock=RealClock(), durability=durability)


def key_of(n: int) -> bytes:
    return pack("name", f"{n * 2_654_435_761 % 2**32:010}")


async def load(engine: Any, rows: int) -> None:
    for start in range(0, rows, 10_000):

        async def body(tx: Any, start: int = start) -> None:
            for n in range(start, min(start + 10_000, rows)):
                tx.put(part, key_of(n), value)

        await engine.write((part,), body)


async def measure(
    name: str, seconds: float, count: int, step: Callable[[], Awaitable[None]]
) -> None:
    """`count` clients take the step over and over for some seconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        now = time.perf_counter()
        while now < end:
            await step()
            after = time.perf_counter()
            times.append(after - now)
            now = after

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(count)))
    elapsed = time.perf_counter() - started
    times.sort()
    p50, p99 = (times[int(len(times) * q)] * 1e3 for q in (0.5, 0.99))
    print(f"  {name:44} {len(times) / elapsed:10,.0f}/s   p50 {p50:7.3f} ms   p99 {p99:7.3f} ms")


async def run(engine: Any, rows: int, seconds: float) -> None:
    started = time.perf_counter()
    await load(engine, rows)
    print(f"  {'load':44} {rows / (time.perf_counter() - started):10,.0f}/s")

    async def get() -> None:
        key = key_of(random.randrange(rows))

        async def body(tx: Any) -> Any:
            return await tx.get(part, key)

        assert await engine.read(body) is not None

    async def scan() -> None:
        begin, end = key_of(random.randrange(rows)), range_of("name")[1]

        async def body(tx: Any) -> Any:
            return await tx.scan(part, begin, end, limit=100)

        await engine.read(body)

    async def update() -> None:
        key = key_of(random.randrange(rows))

        async def body(tx: Any) -> None:
            old = await tx.get(part, key)
            tx.put(part, key, old[1:] + b"w")
            tx.stamp()

        await engine.write((part,), body)

    async def update_hot() -> None:
        async def body(tx: Any) -> None:
            count = int(await tx.get(part, b"hot") or 0)
            tx.put(part, b"hot", b"%d" % (count + 1))
            tx.stamp()

        await engine.write((part,), body)

    added = iter(range(rows, 1 << 31))

    async def append() -> None:
        key = pack("new", next(added))

        async def body(tx: Any) -> None:
            tx.put(part, key, value)
            tx.stamp()

        await engine.write((part,), body)

    await measure("point reads, 1 client", seconds, 1, get)
    await measure("scans of 100 rows, 1 client", seconds, 1, scan)
    await measure("random read-modify-writes, 1 client", seconds, 1, update)
    await measure(f"random read-modify-writes, {clients} clients", seconds, clients, update)
    await measure(f"read-modify-writes of one key, {clients} clients", seconds, clients, update_hot)
    await measure(f"appends, {clients} clients", seconds, clients, append)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kv")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--engine", action="append", choices=["memory", "lmdb", "lmdb-relaxed"])
    parser.add_argument("--directory", help="where the disk to measure is mounted")
    parser.add_argument("--profile", action="store_true", help="of the event loop's thread")
    arguments = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as the server does
    for name in arguments.engine or ["memory", "lmdb", "lmdb-relaxed"]:
        print(f"{name}, {arguments.rows:,} rows")
        directory = tempfile.mkdtemp(prefix="etagere-bench-", dir=arguments.directory)

        async def session(name: str = name, directory: str = directory) -> None:
            engine = open_engine(name, directory)
            await run(engine, arguments.rows, arguments.seconds)
            if isinstance(engine, LmdbEngine):
                commits = engine.stats().commits
                per_commit = commits.bodies / commits.commits
                print(f"  {per_commit:.1f} bodies a commit, {commits.commits:,} commits")
            await engine.close()

        try:
            if arguments.profile:
                profile = cProfile.Profile()
                profile.runcall(asyncio.run, session())
                pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            else:
                asyncio.run(session())
        finally:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
