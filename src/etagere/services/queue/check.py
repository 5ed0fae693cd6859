"""What must hold of every queue at rest; `etagere check` and the tests ask for it."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from etagere.base.clock import timestamp_never
from etagere.kv.check import CheckTx, Finding
from etagere.kv.contract import Partition, ReadTx
from etagere.kv.layers.records import DamagedRecord
from etagere.kv.tuples import after, unpack
from etagere.services.queue import keys, records
from etagere.services.queue.records import Message

_scan_rows: Final = 1000


class QueueChecker:
    """A `Checker` for the rows of all accounts' queues."""

    name: Final = "queue"

    async def check(self, tx: CheckTx) -> list[Finding]:
        accounts: set[str] = set()
        queues: list[tuple[str, str]] = []
        for part in tx.partitions():
            match unpack(part):
                case (keys.service, str(account)):
                    accounts.add(account)
                case (keys.service, str(account), str(name)):
                    queues.append((account, name))
                case _:
                    pass
        findings = [
            Finding(self.name, account, problem)
            for account in sorted(accounts)
            for problem in await check_account(tx, account)
        ]
        for account, name in queues:
            part = keys.queue_partition(account, name)
            problems = await _check_remains(tx, part, account, name)
            if await _last_stamp(tx, part) > tx.last_stamp:
                problems.append("a stamp above the store's last one")
            findings += [Finding(self.name, f"{account}/{name}", problem) for problem in problems]
        return findings


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
        if keys.is_message(key):
            count += 1
            try:
                expected |= _rows_of(head.generation, keys.message_order(key), key, value)
            except DamagedRecord as damage:
                problems.append(f"row {key.hex()} does not decode: {damage}")
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


async def _check_remains(tx: ReadTx, part: Partition, account: str, name: str) -> list[str]:
    """A queue outside the directory has nothing left but rows to sweep away."""
    account_part = keys.account_partition(account)
    if await tx.get(account_part, keys.directory_entry(name)) is not None:
        return []
    if await tx.get(part, keys.head) is not None or await tx.get(part, keys.properties) is not None:
        return ["there, but not in the directory"]
    orphans = set()
    async for key, _ in _rows(tx, part, *keys.generations()):
        generation = unpack(key)[1]
        assert isinstance(generation, int)
        if generation not in orphans:
            doomed = await tx.get(account_part, keys.doomed(generation, name))
            if doomed is None:
                orphans.add(generation)
    return [f"rows of generation {generation}, which nothing sweeps away" for generation in orphans]


async def _last_stamp(tx: ReadTx, part: Partition) -> int:
    """The highest stamp in a queue's records: of its generation, its messages, their receipts."""
    raw = await tx.get(part, keys.head)
    if raw is None:
        return 0
    head = records.heads.decode(raw)
    highest = head.generation
    async for key, value in _rows(tx, part, *keys.messages(head.generation)):
        highest = max(highest, keys.message_order(key))
        with suppress(DamagedRecord):  # which `check_account` reports
            highest = max(highest, records.messages.decode(value).custody.token)
    return highest


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
