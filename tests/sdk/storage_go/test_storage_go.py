"""Go's azblob, azqueue and aztables, unmodified, against `etagere serve`; see main.go."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

module = Path(__file__).parent
scenarios = re.findall(r'^\t\{"(\w+)", \w+\},$', (module / "main.go").read_text(), re.MULTILINE)
pytestmark = pytest.mark.timeout(600)  # whichever comes first waits until everything is built


@pytest.fixture(scope="module")
def outcomes(
    built_go: Callable[..., Path],
    run_scenarios: Callable[..., dict[str, str | None]],
    storage_connection: Callable[[ServerProcess], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    program = built_go(module, "azblob, azqueue and aztables")
    data = tmp_path_factory.mktemp("storage") / "data"
    with ServerProcess(("--data", str(data), "--services", "blob,queue,table")) as server:
        return run_scenarios(server, [program, storage_connection(server)], {})


def test_every_scenario_is_known() -> None:
    assert len(scenarios) == len(set(scenarios)) > 0


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
