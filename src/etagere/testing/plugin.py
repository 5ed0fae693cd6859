"""The pytest plugin: `etagere_server` is a fresh account on a server that the whole run shares."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # Every pytest run loads this module; few of them need a server.
    from etagere.testing.account import EtagereServer
    from etagere.testing.running import Running

_mode_help = "run the server as a process (default) or as a thread of the test process"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("etagere", "a server for Azure Storage and Service Bus")
    group.addoption("--etagere-mode", choices=("process", "thread"), default=None, help=_mode_help)
    parser.addini("etagere_mode", _mode_help, default="process")
    parser.addini(
        "etagere_args",
        "arguments for `etagere serve`",
        default="--in-memory --clock virtual",
    )


@pytest.fixture(scope="session")
def etagere_running(request: pytest.FixtureRequest) -> Iterator["Running"]:
    """The server itself; most tests want `etagere_server`."""
    from etagere.testing.running import ServerProcess, ServerThread  # noqa: PLC0415 - see above

    config = request.config
    mode = config.getoption("--etagere-mode") or config.getini("etagere_mode")
    arguments = shlex.split(config.getini("etagere_args"))
    if mode not in ("process", "thread"):
        raise pytest.UsageError(f"etagere_mode is {mode!r}; use process or thread")
    running = ServerProcess(arguments) if mode == "process" else ServerThread(arguments)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def etagere_server(etagere_running: "Running") -> "Iterator[EtagereServer]":
    """A fresh account with a connection string, a clock to move and faults to arm."""
    from etagere.testing.account import EtagereServer  # noqa: PLC0415 - see above

    server = EtagereServer(etagere_running)
    try:
        yield server
    finally:
        server.close()
