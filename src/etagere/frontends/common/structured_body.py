"""Structured bodies: content in segments that carry their checksums (since version 2024-11-04).

`x-ms-structured-body: XSM/1.0; properties=crc64` says that a body is, all numbers little-endian,

    message header    version (1 byte, 1), length of the whole message (8), flags (2), segments (2)
    each segment      number from 1 (2), length of its content (8), the content,
                      CRC-64/NVME of the content (8, if the flag says so)
    message trailer   CRC-64/NVME of all content (8, if the flag says so)

and `x-ms-structured-content-length` how much content there is.  This module reads and writes it:
bytes in, bytes out.  An SDK that is asked to validate content uses it wherever it streams.
"""

from collections.abc import Generator, Iterator
from struct import Struct
from typing import Final

from awscrt.checksums import crc64nvme

from etagere.base.errors import Refused

value: Final = "XSM/1.0; properties=crc64"
body_header: Final = "x-ms-structured-body"
length_header: Final = "x-ms-structured-content-length"
since: Final = "2024-11-04"

segment_bytes: Final = 4 * 1024 * 1024
segments_max: Final = 2**16 - 1

_version: Final = 1
_with_crc64: Final = 1
_message_header: Final = Struct("<BQHH")
_segment_header: Final = Struct("<HQ")
_crc64: Final = Struct("<Q")


def _malformed() -> Refused:
    # Unconfirmed: how the live service calls it.
    return Refused(
        "InvalidInput", {"Reason": "The structured body does not have the form that it should."}
    )


def _mismatch() -> Refused:
    return Refused("Crc64Mismatch")


class Decoder:
    """Takes a message in pieces of any size and gives its content; raises Refused for one that is
    malformed or whose checksums do not hold.

    `message_bytes` and `content_bytes` are what the headers announce.
    """

    def __init__(self, message_bytes: int, content_bytes: int) -> None:
        self._message_bytes: Final = message_bytes
        self._content_bytes: Final = content_bytes
        self._buffer = bytearray()
        self._found: list[bytes] = []
        self._steps = self._read()
        self._wanted = next(self._steps)
        self._done = False

    def feed(self, data: bytes) -> list[bytes]:
        """The content that `data` completes, which may be some of a segment's; its checksum may
        still turn out not to hold."""
        self._buffer += data
        while not self._done and len(self._buffer) >= max(self._wanted, 1):
            try:
                self._wanted = next(self._steps)
            except StopIteration:
                self._done = True
        if self._done and self._buffer:
            raise _malformed()
        found, self._found = self._found, []
        return found

    def finish(self) -> None:
        """Nothing more will come."""
        if not self._done:
            raise _malformed()

    def _read(self) -> Generator[int, None, None]:
        """Yields how many bytes it must have to go on; 0 for whatever there is."""
        yield _message_header.size
        version, length, flags, segments = _message_header.unpack(self._take(_message_header.size))
        if version != _version or length != self._message_bytes or flags & ~_with_crc64:
            raise _malformed()
        if not segments:
            raise _malformed()
        with_crc64 = bool(flags & _with_crc64)
        whole, seen = 0, 0
        for number in range(1, segments + 1):
            yield _segment_header.size
            said, size = _segment_header.unpack(self._take(_segment_header.size))
            seen += size
            if said != number or seen > self._content_bytes:
                raise _malformed()
            crc, left = 0, size
            while left:
                yield 0
                piece = self._take(min(left, len(self._buffer)))
                left -= len(piece)
                self._found.append(piece)
                if with_crc64:
                    crc = crc64nvme(piece, crc)
                    whole = crc64nvme(piece, whole)
            if with_crc64:
                yield from self._check(crc)
        if seen != self._content_bytes:
            raise _malformed()
        if with_crc64:
            yield from self._check(whole)

    def _check(self, crc: int) -> Generator[int, None, None]:
        yield _crc64.size
        if _crc64.unpack(self._take(_crc64.size)) != (crc,):
            raise _mismatch()

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _segment_size(content_bytes: int) -> int:
    """Segments are counted in 16 bits: of a very large content, each is larger."""
    return max(segment_bytes, -(-content_bytes // segments_max))


def message_bytes(content_bytes: int) -> int:
    """How long the message is that `Encoder` makes of so much content."""
    segments = -(-content_bytes // _segment_size(content_bytes)) or 1
    each = _segment_header.size + _crc64.size
    return _message_header.size + segments * each + content_bytes + _crc64.size


class Encoder:
    """Makes a message of content that comes in pieces of any size."""

    def __init__(self, content_bytes: int) -> None:
        size = _segment_size(content_bytes)
        self._size: Final = size
        self._left = content_bytes
        self._segments: Final = -(-content_bytes // size) or 1
        self._number = 0
        self._in_segment = 0
        self._crc = 0
        self._whole = 0
        self._header: Final = _message_header.pack(
            _version, message_bytes(content_bytes), _with_crc64, self._segments
        )

    def begin(self) -> bytes:
        """Before the first piece."""
        return self._header + self._begin_segment()

    def encode(self, piece: bytes) -> Iterator[bytes]:
        view = memoryview(piece)
        while view:
            if not self._in_segment:
                yield self._end_segment() + self._begin_segment()
            part = bytes(view[: self._in_segment]) if len(view) > self._in_segment else bytes(view)
            view = view[len(part) :]
            self._crc = crc64nvme(part, self._crc)
            self._whole = crc64nvme(part, self._whole)
            self._in_segment -= len(part)
            self._left -= len(part)
            yield part

    def end(self) -> bytes:
        """After the last piece."""
        assert not self._left, "the content is shorter than was said"
        return self._end_segment() + _crc64.pack(self._whole)

    def _begin_segment(self) -> bytes:
        self._number += 1
        assert self._number <= self._segments, "the content is longer than was said"
        self._in_segment = min(self._size, self._left)
        self._crc = 0
        return _segment_header.pack(self._number, self._in_segment)

    def _end_segment(self) -> bytes:
        return _crc64.pack(self._crc)
