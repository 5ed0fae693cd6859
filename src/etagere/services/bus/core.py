"""What everything in the broker works with: the store, time, the catalogue, and the owners.

Events go into an owner, and `settle_effects` carries out what it asks for.  An owner is never
entered while its effects are being carried out: what a frontend calls from inside a callback is
taken up when the callback has returned.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from struct import Struct
from typing import Any, Final, Protocol

from etagere.base.clock import Clock, Timestamp, seconds, timestamp_never
from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.kv.contract import Engine, Partition, ReadTx, StoreError
from etagere.services.bus import browsing, keys, records
from etagere.services.bus.agenda import Agenda
from etagere.services.bus.catalogue import Catalogue, Entity, LogState, Owner
from etagere.services.bus.competing_owner import CompetingOwner
from etagere.services.bus.deliveries import LockedRun
from etagere.services.bus.descriptions import Tier, receives_allowed
from etagere.services.bus.ledger import Log
from etagere.services.bus.messages import SectionCodec
from etagere.services.bus.operations import Expire, Operation, Settle
from etagere.services.bus.records import LogCounters
from etagere.services.bus.session_owner import SessionOwner
from etagere.services.bus.stream import Fetch, FindSession, Lapse, Load, Request
from etagere.services.bus.window import Row
from etagere.services.bus.writer import Writer, Written

tokens_drawn_at_once: Final = 256
retry_ticks: Final = seconds(1)
"""After a step of housekeeping that the store refused."""

token_bytes: Final = 16
_tokens: Final = Struct(f"{token_bytes}s" * tokens_drawn_at_once)

_log: Final = logging.getLogger(__name__)


class Alarm(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    """Calls back by the injected clock: a virtual clock that is moved rings at once."""

    def at(self, when: Timestamp, callback: Callable[[], None]) -> Alarm: ...


class Core:
    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        entropy: Entropy,
        codec: SectionCodec,
        *,
        namespace: str,
        tier: Tier,
        timers: Timers | None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.entropy = entropy
        self.codec = codec
        self.namespace = namespace
        self.tier = tier
        self.catalogue = Catalogue(tier)
        self.agenda = Agenda()
        self.closed = False
        self._timers = timers
        self._alarm: Alarm | None = None
        self._alarm_for: Timestamp | None = None
        self._tokens: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._touched: dict[LogState, None] = {}
        self._touch_scheduled = False
        self._busy: set[LogState] = set()
        """Whose effects are being carried out."""
        self.housekeep: Callable[[LogState, Timestamp], None] = lambda _state, _now: None

    # ---- time

    def next_due(self) -> Timestamp | None:
        return self.agenda.next_due()

    def tick(self, now: Timestamp) -> None:
        self.agenda.run(now)
        self._arm()

    def call_at(self, key: Any, due: Timestamp, call: Callable[[Timestamp], None]) -> None:
        if self.agenda.set(key, due, call):
            self._arm()

    def _arm(self) -> None:
        """Have one alarm set, for the earliest moment."""
        if self._timers is None or self.closed:
            return
        due = self.agenda.next_due()
        if due == self._alarm_for:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_for = due
        self._alarm = None if due is None else self._timers.at(due, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_for = None
        if not self.closed:
            self.tick(self.clock.now())

    def disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # ---- chance

    def draw_tokens(self, count: int) -> list[bytes]:
        assert count > 0
        tokens = self._tokens
        if len(tokens) < count:
            for _ in range(1 + count // tokens_drawn_at_once):
                tokens += _tokens.unpack(self.entropy.token(_tokens.size))
        taken = tokens[-count:]
        del tokens[-count:]
        return taken

    # ---- tasks

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of the bus failed", exc_info=task.exception())

    async def idle(self) -> None:
        """Return when nothing is on its way to or from the store."""
        while True:
            await asyncio.sleep(0)
            waiting = list(self._tasks)
            for entity in self.catalogue.entities.values():
                waiting.extend(entity.writer.tasks)
            if waiting:
                await asyncio.wait(waiting)
            elif all(entity.writer.is_idle for entity in self.catalogue.entities.values()):
                return

    # ---- the store

    def new_writer(self) -> Writer:
        return Writer(self.engine, self.clock, self.written, self.doubt, self.settle_touched)

    def submit(self, entity: Entity, operation: Operation) -> None:
        entity.writer.submit(operation)

    async def perform(self, entity: Entity, make: Callable[[Any], Operation]) -> Any:
        """Hand in an operation and wait for its result; `make` is given what reports it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def report(_operation: Any, result: Any, refusal: Refused | None, _now: Timestamp) -> None:
            if future.done():
                return
            if refusal is not None:
                future.set_exception(refusal)
            else:
                future.set_result(result)

        self.submit(entity, make(report))
        return await future

    def written(self, written: Written) -> None:
        """A transaction is durable: counters, moments and windows follow."""
        now = self.clock.now()
        for opened in written.changed:
            state, counters = self.catalogue.logs.get(opened.log), opened.counters
            if state is None:
                continue
            self._take_counters(state, counters)
            if 0 < opened.earliest_due < state.next_due:
                state.next_due = Timestamp(opened.earliest_due)
            if 0 < opened.earliest_expiry < state.next_expiry:
                state.next_expiry = Timestamp(opened.earliest_expiry)
            if state.forwards and counters.active:
                state.next_hand_on = now
            if state.remembers_for is not None and state.next_purge >= timestamp_never:
                state.next_purge = Timestamp(now + state.remembers_for)
            if state.owner is not None and opened.before != counters.last_number:
                state.owner.reported(opened.before, counters.last_number, opened.appended, now)
            self._touched[state] = None

    def settle_touched(self, states: Iterable[LogState | None]) -> None:
        """Carry out what a transaction and the reports of its steps have led to."""
        touched, self._touched = self._touched, {}
        touched.update((state, None) for state in states if state is not None)
        for state in touched:
            self.settle_effects(state)

    def touch(self, state: LogState) -> None:
        """Carry out what its owner asks for, at the end of this turn of the loop."""
        self._touched[state] = None
        if not self._touch_scheduled:
            self._touch_scheduled = True
            asyncio.get_running_loop().call_soon(self._settle_soon)

    def _settle_soon(self) -> None:
        self._touch_scheduled = False
        self.settle_touched(())

    def doubt(self, parts: tuple[Partition, ...]) -> None:
        """A transaction on these partitions failed, and may have been committed all the same."""
        now = self.clock.now()
        for part in parts:
            entity = self.catalogue.by_part.get(part)
            for node in entity.nodes if entity is not None else ():
                for state in node.logs.values():
                    if state.owner is not None:
                        state.owner.doubt(now)
                        self._touched[state] = None
            if entity is not None:
                self.spawn(self._look_again(entity))

    async def _look_again(self, entity: Entity) -> None:
        """Counters and moments, as the store has them: nobody told of the last commit."""

        async def body(tx: ReadTx) -> list[tuple[LogState, LogCounters]]:
            found = []
            for node in entity.nodes:
                for state in node.logs.values():
                    raw = await tx.get(state.log.part, keys.counters(state.log.number))
                    if raw is not None:
                        found.append((state, records.counters.decode(raw)))
                        await find_what_is_due(tx, state)
            return found

        try:
            found = await self.engine.read(body)
        except StoreError:
            if self.catalogue.by_part.get(entity.part) is entity:
                due = Timestamp(self.clock.now() + retry_ticks)
                self.call_at(("look again", entity), due, partial(self._look_later, entity))
            return
        for state, counters in found:
            self._take_counters(state, counters)
            self.reschedule(state)

    def _look_later(self, entity: Entity, _now: Timestamp) -> None:
        self.agenda.drop(("look again", entity))
        self.spawn(self._look_again(entity))

    def _take_counters(self, state: LogState, counters: LogCounters) -> None:
        if counters.revision > state.counters.revision:
            state.node.entity.bytes += counters.bytes - state.counters.bytes
            state.counters = counters

    # ---- owners

    def owner_of(self, state: LogState) -> Owner:
        if state.owner is None:
            kind = SessionOwner if state.log.sessioned else CompetingOwner
            owner = kind(
                state.node.target,
                state.sub_queue,
                state.counters.last_number,
                self.draw_tokens,
            )
            owner.enabled = receives_allowed(state.node.description)
            state.owner = owner
        return state.owner

    def settle_effects(self, state: LogState) -> None:
        """Carry out what the owner of this log asks for, until it asks for nothing more."""
        if state in self._busy:
            return
        owner = state.owner
        if owner is not None and owner.is_awake:
            self._busy.add(state)
            try:
                while self._carry_out(state, owner):
                    pass
            finally:
                self._busy.discard(state)
        self.reschedule(state)

    def _carry_out(self, state: LogState, owner: Owner) -> bool:
        """True if there was anything."""
        owner.advance(self.clock.now())
        answers, deliveries, operations = owner.answers, owner.deliveries, owner.take_operations()
        requests, notices = owner.requests, owner.notices
        if not (answers or deliveries or operations or requests or notices):
            return False
        owner.answers, owner.deliveries = [], []
        owner.requests, owner.notices = [], []
        for answer, ticket, refusal in answers:
            answer(ticket, refusal)
        for taker, delivery in deliveries:
            if type(delivery) is LockedRun:
                taker.receiver.deliver_run(delivery)
            else:
                taker.receiver.deliver(delivery)
        entity = state.node.entity
        for operation in operations:
            if isinstance(operation, Settle) and operation.may_move:
                self.prepare(state, operation)
            operation.state = state
            entity.writer.submit(operation)
        for request in requests:
            self._take_up(state, owner, request)
        for call, arguments in notices:
            call(*arguments)
        return True

    def prepare(self, state: LogState, operation: Settle) -> None:
        """Give a step what it needs if the message may end up elsewhere."""
        if operation.may_move:
            reach = state.node.entity.reach_of(state.node, self.catalogue)
            operation.prepare(reach, self.codec, self.entropy.token(token_bytes))

    def reschedule(self, state: LogState) -> None:
        due = state.owner.next_due() if state.owner is not None else timestamp_never
        if not state.housekeeping:
            due = min(due, state.next_due, state.next_expiry, state.next_hand_on, state.next_purge)
        if state.wake is None:
            state.wake = partial(self._due, state)
        self.call_at(state, due, state.wake)

    def _due(self, state: LogState, now: Timestamp) -> None:
        if state.log not in self.catalogue.logs:
            return
        if state.owner is not None:
            state.owner.tick(now)
        self.housekeep(state, now)
        self.settle_effects(state)

    # ---- what owners ask of the store

    def _take_up(self, state: LogState, owner: Owner, request: Request) -> None:
        match request:
            case Load():
                self.spawn(self._load(state, owner, request))
            case Fetch():
                self.spawn(self._fetch(state, owner, request))
            case FindSession():
                assert isinstance(owner, SessionOwner)
                self.spawn(self._find_session(state, owner, request))
            case Lapse():
                self._expire(state, owner, request)

    async def _load(self, state: LogState, owner: Owner, request: Load) -> None:
        log, session_id = state.log, request.stream.session_id

        async def body(tx: ReadTx) -> tuple[list[Row], bool]:
            if session_id is None:
                return await browsing.load(tx, log, request.after, request.limit)
            return await browsing.load_session(tx, log, session_id, request.after, request.limit)

        try:
            rows, all_read = await self.engine.read(body)
        except StoreError:
            owner.load_failed(request, self.clock.now())
            self.settle_effects(state)
            return
        owner.loaded(request, rows, self.clock.now(), all_read=all_read)
        self.settle_effects(state)

    async def _fetch(self, state: LogState, owner: Owner, request: Fetch) -> None:
        async def body(tx: ReadTx) -> list[Row]:
            return await browsing.fetch(tx, state.log, request.numbers)

        try:
            rows = await self.engine.read(body)
        except StoreError:
            owner.fetch_failed(request, self.clock.now())
            self.settle_effects(state)
            return
        owner.fetched(request, rows, self.clock.now())
        self.settle_effects(state)

    async def _find_session(
        self, state: LogState, owner: SessionOwner, request: FindSession
    ) -> None:
        async def body(tx: ReadTx) -> str | None:
            return await browsing.find_session(tx, state.log, request.held)

        try:
            session_id = await self.engine.read(body)
        except StoreError:
            owner.search_failed(self.clock.now())
            self.settle_effects(state)
            return
        owner.session_found(session_id, self.clock.now())
        self.settle_effects(state)

    def _expire(self, state: LogState, owner: Owner, request: Lapse) -> None:
        def report(_operation: Any, _result: Any, refusal: Any, now: Timestamp) -> None:
            owner.lapsed(request, now, failed=refusal is not None)
            if refusal is not None:  # a sweep will look again, from the beginning
                state.expiry_cursor = None
                state.next_expiry = Timestamp(min(state.next_expiry, now + retry_ticks))

        entity = state.node.entity
        operation = Expire(
            state.node.target,
            request.numbers,
            entity.reach_of(state.node, self.catalogue),
            self.codec,
            self.entropy.token(token_bytes),
            report,
        )
        operation.state = state
        self.submit(entity, operation)


_far: Final = 2**63


async def find_what_is_due(tx: ReadTx, state: LogState) -> None:
    """Set the moments of a log, from the beginnings of its indexes."""
    log = state.log
    state.next_due = await _first(tx, log, keys.due_until(log.number, _far))
    state.next_expiry = await _first(tx, log, keys.expired_until(log.number, _far))
    state.expiry_cursor = None
    if state.remembers_for is not None:
        oldest = await _first(tx, log, keys.duplicates_until(log.number, _far))
        if oldest < timestamp_never:
            state.next_purge = Timestamp(oldest + state.remembers_for)
    if state.forwards and state.counters.active:
        state.next_hand_on = tx.now


async def _first(tx: ReadTx, log: Log, span: keys.Range) -> Timestamp:
    """The time in the first key of an index."""
    rows = await tx.scan(log.part, *span, limit=1)
    return Timestamp(keys.time_of(rows[0][0])) if rows else timestamp_never
