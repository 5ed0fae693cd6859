"""Queues: puts, and pairs of get and delete on a queue of many messages, against Azurite.

`python -m bench.queue [--seconds 3] [--rounds 3] [--workers 1] [--backlog 10000]`
"""

import argparse
import asyncio
import statistics
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from azure.storage.queue import (
    AccountSasPermissions,
    QueueServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from bench import load, peers
from bench.peers import Missing, Peer
from bench.report import Table

_version: Final = "2021-12-02"
_body: Final = f"<QueueMessage><MessageText>{'x' * 1024}</MessageText></QueueMessage>"


def sas() -> str:
    return generate_account_sas(
        peers.account,
        account_key=peers.key,
        resource_types=ResourceTypes(service=True, container=True, object=True),
        permission=AccountSasPermissions.from_string("rwdlacup"),
        expiry=datetime(2035, 1, 1, tzinfo=UTC),
    )


def prepare(peer: Peer, *names: str) -> None:
    with QueueServiceClient(peer.queue, credential=peers.key, api_version=_version) as client:
        for name in names:
            client.create_queue(name)


async def fill(peer: Peer, token: str, queue: str, count: int) -> None:
    where = urlsplit(peer.queue)
    numbers = iter(range(count))

    async def put() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        for _ in numbers:
            writer.write(
                f"POST {where.path}/{queue}/messages?{token} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"x-ms-version: {_version}\r\nContent-Type: application/xml\r\n"
                f"Content-Length: {len(_body)}\r\n\r\n{_body}".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert " 201 " in head.split("\r\n")[0], head
            if "transfer-encoding: chunked" in head:
                while (size := int(await reader.readline(), 16)) > 0:
                    await reader.readexactly(size + 2)
                await reader.readline()
            else:
                length = head.partition("content-length:")[2].partition("\r\n")[0]
                await reader.readexactly(int(length))
        writer.close()

    await asyncio.gather(*(put() for _ in range(32)))


def _run(
    peer: Peer, script: str, queue: str, token: str, options: argparse.Namespace
) -> load.Measured:
    origin, _, account = peer.queue.rpartition("/")
    return load.run(
        origin,
        script,
        seconds=options.seconds,
        connections=options.connections,
        threads=options.connections if script == "queue_pair" else 2,
        SAS=token,
        BASE="/" + account,
        QUEUE=queue,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--backlog", type=int, default=10_000)
    options = parser.parse_args()
    token = sas()
    with ExitStack() as stack:
        running = [stack.enter_context(peers.etagere(workers=options.workers, services="queue"))]
        try:
            running.append(stack.enter_context(peers.azurite()))
        except Missing as missing:
            print(f"without Azurite: {missing}")
        for peer in running:
            prepare(peer, "bench", "long")
        table = Table(
            f"Queues, 1 KiB messages, {options.connections} connections, "
            f"workers={options.workers}, durability=sync",
            "Azurite",
        )
        puts: dict[str, list[load.Measured]] = {peer.name: [] for peer in running}
        pairs: dict[str, list[load.Measured]] = {peer.name: [] for peer in running}
        cpu: dict[str, list[float]] = {"Put": [], "Get or Delete": []}
        """Microseconds of this server's CPU for a request."""
        for _ in range(options.rounds):
            for peer in running:
                before = peers.cpu_seconds(peer.process)
                found = _run(peer, "queue_put", "bench", token, options)
                used = peers.cpu_seconds(peer.process) - before
                puts[peer.name].append(found)
                if peer.name == "etagere":
                    cpu["Put"].append(1e6 * used / (found.per_second * options.seconds))
        for peer in running:
            asyncio.run(fill(peer, token, "long", options.backlog))
        for _ in range(options.rounds):
            for peer in running:
                before = peers.cpu_seconds(peer.process)
                found = _run(peer, "queue_pair", "long", token, options)
                used = peers.cpu_seconds(peer.process) - before
                if peer.name == "etagere":
                    cpu["Get or Delete"].append(1e6 * used / (found.per_second * options.seconds))
                done = int(found.per_second * options.seconds / 2)
                asyncio.run(fill(peer, token, "long", done))
                pairs[peer.name].append(found._replace(per_second=found.per_second / 2))
        for name, measured in (
            ("Put Message", puts),
            (f"Get + Delete, {options.backlog} in the queue", pairs),
        ):
            medians = {peer: load.median(runs) for peer, runs in measured.items()}
            table.add(name, medians["etagere"], medians.get("azurite"))
        table.print()
        for name, spent in cpu.items():
            print(f"{name}: {statistics.median(spent):.0f} us of this server's CPU a request")


if __name__ == "__main__":
    main()
