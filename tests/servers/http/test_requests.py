"""What a frontend gets to see of a request, and which heads never reach one."""

import pytest

from etagere.frontends.common.message import Response


async def test_a_request_arrives_as_it_was_sent(serve, frontend):
    client = await (await serve())()
    await client.send(
        "GET /acct/c/a%20b%00?comp=list&prefix=%2Fx HTTP/1.1\r\nHost: h:1\r\n"
        "X-MS-Version: 2020-10-02\r\nx-ms-meta-Empty:\r\nRange:  bytes=0-1 \r\n\r\n"
    )
    status, headers, body = await client.response()
    assert (status, headers["x-path"], body) == (200, "/acct/c/a%20b%00", b"hello")
    assert headers["content-length"] == "5"
    (request,) = frontend.requests
    assert request.method == "GET"
    assert request.raw_query == "comp=list&prefix=%2Fx"
    assert request.query["prefix"] == "/x"
    assert request.host == "h:1"
    assert request.client_ip == "127.0.0.1"
    assert not request.secure
    assert request.repeated_headers == frozenset()
    assert request.headers == {
        "host": "h:1",
        "x-ms-version": "2020-10-02",
        "x-ms-meta-empty": "",
        "range": "bytes=0-1",
    }


@pytest.mark.parametrize("method", "GET PUT POST DELETE PATCH OPTIONS MERGE".split())
async def test_every_method_of_azure_is_served(serve, frontend, method):
    client = await (await serve())()
    await client.send(f"{method} / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await client.response())[0] == 200
    assert frontend.requests[0].method == method


async def test_repeated_headers_are_joined_and_named(serve, frontend):
    client = await (await serve())()
    await client.send("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\na: 3\r\n\r\n")
    assert (await client.response())[0] == 200
    assert frontend.requests[0].headers["a"] == "1, 3"
    assert frontend.requests[0].repeated_headers == {"a"}


async def test_bytes_of_header_values_go_in_and_out_unchanged(serve, frontend):
    async def echo(request):
        return Response(200, {"x-ms-meta-a": request.headers["x-ms-meta-a"]})

    frontend.routes["/echo"] = echo
    client = await (await serve())()
    await client.send(b"GET /echo HTTP/1.1\r\nHost: h\r\nx-ms-meta-a: \xc3\xa9\xff\r\n\r\n")
    _, headers, _ = await client.response()
    assert headers["x-ms-meta-a"].encode("latin-1") == b"\xc3\xa9\xff"


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("http://acct.blob.localhost:1/c/b?x=1", "/c/b", "x=1"),
        ("HTTP://acct.blob.localhost:1?x=/1", "/", "x=/1"),
        ("https://acct.blob.localhost:1", "/", ""),
    ],
)
async def test_an_absolute_target_names_its_own_host(serve, frontend, target, path, query):
    client = await (await serve())()
    await client.send(f"GET {target} HTTP/1.1\r\nHost: other\r\n\r\n")
    assert (await client.response())[0] == 200
    request = frontend.requests[0]
    assert (request.raw_path, request.raw_query) == (path, query)
    assert request.host == request.headers["host"] == "acct.blob.localhost:1"


big = "x" * 70_000
refused_heads = {
    "no HTTP at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "an unknown method": (b"FETCH / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "a target that is no path": (b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "a foreign scheme": (b"GET ftp://h/x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "a fragment": (b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "raw bytes in a target": (b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "a tunnel": (b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", 405),
    "HTTP/2 without an upgrade": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "version 2": (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
    "a version unheard of": (b"GET / HTTP/1.7\r\nHost: h\r\n\r\n", 400),
    "both framings": (
        b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    "two lengths": (
        b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        400,
    ),
    "a negative length": (b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\n", 400),
    "a length with a plus": (b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\n", 400),
    "an endless length": (
        b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        400,
    ),
    "another coding": (
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    "a coding that hides its end": (
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        400,
    ),
    "chunks in HTTP/1.0": (
        b"PUT / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    "a blank in a header's name": (b"GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", 400),
    "a NUL in a header": (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n", 400),
    "a lone line feed": (b"GET / HTTP/1.1\nHost: h\n\n", 400),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400),
    "an expectation unheard of": (
        b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: wonders\r\n\r\n",
        417,
    ),
    "a long target": (f"GET /{big} HTTP/1.1\r\nHost: h\r\n\r\n".encode(), 414),
    "a target without end": (f"GET /{big}".encode(), 414),
    "long headers": (
        b"GET / HTTP/1.1\r\nHost: h\r\n" + f"A: {big}\r\nB: {big}\r\n\r\n".encode(),
        431,
    ),
    "a header without end": (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + 2 * big.encode(), 431),
    "a header's name without end": (b"GET / HTTP/1.1\r\nHost: h\r\n" + 2 * big.encode(), 431),
    "many headers": (
        b"GET / HTTP/1.1\r\nHost: h\r\n" + b"".join(b"a%d:\r\n" % n for n in range(300)) + b"\r\n",
        431,
    ),
}


@pytest.mark.parametrize("name", refused_heads)
async def test_heads_that_cannot_be_served_are_refused_and_end_the_connection(
    serve, frontend, name
):
    sent, status = refused_heads[name]
    client = await (await serve())()
    await client.send(sent)
    answer = await client.response()
    assert answer is not None
    assert answer[0] == status
    assert answer[1]["connection"] == "close"
    assert answer[2].strip()
    assert await client.ended()
    assert frontend.requests == []


async def test_what_was_asked_before_a_mistake_is_answered_first(serve, frontend):
    client = await (await serve())()
    await client.send(
        "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\nnonsense"
    )
    assert (await client.response())[1]["x-path"] == "/a"
    assert (await client.response())[1]["x-path"] == "/b"
    assert (await client.response())[0] == 400
    assert await client.ended()


async def test_blank_lines_before_a_request_are_skipped(serve):
    client = await (await serve())()
    await client.send("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await client.response())[0] == 200


async def test_http_1_0_is_answered_and_closed(serve, frontend):
    async def stream(_):
        async def pieces():
            yield b"abc"
            yield b"def"

        return Response(200, {}, pieces())

    frontend.routes["/stream"] = stream
    connect = await serve()
    client = await connect()
    await client.send("GET /stream HTTP/1.0\r\n\r\n")
    status, headers, body = await client.response()
    assert (status, body) == (200, b"abcdef")
    assert "transfer-encoding" not in headers
    client = await connect()
    await client.send("PUT / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi")
    assert (await client.response())[2] == b"hi"
    assert await client.ended()


async def test_connection_close_is_obeyed_and_what_follows_it_ignored(serve, frontend):
    client = await (await serve())()
    await client.send(
        "PUT /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
        "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
    )
    status, headers, body = await client.response()
    assert (status, headers["connection"], body) == (200, "close", b"hi")
    assert await client.ended()
    assert len(frontend.requests) == 1
