"""A worker process: `python -m etagere.app.worker FD`, started by `workers` and told over FD."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from etagere.app import logs
from etagere.app.configuration import Unusable
from etagere.app.foundation import make_clock
from etagere.app.link import Link
from etagere.app.process import Process
from etagere.app.runtime import run, tune
from etagere.app.settings import Settings

_log: Final = logging.getLogger(__name__)
answer_seconds: Final = 0.01


class _Told:
    """What the first process has told this one."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.ended = asyncio.Event()
        self._furnishing: asyncio.Task[None] | None = None

    async def answer(self, command: str, fields: Mapping[str, Any]) -> Any:
        if command == "start":
            return await self._start(fields)
        if command == "stop":
            await self.stop()
            return None
        assert self.process is not None, "start comes first"
        return await self.process.obey(command, fields)

    async def _start(self, fields: Mapping[str, Any]) -> str:
        """What hindered it, or nothing."""
        settings = msgspec.json.decode(
            fields["settings"], type=Settings, dec_hook=lambda _, text: Path(text)
        )
        logs.set_up(settings.log_level, settings.log_format)
        try:
            self.process = Process(settings, make_clock(settings, fields["clock_fd"]))
            for command, told in fields["state"]:
                await self.process.obey(command, told)
            self.process.bind(fields["ports"], shared=True, joining=True)
        except Unusable as error:
            return str(error)
        # Clients may connect from here on.  The answer goes out before the loop is busy loading.
        asyncio.get_running_loop().call_later(answer_seconds, self._furnish, self.process)
        return ""

    def _furnish(self, process: Process) -> None:
        self._furnishing = asyncio.create_task(process.furnish())
        self._furnishing.add_done_callback(self._furnished)

    def _furnished(self, task: asyncio.Task[None]) -> None:
        tune()
        if not task.cancelled() and task.exception() is not None:
            _log.critical("not able to serve", exc_info=task.exception())
            self.ended.set()

    async def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            if self._furnishing is not None:
                await asyncio.gather(self._furnishing, return_exceptions=True)
            await process.stop()


async def serve(end: socket.socket) -> None:
    """Until the first process is gone, or this one cannot go on."""
    told = _Told()
    link = await Link.over(end, told.answer)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.ended.set)
    ends = [asyncio.create_task(event.wait()) for event in (link.lost, told.ended)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in ends:
        task.cancel()
    await told.stop()
    await link.close()


def main() -> None:
    # These reach the whole group; the first process says what is to be done about them.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
