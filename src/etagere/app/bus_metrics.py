"""What Service Bus holds and who is connected to it, for metrics."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from etagere.app.metrics import gauge, heading, sample
from etagere.services.bus.administration import Administration, EntityInfo
from etagere.services.bus.names import EntityKind

entities_shown_max: Final = 1000
"""Clients make entities, and each one is several series."""
_states: Final = ("active", "dead_letter", "scheduled", "transfer", "transfer_dead_letter")


def bus_lines(administration: Administration, connections: int) -> Iterable[str]:
    yield from gauge("etagere_bus_connections", "AMQP connections.", connections)
    name = "etagere_bus_messages"
    yield from heading(name, "gauge", "Messages of an entity, by state.")
    for info in islice(_entities(administration), entities_shown_max):
        for state in _states:
            labels = {"entity": info.path, "state": state}
            yield sample(name, labels, getattr(info.counts, state))


def _entities(administration: Administration) -> Iterator[EntityInfo]:
    """Queues, then topics, each with its subscriptions."""
    yield from administration.list_entities(EntityKind.queue, skip=0, top=entities_shown_max)
    for topic in administration.list_entities(EntityKind.topic, skip=0, top=entities_shown_max):
        yield topic
        yield from administration.list_subscriptions(topic.path, skip=0, top=entities_shown_max)
