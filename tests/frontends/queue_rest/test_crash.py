"""32 consumers, two workers, and a server that is killed again and again: the promises of a queue.

Every client writes down what it was told, and `promises` says what of that no sound queue says.
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
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from azure.storage.queue import AccountSasPermissions, ResourceTypes, generate_account_sas

from .harness import account, key, version
from .promises import Delivery, Get, History, Put, Settling

kills = 4
consumers = 32
producers = 8
visibility_seconds = 2
seconds_between_kills = (0.4, 1.2)
seconds_to_drain_max = 60
dying, extending, releasing, forgetful = 0.05, 0.1, 0.05, 0.05
"""How many consumers do nothing more with a message that they got; keep it for longer before they
delete it; give it back; and try the receipt that an Update has replaced."""


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

    def kill_worker(self) -> None:
        """One of the two processes; the other serves on, and has it replaced."""
        assert self._process is not None
        pid = self._process.pid
        for worker in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(worker), signal.SIGKILL)

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
        # It would send again what may have been carried out, and hide that from the history.
        session._retry_connection = False
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
            size = self.random.choice((0, 100, 5000))
            put = Put(f"{producer}-{number} {'x' * size}", time.time())
            self.history.puts.append(put)
            body = f"<QueueMessage><MessageText>{put.text}</MessageText></QueueMessage>"
            reply = await self.ask("POST", "/messages", "messagettl=-1", body)
            if reply is not None:
                assert reply[0] == 201, reply
                put.ended, put.message = time.time(), _field(reply[2], "MessageId")

    async def consume(self, enough: asyncio.Event) -> None:
        wanted = self.random.randint(1, 4)
        query = f"numofmessages={wanted}&visibilitytimeout={visibility_seconds}"
        while not enough.is_set():
            started = time.time()
            reply = await self.ask("GET", "/messages", query)
            ended = time.time()
            if reply is None:
                self.history.lost_gets.append(Get(started, wanted))
                continue
            assert reply[0] == 200, reply
            found = re.findall("<QueueMessage>(.*?)</QueueMessage>", reply[2], re.DOTALL)
            assert len(found) <= wanted
            for message in found:
                delivery = Delivery(
                    _field(message, "MessageId"),
                    int(_field(message, "DequeueCount")),
                    _field(message, "MessageText"),
                    _field(message, "PopReceipt"),
                    _moment(_field(message, "TimeNextVisible")),
                    visibility_seconds,
                    started,
                    ended,
                )
                self.history.deliveries.append(delivery)
                await self._handle(delivery)
            if not found:
                await asyncio.sleep(0.05)

    async def _handle(self, delivery: Delivery) -> None:
        chance = self.random.random
        if chance() < dying:
            return
        if chance() < releasing:
            await self._settle(delivery, delivery.receipt, 0)
            return
        receipt = delivery.receipt
        if chance() < extending:
            update = await self._settle(delivery, receipt, visibility_seconds + 1)
            if update.status == 204 and chance() < forgetful:
                await self._settle(delivery, receipt)
            receipt = update.new_receipt or receipt
        await self._settle(delivery, receipt)

    async def _settle(
        self, delivery: Delivery, receipt: str, hidden: int | None = None
    ) -> Settling:
        """Delete a message, or hide it for so long from now on."""
        settling = Settling(delivery.message, receipt, time.time(), hidden=hidden)
        self.history.settlings.append(settling)
        method, query = "DELETE", f"popreceipt={quote(receipt, safe='')}"
        if hidden is not None:
            method, query = "PUT", f"{query}&visibilitytimeout={hidden}"
        reply = await self.ask(method, f"/messages/{delivery.message}", query)
        if reply is not None:
            assert reply[0] in (204, 404), reply
            settling.ended, settling.status = time.time(), reply[0]
            if hidden is not None and reply[0] == 204:
                settling.new_receipt = reply[1]["x-ms-popreceipt"]
                settling.next_visible = _moment(reply[1]["x-ms-time-next-visible"])
        return settling

    async def left(self) -> int | None:
        reply = await self.ask("GET", "", "comp=metadata")
        return None if reply is None else int(reply[1]["x-ms-approximate-messages-count"])


def _field(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    assert found is not None, text
    return found[1]


def _moment(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()


def check_that_enough_happened(history: History) -> None:
    """A history in which nothing was lost, repeated or refused would prove little."""
    assert sum(put.message is not None for put in history.puts) > 100
    assert any(put.message is None for put in history.puts)
    assert any(delivery.count > 1 for delivery in history.deliveries)
    deletions = [each for each in history.settlings if each.hidden is None]
    updates = [each for each in history.settlings if each.hidden is not None]
    for kind in (deletions, updates):
        assert any(each.status == 204 for each in kind)
    assert any(each.status is None for each in history.settlings)


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
                server.kill_worker()
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
    assert clients.history.problems() == []
    check_that_enough_happened(clients.history)
    server.check()
