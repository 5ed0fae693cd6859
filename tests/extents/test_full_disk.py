"""A disk that is really full: a small one in memory, where this machine lets us mount it."""

import asyncio
import os
from random import Random

import pytest

from etagere.extents.contract import new_extent_id
from etagere.extents.local import LocalExtents
from etagere.kv.contract import StoreFull

from .conftest import everything, get, put

disk_bytes = 24 << 20


@pytest.fixture
def small_disk(small_disk_of):
    return small_disk_of(str(disk_bytes))


def fill(path):
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="space"):
            while True:
                os.write(descriptor, bytes(4096))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("spare_bytes", [0, 4 << 20])
async def test_a_full_disk(small_disk, entropy, spare_bytes):
    store = LocalExtents(small_disk / "extents", spare_bytes=spare_bytes)
    kept = {}
    with pytest.raises(StoreFull):
        for number in range(100):
            data = Random(number).randbytes(3_000_000)
            kept[await put(store, entropy, data)] = data
    assert len(kept) * 3_000_000 > disk_bytes - spare_bytes - 4_000_000
    # Nothing of the one that failed is left, and the others are whole.
    assert set(await everything(store)) == {extent.id for extent in kept}
    for extent, data in kept.items():
        assert await get(store, extent) == data
    # Several at once fail alike.
    outcomes = await asyncio.gather(
        *(put(store, entropy, bytes(3_000_000)) for _ in range(8)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreFull] * 8
    assert set(await everything(store)) == {extent.id for extent in kept}
    # With room, it goes on.
    gone = next(iter(kept))
    await store.remove(gone.id)
    data = Random(500).randbytes(2_000_000)
    assert await get(store, await put(store, entropy, data)) == data
    await store.close()


async def test_a_body_that_will_not_fit_is_refused_at_once(small_disk, entropy):
    store = LocalExtents(small_disk / "extents", spare_bytes=0)
    writer = store.writer(new_extent_id(entropy), size_hint=disk_bytes)
    await writer.write(bytes(1 << 20))
    with pytest.raises(StoreFull):
        await writer.flush()
    assert await everything(store) == {}
    await store.close()


async def test_full_while_sealing(small_disk, entropy):
    """The data just fits, the checksums do not."""
    store = LocalExtents(small_disk / "extents", spare_bytes=0)
    writer = store.writer(new_extent_id(entropy))
    await writer.write(bytes(1 << 20))
    await writer.flush()
    fill(small_disk / "filler")
    with pytest.raises(StoreFull):
        await writer.seal()
    assert await everything(store) == {}
    await store.close()
