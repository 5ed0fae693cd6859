"""Bytes nobody meant as HTTP: the reader's events do not depend on how they are cut, and a server
answers or closes, whatever comes."""

import asyncio
import os
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etagere.frontends.common.message import Response
from etagere.servers.http.limits import HttpLimits
from etagere.servers.http.reader import RequestReader

from .conftest import eventually

tight = HttpLimits(url_bytes_max=200, head_bytes_max=600, headers_max=8)


class Recorder:
    def __init__(self):
        self.events = []

    def request_begun(self, head):
        facts = (head.method, head.path, head.query, tuple(head.headers.items()))
        self.events.append(("begun", facts, head.keep_alive, head.has_body, head.body_length))
        return False

    def body_piece(self, piece):
        if self.events and self.events[-1][0] == "body":
            piece = self.events.pop()[1] + piece
        self.events.append(("body", piece))

    def request_ended(self):
        self.events.append(("ended",))

    def upgraded(self, rest):
        raise AssertionError("nobody took an upgrade up")

    def refused(self, refusal):
        self.events.append(("refused", refusal.status))

    @property
    def over(self):
        return bool(self.events) and self.events[-1][0] == "refused"


def events_of(data, cuts=()):
    sink = Recorder()
    reader = RequestReader(sink, tight)
    ends = [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    start = 0
    for end in ends:
        if start < end and not sink.over:
            reader.feed(data[start:end])
        start = end
    return sink.events


lines = [
    b"GET / HTTP/1.1\r\n",
    b"PUT /a/b?c=%00&d=+ HTTP/1.1\r\n",
    b"POST http://h/x HTTP/1.0\r\n",
    b"HEAD /" + b"a" * 190 + b" HTTP/1.1\r\n",
    b"GET /#x HTTP/1.1\r\n",
    b"Host: h\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"x-ms-date: Mon, 27 Jul 2026 00:00:00 GMT\r\n",
    b"A: \xff\xfe \r\n",
    b"a:" + b"b" * 150 + b"\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"FFFFFFFFFFFFFFFFF\r\n",
    b"5;x=" + b"y" * 700 + b"\r\nhello\r\n",
    b"\0",
    b"\n",
    b" ",
    b":",
]
messages = st.lists(st.sampled_from(lines) | st.binary(max_size=6), max_size=14).map(b"".join)
sound = (
    b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: Upgrade\r\n"
    b"Upgrade: h2c\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"
)


@settings(max_examples=400, deadline=None)
@given(messages, st.lists(st.integers(0, 4000), max_size=12))
@example(sound, [])
@example(sound, list(range(200)))
def test_cutting_bytes_differently_changes_nothing(data, cuts):
    """Refusals of what never ends may come a little later, when more came at once."""
    whole, cut = events_of(data), events_of(data, cuts)
    if ("refused", 431) in (whole + cut) or ("refused", 414) in (whole + cut):
        shorter = min(len(whole), len(cut)) - 1
        assert whole[:shorter][:-1] == cut[:shorter][:-1]
    else:
        assert whole == cut


def test_the_sound_example_is_two_requests():
    names = [event[0] for event in events_of(sound)]
    assert names == ["begun", "body", "ended", "begun", "ended"]


templates = [
    b"GET /acct/c/b?comp=list&prefix=%2F HTTP/1.1\r\nHost: h\r\nx-ms-version: 2020-10-02\r\n\r\n",
    b"PUT /acct/c/b HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nx-ms-meta-a: b\r\n\r\nhello world",
    (
        b"PUT /acct/c/b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    ),
    b"PUT /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"HEAD http://h:1/a%00?b#c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    b"DELETE / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    sound,
]
tokens = [b"\r\n", b"\0", b" ", b":", b"%", b"chunked", b"Content-Length: ", b"9" * 30, b"HTTP/1.1"]


expected = {100, 200, 400, 405, 408, 409, 414, 417, 431, 501, 505}


def mutated(chance):
    data = bytearray(b"".join(chance.choices(templates, k=chance.randint(1, 3))))
    for _ in range(chance.choice((0, 1, 1, 2, 5, 20))):
        position = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[position:position] = chance.choice(tokens)
            case 1:
                del data[position : position + chance.randrange(40)]
            case 2:
                data[position:position] = chance.randbytes(chance.randrange(8))
            case 3:
                data[position : position + 1] = chance.randbytes(1)
            case 4:
                data[position:position] = data[position : position + 60] * chance.randrange(4)
    return bytes(data)


async def test_whatever_comes_is_answered_or_closed_and_never_a_500(
    serve, frontend, caplog, record_property
):
    """`ETAGERE_FUZZ_ROUNDS` and `ETAGERE_FUZZ_SEED` make it longer, or the same again."""
    seed = int(os.environ.get("ETAGERE_FUZZ_SEED", random.randrange(2**32)))
    rounds = int(os.environ.get("ETAGERE_FUZZ_ROUNDS", "600"))
    record_property("ETAGERE_FUZZ_SEED", seed)
    chance = random.Random(seed)
    connect = await serve(head_seconds_max=5, body_stall_seconds_max=5, linger_seconds_max=1)

    async def handle(request):
        frontend.requests.clear()
        if chance.random() < 0.3:
            return Response(409)
        size = len(await request.body.read())
        return Response(200, {"x-size": str(size)}, b"y" * chance.randrange(100))

    frontend.handle = handle
    for _ in range(rounds):
        data = mutated(chance)
        client = await connect()
        try:
            cut = chance.randrange(len(data) + 1)
            await client.send(data[:cut])
            await asyncio.sleep(0)
            await client.send(data[cut:])
            client.writer.write_eof()
            answer = await asyncio.wait_for(client.reader.read(), 30)
        except (ConnectionError, OSError):
            answer = b""
        for line in answer.split(b"\r\n"):
            if line.startswith(b"HTTP/1.1 "):
                status = int(line[9:12])
                assert status in {100, 200, 400, 405, 408, 409, 414, 417, 431, 501, 505}, (
                    seed,
                    data,
                )
        await client.close()
    await eventually(lambda: not connect.server._connections)
    assert [record.message for record in caplog.records] == []
    probe = await connect()
    await probe.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await probe.response())[0] in (200, 409)


@pytest.mark.parametrize("size", [0, 1, 15, 16 * 1024, 16 * 1024 + 1, 300_000])
async def test_noise_of_any_size(serve, size):
    client = await (await serve(head_seconds_max=1))()
    noise = random.Random(size).randbytes(size)
    try:
        await client.send(noise)
        client.writer.write_eof()
        answer = await client.reader.read()
    except ConnectionError:
        return
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
