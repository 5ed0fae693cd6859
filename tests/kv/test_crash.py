"""Processes killed at random moments and disks that fill up: nothing acknowledged is lost, nothing
unacknowledged is there by half, and the store is sound."""

import asyncio
import contextlib
import random
import resource
import signal
import subprocess
import sys

import pytest

from etagere.kv.check import check_store, nowhere
from etagere.kv.contract import StoreFull
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import unpack

from . import crash_writer
from .crash_writer import kept, left, left_key, right, right_key, value_of

pytestmark = pytest.mark.slow

kills = 20


class Acknowledged:
    """What the killed processes were told is durable."""

    def __init__(self):
        self.last = {}
        self.count = 0
        self.stamps = set()

    def note(self, line):
        writer, n, stamp = line.split()
        assert int(n) == self.last.get(writer, int(n) - 1) + 1
        assert stamp not in self.stamps
        self.last[writer] = int(n)
        self.stamps.add(stamp)
        self.count += 1


def start(path, name, durability="sync"):
    return subprocess.Popen(
        [sys.executable, crash_writer.__file__, str(path), name, durability],
        stdout=subprocess.PIPE,
    )


def read_to_the_end(process, acknowledged):
    """A last line may be cut short: the process was killed while it noted it."""
    *lines, rest = process.stdout.read().split(b"\n")
    process.stdout.close()
    process.wait()
    for line in lines:
        acknowledged.note(line.decode())
    return rest


async def verify(path, clock, acknowledged):
    assert check_store(path, tuple_keys=nowhere) == []
    engine = LmdbEngine.open(path, clock=clock)

    async def body(tx):
        rows = [await tx.scan(part, b"", b"\xff", limit=100_000) for part in (left, right)]
        return *rows, tx.now

    lefts, rights, _ = await engine.read(body)
    halves = {unpack(key): value for key, value in lefts if key != b"count"}
    assert halves == {unpack(key)[1:]: value for key, value in rights}
    numbers = {}
    for (writer, n), value in halves.items():
        assert value == value_of(writer, n)
        numbers.setdefault(writer, []).append(n)
    total = 0
    for writer, present in numbers.items():
        last = max(present)
        assert sorted(present) == list(range(max(1, last - kept + 1), last + 1))
        assert acknowledged.last.get(writer, 0) <= last
        # Going on where the store ends, the next process leaves out nothing that was not noted.
        acknowledged.last[writer] = last
        total += last
    assert dict(lefts)[b"count"] == b"%d" % total

    async def stamp(tx):
        return tx.stamp()

    assert str(await engine.write((left,), stamp)) not in acknowledged.stamps
    await engine.close()


@pytest.mark.parametrize("durability", ["sync", "relaxed"])
async def test_killed_at_random_moments(tmp_path, clock, durability):
    chance = random.Random()
    acknowledged = Acknowledged()
    for _ in range(kills):
        process = start(tmp_path / "store", "w", durability)
        line = process.stdout.readline()
        acknowledged.note(line.decode())
        await asyncio.sleep(chance.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        read_to_the_end(process, acknowledged)
        await verify(tmp_path / "store", clock, acknowledged)
    assert acknowledged.count > kills * crash_writer.writers


async def test_one_of_two_processes_killed(tmp_path, clock):
    """The other goes on, even when the one held the lock of writers."""
    chance = random.Random()
    acknowledged = Acknowledged()
    steady = start(tmp_path / "store", "steady")
    acknowledged.note(steady.stdout.readline().decode())
    for n in range(10):
        process = start(tmp_path / "store", f"killed{n}-")
        acknowledged.note(process.stdout.readline().decode())
        await asyncio.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        read_to_the_end(process, acknowledged)
        for _ in range(2 * crash_writer.writers):
            acknowledged.note(steady.stdout.readline().decode())
    steady.send_signal(signal.SIGKILL)
    read_to_the_end(steady, acknowledged)
    await verify(tmp_path / "store", clock, acknowledged)


# Disks that fill up.


@pytest.fixture
def small_disk(small_disk_of):
    """A file system of 16 MiB, and a function that makes it larger."""
    directory = small_disk_of("16m")

    def enlarge():
        subprocess.run(["mount", "-o", "remount,size=32m", str(directory)], check=True)

    return directory, enlarge


@pytest.fixture
def small_limit(tmp_path):
    """A greatest size of files, which needs no privilege, and a function that lifts it."""
    directory = tmp_path / "limited"
    directory.mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, hard))

    def enlarge():
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    yield directory, enlarge
    enlarge()


@pytest.fixture(params=["small_disk", "small_limit"])
def small(request):
    return request.getfixturevalue(request.param)


def put(engine, n, size):
    async def body(tx):
        tx.put(left, left_key("w", n), bytes(size))
        tx.put(right, right_key("w", n), bytes(size))

    return engine.write((left, right), body)


def delete(engine, n):
    async def body(tx):
        tx.delete(left, left_key("w", n))
        tx.delete(right, right_key("w", n))

    return engine.write((left, right), body)


async def stored(engine):
    async def body(tx):
        lefts = await tx.scan(left, b"", b"\xff", limit=100_000)
        rights = await tx.scan(right, b"", b"\xff", limit=100_000)
        assert [unpack(key) for key, _ in lefts] == [unpack(key)[1:] for key, _ in rights]
        return {unpack(key)[1] for key, _ in lefts}

    return await engine.read(body)


async def fill(engine, size, known):
    """Eight writers until each was refused; adds what was acknowledged to `known`."""

    async def writer(k):
        n = k
        while True:
            with contextlib.suppress(StoreFull):
                while True:
                    await put(engine, n, size)
                    known.add(n)
                    n += 8
            return

    await asyncio.gather(*(writer(len(known) * 1000 + k) for k in range(8)))


@pytest.mark.parametrize("durability", ["sync", "relaxed"])
async def test_a_disk_that_fills_up(small, clock, durability):
    directory, enlarge = small
    engine = LmdbEngine.open(directory / "store", clock=clock, durability=durability)
    known = set()
    for size in (20_000, 100):
        await fill(engine, size, known)
        assert await stored(engine) == known  # reads go on, on what was acknowledged
    with pytest.raises(StoreFull):
        await put(engine, -1, 1 << 20)
    # Nothing is lost on the way through a restart on a full disk.
    await engine.close()
    assert check_store(directory / "store", tuple_keys=nowhere) == []
    engine = LmdbEngine.open(directory / "store", clock=clock, durability=durability)
    assert await stored(engine) == known
    enlarge()
    before = len(known)
    await asyncio.gather(*(put(engine, 10**9 + n, 20_000) for n in range(100)))
    assert len(await stored(engine)) == before + 100
    await engine.close()
    assert check_store(directory / "store", tuple_keys=nowhere) == []


@pytest.mark.parametrize("restarted", [False, True])
async def test_deleting_makes_room_on_a_full_disk(small_disk, clock, restarted):
    directory, _ = small_disk
    engine = LmdbEngine.open(directory / "store", clock=clock)
    known = set()
    for size in (20_000, 100, 0):
        await fill(engine, size, known)
    if restarted:
        await engine.close()
        engine = LmdbEngine.open(directory / "store", clock=clock)
    victims = sorted(known)[: len(known) // 2]
    await asyncio.gather(*(delete(engine, n) for n in victims))
    known -= set(victims)
    assert await stored(engine) == known
    before = len(known)
    await fill(engine, 20_000, known)
    assert len(known) > before + 20
    assert await stored(engine) == known
    await asyncio.gather(*(delete(engine, n) for n in list(known)))
    assert await stored(engine) == set()
    await engine.close()
    assert check_store(directory / "store", tuple_keys=nowhere) == []


async def test_a_full_store_can_be_reset(small_disk, clock):
    directory, _ = small_disk
    engine = LmdbEngine.open(directory / "store", clock=clock)
    for size in (20_000, 0):
        await fill(engine, size, set())
    await engine.reset()
    assert await stored(engine) == set()
    await put(engine, 1, 1 << 20)
    await engine.close()


async def test_readers_on_a_full_disk(small_disk, clock):
    """Each slot of LMDB's reader table has its block: a new one on a page without would be SIGBUS,
    the end of the process."""
    directory, _ = small_disk
    engine = LmdbEngine.open(directory / "store", clock=clock)
    for size in (20_000, 0):
        await fill(engine, size, set())
    await engine.close()
    (directory / "store" / "reserve").unlink()
    script = (
        "import contextlib, lmdb, sys\n"
        "with contextlib.suppress(OSError), open(sys.argv[1] + '/ballast', 'wb') as file:\n"
        "    while True: file.write(bytes(4096)) and file.flush()\n"
        "env = lmdb.open(sys.argv[1], map_size=1 << 30, max_readers=254)\n"
        "print(len([env.begin() for _ in range(250)]))\n"
    )
    command = [sys.executable, "-c", script, str(directory / "store")]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"250\n"), done.stderr


async def test_killed_on_a_full_disk(small_disk, clock):
    directory, _ = small_disk
    (directory / "ballast").write_bytes(bytes(12 << 20))
    process = start(directory / "store", "w")
    acknowledged = Acknowledged()
    read_to_the_end(process, acknowledged)  # a writer that is refused ends the process
    assert process.returncode == 1
    assert acknowledged.count > 0
    (directory / "ballast").unlink()
    await verify(directory / "store", clock, acknowledged)
