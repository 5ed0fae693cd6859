"""Java's azure-messaging-servicebus, unmodified, against `etagere serve`; see Bus.java.

Its administration client speaks HTTPS and trusts what a key store names.
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

sources = tuple(Path(__file__).with_name(name) for name in ("pom.xml", "Bus.java"))
scenarios = re.findall(r'^ +all\.put\("(\w+)", this::\w+\);$', sources[1].read_text(), re.MULTILINE)
tools = ("java", "javac", "keytool", "mvn")
password = "trusted"
download_seconds_max = 240
build_seconds_max = 120
run_seconds_max = 100


def find_tools() -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} missing: install a JDK and Maven")


def wait_until_served(port: str | int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", int(port)), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


@pytest.fixture(scope="module")
def classes() -> str:
    """The class path: built once for each version of its sources, in the user's cache."""
    find_tools()
    texts = [source.read_bytes() for source in sources]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "etagere" / "java"
    # What Maven brings depends on the list alone, and takes the longest.
    library = cache / f"library-{hashlib.sha256(texts[0]).hexdigest()[:16]}"
    built = cache / f"bus-{digest}"
    path = f"{built}{os.pathsep}{library}/*"
    if not library.exists():
        download(library)
    if not built.exists():
        part = built.with_suffix(".part")
        made = subprocess.run(
            ["javac", "-cp", f"{library}/*", "-d", str(part), str(sources[1])],
            capture_output=True,
            text=True,
            timeout=build_seconds_max,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        part.rename(built)
    return path


def download(library: Path) -> None:
    part = library.with_suffix(".part")
    part.mkdir(parents=True, exist_ok=True)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={part}"]
    try:
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(sources[0]), *goal],
            check=True,
            capture_output=True,
            timeout=download_seconds_max,
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"mvn could not download azure-messaging-servicebus: {error}")
    part.rename(library)


def trust(authority: Path, store: Path) -> None:
    subprocess.run(
        [
            "keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", str(authority),
            "-keystore", str(store), "-storetype", "PKCS12", "-storepass", password,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(classes: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What came of each scenario: nothing, or how it failed."""
    data = tmp_path_factory.mktemp("bus") / "data"
    with ServerProcess(("--data", str(data), "--services", "bus")) as server:
        port = server.urls["amqp"].rpartition(":")[2]
        wait_until_served(port)
        store = data / "trusted.p12"
        trust(data / "certificates" / "authority.pem", store)
        connection_string = (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )
        ran = subprocess.run(
            [
                "java", "-XX:TieredStopAtLevel=1", f"-Djavax.net.ssl.trustStore={store}",
                f"-Djavax.net.ssl.trustStorePassword={password}", "-cp", classes,
                "Bus", connection_string, port,
            ],
            capture_output=True,
            text=True,
            timeout=run_seconds_max,
            check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in server.said
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


def test_every_scenario_is_known() -> None:
    assert len(scenarios) == len(set(scenarios)) > 0


@pytest.mark.timeout(600)  # the first run downloads and compiles
@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
