"""Topics, subscriptions and rules."""

import pytest

from etagere.services.bus.descriptions import EntityStatus
from etagere.services.bus.rules import (
    CorrelationRuleFilter,
    FalseFilter,
    RuleDescription,
    SqlAction,
    SqlFilter,
    TrueFilter,
    typed,
)

from .harness import body_of, codec, make_bus, message, properties_of, refused_async

sub = "t/subscriptions/s"


@pytest.fixture
async def bus():
    bus = await make_bus()
    await bus.topic()
    return bus


def sql(name, expression, action=None, **parameters):
    return RuleDescription(
        name=name,
        filter=SqlFilter(expression, {key: typed(value) for key, value in parameters.items()}),
        action=None if action is None else SqlAction(action),
    )


async def with_rules(bus, *rules):
    await bus.subscription(rule=RuleDescription(filter=FalseFilter()))
    for rule in rules:
        await bus.broker.administration.add_rule("t", "s", rule)


async def test_every_subscription_gets_its_own_copy(bus):
    await bus.subscription(name="one")
    await bus.send("a", to="t")
    await bus.subscription(name="two")
    await bus.send("b", to="t")
    one = await bus.drain("t/subscriptions/one")
    two = await bus.drain("t/Subscriptions/TWO")
    assert [body_of(x) for x in one] == ["a", "b"]
    assert [body_of(x) for x in two] == ["b"]
    assert [x.sequence_number for x in one + two] == [1, 2, 1]
    assert [x.enqueued_sequence_number for x in one + two] == [1, 2, 2]


async def test_a_message_that_nobody_wants_vanishes(bus):
    await bus.send("a", to="t")
    assert bus.broker.administration.get("t").size_bytes == 0


async def test_without_rules_nothing_comes(bus):
    await bus.subscription()
    await bus.broker.administration.remove_rule("t", "s", "$default")
    await bus.send("a", to="t")
    assert await bus.drain(sub) == []


async def test_rules_without_actions_give_one_copy(bus):
    await with_rules(bus, sql("a", "n > 1"), sql("b", "n > 2"), sql("c", "n > 100"))
    await bus.send(*(message(str(n), properties={"n": n}) for n in range(5)), to="t")
    assert [body_of(x) for x in await bus.drain(sub)] == ["2", "3", "4"]


async def test_each_rule_with_an_action_gives_a_copy_of_its_own(bus):
    await with_rules(
        bus,
        sql("plain", "n > 0"),
        sql("first", "n > 1", "SET n = n * 10; SET sys.Label = 'first'; REMOVE gone"),
        sql("second", "n > 1", "SET fresh = 'x'"),
    )
    await bus.send(
        message("m", subject="was", properties={"N": 2, "Gone": 1}),
        message("small", properties={"n": 1}),
        to="t",
    )
    found = await bus.drain(sub)
    assert [properties_of(x) for x in found] == [
        {"N": 2, "Gone": 1},
        {"n": 20, "RuleName": "first"},
        {"N": 2, "Gone": 1, "fresh": "x", "RuleName": "second"},
        {"n": 1},
    ]
    assert [codec.properties(x.tail).subject for x in found] == ["was", "first", "was", None]
    assert [x.enqueued_sequence_number for x in found] == [1, 1, 1, 2]


async def test_actions_change_one_subscription_only(bus):
    await bus.subscription(name="other")
    await with_rules(bus, sql("x", "1=1", "SET a = newid(); SET sys.MessageId = 'new'"))
    await bus.send(message("m", message_id="old", properties={"a": 1}), to="t")
    (other,) = await bus.drain("t/subscriptions/other")
    assert (properties_of(other), codec.properties(other.tail).message_id) == ({"a": 1}, "old")
    (changed,) = await bus.drain(sub)
    assert codec.properties(changed.tail).message_id == "new"
    assert properties_of(changed)["a"] != 1


async def test_system_properties_in_filters(bus):
    await with_rules(
        bus,
        sql(
            "all",
            "sys.Label = 's' AND sys.MessageId = 'm' AND sys.CorrelationId = 'c' AND sys.To = 't' "
            "AND sys.SessionId = 'x' AND sys.EnqueuedTimeUtc > @before AND sys.Size > 10 AND "
            "sys.SequenceNumber = 2 AND sys.DeliveryCount = 0 AND sys.State = 'Active'",
            before=__import__("datetime").datetime(2020, 1, 1),
        ),
    )
    await bus.send("no", to="t")
    await bus.send(
        message("yes", subject="s", message_id="m", correlation_id="c", to="t", session="x"), to="t"
    )
    assert [body_of(x) for x in await bus.drain(sub)] == ["yes"]


async def test_correlation_filters(bus):
    await with_rules(
        bus,
        RuleDescription(name="c", filter=CorrelationRuleFilter(label="red", message_id="1")),
        RuleDescription(name="p", filter=CorrelationRuleFilter(properties={"n": typed(5)})),
    )
    await bus.send(
        message("both", subject="red", message_id="1"),
        message("half", subject="red"),
        message("property", properties={"n": 5.0}),
        message("other case", properties={"N": 5}),
        to="t",
    )
    assert [body_of(x) for x in await bus.drain(sub)] == ["both", "property"]


async def test_filters_that_fail_dead_letter_the_message_if_so_configured(bus):
    rule = sql("$Default", "name * 2 = 4")
    await bus.subscription(rule=rule)
    await bus.subscription(name="quiet", rule=rule, dead_letter_on_filter_failure=False)
    await bus.subscription(name="action", rule=sql("r", "1=1", "SET x = 1 / 0"))
    await bus.send(message("m", properties={"name": "text"}), to="t")
    await bus.send(message("fine", properties={"name": 2}), to="t")
    assert [body_of(x) for x in await bus.drain(sub)] == ["fine"]
    (buried,) = await bus.drain(sub + "/$DeadLetterQueue")
    assert properties_of(buried)["DeadLetterReason"] == "FilterException"
    assert body_of(buried) == "m"
    assert bus.counts("t/subscriptions/quiet").all == 1
    assert bus.counts("t/subscriptions/action").dead_letter == 2


async def test_rules_are_managed(bus):
    administration = bus.broker.administration
    await bus.subscription()
    added = await administration.add_rule("T", "S", sql("Second", "a = 1"))
    assert added.created_at == bus.clock.time
    assert [rule.name for rule in administration.rules("t", "s")] == ["$Default", "Second"]
    await refused_async(
        administration.add_rule("t", "s", sql("second", "b = 1")),
        "com.microsoft:entity-already-exists",
    )
    for wrong in (sql("x", "a ="), sql("x", "1=1", "SET"), RuleDescription(name="")):
        await refused_async(
            administration.add_rule("t", "s", wrong), "com.microsoft:argument-error"
        )
    await administration.update_rule("t", "s", sql("SECOND", "a = 2"))
    assert administration.rules("t", "s")[1].name == "Second"
    assert administration.rules("t", "s")[1].filter.expression == "a = 2"
    await administration.remove_rule("t", "s", "$Default")
    await refused_async(administration.remove_rule("t", "s", "$Default"), "amqp:not-found")
    await refused_async(administration.add_rule("t", "x", sql("y", "1=1")), "amqp:not-found")
    await bus.restart()
    assert [rule.name for rule in bus.broker.administration.rules("t", "s")] == ["Second"]
    await bus.send(message("m", properties={"a": 2}), to="t")
    assert len(await bus.drain(sub)) == 1


async def test_a_default_rule_of_ones_own(bus):
    await bus.subscription(rule=sql("mine", "1=0"))
    assert [rule.name for rule in bus.broker.administration.rules("t", "s")] == ["mine"]
    await refused_async(
        bus.subscription(name="bad", rule=sql("mine", "nonsense nonsense")),
        "com.microsoft:argument-error",
    )
    await refused_async(bus.peek("t/subscriptions/bad"), "amqp:not-found")


async def test_a_disabled_subscription_still_collects(bus):
    await bus.subscription(status=EntityStatus.receive_disabled)
    await bus.send("a", to="t")
    assert bus.counts(sub).active == 1


async def test_deleting_a_subscription_removes_what_it_holds(bus):
    await bus.subscription()
    await bus.subscription(name="other")
    before = set(bus.engine._rows._parts[bus.broker.resolve("t").state.entity.part])
    await bus.subscription(name="third")
    await bus.send("a", message("x" * 100_000), to="t")
    await bus.broker.administration.delete("t/Subscriptions/third")
    await bus.drain(sub)
    await bus.drain("t/subscriptions/other")
    assert set(bus.engine._rows._parts[bus.broker.resolve("t").state.entity.part]) == before
    await bus.subscription(name="third")
    await bus.send("b", to="t")
    (found,) = await bus.drain("t/subscriptions/third")
    assert (body_of(found), found.sequence_number) == ("b", 1)


async def test_sessions_in_subscriptions(bus):
    await bus.subscription(requires_session=True)
    await bus.send(message("with", session="a"), message("without"), to="t")
    sink = await bus.session("a", sub, credit=5)
    assert sink.bodies == ["with"]
    (buried,) = await bus.drain(sub + "/$DeadLetterQueue")
    assert properties_of(buried)["DeadLetterReason"] == "Session ID is null."


async def test_a_topic_that_filters_before_publishing_refuses_what_nobody_wants(bus):
    await bus.topic("picky", filtering_messages_before_publishing=True)
    await bus.subscription("picky", rule=sql("r", "n = 1"))
    await refused_async(
        bus.broker.send("picky", [message()]), "com.microsoft:no-matching-subscription"
    )
    await bus.broker.send("picky", [message(properties={"n": 1})])
    assert bus.counts("picky/subscriptions/s").active == 1


async def test_all_copies_are_durable_together(bus):
    for n in range(20):
        await bus.subscription(name=f"s{n}")
    await bus.send("a", to="t")
    await bus.restart()
    assert [bus.counts(f"t/subscriptions/s{n}").active for n in range(20)] == [1] * 20
    assert TrueFilter() == TrueFilter()
