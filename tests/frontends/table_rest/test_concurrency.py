"""What concurrent clients are promised, with histories of everything that they were told.

Against one process in memory, and against one and two processes over one store on disk.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from .process import Process
from .serving import Client, Serving, entity_path
from .test_transactions import Part, _change, _insert, parts, send


@pytest.fixture(scope="module", params=["memory", "disk", "disk, two workers"])
def server(request, serving: Serving, tmp_path_factory) -> Iterator[Serving]:
    if request.param == "memory":
        yield serving
        return
    data = tmp_path_factory.mktemp("tables")
    process = Process(data, workers=2 if "two" in request.param else 1).start()
    yield Serving(process.port)
    assert process.stop() == 0
    checked = process.check()
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture
def shared(server: Serving) -> Iterator[tuple[Serving, str]]:
    """A server and a table on it."""
    name = f"Shared{random.randrange(10**9)}"
    client = Client(server)
    assert client.send("POST", "Tables", body={"TableName": name}).status == 201
    yield server, name
    assert client.send("DELETE", f"Tables('{name}')").status == 204
    client.close()


def _together(server: Serving, count: int, work: Callable[[Client, int], object]) -> list:
    """Let `count` clients, each with a connection of its own, begin at the same moment."""
    barrier = threading.Barrier(count)

    def run(number: int) -> object:
        client = Client(server)
        try:
            barrier.wait(10)
            return work(client, number)
        finally:
            client.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.parametrize("method", ["PUT", "MERGE", "DELETE"])
def test_of_many_writers_with_one_etag_one_wins(shared, method: str):
    server, table = shared
    client = Client(server)
    for _ in range(5):
        client.send("PUT", entity_path(table, "p", "r"), body={"n": -1})
        etag = client.get(table, "p", "r").headers["etag"]

        def write(writer: Client, number: int, etag: str = etag):
            body = None if method == "DELETE" else {"n": number}
            return number, writer.send(
                method, entity_path(table, "p", "r"), body=body, headers={"If-Match": etag}
            )

        told = _together(server, 8, write)
        winners = [number for number, reply in told if reply.status == 204]
        lost = 404 if method == "DELETE" else 412
        assert Counter(reply.status for _, reply in told) == {204: 1, lost: 7}
        if method != "DELETE":
            assert client.get(table, "p", "r").json["n"] == winners[0]
    client.close()


def test_of_many_inserts_of_one_key_one_wins(shared):
    server, table = shared
    for rk in "abcde":
        told = _together(server, 8, lambda c, n, rk=rk: (n, c.insert(table, "p", rk, n=n)))
        assert Counter(reply.status for _, reply in told) == {201: 1, 409: 7}
        (winner,) = [number for number, reply in told if reply.status == 201]
        client = Client(server)
        assert client.get(table, "p", rk).json["n"] == winner
        client.close()


def test_counters_in_an_optimistic_loop_lose_no_update(shared):
    server, table = shared
    client = Client(server)
    client.insert(table, "p", "counter", n=0)
    workers, rounds = 6, 15

    def count(worker: Client, _: int) -> list[int]:
        written: list[int] = []
        while len(written) < rounds:
            found = worker.get(table, "p", "counter")
            reply = worker.send(
                "MERGE",
                entity_path(table, "p", "counter"),
                body={"n": found.json["n"] + 1},
                headers={"If-Match": found.headers["etag"]},
            )
            if reply.status == 204:
                written.append(found.json["n"] + 1)
            else:
                assert reply.status == 412
        return written

    histories = _together(server, workers, count)
    assert sorted(n for history in histories for n in history) == list(
        range(1, workers * rounds + 1)
    )
    assert all(history == sorted(history) for history in histories)
    assert client.get(table, "p", "counter").json["n"] == workers * rounds
    client.close()


def test_batches_are_all_or_nothing_for_everybody(shared):
    """Writers change all rows of a partition at once; readers never see two values in it."""
    server, table = shared
    rows = [f"{n:02}" for n in range(12)]
    client = Client(server)
    first = parts(send(client, [_insert(table, "p", rk, token="first") for rk in rows]))
    assert [part.status for part in first] == [201] * len(rows)
    writers, readers, rounds = 4, 3, 12
    finished = threading.Event()

    def write(worker: Client, number: int) -> list[str]:
        done: list[str] = []
        for attempt in range(rounds):
            token = f"{number}-{attempt}"
            while True:
                seen = worker.filtered(table, "PartitionKey eq 'p'").json["value"]
                batch = [
                    _change("MERGE", table, "p", e["RowKey"], e["odata.etag"], token=token)
                    for e in random.sample(seen, len(seen))
                ]
                answers: list[Part] = parts(send(worker, batch))
                if len(answers) == len(rows):
                    assert {part.status for part in answers} == {204}
                    done.append(token)
                    break
                (refused,) = answers
                assert refused.status == 412
        return done

    def read(worker: Client) -> list[str]:
        history: list[str] = []
        while not finished.is_set():
            seen = worker.filtered(table, "PartitionKey eq 'p'").json["value"]
            assert len(seen) == len(rows)
            (token,) = {each["token"] for each in seen}
            if not history or history[-1] != token:
                history.append(token)
        return history

    def work(worker: Client, number: int) -> list[str]:
        return write(worker, number) if number < writers else read(worker)

    barrier = threading.Barrier(writers + readers)
    with ThreadPoolExecutor(writers + readers) as pool:

        def run(number: int) -> list[str]:
            worker = Client(server)
            try:
                barrier.wait(10)
                return work(worker, number)
            finally:
                worker.close()

        tasks = [pool.submit(run, number) for number in range(writers + readers)]
        try:
            written = [token for task in tasks[:writers] for token in task.result(90)]
        finally:
            finished.set()
        seen = [task.result(30) for task in tasks[writers:]]
    assert len(written) == writers * rounds
    for history in seen:
        assert len(history) == len(set(history)), "a value came back after it was replaced"
        assert set(history) <= {"first", *written}
    client.close()


def test_of_batches_that_share_a_row_each_is_whole_or_nothing(shared):
    server, table = shared

    def write(worker: Client, number: int) -> tuple[int, list[Part]]:
        own = [_insert(table, "p", f"own-{number}-{n}") for n in range(5)]
        return number, parts(send(worker, [*own, _insert(table, "p", "shared")]))

    told = _together(server, 8, write)
    won = [number for number, answers in told if len(answers) == 6]
    assert len(won) == 1
    for _, answers in told:
        if len(answers) == 1:
            assert (answers[0].status, answers[0].code) == (409, "EntityAlreadyExists")
            assert answers[0].message.startswith("5:")
    client = Client(server)
    found = {e["RowKey"] for e in client.filtered(table).json["value"]}
    assert found == {"shared", *(f"own-{won[0]}-{n}" for n in range(5))}
    client.close()


@pytest.mark.slow
def test_batches_survive_kills_whole_or_not_at_all(tmp_path: Path):
    """SIGKILL at random moments: what was acknowledged is there, what is there is whole."""
    process = Process(tmp_path / "data").start()
    client = Client(Serving(process.port))
    client.send("POST", "Tables", body={"TableName": "Kills"})
    client.close()
    size, writers, kills = 10, 4, 5
    acknowledged: set[str] = set()
    sent: set[str] = set()
    lock = threading.Lock()

    def write(number: int, generation: int) -> None:
        worker = Client(Serving(process.port))
        try:
            for attempt in range(10_000):
                name = f"g{generation}w{number}a{attempt:05}"
                with lock:
                    sent.add(name)
                batch = [_insert("Kills", name, f"{n}", n=n) for n in range(size)]
                answers = parts(send(worker, batch))
                assert [part.status for part in answers] == [201] * size
                with lock:
                    acknowledged.add(name)
        except (OSError, HTTPException):
            return  # the server was killed under it
        finally:
            worker.close()

    try:
        for generation in range(kills):
            before = len(acknowledged)
            with ThreadPoolExecutor(writers) as pool:
                tasks = [pool.submit(write, number, generation) for number in range(writers)]
                target = before + random.randrange(5, 40)
                while len(acknowledged) < target and not all(task.done() for task in tasks):
                    threading.Event().wait(0.005)
                process.kill()
                for task in tasks:
                    task.result(60)
            assert len(acknowledged) > before
            process.start()
            _check_history(process, acknowledged, sent, size)
        assert process.stop() == 0
        checked = process.check()
        assert checked.returncode == 0, checked.stdout + checked.stderr
    finally:
        process.kill()


def _check_history(process: Process, acknowledged: set[str], sent: set[str], size: int) -> None:
    client = Client(Serving(process.port))
    counted: Counter[str] = Counter()
    tokens = ""
    while True:
        page = client.filtered("Kills", "", tokens)
        counted.update(e["PartitionKey"] for e in page.json["value"])
        partition = page.headers.get("x-ms-continuation-nextpartitionkey")
        if partition is None:
            break
        row = page.headers["x-ms-continuation-nextrowkey"]
        tokens = f"NextPartitionKey={partition}&NextRowKey={row}"
    client.close()
    assert acknowledged <= set(counted)
    assert set(counted) <= sent
    assert set(counted.values()) <= {size}
