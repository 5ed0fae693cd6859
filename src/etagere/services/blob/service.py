"""The Blob service: the store and the extents that its operations work on."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.extents import references
from etagere.extents.contract import ExtentStore
from etagere.extents.encryption import Seal, SealedExtents
from etagere.extents.spool import Received, spool
from etagere.kernel.ranges import RequestedRange
from etagere.kv.contract import Body, Engine, Partition, ReadTx, StoreError, Tx
from etagere.services.blob.blobs import Where
from etagere.services.blob.download import Download, Unlock, open_download, without_keys
from etagere.services.blob.encryption import Vault
from etagere.services.blob.fetching import Fetcher
from etagere.services.blob.following import FollowingEngine
from etagere.services.blob.guard import Guard
from etagere.services.common.service_properties import KnownProperties, ServiceProperties

T = TypeVar("T")


class BlobService:
    def __init__(
        self,
        engine: Engine,
        extents: ExtentStore,
        clock: Clock,
        entropy: Entropy,
        fetcher: Fetcher | None = None,
    ) -> None:
        self.engine: Engine = FollowingEngine(engine)
        self.fetcher = fetcher
        """For copies from elsewhere; they are refused without one."""
        self.copying: dict[str, asyncio.Task[None]] = {}
        """By copy id: copies that go on in this process after their response."""
        self.extents = extents
        self._properties = KnownProperties(engine, "blob")
        self.clock = clock
        self.started = clock.now()
        """Copies that were claimed earlier are a server's that has ended, and are gone on with."""
        self.entropy = entropy
        self.vault = Vault(engine, entropy)
        self.scoped: set[Partition] = set()
        """Containers that were seen to have a default scope."""

    def read(self, body: Body[ReadTx, T]) -> Coroutine[Any, Any, T]:
        return self.engine.read(body)

    def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> Coroutine[Any, Any, T]:
        return self.engine.write(parts, body)

    async def receive(
        self,
        chunks: AsyncIterator[bytes],
        length: int | None,
        bytes_max: int,
        *,
        md5: bool,
        seal: Seal | None = None,
    ) -> Received:
        """Take a body in, ready for a transaction that keeps it."""
        store = self.extents if seal is None else SealedExtents(self.extents, seal)
        received = await spool(
            store, self.entropy, chunks, length=length, bytes_max=bytes_max, md5=md5
        )
        return received if seal is None else received._replace(seal=seal)

    async def keep(self, part: Partition, received: Received, body: Body[Tx, T]) -> T:
        """A write that keeps a body; where it is refused, the body's extent is given up."""
        extent = received.extent
        if extent is None:
            return await self.engine.write((part,), body)
        try:
            return await self.engine.write((part, references.shard_of(extent.id)), body)
        except Exception:
            await self.discard(received)
            raise

    async def discard(self, received: Received) -> None:
        """Forget a body that no transaction kept, or none that is known of.

        A store that fails at this leaves an orphan for the scrub.  What went wrong before counts:
        had the write perhaps been committed, StoreFull here would deny it.
        """
        if received.extent is not None:
            with suppress(StoreError):
                await references.give_up(self.engine, self.extents, [received.extent.id])

    def open_download(
        self,
        where: Where,
        guard: Guard,
        wanted: RequestedRange | None,
        unlock: Unlock = without_keys,
    ) -> Coroutine[Any, Any, Download]:
        return open_download(self.engine, self.extents, self.clock, where, guard, wanted, unlock)

    def properties(self, account: str) -> Coroutine[Any, Any, ServiceProperties]:
        return self._properties.of(account)
