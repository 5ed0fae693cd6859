"""A server with HTTPS and a data directory, for clients that want both."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from etagere.testing import EtagereServer, ServerProcess


class Deployment:
    """The server, its files, and what its clients trust it by."""

    def __init__(self, folder: Path) -> None:
        tls = folder / "tls"
        subprocess.run(
            [sys.executable, "-m", "etagere", "cert", str(tls)], check=True, capture_output=True
        )
        self.authority = tls / "authority.pem"
        self.data = folder / "data"
        self._arguments = [
            f"--data={self.data}",
            f"--tls-cert={tls}/localhost.pem",
            f"--tls-key={tls}/localhost-key.pem",
            "--clock=virtual",
        ]
        self.process = ServerProcess(self._arguments)

    def restart(self) -> None:
        self.process.stop()
        self.process = ServerProcess(self._arguments)

    def stored(self) -> bytes:
        """Everything on the disk, now that nobody writes."""
        self.process.stop()
        files = sorted(path for path in self.data.rglob("*") if path.is_file())
        assert files
        return b"".join(path.read_bytes() for path in files)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """For tests that stop the server."""
    made = Deployment(tmp_path)
    yield made
    made.process.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    made = Deployment(tmp_path_factory.mktemp("blobs"))
    yield made
    made.process.stop()


@pytest.fixture
def account(shared: Deployment) -> Iterator[EtagereServer]:
    made = EtagereServer(
        shared.process, {"versioning": True, "immutable_storage_with_versioning": True}
    )
    yield made
    made.close()


@pytest.fixture
def client_of(shared: Deployment) -> Iterator[Callable[..., BlobServiceClient]]:
    clients: list[BlobServiceClient] = []

    def make(account: EtagereServer, **options: Any) -> BlobServiceClient:
        client = BlobServiceClient.from_connection_string(
            account.connection_string,
            connection_verify=str(shared.authority),
            retry_total=0,
            **options,
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def service(
    account: EtagereServer, client_of: Callable[..., BlobServiceClient]
) -> BlobServiceClient:
    return client_of(account)
