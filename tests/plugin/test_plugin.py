"""The shipped pytest plugin, in a project of its own, run by a pytest of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

project = Path(__file__).parent / "project"


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_a_project_uses_the_fixtures(tmp_path, mode):
    shutil.copytree(project, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "project" / "pytest.ini").write_text(
        f"[pytest]\netagere_mode = {mode}\n"
        "etagere_args = --in-memory --clock virtual --bus-config bus.json\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60"],
        cwd=tmp_path / "project",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        # Settings for somebody's own server have no say in a test's.
        env={**os.environ, "ETAGERE_BLOB_PORT": "1", "AZURITE_ACCOUNTS": "nonsense"},
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "11 passed" in found.stdout


def test_a_server_that_does_not_start_says_why(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\netagere_args = --in-memory --workers 3\n")
    (tmp_path / "test_it.py").write_text("def test_it(etagere_server): pass\n")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 1
    assert "--workers needs a store on disk; leave --in-memory out." in found.stdout


def test_the_plugin_loads_nothing_before_a_test_asks_for_it():
    code = (
        "import pytest, sys; before = set(sys.modules)\n"
        "import etagere.testing.plugin\n"
        "print(*(m for m in set(sys.modules) - before if not m.startswith('etagere.testing')))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert set(found.split()) <= {"etagere", "shlex"}


def test_the_pages_examples_work(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "testing-with-pytest.md").read_text()
    as_a_test, as_a_script = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_it.py").write_text(as_a_test)
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1 passed" in found.stdout
    said = subprocess.run(
        [sys.executable, "-c", as_a_script], capture_output=True, text=True, check=True, timeout=100
    ).stdout
    assert said.startswith("DefaultEndpointsProtocol=http;AccountName=t")
