"""What page maps cost and leave behind."""

from typing import Any

import pytest

from etagere.kv.overlay import SnapshotTx
from etagere.services.blob.history import Snapshots

from .page_driver import PageDriver, make_steps_small, page, pages_per_chunk

chunk = page * pages_per_chunk


@pytest.fixture
async def disk(monkeypatch: pytest.MonkeyPatch) -> PageDriver:
    make_steps_small(monkeypatch)
    driver = PageDriver()
    await driver.begin()
    await driver.create(8 * chunk)
    return driver


async def rows_of(disk: PageDriver, *kinds: str) -> list[str]:
    found = await disk.leftovers()
    return [row for row in found if row.split()[0] in kinds]


async def fill(disk: PageDriver, first: int, last: int) -> None:
    for number in range(first, last):
        await disk.write(number * chunk, number * chunk + page)


async def let_go(disk: PageDriver) -> None:
    disk.clock.advance(70)
    await disk.sweep()
    assert await disk.problems() == []


async def test_what_was_never_written_is_not_stored(disk: PageDriver) -> None:
    await disk.create(8 * 1024**4)
    assert await rows_of(disk, "CHUNK", "DATA") == []
    await disk.write(8 * 1024**4 - page, 8 * 1024**4)
    assert len(await rows_of(disk, "CHUNK")) == 1
    assert await disk.written(0, 0, 8 * 1024**4, None) == [(8 * 1024**4 - page, 8 * 1024**4)]
    assert await disk.read(0, 8 * 1024**4 - 2 * page, 8 * 1024**4 - page) == bytes(page)


async def test_clearing_many_chunks_cuts_them_off_and_sweeps_them_later(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    await disk.clear(page, 7 * chunk + page)
    record = await disk.record()
    assert [(cut.first, cut.end) for cut in record.page_map.cuts] == [(1, 7)]
    assert await disk.written(0, 0, 8 * chunk, None) == [(0, page)]
    assert len(await rows_of(disk, "CHUNK")) > 2
    await let_go(disk)
    assert len(await rows_of(disk, "CHUNK")) == 1
    assert len(await rows_of(disk, "DATA")) == 1
    await fill(disk, 2, 4)
    assert await disk.written(0, 0, 8 * chunk, None) == [
        (0, page),
        (2 * chunk, 2 * chunk + page),
        (3 * chunk, 3 * chunk + page),
    ]


async def test_a_snapshot_still_sees_what_was_cut_off(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    taken = await disk.snapshot()
    before = await disk.read(taken, 0, 8 * chunk)
    await disk.clear(0, 8 * chunk)
    await disk.write(chunk, chunk + page)
    await let_go(disk)
    assert await disk.read(taken, 0, 8 * chunk) == before
    changed = await disk.changed(taken, 0, 0, 8 * chunk, None)
    assert changed == [(n * chunk, n * chunk + page, n != 1) for n in range(8)]
    await disk.delete_snapshot(taken)
    await let_go(disk)
    assert len(await rows_of(disk, "CHUNK")) == 1
    assert len(await rows_of(disk, "DATA")) == 1


async def test_shrinking_cuts_off_as_well(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    await disk.resize(chunk)
    await disk.resize(8 * chunk)
    assert await disk.written(0, 0, 8 * chunk, None) == [(0, page)]
    await let_go(disk)
    assert len(await rows_of(disk, "CHUNK")) == 1


async def test_cuts_do_not_pile_up(disk: PageDriver) -> None:
    for _ in range(5):
        await fill(disk, 0, 8)
        await disk.clear(0, 8 * chunk)
    await fill(disk, 0, 8)
    await disk.clear(2 * chunk, 5 * chunk)
    cuts = (await disk.record()).page_map.cuts
    assert sorted((cut.first, cut.end) for cut in cuts) == [(0, 2), (2, 5), (5, 8)]
    await let_go(disk)
    assert len(await rows_of(disk, "CHUNK")) == 5


async def test_a_snapshot_costs_the_same_however_much_was_written(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    before = set(await disk.leftovers())
    await disk.snapshot()
    added = {row.split()[0] for row in set(await disk.leftovers()) - before}
    assert added == {"SNAPSHOT", "HOLDERS"}


async def test_a_write_after_a_snapshot_copies_its_chunk_and_no_bytes(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    await disk.write(page, 3 * page)
    await disk.snapshot()
    before = set(await disk.leftovers())
    await disk.write(page, 2 * page)
    added = sorted(row.split()[0] for row in set(await disk.leftovers()) - before)
    assert added == ["CHANGE", "CHUNK", "DATA", "EPOCH"]


async def test_deleted_snapshots_do_not_leave_old_bytes_under_new_writes(
    disk: PageDriver,
) -> None:
    """A row that only a snapshot's epoch shared is replaced once the snapshot has gone."""
    await disk.write(0, 2 * page)
    taken = await disk.snapshot()
    await disk.write(chunk, chunk + page)  # a new epoch; the first chunk stays as it is
    await disk.delete_snapshot(taken)
    await let_go(disk)
    await disk.write(0, 2 * page)
    assert len(await rows_of(disk, "CHUNK")) == 2
    assert len(await rows_of(disk, "DATA")) == 2
    assert await disk.problems() == []


async def test_an_extent_over_many_chunks_is_let_go_of_with_the_last(disk: PageDriver) -> None:
    await disk.write(0, 4 * chunk)
    taken = await disk.snapshot()
    await disk.clear(0, 2 * chunk)
    await disk.write(2 * chunk, 4 * chunk)
    await let_go(disk)
    assert (await disk.extents.usage()).extents == 2
    await disk.delete_snapshot(taken)
    await let_go(disk)
    await let_go(disk)
    assert (await disk.extents.usage()).extents == 1
    await disk.clear(2 * chunk, 4 * chunk)
    await let_go(disk)
    assert (await disk.extents.usage()).extents == 0


async def test_pins_of_a_process_that_died_are_let_go_of(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    download = await disk.open(0, 0, 8 * chunk)
    assert not isinstance(download.body, bytes)
    assert len(await anext(download.body)) > 0
    assert len(await rows_of(disk, "PIN")) == 1
    del download  # nobody closes it
    await disk.write(0, page)
    assert len(await rows_of(disk, "EPOCH")) == 2
    disk.clock.advance(700)
    await disk.sweep()
    await let_go(disk)
    assert await rows_of(disk, "PIN", "UNHELD") == []
    assert len(await rows_of(disk, "EPOCH")) == 1
    assert len(await rows_of(disk, "CHUNK")) == 8


async def test_a_download_renews_its_pin(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    before = await disk.read(0, 0, 8 * chunk)
    download = await disk.open(0, 0, 8 * chunk)
    assert not isinstance(download.body, bytes)
    taken = b""
    async for piece in download.body:
        taken += piece
        disk.clock.advance(400)
        await disk.sweep()
        await fill(disk, 0, 8)
    assert taken == before
    await let_go(disk)
    assert await rows_of(disk, "PIN", "UNHELD") == []


async def test_a_small_download_is_not_pinned(disk: PageDriver) -> None:
    await disk.write(0, page)
    etag = (await disk.record()).etag
    before = await disk.leftovers()
    assert len(await disk.read(0, 0, chunk)) == chunk
    assert await disk.leftovers() == before
    assert (await disk.record()).etag == etag


async def test_nothing_is_left_of_a_deleted_container(disk: PageDriver) -> None:
    """Its rows go in steps, and each extent is let go of as often as it was held."""
    from etagere.services.blob import containers
    from etagere.services.blob.guard import unguarded

    for turn in range(3):
        await disk.write(0, 5 * chunk)
        await disk.snapshot()
        await disk.write(turn * chunk, (turn + 1) * chunk)
    assert await disk.problems() == []
    parts = (disk.place.account_part, disk.part)
    await disk.engine.write(
        parts, lambda tx: containers.delete(tx, disk.place, unguarded, retention_days=0)
    )
    for _ in range(3):
        disk.clock.advance(3600)
        await disk.sweep()
    assert (await disk.extents.usage()).extents == 0
    assert await disk.problems() == []


async def test_deleting_the_blob_leaves_its_snapshots_map(disk: PageDriver) -> None:
    await fill(disk, 0, 8)
    await disk.snapshot()
    await disk.write(0, page)
    await disk.delete(Snapshots.INCLUDE)
    await let_go(disk)
    assert await rows_of(disk, "CHUNK", "CHANGE", "EPOCH", "UNHELD", "DATA", "HOLDERS") == []


async def test_rows_that_are_not_seen_count_as_work(
    disk: PageDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what was cut off, nor what came after a snapshot, is passed over in one look."""
    taken = await disk.snapshot()
    await fill(disk, 0, 8)
    looks: list[SnapshotTx] = []
    rows: list[int] = []
    scan = SnapshotTx.scan

    async def counted(self: SnapshotTx, *bounds: Any, **options: Any) -> Any:
        found = await scan(self, *bounds, **options)
        if not looks or looks[-1] is not self:
            looks.append(self)
            rows.append(0)
        rows[-1] += len(found)
        return found

    monkeypatch.setattr(SnapshotTx, "scan", counted)
    assert await disk.read(taken, 0, 8 * chunk) == bytes(8 * chunk)
    assert await disk.written(taken, 0, 8 * chunk, None) == []
    await disk.clear(0, 8 * chunk)
    assert await disk.read(0, 0, 8 * chunk) == bytes(8 * chunk)
    assert await disk.written(0, 0, 8 * chunk, None) == []
    assert len(looks) > 8
    assert max(rows) <= 6  # two chunks, and the beginning of the next, three rows at a time
