"""What must hold of every container at rest; `etagere check` and the tests ask for it."""

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from etagere.extents.contract import Extent, ExtentId
from etagere.kv.contract import Engine, Partition, ReadTx
from etagere.kv.layers.records import DamagedRecord
from etagere.kv.tuples import after, unpack
from etagere.services.blob import content, keys
from etagere.services.blob.content import Home
from etagere.services.blob.index_check import IndexCensus, indexes
from etagere.services.blob.keys import Lane, RowKind
from etagere.services.blob.page_check import PageCensus
from etagere.services.blob.page_map import SourceRuns
from etagere.services.blob.records import (
    BlobRecord,
    BlobType,
    Piece,
    blobs,
    containers,
    deleted_containers,
    directory_entries,
    pending_copies,
    piece_pages,
    staged_blocks,
    uncommitted_blobs,
)

_rows_per_scan: Final = 500
_own_kinds: Final = (RowKind.BLOB, RowKind.SNAPSHOT, RowKind.VERSION, RowKind.TRASH)

Generations = dict[str, set[int]]
"""By the name of a partition: the generations whose rows may be there."""


async def check_account(tx: ReadTx, account: str) -> list[str]:
    """What is wrong with the containers of an account; nothing, if all is well."""
    problems = await _check_directory(tx, account)
    try:
        live, doomed = await _generations(tx, account)
    except DamagedRecord as damage:
        return [*problems, f"what containers there are cannot be read: {damage}"]
    scopes = await _scopes(tx, account)
    for name, generations in live.items():
        part = keys.container_partition(account, name)
        for generation in generations:
            home = Home(part, generation)
            found = await _check_generation(tx, home, scopes)
            problems += [f"container {name}: {text}" for text in found]
        owed = generations | doomed.get(name, set())
        problems += [f"container {name}: {text}" for text in await _strays(tx, part, owed)]
    return problems


async def _check_directory(tx: ReadTx, account: str) -> list[str]:
    """Whether each container is the one that the directory says, and its rows know its name."""
    problems: list[str] = []
    async for key, raw in _rows(tx, keys.account_partition(account), keys.directory()):
        name = keys.directory_name(key)
        part = keys.container_partition(account, name)
        found = await tx.get(part, keys.container_record)
        try:
            entry = directory_entries.decode(raw)
            record = None if found is None else containers.decode(found)
        except DamagedRecord as damage:
            problems.append(f"container {name}: a record cannot be read: {damage}")
            continue
        if record is None or (record.generation, record.rows_in) != (
            entry.generation,
            entry.rows_in,
        ):
            problems.append(f"container {name}: is not the one in the directory")
            continue
        home = content.home_of(part, record)
        bears = await tx.get(home.part, keys.renamed(home.generation))
        if bears != (name.encode() if record.rows_in else None):
            problems.append(f"container {name}: its rows know it by another name")
    return problems


async def _scopes(tx: ReadTx, account: str) -> set[str]:
    """The encryption scopes whose keys are there ("": what customers' keys are mixed with)."""
    part = keys.account_partition(account)
    return {keys.scope_name(key) async for key, _ in _rows(tx, part, keys.scope_keys())}


async def _generations(tx: ReadTx, account: str) -> tuple[Generations, Generations]:
    """Those in use (or retained after deletion), and those that are being swept away."""
    part = keys.account_partition(account)
    live: Generations = {}
    doomed: Generations = {}
    async for key, raw in _rows(tx, part, keys.directory()):
        name, entry = keys.directory_name(key), directory_entries.decode(raw)
        live.setdefault(name, set())
        live.setdefault(entry.rows_in or name, set()).add(entry.generation)
    async for key, raw in _rows(tx, part, keys.deleted_containers()):
        name, generation = keys.kept_container(key)
        rows_in = deleted_containers.decode(raw).record.rows_in
        live.setdefault(rows_in or name, set()).add(generation)
    async for key, _ in _rows(tx, part, keys.all_doomed()):
        generation, name = keys.doomed_container(key)
        doomed.setdefault(name, set()).add(generation)
    return live, doomed


async def _strays(tx: ReadTx, part: Partition, owed: set[int]) -> list[str]:
    """Rows of generations that nobody knows of: nothing would ever remove them."""
    problems = []
    for kind in RowKind:
        if kind is RowKind.CONTAINER:
            continue
        async for key, _ in _rows(tx, part, keys.kind_range(kind)):
            if unpack(key)[1] not in owed:
                problems.append(f"row {key.hex()} of a generation that is gone")
    return problems


async def _check_generation(tx: ReadTx, home: Home, scopes: set[str]) -> list[str]:
    """Every record is readable, every piece is there, every holder is counted."""
    census = _Census(scopes)
    try:
        for lane in keys.everything(home.generation):
            async for key, raw in _rows(tx, home.part, lane.bounds):
                await census.see(tx, home, lane, key, raw)
    except DamagedRecord as damage:
        return [*census.problems, f"a record cannot be read: {damage}"]
    return census.sum_up()


class _Census:
    def __init__(self, scopes: set[str]) -> None:
        self.problems: list[str] = []
        self._scopes = scopes
        self._inline_held: Counter[int] = Counter()
        self._inline_bytes: dict[int, int] = {}
        """How many are asked for of each."""
        self._lists_held: Counter[int] = Counter()
        self._lists: set[int] = set()
        self._data: dict[int, int] = {}
        self._counted: dict[int, int] = {}
        self._staged: Counter[str] = Counter()
        self._marked: dict[str, int] = {}
        self._pages = PageCensus()
        self._indexes = IndexCensus()

    async def see(self, tx: ReadTx, home: Home, lane: Lane, key: bytes, raw: bytes) -> None:
        match lane.kind:
            case kind if kind in _own_kinds:
                record = blobs.decode(raw)
                await self._indexes.see_record(tx, home, kind, key, record)
                await self._see_blob(tx, home, key, record)
            case RowKind.STAGED:
                self._staged[keys.name_of(key)] += 1
                self._hold(staged_blocks.decode(raw).piece)
            case RowKind.UNFINISHED:
                self._marked[keys.name_of(key)] = uncommitted_blobs.decode(raw).count
            case RowKind.DATA:
                self._data[keys.held_id(key)] = len(raw)
            case RowKind.PIECES:
                self._see_page(key, piece_pages.decode(raw))
            case RowKind.HOLDERS:
                self._counted[keys.held_id(key)] = int.from_bytes(raw, "big")
            case RowKind.GARBAGE:
                self._lists_held[keys.garbage_list(key)[0]] += 1
            case RowKind.CHUNK:
                self._pages.see_chunk(key, raw)
            case RowKind.CHANGE:
                self._pages.see_change(key)
            case RowKind.CLEAR:
                self._pages.see_clear(key)
            case RowKind.EPOCH:
                self._pages.see_epoch(key, raw)
            case RowKind.UNHELD:
                self._pages.see_unheld(key)
            case RowKind.PIN:
                self._pages.see_pin(key)
            case RowKind.PENDING:
                pending_copies.decode(raw)
            case kind if kind in indexes:
                self._indexes.see_row(kind)
            case _:
                pass  # marks, which hold nothing

    async def _see_blob(self, tx: ReadTx, home: Home, key: bytes, record: BlobRecord) -> None:
        if (record.scope or record.key_sha256) and record.scope not in self._scopes:
            self.problems.append(
                f"blob {keys.name_of(key)!r}: the key of its scope {record.scope!r} is missing"
            )
        if record.list_id:
            self._lists_held[record.list_id] += 1
        for piece in record.pieces:
            self._hold(piece)
        if record.kind is BlobType.PAGE:
            self._pages.see_record(record)
            return
        size = sum(piece.size for piece in await content.all_pieces(tx, home, record))
        if size < record.size:
            self.problems.append(
                f"blob {keys.name_of(key)!r}: {record.size} bytes, of which {size} are there"
            )

    def _see_page(self, key: bytes, page: tuple[Piece, ...]) -> None:
        self._lists.add(keys.held_id(key))
        for piece in page:
            self._hold(piece)

    def _hold(self, piece: Piece) -> None:
        if not piece.extent and piece.size:
            self._inline_held[piece.inline] += 1
            needed = self._inline_bytes.get(piece.inline, 0)
            self._inline_bytes[piece.inline] = max(needed, piece.offset + piece.size)

    def sum_up(self) -> list[str]:
        problems = self.problems
        problems += self._pages.sum_up() + self._indexes.sum_up()
        self._inline_held += self._pages.inline_held
        for content_id, size in (*self._inline_bytes.items(), *self._pages.inline_bytes.items()):
            if self._data.get(content_id, size) < size:
                problems.append(f"inline piece {content_id} is too short")
        held = self._inline_held + self._lists_held + self._pages.epochs_held
        for held_id in self._inline_held.keys() - self._data.keys():
            problems.append(f"inline piece {held_id} is missing")
        for held_id in self._data.keys() - self._inline_held.keys():
            problems.append(f"inline piece {held_id} is held by nobody")
        for list_id in self._lists - self._lists_held.keys():
            problems.append(f"piece list {list_id} is held by nobody")
        for held_id, count in held.items():
            counted = self._counted.pop(held_id, 1)
            if counted != count:
                problems.append(f"{held_id} has {count} holders, but {counted} are counted")
        problems += [f"holders of {held_id}, which is not there" for held_id in self._counted]
        if self._staged != Counter(self._marked):
            problems.append("staged blocks and their counts differ")
        return problems


class Referrers:
    """For `extents.check`: which partitions of these accounts refer to which extents."""

    def __init__(self, engine: Engine, accounts: list[str]) -> None:
        self._engine = engine
        self._accounts = accounts

    async def partitions(self) -> AsyncIterator[Partition]:
        for account in self._accounts:

            async def names(tx: ReadTx, account: str = account) -> set[str]:
                live, doomed = await _generations(tx, account)
                return live.keys() | doomed.keys()

            for name in sorted(await self._engine.read(names)):
                yield keys.container_partition(account, name)

    async def references(self, part: Partition) -> AsyncIterator[Extent]:
        """Each piece in an extent, once for each record or page that mentions it; of chunks, once
        for each unbroken series of rows."""
        for kind in (*_own_kinds, RowKind.STAGED, RowKind.PIECES):
            async for _, raw in self._all(part, kind):
                for piece in _pieces(kind, raw):
                    if piece.extent:
                        yield Extent(ExtentId(piece.extent), piece.extent_size)
        runs = SourceRuns()
        async for key, raw in self._all(part, RowKind.CHUNK):
            for source in runs.begun(key, raw):
                if source.extent:
                    yield Extent(ExtentId(source.extent), source.extent_size)

    async def _all(self, part: Partition, kind: RowKind) -> AsyncIterator[tuple[bytes, bytes]]:
        begin, end = keys.kind_range(kind)
        while True:
            rows = await self._engine.read(partial(_page, part=part, begin=begin, end=end))
            for row in rows:
                yield row
            if len(rows) < _rows_per_scan:
                return
            begin = after(rows[-1][0])


async def _page(tx: ReadTx, part: Partition, begin: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
    return await tx.scan(part, begin, end, limit=_rows_per_scan)


def _pieces(kind: RowKind, raw: bytes) -> tuple[Piece, ...]:
    match kind:
        case RowKind.STAGED:
            return (staged_blocks.decode(raw).piece,)
        case RowKind.PIECES:
            return piece_pages.decode(raw)
        case _:
            return blobs.decode(raw).pieces


async def _rows(
    tx: ReadTx, part: Partition, bounds: keys.Range
) -> AsyncIterator[tuple[bytes, bytes]]:
    begin, end = bounds
    while True:
        rows = await tx.scan(part, begin, end, limit=_rows_per_scan)
        for row in rows:
            yield row
        if len(rows) < _rows_per_scan:
            return
        begin = after(rows[-1][0])
