"""Nothing that was acknowledged is lost, and nothing that was not is there in part: a real server
killed at random moments under concurrent writers, and one whose disk fills up.

Every writer owns its names, and notes what it asks for before it asks and what was acknowledged
after it was told.  Contents say which write they are, so that a mix of two would show.
"""

import asyncio
import hashlib
import io
import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field

import aiohttp
import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from etagere.app.cli import main
from etagere.testing import ServerProcess

account = "crashing1"
key = "Y3Jhc2hpbmcgaXMgcGFydCBvZiB0aGUgcGxhbg=="
kills = int(os.environ.get("ETAGERE_KILLS", "20"))
writers = 8
names_each = 4
version = {"x-ms-version": "2025-05-05"}

pytestmark = pytest.mark.slow


def token():
    from datetime import UTC, datetime, timedelta

    return generate_account_sas(
        account,
        key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True),
        datetime.now(UTC) + timedelta(days=2),
    )


def content(name, number, size):
    """Bytes that name their write from end to end."""
    block = hashlib.sha256(f"{name}/{number}".encode()).digest()
    return (block * (size // 32 + 1))[:size]


@dataclass
class Known:
    """What one name may hold: what was acknowledged last, or what was asked for since."""

    acknowledged: tuple[int, int] | None = None
    """(number, size); None: it is not there."""
    asked: list[tuple[int, int] | None] = field(default_factory=list)

    def ask(self, what):
        self.asked.append(what)

    def acknowledge(self, what):
        self.acknowledged = what
        self.asked.clear()

    def allows(self, what):
        return what == self.acknowledged or what in self.asked


class Writer:
    """Writes its own blobs one after another: small, large, in blocks, deleted, overwritten."""

    def __init__(self, number, chance):
        self.chance = chance
        self.known = {f"w{number}-{n}": Known() for n in range(names_each)}
        self.number = 0
        self.acknowledged = 0

    async def run(self, session, url, query):
        try:
            while True:
                await self.step(session, url, query)
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            return  # the server is gone; what was asked for last may or may not be there

    async def step(self, session, url, query):
        name = self.chance.choice(list(self.known))
        known = self.known[name]
        self.number += 1
        size = self.chance.choice((0, 100, 4096, 60_000, 200_000, 1_500_000))
        what = (self.number, size)
        target = f"{url}/crash/{name}?{query}"
        kind = self.chance.random()
        if kind < 0.15:
            known.ask(None)
            status = await self.send(session.delete(target, headers=version))
            if status in (202, 404):
                known.acknowledge(None)
                self.acknowledged += 1
        elif kind < 0.75 or size == 0:
            known.ask(what)
            headers = {**version, "x-ms-blob-type": "BlockBlob"}
            body = content(name, self.number, size)
            status = await self.send(session.put(target, data=io.BytesIO(body), headers=headers))
            assert status == 201
            known.acknowledge(what)
            self.acknowledged += 1
        else:
            await self.in_blocks(session, target, known, name, what)

    async def in_blocks(self, session, target, known, name, what):
        body = content(name, *what)
        ids = [f"{what[0]:08d}{n}" for n in range(3)]
        third = len(body) // 3 + 1
        parts = [body[:third], body[third : 2 * third], body[2 * third :]]
        from base64 import b64encode

        encoded = [b64encode(text.encode()).decode() for text in ids]
        for text, part in zip(encoded, parts, strict=True):
            escaped = text.replace("=", "%3D").replace("+", "%2B").replace("/", "%2F")
            staged = f"{target}&comp=block&blockid={escaped}"
            assert (
                await self.send(session.put(staged, data=io.BytesIO(part), headers=version)) == 201
            )
        listed = "".join(f"<Latest>{text}</Latest>" for text in encoded)
        known.ask(what)
        status = await self.send(
            session.put(
                f"{target}&comp=blocklist",
                data=f"<?xml version='1.0'?><BlockList>{listed}</BlockList>",
                headers=version,
            )
        )
        assert status == 201
        known.acknowledge(what)
        self.acknowledged += 1

    async def send(self, request):
        async with request as answer:
            await answer.read()
            if answer.status >= 500:
                raise ServerError(answer.status, answer.headers.get("x-ms-error-code"))
            return answer.status


class ServerError(Exception):
    pass


def session():
    # What the client decodes from the URL it signs again: send it as it is.
    timeout = aiohttp.ClientTimeout(total=30)
    return aiohttp.ClientSession(timeout=timeout, skip_auto_headers=["Content-Type"])


async def read_back(url, query, name):
    async with session() as client, client.get(f"{url}/crash/{name}?{query}", headers=version) as r:
        body = await r.read()
        return r.status, body


async def verify(url, query, all_known):
    """Every name holds one whole write, and one that it may hold; that is what is known now."""
    for name, known in all_known.items():
        status, body = await read_back(url, query, name)
        assert status in (200, 404)
        if status == 404:
            found = None
        else:
            candidates = [known.acknowledged, *known.asked]
            matching = [w for w in candidates if w is not None and body == content(name, *w)]
            assert matching, f"{name}: {len(body)} bytes that nobody wrote; {candidates}"
            found = matching[0]
        assert known.allows(found), f"{name}: {found} is there, not {known}"
        known.acknowledge(found)


async def listed(url, query):
    target = f"{url}/crash?restype=container&comp=list&{query}"
    async with session() as client, client.get(target, headers=version) as answer:
        text = await answer.text()
        assert answer.status == 200
        return {part.partition("</Name>")[0] for part in text.split("<Name>")[1:]}


async def create_container(url, query):
    target = f"{url}/crash?restype=container&{query}"
    async with session() as client, client.put(target, headers=version) as answer:
        assert answer.status == 201


def check(directory):
    """`etagere check`, whose exit status is the last word."""
    with pytest.raises(SystemExit) as ended:
        main(["check", str(directory)])
    assert ended.value.code == 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2])
async def test_killed_at_random_moments_under_writers(tmp_path, workers, record_property, capsys):
    seed = int(os.environ.get("ETAGERE_SEED", random.randrange(2**32)))
    record_property("ETAGERE_SEED", seed)
    chance = random.Random(seed)
    data = tmp_path / "data"
    arguments = ["--data", str(data), "--account", f"{account}:{key}", "--services", "blob"]
    if workers > 1:
        arguments += ["--workers", str(workers)]
    crew = [Writer(number, random.Random(seed + number)) for number in range(writers)]
    all_known = {name: known for writer in crew for name, known in writer.known.items()}
    query = token()
    rounds = kills if workers == 1 else max(2, kills // 4)
    for number in range(rounds):
        server = await asyncio.to_thread(ServerProcess, arguments)
        url = server.urls["blob"]
        if number == 0:
            await create_container(url, query)
        else:
            await verify(url, query, all_known)
        async with session() as client:
            tasks = [asyncio.create_task(w.run(client, url, query)) for w in crew]
            await asyncio.sleep(chance.uniform(0.05, 0.6))
            await asyncio.to_thread(server.kill)
            await asyncio.gather(*tasks)
    await asyncio.to_thread(check, data)
    with await asyncio.to_thread(ServerProcess, arguments) as server:
        await verify(server.urls["blob"], query, all_known)
        here = {name for name, known in all_known.items() if known.acknowledged is not None}
        assert await listed(server.urls["blob"], query) == here
    await asyncio.to_thread(check, data)
    assert sum(writer.acknowledged for writer in crew) > 10 * rounds


# ---- a full disk


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 MiB."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root and mount(8)")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.timeout(300)
async def test_a_disk_that_fills_up_and_has_room_again(small_disk, capsys):
    data = small_disk / "data"
    arguments = ["--data", str(data), "--account", f"{account}:{key}", "--services", "blob"]
    query = token()
    with await asyncio.to_thread(ServerProcess, arguments) as server:
        url = server.urls["blob"]
        await create_container(url, query)
        kept = await fill(url, query, "large", 3_000_000)
        assert len(kept) > 3
        more = await fill(url, query, "small", 20_000)
        kept.update(more)
        for name, size in kept.items():
            status, body = await read_back(url, query, name)
            assert (status, body) == (200, content(name, 0, size))
        assert await listed(url, query) == set(kept)
        assert server.process.poll() is None
        for name in [name for name in kept if name.startswith("large")]:
            assert await delete(url, query, name) == 202
            del kept[name]
        server.process.terminate()
        assert await asyncio.to_thread(server.process.wait, 30) == 0
    await asyncio.to_thread(check, data)
    grace = ["--clock", "virtual"]
    with await asyncio.to_thread(ServerProcess, [*arguments, *grace]) as server:
        url = server.urls["blob"]
        for name, size in kept.items():
            assert await read_back(url, query, name) == (200, content(name, 0, size))
        await asyncio.to_thread(server.admin.ask, "POST", "/clock/advance", {"seconds": 3600})
        for _ in range(100):
            status = await put(url, query, "after", content("after", 0, 3_000_000))
            if status == 201:
                break
            assert status in (500, 503, 507)
            await asyncio.sleep(0.1)
        assert status == 201
        assert await read_back(url, query, "after") == (200, content("after", 0, 3_000_000))
    await asyncio.to_thread(check, data)


async def put(url, query, name, body):
    headers = {**version, "x-ms-blob-type": "BlockBlob"}
    async with (
        session() as client,
        client.put(f"{url}/crash/{name}?{query}", data=io.BytesIO(body), headers=headers) as answer,
    ):
        await answer.read()
        return answer.status


async def delete(url, query, name):
    async with (
        session() as client,
        client.delete(f"{url}/crash/{name}?{query}", headers=version) as answer,
    ):
        await answer.read()
        return answer.status


async def fill(url, query, prefix, size):
    """Write until there is no room; every refusal is one that a client can tell."""
    kept = {}
    refusals = 0
    number = 0
    while refusals < 5:
        number += 1
        name = f"{prefix}{number:05d}"
        status = await put(url, query, name, content(name, 0, size))
        if status == 201:
            kept[name] = size
        else:
            assert status in (500, 503, 507), status
            refusals += 1
    return kept
