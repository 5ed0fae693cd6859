"""Several processes over one store: one clock, one set of accounts and faults, one count."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

from etagere.testing import EtagereServer, ServerProcess


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    data = tmp_path_factory.mktemp("workers") / "data"
    arguments = ["--data", str(data), "--workers", "3", "--clock", "virtual"]
    with ServerProcess(arguments) as server:
        yield server


@pytest.fixture
def account(running):
    server = EtagereServer(running)
    yield server
    server.close()


def blobs(account):
    return BlobServiceClient.from_connection_string(account.connection_string, retry_total=0)


def children(pid):
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def on_new_connections(count, act):
    """Each connection goes to some process; with many of them, every process has some."""
    for _ in range(count):
        act()


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def test_every_process_serves_what_any_of_them_stored(running, account):
    assert running.admin.ask("GET", "/status")["workers"] == 3
    with blobs(account) as client:
        client.create_container("shared").upload_blob("a", b"x" * 100_000)

    def read():
        with blobs(account) as client:
            assert client.get_blob_client("shared", "a").download_blob().readall() == b"x" * 100_000

    on_new_connections(24, read)


def test_all_processes_have_work(running, account):
    """Connections are spread by the kernel: of 60, no process is left without any."""
    with blobs(account) as client:
        client.create_container("shared")

    def look():
        with blobs(account) as client:
            client.get_container_client("shared").get_container_properties()

    on_new_connections(60, look)
    text = account.metrics()
    found = re.search(r'operation="GetContainerProperties",status="200",code=""} (\d+)', text)
    assert int(found[1]) >= 60
    assert int(re.search(r"^etagere_store_commits_total (\d+)$", text, re.MULTILINE)[1]) > 0
    by_process = re.findall(r'etagere_process_requests_total{pid="(\d+)"} (\d+)', text)
    pids = [running.process.pid, *children(running.process.pid)]
    assert sorted(pids) == sorted(int(pid) for pid, count in by_process if int(count) > 0)


def test_time_moves_everywhere(account):
    with blobs(account) as client:
        client.create_container("leased").acquire_lease(15)

    def fails():
        with blobs(account) as client, pytest.raises(HttpResponseError):
            client.get_container_client("leased").acquire_lease(15)

    on_new_connections(12, fails)
    account.advance(16)
    with blobs(account) as client:
        client.get_container_client("leased").acquire_lease(15)


def test_faults_are_armed_and_cleared_everywhere(account):
    account.faults.arm("throttle", "ListContainers", count=0)

    def throttled():
        with blobs(account) as client, pytest.raises(HttpResponseError) as caught:
            list(client.list_containers())
        assert caught.value.status_code == 503

    def served():
        with blobs(account) as client:
            list(client.list_containers())

    on_new_connections(12, throttled)
    assert account.faults.armed()[0]["hits"] == 12
    account.faults.clear()
    on_new_connections(12, served)


def test_a_worker_that_dies_is_replaced_and_knows_what_the_others_know(running, account):
    account.faults.arm("throttle", "GetBlobServiceProperties", count=0)
    before = children(running.process.pid)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(
        lambda: (
            running.admin.ask("GET", "/status")["workers"] == 3
            and not set(before) & set(children(running.process.pid))
        )
    )

    def served():
        with blobs(account) as client:
            list(client.list_containers())
            with pytest.raises(HttpResponseError) as caught:
                client.get_service_properties()
            assert caught.value.status_code == 503

    on_new_connections(24, served)
    assert "worker died" in running.said


def test_reset_and_removal_reach_every_process(running):
    server = EtagereServer(running)
    with blobs(server) as client:
        client.create_container("gone").upload_blob("a", b"1")
    server.reset()

    def empty():
        with blobs(server) as client:
            assert list(client.list_containers()) == []

    on_new_connections(12, empty)
    server.close()

    def refused():
        with blobs(server) as client, pytest.raises(HttpResponseError) as caught:
            list(client.list_containers())
        assert caught.value.status_code == 403

    on_new_connections(12, refused)


def test_of_many_creators_in_all_processes_one_wins(account):
    with blobs(account) as client:
        client.create_container("race")

    def create(number):
        with blobs(account) as client:
            blob = client.get_blob_client("race", "prize")
            try:
                blob.upload_blob(str(number).encode(), overwrite=False)
            except HttpResponseError as error:
                return error.status_code
            return 201

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(create, range(32)))
    assert statuses.count(201) == 1
    assert statuses.count(409) == 31


def test_all_of_them_end_together(tmp_path):
    with ServerProcess(["--data", str(tmp_path / "data"), "--workers", "3"]) as server:
        pids = children(server.process.pid)
        assert len(pids) == 2
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        assert server.said == ""


def test_workers_end_when_the_first_process_dies(tmp_path):
    server = ServerProcess(["--data", str(tmp_path / "data"), "--workers", "3"])
    pids = children(server.process.pid)
    server.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    with ServerProcess(["--data", str(tmp_path / "data")]) as again:
        assert again.admin.ask("GET", "/healthz") == {"status": "ok"}
