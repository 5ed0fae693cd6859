"""Entities and rules: created, updated, listed, deleted.

One change at a time: the store is written first, and memory follows when that is durable.  What a
deleted entity leaves behind is out of reach at once and swept away afterwards, a bit at a time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kv.contract import Partition, Tx
from etagere.services.bus import errors, keys, names, records
from etagere.services.bus.catalogue import (
    Entity,
    LogState,
    NodeState,
    make_node,
)
from etagere.services.bus.core import Core
from etagere.services.bus.descriptions import (
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
    checked,
    checked_update,
    receives_allowed,
)
from etagere.services.bus.ledger import Ledger
from etagere.services.bus.names import EntityKind, SubQueue
from etagere.services.bus.receiving import ReceiverLink
from etagere.services.bus.records import (
    EntityRecord,
    LogCounters,
    SubscriptionRecord,
)
from etagere.services.bus.rules import (
    CorrelationRuleFilter,
    RuleDescription,
    SqlFilter,
    compiled,
    default_rule,
)

entities_max: Final = {Tier.basic: 10_000, Tier.standard: 10_000, Tier.premium: 1_000}
subscriptions_max: Final = 2_000
sql_rules_per_topic_max: Final = 2_000
correlation_rules_per_topic_max: Final = 100_000

Top = TypeVar("Top", bound=QueueDescription | TopicDescription)


class Counts(msgspec.Struct, frozen=True):
    active: int
    """With locked and deferred ones."""
    dead_letter: int
    scheduled: int
    transfer: int
    transfer_dead_letter: int

    @property
    def all(self) -> int:
        return (
            self.active
            + self.dead_letter
            + self.scheduled
            + self.transfer
            + self.transfer_dead_letter
        )


class EntityInfo(msgspec.Struct, frozen=True):
    """An entity as the administration API shows it."""

    description: QueueDescription | TopicDescription | SubscriptionDescription
    path: str
    created_at: Timestamp
    updated_at: Timestamp
    accessed_at: Timestamp
    """0 until it is first used."""
    size_bytes: int
    counts: Counts
    subscriptions: int = 0
    sql_filters: int = 0
    correlation_filters: int = 0


class Administration:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = asyncio.Lock()
        self.watch_idleness: Callable[[NodeState], None] = lambda _node: None

    # ---- queues and topics

    async def create(self, description: Top) -> EntityInfo:
        core = self._core
        description = checked(description, core.tier)
        async with self._lock:
            folded = description.name.casefold()
            if folded in core.catalogue.entities:
                raise _exists(description.name)
            if len(core.catalogue.entities) >= entities_max[core.tier]:
                raise Refused(
                    errors.quota_exceeded, message="The namespace has as many entities as it may."
                )
            self._check_forwarding(description, new_path=description.name)
            entity_id = int.from_bytes(core.entropy.token(8), "big") >> 1
            record = EntityRecord(id=entity_id, description=description, created_at=0, updated_at=0)
            part = keys.entity(core.namespace, entity_id)
            catalogue = keys.catalogue(core.namespace)

            async def body(tx: Tx) -> Timestamp:
                new = msgspec.structs.replace(record, created_at=tx.now, updated_at=tx.now)
                tx.put(catalogue, keys.entity_record(folded), records.entities.encode(new))
                _put_counters(tx, part, 0)
                return tx.now

            now = await core.engine.write((catalogue, part), body)
            record.created_at = record.updated_at = now
            entity = Entity(part, core.new_writer())
            entity.root = make_node(entity, record, {}, {}, core.tier, now)
            core.catalogue.add_entity(entity)
            self.watch(entity.root)
            return info_of(entity.root)

    async def update(self, description: Top) -> EntityInfo:
        async with self._lock:
            node = self._top(description.name, type(description))
            record = node.record
            assert isinstance(record, EntityRecord)
            old = record.description
            assert isinstance(old, type(description))
            new = checked_update(old, description, self._core.tier)
            self._check_forwarding(new)
            await self._put_entity(node, msgspec.structs.replace(record, description=new))
            self._updated(node)
            return info_of(node)

    async def _put_entity(self, node: NodeState, record: EntityRecord) -> None:
        core = self._core
        catalogue = keys.catalogue(core.namespace)

        async def body(tx: Tx) -> Timestamp:
            new = msgspec.structs.replace(record, updated_at=tx.now)
            key = keys.entity_record(node.path)
            tx.put(catalogue, key, records.entities.encode(new))
            return tx.now

        record.updated_at = await core.engine.write((catalogue,), body)
        node.record = record

    async def delete(self, path: str) -> None:
        """A queue, a topic with its subscriptions, or a subscription."""
        async with self._lock:
            node = self._find(path)
            if node.kind is EntityKind.subscription:
                await self._delete_subscription(node)
            else:
                await self._delete_entity(node.entity)

    async def _delete_entity(self, entity: Entity) -> None:
        core = self._core
        record = entity.root.record
        assert isinstance(record, EntityRecord)
        catalogue = keys.catalogue(core.namespace)
        logs = [state.log.number for node in entity.nodes for state in node.logs.values()]

        async def body(tx: Tx) -> None:
            tx.delete(catalogue, keys.entity_record(entity.root.path))
            tx.put(catalogue, keys.doomed(record.id), b"")
            for log in logs:
                tx.delete(entity.part, keys.counters(log))

        await core.engine.write((catalogue, entity.part), body)
        core.catalogue.remove_entity(entity)
        for node in entity.nodes:
            self._detach_all(node)
        core.spawn(sweep_away(core, record.id))

    # ---- subscriptions

    async def create_subscription(
        self,
        topic: str,
        description: SubscriptionDescription,
        rule: RuleDescription = default_rule,
    ) -> EntityInfo:
        core = self._core
        description = checked(description, core.tier)
        async with self._lock:
            root = self._top(topic, TopicDescription)
            entity, folded = root.entity, description.name.casefold()
            path = names.subscription_path(root.target.path, description.name)
            if folded in entity.subscriptions:
                raise _exists(path)
            if len(entity.subscriptions) >= subscriptions_max:
                raise Refused(
                    errors.quota_exceeded, message="The topic has as many subscriptions as it may."
                )
            self._check_forwarding(description, new_path=path)
            compiled(rule)
            if isinstance(rule.filter, SqlFilter | CorrelationRuleFilter):
                # The rule that takes everything, which it has otherwise, is never one too many.
                self._check_rule_quota(entity, rule)
            record = root.record
            assert isinstance(record, EntityRecord)
            number = record.nodes
            new_record = msgspec.structs.replace(record, nodes=number + 1)
            child = SubscriptionRecord(
                number=number, description=description, created_at=0, updated_at=0
            )
            catalogue = keys.catalogue(core.namespace)

            async def body(tx: Tx) -> Timestamp:
                new = msgspec.structs.replace(child, created_at=tx.now, updated_at=tx.now)
                part = entity.part
                key = keys.entity_record(root.path)
                tx.put(catalogue, key, records.entities.encode(new_record))
                tx.put(part, keys.subscription(folded), records.subscriptions.encode(new))
                _put_rule(tx, part, number, rule)
                _put_counters(tx, part, number)
                return tx.now

            now = await core.engine.write((catalogue, entity.part), body)
            child.created_at = child.updated_at = now
            root.record = new_record
            rule = msgspec.structs.replace(rule, created_at=now)
            node = make_node(entity, child, {rule.name.casefold(): rule}, {}, core.tier, now)
            core.catalogue.add_subscription(entity, description.name, node)
            self.watch(node)
            return info_of(node)

    async def update_subscription(
        self, topic: str, description: SubscriptionDescription
    ) -> EntityInfo:
        core = self._core
        async with self._lock:
            node = self._subscription(topic, description.name)
            record = node.record
            assert isinstance(record, SubscriptionRecord)
            new = checked_update(record.description, description, core.tier)
            self._check_forwarding(new)
            changed = msgspec.structs.replace(record, description=new)
            part = node.entity.part

            async def body(tx: Tx) -> Timestamp:
                row = msgspec.structs.replace(changed, updated_at=tx.now)
                key = keys.subscription(new.name.casefold())
                tx.put(part, key, records.subscriptions.encode(row))
                return tx.now

            changed.updated_at = await core.engine.write((part,), body)
            node.record = changed
            self._updated(node)
            return info_of(node)

    async def _delete_subscription(self, node: NodeState) -> None:
        core = self._core
        record, root = node.record, node.entity.root.record
        assert isinstance(record, SubscriptionRecord)
        assert isinstance(root, EntityRecord)
        part, catalogue = node.entity.part, keys.catalogue(core.namespace)
        number = record.number

        async def body(tx: Tx) -> None:
            tx.delete(part, keys.subscription(record.description.name.casefold()))
            tx.put(catalogue, keys.doomed_node(root.id, number), b"")
            for rule in node.rules:
                tx.delete(part, keys.rule(number, rule))
            for state in node.logs.values():
                tx.delete(part, keys.counters(state.log.number))

        await core.engine.write((catalogue, part), body)
        core.catalogue.remove_subscription(node)
        self._detach_all(node)
        core.spawn(sweep_away(core, root.id, number))

    # ---- rules

    async def add_rule(
        self, topic: str, subscription: str, rule: RuleDescription
    ) -> RuleDescription:
        async with self._lock:
            node = self._subscription(topic, subscription)
            folded = rule.name.casefold()
            ready = compiled(rule)
            if folded in node.rules:
                raise Refused(
                    errors.entity_exists,
                    {"Entity": rule.name},
                    message=f"The rule '{rule.name}' already exists.",
                )
            self._check_rule_quota(node.entity, rule)
            rule = await self._put_rule(node, rule)
            node.rules[folded] = (rule, ready)
            self._core.catalogue.renew_target(node)
            return rule

    async def update_rule(
        self, topic: str, subscription: str, rule: RuleDescription
    ) -> RuleDescription:
        async with self._lock:
            node = self._subscription(topic, subscription)
            folded = rule.name.casefold()
            if folded not in node.rules:
                raise errors.entity_not_found(rule.name)
            old = node.rules[folded][0]
            rule = msgspec.structs.replace(rule, name=old.name)
            ready = compiled(rule)
            if _is_correlation(rule) is not _is_correlation(old):
                self._check_rule_quota(node.entity, rule)
            rule = await self._put_rule(node, rule)
            node.rules[folded] = (rule, ready)
            self._core.catalogue.renew_target(node)
            return rule

    async def _put_rule(self, node: NodeState, rule: RuleDescription) -> RuleDescription:
        record, part = node.record, node.entity.part
        assert isinstance(record, SubscriptionRecord)

        async def body(tx: Tx) -> Timestamp:
            _put_rule(tx, part, record.number, rule)
            return tx.now

        now = await self._core.engine.write((part,), body)
        return msgspec.structs.replace(rule, created_at=now)

    async def remove_rule(self, topic: str, subscription: str, name: str) -> None:
        async with self._lock:
            node = self._subscription(topic, subscription)
            record, part = node.record, node.entity.part
            assert isinstance(record, SubscriptionRecord)
            folded = name.casefold()
            if folded not in node.rules:
                raise errors.entity_not_found(name)

            async def body(tx: Tx) -> None:
                tx.delete(part, keys.rule(record.number, folded))

            await self._core.engine.write((part,), body)
            del node.rules[folded]
            self._core.catalogue.renew_target(node)

    def rules(self, topic: str, subscription: str) -> list[RuleDescription]:
        """By name; `$Default` comes first by itself."""
        node = self._subscription(topic, subscription)
        return [node.rules[name][0] for name in sorted(node.rules)]

    def _check_rule_quota(self, entity: Entity, rule: RuleDescription) -> None:
        correlation = _is_correlation(rule)
        sql, correlated = _filter_counts(entity)
        most = correlation_rules_per_topic_max if correlation else sql_rules_per_topic_max
        if (correlated if correlation else sql) >= most:
            raise Refused(errors.quota_exceeded, message="The topic has as many filters as it may.")

    # ---- looking

    def get(self, path: str) -> EntityInfo:
        return info_of(self._find(path))

    def list_entities(self, kind: EntityKind, *, skip: int, top: int) -> list[EntityInfo]:
        """Queues or topics by name."""
        entities = self._core.catalogue.entities
        chosen = [path for path in sorted(entities) if entities[path].root.kind is kind]
        return [info_of(entities[path].root) for path in chosen[skip : skip + top]]

    def list_subscriptions(self, topic: str, *, skip: int, top: int) -> list[EntityInfo]:
        subscriptions = self._top(topic, TopicDescription).entity.subscriptions
        chosen = sorted(subscriptions)[skip : skip + top]
        return [info_of(subscriptions[name]) for name in chosen]

    def _find(self, path: str) -> NodeState:
        node = self._core.catalogue.find(path)
        if node is None:
            raise errors.entity_not_found(path)
        return node

    def _top(self, path: str, kind: type) -> NodeState:
        entity = self._core.catalogue.entities.get(path.strip("/").casefold())
        if entity is None or not isinstance(entity.root.description, kind):
            raise errors.entity_not_found(path)
        return entity.root

    def _subscription(self, topic: str, name: str) -> NodeState:
        root = self._top(topic, TopicDescription)
        node = root.entity.subscriptions.get(name.casefold())
        if node is None:
            raise errors.entity_not_found(names.subscription_path(topic, name))
        return node

    # ---- consequences

    def _check_forwarding(
        self,
        description: QueueDescription | TopicDescription | SubscriptionDescription,
        new_path: str = "",
    ) -> None:
        """Targets exist, and a new entity (of this path) is not its own.

        One that is there already may forward to itself; hops are limited.
        """
        for field in ("forward_to", "forward_dead_lettered_to"):
            target = getattr(description, field, None)
            if target is None:
                continue
            target = names.entity_path_of(target)
            if target.casefold() == new_path.casefold():
                raise errors.argument(field, "An entity cannot forward to itself.")
            if target.casefold() not in self._core.catalogue.entities:
                raise errors.entity_not_found(target)

    def watch(self, node: NodeState) -> None:
        """Have its housekeeping called when it is due."""
        for state in node.logs.values():
            self._core.reschedule(state)
        self.watch_idleness(node)

    def _updated(self, node: NodeState) -> None:
        """An update releases every lock, and takes effect for whoever is attached."""
        core = self._core
        now = core.clock.now()
        core.catalogue.renew_target(node)
        may_receive = receives_allowed(node.description)
        for state in node.logs.values():
            state.refresh()
            if state.forwards and state.counters.active:
                state.next_hand_on = now
            if state.owner is not None:
                state.owner.enabled = may_receive
                state.owner.reconfigured(node.target, now)
                core.touch(state)
            core.reschedule(state)
        self.watch_idleness(node)
        if not may_receive:
            self._detach_receivers(node, errors.disabled(node.target.path), None)
        elif node.target.forward_to is not None:
            refusal = Refused(errors.not_allowed, message="The entity forwards its messages now.")
            self._detach_receivers(node, refusal, SubQueue.active)

    def _detach_receivers(
        self, node: NodeState, refusal: Refused, sub_queue: SubQueue | None
    ) -> None:
        for link in list(node.links):
            if isinstance(link, ReceiverLink) and sub_queue in (None, link.node.sub_queue):
                link.detached(refusal)

    def _detach_all(self, node: NodeState) -> None:
        refusal = errors.entity_not_found(node.target.path)
        for link in list(node.links):
            link.detached(refusal)
        for state in node.logs.values():
            self._core.agenda.drop(state)


def _exists(path: str) -> Refused:
    return Refused(
        errors.entity_exists,
        {"Entity": path},
        message=f"The messaging entity '{path}' already exists.",
    )


def _put_counters(tx: Tx, part: Partition, node: int) -> None:
    for index in range(len(SubQueue)):
        key = keys.counters(node * keys.logs_per_node + index)
        tx.put(part, key, records.counters.encode(LogCounters()))


def _put_rule(tx: Tx, part: Partition, number: int, rule: RuleDescription) -> None:
    stamped = msgspec.structs.replace(rule, created_at=tx.now)
    tx.put(part, keys.rule(number, rule.name.casefold()), records.rules.encode(stamped))


def _is_correlation(rule: RuleDescription) -> bool:
    return isinstance(rule.filter, CorrelationRuleFilter)


def _filter_counts(entity: Entity) -> tuple[int, int]:
    sql = correlation = 0
    for node in entity.subscriptions.values():
        for rule, _ in node.rules.values():
            if _is_correlation(rule):
                correlation += 1
            else:
                sql += 1
    return sql, correlation


def info_of(node: NodeState) -> EntityInfo:
    main = node.logs[SubQueue.active].counters
    counts = Counts(
        active=main.active + main.deferred,
        dead_letter=_held(node.logs[SubQueue.dead_letter]),
        scheduled=main.scheduled,
        transfer=0,
        transfer_dead_letter=_held(node.logs[SubQueue.transfer_dead_letter]),
    )
    entity = node.entity
    is_topic = node.kind is EntityKind.topic
    sql, correlation = _filter_counts(entity) if is_topic else (0, 0)
    size = entity.bytes if is_topic else sum(s.counters.bytes for s in node.logs.values())
    accessed = max((state.counters.accessed_at for state in node.logs.values()), default=0)
    return EntityInfo(
        node.description,
        node.target.path,
        Timestamp(node.record.created_at),
        Timestamp(node.record.updated_at),
        Timestamp(max(accessed, node.last_used)),
        size,
        counts,
        len(entity.subscriptions) if is_topic else 0,
        sql,
        correlation,
    )


def _held(state: LogState) -> int:
    return state.counters.active + state.counters.deferred


# ---- what is left of deleted entities

rows_swept_at_once: Final = 500


async def sweep_away(core: Core, entity_id: int, node: int | None = None) -> None:
    """Remove the rows of a deleted entity, or of a deleted subscription, and then their marker."""
    part = keys.entity(core.namespace, entity_id)
    catalogue = keys.catalogue(core.namespace)
    marker = keys.doomed(entity_id) if node is None else keys.doomed_node(entity_id, node)
    ranges: Sequence[keys.Range]
    if node is None:
        ranges = [keys.everything()]
    else:
        first = node * keys.logs_per_node
        ranges = [keys.log_range(log) for log in range(first, first + keys.logs_per_node)]
    for begin, end in ranges:
        more = True
        while more and not core.closed:
            more = await _sweep_rows(core, part, begin, end, node is not None)
            await asyncio.sleep(0)  # others first

    async def forget(tx: Tx) -> None:
        tx.delete(catalogue, marker)

    if not core.closed:
        await core.engine.write((catalogue,), forget)


async def _sweep_rows(
    core: Core, part: Partition, begin: bytes, end: bytes, shares_rests: bool
) -> bool:
    async def body(tx: Tx) -> bool:
        ledger = Ledger(tx)
        rows = await tx.scan(part, begin, end, limit=rows_swept_at_once)
        for key, raw in rows:
            if shares_rests and keys.is_message(key):
                rest = records.messages.decode(raw).rest
                if rest is not None:
                    await ledger.release_rest(part, rest)
            tx.delete(part, key)
        return len(rows) == rows_swept_at_once

    return await core.engine.write((part,), body)
