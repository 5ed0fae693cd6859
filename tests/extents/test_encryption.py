"""Sealed extents: what goes in comes out, from anywhere; what is stored is something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.extents.contract import ExtentId
from etagere.extents.encryption import Seal, SealedExtents
from etagere.extents.trailer import crc64

from .conftest import get, put

seal = Seal(bytes(range(32)), scope="one")
data = bytes(range(256)) * 1000


@given(st.binary(max_size=300), st.integers(0, 2**63 - 1), st.data())
def test_rows_are_decrypted_from_anywhere(plain: bytes, row: int, draw: st.DataObject) -> None:
    stored = seal.apply_to_row(row, plain)
    first = draw.draw(st.integers(0, len(plain)))
    last = draw.draw(st.integers(first, len(plain)))
    assert seal.apply_to_row(row, stored[first:last], first) == plain[first:last]


def test_no_two_runs_share_a_keystream() -> None:
    zeros = bytes(64)
    runs = [seal.apply_to_row(row, zeros) for row in (0, 1, 2**62)]
    runs.append(Seal(bytes(32)).apply_to_row(0, zeros))
    names = (ExtentId(bytes(16)), ExtentId(bytes(15) + b"\1"), ExtentId(bytes(8)))
    runs += [seal.keystream_of_extent(name).update(zeros) for name in names]
    blocks = [run[at : at + 16] for run in runs for at in range(0, 64, 16)]
    assert len(set(blocks)) == len(blocks)


def test_a_key_is_not_shown() -> None:
    assert str(bytes(range(32)))[2:-1] not in repr(seal)


@pytest.mark.parametrize("chunk", [1000, 4099, 1 << 16, len(data)])
async def test_extents(any_store, entropy, chunk: int) -> None:
    sealed = SealedExtents(any_store, seal)
    extent = await put(sealed, entropy, data, chunk=chunk)
    assert extent.size == len(data)
    stored = await get(any_store, extent)
    assert len(stored) == len(data)
    assert data[:16] not in stored
    assert await get(sealed, extent) == data
    for offset, length in ((0, 1), (1, 15), (15, 2), (16, 16), (70_001, 130_000), (255_999, 9)):
        assert await get(sealed, extent, offset, length) == data[offset : offset + length]
    await sealed.verify(extent)
    assert (await sealed.usage()).extents == 1
    assert [kept.id async for kept in sealed.list()] == [extent.id]
    await sealed.remove(extent.id)
    assert (await any_store.usage()).extents == 0


async def test_another_seal_reads_something_else(any_store, entropy) -> None:
    extent = await put(SealedExtents(any_store, seal), entropy, data)
    assert await get(SealedExtents(any_store, Seal(bytes(32))), extent) != data


async def test_the_checksum_is_of_what_was_given(any_store, entropy) -> None:
    writer = SealedExtents(any_store, seal).writer(ExtentId(entropy.token(16)))
    for at in range(0, len(data), 10_000):
        await writer.write(data[at : at + 10_000])
    await writer.flush()
    assert writer.crc64 == crc64(data)
    await writer.abort()
    assert (await any_store.usage()).extents == 0
