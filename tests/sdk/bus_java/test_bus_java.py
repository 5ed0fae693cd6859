"""Java's azure-messaging-servicebus, unmodified, against `etagere serve`; see Bus.java.

Its administration client speaks HTTPS and trusts what a key store names.
"""

import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

source = Path(__file__).with_name("Bus.java")
scenarios = re.findall(r'^ +all\.put\("(\w+)", this::\w+\);$', source.read_text(), re.MULTILINE)
password = "trusted"


def wait_until_served(port: str | int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", int(port)), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


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
def outcomes(
    built_java: Callable[..., str],
    run_scenarios: Callable[..., dict[str, str | None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    classes = built_java(source, "azure-messaging-servicebus")
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
        trusted = (
            f"-Djavax.net.ssl.trustStore={store}",
            f"-Djavax.net.ssl.trustStorePassword={password}",
        )
        command = ["java", "-XX:TieredStopAtLevel=1", *trusted, "-cp", classes]
        return run_scenarios(server, [*command, "Bus", connection_string, port], {})


def test_every_scenario_is_known() -> None:
    assert len(scenarios) == len(set(scenarios)) > 0


@pytest.mark.timeout(600)  # the first run downloads and compiles
@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
