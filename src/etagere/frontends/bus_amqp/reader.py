"""Reads the messages that come on one link, most of which look like the one before.

A client writes all its messages in one way, so from a message in the usual form a *shape* is
learnt: all of its bytes in front of the body, but for the message id's own and the body's length,
and what is behind the body.  What has the same bytes in the same places is as good as the one that
was read; `read_message` has the last word on everything else.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from etagere.frontends.bus_amqp.messages import (
    DrawId,
    message_spans,
    read_message,
    usual_id_at,
)
from etagere.services.bus.messages import Message

_list_long: Final = 0xD0
_application_short: Final = b"\x00\x53\x74\xc1"
_application_long: Final = b"\x00\x53\x74\xd1"
_data_short: Final = b"\x00\x53\x75\xa0"
_data_long: Final = b"\x00\x53\x75\xb0"

_rest_after_useless: Final = 32
"""Messages after which a shape is learnt again, when the last one was of no use."""

Unpack = Callable[[bytes, int], tuple[Any, ...]]


@lru_cache(maxsize=1024)
def _layout(head: int, message_id: int, middle: int, length: str) -> Struct:
    return Struct(f">{head}s{message_id}s{middle}s{length}")


class Shape(NamedTuple):
    size: int
    """Of everything but the body."""
    unpack: Unpack
    head: bytes
    """Up to the id's own bytes; up to where it would be, if messages come without one."""
    middle: bytes
    """From there up to the body's length."""
    footer: bytes
    tail_at: int
    """What is kept from here on."""
    given: tuple[bytes, bytes] | None
    """What comes before that if messages have no ids: around the one that is given to each."""
    header: bytes
    ttl_ms: int | None


_unknown: Final = Shape(2**63, lambda _buffer, _at: (), b"", b"", b"", 0, None, b"", None)
"""Larger than any message."""


class MessageReader:
    __slots__ = ("_draw_id", "_resting", "_shape", "_used")

    def __init__(self, draw_id: DrawId) -> None:
        self._draw_id = draw_id
        self._shape = _unknown
        self._used = True
        self._resting = 0

    def read(self, message_format: int, payload: bytes) -> list[Message]:
        """What one transfer holds."""
        return self.read_run(payload, message_spans(message_format, payload))[0]

    def read_run(
        self, buffer: bytes, spans: Sequence[tuple[int, int]]
    ) -> tuple[list[Message], bool]:
        """What `read_message` says of each; and whether they differ in ids and bodies alone."""
        messages: list[Message] = []
        learnt = 0
        size, unpack, own_head, own_middle, footer, tail_at, given, header, ttl_ms = self._shape
        for start, end in spans:
            length = end - start
            if length >= size:
                head, message_id, middle, body = unpack(buffer, start)
                if (
                    head == own_head
                    and middle == own_middle
                    and body == length - size
                    and message_id.isascii()  # other text has to be looked at
                    and (not footer or buffer.endswith(footer, start, end))
                ):
                    tail = buffer[start + tail_at : end]
                    if given is not None:
                        tail = given[0] + self._draw_id().encode() + given[1] + tail
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
                size, unpack, own_head, own_middle, footer, tail_at, given, header, ttl_ms = (
                    self._shape
                )
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
        tail = message.tail
        id_at = usual_id_at(tail)
        if not id_at or message.annotations or message.delivery_annotations:
            return
        id_bytes = tail[id_at - 1]
        behind_id = id_at + id_bytes
        # What has no id gets one, and then begins in another way.
        properties = 8 + int.from_bytes(tail[4:8], "big") if tail[3] == _list_long else 5 + tail[4]
        kept = tail if payload.endswith(tail) else tail[properties:]
        if not payload.endswith(kept):
            return
        body = properties
        if tail.startswith(_application_short, body):
            body += 5 + tail[body + 4]
        elif tail.startswith(_application_long, body):
            body += 8 + int.from_bytes(tail[body + 4 : body + 8], "big")
        if tail.startswith(_data_long, body):
            length, begin = "I", body + 8
        elif tail.startswith(_data_short, body):
            length, begin = "B", body + 5
        else:
            return
        tail_at = len(payload) - len(kept)
        body_at = len(payload) - (len(tail) - body) + 4  # of its length
        footer = tail[begin + int.from_bytes(tail[body + 4 : begin], "big") :]
        if kept is tail:
            given = None
            head, middle = payload[: tail_at + id_at], payload[tail_at + behind_id : body_at]
        else:
            given = tail[:id_at], tail[behind_id:properties]
            head, middle, id_bytes = payload[:body_at], b"", 0
        layout = _layout(len(head), id_bytes, len(middle), length)
        self._shape = Shape(
            layout.size + len(footer),
            layout.unpack_from,
            head,
            middle,
            footer,
            tail_at,
            given,
            message.header,
            message.ttl_ms,
        )
