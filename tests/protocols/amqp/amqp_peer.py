"""The other end of a connection, in memory, saying exactly what a test tells it to."""

import struct
from typing import Any

from etagere.base.clock import Timestamp, seconds
from etagere.protocols.amqp.commands import AcceptLink, Command, SaslDecision
from etagere.protocols.amqp.composites import Composite, encode_composite
from etagere.protocols.amqp.connection import Connection, amqp_header, sasl_header
from etagere.protocols.amqp.events import Event, LinkAttached, SaslShown, TransfersReceived
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.links import Link
from etagere.protocols.amqp.outcomes import Source, Target
from etagere.protocols.amqp.performatives import (
    Attach,
    Begin,
    Open,
    SaslInit,
    read_performative,
    read_sasl,
)
from etagere.protocols.amqp.values import Symbol

start = Timestamp(17_000_000_000_000_000)


def frame(
    performative: Composite | None, channel: int = 0, payload: bytes = b"", kind: int = 0
) -> bytes:
    body = b"" if performative is None else encode_composite(performative)
    return struct.pack(">IBBH", 8 + len(body) + len(payload), 2, kind, channel) + body + payload


class Peer:
    def __init__(self, limits: Limits | None = None) -> None:
        self.now = start
        self.connection = Connection("server", limits or Limits(), self.now)
        self.headers: list[bytes] = []
        self._unread = b""

    def pass_seconds(self, count: float) -> None:
        self.now = Timestamp(self.now + seconds(count))
        self.connection.handle_timer(self.now)

    def raw(self, data: bytes) -> None:
        self.connection.receive_data(data, self.now)

    def say(self, performative: Composite | None, channel: int = 0, payload: bytes = b"") -> None:
        self.raw(frame(performative, channel, payload))

    def hear(self) -> list[tuple[int, Any, bytes]]:
        """What the connection has written: (channel, performative, payload); headers apart."""
        heard: list[tuple[int, Any, bytes]] = []
        data = self._unread + self.connection.data_to_send()
        while data:
            if data.startswith(b"AMQP"):
                self.headers.append(data[:8])
                data = data[8:]
                continue
            size, offset, kind, channel = struct.unpack_from(">IBBH", data)
            one, data = data[:size], data[size:]
            if size == 8:
                heard.append((channel, None, b""))
            elif kind == 1:
                heard.append((channel, read_sasl(one, offset * 4, size), b""))
            else:
                performative, at = read_performative(one, offset * 4, size)
                heard.append((channel, performative, one[at:]))
        return heard

    def heard(self) -> list[Any]:
        return [performative for _, performative, _ in self.hear()]

    def events(self) -> list[Event]:
        events: list[Event] = []
        while (event := self.connection.next_event()) is not None:
            # What came in a run is as good as what came alone.
            events += event.each() if isinstance(event, TransfersReceived) else [event]
        return events

    def event(self, kind: type[Event]) -> Any:
        """The only event there is."""
        events = self.events()
        assert [type(event) for event in events] == [kind]
        return events[0]

    def command(self, command: Command) -> None:
        self.connection.send(command)

    # ---- usual beginnings

    def open(self, *, max_frame_size: int = 65_536, idle_milliseconds: int | None = None) -> None:
        self.raw(sasl_header + frame(SaslInit(Symbol("ANONYMOUS"), b""), kind=1))
        self.event(SaslShown)
        self.command(SaslDecision(approved=True))
        self.raw(amqp_header)
        self.say(Open("peer", "localhost", max_frame_size, idle_time_out=idle_milliseconds))
        self.events()
        self.hear()

    def begin(self, channel: int = 0, *, window: int = 2048) -> None:
        self.say(Begin(None, 0, window, window), channel)
        self.events()
        self.hear()

    def attach(
        self,
        *,
        receiver: bool,
        handle: int = 0,
        channel: int = 0,
        name: str = "link",
        accept: bool = True,
        max_message_size: int | None = None,
    ) -> Link:
        self.say(Attach(name, handle, receiver, 0, 1, Source("queue"), Target("queue")), channel)
        attached = self.event(LinkAttached)
        assert isinstance(attached, LinkAttached)
        link = attached.link
        if accept:
            self.command(AcceptLink(link, Source("queue"), Target("queue"), max_message_size))
            self.hear()
        return link
