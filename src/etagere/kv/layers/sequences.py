"""Counters without gaps: a number is taken by the transaction that uses it, or by none.

`key` is built where all keys of the partition are.  Numbers start at 1.
"""

from typing import Final

from etagere.kv.contract import DamagedRecord, Partition, ReadTx, Tx

number_bytes: Final = 8


async def take(tx: Tx, part: Partition, key: bytes, count: int = 1) -> int:
    """The first of `count` numbers that follow the last one taken."""
    assert count > 0
    last = await last_taken(tx, part, key)
    tx.put(part, key, (last + count).to_bytes(number_bytes, "big"))
    return last + 1


async def last_taken(tx: ReadTx, part: Partition, key: bytes) -> int:
    """0 if none was."""
    value = await tx.get(part, key)
    if value is None:
        return 0
    if len(value) != number_bytes:
        raise DamagedRecord("sequence")
    return int.from_bytes(value, "big")
