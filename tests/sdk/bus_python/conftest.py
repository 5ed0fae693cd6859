import gc
import sys
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    _servicebus_receiver,
    _servicebus_sender,
    _session_browser,
)
from azure.servicebus._pyamqp import client

sys.path.append(str(Path(__file__).parents[2] / "servers" / "amqp"))

from bus_server import Bus, BusThread, start, stop

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            # When an open fails, the SDK leaves its socket to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


class _ShortPauses:
    """`time` for the SDK's modules: it sleeps between two looks, which tests need not wait for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.005))


@pytest.fixture(scope="session", autouse=True)
def _short_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (client, _servicebus_receiver, _servicebus_sender, _session_browser):
            patch.setattr(module, "time", _ShortPauses())
        yield


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


@pytest.fixture(name="client")
def _client(bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        bus.connection_string(), retry_total=1, retry_backoff_factor=0.05
    ) as connected:
        yield connected


@pytest.fixture
def own_client(own_bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        own_bus.connection_string(), retry_total=1, retry_backoff_factor=0.05
    ) as connected:
        yield connected


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
