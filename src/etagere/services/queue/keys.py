"""Where everything of a queue account lies in the store; only this module builds its keys.

An account's partition holds the directory of its queues.  A queue's partition holds the queue
itself and, under its *generation*, its messages.  Clear Messages begins a new generation and Delete
Queue forgets it, both at once; the rows of the old one are swept away later, in small steps, while
a new queue of the same name already fills its own.

A message's *order* is the stamp of its insertion.

    (account)
      names       name                      -> nothing
      doomed      generation, name          -> nothing: messages to sweep away
    (queue)
      head                                  -> QueueHead
      properties                            -> QueueProperties
      message     generation, order         -> Message
      text        generation, order         -> UTF-8, of a message too long to carry its own
      due         gen, time visible, order  -> the message's key: what Get Messages reads
      expiry      gen, time expired, order  -> the message's key; none for one that never expires
"""

from functools import lru_cache
from typing import Final

import msgspec

from etagere.base.clock import Timestamp
from etagere.kv.contract import Partition
from etagere.kv.tuples import pack, pack_number, range_of, range_of_prefix, unpack

service: Final = "queue"

_names: Final = 1
_doomed: Final = 2

_head: Final = 1
_properties: Final = 2
_message: Final = 3
_text: Final = 4
_due: Final = 5
_expiry: Final = 6

_prefixes_remembered: Final = 4096

Range = tuple[bytes, bytes]

head: Final = pack(_head)
properties: Final = pack(_properties)


def account_partition(account: str) -> Partition:
    return Partition(pack(service, account))


def queue_partition(account: str, queue: str) -> Partition:
    return Partition(pack(service, account, queue))


def sweep_topic() -> bytes:
    """What is notified when a generation of messages waits to be swept away."""
    return pack(service, "doomed")


def directory_entry(name: str) -> bytes:
    return pack(_names, name)


def directory(prefix: str = "") -> Range:
    return range_of_prefix(_names, prefix)


def directory_name(key: bytes) -> str:
    name = unpack(key)[1]
    assert isinstance(name, str)
    return name


def doomed(generation: int, name: str) -> bytes:
    return pack(_doomed, generation, name)


def all_doomed() -> Range:
    return range_of(_doomed)


def doomed_generation(key: bytes) -> tuple[int, str]:
    """The generation, and the name of the queue that it belonged to."""
    _, generation, name = unpack(key)
    assert isinstance(generation, int)
    assert isinstance(name, str)
    return generation, name


@lru_cache(maxsize=_prefixes_remembered)
def _prefix(kind: int, generation: int) -> bytes:
    """What every key of one kind and generation begins with."""
    return pack(kind, generation)


class MessageRows(msgspec.Struct, frozen=True, gc=False):
    """The keys of one message, all of which name its order; it is packed once for them."""

    generation: int
    order: int
    packed_order: bytes
    message: bytes

    def due(self, visible: int) -> bytes:
        return _prefix(_due, self.generation) + pack_number(visible) + self.packed_order

    def expiry(self, expires: int) -> bytes:
        return _prefix(_expiry, self.generation) + pack_number(expires) + self.packed_order

    @property
    def text(self) -> bytes:
        return _prefix(_text, self.generation) + self.packed_order


def rows_of(generation: int, order: int) -> MessageRows:
    packed = pack_number(order)
    return MessageRows(generation, order, packed, _prefix(_message, generation) + packed)


def rows_at(generation: int, key: bytes) -> MessageRows:
    """The rows of the message of this generation whose key this is."""
    packed = key[len(_prefix(_message, generation)) :]
    # A byte says how long the number is, and it is positive.
    return MessageRows(generation, int.from_bytes(packed[1:], "big"), packed, key)


def messages(generation: int) -> Range:
    return range_of(_message, generation)


def texts(generation: int) -> Range:
    return range_of(_text, generation)


def dues(generation: int) -> Range:
    return range_of(_due, generation)


def due_until(generation: int, now: int) -> Range:
    """The messages that are visible at `now`, in the order in which they became so."""
    prefix = _prefix(_due, generation)
    return prefix, prefix + pack(now + 1)


def expired_at(generation: int, now: int) -> Range:
    """The messages that have expired at `now`, the longest expired first."""
    return pack(_expiry, generation), pack(_expiry, generation, now + 1)


def expiries(generation: int) -> Range:
    """All messages that will ever expire, or have."""
    return range_of(_expiry, generation)


def expiry_time(key: bytes) -> Timestamp:
    when = unpack(key)[2]
    assert isinstance(when, int)
    return Timestamp(when)


def of_kind(kind: int, generation: int) -> Range:
    return range_of(kind, generation)


def everything(generation: int) -> tuple[Range, ...]:
    """All ranges that one generation of messages occupies."""
    return tuple(range_of(kind, generation) for kind in (_message, _text, _due, _expiry))


def generations() -> Range:
    """All rows of all generations of a queue."""
    return pack(_message), range_of(_expiry)[1]
