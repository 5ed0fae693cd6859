import gc
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient

sys.path.append(str(Path(__file__).parents[2] / "servers" / "amqp"))

from bus_server import Bus, BusThread, start, stop

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            # When an open fails, the SDK leaves its socket to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="session")
def _bus() -> Iterator[Bus]:
    with BusThread() as bus:
        yield bus


@pytest.fixture
def bus(_bus: Bus) -> Bus:
    """On a loop of its own; queues made by tests have names of their own."""
    return _bus


@pytest.fixture
def own_bus() -> Iterator[Bus]:
    """For tests that move time."""
    with BusThread() as bus:
        yield bus


@pytest.fixture
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        bus.connection_string(), retry_total=1, retry_backoff_factor=0.05
    ) as client:
        yield client


@pytest.fixture
def own_client(own_bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        own_bus.connection_string(), retry_total=1, retry_backoff_factor=0.05
    ) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"entity-{next(_numbers)}"


@pytest.fixture
async def aio_bus() -> AsyncIterator[Bus]:
    """On the test's own loop."""
    bus = await start()
    try:
        yield bus
    finally:
        await stop(bus)
