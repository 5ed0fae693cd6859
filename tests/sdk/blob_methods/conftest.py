"""A server with HTTPS and two workers, and both kinds of client against it."""

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from etagere.testing import EtagereServer, ServerProcess

from .using import Using, done, sdks


class Running(NamedTuple):
    process: ServerProcess
    authority: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("methods")
    tls = folder / "tls"
    subprocess.run(
        [sys.executable, "-m", "etagere", "cert", str(tls)], check=True, capture_output=True
    )
    arguments = [
        *(f"--data={folder}/data", "--clock=virtual", "--services=blob", "--workers=2"),
        *(f"--tls-cert={tls}/localhost.pem", f"--tls-key={tls}/localhost-key.pem"),
    ]
    with ServerProcess(arguments) as process:
        yield Running(process, tls / "authority.pem")
    assert "rror" not in process.said, process.said


class _Slow(BaseHTTPRequestHandler):
    release = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.release.wait(20)
        self.wfile.write(b"late")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    _Slow.release.clear()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/late"
    _Slow.release.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture(params=sorted(sdks))
async def using(
    request: pytest.FixtureRequest, running: Running, elsewhere: str
) -> AsyncIterator[Using]:
    account = EtagereServer(running.process, {"container_soft_delete_days": 3})
    async with AsyncExitStack() as closing:
        found = Using(
            sdks[request.param],
            running.process,
            account,
            str(running.authority),
            elsewhere,
            closing,
        )
        await done((await found.container()).create_container())
        yield found
    account.close()
