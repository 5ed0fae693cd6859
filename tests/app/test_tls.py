"""`etagere cert`, HTTPS on every port, and bearer tokens, which are taken over HTTPS only."""

import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from cryptography.hazmat.primitives.asymmetric import ec

from etagere.app import certificates
from etagere.app.bus import _local_tls
from etagere.app.certificates import make_files
from etagere.app.configuration import configure
from etagere.testing import ServerProcess

from .issuer import Issuer


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The directory that `etagere cert` filled, and what it said."""
    folder = tmp_path_factory.mktemp("cert") / "tls"
    done = subprocess.run(
        [sys.executable, "-m", "etagere", "cert", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return folder, done.stdout


@pytest.fixture(scope="module")
def arguments(made):
    folder = made[0]
    pair = [f"--tls-cert={folder}/localhost.pem", f"--tls-key={folder}/localhost-key.pem"]
    return ["--in-memory", *pair]


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_says_how_to_use_and_trust_what_it_made(made):
    folder, said = made
    assert f"--tls-cert {folder}/localhost.pem --tls-key {folder}/localhost-key.pem" in said
    assert f"REQUESTS_CA_BUNDLE={folder}/authority.pem" in said
    assert f"NODE_EXTRA_CA_CERTS={folder}/authority.pem" in said


def test_keys_are_private(made):
    for name in ("authority-key.pem", "localhost-key.pem"):
        assert stat.S_IMODE((made[0] / name).stat().st_mode) == 0o600


def test_a_second_run_keeps_the_authority(made):
    folder = made[0]
    authority, certificate = (
        (folder / name).read_bytes() for name in ("authority.pem", "localhost.pem")
    )
    subprocess.run([sys.executable, "-m", "etagere", "cert", str(folder)], check=True)
    assert (folder / "authority.pem").read_bytes() == authority
    assert (folder / "localhost.pem").read_bytes() != certificate


def test_an_authority_that_is_none_is_named(tmp_path):
    for name in ("authority.pem", "authority-key.pem"):
        (tmp_path / name).write_text("rubbish")
    done = subprocess.run(
        [sys.executable, "-m", "etagere", "cert", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert str(tmp_path / "authority.pem") in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def secure(arguments):
    with ServerProcess(arguments) as server:
        yield server


def greet(made, server, host, name):
    port = int(server.urls["blob"].rpartition(":")[2].partition("/")[0])
    trust = ssl.create_default_context(cafile=str(made[0] / "authority.pem"))
    with (
        socket.create_connection((host, port)) as raw,
        trust.wrap_socket(raw, server_hostname=name) as client,
    ):
        client.sendall(b"GET /nobody HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 4")
        assert client.version() in ("TLSv1.2", "TLSv1.3")


def test_whoever_trusts_the_authority_trusts_the_server(made, secure):
    assert secure.urls["blob"].startswith("https://127.0.0.1:")
    assert secure.urls["admin"].startswith("https://127.0.0.1:")
    assert secure.admin.ask("GET", "/healthz") == {"status": "ok"}
    for name in ("localhost", "127.0.0.1", "acct.blob.localhost"):
        greet(made, secure, "127.0.0.1", name)


def served(made, server, port="blob"):
    """The certificate that a client gets now."""
    host, _, number = server.urls[port].partition("://")[2].partition("/")[0].rpartition(":")
    trust = ssl.create_default_context(cafile=str(made / "authority.pem"))
    with (
        socket.create_connection((host, int(number))) as raw,
        trust.wrap_socket(raw, server_hostname=host) as client,
    ):
        return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_certificate_may_be_renewed_while_it_serves(tmp_path, workers):
    make_files(tmp_path)
    certificate, key = tmp_path / "localhost.pem", tmp_path / "localhost-key.pem"
    pair = [f"--tls-cert={certificate}", f"--tls-key={key}", f"--workers={workers}"]
    with ServerProcess([*pair, f"--data={tmp_path / 'data'}"]) as server:
        assert server.admin.ask("GET", "/healthz") == {"status": "ok"}
        first = served(tmp_path, server)
        assert certificate.read_text().startswith(first)
        old = key.read_bytes()
        make_files(tmp_path)
        new = key.read_bytes()
        key.write_bytes(old)  # half of a renewal
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "certificate not taken" in server.said)
        assert served(tmp_path, server) == first
        key.write_bytes(new)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "certificate read again" in server.said)
        for _ in range(8):  # whichever process takes the connection
            assert certificate.read_text().startswith(served(tmp_path, server))
        assert certificate.read_text().startswith(served(tmp_path, server, "amqps"))
    assert server.process.returncode == 0


def test_the_buss_own_certificate_is_made_again_before_it_ends(tmp_path, monkeypatch):
    settings = configure({"data": str(tmp_path)}, {})
    certificate = tmp_path / "certificates" / "localhost.pem"
    assert _local_tls(settings) is not None
    first = certificate.read_bytes()
    assert _local_tls(settings) is not None
    assert certificate.read_bytes() == first
    monkeypatch.setattr(certificates, "renewed_days_before", certificates.certificate_days + 1)
    assert _local_tls(settings) is not None
    second = certificate.read_bytes()
    assert second != first
    monkeypatch.undo()
    certificate.write_bytes(first)  # its key is gone
    assert _local_tls(settings) is not None
    assert certificate.read_bytes() not in (first, second)
    certificate.write_bytes(b"")
    assert _local_tls(settings) is not None
    assert certificate.read_bytes()


def test_loopback_of_ipv6(made, arguments):
    with ServerProcess([*arguments, "--host", "::1"]) as server:
        assert server.urls["blob"].startswith("https://[::1]:")
        greet(made, server, "::1", "::1")


def test_workers_serve_https_too(made, arguments, tmp_path):
    folder = made[0]
    data = [f"--data={tmp_path}/data", "--workers=2", *arguments[1:]]
    with ServerProcess(data) as server:
        for _ in range(10):
            with BlobServiceClient(
                server.urls["blob"],
                credential={"account_name": "devstoreaccount1", "account_key": DEVELOPMENT_KEY},
                connection_verify=str(folder / "authority.pem"),
                retry_total=0,
            ) as client:
                assert list(client.list_containers()) == []


DEVELOPMENT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

# ---- bearer tokens


@pytest.fixture
def issuer():
    found = Issuer()
    yield found
    found.close()


class Credential:
    def __init__(self, token):
        self.token = token

    def get_token(self, *_, **__):
        return AccessToken(self.token, int(time.time()) + 600)


def list_with(server, made, token):
    with BlobServiceClient(
        server.urls["blob"],
        credential=Credential(token),
        connection_verify=str(made[0] / "authority.pem"),
        retry_total=0,
    ) as client:
        return list(client.list_containers())


def refused(server, made, token, status=403):
    with pytest.raises(HttpResponseError) as caught:
        list_with(server, made, token)
    assert caught.value.status_code == status


def test_tokens_are_verified_with_the_issuers_keys(made, arguments, issuer):
    with ServerProcess([*arguments, f"--oidc-issuer={issuer.url}"]) as server:
        assert list_with(server, made, issuer.token()) == []
        assert len(issuer.asked) == 2
        assert list_with(server, made, issuer.token(oid="other")) == []
        assert len(issuer.asked) == 2, "keys that are known are not fetched again"
        refused(server, made, issuer.token(key=ec.generate_private_key(ec.SECP256R1())))
        refused(server, made, issuer.token(exp=int(time.time()) - 5))
        refused(server, made, issuer.token(nbf=int(time.time()) + 500))
        refused(server, made, issuer.token(aud="https://elsewhere.example"))
        refused(server, made, issuer.token(iss="https://sts.windows.net/x/"))
        refused(server, made, "not.a.token", 400)
        asked = len(issuer.asked)
        issuer.add_key("second")
        refused(server, made, issuer.token("second"))
        assert len(issuer.asked) == asked, "new keys are looked for once a minute at most"


def test_an_issuer_that_is_away_refuses_and_does_not_hang(made, arguments):
    gone = Issuer()
    token = gone.token()
    gone.close()
    with ServerProcess([*arguments, f"--oidc-issuer={gone.url}"]) as server:
        refused(server, made, token)
        for _ in range(200):
            if "keys not fetched" in server.said:
                break
            time.sleep(0.05)
        assert "keys not fetched" in server.said


def test_emulators_take_tokens_without_looking_at_the_signature(made, arguments, secure, issuer):
    token = issuer.token(iss="https://sts.windows.net/some-tenant/")
    assert list_with(secure, made, token) == []
    refused(secure, made, issuer.token(iss="https://unheard.of/"))
    with ServerProcess([*arguments, "--oauth", "off"]) as server:
        refused(server, made, token)


def test_tokens_are_not_taken_over_plain_http(issuer):
    token = issuer.token(iss="https://sts.windows.net/some-tenant/")
    with ServerProcess() as server:
        request = urllib.request.Request(
            server.urls["blob"] + "?comp=list",
            headers={"Authorization": f"Bearer {token}", "x-ms-version": "2025-05-05"},
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)
        with caught.value as answer:
            assert answer.code == 403
