"""Who may do what with queues: every operation by every letter, kind of resource and credential.

The table is that of 'Create an account SAS' and 'Create a service SAS', written down once more.
"""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from ssl import create_default_context
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from azure.storage.queue import (
    AccountSasPermissions,
    ResourceTypes,
    Services,
    generate_account_sas,
    generate_queue_sas,
)

from etagere.frontends.queue_rest.routes import operations

from .certificate import server_context
from .harness import RawClient, Reply, Server, account, key


class May(NamedTuple):
    method: str
    path: str
    query: str
    body: str
    srt: str
    """The kind of resource that an account SAS must name; "" for any."""
    letters: str
    """Each of which is enough in an account SAS; "*" for any."""
    service_letters: str
    secondary: bool


spoken = "2026-02-06"
"""The first version in which every operation is there."""
bearer = "22222222-2222-2222-2222-222222222222"
service, text = "restype=service&comp=", "<QueueMessage><MessageText>a</MessageText></QueueMessage>"
held = "/tasks/messages/{id}"
table = {
    "GetQueueServiceProperties": May("GET", "/", service + "properties", "", "s", "r", "", True),
    "SetQueueServiceProperties": May(
        "PUT", "/", service + "properties", "<StorageServiceProperties />", "s", "w", "", False
    ),
    "GetQueueServiceStats": May("GET", "/", service + "stats", "", "s", "r", "", True),
    "GetUserDelegationKey": May(
        "POST",
        "/",
        service + "userdelegationkey",
        "<KeyInfo><Expiry>{soon}</Expiry></KeyInfo>",
        "s",
        "",
        "",
        False,
    ),
    "ListQueues": May("GET", "/", "comp=list", "", "s", "l", "", True),
    "GetAccountInformation": May(
        "GET", "/tasks", "restype=account&comp=properties", "", "", "*", "*", True
    ),
    "CreateQueue": May("PUT", "/new", "", "", "c", "cw", "", False),
    "DeleteQueue": May("DELETE", "/tasks", "", "", "c", "d", "", False),
    "GetQueueMetadata": May("GET", "/tasks", "comp=metadata", "", "c", "r", "r", True),
    "SetQueueMetadata": May("PUT", "/tasks", "comp=metadata", "", "c", "w", "", False),
    "GetQueueAcl": May("GET", "/tasks", "comp=acl", "", "c", "", "", True),
    "SetQueueAcl": May("PUT", "/tasks", "comp=acl", "", "c", "", "", False),
    "PutMessage": May("POST", "/tasks/messages", "", text, "o", "a", "a", False),
    "PeekMessages": May("GET", "/tasks/messages", "peekonly=true", "", "o", "r", "r", True),
    "GetMessages": May("GET", "/tasks/messages", "", "", "o", "p", "p", False),
    "ClearMessages": May("DELETE", "/tasks/messages", "", "", "o", "d", "", False),
    "UpdateMessage": May(
        "PUT", held, "popreceipt={receipt}&visibilitytimeout=0", "", "o", "u", "u", False
    ),
    "DeleteMessage": May("DELETE", held, "popreceipt={receipt}", "", "o", "p", "p", False),
}
delegation_key = "GetUserDelegationKey"
stats = "GetQueueServiceStats"
"""Only the secondary has them."""
refusals = {
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "AuthenticationFailed",
}


@pytest.fixture(params=table)
def operation(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One for all; before every request there is the same to be done something with."""
    running = Server()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def fresh(server: Server) -> Iterator["Fresh"]:
    with closing(server.raw()) as everything, closing(server.raw(version=spoken)) as client:
        yield Fresh(server, everything, client)


class Fresh:
    """The same queue with one message before every request, whoever asks."""

    def __init__(self, server: Server, everything: RawClient, client: RawClient) -> None:
        self.server = server
        self.client = client
        self._all = everything

    def ask(self, name: str, sas: str = "", **options: bool) -> Reply:
        may = table[name]
        path, query, body = self.prepared(may)
        if sas:
            self.client.sas = sas
        pairs = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        return self.client(may.method, path, body, **options, **pairs)

    def prepared(self, may: May) -> tuple[str, str, str]:
        self._all("DELETE", "/new")
        self._all("PUT", "/tasks")
        self._all("DELETE", "/tasks/messages")
        (put,) = ET.fromstring(self._all.put("tasks", "a").text)
        found = {child.tag: child.text or "" for child in put}
        soon = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (
            may.path.replace("{id}", found["MessageId"]),
            may.query.replace("{receipt}", found["PopReceipt"]),
            may.body.replace("{soon}", soon),
        )


def account_sas(letters: str, srt: str = "sco", services: str = "q") -> str:
    return generate_account_sas(
        account,
        key,
        ResourceTypes.from_string(srt),
        AccountSasPermissions.from_string(letters),
        datetime.now(UTC) + timedelta(hours=1),
        start=datetime.now(UTC) - timedelta(minutes=5),
        services=Services.from_string(services),
    )


def queue_sas(letters: str) -> str:
    return generate_queue_sas(
        account, "tasks", key, letters, datetime.now(UTC) + timedelta(hours=1)
    )


def test_the_table_is_whole():
    assert set(table) == set(operations.names())


@pytest.fixture(scope="module")
def https(server: Server, tmp_path_factory) -> Iterator[HTTPSConnection]:
    context, trusted = server_context(tmp_path_factory.mktemp("tls"))
    url = urlsplit(server.listen_securely(context))
    tls = create_default_context(cafile=str(trusted))
    with closing(HTTPSConnection(url.hostname or "", url.port, context=tls)) as connection:
        yield connection


@pytest.mark.parametrize("letter", "rwdlacup")
def test_letters_of_an_account_sas(fresh: Fresh, operation: str, letter: str):
    may = table[operation]
    reply = fresh.ask(operation, account_sas(letter), secondary=operation == stats)
    if letter in may.letters or may.letters == "*":
        assert reply.status < 300
    else:
        assert (reply.status, reply.code in refusals) == (403, True)


@pytest.mark.parametrize("srt", ["s", "c", "o", "sco"])
def test_kinds_of_resource(fresh: Fresh, operation: str, srt: str):
    may = table[operation]
    reply = fresh.ask(operation, account_sas("rwdlacup", srt), secondary=operation == stats)
    if may.letters and may.srt in srt:
        assert reply.status < 300
    else:
        assert reply.status == 403
        if may.letters:
            assert reply.code == "AuthorizationResourceTypeMismatch"


def test_an_account_sas_for_other_services(fresh: Fresh, operation: str):
    reply = fresh.ask(operation, account_sas("rwdlacup", services="bt"))
    code = "AuthorizationServiceMismatch"
    assert reply.status == 403
    assert reply.code == ("AuthenticationFailed" if operation == delegation_key else code)


@pytest.mark.parametrize("letter", "raup")
def test_letters_of_a_queues_own_sas(fresh: Fresh, operation: str, letter: str):
    may = table[operation]
    reply = fresh.ask(operation, queue_sas(letter), secondary=operation == stats)
    if letter in may.service_letters or may.service_letters == "*":
        assert reply.status < 300
    else:
        assert (reply.status, reply.code in refusals) == (403, True)


def test_the_accounts_key(fresh: Fresh, operation: str):
    reply = fresh.ask(operation, by_key=True, secondary=operation == stats)
    if operation == delegation_key:
        assert (reply.status, reply.code) == (403, "AuthenticationFailed")
    else:
        assert reply.status < 300


def test_the_secondary(fresh: Fresh, operation: str):
    reply = fresh.ask(operation, by_key=True, secondary=True)
    assert reply.status == (200 if table[operation].secondary else 403)


def test_a_bearer(fresh: Fresh, operation: str, https: HTTPSConnection):
    """May do everything; what a bearer is worth is tested with `auth`."""
    may = table[operation]
    path, query, body = fresh.prepared(may)
    owner = f"{account}-secondary" if operation == stats else account
    headers = {"x-ms-version": spoken, "Authorization": f"Bearer {bearer}"}
    https.request(may.method, f"/{owner}{path}?{query}", body or None, headers)
    reply = Reply(https.getresponse())
    assert reply.status < 300, reply.text


def test_nobody(fresh: Fresh, operation: str):
    reply = fresh.ask(operation, signed=False)
    assert (reply.status, reply.code) == (401, "NoAuthenticationInformation")
    assert reply.headers["www-authenticate"].startswith("Bearer authorization_uri=")


def test_a_wrong_signature(fresh: Fresh, operation: str):
    reply = fresh.ask(operation, account_sas("rwdlacup").replace("sp=rwdlacup", "sp=rwdlacu"))
    assert (reply.status, reply.code) == (403, "AuthenticationFailed")
