"""Every operation with one part of its request spoiled: the refusal, and that nothing came of it.

A row is an operation, the part that is spoiled, and the status, code and details of the answer.
After each one the store holds what it held, row by row, and the connection serves on.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from etagere.frontends.queue_rest.routes import operations
from etagere.services.queue.receipts import message_id, pop_receipt

from .harness import RawClient, Server

absent = message_id(5, 5)
receipt = pop_receipt(5)
longer_than_is_read = "600 KB"
"""A connection whose request has such a body is closed in the middle of it."""
good_body = "<QueueMessage><MessageText>a</MessageText></QueueMessage>"

# What each operation's request looks like when nothing is wrong with it.  {id} and {receipt} are
# those of a message that is there.
sound: dict[str, tuple[str, str, dict[str, Any], str | None]] = {
    "GetQueueServiceProperties": ("GET", "/", {"restype": "service", "comp": "properties"}, None),
    "SetQueueServiceProperties": (
        "PUT",
        "/",
        {"restype": "service", "comp": "properties"},
        "<StorageServiceProperties><Cors /></StorageServiceProperties>",
    ),
    "GetQueueServiceStats": ("GET", "/", {"restype": "service", "comp": "stats"}, None),
    "GetUserDelegationKey": (
        "POST",
        "/",
        {"restype": "service", "comp": "userdelegationkey"},
        "<KeyInfo><Expiry>2030-01-01T00:00:00Z</Expiry></KeyInfo>",
    ),
    "ListQueues": ("GET", "/", {"comp": "list"}, None),
    "GetAccountInformation": ("GET", "/", {"restype": "account", "comp": "properties"}, None),
    "CreateQueue": ("PUT", "/new", {}, None),
    "DeleteQueue": ("DELETE", "/tasks", {}, None),
    "GetQueueMetadata": ("GET", "/tasks", {"comp": "metadata"}, None),
    "SetQueueMetadata": ("PUT", "/tasks", {"comp": "metadata"}, None),
    "GetQueueAcl": ("GET", "/tasks", {"comp": "acl"}, None),
    "SetQueueAcl": ("PUT", "/tasks", {"comp": "acl"}, "<SignedIdentifiers />"),
    "PutMessage": ("POST", "/tasks/messages", {}, good_body),
    "PeekMessages": ("GET", "/tasks/messages", {"peekonly": "true"}, None),
    "GetMessages": ("GET", "/tasks/messages", {}, None),
    "ClearMessages": ("DELETE", "/tasks/messages", {}, None),
    "UpdateMessage": (
        "PUT",
        "/tasks/messages/{id}",
        {"popreceipt": "{receipt}", "visibilitytimeout": "0"},
        good_body,
    ),
    "DeleteMessage": ("DELETE", "/tasks/messages/{id}", {"popreceipt": "{receipt}"}, None),
}
without_sas = {"GetQueueAcl", "SetQueueAcl"}
"""Let in by the account's key, and by no SAS."""


@dataclass
class Spoiled:
    operation: str
    part: str
    status: int
    code: str
    details: dict[str, str] = field(default_factory=dict)
    path: str = ""
    query: dict[str, Any] = field(default_factory=dict)
    """What is put in place of the sound query's; None takes a parameter out."""
    body: str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.operation}: {self.part}"


def out_of_range(operation: str, name: str, value: str, low: int, high: int) -> Spoiled:
    details = {
        "QueryParameterName": name,
        "QueryParameterValue": value,
        "MinimumAllowed": str(low),
        "MaximumAllowed": str(high),
    }
    code = "OutOfRangeQueryParameterValue"
    return Spoiled(operation, f"{name}={value}", 400, code, details, query={name: value})


def bad_query(operation: str, name: str, value: str) -> Spoiled:
    details = {"QueryParameterName": name, "QueryParameterValue": value}
    code = "InvalidQueryParameterValue"
    return Spoiled(operation, f"{name}={value}", 400, code, details, query={name: value})


def missing_query(operation: str, name: str) -> Spoiled:
    code = "MissingRequiredQueryParameter"
    details = {"QueryParameterName": name}
    return Spoiled(operation, f"without {name}", 400, code, details, query={name: None})


def bad_xml(operation: str, body: str | bytes, **details: str) -> Spoiled:
    part = f"body {body[:60]!r}"
    return Spoiled(operation, part, 400, "InvalidXmlDocument", details, body=body)


def bad_node(operation: str, body: str, name: str, value: str) -> Spoiled:
    details = {"XmlNodeName": name, "XmlNodeValue": value}
    return Spoiled(operation, f"body {body!r}", 400, "InvalidXmlNodeValue", details, body=body)


def missing_node(operation: str, body: str, name: str) -> Spoiled:
    details = {"XmlNodeName": name}
    return Spoiled(operation, f"body {body!r}", 400, "MissingRequiredXmlNode", details, body=body)


def too_large(operation: str, part: str, body: str) -> Spoiled:
    return Spoiled(operation, part, 413, "RequestBodyTooLarge", {"MaxLimit": "65536"}, body=body)


def message(text: str) -> str:
    return f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"


def properties(inner: str) -> str:
    return f"<StorageServiceProperties>{inner}</StorageServiceProperties>"


def rule(**changed: str) -> str:
    elements = {
        "AllowedOrigins": "http://a.b",
        "AllowedMethods": "GET",
        "AllowedHeaders": "",
        "ExposedHeaders": "",
        "MaxAgeInSeconds": "5",
        **changed,
    }
    return "<CorsRule>" + "".join(f"<{k}>{v}</{k}>" for k, v in elements.items()) + "</CorsRule>"


def policies(*ids: str) -> str:
    inner = "".join(f"<SignedIdentifier><Id>{each}</Id></SignedIdentifier>" for each in ids)
    return f"<SignedIdentifiers>{inner}</SignedIdentifiers>"


messages_out_of_nothing = ("GetMessages", "PeekMessages")
with_text = ("PutMessage", "UpdateMessage")
by_receipt = ("UpdateMessage", "DeleteMessage")
of_a_queue = [name for name, (_, path, *_) in sound.items() if path.startswith("/tasks")]
with_xml = ("SetQueueServiceProperties", "SetQueueAcl", "PutMessage", "UpdateMessage")
with_metadata = ("CreateQueue", "SetQueueMetadata")

rows = [
    # ---- numbers
    *(
        out_of_range(operation, "numofmessages", value, 1, 32)
        for operation in messages_out_of_nothing
        for value in ("0", "33", "-1", "9999999999")
    ),
    *(
        out_of_range("GetMessages", "visibilitytimeout", value, 1, 604_800)
        for value in ("0", "-1", "604801")
    ),
    *(
        out_of_range(operation, "visibilitytimeout", value, 0, 604_800)
        for operation in with_text
        for value in ("-1", "604801", "9999999999999999999")
    ),
    out_of_range("ListQueues", "maxresults", "0", 1, 5000),
    out_of_range("ListQueues", "maxresults", "-5", 1, 5000),
    *(
        bad_query(operation, name, value)
        for operation, name in (
            ("GetMessages", "numofmessages"),
            ("PeekMessages", "numofmessages"),
            ("GetMessages", "visibilitytimeout"),
            ("PutMessage", "visibilitytimeout"),
            ("PutMessage", "messagettl"),
            ("UpdateMessage", "visibilitytimeout"),
            ("ListQueues", "maxresults"),
        )
        for value in ("x", "", "1.5", "1 ", "0x1", "\u0661", "9" * 20)
    ),
    *(bad_query("PutMessage", "messagettl", value) for value in ("0", "-2")),
    Spoiled(
        "PutMessage",
        "visible only after its end",
        400,
        "InvalidQueryParameterValue",
        {"QueryParameterName": "visibilitytimeout", "QueryParameterValue": "10"},
        query={"visibilitytimeout": "10", "messagettl": "10"},
    ),
    bad_query("PutMessage", "visibilitytimeout", "604800"),
    Spoiled(
        "UpdateMessage",
        "visible only after its end",
        400,
        "InvalidQueryParameterValue",
        {"QueryParameterName": "visibilitytimeout", "QueryParameterValue": "101"},
        query={"visibilitytimeout": "101"},
    ),
    *(bad_query(operation, "timeout", "soon") for operation in sound if operation != "CreateQueue"),
    # ---- what must be there
    missing_query("UpdateMessage", "popreceipt"),
    missing_query("UpdateMessage", "visibilitytimeout"),
    missing_query("DeleteMessage", "popreceipt"),
    Spoiled(
        "DeleteMessage",
        "empty popreceipt",
        400,
        "MissingRequiredQueryParameter",
        {"QueryParameterName": "popreceipt"},
        query={"popreceipt": ""},
    ),
    # ---- receipts and ids
    *(
        bad_query(operation, "popreceipt", value)
        for operation in by_receipt
        for value in (
            "not a receipt",
            "QUFBQQ==",
            receipt + "A",
            receipt[:-1],
            receipt.lower(),
            "\u00e9" * 20,
            "A" * 4000,
        )
    ),
    *(
        Spoiled(operation, f"id {name!r}", 404, "MessageNotFound", path=f"/tasks/messages/{name}")
        for operation in by_receipt
        for name in (absent, "not-an-id", "%20", "0" * 500, f"{absent}/more")
    ),
    *(
        Spoiled(operation, "another's receipt", 404, "MessageNotFound", query={"popreceipt": other})
        for operation in by_receipt
        for other in (receipt, "{other receipt}", "{stale receipt}")
    ),
    # ---- names
    *(
        Spoiled(operation, "no such queue", 404, "QueueNotFound", path="/absent")
        for operation in of_a_queue
    ),
    *(
        Spoiled(operation, f"queue {name!r}", 400, code, path=f"/{name}")
        for operation in ("CreateQueue", "GetQueueMetadata", "PutMessage", "DeleteMessage")
        for name, code in (
            ("Tasks", "InvalidResourceName"),
            ("my--tasks", "InvalidResourceName"),
            ("-tasks", "InvalidResourceName"),
            ("tasks-", "InvalidResourceName"),
            ("my_tasks", "InvalidResourceName"),
            ("t%C3%A4sks", "InvalidResourceName"),
            ("tasks%00", "InvalidResourceName"),
            ("tasks%0A", "InvalidResourceName"),
            ("ab", "OutOfRangeInput"),
            ("a" * 64, "OutOfRangeInput"),
            ("%FF%FE%FD", "InvalidUri"),
        )
    ),
    Spoiled("GetMessages", "no messages", 400, "InvalidUri", path="/tasks/elsewhere"),
    # ---- queries
    *(
        bad_query(operation, "comp", "nonsense")
        for operation in ("CreateQueue", "GetQueueMetadata", "SetQueueAcl", "PutMessage")
    ),
    Spoiled("ListQueues", "include", 400, "InvalidQueryParameterValue", query={"include": "all"}),
    bad_query("GetQueueServiceStats", "comp", "stats"),
    Spoiled(
        "GetQueueServiceProperties",
        "restype",
        400,
        "InvalidQueryParameterValue",
        query={"restype": "nonsense"},
    ),
    Spoiled(
        "GetAccountInformation",
        "version",
        400,
        "InvalidHeaderValue",
        {"HeaderName": "x-ms-version", "HeaderValue": "2017-11-09"},
        headers={"x-ms-version": "2017-11-09"},
    ),
    # ---- headers
    *(
        Spoiled(
            operation,
            f"version {value!r}",
            400,
            "InvalidHeaderValue",
            {"HeaderName": "x-ms-version", "HeaderValue": value},
            headers={"x-ms-version": value},
        )
        for operation in sound
        for value in ("2019-13-01", "newest")
    ),
    *(
        Spoiled(operation, f"metadata {name}", 400, code, headers={name: value})
        for operation in with_metadata
        for name, value, code in (
            ("x-ms-meta-", "a", "EmptyMetadataKey"),
            ("x-ms-meta-a-b", "a", "InvalidMetadata"),
            ("x-ms-meta-1a", "a", "InvalidMetadata"),
            ("x-ms-meta-a", "\u00e9", "InvalidMetadata"),
            ("x-ms-meta-a", "x" * 8192, "MetadataTooLarge"),
        )
    ),
    # ---- documents
    *(
        bad_xml(operation, body)
        for operation in with_xml
        for body in (
            "text",
            "<QueueMessage>",
            "<Nonsense><MessageText>a</MessageText></Nonsense>",
            "<a>" * 1000,
            '<!DOCTYPE a [<!ENTITY e "eeee">]><QueueMessage>&e;</QueueMessage>',
            b"<QueueMessage><MessageText>\xff</MessageText></QueueMessage>",
            b"\x00",
            '<?xml version="1.0" encoding="utf-7"?><QueueMessage />',
        )
    ),
    bad_xml("PutMessage", ""),
    *(
        row
        for operation in with_text
        for row in (
            missing_node(operation, "<QueueMessage />", "MessageText"),
            missing_node(operation, "<QueueMessage><Text>a</Text></QueueMessage>", "MessageText"),
            *(
                bad_xml(operation, message(text))
                for text in ("&#0;", "&#x1F;", "&#xFFFE;", "\x01", "\ufffe", "<a/>", "a<a/>", "]]>")
            ),
            bad_xml(operation, message("a") + message("b")),
            bad_xml(operation, message("a") + "b"),
            too_large(operation, "65,537 characters", message("a" * 65_537)),
            too_large(operation, "65,538 bytes", message("\u00e9" * 32_769)),
            too_large(operation, "65,537 references", message("&#65;" * 65_537)),
            too_large(
                operation, longer_than_is_read, "<QueueMessage>" + " " * 600_000 + "</QueueMessage>"
            ),
        )
    ),
    bad_xml("SetQueueAcl", policies(*"abcdef")),
    bad_xml("SetQueueAcl", policies("a", "a")),
    bad_node("SetQueueAcl", policies("a" * 65), "Id", "a" * 65),
    bad_node("SetQueueAcl", policies(""), "Id", ""),
    bad_node(
        "SetQueueAcl",
        "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>soon</Start>"
        "</AccessPolicy></SignedIdentifier></SignedIdentifiers>",
        "Start",
        "soon",
    ),
    bad_xml(
        "SetQueueAcl",
        "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Permission>rd</Permission>"
        "</AccessPolicy></SignedIdentifier></SignedIdentifiers>",
    ),
    *(
        bad_xml("SetQueueServiceProperties", properties(inner))
        for inner in (
            "<StaticWebsite><Enabled>true</Enabled></StaticWebsite>",
            "<Cors /><Cors />",
            f"<Cors>{rule() * 6}</Cors>",
            f"<Cors>{rule(AllowedMethods='FETCH')}</Cors>",
            f"<Cors>{rule(AllowedOrigins='')}</Cors>",
            f"<Cors>{rule(MaxAgeInSeconds='-1')}</Cors>",
            f"<Cors>{rule(AllowedHeaders='a*,b*,c*')}</Cors>",
        )
    ),
    missing_node(
        "SetQueueServiceProperties",
        properties("<MinuteMetrics><Enabled>false</Enabled></MinuteMetrics>"),
        "Version",
    ),
    bad_node(
        "SetQueueServiceProperties",
        properties(
            "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy>"
            "<Enabled>true</Enabled><Days>366</Days></RetentionPolicy></MinuteMetrics>"
        ),
        "Days",
        "366",
    ),
]


@pytest.fixture(scope="module")
def server():
    """One for all rows: none of them may change it."""
    running = Server()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server: Server):
    found = server.raw()
    yield found
    found.close()


@dataclass
class Stand:
    """A queue with a message that is held, and one that was got by two in turn."""

    client: RawClient
    values: dict[str, str]


@pytest.fixture(scope="module")
def stand(server: Server, client: RawClient) -> Stand:
    assert client("PUT", "/tasks", headers={"x-ms-meta-colour": "blue"}).status == 201
    assert client.put("tasks", "held", messagettl=100).status == 201
    client.put("tasks", "got twice", messagettl=100)
    first, second = _read(client("GET", "/tasks/messages", numofmessages=2, visibilitytimeout=1))
    server.clock.advance(1)
    (again,) = _read(client("GET", "/tasks/messages", visibilitytimeout=50))
    assert again["MessageId"] == first["MessageId"]
    return Stand(
        client,
        {
            "{id}": again["MessageId"],
            "{receipt}": again["PopReceipt"],
            "{stale receipt}": first["PopReceipt"],
            "{other receipt}": second["PopReceipt"],
        },
    )


def _read(reply) -> list[dict[str, str]]:
    root = ET.fromstring(reply.text)
    return [{child.tag: child.text or "" for child in node} for node in root]


def stored(server: Server) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """Every row of the store."""

    async def rows() -> dict[bytes, list[tuple[bytes, bytes]]]:
        at = server.engine.at_rest()
        return {
            part: await at.scan(part, b"", b"\xff" * 16, limit=100_000) for part in at.partitions()
        }

    return server.run(rows())


def test_what_is_stored_is_seen(server: Server, stand: Stand):
    before = stored(server)
    assert sum(len(found) for found in before.values()) > 8
    stand.client("PUT", "/tasks", comp="metadata", headers={"x-ms-meta-colour": "red"})
    assert stored(server) != before
    stand.client("PUT", "/tasks", comp="metadata", headers={"x-ms-meta-colour": "blue"})
    assert stored(server) == before


def test_every_operation_has_rows():
    assert {row.operation for row in rows} == set(operations.names()) == set(sound)


@pytest.mark.parametrize("row", rows, ids=str)
def test_nothing_comes_of_it(server: Server, stand: Stand, row: Spoiled):
    client = stand.client
    before = stored(server)
    socket = client._http.sock
    method, path, query, body = sound[row.operation]
    if row.path.count("/") == 1:  # another queue
        path = row.path + path.removeprefix("/tasks").removeprefix("/new")
    elif row.path:
        path = row.path
    asked = {**query, **row.query}
    for placeholder, value in stand.values.items():
        path = path.replace(placeholder, value)
        asked = {n: v.replace(placeholder, value) if v else v for n, v in asked.items()}
    reply = client(
        method,
        path,
        body if row.body is None else row.body,
        row.headers,
        by_key=row.operation in without_sas,
        **{name: value for name, value in asked.items() if value is not None},
    )
    assert (reply.status, reply.code) == (row.status, row.code)
    root = ET.fromstring(reply.text)
    found = {child.tag: child.text or "" for child in root}
    assert (root.tag, found["Code"]) == ("Error", row.code)
    assert {name: found.get(name) for name in row.details} == row.details
    assert re.search(r"\nRequestId:\S+\nTime:\S+Z$", found["Message"])
    assert stored(server) == before
    assert client("GET", "/tasks", comp="metadata").status == 200
    if row.part != longer_than_is_read:
        assert client._http.sock is socket
