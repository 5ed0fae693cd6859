"""The hot path of a message that arrives: a look at its tail, for the commonest shapes.

Properties, application properties, one run of data and maybe an empty footer, each in the forms
that clients write, behind annotations that are empty (JavaScript, Java and Go write those).
Everything else is for `sections.split`, and so is saying what is wrong with it; tests hold one
against the other.
"""

import struct
from typing import Final

from etagere.protocols.amqp.decoding import decode, flat_widths, read_u32
from etagere.protocols.amqp.errors import DecodeFault

_empty_maps: Final = (b"\xc1\x01\x00", b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00")
_annotations: Final = (b"\x00\x53\x71", b"\x00\x53\x72")
_properties_short: Final = b"\x00\x53\x73\xc0"
_properties_long: Final = b"\x00\x53\x73\xd0"
_properties_none: Final = b"\x00\x53\x73\x45"
_application_short: Final = b"\x00\x53\x74\xc1"
_application_long: Final = b"\x00\x53\x74\xd1"
_data_short: Final = b"\x00\x53\x75\xa0"
_data_long: Final = b"\x00\x53\x75\xb0"
_footers: Final = tuple(b"\x00\x53\x78" + empty for empty in _empty_maps)
_properties_most: Final = 13
_short_text: Final = 0xA1
_texts: Final = frozenset((_short_text, 0xB1))
_binaries: Final = frozenset((0xA0, 0xB0))
_in_doubt: Final = frozenset((0x56, 0x73))
"""A boolean with a byte of its own, and a character: not every byte is one."""
_no_property: Final = _in_doubt | frozenset((0x45, 0x72, 0x74, 0x82, 0x84, 0x94))
"""No property is a list or a fraction either."""


def behind_empty_annotations(payload: bytes, at: int) -> int:
    """Where the tail begins if there are only empty annotations in front of it."""
    if not payload.startswith(_annotations, at):
        return at
    for start in _annotations:
        for empty in _empty_maps:
            if payload.startswith(start + empty, at):
                at += len(start + empty)
                break
    return at


def is_usual_tail(payload: bytes, at: int) -> bool:
    """Whether what begins at `at` is a tail of a usual shape, and a good one, up to the end.

    False for one of another shape, or a bad one.
    """
    tail_at = at
    try:
        if payload.startswith(_properties_short, at):
            stop, count = at + 5 + payload[at + 4], payload[at + 5]
            if not _are_properties(payload, at + 6, stop, count):
                return False
            at = stop
        elif payload.startswith(_properties_long, at):
            stop, count = at + 8 + read_u32(payload, at + 4)[0], read_u32(payload, at + 8)[0]
            if not _are_properties(payload, at + 12, stop, count):
                return False
            at = stop
        elif payload.startswith(_properties_none, at):
            at += len(_properties_none)
        if payload.startswith(_application_short, at):
            stop = at + 5 + payload[at + 4]
            count = payload[at + 5]
            if count & 1 or not _is_flat_map(payload, at + 6, stop, count):
                return False
            at = stop
        elif payload.startswith(_application_long, at):
            stop = at + 8 + read_u32(payload, at + 4)[0]
            count = read_u32(payload, at + 8)[0]
            if count & 1 or not _is_flat_map(payload, at + 12, stop, count):
                return False
            at = stop
        if payload.startswith(_data_long, at):
            at += 8 + read_u32(payload, at + 4)[0]
        elif payload.startswith(_data_short, at):
            at += 5 + payload[at + 4]
        if at < len(payload) and payload.startswith(_footers, at):
            at += 6 if payload[at + 3] == 0xC1 else 12
    except (IndexError, struct.error, UnicodeDecodeError, DecodeFault):
        return False
    return at == len(payload) and at > tail_at


def _are_properties(payload: bytes, at: int, stop: int, count: int) -> bool:
    """Whether exactly `count` scalars, such as properties are, lie between `at` and `stop`."""
    if count > _properties_most:
        return False
    if count and payload[at] == _short_text:  # mostly a message id, and little else
        text = at + 2
        at = text + payload[at + 1]
        str(payload[text:at], "utf-8")
        count -= 1
    if stop - at == count and payload.count(b"\x40", at, stop) == count:
        return True
    while count > 0:
        code = payload[at]
        # Most fields of the properties are null, and most of those come last.
        if code == 0x40:
            if stop - at == count and payload.count(b"\x40", at, stop) == count:
                return True
            at += 1
        elif code in _no_property:
            return False
        else:
            at = _behind_scalar(payload, at, stop)
        count -= 1
        if at > stop:
            return False
    return at == stop


def _is_flat_map(payload: bytes, at: int, stop: int, count: int) -> bool:
    """Whether half of `count` names, all different, lie between `at` and `stop`, each with a scalar
    behind it."""
    names: set[bytes] = set()
    for _ in range(count >> 1):
        code = payload[at]
        if code not in _texts:
            return False
        end = _behind_scalar(payload, at, stop)
        names.add(payload[at + (2 if code == _short_text else 5) : end])
        at = _behind_scalar(payload, end, stop)
        if at > stop:
            return False
    return at == stop and len(names) == count >> 1


def _behind_scalar(payload: bytes, at: int, stop: int) -> int:
    """Where the value at `at` ends; raises if it is not a scalar, or not a good one."""
    code = payload[at]
    width = flat_widths[code]
    if width >= 0:
        if code in _in_doubt:
            decode(payload, at, stop)
        return at + 1 + width
    if width == -1:
        text = at + 2
        end = text + payload[at + 1]
    elif width == -4:
        text = at + 5
        end = text + read_u32(payload, at + 1)[0]
    else:
        raise DecodeFault("A value is not a scalar.")
    if end <= stop and code not in _binaries:
        str(payload[text:end], "utf-8" if code in _texts else "ascii")
    return end
