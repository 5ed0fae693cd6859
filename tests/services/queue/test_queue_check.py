"""Damage of every kind is found, and where there is none, nothing is."""

import pytest
from queue_driver import QueueDriver

from etagere.services.queue import keys, records
from etagere.services.queue.check import QueueChecker
from etagere.services.queue.queues import open_queue
from etagere.services.queue.records import QueueHead


async def findings(queue: QueueDriver, **options) -> list[str]:
    found = await QueueChecker().check(queue.engine.at_rest(**options))
    return [finding.problem for finding in found]


@pytest.fixture
async def damaged(engine, clock):
    """A queue with messages of all kinds, not checked afterwards."""
    queue = QueueDriver(engine, clock)
    await queue.create()
    for text, ttl in (("a", 10), ("b" * 5000, 10), ("c", None)):
        await queue.put(text, ttl=ttl)
    await queue.get()
    assert await findings(queue) == []
    return queue


async def rows(queue: QueueDriver) -> dict[bytes, bytes]:
    begin, end = keys.generations()
    part = queue.where.part

    async def scan(tx):
        return await tx.scan(part, begin, end, limit=1000)

    return dict(await queue.engine.read(scan))


async def test_every_missing_row_is_noticed(damaged: QueueDriver):
    part = damaged.where.part
    for key, value in (await rows(damaged)).items():

        async def take(tx, key=key):
            tx.delete(part, key)

        async def give(tx, key=key, value=value):
            tx.put(part, key, value)

        await damaged.write(take)
        assert await findings(damaged) != []
        await damaged.write(give)
    assert await findings(damaged) == []


async def test_rows_that_belong_to_nothing_are_noticed(damaged: QueueDriver):
    part = damaged.where.part
    generation = (await damaged.engine.read(lambda tx: open_queue(tx, part))).generation
    for key in (
        keys.rows_of(generation, 1).due(1),
        keys.rows_of(generation, 1).expiry(1),
        keys.rows_of(generation, 1).text,
        keys.rows_of(generation - 1, 1).text,
    ):

        async def add(tx, key=key):
            tx.put(part, key, b"")

        async def remove(tx, key=key):
            tx.delete(part, key)

        await damaged.write(add)
        assert len(await findings(damaged)) == 1
        await damaged.write(remove)


async def test_records_that_do_not_decode_are_noticed(damaged: QueueDriver):
    part = damaged.where.part
    generation = (await damaged.engine.read(lambda tx: open_queue(tx, part))).generation
    begin, end = keys.messages(generation)
    for key in await rows(damaged):
        if not begin <= key < end:
            continue

        async def scribble(tx, key=key):
            tx.put(part, key, b"\x01\xc1")

        await damaged.write(scribble)
    problems = await findings(damaged)
    assert sum("does not decode" in problem for problem in problems) == 3


async def test_a_wrong_count_is_noticed(damaged: QueueDriver):
    part = damaged.where.part

    async def miscount(tx):
        head = await open_queue(tx, part)
        wrong = QueueHead(head.generation, head.count + 1)
        tx.put(part, keys.head, records.heads.encode(wrong))

    await damaged.write(miscount)
    assert await findings(damaged) == ["3 messages, but 4 counted"]


async def test_a_queue_and_its_entry_belong_together(damaged: QueueDriver):
    entry = keys.directory_entry(damaged.where.name)
    account_part = damaged.where.account_part

    async def forget(tx):
        tx.delete(account_part, entry)

    async def invent(tx):
        tx.put(account_part, keys.directory_entry("invented"), b"")
        tx.put(account_part, entry, b"")

    await damaged.engine.write((account_part,), forget)
    assert await findings(damaged) == ["there, but not in the directory"]
    await damaged.engine.write((account_part,), invent)
    assert await findings(damaged) == ["in the directory, but not there"]


async def test_deleted_rows_that_nothing_sweeps_away_are_noticed(damaged: QueueDriver):
    await damaged.drop()
    assert await findings(damaged) == []

    async def forgive(tx):
        for key, _ in await tx.scan(damaged.where.account_part, *keys.all_doomed(), limit=9):
            tx.delete(damaged.where.account_part, key)

    await damaged.engine.write((damaged.where.account_part,), forgive)
    (problem,) = await findings(damaged)
    assert problem.endswith("which nothing sweeps away")


async def test_stamps_from_the_future_are_noticed(damaged: QueueDriver):
    assert await findings(damaged, last_stamp=1) == ["a stamp above the store's last one"]
