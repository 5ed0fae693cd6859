"""Bodies both ways: streamed, bounded, and never confused with what follows them."""

import asyncio
import contextlib

import pytest

from etagere.base.errors import Refused
from etagere.frontends.common.message import ClientGone, Response

from .conftest import eventually

put = "PUT {path} HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"


def put_of(size, path="/", extra=""):
    return put.format(path=path, framing=f"Content-Length: {size}{extra}")


async def test_a_body_may_arrive_in_any_pieces(serve):
    client = await (await serve())()
    message = put_of(6).encode() + b"abcdef"
    for n in range(len(message)):
        await client.send(message[n : n + 1])
        await asyncio.sleep(0)
    assert (await client.response())[2] == b"abcdef"


async def test_chunks_extensions_and_trailers_are_read(serve, frontend):
    client = await (await serve())()
    await client.send(
        put.format(path="/", framing="Transfer-Encoding: Chunked"),
        "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nx-trailer: 1\r\nx-more: 5\r\n\r\n",
        put_of(1),
        "f",
    )
    assert (await client.response())[2] == b"abcde"
    assert (await client.response())[2] == b"f"
    assert frontend.requests[0].content_length is None
    assert "x-trailer" not in frontend.requests[0].headers


async def test_many_small_chunks_reach_the_handler_in_few_pieces(serve, frontend):
    sizes = []

    async def count(request):
        await asyncio.sleep(0.05)
        sizes.extend([len(piece) async for piece in request.body.chunks()])
        return Response(201)

    frontend.routes["/count"] = count
    client = await (await serve())()
    await client.send(
        put.format(path="/count", framing="Transfer-Encoding: chunked"),
        b"1\r\nx\r\n" * 30_000,
        b"0\r\n\r\n",
    )
    assert (await client.response())[0] == 201
    assert sum(sizes) == 30_000
    assert len(sizes) < 300


async def test_a_body_is_limited_before_it_is_read(serve, frontend):
    async def small(request):
        try:
            await request.body.read(10)
        except Refused as refused:
            return Response(413, {"x-code": refused.code, "x-max": refused.details["MaxLimit"]})
        return Response(201)

    frontend.routes["/small"] = small
    client = await (await serve())()
    await client.send(put_of(11, "/small"), "x" * 11)
    status, headers, _ = await client.response()
    assert (status, headers["x-code"], headers["x-max"]) == (413, "RequestBodyTooLarge", "10")
    await client.send(
        put.format(path="/small", framing="Transfer-Encoding: chunked"),
        "6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n",
    )
    assert (await client.response())[0] == 413


async def test_continue_is_sent_when_the_handler_reads(serve, frontend):
    client = await (await serve())()
    await client.send(put_of(5, extra="\r\nExpect: 100-continue"))
    assert (await client.response())[0] == 100
    await client.send("hello")
    status, headers, body = await client.response()
    assert (status, body) == (200, b"hello")
    assert "connection" not in headers
    await client.send(put_of(5), "again")
    assert (await client.response())[2] == b"again"


async def test_without_a_continue_the_connection_ends(serve, frontend):
    async def refuse(request):
        return Response(409)

    frontend.routes["/refuse"] = refuse
    connect = await serve()
    client = await connect()
    await client.send(put_of(5, "/refuse", "\r\nExpect: 100-continue"))
    status, headers, _ = await client.response()
    assert (status, headers["connection"]) == (409, "close")
    assert await client.ended()


async def test_a_body_sent_without_waiting_for_a_continue_is_read(serve):
    client = await (await serve())()
    await client.send(put_of(5, extra="\r\nExpect: 100-continue"), "hello")
    status, _, body = await client.response()
    assert (status, body) == (200, b"hello")


async def test_an_early_answer_leaves_the_connection_usable_when_little_is_left(serve, frontend):
    async def refuse(request):
        return Response(403)

    frontend.routes["/refuse"] = refuse
    client = await (await serve())()
    for framing, body in (
        ("Content-Length: 100000", b"x" * 100_000),
        ("Content-Length: 10", b"GET / HTTP"),
    ):
        await client.send(put.format(path="/refuse", framing=framing))
        status, headers, _ = await client.response()
        assert status == 403
        assert "connection" not in headers
        await client.send(body)
    await client.send(put_of(2), "ok")
    assert (await client.response())[2] == b"ok"


async def test_an_early_answer_reaches_a_client_that_is_still_sending(serve, frontend):
    async def refuse(request):
        return Response(403, {}, b"no")

    frontend.routes["/refuse"] = refuse
    client = await (await serve())()
    await client.send(put_of(100_000_000, "/refuse"))

    async def push():
        block = b"x" * 1_000_000
        for _ in range(100):
            await client.send(block)

    pushing = asyncio.create_task(push())
    await asyncio.sleep(0.02)
    status, headers, body = await client.response()
    assert (status, headers["connection"], body) == (403, "close", b"no")
    await pushing
    assert await client.ended()


async def test_an_early_answer_to_chunks_ends_the_connection(serve, frontend):
    async def refuse(request):
        return Response(403)

    frontend.routes["/refuse"] = refuse
    client = await (await serve())()
    await client.send(
        put.format(path="/refuse", framing="Transfer-Encoding: chunked"), "1\r\na\r\n"
    )
    status, headers, _ = await client.response()
    assert (status, headers["connection"]) == (403, "close")
    assert await client.ended()


@pytest.mark.parametrize("framing", ["Content-Length: 10", "Transfer-Encoding: chunked"])
async def test_a_client_that_dies_half_way_is_noticed(serve, frontend, framing):
    async def read(request):
        await request.body.read()
        return Response(201)

    frontend.routes["/read"] = read
    client = await (await serve())()
    await client.send(put.format(path="/read", framing=framing), "5\r\nab")
    await eventually(lambda: frontend.requests)
    client.writer.transport.abort()
    await eventually(lambda: frontend.gone)
    assert isinstance(frontend.gone[0], ClientGone)


async def test_a_body_that_ends_early_in_a_half_closed_connection_is_gone_too(serve, frontend):
    async def read(request):
        await request.body.read()
        return Response(201)

    frontend.routes["/read"] = read
    client = await (await serve())()
    await client.send(put_of(10, "/read"), "abc")
    client.writer.write_eof()
    assert await client.response() is None
    assert isinstance(frontend.gone[0], ClientGone)


async def test_a_half_closed_connection_gets_its_answers(serve):
    client = await (await serve())()
    await client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n", put_of(3), "abc")
    client.writer.write_eof()
    assert (await client.response())[1]["x-path"] == "/1"
    assert (await client.response())[2] == b"abc"
    assert await client.ended()


async def test_a_malformed_chunk_is_refused_and_nothing_of_it_kept(serve, frontend):
    async def read(request):
        await request.body.read()
        return Response(201)

    frontend.routes["/read"] = read
    client = await (await serve())()
    await client.send(put.format(path="/read", framing="Transfer-Encoding: chunked"), "3\r\nabcXX")
    status, headers, _ = await client.response()
    assert (status, headers["connection"]) == (400, "close")
    assert await client.ended()
    assert isinstance(frontend.gone[0], ClientGone)


async def test_a_trailer_without_end_is_refused(serve):
    client = await (await serve())()
    await client.send(put.format(path="/", framing="Transfer-Encoding: chunked"), "1\r\na\r\n0\r\n")
    with contextlib.suppress(ConnectionError):
        await client.send("x: " + "y" * 400_000)
    assert (await client.response())[0] == 431
    assert await client.ended()


async def test_a_body_that_nobody_reads_is_not_read_from_the_socket(serve, frontend):
    release = asyncio.Event()
    seen = []

    async def wait(request):
        await release.wait()
        seen.extend([len(piece) async for piece in request.body.chunks()])
        return Response(201)

    frontend.routes["/wait"] = wait
    connect = await serve()
    client = await connect()
    size = 64 * 1024 * 1024
    client.writer.write(put_of(size, "/wait").encode() + bytes(size))
    await eventually(lambda: frontend.requests)
    left = -1
    while left != client.writer.transport.get_write_buffer_size():
        left = client.writer.transport.get_write_buffer_size()
        await asyncio.sleep(0.3)
    assert left > size // 2
    (connection,) = connect.server._connections
    assert connection._receiving.held_bytes < 2 * 1024 * 1024
    release.set()
    assert (await client.response())[0] == 201
    assert sum(seen) == size


async def test_pipelined_requests_are_answered_in_order_and_few_wait(serve, frontend):
    waiting = []

    async def slow(request):
        (connection,) = connect.server._connections
        waiting.append(len(connection._queue))
        await asyncio.sleep(0)
        return Response(200, {"x-n": request.raw_query})

    frontend.routes["/slow"] = slow
    connect = await serve()
    client = await connect()
    count = 3000

    async def pour():
        for n in range(count):
            await client.send(f"GET /slow?{n} HTTP/1.1\r\nHost: h\r\n\r\n")

    pouring = asyncio.create_task(pour())
    for n in range(count):
        assert (await client.response())[1]["x-n"] == str(n)
    await pouring
    assert max(waiting) < 1000


async def test_a_long_body_before_pipelined_requests_is_kept_apart(serve):
    client = await (await serve())()
    body = b"GET /no HTTP/1.1\r\nHost: h\r\n\r\n" * 30_000
    last = "GET /last HTTP/1.1\r\nHost: h\r\n\r\n"
    pouring = asyncio.create_task(client.send(put_of(len(body)), body, put_of(1), "x", last))
    assert (await client.response())[2] == body
    assert (await client.response())[2] == b"x"
    assert (await client.response())[1]["x-path"] == "/last"
    await pouring
