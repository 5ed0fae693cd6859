"""A small HTTP/1.1 client, for sources of copies that are not this server's own blobs."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import httptools

from etagere.services.blob.fetching import CannotFetch, Fetched

connect_seconds_max: Final = 10.0
idle_seconds_max: Final = 60.0
head_bytes_max: Final = 64 * 1024
read_bytes: Final = 256 * 1024


class HttpFetcher:
    """One connection a fetch, closed at its end: copies are large and rare."""

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Fetched:
        target = urlsplit(url)
        if target.scheme not in ("http", "https") or not target.hostname:
            raise CannotFetch("the source is not an http or https URL")
        secure = target.scheme == "https"
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(
                    target.hostname,
                    target.port or (443 if secure else 80),
                    ssl=ssl.create_default_context() if secure else None,
                ),
                connect_seconds_max,
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotFetch("the source cannot be reached") from error
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        lines = [f"GET {path} HTTP/1.1", f"Host: {target.netloc.rpartition('@')[2]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Accept-Encoding: identity", "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1"))
        response = _Response(reader, writer)
        try:
            await response.head()
        except BaseException:
            writer.close()
            raise
        length = response.headers.get("content-length")
        return Fetched(
            response.status,
            response.headers,
            int(length) if length is not None and length.isdecimal() else None,
            response.chunks(),
            writer.close,
        )


class _Response:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: deque[bytes] = deque()
        self._headed = False
        self._ended = False
        self.status = 0
        self.headers: dict[str, str] = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._headed = True
        self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self._ended = True

    async def head(self) -> None:
        taken = 0
        while not self._headed:
            taken += await self._feed()
            if taken > head_bytes_max and not self._headed:
                raise CannotFetch("the source's headers are too large")

    async def chunks(self) -> AsyncIterator[bytes]:
        taken = 0
        length = self.headers.get("content-length")
        try:
            while True:
                while self._pieces:
                    piece = self._pieces.popleft()
                    taken += len(piece)
                    yield piece
                if self._ended:
                    return
                if not await self._feed():
                    break
            if self.headers.get("transfer-encoding") or (length and taken < int(length)):
                raise CannotFetch("the source stopped half-way")
        finally:
            self._writer.close()

    async def _feed(self) -> int:
        """Read on; the number of bytes, none at the end."""
        try:
            data = await asyncio.wait_for(self._reader.read(read_bytes), idle_seconds_max)
            if data:
                self._parser.feed_data(data)
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            raise CannotFetch("the source stopped half-way") from error
        if not data and not self._headed:
            raise CannotFetch("the source answered nothing")
        return len(data)
