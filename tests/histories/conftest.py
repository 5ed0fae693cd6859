"""One server with three workers over one store on disk, for all histories; checked at the end."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from etagere.app.cli import main
from etagere.testing import ServerProcess

from .competitors import account, create_container, key


def arguments(data: Path, workers: int = 2) -> list[str]:
    return [
        *("--data", str(data), "--account", f"{account}:{key}"),
        *("--services", "blob", "--workers", str(workers)),
    ]


def check(data: Path) -> None:
    """`etagere check`, whose exit status is the last word."""
    with pytest.raises(SystemExit) as ended:
        main(["check", str(data)])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Blob service's URL."""
    data = tmp_path_factory.mktemp("histories")
    process = ServerProcess(arguments(data, workers=3))
    try:
        asyncio.run(create_container(process.urls["blob"]))
        yield process.urls["blob"]
    finally:
        process.stop()
    assert "rror" not in process.said, process.said
    check(data)
