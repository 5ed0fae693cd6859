"""@azure/service-bus, unmodified, on a bus in this process."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "servers" / "amqp"))

from bus_server import start, stop

from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)


@pytest.mark.slow
async def test_javascript_client(node_modules: Path) -> None:
    bus = await start()
    try:
        administration = bus.broker.administration
        await administration.create(QueueDescription(name="q"))
        await administration.create(QueueDescription(name="s", requires_session=True))
        await administration.create(TopicDescription(name="t"))
        await administration.create_subscription("t", SubscriptionDescription(name="sub"))
        client = await asyncio.create_subprocess_exec(
            "node",
            str(Path(__file__).with_name("service_bus.cjs")),
            bus.connection_string(),
            env={**os.environ, "NODE_PATH": str(node_modules)},
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(90):
            _, complaint = await client.communicate()
        assert client.returncode == 0, complaint.decode()
    finally:
        await stop(bus)
