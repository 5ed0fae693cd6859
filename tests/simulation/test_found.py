"""What the simulations found once, as small as it can be shown."""

from random import Random

import pytest

from etagere.extents.memory import MemoryExtents
from etagere.extents.references import hold
from etagere.kv.contract import StoreFailed, StoreFull, Tx
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.blob import keys
from etagere.services.blob.service import BlobService

from .loop import LoopClock, SeededEntropy, SeededLoop


class Falling:
    """A fault point that fails after the first commit and is full before every later one."""

    def __init__(self) -> None:
        self.is_full = False

    def reach(self, point: str, subject: str = "") -> None:
        if self.is_full and point == "before_commit":
            raise StoreFull
        if point == "after_commit_before_reply":
            self.is_full = True
            raise StoreFailed


async def test_a_write_that_may_have_happened_is_not_denied_by_its_cleaning_up() -> None:
    clock = LoopClock(SeededLoop(Random(1)))
    extents = MemoryExtents(clock)
    engine = MemoryEngine(clock, faults=Falling())
    service = BlobService(engine, extents, clock, SeededEntropy(Random(2)))

    async def pieces():
        yield bytes(100_000)

    received = await service.receive(pieces(), None, 1 << 20, md5=False)
    assert received.extent is not None
    part, kept = keys.container_partition("account", "container"), received.extent

    async def body(tx: Tx) -> None:
        await hold(tx, part, [kept.id])

    with pytest.raises(StoreFailed):  # StoreFull would say that nothing was kept
        await service.keep(part, received, body)
    await extents.verify(kept)
