"""The Queue service behind a real socket, its time moved by hand; and a plain client for it."""

import asyncio
import base64
import hashlib
import hmac
import http.client
import ssl
import threading
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import quote

from azure.storage.queue import (
    AccountSasPermissions,
    QueueServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from etagere.auth.claims import Claims
from etagere.auth.request import SignedRequest
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.faults import NoFaults
from etagere.frontends.common.authentication import Authenticator
from etagere.frontends.common.pipeline import Pipeline
from etagere.frontends.queue_rest.service import QueueFrontend
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.http import HttpServer
from etagere.servers.real import RealClock, SystemEntropy
from etagere.services.common.accounts import Account, AccountDirectory
from etagere.services.queue import check
from etagere.services.queue.service import QueueService

account = "devstoreaccount1"
key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
version = "2025-05-05"


class MovedClock:
    """Real time, and what tests have added to it."""

    def __init__(self) -> None:
        self._real = RealClock()
        self._added = 0

    def now(self) -> Timestamp:
        return Timestamp(self._real.now() + self._added)

    def advance(self, seconds: float) -> None:
        self._added += round(seconds * ticks_per_second)


class Server:
    """Everything on one thread of its own, so that blocking clients can talk to it."""

    def __init__(self, **options: Any) -> None:
        self.clock = MovedClock()
        self.engine = MemoryEngine(self.clock)
        self.service = QueueService(self.engine, self.clock, SystemEntropy(), **options)
        # Clients sign the time that they know: the real one.
        pipeline = Pipeline(
            QueueFrontend(self.service),
            accounts=AccountDirectory([Account(name=account, keys=(SigningKey.from_base64(key),))]),
            authenticator=Authenticator(RealClock(), _anybody),
            clock=self.clock,
            entropy=SystemEntropy(),
            faults=NoFaults(),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._http = HttpServer()
        self._pipeline = pipeline
        self.port = self.run(self._http.listen(pipeline, "127.0.0.1", 0)).port

    def listen_securely(self, context: ssl.SSLContext) -> str:
        """The service's URL over TLS."""
        listening = self._http.listen(self._pipeline, "127.0.0.1", 0, tls=context)
        return f"https://127.0.0.1:{self.run(listening).port}/{account}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def stop(self) -> None:
        assert self.problems() == []
        self.run(self._http.stop(5))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def problems(self) -> list[str]:
        return self.run(self.engine.read(lambda tx: check.check_account(tx, account)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{account}"

    @property
    def connection_string(self) -> str:
        return (
            f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
            f"QueueEndpoint={self.url};"
        )

    def sdk(self, **options: Any) -> QueueServiceClient:
        return QueueServiceClient.from_connection_string(
            self.connection_string,
            secondary_hostname=f"127.0.0.1:{self.port}/{account}-secondary",
            retry_total=0,
            **options,
        )

    def raw(self, **options: Any) -> "RawClient":
        return RawClient(self.port, **options)


async def _anybody(token: str, request: SignedRequest, now: Timestamp) -> Claims:
    """Bearer tokens as they are: who may issue them is tested elsewhere."""
    del request, now
    return Claims(oid=token, tid="11111111-1111-1111-1111-111111111111")


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.reason = response.reason
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    @property
    def code(self) -> str:
        return self.headers.get("x-ms-error-code", "")


class RawClient:
    """Requests as they are written, signed by an account SAS that may do everything."""

    def __init__(self, port: int, permissions: str = "rwdlacup", version: str = version) -> None:
        self.version = version
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.sas = generate_account_sas(
            account,
            key,
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
        by_key: bool = False,
        secondary: bool = False,
        **query: object,
    ) -> Reply:
        """`by_key`: signed with the account's key, and by no SAS."""
        pairs = [f"{name}={quote(str(value), safe='')}" for name, value in query.items()]
        if signed and not by_key:
            pairs.append(self.sas)
        owner = f"{account}-secondary" if secondary else account
        target = f"/{owner}{path}?{'&'.join(pairs)}"
        sent = {"x-ms-version": self.version, **(headers or {})}
        data = body.encode() if isinstance(body, str) else body
        if by_key:
            sent["x-ms-date"] = format_datetime(datetime.now(UTC), usegmt=True)
            sent["Authorization"] = _shared_key(method, f"/{owner}{path}", query, sent, data or b"")
        self._http.request(method, target, data, sent)
        return Reply(self._http.getresponse())

    def put(self, queue: str, text: str, **query: object) -> Reply:
        body = f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
        return self("POST", f"/{queue}/messages", body, **query)


def _shared_key(
    method: str, path: str, query: dict[str, object], headers: dict[str, str], body: bytes
) -> str:
    """'Authorize with Shared Key', of a request that has `x-ms-*` headers and a length only."""
    length = str(len(body)) if body else ""
    named = sorted((name.lower(), value) for name, value in headers.items())
    lines = [method, "", "", length, *[""] * 8]
    lines += [f"{name}:{value}" for name, value in named if name.startswith("x-ms-")]
    lines.append(f"/{account}{path}")
    lines += [f"{name}:{value}" for name, value in sorted(query.items())]
    digest = hmac.new(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256).digest()
    return f"SharedKey {account}:{base64.b64encode(digest).decode()}"
