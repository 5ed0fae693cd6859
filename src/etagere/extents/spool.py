"""A request's body on its way in: small ones stay bytes, large ones become an extent.

Nothing of a body that fails half-way remains: its extent is aborted, whatever went wrong.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.extents.contract import Extent, ExtentStore, ExtentWriter, new_extent_id
from etagere.extents.encryption import Seal
from etagere.extents.trailer import crc64

inline_bytes_max: Final = 64 * 1024
"""What is not larger lives in the store: a row costs a page or two of a commit that happens anyway,
an extent two syncs of its own."""

batch_bytes: Final = 1 << 20
"""Network chunks are gathered up to this: hashing and writing then take a thread a few times for
each megabyte instead of for each packet."""


class Received(NamedTuple):
    size: int
    data: bytes
    """All of it, if there is no extent."""
    extent: Extent | None
    md5: bytes
    """b"" if it was not asked for."""
    crc64: bytes
    """CRC-64/NVME, little-endian as on the wire."""
    seal: Seal | None = None
    """What its extent is encrypted with, and its bytes are to be when they become a row's."""

    def sealed(self, row_id: int, data: bytes) -> bytes:
        """Some of its bytes, as a row of their own stores them."""
        return data if self.seal is None else self.seal.apply_to_row(row_id, data)


async def spool(
    store: ExtentStore,
    entropy: Entropy,
    chunks: AsyncIterator[bytes],
    *,
    length: int | None,
    bytes_max: int,
    md5: bool,
    inline_max: int = inline_bytes_max,
) -> Received:
    """Take a body in; raises Refused("RequestBodyTooLarge") as soon as it is seen to be too long.

    `length` is what the client announced, if it did.  Up to `inline_max` bytes stay bytes, and are
    hashed in place: a hop to a thread would take longer.
    """
    if length is not None:
        _check_size(length, bytes_max)
    taken: list[bytes] = []
    size = 0
    async for chunk in chunks:
        taken.append(chunk)
        size += len(chunk)
        if size > inline_max or size > bytes_max:
            return await _into_extent(
                store, entropy, taken, chunks, length=length, bytes_max=bytes_max, md5=md5
            )
    return at_hand(taken[0] if len(taken) == 1 else b"".join(taken), md5=md5)


def at_hand(data: bytes, *, md5: bool) -> Received:
    """A body that is in memory and stays there."""
    digest = hashlib.md5(data, usedforsecurity=False).digest() if md5 else b""
    return Received(len(data), data, None, digest, crc64(data).to_bytes(8, "little"))


async def _into_extent(
    store: ExtentStore,
    entropy: Entropy,
    taken: list[bytes],
    rest: AsyncIterator[bytes],
    *,
    length: int | None,
    bytes_max: int,
    md5: bool,
) -> Received:
    writer = store.writer(new_extent_id(entropy), size_hint=length)
    sink = _Sink(writer, bytes_max, md5=md5)
    try:
        for chunk in taken:
            await sink.take(chunk)
        taken.clear()
        async for chunk in rest:
            await sink.take(chunk)
        await sink.end()
        extent = await writer.seal()
    except BaseException:
        await writer.abort()
        raise
    return Received(extent.size, b"", extent, sink.md5(), writer.crc64.to_bytes(8, "little"))


class _Sink:
    """Gathers chunks, and hashes one batch while the disk takes it and the next one gathers."""

    def __init__(self, writer: ExtentWriter, bytes_max: int, *, md5: bool) -> None:
        self._writer: Final = writer
        self._bytes_max: Final = bytes_max
        self._hash: Final = hashlib.md5(usedforsecurity=False) if md5 else None
        self._hashing: asyncio.Future[None] | None = None
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._size = 0

    async def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        _check_size(self._size, self._bytes_max)
        self._batch.append(chunk)
        self._batch_bytes += len(chunk)
        if self._batch_bytes >= batch_bytes:
            await self._send()

    async def end(self) -> None:
        if self._batch:
            await self._send()
        await self._hashed()

    def md5(self) -> bytes:
        return b"" if self._hash is None else self._hash.digest()

    async def _send(self) -> None:
        batch = self._batch[0] if len(self._batch) == 1 else b"".join(self._batch)
        self._batch.clear()
        self._batch_bytes = 0
        await self._hashed()
        if self._hash is not None:
            loop = asyncio.get_running_loop()
            self._hashing = loop.run_in_executor(None, self._hash.update, batch)
        await self._writer.write(batch)

    async def _hashed(self) -> None:
        hashing, self._hashing = self._hashing, None
        if hashing is not None:
            await hashing


def _check_size(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise Refused("RequestBodyTooLarge", {"MaxLimit": str(bytes_max)})
