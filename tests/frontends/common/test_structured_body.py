"""Structured bodies: what is encoded is decoded, cut up in any way; what was changed is refused."""

import struct

import pytest
from awscrt.checksums import crc64nvme
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.common import structured_body
from etagere.frontends.common.structured_body import Decoder, Encoder, message_bytes

contents = st.lists(st.binary(max_size=40), max_size=8)


def message(segments: list[bytes], *, flags: int = 1) -> bytes:
    """Written down again, after the description of the format."""
    body = b""
    for number, content in enumerate(segments, 1):
        body += struct.pack("<HQ", number, len(content)) + content
        if flags & 1:
            body += struct.pack("<Q", crc64nvme(content))
    if flags & 1:
        body += struct.pack("<Q", crc64nvme(b"".join(segments)))
    return struct.pack("<BQHH", 1, len(body) + 13, flags, len(segments)) + body


def decode(data: bytes, content_bytes: int, cuts: list[int] | None = None) -> bytes:
    decoder = Decoder(len(data), content_bytes)
    ends = sorted({min(cut, len(data)) for cut in cuts or []} | {len(data)})
    found, begin = b"", 0
    for end in ends:
        found += b"".join(decoder.feed(data[begin:end]))
        begin = end
    decoder.finish()
    return found


def encode(pieces: list[bytes]) -> bytes:
    encoder = Encoder(sum(map(len, pieces)))
    data = encoder.begin()
    for piece in pieces:
        data += b"".join(encoder.encode(piece))
    return data + encoder.end()


@given(contents, st.lists(st.integers(0, 500), max_size=20))
def test_what_is_encoded_is_decoded_however_it_is_cut(pieces: list[bytes], cuts: list[int]) -> None:
    content = b"".join(pieces)
    data = encode(pieces)
    assert len(data) == message_bytes(len(content))
    assert data == message([content])
    assert decode(data, len(content), cuts) == content


@given(contents, st.integers(1, 50))
def test_segments_of_any_size(pieces: list[bytes], size: int) -> None:
    content = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(structured_body, "segment_bytes", size)
        data = encode(pieces)
        assert len(data) == message_bytes(len(content))
    cut = [content[at : at + size] for at in range(0, len(content), size)] or [b""]
    assert data == message(cut)
    assert decode(data, len(content)) == content


def test_segments_grow_where_their_number_would_not_fit() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(structured_body, "segment_bytes", 2)
        patched.setattr(structured_body, "segments_max", 3)
        data = encode([b"0123456789"])
        assert data == message([b"0123", b"4567", b"89"])
        assert len(data) == message_bytes(10)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5))
def test_a_message_without_checksums(segments: list[bytes]) -> None:
    content = b"".join(segments)
    assert decode(message(segments, flags=0), len(content)) == content


def test_one_segment_and_none_at_all() -> None:
    assert decode(message([b""]), 0) == b""
    assert decode(message([b"", b"", b"x", b""]), 1) == b"x"
    with pytest.raises(Refused):
        decode(message([]), 0)


@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    segments = data.draw(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=4))
    good = message(segments)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Refused) as refused:
        decode(bytes(bad), sum(map(len, segments)))
    assert refused.value.code in ("InvalidInput", "Crc64Mismatch")


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4), st.integers(0, 1000))
def test_a_message_that_stops_or_goes_on(segments: list[bytes], count: int) -> None:
    good = message(segments)
    size = sum(map(len, segments))
    decoder = Decoder(len(good), size)
    decoder.feed(good[: count % len(good)])
    with pytest.raises(Refused):
        decoder.finish()
    with pytest.raises(Refused):
        decode(good + b"x", size)
    decoder = Decoder(len(good), size)
    decoder.feed(good)
    with pytest.raises(Refused):
        decoder.feed(b"x")


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4), st.integers(-3, 3))
def test_the_announced_lengths_must_hold(segments: list[bytes], error: int) -> None:
    good = message(segments)
    size = sum(map(len, segments))
    if error == 0:
        return
    with pytest.raises(Refused):
        decode(good, size + error)
    decoder = Decoder(len(good) + error, size)
    with pytest.raises(Refused):
        decoder.feed(good)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10), st.integers(0, 300))
def test_garbage_is_refused_and_nothing_else(data: bytes, cuts: list[int], size: int) -> None:
    try:
        found = decode(data, size, cuts)
    except Refused:
        return
    assert len(found) == size


@given(st.binary(max_size=200), st.integers(0, 100))
def test_garbage_behind_a_good_beginning(tail: bytes, size: int) -> None:
    head = struct.pack("<BQHH", 1, 13 + len(tail), 1, 2)
    try:
        found = decode(head + tail, size)
    except Refused:
        return
    assert len(found) == size


def test_what_is_held_back_does_not_grow() -> None:
    """A segment's content is handed out as it comes."""
    size = 1 << 20
    decoder = Decoder(size + 1000, size)
    head = struct.pack("<BQHH", 1, size + 1000, 1, 1) + struct.pack("<HQ", 1, size)
    assert decoder.feed(head) == []
    for _ in range(100):
        assert sum(map(len, decoder.feed(b"x" * 1000))) == 1000
        assert len(decoder._buffer) == 0
