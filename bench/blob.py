"""Blobs: small operations against Azurite, reads against nginx, streams, contention; a container of
a million blobs: its first page, finding by tags, and its deletion while others write.

`python -m bench.blob [--seconds 3] [--rounds 3] [--workers 1] [--connections 32] [--blobs 1000000]`
"""

import argparse
import asyncio
import base64
import http.client
import os
import statistics
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from bench import blob_many, load, peers
from bench.peers import Missing, Peer
from bench.report import Table

_mebibyte: Final = 1 << 20
_version: Final = "2021-12-02"


class Case:
    """One script, run against each server in turn."""

    def __init__(self, name: str, script: str, *, alone: bool = False) -> None:
        self.name = name
        self.script = script
        self.alone = alone
        """Each thread has one connection, so that a script knows what came of its last request."""


cases: Final = (
    Case("Put Blob 4 KiB, new names", "put_new"),
    Case("Put Blob 4 KiB, overwrites", "put_over"),
    Case("Get Blob 4 KiB", "get"),
    Case("Put Blob 4 KiB, If-Match loop", "put_if_match", alone=True),
    Case("Lease acquire and release", "lease", alone=True),
    Case("Append Block 4 KiB", "append"),
    Case("Put Page 4 KiB", "put_page"),
)


def sas() -> str:
    return generate_account_sas(
        peers.account,
        account_key=peers.key,
        resource_types=ResourceTypes(service=True, container=True, object=True),
        permission=AccountSasPermissions.from_string("rwdlacupf"),
        expiry=datetime(2035, 1, 1, tzinfo=UTC),
    )


def prepare(peer: Peer) -> None:
    with BlobServiceClient(peer.blob, credential=peers.key, api_version=_version) as client:
        container = client.create_container("bench")
        container.upload_blob("get", b"x" * 4096)
        for number in range(64):
            container.upload_blob(f"lease-{number}", b"x" * 4096)
        for number in range(32):
            name = f"append-{number // 16}-{number % 16}"
            container.get_blob_client(name).create_append_blob()
        for number in range(8):
            container.get_blob_client(f"pages-{number}").create_page_blob(64 * _mebibyte)


def _run(
    peer: Peer, case: Case, token: str, options: argparse.Namespace, label: str
) -> load.Measured:
    origin, _, account = peer.blob.rpartition("/")
    return load.run(
        origin,
        case.script,
        seconds=options.seconds,
        connections=options.connections,
        threads=options.connections if case.alone else 2,
        SAS=token,
        BASE="/" + account,
        RUN=label,
    )


def small(options: argparse.Namespace) -> None:
    """Operations per second, interleaved, medians of several rounds."""
    token = sas()
    with ExitStack() as stack:
        running = [stack.enter_context(peers.etagere(workers=options.workers, services="blob"))]
        try:
            running.append(stack.enter_context(peers.azurite()))
        except Missing as missing:
            print(f"without Azurite: {missing}")
        for peer in running:
            prepare(peer)
        table = Table(
            f"Small operations, {options.connections} connections, workers={options.workers}, "
            "durability=sync",
            "Azurite",
        )
        for case in cases:
            measured: dict[str, list[load.Measured]] = {peer.name: [] for peer in running}
            for number in range(options.rounds):
                for peer in running:
                    label = f"{case.script}{number}"
                    measured[peer.name].append(_run(peer, case, token, options, label))
            medians = {name: load.median(found) for name, found in measured.items()}
            table.add(case.name, medians["etagere"], medians.get("azurite"))
        table.print()


def against_nginx(options: argparse.Namespace) -> None:
    """Get Blob and the same bytes as a file, from as many workers each as there are cores."""
    workers, token = os.cpu_count() or 1, sas()
    try:
        with (
            peers.etagere(workers=workers, services="blob") as peer,
            peers.nginx(b"x" * 4096) as url,
        ):
            prepare(peer)
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(_run(peer, cases[2], token, options, "nginx"))
                theirs.append(
                    load.run(url, seconds=options.seconds, connections=options.connections)
                )
            table = Table(f"Against a file behind nginx, {workers} workers each", "nginx")
            table.add(cases[2].name, load.median(ours), load.median(theirs))
            table.print()
    except Missing as missing:
        print(f"without nginx: {missing}")


# ---- streams: raw sockets, since an SDK would cost more than what is measured


def streams(options: argparse.Namespace) -> None:
    """64 MiB up and down over one connection, and memory while 10 GiB pass through."""
    with peers.etagere(services="blob") as peer:
        prepare(peer)
        time.sleep(1)
        idle = peers.resident_bytes(peer.process)
        token = sas()
        size = 64 * _mebibyte
        up, blocks, down = [], [], []
        for number in range(options.rounds * 2):
            name = f"stream-{number % 2}"
            up.append(asyncio.run(_upload(peer, token, name, size)))
            down.append(asyncio.run(_download(peer, token, name, size)))
            blocks.append(asyncio.run(_upload(peer, token, "staged", size, _block(0))))
        print(f"\n64 MiB up, Put Blob (MD5)   {statistics.median(up):6.2f} GB/s")
        print(f"64 MiB up, Put Block        {statistics.median(blocks):6.2f} GB/s")
        print(f"64 MiB down                 {statistics.median(down):6.2f} GB/s")
        print(f"resident when idle          {idle / 1e6:6.0f} MB")
        peak = asyncio.run(_watch_large(peer, token, options.gibibytes))
        print(f"resident while {options.gibibytes} GiB pass {peak / 1e6:6.0f} MB at most")


def _block(number: int) -> str:
    name = base64.b64encode(f"{number:08d}".encode()).decode().replace("=", "%3D")
    return f"comp=block&blockid={name}"


async def _upload(peer: Peer, token: str, name: str, size: int, query: str = "") -> float:
    """GB a second from the first byte to the answer."""
    target, reader, writer = await _connect(peer, token, name, query)
    kind = "" if query else "x-ms-blob-type: BlockBlob\r\n"
    head = f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: {_version}\r\n{kind}"
    writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode())
    chunk = b"\xa5" * _mebibyte
    begin = time.perf_counter()
    for _ in range(size // len(chunk)):
        writer.write(chunk)
        await writer.drain()
    status = await reader.readline()
    elapsed = time.perf_counter() - begin
    writer.close()
    assert b" 201 " in status, status
    return size / elapsed / 1e9


async def _download(peer: Peer, token: str, name: str, size: int) -> float:
    target, reader, writer = await _connect(peer, token, name, "")
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: {_version}\r\n\r\n"
    writer.write(head.encode())
    begin = time.perf_counter()
    first = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in first.split(b"\r\n")[0], first
    left = size
    while left:
        data = await reader.read(min(left, _mebibyte))
        assert data
        left -= len(data)
    elapsed = time.perf_counter() - begin
    writer.close()
    return size / elapsed / 1e9


async def _connect(
    peer: Peer, token: str, name: str, query: str
) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(peer.blob)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=4 * _mebibyte)
    prefix = f"{query}&" if query else ""
    return f"{where.path}/bench/{name}?{prefix}{token}", reader, writer


async def _watch_large(peer: Peer, token: str, gibibytes: int) -> int:
    """Blocks of 256 MiB, committed, and read back whole; the most memory seen."""
    peak = 0
    done = asyncio.Event()

    async def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, peers.resident_bytes(peer.process))
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    size, count = 256 * _mebibyte, 4 * gibibytes
    names = [base64.b64encode(f"{number:08d}".encode()).decode() for number in range(count)]
    for number in range(count):
        await _upload(peer, token, "large", size, _block(number))
    await asyncio.to_thread(_commit, peer, token, names)
    await _download(peer, token, "large", size * count)
    done.set()
    await watching
    return peak


def _commit(peer: Peer, token: str, names: list[str]) -> None:
    where = urlsplit(peer.blob)
    listed = "".join(f"<Latest>{name}</Latest>" for name in names)
    client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    target = f"{where.path}/bench/large?comp=blocklist&{token}"
    client.request("PUT", target, f"<BlockList>{listed}</BlockList>", {"x-ms-version": _version})
    assert client.getresponse().status == 201
    client.close()


# ---- contention, and a great many blobs


def contention(options: argparse.Namespace) -> None:
    """32 competitors add to one counter, each write conditional on what it read."""
    with peers.etagere(workers=options.workers, services="blob") as peer:
        prepare(peer)
        token = sas()
        won, lost, elapsed, value = asyncio.run(_compete(peer, token, 32, options.seconds))
        print(
            f"\n32 competitors on one blob: {won / elapsed:.0f} conditional writes a second won, "
            f"{lost / elapsed:.0f} refused; {won} written, {value} counted"
        )
        assert won == value, "an update was lost"


async def _compete(
    peer: Peer, token: str, competitors: int, seconds: float
) -> tuple[int, int, float, int]:
    where = urlsplit(peer.blob)
    target = f"{where.path}/bench/counter?{token}"
    head = f"HTTP/1.1\r\nHost: x\r\nx-ms-version: {_version}\r\n"
    until = time.monotonic() + seconds

    async def ask(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: str
    ) -> tuple[int, str, bytes]:
        writer.write(request.encode())
        raw = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = raw.split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        length = int(next(v for k, v in fields.items() if k.lower() == "content-length"))
        etag = next((v for k, v in fields.items() if k.lower() == "etag"), "")
        return int(lines[0].split()[1]), etag, await reader.readexactly(length)

    async def put(reader, writer, value: int, condition: str) -> tuple[int, str, bytes]:  # type: ignore[no-untyped-def]  # streams
        body = str(value)
        return await ask(
            reader, writer,
            f"PUT {target} {head}x-ms-blob-type: BlockBlob\r\n{condition}"
            f"Content-Length: {len(body)}\r\n\r\n{body}",
        )  # fmt: skip

    async def compete() -> tuple[int, int]:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        won = lost = 0
        while time.monotonic() < until:
            _, etag, value = await ask(reader, writer, f"GET {target} {head}\r\n")
            status, _, _ = await put(reader, writer, int(value) + 1, f"If-Match: {etag}\r\n")
            won, lost = (won + 1, lost) if status == 201 else (won, lost + 1)
        writer.close()
        return won, lost

    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    await put(reader, writer, 0, "")
    begin = time.monotonic()
    results = await asyncio.gather(*(compete() for _ in range(competitors)))
    elapsed = time.monotonic() - begin
    _, _, value = await ask(reader, writer, f"GET {target} {head}\r\n")
    writer.close()
    return sum(w for w, _ in results), sum(n for _, n in results), elapsed, int(value)


def listing(options: argparse.Namespace) -> None:
    blob_many.listing(options, sas())


def tags(options: argparse.Namespace) -> None:
    blob_many.tags(options, sas())


def deletion(options: argparse.Namespace) -> None:
    blob_many.deletion(options, sas())


_parts: Final = {
    "small": small, "nginx": against_nginx, "streams": streams, "contention": contention,
    "listing": listing, "tags": tags, "deletion": deletion,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--blobs", type=int, default=1_000_000)
    parser.add_argument("--gibibytes", type=int, default=10)
    parser.add_argument("--only", choices=_parts, action="append")
    options = parser.parse_args()
    for name, part in _parts.items():
        if not options.only or name in options.only:
            part(options)


if __name__ == "__main__":
    main()
