"""Messages are moved from one queue to another in transactions, while connections break and the
server is killed: each is here or there, whole, and never both or neither (Service Bus, 'Overview of
transaction processing')."""

import asyncio
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest

from etagere.protocols.amqp.composites import composite_value
from etagere.protocols.amqp.outcomes import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Source,
    TransactionalState,
    accepted,
)
from etagere.protocols.amqp.performatives import Attach, Detach, Disposition, Flow, Transfer
from etagere.protocols.amqp.sections import section

from .clients import Connection, Lost, World, data_message, read_message
from .test_bus_histories import Served, drains_most, queue, until

target = "moved-to"
messages = 150
copies = 3
"""Of each message that is moved: a transaction that is half done would show."""
movers = 4
kills = 2
coordinator, sending, receiving = 2, 1, 0


class Moves:
    """What the movers were told; stands where a `History` does."""

    def __init__(self) -> None:
        self.committed: set[str] = set()
        self.rolled_back = 0
        self.in_doubt = 0

    def gone(self, link: object) -> None:
        """Nothing is kept of connections."""


class Mover:
    def __init__(self, world: World, moves: Moves, client: Connection) -> None:
        self.world = world
        self.moves = moves
        self.client = client
        self.inbox: deque[tuple[int, str]] = deque()
        self.taken = 0

    async def open(self) -> None:
        """All links share a session, as SDKs have it for transactions over several entities."""
        client = self.client
        await client.attach(queue, handle=receiving, receiver=True, rcv_settle_mode=1)
        await client.attach(target, handle=sending)
        client.say(Attach("tx", coordinator, False, 0, 0, Source(), Coordinator(None)))
        await client.until(Attach)

    async def outcome(self, number: int, *, of_ours: bool) -> Any:
        """Of a transfer of ours, or of a settlement; deliveries wait for their turn meanwhile."""
        while True:
            heard = await self.hear()
            if (
                isinstance(heard, Disposition)
                and heard.role is of_ours
                and heard.first <= number <= (heard.first if heard.last is None else heard.last)
            ):
                return heard.state

    async def hear(self) -> Any:
        heard = await self.client.hear()
        if isinstance(heard, Transfer):
            assert heard.delivery_id is not None
            self.inbox.append((heard.delivery_id, read_message(self.client.payload)[0]))
            self.taken += 1
        elif isinstance(heard, Detach):
            raise Lost
        return heard

    async def control(self, wish: Any) -> Any:
        payload = section(0x77, composite_value(wish))
        return await self.outcome(self.client.transfer(payload, handle=coordinator), of_ours=True)

    async def next(self) -> tuple[int, str] | None:
        if not self.inbox:
            self.client.credit(5, handle=receiving, delivery_count=self.taken)
        for _ in range(3):
            if self.inbox:
                return self.inbox.popleft()
            try:
                await asyncio.wait_for(self.hear(), 1)
            except TimeoutError:
                break
        return None

    async def move(self, number: int, name: str) -> None:
        chance = self.world.random
        declared = await self.control(Declare())
        assert isinstance(declared, Declared)
        within = TransactionalState(declared.transaction_id)
        done = TransactionalState(declared.transaction_id, accepted)
        self.client.say(Disposition(True, number, number, False, done))
        state = await self.outcome(number, of_ours=False)
        assert isinstance(state, TransactionalState), state
        self.leave_perhaps(0.02)
        for n in range(copies):
            payload = data_message(b"copy", message_id=f"{name}/{n}")
            sent = self.client.transfer(payload, handle=sending, state=within)
            assert isinstance(await self.outcome(sent, of_ours=True), TransactionalState)
        self.leave_perhaps(0.02)
        fail = chance.random() < 0.15
        self.moves.in_doubt += 1
        ended = await self.control(Discharge(declared.transaction_id, fail=fail))
        self.moves.in_doubt -= 1
        assert isinstance(ended, Accepted), ended
        if fail:
            self.moves.rolled_back += 1
            # Its lock is as it was, and goes with the connection: somebody else will move it.
            self.leave_perhaps(1)
        else:
            self.moves.committed.add(name)

    def leave_perhaps(self, likelihood: float) -> None:
        if self.world.random.random() < likelihood:
            self.world.drop(self.client, self.moves)  # type: ignore[arg-type]
            raise Lost


async def move_all(world: World, moves: Moves) -> None:
    while not world.over.is_set():
        client = await world.connect(moves)  # type: ignore[arg-type]
        mover = Mover(world, moves, client)
        try:
            await mover.open()
            while not world.over.is_set():
                found = await mover.next()
                if found is not None:
                    await mover.move(*found)
        except Lost:
            pass
        world.leave(client, moves)  # type: ignore[arg-type]


async def names_in(world: World, served: Served, entity: str) -> Counter[str]:
    """Everything that is there, deleted as it comes.

    What somebody held who has just gone comes a little later: its lock's end is stored first.
    """
    client = await world.connect(Moves())  # type: ignore[arg-type]
    await client.attach(entity, receiver=True, snd_settle_mode=1)
    found: Counter[str] = Counter()
    count = 0
    for _ in range(drains_most):
        client.credit(10_000, delivery_count=count, drain=True)
        while not isinstance(heard := await client.hear(), Flow) or heard.link_credit:
            if isinstance(heard, Transfer):
                found[read_message(client.payload)[0]] += 1
        count = heard.delivery_count  # a drain counts the credit that it took back
        if not (left := await asyncio.to_thread(served.waiting, entity)):
            client.hang_up()
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{left} messages of {entity} are there, and nobody is given them")


async def kill(world: World, served: Served) -> None:
    world.up.clear()
    served.process.process.kill()
    for client in list(world.connections):
        world.leave(client, Moves())  # type: ignore[arg-type]
    await asyncio.to_thread(served.start_again)
    world.port = served.port
    world.up.set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
async def test_every_message_is_here_or_there(tmp_path: Path, seed: int) -> None:
    served = Served(tmp_path / "data")
    world, moves = World(seed), Moves()
    try:
        served.create()
        with served.administration() as administration:
            administration.create_queue(target)
        world.port = served.port
        world.up.set()
        filling = await world.connect(moves)  # type: ignore[arg-type]
        await filling.attach(queue)
        for number in range(messages):
            await filling.send_accepted(data_message(b"x", message_id=f"m{number}"))
        world.leave(filling, moves)  # type: ignore[arg-type]
        moving = [asyncio.create_task(move_all(world, moves)) for _ in range(movers)]
        try:
            for n in range(1, kills + 2):
                wanted = messages * n // (kills + 2)
                await until(
                    lambda wanted=wanted: (
                        len(moves.committed) >= wanted or any(task.done() for task in moving)
                    ),
                    f"{wanted} moves were committed",
                )
                assert len(moves.committed) >= wanted, moving
                if n <= kills:
                    await kill(world, served)
            # Some are left where they were.
        finally:
            world.over.set()
            for task in moving:
                task.cancel()
            ended = await asyncio.gather(*moving, return_exceptions=True)
            for client in list(world.connections):
                world.leave(client, moves)  # type: ignore[arg-type]
        for error in ended:
            if isinstance(error, Exception):
                raise error
        here, there = (
            await names_in(world, served, queue),
            await names_in(world, served, target),
        )
        assert moves.rolled_back > 0
        assert world.drops > 0
        assert set(here.values()) <= {1}
        assert set(there.values()) <= {1}
        for number in range(messages):
            name = f"m{number}"
            found = sum(there[f"{name}/{n}"] for n in range(copies))
            assert (here[name], found) in ((1, 0), (0, copies)), name
            assert not (name in moves.committed and here[name])
        assert len(there) % copies == 0
        assert "Traceback" not in served.process.said
    finally:
        served.process.stop()
