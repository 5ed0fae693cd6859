import pytest

from .harness import RawClient, Server


@pytest.fixture
def server():
    """Stopped, after what must hold of every queue was checked."""
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def raw(server: Server):
    client = server.raw()
    yield client
    client.close()


@pytest.fixture
def queue(raw: RawClient) -> str:
    """The name of a queue that exists."""
    assert raw("PUT", "/tasks").status == 201
    return "tasks"
