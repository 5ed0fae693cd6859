"""What is fuzzed: the storage services behind their frontends, in memory, all of it seeded."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from etagere.auth.claims import Claims
from etagere.auth.request import SignedRequest
from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.base.faults import NoFaults
from etagere.extents.check import check as check_extents
from etagere.extents.memory import MemoryExtents
from etagere.frontends.blob_rest.service import BlobFrontend
from etagere.frontends.common.authentication import Authenticator
from etagere.frontends.common.message import ClientGone, Request, Response, body_bytes_max_small
from etagere.frontends.common.pipeline import Pipeline
from etagere.frontends.queue_rest.service import QueueFrontend
from etagere.frontends.table_rest.service import TableFrontend
from etagere.kv.engines.memory import MemoryEngine
from etagere.kv.overlay import SnapshotTx
from etagere.kv.runner import run
from etagere.services.blob import check as blob_check
from etagere.services.blob import sweep as blob_sweep
from etagere.services.blob.service import BlobService
from etagere.services.common.accounts import (
    Account,
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

from .elsewhere import Elsewhere
from .wanted import Wanted

hang_seconds = 30.0
allowed_failures = (501, 503, 507)
allowed_codes = ("CannotVerifyCopySource",)
"""A source elsewhere that fails is no failure of ours, whatever its status."""
signature = generate_account_sas(
    development_name,
    development_key,
    ResourceTypes(service=True, container=True, object=True),
    AccountSasPermissions.from_string("rwdxylacuptfi"),
    datetime(2099, 1, 1, tzinfo=UTC),
    start=datetime(2020, 1, 1, tzinfo=UTC),
    services="bqt",
)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    operation: str
    """The one that the request was taken for; "" where it was refused before that."""


class HandClock:
    def __init__(self) -> None:
        self.at = 17_600_000_000_000_000

    def now(self) -> Timestamp:
        return Timestamp(self.at)


class SeededEntropy:
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def token(self, size: int) -> bytes:
        return self._chance.randbytes(size)

    def uuid(self) -> str:
        text = self._chance.randbytes(16).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


async def _anybody(token: str, request: SignedRequest, now: Timestamp) -> Claims:
    """Bearer tokens as they are: who may issue them is tested elsewhere."""
    del request, now
    return Claims(oid=token, tid="11111111-1111-1111-1111-111111111111")


class FuzzedBody:
    def __init__(self, wanted: Wanted) -> None:
        self._data = wanted.body[: wanted.sent_bytes]
        self._breaks = wanted.sent_bytes is not None

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), 30_000):
            yield self._data[at : at + 30_000]
        if self._breaks:
            raise ClientGone

    async def read(self, bytes_max: int = body_bytes_max_small) -> bytes:
        found = b""
        async for chunk in self.chunks():
            found += chunk
            if len(found) > bytes_max:
                raise Refused("RequestBodyTooLarge", {"MaxLimit": str(bytes_max)})
        return found


class Found(Exception):  # noqa: N818 - the thing that fuzzing is for
    """Something that must not be; the text says what."""


class Target:
    def __init__(self, chance: Random) -> None:
        self.clock = HandClock()
        self._chance = chance
        self.engine = MemoryEngine(self.clock)
        self.extents = MemoryExtents(self.clock, bytes_max=1 << 26)
        entropy = SeededEntropy(Random(chance.random()))
        elsewhere = Elsewhere(Random(chance.random()))
        self.blobs = BlobService(self.engine, self.extents, self.clock, entropy, elsewhere)
        self.queues = QueueService(self.engine, self.clock, entropy)
        self.tables = TableService(self.engine, self.clock, entropy)
        self.frontends: dict[str, Any] = {
            "blob": BlobFrontend(self.blobs),
            "queue": QueueFrontend(self.queues),
            "table": TableFrontend(self.tables),
        }
        self.pipelines = {
            name: Pipeline(
                frontend,
                accounts=AccountDirectory([_some_account(chance)]),
                authenticator=Authenticator(self.clock, _anybody),
                clock=self.clock,
                entropy=entropy,
                faults=NoFaults(),
            )
            for name, frontend in self.frontends.items()
        }

    async def ask(self, wanted: Wanted) -> Answer | None:
        """The answer, looked at closely; None where the client had gone."""
        headers = dict(wanted.headers)
        request = Request(
            method=wanted.method,
            raw_path=wanted.path,
            raw_query=wanted.query,
            headers=headers,
            body=FuzzedBody(wanted),
        )
        try:
            async with asyncio.timeout(hang_seconds):
                answer = await self.pipelines[wanted.service].handle(request)
                body = await _whole(answer)
        except ClientGone:
            return None
        except TimeoutError:
            raise Found("it hangs") from None
        _inspect(wanted, answer, body)
        return Answer(answer.status, answer.headers, body, answer.operation)

    async def pass_time(self) -> None:
        await asyncio.sleep(0)  # copies from elsewhere go on
        self.clock.at += self._chance.choice((0, 1, seconds(0.01), seconds(1), seconds(40)))

    async def finish(self) -> None:
        """Let a good deal of time pass, sweep, and look at the store at rest."""
        for task in list(self.blobs.copying.values()):
            task.cancel()
            await asyncio.wait([task])
        self._tell(await self.problems())
        self.clock.at += seconds(10 * 86_400)
        await blob_sweep.sweep(self.blobs, development_name, self.clock.now())
        await queue_sweep.sweep(self.engine, development_name, self.clock.now())
        while await table_sweep.sweep_step(self.engine, development_name):
            pass
        self._tell(await self.problems())

    def _tell(self, problems: list[str]) -> None:
        if problems:
            raise Found("the store is not sound: " + "; ".join(problems[:5]))

    async def problems(self) -> list[str]:
        found = await self.engine.read(lambda tx: blob_check.check_account(tx, development_name))
        referrers = blob_check.Referrers(self.engine, [development_name])
        found += [
            str(finding)
            async for finding in check_extents(self.engine, self.extents, referrers)
            if not finding.is_harmless
        ]
        for checker in (QueueChecker(), TableChecker()):
            found += [str(finding) for finding in run(checker.check, _RestingTx(self.engine))]
        return found


class _RestingTx(SnapshotTx):
    """A `kv.check.CheckTx` on an engine in memory."""

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__(engine._rows, engine._clock.now())
        self.last_stamp = engine._last_stamp
        self._parts = list(engine._rows._parts)

    def partitions(self) -> Any:
        return iter(self._parts)


def _some_account(chance: Random) -> Account:
    """The development account, with some of what can be turned on."""
    return Account(
        name=development_name,
        keys=development_account().keys,
        versioning=chance.random() < 0.4,
        permanent_delete=chance.random() < 0.5,
        immutable_storage_with_versioning=chance.random() < 0.2,
        allow_public_access=chance.random() < 0.7,
        allow_shared_key=True,
        container_soft_delete_days=chance.choice((0, 7)),
        hierarchical_namespace=chance.random() < 0.3,
    )


async def _whole(answer: Response) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    stream: Any = answer.body
    async with contextlib.aclosing(stream):
        return b"".join([piece async for piece in stream])


def _inspect(wanted: Wanted, answer: Response, body: bytes) -> None:
    status = answer.status
    code = answer.headers.get("x-ms-error-code")
    excused = status in allowed_failures or code in allowed_codes
    if not 200 <= status < 600 or (status >= 500 and not excused):
        raise Found(f"{status} {code} {body[:300]!r}")
    for name, value in answer.headers.items():
        if not isinstance(value, str):
            raise Found(f"the header {name} is no text: {value!r}")
        if any(ord(char) < 32 and char != "\t" for char in name + value) or "\x7f" in value:
            raise Found(f"the header {name} would break the response: {value!r}")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise Found(f"the header {name} cannot be sent: {value!r}") from None
    stated = answer.headers.get("Content-Length")
    if wanted.method != "HEAD" and stated is not None and int(stated) != len(body):
        raise Found(f"Content-Length {stated} and {len(body)} bytes")
    if b"HTTP/1.1 500" in body and "multipart" in answer.headers.get("Content-Type", ""):
        raise Found(f"a 500 inside a batch: {body[:600]!r}")
    if status >= 400 and body:
        _parse(answer, body)


def _parse(answer: Response, body: bytes) -> None:
    media = answer.headers.get("Content-Type", "")
    try:
        if "json" in media:
            json.loads(body)
        elif "xml" in media:
            ET.fromstring(body)
    except (ValueError, ET.ParseError) as error:
        raise Found(f"an error whose body is malformed ({error}): {body[:300]!r}") from None


class Complaints(logging.Handler):
    """What the server logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        formatter = logging.Formatter()
        text = formatter.formatException(record.exc_info) if record.exc_info else ""
        self.heard.append(f"{record.getMessage()}\n{text}")

    def raise_heard(self) -> None:
        if self.heard:
            raise Found("it complained")


@contextlib.contextmanager
def complaints() -> Iterator[Complaints]:
    logger = logging.getLogger("etagere")
    handler, propagates = Complaints(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


def operations_of() -> dict[str, set[str]]:
    """The names of all operations that there are, by service."""
    frontends = Target(Random(0)).frontends
    return {
        name: {operation.name for operation in frontend.operations.rows}
        for name, frontend in frontends.items()
    }
