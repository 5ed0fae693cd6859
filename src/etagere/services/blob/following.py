"""The store, for operations on containers that may have been renamed and blobs that may expire.

A renamed container's rows stay in the partition of the name that it was made with, and its record
alone is in that of its name.  A transaction names its partitions before it reads anything, so one
that comes upon such a record is given up before it has done anything, and run again with the other
partition named as well.  Where it is, is remembered as a hint: what counts is the record, which
each transaction reads.

One that comes upon a blob whose expiry time has passed is given up likewise, and run again once the
blob has been removed.
"""

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeVar

from etagere.kv.contract import (
    Body,
    Engine,
    EngineLimits,
    OutsidePartition,
    Partition,
    ReadTx,
    Signal,
    Tx,
)
from etagere.services.blob import keys, lifetime
from etagere.services.blob.content import home_of
from etagere.services.blob.guard import Expired
from etagere.services.blob.records import containers

T = TypeVar("T")
hints_max: Final = 1024
attempts_in_vain_max: Final = 3


class FollowingEngine:
    """An `Engine`."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._rows: Final[dict[Partition, Partition]] = {}
        """Of containers that were renamed: by the partition of their name, that of their rows."""

    @property
    def limits(self) -> EngineLimits:
        return self._engine.limits

    async def read(self, body: Body[ReadTx, T]) -> T:
        while True:
            try:
                return await self._engine.read(body)
            except Expired as found:
                await self._end(found)

    async def _end(self, found: Expired) -> None:
        body = partial(lifetime.end, home=found.home, name=found.name)
        await self._engine.write((found.home.part,), body)

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        in_vain = 0
        while True:
            named = self._with_rows(parts)
            try:
                return await self._engine.write(named, body)
            except Expired as found:
                await self._end(found)
            except OutsidePartition:
                await self._learn(parts)
                # Nothing new: the container is another one since, or a body of ours is wrong.
                in_vain = in_vain + 1 if self._with_rows(parts) == named else 0
                if in_vain == attempts_in_vain_max:
                    raise

    def _with_rows(self, parts: tuple[Partition, ...]) -> tuple[Partition, ...]:
        if not self._rows:
            return parts
        rows = [self._rows[part] for part in parts if part in self._rows]
        return (*parts, *(part for part in rows if part not in parts)) if rows else parts

    async def _learn(self, parts: tuple[Partition, ...]) -> None:
        """Look where the rows of these containers are."""

        async def find(tx: ReadTx) -> dict[Partition, Partition]:
            found = {}
            for part in parts:
                raw = await tx.get(part, keys.container_record)
                if raw is not None:
                    found[part] = home_of(part, containers.decode(raw)).part
            return found

        found = await self._engine.read(find)
        if len(self._rows) > hints_max:
            self._rows.clear()
        self._rows.update({part: rows for part, rows in found.items() if rows != part})

    def watch(self, topic: bytes) -> AbstractAsyncContextManager[Signal]:
        return self._engine.watch(topic)

    def version(self, part: Partition) -> int | None:
        return self._engine.version(part)

    async def close(self) -> None:
        await self._engine.close()
