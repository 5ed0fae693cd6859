"""The official emulator's configuration file, as it ships."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.services.bus import config_file
from etagere.services.bus.config_file import duration_of, read
from etagere.services.bus.descriptions import forever, minute

from .harness import body_of, make_bus, message, seconds

official = {
    "UserConfig": {
        "Namespaces": [
            {
                "Name": "sbemulatorns",
                "Queues": [
                    {
                        "Name": "queue.1",
                        "Properties": {
                            "DeadLetteringOnMessageExpiration": False,
                            "DefaultMessageTimeToLive": "PT1H",
                            "DuplicateDetectionHistoryTimeWindow": "PT20S",
                            "ForwardDeadLetteredMessagesTo": "",
                            "ForwardTo": "",
                            "LockDuration": "PT1M",
                            "MaxDeliveryCount": 3,
                            "RequiresDuplicateDetection": False,
                            "RequiresSession": False,
                        },
                    },
                    {"Name": "early", "Properties": {"ForwardTo": "late"}},
                    {"Name": "late"},
                ],
                "Topics": [
                    {
                        "Name": "topic.1",
                        "Properties": {
                            "DefaultMessageTimeToLive": "PT1H",
                            "DuplicateDetectionHistoryTimeWindow": "PT20S",
                            "RequiresDuplicateDetection": False,
                        },
                        "Subscriptions": [
                            {
                                "Name": "subscription.1",
                                "Properties": {
                                    "DeadLetteringOnMessageExpiration": False,
                                    "DefaultMessageTimeToLive": "PT1H",
                                    "LockDuration": "PT1M",
                                    "MaxDeliveryCount": 3,
                                    "ForwardDeadLetteredMessagesTo": "",
                                    "ForwardTo": "",
                                    "RequiresSession": False,
                                },
                                "Rules": [
                                    {
                                        "Name": "app-prop-filter-1",
                                        "Properties": {
                                            "FilterType": "Correlation",
                                            "CorrelationFilter": {
                                                "ContentType": "application/text",
                                                "CorrelationId": "id1",
                                                "Label": "subject1",
                                                "MessageId": "msgid1",
                                                "ReplyTo": "someQueue",
                                                "ReplyToSessionId": "sessionId",
                                                "SessionId": "session1",
                                                "To": "xyz",
                                            },
                                        },
                                    }
                                ],
                            },
                            {
                                "Name": "subscription.2",
                                "Rules": [
                                    {
                                        "Name": "user-prop-filter-1",
                                        "Properties": {
                                            "FilterType": "Correlation",
                                            "CorrelationFilter": {
                                                "Properties": {"prop1": "value1"}
                                            },
                                        },
                                    }
                                ],
                            },
                            {"Name": "subscription.3", "Properties": {"ForwardTo": "late"}},
                            {
                                "Name": "subscription.4",
                                "Rules": [
                                    {
                                        "Name": "sql-filter-1",
                                        "Properties": {
                                            "FilterType": "Sql",
                                            "SqlFilter": {
                                                "SqlExpression": "sys.MessageId = '123456' AND "
                                                "userProp1 = 'value1'"
                                            },
                                            "Action": {"SqlExpression": "SET sys.To = 'Entity'"},
                                        },
                                    },
                                    {"Name": "all", "Properties": {"FilterType": "True"}},
                                ],
                            },
                        ],
                    }
                ],
            }
        ],
        "Logging": {"Type": "File"},
    }
}


async def configured(bus, what=official, start=b""):
    for namespace in read(start + json.dumps(what).encode()):
        await config_file.apply(bus.broker.administration, namespace)


def lowered(value):
    """All names but those of messages' own properties, which a correlation filter has."""
    if isinstance(value, list):
        return [lowered(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key.lower(): one if key == "CorrelationFilter" else lowered(one)
        for key, one in value.items()
    }


@pytest.mark.parametrize(
    ("file", "start"), [(official, b""), (lowered(official), b"\xef\xbb\xbf")], ids=["as is", "odd"]
)
async def test_the_official_file(file, start):
    bus = await make_bus()
    await configured(bus, file, start)
    queue = bus.broker.administration.get("queue.1").description
    assert (queue.default_ttl, queue.lock_duration) == (seconds(3600), minute)
    assert (queue.max_delivery_count, queue.forward_to) == (3, None)
    await bus.send("forwarded", to="early")
    await bus.send(
        message("p", properties={"prop1": "value1"}),
        message("s", message_id="123456", properties={"userProp1": "value1"}),
        to="topic.1",
    )
    for path, expected in (
        ("topic.1/subscriptions/subscription.1", []),
        ("topic.1/subscriptions/subscription.2", ["p"]),
        ("topic.1/subscriptions/subscription.4", ["p", "s", "s"]),
        ("late", ["forwarded", "p", "s"]),
    ):
        assert [body_of(one) for one in await bus.drain(path)] == expected


async def test_what_is_there_is_left_alone():
    bus = await make_bus()
    await bus.queue("queue.1", max_delivery_count=7)
    await configured(bus)
    await configured(bus)
    assert bus.broker.administration.get("queue.1").description.max_delivery_count == 7
    assert len(bus.broker.administration.rules("topic.1", "subscription.4")) == 2


def one_queue(**properties):
    queues = [{"Name": "q", "Properties": properties}]
    return {"UserConfig": {"Namespaces": [{"Name": "n", "Queues": queues}]}}


def one_rule(**properties):
    rules = [{"Name": "r", "Properties": properties}]
    subscriptions = [{"Name": "s", "Rules": rules}]
    topics = [{"Name": "t", "Subscriptions": subscriptions}]
    return {"UserConfig": {"Namespaces": [{"Name": "n", "Topics": topics}]}}


@pytest.mark.parametrize(
    "wrong",
    [
        one_queue(Unknown=1),
        one_queue(LockDuration="1 minute"),
        one_queue(LockDuration=60),
        one_queue(LockDuration="PT1H"),
        one_queue(MaxDeliveryCount="3"),
        one_queue(MaxDeliveryCount=True),
        one_queue(RequiresSession=1),
        one_queue(Status="Sleeping"),
        one_queue(DeadLetteringOnFilterEvaluationExceptions=True),
        one_rule(FilterType="Other"),
        one_rule(),
        one_rule(FilterType="Sql"),
        one_rule(FilterType="Sql", SqlFilter={"SqlExpression": "a ="}),
        one_rule(FilterType="Correlation", CorrelationFilter={}),
        one_rule(FilterType="Correlation", CorrelationFilter={"Properties": {"a": []}}),
        one_rule(FilterType="Correlation", CorrelationFilter=5),
        one_rule(FilterType="True", Action={"SqlExpression": 5}),
    ],
)
async def test_files_that_are_refused(wrong):
    bus = await make_bus()
    with pytest.raises(Refused):
        await configured(bus, wrong)


@given(st.one_of(st.binary(max_size=50), st.text(max_size=50).map(str.encode)))
def test_any_bytes_are_read_or_refused(text):
    with contextlib.suppress(Refused):
        assert isinstance(read(text), list)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"[" * 100_000, b'{"UserConfig": 5}', b"\xff"])
def test_no_configuration(text):
    with pytest.raises(Refused):
        read(text)


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        ("PT1M", minute),
        ("P1DT2H3M4.5S", seconds(93_784.5)),
        ("PT0.0000001S", 1),
        ("P10675199DT2H48M5.4775807S", forever),
        ("P999999999D", forever),
    ],
)
def test_durations(text, ticks):
    assert duration_of("x", text) == ticks


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "PT1D", "P-1D", "PT1.S", None, 5])
def test_wrong_durations(text):
    with pytest.raises(Refused):
        duration_of("x", text)
