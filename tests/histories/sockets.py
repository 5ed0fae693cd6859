"""The world that the simulation's clients live in, made of sockets: each client has a connection of
its own to a server of several processes, and what it is told is recorded for the checkers."""

import asyncio
import io
import time
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Self

import aiohttp

from simulation.blob_client import BlobClient, container
from simulation.history import History, Outcome, Record

from .competitors import account_token, seconds_max

ticks_per_second = 10_000_000


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def code(self) -> str:
        return self.headers.get("x-ms-error-code", "")


class ServerGone(Exception):  # noqa: N818 - names what happened
    """Nobody answers; whoever is told leaves."""


class Sockets:
    """What clients need of a `simulation.world.World`."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.history = History()
        self.unanswered: list[Record] = []
        """What may have happened or not; ended once nobody can do it any more."""
        self._token = account_token()
        self._url = ""
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._stack = AsyncExitStack()

    def now(self) -> int:
        return time.monotonic_ns() * ticks_per_second // 1_000_000_000

    def at(self, url: str) -> Self:
        """Ask this server from now on; use with `async with`."""
        self._url = url
        return self

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sessions.clear()
        await self._stack.aclose()

    def end_unanswered(self) -> None:
        """All of the server's processes have ended."""
        for record in self.unanswered:
            self.history.end(record, self.now())
        self.unanswered.clear()

    async def _session(self, client: str) -> aiohttp.ClientSession:
        if client not in self._sessions:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1),
                timeout=aiohttp.ClientTimeout(total=seconds_max),
                skip_auto_headers=["Content-Type"],
            )
            session._retry_connection = False  # see competitors
            self._sessions[client] = await self._stack.enter_async_context(session)
        return self._sessions[client]

    async def handle(
        self, client: str, method: str, path: str, query: str = "",
        headers: dict[str, str] | None = None, body: bytes = b"",
    ) -> Answer:  # fmt: skip
        session = await self._session(client)
        target = f"{self._url}{path}?{query}&{self._token}"
        async with session.request(
            method,
            target,
            data=io.BytesIO(body) if method == "PUT" else None,
            headers={"x-ms-version": "2025-05-05", **(headers or {})},
        ) as answer:
            found = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, found, await answer.read())

    async def ask(self, record: Record, service: str, *request: Any) -> Answer:
        assert service == "blob"
        try:
            answer = await self.handle(record.client, *request)
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
            self.unanswered.append(record)
            raise ServerGone from error
        self.history.end(record, self.now())
        record.status, record.code = answer.status, answer.code
        assert answer.status < 500, answer.code
        record.outcome = Outcome.DONE if answer.status < 400 else Outcome.REFUSED
        return answer


class BusyClient(BlobClient):
    """One that does not sleep for long."""

    async def _rest(self, name: str) -> None:
        del name
        await asyncio.sleep(self.chance.choice((0, 0.001, 0.01)))


async def furnish(world: Sockets, logs: tuple[str, ...]) -> None:
    answer = await world.handle("first", "PUT", f"/{container}", "restype=container")
    assert answer.status == 201
    for log in logs:
        kind = {"x-ms-blob-type": "AppendBlob"}
        assert (await world.handle("first", "PUT", f"/{container}/{log}", "", kind)).status == 201
