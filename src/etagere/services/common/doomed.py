"""What was deleted at once and is swept away later: in small steps, so that nobody is held up.

A deletion leaves a mark in its account's partition; the mark goes with the last of the rows.
"""

from collections.abc import Callable, Iterable
from typing import Final

from etagere.kv.contract import Engine, Partition, ReadTx, Tx
from etagere.kv.tuples import after

rows_a_step: Final = 500
bytes_a_step: Final = 4 * 1024 * 1024
rows_first: Final = 4
"""Before it is known how large they are; an entity takes up to a megabyte and a half."""

Range = tuple[bytes, bytes]
Remains = tuple[Partition, Iterable[Range]]
"""A partition, and the ranges of its rows that have to go."""


async def sweep_step(
    engine: Engine, account_part: Partition, marks: Range, remains_of: Callable[[bytes], Remains]
) -> bool:
    """Delete some rows of what the first mark stands for; false if there is no mark."""

    async def first(tx: ReadTx) -> bytes | None:
        rows = await tx.scan(account_part, *marks, limit=1)
        return rows[0][0] if rows else None

    mark = await engine.read(first)
    if mark is None:
        return False
    part, ranges = remains_of(mark)

    async def delete(tx: Tx) -> None:
        if await _delete_some(tx, part, ranges):
            tx.delete(account_part, mark)

    await engine.write((account_part, part), delete)
    return True


async def _delete_some(tx: Tx, part: Partition, ranges: Iterable[Range]) -> bool:
    """Delete as many rows as a step takes; whether none is left."""
    rows_left, bytes_left = rows_a_step, bytes_a_step
    for first, end in ranges:
        begin, limit = first, min(rows_first, rows_left)
        while True:
            rows = await tx.scan(part, begin, end, limit=limit)
            tx.delete_all(part, [key for key, _ in rows])
            size = sum(len(value) for _, value in rows)
            rows_left, bytes_left = rows_left - len(rows), bytes_left - size
            if rows_left == 0 or bytes_left <= 0:
                return False
            if len(rows) < limit:
                break
            begin = after(rows[-1][0])
            limit = max(1, min(rows_left, bytes_left * len(rows) // (size + 1)))
    return True
