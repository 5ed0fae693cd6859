"""Reads the catalogue when the broker opens: entities, counters, and what is due first.

No message is read: how long the logs are does not matter.
"""

from typing import Final

from etagere.kv.contract import Partition, ReadTx
from etagere.services.bus import keys, records
from etagere.services.bus.catalogue import Entity, NodeState, make_node
from etagere.services.bus.core import Core, find_what_is_due
from etagere.services.bus.descriptions import Tier
from etagere.services.bus.records import EntityRecord, LogCounters, SubscriptionRecord
from etagere.services.bus.rules import RuleDescription

page_rows: Final = 500


async def load_catalogue(core: Core) -> list[tuple[int, int | None]]:
    """Fill the core's catalogue; what of deleted entities is still to be swept away."""

    async def body(tx: ReadTx) -> list[tuple[int, int | None]]:
        catalogue = keys.catalogue(core.namespace)
        for _, raw in await _all_rows(tx, catalogue, keys.entity_records()):
            entity = await _load_entity(core, tx, records.entities.decode(raw))
            core.catalogue.add_entity(entity)
        return [keys.doomed_of(key) for key, _ in await _all_rows(tx, catalogue, keys.all_doomed())]

    return await core.engine.read(body)


async def _all_rows(tx: ReadTx, part: Partition, span: keys.Range) -> list[tuple[bytes, bytes]]:
    begin, end = span
    found: list[tuple[bytes, bytes]] = []
    while True:
        rows = await tx.scan(part, begin, end, limit=page_rows)
        found.extend(rows)
        if len(rows) < page_rows:
            return found
        begin = rows[-1][0] + b"\0"


async def _load_entity(core: Core, tx: ReadTx, record: EntityRecord) -> Entity:
    part = keys.entity(core.namespace, record.id)
    entity = Entity(part, core.new_writer())
    entity.root = await _load_node(tx, entity, record, 0, {}, core.tier)
    for _, raw in await _all_rows(tx, part, keys.subscriptions()):
        child = records.subscriptions.decode(raw)
        rules: dict[str, RuleDescription] = {}
        for _, rule_raw in await _all_rows(tx, part, keys.rules(child.number)):
            rule = records.rules.decode(rule_raw)
            rules[rule.name.casefold()] = rule
        node = await _load_node(tx, entity, child, child.number, rules, core.tier)
        entity.subscriptions[child.description.name.casefold()] = node
    entity.root.renew_target()
    return entity


async def _load_node(
    tx: ReadTx,
    entity: Entity,
    record: EntityRecord | SubscriptionRecord,
    number: int,
    rules: dict[str, RuleDescription],
    tier: Tier,
) -> NodeState:
    first = number * keys.logs_per_node
    counters: dict[int, LogCounters] = {}
    for log in range(first, first + keys.logs_per_node):
        raw = await tx.get(entity.part, keys.counters(log))
        if raw is not None:
            counters[log] = records.counters.decode(raw)
    node = make_node(entity, record, rules, counters, tier, tx.now)
    for state in node.logs.values():
        await find_what_is_due(tx, state)
    return node
