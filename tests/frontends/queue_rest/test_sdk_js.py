"""@azure/storage-queue, unmodified."""

import os
import subprocess
from pathlib import Path

from .certificate import server_context
from .harness import Server, account, key


def test_javascript_client(server: Server, node_modules: Path, tmp_path: Path):
    context, trusted = server_context(tmp_path)
    script = Path(__file__).with_name("storage_queue.cjs")
    done = subprocess.run(
        ["node", str(script), server.url, server.listen_securely(context), account, key],
        env={
            **os.environ,
            "NODE_PATH": str(node_modules),
            "NODE_EXTRA_CA_CERTS": str(trusted),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
