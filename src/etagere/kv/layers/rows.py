"""All rows of a range, however many there are."""

from collections.abc import AsyncIterator
from typing import Final

from etagere.kv.contract import Partition, ReadTx
from etagere.kv.tuples import after

rows_per_scan: Final = 250


async def every_row(
    tx: ReadTx, part: Partition, begin: bytes, end: bytes
) -> AsyncIterator[tuple[bytes, bytes]]:
    """Those with begin <= key < end, in order; only a few of them are held at a time."""
    while rows := await tx.scan(part, begin, end, limit=rows_per_scan):
        for row in rows:
            yield row
        begin = after(rows[-1][0])
