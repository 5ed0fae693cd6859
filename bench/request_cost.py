"""CPU for a request of each kind, from bytes in to bytes out, without sockets and load generator.

`python -m bench.request_cost [--rounds 60] [--only get,queue_put] [--profile FILE]`

Connections of the real HTTP engine over the real services and an LMDB store; what they write is
dropped.  Thirty-two connections take turns, so that commits have company as under load.  The least
of many short rounds counts: a busy machine makes rounds slower, and none faster.
"""

import argparse
import asyncio
import cProfile
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import uvloop
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from bench import peers
from etagere.app.compose import compose
from etagere.app.configuration import configure
from etagere.app.foundation import lay
from etagere.app.runtime import switch_interval_seconds
from etagere.servers.http.connection import Handler, HttpConnection
from etagere.servers.http.limits import HttpLimits
from etagere.servers.real import RealClock

_account: Final = "devstoreaccount1"
_version: Final = "2021-12-02"
_connections: Final = 32
_body: Final = b"x" * 4096
_block: Final = {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream"}
_text: Final = b"<QueueMessage><MessageText>" + b"x" * 1024 + b"</MessageText></QueueMessage>"
_json: Final = {
    "Accept": "application/json;odata=minimalmetadata",
    "Content-Type": "application/json",
    "DataServiceVersion": "3.0",
    "Prefer": "return-no-content",
}


class _Owner:
    limits = HttpLimits()
    stopping = False

    def opened(self, connection: HttpConnection, transport: asyncio.BaseTransport) -> bool:
        return True

    def closed(self, connection: HttpConnection) -> None: ...


class _Drain:
    """A transport that counts answers and keeps the last."""

    def __init__(self) -> None:
        self.answered: asyncio.Event = asyncio.Event()
        self.last = b""

    def write(self, data: bytes) -> None:
        self.last = data
        self.answered.set()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class _Client:
    def __init__(self, handler: Handler) -> None:
        self.transport = _Drain()
        self._connection = HttpConnection(handler, cast("Any", _Owner()))
        self._connection.connection_made(cast("Any", self.transport))

    async def ask(self, request: bytes) -> bytes:
        self.transport.answered.clear()
        self._connection.data_received(request)
        await self.transport.answered.wait()
        return self.transport.last

    def close(self) -> None:
        self._connection.abort()


def _request(
    method: str, path: str, query: str, headers: dict[str, str], body: bytes = b""
) -> bytes:
    token = f"{query}&{_token}" if query else _token
    lines = [
        f"{method} /{_account}{path}?{token} HTTP/1.1", "Host: 127.0.0.1:10000",
        f"x-ms-version: {_version}", *(f"{name}: {value}" for name, value in headers.items()),
    ]  # fmt: skip
    if method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


_token: Final = generate_account_sas(
    peers.account,
    peers.key,
    ResourceTypes(service=True, container=True, object=True),
    AccountSasPermissions.from_string("rwdlacup"),
    datetime(2035, 1, 1, tzinfo=UTC),
    services="bqt",
)
Make = Callable[[int, int], bytes]
"""The request that a connection sends as its nth."""


def _lease(connection: int, count: int) -> bytes:
    name = f"00000000-0000-0000-0000-{connection:012d}"
    headers = {"x-ms-lease-action": "release", "x-ms-lease-id": name}
    if count % 2 == 0:
        headers = {
            "x-ms-lease-action": "acquire",
            "x-ms-lease-duration": "60",
            "x-ms-proposed-lease-id": name,
        }
    return _request("PUT", f"/bench/lease-{connection}", "comp=lease", headers)


def _entity(row: str) -> bytes:
    values = ",".join(f'"value{n}":"{"x" * 20}"' for n in range(8))
    return f'{{"PartitionKey":"p","RowKey":"{row}",{values}}}'.encode()


def _insert(connection: int, count: int) -> bytes:
    return _request("POST", "/bench", "", _json, _entity(f"{connection:03d}-{count:08d}"))


def _upsert(connection: int, count: int) -> bytes:
    row = f"u{connection:03d}"
    path = f"/bench(PartitionKey='p',RowKey='{row}')"
    return _request("PUT", path, "", _json, _entity(row))


_page: Final = {"x-ms-page-write": "update"}

kinds: Final[dict[str, tuple[str, Make]]] = {
    "get": ("blob", lambda c, n: _request("GET", "/bench/get", "", {})),
    "put_new": ("blob", lambda c, n: _request("PUT", f"/bench/n{c}-{n}", "", _block, _body)),
    "put_over": ("blob", lambda c, n: _request("PUT", f"/bench/o{c}", "", _block, _body)),
    "lease": ("blob", _lease),
    "append": (
        "blob",
        lambda c, n: _request("PUT", f"/bench/append-{c}", "comp=appendblock", {}, _body),
    ),
    "put_page": (
        "blob",
        lambda c, n: _request(
            "PUT", f"/bench/pages-{c}", "comp=page",
            {**_page, "x-ms-range": f"bytes={n % 4096 * 4096}-{n % 4096 * 4096 + 4095}"}, _body,
        ),
    ),
    "queue_put": (
        "queue",
        lambda c, n: _request(
            "POST", "/bench/messages", "", {"Content-Type": "application/xml"}, _text
        ),
    ),
    "table_insert": ("table", _insert),
    "table_upsert": ("table", _upsert),
    "table_get": (
        "table",
        lambda c, n: _request(
            "GET", "/bench(PartitionKey='p',RowKey='g')", "", {"Accept": "application/json"}
        ),
    ),
}  # fmt: skip


async def _prepare(handlers: dict[str, Handler]) -> None:
    clients = {name: _Client(handler) for name, handler in handlers.items()}
    wanted = [
        ("blob", _request("PUT", "/bench", "restype=container", {})),
        ("blob", _request("PUT", "/bench/get", "", _block, _body)),
        ("queue", _request("PUT", "/bench", "", {})),
        ("table", _request("POST", "/Tables", "", _json, b'{"TableName":"bench"}')),
        ("table", _request("POST", "/bench", "", _json, _entity("g"))),
    ]
    for number in range(_connections):
        pages = {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": str(64 << 20)}
        wanted += [
            ("blob", _request("PUT", f"/bench/lease-{number}", "", _block, _body)),
            (
                "blob",
                _request("PUT", f"/bench/append-{number}", "", {"x-ms-blob-type": "AppendBlob"}),
            ),
            ("blob", _request("PUT", f"/bench/pages-{number}", "", pages)),
        ]
    for name, request in wanted:
        if name not in clients:
            continue
        answer = await clients[name].ask(request)
        assert answer[9:11] == b"20", answer
    for client in clients.values():
        client.close()


async def _measure(
    handler: Handler, make: Make, rounds: int, profile: cProfile.Profile | None
) -> tuple[float, float]:
    """The least CPU and wall seconds a request, of the whole process, over the rounds."""
    clients = [_Client(handler) for _ in range(_connections)]
    each = 6
    best = wall = float("inf")
    for number in range(rounds):
        requests = [[make(c, number * each + n) for n in range(each)] for c in range(_connections)]

        async def drive(client: _Client, batch: list[bytes]) -> None:
            for request in batch:
                answer = await client.ask(request)
                assert answer[9:11] == b"20", answer

        if profile is not None and number == rounds - 1:
            profile.enable()
        began, began_wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*map(drive, clients, requests))
        count = sum(map(len, requests))
        best = min(best, (time.process_time() - began) / count)
        wall = min(wall, (time.perf_counter() - began_wall) / count)
        if profile is not None:
            profile.disable()
    for client in clients:
        client.close()
    return best, wall


async def _main(options: argparse.Namespace, folder: Path) -> None:
    chosen = {
        name: kind for name, kind in kinds.items() if name in options.only or not options.only
    }
    needed = sorted({service for service, _ in chosen.values()})
    flags = {"data": str(folder), "services": ",".join(needed)}
    foundation = lay(configure(flags, {}), RealClock())
    handlers: dict[str, Handler] = {
        service.name: service.handler for service in compose(foundation)
    }
    await _prepare(handlers)
    profile = cProfile.Profile() if options.profile else None
    for name, (service, make) in chosen.items():
        cpu, wall = await _measure(handlers[service], make, options.rounds, profile)
        print(f"{name:16}{cpu * 1e6:8.1f} us CPU{wall * 1e6:8.1f} us", flush=True)
    if profile is not None:
        profile.dump_stats(options.profile)
    await foundation.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--profile", help="where the last rounds' profile goes (cProfile)")
    options = parser.parse_args()
    sys.setswitchinterval(switch_interval_seconds)
    folder = Path(tempfile.mkdtemp(prefix="etagere-cost-"))
    try:
        uvloop.run(_main(options, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
