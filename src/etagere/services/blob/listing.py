"""List Blobs: one page of names, prefixes, snapshots, versions and unfinished blobs, merged.

A page is read inside one snapshot of the store.  With a delimiter, everything under one prefix is
skipped by seeking past it, so a page costs what it returns and not what it passes over.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from etagere.kv.contract import Partition, ReadTx
from etagere.kv.tuples import after, unpack
from etagere.services.blob import keys
from etagere.services.blob.content import Home, home_of
from etagere.services.blob.guard import open_container
from etagere.services.blob.records import (
    BlobRecord,
    ContainerRecord,
    UncommittedBlob,
    blobs,
    uncommitted_blobs,
)

results_max: Final = 5000
_rows_ahead: Final = 256


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page begins: at the first entry of `name` not before `moment` (0: all of them)."""

    name: str = ""
    moment: int = 0


@dataclass(frozen=True, slots=True)
class ListBlobs:
    prefix: str = ""
    delimiter: str = ""
    start: Position = Position()
    limit: int = results_max
    snapshots: bool = False
    versions: bool = False
    uncommitted: bool = False
    deleted: bool = False
    deleted_only: bool = False
    rootless: bool = False
    """Whether names are listed that have versions and no current blob."""


class BlobEntry(NamedTuple):
    name: str
    record: BlobRecord
    current: bool
    """False for snapshots and earlier versions."""
    rootless: bool = False
    """Whether it stands for a name without a current blob, and is its last version."""


class UncommittedEntry(NamedTuple):
    name: str
    marker: UncommittedBlob


class PrefixEntry(NamedTuple):
    name: str


Entry = BlobEntry | UncommittedEntry | PrefixEntry


class BlobPage(NamedTuple):
    container: ContainerRecord
    entries: list[Entry]
    next: Position | None


class _Row(NamedTuple):
    name: str
    moment: int
    key: bytes
    raw: bytes


class _Cursor:
    """One kind of row of a container, in order of names; it can be moved ahead."""

    def __init__(self, tx: ReadTx, part: Partition, bounds: keys.Range, start: bytes) -> None:
        self._tx = tx
        self._part = part
        self._begin = max(bounds[0], start)
        self._end = bounds[1]
        self._rows: list[tuple[bytes, bytes]] = []
        self._at = 0
        self._ahead = 16
        self._done = False

    async def peek(self) -> _Row | None:
        if self._at == len(self._rows):
            if self._done:
                return None
            # Small steps first: with a delimiter, most of what lies ahead is skipped.
            self._ahead = min(self._ahead * 2, _rows_ahead)
            self._rows = await self._tx.scan(self._part, self._begin, self._end, limit=self._ahead)
            self._at = 0
            self._done = len(self._rows) < self._ahead
            if not self._rows:
                return None
            self._begin = after(self._rows[-1][0])
        key, raw = self._rows[self._at]
        items = unpack(key)
        name = items[2]
        moment = items[3] if len(items) > 3 else keys.current_moment
        assert isinstance(name, str)
        assert isinstance(moment, int)
        return _Row(name, moment, key, raw)

    def advance(self) -> None:
        self._at += 1

    def seek(self, key: bytes) -> None:
        """Go on at the first row that is not below `key`."""
        while self._at < len(self._rows):
            if self._rows[self._at][0] >= key:
                return
            self._at += 1
        self._begin = max(self._begin, key)
        self._ahead = 16


class _Names:
    """The names that one kind of row has: each once, in the place of its current blob."""

    def __init__(self, cursor: _Cursor, rows_of: Callable[[str], keys.Range]) -> None:
        self._cursor = cursor
        self._rows_of = rows_of
        self._name = ""

    async def peek(self) -> _Row | None:
        row = await self._cursor.peek()
        if row is None:
            return None
        self._name = row.name
        return row._replace(moment=keys.current_moment)

    def advance(self) -> None:
        self._cursor.seek(self._rows_of(self._name)[1])

    def seek(self, key: bytes) -> None:
        self._cursor.seek(key)


class _Lane(NamedTuple):
    """One kind of row: where it lies for a prefix of names, and its cursor."""

    named: Callable[[int, str], keys.Range]
    cursor: _Cursor | _Names


async def list_blobs(tx: ReadTx, part: Partition, wanted: ListBlobs) -> BlobPage:
    container = await open_container(tx, part)
    entries: list[Entry] = []
    async for entry, position in walk_blobs(tx, home_of(part, container), wanted):
        if len(entries) == wanted.limit:
            return BlobPage(container, entries, position)
        entries.append(entry)
    return BlobPage(container, entries, None)


def walk_blobs(tx: ReadTx, home: Home, wanted: ListBlobs) -> AsyncIterator[tuple[Entry, Position]]:
    """Each entry from where `wanted` starts, without a limit, with the position of each."""
    return _Walk(tx, home, wanted).entries()


def shows_deleted(record: BlobRecord, now: int, *, versions: bool, snapshots: bool = False) -> bool:
    """Deleted snapshots and versions are listed only beside those that are not."""
    if record.retained_until <= now:
        return False
    if record.snapshot:
        return snapshots
    return versions or not record.version


class _Walk:
    """The merged walk over the kinds of row that a listing includes."""

    def __init__(self, tx: ReadTx, home: Home, wanted: ListBlobs) -> None:
        part, generation = home
        self._tx = tx
        self._home = home
        self._wanted = wanted
        self._generation = generation
        self._now = tx.now
        start = wanted.start
        self._lanes: list[_Lane] = []
        self._rooted = ""
        """The last name that was found to have a current blob, or an entry in its place."""

        def add(named: Callable[[int, str], keys.Range], begin: bytes) -> None:
            bounds = named(generation, wanted.prefix)
            self._lanes.append(_Lane(named, _Cursor(tx, part, bounds, begin)))

        def add_names(
            named: Callable[[int, str], keys.Range], rows_of: Callable[[int, str], keys.Range]
        ) -> None:
            cursor = _Cursor(
                tx, part, named(generation, wanted.prefix), rows_of(generation, name)[0]
            )
            self._lanes.append(_Lane(named, _Names(cursor, partial(rows_of, generation))))

        name, moment = start.name, start.moment
        if not wanted.deleted_only:
            add(keys.blobs_named, keys.blob(generation, name))
            if wanted.snapshots:
                add(keys.snapshots_named, keys.snapshot(generation, name, moment))
            if wanted.versions:
                add(keys.versions_named, keys.version(generation, name, moment))
            if wanted.uncommitted:
                add(keys.unfinished_named, keys.unfinished(generation, name))
            if wanted.rootless:
                # After the blobs, which say of their names that they have one.
                add_names(keys.versions_named, keys.versions_of)
                add_names(keys.trash_named, keys.trash_of)
        if wanted.deleted or wanted.deleted_only:
            add(keys.trash_named, keys.trash(generation, name, moment))

    async def entries(self) -> AsyncIterator[tuple[Entry, Position]]:
        """Each entry with the position from which a later page would begin with it."""
        delimiter, size = self._wanted.delimiter, len(self._wanted.prefix)
        while True:
            found = await self._lowest()
            if found is None:
                return
            row, lane = found
            at = row.name.find(delimiter, size) if delimiter else -1
            if at >= 0:
                prefix = row.name[: at + len(delimiter)]
                yield PrefixEntry(prefix), Position(prefix)
                for each in self._lanes:
                    each.cursor.seek(each.named(self._generation, prefix)[1])
                continue
            lane.cursor.advance()
            if isinstance(lane.cursor, _Names):
                entry = await self._rootless(row.name)
            else:
                entry = self._entry(row, lane)
            if entry is not None:
                yield entry, Position(row.name, row.moment)

    async def _lowest(self) -> tuple[_Row, _Lane] | None:
        best: tuple[_Row, _Lane] | None = None
        for lane in self._lanes:
            row = await lane.cursor.peek()
            if row is not None and (best is None or row[:2] < best[0][:2]):
                best = row, lane
        return best

    def _entry(self, row: _Row, lane: _Lane) -> Entry | None:
        """What a row is in the listing, or None if it is not asked for."""
        if lane.named is keys.unfinished_named:
            if row.name == self._rooted:
                return None  # the committed blob has been listed
            return UncommittedEntry(row.name, uncommitted_blobs.decode(row.raw))
        record = blobs.decode(row.raw)
        if lane.named is keys.blobs_named:
            self._rooted = row.name
            if record.is_over(self._now):
                return None
            return BlobEntry(row.name, record, current=True)
        if lane.named is keys.trash_named and not shows_deleted(
            record,
            self._now,
            versions=self._wanted.versions,
            snapshots=self._wanted.snapshots,
        ):
            return None
        return BlobEntry(row.name, record, current=False)

    async def _rootless(self, name: str) -> Entry | None:
        """What stands for a name whose versions, deleted ones among them, are all that is left."""
        if name == self._rooted:
            return None
        for rows_of in (keys.versions_of, keys.trash_of):
            begin, end = rows_of(self._home.generation, name)
            while rows := await self._tx.scan(self._home.part, begin, end, limit=16, reverse=True):
                for key, raw in rows:
                    record = blobs.decode(raw)
                    end = key
                    if record.version and not 0 < record.retained_until <= self._now:
                        self._rooted = name
                        return BlobEntry(name, record, current=False, rootless=True)
        return None
