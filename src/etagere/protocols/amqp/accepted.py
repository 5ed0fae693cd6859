"""The hot path of dispositions whose outcome is `accepted`, in and out."""

import struct
from typing import Final

from etagere.protocols.amqp.decoding import read_u32

DispositionFields = tuple[bool, int, int, bool]
"""(role, first, last, settled) of a disposition whose state is `accepted`."""

_accepted_forms: Final = (
    b"\x00\x53\x24\x45",
    b"\x00\x53\x24\xc0\x01\x00",
    b"\x00\x53\x24\xd0\x00\x00\x00\x04\x00\x00\x00\x00",
)

_frame: Final = struct.Struct(">IHH6scBIBIc5s")
_list: Final = b"\x00\x53\x15\xc0\x12\x06"
_state: Final = b"\x00\x53\x24\x45\x42"
"""Accepted, not batchable."""


def walk_accepted(buffer: bytes, at: int, end: int) -> DispositionFields | None:
    """`at` is the constructor of the field list; None for anything out of the ordinary."""
    try:
        code = buffer[at]
        if code == 0xC0:
            stop = at + 2 + buffer[at + 1]
            count = buffer[at + 2]
            at += 3
        elif code == 0xD0:
            stop = at + 5 + read_u32(buffer, at + 1)[0]
            count = read_u32(buffer, at + 5)[0]
            at += 9
        else:
            return None
        if not 5 <= count <= 6 or stop != end:
            return None
        # pyAMQP writes booleans in two bytes, everybody else in one.
        code = buffer[at]
        if code == 0x56 and buffer[at + 1] < 2:
            role = buffer[at + 1] == 1
            at += 2
        elif code in (0x41, 0x42):
            role = code == 0x41
            at += 1
        else:
            return None
        code = buffer[at]
        if code == 0x70:
            first = read_u32(buffer, at + 1)[0]
            at += 5
        elif code == 0x52:
            first = buffer[at + 1]
            at += 2
        elif code == 0x43:
            first = 0
            at += 1
        else:
            return None
        code = buffer[at]
        if code == 0x70:
            last = read_u32(buffer, at + 1)[0]
            at += 5
        elif code == 0x52:
            last = buffer[at + 1]
            at += 2
        elif code == 0x43:
            last = 0
            at += 1
        elif code == 0x40:
            last = first
            at += 1
        else:
            return None
        code = buffer[at]
        if code == 0x56 and buffer[at + 1] < 2:
            settled = buffer[at + 1] == 1
            at += 2
        elif 0x40 <= code <= 0x42:
            settled = code == 0x41
            at += 1
        else:
            return None
        for form in _accepted_forms:
            if buffer.startswith(form, at):
                at += len(form)
                break
        else:
            return None
        if count == 6:
            code = buffer[at]
            if code == 0x56 and buffer[at + 1] < 2:
                at += 2
            elif 0x40 <= code <= 0x42:
                at += 1
            else:
                return None
        if at != stop:
            return None
    except (IndexError, struct.error):
        return None
    return role, first, last, settled


def pack_accepted(channel: int, role: bool, first: int, last: int) -> bytes:
    """A whole frame: settled, accepted."""
    return _frame.pack(
        _frame.size,
        0x0200,
        channel,
        _list,
        b"\x41" if role else b"\x42",
        0x70,
        first,
        0x70,
        last,
        b"\x41",
        _state,
    )
