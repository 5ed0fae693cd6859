"""azure-storage-queue, unmodified, for everything that it can do."""

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.queue import (
    AccessPolicy,
    AccountSasPermissions,
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    CorsRule,
    Metrics,
    QueueAnalyticsLogging,
    QueueClient,
    QueueSasPermissions,
    QueueServiceClient,
    ResourceTypes,
    RetentionPolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
    generate_account_sas,
    generate_queue_sas,
)

from .certificate import server_context
from .harness import Server, account, key


@pytest.fixture
def service(server: Server):
    with server.sdk() as client:
        yield client


@pytest.fixture
def tasks(service: QueueServiceClient):
    with service.create_queue("tasks") as client:
        yield client


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


# ---- queues


def test_create_delete_and_metadata(service: QueueServiceClient):
    with service.get_queue_client("tasks") as client:
        client.create_queue(metadata={"colour": "blue"})
        # The client raises for the 204 of an identical queue as well as for the conflict.
        for colour, status in (("blue", 204), ("red", 409)):
            with pytest.raises(ResourceExistsError) as refusal:
                client.create_queue(metadata={"colour": colour})
            assert refusal.value.status_code == status
            assert refusal.value.error_code == "QueueAlreadyExists"
        properties = client.get_queue_properties()
        assert properties.name == "tasks"
        assert properties.metadata == {"colour": "blue"}
        assert properties.approximate_message_count == 0
        client.set_queue_metadata({"a": "1", "b": "2"})
        assert client.get_queue_properties().metadata == {"a": "1", "b": "2"}
        client.delete_queue()
        for call in (client.delete_queue, client.get_queue_properties, client.receive_message):
            with pytest.raises(ResourceNotFoundError) as missing:
                call()
            assert missing.value.error_code == "QueueNotFound"
        client.create_queue()


def test_listing_in_pages(service: QueueServiceClient):
    names = [f"queue-{index:02d}" for index in range(7)]
    for name in names:
        service.create_queue(name, metadata={"n": name}).close()
    service.create_queue("other").close()
    assert [queue.name for queue in service.list_queues()] == ["other", *names]
    pages = service.list_queues(
        name_starts_with="queue-", include_metadata=True, results_per_page=3
    ).by_page()
    found = [[(queue.name, queue.metadata) for queue in page] for page in pages]
    assert [len(page) for page in found] == [3, 3, 1]
    assert [name for page in found for name, _ in page] == names
    assert all(metadata == {"n": name} for page in found for name, metadata in page)


# ---- messages


def test_send_receive_delete(tasks: QueueClient):
    sent = tasks.send_message("hello <&> \u20ac")
    assert sent.id == str(uuid.UUID(sent.id))
    assert sent.content == "hello <&> \u20ac"
    assert tasks.get_queue_properties().approximate_message_count == 1
    (peeked,) = tasks.peek_messages()
    assert (peeked.id, peeked.content, peeked.dequeue_count) == (sent.id, sent.content, 0)
    got = tasks.receive_message(visibility_timeout=60)
    assert (got.id, got.content, got.dequeue_count) == (sent.id, sent.content, 1)
    assert got.next_visible_on > got.inserted_on
    assert (got.expires_on - got.inserted_on).days == 7
    assert tasks.receive_message() is None
    assert tasks.peek_messages() == []
    tasks.delete_message(got)
    with pytest.raises(ResourceNotFoundError) as missing:
        tasks.delete_message(got)
    assert missing.value.error_code == "MessageNotFound"
    assert tasks.get_queue_properties().approximate_message_count == 0


def test_receive_in_pages(tasks: QueueClient):
    for index in range(70):
        tasks.send_message(f"message {index}")
    batch = list(tasks.receive_messages(max_messages=40))
    assert [message.content for message in batch] == [f"message {index}" for index in range(40)]
    pages = tasks.receive_messages(messages_per_page=10).by_page()
    assert [len(list(page)) for page in pages] == [10, 10, 10]
    assert tasks.get_queue_properties().approximate_message_count == 70
    assert len(tasks.peek_messages(max_messages=32)) == 0


def test_visibility_and_life(server: Server, tasks: QueueClient):
    tasks.send_message("later", visibility_timeout=30)
    tasks.send_message("mortal", time_to_live=60)
    tasks.send_message("immortal", time_to_live=-1)
    assert [m.content for m in tasks.peek_messages(max_messages=32)] == ["mortal", "immortal"]
    server.clock.advance(31)
    assert [m.content for m in tasks.peek_messages(max_messages=32)] == [
        "mortal",
        "immortal",
        "later",
    ]
    server.clock.advance(30)
    assert [m.content for m in tasks.receive_messages()] == ["immortal", "later"]
    server.clock.advance(8 * 86_400)
    last = tasks.receive_message()
    assert (last.content, last.dequeue_count, last.expires_on.year) == ("immortal", 2, 9999)
    with pytest.raises(HttpResponseError) as refusal:
        tasks.send_message("x", visibility_timeout=10, time_to_live=5)
    assert refusal.value.error_code == "InvalidQueryParameterValue"


def test_update(tasks: QueueClient):
    sent = tasks.send_message("a")
    got = tasks.receive_message(visibility_timeout=10)
    updated = tasks.update_message(got, content="b", visibility_timeout=0)
    assert updated.pop_receipt != got.pop_receipt
    assert updated.next_visible_on is not None
    (peeked,) = tasks.peek_messages()
    assert (peeked.content, peeked.dequeue_count) == ("b", 1)
    with pytest.raises(ResourceNotFoundError) as stale:
        tasks.update_message(got, content="c", visibility_timeout=0)
    assert stale.value.error_code == "MessageNotFound"
    hidden = tasks.update_message(sent.id, pop_receipt=updated.pop_receipt, visibility_timeout=600)
    assert tasks.receive_message() is None
    tasks.delete_message(sent.id, pop_receipt=hidden.pop_receipt)


def test_two_holders(server: Server, tasks: QueueClient):
    """The first one's receipt is stale once the second got the message."""
    tasks.send_message("a")
    first = tasks.receive_message(visibility_timeout=5)
    server.clock.advance(5)
    second = tasks.receive_message(visibility_timeout=5)
    with pytest.raises(ResourceNotFoundError):
        tasks.delete_message(first)
    tasks.delete_message(second)


def test_clear(tasks: QueueClient):
    for index in range(5):
        tasks.send_message(str(index))
    tasks.receive_message()
    tasks.clear_messages()
    assert tasks.get_queue_properties().approximate_message_count == 0
    assert tasks.peek_messages(max_messages=5) == []


@pytest.mark.parametrize(
    ("encode", "decode", "content"),
    [
        (TextBase64EncodePolicy, TextBase64DecodePolicy, "text \u20ac <&>"),
        (BinaryBase64EncodePolicy, BinaryBase64DecodePolicy, bytes(range(256))),
    ],
)
def test_encodings_are_the_clients_business(server: Server, encode, decode, content):
    with QueueClient.from_connection_string(
        server.connection_string,
        "tasks",
        message_encode_policy=encode(),
        message_decode_policy=decode(),
    ) as client:
        client.create_queue()
        client.send_message(content)
        assert client.peek_messages()[0].content == content
        got = client.receive_message()
        assert got.content == content
        client.update_message(got, visibility_timeout=0, content=content)
        assert client.receive_message().content == content


def test_largest_message(tasks: QueueClient):
    tasks.send_message("x" * 65_536)
    assert len(tasks.receive_message().content) == 65_536
    with pytest.raises(HttpResponseError) as refusal:
        tasks.send_message("x" * 65_537)
    assert refusal.value.error_code == "RequestBodyTooLarge"
    assert refusal.value.status_code == 413


def test_limits(tasks: QueueClient):
    for call in (
        lambda: tasks.peek_messages(max_messages=33),
        lambda: next(tasks.receive_messages(messages_per_page=33)),
        lambda: tasks.receive_message(visibility_timeout=604_801),
    ):
        with pytest.raises((HttpResponseError, ValueError)):
            call()


# ---- access


def test_stored_access_policies(server: Server, tasks: QueueClient):
    assert tasks.get_queue_access_policy() == {}
    tasks.set_queue_access_policy(
        {
            "readers": AccessPolicy(
                permission=QueueSasPermissions(read=True),
                start=datetime.now(UTC) - timedelta(minutes=5),
                expiry=soon(),
            ),
            "nobody": AccessPolicy(),
        }
    )
    found = tasks.get_queue_access_policy()
    assert set(found) == {"readers", "nobody"}
    assert found["readers"].permission == "r"
    tasks.send_message("a")
    sas = generate_queue_sas(account, "tasks", key, policy_id="readers")
    with QueueClient(server.url, "tasks", credential=sas, retry_total=0) as reader:
        assert reader.peek_messages()[0].content == "a"
        with pytest.raises(HttpResponseError) as refusal:
            reader.send_message("b")
        assert refusal.value.status_code == 403
        tasks.set_queue_access_policy({})
        with pytest.raises(ClientAuthenticationError):
            reader.peek_messages()


def test_too_many_policies(tasks: QueueClient):
    with pytest.raises(HttpResponseError) as refusal:
        tasks.set_queue_access_policy({str(index): AccessPolicy() for index in range(6)})
    assert refusal.value.error_code == "InvalidXmlDocument"


# What each letter of a queue's own SAS lets its holder do.
@pytest.mark.parametrize("letter", "raup")
def test_service_sas_letters(server: Server, tasks: QueueClient, letter: str):
    sent = tasks.send_message("a")
    got = tasks.receive_message(visibility_timeout=600)
    tasks.send_message("b")
    sas = generate_queue_sas(account, "tasks", key, permission=letter, expiry=soon())
    with QueueClient(server.url, "tasks", credential=sas, retry_total=0) as client:
        calls = {
            "peek": ("r", client.peek_messages),
            "metadata": ("r", client.get_queue_properties),
            "put": ("a", lambda: client.send_message("c")),
            "update": (
                "u",
                lambda: client.update_message(
                    sent.id, pop_receipt=got.pop_receipt, visibility_timeout=600
                ),
            ),
            "get": ("p", client.receive_message),
            "delete": (
                "p",
                lambda: client.delete_message(sent.id, pop_receipt=got.pop_receipt),
            ),
            "clear": ("", client.clear_messages),
            "set metadata": ("", lambda: client.set_queue_metadata({"a": "b"})),
            "acl": ("", client.get_queue_access_policy),
            "drop": ("", client.delete_queue),
        }
        for name, (needed, call) in calls.items():
            if letter == needed:
                call()
                continue
            with pytest.raises(HttpResponseError) as refusal:
                call()
            assert refusal.value.status_code == 403, name


def test_a_token_may_say_that_it_is_for_a_queue(server: Server, tasks: QueueClient):
    """@azure/storage-queue writes `sr=q`, which is not signed, and azure-storage-queue does not."""
    sas = generate_queue_sas(account, "tasks", key, permission="r", expiry=soon())
    with QueueClient(server.url, "tasks", credential=f"{sas}&sr=q", retry_total=0) as client:
        assert client.peek_messages() == []


def test_service_sas_is_for_its_queue_alone(server: Server, service: QueueServiceClient, tasks):
    service.create_queue("other").close()
    sas = generate_queue_sas(account, "tasks", key, permission="raup", expiry=soon())
    with (
        QueueClient(server.url, "other", credential=sas, retry_total=0) as client,
        pytest.raises(ClientAuthenticationError),
    ):
        client.peek_messages()


def test_account_sas(server: Server, service: QueueServiceClient):
    sas = generate_account_sas(
        account,
        key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(
            read=True, write=True, delete=True, list=True, add=True, update=True, process=True
        ),
        soon(),
    )
    with QueueServiceClient(server.url, credential=sas, retry_total=0) as client:
        with client.create_queue("tasks") as tasks:
            sent = tasks.send_message("a")
            got = tasks.receive_message()
            tasks.update_message(got, visibility_timeout=0)
            tasks.clear_messages()
            assert sent.id == got.id
        assert [queue.name for queue in client.list_queues()] == ["tasks"]
        client.delete_queue("tasks")
    weak = generate_account_sas(
        account, key, ResourceTypes(object=True), AccountSasPermissions(read=True), soon()
    )
    with (
        QueueServiceClient(server.url, credential=weak, retry_total=0) as client,
        pytest.raises(HttpResponseError) as refusal,
    ):
        list(client.list_queues())
    assert refusal.value.error_code == "AuthorizationResourceTypeMismatch"


def test_a_wrong_key_is_refused(server: Server):
    wrong = server.connection_string.replace("AccountKey=E", "AccountKey=F")
    with (
        QueueServiceClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(ClientAuthenticationError) as refusal,
    ):
        list(client.list_queues())
    assert refusal.value.error_code == "AuthenticationFailed"


class Credential:
    """Somebody who has a token already."""

    def get_token(self, *scopes: str, **options: object) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",)
        return AccessToken("22222222-2222-2222-2222-222222222222", int(soon().timestamp()))


def test_bearer_tokens_and_user_delegation(server: Server, tasks: QueueClient, tmp_path: Path):
    context, trusted = server_context(tmp_path)
    url = server.listen_securely(context)
    with QueueServiceClient(
        url, credential=Credential(), connection_verify=str(trusted), retry_total=0
    ) as client:
        assert [queue.name for queue in client.list_queues()] == ["tasks"]
        signing_key = client.get_user_delegation_key(
            expiry=soon(), start=datetime.now(UTC) - timedelta(minutes=5)
        )
    assert signing_key.signed_service == "q"
    sas = generate_queue_sas(
        account,
        "tasks",
        permission=QueueSasPermissions(add=True, process=True),
        expiry=soon() - timedelta(minutes=5),
        user_delegation_key=signing_key,
    )
    with QueueClient(server.url, "tasks", credential=sas, retry_total=0) as client:
        client.send_message("a")
        assert client.receive_message().content == "a"
        with pytest.raises(HttpResponseError) as refusal:
            client.peek_messages()
        assert refusal.value.error_code == "AuthorizationPermissionMismatch"


def test_only_a_user_gets_a_delegation_key(service: QueueServiceClient):
    with pytest.raises(ClientAuthenticationError):
        service.get_user_delegation_key(expiry=soon(), start=datetime.now(UTC))


# ---- the service


def test_service_properties(service: QueueServiceClient):
    service.set_service_properties(
        analytics_logging=QueueAnalyticsLogging(
            delete=True, read=True, write=True, retention_policy=RetentionPolicy(True, 5)
        ),
        hour_metrics=Metrics(
            enabled=True, include_apis=True, retention_policy=RetentionPolicy(True, 3)
        ),
        cors=[CorsRule(["https://a.b"], ["GET"], max_age_in_seconds=5)],
    )
    service.set_service_properties(minute_metrics=Metrics(enabled=False))
    found = service.get_service_properties()
    assert found["analytics_logging"].retention_policy.days == 5
    assert found["hour_metrics"].retention_policy.days == 3
    assert found["minute_metrics"].enabled is False
    (rule,) = found["cors"]
    assert (rule.allowed_origins, rule.max_age_in_seconds) == ("https://a.b", 5)
    service.set_service_properties(cors=[])
    assert service.get_service_properties()["cors"] == []
    assert service.get_service_properties()["analytics_logging"].delete is True


def test_host_style_and_stats(server: Server):
    """A name that does not resolve here is reached by way of a proxy: the server itself.

    The client cannot ask for stats in path style, where it puts the secondary's path before the
    primary's.
    """
    with QueueServiceClient(
        f"http://{account}.queue.core.windows.net",
        credential=key,
        proxies={"http": f"http://127.0.0.1:{server.port}"},
        retry_total=0,
    ) as client:
        with client.create_queue("tasks") as tasks:
            tasks.send_message("a")
        assert [queue.name for queue in client.list_queues()] == ["tasks"]
        assert client.get_service_stats()["geo_replication"]["status"] == "live"


def test_reads_from_the_secondary(service: QueueServiceClient, tasks: QueueClient):
    tasks.send_message("a")
    service.location_mode = "secondary"
    with service.get_queue_client("tasks") as secondary:
        assert secondary.location_mode == "secondary"
        assert [message.content for message in secondary.peek_messages()] == ["a"]
        with pytest.raises(HttpResponseError) as refusal:
            secondary.receive_message()
        assert refusal.value.status_code == 403
