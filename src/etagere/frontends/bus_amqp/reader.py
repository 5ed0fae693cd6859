"""Reads the messages that come on one link, most of which look like the one before.

A client writes all its messages in one way, so from a message in the usual form a *shape* is
learnt: all of its bytes in front of the body, but for the message id's own and the body's length.
What has the same bytes in the same places is as good as the one that was read; `read_message` has
the last word on everything else.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from etagere.frontends.bus_amqp.messages import DrawId, read_message
from etagere.services.bus.messages import Message

_properties: Final = b"\x00\x53\x73\xc0"
_application_short: Final = b"\x00\x53\x74\xc1"
_application_long: Final = b"\x00\x53\x74\xd1"
_data_short: Final = b"\x00\x53\x75\xa0"
_data_long: Final = b"\x00\x53\x75\xb0"
_text: Final = 0xA1
_id_at: Final = 8
"""In the properties: descriptor, list's constructor, size and count, the id's constructor and
length."""

_rest_after_useless: Final = 32
"""Messages after which a shape is learnt again, when the last one was of no use."""

Unpack = Callable[[bytes, int], tuple[Any, ...]]


@lru_cache(maxsize=1024)
def _layout(head: int, message_id: int, middle: int, length: str) -> Struct:
    return Struct(f">{head}s{message_id}s{middle}s{length}")


class Shape(NamedTuple):
    size: int
    """Of everything in front of the body."""
    unpack: Unpack
    head: bytes
    """Up to the id's own bytes."""
    middle: bytes
    """From behind the id up to the body's length."""
    tail_at: int
    header: bytes
    ttl_ms: int | None


_unknown: Final = Shape(2**63, lambda _buffer, _at: (), b"", b"", 0, b"", None)
"""Larger than any message."""


class MessageReader:
    __slots__ = ("_draw_id", "_resting", "_shape", "_used")

    def __init__(self, draw_id: DrawId) -> None:
        self._draw_id = draw_id
        self._shape = _unknown
        self._used = True
        self._resting = 0

    def read_run(
        self, buffer: bytes, spans: Sequence[tuple[int, int]]
    ) -> tuple[list[Message], bool]:
        """What `read_message` says of each; and whether they differ in ids and bodies alone."""
        messages: list[Message] = []
        learnt = 0
        size, unpack, own_head, own_middle, tail_at, header, ttl_ms = self._shape
        for start, end in spans:
            length = end - start
            if length >= size:
                head, message_id, middle, body = unpack(buffer, start)
                if (
                    head == own_head
                    and middle == own_middle
                    and body == length - size
                    and message_id.isascii()  # other text has to be looked at
                ):
                    tail = buffer[start + tail_at : end]
                    messages.append(Message(tail, length, header, ttl_ms=ttl_ms))
                    continue
            if len(messages) > learnt:
                self._used = True
            payload = buffer[start:end]
            message = read_message(payload, self._draw_id)
            if self._resting:
                self._resting -= 1
            else:
                self._learn(payload, message)
                size, unpack, own_head, own_middle, tail_at, header, ttl_ms = self._shape
            messages.append(message)
            learnt = len(messages)
        if len(messages) > learnt:
            self._used = True
        return messages, not learnt

    def _learn(self, payload: bytes, message: Message) -> None:
        """`message` is what was read of `payload`."""
        if not self._used:
            self._resting = _rest_after_useless
        self._shape = _unknown
        self._used = False
        header, tail = message.header, message.tail
        at = len(header)
        if (
            message.annotations
            or message.delivery_annotations
            or payload[at:] != tail
            or not payload.startswith(header)
            or not tail.startswith(_properties)
            or tail[6] != _text
            or tail[5] == 0
        ):
            return
        id_bytes = tail[_id_at - 1]
        body = 5 + tail[4]
        if tail.startswith(_application_short, body):
            body += 5 + tail[body + 4]
        elif tail.startswith(_application_long, body):
            body += 8 + int.from_bytes(tail[body + 4 : body + 8], "big")
        if tail.startswith(_data_long, body):
            length = "I"
        elif tail.startswith(_data_short, body):
            length = "B"
        else:
            return
        head = payload[: at + _id_at]
        middle = tail[_id_at + id_bytes : body + 4]
        layout = _layout(len(head), id_bytes, len(middle), length)
        if layout.size + _body_bytes(tail, body, length) != len(payload):
            return  # something follows the body
        self._shape = Shape(
            layout.size, layout.unpack_from, head, middle, at, header, message.ttl_ms
        )


def _body_bytes(tail: bytes, body: int, length: str) -> int:
    end = body + (8 if length == "I" else 5)
    return int.from_bytes(tail[body + 4 : end], "big")
