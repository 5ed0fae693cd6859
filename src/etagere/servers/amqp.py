"""Service Bus on sockets: AMQP, TLS and HTTP (with WebSockets) on one port, told apart by their
first bytes.

SDKs put one port into a connection string and use it for different protocols, so every port of the
bus takes all of them.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from etagere.base.clock import Timestamp
from etagere.frontends.bus_amqp.connection import BusConnection, BusServer
from etagere.servers.http.server import Listener, bind
from etagere.servers.real import SteadyClock, TimerClock
from etagere.servers.shortage import Shortage
from etagere.servers.timers import Alarm, Timers

_log: Final = logging.getLogger(__name__)
_tls_handshake: Final = 0x16
_amqp_start: Final = b"AMQP"


@dataclass(frozen=True, slots=True)
class SocketLimits:
    connections_max: int = 5_000
    first_bytes_seconds_max: float = 20.0
    """Until a client has said which protocol it speaks."""
    tls_handshake_seconds_max: float = 10.0
    output_bytes_high: int = 1_048_576
    """Unwritten; above it no more messages are delivered."""
    output_bytes_max: int = 8_388_608
    """Unwritten; above it the client is not read from any more."""
    held_bytes_max: int = 33_554_432
    """Of messages received and not stored yet; above it the client is not read from any more."""
    drained_bytes_max: int = 1_048_576
    """Read after a write failed: what the client said before it left."""
    goodbye_seconds_max: float = 5.0
    """For a client to take what it was sent last, before its socket is closed under it."""


class Transport(Protocol):
    """What a connection needs of `asyncio.Transport`; WebSockets have it too."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool: ...

    def get_write_buffer_size(self) -> int: ...

    def set_write_buffer_limits(self, high: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class AmqpServer:
    """All connections to one bus, over any number of ports."""

    def __init__(
        self,
        bus: BusServer,
        clock: TimerClock,
        timers: Timers,
        limits: SocketLimits | None = None,
    ) -> None:
        self.bus = bus
        self.clock = clock
        self.timers = timers
        self.steady = SteadyClock()
        self.steady_timers = Timers(self.steady)
        self.limits = SocketLimits() if limits is None else limits
        self.stopping = False
        self._ports: list[_Port] = []
        self.shortage = Shortage()
        self._connections: set[AmqpConnection] = set()
        self._all_closed: asyncio.Future[None] | None = None

    async def listen(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        http: Callable[[], asyncio.Protocol] | None = None,
    ) -> Listener:
        """`http` makes the protocol for a connection that begins with something else."""
        bound = bind(host, port)
        self.serve(bound, tls=tls, http=http)
        return Listener(host, bound.getsockname()[1])

    def serve(
        self,
        bound: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        http: Callable[[], asyncio.Protocol] | None = None,
    ) -> None:
        """On a socket from `bind`, which is the server's to close from now on."""
        self._ports.append(_Port(self, bound, tls, http))

    async def stop(self, grace_seconds: float) -> None:
        """No new connections; a goodbye to those that are, and some time for them to answer."""
        self.stopping = True
        for port in self._ports:
            port.close()
        for connection in list(self._connections):
            connection.shut_down()
        if self._connections:
            self._all_closed = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._all_closed,), timeout=grace_seconds)
        for connection in list(self._connections):
            connection.abort()
        self.steady_timers.close()

    @property
    def connections(self) -> int:
        return len(self._connections)

    def opened(self, connection: "AmqpConnection") -> bool:
        if self.stopping:
            return False
        if len(self._connections) >= self.limits.connections_max:
            self.shortage.turned_away(self.limits.connections_max)
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: "AmqpConnection") -> None:
        self._connections.discard(connection)
        waiter = self._all_closed
        if not self._connections and waiter is not None and not waiter.done():
            waiter.set_result(None)


class _Port:
    """A listening socket, and the connections that have not said yet what they speak."""

    def __init__(
        self,
        server: AmqpServer,
        bound: socket.socket,
        tls: ssl.SSLContext | None,
        http: Callable[[], asyncio.Protocol] | None,
    ) -> None:
        self._server = server
        self._socket = bound
        self._tls = tls
        self._http = http
        self._waiting: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._accepting = loop.create_task(self._accept())

    def close(self) -> None:
        self._accepting.cancel()
        for task in self._waiting:
            task.cancel()
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                # Out of descriptors, or a client that is gone already: neither lasts.
                self._server.shortage.failed(error)
                await asyncio.sleep(0.1)
                continue
            if len(self._waiting) >= self._server.limits.connections_max:
                self._server.shortage.turned_away(self._server.limits.connections_max)
                client.close()
                continue
            task = loop.create_task(self._welcome(client))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _welcome(self, client: socket.socket) -> None:
        """Look at the first byte without taking it: TLS has to see it too."""
        loop = asyncio.get_running_loop()
        limits = self._server.limits
        handed_over = False
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(limits.first_bytes_seconds_max):
                first = await _peek(client)
            if not first:
                return
            tls = self._tls if first[0] == _tls_handshake else None
            handed_over = True
            await loop.connect_accepted_socket(
                lambda: cast("asyncio.Protocol", FirstBytes(self._server, self._http)),
                client,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else limits.tls_handshake_seconds_max,
            )
        except (OSError, TimeoutError):
            return  # the client's affair
        finally:
            if not handed_over:
                client.close()


async def _peek(client: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    while True:
        try:
            return client.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            pass
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(client.fileno(), _set, readable)
        try:
            await readable
        finally:
            loop.remove_reader(client.fileno())


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class FirstBytes:
    """An `asyncio.Protocol` that decides between AMQP and HTTP, then steps aside."""

    def __init__(self, server: AmqpServer, http: Callable[[], asyncio.Protocol] | None) -> None:
        self._server = server
        self._http = http
        self._transport = cast("asyncio.Transport", None)
        self._timer: asyncio.TimerHandle | None = None
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        seconds = self._server.limits.first_bytes_seconds_max
        self._timer = asyncio.get_running_loop().call_later(seconds, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        start = self._seen[: len(_amqp_start)]
        if _amqp_start.startswith(start) and len(start) < len(_amqp_start):
            return
        self._stop_timer()
        chosen: asyncio.Protocol
        if start == _amqp_start or self._http is None:
            chosen = cast("asyncio.Protocol", AmqpConnection(self._server))
        else:
            chosen = self._http()
        seen, self._seen = self._seen, b""
        self._transport.set_protocol(chosen)
        chosen.connection_made(self._transport)
        chosen.data_received(seen)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever it was
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AmqpConnection:
    """An `asyncio.Protocol`: a socket with a `BusConnection` behind it, whose `Host` it is."""

    def __init__(self, server: AmqpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport = cast("Transport", None)
        self._bus = cast("BusConnection", None)
        self._jobs: set[asyncio.Task[None]] = set()
        self._flush_asked = False
        self._reading_paused = False
        self._lost = False
        self._goodbye: asyncio.TimerHandle | None = None
        self.congested = False

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("Transport", transport)
        if not self._server.opened(self):
            self._transport.abort()
            return
        limits = self._server.limits
        self._transport.set_write_buffer_limits(high=limits.output_bytes_high)
        certified = False
        peer = transport.get_extra_info("ssl_object")
        if peer is not None:
            certified = bool(peer.getpeercert())
        now = self._server.clock.now()
        self._bus = BusConnection(self._server.bus, self, now, certified=certified)

    def data_received(self, data: bytes) -> None:
        if self._lost:
            return
        try:
            self._bus.receive(data, self._server.clock.now())
        except Exception:  # noqa: BLE001 - a mistake of ours ends one connection, not the server
            _log.exception("connection failed")
            self._transport.abort()
            return
        self.flush()

    def eof_received(self) -> bool:
        self._lose()
        self._part()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._lost:
            self._drain()
        self._lose()
        if self._goodbye is not None:
            self._goodbye.cancel()
        self._server.closed(self)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False
        if not self._lost:
            self._bus.uncongested()
            self.flush()

    def _lose(self) -> None:
        if self._lost or self._bus is None:
            return
        self._lost = True
        try:
            self._bus.lost(self._server.clock.now())
        except Exception:  # noqa: BLE001 - as above
            _log.exception("connection failed at its end")
        for job in list(self._jobs):
            job.cancel()

    def _drain(self) -> None:
        """A write failed because the client is gone: hear what it said before.

        pyAMQP settles, detaches and closes without waiting for an answer.  The kernel still has
        those bytes, and what they say decides about locks.  (Over TLS they cannot be had.)
        """
        if self._transport.get_extra_info("sslcontext") is not None:
            return
        bound = self._transport.get_extra_info("socket")
        if bound is None:
            return
        left = self._server.limits.drained_bytes_max
        try:
            with socket.socket(fileno=os.dup(bound.fileno())) as rest:
                rest.setblocking(False)
                while left > 0 and (data := rest.recv(65_536)):
                    left -= len(data)
                    self._bus.receive(data, self._server.clock.now())
        except OSError:
            return
        except Exception:  # noqa: BLE001 - as above
            _log.exception("connection failed at its end")

    # ---- the server's side

    def shut_down(self) -> None:
        if not self._lost:
            self._bus.shut_down()
            self.flush()

    def abort(self) -> None:
        self._transport.abort()

    # ---- `Host`

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        job = self._loop.create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._done)
        return job

    def _done(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if not job.cancelled() and job.exception() is not None:
            _log.error("a request failed", exc_info=job.exception())
            self._transport.abort()

    def at(self, when: Timestamp, callback: Callable[[], None]) -> Alarm:
        return self._server.timers.at(when, callback)

    def steady_now(self) -> Timestamp:
        return self._server.steady.now()

    def at_steady(self, when: Timestamp, callback: Callable[[], None]) -> Alarm:
        return self._server.steady_timers.at(when, callback)

    def wake(self) -> None:
        if not self._flush_asked:
            self._flush_asked = True
            self._loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._flush_asked = False
        self.flush()

    def flush(self) -> None:
        """Everything that there is to say, in one write."""
        if self._lost:
            return
        bus = self._bus
        transport = self._transport
        data = bus.data_to_send()
        if data:
            transport.write(data)
            bus.written()
        if bus.finished:
            self._part()
            return
        self._check_pressure()

    def _part(self) -> None:
        """Everything is said.  A client that takes none of it keeps no socket by that."""
        if self._goodbye is None:
            self._transport.close()
            seconds = self._server.limits.goodbye_seconds_max
            self._goodbye = self._loop.call_later(seconds, self._transport.abort)

    def _check_pressure(self) -> None:
        limits = self._server.limits
        full = (
            self._bus.held_bytes > limits.held_bytes_max
            or self._transport.get_write_buffer_size() > limits.output_bytes_max
        )
        if full is self._reading_paused or self._transport.is_closing():
            return
        self._reading_paused = full
        if full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
