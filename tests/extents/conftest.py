"""Extent stores for their tests, and chance from a seed."""

import random
import uuid

import pytest

from etagere.base.clock import Timestamp, seconds
from etagere.extents.contract import Extent, ExtentStore, new_extent_id
from etagere.extents.local import LocalExtents
from etagere.extents.memory import MemoryExtents


class HandClock:
    """Time that moves when a test says so."""

    def __init__(self, at: int = 17_000_000_000_000_000) -> None:
        self.at = at

    def now(self) -> Timestamp:
        return Timestamp(self.at)

    def advance(self, by_seconds: float) -> None:
        self.at += seconds(by_seconds)


class SeededEntropy:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uuid(self) -> str:
        return str(uuid.UUID(bytes=self.token(16), version=4))


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def entropy():
    return SeededEntropy()


openers = {
    "memory": lambda root, clock: MemoryExtents(clock),
    "local": lambda root, clock: LocalExtents(root),
    "local-relaxed": lambda root, clock: LocalExtents(root, relaxed=True),
}


@pytest.fixture(params=openers)
async def any_store(request, tmp_path, clock):
    store = openers[request.param](tmp_path / "extents", clock)
    yield store
    await store.close()


@pytest.fixture
async def local(tmp_path):
    store = LocalExtents(tmp_path / "extents")
    yield store
    await store.close()


async def put(store: ExtentStore, entropy, data: bytes, *, chunk: int = 1 << 16) -> Extent:
    writer = store.writer(new_extent_id(entropy))
    for at in range(0, len(data), chunk):
        await writer.write(data[at : at + chunk])
    return await writer.seal()


async def get(store: ExtentStore, extent: Extent, offset: int = 0, length=None) -> bytes:
    return b"".join([piece async for piece in store.read(extent, offset, length)])


async def everything(store: ExtentStore) -> dict[bytes, int]:
    return {stored.id: stored.stored_bytes async for stored in store.list()}
