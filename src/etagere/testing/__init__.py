"""For people who test their applications: a server in a fixture (docs/testing-with-pytest.md)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

_homes: Final = {
    "EtagereServer": "account",
    "Faults": "account",
    "Running": "running",
    "ServerProcess": "running",
    "ServerThread": "running",
    "StartFailed": "running",
}


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the plugin is part of every pytest run, and must not slow it down."""
    home = _homes.get(name)
    if home is None:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{home}"), name)
