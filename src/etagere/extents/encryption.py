"""Bytes that are encrypted at rest, and read from anywhere (`docs/decisions/blob-encryption.md`).

A *seal* is what some content is written under: a key, and the name by which records remember which
key it was.  Every run of bytes (an extent, or a row) is encrypted under a key of its own, derived
from the seal's key and the name of the run, with AES-256 in counter mode from zero.  Names of runs
are never used twice, so no keystream is; and any byte can be decrypted without those before it.

What counter mode does not have is integrity.  The checksums of the extents and of the store cover
what is stored, which is the ciphertext.
"""

import hmac
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from etagere.extents.contract import (
    Extent,
    ExtentId,
    ExtentStore,
    ExtentWriter,
    StoredExtent,
    Usage,
)
from etagere.extents.trailer import crc64

key_bytes: Final = 32
_block_bytes: Final = 16
_extent_label: Final = b"etagere extent "
_row_label: Final = b"etagere row "


@dataclass(frozen=True, slots=True)
class Seal:
    """What content is written under: an encryption scope, or a customer's key."""

    key: bytes = field(repr=False)
    scope: str = ""
    key_sha256: bytes = b""

    def apply_to_row(self, row_id: int, data: bytes, offset: int = 0) -> bytes:
        """Encrypt or decrypt bytes that begin at `offset` of a row; ids are never used again."""
        return self._keystream(_row_label + row_id.to_bytes(8, "big"), offset).update(data)

    def keystream_of_extent(self, extent_id: ExtentId, offset: int = 0) -> CipherContext:
        return self._keystream(_extent_label + extent_id, offset)

    def _keystream(self, name: bytes, offset: int) -> CipherContext:
        key = hmac.digest(self.key, name, "sha256")
        counter, skipped = divmod(offset, _block_bytes)
        cipher = Cipher(AES256(key), CTR(counter.to_bytes(_block_bytes, "big"))).encryptor()
        if skipped:
            cipher.update(bytes(skipped))
        return cipher


class SealedExtents:
    """An `ExtentStore` whose bytes are encrypted on their way into another one."""

    def __init__(self, inner: ExtentStore, seal: Seal) -> None:
        self._inner: Final = inner
        self._seal: Final = seal

    def writer(self, extent_id: ExtentId, *, size_hint: int | None = None) -> ExtentWriter:
        cipher = self._seal.keystream_of_extent(extent_id)
        return _SealedWriter(self._inner.writer(extent_id, size_hint=size_hint), cipher)

    async def read(
        self, extent: Extent, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        cipher = self._seal.keystream_of_extent(extent.id, offset)
        async with aclosing(self._inner.read(extent, offset, length)) as pieces:
            async for piece in pieces:
                yield cipher.update(piece)

    async def remove(self, extent_id: ExtentId) -> None:
        await self._inner.remove(extent_id)

    def list(self) -> AsyncIterator[StoredExtent]:
        return self._inner.list()

    async def usage(self) -> Usage:
        return await self._inner.usage()

    async def verify(self, extent: Extent) -> None:
        await self._inner.verify(extent)

    async def close(self) -> None:
        await self._inner.close()


class _SealedWriter:
    def __init__(self, inner: ExtentWriter, cipher: CipherContext) -> None:
        self._inner: Final = inner
        self._cipher: Final = cipher
        self._crc = 0

    async def write(self, chunk: bytes) -> None:
        # Some 0.3 ms for each MiB, less than a hop to a thread and back would delay the others.
        self._crc = crc64(chunk, self._crc)
        await self._inner.write(self._cipher.update(chunk))

    @property
    def crc64(self) -> int:
        """Of what was given to be written, as the client knows it."""
        return self._crc

    async def flush(self) -> None:
        await self._inner.flush()

    async def seal(self) -> Extent:
        return await self._inner.seal()

    async def abort(self) -> None:
        await self._inner.abort()
