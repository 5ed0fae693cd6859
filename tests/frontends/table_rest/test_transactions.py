"""Entity group transactions over a socket."""

import email.parser
import email.policy
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import generate_table_sas

from .serving import Client, Reply, account, entity_path, key

_json = "Content-Type: application/json\n"


@dataclass
class Part:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict:
        return json.loads(self.body)["odata.error"]

    @property
    def code(self) -> str:
        return self.error["code"]

    @property
    def message(self) -> str:
        return self.error["message"]["value"]


def _insert(table: str, pk: str, rk: str, more: str = "", **values: object) -> str:
    body = json.dumps({"PartitionKey": pk, "RowKey": rk, **values})
    return f"POST {table} HTTP/1.1\n{_json}{more}\n{body}"


def _change(method: str, table: str, pk: str, rk: str, if_match: str = "", **values: object) -> str:
    condition = f"If-Match: {if_match}\n" if if_match else ""
    body = "" if method == "DELETE" else json.dumps(values)
    head = "" if method == "DELETE" else _json
    return f"{method} {entity_path(table, pk, rk)} HTTP/1.1\n{head}{condition}\n{body}"


def send(client: Client, operations: list[str], **options) -> Reply:
    lines = ["--batch_1", "Content-Type: multipart/mixed; boundary=changeset_1", ""]
    for operation in operations:
        lines += ["--changeset_1", "Content-Type: application/http",
                  "Content-Transfer-Encoding: binary", ""]  # fmt: skip
        method, _, rest = operation.partition(" ")
        lines += f"{method} {client.serving.url}/{rest}".split("\n")
    lines += ["--changeset_1--", "--batch_1--", ""]
    return client.send(
        "POST",
        "$batch",
        body="\r\n".join(lines).encode(),
        headers={"Content-Type": "multipart/mixed; boundary=batch_1"},
        **options,
    )


def parts(reply: Reply) -> list[Part]:
    head = f"Content-Type: {reply.headers['content-type']}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + reply.body)
    found = []
    for part in message.walk():
        if part.get_content_type() != "application/http":
            continue
        raw = part.get_payload(decode=True)
        top, _, body = raw.partition(b"\r\n\r\n")
        status, *lines = top.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        found.append(Part(int(status.split(" ")[1]), headers, body.removesuffix(b"\r\n")))
    return found


def _rows(client: Client, table: str) -> list[tuple[str, str]]:
    return [(e["PartitionKey"], e["RowKey"]) for e in client.filtered(table).json["value"]]


def test_every_kind_of_operation_at_once(client: Client, table: str):
    for rk in ("update", "merge", "delete", "replaced"):
        client.insert(table, "p", rk, a=1)
    etag = client.get(table, "p", "update").headers["etag"]
    reply = send(
        client,
        [
            _insert(table, "p", "new", a=1),
            _insert(table, "p", "quiet", "Prefer: return-no-content\n"),
            _change("PUT", table, "p", "update", etag, b=2),
            _change("MERGE", table, "p", "merge", "*", b=2),
            _change("PATCH", table, "p", "upserted", b=2),
            _change("PUT", table, "p", "replaced", b=2),
            _change("DELETE", table, "p", "delete", "*"),
        ],
    )
    assert reply.status == 202
    assert reply.headers["content-type"].startswith("multipart/mixed; boundary=batchresponse_")
    found = parts(reply)
    assert [part.status for part in found] == [201, 204, 204, 204, 204, 204, 204]
    assert json.loads(found[0].body)["a"] == 1
    assert found[0].headers["Location"].endswith(entity_path(table, "p", "new"))
    assert found[1].headers["Preference-Applied"] == "return-no-content"
    assert found[1].headers["DataServiceId"] == found[1].headers["Location"]
    assert found[1].headers["DataServiceVersion"] == "3.0;"
    assert found[2].headers["DataServiceVersion"] == "1.0;"
    assert "ETag" not in found[6].headers
    for part, rk in zip(found, ("new", "quiet", "update", "merge", "upserted"), strict=False):
        assert client.get(table, "p", rk).headers["etag"] == part.headers["ETag"]
    assert "a" not in client.get(table, "p", "replaced").json
    assert client.get(table, "p", "delete").status == 404


@pytest.mark.parametrize(
    ("failing", "status", "code"),
    [
        (lambda t: _insert(t, "p", "old"), 409, "EntityAlreadyExists"),
        (lambda t: _change("PUT", t, "p", "none", "*", a=1), 404, "ResourceNotFound"),
        (lambda t: _change("MERGE", t, "p", "none", "*", a=1), 404, "ResourceNotFound"),
        (lambda t: _change("DELETE", t, "p", "none", "*"), 404, "ResourceNotFound"),
        (
            lambda t: _change(
                "PUT", t, "p", "old", "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"", a=2
            ),
            412,
            "UpdateConditionNotSatisfied",
        ),
        (lambda t: _change("DELETE", t, "p", "old"), 400, "MissingRequiredHeader"),
        (lambda t: _change("DELETE", t, "p", "old", "x"), 400, "InvalidInput"),
        (lambda t: _insert(t, "q", "c"), 400, "CommandsInBatchActOnDifferentPartitions"),
        (lambda _: _insert("Other", "p", "c"), 400, "CommandsInBatchActOnDifferentPartitions"),
        (lambda t: _insert(t, "p", "a"), 400, "InvalidDuplicateRow"),
        (lambda t: _insert(t, "p", "c", **{"a-b": 1}), 400, "PropertyNameInvalid"),
        (lambda t: f"POST {t} HTTP/1.1\n{_json}\n{{", 400, "InvalidInput"),
        (lambda t: f"POST {t} HTTP/1.1\n\n{{}}", 415, "MediaTypeNotSupported"),
        (lambda t: f"GET {t}() HTTP/1.1\n\n", 400, "InvalidInput"),
        (lambda _: f'POST Tables HTTP/1.1\n{_json}\n{{"TableName":"X"}}', 501, "NotImplemented"),
    ],
)
def test_one_failure_rolls_everything_back(
    client: Client, table: str, failing, status: int, code: str
):
    client.insert(table, "p", "old", a=1)
    reply = send(
        client,
        [
            _insert(table, "p", "a"),
            _insert(table, "p", "b"),
            failing(table),
            _insert(table, "p", "d"),
        ],
    )
    assert reply.status == 202
    (part,) = parts(reply)
    assert (part.status, part.code) == (status, code)
    assert part.message.startswith("2:")
    assert part.headers["Content-Type"].startswith("application/json")
    assert _rows(client, table) == [("p", "old")]
    assert client.get(table, "p", "old").json["a"] == 1


def test_a_hundred_operations_and_no_more(client: Client, table: str):
    inserts = [_insert(table, "p", f"{n:03}") for n in range(101)]
    (part,) = parts(send(client, inserts))
    assert (part.status, part.code) == (400, "InvalidInput")
    assert part.message.startswith("99:")
    assert _rows(client, table) == []
    found = parts(send(client, inserts[:100]))
    assert [part.status for part in found] == [201] * 100
    assert len(_rows(client, table)) == 100


def test_a_missing_table_is_the_first_operations_fault(client: Client):
    for second in (_insert("Nobody", "p", "b"), _insert("Nobody", "q", "b")):
        (part,) = parts(send(client, [_insert("Nobody", "p", "a"), second]))
        assert (part.status, part.code) == (404, "TableNotFound")
        assert part.message.startswith("0:")


def test_etags_are_those_from_before_the_batch(client: Client, table: str):
    old = client.insert(table, "p", "a").headers["etag"]
    reply = send(client, [_change("MERGE", table, "p", "a", old, x=1), _insert(table, "p", "b")])
    assert [part.status for part in parts(reply)] == [204, 201]
    (part,) = parts(
        send(client, [_insert(table, "p", "c"), _change("MERGE", table, "p", "a", old, x=2)])
    )
    assert (part.status, part.code) == (412, "UpdateConditionNotSatisfied")
    assert client.get(table, "p", "a").json["x"] == 1
    assert client.get(table, "p", "c").status == 404


def test_content_ids_are_echoed(client: Client, table: str):
    reply = send(client, [_insert(table, "p", "a", "Content-ID: 42\n")])
    assert parts(reply)[0].headers["Content-ID"] == "42"


def _single(client: Client, request: str, **options) -> Reply:
    lines = [
        "--batch_1", "Content-Type: application/http", "Content-Transfer-Encoding: binary", "",
        *request.split("\n"), "", "--batch_1--", "",
    ]  # fmt: skip
    return client.send(
        "POST",
        "$batch",
        body="\r\n".join(lines).encode(),
        headers={"Content-Type": "multipart/mixed; boundary=batch_1"},
        **options,
    )


def test_a_single_query(client: Client, table: str):
    client.insert(table, "p", "a", n=1)
    url = f"{client.serving.url}/{entity_path(table, 'p', 'a')}"
    accept = "Accept: application/json;odata=nometadata\n"
    (part,) = parts(_single(client, f"GET {url} HTTP/1.1\n{accept}\n"))
    assert part.status == 200
    assert json.loads(part.body)["n"] == 1
    assert part.headers["ETag"] == client.get(table, "p", "a").headers["etag"]
    (part,) = parts(_single(client, f"GET {url.replace('%27a', '%27b')} HTTP/1.1\n\n"))
    assert part.status in (200, 404)
    missing = f"{client.serving.url}/{entity_path(table, 'p', 'none')}"
    (part,) = parts(_single(client, f"GET {missing} HTTP/1.1\n\n"))
    assert (part.status, part.code) == (404, "ResourceNotFound")
    query = f"{client.serving.url}/{table}()?$filter=n%20eq%201"
    (part,) = parts(_single(client, f"GET {query} HTTP/1.1\n{accept}\n"))
    assert [e["RowKey"] for e in json.loads(part.body)["value"]] == ["a"]


@pytest.mark.parametrize(
    "request_text", ["GET {url}/Tables HTTP/1.1\n\n", "DELETE {url}/x HTTP/1.1\n\n", "nonsense"]
)
def test_a_single_request_that_is_no_query(client: Client, table: str, request_text: str):
    refused = _single(client, request_text.format(url=client.serving.url))
    assert refused.status == 400
    assert client.filtered(table).status == 200


def test_a_query_outside_a_signatures_keys_gets_no_batch(client: Client, table: str):
    client.insert(table, "a", "r")
    client.insert(table, "b", "r")
    token = generate_table_sas(
        AzureNamedKeyCredential(account, key),
        table,
        permission="r",
        expiry=datetime.now(UTC) + timedelta(hours=1),
        start_pk="a",
        end_pk="a",
    )

    def ask(pk: str) -> Reply:
        url = f"{client.serving.url}/{entity_path(table, pk, 'r')}"
        return _single(client, f"GET {url} HTTP/1.1\n\n", query=token, signed=False)

    assert [part.status for part in parts(ask("a"))] == [200]
    refused = ask("b")
    assert (refused.status, refused.code) == (403, "AuthorizationFailure")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--batch_1--",
        b"garbage",
        b"--batch_1\r\n\r\n",
        b"\x00" * 1000,
        b"--batch_1\r\n" * 1000,
    ],
)
def test_envelopes_that_are_refused(client: Client, table: str, body: bytes):
    refused = client.send(
        "POST", "$batch", body=body, headers={"Content-Type": "multipart/mixed; boundary=batch_1"}
    )
    assert (refused.status, refused.code) == (400, "InvalidInput")
    assert client.filtered(table).status == 200


def test_a_batch_that_is_too_large(client: Client, table: str):
    large = "x" * 32768
    inserts = [_insert(table, "p", f"{n}", a=large, b=large, c=large, d=large) for n in range(33)]
    refused = send(client, inserts)
    assert (refused.status, refused.code) == (413, "RequestBodyTooLarge")
    assert _rows(client, table) == []
    assert [part.status for part in parts(send(client, inserts[:30]))] == [201] * 30
