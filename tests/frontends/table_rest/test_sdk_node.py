"""@azure/data-tables against the service; what it does is in javascript/tables.cjs."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from .serving import Serving, account, key

script = Path(__file__).parent / "javascript" / "tables.cjs"
scenarios = re.findall(r"^  async (\w+)\(", script.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(serving: Serving, node_modules: Path) -> dict[str, str | None]:
    """What came of each scenario: nothing, or how it failed."""
    ran = subprocess.run(
        ["node", str(script), serving.connection_string, serving.url, account, key],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str):
    assert outcomes[name] is None, outcomes[name]
