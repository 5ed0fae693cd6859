"""Where everything of the bus lies in the store; only this module builds keys.

The catalogue is one partition per namespace:

    ("entity", name folded)         EntityRecord of a queue or topic
    ("doomed", id)                  the partition of a deleted entity, still to be emptied
    ("doomed", id, n)               the same of subscription n

Every queue or topic is a partition of its own, named by an id that is never used again, with what
hangs on it.  In it, first the rows of its *logs*, keyed by log number, row kind and the rest:

    log 4n      messages of the queue (n = 0) or of subscription n; scheduled ones of a topic (0)
    log 4n + 1  its dead-letter queue
    log 4n + 2  its transfer dead-letter queue

    c                       LogCounters
    m  sequence number      an active message
    m  first number, 0      of messages that are stored together (`packs`): which are left
    m  first number, 1, n   the messages, in chunks
    o  sequence number      a message set aside: deferred or scheduled
    t  due time, number     scheduled messages by time
    e  expiry time, number  active messages that expire, by time
    x  session, number      active messages of a session
    h  number               the oldest active message of each session -> the session's id
    s  session              SessionRecord
    z  session              the session's state
    d  digest               when this message id was accepted
    w  time, digest         the same by time

behind them, as log `rests`, what messages of several logs may share,

    b  log, number, chunk   the rest of a message too large for its row
    r  log, number          how many messages share that rest, if more than one

and as log `descriptions` the topic's subscriptions and their rules:

    S  (name folded)                    SubscriptionRecord
    R  (subscription number, name folded)  RuleDescription
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from etagere.kv.contract import Partition
from etagere.kv.tuples import Item, MalformedTuple, pack, range_of, unpack

Range = tuple[bytes, bytes]

service: Final = "bus"

rests: Final = 0xFFFF_FFFE
descriptions: Final = 0xFFFF_FFFF
logs_per_node: Final = 4

_row: Final = Struct(">IcQ").pack
_two: Final = Struct(">IcQQ").pack
_kind: Final = Struct(">Ic").pack
_number: Final = Struct(">Q")
_chunk: Final = Struct(">IcIQI").pack
_shared: Final = Struct(">IcIQ").pack
_range_end: Final = b"\xff" * 9

message_key_bytes: Final = 13


def catalogue(namespace: str) -> Partition:
    return Partition(pack(service, namespace.casefold()))


def entity(namespace: str, entity_id: int) -> Partition:
    return Partition(pack(service, namespace.casefold(), entity_id))


def entity_record(folded: str) -> bytes:
    return pack("entity", folded)


def entity_records() -> Range:
    return range_of("entity")


def doomed(entity_id: int) -> bytes:
    return pack("doomed", entity_id)


def doomed_node(entity_id: int, node: int) -> bytes:
    return pack("doomed", entity_id, node)


def catalogue_rows() -> Range:
    """Every row of a catalogue."""
    return b"", b"\xff"


def doomed_of(key: bytes) -> tuple[int, int | None]:
    """The entity's id, and the subscription's number if only that is doomed."""
    _, entity_id, *rest = unpack(key)
    assert isinstance(entity_id, int)
    node = rest[0] if rest else None
    assert node is None or isinstance(node, int)
    return entity_id, node


def all_doomed() -> Range:
    return range_of("doomed")


def everything() -> Range:
    """Of an entity's partition."""
    return b"\0", b"\xff" * 5


# ---- logs


def log_range(log: int) -> Range:
    """Everything of a log."""
    return log.to_bytes(4, "big"), (log + 1).to_bytes(4, "big")


def counters(log: int) -> bytes:
    return _kind(log, b"c")


def message(log: int, number: int) -> bytes:
    return _row(log, b"m", number)


def message_run(log: int, first: int, count: int) -> list[bytes]:
    """Active messages with these numbers, one after the other."""
    return [_row(log, b"m", number) for number in range(first, first + count)]


def each_message(log: int, numbers: Iterable[int]) -> list[bytes]:
    return [_row(log, b"m", number) for number in numbers]


def messages(log: int, first: int, last: int | None = None) -> Range:
    """Active messages from `first` on, up to and with `last`."""
    return _numbers(log, b"m", first, last)


def left_of_pack(log: int, first: int) -> bytes:
    return _row(log, b"m", first) + b"\0"


def chunk_of_pack(log: int, first: int, chunk: int) -> bytes:
    return _row(log, b"m", first) + bytes((1, chunk))


def chunks_of_pack(log: int, first: int) -> Range:
    stem = _row(log, b"m", first)
    return stem + b"\1", stem + b"\2"


def aside(log: int, number: int) -> bytes:
    return _row(log, b"o", number)


def all_aside(log: int, first: int, last: int | None = None) -> Range:
    return _numbers(log, b"o", first, last)


def _numbers(log: int, kind: bytes, first: int, last: int | None) -> Range:
    end = _kind(log, kind) + _range_end if last is None else _row(log, kind, last) + b"\xff"
    return _row(log, kind, first), end


def is_message(key: bytes) -> bool:
    """Whether this row of a log is a message, active or set aside."""
    return key[4:5] in (b"m", b"o") and len(key) == message_key_bytes


def is_left_of_pack(key: bytes) -> bool:
    return key[4:5] == b"m" and len(key) == message_key_bytes + 1


def is_chunk_of_pack(key: bytes) -> bool:
    return key[4:5] == b"m" and len(key) == message_key_bytes + 2


def first_number_of(key: bytes) -> int:
    """The number in a key of a message or of a pack."""
    number: int = _number.unpack_from(key, message_key_bytes - 8)[0]
    return number


def number_of(key: bytes) -> int:
    """The sequence number at the end of a key."""
    number: int = _number.unpack_from(key, len(key) - 8)[0]
    return number


def due(log: int, time: int, number: int) -> bytes:
    return _two(log, b"t", time, number)


def due_until(log: int, time: int) -> Range:
    """Scheduled messages due at `time` or before."""
    return _kind(log, b"t"), _row(log, b"t", time + 1)


def expiry(log: int, time: int, number: int) -> bytes:
    return _two(log, b"e", time, number)


def expired_until(log: int, time: int) -> Range:
    return _kind(log, b"e"), _row(log, b"e", time + 1)


def time_of(key: bytes) -> int:
    """The time in a key of `due`, `expiry` or `duplicate_age`."""
    time: int = _number.unpack_from(key, 5)[0]
    return time


# ---- sessions


def session_message(log: int, session: str, number: int) -> bytes:
    return _kind(log, b"x") + pack(session) + _number.pack(number)


def session_messages(log: int, session: str, first: int) -> Range:
    stem = _kind(log, b"x") + pack(session)
    return stem + _number.pack(first), stem + _range_end


def head(log: int, number: int) -> bytes:
    return _row(log, b"h", number)


def heads(log: int, first: int) -> Range:
    return _numbers(log, b"h", first, None)


def session(log: int, session_id: str) -> bytes:
    return _kind(log, b"s") + pack(session_id)


def sessions(log: int) -> Range:
    return _kind(log, b"s"), _kind(log, b"s") + b"\xff"


def session_of(key: bytes) -> str:
    """The session id in a key of `session`."""
    session_id = unpack(key[5:])[0]
    assert isinstance(session_id, str)
    return session_id


def session_state(log: int, session_id: str) -> bytes:
    return _kind(log, b"z") + pack(session_id)


# ---- duplicates


def duplicate(log: int, digest: bytes) -> bytes:
    return _kind(log, b"d") + digest


def duplicate_age(log: int, time: int, digest: bytes) -> bytes:
    return _row(log, b"w", time) + digest


def duplicates_until(log: int, time: int) -> Range:
    return _kind(log, b"w"), _row(log, b"w", time + 1)


def digest_of(key: bytes) -> bytes:
    """The digest at the end of a key of `duplicate_age`."""
    return key[13:]


# ---- large messages


def rest(log: int, number: int, chunk: int) -> bytes:
    """`log` and `number` are where the message was when its rest was first written."""
    return _chunk(rests, b"b", log, number, chunk)


def rest_holders(log: int, number: int) -> bytes:
    return _shared(rests, b"r", log, number)


# ---- subscriptions and rules


def subscription(folded: str) -> bytes:
    return _kind(descriptions, b"S") + pack(folded)


def subscriptions() -> Range:
    return _kind(descriptions, b"S"), _kind(descriptions, b"S") + b"\xff"


def rule(number: int, folded: str) -> bytes:
    return _kind(descriptions, b"R") + pack(number, folded)


def rules(number: int) -> Range:
    begin, end = range_of(number)
    stem = _kind(descriptions, b"R")
    return stem + begin, stem + end


def all_rules() -> Range:
    return _kind(descriptions, b"R"), _kind(descriptions, b"R") + b"\xff"


def rule_of(key: bytes) -> tuple[int, str]:
    """The subscription's number and the folded name in a key of `rule`."""
    number, folded = unpack(key[5:])
    assert isinstance(number, int)
    assert isinstance(folded, str)
    return number, folded


def subscription_of(key: bytes) -> str:
    """The folded name in a key of `subscription`."""
    return session_of(key)


# ---- what a key can be


def has_own_keys(partition: tuple[Item, ...]) -> bool:
    """Whether the keys of this partition are made here, and are no packed tuples."""
    match partition:
        case (str(name), str(), int()):
            return name == service
        case _:
            return False


def log_of(key: bytes) -> int | None:
    """The log that a row of an entity belongs to; None if it is too short for any."""
    return int.from_bytes(key[:4], "big") if len(key) > 4 else None


def is_whole(key: bytes) -> bool:
    """Whether it is a key of an entity's partition, and nothing of it is missing."""
    log, kind, rest_of_key = key[:4], key[4:5], key[5:]
    if log == descriptions.to_bytes(4, "big"):
        shapes = _shapes_of_descriptions
    else:
        shapes = _shapes_of_rests if log == rests.to_bytes(4, "big") else _shapes
    if shapes is _shapes and is_left_of_pack(key):
        return key.endswith(b"\0")
    if shapes is _shapes and is_chunk_of_pack(key):
        return key[-2] == 1
    shape = shapes.get(kind)
    if shape is None or isinstance(shape, int):
        return len(rest_of_key) == shape
    number_bytes, types = shape
    try:
        items = unpack(rest_of_key[: len(rest_of_key) - number_bytes])
    except MalformedTuple:
        return False
    return tuple(map(type, items)) == types


_Shape = int | tuple[int, tuple[type, ...]]
"""How long the rest of a key is; or how long a number at its end, and the tuple in front of it."""

_digest_bytes: Final = 16
_shapes: Final[Mapping[bytes, _Shape]] = {
    b"c": 0,
    b"m": 8,
    b"o": 8,
    b"h": 8,
    b"t": 16,
    b"e": 16,
    b"x": (8, (str,)),
    b"s": (0, (str,)),
    b"z": (0, (str,)),
    b"d": _digest_bytes,
    b"w": 8 + _digest_bytes,
}
_shapes_of_rests: Final[Mapping[bytes, _Shape]] = {b"b": 16, b"r": 12}
_shapes_of_descriptions: Final[Mapping[bytes, _Shape]] = {b"S": (0, (str,)), b"R": (0, (int, str))}
