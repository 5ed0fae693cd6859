"""The hot path of a transfer that leaves: frame header and performative in one `Struct.pack`."""

import struct
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

_head_one: Final = struct.Struct(">IHH6s1sBI2s16s8s")
_head_two: Final = struct.Struct(">IHH6s2sBI2s16s8s")
"""Size, offset and type, channel, list head, handle, delivery id, tag, the rest of the fields."""

_frame_start: Final = struct.Struct(">HH")
_list_one: Final = b"\x00\x53\x14\xc0\x21\x0b"
_list_two: Final = b"\x00\x53\x14\xc0\x22\x0b"
_settled: Final = b"\x43\x41\x42\x40\x40\x42\x42\x42"
_unsettled: Final = b"\x43\x42\x42\x40\x40\x42\x42\x42"
"""Message format 0, settled, no more, no mode, no state, not resumed, aborted or batchable."""


tag_bytes: Final = 16
_tag_start: Final = b"\xa0\x10"

Packer = tuple[Callable[..., bytes], int, bytes, bytes, bytes]
"""What packs, how many bytes, and three of its arguments: `pack(size of the whole frame, fixed,
delivery id, tag's start, tag, rest)`."""


@lru_cache(maxsize=1024)
def transfer_packer(channel: int, handle_bytes: bytes) -> Packer | None:
    """`pack_transfer` for many unsettled ones: what is the same for all of them is made once."""
    start = {1: _list_one, 2: _list_two}.get(len(handle_bytes))
    if start is None:
        return None
    fixed = _frame_start.pack(0x0200, channel) + start + handle_bytes + b"\x70"
    layout = Struct(f">I{len(fixed)}sI2s{tag_bytes}s{len(_unsettled)}s")
    return layout.pack, layout.size, fixed, _tag_start, _unsettled


def pack_transfer(
    channel: int, handle_bytes: bytes, delivery_id: int, tag: bytes, settled: bool, payload: int
) -> bytes | None:
    """A frame up to its payload of `payload` bytes, or None where the generic path has to do it.

    `handle_bytes` is the encoded handle.
    """
    if len(tag) != tag_bytes:
        return None
    rest = _settled if settled else _unsettled
    if len(handle_bytes) == 1:
        return _head_one.pack(
            _head_one.size + payload,
            0x0200,
            channel,
            _list_one,
            handle_bytes,
            0x70,
            delivery_id,
            _tag_start,
            tag,
            rest,
        )
    if len(handle_bytes) == 2:
        return _head_two.pack(
            _head_two.size + payload,
            0x0200,
            channel,
            _list_two,
            handle_bytes,
            0x70,
            delivery_id,
            _tag_start,
            tag,
            rest,
        )
    return None
