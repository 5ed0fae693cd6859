"""Payloads at each level of metadata (Azure: 'Payload format for Table service operations')."""

import json

import pytest

from etagere.frontends.table_rest.encode import EntityWriter, TableWriter
from etagere.frontends.table_rest.errors import json_body, xml_body
from etagere.frontends.table_rest.media import Metadata
from etagere.services.table.entities import Stored
from etagere.services.table.entity import encode, read_members

_endpoint = "http://127.0.0.1:10002/acct/"
_stamp = 16239511667775430
_moment = "2021-06-17T17:32:46.777543Z"
_etag = "W/\"datetime'2021-06-17T17%3A32%3A46.777543Z'\""
_own = read_members(
    [
        ("Name", 'é"\\'),
        ("Big@odata.type", "Edm.Int64"),
        ("Big", "5"),
        ("Ratio", 1.0),
        ("Odd@odata.type", "Edm.Double"),
        ("Odd", "NaN"),
    ]
).properties
_entity = Stored("p'1", "r 2", _stamp, encode(_own))
_bare = Stored("p", "", _stamp, b"")
_segment = "T(PartitionKey='p''1',RowKey='r%202')"


def _writer(level: Metadata, select: tuple[str, ...] | None = None) -> EntityWriter:
    return EntityWriter(_endpoint, "acct", "T", level, select)


def test_minimal_metadata():
    assert json.loads(_writer(Metadata.MINIMAL).single(_entity)) == {
        "odata.metadata": f"{_endpoint}$metadata#T/@Element",
        "odata.etag": _etag,
        "PartitionKey": "p'1",
        "RowKey": "r 2",
        "Timestamp": _moment,
        **_own,
    }


def test_full_metadata():
    assert json.loads(_writer(Metadata.FULL).single(_entity)) == {
        "odata.metadata": f"{_endpoint}$metadata#T/@Element",
        "odata.type": "acct.T",
        "odata.id": _endpoint + _segment,
        "odata.etag": _etag,
        "odata.editLink": _segment,
        "PartitionKey": "p'1",
        "RowKey": "r 2",
        "Timestamp@odata.type": "Edm.DateTime",
        "Timestamp": _moment,
        **_own,
    }


def test_no_metadata():
    assert json.loads(_writer(Metadata.NONE).single(_entity)) == {
        "PartitionKey": "p'1",
        "RowKey": "r 2",
        "Timestamp": _moment,
        "Name": 'é"\\',
        "Big": "5",
        "Ratio": 1.0,
        "Odd": "NaN",
    }


def test_order_of_members():
    members = list(json.loads(_writer(Metadata.FULL).single(_entity)))
    assert members[:9] == [
        "odata.metadata", "odata.type", "odata.id", "odata.etag", "odata.editLink",
        "PartitionKey", "RowKey", "Timestamp@odata.type", "Timestamp",
    ]  # fmt: skip
    assert members[9:] == list(_own)


def test_a_double_keeps_its_point():
    assert b'"Ratio":1.0' in _writer(Metadata.NONE).single(_entity)


@pytest.mark.parametrize("level", list(Metadata))
def test_a_feed(level: Metadata):
    feed = json.loads(_writer(level).feed([_entity, _bare, _entity]))
    if level is Metadata.NONE:
        assert list(feed) == ["value"]
    else:
        assert feed["odata.metadata"] == f"{_endpoint}$metadata#T"
    assert [(e["PartitionKey"], e["RowKey"]) for e in feed["value"]] == [
        ("p'1", "r 2"),
        ("p", ""),
        ("p'1", "r 2"),
    ]
    assert json.loads(_writer(level).feed([]))["value"] == []


def test_projection():
    minimal = json.loads(_writer(Metadata.MINIMAL, ("Big", "RowKey", "Missing")).single(_entity))
    assert minimal == {
        "odata.metadata": f"{_endpoint}$metadata#T/@Element&$select=Big,RowKey,Missing",
        "odata.etag": _etag,
        "Big@odata.type": "Edm.Int64",
        "Big": "5",
        "RowKey": "r 2",
    }
    none = json.loads(_writer(Metadata.NONE, ("Big", "Timestamp")).feed([_entity]))
    assert none == {"value": [{"Big": "5", "Timestamp": _moment}]}
    full = json.loads(_writer(Metadata.FULL, ("Timestamp",)).feed([_entity]))
    assert full["odata.metadata"] == f"{_endpoint}$metadata#T&$select=Timestamp"
    assert full["value"][0]["Timestamp@odata.type"] == "Edm.DateTime"


@pytest.mark.parametrize("level", list(Metadata))
def test_a_projection_of_nothing_is_an_object_still(level: Metadata):
    single = json.loads(_writer(level, ("Missing", "Big@odata.type")).single(_entity))
    assert "Missing" not in single
    assert "Big@odata.type" not in single
    assert len(json.loads(_writer(level, ("Missing",)).feed([_entity, _bare]))["value"]) == 2


def test_tables():
    minimal = TableWriter(_endpoint, "acct", Metadata.MINIMAL)
    assert json.loads(minimal.feed(["A", "B"])) == {
        "odata.metadata": f"{_endpoint}$metadata#Tables",
        "value": [{"TableName": "A"}, {"TableName": "B"}],
    }
    assert json.loads(minimal.single("A")) == {
        "odata.metadata": f"{_endpoint}$metadata#Tables/@Element",
        "TableName": "A",
    }
    assert json.loads(TableWriter(_endpoint, "acct", Metadata.NONE).feed(["A"])) == {
        "value": [{"TableName": "A"}]
    }
    assert json.loads(TableWriter(_endpoint, "acct", Metadata.FULL).single("A")) == {
        "odata.metadata": f"{_endpoint}$metadata#Tables/@Element",
        "odata.type": "acct.Tables",
        "odata.id": f"{_endpoint}Tables('A')",
        "odata.editLink": "Tables('A')",
        "TableName": "A",
    }


def test_errors():
    assert json.loads(json_body("X", "text")) == {
        "odata.error": {"code": "X", "message": {"lang": "en-US", "value": "text"}}
    }
    in_batch = json.loads(json_body("X", "text", "7"))
    assert in_batch["odata.error"]["message"]["value"] == "7:text"
    assert b"<m:code>X</m:code>" in xml_body("X", "a<b")
    assert b"a&lt;b" in xml_body("X", "a<b")
