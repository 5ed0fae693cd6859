"""All rows of a range, however many there are."""

from collections.abc import AsyncIterator
from typing import Final

from etagere.kv.contract import Partition, ReadTx
from etagere.kv.tuples import after

rows_per_scan_max: Final = 250
_rows_first: Final = 4
_bytes_per_scan: Final = 1024 * 1024


async def every_row(
    tx: ReadTx, part: Partition, begin: bytes, end: bytes
) -> AsyncIterator[tuple[bytes, bytes]]:
    """Those with begin <= key < end, in order; few of them are held at a time where they are
    large."""
    limit = _rows_first
    while rows := await tx.scan(part, begin, end, limit=limit):
        for row in rows:
            yield row
        begin = after(rows[-1][0])
        mean = sum(len(value) for _, value in rows) // len(rows) + 1
        limit = max(1, min(rows_per_scan_max, _bytes_per_scan // mean))
