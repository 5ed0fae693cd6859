"""The bus on sockets: protocols told apart, pressure, faults and ends, with clients of our own."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bus_server import Bus, start, stop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from raw_amqp import RawClient, data_message, frame

from etagere.base.clock import seconds
from etagere.frontends.bus_amqp.idle import IdleLimits
from etagere.protocols.amqp.connection import amqp_header, sasl_header
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.outcomes import Source, accepted
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
    Transfer,
)
from etagere.servers.amqp import SocketLimits
from etagere.services.bus.descriptions import QueueDescription

root_login = b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE"


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    bus = await start()
    await bus.broker.administration.create(QueueDescription(name="q"))
    yield bus
    await stop(bus)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - whatever it is, it has no event
            await asyncio.sleep(0.01)


def _stored(bus: Bus) -> int:
    return bus.broker.administration.get("q").counts.active


async def peeked(bus: Bus, name: str = "q", count: int = 2_000) -> list[int]:
    """Sequence numbers in the queue."""
    found: list[int] = []
    while True:
        more = await bus.broker.peek(name, (found or [0])[-1] + 1, 500)
        found += [delivery.sequence_number for delivery in more]
        if not more or len(found) >= count:
            return found


# ---- telling protocols apart


async def test_plain_login(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    await client.send_accepted(data_message())
    await client.close()


@pytest.mark.parametrize(
    "login", [b"\0RootManageSharedAccessKey\0wrong", b"\0nobody\0x", b"", b"\0\xff\0x", b"a\0b"]
)
async def test_plain_login_refused(bus: Bus, login: bytes) -> None:
    client = await RawClient.connect(bus.port)
    with pytest.raises(PermissionError):
        await client.sasl("PLAIN", login)
    assert await client.reader.read() == b""
    client.hang_up()


async def test_external_needs_a_certificate(bus: Bus) -> None:
    client = await RawClient.connect(bus.port)
    with pytest.raises(PermissionError):
        await client.sasl("EXTERNAL", b"")
    client.hang_up()


async def test_no_sasl(bus: Bus) -> None:
    client = await RawClient.connect(bus.port)
    client.raw(amqp_header + frame(Open("raw")))
    assert await client.header() == amqp_header
    await client.expect(Open)
    client.hang_up()


@pytest.mark.parametrize("first", [b"AMQP\x02\x01\x00\x00", b"AMQP\x00\x00\x09\x01"])
async def test_headers_of_other_versions(bus: Bus, first: bytes) -> None:
    client = await RawClient.connect(bus.port)
    client.raw(first)
    assert await client.reader.read() == sasl_header
    client.hang_up()


async def test_http_on_the_same_port(bus: Bus) -> None:
    client = await RawClient.connect(bus.port)
    client.raw(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await client.reader.read()).startswith(b"HTTP/1.1 404")
    client.hang_up()


async def test_a_web_socket_for_something_else(bus: Bus) -> None:
    client = await RawClient.connect(bus.port)
    client.raw(
        b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert (await client.reader.readline()).startswith(b"HTTP/1.1 404")
    client.hang_up()


def _authority(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


async def test_tls_amqp_and_http_on_one_port(tmp_path: Path) -> None:
    bus = await start(tls=_authority(tmp_path))
    try:
        await bus.broker.administration.create(QueueDescription(name="q"))
        trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        options: dict[str, Any] = {"ssl": trust, "server_hostname": "localhost"}
        client = await RawClient.open(bus.port, login=root_login, **options)
        await client.attach("q")
        await client.send_accepted(data_message(bytes(200_000)))
        web = await RawClient.connect(bus.port, **options)
        web.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await web.reader.readline()).startswith(b"HTTP/1.1 404")
        plain = await RawClient.open(bus.port, login=root_login)
        await plain.close()
        await client.close()
        web.hang_up()
    finally:
        await stop(bus)


async def test_who_says_nothing_is_sent_away() -> None:
    bus = await start(sockets=SocketLimits(first_bytes_seconds_max=0.2))
    try:
        silent = await RawClient.connect(bus.port)
        assert await asyncio.wait_for(silent.reader.read(), 10) == b""
        half = await RawClient.connect(bus.port)
        half.raw(b"AM")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(half.reader.readexactly(1), 10)
        half.hang_up()
        silent.hang_up()
    finally:
        await stop(bus)


async def test_connections_are_bounded() -> None:
    bus = await start(sockets=SocketLimits(connections_max=2))
    try:
        first = await RawClient.open(bus.port, login=root_login)
        second = await RawClient.open(bus.port, login=root_login)
        third = await RawClient.connect(bus.port)
        third.raw(sasl_header)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await third.header()
        await second.close()
        fourth = await RawClient.open(bus.port, login=root_login)
        await fourth.close()
        await first.close()
        third.hang_up()
    finally:
        await stop(bus)


# ---- sending


async def test_pipelined_sends_are_all_answered(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    for number in range(1_000):
        client.transfer(data_message(str(number).encode(), message_id=str(number)))
    answered: set[int] = set()
    frames = 0
    while len(answered) < 1_000:
        outcome = await client.expect(Disposition)
        assert outcome.state == accepted
        assert outcome.last is not None
        answered.update(range(outcome.first, outcome.last + 1))
        frames += 1
    assert frames < 500  # many to a frame
    assert await peeked(bus) == list(range(1, 1_001))
    await client.close()


async def test_settled_sends_are_stored_and_not_answered(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", snd_settle_mode=1)
    for _ in range(10):
        client.transfer(data_message(), settled=True)
    client.transfer(b"no message at all", settled=True)
    large = data_message(bytes(262_144))
    number = client.transfer(large[:200_000], settled=True, more=True)
    client.say(Transfer(0, number, settled=True), large[200_000:])
    client.transfer(data_message(), settled=True)
    await until(lambda: _stored(bus) == 11)
    client.say(Close())
    while not isinstance(heard := await client.hear(), Close):
        assert isinstance(heard, Flow)
    client.hang_up()


async def test_frames_cut_anywhere(bus: Bus) -> None:
    client = await RawClient.connect(bus.port)
    whole = (
        amqp_header
        + frame(Open("raw"))
        + frame(Begin(None, 0, 100, 100))
        + frame(Attach("s", 0, False, target=None, source=Source("q")))
        + frame(Flow(1, 1, 0, 1))
        + frame(End())
        + frame(Close())
    )
    for at in range(0, len(whole), 3):
        client.raw(whole[at : at + 3])
        await asyncio.sleep(0)
    assert await client.header() == amqp_header
    for kind in (Open, Begin, Attach, Detach, End, Close):
        await client.expect(kind)
    assert await client.reader.read() == b""
    client.hang_up()


async def test_one_client_s_fault_is_nobody_else_s(bus: Bus) -> None:
    good = await RawClient.open(bus.port, login=root_login)
    await good.attach("q")
    for bad_bytes, kind in (
        (struct.pack(">IBBH", 2**31, 2, 0, 0), Close),
        (frame(Transfer(9, 0, b"t")), End),
        (b"\x00\x00\x00\x10\x02\x00\x00\x00\x00\x53\x14\xc0\xff\xff\xff\xff", Close),
        (frame(Flow(0, 1, 0, 1), 77), Close),
    ):
        bad = await RawClient.open(bus.port, login=root_login)
        await bad.attach("q")
        bad.raw(bad_bytes)
        ended: Any = await bad.until(kind)
        assert ended.error is not None
        await good.send_accepted(data_message())
        bad.hang_up()
    await good.close()


async def test_refusals_carry_a_tracking_id(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    client.transfer(b"\x00\x53\x99")
    refused = await client.expect(Disposition)
    state: Any = refused.state
    assert state.error.condition == "amqp:decode-error"
    assert "TrackingId:" in state.error.description
    client.transfer(data_message(), message_format=7)
    state = (await client.expect(Disposition)).state
    assert state.error.condition == "amqp:not-implemented"
    client.transfer(data_message(message_id="x" * 200))
    state = (await client.expect(Disposition)).state
    assert state.error.condition == "com.microsoft:argument-out-of-range"
    await client.send_accepted(data_message())
    await client.close()


# ---- receiving


async def fill(bus: Bus, count: int, size: int = 10, name: str = "q") -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach(name)
    for number in range(count):
        client.transfer(data_message(bytes(size), message_id=str(number)))
        if number % 100 == 99:
            await client.writer.drain()
    answered = 0
    while answered < count:
        outcome = await client.expect(Disposition)
        assert outcome.state == accepted
        assert outcome.last is not None
        answered += outcome.last - outcome.first + 1
    await client.close()


async def test_credit_is_kept_to(bus: Bus) -> None:
    await fill(bus, 10)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", receiver=True, rcv_settle_mode=1)
    await client.silence()
    client.credit(3)
    numbers = [(await client.receive()).delivery_id for _ in range(3)]
    assert numbers == [0, 1, 2]
    await client.silence()
    client.credit(0, delivery_count=3)
    client.credit(2, delivery_count=3)
    transfer = await client.receive()
    assert transfer.message_format == 0
    assert transfer.delivery_tag is not None
    assert len(transfer.delivery_tag) == 16
    assert transfer.settled is False
    await client.receive()
    await client.silence()
    client.say(Disposition(True, 0, 4, False, accepted))
    outcome = await client.expect(Disposition)
    assert (outcome.role, outcome.settled, outcome.state) == (False, True, accepted)
    await client.close()


async def test_drain(bus: Bus) -> None:
    await fill(bus, 2)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", receiver=True, rcv_settle_mode=1)
    client.credit(5, drain=True)
    await client.receive()
    await client.receive()
    flow = await client.until(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 5, 0)
    assert (flow.drain, flow.echo, flow.available) == (True, False, 0)
    client.credit(0, delivery_count=5, drain=True)
    flow = await client.until(Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)
    await client.close()


@pytest.mark.parametrize("settled", [0, 1])
@pytest.mark.parametrize(
    ("there", "credit"), [(0, 17), (3, 5_000), (16, 16), (16, 17), (500, 400), (700, 10_000)]
)
async def test_a_drain_of_much_credit(bus: Bus, there: int, credit: int, settled: int) -> None:
    """More than is asked of the broker at once: everything that is there, and then the answer."""
    await fill(bus, there)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", receiver=True, rcv_settle_mode=1, snd_settle_mode=settled)
    client.credit(credit, drain=True)
    for _ in range(min(there, credit)):
        await client.receive()
    flow = await client.until(Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, credit, 0)
    assert (flow.drain, flow.echo) == (True, False)
    await client.silence()
    # New credit counts anew, and the next drain is answered too.
    left = max(0, there - credit)
    client.credit(50, delivery_count=credit, drain=True)
    for _ in range(min(left, 50)):
        await client.receive()
    flow = await client.until(Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (credit + 50, 0, True)
    await client.close()


async def test_a_drain_waits_for_the_client_s_window(bus: Bus) -> None:
    """It is not answered before what is there was sent."""
    await fill(bus, 30)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", receiver=True, rcv_settle_mode=1)
    client.say(Flow(1, 10, 0, 10_000, 0, 0, 100, drain=True))
    for _ in range(10):
        await client.receive()
    await client.silence()
    client.say(Flow(11, 10_000, 0, 10_000))
    for _ in range(20):
        await client.receive()
    flow = await client.until(Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (100, 0, True)
    await client.close()


async def test_what_the_client_takes_in_a_message_is_kept_to(bus: Bus) -> None:
    await fill(bus, 1, 5_000)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", receiver=True, max_message_size=1_000)
    client.credit(1)
    detach = await client.until(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:message-size-exceeded"
    assert await peeked(bus) == [1]
    await client.close()


async def test_small_frames_and_windows() -> None:
    bus = await start()
    try:
        await bus.broker.administration.create(QueueDescription(name="q"))
        await fill(bus, 3, 20_000)
        client = await RawClient.connect(bus.port)
        await client.sasl("PLAIN", root_login)
        client.raw(amqp_header + frame(Open("raw", max_frame_size=512)))
        assert await client.header() == amqp_header
        await client.expect(Open)
        client.raw(frame(Begin(None, 0, 7, 7)))
        await client.expect(Begin)
        await client.attach("q", receiver=True)
        client.say(Flow(1, 7, 0, 7, 0, 0, 3))
        sizes = [0, 0, 0]
        seen = 0
        while True:
            transfer = await client.receive()
            seen += 1
            assert transfer.delivery_id is not None
            sizes[transfer.delivery_id] += len(client.payload)
            if transfer.delivery_id == 2 and not transfer.more:
                break
            if seen % 7 == 0:
                client.say(Flow(1 + seen, 7, 0, 7))
        assert min(sizes) > 20_000
        await client.close()
    finally:
        await stop(bus)


async def test_a_slow_receiver_holds_up_only_itself() -> None:
    sockets = SocketLimits(output_bytes_high=65_536)
    bus = await start(sockets=sockets)
    try:
        await bus.broker.administration.create(
            QueueDescription(name="q", lock_duration=seconds(300))
        )
        await fill(bus, 150, 100_000)
        slow = await RawClient.open(bus.port, login=root_login)
        await slow.attach("q", receiver=True, rcv_settle_mode=1)
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        slow.credit(100_000)
        await asyncio.sleep(0.3)
        waiting = [
            connection._transport.get_write_buffer_size() for connection in bus.server._connections
        ]
        assert max(waiting) < 4_000_000  # not the whole queue
        quick = await RawClient.open(bus.port, login=root_login)
        await quick.attach("q", receiver=True, rcv_settle_mode=1)
        quick.credit(10)
        for _ in range(10):
            await asyncio.wait_for(quick.until(Transfer), 10)
        await quick.close()
        slow.writer.transport.abort()
        await until(lambda: len(bus.server._connections) == 0)
        assert len(await peeked(bus)) == 150
    finally:
        await stop(bus)


async def test_a_sender_that_never_reads_is_not_read_from() -> None:
    """Its acknowledgements would fill our memory."""
    bus = await start(sockets=SocketLimits(output_bytes_high=1_000, output_bytes_max=2_000))
    try:
        await bus.broker.administration.create(QueueDescription(name="q"))
        client = await RawClient.open(bus.port, login=root_login)
        await client.attach("q")
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        connection = next(iter(bus.server._connections))
        many = frame(Flow(1, 10_000, 0, 10_000, echo=True)) * 1_000
        for _ in range(200):
            client.raw(many)
            await asyncio.sleep(0)
            if connection._reading_paused:
                break
        assert connection._reading_paused
        assert connection._transport.get_write_buffer_size() < 500_000
        client.writer.transport.abort()
    finally:
        await stop(bus)


# ---- ends


async def test_stopping_says_goodbye(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    stopping = asyncio.create_task(bus.server.stop(5))
    close = await client.until(Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:forced"
    client.say(Close())
    await stopping
    client.hang_up()


async def test_locks_of_an_orderly_end_are_kept_and_of_a_lost_connection_not(bus: Bus) -> None:
    await fill(bus, 2)
    orderly = await RawClient.open(bus.port, login=root_login)
    await orderly.attach("q", receiver=True, rcv_settle_mode=1)
    orderly.credit(1)
    await orderly.receive()
    lost = await RawClient.open(bus.port, login=root_login)
    await lost.attach("q", receiver=True, rcv_settle_mode=1)
    lost.credit(1)
    await lost.receive()
    await orderly.close()
    lost.writer.transport.abort()
    third = await RawClient.open(bus.port, login=root_login)
    await third.attach("q", receiver=True, rcv_settle_mode=1)
    third.credit(2)
    await third.receive()
    assert b"\xa1\x011" in third.payload  # message id 1: the lost one; 0 is still locked
    await third.silence()
    await third.close()


async def test_what_was_said_before_a_failed_write_is_heard(bus: Bus) -> None:
    """A client settles and leaves without reading; our write fails while that is still unread."""
    await fill(bus, 1)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q", receiver=True, rcv_settle_mode=1)
    client.credit(1)
    await client.receive()
    (connection,) = bus.server._connections
    connection._transport.pause_reading()
    client.say(Disposition(True, 0, 0, True, accepted))
    client.say(Detach(0, True))
    client.say(Close())
    bound = client.writer.get_extra_info("socket")
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await asyncio.sleep(0.05)
    connection._transport.write(bytes(8))
    await until(lambda: len(bus.server._connections) == 0)
    await bus.broker.idle()
    assert await peeked(bus) == []


async def test_idle_links_and_connections_are_ended(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    bus.clock.advance(seconds(200))
    await client.send_accepted(data_message())
    bus.clock.advance(seconds(401))
    await client.silence()
    bus.clock.advance(seconds(200))
    detach = await client.until(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:detach-forced"
    assert "00:10:00" in (detach.error.description or "")
    client.say(Detach(0, True))
    await client.silence()
    bus.clock.advance(seconds(301))
    close = await client.until(Close)
    assert close.error is not None
    assert "300000" in (close.error.description or "")
    client.hang_up()


async def test_links_of_tokens_do_not_idle_out_nor_keep_a_connection(bus: Bus) -> None:
    """pyAMQP uses them once an hour, and waits for ever when they are taken away from it."""
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("$cbs")
    await client.attach("$cbs", handle=1, receiver=True)
    await client.attach("q", handle=2)
    for _ in range(6):
        bus.clock.advance(seconds(590))
        await client.send_accepted(data_message(), handle=2)
    bus.clock.advance(seconds(601))
    assert (await client.until(Detach)).handle == 2
    client.say(Detach(2, True))
    await client.silence()
    bus.clock.advance(seconds(301))
    await client.until(Close)
    client.hang_up()


async def test_a_connection_without_links_is_ended(bus: Bus) -> None:
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("$cbs")
    await client.until(Flow)
    bus.clock.advance(seconds(59))
    await client.silence()
    bus.clock.advance(seconds(1))
    close = await client.until(Close)
    assert close.error is not None
    assert "60000" in (close.error.description or "")
    client.hang_up()


async def test_a_token_is_wanted_soon() -> None:
    bus = await start(idle=IdleLimits(authorization_seconds_max=0.2))
    try:
        client = await RawClient.open(bus.port)
        close = await client.until(Close)
        assert close.error is not None
        assert close.error.condition == "amqp:connection:forced"
        client.hang_up()
    finally:
        await stop(bus)


@pytest.mark.parametrize("frozen", [False, True])
async def test_who_moves_the_clock_makes_no_client_silent(bus: Bus, frozen: bool) -> None:
    """A login that is under way goes on, and so does a connection that said nothing for hours of
    the server's time."""
    half = await RawClient.connect(bus.port)
    half.raw(sasl_header)
    unproven = await RawClient.open(bus.port)
    client = await RawClient.open(bus.port, login=root_login)
    await client.attach("q")
    if frozen:
        bus.clock.freeze()
    for _ in range(30):
        bus.clock.advance(seconds(500))
        await client.send_accepted(data_message())
    assert await half.header() == sasl_header
    await half.expect(SaslMechanisms)
    for silent in (half, unproven):
        await silent.silence(0.05)
        silent.hang_up()
    await client.close()


async def test_heartbeats_go_by_steady_time(bus: Bus) -> None:
    client = await RawClient.connect(bus.port)
    await client.sasl("PLAIN", root_login)
    client.raw(amqp_header + frame(Open("raw", idle_time_out=400)))
    assert await client.header() == amqp_header
    await client.expect(Open)
    client.say(Begin(None, 0, 1, 1))
    await client.expect(Begin)
    await client.attach("q")
    await client.until(Flow)
    bus.clock.freeze()
    for _ in range(2):
        beat = await asyncio.wait_for(client.reader.readexactly(8), 5)
        assert beat == bytes([0, 0, 0, 8, 2, 0, 0, 0])
    await client.close()


@pytest.mark.parametrize("frozen", [False, True])
async def test_a_goodbye_is_not_waited_for_by_a_clock_that_stands(frozen: bool) -> None:
    bus = await start(limits=Limits(close_seconds_max=1))
    try:
        await bus.broker.administration.create(QueueDescription(name="q"))
        client = await RawClient.open(bus.port, login=root_login)
        await client.attach("q")
        if frozen:
            bus.clock.freeze()
        client.raw(struct.pack(">IBBH", 2**31, 2, 0, 0))
        await client.until(Close)
        assert await asyncio.wait_for(client.reader.read(), 10) == b""
        client.hang_up()
        await until(lambda: len(bus.server._connections) == 0)
    finally:
        await stop(bus)


@pytest.mark.parametrize("half_closed", [False, True])
async def test_who_takes_no_goodbye_keeps_no_socket(half_closed: bool) -> None:
    bus = await start(
        limits=Limits(close_seconds_max=1), sockets=SocketLimits(goodbye_seconds_max=0.3)
    )
    try:
        await bus.broker.administration.create(QueueDescription(name="q"))
        await fill(bus, 60, 200_000)
        client = await RawClient.open(bus.port, login=root_login)
        await client.attach("q", receiver=True, rcv_settle_mode=1)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.credit(60)
        (connection,) = bus.server._connections
        await until(lambda: connection._transport.get_write_buffer_size() > 0)
        if half_closed:
            client.writer.write_eof()
        else:
            client.raw(struct.pack(">IBBH", 2**31, 2, 0, 0))
        await until(lambda: len(bus.server._connections) == 0)
        client.writer.transport.abort()
    finally:
        await stop(bus)
