"""The body of a request as it arrives: bounded in memory, timed, and taken once."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Protocol

from etagere.base.errors import Refused
from etagere.frontends.common.message import ClientGone, body_bytes_max_small
from etagere.servers.http.reader import Refusal

piece_overhead_bytes: Final = 64
"""What an object costs beside its bytes, so that one-byte pieces count too."""
_small_piece_bytes: Final = 4096


class Source(Protocol):
    """The connection, as its bodies see it."""

    def body_wanted(self) -> None:
        """The handler waits for more."""
        ...

    def body_arrived(self, body: "IncomingBody") -> None:
        """It waits no longer."""
        ...

    def body_relieved(self) -> None:
        """Some of what was held has been taken."""
        ...


class IncomingBody:
    __slots__ = (
        "_pieces",
        "_source",
        "_waiter",
        "abandoned",
        "complete",
        "gone",
        "held_bytes",
        "length",
        "received_bytes",
        "refusal",
        "waited_seconds",
    )

    def __init__(self, source: Source, length: int | None) -> None:
        self._source = source
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.length = length
        self.held_bytes = 0
        self.received_bytes = 0
        self.waited_seconds = 0.0
        self.complete = False
        self.gone = False
        self.abandoned = False
        """The response is out: what still arrives is dropped."""
        self.refusal: Refusal | None = None
        """Why the rest will not come, where the client can still be told."""

    # ---- the connection's side

    def feed(self, piece: bytes) -> None:
        self.received_bytes += len(piece)
        if not self.abandoned:
            self._pieces.append(piece)
            self.held_bytes += len(piece) + piece_overhead_bytes
            self._wake()

    def finish(self) -> None:
        self.complete = True
        self._wake()

    def lose(self, refusal: Refusal | None = None) -> None:
        self.gone = True
        self.refusal = self.refusal or refusal
        self._wake()

    def abandon(self) -> None:
        self.abandoned = True
        self._pieces.clear()
        self.held_bytes = 0

    def remaining(self) -> int | None:
        """Bytes still to come; None when only the client knows."""
        return None if self.length is None else self.length - self.received_bytes

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # ---- the handler's side

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while not self._pieces:
                if self.complete:
                    return
                await self._more()
            piece = self._take()
            self._source.body_relieved()
            yield piece

    async def read(self, bytes_max: int = body_bytes_max_small) -> bytes:
        if self.length is not None and self.length > bytes_max:
            raise _too_large(bytes_max)
        if self.complete and self.received_bytes <= bytes_max:
            return self._take_all()  # it came with its head, as most do: no generator for that
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > bytes_max:
                raise _too_large(bytes_max)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_all(self) -> bytes:
        pieces = self._pieces
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.held_bytes = 0
        self._source.body_relieved()
        return whole

    def _take(self) -> bytes:
        """The next piece, or all of them where they are many and small."""
        count = len(self._pieces)
        if count > 1 and self.held_bytes < count * _small_piece_bytes:
            piece = b"".join(self._pieces)
            self._pieces.clear()
            self.held_bytes = 0
        else:
            piece = self._pieces.popleft()
            self.held_bytes -= len(piece) + piece_overhead_bytes
        return piece

    async def _more(self) -> None:
        if self._is_over():
            raise ClientGone
        assert self._waiter is None, "a body is read by one reader"
        self._waiter = asyncio.get_running_loop().create_future()
        self._source.body_wanted()
        try:
            await self._waiter
        finally:
            self._waiter = None
        self._source.body_arrived(self)
        if self._is_over():
            raise ClientGone

    def _is_over(self) -> bool:
        return self.gone and not self._pieces


def _too_large(bytes_max: int) -> Refused:
    return Refused("RequestBodyTooLarge", {"MaxLimit": str(bytes_max)})
