"""The parts of a batch's answer are what one operation after the other would be answered with."""

import itertools

import pytest

from etagere.frontends.table_rest import batch, writing
from etagere.frontends.table_rest.batch import Answer
from etagere.frontends.table_rest.media import Metadata
from etagere.frontends.table_rest.parts import PartWriter
from etagere.frontends.table_rest.path import Kind
from etagere.frontends.table_rest.writing import Manner
from etagere.services.table.entities import Change, Series, write_of

_endpoint = "http://127.0.0.1:10002/acct/"
_stamps = (
    16_239_511_667_775_431,
    16_239_511_667_775_430,
    16_239_511_660_000_000,
    17_000_000_000_000_001,
)
_keys = (("p", "r"), ("p", "it's é"), ("", ""), ("p", "2"))


def _manners() -> list[Manner]:
    json = {"content-type": "application/json"}
    version = "2019-02-02"
    inserts = [
        {**json, "accept": f"application/json;odata={level.value}"}
        | ({} if prefer is None else {"prefer": prefer})
        for level in Metadata
        for prefer in (None, "return-content", "return-no-content")
    ]
    found = [writing.manner_of("POST", Kind.ENTITIES, headers, version) for headers in inserts]
    found += [
        writing.manner_of(method, Kind.ENTITY, json | more, version)
        for method in ("PUT", "MERGE")
        for more in ({}, {"if-match": "*"})
    ]
    return [*found, writing.manner_of("DELETE", Kind.ENTITY, {"if-match": "*"}, version)]


@pytest.mark.parametrize("fragment", [b"", b'"a@odata.type":"Edm.Int64","a":"5"'])
@pytest.mark.parametrize("content_id", [None, "7"])
def test_parts(fragment: bytes, content_id: str | None):
    writer = PartWriter(_endpoint, "acct", "People")
    for manner, made, (partition_key, row_key) in itertools.product(_manners(), _stamps, _keys):
        stamp = 0 if manner.change is Change.DELETE else made
        write = write_of(
            manner.change, partition_key, row_key, if_match=manner.if_match, fragment=fragment
        )
        reply = writing.reply(manner, write, stamp, "People", _endpoint, "acct")
        expected = batch.encode_part(Answer(reply.status, reply.headers, reply.body, content_id))
        assert writer.write(manner, write, stamp, content_id) == expected


@pytest.mark.parametrize("fragments", [[b'"a":1', b'"b":"x"', b'"c":5'], [b'"a":1', b"", b'"c":5']])
@pytest.mark.parametrize("content_ids", [None, ["7", "", "9"]])
@pytest.mark.parametrize("row_keys", [["a", "b", "c"], ["", "it's \u00e9", '"']])
@pytest.mark.parametrize("first", [*_stamps, 16_239_511_669_999_999])
def test_parts_all_at_once(
    fragments: list[bytes], content_ids: list[str] | None, row_keys: list[str], first: int
):
    for manner, partition_key in itertools.product(_manners(), ("p", "it's \u00e9", "")):
        is_delete = manner.change is Change.DELETE
        stamps = [0, 0, 0] if is_delete else [first, first + 1, first + 2]
        series = Series(manner.change, partition_key, row_keys, manner.if_match, fragments)
        one_by_one = [
            PartWriter(_endpoint, "acct", "People").write(manner, write, stamp, content_id)
            for write, stamp, content_id in zip(
                series.writes, stamps, content_ids or [None] * 3, strict=True
            )
        ]
        writer = PartWriter(_endpoint, "acct", "People")
        written = writer.write_alike(manner, series, stamps, content_ids, b"--x\r\n")
        assert written == b"--x\r\n".join(one_by_one)
