"""Transactions: sends and settlements over one entity that are applied whole or not at all.

What is enlisted is checked and buffered; a message whose settlement is enlisted stays locked until
the transaction ends, and a rollback gives back the lock with the time that it has left.  The
commit is one transaction of the store (Service Bus, transaction processing).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.services.bus import errors
from etagere.services.bus.catalogue import Entity, LogState, Node
from etagere.services.bus.core import Core, token_bytes
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.locks import Lock, LockStatus
from etagere.services.bus.log_operations import (
    CancelScheduled,
    DeadLetterTransfer,
    ReserveNumbers,
    ScheduleReserved,
    Surroundings,
    Together,
    check_numbers,
)
from etagere.services.bus.messages import Message, Outcome, Release
from etagere.services.bus.operations import Operation, Settle
from etagere.services.bus.sending import check_messages, check_room, check_takes_sends, new_send

messages_max: Final = 100
timeout_ticks: Final = seconds(120)
open_per_connection_max: Final = 100
id_bytes: Final = 16


def _ignore(*_arguments: Any) -> None:
    pass


def _look_at(future: asyncio.Future[None]) -> None:
    """Nobody may be waiting for it any more, and that is no fault."""
    if not future.cancelled():
        future.exception()


class _Enlisted:
    __slots__ = ("lock", "operation", "state")

    def __init__(self, state: LogState, lock: Lock, operation: Settle | None) -> None:
        self.state = state
        self.lock = lock
        self.operation = operation
        """None for a release, which changes nothing in the store."""


class Transaction:
    """What `broker.Transaction` promises."""

    def __init__(
        self, core: Core, transaction_id: bytes, forget: Callable[[], None], *, cross_entity: bool
    ) -> None:
        self.id = transaction_id
        self._core = core
        self._forget = forget
        self._cross_entity = cross_entity
        self._entity: Entity | None = None
        self._steps: list[Operation] = []
        self._enlisted: list[_Enlisted] = []
        self._count = 0
        self._pending: list[tuple[Entity, int]] = []
        self._over = False
        self._begun = False
        self._committed: asyncio.Future[None] | None = None

    # ---- enlisting

    def send(self, address: str, messages: Sequence[Message], *, via: str | None = None) -> None:
        core = self._core
        node = core.catalogue.resolve(address)
        check_takes_sends(node)
        if via is not None:
            through = core.catalogue.resolve(via)
            self._join(through)
            if not node.sends_allowed:
                self._send_to_transfer_dead_letter(through, node, messages)
                return
        elif not self._cross_entity or self._entity is None:
            self._join(node)
        now = core.clock.now()
        node.state.last_used = now
        size = check_messages(node.state, messages, core.codec, now)
        check_room(core, node.state, size)
        self._admit(len(messages))
        self._steps.append(new_send(core, node.state, messages, size, _ignore))
        self._take_room(node, size)

    def _send_to_transfer_dead_letter(
        self, through: Node, node: Node, messages: Sequence[Message]
    ) -> None:
        size = sum(message.size for message in messages)
        check_room(self._core, through.state, size)
        self._admit(len(messages))
        around = self._around(through)
        self._steps.append(DeadLetterTransfer(around, messages, node.path, _ignore))
        self._take_room(through, size)

    def _take_room(self, node: Node, size: int) -> None:
        node.state.entity.bytes_pending += size
        self._pending.append((node.state.entity, size))

    def settle(self, address: str, token: bytes, outcome: Outcome) -> None:
        self.settle_each(address, (token,), outcome)

    def settle_each(self, address: str, tokens: Sequence[bytes], outcome: Outcome) -> None:
        """All of them, or none if any cannot be settled so."""
        core = self._core
        node = core.catalogue.resolve(address)
        self._join(node)
        state = node.state.logs[node.sub_queue]
        owner = state.owner
        if owner is None:
            raise errors.session_lost() if node.requires_session else errors.lock_lost()
        now = core.clock.now()
        node.state.last_used = now
        tokens = list(dict.fromkeys(tokens))
        self._check_count(len(tokens))
        for token in tokens:
            refusal = owner.refuse_settlement(token, outcome, now)
            if refusal is not None:
                raise refusal
        self._admit(len(tokens))
        for token in tokens:
            lock = owner.enlist(token, outcome, now)
            operation = None
            if not isinstance(outcome, Release):
                operation = owner.settlement(lock, outcome)
                core.prepare(state, operation)
                self._steps.append(operation)
            self._enlisted.append(_Enlisted(state, lock, operation))

    async def schedule(self, address: str, messages: Sequence[Message]) -> list[int]:
        """The numbers are reserved now, and used when the transaction commits; numbers of one
        that does not are used by no message."""
        core = self._core
        node = core.catalogue.resolve(address)
        check_takes_sends(node)
        self._join(node)
        now = core.clock.now()
        size = check_messages(node.state, messages, core.codec, now)
        check_room(core, node.state, size)
        self._admit(len(messages))
        log = node.state.target.log
        numbers: list[int] = await core.perform(
            node.state.entity, lambda report: ReserveNumbers(log, len(messages), report)
        )
        self._check_open()
        self._steps.append(ScheduleReserved(self._around(node), messages, numbers, _ignore))
        self._take_room(node, size)
        return numbers

    def cancel_scheduled(self, address: str, numbers: Sequence[int]) -> None:
        node = self._core.catalogue.resolve(address)
        check_numbers(numbers)
        self._join(node)
        self._admit(len(numbers))
        self._steps.append(CancelScheduled(node.state.target.log, numbers, _ignore))

    def _around(self, node: Node) -> Surroundings:
        core = self._core
        reach = node.state.entity.reach_of(node.state, core.catalogue)
        return Surroundings(node.state.target, reach, core.codec, core.entropy.token(token_bytes))

    def _join(self, node: Node) -> None:
        """All of it belongs to one top-level entity, but for what is sent through that."""
        self._check_open()
        entity = node.state.entity
        if self._entity is None:
            self._entity = entity
        elif self._entity is not entity:
            raise Refused(
                errors.not_allowed,
                message="Local transactions cannot span multiple top-level entities such as queue "
                "or topic.",
            )

    def _check_open(self) -> None:
        if self._over:
            raise Refused(
                errors.unknown_transaction, message="The transaction is not known, or is over."
            )

    def _check_count(self, more: int) -> None:
        if self._count + more > messages_max:
            raise Refused(
                errors.quota_exceeded,
                message=f"A transaction takes at most {messages_max} messages.",
            )

    def _admit(self, more: int) -> None:
        self._check_open()
        self._check_count(more)
        self._count += more
        if not self._begun:
            self._begun = True
            core = self._core
            due = Timestamp(core.clock.now() + timeout_ticks)
            core.call_at(self, due, self._time_out)

    def _time_out(self, now: Timestamp) -> None:
        if not self._over:
            self._roll_back(now)

    # ---- the end

    async def commit(self) -> None:
        """Durable on return; a refusal means that nothing was applied and it is rolled back."""
        self._check_open()
        core = self._core
        for enlisted in self._enlisted:
            owner = enlisted.state.owner
            if owner is None or not owner.is_enlisted(enlisted.lock):
                refusal = owner.lost() if owner is not None else errors.lock_lost()
                self._roll_back(core.clock.now())
                raise refusal
        self._finish()
        if not self._steps:
            self._apply([])
            return
        assert self._entity is not None
        for enlisted in self._enlisted:
            enlisted.lock.status = LockStatus.committing
        self._committed = asyncio.get_running_loop().create_future()
        self._committed.add_done_callback(_look_at)
        core.submit(self._entity, Together(self._steps, self._report))
        await asyncio.shield(self._committed)

    def _report(
        self, _operation: Any, results: Any, refusal: Refused | None, now: Timestamp
    ) -> None:
        """Whether somebody still waits for it or not."""
        assert self._committed is not None
        if refusal is None:
            self._apply(results)
        else:
            self._undo(now)
        if self._committed.cancelled():
            return
        if refusal is None:
            self._committed.set_result(None)
        else:
            self._committed.set_exception(refusal)

    def _apply(self, results: Sequence[Any]) -> None:
        now = self._core.clock.now()
        self._release_room()
        by_step = {id(step): result for step, result in zip(self._steps, results, strict=True)}
        for enlisted in self._enlisted:
            owner = enlisted.state.owner
            assert owner is not None
            if enlisted.operation is None:
                owner.end_at_home(enlisted.lock, now)
            else:
                owner.ended(enlisted.lock, by_step[id(enlisted.operation)], now)
            self._core.touch(enlisted.state)

    def rollback(self) -> None:
        """Nothing happened; a second call, or one after the end, changes nothing."""
        if not self._over:
            self._roll_back(self._core.clock.now())

    def _roll_back(self, now: Timestamp) -> None:
        self._finish()
        self._undo(now)

    def _finish(self) -> None:
        self._over = True
        self._core.agenda.drop(self)
        self._forget()

    def _undo(self, now: Timestamp) -> None:
        self._release_room()
        for enlisted in self._enlisted:
            owner = enlisted.state.owner
            if owner is not None:
                owner.roll_back(enlisted.lock, now)
                self._core.touch(enlisted.state)

    def _release_room(self) -> None:
        for entity, size in self._pending:
            entity.bytes_pending -= size
        self._pending = []


class Transactions:
    """Those that are open, by the connection that began them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._open: dict[object, dict[bytes, Transaction]] = {}

    def begin(self, connection: object, *, cross_entity: bool) -> Transaction:
        core = self._core
        if core.tier is Tier.basic:
            raise errors.forbidden_in_tier("The basic tier has no transactions.")
        mine = self._open.setdefault(connection, {})
        if len(mine) >= open_per_connection_max:
            raise Refused(
                errors.quota_exceeded,
                message=f"A connection has at most {open_per_connection_max} open transactions.",
            )
        transaction_id = core.entropy.token(id_bytes)
        transaction = Transaction(
            core,
            transaction_id,
            partial(self._forget, connection, transaction_id),
            cross_entity=cross_entity,
        )
        mine[transaction_id] = transaction
        return transaction

    def find(self, connection: object, transaction_id: bytes) -> Transaction:
        transaction = self._open.get(connection, {}).get(transaction_id)
        if transaction is None:
            raise Refused(
                errors.unknown_transaction, message="The transaction is not known, or is over."
            )
        return transaction

    def connection_lost(self, connection: object) -> None:
        for transaction in list(self._open.get(connection, {}).values()):
            transaction.rollback()

    def _forget(self, connection: object, transaction_id: bytes) -> None:
        mine = self._open.get(connection)
        if mine is not None:
            mine.pop(transaction_id, None)
            if not mine:
                del self._open[connection]
