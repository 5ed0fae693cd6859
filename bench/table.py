"""Tables: small operations and batches against Azurite, and a table that grows to a million.

    python -m bench.table [--seconds 3] [--rounds 3] [--workers 1] [--entities 1000000]
    python -m bench.table --part small --case batch        one part of it, and one row of that
    python -m bench.table --part cpu                       this server's CPU time for an entity

`bench.table_cpu` measures the same without sockets.
"""

import argparse
import http.client
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableServiceClient,
    generate_account_sas,
)

from bench import load, peers
from bench.peers import Missing, Peer
from bench.report import Table

batch_size: Final = 100
_credential: Final = AzureNamedKeyCredential(peers.account, peers.key)
_entity: Final = (
    b'"name":"somebody or other","age":42,"height":1.83,"active":true,'
    b'"joined@odata.type":"Edm.DateTime","joined":"2021-06-17T17:32:46.777543Z",'
    b'"balance@odata.type":"Edm.Int64","balance":"1234567890123",'
    b'"id@odata.type":"Edm.Guid","id":"c9da6455-213d-42c9-9a79-3e9149a57833",'
    b'"city":"Paris","note":"a few words about it","level":7}'
)


class Case:
    """One script, run against each server in turn; `entities` are written or read by a request."""

    def __init__(
        self,
        name: str,
        script: str,
        *,
        connections: int = 32,
        threads: int = 2,
        entities: int = 1,
        **environment: str,
    ) -> None:
        self.name = name
        self.script = script
        self.connections = connections
        self.threads = threads
        self.entities = entities
        self.environment = environment


cases: Final = (
    Case("Insert, several partitions", "table_insert"),
    Case("Insert, one partition", "table_insert", PARTITION="one"),
    Case("Insert Or Replace", "table_upsert"),
    Case("Merge, If-Match loop", "table_update", connections=8, threads=8),
    Case("Get", "table_get"),
    Case("Query a partition of 100", "table_query"),
    Case("Batch of 100 inserts", "table_batch", connections=16, entities=batch_size),
)


def sas() -> str:
    return generate_account_sas(
        _credential,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions.from_string("rwdlacu"),
        datetime(2035, 1, 1, tzinfo=UTC),
    )


def prepare(peer: Peer, table: str, partitions: int) -> None:
    """A thousand entities to read and overwrite, and partitions of a hundred to query."""
    with TableServiceClient(peer.table, credential=_credential) as service:
        service.create_table(table)
    batches = [("seen", number * batch_size) for number in range(10)]
    batches += [(f"q{number:05d}", 0) for number in range(partitions)]
    fill(peer, table, batches)
    with TableServiceClient(peer.table, credential=_credential) as service:
        for number in range(8):
            service.get_table_client(table).upsert_entity(
                {"PartitionKey": "loop", "RowKey": str(number), "age": 42}
            )


def fill(peer: Peer, table: str, batches: Iterable[tuple[str, int]]) -> None:
    """Insert Or Replace a hundred entities for each (partition key, first row)."""
    token = sas()
    with ThreadPoolExecutor(4) as pool:
        shares = list(batches)
        for done in [pool.submit(_fill, peer, table, token, shares[n::4]) for n in range(4)]:
            done.result()


def _fill(peer: Peer, table: str, token: str, batches: list[tuple[str, int]]) -> None:
    parts = urlsplit(peer.table)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    headers = {
        "Content-Type": "multipart/mixed; boundary=batch_1",
        "x-ms-version": "2021-12-02",
        "Accept": "application/json",
    }
    for partition_key, first in batches:
        body = _batch_body(peer.table, table, partition_key, first)
        connection.request("POST", f"{parts.path}/$batch?{token}", body, headers)
        reply = connection.getresponse()
        text = reply.read()
        assert reply.status == 202, text
        assert text.count(b" 204 ") == batch_size, text
    connection.close()


def _batch_body(url: str, table: str, partition_key: str, first: int) -> bytes:
    pieces = [b"--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"]
    for row in range(first, first + batch_size):
        row_key = f"{row:08d}"
        address = f"{url}/{table}(PartitionKey='{partition_key}',RowKey='{row_key}')"
        pieces.append(
            b"--changeset_1\r\nContent-Type: application/http\r\n"
            b"Content-Transfer-Encoding: binary\r\n\r\n"
            b"PUT %b HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
            b"DataServiceVersion: 3.0\r\n\r\n"
            b'{"PartitionKey":"%b","RowKey":"%b",%b\r\n'
            % (address.encode(), partition_key.encode(), row_key.encode(), _entity)
        )
    pieces.append(b"--changeset_1--\r\n--batch_1--\r\n")
    return b"".join(pieces)


def _run(
    peer: Peer, case: Case, token: str, seconds: float, label: str, **environment: str
) -> load.Measured:
    origin, _, account = peer.table.rpartition("/")
    measured = load.run(
        origin,
        case.script,
        seconds=seconds,
        connections=case.connections,
        threads=case.threads,
        SAS=token,
        BASE="/" + account,
        RUN=label,
        **{**case.environment, **environment},
    )
    return measured._replace(per_second=measured.per_second * case.entities)


def chosen(names: list[str]) -> list[Case]:
    """The cases that have one of the words in their names."""
    return [case for case in cases if any(word.lower() in case.name.lower() for word in names)]


def small(wanted: list[Case], seconds: float, rounds: int, workers: int) -> None:
    """Entities per second, interleaved, medians of several rounds."""
    token = sas()
    with ExitStack() as stack:
        running = [stack.enter_context(peers.etagere(workers=workers, services="table"))]
        try:
            running.append(stack.enter_context(peers.azurite()))
        except Missing as missing:
            print(f"without Azurite: {missing}")
        for peer in running:
            prepare(peer, "bench", 10)
        report = Table(f"Tables, entities/s (workers={workers}, durability=sync)", "Azurite")
        for case in wanted:
            measured: dict[str, list[load.Measured]] = {peer.name: [] for peer in running}
            for number in range(rounds):
                for peer in running:
                    label = f"{case.name.count(',')}{case.script}{number}"
                    measured[peer.name].append(_run(peer, case, token, seconds, label))
            medians = {name: load.median(found) for name, found in measured.items()}
            report.add(case.name, medians["etagere"], medians.get("azurite"))
        report.print()


def growth(wanted: list[Case], seconds: float, rounds: int, entities: int) -> None:
    """The same operations on a table of a thousand entities and on one of many; and the query of
    one partition out of many against that on a table which holds nothing else."""
    token = sas()
    with peers.etagere(services="table") as peer:
        prepare(peer, "small", 1)
        with TableServiceClient(peer.table, credential=_credential) as service:
            service.create_table("alone")
        fill(peer, "alone", [("q00000", 0)])
        partitions = entities // batch_size
        prepare(peer, "large", partitions)
        grown = [case for case in wanted if case.script in _grows]
        report = Table(f"Tables, {entities:,} entities against 1,000", "1,000's")
        for case in grown:
            small_runs, large_runs = [], []
            few = "alone" if case.script == "table_query" else "small"
            for number in range(rounds):
                label = f"{case.name.count(',')}{case.script}{number}"
                small_runs.append(
                    _run(peer, case, token, seconds, label, TABLE=few, PARTITIONS="1")
                )
                large_runs.append(
                    _run(
                        peer, case, token, seconds, label, TABLE="large", PARTITIONS=str(partitions)
                    )
                )
            report.add(case.name, load.median(large_runs), load.median(small_runs))
        report.print()


_grows: Final = frozenset({"table_insert", "table_upsert", "table_get", "table_query"})


def cpu(wanted: list[Case], seconds: float, rounds: int, workers: int) -> None:
    """What the server's processes use while wrk drives them; of the rounds the cheapest."""
    token = sas()
    with peers.etagere(workers=workers, services="table") as peer:
        prepare(peer, "bench", 10)
        print(f"\n{'Tables':34}{'entities/s':>12}{'CPU, us an entity':>20}")
        for case in wanted:
            found = []
            for number in range(rounds):
                label = f"{case.name.count(',')}{case.script}{number}"
                before = peers.cpu_seconds(peer.process)
                measured = _run(peer, case, token, seconds, label)
                used = peers.cpu_seconds(peer.process) - before
                found.append((used / (measured.per_second * seconds) * 1e6, measured.per_second))
            cost, rate = min(found)
            print(f"{case.name:34}{rate:12.0f}{cost:20.1f}")


parts: Final = ("small", "growth", "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.table")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("SECONDS", "3")))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--entities", type=int, default=1_000_000, help="0 leaves growth out")
    parser.add_argument(
        "--part", action="append", choices=parts, help="may be repeated; small and growth"
    )
    parser.add_argument(
        "--case", action="append", metavar="WORD", help="rows with the word in their name; all"
    )
    given = parser.parse_args()
    wanted = chosen(given.case or [""])
    if not wanted:
        parser.error(f"the rows are: {', '.join(case.name for case in cases)}")
    chosen_parts = given.part or ["small", "growth"]
    if "small" in chosen_parts:
        small(wanted, given.seconds, given.rounds, given.workers)
    if "cpu" in chosen_parts:
        cpu(wanted, given.seconds, given.rounds, given.workers)
    if "growth" in chosen_parts and given.entities:
        growth(wanted, given.seconds, given.rounds, given.entities)


if __name__ == "__main__":
    main()
