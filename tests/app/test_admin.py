"""The admin API of a server in this process."""

import asyncio
import http.client
import json
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from etagere.app.admin import Admin
from etagere.app.admin_client import AdminRefused
from etagere.app.configuration import Unusable, configure
from etagere.app.server import Server
from etagere.frontends.common.message import EmptyBody, Request
from etagere.kv.contract import StoreClosed
from etagere.services.common.accounts import development_key
from etagere.testing import EtagereServer, ServerThread


@pytest.fixture(scope="module")
def running():
    with ServerThread(["--in-memory", "--clock", "virtual", "--log-level", "error"]) as server:
        yield server


@pytest.fixture
def admin(running):
    yield running.admin
    running.admin.ask("DELETE", "/faults")


def blobs(connection_string):
    return BlobServiceClient.from_connection_string(connection_string, retry_total=0)


def raw(running, method, path, headers=None, body=None):
    url = urlsplit(running.urls["admin"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_health_and_status(running, admin):
    assert admin.ask("GET", "/healthz") == {"status": "ok"}
    status = admin.ask("GET", "/status")
    assert status["urls"] == running.urls
    assert status["workers"] == 1
    assert status["data"] is None
    assert "devstoreaccount1" in status["accounts"]


def test_a_store_that_does_not_answer_is_not_healthy():
    async def healthy():
        raise StoreClosed("closed")

    request = Request(
        method="GET",
        raw_path="/healthz",
        raw_query="",
        headers={"host": "localhost"},
        body=EmptyBody(),
    )
    answer = asyncio.run(Admin(SimpleNamespace(healthy=healthy)).handle(request))
    assert answer.status == 503
    assert json.loads(answer.body) == {"status": "failed", "error": "The store: closed"}


def test_metrics_count_requests_by_operation_and_code(admin):
    account = admin.ask("PUT", "/accounts/measured")
    with blobs(account["connection_string"]) as client:
        client.create_container("metrics")
        with pytest.raises(HttpResponseError):
            client.create_container("metrics")
    lines = admin.text("GET", "/metrics").splitlines()
    at = 'service="blob",operation="CreateContainer"'
    sample = "etagere_requests_total{" + at + ',status="%s",code="%s"}'
    counts = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines}
    assert int(counts[sample % (201, "")]) >= 1
    assert int(counts[sample % (409, "ContainerAlreadyExists")]) >= 1
    assert int(counts["etagere_request_seconds_bucket{" + at + ',le="+Inf"}']) >= 2
    for line in lines:
        assert line.startswith("#") or len(line.rpartition(" ")[0]) > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "part"),
    [
        ("GET", "/", None, 404, "nothing at /"),
        ("GET", "/accounts/", None, 200, None),
        ("GET", "/accounts/nobody", None, 404, "nobody"),
        ("DELETE", "/accounts/nobody", None, 404, "nobody"),
        ("DELETE", "/status", None, 405, "GET"),
        ("POST", "/clock/advance", "{", 400, "not JSON"),
        ("POST", "/clock/advance", "[1]", 400, "object"),
        ("POST", "/clock/advance", b"\xff", 400, "not JSON"),
        ("POST", "/clock/advance", "[" * 100_000, 400, "not JSON"),
        ("POST", "/clock/advance", '"' + "x" * 2_000_000 + '"', 413, "too large"),
        ("POST", "/clock/advance", "{}", 400, '"seconds" must be a number'),
        ("POST", "/clock/advance", '{"seconds": true}', 400, "number"),
        ("POST", "/clock/advance", '{"seconds": 1e30}', 400, "century"),
        ("POST", "/clock/advance?seconds=nan", None, 400, "number"),
        ("POST", "/clock/advance?seconds=inf", None, 400, "century"),
        ("POST", "/clock/advance", '{"minutes": 1}', 400, '"minutes"'),
        ("POST", "/clock/advance", '{"seconds": -3.1e9}', 400, "1970"),
        ("POST", "/clock/set", '{"now": "1969-12-31T23:59:59Z"}', 400, "1970"),
        ("POST", "/clock/set", '{"now": "9999-12-31T23:59:59Z"}', 400, "9999"),
        ("POST", "/clock/set", '{"now": 5}', 400, "text"),
        ("POST", "/clock/set", '{"now": "noon"}', 400, "time"),
        ("POST", "/clock", '{"frozen": 1}', 400, "true or false"),
        ("PUT", "/accounts/UPPER", None, 400, "UPPER"),
        ("PUT", "/accounts/okay", '{"keys": []}', 400, "key"),
        ("PUT", "/accounts/okay", '{"keys": ["?"]}', 400, "base64"),
        ("PUT", "/accounts/okay", '{"kind": "Tape"}', 400, "StorageV2"),
        ("PUT", "/accounts/okay", '{"versionning": true}', 400, '"versioning"'),
        ("POST", "/reset?account=nobody", None, 404, "nobody"),
        ("POST", "/faults", "{}", 400, "point"),
        ("POST", "/faults", '{"point": "thorttle"}', 400, "throttle"),
        ("POST", "/faults", '{"point": "qqqq"}', 400, "before_commit"),
        ("POST", "/faults", '{"point": "x", "count": -1}', 400, "count"),
        ("POST", "/faults", '{"point": "x", "count": 1.5}', 400, "count"),
        ("POST", "/faults", '{"point": "x", "probability": 0}', 400, "probability"),
        ("POST", "/faults", '{"point": "x", "seconds": 1e9}', 400, "seconds"),
        ("POST", "/faults", '{"point": "throttle", "operation": "PutBlop"}', 400, "PutBlob"),
        ("DELETE", "/faults/x", None, 404, "x"),
        ("DELETE", "/faults/99999", None, 404, "99999"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(running, method, path, body, status, part):
    got, text = raw(running, method, path, body=body)
    assert got == status
    if part is not None:
        assert part in json.loads(text)["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:10080"}, 403),
        ({"Host": "localhost:10080"}, 200),
        ({"Host": "[::1]:10080"}, 200),
        ({"Host": "192.168.1.7"}, 200),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 200),
    ],
)
def test_web_pages_from_elsewhere_are_turned_away(running, headers, status):
    assert raw(running, "GET", "/healthz", headers)[0] == status
    assert raw(running, "POST", "/clock/advance?seconds=0", headers)[0] == status


# ---- accounts


def test_an_account_at_run_time(running, admin):
    made = admin.ask("PUT", "/accounts/runtime1", {"hierarchical_namespace": True})
    assert made["connection_string"].startswith(
        "DefaultEndpointsProtocol=http;AccountName=runtime1"
    )
    shown = admin.ask("GET", "/accounts/runtime1")
    assert shown["hierarchical_namespace"] is True
    assert "keys" not in shown
    with blobs(made["connection_string"]) as client:
        client.create_container("here")
        changed = admin.ask("PUT", "/accounts/runtime1", {"keys": ["a2V5"]})
        with pytest.raises(ClientAuthenticationError):
            client.create_container("there")
    with blobs(changed["connection_string"]) as client:
        assert [found.name for found in client.list_containers()] == ["here"]
    assert "runtime1" in admin.ask("GET", "/accounts")["accounts"]
    admin.ask("DELETE", "/accounts/runtime1")
    with pytest.raises(AdminRefused) as refused:
        admin.ask("GET", "/accounts/runtime1")
    assert refused.value.status == 404


def test_what_is_not_given_stays_as_it_is(admin):
    made = admin.ask("PUT", "/accounts/runtime2", {"versioning": True})
    changed = admin.ask("PUT", "/accounts/runtime2", {"change_feed": True})
    assert changed == made
    shown = admin.ask("GET", "/accounts/runtime2")
    assert (shown["versioning"], shown["change_feed"]) == (True, True)
    with pytest.raises(AdminRefused, match="kind"):
        admin.ask("PUT", "/accounts/runtime2", {"versioning": False, "kind": "Tape"})
    assert admin.ask("GET", "/accounts/runtime2") == shown
    admin.ask("DELETE", "/accounts/runtime2")


def test_an_account_has_endpoints_of_storage_only(running, admin):
    """Service Bus has a namespace, not accounts."""
    made = admin.ask("PUT", "/accounts/runtime3", {})
    assert {"amqp", "bus-admin"} < running.urls.keys()
    assert made["urls"].keys() == {"blob", "queue", "table"}
    names = [part.partition("=")[0] for part in made["connection_string"].split(";") if part]
    assert names == [
        "DefaultEndpointsProtocol",
        "AccountName",
        "AccountKey",
        "BlobEndpoint",
        "QueueEndpoint",
        "TableEndpoint",
    ]
    admin.ask("DELETE", "/accounts/runtime3")


async def test_the_key_that_everybody_knows_stays_on_loopback_at_run_time_too(admin):
    assert admin.ask("PUT", "/accounts/wellknown1", {"keys": [development_key]})["keys"]
    admin.ask("DELETE", "/accounts/wellknown1")
    flags = {"host": "192.168.1.2", "services": "blob", "account": ["mine:a2V5"]}
    told = []

    async def everywhere(command, **_):
        told.append(command)

    settings = configure(flags, {})
    open_to_others = SimpleNamespace(settings=settings, _everywhere=everywhere, _changed={})
    for keys in ([development_key], ["a2V5", development_key]):
        with pytest.raises(Unusable, match="everybody knows"):
            await Server.put_account(open_to_others, "wellknown1", {"keys": keys})
    assert not told
    await Server.put_account(open_to_others, "wellknown1", {"keys": ["a2V5"]})
    assert told == ["put_account"]


def test_options_that_nothing_heeds_yet_are_warned_of(admin, caplog):
    admin.ask("PUT", "/accounts/hopeful1", {"change_feed": True, "versioning": True})
    warned = [record for record in caplog.records if "little or nothing" in record.message]
    assert [record.message for record in warned] == [
        "change_feed does little or nothing in this version"
    ]
    assert warned[0].account == "hopeful1"
    admin.ask("DELETE", "/accounts/hopeful1")


def test_a_removed_account_leaves_nothing_behind(admin):
    made = admin.ask("PUT", "/accounts/comesback")
    with blobs(made["connection_string"]) as client:
        client.create_container("blobs").upload_blob("a", b"x" * 200_000)
    with QueueServiceClient.from_connection_string(made["connection_string"]) as queues:
        queues.create_queue("queue").send_message("hello")
    admin.ask("DELETE", "/accounts/comesback")
    again = admin.ask("PUT", "/accounts/comesback", {"keys": made["keys"]})
    assert again["connection_string"] == made["connection_string"]
    with blobs(made["connection_string"]) as client:
        assert list(client.list_containers()) == []
    with QueueServiceClient.from_connection_string(made["connection_string"]) as queues:
        assert list(queues.list_queues()) == []


def test_reset_of_one_account_leaves_the_others(running, admin):
    one, two = EtagereServer(running), EtagereServer(running)
    with blobs(one.connection_string) as first, blobs(two.connection_string) as second:
        first.create_container("first").upload_blob("a", b"x" * 200_000)
        second.create_container("second").upload_blob("a", b"x" * 200_000)
        one.reset()
        assert list(first.list_containers()) == []
        assert second.get_blob_client("second", "a").download_blob().readall() == b"x" * 200_000
        admin.ask("POST", "/reset")
        assert list(second.list_containers()) == []
        first.create_container("first")
    one.close()
    two.close()


# ---- time


def test_the_clock_moves(admin):
    admin.ask("POST", "/clock", {"frozen": True})
    before = admin.ask("GET", "/clock")
    assert before["frozen"] is True
    assert (
        admin.ask("POST", "/clock/advance", {"seconds": 1.5})["ticks"]
        == before["ticks"] + 15_000_000
    )
    assert admin.ask("POST", "/clock/advance?seconds=-1.5")["ticks"] == before["ticks"]
    set_to = admin.ask("POST", "/clock/set", {"now": "2027-03-04T05:06:07.1234567Z"})
    assert set_to["now"] == "2027-03-04T05:06:07.1234567Z"
    assert admin.ask("POST", "/clock", {"now": "2026-01-01T00:00:00Z", "seconds": 1})["now"] == (
        "2026-01-01T00:00:01.0000000Z"
    )
    assert admin.ask("POST", "/clock", {"frozen": False})["frozen"] is False


def test_the_real_clock_stays(running):
    with ServerThread(["--in-memory"]) as real:
        assert real.admin.ask("GET", "/clock")["mode"] == "real"
        for path, body in (
            ("/clock/advance", {"seconds": 1}),
            ("/clock/set", {"now": "2026-01-01T00:00:00Z"}),
            ("/clock", {"frozen": True}),
        ):
            with pytest.raises(AdminRefused, match="--clock virtual") as refused:
                real.admin.ask("POST", path, body)
            assert refused.value.status == 409


# ---- faults, as clients meet them


@pytest.fixture
def account(running):
    server = EtagereServer(running)
    yield server
    server.close()


def test_throttled(account):
    account.faults.arm("throttle", "CreateContainer", seconds=7)
    with blobs(account.connection_string) as client:
        with pytest.raises(HttpResponseError) as caught:
            client.create_container("container")
        assert caught.value.status_code == 503
        assert caught.value.error_code == "ServerBusy"
        assert caught.value.response.headers["Retry-After"] == "7"
        client.create_container("container")


def test_a_store_that_fails_before_the_commit_changes_nothing(account):
    account.faults.arm("before_commit", "CreateContainer")
    with blobs(account.connection_string) as client:
        with pytest.raises(HttpResponseError) as caught:
            client.create_container("container")
        assert caught.value.status_code == 500
        assert list(client.list_containers()) == []


def test_an_answer_that_never_comes_after_the_commit(account):
    account.faults.arm("after_commit_before_reply", "CreateContainer")
    with blobs(account.connection_string) as client:
        with pytest.raises(Exception, match=r"(?i)connection|aborted|reset|remote"):
            client.create_container("container")
        assert [found.name for found in client.list_containers()] == ["container"]


def test_a_connection_that_drops_before_anything_is_done(account):
    account.faults.arm("drop_connection", "CreateContainer")
    with blobs(account.connection_string) as client:
        with pytest.raises(Exception, match=r"(?i)connection|aborted|reset|remote"):
            client.create_container("container")
        assert list(client.list_containers()) == []


def test_faults_are_for_one_operation_and_skip_and_count(account):
    account.faults.arm("throttle", "CreateContainer", count=1, skip=1)
    with blobs(account.connection_string) as client:
        client.create_container("one")
        assert len(list(client.list_containers())) == 1
        with pytest.raises(HttpResponseError):
            client.create_container("two")
        client.create_container("two")
    (fault,) = account.faults.armed()
    assert (fault["hits"], fault["remaining"]) == (1, 0)


def test_chance_is_drawn_from_the_seed(account):
    def outcomes():
        account.faults.clear()
        account.faults.arm("throttle", "ListContainers", count=0, probability=0.5, seed=11)
        found = []
        with blobs(account.connection_string) as client:
            for _ in range(20):
                try:
                    list(client.list_containers())
                    found.append(True)
                except HttpResponseError:
                    found.append(False)
        return found

    first = outcomes()
    assert first == outcomes()
    assert 0 < sum(first) < 20


def test_refused_with_any_code_of_the_service(account):
    account.faults.arm("refuse", "CreateContainer", code="AccountIsDisabled")
    with blobs(account.connection_string) as client:
        with pytest.raises(HttpResponseError) as refused:
            client.create_container("here")
        assert (refused.value.status_code, refused.value.error_code) == (403, "AccountIsDisabled")
        client.create_container("here")


def test_latency_holds_the_answer_back(account):
    account.faults.arm("latency", "ListContainers", seconds=0.4)
    import time

    with blobs(account.connection_string) as client:
        began = time.monotonic()
        list(client.list_containers())
        assert time.monotonic() - began >= 0.4


def test_so_many_faults_and_no_more(admin):
    for _ in range(1000):
        admin.ask("POST", "/faults", {"point": "refuse"})
    with pytest.raises(AdminRefused, match="1000"):
        admin.ask("POST", "/faults", {"point": "refuse"})
