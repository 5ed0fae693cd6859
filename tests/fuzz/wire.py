"""The same requests over sockets, some of them bent once more as bytes."""

import asyncio
from random import Random
from typing import Self

from etagere.servers.http import HttpServer

from .documents import bend
from .target import Found, Target, allowed_codes, allowed_failures, hang_seconds
from .wanted import Wanted

drain_seconds_max = 5.0
_allowed = (*allowed_failures, 505)


class Wire:
    """The services of a target, each on a port of its own."""

    def __init__(self, target: Target, chance: Random) -> None:
        self._target = target
        self._chance = chance
        self._server = HttpServer()
        self._ports: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        for name, pipeline in self._target.pipelines.items():
            self._ports[name] = (await self._server.listen(pipeline, "127.0.0.1", 0)).port
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(drain_seconds_max)

    async def send(self, wanted: Wanted) -> int | None:
        """The status, or None where the server only closed the connection."""
        data = written(wanted)
        if self._chance.random() < 0.3:
            data = bend(data, self._chance)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[wanted.service])
        try:
            async with asyncio.timeout(hang_seconds):
                answer = await _exchange(reader, writer, data)
        except TimeoutError:
            raise Found(f"it hangs over {data[:3000]!r}") from None
        finally:
            writer.close()
        if not answer:
            return None
        line = answer.partition(b"\r\n")[0]
        if not line.startswith(b"HTTP/1.1 ") or not line[9:12].isdigit():
            raise Found(f"no answer in HTTP: {answer[:200]!r} to {data[:3000]!r}")
        status = int(line[9:12])
        excused = status in _allowed or any(code.encode() in answer for code in allowed_codes)
        if status >= 500 and not excused:
            raise Found(f"{answer[:600]!r} to {data[:3000]!r}")
        return status


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes
) -> bytes:
    try:
        writer.write(data)
        await writer.drain()
        writer.write_eof()
        return await reader.read()
    except (ConnectionError, OSError):
        return b""


def written(wanted: Wanted) -> bytes:
    """The request as a client writes it."""
    target = f"{wanted.path}?{wanted.query}" if wanted.query else wanted.path
    lines = [f"{wanted.method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in wanted.headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
    return head + wanted.body[: wanted.sent_bytes]
