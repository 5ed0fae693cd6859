"""Nothing is acknowledged before it is on stable storage: a real server's system calls, in order.

A kill cannot show that, for what a process wrote outlives it; what it asked of the disk can.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerProcess

traced = "pwrite64,pwritev,write,writev,sendto,sendmsg,fdatasync,fsync"
syncs = ("fdatasync", "fsync")
begun = re.compile(r"(\d+) +(\w+)\((\d+)<(.*?)>(.*)")
resumed = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>")


@dataclass
class Call:
    """A system call, and the lines of the trace where it began and was over."""

    name: str
    number: int
    path: str
    rest: str
    begins: int
    ends: int


def calls(trace: str) -> list[Call]:
    found: list[Call] = []
    open_calls: dict[str, Call] = {}
    for at, line in enumerate(trace.splitlines()):
        if end := resumed.match(line):
            if end[1] in open_calls:
                open_calls.pop(end[1]).ends = at
        elif start := begun.match(line):
            call = Call(start[2], int(start[3]), start[4], start[5], at, at)
            found.append(call)
            if "<unfinished" in line:
                open_calls[start[1]] = call
    return found


class Tracer:
    def __init__(self, pid: int, log: Path) -> None:
        if shutil.which("strace") is None:
            pytest.skip("strace is not installed")
        self.log = log
        options = ["-f", "-y", "-s", "24", "-e", f"trace={traced}"]
        self.process = subprocess.Popen(
            ["strace", *options, "-o", str(log), "-p", str(pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        said = self.process.stderr.readline()
        if "attached" not in said:
            self.stop()
            pytest.skip(f"strace may not trace here: {said.strip()}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)

    def until_answered(self, times: int) -> list[Call]:
        deadline = time.monotonic() + 30
        while self.log.read_text().count('"HTTP/1.1 201') < times:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return calls(self.log.read_text())


def written_through(pid: int, data: Path) -> int:
    """The descriptor by which the store's meta pages go out: each write is its own sync."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if entry.readlink() == data / "data.mdb":
            info = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text()
            flags = info.split("flags:")[1].split()[0]
            if int(flags, 8) & os.O_DSYNC:
                return int(entry.name)
    pytest.fail("no descriptor of the store writes through")


def is_answer(call: Call) -> bool:
    return '"HTTP/1.1 201' in call.rest


def test_a_write_is_on_the_disk_before_it_is_acknowledged(tmp_path):
    data = tmp_path / "data"
    with ServerProcess(["--data", str(data), "--services", "blob"]) as server:
        string = (
            f"AccountName={development_name};AccountKey={development_key};"
            f"BlobEndpoint={server.urls['blob']};"
        )
        server.admin.ask("GET", "/healthz")
        meta = written_through(server.process.pid, data)
        tracer = Tracer(server.process.pid, tmp_path / "trace")
        try:
            with BlobServiceClient.from_connection_string(string) as blobs:
                container = blobs.create_container("durable")
                container.upload_blob("small", b"s" * 1000)
                container.upload_blob("large", b"l" * 200_000)
            seen = tracer.until_answered(3)
        finally:
            tracer.stop()
    begin = -1
    for _ in range(3):
        answer = next(call for call in seen if is_answer(call) and call.begins > begin)
        work = [call for call in seen if begin < call.begins < answer.begins]
        begin = answer.begins
        store = [call for call in work if call.path == str(data / "data.mdb")]
        (root,) = (call for call in store if call.number == meta)
        (synced,) = (call for call in store if call.name in syncs)
        pages = [call for call in store if call.number != meta and call.name not in syncs]
        assert pages
        assert max(page.ends for page in pages) < synced.begins
        assert synced.ends < root.begins
        assert root.ends < answer.begins
        extent = [call for call in work if str(data / "extents") in call.path]
        bytes_of_it = [call for call in extent if call.name not in syncs]
        if bytes_of_it:
            file = Path(bytes_of_it[0].path)
            (content,) = (c for c in extent if c.path == str(file) and c.name in syncs)
            (name,) = (c for c in extent if c.path == str(file.parent) and c.name in syncs)
            assert max(part.ends for part in bytes_of_it) < content.begins
            # Before the transaction that refers to it.
            assert max(content.ends, name.ends) < min(page.begins for page in pages)
    assert bytes_of_it, "the last one is too large for a row"
