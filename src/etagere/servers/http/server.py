"""Listeners and the connections they bring, from start to a stop that loses no answer."""

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final, cast

from etagere.servers.http.connection import Handler, HttpConnection, Upgrader
from etagere.servers.http.limits import HttpLimits
from etagere.servers.shortage import Shortage

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
        self._shortage = Shortage()
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
        await self.serve(handler, bound, tls=tls, upgrader=upgrader)
        return Listener(host, bound.getsockname()[1])

    async def serve(
        self,
        handler: Handler,
        bound: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        upgrader: Upgrader | None = None,
    ) -> None:
        """On a socket from `bind`, which is the server's to close from now on."""
        server = await asyncio.get_running_loop().create_server(
            lambda: cast("asyncio.Protocol", HttpConnection(handler, self, upgrader)),
            sock=bound,
            backlog=_backlog,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else tls_handshake_seconds_max,
        )
        self._servers.append(server)

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

    @property
    def connections(self) -> int:
        return len(self._connections)

    # ---- `Owner` of the connections

    def opened(self, connection: HttpConnection, transport: asyncio.BaseTransport) -> bool:
        self._shortage.opened(transport)
        if self.stopping:
            return False
        if len(self._connections) >= self.limits.connections_max:
            self._shortage.turned_away(self.limits.connections_max)
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        waiter = self._all_closed
        if not self._connections and waiter is not None and not waiter.done():
            waiter.set_result(None)


def bind(
    host: str, port: int, *, shared_port: bool = False, joining: bool = False
) -> socket.socket:
    """A listening socket.

    Processes that share a port all say so.  The system would let any other server of the same user
    join them; so the first one, which is not `joining`, sees to it that nobody is there.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotListen(
            f"host {host!r} cannot be resolved ({error.strerror}); set --host."
        ) from error
    try:
        if shared_port and not joining:
            _bound(family, kind, protocol, address, shared=False).close()
        bound = _bound(family, kind, protocol, address, shared=shared_port)
    except OSError as error:
        why = (
            "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        )
        raise CannotListen(f"port {port} on {host} {why}; choose another one.") from error
    bound.listen(_backlog)
    return bound


def _bound(
    family: int, kind: int, protocol: int, address: tuple[Any, ...], *, shared: bool
) -> socket.socket:
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
