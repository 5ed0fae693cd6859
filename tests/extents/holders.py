"""A service in miniature for the tests: records that refer to extents, in a few partitions.

A record's key is its name, its value the extents that it refers to (one of them several times, if
it says so several times).
"""

from collections.abc import AsyncIterator

from etagere.extents import references
from etagere.extents.check import Finding, check
from etagere.extents.contract import Extent, ExtentId, ExtentStore
from etagere.kv.contract import Engine, Partition
from etagere.kv.tuples import pack, range_of

Extents = tuple[Extent, ...]

parts = tuple(Partition(pack("holder", number)) for number in range(3))


def _encode(extents: Extents) -> bytes:
    return b"".join(extent.id + extent.size.to_bytes(8, "big") for extent in extents)


def _decode(raw: bytes) -> Extents:
    return tuple(
        Extent(ExtentId(raw[at : at + 16]), int.from_bytes(raw[at + 16 : at + 24], "big"))
        for at in range(0, len(raw), 24)
    )


def _ids(extents: Extents) -> list[bytes]:
    return [extent.id for extent in extents]


def _named(part: Partition, extents: Extents) -> tuple[Partition, ...]:
    return (part, *sorted({references.shard_of(extent.id) for extent in extents}))


async def look(engine: Engine, part: Partition, name: str) -> Extents:
    async def body(tx):
        return _decode(await tx.get(part, pack("record", name)) or b"")

    return await engine.read(body)


async def save(engine: Engine, part: Partition, name: str, extents: Extents) -> None:
    """Overwrite a record with one that refers to freshly uploaded extents."""

    async def body(tx):
        await references.hold(tx, part, _ids(extents))
        await _replace(tx, part, name, extents)

    await engine.write(_named(part, extents), body)


async def copy(engine: Engine, part: Partition, name: str, extents: Extents) -> None:
    """Overwrite a record with one that refers to what was read from another."""

    async def body(tx):
        await references.share(tx, part, _ids(extents))
        await _replace(tx, part, name, extents)

    await engine.write(_named(part, extents), body)


async def delete(engine: Engine, part: Partition, name: str) -> None:
    async def body(tx):
        await _replace(tx, part, name, ())

    await engine.write((part,), body)


async def _replace(tx, part: Partition, name: str, extents: Extents) -> None:
    key = pack("record", name)
    old = await tx.get(part, key)
    if old is not None:
        await references.drop(tx, part, _ids(_decode(old)))
        tx.delete(part, key)
    if extents:
        tx.put(part, key, _encode(extents))


async def records(engine: Engine, part: Partition) -> dict[bytes, Extents]:
    async def body(tx):
        rows = await tx.scan(part, *range_of("record"), limit=10_000)
        return {key: _decode(raw) for key, raw in rows}

    return await engine.read(body)


class Holders:
    """What the miniature service tells the checker."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def partitions(self) -> AsyncIterator[Partition]:
        for part in parts:
            yield part

    async def references(self, part: Partition) -> AsyncIterator[Extent]:
        for extents in (await records(self._engine, part)).values():
            for extent in extents:
                yield extent


async def findings(engine: Engine, store: ExtentStore, **how) -> list[Finding]:
    return [finding async for finding in check(engine, store, Holders(engine), **how)]
