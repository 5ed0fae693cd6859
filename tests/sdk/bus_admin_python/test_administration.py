"""azure-servicebus' administration client, unmodified, over HTTPS."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus.management import (
    ApiVersion,
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from etagere.services.bus.descriptions import Tier

from .conftest import Namespace, listener


@pytest.fixture
def client(namespace: Namespace) -> Iterator[ServiceBusAdministrationClient]:
    with ServiceBusAdministrationClient.from_connection_string(
        namespace.connection_string(), connection_verify=namespace.authority, retry_total=0
    ) as found:
        yield found


def test_a_queue_has_the_documented_defaults(client: ServiceBusAdministrationClient) -> None:
    made = client.create_queue("q1")
    found = client.get_queue("q1")
    for queue in (made, found):
        assert queue.name == "q1"
        assert queue.lock_duration == timedelta(minutes=1)
        assert queue.max_delivery_count == 10
        assert queue.max_size_in_megabytes == 1024
        assert queue.duplicate_detection_history_time_window == timedelta(minutes=10)
        assert queue.default_message_time_to_live == "P10675199DT2H48M5.4775807S" or (
            queue.default_message_time_to_live > timedelta(days=10_000_000)
        )
        assert queue.status == "Active"
        assert queue.requires_session is False


def test_every_property_of_a_queue(client: ServiceBusAdministrationClient) -> None:
    client.create_queue("target")
    rule = AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=["Manage", "Send", "Listen"],
        created_at_utc=datetime.now(UTC),
        modified_at_utc=datetime.now(UTC),
        key_name="testkey",
        primary_key="v1",
        secondary_key="v2",
    )
    client.create_queue(
        "q",
        authorization_rules=[rule],
        auto_delete_on_idle=timedelta(minutes=10),
        dead_lettering_on_message_expiration=True,
        default_message_time_to_live=timedelta(minutes=11),
        duplicate_detection_history_time_window=timedelta(minutes=12),
        enable_batched_operations=True,
        forward_dead_lettered_messages_to="target",
        lock_duration=timedelta(seconds=13),
        max_delivery_count=14,
        max_size_in_megabytes=3072,
        requires_duplicate_detection=True,
        requires_session=True,
        user_metadata="some <metadata> & more",
    )
    queue = client.get_queue("q")
    assert queue.auto_delete_on_idle == timedelta(minutes=10)
    assert queue.dead_lettering_on_message_expiration is True
    assert queue.default_message_time_to_live == timedelta(minutes=11)
    assert queue.duplicate_detection_history_time_window == timedelta(minutes=12)
    assert queue.forward_dead_lettered_messages_to.endswith("/target")
    assert queue.lock_duration == timedelta(seconds=13)
    assert queue.max_delivery_count == 14
    assert queue.max_size_in_megabytes == 3072
    assert queue.requires_duplicate_detection is True
    assert queue.requires_session is True
    assert queue.user_metadata == "some <metadata> & more"
    (found,) = queue.authorization_rules
    assert (found.key_name, found.primary_key, found.secondary_key) == ("testkey", "v1", "v2")


def test_queues_are_updated_and_refused(client: ServiceBusAdministrationClient) -> None:
    queue = client.create_queue("q")
    queue.lock_duration = timedelta(seconds=30)
    queue.max_delivery_count = 3
    client.update_queue(queue)
    assert client.get_queue("q").max_delivery_count == 3
    client.update_queue(client.get_queue("q"), user_metadata="kept")
    assert client.get_queue("q").user_metadata == "kept"
    queue.requires_session = True
    with pytest.raises(HttpResponseError):
        client.update_queue(queue)
    queue.requires_session = False
    queue.lock_duration = timedelta(days=25)
    with pytest.raises(HttpResponseError):
        client.update_queue(queue)
    queue.lock_duration = timedelta(seconds=13)
    queue.name = "dkfrgx"
    with pytest.raises(HttpResponseError):
        client.update_queue(queue)


def test_names(client: ServiceBusAdministrationClient) -> None:
    client.create_queue("txt/.-_123")
    assert client.get_queue("txt/.-_123").name == "txt/.-_123"
    assert [queue.name for queue in client.list_queues()] == ["txt/.-_123"]
    with pytest.raises(ResourceExistsError):
        client.create_queue("TXT/.-_123")
    with pytest.raises(ResourceExistsError):
        client.create_topic("txt/.-_123")
    client.delete_queue("txt/.-_123")
    with pytest.raises(ResourceNotFoundError):
        client.get_queue("txt/.-_123")
    with pytest.raises(ResourceNotFoundError):
        client.delete_queue("txt/.-_123")
    for wrong in ("a?b", "-", "x" * 261):
        with pytest.raises(HttpResponseError):
            client.create_queue(wrong)


def test_lists_are_paged(client: ServiceBusAdministrationClient) -> None:
    names = sorted(f"q{number:03d}" for number in range(205))
    for name in names:
        client.create_queue(name)
    assert [queue.name for queue in client.list_queues()] == names


def test_runtime_properties(client: ServiceBusAdministrationClient) -> None:
    client.create_queue("q")
    found = client.get_queue_runtime_properties("q")
    assert found.active_message_count == found.total_message_count == found.size_in_bytes == 0
    assert found.created_at_utc <= found.updated_at_utc
    assert found.accessed_at_utc is not None
    client.create_topic("t")
    assert client.get_topic_runtime_properties("t").subscription_count == 0


def test_topics_and_subscriptions(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("t", default_message_time_to_live=timedelta(minutes=5))
    client.create_subscription("t", "s", lock_duration=timedelta(seconds=42))
    assert client.get_topic("t").default_message_time_to_live == timedelta(minutes=5)
    found = client.get_subscription("t", "s")
    assert (found.name, found.lock_duration) == ("s", timedelta(seconds=42))
    found.max_delivery_count = 4
    client.update_subscription("t", found)
    assert [s.max_delivery_count for s in client.list_subscriptions("t")] == [4]
    assert [rule.name for rule in client.list_rules("t", "s")] == ["$Default"]
    with pytest.raises(ResourceExistsError):
        client.create_subscription("t", "s")
    with pytest.raises(ResourceNotFoundError):
        client.create_subscription("none", "s")
    client.delete_subscription("t", "s")
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription("t", "s")
    client.delete_topic("t")
    assert list(client.list_topics()) == []


def test_rules_with_typed_values(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("t")
    client.create_subscription("t", "s")
    moment = datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC)
    nowhere = datetime(2020, 7, 5, 11, 12, 13)  # noqa: DTZ001 - it comes back as it was
    parameters = {"@a": "x", "@b": 12, "@c": moment, "@d": timedelta(days=1, hours=3), "@e": True}
    action = SqlRuleAction(sql_expression="SET Priority = @param", parameters={"@param": "high"})
    client.create_rule(
        "t", "s", "sql", filter=SqlRuleFilter("Priority = @a", parameters=parameters), action=action
    )
    found = client.get_rule("t", "s", "sql")
    assert found.filter.sql_expression == "Priority = @a"
    assert found.filter.parameters["@a"] == "x"
    assert found.filter.parameters["@b"] == 12
    assert found.filter.parameters["@d"] == timedelta(days=1, hours=3)
    assert found.filter.parameters["@e"] is True
    assert found.action.sql_expression == "SET Priority = @param"
    assert found.action.parameters == {"@param": "high"}
    properties = {"key": "value", "n": 1, "when": moment, "span": timedelta(hours=2)}
    properties["then"] = nowhere
    client.create_rule(
        "t", "s", "correlation", filter=CorrelationRuleFilter(label="l", properties=properties)
    )
    correlation = client.get_rule("t", "s", "correlation").filter
    assert correlation.label == "l"
    assert list(correlation.properties) == list(properties)
    assert correlation.properties["span"] == timedelta(hours=2)
    assert correlation.properties["when"] == moment
    assert correlation.properties["then"] == nowhere
    client.create_rule("t", "s", "yes", filter=TrueRuleFilter())
    client.create_rule("t", "s", "no", filter=FalseRuleFilter())
    names = [rule.name for rule in client.list_rules("t", "s")]
    assert names == ["$Default", "correlation", "no", "sql", "yes"]
    with pytest.raises(ResourceExistsError):
        client.create_rule("t", "s", "sql", filter=TrueRuleFilter())
    with pytest.raises(HttpResponseError):
        client.create_rule("t", "s", "bad", filter=SqlRuleFilter("a = = b"))
    found.filter = SqlRuleFilter("Priority = 'low'")
    client.update_rule("t", "s", found)
    assert client.get_rule("t", "s", "sql").filter.sql_expression == "Priority = 'low'"
    client.delete_rule("t", "s", "sql")
    with pytest.raises(ResourceNotFoundError):
        client.get_rule("t", "s", "sql")


def test_the_namespace(client: ServiceBusAdministrationClient) -> None:
    found = client.get_namespace_properties()
    assert (found.name, found.messaging_sku) == ("sbemulatorns", "Standard")


def test_only_whoever_may_manage(namespace: Namespace) -> None:
    weak = namespace.connection_string(listener)
    with (
        ServiceBusAdministrationClient.from_connection_string(
            weak, connection_verify=namespace.authority, retry_total=0
        ) as client,
        pytest.raises(ClientAuthenticationError),
    ):
        client.create_queue("q")
    forged = namespace.connection_string().replace("SAS_KEY_VALUE", "OTHER")
    with (
        ServiceBusAdministrationClient.from_connection_string(
            forged, connection_verify=namespace.authority, retry_total=0
        ) as client,
        pytest.raises(ClientAuthenticationError),
    ):
        client.get_namespace_properties()


def test_a_partitioned_queue_is_shown_with_the_size_of_all_its_partitions(
    client: ServiceBusAdministrationClient,
) -> None:
    queue = client.create_queue("q", enable_partitioning=True, max_size_in_megabytes=4096)
    assert queue.max_size_in_megabytes == 16 * 4096
    queue.max_delivery_count = 3
    client.update_queue(queue)
    assert client.get_queue("q").max_size_in_megabytes == 16 * 4096
    client.update_queue(queue, max_size_in_megabytes=1024)
    assert client.get_queue("q").max_size_in_megabytes == 16 * 1024
    for megabytes in (1000, 16 * 1000, 16 * 6144):
        with pytest.raises(HttpResponseError):
            client.update_queue(queue, max_size_in_megabytes=megabytes)
    assert client.create_topic("t", enable_partitioning=True).support_ordering is False
    ordered = client.create_topic("ordered", enable_partitioning=True, support_ordering=True)
    assert ordered.support_ordering is True


def test_a_subscription_counts_as_used_from_its_creation(
    client: ServiceBusAdministrationClient,
) -> None:
    client.create_topic("t")
    made = client.create_subscription("t", "s")
    shown = client.get_subscription_runtime_properties("t", made.name)
    assert shown.accessed_at_utc == shown.created_at_utc
    assert client.get_topic_runtime_properties("t").accessed_at_utc.year == 1


def test_what_is_left_out_of_an_update_is_cleared(client: ServiceBusAdministrationClient) -> None:
    """An update is the whole description, as an object or as a mapping."""
    client.create_queue("target")
    client.create_queue("q", user_metadata="m", forward_to="target")
    queue = client.get_queue("q")
    queue.forward_to = None
    queue.user_metadata = None
    client.update_queue(queue)
    assert (client.get_queue("q").forward_to, client.get_queue("q").user_metadata) == (None, None)
    client.update_queue(dict(client.get_queue("q")), max_delivery_count=7)
    assert client.get_queue("q").max_delivery_count == 7
    client.create_topic("t", user_metadata="m")
    client.update_topic(dict(client.get_topic("t")), user_metadata="other")
    assert client.get_topic("t").user_metadata == "other"
    client.create_subscription("t", "s", forward_to="target", forward_dead_lettered_messages_to="q")
    subscription = client.get_subscription("t", "s")
    assert subscription.forward_to.endswith("/target")
    subscription.forward_to = subscription.forward_dead_lettered_messages_to = None
    client.update_subscription("t", subscription)
    subscription = client.get_subscription("t", "s")
    assert (subscription.forward_to, subscription.forward_dead_lettered_messages_to) == (None, None)


def test_updates_that_are_refused(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("t")
    client.create_subscription("t", "s")
    topic, subscription = client.get_topic("t"), client.get_subscription("t", "s")
    rule = client.get_rule("t", "s", "$Default")
    strange = [client.get_topic("t"), client.get_subscription("t", "s")]
    strange.append(client.get_rule("t", "s", "$Default"))
    for one in strange:
        one.name = "none"
    changes = [
        lambda: client.update_topic(topic, requires_duplicate_detection=True),
        lambda: client.update_topic(strange[0]),
        lambda: client.update_topic(topic, duplicate_detection_history_time_window=timedelta(25)),
        lambda: client.update_subscription("t", subscription, requires_session=True),
        lambda: client.update_subscription("t", strange[1]),
        lambda: client.update_subscription("t", subscription, lock_duration=timedelta(25)),
        lambda: client.update_subscription("none", subscription),
        lambda: client.update_rule("t", "s", strange[2]),
        lambda: client.update_rule("t", "none", rule),
    ]
    for change in changes:
        with pytest.raises(HttpResponseError) as refused:
            change()
        assert refused.value.status_code in (400, 404)
    client.update_topic(topic)
    client.update_subscription("t", subscription)
    client.update_rule("t", "s", rule)


def test_filters_are_counted(client: ServiceBusAdministrationClient) -> None:
    client.create_topic("t")
    client.create_subscription("t", "s")
    client.create_rule("t", "s", "one", filter=CorrelationRuleFilter(label="l"))
    client.create_rule("t", "s", "two", filter=SqlRuleFilter("a = 1"))
    found = client.get_topic_runtime_properties("t")
    assert (found.sql_filter_count, found.correlation_filter_count) == (2, 1)


def test_the_oldest_version_of_the_interface(namespace: Namespace) -> None:
    """It has never heard of large messages and of counted filters."""
    with ServiceBusAdministrationClient.from_connection_string(
        namespace.connection_string(),
        connection_verify=namespace.authority,
        retry_total=0,
        api_version=ApiVersion.V2017_04,
    ) as client:
        queue = client.create_queue("q")
        assert queue.max_message_size_in_kilobytes is None
        client.update_queue(queue, max_delivery_count=3)
        assert client.get_queue("q").max_delivery_count == 3
        client.create_topic("t")
        found = client.get_topic_runtime_properties("t")
        assert (found.sql_filter_count, found.correlation_filter_count) == (None, None)
        with pytest.raises(HttpResponseError):
            client.create_queue("large", max_message_size_in_kilobytes=1024)


@pytest.mark.parametrize("tier", [Tier.premium])
def test_large_messages_are_for_premium(client: ServiceBusAdministrationClient) -> None:
    assert client.get_namespace_properties().messaging_sku == "Premium"
    assert client.create_queue("q").max_message_size_in_kilobytes == 1024
    large = client.create_queue("large", max_message_size_in_kilobytes=102_400)
    assert large.max_message_size_in_kilobytes == 102_400
    client.update_queue(large, max_message_size_in_kilobytes=2_048)
    assert client.get_queue("large").max_message_size_in_kilobytes == 2_048
    for most in (512, 102_401):
        with pytest.raises(HttpResponseError):
            client.create_topic("t", max_message_size_in_kilobytes=most)
    for option in ("enable_partitioning", "enable_express"):
        with pytest.raises(HttpResponseError):
            client.create_queue("express", **{option: True})


@pytest.mark.parametrize("tier", [Tier.basic])
def test_basic_lacks_most(client: ServiceBusAdministrationClient) -> None:
    client.create_queue("q")
    refused = [
        lambda: client.create_topic("t"),
        lambda: client.create_queue("s", requires_session=True),
        lambda: client.create_queue("d", requires_duplicate_detection=True),
        lambda: client.create_queue("f", forward_to="q"),
    ]
    for create in refused:
        with pytest.raises(HttpResponseError) as refusal:
            create()
        assert refusal.value.status_code in (400, 403)
        assert "40301" in str(refusal.value)
    with pytest.raises(HttpResponseError):
        client.create_queue("old", default_message_time_to_live=timedelta(days=15))
