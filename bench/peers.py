"""The servers that a bench compares: this one, Azurite and nginx, each started fresh and ended."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

account = "devstoreaccount1"
key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_cache = Path(os.environ.get("ETAGERE_BENCH_CACHE", Path.home() / ".cache" / "etagere-bench"))


_ports = ("blob", "queue", "table", "amqp", "amqps", "bus-admin", "admin")


class Peer(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]
    blob: str
    queue: str
    table: str
    bus: str = ""
    folder: Path | None = None
    """Where it keeps what it has."""


class Missing(Exception):  # noqa: N818
    """A peer that cannot be had here, and why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, seconds: float = 30) -> None:
    where = urlsplit(url)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            socket.create_connection((where.hostname, where.port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Missing(f"nothing listens at {url}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def etagere(
    *,
    workers: int = 1,
    durability: str = "sync",
    services: str = "blob,queue,table",
    prepare: Callable[[Path], None] | None = None,
) -> Iterator[Peer]:
    """This server on its embedded store, durable unless told otherwise.

    `prepare` fills the directory before the server has it.
    """
    with tempfile.TemporaryDirectory(prefix="etagere-bench-") as folder:
        if prepare is not None:
            prepare(Path(folder))
        command = [
            sys.executable, "-m", "etagere", "serve", "--data", folder, "--ready-json",
            "--workers", str(workers), "--durability", durability, "--services", services,
            *(f"--{name}-port=0" for name in _ports),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Missing("etagere did not start")
        urls = json.loads(line)
        try:
            yield Peer(
                "etagere", process, urls.get("blob", ""), urls.get("queue", ""),
                urls.get("table", ""), urls.get("amqp", ""), Path(folder),
            )  # fmt: skip
        finally:
            _end(process)


def _azurite_script() -> Path:
    script = _cache / "node_modules" / "azurite" / "dist" / "src" / "azurite.js"
    if script.exists():
        return script
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise Missing("Azurite needs node and npm")
    _cache.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-fund", "--prefix", str(_cache), "azurite"],
        capture_output=True, check=False,
    )  # fmt: skip
    if not script.exists():
        raise Missing(f"npm could not install azurite: {done.stderr.decode()[-200:]}")
    return script


@contextmanager
def azurite() -> Iterator[Peer]:
    script = _azurite_script()
    ports = {name: free_port() for name in ("blob", "queue", "table")}
    with tempfile.TemporaryDirectory(prefix="azurite-bench-") as folder:
        process = subprocess.Popen(
            [
                "node", str(script), "--location", folder, "--silent", "--skipApiVersionCheck",
                "--disableTelemetry", *(f"--{name}Port={port}" for name, port in ports.items()),
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        urls = {name: f"http://127.0.0.1:{port}/{account}" for name, port in ports.items()}
        try:
            for url in urls.values():
                _wait_for(url)
            yield Peer("azurite", process, urls["blob"], urls["queue"], urls["table"])
        finally:
            _end(process)


@contextmanager
def nginx(content: bytes) -> Iterator[str]:
    """A static file behind nginx, with one worker a core; yields its URL."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(program).exists():
        raise Missing("nginx is not installed (Debian: nginx-light)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="nginx-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "file").write_bytes(content)
        (root / "nginx.conf").write_text(
            f"""
            daemon off; worker_processes auto; error_log {folder}/error.log; pid {folder}/pid;
            events {{ worker_connections 1024; }}
            http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
              server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
            """
        )
        process = subprocess.Popen(
            [program, "-c", f"{folder}/nginx.conf", "-p", folder], stderr=subprocess.DEVNULL
        )
        try:
            url = f"http://127.0.0.1:{port}/file"
            _wait_for(url)
            yield url
        finally:
            _end(process)


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    """Of the process and its children."""
    pids = [process.pid, *_children(process.pid)]
    return sum(_resident(pid) for pid in pids)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """What the process and its children have used."""
    return sum(_used(pid) for pid in [process.pid, *_children(process.pid)])


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
