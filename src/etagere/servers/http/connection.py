"""One HTTP/1.1 connection: bytes in, requests to a handler one after another, responses out.

Reading and answering are apart.  The reader puts requests in a queue; one task takes them from it
in order.  Neither runs ahead of the other without bound: while a request waits behind the one in
hand, or while much of a body waits for its handler, the socket is not read.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from etagere.frontends.common.message import ClientGone, EmptyBody, Request, Response
from etagere.servers.http.body import IncomingBody
from etagere.servers.http.deadlines import Deadlines, never
from etagere.servers.http.encode import bodiless, encode_head
from etagere.servers.http.limits import HttpLimits
from etagere.servers.http.reader import Head, Refusal, RequestReader

_log: Final = logging.getLogger(__name__)
_empty_body: Final = EmptyBody()
_nothing_repeated: Final[frozenset[str]] = frozenset()
_joined_bytes_max: Final = 64 * 1024
"""Up to here a body is copied behind its head; beyond, two buffers cost less than the copy."""


class Handler(Protocol):
    async def handle(self, request: Request) -> Response:
        """Answer; raises nothing but ClientGone and CancelledError."""
        ...


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The connection becomes something else: the headers of a 101, then another protocol."""

    headers: dict[str, str]
    protocol: asyncio.Protocol


Upgrader = Callable[[Request], Upgrade | None]
"""Called for a request that asks for an upgrade; None serves it as if it had not."""


class Owner(Protocol):
    """The server that a connection belongs to."""

    @property
    def limits(self) -> HttpLimits: ...

    @property
    def stopping(self) -> bool: ...

    def opened(self, connection: "HttpConnection", transport: asyncio.BaseTransport) -> bool:
        """Whether there is room for one more."""
        ...

    def closed(self, connection: "HttpConnection") -> None: ...


class _Work:
    """A request waiting for its turn, or the refusal of one."""

    __slots__ = ("body", "expects_continue", "keep_alive", "request", "version_1_0")

    def __init__(
        self, request: Request | Refusal | Upgrade, body: IncomingBody | None, head: Head | None
    ) -> None:
        self.request = request
        self.body = body
        self.keep_alive = head is not None and head.keep_alive
        self.version_1_0 = head is not None and head.version_1_0
        self.expects_continue = head is not None and head.expects_continue


class HttpConnection:
    """An `asyncio.Protocol`, the `Sink` of its reader and the `Source` of its bodies."""

    def __init__(self, handler: Handler, owner: Owner, upgrader: Upgrader | None = None) -> None:
        self._handler = handler
        self._owner = owner
        self._upgrader = upgrader
        self._limits = owner.limits
        self._loop = asyncio.get_running_loop()
        self._transport = cast("asyncio.Transport", None)
        self._task: asyncio.Task[None] | None = None
        self._client_ip = ""
        self._secure = False

        self._reader = RequestReader(self, self._limits)
        self._receiving: IncomingBody | None = None
        self._unparsed: memoryview | None = None
        self._deaf = False
        """Whatever still arrives is dropped: the last request of this connection is in."""
        self._dropped_bytes = 0
        self._paused = False
        self._half_closed = False
        self._lost = False

        self._queue: deque[_Work] = deque()
        self._in_hand: _Work | None = None
        self._idle_waiter: asyncio.Future[None] | None = None
        self._drain_waiter: asyncio.Future[None] | None = None
        self._write_paused = False

        self._deadlines = Deadlines(self._loop, self._reader_is_late, self._writer_is_late)
        self._timing_head = False
        self._unwritten_bytes = 0
        self._body_wanted_at = 0.0

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._client_ip = peer[0] if isinstance(peer, tuple) else ""
        self._secure = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)
        if not self._owner.opened(self, transport):
            self._transport.abort()
            return
        self._task = self._loop.create_task(self._serve())
        self._deadlines.read_by(self._limits.head_seconds_max)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > self._limits.linger_bytes_max:
                self._transport.abort()
        elif self._unparsed is not None:
            self._unparsed = memoryview(bytes(self._unparsed) + data)
        else:
            self._parse(data)

    def eof_received(self) -> bool:
        """What was asked for completely is still answered (not over TLS, which has no half)."""
        if self._receiving is not None:
            self._receiving.lose()
        self._deaf = self._half_closed = True
        if not self.busy:
            self._transport.close()
        return not self._secure

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever it was
        self._lost = True
        self._deadlines.close()
        if self._receiving is not None:
            self._receiving.lose()
        self._queue.clear()
        _wake(self._idle_waiter)
        _wake(self._drain_waiter)
        self._owner.closed(self)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        _wake(self._drain_waiter)

    # ---- the owner's side

    @property
    def busy(self) -> bool:
        return self._in_hand is not None or bool(self._queue)

    def stop(self) -> None:
        """Close now if nothing is in hand; otherwise `Owner.stopping` closes after the answer.

        TLS waits for the client's own goodbye, which one that is asleep does not send.
        """
        if self.busy or self._lost:
            return
        self._deaf = True
        self._transport.close()
        if self._transport.get_write_buffer_size() == 0:
            self._deadlines.read_by(self._limits.goodbye_seconds_max)

    def abort(self) -> None:
        if not self._lost:
            self._transport.abort()
        if self._task is not None:
            self._task.cancel()

    # ---- reading

    def _parse(self, data: bytes | memoryview) -> None:
        """In slices, and no further than the handler keeps up with."""
        size, slice_bytes = len(data), self._limits.parse_slice_bytes
        if size <= slice_bytes and not self._is_behind():
            self._reader.feed(data)
        else:
            view = memoryview(data)
            position = 0
            while position < size and not self._deaf:
                if self._is_behind():
                    self._unparsed = view[position:]
                    break
                body = self._receiving
                inside = 0 if body is None else body.remaining() or 0
                end = position + max(slice_bytes, inside)
                self._reader.feed(view[position:end])
                position = end
        if self._reader.in_head and not self._timing_head:
            self._timing_head = True
            self._deadlines.read_by(self._limits.head_seconds_max)
        if self._is_behind() and not self._paused and not self._lost:
            self._paused = True
            self._transport.pause_reading()

    def _is_behind(self) -> bool:
        if self._queue and (self._in_hand is not None or len(self._queue) > 1):
            return True
        body = self._receiving
        return body is not None and body.held_bytes > self._limits.body_held_bytes_max

    def _read_on(self) -> None:
        if self._lost or self._is_behind():
            return
        unparsed, self._unparsed = self._unparsed, None
        if unparsed is not None and not self._deaf:
            self._parse(unparsed)
        if self._paused and not self._is_behind() and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _enqueue(self, work: _Work) -> None:
        self._queue.append(work)
        _wake(self._idle_waiter)

    # `Sink` of the reader

    def request_begun(self, head: Head) -> bool:
        self._timing_head = False
        self._deadlines.reading = never
        if self._deaf:
            return False  # behind the last request, in the slice that had it
        body = None
        if head.has_body:
            body = self._receiving = IncomingBody(self, head.body_length)
        elif not head.keep_alive:
            self._deaf = True
        request = Request(
            method=head.method,
            raw_path=head.path,
            raw_query=head.query,
            headers=head.headers,
            body=_empty_body if body is None else body,
            client_ip=self._client_ip,
            secure=self._secure,
            repeated_headers=frozenset(head.repeated) if head.repeated else _nothing_repeated,
            spelling=head.spelling,
        )
        if head.upgrade and body is None and self._upgrader is not None:
            upgrade = self._upgrader(request)
            if upgrade is not None:
                self._deaf = True
                self._enqueue(_Work(upgrade, None, head))
                return True
        self._enqueue(_Work(request, body, head))
        return False

    def body_piece(self, piece: bytes) -> None:
        if self._receiving is not None:
            self._receiving.feed(piece)

    def request_ended(self) -> None:
        body, self._receiving = self._receiving, None
        if body is None:
            return
        self._deadlines.reading = never
        last = self._queue[-1] if self._queue else self._in_hand
        if last is not None and last.body is body and not last.keep_alive:
            self._deaf = True
        body.finish()
        if body.abandoned and self._in_hand is None:
            self._deadlines.read_by(self._limits.keep_alive_seconds_max)

    def upgraded(self, rest: bytes) -> None:
        self._unparsed = memoryview(rest)

    def refused(self, refusal: Refusal) -> None:
        if self._deaf:
            return
        self._deaf = True
        self._deadlines.reading = never
        body, self._receiving = self._receiving, None
        if body is None:
            self._enqueue(_Work(refusal, None, None))
        elif body.abandoned:
            self._transport.close()
        else:
            body.lose(refusal)

    # `Source` of the bodies

    def body_wanted(self) -> None:
        work = self._in_hand
        if work is not None and work.expects_continue:
            work.expects_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._body_wanted_at = self._loop.time()
        self._deadlines.read_by(self._limits.body_stall_seconds_max)
        if self._paused:
            self._read_on()

    def body_arrived(self, body: IncomingBody) -> None:
        self._deadlines.reading = never
        body.waited_seconds += self._loop.time() - self._body_wanted_at
        limits = self._limits
        if (
            body.waited_seconds > limits.body_pace_grace_seconds
            and body.received_bytes < body.waited_seconds * limits.pace_bytes_per_second_min
            and not body.complete
        ):
            body.lose(_body_too_slow())

    def body_relieved(self) -> None:
        if self._paused:
            self._read_on()

    # ---- the client is late

    def _reader_is_late(self) -> None:
        body = self._receiving
        if self._deaf and not self.busy:
            self._transport.abort()  # it has lingered long enough
        elif self._paused:
            self._deadlines.read_by(self._limits.head_seconds_max)  # the lateness is ours
        elif body is not None and not body.abandoned:
            self._deaf = True
            self._receiving = None
            body.lose(_body_too_slow())
        elif self._reader.in_head:
            self.refused(Refusal(408, "The request's head did not arrive in time."))
        elif not self.busy:
            self._transport.close()

    def _write_by(self, seconds: float) -> None:
        self._unwritten_bytes = self._transport.get_write_buffer_size()
        self._deadlines.write_by(seconds)

    def _writer_is_late(self) -> None:
        if self._lost:
            return
        limits = self._limits
        unwritten = self._transport.get_write_buffer_size()
        taken = self._unwritten_bytes - unwritten
        if taken < limits.write_stall_seconds_max * limits.pace_bytes_per_second_min:
            self._transport.abort()
        else:
            self._write_by(limits.write_stall_seconds_max)

    # ---- answering

    async def _serve(self) -> None:
        try:
            while not self._lost:
                if not self._queue:
                    if self._deaf or self._owner.stopping:
                        break
                    if self._deadlines.reading == never:
                        self._deadlines.read_by(self._limits.keep_alive_seconds_max)
                    self._idle_waiter = self._loop.create_future()
                    await self._idle_waiter
                    self._idle_waiter = None
                    continue
                work = self._in_hand = self._queue.popleft()
                if self._paused:
                    self._read_on()
                usable = await self._perform(work)
                self._in_hand = None
                if not usable:
                    return
                if self._paused:
                    self._read_on()
            if not self._lost:
                self._close()
        except asyncio.CancelledError:
            self._transport.abort()
        except Exception:  # noqa: BLE001 - a bug of ours ends one connection, not the server
            _log.exception("connection failed")
            self._transport.abort()

    async def _perform(self, work: _Work) -> bool:
        """Whether the connection can be used further."""
        request = work.request
        if isinstance(request, Request):
            try:
                response = await self._handler.handle(request)
            except ClientGone:
                refusal = None if work.body is None else work.body.refusal
                if refusal is None or self._lost:
                    self._transport.abort()
                    return False
                return await self._refuse(refusal)
            except Exception:  # noqa: BLE001 - the same, and the client is told
                _log.exception("handler failed")
                return await self._refuse(Refusal(500, "The server failed."))
            return await self._respond(work, request, response)
        if isinstance(request, Refusal):
            return await self._refuse(request)
        self._become(request)
        return False

    async def _respond(self, work: _Work, request: Request, response: Response) -> bool:
        keep = self._settle_body(work) and work.keep_alive and not self._owner.stopping
        try:
            if not isinstance(response.body, bytes):
                if not await self._stream(work, request, response, keep=keep):
                    return False
            elif self._lost:
                return False
            else:
                self._write_whole(request, response, response.body, keep=keep)
                if self._write_paused:
                    await self._drain()
        except ClientGone:
            return False
        if keep:
            return True
        self._close()
        return False

    async def _stream(
        self, work: _Work, request: Request, response: Response, *, keep: bool
    ) -> bool:
        """Whether the connection can be used further; the stream is closed whatever happens."""
        assert not isinstance(response.body, bytes)
        try:
            if self._lost:
                await _begin(response.body)
                return False
            if await self._write_stream(work, request, response, keep=keep):
                return True
            self._transport.abort()
            return False
        finally:
            closing = getattr(response.body, "aclose", None)
            if closing is not None:
                await closing()

    def _settle_body(self, work: _Work) -> bool:
        """What becomes of a request body that nobody read; whether the connection survives it."""
        body = work.body
        if body is None or body.complete:
            return True
        remaining = body.remaining()
        body.abandon()
        if work.expects_continue or body.refusal is not None:
            return False  # without a 100 the client may send its body or leave it
        if remaining is None or remaining > self._limits.drain_bytes_max:
            return False
        self._deadlines.read_by(self._limits.body_stall_seconds_max)
        return True

    def _write_whole(
        self, request: Request, response: Response, body: bytes, *, keep: bool
    ) -> None:
        headers, status = response.headers, response.status
        framing = "" if keep else "Connection: close\r\n"
        if status in bodiless:
            headers.pop("Content-Length", None)
            body = b""
        elif request.method == "HEAD":
            if "Content-Length" not in headers:
                framing += f"Content-Length: {len(body)}\r\n"
            body = b""
        else:
            headers.pop("Content-Length", None)
            framing += f"Content-Length: {len(body)}\r\n"
        head = encode_head(status, response.reason, headers, framing)
        if len(body) <= _joined_bytes_max:
            self._transport.write(head + body)
        else:
            self._write(head, body)

    async def _write_stream(
        self, work: _Work, request: Request, response: Response, *, keep: bool
    ) -> bool:
        """Whether the whole body went out, and was as long as the head had said."""
        assert not isinstance(response.body, bytes)
        headers, status = response.headers, response.status
        stated = headers.get("Content-Length")
        empty = request.method == "HEAD" or status in bodiless
        chunked = stated is None and not work.version_1_0
        framing = "" if keep else "Connection: close\r\n"
        if chunked and status not in bodiless:
            framing += "Transfer-Encoding: chunked\r\n"
        self._transport.write(encode_head(status, response.reason, headers, framing))
        if empty:
            await _begin(response.body)
            return True
        written = 0
        try:
            async for piece in response.body:
                if not piece:
                    continue
                written += len(piece)
                if chunked:
                    self._write(b"%x\r\n" % len(piece), piece, b"\r\n")
                else:
                    self._transport.write(piece)
                # A closing transport drops what it is given, and `_lost` is set when the loop has
                # its turn, which a stream that never waits would not give it.
                if self._write_paused or self._lost or self._transport.is_closing():
                    await self._drain()
        except ClientGone:
            raise
        except Exception:  # noqa: BLE001 - too late for an error response
            _log.exception("response failed half-way")
            return False
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        elif stated is not None and written != int(stated):
            _log.error("response of %d bytes had stated %s", written, stated)
            return False
        return True

    def _write(self, *pieces: bytes) -> None:
        """Not `writelines`: asyncio's own, before Python 3.12.9 and 3.13.2, holds no writer back
        (CVE-2024-12254).  uvloop gathers what is written anyhow."""
        for piece in pieces:
            self._transport.write(piece)

    async def _drain(self) -> None:
        if not self._lost:
            self._write_by(self._limits.write_stall_seconds_max)
            self._drain_waiter = self._loop.create_future()
            await self._drain_waiter
            self._drain_waiter = None
            self._deadlines.writing = never
        if self._lost:
            raise ClientGone

    async def _refuse(self, refusal: Refusal) -> bool:
        body = f"{refusal.why}\n".encode()
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        framing = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        self._transport.write(encode_head(refusal.status, "", headers, framing) + body)
        self._linger()
        return False

    def _become(self, upgrade: Upgrade) -> None:
        self._transport.write(encode_head(101, "", upgrade.headers, ""))
        rest, self._unparsed = self._unparsed, None
        self._deadlines.close()
        self._owner.closed(self)
        self._transport.set_protocol(upgrade.protocol)
        upgrade.protocol.connection_made(self._transport)
        if rest is not None and len(rest):
            upgrade.protocol.data_received(bytes(rest))
        if self._paused:
            self._transport.resume_reading()

    # ---- closing

    def _close(self) -> None:
        body = self._receiving
        if body is not None and not body.complete:
            self._linger()
            return
        self._deaf = True
        self._write_by(self._limits.write_stall_seconds_max)
        self._transport.close()

    def _linger(self) -> None:
        """Drop what the client still sends for a while: closing on unread data resets the
        connection, and a reset takes the answer with it."""
        self._deaf = True
        self._receiving = None
        self._unparsed = None
        self._queue.clear()
        if self._transport.is_closing():
            return
        self._write_by(self._limits.write_stall_seconds_max)
        if self._half_closed:
            self._transport.close()
            return
        self._deadlines.read_by(self._limits.linger_seconds_max)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()


async def _begin(stream: AsyncIterator[bytes]) -> None:
    """Of one that nobody wants: a generator does what it does at its end, when it is closed, only
    if it was begun."""
    with contextlib.suppress(Exception):
        await anext(stream, None)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _body_too_slow() -> Refusal:
    return Refusal(408, "The request's body did not arrive in time.")
