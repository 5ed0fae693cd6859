"""@azure/data-tables against the service; what it does is in javascript/tables.cjs.

The package is looked for in ETAGERE_NODE_MODULES, and otherwise installed once into the user's
cache; without node or npm's registry these tests are skipped.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .serving import Serving, account, key

package = "@azure/data-tables@13.3.2"
install_seconds_max = 90
script = Path(__file__).parent / "javascript" / "tables.cjs"
scenarios = re.findall(r"^  async (\w+)\(", script.read_text(), re.MULTILINE)


def _node_modules() -> Path:
    given = os.environ.get("ETAGERE_NODE_MODULES")
    if given:
        return Path(given)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    prefix = cache / "etagere" / "javascript-tables"
    stamp = prefix / "installed"
    if not stamp.exists() or stamp.read_text() != package:
        prefix.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(prefix), "--no-save", "--ignore-scripts"]
        try:
            subprocess.run(
                [*command, "--no-audit", "--no-fund", package],
                check=True,
                capture_output=True,
                timeout=install_seconds_max,
            )
        except (subprocess.SubprocessError, OSError):
            pytest.skip(f"npm could not install {package}")
        stamp.write_text(package)
    return prefix / "node_modules"


@pytest.fixture(scope="module")
def outcomes(serving: Serving) -> dict[str, str | None]:
    """What came of each scenario: nothing, or how it failed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing")
    ran = subprocess.run(
        [node, str(script), serving.connection_string, serving.url, account, key],
        env={**os.environ, "NODE_PATH": str(_node_modules())},
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
