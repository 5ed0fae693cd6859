"""For people who test their applications: a server in a fixture (docs/testing-with-pytest.md)."""

from etagere.testing.account import EtagereServer, Faults
from etagere.testing.running import Running, ServerProcess, ServerThread, StartFailed

__all__ = [
    "EtagereServer",
    "Faults",
    "Running",
    "ServerProcess",
    "ServerThread",
    "StartFailed",
]
