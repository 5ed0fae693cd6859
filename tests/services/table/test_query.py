"""Pages of queries: every one right, in order, within its bounds."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etagere.auth.key_range import KeyRange as SignedRange
from etagere.kv.contract import ReadTx
from etagere.services.table import query
from etagere.services.table.entities import Change, write_of
from etagere.services.table.entity import encode, read_members
from etagere.services.table.filter_parse import parse
from etagere.services.table.filter_plan import plan
from etagere.services.table.query import Query

from .conftest import SetClock, Tables
from .filters import Entity, Expression, entities, expressions

tables_of = st.lists(entities(), max_size=25, unique_by=lambda e: (e.partition_key, e.row_key))


async def _filled(table: list[Entity]) -> Tables:
    from etagere.kv.engines.memory import MemoryEngine

    clock = SetClock()
    store = Tables(MemoryEngine(clock, strict=False), clock)
    await store.create("People")
    for entity in table:
        own = read_members(list(entity.members.items())).properties
        wanted = write_of(Change.INSERT, entity.partition_key, entity.row_key, fragment=encode(own))
        await store.write("People", wanted)
    return store


@given(expressions, tables_of, st.integers(1, 30))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
async def test_pages_put_together_are_what_the_naive_evaluation_finds(
    expression: Expression, table: list[Entity], limit: int
):
    if "Timestamp" in expression.text:  # those here are the store's own
        return
    store = await _filled(table)
    pages = await store.pages("People", expression.text, limit=limit)
    found = [(e.partition_key, e.row_key) for page in pages for e in page]
    expected = [(e.partition_key, e.row_key) for e in table if expression.matches(e)]
    assert found == sorted(expected), expression.text
    assert all(len(page) <= limit for page in pages)


class _Counting:
    """A transaction that counts the rows that it hands out."""

    def __init__(self, tx: ReadTx) -> None:
        self._tx = tx
        self.now = tx.now
        self.rows = 0

    async def get(self, part, key):
        return await self._tx.get(part, key)

    async def scan(self, part, begin, end, *, limit, reverse=False):
        rows = await self._tx.scan(part, begin, end, limit=limit, reverse=reverse)
        self.rows += len(rows)
        return rows


async def _rows_read(store: Tables, text: str, **options) -> int:
    part = store.place("People").part
    wanted = Query(plan(parse(text)), **options)

    async def counted(tx: ReadTx) -> int:
        counting = _Counting(tx)
        await query.query(counting, part, wanted)
        return counting.rows

    return await store.engine.read(counted)


async def _grid(store: Tables, partitions: int, rows: int) -> None:
    for p in range(partitions):
        for begin in range(0, rows, 100):
            batch = [
                write_of(Change.INSERT, f"p{p:03}", f"r{r:05}", fragment=encode({"n": r}))
                for r in range(begin, min(begin + 100, rows))
            ]
            await store.transact("People", batch)


def _point(partition_key: str, row_key: str) -> str:
    return f"PartitionKey eq '{partition_key}' and RowKey eq '{row_key}'"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (_point("p003", "r00007"), 1),
        ("PartitionKey eq 'p003' and RowKey eq 'r00007' and n eq 7", 1),
        ("PartitionKey eq 'nobody' and n eq 7", 0),
        ("PartitionKey eq 'p003' and n eq 7", 50),
        ("PartitionKey eq 'p003' and RowKey ge 'r00010' and RowKey lt 'r00020'", 10),
        ("PartitionKey ge 'p003' and PartitionKey lt 'p005' and n eq 3", 100),
        (
            f"({_point('p001', 'r00001')}) or ({_point('p007', 'r00002')})",
            2,
        ),
        ("n eq 3", 500),
    ],
)
async def test_rows_read_are_those_of_the_planned_ranges(store: Tables, text: str, rows: int):
    await _grid(store, partitions=10, rows=50)
    assert await _rows_read(store, text) == rows


async def test_a_small_page_reads_little(store: Tables):
    await _grid(store, partitions=3, rows=300)
    assert await _rows_read(store, "PartitionKey ge ''", limit=10) == 11


async def test_a_full_page_says_where_the_next_begins_and_the_last_says_nothing(store: Tables):
    await _grid(store, partitions=2, rows=5)
    page = await store.page("People", limit=5)
    assert page.next_keys == ("p001", "r00000")
    assert (await store.page("People", limit=10)).next_keys is None
    page = await store.page("People", "PartitionKey eq 'p000'", limit=5)
    assert page.next_keys is None
    assert [len(p) for p in await store.pages("People", limit=3)] == [3, 3, 3, 1]


async def test_at_most_a_thousand_entities_a_page(store: Tables):
    await _grid(store, partitions=3, rows=500)
    assert [len(p) for p in await store.pages("People")] == [1000, 500]


async def test_a_search_stops_after_enough_rows_and_goes_on_later(
    store: Tables, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(query, "rows_examined_max", 100)
    await _grid(store, partitions=1, rows=500)
    pages = await store.pages("People", "n eq 333")
    assert [len(page) for page in pages] == [0, 0, 0, 1, 0]


async def test_a_search_with_many_comparisons_looks_at_fewer_rows(
    store: Tables, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(query, "rows_examined_max", 100)
    await _grid(store, partitions=1, rows=60)
    text = "PartitionKey eq 'p000' and (" + " or ".join(f"n eq {n}" for n in range(70, 145)) + ")"
    assert [len(page) for page in await store.pages("People", text)] == [0, 0, 0]
    assert len(await store.pages("People", "n eq 70")) == 1


async def test_a_page_of_large_entities_is_short(store: Tables):
    for n in range(12):
        large = {f"p{i}": "x" * 32768 for i in range(15)}
        await store.change("People", Change.INSERT, "p", f"r{n:02}", **large)
    pages = await store.pages("People")
    assert sum(len(page) for page in pages) == 12
    assert max(len(page) for page in pages) < 12


async def test_a_search_among_large_entities_stops_after_enough_bytes(
    store: Tables, monkeypatch: pytest.MonkeyPatch
):
    """It would hold everybody up as long as many more rows that are small."""
    monkeypatch.setattr(query, "bytes_examined_max", 200_000)
    for n in range(60):
        await store.change("People", Change.INSERT, "p", f"r{n:02}", n=n, text="x" * 20_000)
    pages = await store.pages("People", "n eq 33")
    assert [len(page) for page in pages] == [0, 0, 0, 1, 0, 0]


async def test_a_continuation_is_a_position_and_not_a_row(store: Tables):
    await _grid(store, partitions=1, rows=10)
    page = await store.page("People", limit=4)
    assert page.next_keys == ("p000", "r00004")
    await store.change("People", Change.DELETE, "p000", "r00004", "*")
    await store.change("People", Change.INSERT, "p000", "r00001a")  # behind: not seen
    await store.change("People", Change.INSERT, "p000", "r00007a")  # ahead: seen
    from etagere.services.table.filter_plan import before

    rest = await store.page("People", begin=before(*page.next_keys))
    assert [e.row_key for e in rest.entities] == [
        "r00005", "r00006", "r00007", "r00007a", "r00008", "r00009",
    ]  # fmt: skip


@st.composite
def _signed(draw: st.DrawFn, table: list[Entity]) -> SignedRange:
    """Bounds that rows of the table lie on, or elsewhere."""
    elsewhere = st.tuples(st.sampled_from(["", "a", "ab", "c"]), st.sampled_from(["", "b", "ba"]))
    bounds = [(entity.partition_key, entity.row_key) for entity in table]
    bound = st.sampled_from(bounds) | elsewhere if bounds else elsewhere
    (start_pk, start_rk), (end_pk, end_rk) = sorted([draw(bound), draw(bound)])
    return SignedRange(
        *(
            draw(st.sampled_from([text, text, None]))
            for text in (start_pk, start_rk, end_pk, end_rk)
        )
    )


@given(st.data(), tables_of, st.integers(1, 10))
@settings(max_examples=150, deadline=None)
async def test_a_signature_bounds_what_a_query_reaches(
    data: st.DataObject, table: list[Entity], limit: int
):
    signed = data.draw(_signed(table))
    store = await _filled(table)
    pages = await store.pages("People", signed_range=signed, limit=limit)
    found = [(e.partition_key, e.row_key) for page in pages for e in page]
    keys = sorted((e.partition_key, e.row_key) for e in table)
    assert found == [key for key in keys if signed.covers(*key)]


async def test_ranges_that_no_row_can_be_in_are_not_read(store: Tables):
    await _grid(store, partitions=2, rows=5)
    assert await _rows_read(store, "PartitionKey gt 'z' or PartitionKey lt ''") == 0
