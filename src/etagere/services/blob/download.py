"""Get Blob: one snapshot decides what is read; its bytes follow as the client takes them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from etagere.base.errors import Refused
from etagere.extents.contract import Extent, ExtentId, ExtentStore
from etagere.kernel.ranges import RequestedRange, Slice, select, unsatisfied_content_range
from etagere.kv.contract import Engine, ReadTx
from etagere.services.blob import content
from etagere.services.blob.blobs import Where, read
from etagere.services.blob.content import Home, Part
from etagere.services.blob.guard import Guard
from etagere.services.blob.records import BlobRecord


class Download(NamedTuple):
    record: BlobRecord
    part: Slice
    body: bytes | AsyncGenerator[bytes, None]


class _Opened(NamedTuple):
    record: BlobRecord
    home: Home
    part: Slice
    ready: list[Part] | None
    """All parts, or None where a piece list has to be walked."""


async def open_download(
    engine: Engine,
    extents: ExtentStore,
    where: Where,
    guard: Guard,
    wanted: RequestedRange | None,
) -> Download:
    """Check everything and find the bytes; a small blob's are there when this returns."""
    opened = await engine.read(partial(_open, where=where, guard=guard, wanted=wanted))
    ready = opened.ready
    if ready is None:
        return Download(opened.record, opened.part, _walk(engine, extents, opened))
    if all(not part.extent for part in ready):
        body = ready[0].data if len(ready) == 1 else b"".join(part.data for part in ready)
        return Download(opened.record, opened.part, body)
    return Download(opened.record, opened.part, _stream(extents, ready))


async def _open(tx: ReadTx, where: Where, guard: Guard, wanted: RequestedRange | None) -> _Opened:
    found = await read(tx, where, guard)
    record, home = found.record, found.home
    part: Slice | None = Slice(0, record.size)
    if wanted is not None:
        part = select(wanted, record.size)
    if part is None:
        raise Refused(
            "InvalidRange", headers={"Content-Range": unsatisfied_content_range(record.size)}
        )
    if record.list_id and part.length:
        return _Opened(record, home, part, None)
    parts = await content.parts_of(tx, home, record.pieces, 0, part.start, part.end)
    return _Opened(record, home, part, parts)


async def _stream(extents: ExtentStore, parts: list[Part]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        if part.extent:
            extent = Extent(ExtentId(part.extent), part.extent_size)
            async with aclosing(extents.read(extent, part.offset, part.size)) as pieces:
                async for piece in pieces:
                    yield piece
        else:
            yield part.data


async def _walk(
    engine: Engine, extents: ExtentStore, opened: _Opened
) -> AsyncGenerator[bytes, None]:
    at, end = opened.part.start, opened.part.end
    while at < end:
        found = await engine.read(
            partial(
                content.stretch,
                home=opened.home,
                list_id=opened.record.list_id,
                start=at,
                end=end,
            )
        )
        async with aclosing(_stream(extents, found.parts)) as pieces:
            async for piece in pieces:
                yield piece
        at = found.next_offset
