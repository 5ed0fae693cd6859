"""Message operations, as bodies of transactions (Azure: 'Operations on messages').

Get Messages reads the index of due times: what is visible stands in front, in the order in which it
became so and then of insertion, so that one message out of a million is found as fast as one out
of ten.  Every decision about who has a message is the kernel's.
"""

from typing import Final, NamedTuple

import msgspec

from etagere.base.clock import Timestamp, ticks_per_second, timestamp_never
from etagere.base.errors import Refused, invalid_query
from etagere.kernel.message_lock import (
    Custody,
    Phase,
    Standing,
    extend,
    phase_of,
    pop_receipts,
    standing_of,
    take,
)
from etagere.kv.contract import Engine, Partition, ReadTx, Tx
from etagere.kv.tuples import after
from etagere.services.queue import keys, records
from etagere.services.queue.keys import MessageRows
from etagere.services.queue.queues import open_queue
from etagere.services.queue.receipts import (
    MessageKey,
    message_id,
    parse_message_id,
    pop_receipt,
)
from etagere.services.queue.records import Message, QueueHead, text_carried_bytes_max

expired_passed_max: Final = 400
"""How many expired messages a Get or Peek steps over before it stops to have them removed."""

_rows_looked_at: Final = 64


class PutMessage(msgspec.Struct, frozen=True, gc=False):
    text: str
    tail: int
    """`receipts.tail_of` eight random bytes."""
    visibility_seconds: int
    ttl_seconds: int | None
    """None for never."""


class GetMessages(msgspec.Struct, frozen=True, gc=False):
    count: int
    visibility_seconds: int


class UpdateMessage(msgspec.Struct, frozen=True, gc=False):
    message_id: str
    receipt: int
    visibility_seconds: int
    text: str | None
    """None to leave it as it is."""


class SeenMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as a response shows it."""

    id: str
    inserted: Timestamp
    expires: Timestamp
    pop_receipt: str
    visible: Timestamp
    dequeue_count: int
    text: str


async def put(tx: Tx, part: Partition, wanted: PutMessage) -> SeenMessage:
    """Put Message; the receipt is good at once, without a Get."""
    head = await open_queue(tx, part)
    order, now = tx.stamp(), tx.now
    rows = keys.rows_of(head.generation, order)
    visible = Timestamp(now + wanted.visibility_seconds * ticks_per_second)
    expires = _end(now, wanted.ttl_seconds)
    text = wanted.text
    long = _long(text)
    if long is not None:
        tx.put(part, rows.text, long)
    custody = Custody(order, visible, 0)
    message = Message(wanted.tail, now, expires, custody, text if long is None else None)
    tx.put(part, rows.message, records.messages.encode(message))
    tx.put(part, rows.due(visible), rows.message)
    if expires != timestamp_never:
        tx.put(part, rows.expiry(expires), rows.message)
    _count(tx, part, head, 1)
    return _seen(order, message, text)


async def get_batch(tx: Tx, part: Partition, wanted: GetMessages) -> list[SeenMessage] | None:
    """Get Messages, the whole batch at once.

    Expired messages in front are removed; where they are too many for one transaction, that is
    all that happens, and None asks for another one.
    """
    head = await open_queue(tx, part)
    found = await _visible(tx, part, head.generation, wanted.count)
    for row in found.expired:
        _remove(tx, part, row)
    if found.expired:
        _count(tx, part, head, -len(found.expired))
    if not found.complete:
        return None
    duration = wanted.visibility_seconds * ticks_per_second
    seen = []
    for row in found.visible:
        was = row.message
        custody = take(was.custody, tx.stamp(), tx.now, duration, pop_receipts)
        message = Message(was.tail, was.inserted, was.expires, custody, was.text)
        _store(tx, part, row, message)
        seen.append(_seen(row.keys.order, message, await _text(tx, part, row)))
    return seen


async def get(engine: Engine, part: Partition, wanted: GetMessages) -> list[SeenMessage]:
    while True:
        seen = await engine.write((part,), lambda tx: get_batch(tx, part, wanted))
        if seen is not None:
            return seen


async def peek_batch(tx: ReadTx, part: Partition, count: int) -> list[SeenMessage] | None:
    """Peek Messages; None if too many expired ones stand in front."""
    head = await open_queue(tx, part)
    found = await _visible(tx, part, head.generation, count)
    if not found.complete:
        return None
    return [_seen(row.keys.order, row.message, await _text(tx, part, row)) for row in found.visible]


async def peek(engine: Engine, part: Partition, count: int) -> list[SeenMessage]:
    while True:
        seen = await engine.read(lambda tx: peek_batch(tx, part, count))
        if seen is not None:
            return seen
        await engine.write((part,), lambda tx: remove_expired(tx, part, expired_passed_max))


async def update(
    tx: Tx, part: Partition, wanted: UpdateMessage, stale_code: str = "MessageNotFound"
) -> SeenMessage:
    """Update Message: a new receipt, hidden from now on for so long, perhaps another text."""
    head = await open_queue(tx, part)
    row = await _held(tx, part, head, wanted.message_id, wanted.receipt, stale_code)
    duration = wanted.visibility_seconds * ticks_per_second
    if tx.now + duration > row.message.expires:
        raise invalid_query(
            "visibilitytimeout",
            str(wanted.visibility_seconds),
            "The message expires before it would become visible.",
        )
    custody = extend(row.message.custody, tx.stamp(), tx.now, duration)
    was = row.message
    text = was.text if wanted.text is None else _replaced(tx, part, row, wanted.text)
    message = Message(was.tail, was.inserted, was.expires, custody, text)
    _store(tx, part, row, message)
    return _seen(row.keys.order, message, "")


async def delete(
    tx: Tx, part: Partition, message: str, receipt: int, stale_code: str = "MessageNotFound"
) -> None:
    head = await open_queue(tx, part)
    _remove(tx, part, await _held(tx, part, head, message, receipt, stale_code))
    _count(tx, part, head, -1)


async def remove_expired(tx: Tx, part: Partition, limit: int) -> int:
    """Remove some messages that have expired, hidden or not; returns how many."""
    raw = await tx.get(part, keys.head)
    if raw is None:
        return 0
    head = records.heads.decode(raw)
    begin, end = keys.expired_at(head.generation, tx.now)
    rows = await tx.scan(part, begin, end, limit=limit)
    for _, key in rows:
        _remove(tx, part, await _read(tx, part, head.generation, key))
    if rows:
        _count(tx, part, head, -len(rows))
    return len(rows)


class _Row(msgspec.Struct, frozen=True, gc=False):
    """A message's record and where it lies."""

    keys: MessageRows
    due: bytes
    """Its key in the index of due times."""
    message: Message


class _Found(NamedTuple):
    visible: list[_Row]
    expired: list[_Row]
    complete: bool


async def _visible(tx: ReadTx, part: Partition, generation: int, count: int) -> _Found:
    """The first `count` visible messages, and the expired ones that stood between them."""
    visible: list[_Row] = []
    expired: list[_Row] = []
    begin, end = keys.due_until(generation, tx.now)
    limit = count
    while True:
        rows = await tx.scan(part, begin, end, limit=limit)
        for due, key in rows:
            row = await _read(tx, part, generation, key, due)
            phase = phase_of(row.message.custody, tx.now, pop_receipts, row.message.expires)
            if phase is Phase.EXPIRED:
                expired.append(row)
                continue
            visible.append(row)
            if len(visible) == count:
                return _Found(visible, expired, complete=True)
        if len(rows) < limit:
            return _Found(visible, expired, complete=True)
        if len(expired) >= expired_passed_max:
            return _Found([], expired, complete=False)
        begin, limit = after(rows[-1][0]), _rows_looked_at


async def _read(
    tx: ReadTx, part: Partition, generation: int, key: bytes, due: bytes | None = None
) -> _Row:
    raw = await tx.get(part, key)
    assert raw is not None, "an index names only messages that are there"
    return _row(keys.rows_at(generation, key), due, raw)


def _row(rows: MessageRows, due: bytes | None, raw: bytes) -> _Row:
    message = records.messages.decode(raw)
    return _Row(rows, rows.due(message.custody.until) if due is None else due, message)


async def _held(
    tx: ReadTx, part: Partition, head: QueueHead, message: str, receipt: int, stale_code: str
) -> _Row:
    """The message that id and receipt together stand for."""
    named = parse_message_id(message)
    row = await _named(tx, part, head, named) if named is not None else None
    if row is None:
        raise Refused("MessageNotFound")
    held = row.message
    match standing_of(held.custody, receipt, tx.now, pop_receipts, held.expires):
        case Standing.GOOD:
            return row
        case Standing.STALE:
            raise Refused(stale_code)
        case Standing.GONE:
            raise Refused("MessageNotFound")


async def _named(tx: ReadTx, part: Partition, head: QueueHead, named: MessageKey) -> _Row | None:
    rows = keys.rows_of(head.generation, named.order)
    raw = await tx.get(part, rows.message)
    if raw is None:
        return None
    row = _row(rows, None, raw)
    return row if row.message.tail == named.tail else None


async def _text(tx: ReadTx, part: Partition, row: _Row) -> str:
    if row.message.text is not None:
        return row.message.text
    raw = await tx.get(part, row.keys.text)
    assert raw is not None, "a message without a text has a row for it"
    return raw.decode()


def _long(text: str) -> bytes | None:
    """A text that is too long for its message's record, as its own row holds it."""
    if text.isascii() and len(text) <= text_carried_bytes_max:
        return None
    raw = text.encode()
    return raw if len(raw) > text_carried_bytes_max else None


def _replaced(tx: Tx, part: Partition, row: _Row, text: str) -> str | None:
    """Put another text where its length says; returns what of it the record is to carry."""
    long = _long(text)
    if long is not None:
        tx.put(part, row.keys.text, long)
        return None
    if row.message.text is None:
        tx.delete(part, row.keys.text)
    return text


def _store(tx: Tx, part: Partition, row: _Row, message: Message) -> None:
    """Write a record and move it to its place in the order of due times."""
    key = row.keys.message
    due = row.keys.due(message.custody.until)
    if due != row.due:
        tx.delete(part, row.due)
    tx.put(part, due, key)
    tx.put(part, key, records.messages.encode(message))


def _remove(tx: Tx, part: Partition, row: _Row) -> None:
    rows, message = row.keys, row.message
    tx.delete(part, rows.message)
    tx.delete(part, row.due)
    if message.text is None:
        tx.delete(part, rows.text)
    if message.expires != timestamp_never:
        tx.delete(part, rows.expiry(message.expires))


def _count(tx: Tx, part: Partition, head: QueueHead, change: int) -> None:
    head = QueueHead(head.generation, head.count + change)
    assert head.count >= 0
    tx.put(part, keys.head, records.heads.encode(head))


def _end(now: Timestamp, ttl_seconds: int | None) -> Timestamp:
    if ttl_seconds is None:
        return timestamp_never
    return Timestamp(min(now + ttl_seconds * ticks_per_second, timestamp_never))


def _seen(order: int, message: Message, text: str) -> SeenMessage:
    return SeenMessage(
        message_id(order, message.tail),
        message.inserted,
        message.expires,
        pop_receipt(message.custody.token),
        message.custody.until,
        message.custody.count,
        text,
    )
