"""Change sets that are read and answered all at once come to what they come to one by one."""

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.auth.identity import SharedKeyIdentity
from etagere.auth.key_range import KeyRange
from etagere.auth.need import Grant
from etagere.base.errors import Refused
from etagere.frontends.common.message import Request
from etagere.frontends.common.operations import Resource
from etagere.frontends.table_rest import alike, batch, transactions
from etagere.frontends.table_rest.batch import BatchOperation
from etagere.frontends.table_rest.bodies import reader_of, sightings_wanted
from etagere.frontends.table_rest.call import TableCall, TableTarget
from etagere.frontends.table_rest.path import Kind, TablePath
from etagere.kv.engines.memory import MemoryEngine
from etagere.services.common.accounts import development_account
from etagere.services.table import keys, tables
from etagere.services.table.entities import Change, transact, write_of
from etagere.services.table.service import TableService

_account = development_account()
_owner = SharedKeyIdentity(_account.name, 0)
_type = "multipart/mixed; boundary=batch_1"
_url = f"http://127.0.0.1:10002/{_account.name}"
_table = "People"
_part = keys.table_partition(_account.name, _table)

_sample: dict[str, object] = {
    "PartitionKey": "p", "RowKey": "r", "name": "somebody", "age": 42,
    "at": "2021-06-17T17:32:46.777543Z", "at@odata.type": "Edm.DateTime",
    "big": "5", "big@odata.type": "Edm.Int64",
    "id": "c9da6455-213d-42c9-9a79-3e9149a57833", "id@odata.type": "Edm.Guid",
}  # fmt: skip


# Batches as SDKs write them ----------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """What an SDK writes around an operation."""

    part: str
    fields: str
    before_body: str = "\r\n"
    before_parts: str = ""
    after_parts: str = ""
    separators: tuple[str, str] = (",", ":")


_forms = {
    "python": Form(
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
        "Content-ID: {number}\r\n",
        "Content-Type: application/json\r\nContent-Length: {length}\r\nx-ms-version: 2019-02-02\r\n"
        "DataServiceVersion: 3.0\r\nAccept: application/json\r\n"
        "x-ms-date: Fri, 20 Nov 2026 01:03:29 GMT\r\n",
        after_parts="\r\n",
        separators=(", ", ": "),
    ),
    "javascript": Form(
        "content-type: application/http\r\ncontent-transfer-encoding: binary\r\n",
        "Content-Type: application/json\r\nDataServiceVersion: 3.0\r\nAccept: application/json\r\n",
        before_body="\r\n\r\n",
        before_parts="\r\n",
    ),
    ".net": Form(
        "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n",
        "Content-ID: {number}\r\nAccept: application/json; odata=minimalmetadata\r\n"
        "Content-Type: application/json; odata=nometadata\r\nPrefer: return-no-content\r\n",
    ),
}


@dataclass(frozen=True)
class Operation:
    method: str
    row_key: str
    """As it stands in the URL."""
    body: bytes
    partition_key: str = "p"
    table: str = _table
    more: str = ""
    """Headers."""


def _text(form: Form, operations: list[Operation]) -> bytes:
    pieces = [
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n",
        form.before_parts,
    ]
    written = "".join(pieces).encode()
    for number, own in enumerate(operations):
        keyed = f"(PartitionKey='{own.partition_key}',RowKey='{own.row_key}')"
        target = own.table if own.method == "POST" else own.table + keyed
        head = (
            f"--changeset_1\r\n{form.part}\r\n{own.method} {_url}/{target} HTTP/1.1\r\n"
            f"{form.fields}{own.more}{form.before_body}"
        ).format(number=number + 7, length=len(own.body))
        written += head.encode() + own.body + b"\r\n"
    return written + f"--changeset_1--\r\n{form.after_parts}--batch_1--\r\n".encode()


def _body(form: Form, *, ascii_only: bool = True, **values: object) -> bytes:
    return json.dumps(_sample | values, separators=form.separators, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )


def _operations(form: Form, method: str, count: int, **values: object) -> list[Operation]:
    more = "If-Match: *\r\n" if method == "DELETE" else ""
    return [
        Operation(
            method,
            f"{n:03}",
            b"" if method == "DELETE" else _body(form, RowKey=f"{n:03}", age=n, **values),
            more=more,
        )
        for n in range(count)
    ]


# Reading -----------------------------------------------------------------------------------------


_third_delimiter = (
    b"--change:set\r\nContent-Type: application/http\r\n"
    b"Content-Transfer-Encoding: binary\r\nContent-ID: 9\r\n"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Accept: ", b"Content-ID: 7\r\nAccept: "),
        (b"Accept: ", b" content-id : 8\r\nAccept: "),
        (b"Accept: ", b"x: y\rContent-ID: 8\r\nAccept: "),
        (b"Accept: ", b"x: y\n--change:set\nAccept: "),
        (b"Accept: ", b"--change:set \r\nAccept: "),
        (b"Accept: ", b"--batch:1 \r\nAccept: "),
        (b"\r\n\r\n--change:set", b"\r\n\r\n--change:set \r\n--change:set"),
        (b"\r\n\r\n--change:set", b"\r\n\r\nx\r\n--change:set"),
        (b"\r\n\r\n--change:set", b"\r\nx: y\n\r\n--change:set"),
        (_third_delimiter, b"x" + _third_delimiter),
        (_third_delimiter, _third_delimiter.replace(b"\r\n", b" \r\n", 1)),
        (b"Content-ID: 9\r\n", b"Content-ID: 9 \r\n"),
        (b"Content-ID: 9\r\n", b"Content-ID: 9\rContent-Type: text/plain\r\n"),
        (b"Content-ID: 9\r\n", b"Content-ID: \r\n"),
        (b"Content-ID: 9\r\n", b"Content-ID: 0123456789\r\n"),
        (b"Content-ID: 9\r\n", b"Content-IX: 9\r\n"),
        (b"People(", b"People(PartitionKey='p',RowKey='r')?x=("),
        (b"People(", b"People?x=("),
        (b"People(", b"(PartitionKey='p',RowKey='r')("),
        (b"People(", b"People%28PartitionKey='',RowKey='("),
        (b"http://127.0.0.1:10002/", b"http:"),
        (b"RowKey='002')", b"RowKey=')"),
        (b"RowKey='002')", b"RowKey='00''2')"),
        (b"RowKey='002')", b"RowKey='00%32')"),
        (b"RowKey='002')", b"RowKey='%C3%A9')"),
        (b"RowKey='002')", b"RowKey='%C3')"),
        (b"RowKey='002')", b"RowKey='%')"),
        (b"RowKey='002')", b"RowKey='%0A')"),
        (b"RowKey='002')", b"RowKey='%27')"),
        (b"RowKey='002')", b"RowKey='%27%27')"),
        (b"RowKey='", b"RowKey='%3a%28%29%2F%20"),
        (b"PartitionKey='p", b"PartitionKey='%28%C3%A9"),
        (b"PartitionKey='p", b"PartitionKey='%27%27"),
        (b"PartitionKey='p", b"PartitionKey='',RowKey=%27"),
        (b"RowKey='002')", b"RowKey=''"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"--batch:1--", b"--batch:1 \r\n--batch:1--"),
        (b"--batch:1--", b"--batch:1--\r\nbye"),
        (b"--change:set--", b"--change:set-- \r\n--change:set--"),
        (b"--change:set--\r\n", b"--change:set--\n"),
    ],
)
def test_what_is_only_nearly_alike(old: bytes, new: bytes):
    """Boundaries with a colon look like headers."""
    form = _forms["python"]
    text = _text(form, _operations(form, "PUT", 3))
    text = text.replace(b"changeset_1", b"change:set").replace(b"batch_1", b"batch:1")
    content_type = "multipart/mixed; boundary=batch:1"
    assert alike.parse(content_type, text, _account.name) is not None
    assert old in text
    changed = text.replace(old, new)
    found = alike.parse(content_type, changed, _account.name)
    if found is not None:
        _assert_same(found, batch.parse(content_type, changed, _account.name).operations)


def _like(found: BatchOperation) -> tuple[object, ...]:
    headers = {name: text for name, text in found.headers.items() if name != "content-length"}
    headers.pop("content-id", None)
    return found.method, found.target.kind, found.target.table, found.raw_query, headers


def _assert_same(found: alike.Alike, operations: list[BatchOperation | Refused]) -> None:
    assert len(operations) == len(found.bodies) == len(found.row_keys)
    for number, operation in enumerate(operations):
        assert isinstance(operation, BatchOperation)
        assert _like(operation) == _like(found.first)
        assert operation.target.partition_key == found.first.target.partition_key
        assert operation.target.row_key == found.row_keys[number]
        assert operation.body.strip(b" \t\r\n") == found.bodies[number].strip(b" \t\r\n")
        content_id = None if found.content_ids is None else found.content_ids[number]
        assert operation.content_id == content_id


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("form", _forms.values(), ids=_forms)
@pytest.mark.parametrize("count", [2, 100])
def test_what_sdks_send_is_alike(form: Form, method: str, count: int):
    text = _text(form, _operations(form, method, count))
    found = alike.parse(_type, text, _account.name)
    assert found is not None
    parsed = batch.parse(_type, text, _account.name)
    assert parsed.is_change_set
    _assert_same(found, parsed.operations)


@pytest.mark.parametrize("count", [1, 101])
def test_neither_one_operation_nor_too_many_are_looked_at_together(count: int):
    form = _forms["javascript"]
    assert alike.parse(_type, _text(form, _operations(form, "PUT", count)), _account.name) is None


_snippets = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b" ", b"--changeset_1", b"--changeset_1--", b"--batch_1",
     b"--batch_1--", b"\r\n--changeset_1\r\n", b"\n--changeset_1\n", b"\r\n\r\n", b"\\", b"(",
     b"Content-ID: 5\r\n", b"%27", b"'", b"Content-ID : 5\r\n", b" content-id: 5\r\n", b"?a=b",
     b"x: y\rContent-ID: 5\r\n", b"(PartitionKey='p',RowKey='000') HTTP/1.1", b"\x00", b"\xff",
     b"5", b"a: b\r\n", b"T", b":"]
)  # fmt: skip


@st.composite
def _changed_texts(draw: st.DrawFn) -> bytes:
    """Batches as SDKs write them, and then something in them changed, in one place or several."""
    form = draw(st.sampled_from(list(_forms.values())))
    method = draw(st.sampled_from(["POST", "PUT", "DELETE"]))
    text = _text(form, _operations(form, method, draw(st.integers(2, 4))))
    lines = text.split(b"\r\n")
    for _ in range(draw(st.integers(1, 3))):
        snippet = draw(_snippets)
        if draw(st.booleans()):  # the same change to every line that is like this one
            chosen = draw(st.sampled_from(lines))
            at = draw(st.integers(0, len(chosen)))
            begin = chosen[:at]
            text = text.replace(b"\r\n" + begin, b"\r\n" + begin + snippet)
        else:
            at = draw(st.integers(0, len(text)))
            text = text[:at] + snippet + text[at + draw(st.integers(0, 4)) :]
    return text


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


@given(_changed_texts())
@settings(max_examples=1200)
def test_alike_is_what_reads_the_same_one_by_one(text: bytes):
    found = alike.parse(_type, text, _account.name)
    if found is None or not all(body == b"" or _is_object(body) for body in found.bodies):
        return
    parsed = batch.parse(_type, text, _account.name)
    assert parsed.is_change_set
    _assert_same(found, parsed.operations)


# The whole of it ---------------------------------------------------------------------------------


class _Entropy:
    def uuid(self) -> str:
        return "0f0e0d0c-0b0a-4908-8706-050403020100"


class _Clock:
    def now(self) -> int:
        return 17_000_000_000_000_123


class _Body:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    async def read(self, bytes_max: int = 0) -> bytes:
        del bytes_max
        return self._raw


def _call(service: TableService, text: bytes) -> TableCall:
    target = TableTarget(Resource.BATCH, _table, "", TablePath(Kind.BATCH))
    call = TableCall(
        Request(
            method="POST",
            raw_path="/$batch",
            raw_query="",
            headers={"content-type": _type},
            body=_Body(text),  # type: ignore[arg-type]
        ),
        "request",
        _account,
        target,
        secondary=False,
        endpoint=_url + "/",
    )
    call.path, call.tables, call.version = target.path, service, "2019-02-02"
    call.identity = _owner
    return call


_stored = {
    "there": b'"old":1',
    "too": b'"age":1,"old@odata.type":"Edm.Int64","old":"1"',
    "fewer": b'"big":5,"age":1',
    "many": b",".join(b'"p%d":1' % number for number in range(250)),
}


async def _run(text: bytes) -> tuple[object, list[tuple[bytes, bytes]]]:
    """What is answered, and what lies in the store then."""
    engine = MemoryEngine(_Clock())  # type: ignore[arg-type]
    service = TableService(engine, _Clock(), _Entropy())  # type: ignore[arg-type]
    place = tables.place(_account.name, _table)
    await service.write((place.part, place.account_part), partial(tables.create, where=place))
    there = [write_of(Change.INSERT, "p", key, fragment=own) for key, own in _stored.items()]
    await service.write((_part,), partial(transact, part=_part, batch=there))
    try:
        response = await transactions.run(_call(service, text))
        answer: object = (response.status, response.headers, response.body)
    except Refused as refused:
        answer = (refused.code, refused.message, refused.details)

    async def rows(tx) -> list[tuple[bytes, bytes]]:
        return await tx.scan(_part, *keys.all_entities(), limit=1000)

    found = await service.read(rows)
    await engine.close()
    return answer, found


def _teach(form: Form) -> None:
    """A reader that knows the shape of what most bodies are, and nothing else."""
    reader_of.cache_clear()
    reader = reader_of(_account.name, _table.lower())
    for _ in range(sightings_wanted):
        reader.read(_body(form))


def _both_ways(form: Form, text: bytes) -> tuple[Any, Any]:
    _teach(form)
    together = asyncio.run(_run(text))
    _teach(form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "parse", lambda *_: None)
        one_by_one = asyncio.run(_run(text))
    return together, one_by_one


_values = st.one_of(
    st.text(max_size=5), st.integers(-(2**31), 2**31), st.floats(), st.booleans(), st.none(),
    st.sampled_from(["\n", "a\nb", ":x", " x", '"', "\\", "é", "😀", "\ud800", -0.0, ":-0.0", 2**40,
                     "2021-06-17T17:32:40Z", "2021-06-17T17:32:46.5000000Z", "x" * 17_000,
                     "x" * 33_000, [], {}, "5\n6", "C9DA6455-213D-42C9-9A79-3E9149A57833"]),
)  # fmt: skip
_names = st.sampled_from(
    ["name", "age", "at", "big", "id", "at@odata.type", "other", "RowKey", "PartitionKey", "a-b"]
)
_odd_bodies = st.sampled_from(
    [b"", b"{}", b"[]", b"5", b"{", b"}", b"null", b'{"a":1}\r\n{"a":2}', b"--changeset_1", b"--x",
     b'{"PartitionKey":"p","RowKey":"z"}', b"\xff", b"{} {}", b",", b'{"a":"\n"}', b" "]
)  # fmt: skip
_row_keys = st.sampled_from(
    ["there", "too", "fewer", "many", "000", "q", "", "a%20b", "it''s", "x" * 300, "a?", "_"]
)


_changes = ["row key", "key in the body", "body", "value", "twice", "white space", "else"]
_ones_more = [b'"age":1', b'"\\u0061ge":1', b'"age" :1', b'"x":1']
_spaces = [
    (b",", b" ,"),
    (b":", b" :"),
    (b",", b",\t"),
    (b",", b",\n"),
    (b"}", b"} "),
    (b"{", b" {"),
]


@st.composite
def _change_sets(draw: st.DrawFn) -> tuple[Form, bytes]:
    """Operations that are alike but for some of them, perhaps."""
    form = draw(st.sampled_from(list(_forms.values())))
    method = draw(st.sampled_from(["POST", "POST", "PUT", "PATCH", "DELETE"]))
    operations = _operations(form, method, draw(st.integers(2, 5)))
    if method != "DELETE" and draw(st.booleans()):
        operations = [Operation(method, own.row_key, own.body, more="If-Match: *\r\n")
                      if method != "POST" else own for own in operations]  # fmt: skip
    if method == "POST":
        prefer = draw(st.sampled_from(["", "Prefer: return-no-content\r\n",
                                       "Prefer: return-content\r\n"]))  # fmt: skip
        operations = [Operation(method, own.row_key, own.body, more=prefer) for own in operations]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(operations) - 1))
        own = operations[at]
        changed = dict(vars(own))
        values: dict[str, object] = {"RowKey": own.row_key}
        match draw(st.sampled_from(_changes)):
            case "row key":
                changed["row_key"] = values["RowKey"] = draw(_row_keys)
                changed["body"] = _body(form, **values) if own.body else b""
            case "key in the body":
                changed["body"] = _body(form, RowKey=draw(_row_keys))
            case "body":
                changed["body"] = draw(_odd_bodies)
            case "value":
                values[draw(_names)] = draw(_values)
                changed["body"] = _body(form, ascii_only=draw(st.booleans()), **values)
            case "twice":
                member = draw(st.sampled_from(_ones_more))
                changed["body"] = own.body.replace(b"{", b"{" + member + b",", 1)
            case "white space":
                old, new = draw(st.sampled_from(_spaces))
                changed["body"] = own.body.replace(old, new)
            case "else":
                name, value = draw(st.sampled_from(
                    [("partition_key", "q"), ("table", "Others"), ("table", "people"),
                     ("table", "x"), ("method", "MERGE"), ("method", "GET"), ("more", "a: b\r\n"),
                     ("more", "If-Match: x\r\n"), ("more", "If-None-Match: *\r\n")]))  # fmt: skip
                changed[name] = value
        operations[at] = Operation(**changed)  # type: ignore[arg-type]
    return form, _text(form, operations)


@given(_change_sets())
@settings(max_examples=700)
def test_a_change_set_comes_to_the_same_in_both_ways(made: tuple[Form, bytes]):
    form, text = made
    together, one_by_one = _both_ways(form, text)
    assert together == one_by_one


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("prefer", ["", "Prefer: return-no-content\r\n"])
@pytest.mark.parametrize("form", _forms.values(), ids=_forms)
@pytest.mark.parametrize("failing", [None, 0, 57, 99])
def test_a_hundred_at_once(
    form: Form, method: str, prefer: str, failing: int | None, monkeypatch: pytest.MonkeyPatch
):
    """Done or refused by the transaction: nothing has to be read one by one before that."""
    operations = [
        Operation(own.method, own.row_key, own.body, more=own.more + (prefer or ""))
        for own in _operations(form, method, 100)
    ]
    if failing is not None and method == "POST":
        operations[failing] = Operation("POST", "", _body(form, RowKey="there"), more=prefer)
    text = _text(form, operations)
    together, one_by_one = _both_ways(form, text)
    assert together == one_by_one
    assert together[0][0] == 202
    count = together[0][2].count(b"HTTP/1.1 20")
    assert count == (0 if method == "DELETE" or (failing is not None and method == "POST") else 100)
    _teach(form)
    monkeypatch.setattr(transactions, "_read_all", None)
    assert asyncio.run(_run(text)) == together


@pytest.mark.parametrize("body", [b"--changeset_1 ", b"x", b"{}", b""])
def test_what_is_sent_with_a_delete_may_be_a_delimiter(body: bytes):
    form = _forms["javascript"]
    operations = [
        Operation("DELETE", "there", b"x", more="If-Match: *\r\n"),
        Operation("DELETE", "too", body, more="If-Match: *\r\n"),
    ]
    together, one_by_one = _both_ways(form, _text(form, operations))
    assert together == one_by_one


@pytest.mark.parametrize("end_row", ["098", "099", None])
def test_who_may_not_change_one_of_them_changes_none(
    end_row: str | None, monkeypatch: pytest.MonkeyPatch
):
    grant = Grant(key_range=KeyRange(start_partition="p", end_partition="p", end_row=end_row))
    monkeypatch.setattr(transactions, "_authorize", lambda *_: grant)
    form = _forms["python"]
    together, one_by_one = _both_ways(form, _text(form, _operations(form, "PUT", 100)))
    assert together == one_by_one
    assert together[0][0] == ("AuthorizationFailure" if end_row == "098" else 202)


def test_a_long_line_is_left_to_whoever_measures_it(monkeypatch: pytest.MonkeyPatch):
    form = _forms["javascript"]
    operations = _operations(form, "PUT", 3)
    operations[1] = Operation("PUT", "%41" * 20_000, operations[1].body)
    text = _text(form, operations)
    together, one_by_one = _both_ways(form, text)
    assert together == one_by_one
    assert b"HTTP/1.1 400 Bad Request" in together[0][2]
    monkeypatch.setattr(alike, "unquote", None)
    assert alike.parse(_type, text, _account.name) is None


def test_keys_that_are_escaped_in_urls_are_read_all_at_once(monkeypatch: pytest.MonkeyPatch):
    form = _forms["javascript"]
    operations = [
        Operation("PUT", quoted, _body(form, RowKey=unquote(quoted)))
        for quoted in ("2026-11-20T01%3A03%3A29", "%C3%A9%201%40x%28", "%26")
    ]
    together, one_by_one = _both_ways(form, _text(form, operations))
    assert together == one_by_one
    assert together[0][2].count(b"HTTP/1.1 204") == 3
    _teach(form)
    monkeypatch.setattr(transactions, "_read_all", None)
    assert asyncio.run(_run(_text(form, operations))) == together


@pytest.mark.parametrize("last", ["new", "many"])
def test_merges_with_what_is_there(last: str, monkeypatch: pytest.MonkeyPatch):
    form = _forms["python"]
    row_keys = ["too", "fewer", "there", last]
    text = _text(
        form, [Operation("PATCH", row_key, _body(form, RowKey=row_key)) for row_key in row_keys]
    )
    together, one_by_one = _both_ways(form, text)
    assert together == one_by_one
    _, answer = together[0][2].split(b"HTTP/1.1 ", 1)
    assert answer.startswith(b"204" if last == "new" else b"400")
    assert (b"3:The entity contains more properties" in answer) == (last == "many")
    _teach(form)
    monkeypatch.setattr(transactions, "_read_all", None)
    assert asyncio.run(_run(text)) == together
