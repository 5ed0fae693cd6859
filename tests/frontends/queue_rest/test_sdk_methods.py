"""Every public method of azure-storage-queue's clients, synchronous and asynchronous, ticked off.

What they can do beyond their plain use is in `test_sdk` and `test_sdk_aio`.
"""

import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import azure.storage.queue as blocking
import azure.storage.queue.aio as waiting
import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.queue import (
    AccessPolicy,
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    CorsRule,
    QueueSasPermissions,
    RetentionPolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
)

from .certificate import server_context
from .harness import Server, account, key


async def done(result: Any) -> Any:
    """What a method of either kind of client comes to."""
    return await result if inspect.isawaitable(result) else result


async def listed(items: Any) -> list[Any]:
    if hasattr(items, "__aiter__"):
        return [item async for item in items]
    return list(items)


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


class Credential:
    """Somebody who has a token already."""

    def get_token(self, *scopes: str, **options: object) -> AccessToken:
        return AccessToken("22222222-2222-2222-2222-222222222222", int(soon().timestamp()))


class AsyncCredential:
    async def get_token(self, *scopes: str, **options: object) -> AccessToken:
        return Credential().get_token(*scopes)

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *reason: object) -> None:
        pass


@dataclass
class Using:
    """One kind of client against a server, with a queue that is there already."""

    server: Server
    sdk: Any
    folder: Path
    closing: AsyncExitStack

    async def opened(self, client: Any) -> Any:
        if hasattr(client, "__aenter__"):
            return await self.closing.enter_async_context(client)
        return self.closing.enter_context(client)

    async def service(self, **options: Any) -> Any:
        return await self.opened(
            self.sdk.QueueServiceClient.from_connection_string(
                self.server.connection_string, retry_total=0, **options
            )
        )

    async def queue(self, name: str = "tasks", **options: Any) -> Any:
        return await self.opened(
            self.sdk.QueueClient.from_connection_string(
                self.server.connection_string, name, retry_total=0, **options
            )
        )


@pytest.fixture(params=[blocking, waiting], ids=["blocking", "waiting"])
async def using(request, server: Server, tmp_path: Path) -> AsyncIterator[Using]:
    async with AsyncExitStack() as closing:
        found = Using(server, request.param, tmp_path, closing)
        await done((await found.queue()).create_queue())
        yield found


class OfService:
    """Named as the methods of QueueServiceClient."""

    async def from_connection_string(self, using: Using) -> None:
        assert [each.name for each in await listed((await using.service()).list_queues())] == [
            "tasks"
        ]

    async def close(self, using: Using) -> None:
        service = await using.service()
        await listed(service.list_queues())
        await done(service.close())

    async def create_queue(self, using: Using) -> None:
        service = await using.service()
        made = await using.opened(await done(service.create_queue("other", metadata={"a": "1"})))
        assert made.queue_name == "other"
        assert (await done(made.get_queue_properties())).metadata == {"a": "1"}

    async def delete_queue(self, using: Using) -> None:
        service = await using.service()
        await done(service.delete_queue("tasks"))
        assert await listed(service.list_queues()) == []
        with pytest.raises(ResourceNotFoundError):
            await done(service.delete_queue("tasks"))

    async def get_queue_client(self, using: Using) -> None:
        client = await using.opened((await using.service()).get_queue_client("tasks"))
        assert (await done(client.get_queue_properties())).name == "tasks"

    async def list_queues(self, using: Using) -> None:
        service = await using.service()
        for number in range(4):
            await using.opened(
                await done(service.create_queue(f"list-{number}", metadata={"n": str(number)}))
            )
        found = await listed(
            service.list_queues(name_starts_with="list-", include_metadata=True, results_per_page=3)
        )
        assert [(each.name, each.metadata) for each in found] == [
            (f"list-{number}", {"n": str(number)}) for number in range(4)
        ]

    async def set_service_properties(self, using: Using) -> None:
        service = await using.service()
        await done(
            service.set_service_properties(
                analytics_logging=blocking.QueueAnalyticsLogging(
                    read=True, retention_policy=RetentionPolicy(True, 5)
                ),
                hour_metrics=blocking.Metrics(enabled=True, include_apis=True),
                minute_metrics=blocking.Metrics(enabled=False),
                cors=[CorsRule(["https://a.b"], ["GET", "PUT"], allowed_headers=["x-ms-meta-*"])],
            )
        )
        found = await done(service.get_service_properties())
        assert found["analytics_logging"].read is True
        assert found["analytics_logging"].retention_policy.days == 5
        assert found["hour_metrics"].include_apis is True
        assert found["cors"][0].allowed_methods == "GET,PUT"

    async def get_service_properties(self, using: Using) -> None:
        found = await done((await using.service()).get_service_properties())
        assert found["analytics_logging"].delete is False
        assert (found["hour_metrics"].enabled, found["minute_metrics"].enabled) == (True, False)
        assert found["cors"] == []

    async def get_service_stats(self, using: Using) -> None:
        service = await using.opened(
            using.sdk.QueueServiceClient(
                f"http://{account}.queue.core.windows.net",
                credential=key,
                proxies={"http": f"http://127.0.0.1:{using.server.port}"},
                retry_total=0,
            )
        )
        found = (await done(service.get_service_stats()))["geo_replication"]
        assert found["status"] == "live"
        assert abs(found["last_sync_time"] - datetime.now(UTC)) < timedelta(minutes=5)

    async def get_user_delegation_key(self, using: Using) -> None:
        context, trusted = server_context(using.folder)
        credential = Credential() if using.sdk is blocking else AsyncCredential()
        service = await using.opened(
            using.sdk.QueueServiceClient(
                using.server.listen_securely(context),
                credential=credential,
                connection_verify=str(trusted),
                retry_total=0,
            )
        )
        found = await done(
            service.get_user_delegation_key(
                expiry=soon(), start=datetime.now(UTC) - timedelta(minutes=5)
            )
        )
        assert (found.signed_service, found.signed_oid) == (
            "q",
            "22222222-2222-2222-2222-222222222222",
        )


class OfQueue:
    """Named as the methods of QueueClient."""

    async def from_connection_string(self, using: Using) -> None:
        assert (await done((await using.queue()).get_queue_properties())).name == "tasks"

    async def from_queue_url(self, using: Using) -> None:
        client = await using.opened(
            using.sdk.QueueClient.from_queue_url(f"{using.server.url}/tasks", credential=key)
        )
        assert (await done(client.get_queue_properties())).name == "tasks"

    async def close(self, using: Using) -> None:
        queue = await using.queue()
        await done(queue.get_queue_properties())
        await done(queue.close())

    async def create_queue(self, using: Using) -> None:
        queue = await using.queue("other")
        await done(queue.create_queue(metadata={"a": "1"}))
        assert (await done(queue.get_queue_properties())).metadata == {"a": "1"}

    async def delete_queue(self, using: Using) -> None:
        queue = await using.queue()
        await done(queue.delete_queue())
        with pytest.raises(ResourceNotFoundError) as missing:
            await done(queue.get_queue_properties())
        assert missing.value.error_code == "QueueNotFound"

    async def get_queue_properties(self, using: Using) -> None:
        queue = await using.queue()
        await done(queue.send_message("a"))
        found = await done(queue.get_queue_properties())
        assert (found.name, found.metadata, found.approximate_message_count) == ("tasks", {}, 1)

    async def set_queue_metadata(self, using: Using) -> None:
        queue = await using.queue()
        for metadata in ({"a": "1", "b": "2"}, {"c": "3"}, {}):
            await done(queue.set_queue_metadata(metadata))
            assert (await done(queue.get_queue_properties())).metadata == metadata

    async def set_queue_access_policy(self, using: Using) -> None:
        queue = await using.queue()
        policy = AccessPolicy(
            permission=QueueSasPermissions(read=True, add=True, update=True, process=True),
            start=datetime.now(UTC) - timedelta(minutes=5),
            expiry=soon(),
        )
        await done(queue.set_queue_access_policy({"all": policy}))
        sas = blocking.generate_queue_sas(account, "tasks", key, policy_id="all")
        holder = await using.opened(
            using.sdk.QueueClient(using.server.url, "tasks", credential=sas, retry_total=0)
        )
        await done(holder.send_message("a"))
        await done(queue.set_queue_access_policy({}))
        with pytest.raises(HttpResponseError) as refusal:
            await done(holder.send_message("b"))
        assert refusal.value.status_code == 403

    async def get_queue_access_policy(self, using: Using) -> None:
        queue = await using.queue()
        assert await done(queue.get_queue_access_policy()) == {}
        await done(queue.set_queue_access_policy({"one": AccessPolicy(permission="ap")}))
        found = await done(queue.get_queue_access_policy())
        assert (list(found), found["one"].permission) == (["one"], "ap")

    async def send_message(self, using: Using) -> None:
        queue = await using.queue()
        sent = await done(queue.send_message("a", visibility_timeout=30, time_to_live=60))
        assert sent.expires_on - sent.inserted_on == timedelta(seconds=60)
        assert sent.next_visible_on - sent.inserted_on == timedelta(seconds=30)
        assert await done(queue.receive_message()) is None
        await done(queue.delete_message(sent))

    async def receive_message(self, using: Using) -> None:
        queue = await using.queue()
        sent = await done(queue.send_message("a"))
        got = await done(queue.receive_message(visibility_timeout=5))
        assert (got.id, got.content, got.dequeue_count) == (sent.id, "a", 1)
        assert got.pop_receipt != sent.pop_receipt
        assert await done(queue.receive_message()) is None
        using.server.clock.advance(5)
        assert (await done(queue.receive_message())).dequeue_count == 2

    async def receive_messages(self, using: Using) -> None:
        queue = await using.queue()
        for number in range(10):
            await done(queue.send_message(str(number)))
        got = await listed(queue.receive_messages(messages_per_page=3, max_messages=8))
        assert [each.content for each in got] == [str(number) for number in range(8)]

    async def peek_messages(self, using: Using) -> None:
        queue = await using.queue()
        for number in range(3):
            await done(queue.send_message(str(number)))
        for _ in range(2):
            found = await done(queue.peek_messages(max_messages=2))
            assert [(each.content, each.dequeue_count) for each in found] == [("0", 0), ("1", 0)]

    async def update_message(self, using: Using) -> None:
        queue = await using.queue()
        await done(queue.send_message("a"))
        got = await done(queue.receive_message())
        updated = await done(queue.update_message(got, content="b", visibility_timeout=0))
        again = await done(queue.receive_message())
        assert (again.content, again.dequeue_count) == ("b", 2)
        with pytest.raises(ResourceNotFoundError):
            await done(queue.update_message(updated, visibility_timeout=0))
        kept = await done(queue.update_message(again, visibility_timeout=0))
        assert (await done(queue.peek_messages()))[0].content == "b"
        await done(queue.delete_message(kept))

    async def delete_message(self, using: Using) -> None:
        queue = await using.queue()
        await done(queue.send_message("a"))
        got = await done(queue.receive_message())
        await done(queue.delete_message(got))
        with pytest.raises(ResourceNotFoundError) as missing:
            await done(queue.delete_message(got.id, pop_receipt=got.pop_receipt))
        assert missing.value.error_code == "MessageNotFound"

    async def clear_messages(self, using: Using) -> None:
        queue = await using.queue()
        for _ in range(3):
            await done(queue.send_message("a"))
        await done(queue.receive_message())
        await done(queue.clear_messages())
        assert (await done(queue.get_queue_properties())).approximate_message_count == 0


def methods(client: type) -> set[str]:
    """The names of all that can be called, properties and what begins with `_` left out."""
    return {
        name
        for name in dir(client)
        if not name.startswith("_") and callable(getattr(client, name, None))
    }


service_methods = sorted(methods(OfService))
queue_methods = sorted(methods(OfQueue))


@pytest.mark.parametrize("sdk", [blocking, waiting], ids=["blocking", "waiting"])
def test_no_method_is_left_out(sdk: Any):
    assert methods(sdk.QueueServiceClient) == set(service_methods)
    assert methods(sdk.QueueClient) == set(queue_methods)


@pytest.mark.parametrize("method", service_methods)
async def test_service_method(using: Using, method: str):
    await getattr(OfService(), method)(using)


@pytest.mark.parametrize("method", queue_methods)
async def test_queue_method(using: Using, method: str):
    await getattr(OfQueue(), method)(using)


@pytest.mark.parametrize(
    ("encode", "decode", "content"),
    [
        (TextBase64EncodePolicy, TextBase64DecodePolicy, "text \u20ac <&>"),
        (BinaryBase64EncodePolicy, BinaryBase64DecodePolicy, bytes(range(256))),
    ],
)
async def test_encodings(using: Using, encode, decode, content):
    queue = await using.queue(message_encode_policy=encode(), message_decode_policy=decode())
    sent = await done(queue.send_message(content))
    assert sent.content == content
    assert (await done(queue.peek_messages()))[0].content == content
    got = await done(queue.receive_message())
    assert got.content == content
    await done(queue.update_message(got, visibility_timeout=0, content=content[:3]))
    assert (await done(queue.receive_message())).content == content[:3]
