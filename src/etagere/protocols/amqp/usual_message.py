"""The hot path of a message that arrives: a look at its tail, for the commonest shapes.

Properties, application properties, one run of data, each in the forms that clients write.
Everything else is for `sections.split`, and so is saying what is wrong with it; tests hold one
against the other.
"""

import struct
from typing import Final

from etagere.protocols.amqp.decoding import flat_widths, read_u32

_properties: Final = b"\x00\x53\x73\xc0"
_application_short: Final = b"\x00\x53\x74\xc1"
_application_long: Final = b"\x00\x53\x74\xd1"
_data_short: Final = b"\x00\x53\x75\xa0"
_data_long: Final = b"\x00\x53\x75\xb0"


def is_usual_tail(payload: bytes, at: int) -> bool:
    """Whether what begins at `at` is a tail of a usual shape, and a good one, up to the end.

    False for one of another shape, or a bad one.
    """
    tail_at = at
    try:
        if payload.startswith(_properties, at):
            stop = at + 5 + payload[at + 4]
            fields = at + 6
            count = payload[at + 5]
            if count and payload[fields] == 0xA1:  # mostly a message id, and little else
                fields += 2 + payload[fields + 1]
                count -= 1
            if (
                stop - fields != count or payload.count(b"\x40", fields, stop) != count
            ) and not _is_flat(payload, fields, stop, count):
                return False
            at = stop
        if payload.startswith(_application_short, at):
            stop = at + 5 + payload[at + 4]
            count = payload[at + 5]
            if count & 1 or not _is_flat(payload, at + 6, stop, count):
                return False
            at = stop
        elif payload.startswith(_application_long, at):
            stop = at + 8 + read_u32(payload, at + 4)[0]
            count = read_u32(payload, at + 8)[0]
            if count & 1 or not _is_flat(payload, at + 12, stop, count):
                return False
            at = stop
        if payload.startswith(_data_long, at):
            at += 8 + read_u32(payload, at + 4)[0]
        elif payload.startswith(_data_short, at):
            at += 5 + payload[at + 4]
    except (IndexError, struct.error):
        return False
    return at == len(payload) and at > tail_at


def _is_flat(payload: bytes, at: int, stop: int, count: int) -> bool:
    """Whether exactly `count` scalars lie between `at` and `stop`."""
    widths = flat_widths
    while count > 0:
        # Most fields of the properties are null, and most of those come last.
        if payload[at] == 0x40:
            if stop - at == count and payload.count(b"\x40", at, stop) == count:
                return True
            at += 1
        else:
            width = widths[payload[at]]
            if width >= 0:
                at += 1 + width
            elif width == -1:
                at += 2 + payload[at + 1]
            elif width == -4:
                at += 5 + read_u32(payload, at + 1)[0]
            else:
                return False
        count -= 1
        if at > stop:
            return False
    return at == stop
