"""A Celery worker over kombu's transport for storage queues, unmodified."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from .harness import Server, key

tasks = 100
seconds_to_run_max = 90


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("celery") is None or find_spec("azure.identity") is None,
    reason="celery and azure-identity are not installed",
)
def test_a_hundred_tasks_run_once_each(server: Server, tmp_path: Path):
    environment = {
        **os.environ,
        "BROKER": f"azurestoragequeues://:{key}@{server.url}",
        "NOTES": str(tmp_path),
    }
    here = Path(__file__).parent
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "2", "-l", "ERROR"],
        cwd=here,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        subprocess.run(
            [
                sys.executable,
                "-c",
                f"import celery_tasks\nfor n in range({tasks}): celery_tasks.note.delay(n)",
            ],
            cwd=here,
            env=environment,
            check=True,
            timeout=seconds_to_run_max,
        )
        deadline = time.monotonic() + seconds_to_run_max
        while len(list(tmp_path.iterdir())) < tasks:
            assert time.monotonic() < deadline
            assert worker.poll() is None
            time.sleep(0.1)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
    ran = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert ran == {str(number): "ran\n" for number in range(tasks)}
    raw = server.raw()
    left = raw("GET", "/celery", comp="metadata").headers["x-ms-approximate-messages-count"]
    raw.close()
    assert left == "0"
