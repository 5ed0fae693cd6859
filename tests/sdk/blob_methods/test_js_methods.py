"""Every public method of @azure/storage-blob's clients; what they do is in every_method.cjs."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from etagere.testing import EtagereServer

from .conftest import Running
from .using import Using, bearer_token, sdks

script = Path(__file__).parent / "every_method.cjs"
client_or_method = re.compile(r"^  (\w+): \{$|^    async (\w+)\(", re.MULTILINE)


def names() -> list[str]:
    found: list[str] = []
    client = ""
    for begun, method in client_or_method.findall(script.read_text()):
        if begun:
            client = begun
            found.append(f"{client} is complete")
        else:
            found.append(f"{client}.{method}")
    return found


@pytest.fixture(scope="module")
def outcomes(node_modules: Path, running: Running, elsewhere: str) -> dict[str, str | None]:
    """What came of each method: nothing, or how it failed."""
    options = {
        "plain": {"container_soft_delete_days": 3},
        "premium": {"sku": "Premium_LRS"},
        "worm": {"versioning": True, "immutable_storage_with_versioning": True},
    }
    accounts = {name: EtagereServer(running.process, each) for name, each in options.items()}
    plain = Using(sdks["blocking"], running.process, accounts["plain"], "", "", closing=None)  # type: ignore[arg-type]  # it closes nothing
    given = {
        **{name: account.connection_string for name, account in accounts.items()},
        "sas": plain.token(),
        "token": bearer_token(),
        "elsewhere": elsewhere,
    }
    ran = subprocess.run(
        ["node", str(script), json.dumps(given)],
        env={
            **os.environ,
            "NODE_PATH": str(node_modules),
            "NODE_EXTRA_CA_CERTS": str(running.authority),
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    for account in accounts.values():
        account.close()
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", names())
def test_method(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
