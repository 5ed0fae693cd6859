"""Entities over a socket: types, levels of metadata, projections, paging, errors."""

import base64
import http.client
import json
import math
from email.utils import formatdate
from urllib.parse import quote

import pytest

from .serving import Client, account, entity_path, sign

_level = "application/json;odata={}metadata".format
_moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z"

_typed: list[tuple[str, object]] = [
    ("Edm.Binary", base64.b64encode(bytes(range(256))).decode()),
    ("Edm.Binary", ""),
    ("Edm.Boolean", True),
    ("Edm.DateTime", "2021-06-17T17:32:46.1234567Z"),
    ("Edm.DateTime", "1601-01-01T00:00:00Z"),
    ("Edm.DateTime", "9999-12-31T23:59:59.9999999Z"),
    ("Edm.Double", "NaN"),
    ("Edm.Double", "Infinity"),
    ("Edm.Double", "-Infinity"),
    ("Edm.Double", 1.5),
    ("Edm.Double", 3.0),
    ("Edm.Double", 1.7976931348623157e308),
    ("Edm.Guid", "c9da6455-213d-42c9-9a79-3e9149a57833"),
    ("Edm.Int32", -(2**31)),
    ("Edm.Int64", str(2**63 - 1)),
    ("Edm.Int64", str(-(2**63))),
    ("Edm.String", ""),
    ("Edm.String", "é \U0001f600 \" \\ \n \x00 '"),
]


@pytest.mark.parametrize(("type_name", "value"), _typed)
def test_types_round_trip(client: Client, table: str, type_name: str, value: object):
    values = {"x@odata.type": type_name, "x": value}
    inserted = client.insert(table, "p", "r", **values)
    assert inserted.status == 201
    for found in (inserted.json, client.get(table, "p", "r").json):
        assert found["x"] == value
        assert type(found["x"]) is type(value)
        named = type_name == "Edm.Double" and isinstance(value, str)
        is_annotated = named or type_name in (
            "Edm.Binary", "Edm.DateTime", "Edm.Guid", "Edm.Int64",
        )  # fmt: skip
        assert found.get("x@odata.type") == (type_name if is_annotated else None)
    none = client.get(table, "p", "r", headers={"Accept": _level("no")}).json
    assert none["x"] == value
    assert "x@odata.type" not in none


def test_a_whole_double_is_sent_with_its_point(client: Client, table: str):
    client.insert(table, "p", "r", x=3.0)
    assert b'"x":3.0' in client.get(table, "p", "r").body
    client.send("POST", table, body=b'{"PartitionKey":"p","RowKey":"s","x":-0.0}')
    assert b'"x":0.0' in client.get(table, "p", "s").body


_keys = [
    "", " ", "'", "''", "it's", "é", "\U0001f600", "a b", "a,b", "()", "=", "%", "%2F", "+", "&",
    "a;b", "@", "$batch", "\u00a0", "x" * 512, '"', "<>", "~!*", "PartitionKey='a'",
]  # fmt: skip


@pytest.mark.parametrize("key", _keys)
def test_keys_round_trip(client: Client, table: str, key: str):
    inserted = client.insert(table, key, key, a=1)
    assert inserted.status == 201
    found = client.get(table, key, key)
    assert (found.json["PartitionKey"], found.json["RowKey"]) == (key, key)
    location = inserted.headers["location"].removeprefix(client.serving.url + "/")
    assert client.send("GET", location).status == 200
    literal = key.replace("'", "''")
    (same,) = client.filtered(table, f"PartitionKey eq '{literal}'").json["value"]
    assert same["RowKey"] == key
    swapped = entity_path(table, key, key).replace("PartitionKey", "X").replace("RowKey", "Y")
    swapped = swapped.replace("X=", "RowKey=").replace("Y=", "PartitionKey=")
    if "PartitionKey" not in key:
        assert client.send("GET", swapped).status == 200
    body = {"a": 2}
    etag = found.headers["etag"]
    changed = client.send(
        "MERGE", entity_path(table, key, key), body=body, headers={"If-Match": etag}
    )
    assert changed.status == 204
    gone = client.send("DELETE", entity_path(table, key, key), headers={"If-Match": "*"})
    assert gone.status == 204


def test_levels_of_metadata(client: Client, table: str):
    client.insert(table, "p'1", "r", n=1, **{"b@odata.type": "Edm.Int64", "b": "5"})
    full = client.get(table, "p'1", "r", headers={"Accept": _level("full")})
    url = client.serving.url
    segment = f"{table}(PartitionKey='p''1',RowKey='r')"
    assert full.headers["content-type"] == (
        "application/json;odata=fullmetadata;streaming=true;charset=utf-8"
    )
    assert full.json["odata.metadata"] == f"{url}/$metadata#{table}/@Element"
    assert full.json["odata.type"] == f"devstoreaccount1.{table}"
    assert full.json["odata.id"] == f"{url}/{segment}"
    assert full.json["odata.editLink"] == segment
    assert full.json["odata.etag"] == full.headers["etag"]
    assert full.json["Timestamp@odata.type"] == "Edm.DateTime"
    assert client.send("GET", full.json["odata.editLink"]).status == 200
    none = client.get(table, "p'1", "r", headers={"Accept": _level("no")})
    assert set(none.json) == {"PartitionKey", "RowKey", "Timestamp", "n", "b"}
    assert none.headers["etag"] == full.headers["etag"]
    asked = client.get(table, "p'1", "r", query=f"$format={quote(_level('no'))}")
    assert set(asked.json) == set(none.json)


def test_a_timestamp_that_is_sent_is_not_looked_at(client: Client, table: str):
    inserted = client.insert(table, "p", "r", Timestamp="2001-01-01T00:00:00Z").json
    assert inserted["Timestamp"] > "2020"
    stamp = inserted["Timestamp"].replace(":", "%3A")
    assert inserted["odata.etag"] == f"W/\"datetime'{stamp}'\""


def test_what_a_query_returned_can_be_sent_back(client: Client, table: str):
    client.insert(table, "p", "r", n=1, **{"b@odata.type": "Edm.Int64", "b": "5"})
    found = client.get(table, "p", "r", headers={"Accept": _level("full")})
    sent = client.send(
        "PUT",
        entity_path(table, "p", "r"),
        body=found.json,
        headers={"If-Match": found.headers["etag"]},
    )
    assert sent.status == 204
    again = client.get(table, "p", "r").json
    assert (again["n"], again["b"]) == (1, "5")


def test_prefer(client: Client, table: str):
    body = {"PartitionKey": "p", "RowKey": "1"}
    done = client.send("POST", table, body=body, headers={"Prefer": "return-no-content"})
    assert (done.status, done.body) == (204, b"")
    assert done.headers["preference-applied"] == "return-no-content"
    assert done.headers["dataserviceversion"] == "3.0;"
    assert done.headers["dataserviceid"] == done.headers["location"]
    assert done.headers["etag"]
    body["RowKey"] = "2"
    done = client.send("POST", table + "()", body=body, headers={"Prefer": "return-content"})
    assert (done.status, done.json["RowKey"]) == (201, "2")
    assert done.headers["preference-applied"] == "return-content"
    changed = client.send(
        "PUT", entity_path(table, "p", "2"), body={}, headers={"Prefer": "return-content"}
    )
    assert (changed.status, changed.body) == (204, b"")
    assert "preference-applied" not in changed.headers
    assert changed.headers["dataserviceversion"] == "1.0;"


def test_replies_have_the_headers_of_the_service(client: Client, table: str):
    client.insert(table, "p", "r")
    found = client.get(table, "p", "r")
    assert found.headers["cache-control"] == "no-cache"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["x-ms-version"] == "2019-02-02"
    assert "x-ms-request-id" in found.headers
    missing = client.get(table, "p", "none")
    assert "x-ms-error-code" not in missing.headers
    assert missing.headers["content-type"].startswith("application/json;odata=minimalmetadata")
    assert f"RequestId:{missing.headers['x-ms-request-id']}\nTime:" in missing.message


# Queries -----------------------------------------------------------------------------------------


def _fill(client: Client, table: str, partitions: str = "ab", rows: int = 5) -> None:
    for pk in partitions:
        for n in range(rows):
            client.insert(table, pk, f"{n:03}", n=n, even=n % 2 == 0, name=f"name'{n}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 10),
        ("PartitionKey eq 'a'", 5),
        ("PartitionKey eq 'a' and RowKey eq '002'", 1),
        ("PartitionKey eq 'a' and RowKey ge '002' and RowKey lt '004'", 2),
        ("n gt 2", 4),
        ("n gt 2L", 4),
        ("n gt 2.5", 4),
        ("2 lt n", 4),
        ("not (n gt 2)", 6),
        ("not n gt 2", 6),
        ("even", 6),
        ("not even", 4),
        ("even eq true and n ne 0", 4),
        ("name eq 'name''3'", 2),
        ("n eq '3'", 0),
        ("missing eq 3", 0),
        ("missing ne 3", 0),
        ("not (missing eq 3)", 10),
        ("Timestamp gt datetime'2020-01-01T00:00:00Z'", 10),
        ("(PartitionKey eq 'a' and RowKey eq '001') or (PartitionKey eq 'b' and n eq 2)", 2),
    ],
)
def test_filters(client: Client, table: str, text: str, expected: int):
    _fill(client, table)
    found = client.filtered(table, text)
    assert found.status == 200
    assert len(found.json["value"]) == expected
    assert "x-ms-continuation-nextpartitionkey" not in found.headers


def _all_pages(client: Client, table: str, text: str, more: str) -> list[list[tuple[str, str]]]:
    pages = []
    tokens = ""
    while True:
        page = client.filtered(table, text, "&".join(filter(None, (more, tokens))))
        assert page.status == 200
        pages.append([(e["PartitionKey"], e["RowKey"]) for e in page.json["value"]])
        partition = page.headers.get("x-ms-continuation-nextpartitionkey")
        if partition is None:
            return pages
        row = page.headers["x-ms-continuation-nextrowkey"]
        tokens = f"NextPartitionKey={partition}&NextRowKey={row}"


def test_pages(client: Client, table: str):
    _fill(client, table, partitions="a'é", rows=5)
    pages = _all_pages(client, table, "", "$top=4")
    assert [len(page) for page in pages] == [4, 4, 4, 3]
    found = [key for page in pages for key in page]
    assert found == sorted(found)
    assert [len(page) for page in _all_pages(client, table, "n ge 0", "$top=5")] == [5, 5, 5]


def test_projection(client: Client, table: str):
    _fill(client, table, rows=1)
    found = client.filtered(table, "PartitionKey eq 'a'", "$select=n,RowKey,missing").json
    assert found["odata.metadata"].endswith(f"#{table}&$select=n,RowKey,missing")
    (entity,) = found["value"]
    assert set(entity) == {"odata.etag", "n", "RowKey"}
    single = client.get(table, "a", "000", query="$select=name")
    assert set(single.json) == {"odata.metadata", "odata.etag", "name"}
    assert "PartitionKey" in client.get(table, "a", "000", query="$select=*").json


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("$filter=n%20gt", 400, "InvalidInput"),
        ("$filter=n%20=%203", 400, "InvalidInput"),
        ("$filter=%27", 400, "InvalidInput"),
        ("$filter=" + "(" * 500, 400, "InvalidInput"),
        ("$filter=" + quote(" or ".join(["n eq 1"] * 300)), 400, "InvalidInput"),
        ("$filter=startswith(n,%27a%27)", 501, "NotImplemented"),
        ("$orderby=n", 501, "NotImplemented"),
        ("$skip=1", 501, "NotImplemented"),
        ("$top=0", 400, "InvalidInput"),
        ("$top=1001", 400, "InvalidInput"),
        ("$top=x", 400, "InvalidInput"),
        ("$select=a,,b", 400, "InvalidInput"),
        ("NextPartitionKey=x", 400, "InvalidInput"),
        ("NextPartitionKey=1!4!YWJj&NextRowKey=x", 400, "InvalidInput"),
        ("timeout=x", 400, "InvalidQueryParameterValue"),
    ],
)
def test_queries_that_are_refused(client: Client, table: str, query: str, status: int, code: str):
    refused = client.send("GET", f"{table}()", query=query)
    assert (refused.status, refused.code) == (status, code)
    assert client.filtered(table).status == 200


def test_a_filter_that_is_wrong_says_where(client: Client, table: str):
    assert "position 5" in client.filtered(table, "n gt ").message


# Bad input ---------------------------------------------------------------------------------------

_large = {f"p{n:02}": "x" * 32768 for n in range(16)}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({f"p{n}": 1 for n in range(253)}, "TooManyProperties"),
        ({"x" * 256: 1}, "PropertyNameTooLong"),
        ({"a-b": 1}, "PropertyNameInvalid"),
        ({"x": "x" * 32769}, "PropertyValueTooLarge"),
        ({"x@odata.type": "Edm.Binary", "x": base64.b64encode(bytes(65537)).decode()},
         "PropertyValueTooLarge"),
        (_large, "EntityTooLarge"),
        ({"x": 10**400}, "InvalidInput"),
        ({"x@odata.type": "Edm.Int32", "x": 2**31}, "InvalidInput"),
        ({"x": {}}, "InvalidInput"),
        ({"x": [1]}, "InvalidInput"),
        ({"x@odata.type": "Edm.Int64", "x": "9223372036854775808"}, "InvalidInput"),
        ({"x@odata.type": "Edm.Int64", "x": "abc"}, "InvalidInput"),
        ({"x@odata.type": "Edm.Guid", "x": "abc"}, "InvalidInput"),
        ({"x@odata.type": "Edm.DateTime", "x": "abc"}, "InvalidInput"),
        ({"x@odata.type": "Edm.Binary", "x": "*"}, "InvalidInput"),
        ({"x@odata.type": "Edm.Stream", "x": "x"}, "InvalidInput"),
        ({"x@odata.type": {}, "x": "x"}, "InvalidInput"),
        ({"PartitionKey": None}, "PropertiesNeedValue"),
        ({"RowKey": None}, "PropertiesNeedValue"),
        ({"RowKey": 5}, "InvalidInput"),
        ({"PartitionKey": "a/b"}, "OutOfRangeInput"),
        ({"RowKey": "a\tb"}, "OutOfRangeInput"),
        ({"RowKey": "x" * 513}, "PropertyValueTooLarge"),
        ({"x": "\ud800"}, "InvalidInput"),
        ({"RowKey": "\ud800"}, "OutOfRangeInput"),
    ],
)  # fmt: skip
def test_entities_that_are_refused(
    client: Client, table: str, values: dict[str, object], code: str
):
    body = {"PartitionKey": "p", "RowKey": "r", **values}
    refused = client.send("POST", table, body=body)
    assert (refused.status, refused.code) == (400, code)
    missing = client.send("POST", "Nobody", body=body)
    assert (missing.status, missing.code) == (404, "TableNotFound")
    if "RowKey" not in values and "PartitionKey" not in values:
        for method in ("PUT", "MERGE"):
            refused = client.send(method, entity_path(table, "p", "r"), body=values)
            assert (refused.status, refused.code) == (400, code)
    assert client.filtered(table).json["value"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "InvalidInput"),
        (b"[]", 400, "InvalidInput"),
        (b"null", 400, "InvalidInput"),
        (b"\xff\xfe", 400, "InvalidInput"),
        (b'{"a":NaN}', 400, "InvalidInput"),
        (b'{"a":1,"a":2,"PartitionKey":"p","RowKey":"r"}', 400, "DuplicatePropertiesSpecified"),
        (b"[" * 100_000, 400, "InvalidInput"),
        (b'{"a":"' + b"x" * (4 * 1024 * 1024) + b'"}', 413, "RequestBodyTooLarge"),
    ],
)
def test_bodies_that_are_refused(client: Client, table: str, body: bytes, status: int, code: str):
    for method, path in (
        ("POST", table),
        ("PUT", entity_path(table, "p", "r")),
        ("POST", "Tables"),
    ):
        refused = client.send(method, path, body=body)
        if path == "Tables" and code == "DuplicatePropertiesSpecified":
            code = refused.code
        assert (refused.status, refused.code) == (status, code)
    assert client.filtered(table).json["value"] == []


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "application/atom+xml"}, 415, "AtomFormatNotSupported"),
        ({"Content-Type": "text/plain"}, 415, "MediaTypeNotSupported"),
        ({"Content-Type": "-"}, 415, "MediaTypeNotSupported"),
        ({"Accept": "application/atom+xml"}, 415, "AtomFormatNotSupported"),
        ({"Accept": "application/json;odata=verbose"}, 415, "JsonFormatNotSupported"),
        ({"X-HTTP-Method": "BREW"}, 400, "XMethodIncorrectValue"),
        ({"X-HTTP-Method": "MERGE, PATCH"}, 400, "XMethodIncorrectCount"),
    ],
)
def test_headers_that_are_refused(
    client: Client, table: str, headers: dict[str, str], status: int, code: str
):
    body = b'{"PartitionKey":"p","RowKey":"r"}'
    refused = client.send("POST", table, body=body, headers=headers)
    assert (refused.status, refused.code) == (status, code)
    assert client.filtered(table).json["value"] == []


@pytest.mark.parametrize(
    ("name", "code"), [("X-HTTP-Method", "XMethodIncorrectCount"), ("If-Match", "InvalidInput")]
)
def test_headers_that_came_twice(client: Client, table: str, name: str, code: str):
    client.insert(table, "p", "r", a=1)
    path = f"/{account}/{entity_path(table, 'p', 'r')}"
    headers = {
        "x-ms-version": client.version,
        "x-ms-date": formatdate(usegmt=True),
        "Content-Type": "application/json",
    }
    headers["Authorization"] = sign("POST", path, "", headers)
    connection = http.client.HTTPConnection("127.0.0.1", client.serving.port, timeout=30)
    connection.putrequest("POST", path)
    for each in (*headers.items(), ("Content-Length", "7"), (name, "*"), (name, "*")):
        connection.putheader(*each)
    connection.endheaders(b'{"a":2}')
    answer = connection.getresponse()
    assert answer.status == 400
    assert json.loads(answer.read())["odata.error"]["code"] == code
    connection.close()
    assert client.get(table, "p", "r").json["a"] == 1


def test_a_method_may_be_said_twice(client: Client, table: str):
    """As Java's azure-storage 8 does in its batches."""
    headers = {"X-HTTP-Method": "MERGE", "Content-Type": "application/json"}
    merged = client.send("MERGE", entity_path(table, "p", "r"), body={"a": 1}, headers=headers)
    assert merged.status == 204


def test_a_tunnelled_method_needs_post(client: Client, table: str):
    refused = client.send("PUT", entity_path(table, "p", "r"), headers={"X-HTTP-Method": "MERGE"})
    assert (refused.status, refused.code) == (400, "XMethodNotUsingPost")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "Tables", 405),
        ("POST", "T1x(PartitionKey='a',RowKey='b')", 405),
        ("HEAD", "Tables", 405),
        ("DELETE", "T1x", 405),
        ("GET", "$batch", 405),
        ("GET", "a/b", 400),
        ("GET", "T1x(PartitionKey='a')", 400),
        ("GET", "T1x(PartitionKey='a',RowKey='b'", 400),
        ("GET", "T1x(%FF)", 400),
        ("GET", "a-b", 400),
        ("GET", "a-b(PartitionKey='a',RowKey='b')", 400),
        ("GET", "", 400),
    ],
)
def test_requests_for_nothing(client: Client, table: str, method: str, path: str, status: int):
    refused = client.send(method, path)
    assert refused.status == status
    assert client.filtered(table).status == 200


def test_keys_in_the_body_must_be_those_of_the_url(client: Client, table: str):
    path = entity_path(table, "p", "r")
    for body in ({"PartitionKey": "q"}, {"RowKey": "s"}):
        refused = client.send("PUT", path, body=body)
        assert (refused.status, refused.code) == (400, "InvalidInput")
    done = client.send("PUT", path, body={"PartitionKey": "p", "RowKey": "r", "a": 1})
    assert done.status == 204
    assert client.get(table, "p", "r").json["a"] == 1


def test_merging_over_the_limits_is_refused_and_changes_nothing(client: Client, table: str):
    client.insert(table, "p", "r", **{f"p{n}": 1 for n in range(252)})
    refused = client.send("MERGE", entity_path(table, "p", "r"), body={"q": 1})
    assert (refused.status, refused.code) == (400, "TooManyProperties")
    assert "q" not in client.get(table, "p", "r").json


def test_a_nan_is_found_by_no_comparison_but_ne(client: Client, table: str):
    client.insert(table, "p", "r", **{"x@odata.type": "Edm.Double", "x": "NaN"})
    assert client.filtered(table, "x eq NaN").json["value"] == []
    assert len(client.filtered(table, "x ne 1.0").json["value"]) == 1
    (found,) = client.filtered(table).json["value"]
    assert math.isnan(float(found["x"]))


def test_json_that_is_escaped_is_understood(client: Client, table: str):
    raw = b'{"PartitionKey":"\\u0070","RowKey":"r","\\u0061":"\\ud83d\\ude00\\/"}'
    assert client.send("POST", table, body=raw).status == 201
    assert client.get(table, "p", "r").json["a"] == "\U0001f600/"
    assert json.loads(raw)["a"] == "\U0001f600/"
