"""Names and addresses of entities: what may be one, and what an address says.

Names compare without regard to case and keep the case they were created with.
"""

import re
from enum import Enum
from typing import Final

import msgspec

from etagere.services.bus import errors

entity_name_chars_max: Final = 260
child_name_chars_max: Final = 50

_entity_name: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?", re.ASCII)
_child_name: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_rule_name: Final = re.compile(r"[A-Za-z0-9$](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_subscriptions: Final = "subscriptions"


class SubQueue(Enum):
    active = ""
    dead_letter = "$DeadLetterQueue"
    transfer_dead_letter = "$Transfer/$DeadLetterQueue"


class EntityKind(Enum):
    queue = "Queue"
    topic = "Topic"
    subscription = "Subscription"


class Address(msgspec.Struct, frozen=True):
    """An address taken apart, letter case folded; nothing says yet that it exists."""

    entity: str
    """A queue or a topic."""
    subscription: str | None
    sub_queue: SubQueue


_suffixes: Final = (
    ("/" + SubQueue.transfer_dead_letter.value.casefold(), SubQueue.transfer_dead_letter),
    ("/" + SubQueue.dead_letter.value.casefold(), SubQueue.dead_letter),
)


def parse_address(text: str) -> Address:
    folded = text.strip("/").casefold()
    sub_queue = SubQueue.active
    for suffix, found in _suffixes:
        if folded.endswith(suffix):
            folded = folded[: -len(suffix)]
            sub_queue = found
            break
    # A name may contain slashes, but no part of it is called "subscriptions".
    head, _, subscription = folded.rpartition("/")
    topic, _, word = head.rpartition("/")
    if word == _subscriptions and topic and subscription:
        return Address(topic, subscription, sub_queue)
    return Address(folded, None, sub_queue)


def check_entity_name(name: str) -> None:
    """A queue's or topic's name, or `com.microsoft:argument-error`."""
    if not 0 < len(name) <= entity_name_chars_max or not _entity_name.fullmatch(name):
        raise errors.argument("Path", "The entity's name is empty, too long or malformed.")
    parts = name.casefold().split("/")
    if "" in parts or _subscriptions in parts:
        raise errors.argument("Path", "The entity's name has an empty or reserved part.")


def check_subscription_name(name: str) -> None:
    if not 0 < len(name) <= child_name_chars_max or not _child_name.fullmatch(name):
        raise errors.argument("Path", "The subscription's name is empty, too long or malformed.")


def check_rule_name(name: str) -> None:
    if not 0 < len(name) <= child_name_chars_max or not _rule_name.fullmatch(name):
        raise errors.argument("Path", "The rule's name is empty, too long or malformed.")


def entity_path_of(target: str) -> str:
    """The path in a forwarding target, which clients write as a name or as an absolute URI."""
    _, scheme, rest = target.partition("://")
    if scheme:
        _, _, target = rest.partition("/")
    return target.strip("/")


def subscription_path(topic: str, subscription: str) -> str:
    return f"{topic}/Subscriptions/{subscription}"
