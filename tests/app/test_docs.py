"""Generated pages are fresh, and what the hand-written ones show works."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from etagere.app import docs
from etagere.app.cli import make_parser
from etagere.app.compose import storage_services
from etagere.app.configuration import Unusable, configure
from etagere.app.settings import (
    options_of_later_versions,
    ports_of_services,
    services_available,
    services_known,
)
from etagere.testing import ServerProcess

root = Path(__file__).parents[2]


def test_generated_pages_are_fresh():
    assert docs.stale(root / "docs") == [], "run: make docs"


def test_stale_and_missing_pages_are_noticed(tmp_path):
    assert sorted(docs.stale(tmp_path)) == sorted(docs.pages)
    for name, make in docs.pages.items():
        (tmp_path / name).write_text(make())
    assert docs.stale(tmp_path) == []
    (tmp_path / "settings.md").write_text("old")
    assert docs.stale(tmp_path) == ["settings.md"]


def test_every_operation_of_every_service_is_there():
    text = docs.operations_page()
    for service in storage_services:
        for name in docs._operations(service).names():
            assert f"| {name} |" in text


def test_the_file_in_the_settings_page_is_one_that_works(tmp_path):
    (toml,) = re.findall(r"```toml\n(.*?)```", docs.settings_page(), re.DOTALL)
    file = tmp_path / "etagere.toml"
    file.write_text(toml.replace("base64...", "a2V5"))
    settings = configure({"config": str(file)}, {})
    assert set(settings.accounts) == {"devstoreaccount1"}
    assert settings.namespaces["sbemulatorns"].rules[0].rights == ("Manage", "Send", "Listen")


def test_what_is_not_there_yet_is_said():
    missing = set(services_known) - set(services_available)
    sentence = docs.settings_page().partition("Not in this version:")[2]
    for name in (*missing, *options_of_later_versions):
        assert f"`{name}`" in sentence
    assert "Not there yet: Files (REST and SMB) and Data Lake" in (root / "README.md").read_text()
    assert missing == {"files", "smb", "dfs"}


def readme_blocks(language):
    text = (root / "README.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def default_ports():
    """What the README connects to: the default ports, where they are free."""
    import socket

    for port in (10000, 10001, 10002):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                pytest.skip(f"port {port} is in use, and the README's example connects to it")
    ports = [f"--{n}-port={p}" for n, p in (("blob", 10000), ("queue", 10001), ("table", 10002))]
    with ServerProcess(["--in-memory", *ports]) as server:
        yield server


def test_the_readmes_python_works(default_ports):
    (code,) = readme_blocks("python")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_readmes_javascript_works(default_ports, node_modules):
    (code,) = readme_blocks("javascript")
    done = subprocess.run(
        ["node", "-e", code],
        env={**os.environ, "NODE_PATH": str(node_modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_links_in_the_pages_lead_somewhere():
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_what_the_image_and_the_unit_run_is_understood():
    parser = make_parser()
    image = (root / "Dockerfile").read_text()
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", image, re.MULTILINE)
    (exposed,) = re.findall(r"^EXPOSE (.*)$", image, re.MULTILINE)
    program, *arguments = json.loads(entry)
    settings = configure(vars(parser.parse_args([*arguments, "--allow-development-key"])), {})
    assert (program, str(settings.data)) == ("etagere", "/data")
    names = [name for service in settings.services for name in ports_of_services[service]]
    assert sorted(map(int, exposed.split())) == sorted(getattr(settings, name) for name in names)
    with pytest.raises(Unusable, match="--allow-development-key"):
        configure(vars(parser.parse_args(arguments)), {})
    for source in re.findall(r"^COPY (.*) /", image, re.MULTILINE):
        assert all((root / name).exists() for name in source.split())
    (unit,) = re.findall(r"^ExecStart=(.*)$", (root / "docs/running.md").read_text(), re.MULTILINE)
    parsed = parser.parse_args(unit.split()[1:])
    assert parsed.data == "/var/lib/etagere"


def test_make_help_lists_every_target():
    makefile = (root / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    shown = subprocess.run(
        ["make", "help"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    for target in phony.split():
        assert f"make {target} " in shown
