"""@azure/service-bus, unmodified, against `etagere serve`; what it does is in bus.cjs.

The SDK's administration client speaks HTTPS whatever the connection string says, so it is told to
trust the authority that the server made for itself.
"""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

script = Path(__file__).with_name("bus.cjs")
scenarios = re.findall(r"^  async (\w+)\(", script.read_text(), re.MULTILINE)


def wait_until_served(port: str | int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", int(port)), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


@pytest.fixture(scope="module")
def outcomes(
    node_modules: Path,
    run_scenarios: Callable[..., dict[str, str | None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    """What came of each scenario: nothing, or how it failed."""
    data = tmp_path_factory.mktemp("bus") / "data"
    with ServerProcess(("--data", str(data), "--services", "bus")) as server:
        port = server.urls["amqp"].rpartition(":")[2]
        wait_until_served(port)
        connection_string = (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )
        return run_scenarios(
            server,
            ["node", script, connection_string],
            {
                "NODE_PATH": str(node_modules),
                "NODE_EXTRA_CA_CERTS": str(data / "certificates" / "authority.pem"),
            },
        )


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
