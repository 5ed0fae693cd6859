"""`etagere check` finds what is wrong with tables, and nothing where nothing is."""

import pytest

from etagere.services.table import keys
from etagere.services.table.entities import Change
from etagere.services.table.records import EntityRecord, entities

from .conftest import Tables, account, problems


async def _write(store: Tables, part, key: bytes, value: bytes | None) -> None:
    async def body(tx) -> None:
        if value is None:
            tx.delete(part, key)
        else:
            tx.put(part, key, value)

    await store.engine.write((part,), body)


@pytest.fixture
async def broken(store: Tables):
    """A sound store that a test may break; it is not checked afterwards."""
    await store.change("People", Change.INSERT, "p", "r", a=1)
    await store.drop("People")
    await store.create("People")
    await store.change("People", Change.INSERT, "p", "r", a=1)
    assert await problems(store) == []
    store.is_broken = True
    return store


def _generation(store: Tables, part) -> int:
    raw = store.engine._rows.get(part, keys.table_record)
    from etagere.services.table.records import tables

    return tables.decode(raw).generation


async def test_a_table_without_an_entry(broken: Tables):
    where = broken.place("People")
    await _write(broken, where.account_part, keys.directory_entry("People"), None)
    assert await problems(broken) == ["there, but not in the directory"]


async def test_an_entry_without_a_table(broken: Tables):
    where = broken.place("People")
    await _write(broken, where.part, keys.table_record, None)
    found = await problems(broken)
    assert "table people is in the directory, but not there" in found
    assert any("which nothing sweeps away" in problem for problem in found)


async def test_entities_that_nothing_sweeps_away(broken: Tables):
    part = keys.account_partition(account)
    (begin, end) = keys.all_doomed()

    async def forget(tx) -> None:
        for key, _ in await tx.scan(part, begin, end, limit=10):
            tx.delete(part, key)

    await broken.engine.write((part,), forget)
    (problem,) = await problems(broken)
    assert "which nothing sweeps away" in problem


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "does not decode"),
        (b"\xff\xff", "does not decode"),
        (entities.encode(EntityRecord(1, b'"a":')), "does not decode"),
        (entities.encode(EntityRecord(2**62, b"")), "above the store's last one"),
    ],
)
async def test_damaged_entities(broken: Tables, value: bytes, words: str):
    part = broken.place("People").part
    key = keys.entity(_generation(broken, part), "p", "r")
    await _write(broken, part, key, value)
    (problem,) = await problems(broken)
    assert words in problem
