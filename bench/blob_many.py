"""Parts of `bench.blob` about containers of a great many blobs: lists, tags, and their end."""

import argparse
import asyncio
import http.client
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import lmdb

from bench import peers
from bench.peers import Peer
from bench.stock import stock

_mebibyte: Final = 1 << 20
_version: Final = "2021-12-02"
_few: Final = 1000
_matches: Final = 100
_large_blobs: Final = 200
_probes: Final = 4
_wait_seconds_max: Final = 900


class Asking:
    """One connection, and requests on it."""

    def __init__(self, peer: Peer, token: str) -> None:
        where = urlsplit(peer.blob)
        self._base = where.path
        self._token = token
        self._client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=120)

    def __call__(
        self, method: str, path: str, query: str = "", body: bytes | None = None, **headers: str
    ) -> tuple[float, int, bytes]:
        """Seconds, status, body."""
        sent = {"x-ms-version": _version}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        prefix = f"{query}&" if query else ""
        begin = time.perf_counter()
        self._client.request(method, f"{self._base}{path}?{prefix}{self._token}", body, sent)
        answer = self._client.getresponse()
        data = answer.read()
        return time.perf_counter() - begin, answer.status, data


def listing(options: argparse.Namespace, token: str) -> None:
    """The first page of a container of a thousand blobs, and of one of a million."""

    def prepare(folder: Path) -> None:
        stock(folder, "few", _few)
        stock(folder, "many", options.blobs)

    with peers.etagere(services="blob", prepare=prepare) as peer:
        asking = Asking(peer, token)
        times = {}
        for container, count in (("few", _few), ("many", options.blobs)):
            found = [_first_page(asking, container) for _ in range(15)]
            times[container] = min(found)
            print(f"first page of 1000 out of {count:8}: {times[container] * 1e3:.1f} ms")
        print(f"ratio {times['many'] / times['few']:.2f}")


def _first_page(asking: Asking, container: str) -> float:
    query = "restype=container&comp=list&maxresults=1000"
    seconds, status, body = asking("GET", f"/{container}", query)
    assert status == 200
    assert body.count(b"<Blob>") == 1000
    return seconds


def tags(options: argparse.Namespace, token: str) -> None:
    """A hundred blobs found by a tag among a million."""
    every = max(1, options.blobs // _matches)

    def tags_of(number: int) -> Mapping[str, str]:
        colour = "red" if number % every == every // 2 else "grey"
        return {"kind": "all", "colour": colour, "date": f"{number:08d}"}

    with peers.etagere(
        services="blob",
        prepare=lambda folder: stock(folder, "many", options.blobs, tags=tags_of),
    ) as peer:
        asking = Asking(peer, token)
        last = options.blobs - _matches
        print(f"\nFind Blobs by Tags, {_matches} among {options.blobs} (median of 15)")
        for where in (
            "colour = 'red'",
            "kind = 'all' AND colour = 'red'",
            f"kind = 'all' AND date >= '{last:08d}'",
        ):
            found = [_find(asking, where, _matches) for _ in range(15)]
            print(f"{where:40} {statistics.median(found) * 1e3:6.1f} ms")
        found = [_find(asking, "kind = 'all'", 5000) for _ in range(5)]
        print(f"{'a page of 5000 of all':40} {statistics.median(found) * 1e3:6.1f} ms")


def _find(asking: Asking, where: str, count: int) -> float:
    seconds, status, body = asking("GET", "/", f"comp=blobs&where={quote(where)}")
    assert status == 200, body
    assert body.count(b"<Blob>") == count
    return seconds


def deletion(options: argparse.Namespace, token: str) -> None:
    """A container of a million blobs is deleted, while others write."""
    with peers.etagere(
        services="blob",
        prepare=lambda folder: stock(
            folder, "doomed", options.blobs, content=b"x" * 100, tags=lambda _: {"kind": "all"}
        ),
    ) as peer:
        assert peer.folder is not None
        asking = Asking(peer, token)
        assert asking("PUT", "/other", "restype=container", b"")[1] == 201
        for number in range(_large_blobs):
            path = f"/doomed/large-{number}"
            asking("PUT", path, "", b"x" * _mebibyte, x_ms_blob_type="BlockBlob")
        rows = _rows(peer.folder)
        quiet = asyncio.run(_probe(peer, token, lambda begun: time.monotonic() > begun + 5))
        seconds, status, _ = asking("DELETE", "/doomed", "restype=container")
        assert status == 202
        folder, begun = peer.folder, time.monotonic()
        swept = asyncio.run(_probe(peer, token, lambda begun: _is_swept(folder, begun)))
        print(f"\nDelete Container with {options.blobs} blobs     {seconds * 1e3:8.1f} ms")
        print(f"its {rows} rows are gone after  {time.monotonic() - begun:8.1f} s")
        for name, found in (("before", quiet), ("meanwhile", swept)):
            p99 = statistics.quantiles(found, n=100)[98]
            print(
                f"Put Blob 4 KiB {name:10} median {statistics.median(found) * 1e3:6.2f} ms, "
                f"99% {p99 * 1e3:6.2f} ms, most {max(found) * 1e3:6.2f} ms ({len(found)})"
            )
        while _extent_bytes(peer.folder) > 0:
            assert time.monotonic() < begun + _wait_seconds_max, "extents are left"
            time.sleep(0.5)
        print(f"its extents are gone after    {time.monotonic() - begun:8.1f} s")
        asking = Asking(peer, token)  # the other connection was closed long ago
        before = (peer.folder / "data.mdb").stat().st_blocks * 512
        for number in range(5000):
            path = f"/other/again-{number}"
            assert asking("PUT", path, "", b"x" * 16_384, x_ms_blob_type="BlockBlob")[1] == 201
        after = (peer.folder / "data.mdb").stat().st_blocks * 512
        print(
            f"5000 blobs of 16 KiB then: the store's file grows from {before / 1e6:.0f} "
            f"to {after / 1e6:.0f} MB"
        )


async def _probe(peer: Peer, token: str, over) -> list[float]:  # type: ignore[no-untyped-def]  # a predicate
    """How long small writes take until `over`, which is asked twice a second."""
    where = urlsplit(peer.blob)
    done = False
    begun = time.monotonic()
    found: list[float] = []

    async def write(number: int) -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        head = (
            f"PUT {where.path}/other/probe-{number}?{token} HTTP/1.1\r\nHost: x\r\n"
            f"x-ms-version: {_version}\r\nx-ms-blob-type: BlockBlob\r\n"
            "Content-Length: 4096\r\n\r\n"
        ).encode()
        while not done:
            begin = time.perf_counter()
            writer.write(head + b"x" * 4096)
            answer = await reader.readuntil(b"\r\n\r\n")
            found.append(time.perf_counter() - begin)
            assert b" 201 " in answer.split(b"\r\n")[0], answer
        writer.close()

    writers = [asyncio.create_task(write(number)) for number in range(_probes)]
    while not await asyncio.to_thread(over, begun):
        assert time.monotonic() < begun + _wait_seconds_max, "it takes too long"
        await asyncio.sleep(0.5)
    done = True
    await asyncio.gather(*writers)
    return found


def _rows(folder: Path) -> int:
    """Of the whole store; a reader does not disturb the server."""
    with (
        lmdb.open(str(folder / "data.mdb"), subdir=False, readonly=True, max_dbs=8) as store,
        store.begin() as txn,
    ):
        return int(txn.stat()["entries"])


def _is_swept(folder: Path, begun: float) -> bool:
    del begun
    return _rows(folder) < 10_000


def _extent_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "extents").rglob("*") if path.is_file())
