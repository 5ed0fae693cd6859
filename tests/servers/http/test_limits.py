"""Slow, silent and greedy clients; listeners and the way they stop."""

import asyncio
import contextlib
import socket
import ssl

import pytest

from etagere.frontends.common.message import ClientGone, Response
from etagere.servers.http import Upgrade
from etagere.servers.http.server import CannotListen, bind

from .conftest import eventually

get = "GET {} HTTP/1.1\r\nHost: h\r\n\r\n"


async def test_a_head_that_dribbles_in_is_given_up(serve, frontend):
    client = await (await serve(head_seconds_max=0.3))()
    for letter in "GET / HT":
        await client.send(letter)
        await asyncio.sleep(0.01)
    assert (await client.response())[0] == 408
    assert await client.ended()
    assert frontend.requests == []


async def test_a_second_head_has_its_own_time(serve):
    client = await (await serve(head_seconds_max=0.3))()
    await client.send(get.format("/"))
    assert (await client.response())[0] == 200
    await client.send("GET /")
    assert (await client.response())[0] == 408


async def test_a_silent_connection_is_closed(serve):
    connect = await serve(head_seconds_max=0.2, keep_alive_seconds_max=0.2)
    silent = await connect()
    assert await silent.ended()
    used = await connect()
    await used.send(get.format("/"))
    assert (await used.response())[0] == 200
    assert await used.ended()


async def test_a_used_connection_is_kept_as_long_as_it_is_used(serve):
    client = await (await serve(keep_alive_seconds_max=0.5))()
    for _ in range(12):
        await client.send(get.format("/"))
        assert (await client.response())[0] == 200
        await asyncio.sleep(0.1)


async def test_a_body_that_stalls_is_given_up(serve, frontend):
    async def read(request):
        await request.body.read()
        return Response(201)

    frontend.routes["/read"] = read
    client = await (await serve(body_stall_seconds_max=0.2))()
    await client.send("PUT /read HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
    assert (await client.response())[0] == 408
    assert await client.ended()
    assert isinstance(frontend.gone[0], ClientGone)


async def test_a_body_that_dribbles_in_is_given_up(serve, frontend):
    async def read(request):
        await request.body.read()
        return Response(201)

    frontend.routes["/read"] = read
    limits = {"body_stall_seconds_max": 5, "body_pace_grace_seconds": 0.2}
    client = await (await serve(**limits, pace_bytes_per_second_min=1000))()
    await client.send("PUT /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            await client.send("x")
            await asyncio.sleep(0.01)
    assert (await client.response())[0] == 408
    assert isinstance(frontend.gone[0], ClientGone)


async def test_time_that_a_handler_takes_is_not_the_clients(serve, frontend):
    async def slow(request):
        await asyncio.sleep(0.5)
        return Response(200, {}, await request.body.read())

    frontend.routes["/slow"] = slow
    limits = dict.fromkeys(
        ("head_seconds_max", "keep_alive_seconds_max", "body_stall_seconds_max"), 0.2
    )
    client = await (await serve(**limits))()
    await client.send("PUT /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
    await client.send("GET /next HTTP/1.1\r\nHo")
    assert (await client.response())[2] == b"abc"


async def test_a_reader_that_takes_nothing_is_cut_off(serve, frontend):
    closed = asyncio.Event()

    async def endless():
        try:
            while True:
                yield bytes(100_000)
        finally:
            closed.set()

    async def stream(_):
        return Response(200, {}, endless())

    frontend.routes["/stream"] = stream
    client = await (await serve(write_stall_seconds_max=0.3))()
    await client.send(get.format("/stream"))
    await asyncio.wait_for(closed.wait(), 20)


async def test_a_reader_that_takes_enough_is_served_to_the_end(serve, frontend):
    async def stream(_):
        async def blocks():
            for _ in range(100):
                yield bytes(100_000)

        return Response(200, {"Content-Length": "10000000"}, blocks())

    frontend.routes["/stream"] = stream
    client = await (await serve(write_stall_seconds_max=0.5, pace_bytes_per_second_min=10))()
    await client.send(get.format("/stream"))
    taken = 0
    while taken < 10_000_000:
        taken += len(await client.reader.read(1_000_000))
        await asyncio.sleep(0.05)


async def test_there_is_room_for_so_many_connections(serve):
    connect = await serve(connections_max=2)
    clients = [await connect() for _ in range(2)]
    for client in clients:
        await client.send(get.format("/"))
        assert (await client.response())[0] == 200
    third = await connect()
    assert await third.ended()
    await clients[0].close()
    await asyncio.sleep(0.1)
    fourth = await connect()
    await fourth.send(get.format("/"))
    assert (await fourth.response())[0] == 200


# ---- stopping


async def test_stopping_finishes_what_is_in_hand_and_takes_nothing_new(serve, frontend):
    release = asyncio.Event()

    async def wait(_):
        await release.wait()
        return Response(200, {}, b"done")

    frontend.routes["/wait"] = wait
    connect = await serve()
    idle, busy = await connect(), await connect()
    await idle.send(get.format("/"))
    await idle.response()
    await busy.send(get.format("/wait"))
    await eventually(lambda: len(frontend.requests) == 2)
    stopping = asyncio.create_task(connect.server.stop(20))
    assert await idle.ended()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await connect()
    assert not stopping.done()
    release.set()
    status, headers, body = await busy.response()
    assert (status, headers["connection"], body) == (200, "close", b"done")
    await stopping
    assert await busy.ended()


async def test_stopping_does_not_wait_forever(serve, frontend):
    async def hang(_):
        await asyncio.Event().wait()

    frontend.routes["/hang"] = hang
    connect = await serve()
    client = await connect()
    await client.send(get.format("/hang"))
    await eventually(lambda: frontend.requests)
    await asyncio.wait_for(connect.server.stop(0.1), 20)
    assert await client.ended()
    assert isinstance(frontend.gone[0], asyncio.CancelledError)


async def test_stopping_does_not_wait_for_clients_that_are_asleep(serve, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    connect = await serve(tls=context)
    trust = ssl.create_default_context(cafile=certificate[0])
    client = await connect(ssl=trust, server_hostname="localhost")
    await client.send(get.format("/"))
    assert (await client.response())[0] == 200
    client.writer.transport.pause_reading()  # it will not notice the server's goodbye
    began = asyncio.get_running_loop().time()
    await connect.server.stop(60)
    assert asyncio.get_running_loop().time() - began < 20
    client.writer.transport.abort()


# ---- listening


async def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} on 127.0.0.1 is in use"):
            bind("127.0.0.1", port)
        with pytest.raises(CannotListen, match="in use"):
            bind("127.0.0.1", port, shared_port=True)


async def test_a_host_that_is_nobodys_is_named():
    with pytest.raises(CannotListen, match=r"host 'no\.such\.host\.invalid' cannot be resolved"):
        bind("no.such.host.invalid", 0)


async def test_processes_share_a_port_when_all_of_them_say_so():
    with bind("127.0.0.1", 0, shared_port=True) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port, shared_port=True, joining=True) as second:
            assert second.getsockname() == first.getsockname()
        with pytest.raises(CannotListen, match="in use"):
            bind("127.0.0.1", port, shared_port=True)
        with pytest.raises(CannotListen, match="in use"):
            bind("127.0.0.1", port)


async def test_several_listeners_of_one_server(serve):
    connects = [await serve(), await serve()]
    assert connects[0].port != connects[1].port
    for connect in connects:
        client = await connect()
        await client.send(get.format("/"))
        assert (await client.response())[0] == 200


async def test_tls(serve, frontend, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    connect = await serve(tls=context)
    trust = ssl.create_default_context(cafile=certificate[0])
    client = await connect(ssl=trust, server_hostname="localhost")
    body = bytes(3_000_000)
    await client.send(f"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n", body)
    assert (await client.response())[2] == body
    assert frontend.requests[0].secure
    plain = await connect()
    await plain.send(get.format("/"))
    assert await plain.ended()
    await client.close()


# ---- upgrades


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data.upper())


upgrade_headers = "Connection: Upgrade\r\nUpgrade: {}\r\n"


async def test_an_upgrade_taken_up_hands_the_connection_over(serve):
    def upgrader(request):
        assert request.headers["upgrade"] == "echo"
        return Upgrade({"Upgrade": "echo", "Connection": "Upgrade"}, Echo())

    connect = await serve(upgrader=upgrader)
    client = await connect()
    await client.send(
        "GET / HTTP/1.1\r\nHost: h\r\n" + upgrade_headers.format("echo") + "\r\nat once "
    )
    assert (await client.response())[0] == 101
    await client.send("and later")
    assert await client.reader.readexactly(17) == b"AT ONCE AND LATER"
    assert not connect.server._connections


@pytest.mark.parametrize("upgrader", [None, lambda _: None])
@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_an_upgrade_not_taken_up_is_an_ordinary_request(serve, upgrader, framing):
    """JDK's HttpClient offers h2c on its first request, whatever that is."""
    client = await (await serve(upgrader=upgrader))()
    head = "PUT /1 HTTP/1.1\r\nHost: h\r\n" + upgrade_headers.format("h2c") + framing + "\r\n\r\n"
    body = "hello" if framing.startswith("Content") else "5\r\nhello\r\n0\r\n\r\n"
    message = head + body + get.format("/2")
    for cut in (len(message), len(head), len(head) + 2, 3):
        await client.send(message[:cut])
        await asyncio.sleep(0.01)
        await client.send(message[cut:])
        assert (await client.response())[2] == b"hello"
        assert (await client.response())[1]["x-path"] == "/2"
    await client.send("GET /3 HTTP/1.1\r\nHost: h\r\n" + upgrade_headers.format("h2c") + "\r\n")
    assert (await client.response())[1]["x-path"] == "/3"
