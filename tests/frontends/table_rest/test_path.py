"""What paths name."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.table_rest import path as paths
from etagere.frontends.table_rest.encode import entity_segment
from etagere.frontends.table_rest.path import Kind, TablePath, parse


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", TablePath(Kind.SERVICE)),
        ("Tables", TablePath(Kind.TABLES)),
        ("tables", TablePath(Kind.TABLES)),
        ("Tables()", TablePath(Kind.TABLES)),
        ("Tables('T')", TablePath(Kind.TABLE, "T")),
        ("$batch", TablePath(Kind.BATCH)),
        ("People", TablePath(Kind.ENTITIES, "People")),
        ("People()", TablePath(Kind.ENTITIES, "People")),
        ("P(PartitionKey='a',RowKey='b')", TablePath(Kind.ENTITY, "P", "a", "b")),
        ("P(RowKey='b',PartitionKey='a')", TablePath(Kind.ENTITY, "P", "a", "b")),
        ("P(PartitionKey='',RowKey='')", TablePath(Kind.ENTITY, "P", "", "")),
        ("P(PartitionKey='it''s',RowKey='''')", TablePath(Kind.ENTITY, "P", "it's", "'")),
        ("P( PartitionKey='a', RowKey = 'b' )", TablePath(Kind.ENTITY, "P", "a", "b")),
        ("P(PartitionKey='(,)=',RowKey='a/b')", TablePath(Kind.ENTITY, "P", "(,)=", "a/b")),
    ],
)
def test_paths(path: str, expected: TablePath):
    assert parse(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "a/b", "P(", "P(x", "P('a')", "P(PartitionKey='a')", "Tables(x)", "Tables('a",
        "P(PartitionKey='a',PartitionKey='b')", "P(PartitionKey=a,RowKey=b)",
        "P(PartitionKey='a'b',RowKey='c')", "P(PartitionKey='a',RowKey='b')x", "Tables('a','b')",
    ],
)  # fmt: skip
def test_paths_that_name_nothing(path: str):
    with pytest.raises(Refused) as refusal:
        parse(path)
    assert refusal.value.code in ("InvalidUri", "InvalidInput")


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text())
def test_keys_come_back_from_the_urls_that_are_made_of_them(partition_key: str, row_key: str):
    from urllib.parse import unquote

    row_key = row_key.encode("utf-8", "ignore").decode()
    segment = entity_segment("Tab", partition_key, row_key)
    assert segment.isascii()
    assert parse(unquote(segment)) == TablePath(Kind.ENTITY, "Tab", partition_key, row_key)


@given(st.text(st.sampled_from("PartitionKeyRowKey='(),T$ \x00é")))
def test_any_path_is_read_or_refused(path: str):
    try:
        parse(path)
    except Refused:
        return


_pieces = st.sampled_from(
    ["People", "tables", "Tables", "$batch", "(", ")", "()", "PartitionKey", "RowKey", "=", "'",
     "''", ",", " ", "/", "é", "\n", "(PartitionKey='p',RowKey='r')", "PartitionKey='p',",
     "RowKey='a'", "(PartitionKey='", "',RowKey='", "')"]
)  # fmt: skip


@given(
    st.lists(_pieces, max_size=8).map("".join)
    | st.lists(_pieces, max_size=1).map(
        lambda some: "".join(some) + "(PartitionKey='p',RowKey='r')"
    )
)
@settings(max_examples=1000)
def test_the_short_way_finds_what_the_long_way_does(text: str):
    def outcome(read):
        try:
            return read(text)
        except Refused as refused:
            return refused.code, refused.message

    assert outcome(parse) == outcome(paths._parse_any)
