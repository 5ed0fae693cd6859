"""Batches taken apart and put together."""

import email.parser
import email.policy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.common import multipart
from etagere.frontends.common.multipart import boundary_of
from etagere.frontends.table_rest import batch
from etagere.frontends.table_rest.batch import Answer, Batch, BatchOperation
from etagere.frontends.table_rest.path import Kind, TablePath

_account = "acct"
_type = "multipart/mixed; boundary=batch_1"


def _text(operations: list[str], newline: str = "\r\n") -> bytes:
    lines = ["--batch_1", "Content-Type: multipart/mixed; boundary=changeset_1", ""]
    for operation in operations:
        lines += ["--changeset_1", "Content-Type: application/http",
                  "Content-Transfer-Encoding: binary", "", *operation.split("\n")]  # fmt: skip
    lines += ["--changeset_1--", "--batch_1--", ""]
    return newline.join(lines).encode()


_insert = (
    "POST http://127.0.0.1:10002/acct/People HTTP/1.1\nContent-Type: application/json\n"
    'Prefer: return-no-content\n\n{"PartitionKey": "p", "RowKey": "r"}'
)
_delete = "DELETE /People(PartitionKey='p',RowKey='it''s%20x') HTTP/1.1\nIf-Match: *\n\n"


def _operations(found: Batch) -> list[BatchOperation]:
    assert all(isinstance(operation, BatchOperation) for operation in found.operations)
    return found.operations  # type: ignore[return-value]


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_a_change_set(newline: str):
    found = batch.parse(_type, _text([_insert, _delete], newline), _account)
    assert found.is_change_set
    one, two = _operations(found)
    assert one.method == "POST"
    assert one.target == TablePath(Kind.ENTITIES, "People")
    assert one.headers == {
        "content-type": "application/json",
        "prefer": "return-no-content",
    }
    assert one.body == b'{"PartitionKey": "p", "RowKey": "r"}'
    assert two.method == "DELETE"
    assert two.target == TablePath(Kind.ENTITY, "People", "p", "it's x")
    assert two.headers == {"if-match": "*"}
    assert two.body.strip() == b""


def test_preamble_epilogue_quotes_and_white_space_are_let_pass():
    raw = (
        b"hello\r\n\r\n" + _text([_insert]).replace(b"--batch_1\r\n", b"--batch_1 \t\r\n") + b"bye"
    )
    for content_type in (
        'multipart/mixed; boundary="batch_1"',
        "Multipart/Mixed;charset=utf-8; Boundary=batch_1; x=y",
    ):
        assert len(batch.parse(content_type, raw, _account).operations) == 1


def test_a_delimiter_inside_a_line_is_text():
    tricky = _insert.replace('"r"', '"--changeset_1--"')
    (found,) = _operations(batch.parse(_type, _text([tricky]), _account))
    assert b"--changeset_1--" in found.body


def test_a_single_query():
    raw = (
        b"--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
        b"GET http://h/acct/People()?$filter=Age%20gt%205&$top=3 HTTP/1.1\r\n"
        b"Accept: application/json\r\n\r\n\r\n--batch_1--\r\n"
    )
    found = batch.parse(_type, raw, _account)
    assert not found.is_change_set
    (query,) = _operations(found)
    assert query.method == "GET"
    assert query.raw_query == "$filter=Age%20gt%205&$top=3"


@pytest.mark.parametrize(
    ("url", "table"),
    [
        ("http://127.0.0.1:10002/acct/People", "People"),
        ("https://acct.table.core.windows.net/People", "People"),
        ("http://127.0.0.1:10002/acct-secondary/People", "People"),
        ("/acct/People", "People"),
        ("/People", "People"),
        ("People", "People"),
        ("acct", "acct"),
    ],
)
def test_urls_of_operations(url: str, table: str):
    raw = _text([_insert.replace("http://127.0.0.1:10002/acct/People", url)])
    (found,) = _operations(batch.parse(_type, raw, _account))
    assert found.target == TablePath(Kind.ENTITIES, table)


@pytest.mark.parametrize("key", ["%C3%A9%20%E2%82%AC", "é%20€"])
def test_keys_in_urls_are_utf8_escaped_or_not(key: str):
    raw = _text([f"DELETE /People(PartitionKey='p',RowKey='{key}') HTTP/1.1\nIf-Match: *\n\n"])
    (found,) = _operations(batch.parse(_type, raw, _account))
    assert found.target == TablePath(Kind.ENTITY, "People", "p", "é €")
    not_utf8 = raw.replace(b"People", b"Peo\xffple")
    (refused,) = batch.parse(_type, not_utf8, _account).operations
    assert isinstance(refused, Refused)
    assert refused.code == "InvalidInput"


def test_only_the_beginning_of_a_url_is_its_origin():
    raw = _text([]).replace(
        b"Content-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1--\r\n",
        b"Content-Type: application/http\r\n\r\n"
        b"GET /People()?$filter=Page%20eq%20'http://a.example/b' HTTP/1.1\r\n\r\n\r\n",
    )
    (found,) = _operations(batch.parse(_type, raw, _account))
    assert found.target == TablePath(Kind.ENTITIES, "People")
    assert found.raw_query == "$filter=Page%20eq%20'http://a.example/b'"


def test_content_ids_are_kept_from_the_part_and_from_the_request():
    inside = _insert.replace("Content-Type", "Content-ID: 7\nContent-Type")
    (found,) = _operations(batch.parse(_type, _text([inside]), _account))
    assert found.content_id == "7"
    outside = _text([_insert]).replace(
        b"Content-Transfer-Encoding: binary", b"Content-ID: 8\r\nContent-Transfer-Encoding: binary"
    )
    (found,) = _operations(batch.parse(_type, outside, _account))
    assert found.content_id == "8"


def test_at_most_one_operation_more_than_allowed_is_read():
    assert len(batch.parse(_type, _text([_insert] * 150), _account).operations) == 101


@pytest.mark.parametrize(
    "content_type",
    [None, "", "application/json", "multipart/mixed", "multipart/mixed; boundary=",
     "multipart/mixed; boundary=other", "multipart/mixed; boundary=" + "x" * 71],
)  # fmt: skip
def test_content_types_that_are_refused(content_type: str | None):
    with pytest.raises(Refused) as refusal:
        batch.parse(content_type, _text([_insert]), _account)
    assert refusal.value.code == "InvalidInput"


_whole = _text([_insert])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--batch_1--",
        _whole[:-20],
        _whole.replace(b"--changeset_1--\r\n", b""),
        _whole[: len(_whole) // 2],
        b"--batch_1\r\n\r\n--batch_1--",
        b"--batch_1\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--batch_1--",
        _whole.replace(b"--batch_1--", b"--batch_1\r\n\r\nx\r\n--batch_1--"),
    ],
)
def test_envelopes_that_are_refused(body: bytes):
    try:
        found = batch.parse(_type, body, _account)
    except Refused as refusal:
        code = refusal.code
    else:
        (operation,) = found.operations
        assert isinstance(operation, Refused)
        code = operation.code
    assert code == "InvalidInput"


@pytest.mark.parametrize(
    "operation",
    [
        "",
        "POST",
        "POST /People",
        "POST /People HTTP/3.0\n\n",
        "POST /People HTTP/1.1\nno colon\n\n{}",
        "POST /People HTTP/1.1\n: x\n\n{}",
        "POST /a/b/c HTTP/1.1\n\n{}",
        "POST /%ff HTTP/1.1\n\n{}",
        "POST /" + "x" * 40_000 + " HTTP/1.1\n\n{}",
        "POST /People HTTP/1.1\n" + "a: b\n" * 65 + "\n{}",
        "POST /People HTTP/1.1\na: " + "b" * 50_000 + "\n\n{}",
    ],
)
def test_an_operation_that_cannot_be_read_is_a_refusal_in_its_place(operation: str):
    found = batch.parse(_type, _text([_insert, operation, _delete]), _account)
    assert [isinstance(each, Refused) for each in found.operations] == [False, True, False]


def test_an_answer_is_what_a_mime_parser_reads():
    answers = [
        Answer(204, {"ETag": "W/\"datetime'2021'\"", "DataServiceVersion": "1.0;"}, b""),
        Answer(201, {"Location": "http://h/é"}, b'{"a":1}', content_id="3"),
    ]
    parts = [batch.encode_part(answer) for answer in answers]
    raw = batch.encode(parts, "token", is_change_set=True)
    head = f"Content-Type: {batch.content_type('token')}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + raw)
    assert message.is_multipart()
    (change_set,) = message.get_payload()  # type: ignore[misc]
    first, second = change_set.get_payload()  # type: ignore[misc, union-attr]
    assert first["Content-Type"] == "application/http"
    text = first.get_payload()
    assert text.startswith("HTTP/1.1 204 No Content\r\nETag: W/")
    assert text.endswith("\r\n\r\n")
    assert "Content-ID: 3\r\n" in second.get_payload()
    assert second.get_payload().endswith('\r\n\r\n{"a":1}')


def test_the_answer_to_a_query_has_no_change_set():
    part = batch.encode_part(Answer(200, {}, b"{}"))
    raw = batch.encode([part], "t", is_change_set=False)
    assert raw.count(b"--batchresponse_t") == 2
    assert b"changesetresponse" not in raw
    assert boundary_of(batch.content_type("t")) == "batchresponse_t"


_snippets = st.sampled_from(
    [
        b"\r\n", b"\n", b"--batch_1", b"--batch_1--", b"--changeset_1", b"--changeset_1--", b"--",
        b"Content-Type: multipart/mixed; boundary=changeset_1", b"Content-Type: application/http",
        b"POST /People HTTP/1.1", b"GET /People() HTTP/1.1", b"If-Match: *", b"{}", b":", b"\xff",
        b"\0", b" ", b"a: b", b"Content-Type: multipart/mixed; boundary=batch_1",
    ]
)  # fmt: skip


@given(st.lists(_snippets, max_size=40).map(b"".join) | st.lists(_snippets).map(b"\r\n".join))
@settings(max_examples=800)
def test_any_body_is_read_or_refused(body: bytes):
    try:
        found = batch.parse(_type, body, _account)
    except Refused:
        return
    assert 1 <= len(found.operations) <= 101


@given(st.data())
@settings(max_examples=400)
def test_a_batch_with_bytes_changed_is_read_or_refused(data: st.DataObject):
    raw = bytearray(_text([_insert, _delete]))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 10))] = data.draw(st.binary(max_size=6))
    try:
        batch.parse(_type, bytes(raw), _account)
    except Refused:
        return


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/mixed; boundary=b_1", "b_1"),
        ('Multipart/Mixed;Boundary = "b 1" ; charset=utf-8', "b 1"),
        # azure-storage, the older library for Node.js, in the batch and in its change set
        ('multipart/mixed; charset="utf-8"; boundary=b_1', "b_1"),
        ('multipart/mixed;charset="utf-8";boundary=b_1', "b_1"),
        ('multipart/mixed; a="; boundary=c"; b=2; boundary=b_1', "b_1"),
        ("multipart/mixed; boundary=b_1; boundary=c", "b_1"),
        ('multipart/mixed; charset="utf-8; boundary=b_1', None),
        ("multipart/mixed; xboundary=b_1", None),
        ("multipart/mixed", None),
        ("multipart/form-data; boundary=b_1", None),
    ],
)
def test_boundaries(content_type: str, boundary: str | None):
    assert boundary_of(content_type) == boundary


@given(st.text())
def test_any_content_type_is_read_or_refused(content_type: str):
    boundary_of(content_type)


@given(st.data())
@settings(max_examples=300)
def test_splitting_finds_what_searching_finds(data: st.DataObject):
    pieces = st.sampled_from(
        [b"\r\n", b"\n", b"--b", b"--b\r\n", b"\r\n--b\r\n", b"\n--b\n", b"--b--", b"\r\n--b--\r\n",
         b"--b-", b"--bc", b" ", b"x", b"Content-Type: a\r\n\r\n", b"-"]
    )  # fmt: skip
    inside = b"".join(data.draw(st.lists(pieces, max_size=10)))
    opening, closing = data.draw(
        st.sampled_from([(b"--b\r\n", b"\r\n--b--"), (b"--b\r\n", b"\r\n--b--\r\nx"), (b"", b"")])
    )
    body = opening + inside + closing
    split = multipart._split(body, b"--b")
    if split is None:
        return
    assert split == list(multipart._search(body, b"--b"))


_heads = st.sampled_from(
    [b"Content-Type: application/http", b"content-type: application/http; msgtype=request",
     b"Content-Transfer-Encoding: binary", b"Content-ID: 3", b"Content-Type: text/plain", b"no"]
)  # fmt: skip
_urls = st.sampled_from(
    [b"http://h:1/acct/People", b"/People", b"People", b"http://h/acct", b"/a/b/c", b"Tables",
     b"People()?x=(PartitionKey='a',RowKey='b')", b"http://", b"/acct/People%28", b"People#x"]
)  # fmt: skip
_literals = st.sampled_from(
    [b"", b"a", b"a-b.c~_9", b"it''s", b"%41", b"a b", b"')", b"\xe9", b"a:b"]
)
_keyed = st.builds(
    lambda pk, rk: b"(PartitionKey='%b',RowKey='%b')" % (pk, rk), _literals, _literals
)
_lines = st.builds(
    lambda method, url, keys, version: method + b" " + url + keys + version,
    st.sampled_from([b"POST", b"put", b"MERGE", b"DELETE", b"G\nET", b""]),
    _urls,
    _keyed | st.sampled_from([b"", b"()", b"(RowKey='a',PartitionKey='b')", b"(PartitionKey='x"]),
    st.sampled_from([b" HTTP/1.1", b" HTTP/1.0", b"", b"  HTTP/1.1 ", b" HTTP/1.1\n"]),
)
_fields = st.lists(
    st.sampled_from(
        [b"Accept: application/json", b"If-Match: *", b"Content-ID: 4", b"x", b": y", b"a: b", b"",
         b"Content-Length: 5"]
    ),
    max_size=3,
)  # fmt: skip


@given(
    st.lists(_heads, max_size=3), _lines, _fields, st.sampled_from([b"\r\n", b"\n", b"\r\n\r\n"]),
    st.sampled_from([b"", b"{}", b"\r\n{}", b"\r\n\r\n", b'{"a":"\r\n\r\n"}']),
)  # fmt: skip
@settings(max_examples=1500)
def test_the_short_way_reads_operations_as_the_long_way_does(
    heads: list[bytes], line: bytes, fields: list[bytes], newline: bytes, body: bytes
):
    raw = newline.join([*heads, b""]) + b"\r\n" + newline.join([line, *fields]) + b"\r\n\r\n" + body

    def outcome(read):
        try:
            found = read(raw, _account)
        except Refused as refusal:
            return refusal.code, refusal.message
        if found is None:
            return None
        own = (found.method, found.target, found.raw_query, found.body, found.content_id)
        return own, dict(found.headers)

    short = outcome(batch._read_usual)
    if short is not None:
        assert short == outcome(batch._read_any)


_usual_heads = (
    b"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0",
    b"content-type: application/http\r\ncontent-transfer-encoding: binary",
)
_usual_lines = (
    b"POST http://127.0.0.1:10002/acct/People HTTP/1.1",
    b"PATCH http://127.0.0.1:10002/acct/People(PartitionKey='p',RowKey='00-1') HTTP/1.1",
    b"DELETE https://acct.table.core.windows.net/People(PartitionKey='',RowKey='5') HTTP/1.1",
)


@pytest.mark.parametrize("head", _usual_heads)
@pytest.mark.parametrize("line", _usual_lines)
@pytest.mark.parametrize("body", [b"{}", b"\r\n{}", b"", b"\r\n"])
def test_what_sdks_send_takes_the_short_way(head: bytes, line: bytes, body: bytes):
    fields = b"If-Match: *\r\nContent-Length: 2\r\nx-ms-date: Thu, 19 Nov 2026 06:19:42 GMT"
    raw = head + b"\r\n\r\n" + line + b"\r\n" + fields + b"\r\n\r\n" + body
    found = batch._read_usual(raw, _account)
    assert found is not None
    assert found.target.table == "People"
    assert found.headers["if-match"] == "*"
