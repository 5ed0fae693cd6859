"""One request, one answer: what `$management` and HTTP ask of a node.

All of these may run at the same time.  What they are given is checked by whoever decodes it only
as far as its types go.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kv.contract import ReadTx
from etagere.services.bus import browsing, errors
from etagere.services.bus.catalogue import LogState, Node
from etagere.services.bus.core import Core
from etagere.services.bus.deliveries import delivery_of
from etagere.services.bus.descriptions import QueueDescription, Tier
from etagere.services.bus.locks import LockStatus
from etagere.services.bus.log_operations import (
    CancelScheduled,
    DeleteBatch,
    SetSessionState,
    TakeDeferred,
    Together,
    check_numbers,
    number_max,
)
from etagere.services.bus.messages import Delivery, Message, Outcome, ReceiveMode, Release
from etagere.services.bus.names import SubQueue
from etagere.services.bus.operations import Operation
from etagere.services.bus.receiving import check_gives_messages
from etagere.services.bus.sending import check_takes_sends, send
from etagere.services.bus.session_owner import Hold, SessionOwner
from etagere.services.bus.window import Row

peek_count_max: Final = 1000
deferred_count_max: Final = 256
delete_count_max: Final = {Tier.basic: 500, Tier.standard: 500, Tier.premium: 4000}
sessions_listed_max: Final = 1000


class Requests:
    def __init__(self, core: Core) -> None:
        self._core = core

    def _use(self, address: str) -> tuple[Node, LogState]:
        node = self._core.catalogue.resolve(address)
        node.state.last_used = self._core.clock.now()
        return node, node.state.logs[node.sub_queue]

    # ---- looking

    async def peek(
        self, address: str, first: int, count: int, session_id: str | None, bytes_max: int
    ) -> list[Delivery]:
        if count <= 0:
            raise errors.out_of_range("message-count", "At least one message must be asked for.")
        _, state = self._use(address)
        count = min(count, peek_count_max)
        first = min(max(first, 0), number_max)

        async def body(tx: ReadTx) -> list[Row]:
            return await browsing.peek(tx, state.log, first, count, bytes_max, session_id)

        rows = await self._core.engine.read(body)
        return [delivery_of(number, message, None, None) for number, message in rows]

    # ---- locks

    async def renew_locks(self, address: str, tokens: Sequence[bytes]) -> list[Timestamp]:
        """All of them, or none if any is lost."""
        _, state = self._use(address)
        owner, now = state.owner, self._core.clock.now()
        if owner is None:
            raise errors.lock_lost()
        if any(owner.good_lock(token, now) is None for token in tokens):
            raise owner.lost()
        renewed = [owner.renew(token, now) for token in tokens]
        self._core.touch(state)
        return [until for until in renewed if until is not None]

    async def settle(
        self, address: str, tokens: Sequence[bytes], outcome: Outcome, session_id: str | None
    ) -> None:
        """All of them, or none if any lock is lost."""
        node, state = self._use(address)
        owner, now = state.owner, self._core.clock.now()
        if session_id is not None and node.requires_session:
            self._hold(state, session_id)
        if owner is None:
            raise errors.session_lost() if node.requires_session else errors.lock_lost()
        tokens = list(dict.fromkeys(tokens))
        for token in tokens:
            refusal = owner.refuse_settlement(token, outcome, now)
            if refusal is not None:
                raise refusal
        if isinstance(outcome, Release) or len(tokens) == 1:
            await self._settle_each(state, tokens, outcome, now)
        else:
            await self._settle_together(state, tokens, outcome, now)

    async def _settle_each(
        self, state: LogState, tokens: Sequence[bytes], outcome: Outcome, now: Timestamp
    ) -> None:
        assert state.owner is not None
        futures = []
        for token in tokens:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            futures.append(future)
            state.owner.settle(token, outcome, future, _resolve, now)
        self._core.touch(state)
        await asyncio.wait(futures)
        for future in futures:
            future.result()

    async def _settle_together(
        self, state: LogState, tokens: Sequence[bytes], outcome: Outcome, now: Timestamp
    ) -> None:
        core, owner = self._core, state.owner
        assert owner is not None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        locks = [owner.enlist(token, outcome, now) for token in tokens]
        steps: list[Operation] = []
        for lock in locks:
            lock.status = LockStatus.committing
            step = owner.settlement(lock, outcome)
            core.prepare(state, step)
            steps.append(step)

        def report(_: Any, results: Any, refusal: Refused | None, now: Timestamp) -> None:
            for index, lock in enumerate(locks):
                if refusal is None:
                    owner.ended(lock, results[index], now)
                else:
                    owner.roll_back(lock, now)
            _resolve(future, refusal)

        operation = Together(steps, report)
        operation.state = state
        core.submit(state.node.entity, operation)
        await future

    # ---- scheduled messages

    async def schedule(self, address: str, messages: Sequence[Message]) -> list[int]:
        return await send(self._core, self._core.catalogue.resolve(address), messages)

    async def cancel_scheduled(self, address: str, numbers: Sequence[int]) -> None:
        node, state = self._use(address)
        check_takes_sends(node)
        check_numbers(numbers)
        await self._core.perform(
            state.node.entity, lambda report: CancelScheduled(state.log, numbers, report)
        )

    # ---- deferred messages

    async def receive_deferred(
        self, address: str, numbers: Sequence[int], mode: ReceiveMode, session_id: str | None
    ) -> list[Delivery]:
        """All of them, or none if any is not there or somebody else has it."""
        node, state = self._use(address)
        check_gives_messages(node)
        if len(numbers) > deferred_count_max:
            raise errors.out_of_range(
                "sequence-numbers", f"At most {deferred_count_max} messages at a time."
            )
        if len(set(numbers)) != len(numbers):
            raise errors.argument("sequence-numbers", "A sequence number is given twice.")
        check_numbers(numbers)
        hold = None
        if node.requires_session:
            if session_id is None:
                raise Refused(errors.not_allowed, message="The session's id is required.")
            hold = self._hold(state, session_id)
        else:
            session_id = None
        owner = self._core.owner_of(state)
        if any(owner.is_taken_aside(number) for number in numbers):
            raise errors.no_such_message()
        if mode is ReceiveMode.receive_and_delete:
            return await self._take_deferred(state, numbers, session_id)

        async def body(tx: ReadTx) -> list[Row] | None:
            return await browsing.deferred(tx, state.log, numbers, session_id)

        rows = await self._core.engine.read(body)
        if rows is None or any(owner.is_taken_aside(number) for number in numbers):
            raise errors.no_such_message()
        if hold is not None and session_id is not None:
            hold = self._hold(state, session_id)  # it may have ended meanwhile
        now = self._core.clock.now()
        deliveries = owner.lock_aside(rows, hold.stream if hold is not None else None, now)
        self._core.touch(state)
        return deliveries

    async def _take_deferred(
        self, state: LogState, numbers: Sequence[int], session_id: str | None
    ) -> list[Delivery]:
        owner = self._core.owner_of(state)
        owner.aside_in_transit.update(numbers)
        try:
            rows: list[Row] = await self._core.perform(
                state.node.entity,
                lambda report: TakeDeferred(state.log, numbers, session_id, report),
            )
        finally:
            owner.aside_in_transit.difference_update(numbers)
        return [delivery_of(number, message, None, None) for number, message in rows]

    # ---- deleting many

    async def delete_messages(
        self, address: str, count: int, before: Timestamp, session_id: str | None
    ) -> int:
        node, state = self._use(address)
        core = self._core
        if not 1 <= count <= delete_count_max[core.tier]:
            raise errors.out_of_range("message-count", "The number of messages is out of range.")
        root = node.state.entity.root.description
        if getattr(root, "enable_partitioning", False):
            raise Refused(errors.not_allowed, message="A partitioned entity has no batch delete.")
        if isinstance(root, QueueDescription) or node.sub_queue is not SubQueue.active:
            check_gives_messages(node)
        owner = core.owner_of(state)
        skip = frozenset(owner.unavailable)
        owner.freeze()  # nothing is given away that may just be deleted
        removed: set[int] = set()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def report(_: Any, result: Any, refusal: Refused | None, now: Timestamp) -> None:
            removed.update(result or ())
            owner.thaw(removed, now)
            _resolve(future, refusal)

        operation = DeleteBatch(state.log, count, before, session_id, skip, report)
        operation.state = state
        core.submit(state.node.entity, operation)
        await future
        return len(removed)

    # ---- sessions

    def _hold(self, state: LogState, session_id: str) -> Hold:
        owner = self._core.owner_of(state)
        if not isinstance(owner, SessionOwner):
            raise Refused(errors.not_allowed, message="The entity does not require sessions.")
        return owner.held(session_id, self._core.clock.now())

    async def renew_session(self, address: str, session_id: str) -> Timestamp:
        _, state = self._use(address)
        self._hold(state, session_id)
        assert isinstance(state.owner, SessionOwner)
        until = state.owner.renew_session(session_id, self._core.clock.now())
        self._core.touch(state)
        return until

    async def session_state(self, address: str, session_id: str) -> bytes | None:
        _, state = self._use(address)
        self._hold(state, session_id)

        async def body(tx: ReadTx) -> bytes | None:
            return await browsing.session_state(tx, state.log, session_id)

        return await self._core.engine.read(body)

    async def set_session_state(self, address: str, session_id: str, value: bytes | None) -> None:
        node, state = self._use(address)
        self._hold(state, session_id)
        if value is not None and len(value) > node.message_bytes_max:
            raise Refused(errors.message_too_large, message="The session's state is too large.")
        await self._core.perform(
            state.node.entity, lambda report: SetSessionState(state.log, session_id, value, report)
        )

    async def list_sessions(
        self, address: str, updated_after: Timestamp | None, skip: int, top: int
    ) -> list[str]:
        node, state = self._use(address)
        if not node.requires_session:
            raise Refused(errors.not_allowed, message="The entity does not require sessions.")
        if skip < 0 or top < 0:
            raise errors.out_of_range("skip", "skip and top cannot be negative.")
        if top == 0:
            return []
        top = min(top, sessions_listed_max)

        async def body(tx: ReadTx) -> list[str]:
            return await browsing.list_sessions(tx, state.log, updated_after, skip, top)

        return await self._core.engine.read(body)


def _resolve(future: asyncio.Future[None], refusal: Refused | None) -> None:
    if future.done():
        return
    if refusal is None:
        future.set_result(None)
    else:
        future.set_exception(refusal)
