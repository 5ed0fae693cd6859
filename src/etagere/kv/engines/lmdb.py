"""The default engine: an LMDB environment in a directory, written by one thread in group commits.

Reads run where they are asked for, on the event loop, on a snapshot: LMDB's readers wait for
nobody and take less than a microsecond to begin.  Several processes may have one directory open;
LMDB keeps their writers apart and their readers undisturbed.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb

from etagere.base.clock import Clock
from etagere.base.faults import Faults, NoFaults
from etagere.kv.contract import (
    Body,
    EngineLimits,
    Partition,
    ReadTx,
    Signal,
    StoreClosed,
    StoreUnusable,
    Tx,
    embedded_limits,
)
from etagere.kv.engines.environment import Durability, Environment
from etagere.kv.engines.group_commit import CommitStats, GroupCommit, Task, Waiting
from etagere.kv.engines.peers import Peers
from etagere.kv.engines.reserve import Reserve
from etagere.kv.engines.rows import (
    LmdbRows,
    check_partition,
    format_key,
    format_version,
)
from etagere.kv.engines.turns import Turns
from etagere.kv.overlay import SnapshotTx
from etagere.kv.runner import run
from etagere.kv.topics import Topics

T = TypeVar("T")

map_bytes_default: Final = 16 * 1024**3
"""Address space, not memory; doubled when the data needs more."""

_no_faults: Final = NoFaults()


@dataclass(frozen=True, slots=True)
class StoreStats:
    commits: CommitStats
    waiting: int
    map_bytes: int
    file_bytes: int
    used_bytes: int
    readers: int


class LmdbEngine:
    """Make one with `open`."""

    def __init__(
        self,
        environment: Environment,
        clock: Clock,
        durability: Durability,
        faults: Faults,
        limits: EngineLimits,
        *,
        alone: bool,
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._faults = faults
        self._limits = limits
        self._topics = Topics()
        self._peers = Peers(environment.path, self._publish)
        self._closing: asyncio.Task[None] | None = None
        self._commits = GroupCommit(
            environment,
            Reserve(environment.path),
            clock,
            limits,
            self._deliver,
            relaxed=durability == "relaxed",
        )
        self._turns: Turns[Waiting | Task] | None = None
        if alone:
            self._turns = Turns(self._commits.submit, self._commits.gate)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        clock: Clock,
        durability: Durability = "sync",
        map_bytes: int = map_bytes_default,
        faults: Faults = _no_faults,
        limits: EngineLimits = embedded_limits,
        alone: bool = False,
    ) -> "LmdbEngine":
        """`sync`: a write returns once it is on stable storage.  `relaxed`: once it is in the
        store; a power failure may take back the last half second, and never damages what is older
        (docs/decisions/0002-lmdb-durability.md).  StoreUnusable if the directory cannot be used.

        `alone`: no other process writes to the store, so that a transaction never has to be waited
        for, and the loop may wait for the writer instead (`turns`)."""
        environment = Environment(Path(path), map_bytes=map_bytes, durability=durability)
        try:
            _check_format(environment)
        except lmdb.Error as error:
            environment.close()
            raise StoreUnusable(f"{path}: {error}") from error
        except StoreUnusable:
            environment.close()
            raise
        return cls(environment, clock, durability, faults, limits, alone=alone)

    @property
    def limits(self) -> EngineLimits:
        return self._limits

    @property
    def path(self) -> Path:
        return self._environment.path

    async def read(self, body: Body[ReadTx, T]) -> T:
        environment = self._environment
        while True:
            if self._closing is not None:
                raise StoreClosed
            with environment.guard:
                try:
                    txn = environment.begin_read()
                except lmdb.MapResizedError:
                    pass
                except lmdb.Error as error:
                    raise environment.meaning(error) from error
                else:
                    try:
                        rows = LmdbRows(txn, environment.row_key_bytes)
                        return run(body, SnapshotTx(rows, self._clock.now()))
                    except lmdb.Error as error:
                        raise environment.meaning(error) from error
                    finally:
                        txn.abort()
            await self._on_writers_thread(environment.adopt_map)

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        if self._closing is not None:
            raise StoreClosed
        for part in parts:
            check_partition(part)
        self._faults.reach("before_commit")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._submit(Waiting(parts, body, future), loop)
        result = await future
        self._faults.reach("after_commit_before_reply")
        return result

    def watch(self, topic: bytes) -> AbstractAsyncContextManager[Signal]:
        if self._closing is None:
            self._peers.listen()
        return self._topics.watch(topic)

    def version(self, part: Partition) -> int | None:
        """Known while no other process writes."""
        return None if self._turns is None else self._commits.version(part)

    async def reset(self) -> None:
        """Forget every row; stamps go on rising, and every watcher is woken."""
        await self._on_writers_thread(self._empty)
        self._topics.publish_all()
        self._peers.announce_anything()

    async def close(self) -> None:
        """Writes that were asked for before are still done."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._turns is not None:
            self._turns.hand_over()
        self._commits.stop()
        await asyncio.to_thread(self._commits.join)
        self._topics.close()
        self._peers.close()
        self._environment.close()

    def stats(self) -> StoreStats:
        environment = self._environment
        with environment.guard:
            info = environment.lmdb.info()
            page_bytes = environment.lmdb.stat()["psize"]
        return StoreStats(
            commits=self._commits.stats,
            waiting=self._commits.waiting + (0 if self._turns is None else len(self._turns)),
            map_bytes=info["map_size"],
            file_bytes=environment.file_bytes(),
            used_bytes=(info["last_pgno"] + 1) * page_bytes,
            readers=info["num_readers"],
        )

    async def _on_writers_thread(self, action: Callable[[], None]) -> None:
        if self._closing is not None:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._submit(Task(action, future), loop)
        await future

    def _submit(self, entry: Waiting | Task, loop: asyncio.AbstractEventLoop) -> None:
        if self._turns is None:
            self._commits.submit((entry,))
        else:
            self._turns.submit(entry, loop)

    def _empty(self) -> None:
        environment = self._environment
        txn = environment.begin_write()
        try:
            rows = LmdbRows(txn, environment.row_key_bytes)
            stamp = rows.last_stamp()
            txn.drop(environment.lmdb.open_db(txn=txn), delete=False)
            rows.keep_stamp(stamp)
            txn.put(format_key, format_version)
            txn.commit()
        finally:
            txn.abort()
            self._commits.count_everywhere()

    def _deliver(self, done: Sequence[Waiting | Task]) -> None:
        """On the writer's thread, with writes that are committed or failed."""
        loop = done[0].future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._settle, done)

    def _settle(self, done: Sequence[Waiting | Task]) -> None:
        topics: set[bytes] = set()
        for entry in done:
            future: asyncio.Future[Any] = entry.future
            if entry.topics:
                topics.update(entry.topics)
            if future.done():
                continue  # whoever waited was cancelled
            if entry.error is None:
                future.set_result(entry.result)
            else:
                future.set_exception(entry.error)
        if topics:
            self._topics.publish(topics)
            self._peers.announce(topics)
        if self._turns is not None:
            self._turns.settled(len(done), done[0].future.get_loop())

    def _publish(self, topics: Iterable[bytes] | None) -> None:
        """What another process has announced."""
        if topics is None:
            self._topics.publish_all()
        else:
            self._topics.publish(topics)


def _check_format(environment: Environment) -> None:
    try:
        with environment.begin_read() as txn:
            found = txn.get(format_key)
            is_new = txn.stat()["entries"] == 0
        if is_new:
            with environment.begin_write() as txn:
                txn.put(format_key, format_version)
            return
    except lmdb.MapResizedError:  # by another process, since this one opened the file
        environment.adopt_map()
        _check_format(environment)
        return
    if found != format_version:
        raise StoreUnusable(
            f"{environment.path}: written by something that this version cannot read"
        )
