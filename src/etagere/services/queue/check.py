"""What must hold of every queue at rest; `etagere check` and the tests ask for it."""

from collections.abc import AsyncIterator
from typing import Final

from etagere.base.clock import timestamp_never
from etagere.kv.contract import Partition, ReadTx
from etagere.kv.tuples import after, unpack
from etagere.services.queue import keys, records
from etagere.services.queue.records import Message

_scan_rows: Final = 1000


async def check_account(tx: ReadTx, account: str) -> list[str]:
    """What is wrong with the queues of an account; nothing, if all is well."""
    account_part = keys.account_partition(account)
    doomed = {
        keys.doomed_generation(key) async for key, _ in _rows(tx, account_part, *keys.all_doomed())
    }
    problems: list[str] = []
    async for key, _ in _rows(tx, account_part, *keys.directory()):
        name = keys.directory_name(key)
        part = keys.queue_partition(account, name)
        owed = {generation for generation, queue in doomed if queue == name}
        problems += [f"queue {name}: {problem}" for problem in await _check_queue(tx, part, owed)]
    return problems


async def _check_queue(tx: ReadTx, part: Partition, doomed: set[int]) -> list[str]:
    raw = await tx.get(part, keys.head)
    if raw is None or await tx.get(part, keys.properties) is None:
        return ["in the directory, but not there"]
    head = records.heads.decode(raw)
    expected: dict[bytes, bytes | None] = {}
    count = 0
    problems: list[str] = []
    found: dict[bytes, bytes] = {}
    async for key, value in _rows(tx, part, *keys.generations()):
        generation = unpack(key)[1]
        if generation in doomed and generation != head.generation:
            continue
        if generation != head.generation:
            problems.append(f"row {key.hex()} of an old generation, which nothing sweeps away")
            continue
        found[key] = value
        if key == keys.message(head.generation, keys.message_order(key)):
            count += 1
            expected |= _rows_of(head.generation, keys.message_order(key), key, value)
    if count != head.count:
        problems.append(f"{count} messages, but {head.count} counted")
    problems += [f"row {key.hex()} is missing" for key in expected.keys() - found.keys()]
    problems += [f"row {key.hex()} belongs to no message" for key in found.keys() - expected.keys()]
    problems += [
        f"row {key.hex()} is wrong"
        for key, value in expected.items()
        if value is not None and found.get(key, value) != value
    ]
    return problems


def _rows_of(generation: int, order: int, key: bytes, value: bytes) -> dict[bytes, bytes | None]:
    """The rows that a message must have; None where any value will do."""
    message: Message = records.messages.decode(value)
    rows: dict[bytes, bytes | None] = {
        key: None,
        keys.due(generation, message.custody.until, order): key,
    }
    if message.expires != timestamp_never:
        rows[keys.expiry(generation, message.expires, order)] = key
    if message.text is None:
        rows[keys.text(generation, order)] = None
    return rows


async def _rows(
    tx: ReadTx, part: Partition, begin: bytes, end: bytes
) -> AsyncIterator[tuple[bytes, bytes]]:
    while rows := await tx.scan(part, begin, end, limit=_scan_rows):
        for row in rows:
            yield row
        begin = after(rows[-1][0])
