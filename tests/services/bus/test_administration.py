"""Entities: created, updated, listed, deleted; what their properties may be; names."""

import pytest

from etagere.base.errors import Refused
from etagere.services.bus import keys
from etagere.services.bus.descriptions import (
    AuthorizationRule,
    EntityStatus,
    QueueDescription,
    SubscriptionDescription,
    Tier,
    TopicDescription,
    checked,
    day,
    forever,
    minute,
)
from etagere.services.bus.names import EntityKind, parse_address
from etagere.services.bus.rules import CorrelationRuleFilter, RuleDescription, SqlFilter

from .harness import complete, make_bus, message, refused_async, seconds

exists = "com.microsoft:entity-already-exists"
wrong = "com.microsoft:argument-error"
out_of_range = "com.microsoft:argument-out-of-range"
not_found = "amqp:not-found"


@pytest.fixture
async def bus():
    return await make_bus()


async def test_names_keep_their_case_and_compare_without_it(bus):
    info = await bus.queue("Orders/New")
    assert (info.path, info.description.name) == ("Orders/New", "Orders/New")
    await refused_async(bus.queue("orders/NEW"), exists)
    await refused_async(bus.topic("ORDERS/new"), exists)
    assert bus.broker.resolve("/oRDERs/new/").path == "Orders/New"
    assert (
        bus.broker.resolve("oRDERs/new/$DEADLETTERQUEUE").address == "Orders/New/$DeadLetterQueue"
    )


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("q", ("q", None, "")),
        ("/Q/", ("q", None, "")),
        ("a/b/c", ("a/b/c", None, "")),
        ("t/Subscriptions/S", ("t", "s", "")),
        ("a/b/subscriptions/s", ("a/b", "s", "")),
        ("q/$DeadLetterQueue", ("q", None, "$DeadLetterQueue")),
        ("q/$transfer/$deadletterqueue", ("q", None, "$Transfer/$DeadLetterQueue")),
        ("t/subscriptions/s/$deadletterqueue", ("t", "s", "$DeadLetterQueue")),
        ("subscriptions/s", ("subscriptions/s", None, "")),
        ("t/subscriptions", ("t/subscriptions", None, "")),
        ("", ("", None, "")),
    ],
)
def test_addresses(address, expected):
    parsed = parse_address(address)
    assert (parsed.entity, parsed.subscription, parsed.sub_queue.value) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * 261,
        "-a",
        "a-",
        ".a",
        "a/",
        "/a",
        "a b",
        "a//b",
        "ä",
        "a/subscriptions/b",
        "$a",
        "a\n",
    ],
)
async def test_names_that_are_refused(bus, name):
    await refused_async(bus.queue(name), wrong)
    await refused_async(bus.topic(name), wrong)
    await bus.topic("t")
    await refused_async(bus.subscription(name=name or "a/b"), wrong)


async def test_names_that_are_taken(bus):
    for name in ("txt/.-_123", "a", "0", "a" * 260, "a.b-c_d/e"):
        await bus.queue(name)
        assert bus.broker.resolve(name)
        await bus.broker.administration.delete(name)
    await bus.topic("t")
    await bus.subscription(name="a" * 50)
    await refused_async(bus.subscription(name="a" * 51), wrong)


async def test_defaults(bus):
    description = (await bus.queue()).description
    assert description.lock_duration == minute
    assert description.max_size_megabytes == 1024
    assert description.default_ttl == forever
    assert description.duplicate_window == 10 * minute
    assert description.max_delivery_count == 10
    assert description.auto_delete_on_idle == forever
    assert description.status is EntityStatus.active
    await bus.topic()
    assert (await bus.subscription()).description.dead_letter_on_filter_failure is True


ranges = [
    (QueueDescription, "lock_duration", seconds(4.9), out_of_range),
    (QueueDescription, "lock_duration", 25 * day, out_of_range),
    (SubscriptionDescription, "lock_duration", 5 * minute + 1, out_of_range),
    (QueueDescription, "max_size_megabytes", 1000, out_of_range),
    (QueueDescription, "max_size_megabytes", 10_240, out_of_range),
    (QueueDescription, "duplicate_window", seconds(19), out_of_range),
    (TopicDescription, "duplicate_window", 8 * day, out_of_range),
    (QueueDescription, "default_ttl", seconds(0.5), out_of_range),
    (TopicDescription, "auto_delete_on_idle", 4 * minute, out_of_range),
    (QueueDescription, "max_delivery_count", 0, out_of_range),
    (SubscriptionDescription, "max_delivery_count", 2**31, out_of_range),
    (QueueDescription, "user_metadata", "x" * 1025, out_of_range),
    (QueueDescription, "max_message_kilobytes", 1024, wrong),
    (TopicDescription, "status", EntityStatus.receive_disabled, wrong),
    (SubscriptionDescription, "status", EntityStatus.send_disabled, wrong),
]


@pytest.mark.parametrize(("kind", "field", "value", "code"), ranges)
def test_values_out_of_range(kind, field, value, code):
    with pytest.raises(Refused) as refused:
        checked(kind(name="n", **{field: value}), Tier.standard)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "properties",
    [
        {"lock_duration": seconds(5)},
        {"lock_duration": 5 * minute},
        {"max_size_megabytes": 5120},
        {"duplicate_window": seconds(20)},
        {"duplicate_window": 7 * day},
        {"default_ttl": seconds(1)},
        {"auto_delete_on_idle": 5 * minute},
        {"max_delivery_count": 2**31 - 1},
        {"user_metadata": "x" * 1024},
        {"max_message_kilobytes": 256},
    ],
)
def test_values_at_the_edge(properties):
    checked(QueueDescription(name="n", **properties), Tier.standard)


def test_tiers():
    for description in (
        TopicDescription(name="t"),
        SubscriptionDescription(name="s"),
        QueueDescription(name="q", requires_session=True),
        QueueDescription(name="q", requires_duplicate_detection=True),
        QueueDescription(name="q", forward_to="x"),
    ):
        with pytest.raises(Refused) as refused:
            checked(description, Tier.basic)
        assert refused.value.details["SubCode"] == "40301"
    with pytest.raises(Refused):
        checked(QueueDescription(name="q", default_ttl=15 * day), Tier.basic)
    checked(QueueDescription(name="q"), Tier.basic)
    for description in (
        QueueDescription(name="q", enable_partitioning=True),
        TopicDescription(name="q", enable_express=True),
        QueueDescription(name="q", max_message_kilobytes=1023),
    ):
        with pytest.raises(Refused):
            checked(description, Tier.premium)
    checked(
        QueueDescription(name="q", max_message_kilobytes=102_400, max_size_megabytes=81_920),
        Tier.premium,
    )


def test_authorization_rules():
    def rules(*names, rights=("Listen",)):
        made = tuple(
            AuthorizationRule(name=name, rights=rights, primary_key="a", secondary_key="b")
            for name in names
        )
        return QueueDescription(name="q", authorization_rules=made)

    checked(rules("a", "b", rights=("Manage", "Send", "Listen")), Tier.standard)
    for description in (
        rules("a", "A"),
        rules("a", rights=("Manage",)),
        rules("a", rights=()),
        rules("a", rights=("Read",)),
        rules(*(str(n) for n in range(13))),
    ):
        with pytest.raises(Refused):
            checked(description, Tier.standard)


async def test_the_size_of_messages_in_premium():
    bus = await make_bus(tier=Tier.premium)
    await bus.queue()
    await bus.queue("large", max_message_kilobytes=4096)
    assert bus.broker.resolve("q").message_bytes_max == 1024 * 1024
    assert bus.broker.resolve("large").message_bytes_max == 4096 * 1024
    big = message("x" * 3_000_000)
    await refused_async(bus.broker.send("q", [big]), "amqp:link:message-size-exceeded")
    await bus.broker.send("large", [big])
    await refused_async(
        bus.broker.send("large", [big, message()]), "amqp:link:message-size-exceeded"
    )
    receiver = await bus.receiver("large", credit=1)
    assert receiver.bodies == ["x" * 3_000_000]
    assert await bus.settle(receiver, receiver.deliveries[0], complete) is None


async def test_updates(bus):
    administration = bus.broker.administration
    info = await bus.queue("Q", user_metadata="old")
    await bus.pass_seconds(10)
    updated = await administration.update(
        QueueDescription(name="q", lock_duration=seconds(5), max_size_megabytes=2048)
    )
    assert updated.description.name == "Q"
    assert updated.description.user_metadata is None
    assert (updated.created_at, updated.updated_at) == (info.created_at, bus.clock.time)
    await bus.send("a")
    receiver = await bus.receiver(credit=1)
    assert receiver.deliveries[0].locked_until == bus.clock.time + seconds(5)
    for change, code in (
        ({"requires_session": True}, wrong),
        ({"requires_duplicate_detection": True}, wrong),
        ({"enable_partitioning": True}, wrong),
        ({"lock_duration": 25 * day}, out_of_range),
        ({"forward_to": "absent"}, not_found),
    ):
        properties = {"name": "q", "max_size_megabytes": 2048} | change
        await refused_async(administration.update(QueueDescription(**properties)), code)
    await refused_async(administration.update(QueueDescription(name="absent")), not_found)
    await refused_async(administration.update(TopicDescription(name="q")), not_found)
    for change in ({"max_size_megabytes": 1024}, {"enable_express": True}, {"forward_to": "q"}):
        other = await administration.update(QueueDescription(name="q", **change))
        assert [getattr(other.description, name) for name in change] == list(change.values())
    updated = await administration.update(updated.description)
    await bus.restart()
    assert bus.broker.administration.get("q").description == updated.description


async def test_lists(bus):
    administration = bus.broker.administration
    for name in ("b", "A", "c"):
        await bus.queue(name)
    await bus.topic("T2")
    await bus.topic("t1")
    for name in ("y", "X"):
        await bus.subscription("t1", name)

    def names(kind, **window):
        return [info.path for info in administration.list_entities(kind, **window)]

    assert names(EntityKind.queue, skip=0, top=100) == ["A", "b", "c"]
    assert names(EntityKind.queue, skip=1, top=1) == ["b"]
    assert names(EntityKind.topic, skip=0, top=100) == ["t1", "T2"]
    assert [i.path for i in administration.list_subscriptions("T1", skip=0, top=9)] == [
        "t1/Subscriptions/X",
        "t1/Subscriptions/y",
    ]
    with pytest.raises(Refused):
        administration.list_subscriptions("absent", skip=0, top=9)
    with pytest.raises(Refused):
        administration.list_subscriptions("a", skip=0, top=9)
    assert administration.get("t1").subscriptions == 2
    assert administration.get("t1").sql_filters == 2


async def test_deleting_leaves_nothing_behind(bus):
    administration = bus.broker.administration
    await bus.queue()
    await bus.topic()
    await bus.subscription()
    await bus.send(*(str(n) for n in range(1200)), to="t")
    await bus.send("a", message("x" * 100_000), message("s", at=10))
    await administration.delete("T/Subscriptions/S")
    await refused_async(administration.delete("t/subscriptions/s"), not_found)
    await administration.delete("t")
    await administration.delete("Q")
    await refused_async(administration.delete("q"), not_found)
    await bus.broker.idle()
    parts = bus.engine._rows._parts
    assert parts.keys() <= {keys.catalogue(bus.broker.namespace)}
    assert not any(parts.values())


async def test_what_was_not_swept_away_is_after_a_restart(bus):
    await bus.queue()
    await bus.send(*(str(n) for n in range(600)))
    bus.broker._core.closed = True  # the sweep stops where it is
    await bus.broker.administration.delete("q")
    await bus.broker.idle()
    assert len(bus.engine._rows._parts) == 2
    await bus.restart()
    await bus.broker.idle()
    assert not any(bus.engine._rows._parts.values())


async def test_counts_survive_a_restart(bus):
    await bus.queue()
    await bus.send("a", "b", "c", message("d", at=100))
    receiver = await bus.receiver(credit=2)
    from .harness import DeadLetter, Defer

    await bus.settle(receiver, receiver.deliveries[0], DeadLetter())
    await bus.settle(receiver, receiver.deliveries[1], Defer())
    before = bus.broker.administration.get("q")
    assert (before.counts.active, before.counts.dead_letter, before.counts.scheduled) == (2, 1, 1)
    await bus.restart()
    after = bus.broker.administration.get("q")
    assert (after.counts, after.size_bytes) == (before.counts, before.size_bytes)
    assert after.size_bytes > 0


async def test_many_changes_at_once(bus):
    import asyncio

    results = await asyncio.gather(*(bus.queue("same") for _ in range(5)), return_exceptions=True)
    assert len([one for one in results if not isinstance(one, Refused)]) == 1


async def test_entities_are_limited(bus, monkeypatch):
    monkeypatch.setattr("etagere.services.bus.administration.entities_max", {Tier.standard: 1})
    monkeypatch.setattr("etagere.services.bus.administration.subscriptions_max", 1)
    await bus.topic()
    await refused_async(bus.queue(), "amqp:resource-limit-exceeded")
    await bus.subscription()
    await refused_async(bus.subscription(name="more"), "amqp:resource-limit-exceeded")


async def test_rules_are_limited_by_their_kind(bus, monkeypatch):
    """Of all subscriptions of a topic together, however they come."""
    limited = "amqp:resource-limit-exceeded"
    module = "etagere.services.bus.administration"
    await bus.topic()
    await bus.subscription()
    await bus.subscription(name="other")
    administration = bus.broker.administration
    # A filter that is always true counts as an SQL one.
    monkeypatch.setattr(f"{module}.sql_rules_per_topic_max", 4)
    monkeypatch.setattr(f"{module}.correlation_rules_per_topic_max", 2)
    filters = {"sql": SqlFilter("a = 1"), "correlation": CorrelationRuleFilter(label="x")}

    def rule(kind, name):
        return RuleDescription(name=f"{kind}{name}", filter=filters[kind])

    for kind in filters:
        await administration.add_rule("t", "s", rule(kind, 1))
        await administration.add_rule("t", "other", rule(kind, 1))
        await refused_async(administration.add_rule("t", "s", rule(kind, 2)), limited)
        await refused_async(bus.subscription(name="more", rule=rule(kind, 2)), limited)
        await administration.remove_rule("t", "other", f"{kind}1")
        await administration.add_rule("t", "s", rule(kind, 2))
    changed = RuleDescription(name="sql1", filter=filters["correlation"])
    await refused_async(administration.update_rule("t", "s", changed), limited)
    await administration.update_rule("t", "s", rule("sql", 1))
    await bus.subscription(name="more")
