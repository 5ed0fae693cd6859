"""What an entity costs in CPU time, without sockets: `python -m bench.table_cpu [PART ...]`.

Requests go through the whole frontend (signature, multipart, JSON, transaction, answer) into an
LMDB store in one process.  The time that all its threads use is counted, in the program and in the
kernel, so the figures mean something on a machine that does other work meanwhile; of several rounds
the cheapest is printed.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

from bench.table import batch_size, sas
from etagere.base.faults import NoFaults
from etagere.frontends.common.authentication import Authenticator
from etagere.frontends.common.message import Request, Response
from etagere.frontends.common.pipeline import Pipeline
from etagere.frontends.table_rest.call import TableCall
from etagere.frontends.table_rest.service import TableFrontend
from etagere.kv.engines.lmdb import LmdbEngine
from etagere.servers.real import RealClock, SystemEntropy
from etagere.services.common.accounts import (
    AccountDirectory,
    development_account,
    development_name,
)
from etagere.services.table.service import TableService

_origin: Final = f"http://127.0.0.1:10002/{development_name}"
_properties: Final[dict[str, object]] = {
    "name": "somebody or other", "age": 42, "height": 1.83, "active": True,
    "joined@odata.type": "Edm.DateTime", "joined": "2021-06-17T17:32:46.777543Z",
    "balance@odata.type": "Edm.Int64", "balance": "1234567890123",
    "id@odata.type": "Edm.Guid", "id": "c9da6455-213d-42c9-9a79-3e9149a57833",
    "city": "Paris", "note": "a few words about it", "level": 7,
}  # fmt: skip
_python_head: Final = (
    "Content-Type: application/json\r\nContent-Length: {length}\r\nx-ms-version: 2019-02-02\r\n"
    "DataServiceVersion: 3.0\r\nAccept: application/json;odata=minimalmetadata\r\n"
    "x-ms-date: Thu, 19 Nov 2026 06:00:00 GMT\r\nDate: Thu, 19 Nov 2026 06:00:00 GMT\r\n"
)
_plain_head: Final = (
    "Content-Type: application/json\r\nAccept: application/json\r\n"
    "Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n"
)


class _Body:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._raw

    async def read(self, bytes_max: int = 0) -> bytes:
        del bytes_max
        return self._raw


def _request(method: str, path: str, body: bytes, **headers: str) -> Request:
    sent = {
        "host": "127.0.0.1:10002",
        "x-ms-version": "2021-12-02",
        "accept": "application/json;odata=minimalmetadata",
        "content-type": "application/json",
        "content-length": str(len(body)),
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        method=method,
        raw_path=f"/{development_name}/{path}",
        raw_query=_token,
        headers=sent,
        body=_Body(body),
    )


_token: Final = sas()
_round: Final = 8
"""Batches in a round; those that change what is there change what the round before left."""
_compact: Final = (",", ":")
_spaced: Final = (", ", ": ")


def _entity(pk: str, rk: str, separators: tuple[str, str]) -> bytes:
    own = {"PartitionKey": pk, "RowKey": rk, **_properties}
    return json.dumps(own, separators=separators).encode()


_python_types: Final[dict[type, str]] = {str: "Edm.String", float: "Edm.Double"}


def _python_entity(pk: str, rk: str) -> bytes:
    """As azure-data-tables writes it."""
    own: dict[str, object] = {}
    for name, value in {"PartitionKey": pk, "RowKey": rk, **_properties}.items():
        if "@" not in name:
            own[name] = value
            edm_type = _properties.get(name + "@odata.type", _python_types.get(type(value)))
            if edm_type is not None:
                own[name + "@odata.type"] = edm_type
    return json.dumps(own).encode()


def _batch(
    operations: Iterator[tuple[str, str, str, bytes]], *, content_ids: bool = False
) -> Request:
    """Python numbers the operations; the other SDKs do not."""
    pieces = [b"--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"]
    for number, (method, path, head, body) in enumerate(operations):
        content_id = f"Content-ID: {number}\r\n" if content_ids else ""
        text = (
            "--changeset_1\r\nContent-Type: application/http\r\n"
            f"Content-Transfer-Encoding: binary\r\n{content_id}\r\n"
            f"{method} {_origin}/{path} HTTP/1.1\r\n{head.format(length=len(body))}\r\n"
        )
        pieces.append(text.encode() + body + b"\r\n")
    pieces.append(b"--changeset_1--\r\n--batch_1--\r\n")
    return _request(
        "POST", "$batch", b"".join(pieces), content_type="multipart/mixed; boundary=batch_1"
    )


def _path(pk: str, rk: str) -> str:
    return f"bench(PartitionKey='{pk}',RowKey='{rk}')"


def _batch_insert(number: int) -> Request:
    pk = f"b{number:06}"
    return _batch(
        ("POST", "bench", _plain_head, _entity(pk, f"{n:03}", _compact)) for n in range(batch_size)
    )


def _batch_insert_shapes(number: int) -> Request:
    """Entities of which every other one lacks a property."""
    pk = f"s{number:06}"
    bodies = (_entity(pk, f"{n:03}", _compact) for n in range(batch_size))
    return _batch(
        ("POST", "bench", _plain_head, body.replace(b'"note"', b'"name2"') if n % 2 else body)
        for n, body in enumerate(bodies)
    )


def _batch_insert_python(number: int) -> Request:
    """The entities come back in the answer."""
    pk = f"y{number:06}"
    return _batch(
        (("POST", "bench", _python_head, _python_entity(pk, f"{n:03}")) for n in range(batch_size)),
        content_ids=True,
    )


def _batch_upsert(number: int) -> Request:
    pk = f"u{number % _round:06}"
    return _batch(
        ("PUT", _path(pk, f"{n:03}"), _plain_head, _entity(pk, f"{n:03}", _compact))
        for n in range(batch_size)
    )


def _batch_upsert_python(number: int) -> Request:
    return _batch_python("PUT", f"w{number % _round:06}")


def _batch_merge_python(number: int) -> Request:
    return _batch_python("PATCH", f"m{number % _round:06}")


def _batch_python(method: str, pk: str) -> Request:
    return _batch(
        (
            (method, _path(pk, f"{n:03}"), _python_head, _python_entity(pk, f"{n:03}"))
            for n in range(batch_size)
        ),
        content_ids=True,
    )


def _insert(number: int) -> Request:
    body = _entity(f"p{number % 8}", f"{number:08}", _compact)
    return _request("POST", "bench", body, prefer="return-no-content")


def _upsert(number: int) -> Request:
    pk, rk = "seen", f"{number % 1000:08}"
    return _request("PUT", _path(pk, rk), _entity(pk, rk, _compact))


def _merge(number: int) -> Request:
    return _request("MERGE", _path("seen", f"{number % 1000:08}"), b'{"age":43}', if_match="*")


def _get(number: int) -> Request:
    return _request("GET", _path("seen", f"{number % 1000:08}"), b"")


Part = tuple[str, Callable[[int], Request], int, int, int]
"""What it is called, its requests, entities in each, requests in a round, and the status."""

parts: Final[dict[str, Part]] = {
    "batch-insert": ("Batch of 100 inserts, compact", _batch_insert, 100, _round, 202),
    "batch-insert-python": (
        "Batch of 100 inserts, as Python",
        _batch_insert_python,
        100,
        _round,
        202,
    ),
    "batch-insert-shapes": (
        "Batch of 100 inserts, two shapes",
        _batch_insert_shapes,
        100,
        _round,
        202,
    ),
    "batch-upsert": ("Batch of 100 upserts, compact", _batch_upsert, 100, _round, 202),
    "batch-upsert-python": (
        "Batch of 100 upserts, as Python",
        _batch_upsert_python,
        100,
        _round,
        202,
    ),
    "batch-merge-python": (
        "Batch of 100 merges, as Python",
        _batch_merge_python,
        100,
        _round,
        202,
    ),
    "insert": ("Insert", _insert, 1, 400, 204),
    "upsert": ("Insert Or Replace", _upsert, 1, 400, 204),
    "merge": ("Merge, If-Match: *", _merge, 1, 400, 204),
    "get": ("Get", _get, 1, 400, 200),
}
_clients: Final = 8


async def _run(pipeline: Pipeline[TableCall], requests: list[Request], status: int) -> float:
    """The CPU seconds that the requests take, sent by some clients at a time."""
    waiting = iter(requests)

    async def client() -> None:
        for request in waiting:
            response: Response = await pipeline.handle(request)
            assert response.status == status, response.body
            assert isinstance(response.body, bytes)
            assert b"odata.error" not in response.body, response.body

    gc.collect()
    began = time.process_time()
    await asyncio.gather(*(client() for _ in range(_clients)))
    return time.process_time() - began


async def measure(names: list[str], rounds: int, *, profile: bool) -> None:
    clock, entropy = RealClock(), SystemEntropy()
    with tempfile.TemporaryDirectory(prefix="etagere-bench-") as folder:
        engine = LmdbEngine.open(Path(folder), clock=clock, alone=True)
        pipeline = Pipeline(
            TableFrontend(TableService(engine, clock, entropy)),
            accounts=AccountDirectory([development_account()]),
            authenticator=Authenticator(clock, None),
            clock=clock,
            entropy=entropy,
            faults=NoFaults(),
        )
        await _run(pipeline, [_request("POST", "Tables", b'{"TableName":"bench"}')], 201)
        await _run(pipeline, [_upsert(number) for number in range(1000)], 204)
        print(f"{'CPU time an entity':36}{'us':>8}")
        for name in names:
            title, make, entities, requests, status = parts[name]
            numbers = count()
            await _run(pipeline, [make(next(numbers)) for _ in range(requests)], status)
            found: list[float] = []
            for _ in range(rounds):
                made = [make(next(numbers)) for _ in range(requests)]
                found.append(await _run(pipeline, made, status))
            cost = min(found) / requests / entities * 1e6
            if profile:
                made = [make(next(numbers)) for _ in range(requests)]
                with cProfile.Profile() as profiler:
                    await _run(pipeline, made, status)
                pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
            print(f"{title:36}{cost:8.2f}", flush=True)
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.table_cpu")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--profile", action="store_true", help="the event loop's thread, by cProfile"
    )
    arguments = parser.parse_args()
    names = arguments.parts or list(parts)
    for name in names:
        if name not in parts:
            parser.error(f"there is no part called {name}")
    asyncio.run(measure(names, arguments.rounds, profile=arguments.profile))


if __name__ == "__main__":
    main()
