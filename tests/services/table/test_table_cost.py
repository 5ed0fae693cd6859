"""What an operation touches in the store does not grow with the table."""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from etagere.kv.contract import Tx
from etagere.services.table import entities, query
from etagere.services.table.entities import Change, batch_operations_max, write_of
from etagere.services.table.filter_parse import parse
from etagere.services.table.filter_plan import plan
from etagere.services.table.query import Query

from .conftest import Tables


class _Counting:
    """A transaction that counts what is asked of it, and the rows that it hands out."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.counts: Counter[str] = Counter()

    @property
    def now(self):
        return self._tx.now

    def stamp(self) -> int:
        return self._tx.stamp()

    async def get(self, part, key):
        self.counts["get"] += 1
        return await self._tx.get(part, key)

    async def scan(self, part, begin, end, *, limit, reverse=False):
        rows = await self._tx.scan(part, begin, end, limit=limit, reverse=reverse)
        self.counts["scan"] += 1
        self.counts["row"] += len(rows)
        return rows

    def put(self, part, key, value) -> None:
        self.counts["put"] += 1
        self._tx.put(part, key, value)

    def delete(self, part, key) -> None:
        self.counts["delete"] += 1
        self._tx.delete(part, key)


async def _fill(store: Tables, partitions: int) -> None:
    for p in range(partitions):
        await store.transact(
            "People",
            [write_of(Change.INSERT, f"p{p:03}", f"r{n:03}") for n in range(batch_operations_max)],
        )


async def _counts(store: Tables, body: Callable[[Tx], Awaitable[object]]) -> Counter[str]:
    part = store.place("People").part

    async def counted(tx: Tx) -> Counter[str]:
        counting = _Counting(tx)
        await body(counting)  # type: ignore[arg-type]
        return counting.counts

    return await store.engine.write((part,), counted)


def _bodies(store: Tables) -> dict[str, Callable[[Tx], Awaitable[object]]]:
    part = store.place("People").part
    own = b'"a":1'

    def one(change: Change, row_key: str, if_match: str | None = None):
        wanted = write_of(change, "p000", row_key, if_match=if_match, fragment=own)
        return partial(entities.write, part=part, wanted=wanted)

    def many(change: Change, partition_key: str, if_match: str | None = None):
        batch = [
            write_of(change, partition_key, f"r{n:03}", if_match=if_match, fragment=own)
            for n in range(batch_operations_max)
        ]
        return partial(entities.transact, part=part, batch=batch)

    def find(text: str, limit: int = 1000):
        return partial(query.query, part=part, wanted=Query(plan(parse(text)), limit))

    return {
        "insert": one(Change.INSERT, "new"),
        "upsert": one(Change.REPLACE, "r050"),
        "update": one(Change.REPLACE, "r051", "*"),
        "merge": one(Change.MERGE, "r052", "*"),
        "delete": one(Change.DELETE, "r053", "*"),
        "get": partial(entities.get, part=part, partition_key="p000", row_key="r054"),
        "point": find("PartitionKey eq 'p000' and RowKey eq 'r055' and a eq 1"),
        "range": find("PartitionKey eq 'p000' and RowKey ge 'r010' and RowKey lt 'r020'"),
        "partition": find("PartitionKey eq 'p000'"),
        "page": find("PartitionKey ge 'p000'", limit=10),
        "batch of inserts": many(Change.INSERT, "p000a"),
        "batch of upserts": many(Change.REPLACE, "p000b"),
        "batch of merges": many(Change.MERGE, "p000a", "*"),
        "batch of deletes": many(Change.DELETE, "p000a", "*"),
    }


_counts_wanted = {
    "insert": {"get": 2, "put": 1},
    "upsert": {"get": 1, "put": 1},
    "update": {"get": 2, "put": 1},
    "merge": {"get": 2, "put": 1},
    "delete": {"get": 2, "delete": 1},
    "get": {"get": 2},
    "point": {"get": 1, "scan": 1, "row": 1},
    "range": {"get": 1, "scan": 1, "row": 10},
    "partition": {"get": 1, "scan": 2, "row": 100},
    "page": {"get": 1, "scan": 1, "row": 11},
    "batch of inserts": {"get": 1, "scan": 1, "put": 100},
    "batch of upserts": {"get": 1, "put": 100},
    "batch of merges": {"get": 1, "scan": 1, "row": 100, "put": 100},
    "batch of deletes": {"get": 1, "scan": 1, "row": 100, "delete": 100},
}


@pytest.mark.parametrize("partitions", [1, 100])
async def test_what_operations_touch(store: Tables, partitions: int):
    await _fill(store, partitions)
    for name, body in _bodies(store).items():
        counted = {kind: n for kind, n in (await _counts(store, body)).items() if n}
        assert counted == _counts_wanted[name], name


async def test_a_batch_whose_rows_lie_apart_reads_them_one_by_one(store: Tables):
    """The scan that would find them all gives up after as many rows as there are operations."""
    await _fill(store, 1)
    part = store.place("People").part
    batch = [
        write_of(Change.MERGE, "p000", row_key, if_match="*")
        for row_key in ("r000", "r030", "r060", "r099")
    ]
    counts = await _counts(store, partial(entities.transact, part=part, batch=batch))
    assert counts == {"get": 1 + len(batch), "scan": 1, "row": len(batch) + 1, "put": len(batch)}
