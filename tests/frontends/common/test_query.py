"""How the query of a request is read."""

import pytest

from etagere.frontends.common.message import read_query


@pytest.mark.parametrize(
    ("raw", "name", "value"),
    [
        ("prefix=a%20b%2Bc", "prefix", "a b+c"),
        ("Prefix=x&prefix=y", "prefix", "x"),
        # azure_storage_blob and object_store, which are Rust, escape as forms do
        ("comp=blobs&where=%22kind%22+%3D+%27a+b%27", "where", "\"kind\" = 'a b'"),
        ("prefix=a+b%2Bc%252B", "prefix", "a b+c%2B"),
        ("a+b=c", "a b", "c"),
    ],
)
def test_a_plus_is_a_space(raw: str, name: str, value: str) -> None:
    assert read_query(raw).by_name[name] == value


def test_who_verifies_a_signature_sees_the_plus() -> None:
    assert read_query("sig=a+b%2Fc&x=%2B").pairs == (("sig", "a+b/c"), ("x", "+"))
