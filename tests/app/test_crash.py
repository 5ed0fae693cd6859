"""Nothing that was acknowledged is lost, and nothing that was not is there in part: a real server
killed at random moments under concurrent writers, and one whose disk fills up."""

import asyncio
import io
import os
import random
from itertools import product

import pytest

from etagere.app.cli import main
from etagere.testing import ServerProcess

from .crash_writers import Account, Known, What, Writer, containers, content, session, version

key = "Y3Jhc2hpbmcgaXMgcGFydCBvZiB0aGUgcGxhbg=="
accounts = (Account("crashing1", key, False), Account("crashing2", key, True))
kills = int(os.environ.get("ETAGERE_KILLS", "20"))
writers = 8

pytestmark = pytest.mark.slow


async def read_back(url, query, name):
    async with session() as client, client.get(f"{url}/crash/{name}?{query}", headers=version) as r:
        body = await r.read()
        return r.status, body


async def listed(url, query, container="crash"):
    target = f"{url}/{container}?restype=container&comp=list&{query}"
    async with session() as client, client.get(target, headers=version) as answer:
        text = await answer.text()
        assert answer.status == 200
        return {part.partition("</Name>")[0] for part in text.split("<Name>")[1:]}


async def create_container(url, query, container="crash"):
    target = f"{url}/{container}?restype=container&{query}"
    async with session() as client, client.put(target, headers=version) as answer:
        assert answer.status == 201


def check(directory):
    """`etagere check`, whose exit status is the last word."""
    with pytest.raises(SystemExit) as ended:
        main(["check", str(directory)])
    assert ended.value.code == 0


async def verify(origin, crew):
    async with session() as client:
        await asyncio.gather(*(writer.verify(client, origin) for writer in crew))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2])
async def test_killed_at_random_moments_under_writers(tmp_path, workers, record_property, capsys):
    """Half of all kills each; one account keeps versions, the other has snapshots taken."""
    seed = int(os.environ.get("ETAGERE_SEED", random.randrange(2**32)))
    record_property("ETAGERE_SEED", seed)
    print(f"ETAGERE_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    data = tmp_path / "data"
    settings = tmp_path / "settings.toml"
    settings.write_text("".join(_account_table(each) for each in accounts))
    arguments = [f"--data={data}", f"--config={settings}", "--services=blob"]
    arguments.append(f"--workers={workers}")
    crew = [
        Writer(number, random.Random(seed + number), accounts[number % len(accounts)])
        for number in range(writers)
    ]
    rounds = max(2, kills // 2)
    for number in range(rounds + 1):
        server = await asyncio.to_thread(ServerProcess, arguments)
        try:
            origin = server.urls["blob"].rpartition("/")[0]
            if number == 0:
                for each, name in product(accounts, containers):
                    await create_container(f"{origin}/{each.name}", each.token(), name)
            await verify(origin, crew)
            if number == rounds:
                for each, name in product(accounts, containers):
                    names = await listed(f"{origin}/{each.name}", each.token(), name)
                    assert names == _here(crew, each, name)
                break
            async with session() as client:
                tasks = [asyncio.create_task(writer.run(client, origin)) for writer in crew]
                # At a moment counted in steps, so that a slow machine is tested as well.
                goal = _steps(crew) + chance.randrange(80)
                while _steps(crew) < goal and not all(map(asyncio.Task.done, tasks)):  # noqa: ASYNC110 - writers tell nobody
                    await asyncio.sleep(0.005)
                await asyncio.sleep(chance.uniform(0, 0.02))
                await asyncio.to_thread(server.kill)
                await asyncio.gather(*tasks)
        finally:
            await asyncio.to_thread(server.stop)
        await asyncio.to_thread(check, data)
    await asyncio.to_thread(check, data)
    assert _steps(crew) > 10 * rounds
    if rounds >= 10:
        for step in ("_put", "_in_blocks", "_copy", "_snapshot", "_delete", "_drop_moment"):
            assert sum(writer.acknowledged[step] for writer in crew) > 0, step


def _steps(crew):
    return sum(writer.acknowledged.total() for writer in crew)


def _account_table(account):
    versioning = "true" if account.versioning else "false"
    return f'[accounts.{account.name}]\nkeys = ["{account.key}"]\nversioning = {versioning}\n'


def _here(crew, account, container):
    """The names of what is in a container."""
    return {
        path.partition("/")[2]
        for writer in crew
        if writer.account == account
        for path, known in writer.known.items()
        if known.acknowledged is not None and path.startswith(f"{container}/")
    }


def test_the_check_can_fail():
    what = What("crash/a", 1, 100)
    body = content(*what)
    for known, status, found in (
        (Known(what), 404, b""),
        (Known(what), 200, body[:50]),
        (Known(what), 200, body[:50] + content("crash/a", 2, 50)),
        (Known(None), 200, body),
        (Known(None, [What("crash/a", 2, 100)]), 200, body),
    ):
        with pytest.raises(AssertionError):
            known.settle("a", status, found)
    known = Known(what, [None])
    known.settle("a", 404, b"")
    assert (known.acknowledged, known.asked) == (None, [])


# ---- a full disk


@pytest.fixture
def small_disk(small_disk_of):
    return small_disk_of("64m")


@pytest.mark.timeout(300)
async def test_a_disk_that_fills_up_and_has_room_again(small_disk, capsys):
    data = small_disk / "data"
    arguments = [
        "--data",
        str(data),
        "--account",
        f"{accounts[0].name}:{key}",
        "--services",
        "blob",
    ]
    query = accounts[0].token()
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
