"""Packs: messages that came together and are stored together.

With a row for each, three messages of 1 KiB fill a page of the store, which is split when the next
one comes and merged when one of them goes.  So numbers are counted off in blocks, and messages that
come in one transaction and begin a block are one *pack*: a few rows, each as long as fits a page,
and one that says which of the messages are *left*, a bit for each.  Settling some of them writes
only the bits; with the last of them all goes.

    an active message has a row of its own, or a bit in the block of its number; never both

What changes a message, or puts it back, gives it a row of its own.  Messages of sessions, long ones
and those that come singly never are in a pack.
"""

from collections.abc import Sequence
from typing import Final

from etagere.kv.contract import DamagedRecord, Partition, ReadTx, Tx
from etagere.services.bus import keys, records
from etagere.services.bus.records import StoredMessage

Row = tuple[int, StoredMessage]

block_shift: Final = 5
block_messages: Final = 1 << block_shift
pack_bytes_max: Final = 64 * 1024
"""Of its messages together: what a few that nobody settles keep in the store is bounded by it, and
what has to be read for one of them.  Longer messages gain nothing from lying together."""

pack_messages_min: Final = 4
"""Fewer gain nothing either."""

chunk_bytes: Final = 4080
"""What fits into a page of the store.  Longer values need pages that lie side by side, which are
looked for through all that is free: in a store whose free pages are scattered that takes longer
than everything else that is done for a message."""

left_bytes: Final = 5
"""A bit for each message of a block, and the number of chunks."""

_in_block: Final = block_messages - 1
_all: Final = (1 << block_messages) - 1


def blocks_begun(first: int, count: int) -> range:
    """The first numbers of the blocks that begin among these numbers: the only ones of which it is
    certain that no transaction before has made a pack."""
    begin = -(-first // block_messages) * block_messages
    return range(begin, first + count, block_messages)


def rows_of(log: int, first: int, messages: list[StoredMessage]) -> dict[bytes, bytes]:
    """The rows of a block's first messages; `first` is the first's number."""
    block = first >> block_shift
    raw = records.packs.encode(messages)
    starts = range(0, len(raw), chunk_bytes)
    rows = {
        keys.packed(log, block, chunk): raw[at : at + chunk_bytes]
        for chunk, at in enumerate(starts)
    }
    rows[keys.left(log, block)] = _encode_left((1 << len(messages)) - 1, len(starts))
    return rows


def by_block(numbers: Sequence[int]) -> dict[int, int]:
    """Bits by block."""
    first, last = numbers[0], numbers[-1]
    found: dict[int, int] = {}
    count = len(numbers)
    if last - first + 1 == count and [*range(first, last + 1)] == [*numbers]:
        for block in range(first >> block_shift, (last >> block_shift) + 1):
            begin = first_of(block)
            below_first = (1 << max(first - begin, 0)) - 1
            up_to_last = (1 << last - begin + 1) - 1
            found[block] = _all & up_to_last & ~below_first
        return found
    for number in numbers:
        block = number >> block_shift
        found[block] = found.get(block, 0) | 1 << (number & _in_block)
    return found


async def take_out(tx: Tx, part: Partition, log: int, numbers: Sequence[int]) -> list[int]:
    """Forget those of the messages that are in packs; the others, which have rows of their own."""
    others: list[int] = []
    for block, bits in by_block(numbers).items():
        key = keys.left(log, block)
        raw = await tx.get(part, key)
        if raw is None:
            others += _numbers(block, bits)
            continue
        left, chunks = decode_left(raw)
        if bits & ~left:
            others += _numbers(block, bits & ~left)
        left &= ~bits
        if left:
            tx.put(part, key, _encode_left(left, chunks))
        else:
            tx.delete_all(part, [key, *[keys.packed(log, block, n) for n in range(chunks)]])
    return others


async def find(tx: ReadTx, part: Partition, log: int, number: int) -> StoredMessage | None:
    """The message with this number, if it is in a pack."""
    block, at = number >> block_shift, number & _in_block
    raw = await tx.get(part, keys.left(log, block))
    if raw is None:
        return None
    left, chunks = decode_left(raw)
    return (await messages_of(tx, part, log, block, chunks))[at] if left >> at & 1 else None


async def load(
    tx: ReadTx, part: Partition, log: int, after: int, limit: int
) -> tuple[list[Row], int | None]:
    """Messages in packs behind number `after`, about `limit` of them; and the number up to which
    these are all, None if there are no others at all."""
    first = after + 1
    blocks_max = limit // block_messages + 2  # of the first block there may be nothing left
    begin, end = keys.all_left(log, first >> block_shift)
    found: list[Row] = []
    blocks = await tx.scan(part, begin, end, limit=blocks_max)
    for key, raw in blocks:
        block = keys.number_of(key)
        begins = first_of(block)
        bits, chunks = decode_left(raw)
        if begins < first:
            bits = bits >> first - begins << first - begins
        if bits:
            messages = await messages_of(tx, part, log, block, chunks)
            rows = enumerate(messages, begins)
            if bits == (1 << len(messages)) - 1:
                found += rows
            else:
                found += [row for row in rows if bits >> row[0] - begins & 1]
            if len(found) >= limit:
                return found, begins + _in_block
    if len(blocks) < blocks_max:
        return found, None
    return found, first_of(keys.number_of(blocks[-1][0])) + _in_block


async def messages_of(
    tx: ReadTx, part: Partition, log: int, block: int, chunks: int
) -> list[StoredMessage]:
    """All that the pack was made of; DamagedRecord if that is not there."""
    begin, end = keys.all_packed(log, block)
    rows = await tx.scan(part, begin, end, limit=chunks)
    if len(rows) < chunks:
        raise DamagedRecord("pack", f"{len(rows)} of {chunks} chunks", block)
    return records.packs.decode(b"".join([raw for _, raw in rows]))


def first_of(block: int) -> int:
    """The block's first number."""
    return block << block_shift


def _numbers(block: int, bits: int) -> list[int]:
    begin = first_of(block)
    return [begin + at for at in range(block_messages) if bits >> at & 1]


def _encode_left(bits: int, chunks: int) -> bytes:
    return (bits << 8 | chunks).to_bytes(left_bytes, "big")


def decode_left(raw: bytes) -> tuple[int, int]:
    """What a row says of its block: the bits of the messages that are left, and the number of
    chunks."""
    number = int.from_bytes(raw, "big")
    return number >> 8, number & 0xFF
