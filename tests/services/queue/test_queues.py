import pytest
from queue_driver import QueueDriver, account

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.services.common.access_policy import StoredPolicy
from etagere.services.queue import messages, queues
from etagere.services.queue.messages import UpdateMessage
from etagere.services.queue.queues import ListQueues


@pytest.fixture
def other(engine, clock):
    """A queue that does not exist yet."""
    return QueueDriver(engine, clock, "other")


async def test_create_again_with_the_same_metadata_is_no_conflict(other: QueueDriver):
    assert await other.create({"Colour": "blue"}) is True
    assert await other.create({"colour": "blue"}) is False
    for different in ({}, {"colour": "red"}, {"colour": "blue", "size": "1"}):
        with pytest.raises(Refused, match="QueueAlreadyExists"):
            await other.create(different)
    assert (await other.view()).properties.metadata == {"Colour": "blue"}


async def test_nothing_works_on_a_queue_that_is_not_there(other: QueueDriver):
    part = other.where.part
    calls = [
        other.drop,
        other.clear,
        other.view,
        other.put,
        other.get,
        other.peek,
        lambda: other.write(lambda tx: queues.set_metadata(tx, part, {})),
        lambda: other.write(lambda tx: queues.set_policies(tx, part, ())),
        lambda: other.write(lambda tx: messages.delete(tx, part, "x", 1)),
        lambda: other.write(lambda tx: messages.update(tx, part, UpdateMessage("x", 1, 0, None))),
    ]
    for call in calls:
        with pytest.raises(Refused, match="QueueNotFound"):
            await call()


async def test_a_deleted_queue_leaves_its_name_free_and_its_messages_behind(queue: QueueDriver):
    await queue.put("first")
    await queue.drop()
    with pytest.raises(Refused, match="QueueNotFound"):
        await queue.drop()
    assert await queue.create({"new": "1"})
    assert await queue.peek(32) == []
    assert await queue.count() == 0
    await queue.put("second")
    assert [message.text for message in await queue.get(32)] == ["second"]


async def test_last_writer_wins_metadata_and_policies(queue: QueueDriver):
    part = queue.where.part
    policies = (StoredPolicy("a", Timestamp(1), Timestamp(2), "raup"),)
    await queue.write(lambda tx: queues.set_metadata(tx, part, {"a": "1", "b": "2"}))
    await queue.write(lambda tx: queues.set_policies(tx, part, policies))
    await queue.write(lambda tx: queues.set_metadata(tx, part, {"c": "3"}))
    properties = (await queue.view()).properties
    assert properties.metadata == {"c": "3"}
    assert properties.policies == policies
    assert properties.created == queue.clock.now()
    await queue.write(lambda tx: queues.set_policies(tx, part, ()))
    assert (await queue.view()).properties.policies == ()


async def test_listing(engine, clock):
    names = ["alpha", "beta", "beta-1", "beta-2", "gamma"]
    for name in reversed(names):
        await QueueDriver(engine, clock, name).create({"name": name})
    elsewhere = queues.place("anotheraccount", "beta-3")
    await engine.write(elsewhere.parts, lambda tx: queues.create(tx, elsewhere, {}))

    async def listed(**wanted):
        return await engine.read(lambda tx: queues.list_queues(tx, account, ListQueues(**wanted)))

    page = await listed(limit=5000)
    assert [entry.name for entry in page.entries] == names
    assert page.next_marker == ""
    assert all(entry.metadata is None for entry in page.entries)
    page = await listed(limit=2, prefix="beta", with_metadata=True)
    assert [(entry.name, entry.metadata) for entry in page.entries] == [
        ("beta", {"name": "beta"}),
        ("beta-1", {"name": "beta-1"}),
    ]
    page = await listed(limit=2, prefix="beta", marker=page.next_marker)
    assert [entry.name for entry in page.entries] == ["beta-2"]
    assert page.next_marker == ""
    assert (await listed(limit=1, prefix="delta")).entries == []
    assert (await listed(limit=10, marker="zeta")).entries == []
    assert (await listed(limit=10, prefix="beta", marker="gamma")).entries == []


async def test_exactly_full_page_ends_the_listing(queue: QueueDriver):
    page = await queue.engine.read(lambda tx: queues.list_queues(tx, account, ListQueues(limit=1)))
    assert len(page.entries) == 1
    assert page.next_marker == ""
