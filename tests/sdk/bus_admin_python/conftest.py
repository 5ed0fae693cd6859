"""A namespace behind HTTPS, for the administration client and for HTTP senders and receivers."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from etagere.app.bus_http import BusHttp
from etagere.app.certificates import make_files
from etagere.auth.bus_sas import SasRule, listen, manage, send
from etagere.base.clock import seconds
from etagere.frontends.bus_admin.access import Access
from etagere.frontends.bus_admin.service import BusAdmin
from etagere.frontends.bus_rest.service import BusRest
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.http import HttpServer
from etagere.servers.real import SystemEntropy, VirtualClock
from etagere.servers.timers import Timers
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.sections import AmqpSections

root = SasRule("RootManageSharedAccessKey", frozenset((manage, send, listen)), "SAS_KEY_VALUE")
listener = SasRule("listener", frozenset((listen,)), "LISTENER_KEY")
_rules = {("", rule.name): rule for rule in (root, listener)}


@dataclass
class Namespace:
    port: int
    plain_port: int
    authority: str
    """The file of the certificate that signed the server's."""
    broker: Broker
    clock: VirtualClock
    loop: asyncio.AbstractEventLoop

    def connection_string(self, rule: SasRule = root) -> str:
        return (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={rule.name};"
            f"SharedAccessKey={rule.primary_key};UseDevelopmentEmulator=true;"
        )

    def run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run_coroutine_threadsafe(make(), self.loop).result(30)

    def advance(self, count: float) -> None:
        async def move() -> None:
            self.clock.advance(seconds(count))

        self.run(move)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return make_files(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def tier() -> Tier:
    return Tier.standard


@pytest.fixture
def namespace(certificate: tuple[Path, Path, Path], tier: Tier) -> Iterator[Namespace]:
    authority, cert, key = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    clock, entropy = VirtualClock(), SystemEntropy()
    server = HttpServer()

    async def start() -> tuple[Broker, Timers, int, int]:
        timers = Timers(clock)
        codec = AmqpSections()
        engine = MemoryEngine(clock)
        broker = await Broker.open(engine, clock, entropy, codec, timers, tier=tier)
        access = Access(lambda path, name: _rules.get((path, name)), clock)
        http = BusHttp(
            BusAdmin(broker, access, clock, entropy),
            BusRest(broker, access, codec, clock, entropy),
        )
        secure = await server.listen(http, "127.0.0.1", 0, tls=context)
        plain = await server.listen(http, "127.0.0.1", 0)
        return broker, timers, secure.port, plain.port

    broker, timers, port, plain_port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    yield Namespace(port, plain_port, str(authority), broker, clock, loop)

    async def stop() -> None:
        await server.stop(1)
        await broker.close()
        timers.close()

    asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
