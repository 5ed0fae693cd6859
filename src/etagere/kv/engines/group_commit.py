"""The writer's thread: runs every waiting body in one LMDB transaction and commits them together.

A sync costs the same for one body and for hundreds, so whatever arrives while one commit is on its
way to the disk goes into the next.  Within a commit bodies run one after the other, each seeing
what those before it wrote; that makes writes serializable.  Nobody is answered before the commit,
not even a body that was refused: what it saw may not come to be.
"""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import lmdb

from etagere.base.clock import Clock
from etagere.kv.contract import (
    Body,
    EngineLimits,
    LimitExceeded,
    Partition,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
    Tx,
)
from etagere.kv.engines.environment import Environment
from etagere.kv.engines.reserve import Reserve, makes_room
from etagere.kv.engines.rows import LmdbRows
from etagere.kv.engines.turns import Gate
from etagere.kv.overlay import OverlayTx, Writes
from etagere.kv.runner import run

R = TypeVar("R")

batch_bodies_max: Final = 512
batch_bytes_max: Final = 32 * 1024 * 1024
"""After this much was written no further body joins the commit; the rest waits for the next."""

unsynced_seconds_max: Final = 0.5
"""How long a relaxed commit may be the last one without a sync of its own."""

commits_between_reader_checks: Final = 1000


@dataclass(slots=True)
class Waiting:
    """A write that somebody waits for, and what became of it."""

    parts: tuple[Partition, ...]
    body: Body[Tx, Any]
    future: asyncio.Future[Any]
    result: object = None
    error: BaseException | None = None
    topics: Sequence[bytes] = ()
    writes: Writes | None = None

    def fail(self, error: BaseException) -> None:
        self.result = None
        self.error = error
        self.topics = ()


@dataclass(slots=True)
class Task:
    """Something else to be done on the writer's thread, between commits."""

    action: Callable[[], None]
    future: asyncio.Future[None]
    result: None = None
    error: BaseException | None = None
    topics: Sequence[bytes] = ()


@dataclass(slots=True)
class CommitStats:
    """Counted since the engine was opened; written by the writer's thread, read by anybody."""

    commits: int = 0
    commit_seconds: float = 0.0
    bodies: int = 0
    bodies_in_last_commit: int = 0
    bodies_in_largest_commit: int = 0
    failed_commits: int = 0
    map_growths: int = 0


class GroupCommit:
    """`deliver` is called on the writer's thread with what was done, failed or not."""

    def __init__(
        self,
        environment: Environment,
        reserve: Reserve,
        clock: Clock,
        limits: EngineLimits,
        deliver: Callable[[Sequence[Waiting | Task]], None],
        *,
        relaxed: bool,
    ) -> None:
        self.stats: Final = CommitStats()
        self._environment = environment
        self._reserve = reserve
        self._clock = clock
        self._limits = limits
        self._deliver = deliver
        self._relaxed = relaxed
        self.gate: Final = Gate()
        """Open once there is nothing but the disk to wait for."""
        self._queue: queue.SimpleQueue[Sequence[Waiting | Task | None]] = queue.SimpleQueue()
        self._taken: deque[Waiting | Task | None] = deque()
        """Came from the queue, and not begun; None is the end."""
        self._submitted = 0
        self._begun = 0
        self._unsynced_since: float | None = None
        self._last_stamp = 0
        self._versions: dict[Partition, int] = {}
        """Of the partitions that somebody has asked about: how often they were written to."""
        self._thread = threading.Thread(target=self._main, name="etagere-writer", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Waiting | Task]) -> None:
        """At one go: the first of several puts would wake the writer, which fights for the
        interpreter with the others."""
        self._submitted += len(entries)
        self._queue.put(entries)

    @property
    def waiting(self) -> int:
        return self._submitted - self._begun

    def version(self, part: Partition) -> int:
        return self._versions.setdefault(part, 0)

    def stop(self) -> None:
        """What was submitted before is still done; `join` waits for that."""
        self._queue.put((None,))

    def join(self) -> None:
        self._thread.join()

    # On the writer's thread from here on.

    def _main(self) -> None:
        while (entry := self._next()) is not None:
            if isinstance(entry, Task):
                self._perform(entry)
                continue
            batch = [entry]
            self._fill(batch)
            self._begun += len(batch)
            wanted: list[Waiting] = []
            given_up: list[Waiting | Task] = []
            for waiting in batch:
                (given_up if waiting.future.cancelled() else wanted).append(waiting)
            if given_up:
                self._deliver(given_up)
            if wanted:
                self._commit(wanted)
        if self._unsynced_since is not None:
            self._sync()
        self._refuse_the_rest()

    def _next(self) -> Waiting | Task | None:
        if not self._taken:
            self._taken.extend(self._wait())
        return self._taken.popleft()

    def _wait(self) -> Sequence[Waiting | Task | None]:
        while self._unsynced_since is not None:
            left = self._unsynced_since + unsynced_seconds_max - time.monotonic()
            with suppress(queue.Empty):
                return self._queue.get(timeout=max(left, 0))
            self._sync()
        return self._queue.get()

    def _fill(self, batch: list[Waiting]) -> None:
        """Takes who waits already, in order, up to the next task."""
        taken = self._taken
        while len(batch) < batch_bodies_max:
            if not taken:
                try:
                    taken.extend(self._queue.get_nowait())
                except queue.Empty:
                    return
            first = taken[0]
            if not isinstance(first, Waiting):
                return
            batch.append(first)
            taken.popleft()

    def _perform(self, task: Task) -> None:
        self._begun += 1
        self.gate.open()
        try:
            self._in_map(task.action)
        except lmdb.Error as error:
            task.error = self._environment.meaning(error)
            if isinstance(task.error, StoreFull) and self._reserve.release():
                task.error = None
                self._begun -= 1
                self._perform(task)
                return
        except Exception as error:  # noqa: BLE001 - whoever asked for it is told
            task.error = error
        self._deliver([task])

    def _refuse_the_rest(self) -> None:
        """Whoever came between the last look at the engine's state and the end."""
        rest: list[Waiting | Task] = []
        with suppress(queue.Empty):
            while True:
                for entry in self._queue.get_nowait():
                    if entry is not None:
                        entry.error = StoreClosed()
                        rest.append(entry)
        if rest:
            self._deliver(rest)

    def _sync(self) -> None:
        """What `relaxed` left to the system goes to the disk."""
        self._unsynced_since = None
        try:
            self._environment.lmdb.sync(True)
        except lmdb.Error:
            self.stats.failed_commits += 1  # the next commit meets the same disk, and reports it

    def _commit(self, batch: list[Waiting]) -> None:
        """Commits the batch and answers everyone in it, in one commit or, failing that, several."""
        try:
            count = self._commit_in_room(batch)
        except StoreError as error:
            self._commit_apart(batch, error)
        except Exception as error:  # noqa: BLE001 - a bug of ours; nobody may be left waiting
            self._fail(batch, StoreFailed(repr(error)), error)
        else:
            if count < len(batch):
                self._taken.extendleft(reversed(batch[count:]))
                self._begun -= len(batch) - count
                del batch[count:]
            self._deliver(batch)
            self._reserve.restore()
            if self.stats.commits % commits_between_reader_checks == 0:
                self._environment.check_readers()

    def _commit_apart(self, batch: list[Waiting], error: StoreError) -> None:
        """Where there is no room, what is small or frees some may still pass: not everyone in a
        commit fails for the one that does not fit."""
        if len(batch) > 1 and isinstance(error, StoreFull | LimitExceeded):
            half = len(batch) // 2
            self._commit(batch[:half])
            self._commit(batch[half:])
        elif (
            isinstance(error, StoreFull)
            and makes_room(batch[0].writes or {})
            and self._reserve.release()
        ):
            self._commit(batch)
        else:
            self._fail(batch, error, error.__cause__)

    def _fail(self, batch: list[Waiting], error: StoreError, cause: BaseException | None) -> None:
        self.stats.failed_commits += 1
        for waiting in batch:
            own = type(error)(*error.args)  # one for all would collect everyone's tracebacks
            own.__cause__ = cause
            waiting.fail(own)
        self._deliver(batch)

    def _commit_in_room(self, batch: list[Waiting]) -> int:
        """How many of the batch were committed."""
        environment = self._environment
        try:
            return self._in_map(partial(self._commit_once, batch))
        except lmdb.TxnFullError as error:
            raise LimitExceeded(str(error)) from error
        except lmdb.Error as error:
            meaning = environment.meaning(error)
            environment.recover()
            raise meaning from error

    def _in_map(self, action: Callable[[], R]) -> R:
        """What it returns, with a map as large as it takes: it begins anew in each."""
        while True:
            try:
                return action()
            except lmdb.MapFullError:
                self._environment.grow_map()
                self.stats.map_growths += 1
            except lmdb.MapResizedError:
                self._environment.adopt_map()

    def _commit_once(self, batch: list[Waiting]) -> int:
        started = time.perf_counter()
        txn = self._environment.begin_write()
        try:
            rows = LmdbRows(txn, self._environment.row_key_bytes)
            stored_stamp = rows.last_stamp()
            stamp = max(stored_stamp, self._last_stamp)
            written_bytes = 0
            count = 0
            for waiting in batch:
                tx = OverlayTx(rows, waiting.parts, self._clock.now(), stamp, self._limits)
                self._run_body(waiting, tx, rows)
                stamp = tx.last_stamp
                written_bytes += tx.written_bytes
                count += 1
                if written_bytes > batch_bytes_max:
                    break
            self._last_stamp = stamp
            if stamp != stored_stamp:
                rows.keep_stamp(stamp)
            if written_bytes or stamp != stored_stamp:
                self.gate.open()
                txn.commit()
        finally:
            self.gate.open()
            txn.abort()  # nothing, after the commit
            self._count(batch)
        self._count_commit(count, time.perf_counter() - started)
        return count

    def _count(self, batch: Sequence[Waiting]) -> None:
        """After the commit, also one that failed: the disk may have it all the same."""
        versions = self._versions
        for waiting in batch:
            for part in waiting.parts:
                if part in versions:
                    versions[part] += 1

    def count_everywhere(self) -> None:
        """Every partition was written to."""
        for part in list(self._versions):
            self._versions[part] += 1

    def _run_body(self, waiting: Waiting, tx: OverlayTx, rows: LmdbRows) -> None:
        waiting.error = None
        try:
            waiting.result = run(waiting.body, tx)
            tx.finish()
        except lmdb.Error:
            raise  # of the store, not of the body
        except BaseException as error:  # noqa: BLE001 - raised where the body came from
            waiting.fail(error)
        else:
            waiting.writes = tx.writes
            rows.apply(tx.writes)
            waiting.topics = tx.topics

    def _count_commit(self, count: int, seconds: float) -> None:
        stats = self.stats
        stats.commits += 1
        stats.commit_seconds += seconds
        stats.bodies += count
        stats.bodies_in_last_commit = count
        stats.bodies_in_largest_commit = max(stats.bodies_in_largest_commit, count)
        if self._relaxed:
            self._unsynced_since = time.monotonic()
