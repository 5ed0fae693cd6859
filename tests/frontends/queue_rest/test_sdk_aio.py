"""azure-storage-queue's asynchronous clients, and several of them at once."""

import asyncio
from collections import Counter

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.queue.aio import QueueClient, QueueServiceClient

from .harness import Server


@pytest.fixture
async def service(server: Server):
    async with QueueServiceClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as client:
        yield client


@pytest.fixture
async def tasks(service: QueueServiceClient):
    async with await service.create_queue("tasks") as client:
        yield client


async def test_life_of_a_queue(service: QueueServiceClient):
    async with service.get_queue_client("tasks") as client:
        await client.create_queue(metadata={"a": "1"})
        with pytest.raises(ResourceExistsError):
            await client.create_queue()
        await client.set_queue_metadata({"b": "2"})
        assert (await client.get_queue_properties()).metadata == {"b": "2"}
        assert [queue.name async for queue in service.list_queues()] == ["tasks"]
        await client.delete_queue()
        with pytest.raises(ResourceNotFoundError):
            await client.get_queue_properties()


async def test_life_of_a_message(tasks: QueueClient):
    sent = await tasks.send_message("a")
    assert [message.content for message in await tasks.peek_messages()] == ["a"]
    got = await tasks.receive_message()
    assert got is not None
    assert (got.id, got.dequeue_count) == (sent.id, 1)
    updated = await tasks.update_message(got, content="b", visibility_timeout=0)
    (again,) = [message async for message in tasks.receive_messages()]
    assert (again.content, again.dequeue_count) == ("b", 2)
    with pytest.raises(ResourceNotFoundError):
        await tasks.delete_message(updated)
    await tasks.delete_message(again)
    assert await tasks.receive_message() is None
    await tasks.clear_messages()


async def test_no_message_is_handed_to_two_consumers(tasks: QueueClient):
    """Eight consumers empty a queue: each message is got by one, and its deletion is final."""
    wanted = {f"message {index}" for index in range(120)}
    await asyncio.gather(*(tasks.send_message(text) for text in wanted))
    seen: Counter[str] = Counter()

    async def consume(size: int) -> None:
        while True:
            batch = [
                message
                async for message in tasks.receive_messages(
                    messages_per_page=size, max_messages=size, visibility_timeout=600
                )
            ]
            if not batch:
                return
            for message in batch:
                seen[message.content] += 1
                await tasks.delete_message(message)

    await asyncio.gather(*(consume(size) for size in (1, 2, 3, 4, 5, 6, 7, 8)))
    assert set(seen) == wanted
    assert set(seen.values()) == {1}
    assert (await tasks.get_queue_properties()).approximate_message_count == 0


async def test_one_of_several_deletions_succeeds(tasks: QueueClient):
    await tasks.send_message("a")
    got = await tasks.receive_message()
    assert got is not None
    results = await asyncio.gather(
        *(tasks.delete_message(got) for _ in range(8)), return_exceptions=True
    )
    assert results.count(None) == 1
    assert sum(isinstance(result, ResourceNotFoundError) for result in results) == 7


async def test_one_of_several_updates_succeeds(tasks: QueueClient):
    await tasks.send_message("a")
    got = await tasks.receive_message()
    assert got is not None
    results = await asyncio.gather(
        *(
            tasks.update_message(
                got.id, pop_receipt=got.pop_receipt, content=str(index), visibility_timeout=0
            )
            for index in range(8)
        ),
        return_exceptions=True,
    )
    (winner,) = [index for index, result in enumerate(results) if not isinstance(result, Exception)]
    assert sum(isinstance(result, ResourceNotFoundError) for result in results) == 7
    (peeked,) = await tasks.peek_messages()
    assert peeked.content == str(winner)


async def test_concurrent_creation(service: QueueServiceClient):
    async def create(colour: str) -> int | None:
        async with service.get_queue_client("tasks") as client:
            try:
                await client.create_queue(metadata={"colour": colour})
            except ResourceExistsError as refusal:
                return refusal.status_code  # 204 too, for an identical queue
            return 201

    results = await asyncio.gather(*(create(colour) for colour in ("red", "blue") * 6))
    assert Counter(results) == {201: 1, 204: 5, 409: 6}


async def test_last_writer_wins_and_nothing_is_blended(tasks: QueueClient):
    writers = [{"a": str(n), "b": str(n)} for n in range(12)]
    await asyncio.gather(*(tasks.set_queue_metadata(metadata) for metadata in writers))
    assert (await tasks.get_queue_properties()).metadata in writers
