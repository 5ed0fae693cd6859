"""Query Entities: one page, out of one snapshot, as a body of a transaction.

The plan's ranges are read in the order of the table and nothing outside them.  A page ends when it
is full, when it grew large, or when enough rows were looked at; then it says at which row the next
one begins, even if it is empty (Azure: 'Query timeout and pagination').
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from etagere.auth.key_range import KeyRange as SignedRange
from etagere.auth.key_range import whole_table as unbounded
from etagere.kv.contract import Partition, ReadTx
from etagere.kv.tuples import after
from etagere.services.table import entity, filter_plan
from etagere.services.table.entities import Stored
from etagere.services.table.entity import Properties
from etagere.services.table.filter_plan import KeyRange, Plan, Position
from etagere.services.table.keys import EntityKeys
from etagere.services.table.records import entities as entity_records
from etagere.services.table.tables import open_table

page_entities_max: Final = 1000
page_bytes_max: Final = 4 * 1024 * 1024
rows_examined_max: Final = 10_000
bytes_examined_max: Final = 16 * 1024 * 1024
"""Reads run on the event loop: so many rows or bytes take a few hundredths of a second."""
comparisons_usual: Final = 15
"""What the documentation allows in a filter; for more of them fewer rows are looked at."""

_scan_rows_first: Final = 16
"""Before it is known how large they are."""
_scan_rows_max: Final = 1024
_scan_bytes_wanted: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Query:
    plan: Plan
    limit: int = page_entities_max
    begin: Position = filter_plan.position_first
    """Where a continuation token says to go on."""
    signed_range: SignedRange = unbounded
    """The rows that a shared access signature reaches."""


class Page(NamedTuple):
    entities: list[Stored]
    next_keys: tuple[str, str] | None
    """Partition and row key of the row at which the next page begins."""


async def query(tx: ReadTx, part: Partition, wanted: Query) -> Page:
    table = await open_table(tx, part)
    begin, end = _bounds(wanted.signed_range)
    reader = _Reader(wanted, EntityKeys(table.generation))
    for wanted_range in filter_plan.clip(wanted.plan.ranges, max(begin, wanted.begin), end):
        if await reader.read(tx, part, wanted_range):
            break
    return Page(reader.found, reader.next_keys)


def _bounds(signed: SignedRange) -> tuple[Position, Position]:
    begin, end = filter_plan.position_first, filter_plan.position_last
    if signed.start_partition is not None:
        begin = filter_plan.before(signed.start_partition, signed.start_row or "")
    if signed.end_partition is not None and signed.end_row is not None:
        end = filter_plan.after(signed.end_partition, signed.end_row)
    elif signed.end_partition is not None:
        end = filter_plan.after_partition(signed.end_partition)
    return begin, end


class _Reader:
    """Reads range after range until the page is done."""

    def __init__(self, wanted: Query, entity_keys: EntityKeys) -> None:
        self.found: list[Stored] = []
        self.next_keys: tuple[str, str] | None = None
        self._wanted = wanted
        self._keys = entity_keys
        self._examined = 0
        self._bytes = 0
        self._examined_bytes = 0
        comparisons = max(wanted.plan.residual_comparisons, comparisons_usual)
        self._rows_max = rows_examined_max * comparisons_usual // comparisons
        self._scan_rows = _scan_rows_first

    async def read(self, tx: ReadTx, part: Partition, wanted: KeyRange) -> bool:
        """Read one range; true if the page is done before all rows were seen."""
        begin, end = self._keys.range(wanted)
        while True:
            limit = self._scan_rows
            if self._wanted.plan.residual is None:  # one more, to know whether there is more
                limit = min(limit, self._wanted.limit - len(self.found) + 1)
            rows = await tx.scan(part, begin, end, limit=limit)
            if self._take(rows):
                return True
            if len(rows) < limit:
                return False
            begin = after(rows[-1][0])

    def _take(self, rows: list[tuple[bytes, bytes]]) -> bool:
        """Keep the rows that match; true if the page is done before all of them were seen."""
        wanted = self._wanted
        residual, reads_properties = wanted.plan.residual, wanted.plan.residual_reads_properties
        limit = wanted.limit
        found, read_keys, decode = self.found, self._keys.read, entity_records.decode
        examined, kept_bytes, seen_bytes = self._examined, self._bytes, 0
        rows_max, seen_bytes_max = self._rows_max, bytes_examined_max - self._examined_bytes
        for key, raw in rows:
            if (
                len(found) >= limit
                or examined >= rows_max
                or kept_bytes >= page_bytes_max
                or seen_bytes >= seen_bytes_max
            ):
                self.next_keys = read_keys(key)
                return True
            examined += 1
            size = len(raw)
            seen_bytes += size
            partition_key, row_key = read_keys(key)
            record = decode(raw)
            if residual is not None:
                own = entity.decode(record.properties) if reads_properties else _no_properties
                if not residual(partition_key, row_key, record.stamp, own):
                    continue
            found.append(Stored(partition_key, row_key, record.stamp, record.properties))
            kept_bytes += size
        self._examined, self._bytes = examined, kept_bytes
        self._examined_bytes += seen_bytes
        if rows:
            self._scan_rows = _rows_for(seen_bytes // len(rows) + 1)
        return False


_no_properties: Final[Properties] = {}


def _rows_for(row_bytes: int) -> int:
    """How many rows of this size to read at a time: memory stays small where entities are large."""
    return max(1, min(_scan_rows_max, _scan_bytes_wanted // row_bytes))
