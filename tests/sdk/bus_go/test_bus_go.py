"""Go's azservicebus, unmodified, against `etagere serve`; what it does is in main.go.

Its administration client speaks HTTPS and trusts what SSL_CERT_FILE names.
"""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

module = Path(__file__).parent
scenarios = re.findall(r'^\t\{"(\w+)", \w+\},$', (module / "main.go").read_text(), re.MULTILINE)
pytestmark = pytest.mark.timeout(600)  # whichever comes first waits until everything is built


def wait_until_served(port: str | int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", int(port)), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


@pytest.fixture(scope="module")
def outcomes(
    built_go: Callable[..., Path],
    run_scenarios: Callable[..., dict[str, str | None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    program = built_go(module, "azservicebus")
    data = tmp_path_factory.mktemp("bus") / "data"
    with ServerProcess(("--data", str(data), "--services", "bus")) as server:
        port = server.urls["amqp"].rpartition(":")[2]
        wait_until_served(port)
        connection_string = (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
        )
        trusted = {"SSL_CERT_FILE": str(data / "certificates" / "authority.pem")}
        return run_scenarios(server, [program, connection_string], trusted)


def test_every_scenario_is_known() -> None:
    assert len(scenarios) == len(set(scenarios)) > 0


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
