"""Listeners and the connections they bring, from start to a stop that loses no answer."""

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass
from typing import Final, cast

from etagere.servers.http.connection import Handler, HttpConnection, Upgrader
from etagere.servers.http.limits import HttpLimits

_backlog: Final = 2048
tls_handshake_seconds_max: Final = 10.0


class CannotListen(Exception):  # noqa: N818 - a message for people
    """A port that cannot be had, in one line that names it and what to do."""


@dataclass(frozen=True, slots=True)
class Listener:
    host: str
    port: int
    """The port in use, also where port 0 was asked for."""


class HttpServer:
    """Any number of listeners in one process."""

    def __init__(self, limits: HttpLimits | None = None) -> None:
        self.limits = HttpLimits() if limits is None else limits
        self.stopping = False
        self._connections: set[HttpConnection] = set()
        self._servers: list[asyncio.Server] = []
        self._all_closed: asyncio.Future[None] | None = None

    async def listen(
        self,
        handler: Handler,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        shared_port: bool = False,
        upgrader: Upgrader | None = None,
    ) -> Listener:
        """`shared_port`: other processes of this server listen on the port too."""
        bound = bind(host, port, shared_port=shared_port)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: cast("asyncio.Protocol", HttpConnection(handler, self, upgrader)),
            sock=bound,
            backlog=_backlog,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else tls_handshake_seconds_max,
        )
        self._servers.append(server)
        return Listener(host, bound.getsockname()[1])

    async def stop(self, grace_seconds: float) -> None:
        """No new connections, work in hand finished, then everything closed."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.stop()
        if self._connections:
            self._all_closed = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._all_closed,), timeout=grace_seconds)
        for connection in list(self._connections):
            connection.abort()

    # ---- `Owner` of the connections

    def opened(self, connection: HttpConnection) -> bool:
        if self.stopping or len(self._connections) >= self.limits.connections_max:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        waiter = self._all_closed
        if not self._connections and waiter is not None and not waiter.done():
            waiter.set_result(None)


def bind(host: str, port: int, *, shared_port: bool = False) -> socket.socket:
    """A bound socket; one that other processes share is first shown to be nobody else's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotListen(
            f"host {host!r} cannot be resolved ({error.strerror}); set --host."
        ) from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared_port:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        why = (
            "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        )
        raise CannotListen(f"port {port} on {host} {why}; choose another one.") from error
    bound.setblocking(False)
    return bound
