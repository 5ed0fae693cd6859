"""The two HTTP interfaces of the bus without sockets: a request in, a response out."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from etagere.app.bus_http import BusHttp
from etagere.frontends.bus_admin.access import Access
from etagere.frontends.bus_admin.service import BusAdmin
from etagere.frontends.bus_rest.service import BusRest
from etagere.frontends.common.message import EmptyBody, Request, Response, body_bytes_max_small
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.real import SystemEntropy, VirtualClock
from etagere.servers.timers import Timers
from etagere.services.bus.broker import Broker
from etagere.services.bus.sections import AmqpSections


class Body(EmptyBody):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def read(self, bytes_max: int = body_bytes_max_small) -> bytes:
        assert len(self._content) <= bytes_max
        return self._content


class Caller:
    """Asks without tokens: what is checked is what comes after them."""

    def __init__(self, http: BusHttp, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._http = http
        self._loop = loop
        self.broker = broker

    def __call__(
        self,
        method: str,
        raw_path: str,
        body: bytes = b"",
        *,
        query: str = "",
        headers: dict[str, str] | None = None,
    ) -> Response:
        request = Request(
            method=method,
            raw_path=raw_path,
            raw_query=query,
            headers={"host": "localhost", **(headers or {})},
            body=Body(body),
        )
        return self._loop.run_until_complete(self._http.handle(request))

    def put(self, path: str, content: str, *, version: str = "2024-05", **headers: str) -> Response:
        """Create (or, with `if_match`, update) what an XxxDescription describes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        query = f"api-version={version}"
        return self("PUT", quote("/" + path), entry(content), query=query, headers=named)


def entry(content: str) -> bytes:
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f"{content}</content></entry>"
    ).encode("utf-8", "surrogatepass")


def whole(answer: Response) -> bytes:
    assert isinstance(answer.body, bytes)
    return answer.body


@contextmanager
def calling() -> Iterator[Caller]:
    loop = asyncio.new_event_loop()
    clock, entropy = VirtualClock(), SystemEntropy()

    async def start() -> tuple[Broker, Timers]:
        timers, codec = Timers(clock), AmqpSections()
        return await Broker.open(MemoryEngine(clock), clock, entropy, codec, timers), timers

    broker, timers = loop.run_until_complete(start())
    access = Access(lambda _path, _name: None, clock, check=False)
    http = BusHttp(
        BusAdmin(broker, access, clock, entropy),
        BusRest(broker, access, AmqpSections(), clock, entropy),
    )
    try:
        yield Caller(http, broker, loop)
    finally:
        loop.run_until_complete(broker.close())
        timers.close()
        loop.close()
