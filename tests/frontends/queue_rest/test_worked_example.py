"""What docs/queues.md shows: run as it stands there, and broken off wherever it can be."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.core.exceptions import ResourceNotFoundError

from .harness import Server

page = Path(__file__).parents[3] / "docs" / "queues.md"


class Killed(Exception):  # noqa: N818 - what happens to a consumer
    pass


class Bank:
    """A database with an account, and a consumer's connection to it, which may break off."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "bank.db"
        with closing(self.connection()) as database, database:
            database.execute("CREATE TABLE done (id TEXT PRIMARY KEY)")
            database.execute("CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER)")
            database.execute("INSERT INTO accounts VALUES ('ada', 10000)")

    def connection(self, dies_at: str = "") -> sqlite3.Connection:
        connection = sqlite3.connect(self._file, factory=_Mortal)
        connection.dies_at = dies_at
        return connection

    @property
    def cents(self) -> int:
        with closing(self.connection()) as database:
            (cents,) = database.execute("SELECT cents FROM accounts").fetchone()
        return cents


class _Mortal(sqlite3.Connection):
    dies_at = ""

    def execute(self, statement, *values):
        if self.dies_at and statement.startswith(self.dies_at):
            raise Killed
        return super().execute(statement, *values)


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


@pytest.fixture
def example(server: Server):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    names = {"connection_string": server.connection_string}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    shown = SimpleNamespace(**names)
    shown.queue.create_queue()
    yield shown
    shown.queue.close()


def consume(example, bank: Bank, dies_at: str = "") -> None:
    """One consumer's run, to its end or to its death."""
    with closing(bank.connection(dies_at)) as database:
        try:
            example.consume(database)
        except Killed:
            assert dies_at
        else:
            assert not dies_at


def left(example) -> int:
    return example.queue.get_queue_properties().approximate_message_count


def test_a_charge_is_made(example, bank: Bank):
    example.order("c1", "ada", 4200)
    consume(example, bank)
    assert (bank.cents, left(example)) == (5800, 0)


def test_a_put_whose_reply_was_lost_is_made_again(example, bank: Bank):
    example.order("c1", "ada", 4200)
    example.order("c1", "ada", 4200)
    consume(example, bank)
    assert (bank.cents, left(example)) == (5800, 0)


@pytest.mark.parametrize("dies_at", ["INSERT", "UPDATE"])
def test_killed_before_or_in_the_transaction(server: Server, example, bank: Bank, dies_at: str):
    example.order("c1", "ada", 4200)
    consume(example, bank, dies_at)
    consume(example, bank)  # too early: the message is hidden
    assert (bank.cents, left(example)) == (10_000, 1)
    server.clock.advance(60)
    consume(example, bank)
    assert (bank.cents, left(example)) == (5800, 0)


@pytest.mark.parametrize("carried_out", [False, True], ids=["not deleted", "deleted, no reply"])
def test_killed_at_delete(
    server: Server, example, bank: Bank, monkeypatch: pytest.MonkeyPatch, carried_out: bool
):
    delete = example.queue.delete_message

    def die(message):
        if carried_out:
            delete(message)
        raise Killed

    example.order("c1", "ada", 4200)
    with monkeypatch.context() as killing:
        killing.setattr(example.queue, "delete_message", die)
        with closing(bank.connection()) as database, pytest.raises(Killed):
            example.consume(database)
    assert (bank.cents, left(example)) == (5800, 0 if carried_out else 1)
    server.clock.advance(60)
    consume(example, bank)
    assert (bank.cents, left(example)) == (5800, 0)


def test_a_consumer_that_takes_too_long(
    server: Server, example, bank: Bank, monkeypatch: pytest.MonkeyPatch
):
    """Another one has the message before the first deletes it: its receipt is refused."""
    delete = example.queue.delete_message
    refused = []

    def late(message):
        server.clock.advance(60)
        monkeypatch.setattr(example.queue, "delete_message", delete)
        consume(example, bank)
        try:
            delete(message)
        except ResourceNotFoundError as refusal:
            refused.append(refusal.error_code)
            raise

    example.order("c1", "ada", 4200)
    monkeypatch.setattr(example.queue, "delete_message", late)
    consume(example, bank)
    assert refused == ["MessageNotFound"]
    assert (bank.cents, left(example)) == (5800, 0)


def test_keeping_a_message_for_longer(server: Server, example):
    example.order("c1", "ada", 4200)
    message = example.queue.receive_message(visibility_timeout=60)
    for _ in range(3):
        server.clock.advance(59)
        assert example.queue.receive_message() is None
        message = example.keep(message)
    example.queue.delete_message(message)


def test_putting_a_message_aside(server: Server, example):
    example.order("c1", "ada", 4200)
    with server.sdk() as service, service.create_queue("poison") as poison:
        for _ in range(6):
            assert poison.peek_messages() == []
            message = example.queue.receive_message(visibility_timeout=1)
            example.put_aside(message, poison)
            server.clock.advance(1)
        assert poison.receive_message().content == message.content
    assert left(example) == 0
