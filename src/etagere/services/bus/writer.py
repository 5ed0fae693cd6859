"""The way into the store: everything that happens to an entity, many steps to one transaction.

While a transaction is on its way to the disk, steps that arrive gather for the next.  A second one
on its way would be closed to what arrives behind it: with clients that wait for answers, half as
much in each commit and twice as many of them.  For the same reason one that could begin at once
waits while each turn of the loop brings more: what a client sends at one go is read in several.
Steps are taken in the order in which they were handed in.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from etagere.base.clock import Clock
from etagere.base.errors import Refused
from etagere.kv.contract import Engine, LimitExceeded, Partition, StoreError, Tx
from etagere.services.bus import errors
from etagere.services.bus.gathered import Completions, Sends
from etagere.services.bus.ledger import Ledger, Opened
from etagere.services.bus.operations import Operation

steps_per_transaction_max: Final = 1024
bytes_per_transaction_max: Final = 2 * 1024 * 1024
"""More at a time falls out of the processor's cache before it is delivered: with 8 MiB and twenty
senders a message costs a twentieth more."""
turns_waited_max: Final = 4

_log: Final = logging.getLogger(__name__)


class Written:
    """What a transaction did, for those who keep something of it in memory."""

    __slots__ = ("changed", "results")

    def __init__(self, results: list[tuple[Any, Refused | None]], ledger: Ledger) -> None:
        self.results = results
        self.changed: list[Opened] = ledger.finish()


class Writer:
    __slots__ = (
        "_apply",
        "_clock",
        "_doubt",
        "_engine",
        "_is_writing",
        "_scheduled",
        "_settle",
        "_tasks",
        "_turns_waited",
        "_waiting",
        "_weight_seen",
        "takes",
    )

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        apply: Callable[[Written], None],
        doubt: Callable[[tuple[Partition, ...]], None],
        settle: Callable[[Iterable[Any]], None],
    ) -> None:
        """`apply` hears of every transaction before the steps do, `doubt` of every failed one;
        `settle` is given whose effects are to be carried out after the steps' reports."""
        self._engine = engine
        self._clock = clock
        self._apply = apply
        self._doubt = doubt
        self._settle = settle
        self._waiting: deque[Operation] = deque()
        self._is_writing = False
        """A transaction is on its way."""
        self._scheduled = False
        self._turns_waited = 0
        self._weight_seen = 0
        """Of what waited, a turn of the loop ago."""
        self.takes = 0
        """How often steps were taken: what was handed in since the last time still waits, and may
        still be added to."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._is_writing

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        return set(self._tasks)

    def submit(self, operation: Operation) -> None:
        self._waiting.append(operation)
        if not self._scheduled and not self._is_writing:
            self._scheduled = True
            self._turns_waited = self._weight_seen = 0
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """At the end of a turn of the loop: start with what came in it, unless more is coming."""
        weight = sum([operation.weight for operation in self._waiting])
        if (
            self._weight_seen < weight < bytes_per_transaction_max
            and self._turns_waited < turns_waited_max
        ):
            self._weight_seen = weight
            self._turns_waited += 1
            asyncio.get_running_loop().call_soon(self._look)
            return
        self._scheduled = False
        self._start()

    def _start(self) -> None:
        if self._waiting and not self._is_writing:
            self._is_writing = True
            task = asyncio.get_running_loop().create_task(self._run(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[Operation]:
        waiting = self._waiting
        self.takes += 1
        taken = [waiting.popleft()]
        if taken[0].alone:
            return taken
        room = bytes_per_transaction_max - taken[0].weight
        while waiting and len(taken) < steps_per_transaction_max:
            following = waiting[0]
            room -= following.weight
            if room < 0 or following.alone:
                break
            taken.append(waiting.popleft())
        return taken

    async def _run(self, operations: list[Operation]) -> None:
        try:
            await self._write(operations)
        finally:
            self._is_writing = False
            self._start()

    async def _write(self, operations: list[Operation]) -> None:
        alone = len(operations) == 1
        parts = _union(operations)

        async def body(tx: Tx) -> Written:
            ledger = Ledger(tx)
            results: list[tuple[Any, Refused | None]] = []
            for operation in operations:
                try:
                    results.append((await operation.apply(ledger), None))
                except Refused as refusal:
                    if alone:
                        raise
                    results.append((None, refusal))
            return Written(results, ledger)

        try:
            written = await self._engine.write(parts, body)
        except Refused as refusal:
            self._report(operations, refusal)
        except LimitExceeded:
            await self._one_by_one(operations, Refused(errors.message_too_large))
        except StoreError as error:
            self._doubt(parts)
            self._report(operations, _refusal_of(error))
        except Exception:  # noqa: BLE001 - whatever it was, it is answered
            _log.exception("a transaction of the bus failed")
            await self._one_by_one(operations, Refused(errors.internal_error))
        else:
            self._apply(written)
            now = self._clock.now()
            for operation, (result, refused) in zip(operations, written.results, strict=True):
                operation.report(operation, result, refused, now)
            self._settle(dict.fromkeys(operation.state for operation in operations))

    async def _one_by_one(self, operations: list[Operation], refusal: Refused) -> None:
        """One of them brought the transaction down; the others should not suffer for it."""
        if len(operations) == 1:
            (operation,) = operations
            if not isinstance(operation, Sends | Completions) or operation.is_one:
                self._report(operations, refusal)
                return
            operations = operation.split()
        for operation in operations:
            await self._write([operation])

    def _report(self, operations: list[Operation], refusal: Refused) -> None:
        now = self._clock.now()
        for operation in operations:
            operation.report(operation, None, refusal, now)
        self._settle(dict.fromkeys(operation.state for operation in operations))


def _union(operations: list[Operation]) -> tuple[Partition, ...]:
    parts = operations[0].parts
    if all(operation.parts == parts for operation in operations):
        return parts
    return tuple(sorted({part for operation in operations for part in operation.parts}))


def _refusal_of(error: StoreError) -> Refused:
    return Refused(
        errors.internal_error,
        message=f"The message store could not complete the operation ({type(error).__name__}).",
    )
