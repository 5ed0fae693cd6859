"""How a message finds its place: into a queue, out to subscriptions, on to forwarding targets.

All of it happens in one transaction, over every partition that the message can reach, so that a
send is acknowledged when all its copies are where they belong, and none is ever on its way.
What a send may be refused for is checked before; in here only what a refusal can still leave no
trace of raises, and whatever goes wrong further on dead-letters the message (Service Bus,
dead-letter queues; chaining entities with autoforwarding).
"""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from etagere.base.clock import ticks_per_millisecond, timestamp_never
from etagere.services.bus import errors, keys
from etagere.services.bus.actions import Changes
from etagere.services.bus.descriptions import (
    Description,
    SubscriptionDescription,
    TopicDescription,
    forever,
    sends_allowed,
)
from etagere.services.bus.ledger import Ledger, Log, inline_bytes_max
from etagere.services.bus.messages import Message, PropertyValue, SectionCodec
from etagere.services.bus.records import Rest, StoredMessage
from etagere.services.bus.rules import Rule
from etagere.services.bus.sql_evaluate import FilterFailed
from etagere.services.bus.subject import MessageSubject, field_of_system_property
from etagere.services.bus.topology import Reach, Target

hops_max: Final = 4
duplicates_dropped_per_send: Final = 4
"""Ids beyond the window that each new id removes: more than one, so that they run out."""
digest_bytes: Final = 16


class DeadLetterCause(msgspec.Struct, frozen=True):
    reason: str | None
    description: str | None


ttl_expired: Final = DeadLetterCause(
    "TTLExpiredException", "The message expired and was dead lettered."
)
headers_too_large: Final = DeadLetterCause(
    "HeaderSizeExceeded", "The size quota for this stream has been exceeded."
)
too_many_hops: Final = DeadLetterCause(
    "MaxTransferHopCountExceeded",
    "The maximum number of allowed hops when forwarding between queues has been exceeded. "
    "This value is set to 4.",
)
no_session: Final = DeadLetterCause(
    "Session ID is null.",
    "Session enabled entity doesn't allow a message whose session identifier is null.",
)


def deliveries_exceeded(deliveries_max: int) -> DeadLetterCause:
    return DeadLetterCause(
        "MaxDeliveryCountExceeded",
        f"Message could not be consumed after {deliveries_max} delivery attempts.",
    )


def forwarding_failed(path: str, why: str) -> DeadLetterCause:
    return DeadLetterCause(
        "AutoForwardingFailed", f"The message could not be forwarded to '{path}': {why}."
    )


class Depositor:
    """Puts messages into the targets of one `Reach`, within one run of a transaction's body."""

    __slots__ = ("_codec", "_copies", "_ledger", "_reach", "_seed", "_shared")

    def __init__(self, ledger: Ledger, reach: Reach, codec: SectionCodec, seed: bytes) -> None:
        self._ledger = ledger
        self._reach = reach
        self._codec = codec
        self._seed = seed
        self._shared: _SharedTail | None = None
        self._copies = 0

    async def send(self, target: Target, message: Message, reserved: int = 0) -> int:
        """The number that the message was given; 0 if it was a repeat, and dropped.

        `reserved` is the number of a message to be scheduled, if it has one already.
        """
        ledger = self._ledger
        if await ledger.open(target.log) is None:
            raise errors.entity_not_found(target.path)
        draft = self.draft(message)
        if target.detects_duplicates and await self._is_repeat(target, draft):
            return 0
        if message.scheduled_at is not None and message.scheduled_at > ledger.now:
            return ledger.schedule(target.log, draft, reserved)
        number = await self.place(target, draft)
        description = target.description
        if (
            isinstance(description, TopicDescription)
            and description.filtering_messages_before_publishing
            and not self._copies
        ):
            raise errors.no_matching_subscription()
        return number

    def draft(self, message: Message) -> StoredMessage:
        properties = self._codec.properties(message.tail)
        return StoredMessage(
            message.tail,
            message.header,
            message.delivery_annotations,
            message.annotations,
            message.size,
            self._ledger.now,
            0,
            0,
            0,
            properties.group_id,
            message.ttl_ms,
            message.partition_key,
            message.scheduled_at or 0,
            dead_letter_source=message.dead_letter_source,
        )

    async def place(self, target: Target, draft: StoredMessage) -> int:
        """Make `draft`, which is in no log, active at the target; its number there."""
        if isinstance(target.description, TopicDescription):
            return await self._publish(target, draft)
        return await self._arrive(target, draft)

    async def _arrive(self, target: Target, draft: StoredMessage) -> int:
        ledger = self._ledger
        begin_life(draft, ledger.now, target.description)
        if target.forward_to is not None:
            number = ledger.next_number(target.log)
            draft.enqueued_number = draft.enqueued_number or number
            await self.forward(target, draft)
            return number
        if target.requires_session and draft.session_id is None:
            number = ledger.next_number(target.log)
            draft.enqueued_number = draft.enqueued_number or number
            await self.dead_letter(target, draft, no_session)
            return number
        return await self._append(target.log, draft)

    async def _append(self, log: Log, draft: StoredMessage) -> int:
        shared = self._shared
        if shared is not None and draft.tail is shared.tail and log.part == shared.log.part:
            draft.rest = shared.hold(self._ledger)
        return await self._ledger.append(log, draft)

    # ---- topics

    async def _publish(self, topic: Target, draft: StoredMessage) -> int:
        ledger = self._ledger
        number = ledger.next_number(topic.log)
        draft.enqueued_number = draft.enqueued_number or number
        begin_life(draft, ledger.now, topic.description)
        outer = self._shared
        if len(draft.tail) > inline_bytes_max:
            draft.rest = None
            self._shared = _SharedTail(draft.tail, topic.log, number)
        subject = MessageSubject(draft, self._codec, self._seed)
        for path in topic.subscriptions:
            subscription = self._reach.targets[path]
            if await ledger.open(subscription.log) is not None:
                await self._offer(subscription, draft, subject)
        if self._shared is not None and self._shared is not outer:
            self._shared.settle(ledger)
        self._shared = outer
        return number

    async def _offer(
        self, subscription: Target, draft: StoredMessage, subject: MessageSubject
    ) -> None:
        """One copy for all rules without an action that match, one for each with an action."""
        plain = False
        failure: FilterFailed | None = None
        changed: list[StoredMessage] = []
        for rule in subscription.rules:
            if plain and rule.action is None:
                continue
            try:
                if not rule.matches(subject):
                    continue
                if rule.action is None:
                    plain = True
                else:
                    changed.append(
                        self._changed_by(rule, rule.action.apply(subject), draft, subject)
                    )
            except FilterFailed as failed:
                failure = failed
        self._copies += plain + len(changed)
        for copy in ([msgspec.structs.replace(draft)] if plain else []) + changed:
            await self._arrive(subscription, copy)
        description = subscription.description
        assert isinstance(description, SubscriptionDescription)
        if failure is not None and description.dead_letter_on_filter_failure:
            cause = DeadLetterCause("FilterException", str(failure))
            await self.dead_letter(subscription, msgspec.structs.replace(draft), cause)

    def _changed_by(
        self, rule: Rule, changes: Changes, draft: StoredMessage, subject: MessageSubject
    ) -> StoredMessage:
        copy = msgspec.structs.replace(draft, rest=None)
        system = dict(changes.system)
        ttl = system.pop("TimeToLive", None)
        if isinstance(ttl, timedelta):
            copy.ttl_ms = ttl // timedelta(milliseconds=1)
            begin_life(copy, self._ledger.now, None)
        properties: dict[str, str | None] = {}
        for name, value in system.items():
            assert value is None or isinstance(value, str)
            properties[field_of_system_property[name]] = value
        if "group_id" in properties:
            copy.session_id = properties["group_id"]
        removed = [name for name in subject.application if name.casefold() in changes.removed]
        application = {**changes.application, "RuleName": rule.name}
        replace_tail(
            copy,
            self._codec.change(
                copy.tail, application=application, removed=removed, properties=properties
            ),
        )
        return copy

    # ---- forwarding and dead-lettering

    async def forward(self, source: Target, draft: StoredMessage) -> None:
        """Hand `draft`, which is in no log and has its tail, on to where the source forwards."""
        path = source.forward_to
        assert path is not None
        draft.hops += 1
        if draft.hops > hops_max:
            await self.dead_letter(source, draft, too_many_hops)
            return
        target, why = await self._open_for_forwarding(path)
        if target is None:
            await self.dead_letter(source, draft, forwarding_failed(path, why))
            return
        await self.hand_on(target, draft)

    async def hand_on(self, target: Target, draft: StoredMessage) -> None:
        """As a send, from another entity."""
        draft.rest = None  # written again where it arrives
        draft.delivery_count = 0
        draft.expires_at = 0  # its time to live begins anew
        if draft.session_id is None:
            draft.session_id = self._codec.properties(draft.tail).group_id
        if target.detects_duplicates and await self._is_repeat(target, draft):
            return
        await self.place(target, draft)

    async def _open_for_forwarding(self, path: str) -> tuple[Target | None, str]:
        target = self._reach.targets.get(path)
        if target is None or await self._ledger.open(target.log) is None:
            return None, "the entity does not exist"
        if not sends_allowed(target.description):
            return None, "the entity is disabled"
        if path in self._reach.full:
            return None, "the entity is full"
        return target, ""

    async def dead_letter(
        self,
        source: Target,
        draft: StoredMessage,
        cause: DeadLetterCause,
        changes: Mapping[str, PropertyValue] | None = None,
        log: Log | None = None,
    ) -> None:
        """Put `draft`, which is in no log and has its tail, into the source's dead-letter queue.

        `log` is the transfer dead-letter queue if it belongs there.
        """
        application = dict(changes or {})
        if cause.reason is not None:
            application["DeadLetterReason"] = cause.reason
        if cause.description is not None:
            application["DeadLetterErrorDescription"] = cause.description
        if application:
            draft.rest = None
            replace_tail(draft, self._codec.change(draft.tail, application=application))
        draft.state = 0
        path = source.forward_dead_lettered_to
        if path is not None and log is None and draft.hops < hops_max:
            target, _ = await self._open_for_forwarding(path)
            if target is not None:
                draft.hops += 1
                draft.dead_letter_source = source.path
                await self.hand_on(target, draft)
                return
        # No time to live applies here, and nothing is dead-lettered from here.
        draft.expires_at = 0
        home = log or source.dead_letter
        if await self._ledger.open(home) is not None:
            await self._append(home, draft)

    # ---- duplicates

    async def _is_repeat(self, target: Target, draft: StoredMessage) -> bool:
        message_id = self._codec.properties(draft.tail).message_id
        if message_id is None:
            return False
        description = target.description
        assert not isinstance(description, SubscriptionDescription)
        text = message_id.encode("utf-8", "surrogatepass")
        if description.enable_partitioning:
            key = draft.session_id or draft.partition_key or ""
            text += b"\0" + key.encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=digest_bytes).digest()
        tx, log, now = self._ledger.tx, target.log, self._ledger.now
        start = now - description.duplicate_window
        await drop_old_duplicates(self._ledger, log, start, duplicates_dropped_per_send)
        key_of_id = keys.duplicate(log.number, digest)
        raw = await tx.get(log.part, key_of_id)
        if raw is not None:
            accepted_at = int.from_bytes(raw, "big")
            if accepted_at > start:
                return True
            tx.delete(log.part, keys.duplicate_age(log.number, accepted_at, digest))
        tx.put(log.part, key_of_id, now.to_bytes(8, "big"))
        tx.put(log.part, keys.duplicate_age(log.number, now, digest), b"")
        return False


class _SharedTail:
    """A long tail that copies in one partition refer to; written with the first of them."""

    __slots__ = ("_holders", "_rest", "log", "number", "tail")

    def __init__(self, tail: bytes, log: Log, number: int) -> None:
        self.tail = tail
        self.log = log
        self.number = number
        self._holders = 0
        self._rest: Rest | None = None

    def hold(self, ledger: Ledger) -> Rest:
        if self._rest is None:
            self._rest = ledger.write_rest(self.log, self.number, self.tail)
        self._holders += 1
        return self._rest

    def settle(self, ledger: Ledger) -> None:
        if self._rest is not None:
            ledger.share_rest(self.log.part, self._rest, self._holders)


async def drop_old_duplicates(ledger: Ledger, log: Log, start: int, limit: int) -> int:
    """Forget ids accepted at `start` or before; how many were found."""
    begin, end = keys.duplicates_until(log.number, max(0, start))
    rows = await ledger.tx.scan(log.part, begin, end, limit=limit)
    for key, _ in rows:
        ledger.tx.delete(log.part, key)
        ledger.tx.delete(log.part, keys.duplicate(log.number, keys.digest_of(key)))
    return len(rows)


def begin_life(draft: StoredMessage, now: int, description: Description | None) -> None:
    """Set when it was enqueued and when it expires: the shorter of its own and the default.

    Topic and subscription both apply, so an expiry that is there already can only come nearer.
    """
    draft.enqueued_at = now
    default = description.default_ttl if description is not None else forever
    ttl = default
    if draft.ttl_ms is not None:
        own = draft.ttl_ms * ticks_per_millisecond
        if default < own:
            draft.ttl_ms = default // ticks_per_millisecond
        ttl = min(own, default)
    expires_at = expiry_of(now, ttl)
    if expires_at:
        draft.expires_at = min(draft.expires_at or expires_at, expires_at)


def expiry_of(now: int, ttl: int) -> int:
    """When a life that begins now is over; 0 for never."""
    return min(now + ttl, timestamp_never) if ttl < forever else 0


def replace_tail(draft: StoredMessage, tail: bytes) -> None:
    draft.size += len(tail) - len(draft.tail)
    draft.tail = tail
