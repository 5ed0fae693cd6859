"""More processes for storage: the first process starts them, tells them, and replaces the dead.

Every process listens on the same ports (SO_REUSEPORT) and opens the same store.  The first one
also has the admin API, the background work, and whatever must exist once.
"""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from etagere.app.link import Link, LinkLost
from etagere.app.settings import Settings

_log: Final = logging.getLogger(__name__)
start_seconds_max: Final = 30.0
stop_seconds_max: Final = 25.0
restart_seconds_min: Final = 1.0
"""A worker that dies at once is not started again faster than this."""


State = Callable[[], list[tuple[str, dict[str, Any]]]]


class WorkerFailed(Exception):  # noqa: N818 - carries the worker's own line
    pass


async def _no_questions(command: str, fields: Mapping[str, Any]) -> None:
    raise ValueError(f"workers do not ask: {command} {fields}")


class Worker:
    def __init__(self, process: subprocess.Popen[bytes], link: Link) -> None:
        self.process = process
        self.link = link

    async def wait(self) -> int:
        """For its end, which the link tells of first."""
        return await asyncio.to_thread(self.process.wait)


class Workers:
    def __init__(
        self,
        settings: Settings,
        inherited: tuple[int, ...],
        clock_fd: int | None,
    ) -> None:
        self._settings = msgspec.json.encode(settings, enc_hook=str).decode()
        self._ports: dict[str, int] = {}
        self._clock_fd = clock_fd
        self._inherited = inherited if clock_fd is None else (*inherited, clock_fd)
        self._state: State = list
        self._workers: dict[int, Worker] = {}
        self._keepers: list[asyncio.Task[None]] = []

    async def launch(self, count: int) -> None:
        """Let them import what they need, while the first process still binds its ports."""
        for _ in range(count):
            worker = await self._launch()
            self._workers[worker.process.pid] = worker

    async def start(self, ports: Mapping[str, int], state: State) -> None:
        """`state` lists the commands that bring a new worker to where the others are."""
        self._ports, self._state = dict(ports), state
        await asyncio.gather(*(self._start(worker) for worker in self._workers.values()))
        for worker in self._workers.values():
            self._keepers.append(asyncio.create_task(self._replace_when_dead(worker)))

    async def tell(self, command: str, fields: Mapping[str, Any] | None = None) -> list[Any]:
        """Ask all of them; those that die meanwhile have no say."""
        links = [worker.link for worker in self._workers.values()]
        answers = await asyncio.gather(
            *(link.ask(command, fields) for link in links), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, LinkLost):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    def pids(self) -> list[int]:
        return list(self._workers)

    async def stop(self) -> None:
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(self._stop(worker) for worker in self._workers.values()))
        self._workers.clear()

    async def _stop(self, worker: Worker) -> None:
        with suppress(LinkLost, TimeoutError, RuntimeError):
            await asyncio.wait_for(worker.link.ask("stop"), stop_seconds_max)
        await worker.link.close()
        try:
            await asyncio.wait_for(worker.wait(), restart_seconds_min)
        except TimeoutError:
            worker.process.kill()

    async def _launch(self) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - a fork and an exec of ourselves
                [sys.executable, "-m", "etagere.app.worker", str(theirs.fileno())],
                pass_fds=(theirs.fileno(), *self._inherited),
                stdin=subprocess.DEVNULL,
            )
        return Worker(process, await Link.over(ours, _no_questions))

    async def _start(self, worker: Worker) -> None:
        start = {
            "settings": self._settings,
            "ports": self._ports,
            "clock_fd": self._clock_fd,
            "state": self._state(),
        }
        try:
            # Not `wait_for`, which may begin later: this is the first that the worker hears.
            async with asyncio.timeout(start_seconds_max):
                failure = await worker.link.ask("start", start)
        except (LinkLost, TimeoutError, RuntimeError) as error:
            failure = str(error) or "it ended before it was ready"
        if failure:
            worker.process.kill()
            await worker.link.close()
            raise WorkerFailed(f"a worker did not start: {failure}")

    async def _replace_when_dead(self, worker: Worker) -> None:
        while True:
            await worker.link.lost.wait()
            status = await worker.wait()
            del self._workers[worker.process.pid]
            _log.error("worker died", extra={"pid": worker.process.pid, "status": status})
            await worker.link.close()
            worker = await self._start_another()

    async def _start_another(self) -> Worker:
        while True:
            await asyncio.sleep(restart_seconds_min)
            try:
                worker = await self._launch()
            except OSError as error:
                _log.error("worker not restarted", extra={"why": str(error)})
                continue
            # It is one of those who are told before it is told what there is: nothing that
            # changes meanwhile passes it by.
            self._workers[worker.process.pid] = worker
            try:
                await self._start(worker)
            except WorkerFailed as error:
                del self._workers[worker.process.pid]
                _log.error("worker not restarted", extra={"why": str(error)})
            else:
                return worker
