"""A queue on the strict engine in memory."""

import pytest
from queue_driver import HandClock, QueueDriver

from etagere.kv.engines.memory import MemoryEngine


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def engine(clock: HandClock) -> MemoryEngine:
    return MemoryEngine(clock)


@pytest.fixture
async def queue(engine: MemoryEngine, clock: HandClock):
    """A queue that exists; what must hold of every queue is checked afterwards."""
    driver = QueueDriver(engine, clock)
    await driver.create()
    yield driver
    assert await driver.problems() == []
