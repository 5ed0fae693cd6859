"""Packs: messages that came together and are stored together.

With a row for each, three messages of 1 KiB fill a page of the store, which is split when the next
one comes and merged when one of them goes.  So numbers are counted off in blocks, and messages that
come in one transaction and begin a block are one *pack*: a row that says which of the messages are
*left*, a bit for each, and behind it the messages in chunks, each as long as fits a page.  Settling
some of them writes only the bits; with the last of them all goes.

    an active message has a row of its own, or a bit in the block of its number; never both

All lie in order of their numbers, so that a log grows at one place of the store.  What changes a
message, or puts it back, gives it a row of its own.  Messages of sessions, long ones
and those that come singly never are in a pack.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from etagere.kv.contract import DamagedRecord, Partition, ReadTx, Tx
from etagere.services.bus import keys, records
from etagere.services.bus.records import StoredMessage

Row = tuple[int, StoredMessage]

block_messages: Final = 32
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

scanned_rows_min: Final = 16

_number: Final = itemgetter(0)
_in_block: Final = block_messages - 1
_all: Final = (1 << block_messages) - 1


def blocks_begun(first: int, count: int) -> range:
    """The first numbers of the blocks that begin among these numbers: the only ones of which it is
    certain that no transaction before has made a pack."""
    begin = -(-first // block_messages) * block_messages
    return range(begin, first + count, block_messages)


def rows_of(log: int, first: int, messages: list[StoredMessage]) -> dict[bytes, bytes]:
    """The rows of a block's first messages; `first` is the first's number."""
    raw = records.packs.encode(messages)
    starts = range(0, len(raw), chunk_bytes)
    rows = {keys.left_of_pack(log, first): _encode_left((1 << len(messages)) - 1, len(starts))}
    for chunk, at in enumerate(starts):
        rows[keys.chunk_of_pack(log, first, chunk)] = raw[at : at + chunk_bytes]
    return rows


def by_block(numbers: Sequence[int]) -> dict[int, int]:
    """The bits of these numbers, by their block's first number."""
    first, last = numbers[0], numbers[-1]
    found: dict[int, int] = {}
    count = len(numbers)
    if last - first + 1 == count and [*range(first, last + 1)] == [*numbers]:
        for begin in range(first & ~_in_block, last + 1, block_messages):
            below_first = (1 << max(first - begin, 0)) - 1
            up_to_last = (1 << last - begin + 1) - 1
            found[begin] = _all & up_to_last & ~below_first
        return found
    for number in numbers:
        begin = number & ~_in_block
        found[begin] = found.get(begin, 0) | 1 << number - begin
    return found


async def take_out(tx: Tx, part: Partition, log: int, numbers: Sequence[int]) -> list[int]:
    """Forget those of the messages that are in packs; the others, which have rows of their own."""
    others: list[int] = []
    for first, bits in by_block(numbers).items():
        key = keys.left_of_pack(log, first)
        raw = await tx.get(part, key)
        if raw is None:
            others += _numbers(first, bits)
            continue
        left, chunks = decode_left(raw)
        if bits & ~left:
            others += _numbers(first, bits & ~left)
        left &= ~bits
        if left:
            tx.put(part, key, _encode_left(left, chunks))
        else:
            each = [keys.chunk_of_pack(log, first, chunk) for chunk in range(chunks)]
            tx.delete_all(part, [key, *each])
    return others


async def find(tx: ReadTx, part: Partition, log: int, number: int) -> StoredMessage | None:
    """The message with this number, if it is in a pack."""
    first = number & ~_in_block
    raw = await tx.get(part, keys.left_of_pack(log, first))
    if raw is None:
        return None
    left, chunks = decode_left(raw)
    if not left >> number - first & 1:
        return None
    begin, end = keys.chunks_of_pack(log, first)
    rows = await tx.scan(part, begin, end, limit=chunks)
    return decode_chunks([raw for _, raw in rows], chunks)[number - first]


async def load(
    tx: ReadTx, part: Partition, log: int, after: int, wanted: int
) -> tuple[list[Row], bool]:
    """The first messages behind number `after`, `wanted` at most, and whether these are all."""
    begin, end = keys.messages(log, await _row_to_begin_with(tx, part, log, after + 1))
    limit = max(wanted // 2, min(wanted, scanned_rows_min), 2)
    found: list[Row] = []
    current = 0
    block: list[tuple[bytes, bytes]] = []
    while True:
        rows = await tx.scan(part, begin, end, limit=limit)
        all_read = len(rows) < limit
        for row in rows:
            first = keys.first_number_of(row[0]) & ~_in_block
            if first != current:
                found += _messages_behind(after, current, block)
                current, block = first, []
            block.append(row)
        # A pack follows the row of its first number: without it, what comes next is behind these.
        if all_read or all(keys.is_message(key) for key, _ in block):
            found += _messages_behind(after, current, block)
            block = []
        if all_read or len(found) >= wanted:
            return found[:wanted], all_read and len(found) <= wanted
        begin = rows[-1][0] + b"\0"
        limit = max(limit, scanned_rows_min)


async def _row_to_begin_with(tx: ReadTx, part: Partition, log: int, number: int) -> int:
    """This number, or that of the pack which it may be in."""
    first = number & ~_in_block
    is_packed = await tx.get(part, keys.left_of_pack(log, first)) is not None
    return first if is_packed else number


def _messages_behind(after: int, first: int, block: list[tuple[bytes, bytes]]) -> list[Row]:
    """Those in the rows of one block."""
    decode, number_of = records.messages.decode, keys.first_number_of
    found: list[Row] = []
    left = chunks = 0
    packed: list[bytes] = []
    for key, raw in block:
        if keys.is_message(key):
            found.append((number_of(key), decode(raw)))
        elif keys.is_left_of_pack(key):
            left, chunks = decode_left(raw)
        else:
            packed.append(raw)
    if chunks or packed:
        numbered = enumerate(decode_chunks(packed, chunks), first)
        found += [row for row in numbered if left >> row[0] - first & 1]
        found.sort(key=_number)
    return found if first > after else [row for row in found if row[0] > after]


def decode_chunks(raw: list[bytes], count: int) -> list[StoredMessage]:
    """All that a pack was made of; DamagedRecord if that is not what the chunks hold."""
    messages = records.packs.decode(b"".join(raw)) if len(raw) == count else []
    if not 0 < len(messages) <= block_messages:
        raise DamagedRecord("pack", f"{len(messages)} messages in {len(raw)} of {count} chunks")
    return messages


def _numbers(first: int, bits: int) -> list[int]:
    return [first + at for at in range(block_messages) if bits >> at & 1]


def _encode_left(bits: int, chunks: int) -> bytes:
    return (bits << 8 | chunks).to_bytes(left_bytes, "big")


def decode_left(raw: bytes) -> tuple[int, int]:
    """What a row says of its block: the bits of the messages that are left, and the number of
    chunks."""
    number = int.from_bytes(raw, "big")
    return number >> 8, number & 0xFF
