"""Find Blobs by Tags: what is found, page by page, and how many rows are looked at for it."""

import asyncio
from enum import Enum
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp
from etagere.kernel.tag_predicate import parse_tag_search
from etagere.kv.contract import Partition
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.blob import containers, keys, tag_index, tag_search
from etagere.services.blob.containers import CreateContainer, place
from etagere.services.blob.content import Home
from etagere.services.blob.records import BlobRecord, BlobType, blobs
from etagere.services.blob.tag_search import FindBlobs, Start, TaggedPage, find_blobs

account = "devstoreaccount1"
Found = tuple[str, str, int]
Row = tuple[str, int, "Kind", dict[str, str]]


class StandingClock:
    def now(self) -> Timestamp:
        return Timestamp(17_000_000_000_000_000)


class CountingTx:
    """A `ReadTx` that counts."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.now = inner.now
        self.rows = 0

    async def get(self, part: Partition, key: bytes) -> bytes | None:
        self.rows += 1
        found: bytes | None = await self._inner.get(part, key)
        return found

    async def scan(
        self, part: Partition, begin: bytes, end: bytes, *, limit: int, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = await self._inner.scan(
            part, begin, end, limit=limit, reverse=reverse
        )
        self.rows += len(rows) + 1
        return rows


class Kind(Enum):
    """What a row that has tags is of."""

    BLOB = 0
    VERSION = 1
    DELETED_BLOB = 2
    DELETED_VERSION = 3
    DELETED_SNAPSHOT = 4
    EXPIRED = 5


class Store:
    def __init__(self) -> None:
        self.engine = MemoryEngine(StandingClock())
        self.expected: list[tuple[Found, Kind, dict[str, str]]] = []
        self.rows = 0
        """Looked at by the last request."""

    def container(self, name: str) -> Home:
        where = place(account, name)
        create = partial(containers.create, where=where, wanted=CreateContainer({}))
        record = self._write((where.part, where.account_part), create)
        return Home(where.part, record.generation)

    def fill(self, home: Home, container: str, rows: list[Row]) -> None:
        async def body(tx: Any, some: list[Row]) -> None:
            for name, moment, kind, tags in some:
                record = BlobRecord(BlobType.BLOCK, 1, 1, 1, 0, tags=tags)
                key = keys.blob(home.generation, name)
                if kind in (Kind.VERSION, Kind.DELETED_VERSION):
                    record.version = moment
                    key = keys.version(home.generation, name, moment)
                elif kind is Kind.DELETED_SNAPSHOT:
                    record.snapshot = moment
                if kind in (Kind.BLOB, Kind.VERSION):
                    tag_index.remember(tx, home, name, moment, tags)
                else:
                    key = keys.trash(home.generation, name, moment)
                    record.deleted = 1
                    record.retained_until = tx.now + (kind is not Kind.EXPIRED)
                    record.last_access = moment  # tells it from its namesakes
                tx.put(home.part, key, blobs.encode(record))

        for at in range(0, len(rows), 1000):
            self._write((home.part,), partial(body, some=rows[at : at + 1000]))
        self.expected += [((container, name, at), kind, tags) for name, at, kind, tags in rows]

    def _write(self, parts: Any, body: Any) -> Any:
        return asyncio.run(self.engine.write(parts, body))

    def page(self, wanted: FindBlobs) -> TaggedPage:
        async def counted(tx: Any) -> tuple[TaggedPage, int]:
            counting = CountingTx(tx)
            return await find_blobs(counting, account, wanted), counting.rows

        page, self.rows = asyncio.run(self.engine.read(counted))
        return page

    def all(
        self, where: str, limit: int = 5000, *, versions: bool = False, deleted: bool = False
    ) -> list[Found]:
        """What all pages have."""
        search = parse_tag_search(where, in_account=True)
        found: list[Found] = []
        start: Start | None = Start()
        while start is not None:
            page = self.page(FindBlobs(search, start, limit, versions, deleted))
            assert len(page.blobs) <= limit
            for each in page.blobs:
                record = each.record
                moment = record.last_access if record.deleted else record.version
                moment = keys.current_moment if each.current else moment
                found.append((each.container, each.name, moment))
            assert page.next is None or page.next > start, "it goes on from where it was"
            start = page.next
        return found

    def brute(self, where: str, *, versions: bool, deleted: bool = False) -> list[Found]:
        search = parse_tag_search(where, in_account=True)
        kinds = {Kind.BLOB}
        if versions:
            kinds.add(Kind.VERSION)
        if deleted:
            kinds.add(Kind.DELETED_BLOB)
        if versions and deleted:
            kinds.add(Kind.DELETED_VERSION)
        return sorted(
            found
            for found, kind, tags in self.expected
            if search.matches(tags) and search.container in (None, found[0]) and kind in kinds
        )


_kinds = st.sampled_from([Kind.BLOB, *Kind])
_tags = st.dictionaries(st.sampled_from("abc"), st.sampled_from("1234"), max_size=3)
_comparison = st.builds(
    "{} {} '{}'".format,
    st.sampled_from("abc"),
    st.sampled_from(["=", "=", ">", ">=", "<", "<="]),
    st.sampled_from("01234"),
)


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["one", "two"]), st.sampled_from("mnopq"), _tags, _kinds),
        max_size=40,
    ),
    comparisons=st.lists(_comparison, min_size=1, max_size=3),
    container=st.sampled_from(["", "one", "none"]),
    limit=st.sampled_from([1, 2, 5000]),
    versions=st.booleans(),
    deleted=st.booleans(),
    small=st.booleans(),
)
def test_it_finds_what_a_look_at_everything_finds(
    rows: Any,
    comparisons: Any,
    container: str,
    limit: int,
    versions: bool,
    deleted: bool,
    small: bool,
) -> None:
    """Also where nothing is thought of as few, and every request ends early."""
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(tag_search, "rows_per_request_max", 4)
            patch.setattr(tag_search, "rare_rows_max", 2)
            patch.setattr(tag_search, "gathered_rows_max", 3)
            patch.setattr(tag_search, "_rows_ahead_min", 1)
            patch.setattr(tag_search, "_deleted_per_scan", 3)
        store = Store()
        for name in ("one", "two"):
            home = store.container(name)
            states: dict[tuple[str, int], tuple[Kind, dict[str, str]]] = {}
            for number, (of, blob, tags, kind) in enumerate(rows):
                if of == name:
                    at = keys.current_moment if kind is Kind.BLOB else number + 1
                    states[blob, at] = kind, tags
            store.fill(home, name, [(*place, *state) for place, state in states.items()])
        where = " AND ".join(comparisons + ([f"@container = '{container}'"] if container else []))
        found = store.all(where, limit, versions=versions, deleted=deleted)
        assert found == store.brute(where, versions=versions, deleted=deleted)


@pytest.fixture(scope="module")
def many() -> Store:
    """Thirty thousand blobs, of one kind, each with a date of its own; few have a colour."""
    store = Store()
    home = store.container("many")
    rows = []
    for number in range(30_000):
        tags = {"kind": "all", "half": str(number % 2), "date": f"{number:08d}"}
        if number % 300 == 7:
            tags["colour"] = "red"
        rows.append((f"blob-{number:08d}", keys.current_moment, Kind.BLOB, tags))
    Random(1).shuffle(rows)
    store.fill(home, "many", rows)
    return store


@pytest.mark.parametrize(
    ("where", "matches", "rows_max"),
    [
        ("colour = 'red'", 100, 400),
        ("kind = 'all' AND colour = 'red'", 100, 5000),
        ("half = '1' AND kind = 'all' AND colour = 'red'", 100, 9000),
        ("colour = 'red' AND date >= '00000000'", 100, 1000),
        ("date > '00029899'", 100, 400),
        ("kind = 'all' AND date > '00029899'", 100, 5000),
        ("colour = 'blue'", 0, 10),
        ("kind = 'all' AND date > '99999999'", 0, 300),
    ],
)
def test_few_rows_are_looked_at_for_few_results(
    many: Store, where: str, matches: int, rows_max: int
) -> None:
    """However many blobs there are: what is counted is the work of the whole search."""
    page = many.page(FindBlobs(parse_tag_search(where, in_account=True)))
    assert (len(page.blobs), page.next) == (matches, None)
    assert many.rows <= rows_max


@pytest.mark.parametrize("where", ["kind = 'all'", "date > '0'", "half = '0' AND date > '0'"])
def test_a_page_of_many_costs_what_it_returns(many: Store, where: str) -> None:
    search = parse_tag_search(where, in_account=True)
    start: Start | None = Start()
    total = pages = 0
    while start is not None:
        page = many.page(FindBlobs(search, start, 1000))
        assert many.rows <= 12_000
        total, pages, start = total + len(page.blobs), pages + 1, page.next
    assert total == len(many.brute(where, versions=False))
    assert pages <= 32


def test_a_request_ends_early_where_little_is_found(many: Store) -> None:
    """Both halves of a search are common, and nothing is in both."""
    where = "kind = 'all' AND date > '00000010' AND date < '99999999' AND half = '2'"
    page = many.page(FindBlobs(parse_tag_search(where, in_account=True)))
    assert (page.blobs, page.next) == ([], None)
    where = "kind = 'all' AND date < '99999999' AND date <= '/'"
    assert many.all(where) == []
    where = "date > '00000010' AND date < '00020000' AND date > '00019990'"
    assert len(many.all(where)) == 9
    assert many.rows <= tag_search.rows_per_request_max * 3
