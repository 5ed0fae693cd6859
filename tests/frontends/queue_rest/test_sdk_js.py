"""@azure/storage-queue, unmodified, where npm has installed it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .harness import Server, account, key

root = Path(__file__).parents[3]
modules = Path(os.environ.get("ETAGERE_NODE_MODULES", root / "node_modules"))


@pytest.mark.skipif(
    shutil.which("node") is None or not (modules / "@azure" / "storage-queue").is_dir(),
    reason="node with @azure/storage-queue (npm install, or ETAGERE_NODE_MODULES) is not there",
)
def test_javascript_client(server: Server):
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("storage_queue.cjs")), server.url, account, key],
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
