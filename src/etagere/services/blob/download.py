"""Get Blob: one snapshot decides what is read; its bytes follow as the client takes them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple

from etagere.base.clock import Clock
from etagere.base.errors import Refused
from etagere.extents.contract import Extent, ExtentId, ExtentStore
from etagere.extents.encryption import Seal, SealedExtents
from etagere.kernel.ranges import RequestedRange, Slice, select, unsatisfied_content_range
from etagere.kv.contract import Engine, ReadTx
from etagere.services.blob import content, page_reading
from etagere.services.blob.blobs import Where, read
from etagere.services.blob.content import Home, Part, Stretch
from etagere.services.blob.guard import Guard
from etagere.services.blob.page_pins import Holding, open_pinned
from etagere.services.blob.records import BlobRecord
from etagere.services.blob.tiers import must_be_online

gathered_bytes_max: Final = 2 * 1024 * 1024
"""What is not longer, and at hand, is sent as one; of zeros there may be many more."""
_zeros: Final = bytes(1024 * 1024)


class Download(NamedTuple):
    record: BlobRecord
    part: Slice
    body: bytes | AsyncGenerator[bytes, None]


Unlock = Callable[[BlobRecord], Awaitable[Seal | None]]
"""Finds what an encrypted blob's content is decrypted with."""


async def without_keys(record: BlobRecord) -> Seal | None:
    """For readers that have none."""
    del record
    raise Refused("BlobUsesCustomerSpecifiedEncryption")


class _Opened(NamedTuple):
    record: BlobRecord
    home: Home
    part: Slice
    first: Stretch


async def open_download(
    engine: Engine,
    extents: ExtentStore,
    clock: Clock,
    where: Where,
    guard: Guard,
    wanted: RequestedRange | None,
    unlock: Unlock,
) -> Download:
    """Check everything and find the bytes; a small blob's are there when this returns."""
    look = partial(_open, where=where, guard=guard, wanted=wanted)
    opened = await engine.read(look)
    seal = None
    if opened.record.scope or opened.record.key_sha256:
        seal = await unlock(opened.record)
        extents = extents if seal is None else SealedExtents(extents, seal)
    if opened.first.next_offset < opened.part.end:
        opened, holding = await open_pinned(engine, clock, opened, look)
        return Download(opened.record, opened.part, _walk(engine, extents, seal, opened, holding))
    parts = _unsealed(opened.first.parts, seal)
    if opened.part.length > gathered_bytes_max or any(part.extent for part in parts):
        return Download(opened.record, opened.part, _stream(extents, parts))
    body = parts[0].data if len(parts) == 1 else b""
    if not body:
        body = b"".join(part.data or bytes(part.size) for part in parts)
    return Download(opened.record, opened.part, body)


async def _open(tx: ReadTx, where: Where, guard: Guard, wanted: RequestedRange | None) -> _Opened:
    found = await read(tx, where, guard)
    record, home = found.record, found.home
    must_be_online(record, tx.now)
    part: Slice | None = Slice(0, record.size)
    if wanted is not None:
        part = select(wanted, record.size)
    if part is None:
        raise Refused(
            "InvalidRange", headers={"Content-Range": unsatisfied_content_range(record.size)}
        )
    return _Opened(record, home, part, await _stretch(tx, home, record, part.start, part.end))


async def _stretch(tx: ReadTx, home: Home, record: BlobRecord, start: int, end: int) -> Stretch:
    """The first parts of [start, end)."""
    if record.page_map is not None:
        return await page_reading.stretch(tx, home, record.page_map, start, end)
    if record.list_id and start < end:
        return await content.stretch(tx, home, record.list_id, start, end)
    parts = await content.parts_of(tx, home, record.pieces, 0, start, end)
    return Stretch(parts, end)


def _unsealed(parts: list[Part], seal: Seal | None) -> list[Part]:
    """With the rows' bytes decrypted; the extents' are, where they are read."""
    if seal is None:
        return parts
    return [
        part._replace(data=seal.apply_to_row(part.inline, part.data, part.offset))
        if part.data
        else part
        for part in parts
    ]


async def _stream(extents: ExtentStore, parts: list[Part]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        if part.extent:
            extent = Extent(ExtentId(part.extent), part.extent_size)
            async with aclosing(extents.read(extent, part.offset, part.size)) as pieces:
                async for piece in pieces:
                    yield piece
        elif part.data:
            yield part.data
        else:
            for at in range(0, part.size, len(_zeros)):
                yield _zeros[: part.size - at]


async def _walk(
    engine: Engine,
    extents: ExtentStore,
    seal: Seal | None,
    opened: _Opened,
    holding: Holding | None,
) -> AsyncGenerator[bytes, None]:
    end = opened.part.end
    parts, at = opened.first
    try:
        while True:
            async with aclosing(_stream(extents, _unsealed(parts, seal))) as pieces:
                async for piece in pieces:
                    yield piece
                    if holding is not None:
                        await holding.keep()
            if at == end:
                return
            parts, at = await engine.read(
                partial(_stretch, home=opened.home, record=opened.record, start=at, end=end)
            )
    finally:
        if holding is not None:
            await holding.release()
