"""Reading the logs: what windows load, what peek shows, which session is next."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from etagere.kv.contract import ReadTx
from etagere.services.bus import keys, ledger, packs, records
from etagere.services.bus.ledger import Log
from etagere.services.bus.messages import MessageState
from etagere.services.bus.window import Row

page_rows: Final = 64
_number: Final = itemgetter(0)
loaded_rows_at_once: Final = 128
loaded_bytes_max: Final = 1024 * 1024
"""After this much the rest of a load is left for the next."""
peeked_rows_max: Final = 1000
"""How many rows one peek looks at before it answers with what it has."""


async def load(tx: ReadTx, log: Log, after: int, limit: int) -> tuple[list[Row], bool]:
    """Active messages behind number `after`, without long rests; whether these are all.

    They are fewer than `limit` where they are long.
    """
    loaded: list[Row] = []
    size = 0
    while limit > 0:
        wanted = min(limit, loaded_rows_at_once)
        rows, all_read = await packs.load(tx, log.part, log.number, after, wanted)
        loaded += rows
        if all_read:
            return loaded, True
        size += sum([len(message.tail) for _, message in rows])
        if size > loaded_bytes_max:
            break
        limit -= len(rows)
        after = rows[-1][0]
    return loaded, False


async def load_session(
    tx: ReadTx, log: Log, session_id: str, after: int, limit: int
) -> tuple[list[Row], bool]:
    begin, end = keys.session_messages(log.number, session_id, after + 1)
    loaded: list[Row] = []
    size = 0
    found = await tx.scan(log.part, begin, end, limit=limit)
    for key, _ in found:
        if size > loaded_bytes_max:
            break
        number = keys.number_of(key)
        message = await ledger.active(tx, log, number)
        assert message is not None
        loaded.append((number, message))
        size += len(message.tail)
    return loaded, len(loaded) == len(found) < limit


async def fetch(tx: ReadTx, log: Log, numbers: Sequence[int]) -> list[Row]:
    """Those of the active messages that are there, the first of them with its rest."""
    rows: list[Row] = []
    for number in numbers:
        message = await ledger.active(tx, log, number)
        if message is not None:
            if number == numbers[0]:
                message = await ledger.fill(tx, log.part, message)
            rows.append((number, message))
    return rows


async def find_session(tx: ReadTx, log: Log, held: frozenset[str]) -> str | None:
    """Of the sessions with active messages that are not held, the one with the oldest."""
    begin, end = keys.heads(log.number, 0)
    while True:
        rows = await tx.scan(log.part, begin, end, limit=page_rows)
        for _, raw in rows:
            session_id = raw.decode()
            if session_id not in held:
                return session_id
        if len(rows) < page_rows:
            return None
        begin = rows[-1][0] + b"\0"


async def peek(
    tx: ReadTx, log: Log, first: int, count: int, bytes_max: int, session_id: str | None
) -> list[Row]:
    """Messages of every state from number `first` on, in order, with their rests."""
    found: list[Row] = []
    looked = size = 0
    position = first
    while len(found) < count and looked < peeked_rows_max:
        rows = await _both_states(tx, log, position, min(count, page_rows))
        for number, message in rows:
            looked += 1
            if session_id is not None and message.session_id != session_id:
                continue
            size += message.size
            if found and size > bytes_max:
                return found
            found.append((number, await ledger.fill(tx, log.part, message)))
            if len(found) == count:
                return found
        if not rows:
            return found
        position = rows[-1][0] + 1
    return found


async def _both_states(tx: ReadTx, log: Log, first: int, limit: int) -> list[Row]:
    """Active and set aside, merged by number."""
    merged, all_read = await load(tx, log, first - 1, limit)
    begin, end = keys.all_aside(log.number, first, None if all_read else merged[-1][0])
    rows = await tx.scan(log.part, begin, end, limit=limit)
    merged += [(keys.number_of(key), records.messages.decode(raw)) for key, raw in rows]
    merged.sort(key=_number)
    return merged[:limit]


async def deferred(
    tx: ReadTx, log: Log, numbers: Sequence[int], session_id: str | None
) -> list[Row] | None:
    """These deferred messages, whole; None if any of them is not there."""
    rows: list[Row] = []
    for number in numbers:
        message = await ledger.aside(tx, log, number)
        if message is None or message.state != MessageState.deferred:
            return None
        if session_id is not None and message.session_id != session_id:
            return None
        rows.append((number, await ledger.fill(tx, log.part, message)))
    return rows


async def list_sessions(
    tx: ReadTx, log: Log, updated_after: int | None, skip: int, top: int
) -> list[str]:
    """Without a time, sessions with active messages or a state; with one, those whose state was
    set after it.  By session id."""
    begin, end = keys.sessions(log.number)
    found: list[str] = []
    while True:
        rows = await tx.scan(log.part, begin, end, limit=page_rows)
        for key, raw in rows:
            if updated_after is not None:
                record = records.sessions.decode(raw)
                if record.state_bytes is None or record.updated_at <= updated_after:
                    continue
            if skip:
                skip -= 1
                continue
            found.append(keys.session_of(key))
            if len(found) >= top:
                return found
        if len(rows) < page_rows:
            return found
        begin = rows[-1][0] + b"\0"


async def session_state(tx: ReadTx, log: Log, session_id: str) -> bytes | None:
    return await tx.get(log.part, keys.session_state(log.number, session_id))
