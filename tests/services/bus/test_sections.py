"""Reading and changing message sections: what is not changed stays byte for byte."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.protocols.amqp.decoding import decode
from etagere.protocols.amqp.encoding import encode
from etagere.protocols.amqp.values import Described, Int, Milliseconds, Symbol, UByte, ULong, Uuid
from etagere.services.bus.sections import AmqpSections

codec = AmqpSections()
body = b"\x00\x53\x75\xa0\x05hello"


def section(code, value):
    return encode(Described(ULong(code), value))


def tail(properties=None, application=None, rest=body):
    out = b""
    if properties is not None:
        out += section(0x73, properties)
    if application is not None:
        out += section(0x74, application)
    return out + rest


def test_sections_that_are_not_there():
    for nothing in (b"", body, tail([]), tail(None, {})):
        assert codec.properties(nothing).message_id is None
        assert codec.application_properties(nothing) == {}
    assert codec.properties_bytes(body) == 0
    assert codec.headers_bytes(body) == 0


def test_the_largest_property():
    assert codec.largest_property(body) == codec.largest_property(tail([], {})) == (0, 0)
    assert codec.largest_property(section(0x74, None) + body) == (0, 0)
    found = {"a": "x" * 300, "b": b"x" * 299, "name": 1, "ü" * 4: None, "map": {"k": "v"}}
    assert codec.largest_property(tail(["m"], found)) == (4, 300)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("m", "m"),
        (Uuid(UUID(int=5).bytes), "00000000-0000-0000-0000-000000000005"),
        (ULong(7), "7"),
        (b"\x01\xff", "01ff"),
        (None, None),
    ],
)
def test_ids_of_every_type(value, text):
    found = codec.properties(tail([value, b"me", "to", "subject", "reply", value]))
    assert (found.message_id, found.correlation_id) == (text, text)
    assert (found.to, found.subject, found.reply_to) == ("to", "subject", "reply")


def test_every_property_that_is_read():
    fields = [None] * 6 + [Symbol("text/plain"), None, None, None, "session", 3, "reply-session"]
    found = codec.properties(tail(fields))
    assert found.content_type == "text/plain"
    assert found.group_id == "session"
    assert found.reply_to_group_id == "reply-session"


def test_lengths():
    whole = tail(["x"], {"a": 1})
    first = len(section(0x73, ["x"]))
    assert codec.properties_bytes(whole) == first
    assert codec.headers_bytes(whole) == first + len(section(0x74, {"a": 1}))
    long = tail(["x" * 300])
    assert codec.properties_bytes(long) == len(long) - len(body)
    symbolic = encode(Described(Symbol("amqp:properties:list"), ["x"])) + body
    assert codec.properties_bytes(symbolic) == len(symbolic) - len(body)
    assert codec.properties(symbolic).message_id == "x"


def test_application_properties_as_expressions_see_them():
    found = codec.application_properties(
        tail(
            application={
                "u": Uuid(UUID(int=5).bytes),
                "t": Milliseconds(1500),
                "d": Described(Symbol("com.microsoft:timespan"), 10_000_000),
                "far": Milliseconds(2**62),
                "b": UByte(3),
                "s": "s",
                "n": None,
            }
        )
    )
    assert found == {
        "u": UUID(int=5),
        "t": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "d": timedelta(seconds=1),
        "far": None,
        "b": 3,
        "s": "s",
        "n": None,
    }


def test_changes_leave_everything_else_as_it_was():
    before = tail(
        ["m", None, None, None, None, None, Symbol("c"), None, Milliseconds(5)],
        {"keep": Int(7), "drop": 1, "change": UByte(1)},
    )
    after = codec.change(
        before,
        application={"change": "new", "add": True, "id": UUID(int=1)},
        removed=["drop", "absent"],
        properties={"subject": "s", "message_id": None, "content_type": "d"},
    )
    properties, at = decode(after)
    application, at = decode(after, at)
    assert properties.value == [
        None, None, None, "s", None, None, Symbol("d"), None, Milliseconds(5)
    ]  # fmt: skip
    assert type(properties.value[6]) is Symbol
    assert type(properties.value[8]) is Milliseconds
    assert application.value == {
        "keep": 7,
        "change": "new",
        "add": True,
        "id": Uuid(UUID(int=1).bytes),
    }
    assert type(application.value["keep"]) is Int
    assert after[at:] == body


def test_changes_make_sections_that_were_not_there():
    after = codec.change(body, application={"a": 1}, properties={"to": "x"})
    assert codec.properties(after).to == "x"
    assert codec.application_properties(after) == {"a": 1}
    assert after.endswith(body)
    assert codec.change(tail(["m"], {"a": 1}), removed=["a"]) == tail(["m"])
    assert codec.change(body) == body


names = st.text(max_size=5)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=5),
    st.floats(allow_nan=False),
)


@given(st.dictionaries(names, values), st.dictionaries(names, values), st.sets(names))
def test_changes_are_those_of_a_dictionary(before, changes, removed):
    found = codec.application_properties(
        codec.change(tail(["m"], before), application=changes, removed=removed)
    )
    expected = {key: value for key, value in before.items() if key not in removed} | changes
    assert found == expected


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=40).map(lambda b: b"\x00\x53\x73" + b)))
def test_any_bytes_are_read_or_refused(data):
    for read in (
        codec.properties_bytes,
        codec.headers_bytes,
        codec.largest_property,
        codec.properties,
        codec.application_properties,
        lambda tail: codec.change(tail, application={"a": 1}, properties={"to": "x"}),
    ):
        try:
            read(data)
        except Refused as refused:
            assert refused.code == "amqp:decode-error"  # noqa: PT017 - most bytes are refused


@given(st.integers(0, 200))
def test_cut_short(length):
    whole = tail(["m" * 20, None, "to"], {"a": 1, "b": "two" * 30})
    cut = whole[: min(length, len(whole) - len(body) - 1)]
    if cut and len(cut) not in (0, len(section(0x73, ["m" * 20, None, "to"]))):
        with pytest.raises(Refused):
            codec.headers_bytes(cut)
