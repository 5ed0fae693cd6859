"""One process of a server: its foundation, its services, its listeners, and what it is told."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from etagere.app.compose import StorageService, compose
from etagere.app.configuration import Unusable, to_account
from etagere.app.foundation import Foundation, lay
from etagere.app.ports import Ports
from etagere.app.settings import AccountEntry, Settings
from etagere.app.store_metrics import store_snapshot
from etagere.servers.faults import Armed
from etagere.servers.http import Handler, HttpLimits, HttpServer
from etagere.servers.real import TimerClock, VirtualClock

stop_seconds_max: Final = 20.0
"""Work in hand gets this long to finish."""


class Process:
    def __init__(self, settings: Settings, clock: TimerClock) -> None:
        self.settings = settings
        self.foundation: Foundation = lay(settings, clock)
        self.tls = make_tls(settings.tls_cert, settings.tls_key)
        self.http = HttpServer(HttpLimits())
        self.ports = Ports()
        self.services: list[StorageService] = []

    def bind(self, numbers: Mapping[str, int], *, shared: bool, joining: bool = False) -> None:
        """Take the ports of the storage services."""
        for name, number in numbers.items():
            host = self.settings.host
            self.ports.bind(name, f"{name}_port", host, number, shared=shared, joining=joining)

    async def furnish(self) -> None:
        """Load the storage services and let them serve.  Between two of them the loop gets on."""
        for service in compose(self.foundation):
            self.services.append(service)
            await self.serve(service.name, service.handler)
            await asyncio.sleep(0)

    async def serve(self, name: str, handler: Handler) -> None:
        await self.http.serve(handler, self.ports.take(name), tls=self.tls)

    async def refuse(self) -> None:
        """Nothing new from now on; until what is in hand is answered."""
        self.ports.close()
        await self.http.stop(stop_seconds_max)

    async def stop(self) -> None:
        await self.refuse()
        await self.foundation.close()

    async def obey(self, command: str, fields: Mapping[str, Any]) -> Any:
        """Do what every process of a server has to do when one of them is told."""
        return await self._commands[command](self, fields)

    async def _move_clock(self, fields: Mapping[str, Any]) -> None:
        """The time itself lies in shared memory; whoever sleeps here has to look at it."""
        del fields
        if isinstance(self.foundation.clock, VirtualClock):
            self.foundation.clock.moved()

    async def _put_account(self, fields: Mapping[str, Any]) -> None:
        entry = msgspec.convert(fields["entry"], AccountEntry)
        self.foundation.accounts.put(to_account(fields["name"], entry))

    async def _remove_account(self, fields: Mapping[str, Any]) -> None:
        self.foundation.accounts.remove(fields["name"])

    async def _arm(self, fields: Mapping[str, Any]) -> None:
        self.foundation.faults.arm(Armed(**fields))

    async def _disarm(self, fields: Mapping[str, Any]) -> bool:
        return self.foundation.faults.disarm(fields["id"])

    async def _clear_faults(self, fields: Mapping[str, Any]) -> None:
        del fields
        self.foundation.faults.clear()

    async def _fault_hits(self, fields: Mapping[str, Any]) -> list[tuple[int, int]]:
        del fields
        return [(fault.id, fault.hits) for fault in self.foundation.faults.armed()]

    async def _reload_certificate(self, fields: Mapping[str, Any]) -> None:
        """For handshakes from now on.  A pair that does not fit is found before it is taken."""
        del fields
        certificate, key = self.settings.tls_cert, self.settings.tls_key
        if self.tls is None or certificate is None or key is None:
            return
        make_tls(certificate, key)
        self.tls.load_cert_chain(certificate, key, password="")

    async def _metrics(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        del fields
        at = self.foundation
        return {
            "requests": at.metrics.snapshot(),
            "store": store_snapshot(at.engine),
            "connections": self.http.connections,
        }

    _commands: Final[Mapping[str, Callable[["Process", Mapping[str, Any]], Awaitable[Any]]]] = {
        "move_clock": _move_clock,
        "put_account": _put_account,
        "remove_account": _remove_account,
        "arm": _arm,
        "disarm": _disarm,
        "clear_faults": _clear_faults,
        "fault_hits": _fault_hits,
        "reload_certificate": _reload_certificate,
        "metrics": _metrics,
    }


def make_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None or key is None:
        return None
    for flag, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            path.open("rb").close()
        except OSError as error:
            raise Unusable(
                f"{flag} {path} cannot be read ({error.strerror}); check the path."
            ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise Unusable(
            f"--tls-cert {certificate} and --tls-key {key} are no PEM certificate and its key; "
            "`etagere cert DIR` makes such a pair."
        ) from error
    return context
