"""Records read what was written before: bytes that must never change their meaning."""

import msgspec

from etagere.services.bus import records
from etagere.services.bus.descriptions import QueueDescription, SubscriptionDescription
from etagere.services.bus.records import (
    EntityRecord,
    LogCounters,
    Rest,
    SessionRecord,
    StoredMessage,
    SubscriptionRecord,
)
from etagere.services.bus.rules import (
    CorrelationRuleFilter,
    RuleDescription,
    SqlAction,
    SqlFilter,
    typed,
)

whole = StoredMessage(
    b"tail",
    b"header",
    b"delivery",
    b"annotations",
    100,
    200,
    3,
    400,
    5,
    "session",
    600,
    "key",
    700,
    2,
    1,
    "source",
    Rest(1, 2, 3),
)

version_1 = {
    "messages": (
        (
            "01dc0011c4047461696cc406686561646572c40864656c6976657279c40b616e6e6f746174696f6e7364ccc803cd"
            "019005a773657373696f6ecd0258a36b6579cd02bc0201a6736f7572636593010203"
        ),
        whole,
    ),
    "counters": ("019801020304050607 08".replace(" ", ""), LogCounters(1, 2, 3, 4, 5, 6, 7, 8)),
    "sessions": ("019401020304", SessionRecord(1, 2, 3, 4)),
}


def test_messages_counters_and_sessions_of_version_1():
    for name, (raw, record) in version_1.items():
        codec = getattr(records, name)
        assert codec.encode(record).hex() == raw, name
        assert codec.decode(bytes.fromhex(raw)) == record


def test_a_message_written_before_its_last_fields_were_added():
    short = msgspec.msgpack.encode([b"t", b"h", b"d", b"a", 1, 2, 0, 0, 0, None, None])
    found = records.messages.decode(b"\x01" + short)
    assert (found.tail, found.size, found.rest, found.state) == (b"t", 1, None, 0)


def test_descriptions_of_version_1():
    raw = b"\x01" + msgspec.msgpack.encode(
        {
            "id": 7,
            "description": {"type": "queue", "name": "Q", "status": "SendDisabled"},
            "created_at": 1,
            "updated_at": 2,
        }
    )
    found = records.entities.decode(raw)
    assert found.description.name == "Q"
    assert found.description.status.value == "SendDisabled"
    assert found.description.max_delivery_count == 10


def test_everything_comes_back_as_it_was():
    import datetime as dt

    rule = RuleDescription(
        name="r",
        filter=SqlFilter(
            "a = @p",
            {
                "p": typed("x"),
                "i": typed(5),
                "f": typed(1.5),
                "b": typed(True),
                "t": typed(dt.datetime(2020, 1, 2, tzinfo=dt.UTC)),
                "d": typed(dt.timedelta(seconds=3)),
                "n": typed(None),
            },
        ),
        action=SqlAction("SET a = 1"),
        created_at=5,
    )
    for name, record in (
        ("rules", rule),
        ("rules", RuleDescription(filter=CorrelationRuleFilter(label="x"))),
        (
            "entities",
            EntityRecord(
                id=2**62, description=QueueDescription(name="q"), created_at=1, updated_at=2
            ),
        ),
        (
            "subscriptions",
            SubscriptionRecord(
                number=1,
                description=SubscriptionDescription(name="s"),
                created_at=1,
                updated_at=2,
            ),
        ),
    ):
        codec = getattr(records, name)
        assert codec.decode(codec.encode(record)) == record
    assert [value.plain() for value in rule.filter.parameters.values()] == [
        "x",
        5,
        1.5,
        True,
        dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
        dt.timedelta(seconds=3),
        None,
    ]
