"""Clients that compete over real sockets, each with a connection of its own.

The kernel deals connections out to the server's workers, so competitors of one blob meet in the
store and nowhere before it.
"""

import asyncio
import io
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

T = TypeVar("T")

account = "histories1"
key = "aGlzdG9yaWVzIG9mIGEgZ3JlYXQgbWFueSBjbGllbnRz"
container = "contested"
seconds_max = 60


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    code: str
    headers: dict[str, str]
    """Names are lower case."""
    body: bytes

    @property
    def etag(self) -> str:
        return self.headers["etag"]


class Client:
    """One connection."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def ask(
        self, method: str, path: str, query: str = "", body: bytes | None = None, **headers: str
    ) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        target = f"{self._url}/{container}{path}?{'&'.join(filter(None, (query, _sas)))}"
        async with self._session.request(
            method,
            target,
            data=None if body is None else io.BytesIO(body),
            headers={"x-ms-version": "2025-05-05", **sent},
        ) as answer:
            found = {name.lower(): value for name, value in answer.headers.items()}
            data = await answer.read()
            return Reply(answer.status, found.get("x-ms-error-code", ""), found, data)

    async def put(self, name: str, body: bytes, **headers: str) -> Reply:
        return await self.ask("PUT", f"/{name}", "", body, x_ms_blob_type="BlockBlob", **headers)

    async def stage(self, name: str, block: str, body: bytes) -> Reply:
        query = f"comp=block&blockid={quote(_block_id(block), safe='')}"
        return await self.ask("PUT", f"/{name}", query, body)

    async def commit(
        self, name: str, blocks: Sequence[str], before: Sequence[str] = (), **headers: str
    ) -> Reply:
        """Put Block List: what was committed `before`, then what was staged."""
        items = "".join(f"<Committed>{_block_id(block)}</Committed>" for block in before)
        items += "".join(f"<Uncommitted>{_block_id(block)}</Uncommitted>" for block in blocks)
        body = f"<?xml version='1.0'?><BlockList>{items}</BlockList>".encode()
        return await self.ask("PUT", f"/{name}", "comp=blocklist", body, **headers)

    async def get(self, name: str, **headers: str) -> Reply:
        return await self.ask("GET", f"/{name}", **headers)


class Competitors:
    """`count` clients, connected and ready; use with `async with`."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._count = count
        self._stack = AsyncExitStack()
        self.clients: list[Client] = []

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1),
                timeout=aiohttp.ClientTimeout(total=seconds_max),
                skip_auto_headers=["Content-Type"],
            )
            # aiohttp sends a PUT again when its connection breaks, and offers no other way to
            # forbid it: what was committed and not answered would be committed again.
            session._retry_connection = False
            self.clients.append(Client(self._url, await self._stack.enter_async_context(session)))
        # Their connections are made now, so that nothing but requests is left to race.
        await asyncio.gather(*(client.get("nothing") for client in self.clients))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def all(self, work: Callable[[int, Client], Awaitable[T]]) -> list[T]:
        """What each of them was told, all having begun at the same moment."""
        return await asyncio.gather(
            *(work(number, client) for number, client in enumerate(self.clients))
        )


async def create_container(url: str) -> None:
    async with Competitors(url, 1) as competitors:
        created = await competitors.clients[0].ask("PUT", "", "restype=container", b"")
        assert created.status == 201, created


def statuses(replies: Sequence[Reply]) -> list[int]:
    return sorted(reply.status for reply in replies)


def _block_id(block: str) -> str:
    return b64encode(block.ljust(24).encode()).decode()


def account_token() -> Any:
    return generate_account_sas(
        account,
        key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions.from_string("rwdlac"),
        datetime.now(UTC) + timedelta(days=2),
        start=datetime.now(UTC) - timedelta(days=1),
    )


_sas = account_token()
