"""Many senders and receivers, a server that is killed, connections that break: what clients were
told stays true (Service Bus, 'Message transfers, locks, and settlement')."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from etagere.testing import ServerProcess

from .clients import World, drain, receiver, sender, session_receiver
from .history import History

queue, session_queue = "histories", "session-histories"
senders, session_senders = 4, 3
receivers, session_receivers = 6, 4
messages_of_sender, messages_of_session_sender = 1_500, 500
sessions_of_sender = 4
kills = 3
patience_seconds = 30
drains_most = 20
"""One takes all that is there; a second one what was on its way."""


def wait_until_served(port: str | int) -> None:
    """`ready` means that the port is bound; an answer means that the authority's file is there."""
    with socket.create_connection(("127.0.0.1", int(port)), 30) as probe:
        probe.sendall(b"AMQP\x03\x01\x00\x00")
        assert probe.recv(8)


class Served:
    """`etagere serve` on one directory, started as often as it is killed."""

    def __init__(self, data: Path) -> None:
        self._arguments = ("--data", str(data), "--services", "bus")
        self._authority = data / "certificates" / "authority.pem"
        self.process = ServerProcess(self._arguments)
        wait_until_served(self.port)

    @property
    def port(self) -> int:
        return int(self.process.urls["amqp"].rpartition(":")[2])

    def start_again(self) -> None:
        assert "Traceback" not in self.process.said
        self.process.stop()
        self.process = ServerProcess(self._arguments)
        wait_until_served(self.port)

    def administration(self) -> ServiceBusAdministrationClient:
        return ServiceBusAdministrationClient.from_connection_string(
            f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
            connection_verify=str(self._authority),
        )

    def create(self) -> None:
        with self.administration() as client:
            for name, requires_session in ((queue, False), (session_queue, True)):
                client.create_queue(
                    name,
                    requires_session=requires_session,
                    lock_duration="PT5M",
                    max_delivery_count=1_000,
                )

    def waiting(self, name: str) -> int:
        with self.administration() as client:
            return int(client.get_queue_runtime_properties(name).total_message_count or 0)


@pytest.fixture
def served(tmp_path: Path):
    server = Served(tmp_path / "data")
    try:
        server.create()
        yield server
        assert "Traceback" not in server.process.said
    finally:
        server.process.stop()


async def until(condition: Callable[[], bool], what: str, *histories: History) -> None:
    """Nothing is waited for once something is known to be wrong."""
    for _ in range(patience_seconds * 20):
        for history in histories:
            history.check_so_far()
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"in {patience_seconds} seconds it did not come to be that {what}")


async def kill(world: World, histories: list[History], served: Served) -> None:
    """Everything that was not heard by now will never be."""
    world.up.clear()
    served.process.process.kill()
    for client in list(world.connections):
        for history in histories:
            history.gone(client)
        world.leave(client, histories[0])
    await asyncio.to_thread(served.start_again)
    world.port = served.port
    world.up.set()


async def kill_now_and_then(world: World, histories: list[History], served: Served) -> None:
    """When a quarter, a half and three quarters are acknowledged, wherever that is."""
    total = senders * messages_of_sender + session_senders * messages_of_session_sender

    def acknowledged() -> int:
        return sum(f.acknowledged for history in histories for f in history.fates.values())

    for n in range(1, kills + 1):
        wanted = total * n // (kills + 1)
        await until(
            lambda wanted=wanted: acknowledged() >= wanted,
            f"{wanted} messages were acknowledged",
            *histories,
        )
        await kill(world, histories, served)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_what_clients_were_told(served: Served, seed: int) -> None:
    world, plain, sessions = World(seed), History(), History()
    world.port = served.port
    world.up.set()
    sending = [
        asyncio.create_task(sender(world, plain, queue, f"s{n}", messages_of_sender))
        for n in range(senders)
    ] + [
        asyncio.create_task(
            sender(
                world,
                sessions,
                session_queue,
                f"t{n}",
                messages_of_session_sender,
                sessions_of_sender,
            )
        )
        for n in range(session_senders)
    ]
    receiving = [asyncio.create_task(receiver(world, plain, queue)) for _ in range(receivers)] + [
        asyncio.create_task(session_receiver(world, sessions, session_queue))
        for _ in range(session_receivers)
    ]
    killing = asyncio.create_task(kill_now_and_then(world, [plain, sessions], served))
    try:
        await until(
            lambda: all(task.done() for task in (*sending, killing)),
            "every message was acknowledged, or its sender in doubt",
            plain,
            sessions,
        )
        await asyncio.gather(*sending, killing)
        # Those that are left over by senders in doubt have been stored, or never will be.
        await until_empty(served, session_queue, plain, sessions)
    finally:
        world.over.set()
        for task in (*receiving, *sending, killing):
            task.cancel()
        ended = await asyncio.gather(*receiving, *sending, killing, return_exceptions=True)
        for client in list(world.connections):
            world.leave(client, plain)
    for error in ended:
        if isinstance(error, Exception):
            raise error
    for history in (plain, sessions):
        history.check_so_far()
    for _ in range(drains_most):
        if not (left := await asyncio.to_thread(served.waiting, queue)):
            break
        await drain(world, plain, queue)
        plain.check_so_far()
    else:
        raise AssertionError(f"{left} messages of {queue} are there, and nobody is given them")
    assert world.drops > 0
    for history in (plain, sessions):
        assert history.refusals == []
        history.check()


async def until_empty(served: Served, name: str, *histories: History) -> None:
    for _ in range(patience_seconds * 2):
        for history in histories:
            history.check_so_far()
        if not (left := await asyncio.to_thread(served.waiting, name)):
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"{left} messages of {name} are there, and nobody takes them")
