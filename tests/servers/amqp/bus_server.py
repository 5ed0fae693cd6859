"""A whole bus in this process: the real broker on a store in memory, behind sockets."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from etagere.auth.bus_sas import SasRule, listen, manage, send
from etagere.base.clock import seconds
from etagere.frontends.bus_amqp.cbs import TokenPolicy
from etagere.frontends.bus_amqp.connection import BusServer
from etagere.frontends.bus_amqp.idle import IdleLimits
from etagere.frontends.common.message import Request, Response
from etagere.kv.engines.memory import MemoryEngine
from etagere.protocols.amqp.limits import Limits
from etagere.servers.amqp import AmqpServer, SocketLimits
from etagere.servers.http.connection import HttpConnection
from etagere.servers.http.server import HttpServer
from etagere.servers.real import RealClock, SystemEntropy, VirtualClock
from etagere.servers.timers import Timers
from etagere.servers.websocket import bus_upgrader
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
)
from etagere.services.bus.sections import AmqpSections

T = TypeVar("T")

root = SasRule("RootManageSharedAccessKey", frozenset((manage, send, listen)), "SAS_KEY_VALUE")
sender_only = SasRule("sender", frozenset((send,)), "SENDER_KEY")
listener_only = SasRule("listener", frozenset((listen,)), "LISTENER_KEY")
rules = {
    ("", root.name): root,
    ("", sender_only.name): sender_only,
    ("", listener_only.name): listener_only,
    ("other", "entity"): SasRule("entity", frozenset((send, listen)), "ENTITY_KEY"),
}


@dataclass
class Bus:
    port: int
    clock: VirtualClock
    broker: Broker
    server: AmqpServer
    loop: asyncio.AbstractEventLoop

    def connection_string(self, rule: SasRule = root, entity: str | None = None) -> str:
        text = (
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName={rule.name};"
            f"SharedAccessKey={rule.primary_key};UseDevelopmentEmulator=true;"
        )
        return text + (f"EntityPath={entity};" if entity else "")

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Something on the server's loop, from another thread."""
        return asyncio.run_coroutine_threadsafe(make(), self.loop).result(30)

    def queue(self, name: str, **properties: Any) -> str:
        description = QueueDescription(name=name, **_ticks(properties))
        self.run(lambda: self.broker.administration.create(description))
        return name

    def topic(self, name: str, *subscriptions: str, **properties: Any) -> str:
        self.run(lambda: self.broker.administration.create(TopicDescription(name=name)))
        for subscription in subscriptions:
            described = SubscriptionDescription(name=subscription, **_ticks(properties))
            self.run(
                lambda one=described: self.broker.administration.create_subscription(name, one)
            )
        return name

    def advance(self, count: float) -> None:
        """Move the server's clock."""

        async def move() -> None:
            self.clock.advance(seconds(count))

        self.run(move)


class NoPages:
    """What HTTP requests other than upgrades get."""

    async def handle(self, request: Request) -> Response:
        return Response(404, headers={}, body=b"")


def _ticks(properties: dict[str, Any]) -> dict[str, Any]:
    durations = ("lock_duration", "default_ttl", "duplicate_window", "auto_delete_on_idle")
    return {
        name: seconds(value) if name in durations else value for name, value in properties.items()
    }


async def start(
    *,
    check: bool = True,
    idle: IdleLimits | None = None,
    limits: Limits | None = None,
    sockets: SocketLimits | None = None,
    tls: ssl.SSLContext | None = None,
    wall: RealClock | None = None,
    tier: Tier = Tier.standard,
) -> Bus:
    clock, entropy = VirtualClock(), SystemEntropy()
    timers = Timers(clock)
    engine = MemoryEngine(clock)
    broker = await Broker.open(engine, clock, entropy, AmqpSections(), timers, tier=tier)
    policy = TokenPolicy(lambda path, name: rules.get((path, name)), check=check)
    shared = BusServer(
        broker, clock, entropy, policy, limits=limits, idle=idle or IdleLimits(), wall=wall
    )
    server = AmqpServer(shared, clock, timers, sockets)
    web = HttpServer()
    upgrader = bus_upgrader(server)
    listener = await server.listen(
        "127.0.0.1",
        0,
        tls=tls,
        http=lambda: cast("asyncio.Protocol", HttpConnection(NoPages(), web, upgrader)),
    )
    return Bus(listener.port, clock, broker, server, asyncio.get_running_loop())


async def stop(bus: Bus) -> None:
    await bus.server.stop(1)
    await bus.broker.close()
    bus.server.timers.close()


class BusThread:
    """The bus on a loop of its own, for clients that block."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._started: threading.Event = threading.Event()
        self._stop: asyncio.Event
        self._failure: BaseException | None = None
        self.bus: Bus
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    async def _main(self) -> None:
        try:
            self._stop = asyncio.Event()
            self.bus = await start(**self._options)
        except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
            self._failure = failure
            self._started.set()
            return
        self._started.set()
        await self._stop.wait()
        await stop(self.bus)

    def __enter__(self) -> Bus:
        self._thread.start()
        self._started.wait(10)
        if self._failure is not None:
            raise self._failure
        return self.bus

    def __exit__(self, *_: object) -> None:
        self.bus.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()


__all__ = ["Bus", "BusThread", "RealClock", "listener_only", "root", "sender_only", "start", "stop"]
