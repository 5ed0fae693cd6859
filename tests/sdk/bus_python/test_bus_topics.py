"""azure-servicebus against topics and subscriptions."""

from datetime import timedelta

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import ServiceBusError
from bus_server import Bus

from etagere.services.bus.rules import RuleDescription, SqlAction, SqlFilter


def test_each_subscription_gets_its_copy(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.topic(name, "one", "two")
    with client.get_topic_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
    for subscription in ("one", "two"):
        with client.get_subscription_receiver(name, subscription, max_wait_time=1) as receiver:
            bodies = []
            for message in receiver:
                bodies.append(str(message))
                receiver.complete_message(message)
            assert bodies == ["0", "1", "2", "3", "4"]


def test_receive_and_delete(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.topic(name, "sub")
    with client.get_topic_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("one"))
    with client.get_subscription_receiver(
        name, "sub", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        (message,) = receiver.receive_messages()
        assert str(message) == "one"
        assert receiver.peek_messages(1) == []


def test_rules(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.topic(name, "sub")
    rule = RuleDescription(
        name="red", filter=SqlFilter("color = 'red'"), action=SqlAction("SET seen = TRUE")
    )
    administration = bus.broker.administration
    bus.run(lambda: administration.add_rule(name, "sub", rule))
    bus.run(lambda: administration.remove_rule(name, "sub", "$Default"))
    with client.get_topic_sender(name) as sender:
        for color in ("red", "blue"):
            message = ServiceBusMessage(color, application_properties={"color": color})
            sender.send_messages(message)
    with client.get_subscription_receiver(name, "sub", max_wait_time=1) as receiver:
        (message,) = list(receiver.receive_messages(max_message_count=5))
        assert str(message) == "red"
        assert message.application_properties is not None
        assert message.application_properties[b"seen"] is True
        assert message.application_properties[b"RuleName"] == b"red"
        receiver.complete_message(message)


def test_dead_letters(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.topic(name, "sub")
    with client.get_topic_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("dead"))
    with client.get_subscription_receiver(name, "sub") as receiver:
        (message,) = receiver.receive_messages()
        receiver.dead_letter_message(message, reason="r", error_description="d")
    with client.get_subscription_receiver(
        name, "sub", sub_queue=ServiceBusSubQueue.DEAD_LETTER
    ) as receiver:
        (message,) = receiver.receive_messages()
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("r", "d")
        receiver.complete_message(message)


def test_expiry(own_bus: Bus, own_client: ServiceBusClient) -> None:
    own_bus.topic("t", "sub", dead_letter_on_expiration=True)
    with own_client.get_topic_sender("t") as sender:
        sender.send_messages(ServiceBusMessage("x", time_to_live=timedelta(seconds=10)))
    own_bus.advance(11)
    with own_client.get_subscription_receiver("t", "sub") as receiver:
        assert receiver.receive_messages(max_wait_time=1) == []
    with own_client.get_subscription_receiver("t", "sub", sub_queue="deadletter") as receiver:
        (message,) = receiver.receive_messages()
        assert message.dead_letter_reason == "TTLExpiredException"
        receiver.complete_message(message)


def test_sessions_of_subscriptions(bus: Bus, client: ServiceBusClient, name: str) -> None:
    bus.topic(name, "sub", requires_session=True)
    with client.get_topic_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x", session_id="s"))
    with client.get_subscription_receiver(name, "sub", session_id="s") as receiver:
        (message,) = receiver.receive_messages()
        receiver.complete_message(message)


def test_topics_and_subscriptions_are_not_queues(
    bus: Bus, client: ServiceBusClient, name: str
) -> None:
    bus.topic(name, "sub")
    with pytest.raises(ServiceBusError), client.get_queue_receiver(name) as receiver:
        receiver.receive_messages(max_wait_time=1)
    with (
        pytest.raises(ServiceBusError),
        client.get_queue_sender(f"{name}/Subscriptions/sub") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))
