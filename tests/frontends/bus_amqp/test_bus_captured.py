"""What SDKs said once, said again to the real broker: its answers have what would break one of them
if it were otherwise.  (Each rule names the SDK that breaks, as its sources have it.)"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from etagere.base.clock import Timestamp
from etagere.frontends.bus_amqp.cbs import TokenPolicy
from etagere.frontends.bus_amqp.connection import BusConnection, BusServer
from etagere.frontends.bus_amqp.requests import read_request
from etagere.kv.engines.memory import MemoryEngine
from etagere.protocols.amqp.composites import encode_composite
from etagere.protocols.amqp.connection import amqp_header, sasl_header
from etagere.protocols.amqp.decoding import decode, decode_whole
from etagere.protocols.amqp.outcomes import (
    Coordinator,
    Modified,
    Released,
    Source,
    Target,
)
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
    read_performative,
    read_sasl,
)
from etagere.protocols.amqp.sections import Properties, section, split
from etagere.protocols.amqp.values import Described, Int, Symbol, ULong
from etagere.servers.real import SystemEntropy, VirtualClock
from etagere.servers.timers import Timers
from etagere.services.bus.broker import Broker
from etagere.services.bus.descriptions import QueueDescription
from etagere.services.bus.messages import DeadLetter, Message, ReceiveMode
from etagere.services.bus.sections import AmqpSections

frames = Path(__file__).parents[2] / "protocols" / "amqp" / "frames"
files = sorted(frames.glob("*.txt"))
queues = ("q", "deferring", "stubborn", "transacted")
session_queues = {"sessions": "one", "next-sessions": "a"}
session_filter = Symbol("com.microsoft:session-filter")
locked_until = Symbol("com.microsoft:locked-until-utc")
described_filter = ULong(0x137000000C)


class Said:
    """One performative, with its channel and its place in everything that one side said."""

    def __init__(self, performative: Any, channel: int, body: bytes, payload: bytes) -> None:
        self.performative = performative
        self.channel = channel
        self.body = body
        """The performative as it was encoded."""
        self.payload = payload


def read_all(data: bytes) -> list[Said]:
    found: list[Said] = []
    while data:
        if data.startswith(b"AMQP"):
            data = data[8:]
            continue
        size, offset, kind, channel = struct.unpack_from(">IBBH", data)
        whole, data = data[:size], data[size:]
        if size == 8:
            continue
        if kind == 1:
            found.append(Said(read_sasl(whole, offset * 4, size), channel, whole[8:], b""))
            continue
        performative, at = read_performative(whole, offset * 4, size)
        found.append(Said(performative, channel, whole[offset * 4 : at], whole[at:]))
    return found


class Conversation:
    """A connection without a socket; it is its own `Host`."""

    congested = False

    def __init__(self, broker: Broker, clock: VirtualClock, timers: Timers) -> None:
        self._broker = broker
        self._clock = clock
        self._timers = timers
        self._jobs: set[asyncio.Task[None]] = set()
        self.heard: list[bytes] = []
        server = BusServer(
            broker, clock, SystemEntropy(), TokenPolicy(lambda *_: None, check=False)
        )
        self.connection = BusConnection(server, self, clock.now())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    def at(self, when: Timestamp, callback: Callable[[], None]) -> Any:
        return self._timers.at(when, callback)

    def steady_now(self) -> Timestamp:
        return self._clock.now()

    def at_steady(self, when: Timestamp, callback: Callable[[], None]) -> Any:
        return self.at(when, callback)

    def wake(self) -> None:
        """Everything that there is to say is fetched in `said`."""

    async def said(self, data: bytes) -> bytes:
        """What the broker answers to this, when it has nothing more to do."""
        self.connection.receive(data, self._clock.now())
        answer = b""
        for _ in range(4):
            await self._broker.idle()
            for _ in range(10):
                await asyncio.sleep(0)
            answer += self.connection.data_to_send()
            self.connection.written()
        self.heard.append(answer)
        return answer

    def over(self) -> None:
        self.connection.lost(self._clock.now())
        for job in list(self._jobs):
            job.cancel()


@pytest.fixture
async def conversation() -> AsyncIterator[Conversation]:
    clock = VirtualClock()
    timers = Timers(clock)
    broker = await Broker.open(MemoryEngine(clock), clock, SystemEntropy(), AmqpSections(), timers)
    create = broker.administration.create
    for name in queues:
        await create(QueueDescription(name=name, max_delivery_count=3))
        await broker.send(name, [message() for _ in range(5)])
        dead = await broker.receive(name, ReceiveMode.peek_lock, wait_ticks=0)
        assert dead is not None
        assert dead.lock_token is not None
        await broker.settle(name, [dead.lock_token], DeadLetter())
    for name, session in session_queues.items():
        await create(QueueDescription(name=name, requires_session=True))
        await broker.send(name, [message(group_id=session) for _ in range(4)])
    one = Conversation(broker, clock, timers)
    yield one
    one.over()
    await broker.close()
    timers.close()


def message(**properties: Any) -> Message:
    tail = encode_composite(Properties("id", **properties)) + section(0x75, b"body")
    return Message(tail, len(tail))


class Replay:
    """Both sides of one recording, as it went this time."""

    def __init__(self, pieces: list[bytes], answers: list[bytes]) -> None:
        self.pieces = pieces
        self.answers = answers
        self.asked = read_all(b"".join(pieces))
        self.answered = read_all(b"".join(answers))

    def of(self, kind: type) -> list[tuple[Said, Any]]:
        return [(one, one.performative) for one in self.answered if type(one.performative) is kind]

    def asked_of(self, kind: type) -> list[tuple[Said, Any]]:
        return [(one, one.performative) for one in self.asked if type(one.performative) is kind]


@pytest.fixture(params=files, ids=lambda file: file.stem)
async def replay(request: pytest.FixtureRequest, conversation: Conversation) -> Replay:
    lines = request.param.read_text().splitlines()
    pieces = [bytes.fromhex(line[2:]) for line in lines if line.startswith("> ")]
    for piece in pieces:
        await conversation.said(piece)
    return Replay(pieces, conversation.heard)


def test_nothing_follows_the_outcome_until_the_client_s_header_has_come(replay: Replay) -> None:
    """JavaScript drops what comes with it."""
    said = b""
    for piece, answer in zip(replay.pieces, replay.answers, strict=True):
        if any(type(one.performative) is SaslOutcome for one in read_all(answer)):
            assert amqp_header not in answer
            assert not piece.endswith(amqp_header)
        said += piece
        if amqp_header in answer:
            assert amqp_header in said
        if any(type(one.performative) is Open for one in read_all(answer)):
            assert any(type(one.performative) is Open for one in read_all(said))
    assert replay.answers[0].startswith(sasl_header)
    ((_, mechanisms),) = replay.of(SaslMechanisms)
    assert {str(name) for name in mechanisms.mechanisms} == {
        "MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL",
    }  # fmt: skip


def test_every_field_is_there(replay: Replay) -> None:
    """Python looks at fields by their place; nobody else minds."""
    for one in replay.answered:
        if isinstance(one.performative, (Open, Begin, Attach, Flow, Transfer, Disposition, Detach)):
            assert one.body[:2] == b"\x00\x53"
            fields = decode_whole(one.body, 0, len(one.body)).value
            if type(one.performative) not in (Transfer, Disposition, Flow):
                assert len(fields) == len(one.performative.__struct_fields__)


def test_links_are_answered_with_their_own_words(replay: Replay) -> None:
    """Python waits for its own addresses; Go wants a settle mode; all size their batches."""
    asked = replay.asked_of(Attach)
    answers = replay.of(Attach)
    assert len(asked) == len(answers) > 0
    waiting = [(one.channel, attach) for one, attach in asked]
    for one, answer in answers:
        ask = next(
            ask for channel, ask in waiting if (channel, ask.name) == (one.channel, answer.name)
        )
        waiting.remove((one.channel, ask))
        assert answer.role is not ask.role
        assert answer.snd_settle_mode == ask.snd_settle_mode
        assert answer.rcv_settle_mode == ask.rcv_settle_mode
        if answer.source is None or answer.target is None:
            continue  # refused
        if isinstance(ask.target, Coordinator):
            assert isinstance(answer.target, Coordinator)
        else:
            assert answer.target.address == (ask.target or Target()).address
        assert answer.source.address == (ask.source or Source()).address
        if answer.role:
            assert isinstance(ask.target, Coordinator) or answer.max_message_size > 0
        else:
            assert answer.initial_delivery_count == 0
    assert not waiting


def test_refusals_are_an_attach_and_a_detach(replay: Replay) -> None:
    for one, attach in replay.of(Attach):
        if attach.source is None or attach.target is None:
            at = replay.answered.index(one)
            (detach,) = [
                later.performative
                for later in replay.answered[at:]
                if isinstance(later.performative, Detach)
                and (later.channel, later.performative.handle) == (one.channel, attach.handle)
            ][:1]
            assert detach.closed
            assert detach.error is not None


def test_delivery_ids_have_no_gaps_and_first_frames_say_what_they_are(replay: Replay) -> None:
    """JavaScript ends the connection at a gap, Go the link where tag or format are missing."""
    following: dict[int, int] = {}
    inside: set[tuple[int, int]] = set()
    for one in replay.answered:
        transfer = one.performative
        if isinstance(transfer, Begin):
            following[one.channel] = 0
        if not isinstance(transfer, Transfer):
            continue
        place = (one.channel, transfer.handle)
        if place not in inside:
            assert transfer.delivery_id == following[one.channel]
            assert transfer.delivery_tag
            assert transfer.message_format == 0
            assert transfer.settled is not None
            following[one.channel] += 1
        inside.discard(place)
        if transfer.more:
            inside.add(place)


def transfers(said: list[Said], *, by_client: bool) -> list[tuple[Said, str]]:
    """First frames of deliveries, with the node that each comes from or goes to."""
    found: list[tuple[Said, str]] = []
    nodes: dict[tuple[int, int], str] = {}
    for one in said:
        performative = one.performative
        if isinstance(performative, Attach):
            received = performative.role is by_client
            terminus = performative.source if received else performative.target
            address = getattr(terminus, "address", None)
            nodes[one.channel, performative.handle] = str(address or "")
        elif isinstance(performative, Transfer):
            found.append((one, nodes[one.channel, performative.handle]))
    return found


def is_request_node(node: str) -> bool:
    return node.endswith(("$cbs", "$management"))


def test_every_request_has_one_answer_of_its_own_type(replay: Replay) -> None:
    """Python, JavaScript and Java compare ids with their types; all want numbers and symbols."""
    asked, answers = (
        [
            read_request(one.payload)
            for one, node in transfers(said, by_client=by_client)
            if is_request_node(node)
        ]
        for said, by_client in ((replay.asked, True), (replay.answered, False))
    )
    assert len(asked) == len(answers) > 0
    ids = [(type(one.properties.message_id), one.properties.message_id) for one in asked]
    for answer in answers:
        found = answer.properties.correlation_id
        ids.remove((type(found), found))
        status = answer.application.get("statusCode", answer.application.get("status-code"))
        assert type(status) is Int
        if "errorCondition" in answer.application:
            assert type(answer.application["errorCondition"]) is Symbol
        if status not in (200, 202):
            # Lock tokens of another day are all that may be wrong with them.
            assert answer.application.get("errorCondition") in (
                "com.microsoft:message-lock-lost",
                "com.microsoft:message-not-found",
                "com.microsoft:session-lock-lost",
            )


def test_sessions_are_named_in_the_form_that_they_were_asked_in(replay: Replay) -> None:
    """Go reads described filters only, the others plain ones only; .NET ticks have eight bytes."""
    asked = {attach.name: attach for _, attach in replay.asked_of(Attach)}
    for one, answer in replay.of(Attach):
        wish = (getattr(asked[answer.name].source, "filter", None) or {}).get(session_filter, one)
        if wish is one or answer.source is None:
            continue
        found = answer.source.filter[session_filter]
        if isinstance(wish, Described):
            assert isinstance(found, Described)
            assert found.descriptor == described_filter
            wish, found = wish.value, found.value
        assert type(found) is str
        assert wish in (None, found)
        assert type(answer.properties[locked_until]) is int
        key = b"\xa3\x1ecom.microsoft:locked-until-utc"
        assert key + b"\x81" in one.body


def test_drains_are_answered(replay: Replay) -> None:
    """JavaScript closes the link otherwise; Go wants no echo."""
    drained = [
        (one.channel, flow.handle) for one, flow in replay.asked_of(Flow) if flow.drain is True
    ]
    answers = [(one, flow) for one, flow in replay.of(Flow) if flow.drain]
    attached = {
        (one.channel, attach.handle)
        for one, attach in replay.of(Attach)
        if attach.source is not None and attach.target is not None
    }
    assert [(one.channel, flow.handle) for one, flow in answers] == [
        place for place in drained if place in attached
    ]
    for _, flow in answers:
        assert flow.link_credit == 0
        assert not flow.echo


def test_settlements_are_answered_and_sends_only_accepted_or_rejected(replay: Replay) -> None:
    """Python waits for ever for the outcome of a send that is released."""
    for _, outcome in replay.of(Disposition):
        assert outcome.settled
        if outcome.role:
            assert not isinstance(outcome.state, (Released, Modified))
    asked = [one for _, one in replay.asked_of(Disposition) if one.role and not one.settled]
    answered = [one for _, one in replay.of(Disposition) if not one.role]
    covered = {
        number
        for one in answered
        for number in range(one.first, (one.first if one.last is None else one.last) + 1)
    }
    for one in asked:
        assert set(range(one.first, (one.first if one.last is None else one.last) + 1)) <= covered


def test_messages_say_what_the_broker_says_in_the_types_of_the_sdks(replay: Replay) -> None:
    """Go panics at other types; a time to live is never made up."""
    for one, node in transfers(replay.answered, by_client=False):
        transfer = one.performative
        if is_request_node(node):
            continue
        sections = split(one.payload)
        header, _ = decode(sections.header, 0)
        assert header.value[2] is None
        annotations, _ = decode(sections.message_annotations, 0)
        kinds = {str(name): type(value).__name__ for name, value in annotations.value.items()}
        assert kinds["x-opt-sequence-number"] == "int"
        assert kinds["x-opt-enqueued-time"] == "Milliseconds"
        assert kinds["x-opt-enqueue-sequence-number"] == "int"
        if not transfer.settled:
            assert kinds["x-opt-locked-until"] == "Milliseconds"
            tokens, _ = decode(sections.delivery_annotations, 0)
            (token,) = tokens.value.values()
            assert type(token).__name__ == "Uuid"
            assert len(transfer.delivery_tag) == 16


def test_it_ends_in_order(replay: Replay) -> None:
    """Python detaches its last links on channels that it has ended already."""
    for kind in (Open, Begin, Close):
        assert len(replay.of(kind)) == len(replay.asked_of(kind))
    for _, performative in replay.of(Close) + replay.of(End):
        assert performative.error is None


def test_the_recordings_have_what_the_rules_are_about() -> None:
    """In at least one of each SDK's."""
    found: dict[str, set[str]] = {}
    for file in files:
        lines = file.read_text().splitlines()
        data = b"".join(bytes.fromhex(line[2:]) for line in lines if line.startswith("> "))
        kinds = found.setdefault(file.stem.partition("_")[0], set())
        for one in read_all(data):
            said = one.performative
            kinds.add(type(said).__name__)
            if isinstance(said, Flow) and said.drain:
                kinds.add("drain")
            if isinstance(said, Attach):
                wish = (getattr(said.source, "filter", None) or {}).get(session_filter, said)
                if wish is not said:
                    kinds.add("described" if isinstance(wish, Described) else "plain")
                if isinstance(said.target, Coordinator):
                    kinds.add("coordinator")
    for kinds in found.values():
        assert kinds >= {"Attach", "Begin", "Close", "Disposition", "Flow", "Open", "Transfer"}
    assert {name for name, kinds in found.items() if "drain" in kinds} == {"js"}
    assert {name for name, kinds in found.items() if "described" in kinds} == {"go"}
    assert {name for name, kinds in found.items() if "plain" in kinds} == {"java", "js", "python"}
    assert {name for name, kinds in found.items() if "coordinator" in kinds} == {"java"}
