"""Whatever is wrong with a request: the documented refusal, nothing changed, and the next request
on the same connection served.  The requests are in `bad_input`.

Most rows ask one server, whose state none of them may change.
"""

import dataclasses
import re
import socket
from collections.abc import Iterator

import pytest

from etagere.services.common.accounts import development_account, development_name

from .bad_input import Ask, Spoiled, lease_id, operations, spoiled
from .serving import KeyClient, RawClient, Reply, Server, version


class Subject:
    """A server with something of everything in it."""

    def __init__(self) -> None:
        account = dataclasses.replace(development_account(), container_soft_delete_days=7)
        self.server = Server(account)
        self.raw = raw = RawClient(self.server.port)
        self.keyed = KeyClient(self.server.port)
        self.made = {"url": self.server.url, "sas": raw.sas}
        for name in ("con", "leased", "gone"):
            self._done(raw("PUT", f"/{name}", restype="container"))
        worm = {"x-ms-immutable-storage-with-versioning-enabled": "true"}
        self._done(raw("PUT", "/worm", headers=worm, restype="container"))
        acquire = {
            "x-ms-lease-action": "acquire",
            "x-ms-lease-duration": "-1",
            "x-ms-proposed-lease-id": lease_id,
        }
        self._done(raw("PUT", "/leased", headers=acquire, restype="container", comp="lease"))
        self._done(raw("DELETE", "/gone", restype="container"))
        listed = raw("GET", "/", comp="list", include="deleted").text
        self.made["gone"] = re.findall("<Version>(.*?)</Version>", listed)[0]
        for name in ("/con/block", "/con/leased", "/worm/block"):
            self._done(raw.put_blob(name, b"a,b\n1,2\n", x_ms_tags="k=v", x_ms_meta_m="1"))
        self._done(raw.put_blob("/con/source", b"s" * 512))
        self._done(raw("PUT", "/con/block", b"staged", comp="block", blockid="QUFB"))
        self._done(raw("PUT", "/con/leased", headers=acquire, comp="lease"))
        sent = {"x-ms-blob-type": "AppendBlob", "x-ms-tags": "k=v"}
        self._done(raw("PUT", "/con/append", b"", sent))
        self._done(raw("PUT", "/con/append", b"line", comp="appendblock"))
        sent = {"x-ms-blob-type": "PageBlob", "x-ms-tags": "k=v"}
        self._done(raw("PUT", "/con/page", b"", {**sent, "x-ms-blob-content-length": "1024"}))
        page = {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}
        self._done(raw("PUT", "/con/page", b"p" * 512, page, comp="page"))
        taken = self._done(raw("PUT", "/con/page", comp="snapshot"))
        self.made["snapshot"] = self.made["page"] = taken.headers["x-ms-snapshot"]
        follow = {"x-ms-copy-source": self._filled("{url}/con/page?snapshot={page}&{sas}")}
        self._done(raw("PUT", "/con/followed", headers=follow, comp="incrementalcopy"))
        self._done(raw("PUT", "/con/page", comp="snapshot"))
        latest = raw("PUT", "/con/page", comp="snapshot").headers["x-ms-snapshot"]
        self.made["page"] = latest
        self.seen = self.picture()

    @staticmethod
    def _done(reply: Reply) -> Reply:
        assert reply.status < 300, reply.text
        return reply

    def _filled(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.made[found[1]], text)

    def ask(self, ask: Ask, sent_version: str = version) -> Reply:
        headers = {name: self._filled(value) for name, value in ask.headers.items()}
        query = {name: self._filled(value) for name, value in ask.query.items()}
        body = ask.body if isinstance(ask.body, bytes) else self._filled(ask.body).encode()
        sent = {"x-ms-version": sent_version, **headers}
        return self.client(ask)(ask.method, ask.path, body or None, sent, **query)

    def client(self, ask: Ask) -> RawClient:
        """Who may do it: access policies are for whoever holds the key."""
        return self.keyed if ask.query.get("comp") == "acl" else self.raw

    def picture(self) -> list[str]:
        """Everything that a client can see of the account, but for how long leases last."""
        raw = self.raw
        everything = "snapshots,metadata,uncommittedblobs,copy,deleted,tags,versions"
        seen = [
            raw("GET", "/", restype="service", comp="properties").text,
            raw("GET", "/", comp="list", include="metadata,deleted").text,
            self.keyed("GET", "/con", restype="container", comp="acl").text,
        ]
        for name in ("con", "leased", "worm"):
            listed = raw(
                "GET",
                f"/{name}",
                restype="container",
                comp="list",
                include=f"{everything},immutabilitypolicy,legalhold",
            )
            seen.append(listed.text)
        seen += [raw("GET", f"/con/{name}").text for name in ("block", "append", "page", "leased")]
        seen.append(raw("GET", "/con/block", comp="blocklist", blocklisttype="all").text)
        seen.append(raw("GET", "/con/page", comp="pagelist").text)
        assert all(seen)
        return seen

    def must_be_as_it_was(self) -> None:
        before, self.seen = self.seen, self.picture()
        assert self.seen == before

    def stop(self) -> None:
        self.raw.close()
        self.keyed.close()
        self.server.stop()


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    running = Subject()
    yield running
    running.stop()


@pytest.mark.parametrize("name", operations)
def test_the_requests_are_right_as_they_stand(name: str) -> None:
    subject = Subject()
    reply = subject.ask(operations[name])
    assert reply.status < 300, reply.text
    subject.stop()


@pytest.mark.parametrize("row", spoiled, ids=lambda row: row.name)
def test_bad_input(subject: Subject, row: Spoiled) -> None:
    ask = row.ask()
    reply = subject.ask(ask, row.version or version)
    status, code, *elements = row.expected.split()
    assert (str(reply.status), reply.code) == (status, code), reply.text
    if reply.status != 304 and ask.method != "HEAD":
        assert f"<Code>{code}</Code><Message>" in reply.text
        for element in elements:
            name, equals, text = element.partition("=")
            found = re.findall(f"<{name}>(.*?)</{name}>", reply.text, re.DOTALL)
            assert found, f"{name} is not in {reply.text}"
            if equals:
                assert found == [text]
    else:
        assert reply.body == b""
    if not row.closes:
        assert subject.client(ask).is_open, "the connection was closed"
    subject.must_be_as_it_was()


bodies = {name: ask for name, ask in operations.items() if ask.body}


@pytest.mark.parametrize("name", bodies)
def test_a_body_that_stops_half_way(subject: Subject, name: str) -> None:
    """The client promises more than it sends, and goes; nothing is done, and nothing is left."""
    ask = bodies[name]
    query = "&".join(f"{key}={value}" for key, value in ask.query.items())
    body = ask.body if isinstance(ask.body, bytes) else ask.body.encode()
    headers = {**ask.headers, "x-ms-version": version, "Content-Length": str(len(body) + 100)}
    head = f"{ask.method} /{development_name}{ask.path}?{query}&{subject.raw.sas} HTTP/1.1\r\n"
    head += "Host: 127.0.0.1\r\n" + "".join(f"{key}: {text}\r\n" for key, text in headers.items())
    with socket.create_connection(("127.0.0.1", subject.server.port), timeout=30) as client:
        client.sendall(head.encode() + b"\r\n" + body)
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(100)
    assert not answer.startswith(b"HTTP/1.1 2"), answer
    subject.must_be_as_it_was()


documents = ("SetServiceProperties", "SetBlobTags", "SetContainerAcl")


def chunked(name: str) -> Ask:
    ask = operations[name]
    body = ask.body if isinstance(ask.body, bytes) else ask.body.encode()
    return dataclasses.replace(
        ask,
        headers={**ask.headers, "Transfer-Encoding": "chunked"},
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
    )


@pytest.mark.parametrize(
    "name",
    [name for name, ask in bodies.items() if ask.method == "PUT" and name not in documents],
)
def test_a_write_without_a_length(subject: Subject, name: str) -> None:
    reply = subject.ask(chunked(name))
    assert (reply.status, reply.code) == (411, "MissingContentLengthHeader")
    subject.must_be_as_it_was()


@pytest.mark.parametrize("name", documents)
def test_documents_may_come_without_a_length(name: str) -> None:
    subject = Subject()
    assert subject.ask(chunked(name)).status < 300
    subject.stop()
