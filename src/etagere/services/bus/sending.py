"""Sends: what is checked before a message is taken, and how the sender hears of it.

The order of the checks is the service's: entity, status, size, then each message's session and
keys, then the quota.  What is refused here has cost the store nothing (Service Bus, quotas).
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.services.bus import errors
from etagere.services.bus.catalogue import Node, NodeState
from etagere.services.bus.core import Core, token_bytes
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.gathered import Sends
from etagere.services.bus.links import SenderSink
from etagere.services.bus.messages import Message, SectionCodec
from etagere.services.bus.names import EntityKind, SubQueue
from etagere.services.bus.operations import Report, Send
from etagere.services.bus.settlement import headers_bytes_max

key_chars_max: Final = 128
"""Of a message id, a session id and a partition key."""
property_bytes_max: Final = 32 * 1024
"""Of one application property's value (Service Bus quotas: each 32 KB, all headers 64 KB)."""
property_name_chars_max: Final = 32_767


def check_messages(
    node: NodeState, messages: Sequence[Message], codec: SectionCodec, now: Timestamp
) -> int:
    """The bytes of all of them; refused if any of them may not be sent to this entity."""
    admission = node.admission
    if not admission.sends_allowed:
        raise errors.disabled(node.target.path)
    size = 0
    for message in messages:
        size += message.size
    if size > admission.message_bytes_max or (
        len(messages) > 1 and size > admission.batch_bytes_max
    ):
        raise Refused(
            errors.message_too_large,
            message="The received message (or batch) is larger than the entity's limit.",
        )
    requires_session = node.target.requires_session
    for message in messages:
        if (
            message.scheduled_at is not None
            and node.tier is Tier.basic
            and message.scheduled_at > now
        ):
            raise errors.forbidden_in_tier("The basic tier has no scheduled messages.")
        if (
            requires_session
            or message.partition_key is not None
            or message.size > property_bytes_max
            or codec.properties_bytes(message.tail) > key_chars_max
        ):
            _check_keys(node, message, codec)
    return size


def _check_keys(node: NodeState, message: Message, codec: SectionCodec) -> None:
    headers_bytes = codec.headers_bytes(message.tail)
    if headers_bytes > headers_bytes_max:
        raise Refused(
            errors.message_too_large, message="The message's headers are larger than 64 KB."
        )
    if headers_bytes > min(property_bytes_max, property_name_chars_max):
        # Which error the service has for these is not documented: that of all headers together.
        chars, value_bytes = codec.largest_property(message.tail)
        if value_bytes > property_bytes_max:
            raise Refused(
                errors.message_too_large, message="A property of the message is larger than 32 KB."
            )
        if chars > property_name_chars_max:
            raise Refused(
                errors.message_too_large,
                message=f"A property's name is longer than {property_name_chars_max} characters.",
            )
    properties = codec.properties(message.tail)
    session_id, partition_key = properties.group_id, message.partition_key
    if node.target.requires_session and session_id is None:
        raise Refused(
            errors.not_allowed,
            message="The SessionId was not set on a message, and it cannot be sent to the entity. "
            "Entities that have session support enabled can only receive messages that have the "
            "SessionId set to a valid value.",
        )
    for name, value in (
        ("MessageId", properties.message_id),
        ("SessionId", session_id),
        ("PartitionKey", partition_key),
    ):
        if value is not None and len(value) > key_chars_max:
            raise errors.out_of_range(name, f"{name} is longer than {key_chars_max} characters.")
    if session_id is not None and partition_key is not None and session_id != partition_key:
        raise errors.argument(
            "PartitionKey", "PartitionKey and SessionId are both set, and differ."
        )


def check_room(core: Core, node: NodeState, size: int) -> None:
    if core.catalogue.is_full(node.entity, size):
        raise Refused(
            errors.quota_exceeded,
            message=f"The maximum entity size has been reached or exceeded for '"
            f"{node.entity.root.target.path}'.",
        )


def check_takes_sends(node: Node) -> None:
    """The address may be sent to at all."""
    if node.sub_queue is not SubQueue.active:
        raise Refused(errors.not_allowed, message="Messages cannot be sent to a sub-queue.")
    if node.kind is EntityKind.subscription:
        raise Refused(errors.not_allowed, message="Messages cannot be sent to a subscription.")


def new_send(
    core: Core,
    node: NodeState,
    messages: Sequence[Message],
    size: int,
    report: Report,
    ticket: Any = None,
) -> Send:
    reach = node.entity.reach_of(node, core.catalogue)
    plain = node.target.is_plain
    return Send(
        node.target,
        reach,
        messages,
        size + 256 * len(messages),
        core.codec,
        b"" if plain else core.entropy.token(token_bytes),
        report,
        ticket,
    )


class SenderLink:
    """What `links.Sender` promises."""

    __slots__ = ("_closed", "_core", "_sink", "node")

    def __init__(self, core: Core, node: Node, sink: SenderSink) -> None:
        self.node = node
        self._core = core
        self._sink = sink
        self._closed = False
        node.state.links.add(self)

    def send(self, messages: Sequence[Message], ticket: Any) -> None:
        core, state = self._core, self.node.state
        now = core.clock.now()
        state.last_used = now
        try:
            if self._closed:
                raise errors.entity_not_found(self.node.path)
            size = check_messages(state, messages, core.codec, now)
            check_room(core, state, size)
        except Refused as refusal:
            if ticket is not None:
                asyncio.get_running_loop().call_soon(self._sink.sent, ticket, refusal)
            return
        entity = state.entity
        entity.bytes_pending += size
        if not state.target.is_plain:
            core.submit(entity, new_send(core, state, messages, size, self._sent, (ticket, size)))
            return
        self._gathering().add(tuple(messages), size, (self, (ticket,), size))

    def send_each(
        self, messages: Sequence[Message], tickets: Sequence[Any], *, alike: bool
    ) -> None:
        core, state = self._core, self.node.state
        size = self._plain_size(messages, messages[:1] if alike else messages)
        if size < 0 or core.catalogue.is_full(state.entity, size):
            for message, ticket in zip(messages, tickets, strict=True):
                self.send((message,), ticket)
            return
        state.last_used = core.clock.now()
        state.entity.bytes_pending += size
        self._gathering().add_each(messages, size, (self, tickets, size))

    def _plain_size(self, messages: Sequence[Message], samples: Sequence[Message]) -> int:
        """The bytes of all of them; -1 if one of them needs a closer look than this.

        Of all but their sizes, `samples` say as much as all.
        """
        state = self.node.state
        if self._closed or not state.target.is_plain or not state.admission.sends_allowed:
            return -1
        sizes = [message.size for message in messages]
        if max(sizes) > min(state.admission.message_bytes_max, property_bytes_max):
            return -1
        properties_bytes = self._core.codec.properties_bytes
        for message in samples:
            if (
                message.scheduled_at is not None
                or message.partition_key is not None
                or properties_bytes(message.tail) > key_chars_max
            ):
                return -1
        return sum(sizes)

    def _gathering(self) -> Sends:
        """Sends that can still be added to."""
        state = self.node.state
        writer = state.entity.writer
        gathering = state.gathering
        if gathering is None or state.gathered_at != writer.takes or gathering.is_full:
            gathering = state.gathering = Sends(state.target, _sent_together)
            state.gathered_at = writer.takes
            self._core.submit(state.entity, gathering)
        return gathering

    def _sent(self, operation: Send, _numbers: Any, refusal: Refused | None, _now: Any) -> None:
        ticket, size = operation.ticket
        self.answer(ticket, size, refusal)

    def answer(self, ticket: Any, size: int, refusal: Refused | None) -> None:
        self.node.state.entity.bytes_pending -= size
        if ticket is not None:
            self._sink.sent(ticket, refusal)

    def answer_each(self, tickets: Sequence[Any], size: int, refusal: Refused | None) -> None:
        self.node.state.entity.bytes_pending -= size
        self._sink.sent_each(tickets, refusal)

    def close(self) -> None:
        self._closed = True
        self.node.state.links.discard(self)

    def detached(self, refusal: Refused) -> None:
        """The broker ends the link."""
        if not self._closed:
            self.close()
            self._sink.detached(refusal)


def _sent_together(operation: Sends, _: Any, refusal: Refused | None, _now: Any) -> None:
    for item in operation.items:
        link, tickets, size = item.ticket
        if item.apart:
            link.answer_each(tickets, size, refusal)
        else:
            link.answer(tickets[0], size, refusal)


async def send(core: Core, node: Node, messages: Sequence[Message]) -> list[int]:
    """Durable on return; the numbers that the messages were given."""
    check_takes_sends(node)
    state = node.state
    now = core.clock.now()
    state.last_used = now
    size = check_messages(state, messages, core.codec, now)
    check_room(core, state, size)
    state.entity.bytes_pending += size
    try:
        numbers: list[int] = await core.perform(
            state.entity, lambda report: new_send(core, state, messages, size, report)
        )
    finally:
        state.entity.bytes_pending -= size
    return numbers
