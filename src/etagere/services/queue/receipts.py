"""Message ids and pop receipts: what they look like and what they encode.

A message id is a GUID of version 8 (RFC 9562): the 60 bits of the message's order, by which its
record is found without an index, and 62 bits drawn by lot.  A pop receipt is the stamp of the Get,
Put or Update that gave it out, in base64 of hex digits, so that it holds no `+`, `/` or `=` for a
client to forget to escape.  Clients treat both as opaque.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error
from typing import Final, NamedTuple

order_bits: Final = 60
tail_bits: Final = 62

_version: Final = 8 << 76
_variant: Final = 2 << 62
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
    high = (order >> _low_bits) << 80
    value = high | _version | (order & _low_mask) << 64 | _variant | tail & _tail_mask
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


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
    return b64encode(f"{stamp:015X}".encode()).decode()


def parse_pop_receipt(text: str) -> int | None:
    """The stamp that a receipt encodes; None for text that is no receipt at all."""
    if len(text) != _receipt_characters or not text.isascii():
        return None
    try:
        digits = b64decode(text, validate=True)
    except Error:
        return None
    return int(digits, 16) if _receipt_form.fullmatch(digits) else None
