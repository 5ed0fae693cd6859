"""Clocks and engines for the store's tests."""

import pytest
from hypothesis import HealthCheck, settings

from etagere.base.clock import Timestamp
from etagere.kv.check import check_store, nowhere
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.kv.engines.memory import MemoryEngine

# No result depends on how busy the machine is.
settings.register_profile("kv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kv")


class HandClock:
    """Time that moves when a test says so, backwards too."""

    def __init__(self, at: int = 17_000_000_000_000_000) -> None:
        self.at = at

    def now(self) -> Timestamp:
        return Timestamp(self.at)


@pytest.fixture
def clock():
    return HandClock()


openers = {
    "memory-strict": lambda path, clock, **more: MemoryEngine(clock, **more),
    "memory": lambda path, clock, **more: MemoryEngine(clock, strict=False, **more),
    "lmdb": lambda path, clock, **more: LmdbEngine.open(path, clock=clock, **more),
    "lmdb-relaxed": lambda path, clock, **more: LmdbEngine.open(
        path, clock=clock, durability="relaxed", **more
    ),
    "lmdb-alone": lambda path, clock, **more: LmdbEngine.open(
        path, clock=clock, alone=True, **more
    ),
}
"""Every engine, opened on a directory that only those on disk use."""


@pytest.fixture(params=openers)
def open_engine(request, tmp_path, clock):
    """A function that opens the engine under test; each call on the same directory."""

    path = tmp_path / "store"

    def opener(**more):
        return openers[request.param](path, clock, **more)

    yield opener
    if path.exists():
        assert check_store(path, tuple_keys=nowhere) == []


@pytest.fixture
async def engine(open_engine):
    engine = open_engine()
    yield engine
    await engine.close()
