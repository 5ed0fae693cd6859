"""32 consumers, two workers, and a server that is killed again and again: the promises of a queue.

Every client writes down what it was told.  Afterwards the histories must show that no message that
was acknowledged is lost, that none was handed out while it was hidden, and that a deletion that was
acknowledged is final.
"""

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import aiohttp
import pytest
from azure.storage.queue import AccountSasPermissions, ResourceTypes, generate_account_sas

from .harness import account, key, version

kills = 6
consumers = 32
producers = 8
visibility_seconds = 2
seconds_between_kills = (0.4, 1.2)
seconds_to_drain_max = 60


class Delivery(NamedTuple):
    message: str
    count: int
    next_visible: float
    started: float
    """When the request that brought it was sent, by the client's clock."""
    ended: float


class History:
    def __init__(self) -> None:
        self.attempted: set[str] = set()
        self.acknowledged: dict[str, str] = {}
        """Ids of messages by their text."""
        self.deliveries: defaultdict[str, list[Delivery]] = defaultdict(list)
        self.texts: dict[str, str] = {}
        self.deleted: dict[str, float] = {}
        """When the deletion of a message was acknowledged."""


class KilledServer:
    def __init__(self, data: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "etagere.app.cli", "serve", "--ready-json"),
                *("--data", str(self._data), "--services", "queue", "--workers", "2"),
                *("--queue-port", str(self.port), "--admin-port", "0", "--log-level", "error"),
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert json.loads(line), line

    def kill(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._wait() == 0

    def _wait(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait(30)

    def check(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "etagere.app.cli", "check", str(self._data)],
            check=True,
            timeout=60,
        )


class Clients:
    def __init__(self, server: KilledServer, session: aiohttp.ClientSession, seed: int) -> None:
        self.history = History()
        self.random = random.Random(seed)
        self._session = session
        self._base = f"http://127.0.0.1:{server.port}/{account}/tasks"
        self._sas = generate_account_sas(
            account,
            key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions.from_string("rwdlacup"),
            datetime.now(UTC) + timedelta(hours=1),
            start=datetime.now(UTC) - timedelta(minutes=5),
        )

    async def ask(self, method: str, path: str, query: str = "", body: str | None = None):
        """Status, headers and text of a reply, or nothing where none came."""
        url = f"{self._base}{path}?{query}&{self._sas}"
        headers = {"x-ms-version": version}
        try:
            async with self._session.request(method, url, data=body, headers=headers) as reply:
                return reply.status, reply.headers, await reply.text()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            await asyncio.sleep(0.05)
            return None

    async def produce(self, producer: int, enough: asyncio.Event) -> None:
        number = 0
        while not enough.is_set():
            number += 1
            text = f"{producer}-{number}"
            self.history.attempted.add(text)
            size = self.random.choice((0, 100, 5000))
            body = f"<QueueMessage><MessageText>{text} {'x' * size}</MessageText></QueueMessage>"
            reply = await self.ask("POST", "/messages", "messagettl=-1", body)
            if reply is not None:
                assert reply[0] == 201, reply
                self.history.acknowledged[text] = _field(reply[2], "MessageId")

    async def consume(self, enough: asyncio.Event) -> None:
        query = f"numofmessages={self.random.randint(1, 4)}&visibilitytimeout={visibility_seconds}"
        while not enough.is_set():
            started = time.time()
            reply = await self.ask("GET", "/messages", query)
            ended = time.time()
            if reply is None:
                continue
            assert reply[0] == 200, reply
            found = re.findall("<QueueMessage>(.*?)</QueueMessage>", reply[2], re.DOTALL)
            for message in found:
                await self._handle(message, started, ended)
            if not found:
                await asyncio.sleep(0.05)

    async def _handle(self, message: str, started: float, ended: float) -> None:
        message_id = _field(message, "MessageId")
        next_visible = parsedate_to_datetime(_field(message, "TimeNextVisible")).timestamp()
        count = int(_field(message, "DequeueCount"))
        self.history.texts[message_id] = _field(message, "MessageText").split(" ")[0]
        self.history.deliveries[message_id].append(
            Delivery(message_id, count, next_visible, started, ended)
        )
        if self.random.random() < 0.05:
            return  # a consumer that dies before it is done
        receipt = quote(_field(message, "PopReceipt"), safe="")
        reply = await self.ask("DELETE", f"/messages/{message_id}", f"popreceipt={receipt}")
        if reply is None:
            return
        assert reply[0] in (204, 404), reply
        if reply[0] == 204:
            assert message_id not in self.history.deleted
            self.history.deleted[message_id] = time.time()

    async def left(self) -> int | None:
        reply = await self.ask("GET", "", "comp=metadata")
        return None if reply is None else int(reply[1]["x-ms-approximate-messages-count"])


def _field(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    assert found is not None, text
    return found[1]


def verify(history: History) -> None:
    delivered = {history.texts[message_id] for message_id in history.deliveries}
    assert delivered <= history.attempted
    assert set(history.acknowledged) <= delivered, "a message that was acknowledged is lost"
    for text, message_id in history.acknowledged.items():
        assert history.texts[message_id] == text
    for message_id, deliveries in history.deliveries.items():
        counts = [delivery.count for delivery in deliveries]
        assert len(set(counts)) == len(counts), "one delivery went to two consumers"
        deliveries.sort(key=lambda delivery: delivery.count)
        for before, after in pairwise(deliveries):
            # The wire tells whole seconds; both are cut off alike.
            assert after.next_visible >= before.next_visible + visibility_seconds - 1, (
                "handed out while it was hidden"
            )
        deleted = history.deleted.get(message_id)
        for delivery in deliveries:
            assert deleted is None or delivery.started <= deleted, "delivered after its deletion"


@pytest.mark.slow
async def test_killed_servers_keep_their_promises(tmp_path: Path):
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - pytest shows it when the test fails
    server = KilledServer(tmp_path / "data")
    server.start()
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(
        timeout=timeout, connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        clients = Clients(server, session, seed)
        created = await clients.ask("PUT", "")
        assert created is not None
        assert created[0] == 201
        produced, drained = asyncio.Event(), asyncio.Event()
        work = [
            *(asyncio.create_task(clients.produce(n, produced)) for n in range(producers)),
            *(asyncio.create_task(clients.consume(drained)) for _ in range(consumers)),
        ]
        try:
            for _ in range(kills):
                await asyncio.sleep(clients.random.uniform(*seconds_between_kills))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            produced.set()
            await asyncio.gather(*work[:producers])
            deadline = time.monotonic() + seconds_to_drain_max
            while await clients.left() != 0:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.2)
            drained.set()
            await asyncio.gather(*work)
        finally:
            for task in work:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*work, return_exceptions=True)
            with suppress(ProcessLookupError):
                await asyncio.to_thread(server.stop)
    verify(clients.history)
    assert len(clients.history.acknowledged) > 100
    server.check()
