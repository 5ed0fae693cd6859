import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "servers" / "amqp"))

from bus_server import Bus, start, stop


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    """The real broker behind sockets, on the test's own loop."""
    bus = await start()
    yield bus
    await stop(bus)
