"""Go's azservicebus, unmodified, against `etagere serve`; what it does is in main.go.

Its administration client speaks HTTPS and trusts what SSL_CERT_FILE names.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

sources = tuple(Path(__file__).with_name(name) for name in ("go.mod", "go.sum", "main.go"))
scenarios = re.findall(r'^\t\{"(\w+)", \w+\},$', sources[-1].read_text(), re.MULTILINE)
download_seconds_max = 100
build_seconds_max = 300
run_seconds_max = 100
pytestmark = pytest.mark.timeout(download_seconds_max + build_seconds_max + run_seconds_max)
"""Whichever scenario comes first waits until everything is built."""


def find_go() -> str:
    program = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if program is None:
        pytest.skip("go is missing")
    return program


def wait_until_served(port: str | int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", int(port)), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


@pytest.fixture(scope="module")
def program() -> Path:
    """Built once for each version of its sources, in the user's cache."""
    texts = [source.read_bytes() for source in sources]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "etagere" / "go" / f"bus-{digest}"
    built = folder / "bus"
    if built.exists():
        return built
    go = find_go()
    folder.mkdir(parents=True, exist_ok=True)
    for source, text in zip(sources, texts, strict=True):
        (folder / source.name).write_bytes(text)
    try:
        subprocess.run(
            [go, "mod", "download"],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=download_seconds_max,
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"go could not download azservicebus: {error}")
    made = subprocess.run(
        [go, "build", "-o", "bus.part", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=build_seconds_max,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (folder / "bus.part").rename(built)
    return built


@pytest.fixture(scope="module")
def outcomes(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What came of each scenario: nothing, or how it failed."""
    data = tmp_path_factory.mktemp("bus") / "data"
    with ServerProcess(("--data", str(data), "--services", "bus")) as server:
        port = server.urls["amqp"].rpartition(":")[2]
        wait_until_served(port)
        connection_string = (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
        )
        ran = subprocess.run(
            [program, connection_string],
            env={**os.environ, "SSL_CERT_FILE": str(data / "certificates" / "authority.pem")},
            capture_output=True,
            text=True,
            timeout=run_seconds_max,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in server.said
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
