"""Query Blob Contents with the Python SDK, and what is refused."""

import io
import json
import socket
import struct
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import (
    ArrowDialect,
    ArrowType,
    BlobClient,
    DelimitedJsonDialect,
    DelimitedTextDialect,
    QuickQueryDialect,
)

from etagere.services.blob.content import ContentGone
from etagere.services.blob.query import Running, save

from .serving import RawClient, Server

table = b"name,age,city\nAnn,31,Oslo\nBob,7,Rome\nCy,45,Oslo\n"


@pytest.fixture
def blob(server: Server, container: str):
    with server.sdk() as client:
        yield client.get_blob_client(container[1:], "data")


def ask(blob: BlobClient, expression: str, **options) -> bytes:
    errors: list[object] = []
    found = blob.query_blob(expression, on_error=errors.append, **options).readall()
    assert errors == []
    return found


def test_delimited_text(blob: BlobClient) -> None:
    blob.upload_blob(table)
    form = DelimitedTextDialect(has_header=True)
    assert ask(blob, "SELECT name, age FROM BlobStorage WHERE age > 30", blob_format=form) == (
        b"name,age\nAnn,31\nCy,45\n"
    )
    bare = DelimitedTextDialect(has_header=False)
    assert ask(blob, "SELECT _1 FROM BlobStorage WHERE _3 = 'Rome'", blob_format=bare) == b"Bob\n"
    counted = ask(blob, "SELECT count(*) FROM BlobStorage", blob_format=form, output_format=bare)
    assert counted == b"3\n"


def test_fields_come_out_as_they_went_in(blob: BlobClient) -> None:
    """Records may be shorter than others, and text that looks like a number or a truth stays text,
    as it does on the live service; it is compared with numbers all the same."""
    text = b"Package,Version,Docs\nApp,1.0,FALSE\nHubs\nQueues,,TRUE\n,2,\n"
    blob.upload_blob(text.replace(b"\n", b"\r\n"))
    assert ask(blob, "SELECT * FROM BlobStorage") == text
    assert ask(blob, "SELECT _1, _2 FROM BlobStorage WHERE _3 = 'FALSE'") == b"App,1.0\n"
    numbers = b"100,200\n300,0400\n800,900\n"
    blob.upload_blob(numbers, overwrite=True)
    assert ask(blob, "SELECT _2 FROM BlobStorage WHERE _1 > 250") == b"0400\n900\n"
    assert ask(blob, "SELECT sum(_1) FROM BlobStorage") == b"1200\n"


def test_records_that_lack_a_column_are_said_to(blob: BlobClient) -> None:
    blob.upload_blob(b"a,b\n1,x\n2\n3,z\n")
    errors: list[object] = []
    form = DelimitedTextDialect(has_header=True)
    reader = blob.query_blob("SELECT b FROM BlobStorage", blob_format=form, on_error=errors.append,
                             output_format=DelimitedTextDialect())  # fmt: skip
    assert reader.readall() == b"x\nz\n"
    assert [(error.error, error.is_fatal) for error in errors] == [("InvalidColumnOrdinal", False)]


def test_a_blob_that_is_something_else_is_said_to_be(blob: BlobClient) -> None:
    """In the answer itself, as the live service does: the query was good."""
    blob.upload_blob(b"{name: owner}\n{name2: owner2}\n")
    errors: list[object] = []
    reader = blob.query_blob("SELECT * FROM BlobStorage", blob_format=DelimitedJsonDialect(),
                             on_error=errors.append)  # fmt: skip
    assert reader.readall() == b""
    assert [error.is_fatal for error in errors] == [True]


def test_what_a_json_record_lacks_is_left_out(blob: BlobClient) -> None:
    blob.upload_blob(b'{"name": "owner"}\n{"age": 3}\n')
    form = DelimitedJsonDialect()
    assert ask(blob, "SELECT name FROM BlobStorage", blob_format=form) == b'{"name":"owner"}\n{}\n'


def test_other_separators(blob: BlobClient) -> None:
    blob.upload_blob(b"a;'b;c'\n1;2\n")
    form = DelimitedTextDialect(delimiter=";", quotechar="'", has_header=False)
    written = DelimitedTextDialect(delimiter="|", lineterminator="~")
    assert ask(blob, "SELECT * FROM BlobStorage", blob_format=form, output_format=written) == (
        b"a|b;c~1|2~"
    )


def test_json(blob: BlobClient) -> None:
    lines = [{"name": "Ann", "tags": ["a", "b"]}, {"name": "Bob", "tags": []}]
    blob.upload_blob("\n".join(json.dumps(line) for line in lines))
    form = DelimitedJsonDialect(delimiter="\n")
    found = ask(blob, "SELECT name FROM BlobStorage WHERE name <> 'Bob'", blob_format=form)
    assert found == b'{"name":"Ann"}\n'
    found = ask(blob, "SELECT name FROM BlobStorage[*]", blob_format=form,
                output_format=DelimitedTextDialect())  # fmt: skip
    assert found == b"Ann\nBob\n"


def test_parquet_and_arrow(blob: BlobClient) -> None:
    target = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(5000)), "t": [str(n) for n in range(5000)]}), target)
    blob.upload_blob(target.getvalue())
    parquet = QuickQueryDialect.Parquet
    found = ask(blob, "SELECT * FROM BlobStorage WHERE n >= 4998", blob_format=parquet,
                output_format=DelimitedTextDialect())  # fmt: skip
    assert found == b"4998,4998\n4999,4999\n"
    blob.upload_blob(table, overwrite=True)
    arrow = ask(
        blob, "SELECT age FROM BlobStorage", blob_format=DelimitedTextDialect(has_header=True),
        output_format=[ArrowDialect(ArrowType.INT64, name="age")],
    )  # fmt: skip
    assert pa.ipc.open_stream(arrow).read_all().to_pydict() == {"age": [31, 7, 45]}


def test_many_rows(blob: BlobClient) -> None:
    rows = b"".join(f"{n},{n * n}\n".encode() for n in range(20_000))
    blob.upload_blob(rows)
    assert ask(blob, "SELECT * FROM BlobStorage") == rows


@pytest.mark.parametrize(
    "expression",
    [
        "SELECT",
        "nonsense",
        "SELECT none FROM BlobStorage",
        "SELECT 1; SELECT 2",
        "CREATE TABLE x (a INT)",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "ATTACH '/tmp/other.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "SELECT getenv('HOME')",
    ],
)
def test_what_is_no_query_over_the_blob(blob: BlobClient, expression: str) -> None:
    blob.upload_blob(table)
    with pytest.raises(HttpResponseError) as refused:
        blob.query_blob(expression).readall()
    assert (refused.value.status_code, refused.value.error_code) == (400, "InvalidInput")


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        ("", "InvalidXmlNodeValue"),
        ("<QueryType>SQL</QueryType>", "MissingRequiredXmlNode"),
        ("<QueryType>KQL</QueryType><Expression>x</Expression>", "InvalidXmlNodeValue"),
        (
            (
                "<QueryType>SQL</QueryType><Expression>SELECT 1</Expression><InputSerialization>"
                "<Format><Type>odd</Type></Format></InputSerialization>"
            ),
            "InvalidXmlNodeValue",
        ),
    ],
)
def test_requests_that_are_none(raw: RawClient, container: str, inner: str, code: str) -> None:
    raw.put_blob(f"{container}/data", table)
    body = f"<QueryRequest>{inner}</QueryRequest>"
    reply = raw("POST", f"{container}/data", body, comp="query")
    assert (reply.status, reply.code) == (400, code)


def test_conditions(raw: RawClient, container: str) -> None:
    etag = raw.put_blob(f"{container}/data", table).etag
    body = (
        "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT 1 FROM BlobStorage"
        "</Expression></QueryRequest>"
    )
    refused = raw("POST", f"{container}/data", body, {"If-Match": '"0x1"'}, comp="query")
    assert (refused.status, refused.code) == (412, "ConditionNotMet")
    assert raw("POST", f"{container}/data", body, {"If-Match": etag}, comp="query").etag == etag
    assert raw("POST", f"{container}/none", body, comp="query").code == "BlobNotFound"


rows = [{"n": 1, "t": "one"}, {"n": 2, "t": "two, too"}, {"n": 3, "t": 'a "third"'}]


def _parquet() -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), target)
    return target.getvalue()


inputs = {
    "csv": (
        b'n,t\n1,one\n2,"two, too"\n3,"a ""third"""\n',
        DelimitedTextDialect(has_header=True),
    ),
    "json": (
        "\n".join(json.dumps(row) for row in rows).encode(),
        DelimitedJsonDialect(delimiter="\n"),
    ),
    "parquet": (_parquet(), QuickQueryDialect.Parquet),
}
outputs = {
    "csv": (
        DelimitedTextDialect(has_header=True),
        b'n,t\n2,"two, too"\n3,"a ""third"""\n',
    ),
    "json": (DelimitedJsonDialect(delimiter="\n"), rows[1:]),
    "arrow": (
        [ArrowDialect(ArrowType.INT64, name="n"), ArrowDialect(ArrowType.STRING, name="t")],
        {"n": [2, 3], "t": ["two, too", 'a "third"']},
    ),
}


@pytest.mark.parametrize("output", outputs)
@pytest.mark.parametrize("form", inputs)
def test_each_input_to_each_output(blob: BlobClient, form: str, output: str) -> None:
    data, reads = inputs[form]
    writes, expected = outputs[output]
    blob.upload_blob(data)
    found = ask(
        blob,
        "SELECT n, t FROM BlobStorage WHERE n > 1",
        blob_format=reads,
        output_format=writes,
    )
    match output:
        case "csv":
            assert found == expected
        case "json":
            assert [
                {"n": int(row["n"]), "t": row["t"]} for row in map(json.loads, found.splitlines())
            ] == expected
        case _:
            assert pa.ipc.open_stream(found).read_all().to_pydict() == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SELECT * FROM BlobStorage WHERE city LIKE 'O%'", "Ann,31,Oslo\nCy,45,Oslo\n"),
        ("SELECT name FROM BlobStorage WHERE age BETWEEN 5 AND 10", "Bob\n"),
        ("SELECT name FROM BlobStorage WHERE city IN ('Rome') OR age = 45", "Bob\nCy\n"),
        ("SELECT name FROM BlobStorage LIMIT 2", "Ann\nBob\n"),
        ("SELECT min(age), max(age), sum(age), count(*) FROM BlobStorage", "7,45,83,3\n"),
        ("SELECT CAST(age AS INT) * 2 FROM BlobStorage WHERE name = 'Bob'", "14\n"),
        ("SELECT lower(name) FROM BlobStorage WHERE NOT age > 10", "bob\n"),
        ("SELECT name FROM BlobStorage WHERE age > 100", ""),
    ],
)
def test_expressions(blob: BlobClient, expression: str, expected: str) -> None:
    blob.upload_blob(table)
    found = ask(
        blob,
        expression,
        blob_format=DelimitedTextDialect(has_header=True),
        output_format=DelimitedTextDialect(),
    )
    assert found.decode() == expected


def test_snapshots_and_what_is_archived(raw: RawClient, container: str) -> None:
    path = f"{container}/data"
    raw.put_blob(path, b"old\n")
    taken = raw("PUT", path, comp="snapshot").headers["x-ms-snapshot"]
    raw.put_blob(path, b"new\n")
    body = (
        "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * FROM BlobStorage"
        "</Expression></QueryRequest>"
    )
    reply = raw("POST", path, body, comp="query", snapshot=taken)
    assert reply.status == 200
    assert reply.headers["content-type"] == "avro/binary"
    assert reply.body.startswith(b"Obj\x01")
    assert b"old\n" in reply.body
    assert b"new\n" in raw("POST", path, body, comp="query").body
    raw("PUT", path, headers={"x-ms-access-tier": "Archive"}, comp="tier")
    refused = raw("POST", path, body, comp="query")
    assert (refused.status, refused.code) == (409, "BlobArchived")


def test_nothing_is_left_of_queries_that_nobody_waited_for(
    server: Server, raw: RawClient, container: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of one whose client left before the first byte, nor of one whose blob cannot be read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started, go_on = threading.Event(), threading.Event()
    start = Running.start

    def held_up(running: Running) -> None:
        started.set()
        assert go_on.wait(30)
        start(running)

    monkeypatch.setattr(Running, "start", held_up)
    raw.put_blob(f"{container}/data", table)
    body = (
        "<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * FROM BlobStorage"
        "</Expression></QueryRequest>"
    )
    target = f"/devstoreaccount1{container}/data?comp=query&{raw.sas}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        head = f"POST {target} HTTP/1.1\r\nHost: h\r\nx-ms-version: {raw.version}\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        assert started.wait(30)
        assert len(list(tmp_path.iterdir())) == 1
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until = time.monotonic() + 30
    while server.connections > 1:  # the other is `raw`
        assert time.monotonic() < until
        time.sleep(0.01)
    go_on.set()
    while list(tmp_path.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.01)

    async def broken() -> AsyncIterator[bytes]:
        yield table
        raise ContentGone

    with pytest.raises(ContentGone):
        server.run(save(broken()))
    assert list(tmp_path.iterdir()) == []
