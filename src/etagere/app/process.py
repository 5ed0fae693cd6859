"""One process of a server: its foundation, its services, its listeners, and what it is told."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from etagere.app.compose import StorageService, compose
from etagere.app.configuration import Unusable, to_account
from etagere.app.foundation import Foundation, lay
from etagere.app.settings import AccountEntry, Settings
from etagere.servers.faults import Armed
from etagere.servers.http import Handler, HttpLimits, HttpServer
from etagere.servers.http.server import CannotListen
from etagere.servers.real import TimerClock, VirtualClock

stop_seconds_max: Final = 20.0
"""Work in hand gets this long to finish."""


class Process:
    def __init__(self, settings: Settings, clock: TimerClock) -> None:
        self.settings = settings
        self.foundation: Foundation = lay(settings, clock)
        self.services: list[StorageService] = compose(self.foundation)
        self.http = HttpServer(HttpLimits())
        self.tls = make_tls(settings.tls_cert, settings.tls_key)

    async def listen(self, ports: Mapping[str, int], *, shared: bool) -> dict[str, int]:
        """Start the storage services; returns the ports that they got."""
        bound = {}
        for service in self.services:
            port = ports[service.name]
            bound[service.name] = await self.listen_with(
                service.handler, self.settings.host, port, f"--{service.name}-port", shared=shared
            )
        return bound

    async def listen_with(
        self, handler: Handler, host: str, port: int, flag: str, *, shared: bool = False
    ) -> int:
        try:
            listener = await self.http.listen(handler, host, port, tls=self.tls, shared_port=shared)
        except CannotListen as error:
            raise Unusable(f"{flag}: {error}") from error
        return listener.port

    async def stop(self) -> None:
        await self.http.stop(stop_seconds_max)
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

    async def _metrics(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        del fields
        return self.foundation.metrics.snapshot()

    _commands: Final[Mapping[str, Callable[["Process", Mapping[str, Any]], Awaitable[Any]]]] = {
        "move_clock": _move_clock,
        "put_account": _put_account,
        "remove_account": _remove_account,
        "arm": _arm,
        "disarm": _disarm,
        "clear_faults": _clear_faults,
        "fault_hits": _fault_hits,
        "metrics": _metrics,
    }


def make_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None or key is None:
        return None
    for flag, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            path.open("rb").close()
        except OSError as error:
            raise Unusable(f"{flag} {path} cannot be read ({error.strerror}).") from error
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
