"""What time does to logs: scheduled messages become active, expired ones go, idle entities too.

Each log has one such step on its way at a time, of bounded size; while there is more to do the
next follows at once.  All moments are indexes in the store, so that a log costs nothing between
them, however long it is.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from etagere.base.clock import Timestamp, timestamp_never
from etagere.base.errors import Refused
from etagere.services.bus.administration import Administration
from etagere.services.bus.catalogue import LogState, NodeState
from etagere.services.bus.core import Core, retry_ticks, token_bytes
from etagere.services.bus.descriptions import SubscriptionDescription, forever
from etagere.services.bus.log_operations import (
    Activate,
    DropDuplicateIds,
    HandOn,
    Surroundings,
    Sweep,
)
from etagere.services.bus.operations import Operation
from etagere.services.bus.receiving import ReceiverLink

messages_per_step: Final = 250
duplicate_ids_per_step: Final = 1000


class Housekeeping:
    def __init__(self, core: Core, administration: Administration) -> None:
        self._core = core
        self._administration = administration
        core.housekeep = self.look

    def look(self, state: LogState, now: Timestamp) -> None:
        """Begin the step that is due, if any is and none is under way."""
        if state.housekeeping:
            return
        if state.next_due <= now:
            self._begin(state, self._activate)
        elif state.next_expiry <= now:
            self._begin(state, partial(self._sweep, now=now))
        elif state.next_hand_on <= now:
            self._begin(state, self._hand_on)
        elif state.next_purge <= now:
            self._begin(state, self._purge)

    def _begin(self, state: LogState, make: Callable[[LogState], Operation]) -> None:
        state.housekeeping = True
        operation = make(state)
        operation.state = state
        self._core.submit(state.node.entity, operation)

    def _over(self, state: LogState, refusal: Refused | None, now: Timestamp) -> None:
        """The step has its result; what is due next is seen when effects are settled."""
        state.housekeeping = False
        if refusal is not None:
            again = Timestamp(now + retry_ticks)
            state.next_due = _not_before(state.next_due, again)
            state.next_expiry = _not_before(state.next_expiry, again)
            state.next_purge = _not_before(state.next_purge, again)
            state.next_hand_on = _not_before(state.next_hand_on, again)

    def _surroundings(self, state: LogState) -> Surroundings:
        core = self._core
        reach = state.node.entity.reach_of(state.node, core.catalogue)
        return Surroundings(state.node.target, reach, core.codec, core.entropy.token(token_bytes))

    # ---- scheduled messages

    def _activate(self, state: LogState) -> Operation:
        state.next_due = timestamp_never  # those scheduled meanwhile will lower it again

        def report(_: Any, due: int | None, refusal: Refused | None, now: Timestamp) -> None:
            if refusal is not None:
                state.next_due = now
            elif due is not None:
                state.next_due = Timestamp(min(state.next_due, due))
            self._over(state, refusal, now)

        return Activate(self._surroundings(state), messages_per_step, report)

    # ---- expired messages

    def _sweep(self, state: LogState, now: Timestamp) -> Operation:
        owner = state.owner
        skip = frozenset(owner.unavailable) if owner is not None else frozenset()
        state.next_expiry = timestamp_never

        def report(_: Any, result: Any, refusal: Refused | None, now: Timestamp) -> None:
            if refusal is not None:
                state.next_expiry = now
            else:
                removed, state.expiry_cursor, following = result
                if following is not None:
                    state.next_expiry = Timestamp(min(state.next_expiry, following))
                if owner is not None and removed:
                    owner.swept(removed)
            self._over(state, refusal, now)

        # Whoever is given a message from now on looks at its expiry first, with a later time.
        return Sweep(
            self._surroundings(state), state.expiry_cursor, now, skip, messages_per_step, report
        )

    # ---- entities that begin to forward

    def _hand_on(self, state: LogState) -> Operation:
        owner = state.owner
        # Locked ones are left to be settled, and handed on when they come back.
        skip = frozenset(owner.unavailable) if owner is not None else frozenset()
        state.next_hand_on = timestamp_never
        if owner is not None:
            owner.freeze()

        def report(_: Any, left: Any, refusal: Refused | None, now: Timestamp) -> None:
            if refusal is not None:
                state.next_hand_on = now
            if owner is not None:
                owner.thaw(left or set(), now)
            self._over(state, refusal, now)

        return HandOn(self._surroundings(state), skip, messages_per_step, report)

    # ---- ids for duplicate detection

    def _purge(self, state: LogState) -> Operation:
        description = state.node.description
        assert not isinstance(description, SubscriptionDescription)
        state.next_purge = timestamp_never

        def report(_: Any, due: int | None, refusal: Refused | None, now: Timestamp) -> None:
            if refusal is not None:
                state.next_purge = now
            elif due is not None:
                state.next_purge = Timestamp(due)
            self._over(state, refusal, now)

        return DropDuplicateIds(
            state.log, description.duplicate_window, duplicate_ids_per_step, report
        )

    # ---- idle entities

    def watch_idleness(self, node: NodeState) -> None:
        """Have the node looked at when it could have been idle for long enough."""
        due = idle_at(node)
        self._core.call_at(("idle", node), due, partial(self._look_idle, node))

    def _look_idle(self, node: NodeState, now: Timestamp) -> None:
        core = self._core
        if core.catalogue.find(node.path) is not node:
            return
        if in_use(node):
            node.last_used = now
        if idle_at(node) > now:
            self.watch_idleness(node)
        else:
            core.spawn(self._delete_idle(node))

    async def _delete_idle(self, node: NodeState) -> None:
        with suppress(Refused):  # somebody else deleted it
            await self._administration.delete(node.path)


def idle_at(node: NodeState) -> Timestamp:
    """When the node will have been idle for as long as it may be."""
    period = node.description.auto_delete_on_idle
    if period >= forever or node.target.forward_to is not None:
        return timestamp_never  # who only hands on is never idle
    since = max(used.last_used for used in _with_subscriptions(node))
    return Timestamp(min(max(since, node.created) + period, timestamp_never))


def in_use(node: NodeState) -> bool:
    """Whether a receiver is attached, or a message scheduled: then time does not count."""
    if any(state.counters.scheduled for state in node.logs.values()):
        return True
    return any(
        isinstance(link, ReceiverLink) for used in _with_subscriptions(node) for link in used.links
    )


def _with_subscriptions(node: NodeState) -> list[NodeState]:
    """What is done with its subscriptions is done with a topic."""
    return list(node.entity.nodes) if node is node.entity.root else [node]


def _not_before(due: Timestamp, again: Timestamp) -> Timestamp:
    return due if due >= timestamp_never else max(due, again)
