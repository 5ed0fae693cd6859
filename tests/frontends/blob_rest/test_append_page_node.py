"""Append and page blobs with @azure/storage-blob; what it does is in javascript/."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from .serving import Server

script = Path(__file__).parent / "javascript" / "append_and_page.cjs"
scenarios = re.findall(r"^  async (\w+)\(", script.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(node_modules: Path) -> dict[str, str | None]:
    """What came of each scenario: nothing, or how it failed."""
    server = Server()
    ran = subprocess.run(
        ["node", str(script), server.connection_string],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    server.stop()
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", scenarios)
def test_scenario(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
