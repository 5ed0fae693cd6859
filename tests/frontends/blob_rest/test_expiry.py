"""Set Blob Expiry: a blob that is gone when its time is up, for everybody and at once."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from xml.etree import ElementTree as ET

import pytest

from etagere.services.common.accounts import development_account

from .serving import RawClient, Reply, Server

large = bytes(range(256)) * 1024
path = "/things/a"


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(dataclasses.replace(development_account(), hierarchical_namespace=True))
    yield running
    running.stop()


@pytest.fixture
def raw(server: Server) -> Iterator[RawClient]:
    client = RawClient(server.port)
    assert client("PUT", "/things", restype="container").status == 201
    assert client.put_blob(path, large, x_ms_tags="k=v").status == 201
    yield client
    client.close()


def expire(raw: RawClient, option: str, time: str | None = None, **headers: str) -> Reply:
    sent = {"x-ms-expiry-option": option, **headers}
    if time is not None:
        sent["x-ms-expiry-time"] = time
    return raw("PUT", path, headers=sent, comp="expiry")


def listed(raw: RawClient, **query: object) -> list[str]:
    reply = raw("GET", "/things", restype="container", comp="list", **query)
    return [item.findtext("Name") for item in ET.fromstring(reply.body).find("Blobs")]


def date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("option", "time"),
    [
        ("RelativeToNow", "60000"),
        ("relativetonow", "60000"),
        ("RelativeToCreation", "60000"),
        ("Absolute", "date"),
    ],
)
def test_it_is_gone_when_its_time_is_up(
    server: Server, raw: RawClient, option: str, time: str
) -> None:
    before = raw("HEAD", path)
    done = expire(raw, option, date(60) if time == "date" else time)
    assert done.status == 200, done.text
    head = raw("HEAD", path)
    assert done.etag == head.etag != before.etag
    said = head.headers["x-ms-expiry-time"]
    text = raw("GET", "/things", restype="container", comp="list").text
    assert f"<Expiry-Time>{said}</Expiry-Time>" in text
    server.clock.advance(50)
    assert raw("GET", path).body == large
    server.clock.advance(11)
    found = raw("GET", "/", comp="blobs", where="k='v'")
    assert found.status == 200
    assert "<Blob>" not in found.text
    assert listed(raw) == []
    gone = raw("GET", path)
    assert (gone.status, gone.code) == (404, "BlobNotFound")
    assert raw("DELETE", path).code == "BlobNotFound"
    assert raw("PUT", path, comp="metadata").code == "BlobNotFound"


@pytest.mark.parametrize("how", ["read", "write", "sweep"])
def test_nothing_is_left_of_it(server: Server, raw: RawClient, how: str) -> None:
    taken = raw("PUT", path, comp="snapshot").headers["x-ms-snapshot"]
    raw("PUT", path, b"x", comp="block", blockid="AAAA")
    expire(raw, "RelativeToNow", "60000")
    server.clock.advance(61)
    if how == "read":
        assert raw("HEAD", path).status == 404
    elif how == "write":
        created = raw.put_blob(path, b"new", **{"If-None-Match": "*"})
        assert created.status == 201, created.text
        assert raw("DELETE", path).status == 202
    else:
        server.sweep()
    assert raw("GET", path, snapshot=taken).code == "BlobNotFound"
    assert server.problems() == []
    server.clock.advance(3600)
    server.sweep()
    assert server.run(server.extents.usage()).extents == 0


def test_a_new_blob_has_no_end(server: Server, raw: RawClient) -> None:
    expire(raw, "RelativeToNow", "60000")
    raw.put_blob(path, b"new")
    assert "x-ms-expiry-time" not in raw("HEAD", path).headers
    server.clock.advance(61)
    server.sweep()
    assert raw("GET", path).body == b"new"


@pytest.mark.parametrize("versioning", [False, True])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_the_index_forgets_what_is_overwritten_or_deleted(
    server: Server, raw: RawClient, method: str, *, versioning: bool
) -> None:
    server.change_account(versioning=versioning)
    first = raw.put_blob(path).headers.get("x-ms-version-id")
    assert expire(raw, "RelativeToNow", "60000").status == 200
    assert raw("PUT", path, None, {"x-ms-meta-a": "b"}, comp="metadata").status == 200
    assert server.problems() == []
    done = raw.put_blob(path) if method == "PUT" else raw("DELETE", path)
    assert done.status in (201, 202)
    assert server.problems() == []
    server.clock.advance(61)
    assert raw("GET", path).status == (200 if method == "PUT" else 404)
    if first:
        assert raw("GET", path, versionid=first).status == 200


def test_its_end_is_put_off_or_called_off(server: Server, raw: RawClient) -> None:
    expire(raw, "RelativeToNow", "60000")
    raw("PUT", path, headers={"x-ms-meta-a": "b"}, comp="metadata")
    assert "x-ms-expiry-time" in raw("HEAD", path).headers
    expire(raw, "RelativeToNow", "120000")
    server.clock.advance(61)
    server.sweep()
    assert raw("HEAD", path).status == 200
    assert expire(raw, "NeverExpire").status == 200
    assert "x-ms-expiry-time" not in raw("HEAD", path).headers
    server.clock.advance(1000)
    server.sweep()
    assert raw("GET", path).body == large


def test_neither_a_lease_nor_conditions_hold_it_back(raw: RawClient) -> None:
    headers = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    assert raw("PUT", path, headers=headers, comp="lease").status == 201
    done = expire(raw, "RelativeToNow", "60000", **{"If-Match": '"0x1"'})
    assert done.status == 200
    assert raw("HEAD", path).headers["x-ms-lease-state"] == "leased"


@pytest.mark.parametrize(
    ("option", "time", "code"),
    [
        ("", "1000", "MissingRequiredHeader"),
        ("Sometimes", "1000", "InvalidHeaderValue"),
        ("RelativeToNow", None, "MissingRequiredHeader"),
        ("RelativeToNow", "soon", "InvalidHeaderValue"),
        ("RelativeToNow", "0", "InvalidHeaderValue"),
        ("RelativeToNow", "-1", "InvalidHeaderValue"),
        ("RelativeToNow", "9" * 19, "InvalidHeaderValue"),
        ("Absolute", None, "MissingRequiredHeader"),
        ("Absolute", "1000", "InvalidHeaderValue"),
        ("Absolute", "Mon, 01 Jan 2001 00:00:00 GMT", "InvalidHeaderValue"),
        ("NeverExpire", "1000", "InvalidHeaderValue"),
    ],
)
def test_what_is_refused(raw: RawClient, option: str, time: str | None, code: str) -> None:
    before = raw("HEAD", path).etag
    reply = expire(raw, option, time)
    assert (reply.status, reply.code) == (400, code), reply.text
    assert "<HeaderName>x-ms-expiry-" in reply.text
    assert raw("HEAD", path).etag == before


def test_a_flat_account_does_not_know_it() -> None:
    server = Server()
    raw = RawClient(server.port)
    raw("PUT", "/things", restype="container")
    raw.put_blob(path)
    reply = expire(raw, "RelativeToNow", "1000")
    assert (reply.status, reply.code) == (400, "InvalidQueryParameterValue")
    assert "<QueryParameterName>comp</QueryParameterName>" in reply.text
    raw.close()
    server.stop()
