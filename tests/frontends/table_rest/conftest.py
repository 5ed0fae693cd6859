import itertools

import pytest

from .serving import Client, ServerThread

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def serving():
    with ServerThread() as found:
        yield found


@pytest.fixture
def client(serving):
    made = Client(serving)
    yield made
    made.close()


@pytest.fixture
def table(client):
    """A table of the test's own."""
    name = f"Table{next(_numbers)}"
    assert client.send("POST", "Tables", body={"TableName": name}).status == 201
    return name
