"""Batches under If-Match, all on the same rows, while the server is killed again and again.

Whoever writes leaves a token on every row.  What was told to writers and readers is a history that
must be one register's: each value follows the one that its writer had read, and nothing that was
acknowledged, or seen, is gone after a kill.
"""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import pytest

from .process import Process
from .serving import Client, Serving
from .test_transactions import _change, _insert, parts, send

_table = "Register"
_rows = [f"r{n}" for n in range(8)]
_writers, _readers, _kills, _acknowledged_a_kill = 3, 1, 3, 8


@dataclass
class History:
    """What happened, as the clients know it."""

    before: dict[str, str] = field(default_factory=dict)
    """For each token that was sent, the one that its writer had read."""
    acknowledged: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    torn: list[set[str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _read(client: Client, history: History) -> list[dict[str, str]]:
    rows = client.filtered(_table, "PartitionKey eq 'p'").json["value"]
    tokens = {each["token"] for each in rows}
    with history.lock:
        history.seen |= tokens
        if len(rows) != len(_rows) or len(tokens) != 1:
            history.torn.append(tokens)
    return rows


def _write(serving: Serving, history: History, name: str) -> None:
    client = Client(serving)
    try:
        for attempt in range(100_000):
            rows = _read(client, history)
            token = f"{name}.{attempt}"
            with history.lock:
                history.before[token] = rows[0]["token"]
            batch = [
                _change("MERGE", _table, "p", each["RowKey"], each["odata.etag"], token=token)
                for each in random.sample(rows, len(rows))
            ]
            answers = parts(send(client, batch))
            with history.lock:
                if len(answers) == len(rows):
                    assert {part.status for part in answers} == {204}
                    history.acknowledged.append(token)
                else:
                    assert [part.status for part in answers] == [412]
                    history.refused.add(token)
    except (OSError, HTTPException):
        return  # the server was killed under it
    finally:
        client.close()


def _watch(serving: Serving, history: History) -> None:
    client = Client(serving)
    try:
        while True:
            _read(client, history)
    except (OSError, HTTPException):
        return
    finally:
        client.close()


def _check(history: History, final: str) -> None:
    """The values form a chain from the first to the last, and all that is known lies on it."""
    assert history.torn == []
    chain = [final]
    while chain[-1] != "first":
        chain.append(history.before[chain[-1]])
    assert len(chain) == len(set(chain))
    assert set(history.acknowledged) <= set(chain), "an acknowledged batch was lost or overwritten"
    assert history.seen <= set(chain), "a value was seen that then was not there"
    assert not history.refused & set(chain), "a batch was refused and done all the same"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_contended_batches_through_kills(tmp_path: Path, workers: int):
    process = Process(tmp_path / "data", workers=workers).start()
    history = History()
    try:
        client = Client(Serving(process.port))
        client.send("POST", "Tables", body={"TableName": _table})
        first = [_insert(_table, "p", row, token="first") for row in _rows]
        assert len(parts(send(client, first))) == len(_rows)
        client.close()
        for generation in range(_kills):
            serving = Serving(process.port)
            target = len(history.acknowledged) + _acknowledged_a_kill
            with ThreadPoolExecutor(_writers + _readers) as pool:
                tasks = [
                    pool.submit(_write, serving, history, f"g{generation}w{number}")
                    for number in range(_writers)
                ]
                tasks += [pool.submit(_watch, serving, history) for _ in range(_readers)]
                while len(history.acknowledged) < target and not any(t.done() for t in tasks):
                    threading.Event().wait(0.005)
                process.kill()
                for task in tasks:
                    task.result(60)
            process.start()
            client = Client(Serving(process.port))
            (final,) = {each["token"] for each in _read(client, history)}
            client.close()
            _check(history, final)
        assert len(history.acknowledged) >= _kills * _acknowledged_a_kill
        assert process.stop() == 0
        checked = process.check()
        assert checked.returncode == 0, checked.stdout + checked.stderr
    finally:
        process.kill()
