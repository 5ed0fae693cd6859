"""Ordered tuples as bytes: `pack(a) < pack(b)` exactly when `a < b`, item by item.

An item is a byte that says its type, then its payload:

    None    05
    bool    06 | 07
    bytes   10  payload, each 00 as 00 FF, then 00
    str     11  its UTF-8, each 00 as 00 FF, then 00
    int     20-n  n bytes of ~(-value), n = 1..8    (negative: the longer, the smaller)
            20                                        (zero)
            20+n  n bytes of value, n = 1..8

UTF-8 sorts like code points.  No type byte is 00 or FF: FF after a packed prefix is therefore above
every tuple that starts with it, and 00 is free to end a partition (`kv.rows`).
"""

from typing import Final

Item = None | bool | bytes | str | int

integer_bytes_max: Final = 8
integer_min: Final = -(2**64) + 1
integer_max: Final = 2**64 - 1

_none: Final = b"\x05"
_false: Final = b"\x06"
_true: Final = b"\x07"
_bytes: Final = b"\x10"
_str: Final = b"\x11"
_zero: Final = 0x20

_negative: Final = tuple(bytes((_zero - n,)) for n in range(integer_bytes_max + 1))
_positive: Final = tuple(bytes((_zero + n,)) for n in range(integer_bytes_max + 1))


class MalformedTuple(ValueError):  # noqa: N818 - the field's word for it
    """Bytes that `pack` never made."""


def pack(*items: Item) -> bytes:
    """The tuple as bytes.  A lone surrogate or an integer beyond 64 bits is a ValueError."""
    out = b""
    for item in items:
        kind = type(item)
        if kind is str:
            raw = item.encode()  # type: ignore[union-attr]  # `kind is` does not narrow
            if b"\0" in raw:
                raw = raw.replace(b"\0", b"\0\xff")
            out += b"\x11" + raw + b"\0"
        elif kind is int and item > 0:  # type: ignore[operator]  # same
            size = (item.bit_length() + 7) >> 3  # type: ignore[union-attr]  # same
            if size > integer_bytes_max:
                raise ValueError("integer beyond 64 bits")
            out += _positive[size] + item.to_bytes(size, "big")  # type: ignore[union-attr]  # same
        else:
            out += _pack_rare(item)
    return out


def pack_text(text: str) -> bytes:
    """`pack` of one text, which most keys end in: without looking what it is."""
    raw = text.encode()
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"\0\xff")
    return b"\x11" + raw + b"\0"


def pack_number(number: int) -> bytes:
    """`pack` of one integer."""
    size = (number.bit_length() + 7) >> 3
    if number <= 0 or size > integer_bytes_max:
        return _pack_integer(number)
    return _positive[size] + number.to_bytes(size, "big")


def _pack_rare(item: Item) -> bytes:
    match item:
        case None:
            return _none
        case bool():
            return _true if item else _false
        case bytes():
            return _bytes + item.replace(b"\0", b"\0\xff") + b"\0"
        case str():
            return _str + item.encode().replace(b"\0", b"\0\xff") + b"\0"
        case int():
            return _pack_integer(item)


def _pack_integer(value: int) -> bytes:
    size = (value.bit_length() + 7) >> 3
    if size > integer_bytes_max:
        raise ValueError("integer beyond 64 bits")
    if value >= 0:
        return _positive[size] + value.to_bytes(size, "big")
    return _negative[size] + (value + (1 << 8 * size) - 1).to_bytes(size, "big")


def unpack(packed: bytes) -> tuple[Item, ...]:
    """The tuple that was packed; MalformedTuple for anything that `pack` does not make."""
    items, at = unpack_from(packed, 0)
    if at != len(packed):
        raise MalformedTuple("unknown type of item")
    return items


def unpack_from(packed: bytes, at: int) -> tuple[tuple[Item, ...], int]:
    """The items from `at` up to the end or to a byte that begins no item, and where that is."""
    items: list[Item] = []
    end = len(packed)
    while at < end:
        code = packed[at]
        if code in (0x10, 0x11):
            raw, at = _unpack_escaped(packed, at + 1)
            items.append(raw if code == 0x10 else _decode(raw))
        elif _zero - integer_bytes_max <= code <= _zero + integer_bytes_max:
            size = abs(code - _zero)
            at += 1
            items.append(_unpack_integer(packed[at : at + size], size, negative=code < _zero))
            at += size
        elif code == 0x05:
            items.append(None)
            at += 1
        elif code in (0x06, 0x07):
            items.append(code == 0x07)
            at += 1
        else:
            break
    return tuple(items), at


def _unpack_escaped(packed: bytes, at: int) -> tuple[bytes, int]:
    """The payload that starts at `at`, and the offset after its terminator."""
    stop = packed.find(b"\0", at)
    if stop >= 0 and packed[stop + 1 : stop + 2] != b"\xff":
        return packed[at:stop], stop + 1
    pieces = []
    while stop >= 0 and packed[stop + 1 : stop + 2] == b"\xff":
        pieces.append(packed[at : stop + 1])
        at = stop + 2
        stop = packed.find(b"\0", at)
    if stop < 0:
        raise MalformedTuple("text without an end")
    pieces.append(packed[at:stop])
    return b"".join(pieces), stop + 1


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedTuple("text that is not UTF-8") from None


def _unpack_integer(payload: bytes, size: int, *, negative: bool) -> int:
    if len(payload) != size:
        raise MalformedTuple("integer cut short")
    value = int.from_bytes(payload, "big")
    if negative:
        value -= (1 << 8 * size) - 1
    if (value.bit_length() + 7) >> 3 != size:
        raise MalformedTuple("integer longer than it needs to be")
    return value


def range_of(*prefix: Item) -> tuple[bytes, bytes]:
    """(begin, end) of every tuple that starts with these items, the tuple of just them included.

    `end` is also where to go on from after skipping all of them.
    """
    begin = pack(*prefix)
    return begin, begin + b"\xff"


def range_of_prefix(*items: Item) -> tuple[bytes, bytes]:
    """(begin, end) of every tuple that starts with these items but the last, and then a text that
    starts with the last (a str or bytes).

    `range_of_prefix("c", "photos/")` covers ("c", "photos/1") and ("c", "photos/2", 7); `end` is
    where a listing with a delimiter goes on from.
    """
    last = items[-1]
    if not isinstance(last, str | bytes):
        raise TypeError("the last item is not a text")
    begin = pack(*items)[:-1]  # without its terminator
    # The first key above all that start with `begin`: raise the last byte that can be raised.
    # FF occurs in escapes and in bytes; the type byte in front stops the search.
    stem = begin.rstrip(b"\xff")
    return begin, stem[:-1] + bytes((stem[-1] + 1,))


def after(key: bytes) -> bytes:
    """The lowest key above `key`."""
    return key + b"\0"
