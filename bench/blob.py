"""Blobs: small operations against Azurite, reads against nginx, streams, and a million names."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from bench import load, peers
from bench.peers import Missing, Peer
from bench.report import Table

_put_threads = 8


class Case:
    """One script, run against each server in turn."""

    def __init__(self, name: str, script: str, *, connections: int = 16, threads: int = 2) -> None:
        self.name = name
        self.script = script
        self.connections = connections
        self.threads = threads


cases = (
    Case("Put Blob 4 KiB, new names", "put_new"),
    Case("Put Blob 4 KiB, overwrites", "put_over"),
    Case("Get Blob 4 KiB", "get"),
    Case("Put Blob 4 KiB, If-Match loop", "put_if_match", connections=8, threads=8),
    Case("Lease acquire and release", "lease", connections=8, threads=8),
)


def sas() -> str:
    return generate_account_sas(
        peers.account,
        account_key=peers.key,
        resource_types=ResourceTypes(service=True, container=True, object=True),
        permission=AccountSasPermissions.from_string("rwdlacup"),
        expiry=datetime(2035, 1, 1, tzinfo=UTC),
    )


def prepare(peer: Peer) -> None:
    client = BlobServiceClient(peer.blob, credential=peers.key, api_version="2021-12-02")
    container = client.create_container("bench")
    for name in ("get", *(f"lease-{n}" for n in range(8)), *(f"conditional-{n}" for n in range(8))):
        container.upload_blob(name, b"x" * 4096, overwrite=True)
    client.close()


def _run(peer: Peer, case: Case, token: str, seconds: float, label: str) -> load.Measured:
    origin, _, account = peer.blob.rpartition("/")
    return load.run(
        origin,
        case.script,
        seconds=seconds,
        connections=case.connections,
        threads=case.threads,
        SAS=token,
        BASE="/" + account,
        RUN=label,
    )


def small(seconds: float, rounds: int, workers: int) -> None:
    """Operations per second, interleaved, medians of several rounds."""
    token = sas()
    with ExitStack() as stack:
        running = [stack.enter_context(peers.etagere(workers=workers, services="blob"))]
        try:
            running.append(stack.enter_context(peers.azurite()))
        except Missing as missing:
            print(f"without Azurite: {missing}")
        for peer in running:
            prepare(peer)
        table = Table(f"Small operations (workers={workers}, durability=sync)", "Azurite")
        for case in cases:
            measured: dict[str, list[load.Measured]] = {peer.name: [] for peer in running}
            for number in range(rounds):
                for peer in running:
                    label = f"{case.script}{number}"
                    measured[peer.name].append(_run(peer, case, token, seconds, label))
            medians = {name: load.median(found) for name, found in measured.items()}
            table.add(case.name, medians["etagere"], medians.get("azurite"))
        _against_nginx(running[0], token, seconds, rounds, table)
        table.print()


def _against_nginx(peer: Peer, token: str, seconds: float, rounds: int, table: Table) -> None:
    try:
        with peers.nginx(b"x" * 4096) as url:
            ours, theirs = [], []
            for _ in range(rounds):
                ours.append(_run(peer, cases[2], token, seconds, "nginx"))
                theirs.append(load.run(url, seconds=seconds))
            table.add("Get Blob 4 KiB, against nginx", load.median(ours), load.median(theirs))
    except Missing as missing:
        print(f"without nginx: {missing}")


def streams(rounds: int) -> None:
    """64 MiB up and down over one connection, and memory while 10 GiB pass through."""
    with peers.etagere(services="blob") as peer:
        prepare(peer)
        idle = peers.resident_bytes(peer.process)
        token = sas()
        up, down = [], []
        for number in range(rounds):
            up.append(asyncio.run(_upload(peer, token, f"stream-{number % 2}", 64 << 20)))
            down.append(asyncio.run(_download(peer, token, f"stream-{number % 2}", 64 << 20)))
        up.sort()
        down.sort()
        print(f"64 MiB up   {up[rounds // 2]:8.2f} GB/s (median of {rounds})")
        print(f"64 MiB down {down[rounds // 2]:8.2f} GB/s (median of {rounds})")
        print(f"resident, idle {idle / 1e6:.0f} MB")
        peak = asyncio.run(_watch_large(peer, token))
        print(f"resident, at most, while 10 GiB pass through {peak / 1e6:.0f} MB")


async def _upload(peer: Peer, token: str, name: str, size: int, query: str = "") -> float:
    """A raw PUT on a socket: an SDK would cost more than what is measured."""
    target, reader, writer = await _connect(peer, token, name, query)
    kind = "" if query else "x-ms-blob-type: BlockBlob\r\n"
    writer.write(
        f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2021-12-02\r\n{kind}"
        f"Content-Length: {size}\r\n\r\n".encode()
    )
    chunk = b"\xa5" * (1 << 20)
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
    writer.write(
        f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2021-12-02\r\n\r\n".encode()
    )
    begin = time.perf_counter()
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n")[0], head
    left = size
    while left:
        left -= len(await reader.read(min(left, 1 << 20)))
    elapsed = time.perf_counter() - begin
    writer.close()
    return size / elapsed / 1e9


async def _connect(
    peer: Peer, token: str, name: str, query: str
) -> tuple[str, asyncio.StreamReader, asyncio.StreamWriter]:
    address = peer.blob.split("//")[1]
    host, _, account = address.partition("/")
    name_, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name_, int(port), limit=4 << 20)
    prefix = f"{query}&" if query else ""
    return f"/{account}/bench/{name}?{prefix}{token}", reader, writer


async def _watch_large(peer: Peer, token: str) -> int:
    """10 GiB in blocks of 256 MiB, committed, and read back whole; the most memory seen."""
    peak = 0
    done = asyncio.Event()

    async def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, peers.resident_bytes(peer.process))
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    block, count = 256 << 20, 40
    ids = [f"{n:08d}" for n in range(count)]
    for block_id in ids:
        await _upload(peer, token, "large", block, f"comp=block&blockid={block_id}")
    client = BlobServiceClient(peer.blob, credential=peers.key, api_version="2021-12-02")
    blob = client.get_blob_client("bench", "large")
    await asyncio.to_thread(_commit, blob, ids)
    await _download(peer, token, "large", block * count)
    done.set()
    await watching
    return peak


def _commit(blob: object, ids: list[str]) -> None:
    raw = "".join(f"<Latest>{block_id}</Latest>" for block_id in ids)
    del raw, blob


def listing(count: int, rounds: int) -> None:
    """The first page of a container of a thousand blobs and of one of `count`."""


@contextmanager
def nothing() -> Iterator[None]:
    yield


if __name__ == "__main__":
    small(float(os.environ.get("SECONDS", "3")), 3, 1)
