"""Which entities there are: the store's catalogue as it is held in memory.

Only one process owns a namespace's entities at a time, so memory and store agree: a change is
written first and shown here when it is durable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from etagere.base.clock import Timestamp, timestamp_never
from etagere.kv.contract import Partition
from etagere.services.bus import errors, names
from etagere.services.bus.competing_owner import CompetingOwner
from etagere.services.bus.descriptions import (
    Description,
    SubscriptionDescription,
    Tier,
    TopicDescription,
    batch_bytes_max,
    entity_bytes_max,
    message_bytes_max,
    receives_allowed,
    sends_allowed,
)
from etagere.services.bus.gathered import Sends
from etagere.services.bus.ledger import Log
from etagere.services.bus.names import EntityKind, SubQueue
from etagere.services.bus.records import EntityRecord, LogCounters, SubscriptionRecord
from etagere.services.bus.rules import Rule, RuleDescription, compiled
from etagere.services.bus.session_owner import SessionOwner
from etagere.services.bus.topology import Reach, Target, logs_of, target_of

never: Final = timestamp_never

Owner = CompetingOwner | SessionOwner


class LogState:
    """A log as far as it is in memory."""

    __slots__ = (
        "counters",
        "expiry_cursor",
        "forwards",
        "housekeeping",
        "log",
        "next_due",
        "next_expiry",
        "next_hand_on",
        "next_purge",
        "node",
        "owner",
        "remembers_for",
        "sub_queue",
        "wake",
    )

    def __init__(self, node: "NodeState", sub_queue: SubQueue, counters: LogCounters) -> None:
        self.node = node
        self.sub_queue = sub_queue
        self.log: Log = node.target.log_of(sub_queue)
        self.counters = counters
        self.owner: Owner | None = None
        """Made when somebody first receives from it."""
        self.next_due: Timestamp = never
        """When the first scheduled message is due."""
        self.next_expiry: Timestamp = never
        """When the first message expires that no sweep has looked at."""
        self.next_hand_on: Timestamp = never
        """When messages of an entity that forwards should leave it."""
        self.next_purge: Timestamp = never
        """When ids for duplicate detection should be looked through."""
        self.expiry_cursor: bytes | None = None
        """Behind this row of the index no sweep has looked."""
        self.housekeeping = False
        """Whether a sweep is under way."""
        self.wake: Callable[[Timestamp], None] | None = None
        self.forwards = False
        self.remembers_for: int | None = None
        """How long ids are kept for duplicate detection, if they are."""
        self.refresh()

    def refresh(self) -> None:
        """After a change of the node's target."""
        active = self.sub_queue is SubQueue.active
        target = self.node.target
        self.forwards = active and target.forward_to is not None
        self.remembers_for = None
        if active and target.detects_duplicates:
            assert not isinstance(target.description, SubscriptionDescription)
            self.remembers_for = target.description.duplicate_window


class Admission(msgspec.Struct, frozen=True):
    """What sends are measured by."""

    sends_allowed: bool
    message_bytes_max: int
    batch_bytes_max: int
    entity_bytes_max: int
    """0 for subscriptions."""

    @staticmethod
    def of(description: Description, tier: Tier) -> "Admission":
        return Admission(
            sends_allowed(description),
            message_bytes_max(description, tier),
            batch_bytes_max(tier),
            0
            if isinstance(description, SubscriptionDescription)
            else entity_bytes_max(description, tier),
        )


class NodeState:
    """A queue, a topic or a subscription, and its logs."""

    __slots__ = (
        "admission",
        "created",
        "entity",
        "gathered_at",
        "gathering",
        "kind",
        "last_used",
        "links",
        "logs",
        "path",
        "record",
        "rules",
        "target",
        "tier",
    )

    def __init__(
        self,
        entity: "Entity",
        record: EntityRecord | SubscriptionRecord,
        target: Target,
        tier: Tier,
        now: Timestamp,
    ) -> None:
        self.tier = tier
        self.entity = entity
        self.record = record
        self.target = target
        self.path = target.path.casefold()
        self.admission = Admission.of(target.description, tier)
        self.rules: dict[str, tuple[RuleDescription, Rule]] = {}
        """By folded name."""
        self.logs: dict[SubQueue, LogState] = {}
        self.created = now
        """Here, not in the store: idleness counts from then on."""
        self.last_used: Timestamp = Timestamp(0)
        self.links: set[Any] = set()
        """Senders and receivers attached to it."""
        self.gathering: Sends | None = None
        """Sends that wait for their transaction, if it can still be added to."""
        self.gathered_at = -1
        """The writer's `takes` when it was begun."""
        if isinstance(record, SubscriptionRecord):
            self.kind = EntityKind.subscription
        elif isinstance(record.description, TopicDescription):
            self.kind = EntityKind.topic
        else:
            self.kind = EntityKind.queue

    @property
    def description(self) -> Description:
        return self.target.description

    def renew_target(self) -> None:
        """After a change of its record, its rules or its subscriptions."""
        old = self.target
        logs = (old.log, old.dead_letter, old.transfer_dead_letter)
        rules = (rule for _, rule in self.rules.values())
        self.target = _make_target(self.entity, self.record, logs, rules)
        self.admission = Admission.of(self.description, self.tier)


class Entity:
    """A queue or topic with what hangs on it: one partition."""

    __slots__ = (
        "_reach",
        "_reach_version",
        "bytes",
        "bytes_pending",
        "due",
        "part",
        "root",
        "subscriptions",
        "writer",
    )

    def __init__(self, part: Partition, writer: Any) -> None:
        self.part = part
        self.writer = writer
        self.root: NodeState
        self.subscriptions: dict[str, NodeState] = {}
        """By folded name."""
        self.bytes = 0
        """Of all its messages and session states."""
        self.bytes_pending = 0
        """Of sends that are on their way to the store."""
        self.due: Timestamp = never
        self._reach: dict[str, Reach] = {}
        self._reach_version = -1

    @property
    def nodes(self) -> Iterator[NodeState]:
        yield self.root
        yield from self.subscriptions.values()

    def reach_of(self, node: NodeState, catalogue: "Catalogue") -> Reach:
        if self._reach_version != catalogue.version:
            self._reach_version = catalogue.version
            self._reach = {}
        reach = self._reach.get(node.path)
        if reach is None:
            reach = self._reach[node.path] = catalogue.reach(node)
        if len(reach.parts) > 1:
            full = catalogue.full_among(reach)
            if full != reach.full:
                reach = self._reach[node.path] = msgspec.structs.replace(reach, full=full)
        return reach


class Node:
    """An address resolved: one log of a node, as frontends see it."""

    __slots__ = ("state", "sub_queue")

    def __init__(self, state: NodeState, sub_queue: SubQueue) -> None:
        self.state = state
        self.sub_queue = sub_queue

    @property
    def kind(self) -> EntityKind:
        return self.state.kind

    @property
    def path(self) -> str:
        """In the letters that the entity was created with, without the sub-queue."""
        return self.state.target.path

    @property
    def address(self) -> str:
        suffix = self.sub_queue.value
        return f"{self.path}/{suffix}" if suffix else self.path

    @property
    def description(self) -> Description:
        return self.state.description

    @property
    def requires_session(self) -> bool:
        """Of this very node: the sub-queues of a session entity are read without sessions."""
        return self.state.target.log_of(self.sub_queue).sessioned

    @property
    def message_bytes_max(self) -> int:
        return self.state.admission.message_bytes_max

    @property
    def batch_bytes_max(self) -> int:
        return self.state.admission.batch_bytes_max

    @property
    def sends_allowed(self) -> bool:
        return self.state.admission.sends_allowed

    @property
    def receives_allowed(self) -> bool:
        return receives_allowed(self.description)


class Catalogue:
    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self.version = 0
        """Changes with every change: what was derived from an older one is out of date."""
        self.entities: dict[str, Entity] = {}
        """By folded path."""
        self.by_part: dict[Partition, Entity] = {}
        self.logs: dict[Log, LogState] = {}

    # ---- looking up

    def find(self, path: str) -> NodeState | None:
        address = names.parse_address(path)
        entity = self.entities.get(address.entity)
        if entity is None:
            return None
        if address.subscription is None:
            return entity.root
        return entity.subscriptions.get(address.subscription)

    def resolve(self, address: str) -> Node:
        parsed = names.parse_address(address)
        state = self.find(address)
        if state is None or (
            state.kind is EntityKind.topic and parsed.sub_queue is SubQueue.dead_letter
        ):
            raise errors.entity_not_found(address)
        return Node(state, parsed.sub_queue)

    # ---- what can be reached

    def reach(self, start: NodeState) -> Reach:
        targets: dict[str, Target] = {}
        waiting = [start.path]
        while waiting:
            path = waiting.pop()
            node = self.find(path)
            if path in targets or node is None:
                continue
            target = targets[path] = node.target
            waiting.extend(target.subscriptions)
            waiting.extend(
                onward
                for onward in (target.forward_to, target.forward_dead_lettered_to)
                if onward is not None
            )
        parts = tuple(sorted({target.part for target in targets.values()}))
        return Reach(targets, parts)

    def full_among(self, reach: Reach) -> frozenset[str]:
        return frozenset(
            path
            for path in reach.targets
            if (entity := self.entities.get(path)) is not None and self.is_full(entity)
        )

    def is_full(self, entity: Entity, more: int = 0) -> bool:
        limit = entity.root.admission.entity_bytes_max
        return entity.bytes + entity.bytes_pending + more > limit

    # ---- changing

    def add_entity(self, entity: Entity) -> None:
        self.entities[entity.root.path] = entity
        self.by_part[entity.part] = entity
        for node in entity.nodes:
            self._add_logs(node)
        self.version += 1

    def remove_entity(self, entity: Entity) -> None:
        del self.entities[entity.root.path]
        del self.by_part[entity.part]
        for node in entity.nodes:
            self._remove_logs(node)
        self.version += 1

    def add_subscription(self, entity: Entity, name: str, node: NodeState) -> None:
        entity.subscriptions[name.casefold()] = node
        self._add_logs(node)
        self.renew_target(entity.root)

    def remove_subscription(self, node: NodeState) -> None:
        for name, state in list(node.entity.subscriptions.items()):
            if state is node:
                del node.entity.subscriptions[name]
        self._remove_logs(node)
        self.renew_target(node.entity.root)

    def _add_logs(self, node: NodeState) -> None:
        for state in node.logs.values():
            self.logs[state.log] = state
            node.entity.bytes += state.counters.bytes

    def _remove_logs(self, node: NodeState) -> None:
        for state in node.logs.values():
            if self.logs.pop(state.log, None) is not None:
                node.entity.bytes -= state.counters.bytes

    def renew_target(self, node: NodeState) -> None:
        """Work its `Target` out again, after something about it changed."""
        node.renew_target()
        self.version += 1


def _make_target(
    entity: Entity,
    record: EntityRecord | SubscriptionRecord,
    logs: tuple[Log, Log, Log],
    rules: Iterable[Rule],
) -> Target:
    if isinstance(record, SubscriptionRecord):
        topic = entity.root.target.path
        path = names.subscription_path(topic, record.description.name)
        return target_of(path, record.description, entity.part, logs, rules=tuple(rules))
    return target_of(
        record.description.name,
        record.description,
        entity.part,
        logs,
        subscriptions=tuple(node.path for node in entity.subscriptions.values()),
    )


def make_node(
    entity: Entity,
    record: EntityRecord | SubscriptionRecord,
    rules: Mapping[str, RuleDescription],
    counters: Mapping[int, LogCounters],
    tier: Tier,
    now: Timestamp,
) -> NodeState:
    """`counters` by log number; logs without are new."""
    made = {name: (rule, compiled(rule)) for name, rule in rules.items()}
    number = record.number if isinstance(record, SubscriptionRecord) else 0
    logs = logs_of(entity.part, number, record.description)
    target = _make_target(entity, record, logs, (rule for _, rule in made.values()))
    node = NodeState(entity, record, target, tier, now)
    node.rules = made
    for sub_queue in SubQueue:
        log = target.log_of(sub_queue)
        node.logs[sub_queue] = LogState(node, sub_queue, counters.get(log.number, LogCounters()))
    return node
