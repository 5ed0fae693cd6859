"""Which values each property type takes, and that what is kept is what was sent."""

import base64
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.services.table import edm
from etagere.services.table.entity import decode, encode, read_members

_taken = [
    # type, value sent, value kept, annotation kept
    ("Edm.String", "", "", None),
    ("Edm.String", "é\U0001f600\0", "é\U0001f600\0", None),
    ("Edm.String", "x" * 32768, "x" * 32768, None),
    ("Edm.Int32", 0, 0, None),
    ("Edm.Int32", 2**31 - 1, 2**31 - 1, None),
    ("Edm.Int32", -(2**31), -(2**31), None),
    ("Edm.Int32", "5", 5, None),
    ("Edm.Int64", "0", "0", "Edm.Int64"),
    ("Edm.Int64", "-0", "0", "Edm.Int64"),
    ("Edm.Int64", "0042", "42", "Edm.Int64"),
    ("Edm.Int64", 5, "5", "Edm.Int64"),
    ("Edm.Int64", "9223372036854775807", "9223372036854775807", "Edm.Int64"),
    ("Edm.Int64", "-9223372036854775808", "-9223372036854775808", "Edm.Int64"),
    ("Edm.Double", 1.5, 1.5, None),
    ("Edm.Double", 5, 5.0, None),
    ("Edm.Double", "5", 5.0, None),
    ("Edm.Double", "1e3", 1000.0, None),
    ("Edm.Double", -0.0, 0.0, None),
    ("Edm.Double", "NaN", "NaN", "Edm.Double"),
    ("Edm.Double", "Infinity", "Infinity", "Edm.Double"),
    ("Edm.Double", "-Infinity", "-Infinity", "Edm.Double"),
    ("Edm.Double", 5e-324, 5e-324, None),
    ("Edm.Double", 1.7976931348623157e308, 1.7976931348623157e308, None),
    ("Edm.Boolean", True, True, None),
    ("Edm.Boolean", "false", False, None),
    ("Edm.DateTime", "2021-06-17T17:32:46.777543Z", "2021-06-17T17:32:46.777543Z", "Edm.DateTime"),
    ("Edm.DateTime", "2021-06-17T17:32:46.0000001Z",
     "2021-06-17T17:32:46.0000001Z", "Edm.DateTime"),
    ("Edm.DateTime", "2021-06-17T17:32:46.5000000Z", "2021-06-17T17:32:46.5Z", "Edm.DateTime"),
    ("Edm.DateTime", "2021-06-17T17:32:46.000Z", "2021-06-17T17:32:46Z", "Edm.DateTime"),
    ("Edm.DateTime", "2021-06-17T17:32:46", "2021-06-17T17:32:46Z", "Edm.DateTime"),
    ("Edm.DateTime", "2021-06-17T17:32:46+02:00", "2021-06-17T15:32:46Z", "Edm.DateTime"),
    ("Edm.DateTime", "1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z", "Edm.DateTime"),
    ("Edm.DateTime", "9999-12-31T23:59:59.9999999Z",
     "9999-12-31T23:59:59.9999999Z", "Edm.DateTime"),
    ("Edm.Guid", "C9DA6455-213D-42C9-9A79-3E9149A57833", "c9da6455-213d-42c9-9a79-3e9149a57833",
     "Edm.Guid"),
    ("Edm.Binary", "", "", "Edm.Binary"),
    ("Edm.Binary", "AP+A", "AP+A", "Edm.Binary"),
    ("Edm.Binary", base64.b64encode(bytes(65536)).decode(),
     base64.b64encode(bytes(65536)).decode(), "Edm.Binary"),
]  # fmt: skip


@pytest.mark.parametrize(("type_name", "sent", "kept", "annotation"), _taken)
def test_values_that_a_type_takes(type_name: str, sent: object, kept: object, annotation):
    got, got_annotation = edm.settle(sent, type_name)
    assert got == kept
    assert type(got) is type(kept)
    assert got_annotation == annotation


def test_there_is_no_negative_zero():
    assert str(edm.settle_plain(-0.0)) == "0.0"


_refused = [
    ("Edm.String", 5), ("Edm.String", True),
    ("Edm.Int32", 2**31), ("Edm.Int32", -(2**31) - 1), ("Edm.Int32", 1.0), ("Edm.Int32", "x"),
    ("Edm.Int32", True), ("Edm.Int32", ""),
    ("Edm.Int64", "9223372036854775808"), ("Edm.Int64", "1.0"), ("Edm.Int64", "0x5"),
    ("Edm.Int64", "\u0665"), ("Edm.Int64", ""), ("Edm.Int64", "9" * 5000), ("Edm.Int64", True),
    ("Edm.Double", "nan"), ("Edm.Double", "INF"), ("Edm.Double", "1e999"), ("Edm.Double", "x"),
    ("Edm.Double", float("inf")), ("Edm.Double", True), ("Edm.Double", 10**400), ("Edm.Double", ""),
    ("Edm.Boolean", 1), ("Edm.Boolean", "yes"),
    ("Edm.DateTime", "yesterday"), ("Edm.DateTime", "2021-02-29T00:00:00Z"),
    ("Edm.DateTime", "1600-12-31T23:59:59Z"), ("Edm.DateTime", "2021-06-17T17:32:46.12345678Z"),
    ("Edm.DateTime", 5), ("Edm.DateTime", "2021-06-17T25:00:00Z"), ("Edm.DateTime", ""),
    ("Edm.Guid", "c9da6455"), ("Edm.Guid", ""), ("Edm.Guid", 5),
    ("Edm.Guid", "{c9da6455-213d-42c9-9a79-3e9149a57833}"),
    ("Edm.Binary", "a"), ("Edm.Binary", "a*=="), ("Edm.Binary", 5), ("Edm.Binary", "é"),
    ("Edm.Nothing", "x"), ("edm.string", "x"), (5, "x"), (None, {}), ("Edm.String", []),
]  # fmt: skip


@pytest.mark.parametrize(("type_name", "sent"), _refused)
def test_values_that_do_not_fit(type_name: object, sent: object):
    with pytest.raises(Refused) as refusal:
        edm.settle(sent, type_name)
    assert refusal.value.code == "InvalidInput"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 1_700_000_000_000, 2**64, 10**300])
def test_integers_wider_than_int32_are_doubles(value: int):
    kept = edm.settle_plain(value)
    assert type(kept) is float
    assert kept == float(value)


@pytest.mark.parametrize("value", [10**400, float("inf"), [], {}, [1]])
def test_plain_values_that_are_refused(value: object):
    with pytest.raises(Refused) as refusal:
        edm.settle_plain(value)
    assert refusal.value.code == "InvalidInput"


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("Edm.String", "x" * 32769),
        ("Edm.String", "\U0001f600" * 16385),
        ("Edm.Binary", base64.b64encode(bytes(65537)).decode()),
    ],
)
def test_values_that_are_too_large(type_name: str, value: str):
    with pytest.raises(Refused) as refusal:
        edm.settle(value, type_name)
    assert refusal.value.code == "PropertyValueTooLarge"


def test_strings_are_measured_in_utf16():
    assert edm.utf16_units("a\U0001f600é") == 4
    assert edm.settle("\U0001f600" * 16384, "Edm.String") == ("\U0001f600" * 16384, None)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True).filter(
            lambda name: name not in ("PartitionKey", "RowKey", "Timestamp")
        ),
        st.text(st.characters(exclude_categories=["Cs"]))
        | st.integers(-(2**31), 2**31 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.booleans(),
    )
)
def test_what_is_stored_comes_back(values: dict[str, object]):
    own = read_members(list(values.items())).properties
    back = decode(encode(own))
    assert back == values
    assert {name: type(value) for name, value in back.items()} == {
        name: type(value) for name, value in values.items()
    }


@given(
    st.datetimes(
        min_value=datetime(1601, 1, 1),  # noqa: DTZ001 - the zone is written below
        max_value=datetime(9999, 12, 31, 23, 59, 59),  # noqa: DTZ001
    ),
    st.integers(0, 9_999_999),
    st.integers(0, 7),
)
def test_a_moment_is_kept_in_one_form_however_it_is_written(
    moment: datetime, fraction: int, digits: int
):
    written = f"{fraction:07d}"[:digits]
    point = "." if written else ""
    whole = f"{moment.year:04}" + moment.strftime("-%m-%dT%H:%M:%S")
    kept = written.rstrip("0")
    expected = f"{whole}.{kept}Z" if kept else f"{whole}Z"
    assert edm.settle(f"{whole}{point}{written}Z", "Edm.DateTime") == (expected, "Edm.DateTime")
