"""The Blob service behind a real socket, its time moved by hand."""

import asyncio
import base64
import dataclasses
import hashlib
import hmac
import http.client
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

import uvloop
from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.faults import NoFaults
from etagere.extents.check import check as check_extents
from etagere.extents.memory import MemoryExtents
from etagere.frontends.blob_rest.service import BlobFrontend
from etagere.frontends.common.authentication import Authenticator
from etagere.frontends.common.pipeline import Pipeline
from etagere.kv.contract import Engine
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.fetch import HttpFetcher
from etagere.servers.http import HttpServer
from etagere.servers.real import RealClock, SystemEntropy
from etagere.services.blob import check
from etagere.services.blob.service import BlobService
from etagere.services.blob.sweep import sweep
from etagere.services.common.accounts import (
    Account,
    AccountDirectory,
    development_account,
    development_key,
    development_name,
)

version = "2025-05-05"


class MovedClock:
    """Real time, and what tests have added to it."""

    def __init__(self) -> None:
        self._real = RealClock()
        self._added = 0
        self._frozen: Timestamp | None = None

    def now(self) -> Timestamp:
        real = self._real.now() if self._frozen is None else self._frozen
        return Timestamp(real + self._added)

    def freeze(self) -> None:
        """From here on only tests move it."""
        self._frozen = self._real.now()

    def advance(self, seconds: float) -> None:
        self._added += round(seconds * ticks_per_second)


class Server:
    """Everything on one thread of its own, so that blocking clients can talk to it."""

    def __init__(self, account: Account | None = None) -> None:
        self.clock = MovedClock()
        self.engine: Engine = MemoryEngine(self.clock)
        self.account = development_account() if account is None else account
        self._accounts = AccountDirectory([self.account])
        self.extents = MemoryExtents(self.clock)
        self.service = BlobService(
            self.engine, self.extents, self.clock, SystemEntropy(), HttpFetcher()
        )
        # Clients sign the time that they know: the real one.
        pipeline = Pipeline(
            BlobFrontend(self.service),
            accounts=self._accounts,
            authenticator=Authenticator(RealClock(), None),
            clock=self.clock,
            entropy=SystemEntropy(),
            faults=NoFaults(),
        )
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._http = HttpServer()
        self.port = self.run(self._http.listen(pipeline, "127.0.0.1", 0)).port

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def change_account(self, **settings: Any) -> None:
        self.account = dataclasses.replace(self.account, **settings)
        self._accounts.put(self.account)

    def problems(self) -> list[str]:
        """What is wrong with the store at rest."""
        found = self.run(self.engine.read(lambda tx: check.check_account(tx, self.account.name)))
        return found + self.run(self._extent_problems())

    async def _extent_problems(self) -> list[str]:
        referrers = check.Referrers(self.engine, [self.account.name])
        return [
            str(finding)
            async for finding in check_extents(self.engine, self.extents, referrers)
            if not finding.is_harmless
        ]

    async def _end_copies(self) -> None:
        for task in list(self.service.copying.values()):
            task.cancel()
            await asyncio.wait([task])

    def sweep(self) -> None:
        self.run(sweep(self.service, self.account.name, self.clock.now()))

    def stop(self) -> None:
        assert self.problems() == []
        self.run(self._http.stop(5))
        self.run(self._end_copies())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def connections(self) -> int:
        return self._http.connections

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{development_name}"

    @property
    def connection_string(self) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={development_name};"
            f"AccountKey={development_key};BlobEndpoint={self.url};"
            f"BlobSecondaryEndpoint={self.url}-secondary;"
        )

    def sdk(self, **options: Any) -> BlobServiceClient:
        return BlobServiceClient.from_connection_string(
            self.connection_string, retry_total=0, **options
        )


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.reason = response.reason
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def code(self) -> str:
        return self.headers.get("x-ms-error-code", "")

    @property
    def etag(self) -> str:
        return self.headers["etag"]


class RawClient:
    """Requests as they are written, signed by an account SAS that may do everything."""

    def __init__(
        self, port: int, permissions: str = "rwdxylacuptfi", version: str = version
    ) -> None:
        self.version = version
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.sas = generate_account_sas(
            development_name,
            development_key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions.from_string(permissions),
            datetime.now(UTC) + timedelta(hours=1),
            start=datetime.now(UTC) - timedelta(minutes=5),
        )

    def close(self) -> None:
        self._http.close()

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
        *,
        signed: bool = True,
        secondary: bool = False,
        **query: object,
    ) -> Reply:
        pairs = [f"{name}={quote(str(value), safe='')}" for name, value in query.items()]
        if signed:
            pairs.append(self.sas)
        owner = f"{development_name}-secondary" if secondary else development_name
        target = f"/{owner}{path}?{'&'.join(pairs)}"
        sent = {"x-ms-version": self.version, **(headers or {})}
        data = body.encode() if isinstance(body, str) else body
        if data is None and method in ("PUT", "POST") and "Content-Length" not in sent:
            sent["Content-Length"] = "0"
        self._http.request(method, target, data, sent)
        return Reply(self._http.getresponse())

    @property
    def is_open(self) -> bool:
        """Whether the server has kept the connection for the next request."""
        return self._http.sock is not None

    def put_blob(self, path: str, data: bytes = b"data", **headers: str) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self("PUT", path, data, {"x-ms-blob-type": "BlockBlob", **sent})


class KeyClient(RawClient):
    """Requests signed with the account's key (Azure: 'Authorize with Shared Key'), for what no SAS
    may do."""

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
        *,
        signed: bool = True,
        secondary: bool = False,
        **query: object,
    ) -> Reply:
        assert signed
        assert not secondary
        data = body.encode() if isinstance(body, str) else body or b""
        sent = {
            "x-ms-version": self.version,
            "x-ms-date": format_datetime(datetime.now(UTC), usegmt=True),
            **(headers or {}),
        }
        if data:
            sent["Content-Type"] = "application/octet-stream"
        lower = {name.lower(): value for name, value in sent.items()}
        chunked = "transfer-encoding" in lower
        lower["content-length"] = "" if chunked else str(len(data) or "")
        own = sorted(name for name in lower if name.startswith("x-ms-"))
        target = f"/{development_name}{path}"
        text = "\n".join(
            (
                method,
                *(lower.get(name, "") for name in _signed_headers),
                *(f"{name}:{lower[name].strip()}" for name in own),
                f"/{development_name}{target}",
                *(f"{name}:{query[name]}" for name in sorted(query)),
            )
        )
        mac = hmac.new(base64.b64decode(development_key), text.encode(), hashlib.sha256).digest()
        signature = base64.b64encode(mac).decode()
        sent["Authorization"] = f"SharedKey {development_name}:{signature}"
        return super().__call__(method, path, data, sent, signed=False, **query)


_signed_headers = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type"),
    *("date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)
