"""The Queue service as the program composes it: its setting, and its sweep in the background."""

import asyncio

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueClient

from etagere.app.background import Background
from etagere.app.compose import compose
from etagere.app.configuration import configure
from etagere.app.foundation import lay
from etagere.base.clock import ticks_per_second
from etagere.servers.real import VirtualClock
from etagere.services.queue import messages, queues
from etagere.testing import ServerProcess

well_known_key = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@pytest.mark.parametrize(
    ("flags", "status", "code"),
    [
        ((), 404, "MessageNotFound"),
        (("--pop-receipt-mismatch",), 400, "PopReceiptMismatch"),
    ],
)
def test_what_a_stale_receipt_is_refused_with(flags, status: int, code: str):
    with (
        ServerProcess(("--in-memory", "--services", "queue", *flags)) as server,
        QueueClient(server.urls["queue"], "tasks", credential=well_known_key) as client,
    ):
        client.create_queue()
        sent = client.send_message("a")
        client.receive_message()
        with pytest.raises(HttpResponseError) as refusal:
            client.delete_message(sent)
        assert (refusal.value.status_code, refusal.value.error_code) == (status, code)


async def test_expired_messages_are_swept_when_they_are_due():
    clock = VirtualClock()
    clock.freeze()
    settings = {"in_memory": True, "services": "queue", "account": ["one:a2V5"]}
    foundation = lay(configure({**settings, "clock": "virtual"}, {}), clock)
    (service,) = compose(foundation)
    engine = foundation.engine
    where = queues.place("one", "tasks")

    async def fill(tx) -> None:
        await queues.create(tx, where, {})
        for life in (10, 20, None):
            await messages.put(tx, where.part, messages.PutMessage("a", 1, 0, life))

    await engine.write(where.parts, fill)

    async def count() -> int:
        return (await engine.read(lambda tx: queues.open_queue(tx, where.part))).count

    begun = clock.now()
    assert await service.sweep("one", begun) == begun + 10 * ticks_per_second
    background = Background(foundation, [service])
    try:
        for seconds, left in ((9, 3), (2, 2), (8, 2), (2, 1), (10**6, 1)):
            clock.advance(seconds * ticks_per_second)
            await _settled()
            assert await count() == left
        assert await service.sweep("one", clock.now()) is None
    finally:
        await background.stop()
        await foundation.close()


async def _settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
