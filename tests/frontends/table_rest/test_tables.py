"""Tables, their access policies and the service's properties, over a socket."""

import xml.etree.ElementTree as ET

import pytest

from .serving import Client


def _policies(count: int) -> bytes:
    inner = "".join(
        f"<SignedIdentifier><Id>id{n}</Id><AccessPolicy><Start>2020-01-01T00:00:00Z</Start>"
        f"<Expiry>2030-01-01</Expiry><Permission>raud</Permission></AccessPolicy>"
        f"</SignedIdentifier>"
        for n in range(count)
    )
    return f"<?xml version='1.0'?><SignedIdentifiers>{inner}</SignedIdentifiers>".encode()


_xml = {"Content-Type": "application/xml", "Accept": "application/xml"}


def test_create_answers_with_the_table_or_without(client: Client):
    made = client.send("POST", "Tables", body={"TableName": "Made1"})
    assert made.status == 201
    assert made.json["TableName"] == "Made1"
    assert made.headers["location"] == f"{client.serving.url}/Tables('Made1')"
    assert made.headers["content-type"] == (
        "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
    )
    for preference, status in (("return-no-content", 204), ("return-content", 201)):
        name = f"Made{status}"
        made = client.send(
            "POST", "Tables", body={"TableName": name}, headers={"Prefer": preference}
        )
        assert made.status == status
        assert made.headers["preference-applied"] == preference
        assert made.headers["location"] == f"{client.serving.url}/Tables('{name}')"
        if status == 204:
            assert made.body == b""
            assert made.headers["dataserviceid"] == made.headers["location"]


def test_a_name_is_taken_in_any_case(client: Client, table: str):
    for name in (table, table.upper(), table.lower()):
        refused = client.send("POST", "Tables", body={"TableName": name})
        assert (refused.status, refused.code) == (409, "TableAlreadyExists")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a-b", "InvalidResourceName"),
        ("1abc", "InvalidResourceName"),
        ("tables", "InvalidResourceName"),
        ("", "InvalidResourceName"),
        ("ab", "OutOfRangeInput"),
        ("a" * 64, "OutOfRangeInput"),
    ],
)
def test_names_that_are_refused(client: Client, name: str, code: str):
    refused = client.send("POST", "Tables", body={"TableName": name})
    assert (refused.status, refused.code) == (400, code)


def test_single_tables(client: Client, table: str):
    found = client.send("GET", f"Tables('{table.upper()}')")
    assert (found.status, found.json["TableName"]) == (200, table)
    missing = client.send("GET", "Tables('Nobody')")
    assert (missing.status, missing.code) == (404, "ResourceNotFound")


def test_delete_frees_the_name_at_once(client: Client, table: str):
    client.insert(table, "p", "r")
    gone = client.send("DELETE", f"Tables('{table}')")
    assert (gone.status, gone.body) == (204, b"")
    again = client.send("DELETE", f"Tables('{table}')")
    assert (again.status, again.code) == (404, "ResourceNotFound")
    assert client.filtered(table).code == "TableNotFound"
    assert client.send("POST", "Tables", body={"TableName": table}).status == 201
    assert client.filtered(table).json["value"] == []


def test_listing_pages_and_filters(client: Client):
    for name in ("Listed1", "listed2", "Listed3"):
        client.send("POST", "Tables", body={"TableName": name})
    wanted = "TableName%20ge%20'Listed'%20and%20TableName%20lt%20'Listee'"
    found = client.send("GET", "Tables", query=f"$filter={wanted}")
    assert [each["TableName"] for each in found.json["value"]] == ["Listed1", "Listed3"]
    names: list[str] = []
    query = "$top=1"
    while True:
        page = client.send("GET", "Tables", query=query)
        assert len(page.json["value"]) <= 1
        names += [each["TableName"] for each in page.json["value"]]
        token = page.headers.get("x-ms-continuation-nexttablename")
        if token is None:
            break
        query = f"$top=1&NextTableName={token}"
    assert names == sorted(names, key=str.lower)
    assert {"Listed1", "listed2", "Listed3"} <= set(names)


def test_policies_are_kept(client: Client, table: str):
    assert client.send("GET", table, query="comp=acl").body.endswith(b"<SignedIdentifiers />")
    done = client.send("PUT", table, query="comp=acl", body=_policies(5), headers=_xml)
    assert (done.status, done.body) == (204, b"")
    found = client.send("GET", table, query="comp=acl", headers=_xml)
    root = ET.fromstring(found.body)
    assert [node.findtext("Id") for node in root] == [f"id{n}" for n in range(5)]
    assert root[0].findtext("AccessPolicy/Start") == "2020-01-01T00:00:00.0000000Z"
    assert root[0].findtext("AccessPolicy/Permission") == "raud"
    assert (
        client.send("PUT", table, query="comp=acl", body=_policies(0), headers=_xml).status == 204
    )
    assert client.send("GET", table, query="comp=acl").body.endswith(b"<SignedIdentifiers />")


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (_policies(6), _xml, 400, "InvalidXmlDocument"),
        (b"<Wrong/>", _xml, 400, "InvalidXmlDocument"),
        (_policies(1).replace(b">raud<", b">rl<"), _xml, 400, "InvalidXmlDocument"),
        (b"no xml", _xml, 400, "InvalidXmlDocument"),
        (_policies(1), {"Content-Type": "application/json"}, 415, "MediaTypeNotSupported"),
    ],
)
def test_policies_that_are_refused(
    client: Client, table: str, body: bytes, headers: dict[str, str], status: int, code: str
):
    refused = client.send("PUT", table, query="comp=acl", body=body, headers=headers)
    assert refused.status == status
    assert refused.headers["x-ms-error-code"] == code
    root = ET.fromstring(refused.body)
    namespace = "{http://schemas.microsoft.com/ado/2007/08/dataservices/metadata}"
    assert root.tag == f"{namespace}error"
    assert root.findtext(f"{namespace}code") == code


def test_policies_of_a_missing_table(client: Client):
    for method, body in (("GET", None), ("PUT", _policies(1))):
        refused = client.send(method, "Nobody", query="comp=acl", body=body, headers=_xml)
        assert (refused.status, refused.headers["x-ms-error-code"]) == (404, "ResourceNotFound")


def test_service_properties(client: Client):
    wanted = (
        b"<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example"
        b"</AllowedOrigins><AllowedMethods>GET,MERGE</AllowedMethods><MaxAgeInSeconds>5"
        b"</MaxAgeInSeconds><ExposedHeaders>x-ms-*</ExposedHeaders><AllowedHeaders>*"
        b"</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>"
    )
    query = "restype=service&comp=properties"
    assert client.send("PUT", "", query=query, body=wanted, headers=_xml).status == 202
    root = ET.fromstring(client.send("GET", "", query=query).body)
    assert root.findtext("Cors/CorsRule/AllowedOrigins") == "http://a.example"
    assert [node.tag for node in root] == ["Logging", "HourMetrics", "MinuteMetrics", "Cors"]
    preflight = client.send(
        "OPTIONS",
        "AnyTable",
        headers={"Origin": "http://a.example", "Access-Control-Request-Method": "MERGE"},
        signed=False,
    )
    assert preflight.status == 200
    assert preflight.headers["access-control-allow-origin"] == "http://a.example"
    empty = b"<StorageServiceProperties><Cors/></StorageServiceProperties>"
    assert client.send("PUT", "", query=query, body=empty, headers=_xml).status == 202
    refused = client.send("PUT", "", query=query, body=b"<x", headers=_xml)
    assert refused.status == 400
    assert b"m:error" in refused.body


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("{table}", "comp=acl"),
        ("", "restype=service&comp=properties"),
        ("", "restype=service&comp=stats"),
    ],
)
def test_headers_of_documents(client: Client, table: str, path: str, query: str):
    found = client.send(
        "GET", path.format(table=table), query=query, secondary=query.endswith("stats")
    )
    assert found.status == 200
    assert found.headers["content-type"] == "application/xml"
    assert found.headers["cache-control"] == "no-cache"
    assert found.headers["x-content-type-options"] == "nosniff"


def test_statistics_are_the_secondarys(client: Client):
    query = "restype=service&comp=stats"
    found = client.send("GET", "", query=query, secondary=True)
    assert found.status == 200
    assert b"<Status>live</Status>" in found.body
    assert client.send("GET", "", query=query).status == 400


def test_the_secondary_reads_and_does_not_write(client: Client, table: str):
    client.insert(table, "p", "r", a=1)
    assert client.get(table, "p", "r", secondary=True).json["a"] == 1
    body = {"PartitionKey": "p", "RowKey": "s"}
    refused = client.send("POST", table, body=body, secondary=True)
    assert refused.status == 403
    assert client.get(table, "p", "s").status == 404
