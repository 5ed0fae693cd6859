import pytest

from .serving import RawClient, Server


@pytest.fixture
def server():
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def raw(server: Server):
    client = RawClient(server.port)
    yield client
    client.close()


@pytest.fixture
def container(raw: RawClient) -> str:
    """The path of a container that exists."""
    assert raw("PUT", "/things", restype="container").status == 201
    return "/things"
