"""The bus as `etagere serve` runs it: its ports, its configuration, restarts and resets."""

import gc
import http.client
import json
import re
import ssl
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
)
from azure.servicebus.exceptions import MessageLockLostError
from azure.servicebus.management import ServiceBusAdministrationClient
from prometheus_client.parser import text_string_to_metric_families

from etagere.testing import ServerProcess, StartFailed

config = {
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
                    }
                ],
                "Topics": [
                    {
                        "Name": "topic.1",
                        "Properties": {"DefaultMessageTimeToLive": "PT1H"},
                        "Subscriptions": [
                            {
                                "Name": "subscription.1",
                                "Properties": {"LockDuration": "PT1M"},
                                "Rules": [
                                    {
                                        "Name": "app-prop-filter-1",
                                        "Properties": {
                                            "FilterType": "Correlation",
                                            "CorrelationFilter": {"Label": "wanted"},
                                        },
                                    }
                                ],
                            }
                        ],
                    }
                ],
            }
        ],
        "Logging": {"Type": "File"},
    }
}


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "Config.json"
    path.write_text(json.dumps(config))
    return path


def connection_string(server: ServerProcess, name: str = "amqp") -> str:
    port = server.urls[name].rpartition(":")[2]
    return (
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )


def send(server: ServerProcess, entity: str, *bodies: str, **properties: str) -> None:
    with ServiceBusClient.from_connection_string(connection_string(server)) as client:
        sender = client.get_topic_sender if entity.startswith("topic") else client.get_queue_sender
        with sender(entity) as link:
            link.send_messages([ServiceBusMessage(body, **properties) for body in bodies])


def receive(server: ServerProcess, entity: str, count: int = 10) -> list[str]:
    with ServiceBusClient.from_connection_string(connection_string(server)) as client:
        topic, _, subscription = entity.partition("/")
        link = (
            client.get_subscription_receiver(topic, subscription)
            if subscription
            else client.get_queue_receiver(entity)
        )
        with link:
            found = link.receive_messages(max_message_count=count, max_wait_time=2)
            for message in found:
                link.complete_message(message)
            return [str(message) for message in found]


def test_the_emulators_configuration_and_a_restart(tmp_path: Path, config_file: Path) -> None:
    arguments = ("--data", str(tmp_path / "data"), "--services", "bus",
                 "--bus-config", str(config_file))  # fmt: skip
    with ServerProcess(arguments) as server:
        send(server, "queue.1", "one", "two")
        send(server, "topic.1", "no", subject="other")
        send(server, "topic.1", "yes", subject="wanted")
        server.kill()
    with ServerProcess(arguments) as server:
        assert receive(server, "queue.1") == ["one", "two"]
        assert receive(server, "topic.1/subscription.1") == ["yes"]
        assert receive(server, "queue.1") == []


def test_every_port_takes_tls_and_plain(tmp_path: Path, config_file: Path) -> None:
    data = tmp_path / "data"
    arguments = ("--data", str(data), "--services", "bus", "--bus-config", str(config_file))
    with ServerProcess(arguments) as server:
        authority = data / "certificates" / "authority.pem"
        for name in ("amqp", "bus-admin"):
            with ServiceBusAdministrationClient.from_connection_string(
                connection_string(server, name), connection_verify=str(authority)
            ) as client:
                assert [queue.name for queue in client.list_queues()] == ["queue.1"]
        trusted = ssl.create_default_context(cafile=authority)
        port = server.urls["amqps"].rpartition(":")[2]
        for url, context in (
            (f"http://127.0.0.1:{port}/$namespaceinfo", None),
            (f"https://localhost:{port}/$namespaceinfo", trusted),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url, context=context, timeout=10)
            assert refused.value.code == 401
            refused.value.close()


def test_probes_ask_for_health_as_they_ask_the_official_emulator(config_file: Path) -> None:
    with ServerProcess(("--in-memory", "--bus-config", str(config_file))) as server:
        for name in ("bus-admin", "amqp"):
            url = f"http://127.0.0.1:{server.urls[name].rpartition(':')[2]}"
            with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
                assert json.load(answer) == {
                    "status": "healthy",
                    "message": "Service is healthy.",
                }
            # Everything else wants a token, an entity of this name too.
            for path in ("/health/", "/health2"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(url + path, timeout=10)
                assert refused.value.code == 401
                refused.value.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_clock_that_moves(config_file: Path) -> None:
    """Locks, times to live and schedules go by it; tokens do not, nor do clients notice."""
    arguments = ("--in-memory", "--clock", "virtual", "--bus-config", str(config_file))
    with (
        ServerProcess(arguments) as server,
        ServiceBusClient.from_connection_string(
            connection_string(server), retry_total=1, retry_backoff_factor=0.05
        ) as client,
        client.get_queue_sender("queue.1") as sender,
        client.get_queue_receiver("queue.1") as receiver,
    ):

        def advance(seconds: int) -> None:
            server.admin.ask("POST", "/clock/advance", {"seconds": seconds})

        def only(body: str) -> ServiceBusReceivedMessage:
            (message,) = receiver.receive_messages(1, 30)
            assert str(message) == body
            return message

        sender.send_messages(ServiceBusMessage("locked"))
        message = only("locked")
        advance(61)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(message)
        again = only("locked")
        assert again.delivery_count == 1
        receiver.complete_message(again)

        sender.send_messages(ServiceBusMessage("short", time_to_live=timedelta(seconds=60)))
        due = datetime.now(UTC) + timedelta(hours=5)
        sender.schedule_messages(ServiceBusMessage("later"), due)
        advance(6 * 3_600)  # longer than any token of the client's lasts
        late = only("later")
        assert late.enqueued_time_utc >= due
        receiver.complete_message(late)
        assert receiver.peek_messages(5) == []
    gc.collect()  # the SDK leaves it the socket of a connection that the server closed


def test_reset_forgets_the_bus_too(config_file: Path) -> None:
    with ServerProcess(("--in-memory", "--bus-config", str(config_file))) as server:
        send(server, "queue.1", "one")
        server.admin.ask("POST", "/reset")
        assert receive(server, "queue.1") == []
        send(server, "queue.1", "two")
        assert receive(server, "queue.1") == ["two"]


def test_a_configuration_that_is_none(tmp_path: Path) -> None:
    for text in ("{", '{"UserConfig": 5}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(StartFailed, match=r"--bus-config .*bad\.json"):
            ServerProcess(("--in-memory", "--bus-config", str(tmp_path / "bad.json")))
    with pytest.raises(StartFailed, match="cannot be read"):
        ServerProcess(("--in-memory", "--bus-config", str(tmp_path / "none.json")))


def test_metrics_say_what_waits(config_file: Path) -> None:
    with ServerProcess(("--in-memory", "--bus-config", str(config_file))) as server:
        send(server, "queue.1", "one", "two")
        send(server, "topic.1", "yes", subject="wanted")
        with ServiceBusClient.from_connection_string(connection_string(server)) as client:
            later = datetime.now(UTC) + timedelta(hours=1)
            with client.get_queue_sender("queue.1") as sender:
                sender.schedule_messages(ServiceBusMessage("three"), later)
            with client.get_queue_receiver("queue.1") as receiver:
                receiver.dead_letter_message(receiver.receive_messages(max_wait_time=5)[0])
                text = server.admin.text("GET", "/metrics")
        assert found(text)[("etagere_bus_connections",)] > 0
        deadline = time.monotonic() + 10
        while found(text)[("etagere_bus_connections",)] and time.monotonic() < deadline:
            text = server.admin.text("GET", "/metrics")
        assert found(text)[("etagere_bus_connections",)] == 0
        assert found(text)[("etagere_http_connections",)] >= 1  # whoever asks
        name = "etagere_bus_messages"
        assert found(text)[name, "queue.1", "active"] == 1
        assert found(text)[name, "queue.1", "dead_letter"] == 1
        assert found(text)[name, "queue.1", "scheduled"] == 1
        assert found(text)[name, "topic.1/Subscriptions/subscription.1", "active"] == 1


def found(text: str) -> dict[tuple[str, ...], float]:
    """Samples by their name and the values of their labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_name_what_was_asked_of_the_bus_and_no_entities() -> None:
    """Names come from tables: what clients invent makes no new series."""
    asked = {
        ("GET", "/health"): "Health",
        ("GET", "/$Resources/queues"): "ListEntities",
        ("GET", "/one"): "GetEntity",
        ("PUT", "/two"): "PutEntity",
        ("DELETE", "/two"): "DeleteEntity",
        ("POST", "/one/messages"): "SendMessage",
        ("POST", "/one/messages/head"): "PeekLockMessage",
        ("DELETE", "/one/messages/head"): "ReceiveAndDeleteMessage",
        ("DELETE", "/one/messages/1/token"): "DeleteMessage",
        ("PUT", "/one/messages/1/token"): "UnlockMessage",
        ("POST", "/one/messages/1/token"): "RenewLock",
        ("PATCH", "/one"): "unknown",
        ("PATCH", "/one/messages"): "unknown",
        ("GET", "/%ff"): "unknown",
    }
    with ServerProcess(("--in-memory", "--services", "bus")) as server:
        port = int(server.urls["bus-admin"].rpartition(":")[2])
        for method, path in asked:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(method, path)
            connection.getresponse().read()
            connection.close()
        lines = server.admin.text("GET", "/metrics").splitlines()
    counted = re.findall(r'requests_total\{service="bus",operation="(\w+)"', "\n".join(lines))
    assert set(counted) == set(asked.values())
