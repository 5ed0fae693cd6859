"""What page maps cost and leave behind."""

from functools import partial
from typing import Any

import pytest

from etagere.kv.overlay import SnapshotTx
from etagere.kv.tuples import range_of
from etagere.services.blob import keys
from etagere.services.blob.history import Snapshots
from etagere.services.blob.keys import ClearId, RowKind

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
    assert changed == [
        (0, chunk, True),
        (chunk, chunk + page, False),
        (chunk + page, 8 * chunk, True),
    ]
    await disk.delete_snapshot(taken)
    await let_go(disk)
    assert len(await rows_of(disk, "CHUNK")) == 1
    assert await rows_of(disk, "CLEAR") == []
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


# ---- what was cleared, and had nothing before

terabyte = 1024**4


async def cleared_since(disk: PageDriver, previous: int) -> list[tuple[int, int]]:
    """By pages; there is nothing but clears."""
    size = (await disk.record()).size
    changes = await disk.changed(previous, 0, 0, size, None)
    assert all(cleared for _, _, cleared in changes)
    return [(start // page, end // page) for start, end, _ in changes]


async def test_clearing_a_huge_blob_is_one_row(disk: PageDriver) -> None:
    await disk.create(8 * terabyte)
    taken = await disk.snapshot()
    await disk.clear(0, 8 * terabyte)
    assert len(await rows_of(disk, "CLEAR")) == 1
    assert await rows_of(disk, "CHUNK", "CHANGE", "DATA") == []
    assert (await disk.record()).page_map.cuts == ()
    assert await disk.changed(taken, 0, 0, 8 * terabyte, None) == [(0, 8 * terabyte, True)]
    part = (5 * terabyte, 5 * terabyte + page)
    assert await disk.changed(taken, 0, *part, 1) == [(*part, True)]
    assert await disk.written(0, 0, 8 * terabyte, None) == []


async def test_clears_one_after_another_are_one_row(disk: PageDriver) -> None:
    taken = await disk.snapshot()
    for number in (*range(40), *range(90, 50, -1), 3, 60):
        await disk.clear(number * page, (number + 1) * page)
    assert len(await rows_of(disk, "CLEAR")) == 2
    await disk.clear(39 * page, 52 * page)
    assert len(await rows_of(disk, "CLEAR")) == 1
    assert await rows_of(disk, "CHUNK", "CHANGE") == []
    assert await cleared_since(disk, taken) == [(0, 91)]
    await let_go(disk)


async def test_clears_are_noted_only_if_there_is_something_to_compare_with(
    disk: PageDriver,
) -> None:
    before = await disk.leftovers()
    await disk.clear(0, 8 * chunk)
    assert await disk.leftovers() == before
    await disk.write(0, page)
    await disk.clear(0, page)
    assert await disk.leftovers() == before
    taken = await disk.snapshot()
    assert await cleared_since(disk, taken) == []
    await disk.clear(0, page)
    assert await cleared_since(disk, taken) == [(0, 1)]
    await disk.delete_snapshot(taken)
    await let_go(disk)
    assert await rows_of(disk, "CLEAR") == []
    await disk.clear(5 * page, 6 * page)
    assert await rows_of(disk, "CLEAR") == []
    assert await cleared_since(disk, await disk.snapshot()) == []


async def test_a_clear_over_more_rows_than_it_may_join(disk: PageDriver) -> None:
    """Two, here.  The rest is noted in a new epoch, which inherits the rows of the old one."""
    taken = await disk.snapshot()
    for number in range(0, 24, 2):
        await disk.clear(number * page, (number + 1) * page)
    assert len(await rows_of(disk, "CLEAR")) == 12
    await disk.clear(0, 24 * page)
    assert len(await rows_of(disk, "EPOCH")) == 3
    assert await cleared_since(disk, taken) == [(0, 24)]
    await let_go(disk)
    assert len(await rows_of(disk, "EPOCH")) == 2
    assert len(await rows_of(disk, "CLEAR")) == 1
    assert await cleared_since(disk, taken) == [(0, 24)]


async def test_a_large_clear_is_inherited_by_an_epoch_with_many_small_ones(
    disk: PageDriver,
) -> None:
    first = await disk.snapshot()
    await disk.clear(0, 40 * page)
    second = await disk.snapshot()
    for number in range(0, 40, 2):
        await disk.clear(number * page, (number + 1) * page)
    assert await cleared_since(disk, second) == [(n, n + 1) for n in range(0, 40, 2)]
    await disk.delete_snapshot(second)
    await let_go(disk)
    assert await cleared_since(disk, first) == [(0, 40)]
    assert len(await rows_of(disk, "EPOCH")) == 2
    assert len(await rows_of(disk, "CLEAR")) < 20


async def test_clears_stay_as_long_as_there_is_an_earlier_snapshot(disk: PageDriver) -> None:
    first = await disk.snapshot()
    await disk.clear(0, 2 * page)
    second = await disk.snapshot()
    await disk.clear(4 * page, 6 * page)
    third = await disk.snapshot()
    await disk.clear(5 * page, 8 * page)
    assert await cleared_since(disk, third) == [(5, 8)]
    assert await cleared_since(disk, second) == [(4, 8)]
    await disk.delete_snapshot(second)
    await let_go(disk)
    assert await cleared_since(disk, first) == [(0, 2), (4, 8)]
    assert await disk.changed(first, third, 0, chunk, None) == [
        (0, 2 * page, True),
        (4 * page, 6 * page, True),
    ]
    await disk.delete_snapshot(first)
    await let_go(disk)
    assert await cleared_since(disk, third) == [(5, 8)]
    assert len(await rows_of(disk, "CLEAR")) == 1
    await disk.delete_snapshot(third)
    await let_go(disk)
    assert await rows_of(disk, "CLEAR") == []


async def test_an_epoch_passes_on_its_own_clears_and_not_those_before_it(disk: PageDriver) -> None:
    first = await disk.snapshot()
    await disk.clear(0, 2 * page)
    second = await disk.snapshot()
    await disk.clear(4 * page, 6 * page)
    third = await disk.snapshot()
    await disk.clear(8 * page, 9 * page)
    await disk.delete_snapshot(third)
    await let_go(disk)
    assert await cleared_since(disk, second) == [(4, 6), (8, 9)]
    assert await cleared_since(disk, first) == [(0, 2), (4, 6), (8, 9)]
    assert await disk.changed(first, second, 0, chunk, None) == [(0, 2 * page, True)]


async def test_clears_that_were_not_noted_are_told_by_the_content(disk: PageDriver) -> None:
    """As in stores of earlier versions, which knew nothing of them."""
    await disk.write(0, 2 * page)
    taken = await disk.snapshot()
    await disk.write(3 * page, 4 * page)
    await disk.clear(0, page)
    await disk.clear(3 * page, 5 * page)
    assert await cleared_since(disk, taken) == [(0, 1), (3, 5)]
    home = await disk.home()

    async def forget(tx: Any) -> None:
        bounds = range_of(int(RowKind.CLEAR), home.generation)
        for key, _ in await tx.scan(home.part, *bounds, limit=100):
            tx.delete(home.part, key)

    await disk.write_tx(forget)
    assert await cleared_since(disk, taken) == [(0, 1)]
    await let_go(disk)


async def test_notes_of_clears_that_cannot_be_are_found(disk: PageDriver) -> None:
    await disk.snapshot()
    await disk.clear(2 * page, 4 * page)
    assert await disk.problems() == []
    home = await disk.home()
    page_map = (await disk.record()).page_map
    for epoch, start, end, text in (
        (page_map.epoch, 3 * page, 5 * page, "overlaps another, or is empty"),
        (page_map.epoch, 6 * page, 6 * page, "overlaps another, or is empty"),
        (page_map.epoch + 1, 0, page, "of no epoch, and not to be removed"),
    ):
        wrong = keys.clear(home.generation, ClearId(page_map.id, epoch, start, end))
        await disk.write_tx(partial(_put, part=home.part, key=wrong))
        (found,) = await disk.problems()
        assert found.endswith(text)
        await disk.write_tx(partial(_delete, part=home.part, key=wrong))
        assert await disk.problems() == []


async def _put(tx: Any, part: Any, key: bytes) -> None:
    tx.put(part, key, b"")


async def _delete(tx: Any, part: Any, key: bytes) -> None:
    tx.delete(part, key)


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
