"""Whatever is sent to the HTTP runtime is answered, never with a 5xx, and the next message passes;
only Refused comes out of what reads headers, batches and paths."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

import pytest
from bus_admin.calling import Caller, calling
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.bus_rest.properties import (
    from_mapping,
    read_broker_properties,
    read_lock_token,
    read_value,
    write_value,
)
from etagere.frontends.bus_rest.service import batch_type, locate


@pytest.fixture(scope="module")
def call():
    with calling() as caller:
        for name in ("queue", "kept"):
            assert caller.put(name, "<QueueDescription/>").status == 201
        inside = "<RequiresSession>true</RequiresSession>"
        described = f"<QueueDescription>{inside}</QueueDescription>"
        assert caller.put("sessions", described).status == 201
        yield caller
        assert caller("POST", "/kept/messages", b"last").status == 201
        assert caller("DELETE", "/kept/messages/head", query="timeout=0").body == b"last"


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(
        ["", "x" * 200, "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
         "1.00:00:01", "00:00:00.5", "-1:00:00", "nan:00:00", "00:00:nan", "1e400:0:0", "0:0:1e400",
         "9" * 5000, "\ud800", 10**400, 1e308, -5, 0, 0.0001, 2**63, "\x00", "{1}", "\r\n"]
    ),
)  # fmt: skip
_keys = st.one_of(
    st.sampled_from(
        ["MessageId", "messageid", "CorrelationId", "SessionId", "Label", "ReplyTo", "To",
         "ReplyToSessionId", "PartitionKey", "ScheduledEnqueueTimeUtc", "TimeToLive",
         "TimeToLiveTimeSpan", "State", "LockToken"]
    ),
    st.text(max_size=5),
)  # fmt: skip
_properties = st.dictionaries(_keys, _scalars | st.lists(_scalars, max_size=2), max_size=4)
_json = st.recursive(
    _scalars,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(_keys, inside, max_size=3),
    max_leaves=6,
)
_items = st.one_of(
    _json,
    st.fixed_dictionaries(
        {"Body": _scalars},
        optional={"BrokerProperties": _properties | _json, "UserProperties": _properties | _json},
    ),
)


def _text_of(value: object) -> str:
    return json.dumps(value)


_header_texts = st.one_of(
    _properties.map(_text_of),
    _json.map(_text_of),
    st.text(st.characters(codec="latin-1"), max_size=20),
    st.sampled_from(
        ["{", "[" * 5000, '{"a":' * 5000, "NaN", "{}", '{"TimeToLive":NaN}', "9" * 5000]
    ),
)
_endless = "9" * 400


@settings(max_examples=400)
@given(_header_texts)
@example(f'{{"TimeToLive":{_endless}}}')
@example(f'{{"TimeToLive":-{_endless}}}')
@example(f'{{"TimeToLiveTimeSpan":"{_endless}.00:00:01"}}')
def test_broker_properties(text: str):
    with suppress(Refused):
        found = read_broker_properties(text)
        assert found.ttl_ms is None or 0 < found.ttl_ms < 2**32


@settings(max_examples=300)
@given(_json)
def test_broker_properties_in_a_batch(value: object):
    with suppress(Refused):
        from_mapping(value)


@settings(max_examples=300)
@given(st.text(max_size=40) | _scalars.map(str) | _scalars.map(lambda value: f'"{value}"'))
def test_values_of_properties(text: str):
    written = write_value(read_value(text))
    assert written is None or read_value(written) is not None


_plain = st.text(st.characters(codec="ascii", exclude_characters='"\\'), max_size=20)


@given(st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | _plain)
@example("Sun, 06 Nov 1994")
def test_values_come_back(value: object):
    written = write_value(value)
    assert written is not None
    found = read_value(written)
    assert found == value
    assert type(found) is type(value)


def test_times_and_ids_are_written():
    assert write_value(datetime(1994, 11, 6, 8, 49, 37, 5_000, tzinfo=UTC)) == (
        '"Sun, 06 Nov 1994 08:49:37 GMT"'
    )
    for moment, written in (
        (datetime.min.replace(tzinfo=UTC), '"Mon, 01 Jan 0001 00:00:00 GMT"'),
        (datetime.max.replace(tzinfo=UTC), '"Fri, 31 Dec 9999 23:59:59 GMT"'),
    ):
        assert write_value(moment) == written
    assert write_value(UUID(int=7)) == '"00000000-0000-0000-0000-000000000007"'


@given(st.text(max_size=40) | st.text("0123456789abcdefABCDEF-{}", max_size=50))
def test_lock_tokens(text: str):
    token = read_lock_token(text)
    assert token is None or len(token) == 16


@settings(max_examples=300)
@given(st.text(max_size=30) | st.text("/%2fFmesagMESAGhd ", max_size=40))
def test_paths(path: str):
    with suppress(Refused):
        locate("/" + path)


# ---- the handlers

_paths = st.one_of(
    st.sampled_from(
        ["/queue/messages", "/queue/messages", "/sessions/messages", "/none/messages",
         "/queue/$DeadLetterQueue/messages", "/messages", "/messages/messages", "/%ff/messages",
         "/queue/messages/head", "/sessions/messages/head", "/queue/$deadletterqueue/messages/head",
         "/queue/messages/1/00000000-0000-0000-0000-000000000000", "/queue/messages/x/y",
         "/queue/messages/1/%00", "/queue/messages/head/", "/queue//messages", "//messages",
         "/queue/messages/a/b/c", "/QUEUE/MESSAGES/HEAD", "/q/subscriptions/s/messages/head"]
    ),
    st.text("/%2fFmesaghdqu", max_size=24).map(lambda text: f"/queue{text}/messages"),
)  # fmt: skip
_queries = st.sampled_from(
    ["timeout=0", "timeout=0&api-version=2015-01", "timeout=-1", "timeout=x", "timeout=%ff",
     "timeout=²", "timeout=" + "9" * 20, "timeout="]
)  # fmt: skip
_headers = st.dictionaries(
    st.sampled_from(
        ["brokerproperties", "content-type", "priority", "x-thing", "customer", "authorization"]
    ),
    _header_texts
    | st.sampled_from(
        [batch_type, "text/plain", "é", '"text"', "5", "1e400", "nan", "true", "9" * 5000,
         '"Sun, 06 Nov 1994 08:49:37 GMT"', "x" * 70_000]
    ),
    max_size=4,
)  # fmt: skip
_bodies = st.binary(max_size=30) | st.lists(_items, max_size=3).map(lambda v: _text_of(v).encode())


def _ask(call: Caller, method: str, path: str, query: str, headers: dict[str, str], body: bytes):
    answer = call(method, path, body, query=query, headers=headers)
    assert answer.status < 500, answer.body
    for name in answer.headers:
        assert name.isascii()
        assert name.isprintable()
    return answer


@settings(max_examples=600)
@given(
    st.sampled_from(["POST", "POST", "DELETE", "PUT", "GET", "X"]),
    _paths,
    _queries,
    _headers,
    _bodies,
)
def test_handlers(call: Caller, method: str, path: str, query: str, headers, body: bytes):
    _ask(call, method, path, query, headers, body)


@settings(max_examples=400)
@given(headers=_headers, items=st.lists(_items, max_size=3))
@example(headers={"brokerproperties": r'{"Label":"\ud800"}'}, items=[])
@example(headers={"customer": "9" * 400}, items=[{"Body": "", "UserProperties": {"n": 2**63}}])
@example(headers={}, items=[{"Body": "", "UserProperties": {"half": "\ud800"}}])
def test_messages_pass_or_are_refused(call: Caller, headers: dict[str, str], items: list[object]):
    """Singly and in a batch; what was taken can be received, whatever its properties are."""
    single = _ask(call, "POST", "/queue/messages", "", headers, b"body")
    batch = _ask(
        call, "POST", "/queue/messages", "", {"content-type": batch_type}, _text_of(items).encode()
    )
    assert {single.status, batch.status} <= {201, 400, 403}
    while _ask(call, "POST", "/queue/messages/head", "timeout=0", {}, b"").status == 201:
        pass
    call.broker.administration.get("queue")
    assert _ask(call, "DELETE", "/queue", "", {}, b"").status == 200
    assert call.put("queue", "<QueueDescription/>").status == 201
