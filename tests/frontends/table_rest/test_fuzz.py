"""Whatever is sent is answered, never with a 500, and the next request is served as usual."""

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .serving import Client, ServerThread, Serving

_examples = 400
_table = "Fuzzed"


@pytest.fixture(scope="module")
def fuzzed():
    with ServerThread() as serving:
        client = Client(serving)
        assert client.send("POST", "Tables", body={"TableName": _table}).status == 201
        client.insert(_table, "p", "r", a=1)
        yield serving
        assert client.get(_table, "p", "r").status in (200, 404)
        client.close()


_texts = st.sampled_from(
    ["", "p", "r", "'", "''", "a'b", "(", ")", ",", "=", "\\", "é", "\U0001f600", "%", "\x00", "$",
     "x" * 600, "PartitionKey", "RowKey"]
)  # fmt: skip
_literals = st.lists(_texts, max_size=3).map("".join)
_segments = st.one_of(
    st.sampled_from(["", "Tables", "Tables()", "$batch", "$metadata", _table, f"{_table}()", "No"]),
    st.builds(lambda t: f"Tables('{t}')", _literals),
    st.builds(
        lambda table, pk, rk: f"{table}(PartitionKey='{pk}',RowKey='{rk}')",
        st.sampled_from([_table, "No", "a-b", ""]),
        _literals,
        _literals,
    ),
    st.lists(_texts, max_size=5).map("".join),
)
_paths = st.one_of(
    _segments.map(lambda text: quote(text, safe="()'=,$")),
    st.text(st.sampled_from("%'()$=,abcFf02"), max_size=20),
)
_values = st.one_of(
    _literals.map(quote),
    st.sampled_from(
        ["1", "0", "-1", "1000", "1!4!YWJj", "1!0!", "acl", "service", "properties", "stats", "a,b",
         "*", "a%20eq%201", "PartitionKey%20eq%20'p'", "not", "((((", "%27", "%ff"]
    ),
)  # fmt: skip
_names = st.sampled_from(
    ["$filter", "$select", "$top", "$format", "$orderby", "NextPartitionKey", "NextRowKey",
     "NextTableName", "comp", "restype", "timeout", "x"]
)  # fmt: skip
_queries = st.lists(st.builds("{}={}".format, _names, _values), max_size=4).map("&".join)
_headers = st.dictionaries(
    st.sampled_from(
        ["If-Match", "If-None-Match", "Prefer", "Accept", "Content-Type", "X-HTTP-Method",
         "DataServiceVersion", "x-ms-version", "x-ms-client-request-id", "Origin"]
    ),
    st.sampled_from(
        ["", "*", "W/\"datetime'2020'\"", "x", "return-no-content", "return-content", "MERGE",
         "application/json", "application/json;odata=fullmetadata", "application/atom+xml", "PUT",
         "multipart/mixed; boundary=batch_1", "multipart/mixed", "2011-08-18", "2019-02-02", "3.0",
         "application/xml", ",,;;=", "\xe9"]
    ),
    max_size=4,
)  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | _literals,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_literals, inner, max_size=3),
    max_leaves=5,
)
_members = st.dictionaries(
    st.sampled_from(
        ["PartitionKey", "RowKey", "Timestamp", "a", "b", "a@odata.type", "b@odata.type", "a-b",
         "odata.etag", "TableName", "@", "@odata.type", "a@", ""]
    ),
    st.one_of(
        _json,
        st.sampled_from(["Edm.Int64", "Edm.Double", "Edm.Binary", "Edm.Guid", "Edm.DateTime", "5"]),
    ),
    max_size=6,
)  # fmt: skip
_bodies = st.one_of(st.none(), _members, st.binary(max_size=60), _members.map(repr).map(str.encode))
_methods = st.sampled_from(["GET", "POST", "PUT", "MERGE", "PATCH", "DELETE", "HEAD", "OPTIONS"])


@given(_methods, _paths, _queries, _headers, _bodies)
@settings(
    max_examples=_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_request_is_answered(fuzzed: Serving, method, path, query, headers, body):
    client = Client(fuzzed)
    try:
        reply = client.send(method, path, query=query, headers=headers, body=body)
        assert reply.status < 500 or reply.status == 501, reply
        follower = client.send("GET", "Tables")
        assert follower.status == 200, follower
    finally:
        client.close()


_operations = st.builds(
    lambda method, path, head, body: (
        f"{method} {path} HTTP/1.1\r\n{head}\r\n{body}".encode("utf-8", "surrogatepass")
    ),
    st.one_of(_methods, st.just("POST"), st.just("PUT")),
    st.one_of(_paths, st.just(_table)),
    st.sampled_from(
        ["", "Content-Type: application/json\r\n",
         "If-Match: *\r\nContent-Type: application/json\r\n", "If-Match:\r\n",
         "X-HTTP-Method: MERGE\r\n", "Prefer: return-no-content\r\n", "x\r\n"]
    ),
    st.sampled_from(
        ["", "{}", '{"PartitionKey":"p","RowKey":"q"}', '{"a":1}', "{", "--changeset_1"]
    ),
)  # fmt: skip


@given(st.lists(_operations, max_size=4), st.booleans())
@settings(
    max_examples=_examples // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_batch_is_answered(fuzzed: Serving, operations: list[bytes], is_change_set: bool):
    head = b"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
    if is_change_set:
        inner = b"".join(b"--changeset_1\r\n" + head + each + b"\r\n" for each in operations)
        inner = (
            b"Content-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
            + inner
            + b"--changeset_1--\r\n"
        )
    else:
        inner = head + b"".join(operations)
    body = b"--batch_1\r\n" + inner + b"\r\n--batch_1--\r\n"
    client = Client(fuzzed)
    try:
        reply = client.send(
            "POST",
            "$batch",
            body=body,
            headers={"Content-Type": "multipart/mixed; boundary=batch_1"},
        )
        assert reply.status < 500 or reply.status == 501, reply
        assert b"HTTP/1.1 500" not in reply.body
        assert client.send("GET", "Tables").status == 200
    finally:
        client.close()
