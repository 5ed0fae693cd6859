"""What goes over the wire: status codes, headers, bodies, and how requests are refused."""

import re
from email.utils import parsedate_to_datetime
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from .harness import RawClient, Reply, Server, account

never = "Fri, 31 Dec 9999 23:59:59 GMT"
http_date = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")


def messages(reply: Reply) -> list[dict[str, str]]:
    root = ET.fromstring(reply.text)
    assert root.tag == "QueueMessagesList"
    assert all(node.tag == "QueueMessage" for node in root)
    return [{child.tag: child.text or "" for child in node} for node in root]


def test_put_get_peek_shapes(raw: RawClient, queue: str):
    put = raw.put(queue, "a&lt;b")
    assert put.status == 201
    (stored,) = messages(put)
    assert list(stored) == [
        "MessageId",
        "InsertionTime",
        "ExpirationTime",
        "PopReceipt",
        "TimeNextVisible",
    ]
    peek = raw("GET", f"/{queue}/messages", peekonly="true")
    (peeked,) = messages(peek)
    assert list(peeked) == [
        "MessageId",
        "InsertionTime",
        "ExpirationTime",
        "DequeueCount",
        "MessageText",
    ]
    assert peeked["DequeueCount"] == "0"
    get = raw("GET", f"/{queue}/messages")
    (got,) = messages(get)
    assert list(got) == [
        "MessageId",
        "InsertionTime",
        "ExpirationTime",
        "PopReceipt",
        "TimeNextVisible",
        "DequeueCount",
        "MessageText",
    ]
    assert (got["DequeueCount"], got["MessageText"]) == ("1", "a<b")
    assert str(UUID(got["MessageId"])) == got["MessageId"] == stored["MessageId"]
    for name in ("InsertionTime", "ExpirationTime", "TimeNextVisible"):
        assert http_date.fullmatch(got[name])
    inserted, expires = (
        parsedate_to_datetime(got[name]) for name in ("InsertionTime", "ExpirationTime")
    )
    assert (expires - inserted).days == 7
    for reply in (peek, get):
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/xml"
        assert reply.headers["cache-control"] == "no-cache"
        assert "etag" not in reply.headers
    empty = raw("GET", f"/{queue}/messages")
    assert empty.status == 200
    assert empty.text.endswith("<QueueMessagesList />")


def test_every_reply_names_itself(raw: RawClient, queue: str):
    for reply in (
        raw("GET", f"/{queue}", comp="metadata", headers={"x-ms-client-request-id": "mine"}),
        raw("GET", "/absent", comp="metadata", headers={"x-ms-client-request-id": "mine"}),
    ):
        assert str(UUID(reply.headers["x-ms-request-id"])) == reply.headers["x-ms-request-id"]
        assert reply.headers["x-ms-version"] == raw.version
        assert reply.headers["x-ms-client-request-id"] == "mine"
        assert http_date.fullmatch(reply.headers["date"])
        assert reply.headers["server"].startswith("Windows-Azure-Queue/1.0")
        assert reply.headers["content-length"].isdigit()


def test_queue_life(raw: RawClient):
    metadata = {"x-ms-meta-Colour": "blue"}
    assert raw("PUT", "/tasks", headers=metadata).status == 201
    assert raw("PUT", "/tasks", headers=metadata).status == 204
    conflict = raw("PUT", "/tasks")
    assert (conflict.status, conflict.code) == (409, "QueueAlreadyExists")
    found = raw("GET", "/tasks", comp="metadata")
    assert found.status == 200
    assert found.headers["x-ms-meta-colour"] == "blue"
    assert found.headers["x-ms-approximate-messages-count"] == "0"
    assert raw("HEAD", "/tasks", comp="metadata").headers["x-ms-meta-colour"] == "blue"
    assert raw("PUT", "/tasks", comp="metadata", headers={"x-ms-meta-a": "1"}).status == 204
    found = raw("GET", "/tasks", comp="metadata")
    assert "x-ms-meta-colour" not in found.headers
    assert found.headers["x-ms-meta-a"] == "1"
    assert raw("DELETE", "/tasks").status == 204
    gone = raw("DELETE", "/tasks")
    assert (gone.status, gone.code) == (404, "QueueNotFound")
    assert raw("HEAD", "/tasks", comp="metadata").code == "QueueNotFound"
    assert raw("PUT", "/tasks").status == 201  # the name is free at once


def test_conditional_headers_are_not_looked_at(raw: RawClient, queue: str):
    headers = {"If-Match": '"x"', "If-None-Match": "*", "x-ms-lease-id": "nonsense"}
    assert raw("PUT", f"/{queue}", comp="metadata", headers=headers).status == 204
    assert raw("GET", f"/{queue}", comp="metadata", headers=headers).status == 200
    assert raw("DELETE", f"/{queue}", headers=headers).status == 204


def test_update_and_delete(raw: RawClient, queue: str):
    (put,) = messages(raw.put(queue, "a"))
    path = f"/{queue}/messages/{put['MessageId']}"
    body = "<QueueMessage><MessageText>b</MessageText></QueueMessage>"
    updated = raw("PUT", path, body, popreceipt=put["PopReceipt"], visibilitytimeout=0)
    assert updated.status == 204
    assert updated.text == ""
    assert http_date.fullmatch(updated.headers["x-ms-time-next-visible"])
    receipt = updated.headers["x-ms-popreceipt"]
    assert receipt != put["PopReceipt"]
    stale = raw("DELETE", path, popreceipt=put["PopReceipt"])
    assert (stale.status, stale.code) == (404, "MessageNotFound")
    stale = raw("PUT", path, popreceipt=put["PopReceipt"], visibilitytimeout=0)
    assert (stale.status, stale.code) == (404, "MessageNotFound")
    # Without a body only the visibility changes.
    hidden = raw("PUT", path, popreceipt=receipt, visibilitytimeout=0)
    assert messages(raw("GET", f"/{queue}/messages", peekonly="true"))[0]["MessageText"] == "b"
    receipt = hidden.headers["x-ms-popreceipt"]
    emptied = raw(
        "PUT",
        path,
        "<QueueMessage><MessageText /></QueueMessage>",
        popreceipt=receipt,
        visibilitytimeout=0,
    )
    assert messages(raw("GET", f"/{queue}/messages", peekonly="true"))[0]["MessageText"] == ""
    deleted = raw("DELETE", path, popreceipt=emptied.headers["x-ms-popreceipt"])
    assert (deleted.status, deleted.text) == (204, "")
    assert (
        raw("GET", f"/{queue}", comp="metadata").headers["x-ms-approximate-messages-count"] == "0"
    )


@pytest.mark.parametrize("path", ["messages", "messages/"])
def test_a_receipt_without_an_id_clears_nothing(raw: RawClient, queue: str, path: str):
    (stored,) = messages(raw.put(queue, "kept"))
    refused = raw("DELETE", f"/{queue}/{path}", popreceipt=stored["PopReceipt"])
    assert (refused.status, refused.code) == (404, "MessageNotFound")
    (left,) = messages(raw("GET", f"/{queue}/messages", peekonly="true"))
    assert left["MessageText"] == "kept"


def test_clear(raw: RawClient, queue: str):
    for _ in range(3):
        raw.put(queue, "a")
    raw("GET", f"/{queue}/messages")
    assert raw("DELETE", f"/{queue}/messages").status == 204
    assert (
        raw("GET", f"/{queue}", comp="metadata").headers["x-ms-approximate-messages-count"] == "0"
    )


@pytest.mark.parametrize(
    "body",
    [
        f"<QueueMessage><MessageText>{'a' * 65_536}</MessageText></QueueMessage>",
        f"<QueueMessage><MessageText>{'&quot;' * 65_536}</MessageText></QueueMessage>",
        "<QueueMessage><MessageText></MessageText></QueueMessage>",
        "<QueueMessage><MessageText>\U0001f600 &#x1F600;</MessageText></QueueMessage>",
        (
            "\ufeff<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage>"
            "<MessageText>a</MessageText></QueueMessage>\n"
        ),
        (
            "<q:QueueMessage xmlns:q='urn:q'><Other /><q:MessageText>a</q:MessageText>"
            "</q:QueueMessage>"
        ),
    ],
)
def test_message_bodies(raw: RawClient, queue: str, body: str):
    assert raw("POST", f"/{queue}/messages", body).status == 201
    count = raw("GET", f"/{queue}", comp="metadata").headers["x-ms-approximate-messages-count"]
    assert count == "1"


@pytest.mark.parametrize(
    "text",
    ["", " leading and trailing ", "a\nb\tc", "\"'<>&", "]]>", "\u00e9\u20ac\U0001f600", "a&#13;b"],
)
def test_texts_survive_the_wire(raw: RawClient, queue: str, text: str):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert raw.put(queue, escaped).status == 201
    (got,) = messages(raw("GET", f"/{queue}/messages"))
    assert got["MessageText"] == text


def test_a_carriage_return_survives(raw: RawClient, queue: str):
    assert raw.put(queue, "a&#13;\nb").status == 201
    (got,) = messages(raw("GET", f"/{queue}/messages"))
    assert got["MessageText"] == "a\r\nb"


def test_infinite_life(raw: RawClient, queue: str):
    (put,) = messages(raw.put(queue, "a", messagettl=-1))
    assert put["ExpirationTime"] == never
    (put,) = messages(raw.put(queue, "a", messagettl=10**15, visibilitytimeout=604_800))
    assert put["ExpirationTime"] == never


@pytest.mark.parametrize(
    ("version", "query", "status"),
    [
        ("2017-04-17", {"messagettl": "-1"}, 400),
        ("2017-04-17", {"messagettl": "604801"}, 400),
        ("2017-04-17", {"messagettl": "604800"}, 201),
        ("2017-07-29", {"messagettl": "604801"}, 201),
    ],
)
def test_lives_by_version(server: Server, queue: str, version: str, query, status: int):
    client = server.raw(version=version)
    assert client.put(queue, "a", **query).status == status
    client.close()


def test_old_versions_get_no_body_from_put(server: Server, raw: RawClient, queue: str):
    client = server.raw(version="2015-12-11")
    reply = client.put(queue, "a")
    assert (reply.status, reply.text) == (201, "")
    client.close()


def test_time_moves_by_hand(server: Server, raw: RawClient, queue: str):
    (put,) = messages(raw.put(queue, "a", messagettl=100))
    (got,) = messages(raw("GET", f"/{queue}/messages", visibilitytimeout=60))
    assert messages(raw("GET", f"/{queue}/messages")) == []
    server.clock.advance(60)
    (again,) = messages(raw("GET", f"/{queue}/messages"))
    assert (again["MessageId"], again["DequeueCount"]) == (put["MessageId"], "2")
    path = f"/{queue}/messages/{put['MessageId']}"
    assert raw("DELETE", path, popreceipt=got["PopReceipt"]).code == "MessageNotFound"
    late = raw("PUT", path, popreceipt=again["PopReceipt"], visibilitytimeout=60)
    assert (late.status, late.code) == (400, "InvalidQueryParameterValue")
    server.clock.advance(40)
    assert raw("DELETE", path, popreceipt=again["PopReceipt"]).code == "MessageNotFound"
    assert messages(raw("GET", f"/{queue}/messages")) == []


def test_listing(raw: RawClient):
    for name in ("alpha", "beta", "beta-2", "gamma"):
        raw("PUT", f"/{name}", headers={"x-ms-meta-name": name})
    reply = raw("GET", "/", comp="list", prefix="beta", maxresults=1, include="metadata")
    assert reply.headers["cache-control"] == "no-cache"
    root = ET.fromstring(reply.text)
    assert root.tag == "EnumerationResults"
    assert root.attrib["ServiceEndpoint"].endswith(f"/{account}/")
    assert [child.tag for child in root] == ["Prefix", "MaxResults", "Queues", "NextMarker"]
    (queue,) = root.findall("Queues/Queue")
    assert [child.tag for child in queue] == ["Name", "Metadata"]
    assert queue.findtext("Metadata/name") == "beta"
    marker = root.findtext("NextMarker")
    rest = raw("GET", "/", comp="list", prefix="beta", marker=marker)
    root = ET.fromstring(rest.text)
    assert [node.text for node in root.findall("Queues/Queue/Name")] == ["beta-2"]
    assert root.findtext("Marker") == marker
    assert root.find("NextMarker") is not None
    assert not root.findtext("NextMarker")
    everything = ET.fromstring(raw("GET", "/", comp="list", maxresults=9999).text)
    assert len(everything.findall("Queues/Queue")) == 4
    assert everything.find("Prefix") is None
    nothing = ET.fromstring(raw("GET", "/", comp="list", prefix="zeta").text)
    assert nothing.findall("Queues/Queue") == []


def test_nobody_is_let_in_without_a_signature(raw: RawClient, queue: str):
    reply = raw("GET", f"/{queue}/messages", signed=False)
    assert (reply.status, reply.code) == (401, "NoAuthenticationInformation")


def test_the_secondary_is_for_reading(raw: RawClient, queue: str):
    raw.put(queue, "a")
    peek = raw("GET", f"/{queue}/messages", secondary=True, peekonly="true")
    assert len(messages(peek)) == 1
    assert raw("GET", f"/{queue}/messages", secondary=True).status == 403
    assert raw("DELETE", f"/{queue}", secondary=True).status == 403
    stats = raw("GET", "/", secondary=True, restype="service", comp="stats")
    assert "<Status>live</Status>" in stats.text


def test_preflight(raw: RawClient):
    body = (
        "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.b</AllowedOrigins>"
        "<AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders>"
        "<ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>"
        "</StorageServiceProperties>"
    )
    assert raw("PUT", "/", body, restype="service", comp="properties").status == 202
    asked = {"Origin": "http://a.b", "Access-Control-Request-Method": "GET"}
    reply = raw("OPTIONS", "/tasks/messages", headers=asked, signed=False)
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == "http://a.b"
    asked["Origin"] = "http://c.d"
    assert raw("OPTIONS", "/tasks", headers=asked, signed=False).code == "CorsPreflightFailure"


def test_stale_receipts_can_be_told_apart_where_that_is_wanted():
    server = Server(stale_code="PopReceiptMismatch")
    raw = server.raw()
    raw("PUT", "/tasks")
    (put,) = messages(raw.put("tasks", "a"))
    raw("GET", "/tasks/messages")
    reply = raw("DELETE", f"/tasks/messages/{put['MessageId']}", popreceipt=put["PopReceipt"])
    assert (reply.status, reply.code) == (400, "PopReceiptMismatch")
    raw.close()
    server.stop()
