"""Frames of real SDKs (Python 7.15, JavaScript 7.9, Go 1.10, Java 7.17), as recorded from sockets.

`record_frames.py` and `record_others.py` in `tests/frontends/bus_amqp` record them anew.
"""

import struct
from pathlib import Path
from typing import Any

import pytest
from amqp_peer import start

from etagere.protocols.amqp.accepted import walk_accepted
from etagere.protocols.amqp.commands import (
    AcceptLink,
    CompleteDrain,
    DetachLink,
    GrantCredit,
    SaslDecision,
    SendTransfer,
)
from etagere.protocols.amqp.connection import Connection
from etagere.protocols.amqp.decoding import decode_whole
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.events import (
    ConnectionClosed,
    CreditGranted,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SaslShown,
    SessionEnded,
    TransferReceived,
)
from etagere.protocols.amqp.flows import walk_flow
from etagere.protocols.amqp.limits import Limits
from etagere.protocols.amqp.outcomes import Accepted, Source, Target
from etagere.protocols.amqp.performatives import (
    Disposition,
    Flow,
    Transfer,
    read_performative,
)
from etagere.protocols.amqp.sections import split
from etagere.protocols.amqp.transfer_in import walk_transfer

files = sorted((Path(__file__).parent / "frames").glob("*.txt"))


def _lines(file: Path, direction: str) -> list[bytes]:
    lines = file.read_text().splitlines()
    return [bytes.fromhex(line[2:]) for line in lines if line[0] == direction]


def _frames(data: bytes) -> list[tuple[bytes, int]]:
    """AMQP frames with a body: (the frame, where the body begins)."""
    frames: list[tuple[bytes, int]] = []
    while data:
        if data.startswith(b"AMQP"):
            data = data[8:]
            continue
        size, offset, kind, _ = struct.unpack_from(">IBBH", data)
        if kind == 0 and size > 8:
            frames.append((data[:size], offset * 4))
        data = data[size:]
    return frames


def test_there_are_recordings_of_each_sdk() -> None:
    assert {file.stem.partition("_")[0] for file in files} == {"go", "java", "js", "python"}


@pytest.mark.parametrize("file", files, ids=lambda file: file.stem)
@pytest.mark.parametrize("direction", [">", "<"])
def test_hot_paths_read_them_as_the_table_does(file: Path, direction: str) -> None:
    counts = {Transfer: 0, Disposition: 0, Flow: 0}
    for frame, at in _frames(b"".join(_lines(file, direction))):
        performative, payload = read_performative(frame, at, len(frame))
        end = len(frame)
        if isinstance(performative, Transfer):
            one = performative
            usual_transfer = (
                one.handle,
                one.delivery_id,
                one.delivery_tag,
                one.message_format or 0,
                bool(one.settled),
                one.more,
                payload,
            )
            # In a transaction it has a state, which is for the table.
            walked_transfer = walk_transfer(frame, at + 3, end)
            assert walked_transfer == (usual_transfer if one.state is None else None)
            split(frame[payload:])
        elif isinstance(performative, Disposition):
            walked = walk_accepted(frame, at + 3, end)
            last = performative.first if performative.last is None else performative.last
            usual = (performative.role, performative.first, last, performative.settled)
            assert walked == (usual if isinstance(performative.state, Accepted) else None)
        elif isinstance(performative, Flow):
            names = performative.__struct_fields__[:-1]
            usual_flow = tuple(getattr(performative, name) for name in names)
            assert walk_flow(frame, at + 3, end) == usual_flow
        else:
            continue
        counts[type(performative)] += 1
    assert counts[Transfer]
    assert counts[Flow]


@pytest.mark.parametrize("file", files, ids=lambda file: file.stem)
def test_values_survive(file: Path) -> None:
    for frame, at in _frames(b"".join(_lines(file, ">") + _lines(file, "<"))):
        _, payload = read_performative(frame, at, len(frame))
        value = decode_whole(frame, at, payload)
        assert decode_whole(encode(value)) == value


class Onlooker:
    """Accepts everything; delivers one message for the first credit on each link."""

    def __init__(self) -> None:
        self.connection = Connection("server", Limits(), start)
        self.seen: list[Any] = []

    def receive(self, data: bytes) -> None:
        connection = self.connection
        connection.receive_data(data, start)
        while (event := connection.next_event()) is not None:
            self.seen.append(event)
            match event:
                case SaslShown():
                    connection.send(SaslDecision(approved=True))
                case LinkAttached():
                    source = event.attach.source or Source()
                    target = event.attach.target or Target()
                    connection.send(AcceptLink(event.link, source, target, 262_144))
                    connection.send(GrantCredit(event.link, 1_000))
                case CreditGranted():
                    link = event.link
                    if link.credit and not link.delivery_count:
                        message = b"\x00\x53\x77\x40"
                        connection.send(SendTransfer(link, bytes(16), b"", message, settled=False))
                    if link.drain:
                        connection.send(CompleteDrain(link))
                case LinkDetached():
                    connection.send(DetachLink(event.link))
                case _:
                    pass
        connection.data_to_send()


@pytest.mark.parametrize("file", files, ids=lambda file: file.stem)
@pytest.mark.parametrize("size", [0, 1, 13])
def test_replayed_they_break_no_rule(file: Path, size: int) -> None:
    """However the bytes are cut (0: as they came)."""
    pieces = _lines(file, ">")
    if size:
        whole = b"".join(pieces)
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    onlooker = Onlooker()
    for piece in pieces:
        onlooker.receive(piece)
    kinds = [type(event) for event in onlooker.seen]
    assert LinkFailed not in kinds
    assert TransferReceived in kinds
    assert all(event.orderly for event in onlooker.seen if isinstance(event, SessionEnded))
    closed = onlooker.seen[-1]
    assert isinstance(closed, ConnectionClosed)
    assert closed.orderly
