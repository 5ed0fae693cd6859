"""The Service Bus part of a server: one broker, three ports, in the first process.

Every port takes AMQP, WebSockets and HTTP, with TLS and without, told apart by the first bytes; the
three port numbers are those that clients expect each of them at.
"""

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from etagere.app.bus_http import BusHttp
from etagere.app.bus_metrics import bus_lines
from etagere.app.configuration import Unusable
from etagere.app.foundation import Foundation
from etagere.app.observed import Observed
from etagere.app.ports import bus_ports
from etagere.app.process import Process, make_tls
from etagere.app.settings import Settings
from etagere.auth.bus_sas import SasRule
from etagere.base.errors import Refused
from etagere.frontends.bus_admin.access import Access
from etagere.frontends.bus_admin.service import BusAdmin
from etagere.frontends.bus_amqp.cbs import TokenPolicy
from etagere.frontends.bus_amqp.connection import BusServer
from etagere.frontends.bus_rest.service import BusRest
from etagere.frontends.common.message import Request, Response
from etagere.servers.amqp import AmqpServer
from etagere.servers.http import HttpConnection
from etagere.servers.websocket import bus_upgrader
from etagere.services.bus import config_file
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
)
from etagere.services.bus.sections import AmqpSections

certificates_directory: Final = "certificates"
stop_seconds_max: Final = 5.0


class Bus:
    """Made by `start`."""

    def __init__(self, foundation: Foundation, process: Process) -> None:
        settings = foundation.settings
        self._foundation = foundation
        self._process = process
        self._name, self._namespace = next(iter(settings.namespaces.items()))
        self._rules = {
            rule.name: SasRule(rule.name, frozenset(rule.rights), rule.key)
            for rule in self._namespace.rules
        }
        self._codec = AmqpSections()
        self.broker: Broker
        self._handler: BusHttp
        self._amqp: AmqpServer

    @classmethod
    async def start(cls, foundation: Foundation, process: Process) -> "Bus":
        """On the ports that the process has bound for it."""
        bus = cls(foundation, process)
        await bus._open()
        bus._serve(process.tls or _local_tls(foundation.settings))
        return bus

    async def _open(self) -> None:
        """A broker on the store as it is, and everything that speaks for it."""
        at = self._foundation
        self.broker = await Broker.open(
            at.engine,
            at.clock,
            at.entropy,
            self._codec,
            at.timers,
            namespace=self._name,
            tier=Tier(self._namespace.tier),
        )
        if at.settings.bus_config is not None:
            await self._apply(at.settings.bus_config)
        # Bearer tokens as emulators take them; they are not verified here.
        trust = at.settings.oauth == "basic"
        shared = BusServer(
            self.broker,
            at.clock,
            at.entropy,
            TokenPolicy(self._find_rule, trust_bearer=trust),
            wall=at.wall,
        )
        if hasattr(self, "_amqp"):
            self._amqp.bus = shared
        else:
            self._amqp = AmqpServer(shared, at.clock, at.timers)
        access = Access(self._find_rule, at.wall, trust_bearer=trust)
        self._handler = BusHttp(
            BusAdmin(self.broker, access, at.clock, at.entropy),
            BusRest(self.broker, access, self._codec, at.clock, at.entropy),
        )

    async def _apply(self, path: Path) -> None:
        try:
            for namespace in config_file.read(_read(path)):
                await config_file.apply(self.broker.administration, namespace)
        except Refused as refused:
            raise Unusable(f"--bus-config {path}: {refused.message or refused.code}") from refused

    def _serve(self, tls: ssl.SSLContext | None) -> None:
        at, process = self._foundation, self._process
        upgrader = bus_upgrader(self._amqp)
        observed = Observed("bus", self, at.metrics, at.faults)

        def http() -> asyncio.Protocol:
            return cast("asyncio.Protocol", HttpConnection(observed, process.http, upgrader))

        for name in bus_ports(at.settings, process.tls):
            self._amqp.serve(process.ports.take(name), tls=tls, http=http)

    async def handle(self, request: Request) -> Response:
        """HTTP on any of the ports."""
        return await self._handler.handle(request)

    def _find_rule(self, path: str, name: str) -> SasRule | None:
        """The rule of exactly this path; the empty path is the namespace's."""
        if not path:
            return self._rules.get(name)
        with suppress(Refused):
            description = self.broker.administration.get(path).description
            if not isinstance(description, SubscriptionDescription):
                return _rule_of(description, name)
        return None

    def metrics(self) -> Iterable[str]:
        return bus_lines(self.broker.administration, self._amqp.connections)

    async def reset(self) -> None:
        """After the store has forgotten everything: links are detached, and a new broker begins."""
        await self.broker.close()
        await self._open()

    async def stop(self) -> None:
        await self._amqp.stop(stop_seconds_max)
        await self.broker.close()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unusable(
            f"--bus-config {path} cannot be read ({error.strerror}); check the path."
        ) from error


def _rule_of(description: QueueDescription | TopicDescription, name: str) -> SasRule | None:
    for rule in description.authorization_rules:
        if rule.name == name:
            return SasRule(name, frozenset(rule.rights), rule.primary_key, rule.secondary_key)
    return None


def _local_tls(settings: Settings) -> ssl.SSLContext | None:
    """A certificate of a local authority, made on first start and again before it ends: the SDKs'
    administration clients speak HTTPS whatever they are told.  A server in memory has nowhere to
    keep one."""
    if settings.in_memory:
        return None
    from etagere.app.certificates import is_due, make_files  # noqa: PLC0415 - slow to import

    folder = settings.data / certificates_directory
    certificate, key = folder / "localhost.pem", folder / "localhost-key.pem"
    if not is_due(certificate):
        with suppress(Unusable):  # a start that was killed may have left half of the pair
            return make_tls(certificate, key)
    folder.mkdir(parents=True, exist_ok=True)
    make_files(folder)
    return make_tls(certificate, key)
