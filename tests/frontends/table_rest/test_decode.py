"""JSON bodies, query options, media types and tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.table_rest import continuation, decode, media
from etagere.frontends.table_rest.media import Metadata
from etagere.services.table import filter_plan
from etagere.services.table.filter_parse import parse as parse_filter


def _refusal(call) -> str:
    with pytest.raises(Refused) as refusal:
        call()
    return refusal.value.code


def test_table_names():
    assert decode.table_name(b'{"TableName":"T","odata.metadata":"x"}') == "T"
    assert _refusal(lambda: decode.table_name(b"{}")) == "PropertiesNeedValue"
    assert _refusal(lambda: decode.table_name(b'{"TableName":5}')) == "InvalidInput"
    twice = b'{"TableName":"a","TableName":"b"}'
    assert _refusal(lambda: decode.table_name(twice)) == "DuplicatePropertiesSpecified"


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1000", 1000), ("007", 7)])
def test_top(text: str, number: int):
    assert decode.top({"$top": text}) == number
    assert decode.top({}) == 1000


@pytest.mark.parametrize("text", ["0", "1001", "-1", "", "x", "1.5", "\u0663", "9" * 5000])
def test_top_out_of_range(text: str):
    assert _refusal(lambda: decode.top({"$top": text})) == "InvalidInput"


def test_select():
    assert decode.select({}) is None
    assert decode.select({"$select": ""}) is None
    assert decode.select({"$select": "*"}) is None
    assert decode.select({"$select": "a,*"}) is None
    assert decode.select({"$select": "b, a,b"}) == ("b", "a")
    assert _refusal(lambda: decode.select({"$select": "a,,b"})) == "InvalidInput"


def test_filters():
    assert decode.condition({}) is None
    assert decode.condition({"$filter": " "}) is None
    assert decode.condition({"$filter": "Name eq 'a+b'"}) == parse_filter("Name eq 'a+b'")
    assert _refusal(lambda: decode.condition({"$filter": "a+b"})) == "InvalidInput"


def test_options_that_tables_do_not_have():
    decode.check_options({"$filter": "x", "unknown": "y"})
    for option in ("$orderby", "$skip", "$inlinecount", "$expand"):
        assert _refusal(lambda option=option: decode.check_options({option: "1"})) == (
            "NotImplemented"
        )


def test_continuation():
    assert decode.entities_begin({}) == filter_plan.position_first
    query = {
        "nextpartitionkey": continuation.encode("p"),
        "nextrowkey": continuation.encode("r"),
    }
    assert decode.entities_begin(query) == filter_plan.before("p", "r")
    del query["nextrowkey"]
    assert decode.entities_begin(query) == filter_plan.before("p", "")
    assert decode.tables_begin({"nexttablename": continuation.encode("abc")}) == "abc"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_tokens_come_back_and_need_no_escapes(text: str):
    from urllib.parse import quote

    token = continuation.encode(text)
    assert continuation.decode(token) == text
    assert quote(token, safe="!") == token


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "1!",
        "1!4!",
        "1!3!YWJ-",
        "2!4!YWJj",
        "1!4!YWJ!",
        "1!4!/w==",
        "1!4!_w--",
        "1!1!Y",
        "1!-1!",
    ],
)
def test_tokens_that_are_refused(token: str):
    assert _refusal(lambda: continuation.decode(token)) == "InvalidInput"


@given(st.text() | st.from_regex(r"1![0-9]{1,3}![A-Za-z0-9._-]*", fullmatch=True))
def test_any_token_is_read_or_refused(token: str):
    try:
        continuation.decode(token)
    except Refused:
        return


_new = "2019-02-02"


@pytest.mark.parametrize(
    ("accept", "level"),
    [
        (None, Metadata.MINIMAL),
        ("", Metadata.MINIMAL),
        ("*/*", Metadata.MINIMAL),
        ("application/json", Metadata.MINIMAL),
        ("application/json;odata=nometadata", Metadata.NONE),
        ("application/json; odata = fullmetadata ; q=1", Metadata.FULL),
        ("Application/JSON;ODATA=MinimalMetadata", Metadata.MINIMAL),
        ("application/atom+xml, application/json;odata=fullmetadata", Metadata.FULL),
    ],
)
def test_media_types(accept: str | None, level: Metadata):
    assert media.choose(accept, _new) is level


@pytest.mark.parametrize(
    ("accept", "version", "code"),
    [
        (None, "2013-08-15", "AtomFormatNotSupported"),
        ("application/atom+xml", _new, "AtomFormatNotSupported"),
        ("application/json;odata=verbose", _new, "JsonFormatNotSupported"),
        ("text/html", _new, "MediaTypeNotSupported"),
    ],
)
def test_media_types_that_are_refused(accept: str | None, version: str, code: str):
    assert _refusal(lambda: media.choose(accept, version)) == code
    assert media.choose_leniently(accept) is Metadata.MINIMAL


def test_content_types():
    media.check_json("application/json;odata=nometadata;charset=utf-8")
    assert _refusal(lambda: media.check_json("application/atom+xml")) == "AtomFormatNotSupported"
    for content_type in (None, "", "text/plain"):
        assert _refusal(lambda c=content_type: media.check_json(c)) == "MediaTypeNotSupported"
