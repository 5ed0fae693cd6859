"""Bodies on their way in: of any length, cut in any way, and nothing left of those that fail."""

import asyncio
import hashlib
import threading
from random import Random

import pytest
from awscrt.checksums import crc64nvme
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.extents import local_writer
from etagere.extents import spool as spooling
from etagere.extents.contract import Usage
from etagere.extents.local import LocalExtents
from etagere.extents.memory import MemoryExtents
from etagere.extents.spool import batch_bytes, inline_bytes_max, spool
from etagere.kv.contract import StoreFull

from .conftest import HandClock, SeededEntropy, everything, get

anything = 1 << 40


class Client:
    """Sends a body in chunks, and may break off."""

    def __init__(self, data: bytes, chunk: int = 1 << 16, *, breaks_off_at: int | None = None):
        self.data = data
        self.chunk = chunk
        self.breaks_off_at = breaks_off_at
        self.sent = 0

    async def chunks(self):
        for at in range(0, len(self.data), self.chunk):
            if self.breaks_off_at is not None and at >= self.breaks_off_at:
                raise ConnectionResetError
            piece = self.data[at : at + self.chunk]
            self.sent += len(piece)
            yield piece
            await asyncio.sleep(0)


async def expect_received(store, received, data, *, md5):
    assert received.size == len(data)
    assert received.crc64 == crc64nvme(data).to_bytes(8, "little")
    assert received.md5 == (hashlib.md5(data).digest() if md5 else b"")
    if received.extent is None:
        assert received.data == data
    else:
        assert received.data == b""
        assert received.extent.size == len(data)
        assert await get(store, received.extent) == data
        await store.verify(received.extent)


@pytest.mark.parametrize("md5", [False, True])
@pytest.mark.parametrize("announced", [False, True])
@pytest.mark.parametrize(
    "size",
    [0, 1, 4096, inline_bytes_max, inline_bytes_max + 1, batch_bytes, 3 * batch_bytes + 77_777],
)
async def test_bodies_of_every_size(any_store, entropy, size, announced, md5):
    data = Random(size).randbytes(size)
    received = await spool(
        any_store,
        entropy,
        Client(data).chunks(),
        length=size if announced else None,
        bytes_max=anything,
        md5=md5,
    )
    assert (received.extent is None) == (size <= inline_bytes_max)
    await expect_received(any_store, received, data, md5=md5)
    assert len(await everything(any_store)) == (size > inline_bytes_max)


@settings(max_examples=80, deadline=None)
@given(
    pieces=st.lists(st.integers(0, 400), max_size=30),
    inline_max=st.integers(0, 3000),
    bytes_max=st.integers(0, 6000),
    md5=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_any_cut_and_any_limits(pieces, inline_max, bytes_max, md5, seed):
    chance = Random(seed)
    parts = [chance.randbytes(size) for size in pieces]
    data = b"".join(parts)

    async def chunks():
        for part in parts:
            yield part

    async def run():
        store = MemoryExtents(HandClock())
        receiving = spool(
            store,
            SeededEntropy(),
            chunks(),
            length=None,
            bytes_max=bytes_max,
            md5=md5,
            inline_max=inline_max,
        )
        if len(data) > bytes_max:
            with pytest.raises(Refused, match="RequestBodyTooLarge"):
                await receiving
            assert await store.usage() == Usage(0, 0)
        else:
            received = await receiving
            assert (received.extent is None) == (len(data) <= inline_max)
            await expect_received(store, received, data, md5=md5)

    asyncio.run(run())


async def test_an_announced_length_over_the_limit_is_refused_at_once(any_store, entropy):
    client = Client(bytes(10 << 20))
    with pytest.raises(Refused) as caught:
        await spool(
            any_store,
            entropy,
            client.chunks(),
            length=10 << 20,
            bytes_max=(10 << 20) - 1,
            md5=True,
        )
    assert caught.value.code == "RequestBodyTooLarge"
    assert caught.value.details == {"MaxLimit": str((10 << 20) - 1)}
    assert client.sent == 0
    assert await everything(any_store) == {}


@pytest.mark.parametrize("bytes_max", [10, inline_bytes_max, 2 * batch_bytes])
async def test_a_body_that_grows_over_the_limit(any_store, entropy, bytes_max):
    client = Client(bytes(20 << 20), chunk=1000)
    with pytest.raises(Refused, match="RequestBodyTooLarge"):
        await spool(
            any_store, entropy, client.chunks(), length=None, bytes_max=bytes_max, md5=False
        )
    assert client.sent <= bytes_max + 1000
    assert await everything(any_store) == {}


async def test_exactly_the_limit(any_store, entropy):
    for size in (10, inline_bytes_max, 2 * batch_bytes):
        received = await spool(
            any_store, entropy, Client(bytes(size)).chunks(), length=size, bytes_max=size, md5=False
        )
        assert received.size == size


@pytest.mark.parametrize("at", [0, 1 << 16, 1 << 17, 1 << 20, 5 << 20])
async def test_a_client_that_breaks_off(any_store, entropy, at):
    client = Client(bytes(6 << 20), breaks_off_at=at)
    with pytest.raises(ConnectionResetError):
        await spool(
            any_store, entropy, client.chunks(), length=6 << 20, bytes_max=anything, md5=True
        )
    assert await everything(any_store) == {}


async def test_a_request_that_is_cancelled(any_store, entropy):
    for turns in range(60):
        receiving = asyncio.ensure_future(
            spool(
                any_store,
                entropy,
                Client(bytes(4 << 20)).chunks(),
                length=None,
                bytes_max=anything,
                md5=True,
            )
        )
        for _ in range(turns * 2):
            await asyncio.sleep(0)
        receiving.cancel()
        (outcome,) = await asyncio.gather(receiving, return_exceptions=True)
        if not isinstance(outcome, asyncio.CancelledError):
            await any_store.remove(outcome.extent.id)
        assert await everything(any_store) == {}


async def test_a_store_without_room(clock, entropy):
    store = MemoryExtents(clock, bytes_max=1 << 20)
    for length in (None, 3 << 20):
        with pytest.raises(StoreFull):
            await spool(
                store,
                entropy,
                Client(bytes(3 << 20)).chunks(),
                length=length,
                bytes_max=anything,
                md5=True,
            )
        assert await store.usage() == Usage(0, 0)


async def test_a_fast_client_waits_for_a_slow_disk(tmp_path, entropy, monkeypatch):
    """Backpressure: a batch with the disk, one waiting for it, one gathering."""
    gate = threading.Event()
    store = LocalExtents(tmp_path / "extents")
    write = local_writer.os.write

    def slow(descriptor, data):
        gate.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr(local_writer.os, "write", slow)
    client = Client(bytes(32 << 20))
    receiving = asyncio.ensure_future(
        spool(store, entropy, client.chunks(), length=None, bytes_max=anything, md5=True)
    )
    for _ in range(3000):
        await asyncio.sleep(0)
    assert client.sent <= 4 * batch_bytes
    gate.set()
    received = await receiving
    assert received.md5 == hashlib.md5(client.data).digest()
    await store.close()


async def test_large_bodies_are_hashed_off_the_loop(any_store, entropy, monkeypatch):
    threads = set()
    real = hashlib.md5

    class Watched:
        def __init__(self, data=b"", **more):
            self._hash = real(data, **more)

        def update(self, data):
            threads.add(threading.current_thread())
            self._hash.update(data)

        def digest(self):
            return self._hash.digest()

    monkeypatch.setattr(spooling.hashlib, "md5", Watched)
    data = bytes(3 << 20)
    received = await spool(
        any_store, entropy, Client(data).chunks(), length=None, bytes_max=anything, md5=True
    )
    assert received.md5 == real(data).digest()
    assert threads
    assert threading.main_thread() not in threads
