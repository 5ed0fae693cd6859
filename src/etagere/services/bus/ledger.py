"""Logs of messages in the store, as one transaction sees and changes them.

Every change of a log's rows keeps its counters and indexes with it, so that nothing ever has to be
counted or sorted.  Counters are read once per transaction and written once at its end.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition, ReadTx, Tx
from etagere.services.bus import keys, packs, records
from etagere.services.bus.messages import MessageState
from etagere.services.bus.records import LogCounters, Rest, SessionRecord, StoredMessage

inline_bytes_max: Final = 32 * 1024
"""Tails longer than this lie in rows of their own: what a window holds in memory is bounded by it,
and moving such a message does not move its body."""

chunk_bytes_max: Final = 1024 * 1024

_deferred: Final = int(MessageState.deferred)
_scheduled: Final = int(MessageState.scheduled)


class Log:
    """One sequence of messages.  There is one object for each: they are compared by identity."""

    __slots__ = ("number", "part", "sessioned")

    def __init__(self, part: Partition, number: int, *, sessioned: bool = False) -> None:
        self.part = part
        self.number = number
        self.sessioned = sessioned
        """Whether its messages are handed out by session."""


class Opened:
    """A log within one run of a body: its counters, and what happened to it."""

    __slots__ = (
        "appended",
        "before",
        "counters",
        "dirty",
        "earliest_due",
        "earliest_expiry",
        "log",
    )

    def __init__(self, log: Log, counters: LogCounters) -> None:
        self.log = log
        self.counters = counters
        self.before = counters.last_number
        """The log's last number when it was opened."""
        self.dirty = False
        self.appended: list[tuple[int, StoredMessage]] = []
        """What became active, in order."""
        self.earliest_due = 0
        """Of the messages scheduled; 0 for none."""
        self.earliest_expiry = 0
        """Of the messages that became active; 0 for none."""


class Ledger:
    """The logs that one run of a transaction's body has to do with."""

    __slots__ = ("_opened", "now", "tx")

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.now: Timestamp = tx.now
        self._opened: dict[Log, Opened] = {}

    def opened(self, log: Log) -> Opened | None:
        """The log, if `open` found it before in this run."""
        return self._opened.get(log)

    async def open(self, log: Log) -> Opened | None:
        """The log; None if it was deleted.  To be called before anything else on it."""
        opened = self._opened.get(log)
        if opened is None:
            raw = await self.tx.get(log.part, keys.counters(log.number))
            if raw is None:
                return None
            opened = self._opened[log] = Opened(log, records.counters.decode(raw))
        return opened

    def finish(self) -> list[Opened]:
        """Write the counters that changed; the logs that did."""
        changed = [opened for opened in self._opened.values() if opened.dirty]
        for opened in changed:
            log, counters = opened.log, opened.counters
            counters.revision += 1
            counters.accessed_at = self.now
            self.tx.put(log.part, keys.counters(log.number), records.counters.encode(counters))
        return changed

    def counters(self, log: Log) -> LogCounters:
        """Of a log that was opened and is about to change."""
        opened = self._opened[log]
        opened.dirty = True
        return opened.counters

    # ---- active messages

    def next_number(self, log: Log) -> int:
        counters = self.counters(log)
        counters.last_number += 1
        return counters.last_number

    async def append(self, log: Log, message: StoredMessage) -> int:
        """Make it the log's newest active message."""
        number = self.next_number(log)
        self.put_active(log, number, message)
        if log.sessioned:
            assert message.session_id is not None
            await self._enter_session(log, message.session_id, number)
        return number

    def append_plain(self, opened: Opened, message: StoredMessage) -> int:
        """`append` for logs without sessions."""
        opened.dirty = True
        opened.counters.last_number = number = opened.counters.last_number + 1
        self._put_active(opened, number, message)
        return number

    def append_run(self, opened: Opened, messages: list[StoredMessage], *, expire: bool) -> None:
        """`append_plain` for each; `expire` is whether any of them may.  Nothing of them lies
        elsewhere yet."""
        if not messages:
            return
        sizes = [one.size for one in messages]
        if max([len(one.tail) for one in messages]) > inline_bytes_max:
            for message in messages:
                self.append_plain(opened, message)
            return
        opened.dirty = True
        log, counters = opened.log, opened.counters
        count, first = len(messages), counters.last_number + 1
        counters.last_number += count
        counters.active += count
        counters.bytes += sum(sizes)
        numbered = list(enumerate(messages, first))
        self._write_run(log, first, messages, sizes)
        if not expire:
            opened.appended += numbered
            return
        expiring = [(one.expires_at, number) for number, one in numbered if one.expires_at]
        if expiring:
            counters.expiring += len(expiring)
            expiries = {keys.expiry(log.number, time, number): b"" for time, number in expiring}
            self.tx.put_all(log.part, expiries)
            earliest = min(expiring)[0]
            opened.earliest_expiry = min(opened.earliest_expiry or earliest, earliest)
        opened.appended += numbered

    def _write_run(
        self, log: Log, first: int, messages: list[StoredMessage], sizes: list[int]
    ) -> None:
        """In packs where they fill one, and else in a row for each."""
        rows: dict[bytes, bytes] = {}
        begin, count = 0, len(messages)
        for number in packs.blocks_begun(first, count):
            at = number - first
            end = min(at + packs.block_messages, count)
            enough = end - at >= packs.pack_messages_min
            if enough and sum(sizes[at:end]) <= packs.pack_bytes_max:
                self._encode_each(log, first, messages, begin, at, rows)
                rows.update(packs.rows_of(log.number, number, messages[at:end]))
                begin = end
        self._encode_each(log, first, messages, begin, count, rows)
        self.tx.put_all(log.part, rows)

    def _encode_each(
        self,
        log: Log,
        first: int,
        messages: list[StoredMessage],
        begin: int,
        end: int,
        rows: dict[bytes, bytes],
    ) -> None:
        if begin < end:
            each = keys.message_run(log.number, first + begin, end - begin)
            rows.update(zip(each, records.messages.encode_each(messages[begin:end]), strict=True))

    def put_active(self, log: Log, number: int, message: StoredMessage) -> None:
        opened = self._opened[log]
        opened.dirty = True
        self._put_active(opened, number, message)

    def _put_active(self, opened: Opened, number: int, message: StoredMessage) -> None:
        log, counters, expires_at = opened.log, opened.counters, message.expires_at
        counters.active += 1
        counters.bytes += message.size
        if expires_at:
            counters.expiring += 1
            self.tx.put(log.part, keys.expiry(log.number, expires_at, number), b"")
            opened.earliest_expiry = min(opened.earliest_expiry or expires_at, expires_at)
        self.write(log, keys.message(log.number, number), message, number)
        opened.appended.append((number, message))

    async def put_back(self, log: Log, number: int, message: StoredMessage) -> None:
        """Undo an erasure: the message is active again under its old number."""
        self.put_active(log, number, message)
        self._opened[log].appended.pop()
        if log.sessioned:
            assert message.session_id is not None
            await self._enter_session(log, message.session_id, number)

    async def rewrite(self, log: Log, number: int, message: StoredMessage) -> None:
        """Its row again, after a change that no index shows."""
        self._opened[log].dirty = True
        if message.state:
            key = keys.aside(log.number, number)
        else:
            key = keys.message(log.number, number)
            await packs.take_out(self.tx, log.part, log.number, (number,))
        self.write(log, key, message, number)

    def write(self, log: Log, key: bytes, message: StoredMessage, number: int) -> None:
        if len(message.tail) > inline_bytes_max or message.rest is not None:
            message = self._without_rest(log, number, message)
        self.tx.put(log.part, key, records.messages.encode(message))

    async def erase(self, log: Log, number: int, size: int, expires_at: int) -> None:
        """Forget an active message of a log without sessions, and without a rest elsewhere."""
        expiring = [(expires_at, number)] if expires_at else ()
        await self.erase_run(self._opened[log], (number,), size, expiring)

    async def erase_run(
        self,
        opened: Opened,
        numbers: Sequence[int],
        size: int,
        expiring: Sequence[tuple[int, int]],
    ) -> None:
        """`erase` for each of these; `size` is that of all, `expiring` are the times and the
        numbers of those that expire."""
        opened.dirty = True
        log, counters = opened.log, opened.counters
        counters.active -= len(numbers)
        counters.bytes -= size
        others = await packs.take_out(self.tx, log.part, log.number, numbers)
        self.tx.delete_all(log.part, keys.each_message(log.number, others))
        if expiring:
            counters.expiring -= len(expiring)
            self.tx.delete_all(
                log.part, [keys.expiry(log.number, time, number) for time, number in expiring]
            )

    async def take_active(self, log: Log, number: int, message: StoredMessage) -> None:
        """Take an active message out of its log; its rest stays for whoever gets it next."""
        await self.erase(log, number, message.size, message.expires_at)
        if log.sessioned:
            assert message.session_id is not None
            await self._leave_session(log, message.session_id, number)

    async def take(self, log: Log, number: int, message: StoredMessage) -> None:
        """Take a message out of its log, active or set aside."""
        if message.state:
            self.take_aside(log, number, message)
        else:
            await self.take_active(log, number, message)

    async def take_whole(self, log: Log, number: int, message: StoredMessage) -> None:
        """The same, with its tail in place: it goes to another log."""
        await fill(self.tx, log.part, message)
        await self.take(log, number, message)
        if message.rest is not None:
            await self.release_rest(log.part, message.rest)
            message.rest = None
        message.enqueued_number = message.enqueued_number or number

    # ---- messages set aside

    def schedule(self, log: Log, message: StoredMessage, reserved: int = 0) -> int:
        number = reserved or self.next_number(log)
        message.state = _scheduled
        counters = self.counters(log)
        counters.scheduled += 1
        counters.bytes += message.size
        self.tx.put(log.part, keys.due(log.number, message.scheduled_at, number), b"")
        opened, due = self._opened[log], message.scheduled_at
        opened.earliest_due = min(opened.earliest_due or due, due)
        self.write(log, keys.aside(log.number, number), message, number)
        return number

    def defer(self, log: Log, number: int, message: StoredMessage) -> None:
        """After `take_active`: set aside under its number."""
        message.state = _deferred
        counters = self.counters(log)
        counters.deferred += 1
        counters.bytes += message.size
        self.write(log, keys.aside(log.number, number), message, number)

    def take_aside(self, log: Log, number: int, message: StoredMessage) -> None:
        counters = self.counters(log)
        counters.bytes -= message.size
        if message.state == _scheduled:
            counters.scheduled -= 1
            self.tx.delete(log.part, keys.due(log.number, message.scheduled_at, number))
        else:
            counters.deferred -= 1
        self.tx.delete(log.part, keys.aside(log.number, number))

    # ---- reading

    async def active(self, log: Log, number: int) -> StoredMessage | None:
        return await active(self.tx, log, number)

    async def aside(self, log: Log, number: int) -> StoredMessage | None:
        return await aside(self.tx, log, number)

    # ---- sessions

    async def _enter_session(self, log: Log, session_id: str, number: int) -> None:
        record = await session(self.tx, log, session_id) or SessionRecord()
        if record.active == 0 or number < record.head:
            if record.active:
                self.tx.delete(log.part, keys.head(log.number, record.head))
            record.head = number
            self.tx.put(log.part, keys.head(log.number, number), session_id.encode())
        record.active += 1
        self.tx.put(log.part, keys.session_message(log.number, session_id, number), b"")
        self._put_session(log, session_id, record)

    async def _leave_session(self, log: Log, session_id: str, number: int) -> None:
        record = await session(self.tx, log, session_id)
        assert record is not None
        record.active -= 1
        self.tx.delete(log.part, keys.session_message(log.number, session_id, number))
        if record.head == number:
            self.tx.delete(log.part, keys.head(log.number, number))
            begin, end = keys.session_messages(log.number, session_id, number)
            rows = await self.tx.scan(log.part, begin, end, limit=1)
            record.head = keys.number_of(rows[0][0]) if rows else 0
            if rows:
                self.tx.put(log.part, keys.head(log.number, record.head), session_id.encode())
        self._put_session(log, session_id, record)

    async def set_state(self, log: Log, session_id: str, state: bytes | None) -> None:
        record = await session(self.tx, log, session_id) or SessionRecord()
        counters = self.counters(log)
        counters.bytes += len(state or b"") - (record.state_bytes or 0)
        record.updated_at = self.now
        key = keys.session_state(log.number, session_id)
        if state is None:
            record.state_bytes = None
            self.tx.delete(log.part, key)
        else:
            record.state_bytes = len(state)
            self.tx.put(log.part, key, state)
        self._put_session(log, session_id, record)

    def _put_session(self, log: Log, session_id: str, record: SessionRecord) -> None:
        key = keys.session(log.number, session_id)
        if record.active or record.state_bytes is not None:
            self.tx.put(log.part, key, records.sessions.encode(record))
        else:
            self.tx.delete(log.part, key)

    # ---- rests of large messages

    def _without_rest(self, log: Log, number: int, message: StoredMessage) -> StoredMessage:
        """The message as its row has it; its rest is written if it is nowhere yet."""
        if message.rest is None:
            message.rest = self.write_rest(log, number, message.tail)
        return msgspec.structs.replace(message, tail=b"")

    def write_rest(self, log: Log, number: int, tail: bytes) -> Rest:
        chunks = range(0, len(tail), chunk_bytes_max)
        for index, at in enumerate(chunks):
            self.tx.put(
                log.part,
                keys.rest(log.number, number, index),
                tail[at : at + chunk_bytes_max],
            )
        return Rest(log.number, number, len(chunks))

    def share_rest(self, part: Partition, rest: Rest, holders: int) -> None:
        """Of one written in this transaction: how many messages refer to it."""
        if holders > 1:
            key = keys.rest_holders(rest.log, rest.number)
            self.tx.put(part, key, holders.to_bytes(4, "big"))

    async def release_rest(self, part: Partition, rest: Rest) -> None:
        """One message less refers to it."""
        key = keys.rest_holders(rest.log, rest.number)
        raw = await self.tx.get(part, key)
        holders = int.from_bytes(raw, "big") - 1 if raw is not None else 0
        if holders > 1:
            self.tx.put(part, key, holders.to_bytes(4, "big"))
        elif raw is not None:
            self.tx.delete(part, key)
        if holders == 0:
            for index in range(rest.chunks):
                self.tx.delete(part, keys.rest(rest.log, rest.number, index))


# ---- reads that need no ledger


async def active(tx: ReadTx, log: Log, number: int) -> StoredMessage | None:
    """An active message, without its rest."""
    raw = await tx.get(log.part, keys.message(log.number, number))
    if raw is None:
        return await packs.find(tx, log.part, log.number, number)
    return records.messages.decode(raw)


async def aside(tx: ReadTx, log: Log, number: int) -> StoredMessage | None:
    raw = await tx.get(log.part, keys.aside(log.number, number))
    return None if raw is None else records.messages.decode(raw)


async def session(tx: ReadTx, log: Log, session_id: str) -> SessionRecord | None:
    raw = await tx.get(log.part, keys.session(log.number, session_id))
    return None if raw is None else records.sessions.decode(raw)


async def fill(tx: ReadTx, part: Partition, message: StoredMessage) -> StoredMessage:
    """Put the message's tail in place if it lies elsewhere."""
    rest = message.rest
    if rest is not None and not message.tail:
        chunks = []
        for index in range(rest.chunks):
            chunk = await tx.get(part, keys.rest(rest.log, rest.number, index))
            assert chunk is not None
            chunks.append(chunk)
        message.tail = b"".join(chunks)
    return message
