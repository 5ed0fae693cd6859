"""Bodies, names, limits and merging of entities."""

import pytest

from etagere.base.errors import Refused
from etagere.services.table.entity import (
    check_size,
    encode,
    merge,
    properties_max,
    read_members,
    size_of,
)
from etagere.services.table.names import check_key, check_property_name, check_table_name


def _read(**members: object):
    return read_members(list(members.items()))


def _refusal(call) -> str:
    with pytest.raises(Refused) as refusal:
        call()
    return refusal.value.code


def test_keys_and_system_properties_are_set_apart():
    body = read_members(
        [
            ("odata.metadata", "..."),
            ("odata.etag", "..."),
            ("PartitionKey", "p"),
            ("PartitionKey@odata.type", "Edm.String"),
            ("RowKey", ""),
            ("Timestamp@odata.type", "Edm.DateTime"),
            ("Timestamp", "whatever"),
            ("Age", 5),
        ]
    )
    assert (body.partition_key, body.row_key) == ("p", "")
    assert body.properties == {"Age": 5}


def test_annotations_may_precede_or_follow():
    a = read_members([("n@odata.type", "Edm.Int64"), ("n", "5")])
    b = read_members([("n", "5"), ("n@odata.type", "Edm.Int64")])
    assert a.properties == b.properties == {"n@odata.type": "Edm.Int64", "n": "5"}
    assert list(b.properties) == ["n@odata.type", "n"]


def test_null_properties_are_not_kept():
    assert _read(a=None, b=1).properties == {"b": 1}
    assert read_members([("a@odata.type", "Edm.Int64"), ("a", None)]).properties == {}
    assert read_members([("a@odata.type", "Edm.Int64")]).properties == {}
    assert _read(PartitionKey=None).partition_key is None


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ([("a", 1), ("a", 2)], "DuplicatePropertiesSpecified"),
        ([("PartitionKey", "a"), ("PartitionKey", "a")], "DuplicatePropertiesSpecified"),
        ([("a@odata.type", "Edm.Int64"), ("a@odata.type", "Edm.Int64"), ("a", "1")],
         "DuplicatePropertiesSpecified"),
        ([("PartitionKey", 5)], "InvalidInput"),
        ([("RowKey", "5"), ("RowKey@odata.type", "Edm.Int64")], "InvalidInput"),
        ([("a-b", 1)], "PropertyNameInvalid"),
        ([("", 1)], "PropertyNameInvalid"),
        ([("1a", 1)], "PropertyNameInvalid"),
        ([("a b", 1)], "PropertyNameInvalid"),
        ([("a.b", 1)], "PropertyNameInvalid"),
        ([("a@b", 1)], "PropertyNameInvalid"),
        ([("a" * 256, 1)], "PropertyNameTooLong"),
        ([(f"p{n}", 1) for n in range(253)], "TooManyProperties"),
        ([("a", {"b": 1})], "InvalidInput"),
        ([("a", "x" * 32769)], "PropertyValueTooLarge"),
    ],
)  # fmt: skip
def test_bodies_that_are_refused(members: list[tuple[str, object]], code: str):
    assert _refusal(lambda: read_members(members)) == code


def test_limits_are_inclusive():
    assert len(read_members([(f"p{n}", 1) for n in range(properties_max)]).properties) == 252
    nulls: list[tuple[str, object]] = [(f"n{n}", None) for n in range(10)]
    read_members([*((f"p{n}", 1) for n in range(properties_max)), *nulls])
    check_property_name("a" * 255)


@pytest.mark.parametrize("name", ["a", "_", "_1", "Été", "名前", "a1", "ﬁ", "x\u200d"])
def test_property_names(name: str):
    check_property_name(name)


@pytest.mark.parametrize("name", ["abc", "Table1", "A23", "a" * 63])
def test_table_names(name: str):
    check_table_name(name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "InvalidResourceName"),
        ("1abc", "InvalidResourceName"),
        ("a-b", "InvalidResourceName"),
        ("a_b", "InvalidResourceName"),
        ("été", "InvalidResourceName"),
        ("Tables", "InvalidResourceName"),
        ("tables", "InvalidResourceName"),
        ("abc\n", "InvalidResourceName"),
        ("ab", "OutOfRangeInput"),
        ("a" * 64, "OutOfRangeInput"),
    ],
)
def test_table_names_that_are_refused(name: str, code: str):
    assert _refusal(lambda: check_table_name(name)) == code


@pytest.mark.parametrize("key", ["", " ", "'", "''", "é", "a,b()", "%2F", "\U0001f600", "k" * 512])
def test_keys(key: str):
    check_key(key)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        *((char, "OutOfRangeInput") for char in "/\\#?\0\x1f\t\n\x7f\x9f\ud800"),
        ("k" * 513, "PropertyValueTooLarge"),
        ("\U0001f600" * 257, "PropertyValueTooLarge"),
    ],
)
def test_keys_that_are_refused(key: str, code: str):
    assert _refusal(lambda: check_key(key)) == code


def test_merging_replaces_and_adds_and_removes_nothing():
    old = read_members([("a", 1), ("n@odata.type", "Edm.Int64"), ("n", "5"), ("z", "z")]).properties
    new = read_members([("n", "text"), ("a@odata.type", "Edm.Int64"), ("a", "7"), ("b", True)])
    assert merge(old, new.properties) == {
        "z": "z",
        "n": "text",
        "a@odata.type": "Edm.Int64",
        "a": "7",
        "b": True,
    }
    assert old["a"] == 1


def test_merging_keeps_the_limit_on_properties():
    old = read_members([(f"p{n}", 1) for n in range(252)]).properties
    assert len(merge(old, {"p0": 2})) == 252
    assert _refusal(lambda: merge(old, {"q": 1})) == "TooManyProperties"


def test_an_annotation_counts_for_nothing_in_the_limit():
    members = [(f"p{n}", "1") for n in range(252)]
    members += [(f"p{n}@odata.type", "Edm.Int64") for n in range(252)]
    old = read_members(members).properties
    assert len(merge(old, old)) == 504


def test_size_is_the_services_own_measure():
    own = read_members(
        [
            ("s", "ab"),
            ("i", 1),
            ("d", 1.5),
            ("t", True),
            ("l@odata.type", "Edm.Int64"),
            ("l", "1"),
            ("g@odata.type", "Edm.Guid"),
            ("g", "c9da6455-213d-42c9-9a79-3e9149a57833"),
            ("b@odata.type", "Edm.Binary"),
            ("b", "AAA="),
        ]
    ).properties
    values = (4 + 4) + 4 + 8 + 1 + 8 + 16 + (4 + 2)
    assert size_of("pk", "r", own) == 4 + 6 + 7 * 10 + values


def test_an_entity_of_a_mebibyte_is_too_large():
    # 15 strings of 64 KiB, then one that fills the rest.
    base = [(f"p{n:02}", "x" * 32768) for n in range(15)]
    room = 1024 * 1024 - size_of("p", "r", dict(base)) - 8 - 6 - 4
    fits = dict([*base, ("q00", "x" * (room // 2))])
    assert size_of("p", "r", fits) == 1024 * 1024
    check_size("p", "r", encode(fits))
    over = dict([*base, ("q00", "x" * (room // 2 + 1))])
    assert _refusal(lambda: check_size("p", "r", encode(over))) == "EntityTooLarge"


def test_lone_surrogates_are_refused():
    assert _refusal(lambda: encode({"a": "\ud800"})) == "InvalidInput"
