"""Reads the messages that come on one link, most of which look like the one before.

A client writes all its messages in one way, so from a message in the usual form a *shape* is
learnt: all of its bytes in front of the body, but for the message id's own and the body's length.
What has the same bytes in the same places is as good as the one that was read; `read_message` has
the last word on everything else.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

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

Unpack = Callable[[bytes], tuple[Any, ...]]


@lru_cache(maxsize=1024)
def _layout(head: int, message_id: int, middle: int, length: str) -> Struct:
    return Struct(f">{head}s{message_id}s{middle}s{length}")


class MessageReader:
    __slots__ = (
        "_draw_id",
        "_head",
        "_header",
        "_middle",
        "_resting",
        "_size",
        "_tail_at",
        "_ttl_ms",
        "_unpack",
        "_used",
    )

    def __init__(self, draw_id: DrawId) -> None:
        self._draw_id = draw_id
        self._size = 0
        """Of everything in front of the body; 0 while no shape is known."""
        self._unpack: Unpack
        self._head = b""
        """Up to the id's own bytes."""
        self._middle = b""
        """From behind the id up to the body's length."""
        self._tail_at = 0
        self._header = b""
        self._ttl_ms: int | None = None
        self._used = True
        self._resting = 0

    def read(self, payload: bytes) -> Message:
        """What `read_message` says of it."""
        return self.read_each((payload,))[0]

    def read_each(self, payloads: Sequence[bytes]) -> list[Message]:
        messages: list[Message] = []
        for payload in payloads:
            size = self._size
            length = len(payload)
            if 0 < size <= length:
                head, message_id, middle, body = self._unpack(payload)
                if (
                    head == self._head
                    and middle == self._middle
                    and body == length - size
                    and message_id.isascii()  # other text has to be looked at
                ):
                    self._used = True
                    messages.append(
                        Message(payload[self._tail_at :], length, self._header, ttl_ms=self._ttl_ms)
                    )
                    continue
            message = read_message(payload, self._draw_id)
            if self._resting:
                self._resting -= 1
            else:
                self._learn(payload, message)
            messages.append(message)
        return messages

    def _learn(self, payload: bytes, message: Message) -> None:
        """`message` is what was read of `payload`."""
        if not self._used:
            self._resting = _rest_after_useless
        self._size = 0
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
        self._head = payload[: at + _id_at]
        self._middle = tail[_id_at + id_bytes : body + 4]
        layout = _layout(len(self._head), id_bytes, len(self._middle), length)
        if layout.size + _body_bytes(tail, body, length) != len(payload):
            return  # something follows the body
        self._size = layout.size
        self._unpack = layout.unpack_from
        self._tail_at = at
        self._header = header
        self._ttl_ms = message.ttl_ms


def _body_bytes(tail: bytes, body: int, length: str) -> int:
    end = body + (8 if length == "I" else 5)
    return int.from_bytes(tail[body + 4 : end], "big")
