"""What must hold of every entity at rest; `etagere check` and the tests ask for it.

The rows of a log lie together, so each is counted in one walk and compared with the log's counters;
nothing is kept that grows with a log, but for one entry to a large message.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, TypeVar

from etagere.kv.check import CheckTx, Finding
from etagere.kv.contract import Partition, ReadTx
from etagere.kv.layers.records import Codec, DamagedRecord
from etagere.kv.layers.rows import every_row
from etagere.kv.tuples import after, unpack
from etagere.services.bus import keys, packs, records
from etagere.services.bus.descriptions import SubscriptionDescription, TopicDescription
from etagere.services.bus.keys import Range
from etagere.services.bus.messages import MessageState
from etagere.services.bus.names import SubQueue
from etagere.services.bus.records import (
    EntityRecord,
    LogCounters,
    SessionRecord,
    StoredMessage,
    SubscriptionRecord,
)

T = TypeVar("T")

problems_max: Final = 100
"""What is told of one entity; more of the same helps nobody."""
_number_bytes: Final = 8
_chunk_of: Final = Struct(">IQI").unpack_from
_holders_of: Final = Struct(">IQ").unpack_from


class BusChecker:
    """A `Checker` for the rows of all namespaces."""

    name: Final = "bus"

    async def check(self, tx: CheckTx) -> list[Finding]:
        findings: list[Finding] = []
        namespaces: dict[str, _Namespace] = {}
        for part in list(tx.partitions()):
            match unpack(part):
                case (keys.service, str(name)):
                    namespace = namespaces[name] = await _Namespace.read(tx, name)
                    where, problems = name, namespace.problems
                case (keys.service, str(name), int(entity_id)):
                    # A namespace's partition stands before those of its entities.
                    namespace = namespaces.setdefault(name, _Namespace(name))
                    where = f"{name}/{namespace.name_of(entity_id)}"
                    problems = await _check_entity(tx, part, namespace, entity_id)
                case _:
                    continue
            findings += [Finding(self.name, where, each) for each in problems[:problems_max]]
        return findings


@dataclass(slots=True)
class _Namespace:
    """A catalogue."""

    name: str
    entities: dict[int, EntityRecord] = field(default_factory=dict)
    doomed: set[tuple[int, int | None]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    @classmethod
    async def read(cls, tx: ReadTx, name: str) -> "_Namespace":
        self = cls(name)
        part = keys.catalogue(name)
        named: list[tuple[str, bytes]] = []
        async for key, raw in every_row(tx, part, *keys.catalogue_rows()):
            match unpack(key):
                case ("entity", str(folded)):
                    named.append((folded, raw))
                case ("doomed", int()) | ("doomed", int(), int()):
                    self.doomed.add(keys.doomed_of(key))
                case _:
                    self.problems.append(f"row {key.hex()} is of no kind")
        for folded, raw in named:
            record = _decoded(records.entities, raw, f"entity {folded}", self.problems)
            if record is None:
                continue
            if record.description.name.casefold() != folded:
                self.problems.append(f"entity {folded} is called {record.description.name}")
            if record.id in self.entities:
                self.problems.append(f"entity {folded} has another's number")
            self.entities[record.id] = record
            if (record.id, None) in self.doomed:
                self.problems.append(f"entity {folded} is to be swept away")
            if await tx.get(keys.entity(name, record.id), keys.counters(0)) is None:
                self.problems.append(f"entity {folded} is in the catalogue, but not there")
        return self

    def name_of(self, entity_id: int) -> str:
        record = self.entities.get(entity_id)
        return str(entity_id) if record is None else record.description.name


async def _check_entity(
    tx: ReadTx, part: Partition, namespace: _Namespace, entity_id: int
) -> list[str]:
    record = namespace.entities.get(entity_id)
    if (entity_id, None) in namespace.doomed:
        return []  # being swept away
    if record is None:
        return ["rows of an entity that is not in the catalogue"]
    doomed = {node for entity, node in namespace.doomed if entity == entity_id}
    entity = _Entity(tx, part, record, {node for node in doomed if node is not None})
    await entity.check()
    return entity.problems


@dataclass(slots=True)
class _Held:
    """The rest of a large message: what refers to it, and what there is of it."""

    chunks: int
    holders: int = 0
    found: int = 0
    said: int = 1
    """How many messages its row says to share it."""


@dataclass(slots=True)
class _Entity:
    """One partition, walked from end to end."""

    tx: ReadTx
    part: Partition
    record: EntityRecord
    doomed: set[int]
    """Subscriptions that are being swept away."""
    problems: list[str] = field(default_factory=list)
    subscriptions: dict[int, SubscriptionRecord] = field(default_factory=dict)
    rests: dict[tuple[int, int], _Held] = field(default_factory=dict)

    async def check(self) -> None:
        await self._read_subscriptions()
        await self._read_rules()
        for node in (0, *self.subscriptions):
            for index in range(len(SubQueue)):
                number = node * keys.logs_per_node + index
                census = _Census(self, number, sessioned=index == 0 and self._is_sessioned(node))
                await census.take()
        await self._look_for_strays()
        await self._check_rests()

    def tell(self, problem: str) -> None:
        if len(self.problems) < problems_max:
            self.problems.append(problem)

    def _is_sessioned(self, node: int) -> bool:
        if node:
            return self.subscriptions[node].description.requires_session
        description = self.record.description
        return not isinstance(description, TopicDescription) and description.requires_session

    async def _read_subscriptions(self) -> None:
        async for key, raw in self.rows(keys.subscriptions()):
            if not keys.is_whole(key):
                continue  # told with the strays
            folded = keys.subscription_of(key)
            what = f"subscription {folded}"
            found = _decoded(records.subscriptions, raw, what, self.problems)
            if found is None:
                continue
            assert isinstance(found.description, SubscriptionDescription)
            if found.description.name.casefold() != folded:
                self.tell(f"{what} is called {found.description.name}")
            if not 0 < found.number < self.record.nodes:
                self.tell(f"{what} has a number that is still to be given")
            elif found.number in self.subscriptions:
                self.tell(f"{what} has another's number")
            else:
                self.subscriptions[found.number] = found

    async def _read_rules(self) -> None:
        async for key, raw in self.rows(keys.all_rules()):
            if not keys.is_whole(key):
                continue  # told with the strays
            number, folded = keys.rule_of(key)
            what = f"rule {folded} of subscription {number}"
            rule = _decoded(records.rules, raw, what, self.problems)
            if rule is not None and rule.name.casefold() != folded:
                self.tell(f"{what} is called {rule.name}")
            if number not in self.subscriptions:
                self.tell(f"{what}, which is not there")

    async def _look_for_strays(self) -> None:
        """Rows of logs that nobody has, and those on which others still hold something."""
        begin, (_, end) = b"", keys.everything()
        while rows := await self.tx.scan(self.part, begin, end, limit=1):
            key = rows[0][0]
            log = keys.log_of(key)
            if log is None or log == keys.descriptions:
                if not keys.is_whole(key):
                    self.tell(f"row {key.hex()} is of no kind")
                begin = after(key)
                continue
            _, begin = keys.log_range(log)
            node, index = divmod(log, keys.logs_per_node)
            if log == keys.rests:
                continue
            if node in self.doomed:
                await self._count_what_is_left(log)
            elif not (node == 0 or node in self.subscriptions) or index >= len(SubQueue):
                self.tell(f"rows of log {log}, which nobody has")

    async def _count_what_is_left(self, log: int) -> None:
        async for key, raw in self.rows(keys.log_range(log)):
            if keys.is_message(key):
                message = _decoded(records.messages, raw, f"row {key.hex()}", self.problems)
                if message is not None:
                    self.hold(message)

    def hold(self, message: StoredMessage) -> None:
        rest = message.rest
        if rest is None:
            return
        held = self.rests.setdefault((rest.log, rest.number), _Held(rest.chunks))
        held.holders += 1
        if held.chunks != rest.chunks:
            self.tell(f"the rest of message {rest.number} of log {rest.log} has two lengths")

    async def _check_rests(self) -> None:
        async for key, raw in self.rows(keys.log_range(keys.rests)):
            kind = key[4:5]
            if not keys.is_whole(key):
                self.tell(f"row {key.hex()} is of no kind")
                continue
            log, number = _holders_of(key, 5)
            held = self.rests.get((log, number))
            if held is None:
                self.tell(f"a rest of message {number} of log {log}, which nobody refers to")
            elif kind == b"r":
                held.said = int.from_bytes(raw, "big")
            elif _chunk_of(key, 5)[2] < held.chunks:
                held.found += 1
            else:
                self.tell(f"a part too many of message {number} of log {log}")
        for (log, number), held in self.rests.items():
            if held.found != held.chunks:
                whose = f"message {number} of log {log}"
                self.tell(f"{held.found} of {held.chunks} parts of {whose} are there")
            if held.holders != held.said:
                self.tell(
                    f"message {number} of log {log} is shared by {held.holders}, not {held.said}"
                )

    def rows(self, among: Range) -> AsyncIterator[tuple[bytes, bytes]]:
        return every_row(self.tx, self.part, *among)


@dataclass(slots=True)
class _Census:
    """The rows of one log counted, and each message's looked up."""

    entity: _Entity
    log: int
    sessioned: bool
    counters: LogCounters = field(default_factory=LogCounters)
    counted: LogCounters = field(default_factory=LogCounters)
    rows: dict[bytes, int] = field(default_factory=dict)
    """How many there are of each kind."""
    in_sessions: int = 0
    sessions_active: int = 0
    states: int = 0
    chunks: int = 0
    """Of packs."""
    chunks_said: int = 0
    """To be there."""

    async def take(self) -> None:
        raw = await self._get(keys.counters(self.log))
        if raw is None:
            self._tell("there are no counters")
            return
        counters = _decoded(records.counters, raw, f"log {self.log}", self.entity.problems)
        if counters is None:
            return
        self.counters = counters
        async for key, value in self.entity.rows(keys.log_range(self.log)):
            if not keys.is_whole(key):
                self._tell(f"row {key.hex()} is of no kind")
                continue
            kind = key[4:5]
            self.rows[kind] = self.rows.get(kind, 0) + 1
            if keys.is_message(key):
                await self._see_message(key, value)
            elif keys.is_left_of_pack(key):
                await self._see_pack(keys.first_number_of(key), value)
            elif keys.is_chunk_of_pack(key):
                self.chunks += 1
            elif kind == b"s":
                await self._see_session(key, value)
            elif kind == b"z":
                self.counted.bytes += len(value)
            elif kind == b"w":
                await self._see_duplicate(key)
        self._compare()

    async def _see_message(self, key: bytes, raw: bytes) -> None:
        number = keys.number_of(key)
        message = _decoded(
            records.messages, raw, f"log {self.log}: message {number}", self.entity.problems
        )
        if message is None:
            return
        self._count_in(number, message)
        if key[4:5] == b"m":
            await self._see_active(number, message)
        elif message.state == MessageState.scheduled:
            self.counted.scheduled += 1
            if await self._get(keys.due(self.log, message.scheduled_at, number)) is None:
                self._tell(f"message {number} has no due time")
        else:
            self.counted.deferred += 1
            if message.state != MessageState.deferred:
                self._tell(f"message {number} is set aside, and neither deferred nor scheduled")

    def _count_in(self, number: int, message: StoredMessage) -> None:
        if not 0 < number <= self.counters.last_number:
            self._tell(f"message {number} has a number that is still to be given")
        self.counted.bytes += message.size
        self.entity.hold(message)

    async def _see_pack(self, first: int, raw: bytes) -> None:
        bits, chunks = packs.decode_left(raw)
        self.chunks_said += chunks
        begin, end = keys.chunks_of_pack(self.log, first)
        rows = await self.entity.tx.scan(self.entity.part, begin, end, limit=chunks)
        try:
            messages = packs.decode_chunks([raw for _, raw in rows], chunks)
        except DamagedRecord as damage:
            self._tell(f"the messages from {first} on do not decode: {damage}")
            return
        if first % packs.block_messages:
            self._tell(f"message {first} begins a pack, and no block")
        if len(raw) != packs.left_bytes or not 0 < bits < 1 << len(messages):
            self._tell(f"which of the messages from {first} on are left is not said")
        for number, message in enumerate(messages, first):
            if not bits >> number - first & 1:
                continue
            self._count_in(number, message)
            await self._see_active(number, message)
            if message.rest is not None:
                self._tell(f"message {number} is in a pack, and its rest is not")
            if await self._get(keys.message(self.log, number)) is not None:
                self._tell(f"message {number} is in a pack, and in a row of its own")

    async def _see_active(self, number: int, message: StoredMessage) -> None:
        self.counted.active += 1
        if message.state != MessageState.active:
            self._tell(f"message {number} is active, and says that it is not")
        if message.expires_at:
            self.counted.expiring += 1
            if await self._get(keys.expiry(self.log, message.expires_at, number)) is None:
                self._tell(f"message {number} has no expiry time")
        if self.sessioned:
            session = message.session_id
            if session is None:
                self._tell(f"message {number} has no session")
            elif await self._get(keys.session_message(self.log, session, number)) is None:
                self._tell(f"message {number} is not among those of its session")

    async def _see_session(self, key: bytes, raw: bytes) -> None:
        session = keys.session_of(key)
        what = f"log {self.log}: session {session}"
        record = _decoded(records.sessions, raw, what, self.entity.problems)
        if record is None:
            return
        first, active = 0, 0
        async for row, _ in self.entity.rows(keys.session_messages(self.log, session, 0)):
            first = first or keys.number_of(row)
            active += 1
        self.in_sessions += active
        if (record.active, record.head) != (active, first):
            self._tell(
                f"session {session} has {active} messages from {first} on, "
                f"not {record.active} from {record.head}"
            )
        if active:
            self.sessions_active += 1
            if await self._get(keys.head(self.log, first)) != session.encode():
                self._tell(f"session {session} is not in its place")
        await self._see_state(session, record)

    async def _see_state(self, session: str, record: SessionRecord) -> None:
        state = await self._get(keys.session_state(self.log, session))
        if state is not None:
            self.states += 1
        if record.state_bytes != (None if state is None else len(state)):
            self._tell(f"session {session} has another state than it says")
        if record.active == 0 and record.state_bytes is None:
            self._tell(f"session {session} has neither messages nor a state")

    async def _see_duplicate(self, key: bytes) -> None:
        accepted_at = await self._get(keys.duplicate(self.log, keys.digest_of(key)))
        if accepted_at != keys.time_of(key).to_bytes(_number_bytes, "big"):
            self._tell(f"id {keys.digest_of(key).hex()} was accepted at another time")

    def _compare(self) -> None:
        if self.chunks != self.chunks_said:
            self._tell(f"{self.chunks} chunks of messages, but {self.chunks_said} said")
        for name in ("active", "deferred", "scheduled", "bytes", "expiring"):
            said, counted = getattr(self.counters, name), getattr(self.counted, name)
            if said != counted:
                self._tell(f"{counted} {name}, but {said} counted")
        for what, kind, expected in (
            ("due times", b"t", self.counted.scheduled),
            ("expiry times", b"e", self.counted.expiring),
            ("messages of sessions", b"x", self.counted.active if self.sessioned else 0),
            ("messages of sessions that are there", b"x", self.in_sessions),
            ("first messages", b"h", self.sessions_active),
            ("states", b"z", self.states),
            ("remembered ids", b"d", self.rows.get(b"w", 0)),
        ):
            found = self.rows.get(kind, 0)
            if found != expected:
                self._tell(f"{found} {what}, where there should be {expected}")

    async def _get(self, key: bytes) -> bytes | None:
        return await self.entity.tx.get(self.entity.part, key)

    def _tell(self, problem: str) -> None:
        self.entity.tell(f"log {self.log}: {problem}")


def _decoded(codec: Codec[T], raw: bytes, what: str, problems: list[str]) -> T | None:
    try:
        return codec.decode(raw)
    except DamagedRecord as damage:
        problems.append(f"{what} does not decode: {damage}")
        return None
