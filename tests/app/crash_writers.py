"""Clients of a server that is going to be killed, who know what may be there when it is back.

Every writer owns its names, in two containers, and notes what it asks for before it asks and what
was acknowledged after it was told.  Contents say which write they are, so that a mix of two would
show; a copy, a snapshot or an earlier version says whose it is.
"""

import hashlib
import io
from base64 import b64encode
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

version = {"x-ms-version": "2025-05-05"}
containers = ("crash", "other")
names_each = 4
sizes = (0, 100, 4096, 60_000, 200_000, 1_500_000)
moments_max = 12
"""Snapshots or versions that a writer keeps of all its blobs."""


class What(NamedTuple):
    """One write, by the content that it brings."""

    origin: str
    number: int
    size: int


Holds = What | None
"""None: nothing is there."""


def content(origin: str, number: int, size: int) -> bytes:
    """Bytes that name their write from end to end."""
    block = hashlib.sha256(f"{origin}/{number}".encode()).digest()
    return (block * (size // 32 + 1))[:size]


@dataclass
class Known:
    """What one blob, snapshot or version may hold: what was acknowledged last, or what was asked
    for since."""

    acknowledged: Holds = None
    asked: list[Holds] = field(default_factory=list)

    def ask(self, what: Holds) -> None:
        self.asked.append(what)

    def acknowledge(self, what: Holds) -> None:
        self.acknowledged = what
        self.asked.clear()

    def allows(self, what: Holds) -> bool:
        return what == self.acknowledged or what in self.asked

    def settle(self, path: str, status: int, body: bytes) -> None:
        """It holds one whole write, one that it may hold; that is what is known from now on."""
        assert status in (200, 404), (path, status)
        found: Holds = None
        if status == 200:
            candidates = [each for each in (self.acknowledged, *self.asked) if each is not None]
            matching = [each for each in candidates if body == content(*each)]
            assert matching, f"{path}: {len(body)} bytes that nobody wrote; {candidates}"
            found = matching[0]
        assert self.allows(found), f"{path}: {found} is there, not {self}"
        self.acknowledge(found)


class ServerError(Exception):
    pass


class Account(NamedTuple):
    name: str
    key: str
    versioning: bool

    def token(self) -> Any:
        return generate_account_sas(
            self.name,
            self.key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions.from_string("rwdxlac"),
            datetime.now(UTC) + timedelta(days=2),
        )


def session() -> aiohttp.ClientSession:
    """One that sends nothing twice: what was committed and not answered would be committed again,
    by the worker that outlives the other for a moment."""
    client = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=30), skip_auto_headers=["Content-Type"]
    )
    # aiohttp sends a PUT again when its connection breaks, and offers no other way to forbid it.
    client._retry_connection = False
    return client


class Writer:
    """Writes its own blobs one after another: small, large, in blocks, copied, deleted; and takes
    snapshots, or leaves versions behind where the account keeps them."""

    def __init__(self, number: int, chance: Random, account: Account) -> None:
        self.account = account
        self.chance = chance
        self.known = {f"{containers[n % 2]}/w{number}-{n}": Known() for n in range(names_each)}
        self.moments: dict[str, Known] = {}
        """Snapshots and versions, by path and query."""
        self.current: dict[str, str] = {}
        """The version, as in `moments`, that each blob is now, if it is known."""
        self.number = 0
        self.acknowledged: Counter[str] = Counter()
        """How often each kind of step was."""
        self._token = account.token()
        self._client: aiohttp.ClientSession | None = None
        self._url = ""

    async def run(self, client: aiohttp.ClientSession, origin: str) -> None:
        self._client, self._url = client, f"{origin}/{self.account.name}"
        try:
            while True:
                await self._step()
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            return  # the server is gone; what was asked for last may or may not be there

    async def verify(self, client: aiohttp.ClientSession, origin: str) -> None:
        self._client, self._url = client, f"{origin}/{self.account.name}"
        for path, known in self.known.items():
            known.settle(path, *await self._read(path))
        for path, known in list(self.moments.items()):
            known.settle(path, *await self._read(path))
            if known.acknowledged is None:
                del self.moments[path]
        self.current.clear()

    # ---- steps

    async def _step(self) -> None:
        path = self.chance.choice(list(self.known))
        known = self.known[path]
        steps = [self._put, self._put, self._in_blocks, self._copy]
        if not self.account.versioning:
            steps.append(self._snapshot)
        if len(self.moments) > moments_max or self.chance.random() < 0.2:
            steps = [self._drop_moment, self._delete]
        step = self.chance.choice(steps)
        if await step(path, known):
            self.acknowledged[step.__name__] += 1

    def _new(self, path: str) -> What:
        self.number += 1
        return What(path, self.number, self.chance.choice(sizes))

    async def _put(self, path: str, known: Known) -> bool:
        what = self._new(path)
        headers = {"x-ms-blob-type": "BlockBlob"}
        await self._write(path, known, what, 201, "", content(*what), headers)
        return True

    async def _in_blocks(self, path: str, known: Known) -> bool:
        what = self._new(path)
        body = content(*what)
        third = len(body) // 3 + 1
        parts = [part for at in range(3) if (part := body[at * third : (at + 1) * third])]
        ids = [b64encode(f"{what.number:08d}{n}".encode()).decode() for n in range(len(parts))]
        for block, part in zip(ids, parts, strict=True):
            query = f"comp=block&blockid={quote(block, safe='')}"
            status, _ = await self._ask("PUT", path, query, part)
            assert status == 201
        listed = "".join(f"<Latest>{block}</Latest>" for block in ids)
        document = f"<?xml version='1.0'?><BlockList>{listed}</BlockList>".encode()
        await self._write(path, known, what, 201, "comp=blocklist", document, {})
        return True

    async def _copy(self, path: str, known: Known) -> bool:
        """From another blob, snapshot or version of this writer's own."""
        sources = {**self.known, **self.moments}
        source = self.chance.choice(list(sources))
        what = sources[source].acknowledged
        if what is None or sources[source].asked:
            return False
        headers = {"x-ms-copy-source": self._target(source)}
        await self._write(path, known, what, 202, "", b"", headers)
        return True

    async def _write(
        self, path: str, known: Known, what: What, expected: int, query: str, body: bytes,
        headers: dict[str, str],
    ) -> None:  # fmt: skip
        known.ask(what)
        status, answered = await self._ask("PUT", path, query, body, **headers)
        assert status == expected, (path, status, answered.get("x-ms-error-code"))
        known.acknowledge(what)
        if self.account.versioning:
            self._remember(f"{path}?versionid={answered['x-ms-version-id']}", what)
            self.current[path] = f"{path}?versionid={answered['x-ms-version-id']}"

    async def _snapshot(self, path: str, known: Known) -> bool:
        status, answered = await self._ask("PUT", path, "comp=snapshot", b"")
        if known.acknowledged is None:
            assert status == 404
            return False
        assert status == 201
        self._remember(f"{path}?snapshot={answered['x-ms-snapshot']}", known.acknowledged)
        return True

    def _remember(self, path: str, what: What) -> None:
        self.moments[path] = Known(what)

    async def _delete(self, path: str, known: Known) -> bool:
        """Snapshots go with it; versions stay, that which was current among them."""
        known.ask(None)
        mine = [p for p in self.moments if p.startswith(f"{path}?snapshot=")]
        for moment in mine:
            self.moments[moment].ask(None)
        include = {} if self.account.versioning else {"x-ms-delete-snapshots": "include"}
        status, _ = await self._ask("DELETE", path, "", None, **include)
        assert status in (202, 404)
        known.acknowledge(None)
        for moment in mine:
            del self.moments[moment]
        self.current.pop(path, None)
        return status == 202

    async def _drop_moment(self, path: str, known: Known) -> bool:
        del path, known
        able = [p for p in self.moments if "snapshot=" in p or self._is_earlier(p)]
        if not able:
            return False
        moment = self.chance.choice(able)
        self.moments[moment].ask(None)
        path, _, query = moment.partition("?")
        status, _ = await self._ask("DELETE", path, quote(query, safe="="), None)
        assert status == 202, moment
        del self.moments[moment]
        return True

    def _is_earlier(self, moment: str) -> bool:
        """A version that is certainly not the current one."""
        path = moment.partition("?")[0]
        return self.current.get(path, moment) != moment

    # ---- requests

    def _target(self, path: str, query: str = "") -> str:
        path, _, own = path.partition("?")
        pairs = filter(None, (quote(own, safe="="), query, self._token))
        return f"{self._url}/{path}?{'&'.join(pairs)}"

    async def _ask(
        self, method: str, path: str, query: str, body: bytes | None, **headers: str
    ) -> tuple[int, dict[str, str]]:
        assert self._client is not None
        data = None if body is None else io.BytesIO(body)
        async with self._client.request(
            method, self._target(path, query), data=data, headers={**version, **headers}
        ) as answer:
            await answer.read()
            if answer.status >= 500:
                raise ServerError(answer.status, answer.headers.get("x-ms-error-code"))
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}

    async def _read(self, path: str) -> tuple[int, bytes]:
        assert self._client is not None
        async with self._client.get(self._target(path), headers=version) as answer:
            return answer.status, await answer.read()
