"""azure-servicebus's own live tests, those of its source distribution, against a server of ours.

They take half an hour, because most of what they do is to wait; the SDK has no setting for the
ports 443 and 5671, so that they need a network of their own.  `ETAGERE_SDK_SUITES=1` runs them.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from etagere.testing import ServerProcess

stand_ins = Path(__file__).parent / "stand_ins"
workers = 6
"""Tests at a time: they sleep."""
one_test_seconds_max = 700

known_to_fail = {
    # It replaces a method of the SDK by one that lacks an argument the SDK gives it now.
    "test_queue_operation_negative",
    "test_async_queue_operation_negative",
    # The SDK of this version gives up waiting for a session by itself, before the server does.
    "test_next_available_session_timeout_value",
    "test_async_next_available_session_timeout_value",
    # It counts the bytes of a message; ours always say the number that it was first enqueued under.
    "test_message_backcompat_peek_lock_databody",
    # It wants delivery annotations that are empty instead of none.
    "test_message_backcompat_receive_and_delete_databody",
    # The SDK cannot read the decimals that it writes: the service must be writing them anew, and
    # here application properties are given back byte for byte.
    "test_message_property",
    # Six threads renew 25 locks a second on two cores, and ten seconds are left for 300.
    "test_queue_receive_handler_with_autolockrenew_many_msgs",
}

pytestmark = [
    pytest.mark.skipif(
        "ETAGERE_SDK_SUITES" not in os.environ, reason="ETAGERE_SDK_SUITES is not set"
    ),
    pytest.mark.timeout(7_200),
]


def _may_have_a_network() -> bool:
    return shutil.which("unshare") is not None and (
        subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests of the SDK that is installed."""
    if not _may_have_a_network():
        pytest.skip("unshare cannot make a network here")
    folder = tmp_path_factory.mktemp("suite")
    wanted = f"azure-servicebus=={version('azure-servicebus')}"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
         "--dest", str(folder), wanted],
        check=True,
    )  # fmt: skip
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (tests,) = folder.glob("*/tests")
    for name in ("conftest.py", "servicebus_preparer.py", "sb_env_loader.py"):
        (tests / name).unlink()
    return tests


def _run(suite: Path, data: Path, arguments: list[str], count: int) -> Iterator[str]:
    """The names of the tests that failed."""
    data.mkdir()
    report = data / "failed.json"
    subprocess.run(
        ["unshare", "-n", sys.executable, __file__, str(suite), str(data), str(count), *arguments],
        check=True,
    )
    yield from json.loads(report.read_text())


def test_administration(suite: Path, tmp_path: Path) -> None:
    """One after another: each begins by deleting everything."""
    assert list(_run(suite, tmp_path / "data", ["mgmt_tests"], 1)) == []


def test_messages(suite: Path, tmp_path: Path) -> None:
    files = [
        str(path.relative_to(suite))
        for path in (*suite.glob("test_*.py"), *suite.glob("async_tests/test_*.py"))
        if "LiveTest" in (text := path.read_text()) or "liveTest" in text
    ]
    failed = set(_run(suite, tmp_path / "data", files, workers))
    assert failed <= known_to_fail


# ---- within the network


def _configuration(folder: Path) -> Path:
    sys.path.append(str(stand_ins))
    from servicebus_preparer import namespace_key, namespace_rules, root_rule

    rules = {root_rule: ("Manage", "Send", "Listen")}
    rules |= {name: rights for rights, name in namespace_rules.items()}
    lines = [
        f'{{ name = "{name}", key = "{namespace_key}", rights = {json.dumps(rights)} }},'
        for name, rights in rules.items()
    ]
    path = folder / "etagere.toml"
    path.write_text("\n".join(["[bus.localhost]", "rules = [", *lines, "]"]))
    return path


def _inside(suite: Path, data: Path, count: int, arguments: list[str]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    places = [suite, suite / "async_tests", suite / "mgmt_tests", suite / "mgmt_tests" / "async"]
    paths = [str(stand_ins), *map(str, places), *filter(None, [os.environ.get("PYTHONPATH")])]
    authority = str(data / "certificates" / "authority.pem")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "SSL_CERT_FILE": authority,
        "REQUESTS_CA_BUNDLE": authority,
    }
    pytest_of_theirs = [
        sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(suite),
        "-p", "live_plugin", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto",
        "-o", "asyncio_default_fixture_loop_scope=function",
        "--timeout", str(one_test_seconds_max),
    ]  # fmt: skip
    server = (
        "--data", str(data), "--services", "bus", "--config", str(_configuration(data)),
        "--oauth", "basic", "--amqp-port", "5672", "--amqps-port", "5671",
        "--bus-admin-port", "443",
    )  # fmt: skip
    with ServerProcess(server):
        listed = subprocess.run(
            [*pytest_of_theirs, "--collect-only", *arguments],
            cwd=suite, env=environment, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        tests = [line for line in listed.splitlines() if "::" in line]
        running = []
        for index in range(count):
            log = (data / f"log-{index}").open("w")
            mine = tests[index::count]
            command = [*pytest_of_theirs, "-rfE", *mine]
            running.append((subprocess.Popen(command, cwd=suite, env=environment, stdout=log), log))
        for process, log in running:
            process.wait()
            log.close()
    said = "".join((data / f"log-{index}").read_text() for index in range(count))
    failed = [
        line.split("::")[-1].partition("[")[0].partition(" ")[0]
        for line in said.splitlines()
        if line.startswith(("FAILED ", "ERROR ")) and ".py::" in line
    ]
    (data / "failed.json").write_text(json.dumps(failed))


if __name__ == "__main__":
    _inside(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
