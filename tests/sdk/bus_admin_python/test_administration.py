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
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

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
    client.create_rule(
        "t", "s", "correlation", filter=CorrelationRuleFilter(label="l", properties=properties)
    )
    correlation = client.get_rule("t", "s", "correlation").filter
    assert correlation.label == "l"
    assert list(correlation.properties) == list(properties)
    assert correlation.properties["span"] == timedelta(hours=2)
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
