"""wrk, the load generator: what it costs is the same for every server that it drives."""

import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import NamedTuple

from bench.peers import Missing

_scripts = Path(__file__).parent / "lua"
_units = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class Measured(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    """Responses that were not 2xx, and sockets that broke."""


def run(
    url: str,
    script: str | None = None,
    *,
    seconds: float = 4,
    connections: int = 16,
    threads: int = 2,
    **environment: str,
) -> Measured:
    program = shutil.which("wrk")
    if program is None:
        raise Missing("wrk is not installed (Debian: wrk)")
    command = [
        program, "--latency", f"-t{threads}", f"-c{connections}", f"-d{seconds:g}s",
        "--timeout", "30s",
    ]  # fmt: skip
    if script is not None:
        command += ["-s", str(_scripts / f"{script}.lua")]
    done = subprocess.run(
        [*command, url],
        env={**os.environ, **environment, "LUA_PATH": f"{_scripts}/?.lua;;"},
        capture_output=True,
        text=True,
        check=True,
    )
    return _parse(done.stdout)


def _parse(text: str) -> Measured:
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None, text
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    broken = re.search(
        r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text
    )
    return Measured(
        float(rate[1]),
        _percentile(text, 50),
        _percentile(text, 99),
        (int(failed[1]) if failed else 0) + (sum(map(int, broken.groups())) if broken else 0),
    )


def _percentile(text: str, which: int) -> float:
    found = re.search(rf"{which}%\s+([\d.]+)(us|ms|s)", text)
    return float(found[1]) * _units[found[2]] if found else float("nan")


def median(rounds: list[Measured]) -> Measured:
    return Measured(
        statistics.median(m.per_second for m in rounds),
        statistics.median(m.p50_ms for m in rounds),
        statistics.median(m.p99_ms for m in rounds),
        sum(m.failed for m in rounds),
    )
