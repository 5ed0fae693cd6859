"""Requests that no client would send, at every storage service of a real server: answered with an
error that a service has, or served; never a 500, a hang, or a connection that breaks.

`ETAGERE_FUZZ_ROUNDS` and `ETAGERE_FUZZ_SEED` make it longer, or the same again.
"""

import http.client
import os
import random
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlsplit

import azure.data.tables
import azure.storage.blob
import azure.storage.queue
import pytest
from azure.core.credentials import AzureNamedKeyCredential

from etagere.frontends.blob_rest import routes as blob_routes
from etagere.frontends.common.operations import Resource
from etagere.frontends.queue_rest import routes as queue_routes
from etagere.frontends.table_rest import routes as table_routes
from etagere.testing import ServerProcess

account = "fuzzed1"
key = "ZnV6emVkIHVudGlsIGl0IGhvbGRz"
methods = "GET HEAD PUT POST DELETE OPTIONS PATCH MERGE".split()
words = """
    service container account directory properties metadata acl lease list block blocklist page
    pagelist appendblock snapshot undelete tags blobs copy tier rename batch stats messages
    userdelegationkey expiry incrementalcopy query immutabilityPolicies legalhold true
    false
""".split()
names = """
    restype comp prefix delimiter marker maxresults include timeout snapshot versionid blockid
    blocklisttype popreceipt visibilitytimeout numofmessages messagettl peekonly where showonly
    deletetype copyid prevsnapshot $filter $select $top NextPartitionKey NextRowKey NextTableName
    sv sig se sp si api-version rscc rscd
""".split()
headers = """
    x-ms-version x-ms-date x-ms-blob-type x-ms-lease-action x-ms-lease-id x-ms-lease-duration
    x-ms-proposed-lease-id x-ms-lease-break-period x-ms-range Range If-Match If-None-Match
    If-Modified-Since If-Unmodified-Since x-ms-if-tags x-ms-tags x-ms-meta-a x-ms-meta-
    x-ms-blob-content-length x-ms-blob-sequence-number x-ms-sequence-number-action x-ms-page-write
    x-ms-copy-source x-ms-access-tier x-ms-content-crc64 Content-MD5 x-ms-blob-content-md5
    x-ms-client-request-id x-ms-delete-snapshots x-ms-blob-public-access Origin Content-Type Accept
    Access-Control-Request-Method Access-Control-Request-Headers Prefer DataServiceVersion
    x-ms-blob-condition-appendpos x-ms-blob-condition-maxsize x-ms-copy-action Authorization
    x-ms-encryption-key x-ms-encryption-scope x-ms-immutability-policy-until-date x-ms-legal-hold
""".split()
values = [
    "", "0", "1", "-1", "15", "60", "512", "1024", "99999999999999999999", "4194304", "*",
    "BlockBlob", "PageBlob", "AppendBlob", "acquire", "renew", "release", "change", "break",
    "bytes=0-511", "bytes=0-", "bytes=-5", "bytes=9-1", "bytes=0-1,2-3", "update", "clear", "max",
    '"0x8D000000000000"', 'W/"1"', "Mon, 27 Jul 2026 00:00:00 GMT", "2026-07-27T00:00:00.0000000Z",
    "2025-05-05", "2009-09-19", "2999-01-01", "00000000-0000-0000-0000-000000000001", "AAAA", "//",
    "Hot", "Archive", "include", "only", "a=b&c=d", "%00", "%FF", "%2F", "é", "'", "(", "a" * 1100,
    "application/json", "application/json;odata=nometadata", "application/atom+xml", "text/xml",
    "multipart/mixed; boundary=b", "http://127.0.0.1:1/x", "container", "blob", "return-content",
]  # fmt: skip
paths = [
    "", "/", "/things", "/things/", "/things/item", "/things/a/b/c", "/$root/x", "/$web/index.html",
    "/things/messages", "/things/messages/id", "/Tables", "/Tables('x')", "/$batch", "/t1()",
    "/t1(PartitionKey='a',RowKey='b')", "/t1(PartitionKey='a'", "/%00", "/%ff", "/things/%2e%2e",
    "//", "/UPPER", "/a" * 200, "/$logs", "/things?", "/'", "/t1('')",
]  # fmt: skip
bodies = [
    b"", b"x", b"\0" * 512, b"{}", b"[]", b"null", b'{"TableName": "t1"}', b"\xff\xfe",
    b'{"PartitionKey": "a", "RowKey": "b", "x": 1}', b'{"PartitionKey": {}}', b"[" * 20_000,
    b"<BlockList><Latest>AAAA</Latest></BlockList>", b"<BlockList/>", b"<", b"<a>" * 500,
    b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>", b"<Tags><TagSet/></Tags>",
    b"<QueueMessage><MessageText>hi</MessageText></QueueMessage>", b"<SignedIdentifiers/>",
    b"<StorageServiceProperties><Cors/></StorageServiceProperties>", b"<QueryRequest/>",
    b"<KeyInfo><Start>x</Start></KeyInfo>",
    b"--b\r\nContent-Type: application/http\r\n\r\nDELETE /x HTTP/1.1\r\n\r\n--b--\r\n",
    b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n--c--\r\n--b--",
]  # fmt: skip


good_bodies = [
    b"", b"x" * 512, b"x" * 512, b'{"TableName": "t1"}', b'{"PartitionKey": "a", "RowKey": "b"}',
    b"<?xml version='1.0'?><BlockList><Latest>AAAA</Latest></BlockList>",
    b"<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>",
    b"<QueueMessage><MessageText>hi</MessageText></QueueMessage>",
    b"<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>",
    b"<StorageServiceProperties><Cors/></StorageServiceProperties>",
]  # fmt: skip
usual = [
    ("x-ms-blob-content-length", "1024"), ("x-ms-page-write", "update"),
    ("x-ms-lease-duration", "15"), ("x-ms-range", "bytes=0-511"),
    ("x-ms-lease-action", "acquire"), ("If-Match", "*"),
    ("Content-Type", "application/json"), ("Accept", "application/json;odata=fullmetadata"),
    ("x-ms-access-tier", "Cool"), ("x-ms-meta-a", "b"), ("x-ms-tags", "a=b"),
    ("x-ms-blob-type", "AppendBlob"), ("x-ms-blob-type", "PageBlob"),
    ("Prefer", "return-no-content"),
]  # fmt: skip
rows = {
    "blob": blob_routes.operations.rows,
    "queue": queue_routes.operations.rows,
    "table": table_routes.operations.rows,
}
paths_of = {
    "blob": {
        Resource.SERVICE: ["/"],
        Resource.CONTAINER: ["/things", "/other"],
        Resource.ITEM: ["/things/item", "/things/item", "/things/page", "/things/append", "/x"],
    },
    "queue": {
        Resource.SERVICE: ["/"],
        Resource.CONTAINER: ["/things", "/other"],
        Resource.MESSAGES: ["/things/messages"],
        Resource.ITEM: ["/things/messages/00000000-0000-0000-0000-000000000001"],
    },
    "table": {
        Resource.SERVICE: ["/"],
        Resource.TABLES: ["/Tables", "/Tables()", "/Tables('t1')"],
        Resource.CONTAINER: ["/t1", "/t1()", "/Tables('t1')"],
        Resource.ENTITIES: ["/t1", "/t1()"],
        Resource.ITEM: ["/t1(PartitionKey='a',RowKey='b')", "/Tables('t1')"],
        Resource.BATCH: ["/$batch"],
    },
}


@pytest.fixture(scope="module")
def running():
    arguments = ["--in-memory", "--account", f"{account}:{key}", "--oauth", "basic"]
    with ServerProcess(arguments) as server:
        yield server


def request(chance, service, query):
    """Half of them begin as an operation that the service has, and then go astray."""
    pairs = [query] if chance.random() < 0.95 else []
    sent = {}
    if chance.random() < 0.9:
        sent["x-ms-version"] = chance.choice(("2025-05-05", "2025-05-05", "2019-12-12"))
    if chance.random() < 0.6:
        row = chance.choice(rows[service])
        method = chance.choice(row.methods)
        path = chance.choice(paths_of[service].get(row.resource, paths))
        pairs += [f"{n}={v}" for n in ("restype", "comp") if (v := getattr(row, n))]
        for by in (row.chosen_by, row.and_by):
            if by is not None:
                sent[by[0]] = by[1] or chance.choice(values)
        body = chance.choice(good_bodies if chance.random() < 0.6 else bodies)
        sent.update({name: value for name, value in usual if chance.random() < 0.25})
    else:
        method, path, body = chance.choice(methods), chance.choice(paths), chance.choice(bodies)
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3))):
        value = chance.choice(words if chance.random() < 0.7 else values)
        pairs.append(f"{chance.choice(names)}={quoted(value)}")
    for _ in range(chance.choice((0, 0, 0, 1, 2, 4))):
        sent[chance.choice(headers)] = chance.choice(values)
    return method, f"/{account}{path}?{'&'.join(pairs)}", sent, body


def quoted(value):
    return value if value.startswith("%") else quote(value, safe="")


def set_up(connection, service, query):
    """What there is for requests to find."""
    for method, path, sent, body in first_requests(service):
        versioned = {"x-ms-version": "2025-05-05", **sent}
        ask(connection, method, f"/{account}{path}{query}", versioned, body)


def first_requests(service):
    if service == "blob":
        return [
            ("PUT", "/things?restype=container&", {}, b""),
            ("PUT", "/things/item?", {"x-ms-blob-type": "BlockBlob"}, b"hello" * 300),
            ("PUT", "/things/append?", {"x-ms-blob-type": "AppendBlob"}, b""),
            (
                "PUT",
                "/things/page?",
                {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "4096"},
                b"",
            ),
        ]
    if service == "queue":
        return [("PUT", "/things?", {}, b"")]
    return [("POST", "/Tables?", {"Content-Type": "application/json"}, b'{"TableName": "t1"}')]


def token(service):
    """An account SAS with every permission that the service has."""
    end = datetime.now(UTC) + timedelta(days=1)
    if service == "table":
        return azure.data.tables.generate_account_sas(
            AzureNamedKeyCredential(account, key),
            azure.data.tables.ResourceTypes.from_string("sco"),
            azure.data.tables.AccountSasPermissions.from_string("rwdlacu"),
            end,
        )
    module, letters = (
        (azure.storage.blob, "rwdxylacuptfi")
        if service == "blob"
        else (azure.storage.queue, "rwdlacup")
    )
    return module.generate_account_sas(
        account,
        key,
        module.ResourceTypes.from_string("sco"),
        module.AccountSasPermissions.from_string(letters),
        end,
    )


@pytest.mark.parametrize("service", ["blob", "queue", "table"])
def test_whatever_is_asked_is_answered_and_never_with_a_500(running, service, record_property):
    seed = int(os.environ.get("ETAGERE_FUZZ_SEED", random.randrange(2**32)))
    rounds = int(os.environ.get("ETAGERE_FUZZ_ROUNDS", "1500"))
    record_property("ETAGERE_FUZZ_SEED", seed)
    chance = random.Random(seed)
    query = token(service)
    url = urlsplit(running.urls[service])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    set_up(connection, service, query)
    statuses = set()
    for number in range(rounds):
        method, target, sent, body = request(chance, service, query)
        status = ask(connection, method, target, sent, body)
        assert status < 500 or status == 501, (seed, number, method, target, sent, body)
        statuses.add(status)
        if number % 100 == 0:
            set_up(connection, service, query)
    connection.close()
    assert {200, 400, 404} <= statuses
    assert "Traceback" not in running.said, (seed, running.said)


def ask(connection, method, target, sent, body):
    connection.putrequest(method, target, skip_accept_encoding=True)
    for name, value in sent.items():
        connection.putheader(name, value.encode())
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    answer.read()
    return answer.status
