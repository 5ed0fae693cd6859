"""`etagere serve` as a process of its own, on a store on disk that outlives it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .serving import account, port_of

start_seconds_max = 30


@dataclass
class Process:
    """A server that can be killed and started again on the same data."""

    data: Path
    workers: int = 1
    services: str = "table"
    port: int = 0
    urls: dict[str, str] = field(default_factory=dict)
    _child: subprocess.Popen[str] | None = None

    def start(self) -> "Process":
        command = [
            sys.executable, "-m", "etagere.app.cli", "serve", "--data", str(self.data),
            "--services", self.services, "--workers", str(self.workers), "--ready-json",
            "--blob-port", "0", "--table-port", str(self.port), "--admin-port", "0",
        ]  # fmt: skip
        self._child = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._child.stdout is not None
        self.urls = json.loads(self._child.stdout.readline())
        self.port = port_of(self.urls["table"])
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{account}"

    def kill(self) -> None:
        """As a power failure would: no process of the server gets to do anything more."""
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        """Ask for an orderly end; its exit status."""
        return self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> int:
        child = self._child
        if child is None:
            return 0
        self._child = None
        assert child.stdout is not None
        if number is signal.SIGKILL:
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        status = child.wait(30)
        child.stdout.close()
        return status

    def check(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "etagere.app.cli", "check", str(self.data)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
