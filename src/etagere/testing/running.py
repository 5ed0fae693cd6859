"""A running server, as a process of its own or as a thread of this one."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, Self

from etagere.app.admin_client import AdminClient

start_seconds_max: Final = 30.0
stop_seconds_max: Final = 30.0
_free_ports: Final = tuple(
    f"--{name}-port=0"
    for name in "blob queue table files dfs smb amqp amqps bus-admin admin".split()
)


class StartFailed(Exception):  # noqa: N818 - carries the server's own line
    """The server did not start; the text is what it said."""


class Running(Protocol):
    urls: Mapping[str, str]
    """By service: `blob`, `queue`, ..., and `admin`."""

    @property
    def admin(self) -> AdminClient: ...

    def stop(self) -> None: ...


class ServerProcess:
    """`etagere serve` with free ports; arguments that are given come after ours, and so win."""

    def __init__(
        self,
        arguments: Sequence[str] = ("--in-memory",),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        own = {name: value for name, value in os.environ.items() if not _is_setting(name)}
        self.process = subprocess.Popen(  # noqa: S603 - ourselves
            [
                sys.executable,
                "-m",
                "etagere.app.cli",
                "serve",
                "--ready-json",
                *_free_ports,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**own, **(environment or {})},
        )
        self._said: list[bytes] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(stop_seconds_max)
            self._listener.join(stop_seconds_max)
            self.process.stdout.close()
            raise StartFailed(self.said.strip())
        self.urls: Mapping[str, str] = json.loads(line)

    @property
    def admin(self) -> AdminClient:
        return AdminClient(self.urls["admin"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def said(self) -> str:
        """Its log so far."""
        return b"".join(self._said).decode()

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(stop_seconds_max)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(stop_seconds_max)
        self._listener.join(stop_seconds_max)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        """As a power failure would, for the process."""
        self.process.kill()
        self.stop()

    def _listen(self) -> None:
        """A pipe that nobody reads would stop the server when it is full."""
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            for line in errors:
                self._said.append(line)


class ServerThread:
    """The server in a thread with its own event loop: it starts in a tenth of the time."""

    def __init__(self, arguments: Sequence[str] = ("--in-memory",)) -> None:
        self.urls: Mapping[str, str] = {}
        self._arguments = [*_free_ports, *arguments]
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="etagere", daemon=True)
        self._thread.start()
        if not self._started.wait(start_seconds_max):
            raise StartFailed(f"not ready after {start_seconds_max:g} seconds")
        if self._failure is not None:
            raise StartFailed(str(self._failure)) from self._failure

    @property
    def admin(self) -> AdminClient:
        return AdminClient(self.urls["admin"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive() and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(stop_seconds_max)

    def _run(self) -> None:
        import uvloop  # noqa: PLC0415 - the thread's business

        try:
            uvloop.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        from etagere.app.cli import make_parser  # noqa: PLC0415 - pytest starts without a server
        from etagere.app.configuration import configure  # noqa: PLC0415
        from etagere.app.server import Server  # noqa: PLC0415

        flags: Mapping[str, Any] = vars(make_parser().parse_args(["serve", *self._arguments]))
        server = await Server.start(configure(flags, {}))
        await server.furnish()
        self.urls = dict(server.urls)
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._started.set()
        await self._stopping.wait()
        await server.stop()


def _is_setting(name: str) -> bool:
    """What this machine's user has set for servers of their own is not for ours."""
    return name.startswith("ETAGERE_") or name == "AZURITE_ACCOUNTS"
