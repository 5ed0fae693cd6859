"""Senders and receivers over raw, pipelined AMQP that record what they do; they outlive servers."""

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from etagere.protocols.amqp.decoding import decode
from etagere.protocols.amqp.outcomes import Accepted, Modified, Source, accepted
from etagere.protocols.amqp.performatives import Detach, Disposition, Flow, Transfer
from etagere.protocols.amqp.values import Symbol, UInt

sys.path.append(str(Path(__file__).parents[2] / "servers" / "amqp"))

from raw_amqp import RawClient, data_message

from .history import History

login = b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE"
session_filter = Symbol("com.microsoft:session-filter")
window = 40
credit_of_link = 20
session_wait_milliseconds = 1_000
empty_after_seconds = 0.5
named_share = 0.3
"""Of the sessions that are accepted, those that are asked for by name, whoever holds them."""


class Lost(Exception):  # noqa: N818
    """The connection is gone, by our doing or the server's."""


class Connection(RawClient):
    """Knows when it was given up: what is still in its buffers then was never heard."""

    given_up = False
    link: object = None

    async def hear(self) -> Any:
        try:
            heard = await super().hear()
        except (OSError, EOFError) as error:
            raise Lost from error
        if self.given_up:
            raise Lost
        return heard

    def give_up(self, history: History) -> None:
        if not self.given_up:
            self.given_up = True
            history.gone(self)
            self.writer.transport.abort()


class World:
    """One server, killed and started again now and then, and everybody connected to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.port = 0
        self.up = asyncio.Event()
        self.over = asyncio.Event()
        """Receivers leave."""
        self.connections: set[Connection] = set()
        self.drops = 0

    async def connect(self, history: History) -> Connection:
        while True:
            await self.up.wait()
            try:
                client = await Connection.open(self.port, login=login)
            except (OSError, EOFError, Lost, PermissionError):
                await asyncio.sleep(0.05)
                continue
            if not self.up.is_set():
                client.give_up(history)
                continue
            self.connections.add(client)
            return client

    def drop(self, client: Connection, history: History) -> None:
        self.drops += 1
        self.leave(client, history)

    def leave(self, client: Connection, history: History) -> None:
        client.give_up(history)
        self.connections.discard(client)


async def sender(
    world: World, history: History, queue: str, link: str, count: int, sessions: int = 0
) -> None:
    """Sends so many messages, each of them once; those that were not answered stay in doubt."""
    sent = 0
    while sent < count:
        client = await world.connect(history)
        waiting: dict[int, str] = {}
        try:
            await client.attach(queue)
            while sent < count or waiting:
                while sent < count and len(waiting) < window:
                    name = f"{link}-{sent}"
                    session = f"{link}-session-{sent % sessions}" if sessions else None
                    history.sending(link, name, session)
                    more = {"group_id": session} if session else {}
                    number = client.transfer(data_message(name.encode(), message_id=name, **more))
                    waiting[number] = name
                    sent += 1
                heard = await client.hear()
                if isinstance(heard, Disposition):
                    last = heard.first if heard.last is None else heard.last
                    for number in range(heard.first, last + 1):
                        name = waiting.pop(number)
                        if isinstance(heard.state, Accepted):
                            history.acknowledged(name)
                        else:
                            history.refusals.append(f"{name}: {heard.state}")
                if world.random.random() < 0.01:
                    world.drop(client, history)
        except Lost:
            world.leave(client, history)
    # Its connection stays as it is until the end of the test or of the server.


def read_message(payload: bytes) -> tuple[str, int, int]:
    """A message's id, its sequence number and its delivery count."""
    name, number, count, at = "", 0, 0, 0
    while at < len(payload):
        found, at = decode(payload, at)
        match int(found.descriptor):
            case 0x70 if len(found.value) > 4:
                count = found.value[4] or 0
            case 0x72:
                number = found.value[Symbol("x-opt-sequence-number")]
            case 0x73:
                name = found.value[0]
    return name, number, count


class Receiver:
    """One link: what it was delivered, what it has settled and not been answered yet."""

    def __init__(
        self, world: World, history: History, client: Connection, session: str | None = None
    ) -> None:
        self.world = world
        self.history = history
        self.client = client
        self.session = session
        self.taken = 0
        self.held: list[tuple[int, str]] = []
        self._asked: dict[int, tuple[str, bool]] = {}
        self._granted = 0

    def grant(self, *, drain: bool = False) -> None:
        self._granted = self.taken + credit_of_link
        self.client.credit(credit_of_link, delivery_count=self.taken, drain=drain)

    async def hear(self) -> object:
        heard = await self.client.hear()
        if isinstance(heard, Transfer):
            self._delivered(heard)
        elif isinstance(heard, Disposition):
            self._answered(heard)
        elif isinstance(heard, Detach):
            raise Lost
        return heard

    def _delivered(self, transfer: Transfer) -> None:
        assert transfer.delivery_id is not None
        name, number, count = read_message(self.client.payload)
        if self.session is not None:
            self.history.session_delivered(self.client, self.session, name, number)
        self.history.delivered(self.client, name, number, count)
        self.taken += 1
        self.held.append((transfer.delivery_id, name))

    def _answered(self, disposition: Disposition) -> None:
        last = disposition.first if disposition.last is None else disposition.last
        for number in range(disposition.first, last + 1):
            name, complete = self._asked.pop(number)
            performed = isinstance(disposition.state, Accepted if complete else Modified)
            self.history.settled(self.client, name, complete=complete, performed=performed)

    def settle(self, number: int, name: str, *, complete: bool = True) -> None:
        if complete:
            self.history.completing(name)
        else:
            self.history.abandoning(name)
        self._asked[number] = (name, complete)
        state = accepted if complete else Modified(delivery_failed=True)
        self.client.say(Disposition(True, number, number, False, state))

    def settle_some(self, *, abandon: float) -> None:
        """A slow consumer keeps some for later; sessions are settled in their order."""
        chance = self.world.random
        if self.session is None:
            chance.shuffle(self.held)
        keep = chance.choice((0, 0, 0, 2, 5))
        while len(self.held) > keep:
            number, name = self.held.pop(0)
            self.settle(number, name, complete=chance.random() >= abandon)
        if self.taken > self._granted - credit_of_link // 2:
            self.grant()

    @property
    def unanswered(self) -> int:
        return len(self._asked)


async def receiver(world: World, history: History, queue: str) -> None:
    """Takes what comes, completes most, abandons some, drops its connection now and then."""
    while not world.over.is_set():
        client = await world.connect(history)
        try:
            await client.attach(queue, receiver=True, rcv_settle_mode=1)
            link = Receiver(world, history, client)
            link.grant()
            while True:
                await link.hear()
                link.settle_some(abandon=0.05)
                if world.random.random() < 0.004:
                    world.drop(client, history)
                if world.random.random() < 0.01:
                    await asyncio.sleep(0.05)  # slow
        except Lost:
            world.leave(client, history)


async def session_receiver(world: World, history: History, queue: str) -> None:
    """Takes one available session after another, some messages of each."""
    while not world.over.is_set():
        client = await world.connect(history)
        try:
            while await _one_session(world, history, client, queue):
                pass
        except Lost:
            pass
        world.leave(client, history)


async def _one_session(world: World, history: History, client: Connection, queue: str) -> bool:
    """False where it ended in a way that ends the connection."""
    wanted: str | None = None
    if history.session_of and world.random.random() < named_share:
        wanted = world.random.choice(list(history.session_of.values()))
    reply = await client.attach(
        queue,
        receiver=True,
        rcv_settle_mode=1,
        source=Source(queue, filter={session_filter: wanted}),
        properties={Symbol("com.microsoft:timeout"): UInt(session_wait_milliseconds)},
    )
    filters = None if reply.source is None else reply.source.filter
    if not filters:
        await client.until(Detach)  # no session has messages, or somebody has this one
        client.say(Detach(0, True))
        return True
    session = filters[session_filter]
    history.session_opened(client, session, wanted)
    link = Receiver(world, history, client, session)
    link.grant()
    enough = world.random.randint(5, 60)
    while link.taken < enough:
        try:
            await asyncio.wait_for(link.hear(), empty_after_seconds)
        except TimeoutError:
            break  # the session is empty
        link.settle_some(abandon=0)
        if world.random.random() < 0.004:
            world.drop(client, history)
    history.gone(client)
    if world.random.random() < 0.5:
        return False
    client.say(Detach(0, True))
    while True:  # what was on its way is given back
        heard = await client.hear()
        if isinstance(heard, Detach):
            return True
        if isinstance(heard, Disposition):
            link._answered(heard)


async def drain(world: World, history: History, queue: str) -> None:
    """Completes all that there is."""
    client = await world.connect(history)
    await client.attach(queue, receiver=True, rcv_settle_mode=1)
    link = Receiver(world, history, client)
    with suppress(Lost):
        while True:
            before = link.taken
            link.grant(drain=True)
            while not isinstance(heard := await link.hear(), Flow) or heard.link_credit:
                pass
            for number, name in link.held:
                link.settle(number, name)
            link.held.clear()
            while link.unanswered:
                await link.hear()
            if link.taken == before:
                break
    world.leave(client, history)
