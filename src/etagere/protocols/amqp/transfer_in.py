"""The hot path of a transfer that arrives: its fields walked directly.

`walk_transfer` knows every width that the fields may have, whatever the client; where a frame is
unusual it gives None, and the table-driven path decides.  Its answer is the same in all cases that
it takes, which the tests check frame by frame.
"""

import struct
from itertools import product
from typing import Final

from etagere.protocols.amqp.decoding import read_u32

TransferFields = tuple[int, int, bytes, int, bool, bool, int]
"""(handle, delivery id, tag, message format, settled, more, where the payload begins)."""


def _inert_tails() -> frozenset[bytes]:
    """rcv-settle-mode, state, resume, aborted, batchable, when they say nothing."""
    tails: set[bytes] = set()
    fields = (b"\x40", b"\x40", b"\x40\x42", b"\x40\x42", b"\x40\x41\x42")
    for count in range(len(fields) + 1):
        tails.update(bytes(tail) for tail in product(*fields[:count]))
    return frozenset(tails)


_inert: Final = _inert_tails()


def walk_transfer(buffer: bytes, at: int, end: int) -> TransferFields | None:
    """`at` is the constructor of the field list.

    Nothing before the last check trusts a length: if the walk ends exactly at the list's end, and
    that is inside the frame, then every field was.
    """
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
        if count < 4 or stop > end:
            return None
        code = buffer[at]
        if code == 0x43:
            handle = 0
            at += 1
        elif code == 0x52:
            handle = buffer[at + 1]
            at += 2
        elif code == 0x70:
            handle = read_u32(buffer, at + 1)[0]
            at += 5
        else:
            return None
        code = buffer[at]
        if code == 0x70:
            delivery_id = read_u32(buffer, at + 1)[0]
            at += 5
        elif code == 0x52:
            delivery_id = buffer[at + 1]
            at += 2
        elif code == 0x43:
            delivery_id = 0
            at += 1
        else:
            return None
        if buffer[at] != 0xA0:
            return None
        start = at + 2
        at = start + buffer[at + 1]
        tag = buffer[start:at]
        code = buffer[at]
        if code in (0x43, 0x40):
            message_format = 0
            at += 1
        elif code == 0x70:
            message_format = read_u32(buffer, at + 1)[0]
            at += 5
        elif code == 0x52:
            message_format = buffer[at + 1]
            at += 2
        else:
            return None
        settled = False
        more = False
        if count > 4:
            # pyAMQP writes booleans in two bytes, everybody else in one.
            code = buffer[at]
            if code == 0x56 and buffer[at + 1] < 2:
                settled = buffer[at + 1] == 1
                at += 2
            elif 0x40 <= code <= 0x42:
                settled = code == 0x41
                at += 1
            else:
                return None
            if count > 5:
                code = buffer[at]
                if code == 0x56 and buffer[at + 1] < 2:
                    more = buffer[at + 1] == 1
                    at += 2
                elif 0x40 <= code <= 0x42:
                    more = code == 0x41
                    at += 1
                else:
                    return None
                if count > 6:
                    rest = buffer[at:stop]
                    if len(rest) != count - 6 or rest not in _inert:
                        return None
                    at = stop
        if at != stop:
            return None
    except (IndexError, struct.error):
        return None
    return handle, delivery_id, tag, message_format, settled, more, stop
