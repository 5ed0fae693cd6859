"""What LMDB brings with it: reopening, a map that grows, other processes, failures of the disk."""

import asyncio
import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from etagere.kv.check import check_store, nowhere
from etagere.kv.contract import (
    EngineLimits,
    LimitExceeded,
    Partition,
    StoreFailed,
    StoreFull,
    StoreUnusable,
)
from etagere.kv.engines import group_commit
from etagere.kv.engines.environment import Environment
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import MalformedTuple, pack

part = Partition(pack("part"))


@pytest.fixture
def path(tmp_path):
    yield tmp_path / "store"
    if (tmp_path / "store" / "data.mdb").exists():
        assert check_store(tmp_path / "store", tuple_keys=nowhere) == []


@pytest.fixture
async def engine(path, clock):
    engine = LmdbEngine.open(path, clock=clock)
    yield engine
    await engine.close()


def putting(rows):
    async def body(tx):
        for key, value in rows.items():
            tx.put(part, key, value)
        return tx.stamp()

    return body


async def keys_of(engine):
    async def body(tx):
        return [key for key, _ in await tx.scan(part, b"", b"\xff", limit=100_000)]

    return await engine.read(body)


async def test_rows_and_stamps_survive_reopening(path, clock):
    stamps = []
    for n in range(5):
        clock.at -= 1000  # the clock steps back in between
        engine = LmdbEngine.open(path, clock=clock)
        stamps += [await engine.write((part,), putting({b"%d" % n: b"", b"k" * 3000: b""}))]
        await engine.close()
    assert stamps == sorted(set(stamps))
    engine = LmdbEngine.open(path, clock=clock)
    assert await keys_of(engine) == [b"0", b"1", b"2", b"3", b"4", b"k" * 3000]
    await engine.close()


async def test_a_stamp_taken_without_a_write_is_not_taken_again(path, clock):
    engine = LmdbEngine.open(path, clock=clock)
    before = await engine.write((part,), putting({}))
    await engine.close()
    engine = LmdbEngine.open(path, clock=clock)
    assert await engine.write((part,), putting({})) > before
    await engine.close()


@pytest.mark.parametrize("durability", ["sync", "relaxed"])
async def test_the_map_grows_on_demand(path, clock, durability):
    engine = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20, durability=durability)

    async def read(tx):
        return len(await tx.scan(part, b"", b"\xff", limit=100_000))

    async def reader():
        counts = []
        while not writing.done():
            counts.append(await engine.read(read))
            await asyncio.sleep(0)
        return counts

    async def write():
        for n in range(20):
            await asyncio.gather(
                *(
                    engine.write((part,), putting({b"%d-%d" % (n, m): os.urandom(20_000)}))
                    for m in range(20)
                )
            )

    writing = asyncio.create_task(write())
    counts = await reader()
    await writing
    assert counts == sorted(counts)
    assert len(await keys_of(engine)) == 400
    stats = engine.stats()
    assert stats.map_bytes >= 8 << 20
    assert stats.commits.map_growths >= 2
    assert stats.commits.failed_commits == 0
    await engine.close()


async def test_one_write_much_larger_than_the_map(path, clock):
    engine = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20)
    rows = {b"%d" % n: bytes(1 << 20) for n in range(30)}
    await engine.write((part,), putting(rows))
    assert len(await keys_of(engine)) == 30
    await engine.close()


async def test_the_largest_transaction_passes(engine):
    size = engine.limits.value_bytes
    count = engine.limits.transaction_bytes // size - 1
    await engine.write((part,), putting({b"%d" % n: bytes(size) for n in range(count)}))
    assert len(await keys_of(engine)) == count
    with pytest.raises(LimitExceeded):
        await engine.write((part,), putting({b"%d" % n: bytes(size) for n in range(count + 2)}))


async def test_bodies_that_wait_are_committed_together(engine):
    await asyncio.gather(*(engine.write((part,), putting({b"%d" % n: b""})) for n in range(300)))
    commits = engine.stats().commits
    assert commits.bodies == 300
    assert commits.commits < 100
    assert commits.bodies_in_largest_commit > 3


async def test_a_commit_is_bounded(engine, monkeypatch):
    monkeypatch.setattr(group_commit, "batch_bytes_max", 1000)
    monkeypatch.setattr(group_commit, "batch_bodies_max", 10)
    await asyncio.gather(
        *(engine.write((part,), putting({b"%d" % n: bytes(400)})) for n in range(100))
    )
    commits = engine.stats().commits
    assert commits.bodies_in_largest_commit <= 3
    assert commits.bodies == 100
    assert len(await keys_of(engine)) == 100


async def test_writes_asked_for_before_the_end_are_done(path, clock):
    engine = LmdbEngine.open(path, clock=clock)
    writes = [
        asyncio.create_task(engine.write((part,), putting({b"%d" % n: b""}))) for n in range(50)
    ]
    await asyncio.sleep(0)
    await asyncio.gather(engine.close(), engine.close())
    assert len(await asyncio.gather(*writes)) == 50
    engine = LmdbEngine.open(path, clock=clock)
    assert len(await keys_of(engine)) == 50
    await engine.close()


@pytest.mark.parametrize("bad", [b"", b"\0", b"\1stamp", b"\2\x20"])
async def test_no_partition_reaches_the_rows_of_the_engine(engine, bad):
    with pytest.raises(MalformedTuple):
        await engine.write((Partition(bad),), putting({}))


async def test_a_store_of_another_format_is_refused(path, clock):
    await LmdbEngine.open(path, clock=clock).close()
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        txn.put(b"\x01format", b"2")
    with pytest.raises(StoreUnusable, match="cannot read"):
        LmdbEngine.open(path, clock=clock)
    with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
        txn.put(b"\x01format", b"1")
    await LmdbEngine.open(path, clock=clock).close()


def test_a_file_that_is_something_else_is_refused(tmp_path, clock):
    (tmp_path / "data.mdb").write_bytes(b"something else" * 1000)
    with pytest.raises(StoreUnusable, match=str(tmp_path)):
        LmdbEngine.open(tmp_path, clock=clock)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnusable, match="file"):
        LmdbEngine.open(tmp_path / "file", clock=clock)


# Failures.  `lmdb.Transaction` cannot be patched; the environment's `begin_write` can.


def disk_error(code):
    error = lmdb.Error("mdb_txn_commit", code)
    error.code = code  # the binding sets it on what it raises itself
    return error


class FailingTransaction:
    """A transaction whose commit fails; what it holds is given up, as LMDB does."""

    def __init__(self, txn, error):
        self._txn = txn
        self._error = error

    def __getattr__(self, name):
        return getattr(self._txn, name)

    def commit(self):
        self._txn.abort()
        raise self._error


@pytest.fixture
def failing(engine, monkeypatch):
    """Makes commits fail, once for each error in the list that it gives."""
    errors = []
    begin = engine._environment.begin_write

    def begin_write():
        txn = begin()
        return FailingTransaction(txn, errors.pop(0)) if errors else txn

    monkeypatch.setattr(engine._environment, "begin_write", begin_write)
    return errors


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (lmdb.DiskError("commit", errno.ENOSPC), StoreFull),
        (disk_error(errno.EDQUOT), StoreFull),
        (disk_error(errno.EFBIG), StoreFull),
        (disk_error(errno.EIO), StoreFailed),
        (lmdb.CorruptedError("commit", -30796), StoreFailed),
        (ZeroDivisionError(), StoreFailed),
    ],
)
async def test_a_commit_that_fails_fails_everyone_in_it(engine, failing, error, meaning):
    await engine.write((part,), putting({b"before": b""}))
    async with engine.watch(b"topic") as signal:

        async def body(tx):
            tx.put(part, b"lost", b"")
            tx.notify(b"topic")

        failing.extend([error] * 20)
        results = await asyncio.gather(
            *(engine.write((part,), body) for _ in range(4)), return_exceptions=True
        )
        assert [type(result) for result in results] == [meaning] * 4, results
        assert len({id(result) for result in results}) == 4
        failing.clear()
        assert await keys_of(engine) == [b"before"]
        await engine.write((part,), putting({b"after": b""}))
        assert await keys_of(engine) == [b"after", b"before"]
        waiting = asyncio.create_task(signal.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()
    assert engine.stats().commits.failed_commits > 0


async def test_a_refusal_is_not_told_before_the_commit(engine, failing):
    """What the body saw came from a neighbour, and is not to be."""

    async def looks(tx):
        if await tx.get(part, b"taken") is not None:
            raise FileExistsError
        tx.put(part, b"taken", b"")

    failing.extend([disk_error(errno.EIO)] * 2)
    results = await asyncio.gather(
        *(engine.write((part,), looks) for _ in range(10)), return_exceptions=True
    )
    failed = [result for result in results if isinstance(result, StoreFailed)]
    assert failed
    taken = [result for result in results if result is None]
    refused = [result for result in results if isinstance(result, FileExistsError)]
    assert len(taken) == (1 if refused else 0)


async def test_who_does_not_fit_does_not_take_the_others_along(engine, monkeypatch):
    """A commit for which there is no room is tried in halves."""
    begin = engine._environment.begin_write

    class NarrowTransaction(FailingTransaction):
        def commit(self):
            if self._txn.get(part + b"\0large") is not None:
                super().commit()
            self._txn.commit()

    monkeypatch.setattr(
        engine._environment,
        "begin_write",
        lambda: NarrowTransaction(begin(), lmdb.DiskError("commit", errno.ENOSPC)),
    )
    names = [b"large" if n == 17 else b"%02d" % n for n in range(40)]
    results = await asyncio.gather(
        *(engine.write((part,), putting({name: b""})) for name in names), return_exceptions=True
    )
    assert [n for n, result in enumerate(results) if isinstance(result, StoreFull)] == [17]
    assert await keys_of(engine) == sorted(name for name in names if name != b"large")


async def test_a_body_tried_again_forgets_what_it_ran_into(engine, monkeypatch):
    """Beside a write that does not fit it is refused; when that one is gone it passes."""
    begin = engine._environment.begin_write

    class NarrowTransaction(FailingTransaction):
        def commit(self):
            if self._txn.get(part + b"\0large") is not None:
                super().commit()
            self._txn.commit()

    monkeypatch.setattr(
        engine._environment,
        "begin_write",
        lambda: NarrowTransaction(begin(), lmdb.DiskError("commit", errno.ENOSPC)),
    )

    async def unless_large(tx):
        if await tx.get(part, b"large") is not None:
            raise FileExistsError
        tx.put(part, b"small", b"")

    await engine.write((part,), putting({b"first": b""}))
    results = await asyncio.gather(
        engine.write((part,), putting({b"second": b""})),
        engine.write((part,), putting({b"large": b""})),
        engine.write((part,), unless_large),
        return_exceptions=True,
    )
    assert isinstance(results[1], StoreFull)
    assert results[2] is None
    assert await keys_of(engine) == [b"first", b"second", b"small"]


async def test_a_row_that_cannot_be_read_is_the_store_s_failure(engine, monkeypatch):
    begin = engine._environment.begin_write

    class DamagedTransaction(FailingTransaction):
        def get(self, key, /):
            if key.startswith(part):
                raise self._error
            return self._txn.get(key)

    monkeypatch.setattr(
        engine._environment,
        "begin_write",
        lambda: DamagedTransaction(begin(), lmdb.CorruptedError("get", -30796)),
    )

    async def body(tx):
        await tx.get(part, b"a")

    with pytest.raises(StoreFailed):
        await engine.write((part,), body)


async def test_stamps_rise_over_a_reset_and_reopening(path, clock):
    engine = LmdbEngine.open(path, clock=clock)
    before = await engine.write((part,), putting({}))
    await engine.reset()
    await engine.close()
    engine = LmdbEngine.open(path, clock=clock)
    assert await engine.write((part,), putting({})) > before
    await engine.close()


async def test_a_new_store_s_directory_is_synced(tmp_path, clock, monkeypatch):
    """Or a power failure could take the whole store, and all that was acknowledged in it."""
    synced = []
    fsync = os.fsync

    def noting(file):
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noting)
    await LmdbEngine.open(tmp_path / "a" / "b", clock=clock).close()
    assert synced == [str(tmp_path / "a" / "b"), str(tmp_path / "a"), str(tmp_path)]


async def test_a_panic_is_recovered_from(engine, monkeypatch):
    """LMDB refuses everything after it failed to write a meta page, until opened anew."""
    before = engine._environment.lmdb
    begin = engine._environment.begin_write

    def begin_write():
        if engine._environment.lmdb is before:
            raise lmdb.PanicError("begin", -30795)
        return begin()

    monkeypatch.setattr(engine._environment, "begin_write", begin_write)
    with pytest.raises(StoreFailed):
        await engine.write((part,), putting({b"a": b""}))
    await engine.write((part,), putting({b"b": b""}))
    assert await keys_of(engine) == [b"b"]


def address_space_bytes():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


async def test_address_space_that_is_not_given(path, clock):
    engine = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20)
    await engine.write((part,), putting({b"before": b""}))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = address_space_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), hard))
    try:
        results = await asyncio.gather(
            *(engine.write((part,), putting({b"%d" % n: bytes(4 << 20)})) for n in range(24)),
            return_exceptions=True,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert any(isinstance(result, StoreFull) for result in results)
    kept = {b"%d" % n for n, result in enumerate(results) if isinstance(result, int)}
    assert set(await keys_of(engine)) == {b"before"} | kept
    await engine.write((part,), putting({b"later": bytes(4 << 20)}))
    await engine.close()


# Several processes on one directory.

other_process = """
import asyncio, sys
from etagere.kv.engines.environment import Environment
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import pack

part = pack("part")

class Clock:
    def now(self):
        return 17_000_000_000_000_000

async def main(path, name, count, clients, value_bytes, map_bytes):
    engine = LmdbEngine.open(path, clock=Clock(), map_bytes=int(map_bytes))

    async def body(tx):
        n = int(await tx.get(part, b"count") or 0) + 1
        tx.put(part, b"count", b"%d" % n)
        stamp = tx.stamp()
        tx.put(part, b"stamp%d" % stamp, name.encode())
        tx.put(part, b"value-%d" % n, bytes(int(value_bytes)))
        return stamp

    async def client():
        last = 0
        for _ in range(int(count)):
            stamp = await engine.write((part,), body)
            assert stamp > last
            last = stamp

    await asyncio.gather(*(client() for _ in range(int(clients))))
    await engine.close()

asyncio.run(main(*sys.argv[1:]))
"""


def start_process(path, name, *, count, clients, value_bytes=10, map_bytes=1 << 30):
    arguments = [path, name, count, clients, value_bytes, map_bytes]
    return subprocess.Popen(
        [sys.executable, "-c", other_process, *map(str, arguments)], stderr=subprocess.PIPE
    )


@pytest.mark.slow
async def test_processes_write_and_read_the_same_store(path, clock):
    """Nothing lost, no stamp twice, each process grows the map under the others' readers."""
    engine = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20)
    processes = [
        start_process(path, f"p{n}", count=25, clients=8, value_bytes=20_000, map_bytes=1 << 20)
        for n in range(2)
    ]

    async def body(tx):
        n = int(await tx.get(part, b"count") or 0) + 1
        tx.put(part, b"count", b"%d" % n)
        tx.put(part, b"stamp%d" % tx.stamp(), b"here")

    async def look(tx):
        count = int(await tx.get(part, b"count") or 0)
        stamps = await tx.scan(part, b"stamp", b"stamq", limit=10_000)
        assert len(stamps) == count
        return count

    counts = []
    written = 0
    while any(process.poll() is None for process in processes):
        await engine.write((part,), body)
        written += 1
        counts.append(await engine.read(look))
        await asyncio.sleep(0.002)
    for process in processes:
        assert process.wait() == 0, process.stderr.read()
        process.stderr.close()
    assert counts == sorted(counts)
    assert await engine.read(look) == 2 * 25 * 8 + written
    assert engine.stats().map_bytes >= 8_000_000
    await engine.close()


async def test_the_map_grows_while_another_process_opens_the_store(path, clock, monkeypatch):
    """Between its opening the file and its first look: a worker that starts, for one."""
    first = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20)
    await first.close()
    check_readers = Environment.check_readers

    def grow(environment):
        check_readers(environment)
        process = start_process(
            path, "other", count=20, clients=8, value_bytes=20_000, map_bytes=1 << 20
        )
        assert process.wait() == 0, process.stderr.read()
        process.stderr.close()

    monkeypatch.setattr(Environment, "check_readers", grow)  # the last that opening does
    engine = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20)
    monkeypatch.setattr(Environment, "check_readers", check_readers)
    assert len(await keys_of(engine)) == 321
    await engine.close()


async def test_a_reset_after_another_process_has_grown_the_map(path, clock):
    engine = LmdbEngine.open(path, clock=clock, map_bytes=1 << 20)
    process = start_process(
        path, "other", count=20, clients=8, value_bytes=20_000, map_bytes=1 << 20
    )
    assert await asyncio.to_thread(process.wait) == 0, process.stderr.read()
    process.stderr.close()
    await engine.reset()
    assert await keys_of(engine) == []
    await engine.close()


taking_turns = """
import asyncio, sys
from etagere.kv.engines.environment import Environment
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.tuples import pack

part = pack("part")

class Clock:
    def now(self):
        return 17_000_000_000_000_000

async def main(path, own, other):
    engine = LmdbEngine.open(path, clock=Clock())

    async def body(tx):
        counts = [int(await tx.get(part, name.encode()) or 0) for name in (own, other)]
        tx.put(part, own.encode(), b"%d" % (counts[0] + 1))
        return min(counts)

    async def client():
        while await engine.write((part,), body) < 200:
            pass

    await asyncio.gather(*(client() for _ in range(8)))
    await engine.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
def test_writers_in_processes_get_their_turns(path):
    """Each goes on writing until both have written: it ends only if neither shuts the other out."""
    command = [sys.executable, "-c", taking_turns, str(path)]
    processes = [subprocess.Popen([*command, *names]) for names in (("a", "b"), ("b", "a"))]
    for process in processes:
        assert process.wait() == 0


def reading(path, count):
    """A process with that many snapshots of the store."""
    script = (
        "import lmdb, sys\n"
        "env = lmdb.open(sys.argv[1], map_size=1 << 30, max_readers=254)\n"
        "txns = [env.begin() for _ in range(int(sys.argv[2]))]\n"
        "print(len(txns), flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"%d\n" % count
    return process


@pytest.fixture
def reader_elsewhere(path):
    path.mkdir()
    with reading(path, 250) as process:
        yield process
        process.kill()


@pytest.fixture
def another_reader_elsewhere(path, reader_elsewhere):
    with reading(path, 2) as process:
        yield process
        process.kill()


def readers_in(engine):
    return len(engine._environment.lmdb.readers().splitlines()) - 1


async def test_slots_of_killed_readers_are_freed(path, clock, reader_elsewhere):
    engine = LmdbEngine.open(path, clock=clock)
    await engine.write((part,), putting({b"a": b""}))
    assert readers_in(engine) >= 250
    # With every slot taken, a reader looks for those of the dead.
    mine = [engine._environment.begin_read() for _ in range(254 - readers_in(engine))]
    reader_elsewhere.kill()
    reader_elsewhere.wait()
    mine += [engine._environment.begin_read() for _ in range(5)]
    assert await keys_of(engine) == [b"a"]
    assert readers_in(engine) < 20
    for txn in mine:
        txn.abort()
    await engine.close()


async def test_opening_frees_them_too(path, clock, reader_elsewhere, another_reader_elsewhere):
    """While another process has the store open; with none, LMDB starts the table anew."""
    reader_elsewhere.kill()
    reader_elsewhere.wait()
    engine = LmdbEngine.open(path, clock=clock)
    assert readers_in(engine) < 10
    assert another_reader_elsewhere.poll() is None
    await engine.close()


async def test_limits_are_what_was_asked_for(path, clock):
    limits = EngineLimits(key_bytes=10, value_bytes=10, transaction_bytes=100)
    engine = LmdbEngine.open(path, clock=clock, limits=limits)
    assert engine.limits == limits
    assert engine.path == path
    await engine.close()
