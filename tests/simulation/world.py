"""The real services behind their real frontends, on simulated time, chance and store."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from etagere.base.faults import NoFaults
from etagere.extents.check import check as check_extents
from etagere.frontends.blob_rest.service import BlobFrontend
from etagere.frontends.common.authentication import Authenticator
from etagere.frontends.common.message import ClientGone, Request, body_bytes_max_small
from etagere.frontends.common.pipeline import Pipeline
from etagere.frontends.queue_rest.service import QueueFrontend
from etagere.frontends.table_rest.service import TableFrontend
from etagere.kv.contract import StoreError, StoreFailed, StoreFull
from etagere.kv.runner import run
from etagere.services.blob import check as blob_check
from etagere.services.blob import sweep as blob_sweep
from etagere.services.blob.service import BlobService
from etagere.services.common.accounts import (
    AccountDirectory,
    development_account,
    development_key,
    development_name,
)
from etagere.services.queue import sweep as queue_sweep
from etagere.services.queue.check import QueueChecker
from etagere.services.queue.service import QueueService
from etagere.services.table import sweep as table_sweep
from etagere.services.table.check import TableChecker
from etagere.services.table.service import TableService

from .history import History, Outcome, Record
from .loop import LoopClock, SeededEntropy, SeededLoop
from .store import FaultyEngine, FaultyExtents, Weather, commits

EngineMaker = Callable[[LoopClock, Weather], FaultyEngine]

account = development_name
version = "2025-05-05"
account_sas = generate_account_sas(
    development_name,
    development_key,
    ResourceTypes(service=True, container=True, object=True),
    AccountSasPermissions.from_string("rwdxylacuptfi"),
    datetime(2099, 1, 1, tzinfo=UTC),
    start=datetime(2020, 1, 1, tzinfo=UTC),
    services="bqt",
)
"""Everything is allowed, at any simulated time, and the signature is the same every time."""


class SimulatedBody:
    """A request's bytes in a few pieces, of which the last may never come."""

    def __init__(self, data: bytes, world: "World") -> None:
        self._data = data
        self._world = world

    async def chunks(self) -> AsyncIterator[bytes]:
        chance = self._world.chance
        at, end = 0, len(self._data)
        breaks = end > 0 and self._world.weather.strikes(0.01)
        while at < end:
            await self._world.weather.delay()
            size = max(1, end // chance.choice((1, 1, 2, 3)))
            if breaks and at + size >= end:
                raise ClientGone
            yield self._data[at : at + size]
            at += size

    async def read(self, bytes_max: int = body_bytes_max_small) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    @property
    def code(self) -> str:
        return self.headers.get("x-ms-error-code", "")


class World:
    def __init__(self, seed: int, make_engine: EngineMaker = FaultyEngine) -> None:
        self.chance = Random(seed)
        self.loop = SeededLoop(Random(self.chance.random()))
        self.clock = LoopClock(self.loop)
        self.weather = Weather(Random(self.chance.random()))
        self.engine = make_engine(self.clock, self.weather)
        self.extents = FaultyExtents(self.clock, self.weather)
        self.history = History()
        self.surprises: list[str] = []
        """Failures that no fault explains."""
        entropy = SeededEntropy(Random(self.chance.random()))
        self.blobs = BlobService(self.engine, self.extents, self.clock, entropy)
        self.queues = QueueService(self.engine, self.clock, entropy)
        self.tables = TableService(self.engine, self.clock, entropy)
        accounts = AccountDirectory([development_account()])
        authenticator = Authenticator(self.clock, None)

        def pipeline(frontend: Any) -> Pipeline[Any]:
            return Pipeline(
                frontend,
                accounts=accounts,
                authenticator=authenticator,
                clock=self.clock,
                entropy=entropy,
                faults=NoFaults(),
            )

        self._pipelines = {
            "blob": pipeline(BlobFrontend(self.blobs)),
            "queue": pipeline(QueueFrontend(self.queues)),
            "table": pipeline(TableFrontend(self.tables)),
        }

    def now(self) -> int:
        return self.loop.ticks

    # ---- requests

    async def handle(
        self,
        service: str,
        method: str,
        path: str,
        query: str = "",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        sent = {"host": "127.0.0.1", "x-ms-version": version, **(headers or {})}
        if body or method in ("PUT", "POST"):
            sent["content-length"] = str(len(body))
        request = Request(
            method=method,
            raw_path=f"/{account}{path}",
            raw_query=f"{query}&{account_sas}" if query else account_sas,
            headers=sent,
            body=SimulatedBody(body, self),
        )
        answer = await self._pipelines[service].handle(request)
        if isinstance(answer.body, bytes):
            return Answer(answer.status, answer.headers, answer.body)
        async with contextlib.aclosing(answer.body) as stream:  # type: ignore[type-var]  # generators
            pieces = []
            async for piece in stream:
                pieces.append(piece)
                await self.weather.delay()
        return Answer(answer.status, answer.headers, b"".join(pieces))

    async def ask(self, record: Record, *request: Any, **more: Any) -> Answer | None:
        """Send a request and note what came of it; None if nobody could hear the answer."""
        begun: list[asyncio.Task[Any]] = []
        commits.set(begun)
        task = asyncio.get_running_loop().create_task(self.handle(*request, **more))
        hangs_up = self.weather.strikes(0.02)
        answer: Answer | None = None
        try:
            if hangs_up:
                await asyncio.wait([task], timeout=self.chance.random() * 0.05)
                task.cancel()
            answer = await task
        except (asyncio.CancelledError, ClientGone):
            pass
        except StoreFailed:
            assert not self.weather.calm
        # Whoever asked has gone; what was on its way to the store is still to come.
        if begun:
            await asyncio.wait(begun)
        self.history.end(record, self.now())
        if answer is None:
            return None
        record.status, record.code = answer.status, answer.code
        if answer.status < 400:
            record.outcome = Outcome.DONE
        elif answer.status < 500 or answer.status == 507:
            record.outcome = Outcome.REFUSED
        elif self.weather.calm:
            self.surprises.append(f"{answer.status} {answer.code} in calm weather")
        return answer

    # ---- what runs beside the clients

    async def sweep(self) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 20)
            try:
                await self.sweep_once()
            except (StoreFailed, StoreFull):
                assert not self.weather.calm

    async def sweep_once(self) -> None:
        await blob_sweep.sweep(self.blobs, account, self.clock.now())
        await queue_sweep.sweep(self.engine, account, self.clock.now())
        while await table_sweep.sweep_step(self.engine, account):
            pass

    # ---- at the end

    async def problems(self) -> list[str]:
        """What is wrong with the store at rest."""
        found = await self.engine.read(lambda tx: blob_check.check_account(tx, account))
        referrers = blob_check.Referrers(self.engine, [account])
        found += [
            str(finding)
            async for finding in check_extents(self.engine, self.extents, referrers)
            if not finding.is_harmless
        ]
        for checker in (QueueChecker(), TableChecker()):
            found += [str(finding) for finding in run(checker.check, self.engine.at_rest())]
        return found


class Surprises(logging.Handler):
    """Errors that the server logs, but for those that the weather explains."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        foreseen = getattr(record, "code", "") == "InsufficientStorage"  # a line, not a traceback
        if isinstance(error, StoreError) or foreseen:
            return
        self._world.surprises.append(f"{record.getMessage()}: {error!r}")


@contextlib.contextmanager
def listening(world: World) -> Any:
    """Hear what the server logs, and keep it from everybody else."""
    logger = logging.getLogger("etagere")
    handler, propagates = Surprises(world), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
