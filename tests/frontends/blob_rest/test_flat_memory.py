"""What passes through a server stays out of its memory: long bodies of every kind, copies that are
read and written anew, long lists."""

import http.client
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from etagere.testing import EtagereServer, ServerProcess

mebibyte = 1 << 20
resident_bytes_max = 250_000_000
size = 192 * mebibyte
chunk = bytes(range(256)) * 4096
fillers = 8

pytestmark = pytest.mark.slow


class Client:
    """One connection, whose requests anything may follow."""

    def __init__(self, account: EtagereServer) -> None:
        where = urlsplit(account.blob_url)
        self.account = account
        self.url = account.blob_url.rstrip("/")
        self._base = where.path.rstrip("/")
        self._client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self.token = generate_account_sas(
            account.account_name,
            account.account_key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions.from_string("rwdxlacuptf"),
            datetime.now(UTC) + timedelta(hours=1),
        )

    def close(self) -> None:
        self._client.close()

    def __call__(
        self, method: str, path: str, query: str, body: bytes | Iterator[bytes], expected: int,
        **headers: object,
    ) -> bytes:  # fmt: skip
        sent = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        prefix = f"{query}&" if query else ""
        target = f"{self._base}{path}?{prefix}{self.token}"
        self._client.request(method, target, body, {"x-ms-version": "2025-05-05", **sent})
        answer = self._client.getresponse()
        data = answer.read()
        assert answer.status == expected, data[:500]
        return data

    def read_through(self, path: str) -> int:
        """How many bytes a download has; none of them are kept."""
        target = f"{self._base}{path}?{self.token}"
        self._client.request("GET", target, headers={"x-ms-version": "2025-05-05"})
        answer = self._client.getresponse()
        assert answer.status == 200
        found = 0
        buffer = bytearray(mebibyte)
        while got := answer.readinto(buffer):
            found += got
        return found


class Peak:
    """The most memory that a process has had resident since it was last forgotten."""

    def __init__(self, process: ServerProcess) -> None:
        self._folder = Path(f"/proc/{process.process.pid}")

    def forget(self) -> None:
        (self._folder / "clear_refs").write_text("5")

    def bytes(self) -> int:
        (line,) = (
            line
            for line in (self._folder / "status").read_text().splitlines()
            if line.startswith("VmHWM")
        )
        return int(line.split()[1]) * 1024


def chunks(total: int) -> Iterator[bytes]:
    for _ in range(total // mebibyte):
        yield chunk


def put_blob(ask: Client) -> None:
    kind = {"x_ms_blob_type": "BlockBlob", "Content_Length": size}
    ask("PUT", "/large/block", "", chunks(size), 201, **kind)
    assert ask.read_through("/large/block") == size


def copy_from_url(ask: Client) -> None:
    """Read and written anew, because a block is made of it."""
    source = f"{ask.url}/large/block?{ask.token}"
    ask(
        "PUT", "/large/copied", "comp=block&blockid=MDAwMQ%3D%3D", b"", 201,
        x_ms_copy_source=source,
    )  # fmt: skip
    listed = b"<BlockList><Latest>MDAwMQ==</Latest></BlockList>"
    ask("PUT", "/large/copied", "comp=blocklist", listed, 201)
    assert ask.read_through("/large/copied") == size


def put_pages(ask: Client) -> None:
    kind = {"x_ms_blob_type": "PageBlob", "x_ms_blob_content_length": size}
    ask("PUT", "/large/page", "", b"", 201, **kind)
    body = chunk * 4
    for begin in range(0, size, len(body)):
        ask(
            "PUT", "/large/page", "comp=page", body, 201,
            x_ms_page_write="update", x_ms_range=f"bytes={begin}-{begin + len(body) - 1}",
        )  # fmt: skip
    assert ask.read_through("/large/page") == size


def append(ask: Client) -> None:
    """Blocks as large as they may be, and small ones."""
    ask("PUT", "/large/log", "", b"", 201, x_ms_blob_type="AppendBlob")
    length = 100 * mebibyte
    ask("PUT", "/large/log", "comp=appendblock", chunks(length), 201, Content_Length=length)
    for _ in range(100):
        ask("PUT", "/large/log", "comp=appendblock", b"x" * 1000, 201)
    assert ask.read_through("/large/log") == length + 100_000


def commit_many_blocks(ask: Client) -> None:
    """As many as a list may have; the same one again and again is as long."""
    blocks = [b64encode(f"{number:048d}".encode()).decode() for number in range(20)]
    for block in blocks:
        query = f"comp=block&blockid={quote(block, safe='')}"
        ask("PUT", "/large/list", query, b"0123456789", 201)
    items = "".join(f"<Latest>{blocks[number % 20]}</Latest>" for number in range(50_000))
    document = f"<?xml version='1.0' encoding='utf-8'?><BlockList>{items}</BlockList>".encode()
    ask("PUT", "/large/list", "comp=blocklist", document, 201)
    assert ask.read_through("/large/list") == 500_000
    assert ask("GET", "/large/list", "comp=blocklist", b"", 200).count(b"<Block>") == 50_000


def list_and_delete_many(ask: Client) -> None:
    """A page of 5000 with all that it may include, and batches."""
    ask("PUT", "/many", "restype=container", b"", 201)
    tags = "&".join(f"key{number}=value-{number}" for number in range(10))
    metadata = {f"x_ms_meta_name{number}": "value" * 40 for number in range(10)}

    def fill(first: int) -> None:
        mine = Client(ask.account)
        for number in range(first, 5000, fillers):
            mine(
                "PUT", f"/many/{number:05d}", "", b"x", 201,
                x_ms_blob_type="BlockBlob", x_ms_tags=tags, **metadata,
            )  # fmt: skip
        mine.close()

    with ThreadPoolExecutor(fillers) as pool:
        list(pool.map(fill, range(fillers)))
    include = "snapshots,metadata,uncommittedblobs,copy,deleted,tags,immutabilitypolicy,legalhold"
    found = ask("GET", "/many", f"restype=container&comp=list&include={include}", b"", 200)
    assert found.count(b"<Blob>") == 5000
    assert len(found) > 10_000_000
    path = urlsplit(ask.url).path
    for first in range(0, 1024, 256):
        parts = "".join(
            "--batch\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
            f"Content-ID: {number}\r\n\r\n"
            f"DELETE {path}/many/{first + number:05d}?{ask.token} HTTP/1.1\r\n"
            "Content-Length: 0\r\n\r\n"
            for number in range(256)
        )
        body = f"{parts}--batch--\r\n".encode()
        kind = {"Content_Type": "multipart/mixed; boundary=batch"}
        answer = ask("POST", "/", "comp=batch", body, 202, **kind)
        assert answer.count(b"HTTP/1.1 202") == 256


@pytest.mark.timeout(240)
def test_what_passes_through_does_not_stay(tmp_path: Path) -> None:
    arguments = [f"--data={tmp_path}/data", "--services=blob", "--durability=relaxed"]
    with ServerProcess(arguments) as process:
        peak = Peak(process)
        account = EtagereServer(process)
        ask = Client(account)
        ask("PUT", "/large", "restype=container", b"", 201)
        works: tuple[Callable[[Client], None], ...] = (
            put_blob, copy_from_url, put_pages, append, commit_many_blocks, list_and_delete_many,
        )  # fmt: skip
        found = {}
        for work in works:
            peak.forget()
            work(ask)
            found[work.__name__] = peak.bytes()
        ask.close()
        assert max(found.values()) < resident_bytes_max, found
