"""One page blob and its operations by their names, in a store whose steps are small."""

import itertools
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.extents.check import check as check_extents
from etagere.extents.memory import MemoryExtents
from etagere.kernel.ranges import RequestedRange, Slice
from etagere.kv.engines.memory import MemoryEngine
from etagere.servers.real import SystemEntropy
from etagere.services.blob import (
    check,
    containers,
    history,
    keys,
    page_blobs,
    page_ranges,
    page_removal,
)
from etagere.services.blob.blobs import Where, find
from etagere.services.blob.containers import CreateContainer, place
from etagere.services.blob.content import Home
from etagere.services.blob.creation import NewBlob
from etagere.services.blob.download import Download
from etagere.services.blob.guard import open_container, unguarded
from etagere.services.blob.history import Keeping, Snapshots, nothing_kept
from etagere.services.blob.keys import RowKind
from etagere.services.blob.page_blobs import PageProperties, SequenceConditions
from etagere.services.blob.page_ranges import WantedRanges
from etagere.services.blob.service import BlobService
from etagere.services.blob.sweep import sweep

account = "devstoreaccount1"
page = 512
pages_per_chunk = 256


class HandClock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.at = 17_000_000_000_000_000

    def now(self) -> Timestamp:
        return Timestamp(self.at)

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * ticks_per_second)


def make_steps_small(monkeypatch: Any) -> None:
    """So that what takes a terabyte elsewhere happens here with a few chunks."""
    for target, value in {
        "content.stretch_bytes_max": 3000,
        "page_clears.joined_max": 2,
        "page_clears.moved_per_step": 2,
        "page_clears.rows_per_scan": 3,
        "page_clears.rows_per_step": 2,
        "page_map.rows_cleared_max": 2,
        "page_map.rows_per_scan": 3,
        "page_reading.rows_per_scan": 3,
        "page_reading.rows_per_step": 2,
        "page_removal.rows_per_step": 2,
        "sweep.rows_per_step": 3,
    }.items():
        monkeypatch.setattr(f"etagere.services.blob.{target}", value)
    monkeypatch.setattr("etagere.extents.spool.inline_bytes_max", 4096)


class PageDriver:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.engine = MemoryEngine(self.clock)
        self.extents = MemoryExtents(self.clock)
        self.service = BlobService(self.engine, self.extents, self.clock, SystemEntropy())
        self.place = place(account, "disks")
        self.part = self.place.part
        self.where = Where(self.part, "disk")
        self._tags = itertools.count(1)

    async def write_tx(self, body: Any) -> Any:
        return await self.engine.write((self.part,), body)

    async def begin(self) -> None:
        parts = (self.place.account_part, self.part)
        await self.engine.write(
            parts, lambda tx: containers.create(tx, self.place, CreateContainer({}))
        )

    async def create(self, size: int, keeping: Keeping = nothing_kept) -> None:
        await self.write_tx(
            lambda tx: page_blobs.put(tx, self.where, unguarded, NewBlob(), size, 0, keeping)
        )

    async def write(self, start: int, end: int) -> int:
        """Fill some bytes with a tag of their own; returns it."""
        tag = next(self._tags)

        async def chunks() -> AsyncIterator[bytes]:
            yield tag.to_bytes(4, "big") * ((end - start) // 4)

        body = await self.service.receive(chunks(), end - start, 1 << 30, md5=False)
        await self.service.keep(
            self.part,
            body,
            partial(
                page_blobs.write,
                where=self.where,
                guard=unguarded,
                conditions=SequenceConditions(),
                pages=Slice(start, end),
                received=body,
            ),
        )
        return tag

    async def clear(self, start: int, end: int) -> None:
        await self.write_tx(
            lambda tx: page_blobs.clear(
                tx, self.where, unguarded, SequenceConditions(), Slice(start, end)
            )
        )

    async def resize(self, size: int) -> None:
        await self.write_tx(
            lambda tx: page_blobs.set_properties(
                tx, self.where, unguarded, PageProperties(size), None
            )
        )

    async def snapshot(self) -> int:
        taken, _ = await self.write_tx(
            lambda tx: history.snapshot(tx, self.where, unguarded, {}, nothing_kept, None)
        )
        return taken.snapshot

    async def delete_snapshot(self, moment: int, keeping: Keeping = nothing_kept) -> None:
        where = self.where._replace(snapshot=moment)
        await self.write_tx(lambda tx: history.delete_moment(tx, where, unguarded, keeping))

    async def delete(
        self, snapshots: Snapshots = Snapshots.INCLUDE, keeping: Keeping = nothing_kept
    ) -> None:
        await self.write_tx(
            lambda tx: history.delete(tx, self.where, unguarded, snapshots, keeping)
        )

    async def undelete(self) -> None:
        await self.write_tx(lambda tx: history.undelete(tx, self.where))

    # ---- looking

    async def open(self, snapshot: int, start: int, end: int) -> Download:
        where = self.where._replace(snapshot=snapshot)
        wanted = RequestedRange(start, end - 1) if start < end else None
        return await self.service.open_download(where, unguarded, wanted)

    async def read(self, snapshot: int, start: int, end: int) -> bytes:
        download = await self.open(snapshot, start, end)
        if isinstance(download.body, bytes):
            return download.body
        return b"".join([piece async for piece in download.body])

    async def written(
        self, snapshot: int, start: int, end: int, limit: int | None
    ) -> list[tuple[int, int]]:
        """Page by page, if there is a limit."""
        found: list[tuple[int, int]] = []
        wanted = WantedRanges(RequestedRange(start, end - 1), 0, limit)
        where = self.where._replace(snapshot=snapshot)
        while True:
            listed = await page_ranges.written(self.engine, self.clock, where, unguarded, wanted)
            found += [tuple(run) for run in listed.runs]
            assert limit is None or len(listed.runs) <= limit
            if listed.next_offset is None:
                return found
            wanted = wanted._replace(start=listed.next_offset)

    async def changed(
        self, previous: int, snapshot: int, start: int, end: int, limit: int | None
    ) -> list[tuple[int, int, bool]]:
        found: list[tuple[int, int, bool]] = []
        wanted = WantedRanges(RequestedRange(start, end - 1), 0, limit)
        where = self.where._replace(snapshot=snapshot)
        while True:
            listed = await page_ranges.changed(
                self.engine, self.clock, where, unguarded, wanted, previous
            )
            found += [tuple(change) for change in listed.changes]
            assert limit is None or len(listed.changes) <= limit
            if listed.next_offset is None:
                return found
            wanted = wanted._replace(start=listed.next_offset)

    async def home(self) -> Home:
        async def body(tx: Any) -> Home:
            return Home(self.part, (await open_container(tx, self.part)).generation)

        return await self.engine.read(body)

    async def record(self, snapshot: int = 0) -> Any:
        where = self.where._replace(snapshot=snapshot)
        return (await self.engine.read(lambda tx: find(tx, where))).record

    # ---- what goes on in the background

    async def sweep(self) -> None:
        await sweep(self.service, account, self.clock.now())

    async def unheld(self) -> list[page_removal.Unheld]:
        home = await self.home()
        rows = await self.engine.read(
            lambda tx: tx.scan(self.part, *keys.all_unheld(home.generation), limit=1000)
        )
        return [page_removal.Unheld(*keys.read_unheld(key)) for key, _ in rows]

    async def remove_some(self, unheld: page_removal.Unheld, begin: bytes) -> bytes:
        home = await self.home()
        return await self.write_tx(lambda tx: page_removal.remove_some(tx, home, unheld, begin))

    async def problems(self) -> list[str]:
        found = await self.engine.read(lambda tx: check.check_account(tx, account))
        referrers = check.Referrers(self.engine, [account])
        return found + [
            str(finding)
            async for finding in check_extents(self.engine, self.extents, referrers)
            if not finding.is_harmless
        ]

    async def pins(self) -> int:
        return sum(row.startswith(RowKind.PIN.name) for row in await self.leftovers())

    async def leftovers(self) -> list[str]:
        """Rows of the container's that hold or are content."""
        home = await self.home()
        found = []
        for lane in keys.everything(home.generation):
            rows = await self.engine.read(
                lambda tx, lane=lane: tx.scan(self.part, *lane.bounds, limit=1000)
            )
            found += [f"{lane.kind.name} {key.hex()}" for key, _ in rows]
        return found
