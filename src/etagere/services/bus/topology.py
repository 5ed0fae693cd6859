"""What a transaction has to know of the entities that it may put messages into.

A `Target` is a queue, topic or subscription at one moment; a `Reach` is what can be reached from
some of them by fan-out and forwarding.  Both are immutable: transaction bodies may be run on other
threads, and again from the start.
"""

from collections.abc import Mapping

import msgspec

from etagere.kv.contract import Partition
from etagere.services.bus import names
from etagere.services.bus.descriptions import (
    Description,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from etagere.services.bus.keys import logs_per_node
from etagere.services.bus.ledger import Log
from etagere.services.bus.names import SubQueue
from etagere.services.bus.rules import Rule


class Target(msgspec.Struct, frozen=True):
    path: str
    """In the letters it was created with."""
    description: Description
    part: Partition
    log: Log
    dead_letter: Log
    transfer_dead_letter: Log
    forward_to: str | None
    """Folded path."""
    forward_dead_lettered_to: str | None
    detects_duplicates: bool
    is_plain: bool
    """A queue whose messages need nothing but a row: the usual case, and the fast one."""
    rules: tuple[Rule, ...] = ()
    """Of a subscription."""
    subscriptions: tuple[str, ...] = ()
    """Folded paths of a topic's subscriptions."""

    @property
    def requires_session(self) -> bool:
        return self.log.sessioned

    def log_of(self, sub_queue: SubQueue) -> Log:
        match sub_queue:
            case SubQueue.active:
                return self.log
            case SubQueue.dead_letter:
                return self.dead_letter
            case SubQueue.transfer_dead_letter:
                return self.transfer_dead_letter


def logs_of(part: Partition, node: int, description: Description) -> tuple[Log, Log, Log]:
    """A node's own log, its dead-letter queue and its transfer dead-letter queue."""
    first = node * logs_per_node
    sessioned = not isinstance(description, TopicDescription) and description.requires_session
    return Log(part, first, sessioned=sessioned), Log(part, first + 1), Log(part, first + 2)


def target_of(
    path: str,
    description: Description,
    part: Partition,
    logs: tuple[Log, Log, Log],
    *,
    rules: tuple[Rule, ...] = (),
    subscriptions: tuple[str, ...] = (),
) -> Target:
    forward_to = _folded(getattr(description, "forward_to", None))
    detects_duplicates = (
        not isinstance(description, SubscriptionDescription)
        and description.requires_duplicate_detection
    )
    return Target(
        path,
        description,
        part,
        *logs,
        forward_to,
        _folded(getattr(description, "forward_dead_lettered_to", None)),
        detects_duplicates,
        isinstance(description, QueueDescription)
        and not logs[0].sessioned
        and forward_to is None
        and not detects_duplicates,
        rules,
        subscriptions,
    )


def _folded(target: str | None) -> str | None:
    return names.entity_path_of(target).casefold() if target else None


class Reach(msgspec.Struct, frozen=True):
    """Everything that messages put into some targets can end up in."""

    targets: Mapping[str, Target]
    """By folded path."""
    parts: tuple[Partition, ...]
    full: frozenset[str] = frozenset()
    """Folded paths of the queues and topics among them that have no room."""
