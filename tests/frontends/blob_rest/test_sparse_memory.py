"""A huge sparse disk passes through a server whose memory stays what it was."""

import http.client
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

from etagere.testing import EtagereServer, ServerProcess

mebibyte = 1 << 20
gibibyte = 1 << 30
pytestmark = pytest.mark.slow


def resident(server: ServerProcess) -> int:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def read_on(
    account: EtagereServer, server: ServerProcess, path: str, begin: int
) -> tuple[int, int, int]:
    """How many bytes come, how many of them are no zeros, and the most memory seen meanwhile."""
    token = generate_container_sas(
        account.account_name,
        "disks",
        account_key=account.account_key,
        permission=ContainerSasPermissions(read=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    where = urlsplit(account.blob_url)
    client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    headers = {"x-ms-version": "2025-05-05", "x-ms-range": f"bytes={begin}-"}
    client.request("GET", f"{where.path.rstrip('/')}/{path}?{token}", headers=headers)
    reply = client.getresponse()
    assert reply.status == 206, reply.read()
    buffer = bytearray(mebibyte)
    found = written = peak = 0
    while size := reply.readinto(buffer):
        found += size
        written += size - buffer.count(0, 0, size)
        if found % (128 * mebibyte) < size:
            peak = max(peak, resident(server))
    client.close()
    return found, written, peak


def test_two_gibibytes_of_holes_and_pages(tmp_path: Path) -> None:
    size = 8 << 40
    begin = size - 2 * gibibyte
    with ServerProcess([f"--data={tmp_path}/data", "--services=blob"]) as server:
        account = EtagereServer(server)
        with BlobServiceClient.from_connection_string(account.connection_string) as service:
            disk = service.create_container("disks").get_blob_client("disk")
            disk.create_page_blob(size)
            page = b"x" * 4096
            for number in range(200):
                disk.upload_page(page, begin + number * 10 * mebibyte, len(page))
            disk.upload_page(b"y" * 4 * mebibyte, size - 4 * mebibyte, 4 * mebibyte)
            idle = resident(server)
            found, written, peak = read_on(account, server, "disks/disk", begin)
            assert found == 2 * gibibyte
            assert written == 200 * len(page) + 4 * mebibyte
            assert len(list(disk.list_page_ranges())) == 201
        account.close()
    assert 0 < peak < idle + 64 * mebibyte
