import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.protocols.websocket import (
    WebSocket,
    WebSocketFault,
    accept_headers,
    binary,
    close,
    close_frame,
    continuation,
    frame,
    frame_bytes_max,
    ping,
    pong,
    text,
)


def masked(
    opcode: int, payload: bytes, *, final: bool = True, mask: bytes = b"\x01\x80\xff\x3c"
) -> bytes:
    size = len(payload)
    first = (0x80 if final else 0) | opcode
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 65_536:
        head = struct.pack(">BBH", first, 0xFE, size)
    else:
        head = struct.pack(">BBQ", first, 0xFF, size)
    mixed = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return head + mask + mixed


frames = st.lists(
    st.tuples(st.sampled_from([binary, continuation, ping, pong]), st.binary(max_size=300)),
    max_size=8,
)


@given(frames, st.data())
def test_payload_comes_out_however_it_is_cut(
    parts: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    wire = b""
    more = False
    for at, (code, body) in enumerate(parts):
        final = True
        if code >= close:
            body = body[:125]  # noqa: PLW2901
        else:
            code = continuation if more else binary  # noqa: PLW2901
            final = data.draw(st.booleans())
            more = not final
        parts[at] = (code, body)
        mask = data.draw(st.binary(min_size=4, max_size=4))
        wire += masked(code, body, final=final, mask=mask)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    socket = WebSocket()
    out = b""
    answers = b""
    for start, stop in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        out += socket.receive_data(wire[start:stop])
        answers += socket.data_to_send()
    assert out == b"".join(body for code, body in parts if code in (binary, continuation))
    assert answers == b"".join(frame(pong, body) for code, body in parts if code == ping)


def test_large_frames() -> None:
    for size in (125, 126, 65_535, 65_536, 200_000):
        body = bytes(range(256)) * (size // 256 + 1)
        body = body[:size]
        assert WebSocket().receive_data(masked(binary, body)) == body
        out = frame(binary, body)
        assert out.endswith(body)
        assert len(out) - size in (2, 4, 10)


def test_a_close_is_answered_and_ends_it() -> None:
    socket = WebSocket()
    wire = masked(binary, b"last") + masked(close, struct.pack(">H", 1000) + b"bye")
    assert socket.receive_data(wire + masked(binary, b"more")) == b"last"
    assert socket.closed
    assert socket.data_to_send() == close_frame(1000)
    assert socket.receive_data(masked(binary, b"more")) == b""


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (b"\x82\x01x", 1002),  # not masked
        (masked(binary | 0x40, b"x"), 1002),  # a reserved bit
        (masked(ping, b"x", final=False), 1002),
        (masked(ping, bytes(126)), 1002),
        (masked(0xB, b""), 1002),
        (masked(continuation, b"x"), 1002),  # of nothing
        (masked(binary, b"x", final=False) + masked(binary, b"x"), 1002),  # within another
        (masked(close, b"x"), 1002),  # half a code
        (masked(text, b"x"), 1003),
        (masked(3, b"x"), 1003),
        (struct.pack(">BBQ", 0x82, 0xFF, frame_bytes_max + 1) + bytes(4), 1009),
    ],
)
def test_faults(wire: bytes, code: int) -> None:
    with pytest.raises(WebSocketFault) as caught:
        WebSocket().receive_data(wire)
    assert caught.value.code == code


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_any_bytes(pieces: list[bytes]) -> None:
    socket = WebSocket()
    try:
        for piece in pieces:
            socket.receive_data(piece)
    except WebSocketFault:
        return


handshake = {
    "upgrade": "WebSocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": "other, AMQPWSB10",
}


@pytest.mark.parametrize(("offered", "taken"), [("amqp", "amqp"), ("amqp, AMQPWSB10", "amqp")])
def test_the_first_subprotocol_that_is_known_is_taken(offered: str, taken: str) -> None:
    headers = accept_headers(handshake | {"sec-websocket-protocol": offered}, ("AMQPWSB10", "amqp"))
    assert headers is not None
    assert headers["Sec-WebSocket-Protocol"] == taken


def test_the_handshake_of_the_standard() -> None:
    assert accept_headers(handshake, ("AMQPWSB10", "amqp")) == {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "Sec-WebSocket-Protocol": "AMQPWSB10",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upgrade", "h2c"),
        ("sec-websocket-version", "8"),
        ("sec-websocket-key", "short"),
        ("sec-websocket-key", "AAAA"),
        ("sec-websocket-protocol", "mqtt"),
        ("sec-websocket-protocol", ""),
    ],
)
def test_other_handshakes(name: str, value: str) -> None:
    assert accept_headers(handshake | {name: value}, ("AMQPWSB10", "amqp")) is None
