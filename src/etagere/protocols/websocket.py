"""The server's end of a WebSocket (RFC 6455) that carries a stream of bytes, without sockets.

Where messages and frames begin means nothing to what they carry, so payload is handed on as it
comes, in whatever pieces.
"""

import base64
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Final

continuation: Final = 0x0
text: Final = 0x1
binary: Final = 0x2
close: Final = 0x8
ping: Final = 0x9
pong: Final = 0xA

control_bytes_max: Final = 125
"""RFC 6455, 5.5."""
frame_bytes_max: Final = 16_777_216
normal: Final = 1_000
protocol_error: Final = 1_002
unsupported: Final = 1_003
too_big: Final = 1_009

_accept_suffix: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_read_u16: Final = struct.Struct(">H").unpack_from
_read_u64: Final = struct.Struct(">Q").unpack_from


def accept_headers(
    headers: Mapping[str, str], subprotocols: Sequence[str]
) -> dict[str, str] | None:
    """The headers of the answer to an opening handshake (4.2), or None if it is not one for us.

    `headers` has names in lower case; the client's first subprotocol that we know is taken.
    """
    key = headers.get("sec-websocket-key", "")
    try:
        known = len(base64.b64decode(key, validate=True)) == 16
    except ValueError:
        known = False
    offered = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
    chosen = next((one for one in offered if one in subprotocols), None)
    if (
        not known
        or headers.get("upgrade", "").casefold() != "websocket"
        or headers.get("sec-websocket-version", "") != "13"
        or chosen is None
    ):
        return None
    accept = base64.b64encode(
        hashlib.sha1(key.encode() + _accept_suffix, usedforsecurity=False).digest()
    )
    return {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": accept.decode(),
        "Sec-WebSocket-Protocol": chosen,
    }


class WebSocketFault(Exception):  # noqa: N818 - the peer's
    """The peer broke the protocol; `code` is what to close with."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class WebSocket:
    """`receive_data` gives the stream's bytes; `data_to_send` what control frames ask for."""

    __slots__ = ("_buffer", "_left", "_mask", "_more", "_out", "_used", "closed")

    def __init__(self) -> None:
        self._buffer = b""
        """The start of a frame's header, or of a control frame."""
        self._left = 0
        """Payload still to come of a data frame."""
        self._more = False
        """Whether frames are still to come of a message."""
        self._mask = b""
        self._used = 0
        """Payload already unmasked of that frame."""
        self._out: list[bytes] = []
        self.closed = False
        """The peer said goodbye."""

    def receive_data(self, data: bytes) -> bytes:
        if self.closed:
            return b""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        at = 0
        end = len(data)
        pieces: list[bytes] = []
        while at < end and not self.closed:
            if self._left:
                taken = min(self._left, end - at)
                pieces.append(self._unmask(data[at : at + taken]))
                self._left -= taken
                at += taken
                continue
            used = self._frame(data, at, end)
            if used == 0:
                self._buffer = data[at:]
                break
            at += used
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _frame(self, data: bytes, at: int, end: int) -> int:
        """Bytes used: a data frame's header, a whole control frame, or 0 for more to come."""
        if end - at < 2:
            return 0
        first, second = data[at], data[at + 1]
        opcode = first & 0x0F
        if first & 0x70 or not second & 0x80:
            raise WebSocketFault(protocol_error, "A frame is not masked, or has unknown bits.")
        size = second & 0x7F
        head = 2
        if size == 126:
            if end - at < 4:
                return 0
            size = _read_u16(data, at + 2)[0]
            head = 4
        elif size == 127:
            if end - at < 10:
                return 0
            size = _read_u64(data, at + 2)[0]
            head = 10
        if opcode >= close:
            return self._control_frame(data, at, end, first, head, size)
        if opcode == text or opcode > binary:
            raise WebSocketFault(unsupported, "Only binary frames are taken.")
        if (opcode == continuation) is not self._more:
            raise WebSocketFault(protocol_error, "A message begins within another, or nowhere.")
        if size > frame_bytes_max:
            raise WebSocketFault(too_big, "A frame is too large.")
        if end - at < head + 4:
            return 0
        self._mask = data[at + head : at + head + 4]
        self._left = size
        self._used = 0
        self._more = not first & 0x80
        return head + 4

    def _control_frame(
        self, data: bytes, at: int, end: int, first: int, head: int, size: int
    ) -> int:
        opcode = first & 0x0F
        if (
            not first & 0x80
            or size > control_bytes_max
            or opcode > pong
            or (opcode == close and size == 1)  # half a code
        ):
            raise WebSocketFault(protocol_error, "A control frame is not valid.")
        whole = head + 4 + size
        if end - at < whole:
            return 0
        self._mask = data[at + head : at + head + 4]
        self._used = 0
        payload = self._unmask(data[at + head + 4 : at + whole])
        if opcode == ping:
            self._out.append(frame(pong, payload))
        elif opcode == close:
            self.closed = True
            self._out.append(frame(close, payload[:2]))
        return whole

    def _unmask(self, payload: bytes) -> bytes:
        size = len(payload)
        turn = self._used & 3
        self._used += size
        mask = self._mask[turn:] + self._mask[:turn]
        key = (mask * (size // 4 + 1))[:size]
        mixed = int.from_bytes(payload, "little") ^ int.from_bytes(key, "little")
        return mixed.to_bytes(size, "little")

    def data_to_send(self) -> bytes:
        """Answers to pings and to a close."""
        if not self._out:
            return b""
        out = b"".join(self._out)
        self._out = []
        return out


def frame(opcode: int, payload: bytes) -> bytes:
    """One whole, unmasked frame."""
    size = len(payload)
    if size < 126:
        return bytes((0x80 | opcode, size)) + payload
    if size < 65_536:
        return struct.pack(">BBH", 0x80 | opcode, 126, size) + payload
    return struct.pack(">BBQ", 0x80 | opcode, 127, size) + payload


def close_frame(code: int) -> bytes:
    return frame(close, struct.pack(">H", code))
