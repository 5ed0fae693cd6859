"""The line between a server's processes: questions and answers as lines of JSON.

Both ends are alike: each may ask, and answers what it is asked.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final

import msgspec

_log: Final = logging.getLogger(__name__)
line_bytes_max: Final = 64 * 1024 * 1024

Answerer = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class LinkLost(Exception):  # noqa: N818 - names what happened
    """The process at the other end is gone."""


class Link:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answerer
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._answering: set[asyncio.Task[None]] = set()
        self.lost = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def over(cls, end: socket.socket, answer: Answerer) -> "Link":
        reader, writer = await asyncio.open_connection(sock=end, limit=line_bytes_max)
        return cls(reader, writer, answer)

    async def ask(self, command: str, fields: Mapping[str, Any] | None = None) -> Any:
        if self.lost.is_set():
            raise LinkLost
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send({"ask": number, "do": command, "with": dict(fields or {})})
        return await future

    async def close(self) -> None:
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)

    def _send(self, message: Mapping[str, Any]) -> None:
        self._writer.write(msgspec.json.encode(message, enc_hook=str) + b"\n")

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                message = msgspec.json.decode(line)
                if "ask" in message:
                    task = asyncio.create_task(self._reply(message))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                else:
                    self._settle(message)
        except (ConnectionError, ValueError):
            _log.debug("link broken", exc_info=True)
        finally:
            self.lost.set()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(LinkLost())
            self._waiting.clear()

    async def _reply(self, message: Mapping[str, Any]) -> None:
        try:
            result = await self._answer(message["do"], message["with"])
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            _log.exception("command failed", extra={"command": message["do"]})
            self._send({"re": message["ask"], "failed": f"{type(error).__name__}: {error}"})
        else:
            self._send({"re": message["ask"], "result": result})

    def _settle(self, message: Mapping[str, Any]) -> None:
        future = self._waiting.pop(message["re"], None)
        if future is None or future.done():
            return
        if "failed" in message:
            future.set_exception(RuntimeError(message["failed"]))
        else:
            future.set_result(message["result"])
