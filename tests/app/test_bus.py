"""The bus as `etagere serve` runs it: its ports, its configuration, restarts and resets."""

import json
import ssl
import urllib.request
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

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
