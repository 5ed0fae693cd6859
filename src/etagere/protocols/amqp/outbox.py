"""Frames on their way to the peer, joined into one run of bytes for each write."""

import struct
from typing import Final

from etagere.protocols.amqp.accepted import pack_accepted
from etagere.protocols.amqp.composites import Composite, encode_composite
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.links import Session
from etagere.protocols.amqp.outcomes import accepted_bytes
from etagere.protocols.amqp.values import UInt

frame_header: Final = struct.Struct(">IBBH")
amqp_frame: Final = 0
sasl_frame: Final = 1
heartbeat: Final = frame_header.pack(8, 2, amqp_frame, 0)


class Outbox:
    __slots__ = ("_dirty", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._dirty: list[Session] = []
        """Sessions with a run of dispositions that is not written."""

    def raw(self, data: bytes) -> None:
        self.parts.append(data)

    def body(self, channel: int, body: bytes, frame_type: int = amqp_frame) -> None:
        self.parts.append(frame_header.pack(len(body) + 8, 2, frame_type, channel))
        self.parts.append(body)

    def frame(self, channel: int, performative: Composite, frame_type: int = amqp_frame) -> None:
        self.body(channel, encode_composite(performative), frame_type)

    def settle(self, session: Session, role: bool, delivery_id: int, state: bytes) -> None:
        """Say that a delivery is settled, in one frame with its neighbours of the same outcome."""
        if session.run_first >= 0:
            if (
                delivery_id == session.run_last + 1
                and role is session.run_role
                and (state is session.run_state or state == session.run_state)
            ):
                session.run_last = delivery_id
                return
            self.flush_run(session)
        else:
            self._dirty.append(session)
        session.run_role = role
        session.run_first = delivery_id
        session.run_last = delivery_id
        session.run_state = state

    def settle_run(self, session: Session, role: bool, first: int, last: int, state: bytes) -> None:
        """`settle` for each from `first` to `last`, which does not lie below it."""
        self.settle(session, role, first, state)
        session.run_last = last

    def settle_range(
        self, session: Session, role: bool, first: int, last: int, state: bytes
    ) -> None:
        self.flush_run(session)
        self._disposition(session.channel, role, first, last, state)

    def flush_run(self, session: Session) -> None:
        """Before a frame that has to come after the dispositions: detach, end."""
        if session.run_first >= 0:
            self._disposition(
                session.channel,
                session.run_role,
                session.run_first,
                session.run_last,
                session.run_state,
            )
            session.run_first = -1

    def _disposition(self, channel: int, role: bool, first: int, last: int, state: bytes) -> None:
        if state is accepted_bytes:
            self.parts.append(pack_accepted(channel, role, first, last))
        else:
            self.body(channel, disposition_body(role, first, last, state))

    def flush_runs(self) -> None:
        dirty = self._dirty
        self._dirty = []
        for session in dirty:
            self.flush_run(session)

    def take(self) -> bytes:
        if self._dirty:
            self.flush_runs()
        parts = self.parts
        if not parts:
            return b""
        self.parts = []
        return b"".join(parts)


def disposition_body(role: bool, first: int, last: int, state: bytes) -> bytes:
    """A disposition whose state is encoded already."""
    content = encode(role) + encode(UInt(first)) + encode(UInt(last)) + b"\x41" + state + b"\x42"
    size = len(content)
    if size < 255:
        return b"\x00\x53\x15\xc0" + bytes((size + 1, 6)) + content
    return b"\x00\x53\x15\xd0" + struct.pack(">II", size + 4, 6) + content
