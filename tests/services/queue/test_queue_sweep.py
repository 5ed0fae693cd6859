from queue_driver import HandClock, QueueDriver, account

from etagere.base.clock import ticks_per_second
from etagere.services.common import doomed
from etagere.services.queue import keys, sweep


async def rows_of(queue: QueueDriver) -> int:
    begin, end = keys.generations()
    part = queue.where.part
    return len(await queue.engine.read(lambda tx: tx_scan(tx, part, begin, end)))


async def tx_scan(tx, part, begin, end):
    return await tx.scan(part, begin, end, limit=100_000)


async def test_cleared_messages_are_swept_away_in_small_steps(queue: QueueDriver):
    for index in range(400):
        await queue.put(f"message {index}" * (300 if index % 10 == 0 else 1))
    before = await rows_of(queue)
    await queue.clear()
    await queue.put("new")
    kept = await rows_of(queue) - before
    steps = 0
    while await sweep.sweep_step(queue.engine, account):
        left = await rows_of(queue)
        assert before - left <= doomed.rows_a_step
        before, steps = left, steps + 1
    assert steps > 1
    assert await rows_of(queue) == kept
    assert [message.text for message in await queue.get(32)] == ["new"]


async def test_deleted_queues_are_swept_away_while_others_bear_the_name(queue: QueueDriver):
    for _ in range(3):
        for _ in range(10):
            await queue.put("old")
        await queue.drop()
        await queue.create()
    await queue.put("new")
    while await sweep.sweep_step(queue.engine, account):
        pass
    assert await rows_of(queue) == 3
    assert await queue.count() == 1
    await queue.drop()
    while await sweep.sweep_step(queue.engine, account):
        pass
    assert await rows_of(queue) == 0
    await queue.create()


async def test_an_empty_queue_leaves_nothing_to_sweep(queue: QueueDriver):
    await queue.clear()
    await queue.drop()
    assert not await sweep.sweep_step(queue.engine, account)
    await queue.create()


async def test_expired_messages_are_removed_hidden_or_not(queue: QueueDriver, clock: HandClock):
    for _ in range(2 * sweep.expired_a_step + 5):
        await queue.put("visible", ttl=10)
    for _ in range(5):
        await queue.put("delayed" * 1000, visibility=9, ttl=10)
    await queue.get(32)
    await queue.put("kept", ttl=11)
    await queue.put("kept", ttl=None)
    clock.advance(10)
    assert await sweep.sweep(queue.engine, account, clock.now()) is not None
    assert await rows_of(queue) == 3 + 2
    assert len(await queue.get(32)) == 2


async def test_every_queue_gets_its_turn(engine, clock: HandClock):
    drivers = [
        QueueDriver(engine, clock, f"queue-{index:03d}")
        for index in range(2 * sweep.queues_a_step + 1)
    ]
    for driver in drivers:
        await driver.create()
        await driver.put("a", ttl=1)
    clock.advance(1)
    assert await sweep.sweep(engine, account, clock.now()) is None
    for driver in drivers:
        assert await rows_of(driver) == 0


async def test_a_sweep_says_when_it_is_needed_again(queue: QueueDriver, clock: HandClock):
    async def swept() -> float | None:
        due = await sweep.sweep(queue.engine, account, clock.now())
        return None if due is None else (due - clock.at) / ticks_per_second

    assert await swept() is None
    await queue.put("immortal", ttl=None)
    assert await swept() is None
    await queue.put("a", ttl=10)
    await queue.put("b", ttl=100)
    assert await swept() == 10
    clock.advance(9.5)
    assert await swept() == sweep.seconds_between_min
    clock.advance(0.5)
    assert await swept() == 90
    assert await rows_of(queue) == 2 + 3
    await queue.clear()
    assert await swept() is None
    assert await rows_of(queue) == 0
