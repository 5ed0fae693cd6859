"""What makes a start short, without a stopwatch: what is loaded before the ready line, and what is
never loaded by a server that nobody asks for it."""

import contextlib
import json
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from etagere.testing import ServerProcess

script = """
import asyncio, json, sys
from etagere.app.cli import make_parser
from etagere.app.configuration import configure
from etagere.app.server import Server

async def start(arguments):
    server = await Server.start(configure(vars(make_parser().parse_args(arguments)), {}))
    at_ready = sorted(sys.modules)
    await server.furnish()
    furnished = sorted(sys.modules)
    await server.stop()
    return at_ready, furnished

sys.stdout.write(json.dumps(asyncio.run(start(sys.argv[1:]))))
"""
ports = [f"--{name}-port=0" for name in "blob queue table amqp amqps bus-admin admin".split()]
# Each takes a tenth of a second or more.
slow = {"cryptography.x509", "duckdb", "pyarrow", "numpy", "awscrt"}


@pytest.fixture(scope="module")
def loaded():
    """The modules at the ready line, and those when everything is served."""
    command = [sys.executable, "-c", script, "serve", "--in-memory", *ports]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    at_ready, furnished = json.loads(done.stdout)
    return set(at_ready), set(furnished)


def test_services_are_loaded_behind_the_ready_line(loaded):
    at_ready, furnished = loaded
    for service in ("blob", "queue", "table"):
        name = f"etagere.frontends.{service}_rest.service"
        assert name in furnished
        assert name not in at_ready
    assert "etagere.services.bus.broker" in furnished
    assert "etagere.services.bus.broker" not in at_ready
    assert "lmdb" not in at_ready, "this one is in memory"


def test_what_takes_long_is_loaded_by_whoever_needs_it(loaded):
    at_ready, furnished = loaded
    assert not slow & at_ready
    for rare in ("duckdb", "pyarrow", "numpy", "cryptography.x509"):
        assert rare not in furnished


def test_whoever_is_there_at_the_ready_line_is_served():
    """Ports are open by then: nobody is turned away while the rest is loaded."""
    with ServerProcess() as server:
        open_sockets = []
        for name, url in server.urls.items():
            where = urlsplit(url)
            one = socket.create_connection((where.hostname, where.port), timeout=30)
            open_sockets.append((name, one))
            if name != "amqp":
                one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            else:
                one.sendall(b"AMQP\x00\x01\x00\x00")
        for name, one in open_sockets:
            with one:
                wanted = b"AMQP" if name == "amqp" else b"HTTP/1.1 "
                assert one.recv(100).startswith(wanted), name


def test_running_out_of_file_descriptors_is_said_once(tmp_path):
    """What connects then is dropped by the event loop itself; the operator hears what to raise."""
    command = ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh", sys.executable, "-m"]
    command += ["etagere.app.cli", "serve", "--in-memory", "--ready-json", *ports]
    log = tmp_path / "log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as server,
        contextlib.ExitStack() as clients,
    ):
        where = urlsplit(json.loads(server.stdout.readline())["blob"])
        for _ in range(120):
            client = socket.create_connection((where.hostname, where.port), timeout=30)
            clients.enter_context(client)
        client.settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b"", "the last one finds no room"
        server.terminate()
        assert server.wait(30) == 0
    (line,) = log.read_text().splitlines()
    assert "nearly all of 100 file descriptors are in use" in line
    assert "LimitNOFILE=" in line
