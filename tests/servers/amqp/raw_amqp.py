"""A client that says exactly what a test wants, over a real socket."""

import asyncio
import struct
from typing import Any, TypeVar, cast

from etagere.protocols.amqp.composites import Composite, encode_composite
from etagere.protocols.amqp.connection import amqp_header, sasl_header
from etagere.protocols.amqp.outcomes import Source, Target, accepted
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
    read_performative,
    read_sasl,
)
from etagere.protocols.amqp.sections import Properties, section
from etagere.protocols.amqp.values import Symbol

C = TypeVar("C", bound=Composite)


def frame(
    performative: Composite | None, channel: int = 0, payload: bytes = b"", kind: int = 0
) -> bytes:
    body = b"" if performative is None else encode_composite(performative)
    return struct.pack(">IBBH", 8 + len(body) + len(payload), 2, kind, channel) + body + payload


def data_message(body: bytes = b"body", **properties: Any) -> bytes:
    head = encode_composite(Properties(**properties)) if properties else b""
    return head + section(0x75, body)


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.payload = b""
        """Of the last transfer."""
        self.channel = 0
        self._delivery_id = 0
        self._kept: list[Any] = []

    @classmethod
    async def connect(cls, port: int, **options: Any) -> "RawClient":
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24, **options)
        return cls(reader, writer)

    @classmethod
    async def open(cls, port: int, *, login: bytes | None = None, **options: Any) -> "RawClient":
        client = await cls.connect(port, **options)
        try:
            await client._greet(login)
        except BaseException:
            client.hang_up()
            raise
        return client

    async def _greet(self, login: bytes | None) -> None:
        await self.sasl("ANONYMOUS" if login is None else "PLAIN", login or b"")
        self.raw(amqp_header + frame(Open("raw", "localhost")))
        assert await self.header() == amqp_header
        await self.expect(Open)
        self.raw(frame(Begin(None, 0, 10_000, 10_000)))
        await self.expect(Begin)

    async def sasl(self, mechanism: str, response: bytes) -> None:
        self.raw(sasl_header + frame(SaslInit(Symbol(mechanism), response), kind=1))
        assert await self.header() == sasl_header
        await self.expect(SaslMechanisms)
        outcome = await self.expect(SaslOutcome)
        if outcome.code:
            raise PermissionError(outcome.code)

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def say(self, performative: Composite, payload: bytes = b"", channel: int = 0) -> None:
        self.raw(frame(performative, channel, payload))

    async def header(self) -> bytes:
        return await self.reader.readexactly(8)

    async def hear(self) -> Any:
        """The next performative that is no heartbeat."""
        if self._kept:
            return self._kept.pop(0)
        while True:
            head = await asyncio.wait_for(self.reader.readexactly(8), 20)
            size, offset, kind, self.channel = struct.unpack(">IBBH", head)
            rest = await self.reader.readexactly(size - 8)
            if not rest:
                continue
            whole = head + rest
            if kind == 1:
                return read_sasl(whole, offset * 4, size)
            performative, at = read_performative(whole, offset * 4, size)
            if isinstance(performative, Transfer):
                self.payload = whole[at:]
            return performative

    async def expect(self, kind: type[C]) -> C:
        """The next one, which must be of this kind, unless flows come first."""
        while True:
            heard = await self.hear()
            if isinstance(heard, Flow) and kind is not Flow:
                continue
            assert isinstance(heard, kind), heard
            return heard

    async def until(self, kind: type[C]) -> C:
        """The next one of this kind, whatever comes before."""
        while True:
            heard = await self.hear()
            if isinstance(heard, kind):
                return heard

    async def silence(self, seconds: float = 0.2) -> None:
        """Nothing is said for a while."""
        try:
            heard = await asyncio.wait_for(self.hear(), seconds)
        except TimeoutError:
            return
        raise AssertionError(heard)

    # ---- links

    async def attach(
        self,
        address: str | None,
        *,
        handle: int = 0,
        receiver: bool = False,
        name: str | None = None,
        **fields: Any,
    ) -> Attach:
        """The server's answer."""
        source = fields.pop("source", Source(address if receiver else None))
        target = fields.pop("target", Target(None if receiver else address))
        self.say(
            Attach(
                name or f"link-{handle}",
                handle,
                receiver,
                fields.pop("snd_settle_mode", 0),
                fields.pop("rcv_settle_mode", 0),
                source,
                target,
                **fields,
            )
        )
        return cast("Attach", await self.expect(Attach))

    def credit(self, count: int, *, handle: int = 0, delivery_count: int = 0, **more: Any) -> None:
        self.say(Flow(1, 10_000, 0, 10_000, handle, delivery_count, count, **more))

    def transfer(self, payload: bytes, *, handle: int = 0, **fields: Any) -> int:
        """The delivery id."""
        number = self._delivery_id
        self._delivery_id += 1
        fields.setdefault("message_format", 0)
        fields.setdefault("settled", False)
        self.say(Transfer(handle, number, struct.pack(">I", number), **fields), payload)
        return number

    async def receive(self) -> Transfer:
        return await self.expect(Transfer)

    async def send_accepted(self, payload: bytes, *, handle: int = 0, **fields: Any) -> None:
        number = self.transfer(payload, handle=handle, **fields)
        outcome = await self.expect(Disposition)
        assert (outcome.role, outcome.first, outcome.settled) == (True, number, True)
        assert outcome.state == accepted

    async def close(self) -> None:
        self.say(Close())
        await self.until(Close)
        self.hang_up()

    def hang_up(self) -> None:
        self.writer.close()
