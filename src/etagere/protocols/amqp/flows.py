"""The hot path of flows, in and out."""

import struct
from typing import Final

from etagere.protocols.amqp.decoding import read_u32

FlowFields = tuple[
    int | None, int, int, int, int | None, int | None, int | None, int | None, bool, bool
]
"""In the order of the wire, without properties."""

_frame: Final = struct.Struct(">IHH6sBIBIBIBIBIBIBI4s")
_list: Final = b"\x00\x53\x13\xc0\x28\x0b"
_rest: Final = b"\x43\x42\x42\x40"
"""Nothing available, no drain, no echo, no properties."""


def walk_flow(buffer: bytes, at: int, end: int) -> FlowFields | None:
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
        if not 4 <= count <= 11 or stop != end:
            return None
        numbers: list[int | None] = []
        for _ in range(min(count, 8)):
            code = buffer[at]
            if code == 0x70:
                numbers.append(read_u32(buffer, at + 1)[0])
                at += 5
            elif code == 0x52:
                numbers.append(buffer[at + 1])
                at += 2
            elif code == 0x43:
                numbers.append(0)
                at += 1
            elif code == 0x40:
                numbers.append(None)
                at += 1
            else:
                return None
        drain = False
        echo = False
        if count > 8:
            # pyAMQP writes booleans in two bytes, everybody else in one.
            code = buffer[at]
            if code == 0x56 and buffer[at + 1] < 2:
                drain = buffer[at + 1] == 1
                at += 2
            elif 0x40 <= code <= 0x42:
                drain = code == 0x41
                at += 1
            else:
                return None
            if count > 9:
                code = buffer[at]
                if code == 0x56 and buffer[at + 1] < 2:
                    echo = buffer[at + 1] == 1
                    at += 2
                elif 0x40 <= code <= 0x42:
                    echo = code == 0x41
                    at += 1
                else:
                    return None
                if count > 10:
                    if buffer[at] != 0x40:
                        return None
                    at += 1
        if at != stop:
            return None
    except (IndexError, struct.error):
        return None
    numbers += [None] * (8 - len(numbers))
    next_incoming, incoming, next_outgoing, outgoing, handle, delivered, credit, available = numbers
    if incoming is None or next_outgoing is None or outgoing is None:
        return None
    return (
        next_incoming,
        incoming,
        next_outgoing,
        outgoing,
        handle,
        delivered,
        credit,
        available,
        drain,
        echo,
    )


def pack_credit(
    channel: int,
    next_incoming_id: int,
    incoming_window: int,
    next_outgoing_id: int,
    outgoing_window: int,
    handle: int,
    delivery_count: int,
    link_credit: int,
) -> bytes:
    """A whole frame that grants credit on a link."""
    return _frame.pack(
        _frame.size,
        0x0200,
        channel,
        _list,
        0x70,
        next_incoming_id,
        0x70,
        incoming_window,
        0x70,
        next_outgoing_id,
        0x70,
        outgoing_window,
        0x70,
        handle,
        0x70,
        delivery_count,
        0x70,
        link_credit,
        _rest,
    )
