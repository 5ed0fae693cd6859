"""Find Blobs by Tags, from the index (Azure: 'Find Blobs by Tags').

The index has a row for each tag of each current blob and each version, under (key, value, name,
moment).  So whatever has one value of a tag comes in order of names, and where several tags are
compared with `=` the walks over their rows go on together, each seeking to where another stands: it
costs what the rarest of them costs.  What lies in a range of values comes in no order: a short one
is gathered and sorted, and walked like the others; where there is neither, blobs are walked by
their names.  What is soft-deleted is not in the index: whoever asks for it has all of it looked at.

No request looks at many more than `rows_per_request_max` rows, so that none holds up others for
long; one that has not found a page by then answers with what it has, and where to go on.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from etagere.kernel.tag_predicate import Comparison, TagSearch
from etagere.kv.contract import Partition, ReadTx
from etagere.kv.tuples import after
from etagere.services.blob import keys
from etagere.services.blob.content import Home, home_of
from etagere.services.blob.listing import (
    BlobEntry,
    ListBlobs,
    Position,
    shows_deleted,
    walk_blobs,
)
from etagere.services.blob.records import BlobRecord, blobs, containers

rows_per_request_max: Final = 20_000
gathered_rows_max: Final = 4096
"""Of a range of values: more are not sorted for one page of results."""
rare_rows_max: Final = 256
"""What has fewer rows than this is walked alone."""
_containers_per_scan: Final = 256
_rows_ahead_min: Final = 16
_rows_ahead_max: Final = 512
_deleted_per_scan: Final = 256

Moment = tuple[str, int]
"""A blob, and which state of it: `keys.current_moment` or the moment of a version."""


class Start(NamedTuple):
    """Where a page begins."""

    container: str = ""
    name: str = ""
    moment: int = 0


beginning: Final = Start()


@dataclass(frozen=True, slots=True)
class FindBlobs:
    search: TagSearch
    start: Start = beginning
    limit: int = 5000
    versions: bool = False
    deleted: bool = False
    """Whether soft-deleted blobs are found as well (and versions, if those are)."""


class TaggedBlob(NamedTuple):
    container: str
    name: str
    record: BlobRecord
    current: bool
    """False for earlier versions, and for what is soft-deleted."""


class TaggedPage(NamedTuple):
    blobs: list[TaggedBlob]
    next: Start | None


class _Budget:
    """Rows that a request may still look at."""

    def __init__(self) -> None:
        self._left = rows_per_request_max

    def spend(self, rows: int) -> None:
        self._left -= rows

    @property
    def is_spent(self) -> bool:
        return self._left <= 0


class _Scope(NamedTuple):
    """A container, and what is looked for in it."""

    tx: ReadTx
    home: Home
    container: str
    wanted: FindBlobs
    budget: _Budget


_Candidate = tuple[Moment, TaggedBlob | None]
_Candidates = AsyncIterator[_Candidate]


class _Cursor(Protocol):
    """What meets one comparison, in order."""

    async def seek(self, target: Moment) -> Moment | None:
        """The first that is not before `target`, which is never before an earlier one."""
        ...


class _Rows:
    """Rows of the index that are in order: those of one value."""

    def __init__(
        self, tx: ReadTx, part: Partition, end: bytes, key: Callable[[Moment], bytes],
        budget: _Budget,
    ) -> None:  # fmt: skip
        self._tx = tx
        self._part = part
        self._end = end
        self._key = key
        self._budget = budget
        self._rows: list[Moment] = []
        self._ahead = _rows_ahead_min
        self._done = False

    async def seek(self, target: Moment) -> Moment | None:
        at = bisect_left(self._rows, target)
        if at < len(self._rows):
            return self._rows[at]
        if self._done:
            return None
        # Whoever takes one row after another is given more of them at a time.
        goes_on = bool(self._rows) and target == _next(self._rows[-1])
        self._ahead = min(self._ahead * 2, _rows_ahead_max) if goes_on else _rows_ahead_min
        rows = await self._tx.scan(self._part, self._key(target), self._end, limit=self._ahead)
        self._budget.spend(len(rows) + 1)
        self._done = len(rows) < self._ahead
        self._rows = [keys.tagged(key) for key, _ in rows]
        return self._rows[0] if rows else None


class _Gathered:
    """A few rows, sorted."""

    def __init__(self, rows: list[Moment]) -> None:
        self._rows = sorted(rows)

    async def seek(self, target: Moment) -> Moment | None:
        at = bisect_left(self._rows, target)
        return self._rows[at] if at < len(self._rows) else None


async def find_blobs(tx: ReadTx, account: str, wanted: FindBlobs) -> TaggedPage:
    """One page of the blobs that match, in order of containers and names."""
    budget = _Budget()
    found: list[TaggedBlob] = []
    begin, end = keys.directory()
    if wanted.search.container is not None:
        begin = keys.directory_entry(wanted.search.container)
        end = after(begin)
    begin = max(begin, keys.directory_entry(wanted.start.container))
    part = keys.account_partition(account)
    while rows := await tx.scan(part, begin, end, limit=_containers_per_scan):
        for key, _ in rows:
            name = keys.directory_name(key)
            is_first = name == wanted.start.container
            if budget.is_spent and not is_first:
                return TaggedPage(found, Start(name))
            budget.spend(1)
            start = (wanted.start.name, wanted.start.moment) if is_first else ("", 0)
            page = await _in_container(tx, account, name, wanted, start, found, budget)
            if page is not None:
                return page
        begin = after(rows[-1][0])
    return TaggedPage(found, None)


async def _in_container(
    tx: ReadTx, account: str, name: str, wanted: FindBlobs, start: Moment,
    found: list[TaggedBlob], budget: _Budget,
) -> TaggedPage | None:  # fmt: skip
    """Add what is found; the page, if it ends here."""
    part = keys.container_partition(account, name)
    raw = await tx.get(part, keys.container_record)
    if raw is None:
        return None
    scope = _Scope(tx, home_of(part, containers.decode(raw)), name, wanted, budget)
    async for at, blob in await _candidates(scope, start):
        if blob is not None:
            if len(found) == wanted.limit:
                return TaggedPage(found, Start(name, *at))
            found.append(blob)
        if budget.is_spent:
            return TaggedPage(found, Start(name, *_next(at)))
    return None


async def _candidates(scope: _Scope, start: Moment) -> _Candidates:
    """What was looked at, in order, and the blobs among it that match."""
    cursors = await _cursors(scope.tx, scope.home, scope.wanted.search, start, scope.budget)
    if not cursors:
        return _by_names(scope, start)
    indexed = _indexed(scope, cursors, start)
    return _merged(indexed, _deleted(scope, start)) if scope.wanted.deleted else indexed


async def _indexed(scope: _Scope, cursors: list[_Cursor], start: Moment) -> _Candidates:
    """What the index has of all comparisons."""
    tx, home, container, wanted, budget = scope
    begin = start
    while (at := await _agreed(cursors, begin)) is not None:
        match = None
        if wanted.versions or at[1] == keys.current_moment:
            blob = await _read(tx, home, container, at)
            budget.spend(1)
            if wanted.search.matches(blob.record.tags) and not blob.record.is_over(tx.now):
                match = blob
        yield at, match
        begin = _next(at)


async def _deleted(scope: _Scope, start: Moment) -> _Candidates:
    """What is soft-deleted, which the index does not have: few ask for it, all would pay."""
    tx, home, container, wanted, budget = scope
    begin = keys.trash(home.generation, *start)
    _, end = keys.trash_named(home.generation, "")
    while rows := await tx.scan(home.part, begin, end, limit=_deleted_per_scan):
        budget.spend(len(rows))
        for key, raw in rows:
            record = blobs.decode(raw)
            shown = shows_deleted(record, tx.now, versions=wanted.versions)
            name = keys.name_of(key)
            yield (
                (name, keys.moment_of(key)),
                TaggedBlob(container, name, record, current=False)
                if shown and wanted.search.matches(record.tags)
                else None,
            )
        begin = after(rows[-1][0])


async def _merged(*sources: _Candidates) -> _Candidates:
    heads: dict[int, _Candidate] = {}
    for number, source in enumerate(sources):
        head = await anext(source, None)
        if head is not None:
            heads[number] = head
    while heads:
        first = min(heads, key=lambda number: heads[number][0])
        yield heads[first]
        following = await anext(sources[first], None)
        if following is None:
            del heads[first]
        else:
            heads[first] = following


def _next(at: Moment) -> Moment:
    name, moment = at
    return (name, moment + 1) if moment < keys.current_moment else (name + "\0", 0)


async def _agreed(cursors: list[_Cursor], at: Moment) -> Moment | None:
    """The first not before `at` that meets every comparison."""
    while True:
        standing = at
        for cursor in cursors:
            found = await cursor.seek(standing)
            if found is None:
                return None
            standing = found
        if standing == at:
            return at
        at = standing


async def _read(tx: ReadTx, home: Home, container: str, at: Moment) -> TaggedBlob:
    name, moment = at
    current = moment == keys.current_moment
    row = (
        keys.blob(home.generation, name) if current else keys.version(home.generation, name, moment)
    )
    raw = await tx.get(home.part, row)
    assert raw is not None, "the index names only what is there"
    return TaggedBlob(container, name, blobs.decode(raw), current)


async def _cursors(
    tx: ReadTx, home: Home, search: TagSearch, start: Moment, budget: _Budget
) -> list[_Cursor]:
    """Over what meets each comparison, but for those that hardly narrow the search."""
    equal = [each for each in search.comparisons if each.operator == "="]
    ranges = [each for each in search.comparisons if each.operator != "="]
    if len(search.comparisons) > 1 and (rare := await _rare(tx, home, equal, start)):
        return [rare]  # and the others are looked up on the records
    found: list[_Cursor] = [_rows_of(tx, home, each, budget) for each in equal]
    for limit in (rare_rows_max, gathered_rows_max):
        for comparison in list(ranges):
            rows = await tx.scan(home.part, *_range(home, comparison), limit=limit)
            if len(rows) < limit:
                ranges.remove(comparison)
                found.append(_Gathered([keys.tagged(key) for key, _ in rows]))
        if len(found) > len(equal):
            break
    return found


async def _rare(tx: ReadTx, home: Home, equal: list[Comparison], start: Moment) -> _Gathered | None:
    """What has some value, if that is left for few."""
    for comparison in equal:
        key, value = comparison.name, comparison.value
        begin = keys.tag(home.generation, key, value, *start)
        _, end = keys.tags_of_value(home.generation, key, value)
        rows = await tx.scan(home.part, begin, end, limit=rare_rows_max)
        if len(rows) < rare_rows_max:
            return _Gathered([keys.tagged(key) for key, _ in rows])
    return None


def _rows_of(tx: ReadTx, home: Home, comparison: Comparison, budget: _Budget) -> _Rows:
    key, value = comparison.name, comparison.value

    def row(at: Moment) -> bytes:
        return keys.tag(home.generation, key, value, *at)

    _, end = keys.tags_of_value(home.generation, key, value)
    return _Rows(tx, home.part, end, row, budget)


async def _by_names(scope: _Scope, start: Moment) -> _Candidates:
    """Every blob, one after another."""
    tx, home, container, wanted, budget = scope
    walk = ListBlobs(start=Position(*start), versions=wanted.versions, deleted=wanted.deleted)
    async for entry, position in walk_blobs(tx, home, walk):
        budget.spend(1)
        assert isinstance(entry, BlobEntry), "nothing else was asked for"
        blob = None
        if wanted.search.matches(entry.record.tags):
            blob = TaggedBlob(container, entry.name, entry.record, entry.current)
        yield (position.name, position.moment), blob


def _range(home: Home, comparison: Comparison) -> keys.Range:
    """Where the index has what meets a comparison with a range of values."""
    key, value = comparison.name, comparison.value
    low, high = keys.tags_of_key(home.generation, key)
    at, past = keys.tags_of_value(home.generation, key, value)
    match comparison.operator:
        case ">":
            return past, high
        case ">=":
            return at, high
        case "<":
            return low, at
        case _:
            assert comparison.operator == "<="
            return low, past
