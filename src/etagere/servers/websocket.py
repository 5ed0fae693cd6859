"""AMQP in WebSockets (OASIS, "AMQP WebSocket Binding"; Service Bus has its own path and name)."""

import asyncio
from typing import Any, Final, cast
from urllib.parse import unquote

from etagere.frontends.common.message import Request
from etagere.protocols.websocket import (
    WebSocket,
    WebSocketFault,
    accept_headers,
    binary,
    close_frame,
    frame,
    normal,
)
from etagere.servers.amqp import AmqpConnection, AmqpServer
from etagere.servers.http.connection import Upgrade, Upgrader

path: Final = "/$servicebus/websocket"
subprotocols: Final = ("AMQPWSB10", "amqp")
"""The service's own name, and the standard's, which Go's documentation has."""


def bus_upgrader(server: AmqpServer) -> Upgrader:
    """For an `HttpConnection` on a port of the bus."""

    def upgrade(request: Request) -> Upgrade | None:
        asked = unquote(request.raw_path).rstrip("/").casefold()
        if request.method != "GET" or asked != path:
            return None
        headers = accept_headers(request.headers, subprotocols)
        if headers is None:
            return None
        return Upgrade(headers, cast("asyncio.Protocol", WebSocketTransport(server)))

    return upgrade


class WebSocketTransport:
    """To the socket a protocol, to an `AmqpConnection` a transport."""

    def __init__(self, server: AmqpServer) -> None:
        self._inner = AmqpConnection(server)
        self._socket = WebSocket()
        self._transport = cast("asyncio.Transport", None)
        self._closing = False

    # ---- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(cast("asyncio.Transport", self))

    def data_received(self, data: bytes) -> None:
        try:
            payload = self._socket.receive_data(data)
        except WebSocketFault as fault:
            self._transport.write(close_frame(fault.code))
            self._closing = True
            self._inner.eof_received()
            return
        if payload:
            self._inner.data_received(payload)
        answers = self._socket.data_to_send()
        if answers and not self._transport.is_closing():
            self._transport.write(answers)
        if self._socket.closed:
            self._closing = True
            self._inner.eof_received()

    def eof_received(self) -> bool:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # ---- the connection's side

    def write(self, data: bytes) -> None:
        if not self._closing:
            self._transport.write(frame(binary, data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._transport.write(close_frame(normal))
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high=high)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # What the kernel still has of a broken socket are frames, which nobody would take apart.
        return default if name == "socket" else self._transport.get_extra_info(name, default)
