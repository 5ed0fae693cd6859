"""One server on a durable store for clients of Python that are not Azure's own."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest
from azure.storage.blob import BlobServiceClient

from etagere.testing import ServerProcess

account = "devstoreaccount1"
key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
numbers = count()


class Container(NamedTuple):
    name: str
    endpoint: str
    account: str = account
    key: str = key


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("other") / "data"
    with ServerProcess(("--data", str(data), "--services", "blob")) as running:
        yield running
        assert "Traceback" not in running.said


@pytest.fixture
def container(server: ServerProcess) -> Container:
    name = f"other-{next(numbers)}"
    endpoint = server.urls["blob"]
    credential = {"account_name": account, "account_key": key}
    with BlobServiceClient(endpoint, credential=credential) as service:
        service.create_container(name)
    return Container(name, endpoint)
