"""Message ids and pop receipts: what they look like and what they encode.

A message id is a GUID of version 8 (RFC 9562): the 60 bits of the message's order, by which its
record is found without an index, and 62 bits drawn by lot.  A pop receipt is the stamp of the Get,
Put or Update that gave it out, in base64 of hex digits, so that it holds no `+`, `/` or `=` for a
client to forget to escape.  Clients treat both as opaque.
"""

import re
from binascii import Error, a2b_base64, b2a_base64
from typing import Final, NamedTuple

order_bits: Final = 60
tail_bits: Final = 62

_low_bits: Final = 12
_tail_mask: Final = (1 << tail_bits) - 1
_low_mask: Final = (1 << _low_bits) - 1

_id_form: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)
_receipt_characters: Final = 20
_receipt_form: Final = re.compile(rb"[0-9A-F]{15}")


class MessageKey(NamedTuple):
    order: int
    tail: int


def message_id(order: int, tail: int) -> str:
    assert order >> order_bits == 0
    return "%08x-%04x-8%03x-%04x-%012x" % (  # noqa: UP031 - the fastest way to write it
        order >> 28,
        order >> _low_bits & 0xFFFF,
        order & _low_mask,
        tail >> 48 & 0x3FFF | 0x8000,  # the variant
        tail & 0xFFFF_FFFF_FFFF,
    )


def parse_message_id(text: str) -> MessageKey | None:
    """What an id encodes; None for one that was never given out."""
    if _id_form.fullmatch(text) is None:
        return None
    value = int(text.replace("-", ""), 16)
    order = value >> 80 << _low_bits | value >> 64 & _low_mask
    return MessageKey(order, value & _tail_mask)


def tail_of(chance: bytes) -> int:
    """The tail of a message id from eight random bytes."""
    return int.from_bytes(chance, "big") & _tail_mask


def pop_receipt(stamp: int) -> str:
    assert stamp >> order_bits == 0
    return b2a_base64(b"%015X" % stamp, newline=False).decode()


def parse_pop_receipt(text: str) -> int | None:
    """The stamp that a receipt encodes; None for text that is no receipt at all."""
    if len(text) != _receipt_characters or not text.isascii():
        return None
    try:
        digits = a2b_base64(text, strict_mode=True)
    except Error:
        return None
    return int(digits, 16) if _receipt_form.fullmatch(digits) else None
