"""Our HTTP connections against uvicorn's httptools protocol, with the same small frontend behind
both (docs/decisions/0004-http-server.md): `python -m bench.http_shell`."""

import asyncio
import multiprocessing
import socket
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
import uvloop

from bench import load
from bench.peers import Missing
from etagere.frontends.common.message import Request, Response
from etagere.servers.http import HttpServer

rounds = 5
seconds = 3.0
stream_bytes = 1 << 30
_page = b"x" * 4096
_piece = b"z" * (1 << 18)


class Frontend:
    async def handle(self, request: Request) -> Response:
        if request.method == "PUT":
            size = 0
            async for piece in request.body.chunks():
                size += len(piece)
            return Response(201, {"x-size": str(size)})
        if request.raw_path == "/stream":
            return Response(200, {"Content-Length": str(stream_bytes)}, _stream())
        headers = {"Server": "x", "ETag": '"0x8D"', "Content-Type": "application/octet-stream"}
        return Response(200, headers, _page)


async def _stream() -> AsyncIterator[bytes]:
    for _ in range(stream_bytes // len(_piece)):
        yield _piece


def ours(bound: socket.socket) -> None:
    host, port = bound.getsockname()[:2]
    bound.close()

    async def serve() -> None:
        await HttpServer().listen(Frontend(), host, port)
        await asyncio.Event().wait()

    uvloop.run(serve())


def uvicorns(bound: socket.socket) -> None:
    frontend = Frontend()

    class Body:
        def __init__(self, receive: Any) -> None:
            self._receive = receive

        async def chunks(self) -> AsyncIterator[bytes]:
            more = True
            while more:
                message = await self._receive()
                yield message["body"]
                more = message["more_body"]

        async def read(self, bytes_max: int = 0) -> bytes:
            raise NotImplementedError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = Request(
            method=scope["method"],
            raw_path=scope["raw_path"].decode(),
            raw_query=scope["query_string"].decode(),
            headers={n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]},
            body=Body(receive),
            client_ip=scope["client"][0],
        )
        response = await frontend.handle(request)
        body = response.body
        if isinstance(body, bytes):
            response.headers["Content-Length"] = str(len(body))
        pairs = [(n.encode(), v.encode("latin-1")) for n, v in response.headers.items()]
        start = {"type": "http.response.start", "status": response.status, "headers": pairs}
        await send(start)
        if not isinstance(body, bytes):
            async for piece in body:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            body = b""
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(
        app,
        fd=bound.fileno(),
        http="httptools",
        loop="uvloop",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
    )
    uvicorn.Server(config).run(sockets=[bound])


def gigabytes_per_second(port: int, *, up: bool) -> float:
    with socket.create_connection(("127.0.0.1", port)) as client:
        began = time.perf_counter()
        if up:
            client.sendall(
                b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % stream_bytes
            )
            for _ in range(stream_bytes // len(_piece)):
                client.sendall(_piece)
            client.recv(4096)
        else:
            client.sendall(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
            room, left = bytearray(1 << 20), stream_bytes
            while left > 0:
                left -= client.recv_into(room)
        return stream_bytes / (time.perf_counter() - began) / 1e9


def main() -> None:
    processes, ports = [], {}
    for name, serve in (("ours", ours), ("uvicorn", uvicorns)):
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        ports[name] = bound.getsockname()[1]
        process = multiprocessing.get_context("fork").Process(target=serve, args=(bound,))
        process.start()
        processes.append(process)
        bound.close()
    try:
        for port in ports.values():
            _wait_for(port)
        _measure(ports)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _wait_for(port: int) -> None:
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            time.sleep(0.05)
        else:
            return
    raise Missing("a server did not start")


def _measure(ports: dict[str, int]) -> None:
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in ports}
    for _ in range(rounds):
        for name, port in ports.items():
            small = load.run(f"http://127.0.0.1:{port}/a/b?c=d", seconds=seconds, threads=1)
            down = gigabytes_per_second(port, up=False)
            up = gigabytes_per_second(port, up=True)
            found[name].append((small.per_second, small.p99_ms, down, up))
    print(f"{'':10}{'GET 4 KiB/s':>12}{'p99 ms':>9}{'GB/s down':>11}{'GB/s up':>9}")
    for name, values in found.items():
        medians = [statistics.median(column) for column in zip(*values, strict=True)]
        print(f"{name:10}{medians[0]:12.0f}{medians[1]:9.2f}{medians[2]:11.2f}{medians[3]:9.2f}")


if __name__ == "__main__":
    try:
        main()
    except Missing as missing:
        print(missing)
