"""The command line as its users meet it: processes, their output, and how they end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from urllib.parse import urlsplit

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerProcess, StartFailed

free_ports = [f"--{name}-port=0" for name in "blob queue table amqp amqps bus-admin admin".split()]
key = "a2V5IG9uZQ=="


def etagere(*arguments, cwd=None, timeout=60):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ETAGERE_")}
    return subprocess.run(
        [sys.executable, "-m", "etagere.app.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=cwd,
        env=environment,
    )


def fetch(url, method="GET"):
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
        return answer.read().decode()


def test_version():
    found = etagere("--version")
    assert (found.returncode, found.stdout) == (0, f"etagere {version('etagere')}\n")


def test_help_lists_every_setting_with_its_variable():
    found = etagere("serve", "--help")
    assert found.returncode == 0
    assert "--bus-admin-port" in found.stdout
    assert "ETAGERE_BUS_ADMIN_PORT" in found.stdout


def test_without_a_command_it_says_what_there_is():
    found = etagere()
    assert found.returncode == 2
    assert "serve" in found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("serve", "--nonsense"),
        ("serve", "--blob-port", "x"),
        ("serve", "--blob", "1"),
        ("serve", "--host", "0.0.0.0"),
        ("serve", "--account", "x"),
        ("check",),
        ("clock", "advance"),
        ("clock", "advance", "soon"),
        ("faults", "arm"),
        ("status", "--admin", "http://127.0.0.1:port"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments):
    found = etagere(*arguments)
    assert found.returncode == 2
    assert found.stdout == ""
    assert re.fullmatch(r"etagere: [^\n]+\n", found.stderr), found.stderr


def test_the_ready_line_names_a_url_for_each_service(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "etagere.app.cli", "serve", "--data", tmp_path / "d", *free_ports],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        first = process.stdout.readline()
        word, *pairs = first.split()
        assert word == "ready"
        urls = dict(pair.split("=", 1) for pair in pairs)
        assert {"blob", "queue", "table", "admin"} <= urls.keys()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/devstoreaccount1", urls["blob"])
        assert json.loads(fetch(urls["admin"] + "/healthz")) == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stdout.read() == ""


def test_it_ends_cleanly_when_it_is_told_to():
    with ServerProcess() as server:
        fetch(server.urls["admin"] + "/status")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert server.said == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_work_in_hand_is_finished_at_the_end(tmp_path, number, workers):
    """A body that is on its way when the signal comes is stored and acknowledged."""
    data = tmp_path / "data"
    arguments = ["--data", str(data), "--services", "blob", "--workers", workers]
    with ServerProcess(arguments) as server:
        url = urlsplit(server.urls["blob"])
        token = generate_account_sas(
            development_name,
            development_key,
            ResourceTypes(container=True, object=True),
            AccountSasPermissions(read=True, write=True, create=True),
            datetime.now(UTC) + timedelta(hours=1),
        )
        made = f"{server.urls['blob']}/container?restype=container&{token}"
        fetch(made, "PUT")
        with socket.create_connection((url.hostname, url.port), timeout=30) as client:
            client.sendall(
                f"PUT {url.path}/container/blob?{token} HTTP/1.1\r\nHost: {url.netloc}\r\n"
                "x-ms-version: 2021-08-06\r\nx-ms-blob-type: BlockBlob\r\n"
                "Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n".encode()
            )
            assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
            client.sendall(b"a" * 50_000)
            server.process.send_signal(number)
            _wait_until_refused(url)
            client.sendall(b"b" * 50_000)
            answer = client.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 201 ")
            assert client.recv(100) == b""
        assert server.process.wait(20) == 0
        assert server.said == ""
    with ServerProcess(arguments) as server:
        found = fetch(f"{server.urls['blob']}/container/blob?{token}")
        assert found == "a" * 50_000 + "b" * 50_000


def _wait_until_refused(url):
    """The listeners are closed before the work in hand is done."""
    for _ in range(1000):
        try:
            with socket.create_connection((url.hostname, url.port), timeout=30) as late:
                late.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                if not late.recv(100):
                    return
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError("it still takes new connections")


def test_nothing_new_is_taken_while_the_bus_still_ends():
    """A receiver that does not hang up holds its own connection, and not the door open."""
    with ServerProcess(["--in-memory"]) as server:
        bus, blob = (int(re.findall(r":(\d+)", server.urls[name])[0]) for name in ("amqp", "blob"))
        with socket.create_connection(("127.0.0.1", bus)) as asleep:
            asleep.sendall(b"AMQP\0\1\0\0")
            assert asleep.recv(8) == b"AMQP\0\1\0\0"
            # An Open whose container is "a"; the server's Close will not be answered.
            asleep.sendall(bytes.fromhex("0000001102000000005310c00401a10161"))
            assert asleep.recv(100)
            server.process.terminate()
            began = time.monotonic()
            with pytest.raises(ConnectionError):  # refused, or reset in the queue
                while server.process.poll() is None:
                    socket.create_connection(("127.0.0.1", blob)).close()
                    assert time.monotonic() - began < 3, "still open"
        assert server.process.wait(30) == 0


def test_debug_logs_have_one_line_a_request_and_no_signature():
    with ServerProcess(["--in-memory", "--log-level", "debug", "--log-format", "json"]) as server:
        for query in ("?comp=list&sig=SECRET", "/nothing?sig=SECRET"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                fetch(server.urls["blob"] + query)
            refused.value.close()
        server.stop()
        lines = [json.loads(line) for line in server.said.splitlines()]
    requests = [line for line in lines if line["logger"] == "etagere.requests"]
    assert [line["path"] for line in requests] == [
        f"/{development_name}",
        f"/{development_name}/nothing",
    ]
    for line in requests:
        assert line.keys() >= {"time", "level", "service", "operation", "method", "status", "ms"}
        assert (line["service"], line["status"], line["method"]) == ("blob", 403, "GET")
        assert len(line["request_id"]) == 36
    assert "SECRET" not in server.said


def test_services_may_be_left_out():
    with ServerProcess(["--in-memory", "--services", "table"]) as server:
        assert set(server.urls) == {"table", "admin"}


def test_variables_and_azurites_accounts_are_understood():
    environment = {"AZURITE_ACCOUNTS": f"mine:{key}", "ETAGERE_IN_MEMORY": "1"}
    with ServerProcess([], environment) as server:
        assert server.urls["blob"].endswith("/mine")


def test_a_second_server_on_one_directory_is_refused(tmp_path):
    data = tmp_path / "data"
    with ServerProcess(["--data", str(data)]) as server:
        began = time.monotonic()
        found = etagere("serve", "--data", str(data), *free_ports)
        assert time.monotonic() - began < 20
        assert found.returncode == 1
        assert str(data) in found.stderr
        assert str(server.process.pid) in found.stderr
        assert found.stderr.count("\n") == 1
        checked = etagere("check", str(data))
        assert checked.returncode == 1
        assert str(server.process.pid) in checked.stderr
    found = etagere("check", str(data))
    assert (found.returncode, found.stdout) == (0, f"{data} is sound\n")


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for flag in ("--queue-port", "--admin-port"):
            with pytest.raises(StartFailed, match=f"{flag}: port {port} on 127.0.0.1 is in use"):
                ServerProcess(["--in-memory", flag, port])


def test_a_port_in_use_is_named_with_workers_too(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(StartFailed, match=f"--blob-port: port {port} on 127.0.0.1 is in use"):
            ServerProcess(["--data", str(tmp_path), "--workers", "2", "--blob-port", port])


def test_two_servers_with_workers_do_not_share_a_port(tmp_path):
    one = ["--data", str(tmp_path / "one"), "--workers", "2"]
    with ServerProcess(one) as server:
        port = server.urls["blob"].rpartition(":")[2].partition("/")[0]
        other = ["--data", str(tmp_path / "two"), "--workers", "2", "--blob-port", port]
        with pytest.raises(StartFailed, match=f"--blob-port: port {port} on 127.0.0.1 is in use"):
            ServerProcess(other)


def test_unusable_directories_are_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StartFailed, match=re.escape(f"--data {file}")) as failed:
        ServerProcess(["--data", str(file)])
    assert "stop that server" not in str(failed.value)
    found = etagere("check", str(tmp_path / "nothing"))
    assert (found.returncode, found.stdout) == (1, "")
    assert "no store here" in found.stderr
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "data.mdb").write_bytes(b"rubbish" * 10_000)
    with pytest.raises(StartFailed, match=re.escape(f"{tmp_path}/store")):
        ServerProcess(["--data", str(tmp_path / "store")])
    found = etagere("check", str(tmp_path / "store"))
    assert found.returncode == 1


def test_unusable_certificates_are_named(tmp_path):
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    missing = tmp_path / "missing.pem"
    for certificate, named in ((missing, missing), (rubbish, rubbish)):
        with pytest.raises(StartFailed, match=re.escape(str(named))):
            ServerProcess(["--in-memory", f"--tls-cert={certificate}", f"--tls-key={rubbish}"])


def test_a_start_that_fails_leaves_nothing_behind(tmp_path):
    data = tmp_path / "data"
    with pytest.raises(StartFailed):
        ServerProcess(["--data", str(data), "--tls-cert", "nowhere", "--tls-key", "nowhere"])
    with ServerProcess(["--data", str(data)]):
        pass


def test_damage_is_found_and_told(tmp_path):
    data = tmp_path / "data"
    with ServerProcess(["--data", str(data)]):
        pass
    with (data / "data.mdb").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4096)
    found = etagere("check", str(data))
    assert found.returncode == 1
    assert found.stdout + found.stderr


# ---- against a running server


@pytest.fixture(scope="module")
def running():
    with ServerProcess(["--in-memory", "--clock", "virtual"]) as server:
        yield server


def remote(running, *arguments):
    return etagere(*arguments, "--admin", running.urls["admin"])


def test_status(running):
    found = remote(running, "status")
    assert found.returncode == 0
    assert json.loads(found.stdout)["urls"] == running.urls


def test_clock(running):
    before = json.loads(remote(running, "clock").stdout)
    assert (before["mode"], before["frozen"]) == ("virtual", False)
    frozen = json.loads(remote(running, "clock", "freeze").stdout)
    moved = json.loads(remote(running, "clock", "advance", "2h").stdout)
    assert moved["ticks"] - frozen["ticks"] == 2 * 3600 * 10_000_000
    moved = json.loads(remote(running, "clock", "set", "2030-01-01T00:00:00Z").stdout)
    assert moved["now"] == "2030-01-01T00:00:00.0000000Z"
    assert not json.loads(remote(running, "clock", "resume").stdout)["frozen"]
    assert remote(running, "clock", "set", "yesterday").returncode == 1


def test_faults_and_reset(running):
    armed = remote(running, "faults", "arm", "throttle", "--operation", "PutBlob", "--count", "2")
    number = str(json.loads(armed.stdout)["id"])
    (fault,) = json.loads(remote(running, "faults").stdout)["faults"]
    assert (fault["operation"], fault["remaining"]) == ("PutBlob", 2)
    assert remote(running, "faults", "clear", number).returncode == 0
    assert remote(running, "faults", "clear", number).returncode == 1
    assert remote(running, "faults", "clear").returncode == 0
    assert remote(running, "reset").returncode == 0
    assert remote(running, "reset", "devstoreaccount1").returncode == 0
    found = remote(running, "reset", "nobody")
    assert found.returncode == 1
    assert found.stderr == 'etagere: There is no account "nobody".\n'
    found = remote(running, "reset", "no body")
    assert (found.returncode, found.stderr) == (1, 'etagere: There is no account "no body".\n')
    assert "no armed fault" in remote(running, "faults", "clear", "a b").stderr


def test_no_server_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    found = etagere("status", "--admin", address)
    assert found.returncode == 1
    assert address in found.stderr
    assert found.stderr.count("\n") == 1
