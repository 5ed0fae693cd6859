"""Blob index tags, and the index that finds blobs by them (Azure: 'Blob index tags').

The index has a row for each tag of each current blob and each version, under (key, value, name).
A search begins with the comparison that few blobs meet, and checks the others on the records.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from etagere.kernel.conditions import WriteKind
from etagere.kernel.lease import Use
from etagere.kernel.tag_predicate import Comparison, TagSearch
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.blob import keys
from etagere.services.blob.blobs import Where, find, must_exist, read, save
from etagere.services.blob.content import Home, home_of
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.records import BlobRecord, blobs, containers
from etagere.services.blob.tag_index import forget, remember

_probe_rows: Final = 256
_probe_growth: Final = 8
_rows_per_scan: Final = 512


async def get_tags(tx: ReadTx, where: Where, guard: Guard) -> dict[str, str]:
    return (await read(tx, where, guard)).record.tags


async def set_tags(tx: Tx, where: Where, guard: Guard, tags: dict[str, str]) -> None:
    """Set Blob Tags: replaces all; the ETag stays, so a lease that has ended is not forgotten."""
    standing = await find(tx, where)
    home, record = standing.home, standing.record
    admit_write(record, guard, tx.now, WriteKind.UPDATE, Use.ANNOTATE)
    record = must_exist(record)
    is_current = not where.version or not await _is_earlier(tx, home, where)
    moment = keys.current_moment if is_current else where.version
    forget(tx, home, where.name, moment, record.tags)
    remember(tx, home, where.name, moment, tags)
    changed = msgspec.structs.replace(record, tags=tags)
    if is_current:
        save(tx, home, where.name, changed)
    else:
        row = keys.version(home.generation, where.name, where.version)
        tx.put(home.part, row, blobs.encode(changed))


async def _is_earlier(tx: ReadTx, home: Home, where: Where) -> bool:
    row = keys.version(home.generation, where.name, where.version)
    return await tx.get(home.part, row) is not None


@dataclass(frozen=True, slots=True)
class FindBlobs:
    search: TagSearch
    start: tuple[str, str] = ("", "")
    """The container and the name to begin with."""
    limit: int = 5000
    versions: bool = False


class TaggedBlob(NamedTuple):
    container: str
    name: str
    record: BlobRecord
    current: bool


class TaggedPage(NamedTuple):
    blobs: list[TaggedBlob]
    next: tuple[str, str] | None


async def find_blobs(tx: ReadTx, account: str, wanted: FindBlobs) -> TaggedPage:
    """One page of the blobs that match, in order of containers and names."""
    found: list[TaggedBlob] = []
    begin, end = keys.directory()
    if wanted.search.container is not None:
        begin = keys.directory_entry(wanted.search.container)
        end = after(begin)
    begin = max(begin, keys.directory_entry(wanted.start[0]))
    while rows := await tx.scan(keys.account_partition(account), begin, end, limit=256):
        for key, _ in rows:
            name = keys.directory_name(key)
            part = keys.container_partition(account, name)
            start = wanted.start[1] if name == wanted.start[0] else ""
            room = wanted.limit + 1 - len(found)
            found += await _in_container(tx, part, name, wanted, start, room)
            if len(found) > wanted.limit:
                last = found[wanted.limit]
                return TaggedPage(found[: wanted.limit], (last.container, last.name))
        begin = after(rows[-1][0])
    return TaggedPage(found, None)


async def _in_container(
    tx: ReadTx, part: Partition, container: str, wanted: FindBlobs, start: str, room: int
) -> list[TaggedBlob]:
    raw = await tx.get(part, keys.container_record)
    if raw is None:
        return []
    home = home_of(part, containers.decode(raw))
    candidates = await _candidates(tx, home, wanted.search)
    found: list[TaggedBlob] = []
    for name, moment in candidates:
        if name < start:
            continue
        current = moment == keys.current_moment
        if not current and not wanted.versions:
            continue
        row = (
            keys.blob(home.generation, name)
            if current
            else keys.version(home.generation, name, moment)
        )
        raw = await tx.get(home.part, row)
        assert raw is not None, "the index names only what is there"
        record = blobs.decode(raw)
        if wanted.search.matches(record.tags):
            found.append(TaggedBlob(container, name, record, current))
            if len(found) == room:
                break
    return found


async def _candidates(tx: ReadTx, home: Home, search: TagSearch) -> list[tuple[str, int]]:
    """(name, moment) of everything that meets the rarest comparison, in order.

    Each comparison's range of the index is looked into with a growing limit, until one ends.
    """
    limit = _probe_rows
    while True:
        for comparison in search.comparisons:
            rows = await tx.scan(home.part, *_range(home, comparison), limit=limit)
            if len(rows) < limit:
                return sorted(keys.tagged(key) for key, _ in rows)
        limit *= _probe_growth


def _range(home: Home, comparison: Comparison) -> keys.Range:
    """Where the index has what meets a comparison."""
    key, value = comparison.name, comparison.value
    low, high = keys.tags_of_key(home.generation, key)
    at, past = keys.tags_of_value(home.generation, key, value)
    match comparison.operator:
        case "=":
            return at, past
        case ">":
            return past, high
        case ">=":
            return at, high
        case "<":
            return low, at
        case _:
            assert comparison.operator == "<="
            return low, past
