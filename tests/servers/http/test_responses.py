"""Responses on the wire: framing, streams that go wrong, headers that would split."""

import asyncio
import gc
import socket
import struct
import weakref

import pytest

from etagere.frontends.common.message import Response

from .conftest import eventually

get = "GET {} HTTP/1.1\r\nHost: h\r\n\r\n"
head = "HEAD {} HTTP/1.1\r\nHost: h\r\n\r\n"


async def pieces_of(*pieces):
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        yield piece


def route(frontend, path, make):
    async def answer(_):
        return make()

    frontend.routes[path] = answer


async def test_head_says_the_length_and_sends_nothing(serve, frontend):
    route(frontend, "/bytes", lambda: Response(200, {"ETag": '"1"'}, b"abc"))
    route(frontend, "/stated", lambda: Response(200, {"Content-Length": "77"}))
    route(frontend, "/stream", lambda: Response(200, {"Content-Length": "6"}, pieces_of(b"abcdef")))
    client = await (await serve())()
    for path, length in (("/bytes", "3"), ("/stated", "77"), ("/stream", "6")):
        await client.send(head.format(path))
        status, headers, _ = await client.response(head=True)
        assert (status, headers["content-length"]) == (200, length)
    await client.send(get.format("/bytes"))
    assert (await client.response())[2] == b"abc"


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body_have_none(serve, frontend, status):
    route(frontend, "/none", lambda: Response(status, {"Content-Length": "3"}, b"abc"))
    client = await (await serve())()
    await client.send(get.format("/none"), get.format("/next"))
    got, headers, _ = await client.response()
    assert got == status
    assert "content-length" not in headers
    assert (await client.response())[1]["x-path"] == "/next"


async def test_a_stream_with_its_length_stated(serve, frontend):
    blocks = [bytes([n]) * 200_000 for n in range(20)]
    route(frontend, "/s", lambda: Response(200, {"Content-Length": "4000000"}, pieces_of(*blocks)))
    client = await (await serve())()
    await client.send(get.format("/s"), get.format("/next"))
    status, headers, body = await client.response()
    assert status == 200
    assert "transfer-encoding" not in headers
    assert body == b"".join(blocks)
    assert (await client.response())[1]["x-path"] == "/next"


async def test_a_stream_without_a_length_is_chunked(serve, frontend):
    route(frontend, "/s", lambda: Response(200, {}, pieces_of(b"abc", b"", b"def" * 1000)))
    client = await (await serve())()
    await client.send(get.format("/s"), get.format("/next"))
    _, headers, body = await client.response()
    assert headers["transfer-encoding"] == "chunked"
    assert "content-length" not in headers
    assert body == b"abc" + b"def" * 1000
    assert (await client.response())[1]["x-path"] == "/next"


@pytest.mark.parametrize("pieces", [(b"abc",), (b"abcdefgh",), (b"abc", ValueError("disk"))])
async def test_a_stream_that_breaks_its_word_breaks_the_connection(serve, frontend, pieces, caplog):
    route(frontend, "/s", lambda: Response(200, {"Content-Length": "6"}, pieces_of(*pieces)))
    client = await (await serve())()
    await client.send(get.format("/s"), get.format("/next"))
    try:
        everything = await client.reader.read()
    except ConnectionError:
        everything = b""
    assert b"x-path" not in everything
    assert caplog.records


async def test_a_stream_is_closed_when_its_client_goes(serve, frontend):
    closed = asyncio.Event()
    taken = 0

    async def endless():
        nonlocal taken
        try:
            while True:
                taken += 1
                yield bytes(100_000)
        finally:
            closed.set()

    route(frontend, "/s", lambda: Response(200, {}, endless()))
    client = await (await serve())()
    await client.send(get.format("/s"))
    await client.reader.readexactly(1_000_000)
    client.writer.transport.abort()
    await asyncio.wait_for(closed.wait(), 20)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_stream_that_nobody_takes_does_what_it_does_at_its_end(serve, frontend, method):
    """A client may be gone before there is an answer, and some want the head alone."""
    asked, go_on, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def holding_something():
        try:
            yield b"abc"
        finally:
            closed.set()

    async def slow(_):
        asked.set()
        await go_on.wait()
        return Response(200, {"Content-Length": "3"}, holding_something())

    frontend.routes["/s"] = slow
    connect = await serve()
    with socket.create_connection(("127.0.0.1", connect.port)) as client:
        client.sendall(get.format("/s").replace("GET", method).encode())
        await asyncio.wait_for(asked.wait(), 20)
        if method == "GET":
            # Closing resets the connection: otherwise the server would still answer.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            await eventually(lambda: connect.server.connections == 0)
        go_on.set()
        await asyncio.wait_for(closed.wait(), 20)


async def test_a_slow_reader_holds_the_stream_back(serve, frontend):
    taken = 0

    async def large():
        nonlocal taken
        for _ in range(2000):
            taken += 1
            yield bytes(100_000)

    route(frontend, "/s", lambda: Response(200, {"Content-Length": "200000000"}, large()))
    client = await (await serve())()
    await client.send(get.format("/s"))
    await client.reader.readexactly(1000)
    before = -1
    while before != taken:
        before = taken
        await asyncio.sleep(0.3)
    assert taken < 500
    rest = 0
    while taken < 2000:
        rest += len(await client.reader.read(1_000_000))
    assert rest > 100_000_000


async def test_line_breaks_in_header_values_split_nothing(serve, frontend):
    route(
        frontend,
        "/s",
        lambda: Response(
            200,
            {"Content-Type": "a\r\nSet-Cookie: b", "x": "\n\n<script>", "y": "\0\r", "z": "ok\t1"},
        ),
    )
    client = await (await serve())()
    await client.send(get.format("/s"))
    status, headers, body = await client.response()
    assert (status, body) == (200, b"")
    assert headers["content-type"] == "a  Set-Cookie: b"
    assert headers["z"] == "ok\t1"
    assert "set-cookie" not in headers


async def test_header_values_beyond_latin_1_go_out_as_utf_8(serve, frontend):
    route(frontend, "/s", lambda: Response(200, {"x-name": "日本"}))
    client = await (await serve())()
    await client.send(get.format("/s"))
    assert (await client.response())[1]["x-name"].encode("latin-1").decode() == "日本"


async def test_the_reason_phrase_may_be_the_services_own(serve, frontend):
    def busy():
        response = Response(503)
        response.reason = "The server is busy.\r\nx: y"
        return response

    route(frontend, "/s", busy)
    client = await (await serve())()
    await client.send(get.format("/s"))
    line = await client.reader.readline()
    assert line == b"HTTP/1.1 503 The server is busy.  x: y\r\n"


async def test_a_bug_in_a_handler_ends_one_connection_with_500(serve, frontend, caplog):
    def fail():
        raise ZeroDivisionError

    route(frontend, "/s", fail)
    connect = await serve()
    client = await connect()
    await client.send(get.format("/s"))
    status, headers, _ = await client.response()
    assert (status, headers["connection"]) == (500, "close")
    assert await client.ended()
    assert "handler failed" in caplog.text
    client = await connect()
    await client.send(get.format("/"))
    assert (await client.response())[0] == 200


async def test_nothing_is_kept_of_connections_that_ended(serve, frontend):
    connect = await serve()
    kept = weakref.WeakSet()
    for _ in range(20):
        client = await connect()
        await client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        assert (await client.response())[0] == 200
        kept.update(connect.server._connections)
        await client.close()
    await eventually(lambda: not connect.server._connections)
    frontend.requests.clear()
    await asyncio.sleep(0)
    gc.collect()
    assert len(kept) == 0
