"""@azure/storage-queue, unmodified."""

import os
import subprocess
from pathlib import Path

from .harness import Server, account, key


def test_javascript_client(server: Server, node_modules: Path):
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("storage_queue.cjs")), server.url, account, key],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
