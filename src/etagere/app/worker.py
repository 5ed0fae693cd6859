"""A worker process: `python -m etagere.app.worker FD`, started by `workers` and told over FD."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from etagere.app import logs
from etagere.app.configuration import Unusable
from etagere.app.foundation import make_clock
from etagere.app.link import Link
from etagere.app.process import Process
from etagere.app.runtime import run, tune
from etagere.app.settings import Settings


class _Told:
    """What the first process has told this one."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.ended = asyncio.Event()

    async def answer(self, command: str, fields: Mapping[str, Any]) -> Any:
        if command == "start":
            return await self._start(fields)
        if command == "stop":
            await self._stop()
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
            await self.process.listen(fields["ports"], shared=True)
        except Unusable as error:
            return str(error)
        tune()
        return ""

    async def _stop(self) -> None:
        if self.process is not None and not self.ended.is_set():
            self.ended.set()
            await self.process.stop()


async def serve(end: socket.socket) -> None:
    told = _Told()
    link = await Link.over(end, told.answer)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, link.lost.set)
    await link.lost.wait()
    if told.process is not None and not told.ended.is_set():
        await told.process.stop()
    await link.close()


def main() -> None:
    # Ctrl-C reaches the whole group; the first process says when it is time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
