"""What operations touch does not depend on how long the queue is: counted in rows, not in time."""

from collections import Counter

import pytest
from queue_driver import HandClock, QueueDriver

from etagere.kv.engines.memory import MemoryEngine
from etagere.services.queue import messages


class CountingTx:
    """Passes everything on and notes what was touched."""

    def __init__(self, tx, touched: Counter[str]) -> None:
        self._tx = tx
        self._touched = touched

    @property
    def now(self):
        return self._tx.now

    def stamp(self) -> int:
        return self._tx.stamp()

    async def get(self, part, key):
        self._touched["got"] += 1
        return await self._tx.get(part, key)

    async def scan(self, part, begin, end, *, limit, reverse=False):
        rows = await self._tx.scan(part, begin, end, limit=limit, reverse=reverse)
        self._touched["scans"] += 1
        self._touched["scanned"] += len(rows)
        return rows

    def put(self, part, key, value) -> None:
        self._touched["put"] += 1
        self._tx.put(part, key, value)

    def delete(self, part, key) -> None:
        self._touched["deleted"] += 1
        self._tx.delete(part, key)

    def notify(self, topic) -> None:
        self._tx.notify(topic)


class CountingEngine:
    def __init__(self, engine: MemoryEngine) -> None:
        self.engine = engine
        self.touched: Counter[str] = Counter()
        self.transactions = 0

    async def read(self, body):
        self.transactions += 1
        return await self.engine.read(lambda tx: body(CountingTx(tx, self.touched)))

    async def write(self, parts, body):
        self.transactions += 1
        return await self.engine.write(parts, lambda tx: body(CountingTx(tx, self.touched)))


async def filled(clock: HandClock, count: int) -> QueueDriver:
    counting = CountingEngine(MemoryEngine(clock, strict=False))
    queue = QueueDriver(counting, clock)
    await queue.create()
    step = 2000
    for start in range(0, count, step):
        wanted = [
            queue.wanted_put(f"message {index}", 0, 604_800)
            for index in range(start, min(start + step, count))
        ]

        async def fill(tx, wanted=wanted) -> None:
            for one in wanted:
                await messages.put(tx, queue.where.part, one)

        await counting.engine.write((queue.where.part,), fill)
    return queue


async def costs(queue: QueueDriver) -> dict[str, tuple[int, dict[str, int]]]:
    """Transactions and rows touched by each operation."""
    engine = queue.engine
    found: dict[str, tuple[int, dict[str, int]]] = {}

    async def measure(name: str, call):
        engine.touched.clear()
        engine.transactions = 0
        result = await call
        found[name] = (engine.transactions, dict(engine.touched))
        return result

    put = await measure("put", queue.put("one more"))
    (got,) = await measure("get", queue.get())
    batch = await measure("get 8", queue.get(8))
    await measure("peek", queue.peek())
    updated = await measure("update", queue.update(got.id, got.pop_receipt, 60))
    await measure("update text", queue.update(put.id, put.pop_receipt, 0, "text"))
    await measure("delete", queue.delete(got.id, updated.pop_receipt))
    await measure("delete of a batch", queue.delete(batch[7].id, batch[7].pop_receipt))
    await measure("count", queue.view())
    await measure("clear", queue.clear())
    await queue.put("again")
    await measure("drop", queue.drop())
    await queue.create()
    return found


@pytest.mark.slow
async def test_a_long_queue_costs_what_a_short_one_costs(clock: HandClock):
    short = await costs(await filled(clock, 10))
    long = await costs(await filled(clock, 100_000))
    assert long == short
    assert short["get"] == (1, {"got": 2, "scans": 1, "scanned": 1, "put": 2, "deleted": 1})
    assert short["put"] == (1, {"got": 1, "put": 4})
    assert short["delete"] == (1, {"got": 2, "put": 1, "deleted": 3})
    assert short["get 8"][0] == 1


async def test_hidden_messages_cost_a_get_nothing(clock: HandClock):
    queue = await filled(clock, 500)
    for _ in range(15):
        await queue.get(32, visibility=600)
    queue.engine.touched.clear()
    await queue.get()
    assert queue.engine.touched["scanned"] == 1
    assert queue.engine.touched["got"] == 2


async def test_each_expired_message_is_stepped_over_once(clock: HandClock):
    queue = await filled(clock, 1000)
    clock.advance(604_800)
    await queue.put("new")
    queue.engine.touched.clear()
    (got,) = await queue.get(visibility=1)
    first = queue.engine.touched["got"]
    queue.engine.touched.clear()
    clock.advance(1)
    (again,) = await queue.get()
    assert again.id == got.id
    assert queue.engine.touched["got"] == 2
    assert first < 1000 + 50
