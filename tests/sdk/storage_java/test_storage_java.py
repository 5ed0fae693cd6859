"""Java's azure-storage-blob, azure-storage-queue and azure-data-tables, unmodified, against
`etagere serve`; see Storage.java.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

source = Path(__file__).with_name("Storage.java")
scenarios = re.findall(r'^ +all\.put\("(\w+)", this::\w+\);$', source.read_text(), re.MULTILINE)
pytestmark = pytest.mark.timeout(600)  # the first run downloads and compiles


@pytest.fixture(scope="module")
def outcomes(
    built_java: Callable[..., str],
    run_scenarios: Callable[..., dict[str, str | None]],
    storage_connection: Callable[[ServerProcess], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    classes = built_java(source, "azure-storage-blob, azure-storage-queue and azure-data-tables")
    data = tmp_path_factory.mktemp("storage") / "data"
    with ServerProcess(("--data", str(data), "--services", "blob,queue,table")) as server:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, "Storage"]
        return run_scenarios(server, [*command, storage_connection(server)], {})


def test_every_scenario_is_known() -> None:
    assert len(scenarios) == len(set(scenarios)) > 0


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
