"""The directory of tables, and what deleting one leaves behind."""

from functools import partial

import pytest

from etagere.base.errors import Refused
from etagere.services.common.access_policy import StoredPolicy
from etagere.services.common.doomed import bytes_a_step, rows_a_step, rows_first
from etagere.services.table import keys, tables
from etagere.services.table.entities import Change, write_of
from etagere.services.table.filter_match import predicate_of
from etagere.services.table.filter_parse import parse
from etagere.services.table.sweep import sweep_step
from etagere.services.table.tables import ListTables

from .conftest import Tables, account


async def _code(awaitable) -> str:
    with pytest.raises(Refused) as refusal:
        await awaitable
    return refusal.value.code


async def _list(store: Tables, limit: int = 1000, begin: str = "", text: str = ""):
    predicate = predicate_of(parse(text)) if text else None
    wanted = ListTables(limit, begin, predicate)
    return await store.engine.read(partial(tables.list_tables, account=account, wanted=wanted))


async def test_names_keep_their_case_and_are_unique_without_it(store: Tables):
    assert await _code(store.create("PEOPLE")) == "TableAlreadyExists"
    await store.change("pEoPlE", Change.INSERT, "p", "r", a=1)
    assert await store.values("People", "p", "r") == {"a": 1}
    record = await store.engine.read(partial(tables.get, where=store.place("people")))
    assert record.name == "People"


async def test_a_listing_is_in_order_without_regard_to_case_and_in_pages(store: Tables):
    for name in ("beta", "Alpha", "gamma", "Beta2"):
        await store.create(name)
    names: list[str] = []
    begin = ""
    while True:
        page = await _list(store, limit=2, begin=begin)
        names += page.names
        assert len(page.names) <= 2
        if page.next_name is None:
            break
        begin = page.next_name
    assert names == ["Alpha", "beta", "Beta2", "gamma", "People"]
    assert (await _list(store, limit=5)).next_name is None


async def test_a_listing_can_be_filtered(store: Tables):
    for name in ("Apple", "Apricot", "Banana"):
        await store.create(name)
    page = await _list(store, text="TableName ge 'Ap' and TableName lt 'Aq'")
    assert page.names == ["Apple", "Apricot"]
    assert (await _list(store, text="TableName eq 'Banana'")).names == ["Banana"]
    assert (await _list(store, text="not (TableName eq 'Banana')", limit=2)).names == [
        "Apple",
        "Apricot",
    ]


async def test_operations_on_a_table_that_is_not_there(store: Tables):
    assert await _code(store.drop("Nobody")) == "ResourceNotFound"
    where = store.place("Nobody")
    assert await _code(store.engine.read(partial(tables.get, where=where))) == "ResourceNotFound"
    change = partial(tables.set_policies, where=where, policies=())
    assert await _code(store.engine.write((where.part,), change)) == "ResourceNotFound"


async def test_policies_are_kept_and_go_with_the_table(store: Tables):
    where = store.place("People")
    policies = (StoredPolicy("one"), StoredPolicy("two", permission="r"))
    await store.engine.write(
        (where.part,), partial(tables.set_policies, where=where, policies=policies)
    )
    assert (await store.engine.read(partial(tables.get, where=where))).policies == policies
    await store.drop("People")
    await store.create("People")
    assert (await store.engine.read(partial(tables.get, where=where))).policies == ()


async def _rows_left(store: Tables) -> int:
    part = keys.table_partition(account, "people")

    async def count(tx) -> int:
        return len(await tx.scan(part, b"", b"\xff", limit=100_000))

    return await store.engine.read(count)


async def test_a_deleted_table_is_gone_at_once_and_swept_away_later(store: Tables):
    for n in range(0, rows_a_step + 50, 50):
        batch = [write_of(Change.INSERT, "p", f"{n + i:05}") for i in range(50)]
        await store.transact("People", batch)
    await store.drop("people")
    assert await _code(store.get("People", "p", "00000")) == "TableNotFound"
    await store.create("People")
    assert await store.pages("People") == [[]]
    await store.change("People", Change.INSERT, "p", "new")
    assert await _rows_left(store) == rows_a_step + 50 + 2
    steps = 0
    while await sweep_step(store.engine, account):
        steps += 1
        (page,) = await store.pages("People")
        assert [e.row_key for e in page] == ["new"]
    assert steps == 2
    assert await _rows_left(store) == 2


async def test_of_large_entities_few_are_swept_away_at_a_time(store: Tables):
    large = b",".join(b'"x%d":"%b"' % (n, b"x" * 32_000) for n in range(16))
    for n in range(30):
        await store.write("People", write_of(Change.INSERT, "p", f"{n:02}", fragment=large))
    await store.drop("People")
    before, steps = 30, 0
    while await sweep_step(store.engine, account):
        left = await _rows_left(store)
        assert (before - left) * len(large) <= bytes_a_step + rows_first * len(large)
        before, steps = left, steps + 1
    assert before == 0
    assert steps >= 30 * len(large) // bytes_a_step
    await store.create("People")


async def test_two_deleted_tables_of_one_name_are_both_swept_away(store: Tables):
    for _ in range(2):
        await store.change("People", Change.INSERT, "p", "r")
        await store.drop("People")
        await store.create("People")
    while await sweep_step(store.engine, account):
        pass
    assert await _rows_left(store) == 1
