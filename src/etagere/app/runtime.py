"""How Python and the event loop are set for serving."""

import contextlib
import gc
import resource
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import uvloop

T = TypeVar("T")

switch_interval_seconds: Final = 0.0005
"""The store's writer thread and the loop take turns this often: the 99th percentile halves."""

_young_objects_max: Final = 50_000
"""Requests make garbage without cycles; looking for cycles less often costs nothing."""


def run(work: Coroutine[Any, Any, T]) -> T:
    sys.setswitchinterval(switch_interval_seconds)
    return uvloop.run(work)


def tune() -> None:
    """Once everything is imported and listening."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_young_objects_max, 20, 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # A file system or a container may refuse what it says it allows.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
