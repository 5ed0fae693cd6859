"""The hot path of a message that arrives: where its tail begins, for the commonest shapes.

A header or none, properties, application properties, one run of data, each in the forms that
clients write.  Everything else is for `sections.split`, and so is saying what is wrong with it;
tests hold one against the other.
"""

import struct
from typing import Final

from etagere.protocols.amqp.decoding import check_compound, flat_widths, read_u32
from etagere.protocols.amqp.errors import DecodeFault

_header: Final = b"\x00\x53\x70\xc0"
_properties: Final = b"\x00\x53\x73\xc0"
_application_short: Final = b"\x00\x53\x74\xc1"
_application_long: Final = b"\x00\x53\x74\xd1"
_data_short: Final = b"\x00\x53\x75\xa0"
_data_long: Final = b"\x00\x53\x75\xb0"

_headers_kept: Final = 1_024
_good_headers: Final[set[bytes]] = set()
"""Senders use a handful of headers."""


def usual_tail(payload: bytes) -> int:
    """Where the tail begins; -1 for a message of another shape, or a bad one."""
    try:
        at = 0
        if payload.startswith(_header):
            at = 5 + payload[4]
            if payload[:at] not in _good_headers and not _is_good_header(payload[:at]):
                return -1
        tail_at = at
        if payload.startswith(_properties, at):
            stop = at + 5 + payload[at + 4]
            if not _is_flat(payload, at + 6, stop, payload[at + 5]):
                return -1
            at = stop
        if payload.startswith(_application_short, at):
            stop = at + 5 + payload[at + 4]
            count = payload[at + 5]
            if count & 1 or not _is_flat(payload, at + 6, stop, count):
                return -1
            at = stop
        elif payload.startswith(_application_long, at):
            stop = at + 8 + read_u32(payload, at + 4)[0]
            count = read_u32(payload, at + 8)[0]
            if count & 1 or not _is_flat(payload, at + 12, stop, count):
                return -1
            at = stop
        if payload.startswith(_data_long, at):
            at += 8 + read_u32(payload, at + 4)[0]
        elif payload.startswith(_data_short, at):
            at += 5 + payload[at + 4]
    except (IndexError, struct.error):
        return -1
    return tail_at if at == len(payload) and at > tail_at else -1


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


def _is_good_header(section: bytes) -> bool:
    try:
        check_compound(section, 3, len(section))
    except DecodeFault:
        return False
    if len(_good_headers) >= _headers_kept:
        _good_headers.clear()
    _good_headers.add(section)
    return True
