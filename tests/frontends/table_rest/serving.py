"""The Table service over a socket, in a thread of its own, and a client that speaks plain HTTP."""

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, urlsplit

import uvloop

from etagere.base.faults import NoFaults
from etagere.frontends.common.authentication import Authenticator
from etagere.frontends.common.pipeline import Pipeline
from etagere.frontends.table_rest.service import TableFrontend
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.http import HttpServer
from etagere.servers.real import RealClock, SystemEntropy
from etagere.services.common.accounts import (
    AccountDirectory,
    development_account,
    development_key,
    development_name,
)
from etagere.services.table.service import TableService

account = development_name
key = development_key


@dataclass
class Serving:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{account}"

    @property
    def connection_string(self) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
            f"TableEndpoint={self.url};"
        )


class ServerThread:
    """One server on one loop; `with` starts it and stops it."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started: threading.Event = threading.Event()
        self._stop: asyncio.Event
        self.serving: Serving

    def __enter__(self) -> Serving:
        self._thread.start()
        assert self._started.wait(10)
        return self.serving

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        clock, entropy = RealClock(), SystemEntropy()
        engine = MemoryEngine(clock)
        pipeline = Pipeline(
            TableFrontend(TableService(engine, clock, entropy)),
            accounts=AccountDirectory([development_account()]),
            authenticator=Authenticator(clock, None),
            clock=clock,
            entropy=entropy,
            faults=NoFaults(),
        )
        server = HttpServer()
        listener = await server.listen(pipeline, "127.0.0.1", 0)
        self.serving = Serving(listener.port)
        self._started.set()
        await self._stop.wait()
        await server.stop(1.0)
        await engine.close()


def sign(method: str, path: str, query: str, headers: dict[str, str]) -> str:
    """Shared Key for the Table service."""
    comp = next((p for p in query.split("&") if p.startswith("comp=")), "")
    resource = f"/{account}{path}" + (f"?{comp}" if comp else "")
    text = "\n".join(
        (
            method,
            headers.get("Content-MD5", ""),
            headers.get("Content-Type", ""),
            headers["x-ms-date"],
            resource,
        )
    )
    mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    return f"SharedKey {account}:{base64.b64encode(mac).decode()}"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    """Names are lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an OData error."""
        return self.json["odata.error"]["code"]

    @property
    def message(self) -> str:
        return self.json["odata.error"]["message"]["value"]


@dataclass
class Client:
    """One connection to a server; every request is signed with the account's key."""

    serving: Serving
    version: str = "2019-02-02"
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self.serving.port, timeout=30)

    def close(self) -> None:
        self._connection.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: object = None,
        headers: dict[str, str] | None = None,
        secondary: bool = False,
        signed: bool = True,
    ) -> Reply:
        """`path` is below the account; a body that is not bytes is sent as JSON."""
        suffix = "-secondary" if secondary else ""
        full = f"/{account}{suffix}/{path}"
        sent = {"x-ms-version": self.version, "x-ms-date": formatdate(usegmt=True)}
        sent |= {"Accept": "application/json;odata=minimalmetadata"}
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        sent = {name: value for name, value in sent.items() if value != "-"}
        if signed:
            sent["Authorization"] = sign(method, full, query, sent)
        target = full + (f"?{query}" if query else "")
        self._connection.request(method, target, data or None, sent)
        answer = self._connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, found, answer.read())

    # What most tests do, in fewer words.

    def insert(self, table: str, pk: str, rk: str, **values: object) -> Reply:
        body = {"PartitionKey": pk, "RowKey": rk, **values}
        return self.send("POST", table, body=body)

    def get(self, table: str, pk: str, rk: str, **options: Any) -> Reply:
        return self.send("GET", entity_path(table, pk, rk), **options)

    def filtered(self, table: str, text: str = "", more: str = "", **options: Any) -> Reply:
        query = f"$filter={quote(text)}" if text else ""
        return self.send(
            "GET", f"{table}()", query="&".join(filter(None, (query, more))), **options
        )


def entity_path(table: str, pk: str, rk: str) -> str:
    def quoted(text: str) -> str:
        return quote(text.replace("'", "''"), safe="")

    return f"{table}(PartitionKey='{quoted(pk)}',RowKey='{quoted(rk)}')"


def port_of(url: str) -> int:
    found = urlsplit(url).port
    assert found is not None
    return found
