"""What all three storage services have in common, asked of a real server without an SDK: versions,
credentials, the order of refusals, headers of every answer, the shapes of errors, and the
operations on the service itself (Azure: 'Common REST API error codes', 'Versioning')."""

import base64
import hashlib
import hmac
import http.client
import json
import re
import time
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

from etagere.services.common.accounts import development_key, development_name
from etagere.testing import ServerThread

services = ("blob", "queue", "table")
properties = "?restype=service&comp=properties"
statistics = "?restype=service&comp=stats"
# A read that needs a credential, and a path that names nothing that is there.
readable = {
    "blob": f"/{development_name}?comp=list",
    "queue": f"/{development_name}?comp=list",
    "table": f"/{development_name}/Tables",
}
missing = {
    "blob": (f"/{development_name}/nowhere/blob", "ContainerNotFound"),
    "queue": (f"/{development_name}/nowhere/messages", "QueueNotFound"),
    "table": (f"/{development_name}/nowhere()", "TableNotFound"),
}
guid = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


class Answer:
    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.body = raw.read()
        self.code = raw.headers["x-ms-error-code"]

    def child(self, name: str) -> str | None:
        return ET.fromstring(self.body).findtext(name)


class Door:
    """One service's port."""

    def __init__(self, server: ServerThread, service: str) -> None:
        self.service = service
        self.port = urlsplit(server.urls[service]).port

    def ask(
        self,
        method: str,
        target: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        sign: bool = True,
        host: str | None = None,
        date: float | None = 0,
        version: str | None = "2021-08-06",
    ) -> Answer:
        sent = {"Host": host or f"127.0.0.1:{self.port}", "Content-Length": str(len(body))}
        if date is not None:
            sent["x-ms-date"] = formatdate(time.time() + date, usegmt=True)
        if version is not None:
            sent["x-ms-version"] = version
        sent.update(headers or {})
        if sign:
            sent.setdefault("Authorization", self.signature(method, target, sent))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        try:
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def signature(self, method: str, target: str, headers: dict[str, str]) -> str:
        path, _, query = target.partition("?")
        low = {name.lower(): value for name, value in headers.items()}
        pairs = sorted(pair.partition("=")[::2] for pair in query.split("&") if pair)
        if self.service == "table":
            text = f"{method}\n\n\n{low.get('x-ms-date', '')}\n/{development_name}{path}"
            text += "".join(f"?comp={value}" for name, value in pairs if name == "comp")
        else:
            length = low["content-length"] if low["content-length"] != "0" else ""
            text = f"{method}\n\n\n{length}\n\n\n\n\n\n\n\n\n"
            own = sorted(name for name in low if name.startswith("x-ms-"))
            text += "".join(f"{name}:{low[name]}\n" for name in own)
            text += f"/{development_name}{path}"
            text += "".join(f"\n{name}:{unquote(value)}" for name, value in pairs)
        mac = hmac.new(base64.b64decode(development_key), text.encode(), hashlib.sha256).digest()
        return f"SharedKey {development_name}:{base64.b64encode(mac).decode()}"


@pytest.fixture(scope="module")
def server():
    with ServerThread(["--in-memory", "--log-level", "error"]) as running:
        yield running


@pytest.fixture(params=services)
def door(server, request):
    return Door(server, request.param)


# ---- versions


@pytest.mark.parametrize("version", ["2019-02-02", "2021-08-06", "2026-10-06", "2031-02-03"])
def test_known_versions_and_newer_ones_are_served_and_echoed(door, version):
    answer = door.ask("GET", readable[door.service], version=version)
    assert (answer.status, answer.headers["x-ms-version"]) == (200, version)


@pytest.mark.parametrize("version", ["1999-01-01", "2021-08-07", "newest", "2031-13-01", "2031-02"])
def test_versions_that_never_were_are_refused(door, version):
    answer = door.ask("GET", readable[door.service], version=version)
    assert (answer.status, answer.code) == (400, "InvalidHeaderValue")
    assert answer.headers["x-ms-version"] is None


def test_a_key_comes_with_a_version(door):
    answer = door.ask("GET", readable[door.service], version=None)
    assert (answer.status, answer.code) == (400, "MissingRequiredHeader")


def test_strict_servers_know_what_they_know():
    with ServerThread(["--in-memory", "--strict-versions", "--log-level", "error"]) as strict:
        for service in services:
            door = Door(strict, service)
            assert door.ask("GET", readable[service], version="2026-10-06").status == 200
            answer = door.ask("GET", readable[service], version="2031-02-03")
            assert (answer.status, answer.code) == (400, "InvalidHeaderValue")


# ---- credentials


@pytest.mark.parametrize(
    ("authorization", "status", "code"),
    [
        ("SharedKey", 400, "InvalidAuthenticationInfo"),
        ("SharedKey nothing", 400, "InvalidAuthenticationInfo"),
        ("Basic YTpi", 400, "InvalidAuthenticationInfo"),
        ("Bearer", 400, "InvalidAuthenticationInfo"),
        ("SharedKey somebody:YQ==", 403, "AuthenticationFailed"),
        (f"SharedKey {development_name}:YQ==", 403, "AuthenticationFailed"),
        (f"SharedKeyLite {development_name}:YQ==", 403, "AuthenticationFailed"),
        ("Bearer a.b.c", 403, "AuthenticationFailed"),  # not over plain HTTP
    ],
)
def test_credentials_that_are_none(door, authorization, status, code):
    answer = door.ask("GET", readable[door.service], {"Authorization": authorization})
    assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize(
    ("seconds", "status"),
    [(-16 * 60, 403), (-14 * 60, 200), (14 * 60, 200), (16 * 60, 403), (None, 403)],
)
def test_clocks_may_differ_by_a_quarter_of_an_hour(door, seconds, status):
    assert door.ask("GET", readable[door.service], date=seconds).status == status


def test_a_date_that_is_none(door):
    answer = door.ask("GET", readable[door.service], {"x-ms-date": "yesterday"})
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")


def test_a_header_sent_twice(door):
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=30)
    connection.putrequest("GET", readable[door.service])
    for _ in range(2):
        connection.putheader("x-ms-version", "2021-08-06")
    connection.endheaders()
    try:
        assert connection.getresponse().status == 400
    finally:
        connection.close()


def test_nobody_learns_what_is_there_or_what_could_be_done(door):
    """Credentials come before existence, and before the question whether there is such a thing."""
    path, _ = missing[door.service]
    for method, target in (
        ("GET", readable[door.service]),
        ("GET", path),
        ("PUT", f"/{development_name}/nowhere?restype=container&comp=nonsense"),
        ("DELETE", f"/{development_name}?comp=nonsense"),
        ("PATCH", f"/{development_name}?comp=nonsense"),
    ):
        answer = door.ask(method, target, sign=False)
        assert (answer.status, answer.code) == (401, "NoAuthenticationInformation"), target
        challenge = answer.headers["WWW-Authenticate"]
        assert challenge.startswith("Bearer authorization_uri=https://")
        assert "resource_id=https://storage.azure.com" in challenge
        old = door.ask(method, target, sign=False, version="2018-03-28")
        hidden = door.service == "blob" and method == "GET"
        expected = (404, "ResourceNotFound") if hidden else (403, "AuthenticationFailed")
        assert (old.status, old.code) == expected


def test_an_account_that_is_not_there(door):
    target = readable[door.service].replace(development_name, "nobody1")
    assert door.ask("GET", target).status == 403
    assert door.ask("GET", target, sign=False).status == 404


# ---- addresses


def test_host_style_and_its_labels(door):
    path = readable[door.service].removeprefix(f"/{development_name}")
    path = path if path.startswith("/") else "/" + path
    for label in ("", "-secondary", "-ipv6", "-dualstack"):
        host = f"{development_name}{label}.{door.service}.core.windows.net"
        assert door.ask("GET", path, host=host).status == 200, host
    assert door.ask("GET", path, host=f"nobody1.{door.service}.localhost").status == 403


@pytest.mark.parametrize("target", ["/", "//", "/?comp=list"])
def test_targets_that_name_nothing(door, target):
    answer = door.ask("GET", target)
    assert (answer.status, answer.code) == (400, "InvalidUri")


def test_the_secondary_is_read_only(door):
    second = f"/{development_name}-secondary"
    assert door.ask("GET", second + "/" + properties).status == 200
    answer = door.ask("PUT", second + "/" + properties, body=b"<StorageServiceProperties/>")
    assert (answer.status, answer.code) == (403, "InsufficientAccountPermissions")


# ---- every answer


def test_headers_of_every_answer(door):
    path, code = missing[door.service]
    seen = set()
    for method, target, status in (("GET", readable[door.service], 200), ("GET", path, 404)):
        answer = door.ask(method, target, {"x-ms-client-request-id": "it is me"})
        assert answer.status == status
        if door.service != "table":  # whose errors are in the body alone
            assert answer.code == (None if status == 200 else code)
        assert re.fullmatch(guid, answer.headers["x-ms-request-id"])
        seen.add(answer.headers["x-ms-request-id"])
        assert answer.headers["x-ms-client-request-id"] == "it is me"
        assert answer.headers["Server"].startswith(f"Windows-Azure-{door.service.capitalize()}/")
        moment = parsedate_to_datetime(answer.headers["Date"])
        assert abs(moment.timestamp() - time.time()) < 3600
        assert int(answer.headers["Content-Length"]) == len(answer.body)
    assert len(seen) == 2


@pytest.mark.parametrize("value", ["x" * 1025, "caf\u00e9", "a\x7fb"])
def test_client_request_ids_that_are_not_echoed(door, value):
    headers = {"x-ms-client-request-id": value}
    for sign in (True, False):
        answer = door.ask("GET", missing[door.service][0], headers, sign=sign)
        assert answer.headers["x-ms-client-request-id"] is None


def test_an_error_names_the_request_and_the_time(door):
    path, code = missing[door.service]
    answer = door.ask("GET", path)
    text = answer.body.decode("utf-8-sig")
    if door.service == "table":
        error = json.loads(text)["odata.error"]
        found, message = error["code"], error["message"]["value"]
        assert error["message"]["lang"] == "en-US"
    else:
        assert answer.headers["Content-Type"] == "application/xml"
        found, message = answer.child("Code"), answer.child("Message")
    assert found == code
    said, request_line, time_line = message.split("\n")
    assert said
    assert request_line == f"RequestId:{answer.headers['x-ms-request-id']}"
    assert re.fullmatch(r"Time:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", time_line)


@pytest.mark.parametrize("timeout", ["soon", "-1", "1.5", ""])
def test_a_timeout_is_a_number(door, timeout):
    joint = "&" if "?" in readable[door.service] else "?"
    answer = door.ask("GET", f"{readable[door.service]}{joint}timeout={timeout}")
    assert (answer.status, answer.code) == (400, "InvalidQueryParameterValue")
    assert door.ask("GET", f"{readable[door.service]}{joint}timeout=30").status == 200


@pytest.mark.parametrize(
    ("method", "query", "status", "code"),
    [
        ("GET", "?restype=service&comp=nonsense", 400, "InvalidQueryParameterValue"),
        ("GET", "?restype=nonsense&comp=properties", 400, "InvalidQueryParameterValue"),
        ("DELETE", properties, 405, "UnsupportedHttpVerb"),
        ("POST", properties, 405, "UnsupportedHttpVerb"),
    ],
)
def test_operations_that_there_are_none_of(door, method, query, status, code):
    answer = door.ask(method, f"/{development_name}/{query}")
    if status == 405 and door.service == "table":
        code = "MethodNotAllowed"
    assert (answer.status, answer.code) == (status, code)


# ---- the service itself


def test_statistics_are_the_secondarys(door):
    answer = door.ask("GET", f"/{development_name}-secondary/{statistics}")
    assert answer.status == 200
    assert answer.child("GeoReplication/Status") == "live"
    synced = parsedate_to_datetime(answer.child("GeoReplication/LastSyncTime"))
    assert abs(synced.timestamp() - time.time()) < 3600
    answer = door.ask("GET", f"/{development_name}/{statistics}")
    assert (answer.status, answer.code) == (400, "InvalidQueryParameterValue")


def test_properties_that_are_left_out_keep_their_value(door):
    target = f"/{development_name}/{properties}"

    def put(inner: str) -> Answer:
        document = f"<StorageServiceProperties>{inner}</StorageServiceProperties>"
        return door.ask("PUT", target, body=document.encode())

    metrics = (
        "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>"
        "<RetentionPolicy><Enabled>true</Enabled><Days>{}</Days></RetentionPolicy></HourMetrics>"
    )
    rule = (
        "<Cors><CorsRule><AllowedOrigins>http://a</AllowedOrigins><AllowedMethods>GET"
        "</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>5</MaxAgeInSeconds>"
        "</CorsRule></Cors>"
    )
    assert (put(metrics.format(9)).status, put(rule).status) == (202, 202)
    answer = door.ask("GET", target)
    assert answer.child("HourMetrics/RetentionPolicy/Days") == "9"
    assert answer.child("Cors/CorsRule/AllowedOrigins") == "http://a"
    names = [child.tag for child in ET.fromstring(answer.body)]
    assert names[:4] == ["Logging", "HourMetrics", "MinuteMetrics", "Cors"]
    assert put("<Cors/>").status == 202
    answer = door.ask("GET", target)
    assert answer.child("Cors/CorsRule/AllowedOrigins") is None
    assert answer.child("HourMetrics/RetentionPolicy/Days") == "9"
    for days, code in (("0", "InvalidXmlNodeValue"), ("366", "InvalidXmlNodeValue")):
        answer = put(metrics.format(days))
        assert (answer.status, answer.code) == (400, code)
    answer = put(metrics.replace("<Days>{}</Days>", ""))
    assert (answer.status, answer.code) == (400, "MissingRequiredXmlNode")
    entity = '<!DOCTYPE a [<!ENTITY b "c">]>'
    expanded = f"{entity}<StorageServiceProperties>&b;</StorageServiceProperties>"
    answer = door.ask("PUT", target, body=expanded.encode())
    assert (answer.status, answer.code) == (400, "InvalidXmlDocument")
    assert put(rule * 6).status == 400
