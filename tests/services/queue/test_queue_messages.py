"""The life cycle of a message and the outcomes of pop receipts, as the Queue service documents
them."""

import pytest
from queue_driver import HandClock, QueueDriver

from etagere.base.clock import ticks_per_second, timestamp_never
from etagere.base.errors import Refused
from etagere.services.queue.messages import expired_passed_max
from etagere.services.queue.records import text_carried_bytes_max

week = 604_800
tick = 1 / ticks_per_second


async def refused(call) -> str:
    with pytest.raises(Refused) as refusal:
        await call
    return refusal.value.code


async def test_put_shows_what_get_shows(queue: QueueDriver, clock: HandClock):
    put = await queue.put("hello", visibility=10, ttl=100)
    assert put.dequeue_count == 0
    assert put.inserted == clock.at
    assert put.visible == clock.at + 10 * ticks_per_second
    assert put.expires == clock.at + 100 * ticks_per_second
    assert await queue.get() == []
    clock.advance(10 - tick)
    assert await queue.get() == []
    clock.advance(tick)
    (got,) = await queue.get(visibility=30)
    assert (got.id, got.text, got.inserted, got.expires) == (
        put.id,
        "hello",
        put.inserted,
        put.expires,
    )
    assert got.dequeue_count == 1
    assert got.visible == clock.at + 30 * ticks_per_second
    assert got.pop_receipt != put.pop_receipt


async def test_a_message_got_is_hidden_until_its_time(queue: QueueDriver, clock: HandClock):
    await queue.put("a")
    (first,) = await queue.get(visibility=30)
    clock.advance(30 - tick)
    assert await queue.get() == []
    assert await queue.peek() == []
    clock.advance(tick)
    (peeked,) = await queue.peek()
    assert (peeked.id, peeked.dequeue_count) == (first.id, 1)
    (second,) = await queue.get()
    assert (second.id, second.dequeue_count) == (first.id, 2)
    assert second.pop_receipt != first.pop_receipt


async def test_messages_come_in_order_of_visibility_and_then_insertion(
    queue: QueueDriver, clock: HandClock
):
    await queue.put("late", visibility=5)
    for text in ("a", "b", "c"):
        await queue.put(text)
    await queue.put("later", visibility=6)
    clock.advance(10)
    await queue.put("d")
    assert [m.text for m in await queue.peek(32)] == ["a", "b", "c", "late", "later", "d"]
    assert [m.text for m in await queue.get(2, visibility=1)] == ["a", "b"]
    clock.advance(1)
    assert [m.text for m in await queue.get(32)] == ["c", "late", "later", "d", "a", "b"]


async def test_get_takes_as_many_as_it_is_asked_for(queue: QueueDriver):
    for index in range(40):
        await queue.put(str(index))
    first = await queue.get(32)
    assert [m.text for m in first] == [str(index) for index in range(32)]
    assert len({m.pop_receipt for m in first}) == 32
    assert [m.text for m in await queue.get(32)] == [str(index) for index in range(32, 40)]
    assert await queue.get(32) == []
    assert await queue.count() == 40


async def test_peek_changes_nothing(queue: QueueDriver):
    put = await queue.put("a")
    for _ in range(3):
        (seen,) = await queue.peek(32)
        assert (seen.dequeue_count, seen.text) == (0, "a")
    await queue.delete(put.id, put.pop_receipt)


async def test_the_receipt_of_put_is_good_without_a_get(queue: QueueDriver):
    put = await queue.put("a", visibility=100)
    updated = await queue.update(put.id, put.pop_receipt, 0, "b")
    assert [m.text for m in await queue.peek()] == ["b"]
    await queue.delete(put.id, updated.pop_receipt)
    assert await queue.count() == 0


async def test_update(queue: QueueDriver, clock: HandClock):
    await queue.put("a", ttl=1000)
    (got,) = await queue.get(visibility=30)
    clock.advance(20)
    updated = await queue.update(got.id, got.pop_receipt, 30)
    assert updated.visible == clock.at + 30 * ticks_per_second
    assert updated.pop_receipt != got.pop_receipt
    clock.advance(29)
    assert await queue.get() == []
    clock.advance(1)
    (again,) = await queue.get()
    assert (again.text, again.dequeue_count, again.expires) == ("a", 2, got.expires)
    emptied = await queue.update(again.id, again.pop_receipt, 0, "")
    (last,) = await queue.get()
    assert (last.text, last.dequeue_count) == ("", 3)
    assert last.pop_receipt != emptied.pop_receipt


@pytest.mark.parametrize("seconds_hidden", [0, 1, week])
async def test_update_may_hide_until_the_message_expires_but_not_longer(
    queue: QueueDriver, clock: HandClock, seconds_hidden: int
):
    put = await queue.put("a", ttl=seconds_hidden + 5)
    clock.advance(5 - 1)
    assert (
        await refused(queue.update(put.id, put.pop_receipt, seconds_hidden + 2))
        == "InvalidQueryParameterValue"
    )
    updated = await queue.update(put.id, put.pop_receipt, seconds_hidden + 1)
    assert updated.visible == put.expires


async def test_an_expired_message_is_gone_even_while_it_is_hidden(
    queue: QueueDriver, clock: HandClock
):
    put = await queue.put("a", ttl=10)
    (got,) = await queue.get(visibility=30)
    clock.advance(10 - tick)
    assert await queue.count() == 1
    clock.advance(tick)
    assert await queue.count() == 0
    for receipt in (put.pop_receipt, got.pop_receipt):
        assert await refused(queue.delete(put.id, receipt)) == "MessageNotFound"
        assert await refused(queue.update(put.id, receipt, 0)) == "MessageNotFound"
    clock.advance(30)
    assert await queue.get() == []
    assert await queue.peek() == []


async def test_without_an_end_a_message_stays(queue: QueueDriver, clock: HandClock):
    put = await queue.put("a", ttl=None)
    assert put.expires == timestamp_never
    clock.advance(100 * 365 * 86_400)
    (got,) = await queue.get()
    assert got.expires == timestamp_never
    await queue.update(got.id, got.pop_receipt, week)


async def test_a_life_longer_than_time_itself(queue: QueueDriver):
    put = await queue.put("a", ttl=2**40)
    assert put.expires == timestamp_never


# What was done to a message since a receipt was given out, and what the receipt is good for then.
async def test_receipt_outcomes(queue: QueueDriver, clock: HandClock):
    async def fresh(visibility: int = 30):
        await queue.put("a")
        (got,) = await queue.get(visibility=visibility)
        return got

    got = await fresh()
    await queue.delete(got.id, got.pop_receipt)  # hidden
    got = await fresh()
    clock.advance(31)
    await queue.delete(got.id, got.pop_receipt)  # visible again, and nobody else got it
    got = await fresh()
    clock.advance(31)
    (other,) = await queue.get()
    assert other.id == got.id
    assert await refused(queue.delete(got.id, got.pop_receipt)) == "MessageNotFound"
    assert await refused(queue.update(got.id, got.pop_receipt, 0, "x")) == "MessageNotFound"
    updated = await queue.update(other.id, other.pop_receipt, 10)  # the holder is unaffected
    assert await refused(queue.delete(other.id, other.pop_receipt)) == "MessageNotFound"
    await queue.delete(other.id, updated.pop_receipt)
    assert await refused(queue.delete(other.id, updated.pop_receipt)) == "MessageNotFound"
    got = await fresh()
    await queue.clear()
    assert await refused(queue.delete(got.id, got.pop_receipt)) == "MessageNotFound"
    assert await queue.count() == 0


async def test_a_refused_update_changes_nothing(queue: QueueDriver, clock: HandClock):
    put = await queue.put("a")
    (got,) = await queue.get(visibility=30)
    assert await refused(queue.update(put.id, put.pop_receipt, 0, "stolen")) == "MessageNotFound"
    assert await queue.get() == []
    clock.advance(30)
    (again,) = await queue.get()
    assert (again.text, again.id) == ("a", got.id)


async def test_stale_receipts_can_be_told_from_missing_messages(queue: QueueDriver):
    put = await queue.put("a")
    (got,) = await queue.get()
    stale = {"stale_code": "PopReceiptMismatch"}
    assert await refused(queue.delete(put.id, put.pop_receipt, **stale)) == "PopReceiptMismatch"
    assert await refused(queue.update(put.id, put.pop_receipt, 0, **stale)) == "PopReceiptMismatch"
    await queue.delete(got.id, got.pop_receipt, **stale)
    assert await refused(queue.delete(got.id, got.pop_receipt, **stale)) == "MessageNotFound"


async def test_id_and_receipt_belong_together(queue: QueueDriver):
    one, two = await queue.put("a"), await queue.put("b")
    assert await refused(queue.delete(one.id, two.pop_receipt)) == "MessageNotFound"
    # The same order with another tail was never given out.
    forged = one.id[:-1] + ("0" if one.id[-1] != "0" else "1")
    for message_id in (forged, "x", "0b5b7c6e-6f2f-4c5e-9b8e-5a1f1f0f0f0f"):
        assert await refused(queue.delete(message_id, one.pop_receipt)) == "MessageNotFound"
    await queue.delete(one.id.upper(), one.pop_receipt)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a" * text_carried_bytes_max,
        "a" * (text_carried_bytes_max + 1),
        "é" * (text_carried_bytes_max // 2 + 1),
        "€" * 21_845,
    ],
)
async def test_texts_of_any_size_come_back(queue: QueueDriver, clock: HandClock, text: str):
    await queue.put(text)
    (peeked,) = await queue.peek()
    (got,) = await queue.get()
    assert peeked.text == got.text == text
    for other in ("short", "long" * 1000, "longer" * 2000, "short", text):
        updated = await queue.update(got.id, got.pop_receipt, 0, other)
        (got,) = await queue.get()
        assert got.text == other
        kept = await queue.update(got.id, got.pop_receipt, 0)
        assert await queue.problems() == []
        (got,) = await queue.get()
        assert got.text == other
        assert len({updated.pop_receipt, kept.pop_receipt, got.pop_receipt}) == 3
    await queue.delete(got.id, got.pop_receipt)
    assert await queue.count() == 0


async def test_clear_removes_hidden_messages_too(queue: QueueDriver):
    await queue.put("hidden")
    await queue.get()
    await queue.put("visible")
    await queue.put("delayed", visibility=60)
    await queue.clear()
    assert await queue.count() == 0
    assert await queue.peek(32) == []
    await queue.clear()
    await queue.put("new")
    assert [m.text for m in await queue.get(32)] == ["new"]


async def test_many_expired_messages_in_front_do_not_hide_what_follows(
    queue: QueueDriver, clock: HandClock
):
    for _ in range(2 * expired_passed_max + 7):
        await queue.put("old", ttl=1)
    clock.advance(1)
    await queue.put("new")
    assert await queue.count() == 1
    assert [m.text for m in await queue.peek(32)] == ["new"]
    assert [m.text for m in await queue.get(32)] == ["new"]
    assert await queue.problems() == []


async def test_get_removes_the_expired_messages_that_it_passes(
    queue: QueueDriver, clock: HandClock
):
    for _ in range(10):
        await queue.put("old", ttl=1)
    await queue.put("new", ttl=100)
    clock.advance(2)
    assert [m.text for m in await queue.get(1)] == ["new"]
    head = await queue.engine.read(lambda tx: _count(tx, queue))
    assert head == 1


async def _count(tx, queue: QueueDriver) -> int:
    from etagere.services.queue.queues import open_queue

    return (await open_queue(tx, queue.where.part)).count
