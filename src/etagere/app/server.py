"""A whole server: its first process, its workers, the admin API, and the background work."""

import asyncio
import dataclasses
import difflib
import logging
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from etagere.app.background import Background
from etagere.app.compose import wanted
from etagere.app.configuration import (
    Unusable,
    account_from_table,
    refuse_known_key,
    to_account,
    without_effect,
)
from etagere.app.foundation import make_clock, unusable_directory
from etagere.app.metrics import RequestMetrics, gauge
from etagere.app.ports import bus_ports
from etagere.app.process import Process
from etagere.app.settings import AccountEntry, Settings
from etagere.app.store_metrics import store_lines
from etagere.app.workers import WorkerFailed, Workers
from etagere.base.clock import Timestamp
from etagere.kv.contract import StoreUnusable
from etagere.servers.faults import Armed, places
from etagere.servers.real import VirtualClock

if TYPE_CHECKING:
    from etagere.app.bus import Bus

_log: Final = logging.getLogger(__name__)
_connectable: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - looked up


class NotVirtual(Exception):  # noqa: N818 - an answer for people
    """Time was to be moved in a server whose clock is the real one."""


class Server:
    """Made by `start`; everything that an admin may ask of a server is a method."""

    def __init__(
        self, settings: Settings, process: Process, workers: Workers | None, held: ExitStack
    ) -> None:
        self.settings = settings
        self.process = process
        self.foundation = process.foundation
        self._held = held
        self._workers = workers
        self._background: Background | None = None
        self._bus: Bus | None = None
        self._fault_ids = count(1)
        self._began = time.monotonic()
        self._changed: dict[str, AccountEntry | None] = {}
        """Accounts put or removed at run time, for workers that start later."""

    @classmethod
    async def start(cls, settings: Settings) -> "Server":
        with ExitStack() as held:
            inherited = _lock(settings, held)
            clock = make_clock(settings)
            workers = None
            try:
                if settings.workers > 1:
                    clock_fd = clock.fd if isinstance(clock, VirtualClock) else None
                    workers = Workers(settings, inherited, clock_fd)
                    await workers.launch(settings.workers - 1)
                server = cls(settings, Process(settings, clock), workers, held)
            except BaseException:
                if workers is not None:
                    await workers.stop()
                raise
            try:
                await server._listen()
            except BaseException:
                await server.stop()
                raise
            server._held = held.pop_all()
        for name, entry in settings.accounts.items():
            _warn_of_options(name, entry)
        return server

    async def _listen(self) -> None:
        """Take all ports, in every process; from here on clients may connect."""
        settings, process, workers = self.settings, self.process, self._workers
        numbers = {name: getattr(settings, f"{name}_port") for name in wanted(settings)}
        process.bind(numbers, shared=workers is not None)
        shared = dict(process.ports.numbers)
        process.ports.bind("admin", "admin_port", settings.admin_host, settings.admin_port)
        for name, setting in bus_ports(settings, process.tls).items():
            process.ports.bind(name, setting, settings.host, getattr(settings, setting))
        if workers is not None:
            try:
                await workers.start(shared, self._state)
            except WorkerFailed as error:
                raise Unusable(str(error)) from error
        if settings.bus_config is not None:
            await self.furnish()  # what is wrong with the file ends the start

    async def furnish(self) -> None:
        """Load what serves the ports.  Whoever connected is answered now; the admin API comes last,
        when everything that it speaks of is there."""
        if self._background is not None:
            return
        settings, process = self.settings, self.process
        await process.furnish()
        if "bus" in settings.services:
            from etagere.app.bus import Bus  # noqa: PLC0415 - only what is used

            self._bus = await Bus.start(self.foundation, process)
        from etagere.app.admin import Admin  # noqa: PLC0415 - the same

        await process.serve("admin", Admin(self))
        self._background = Background(self.foundation, process.services)

    @property
    def urls(self) -> dict[str, str]:
        settings, numbers = self.settings, self.process.ports.numbers
        account = next(iter(settings.accounts))
        found = {}
        for name, number in numbers.items():
            if name == "admin":
                found[name] = self._url("http", settings.admin_host, number)
            elif name in ("amqp", "amqps"):
                found[name] = self._url(name, settings.host, number, secure=False)
            elif name == "bus-admin":
                found[name] = self._url("http", settings.host, number, secure=False)
            else:
                found[name] = f"{self._url('http', settings.host, number)}/{account}"
        return found

    def _url(self, scheme: str, host: str, port: int, *, secure: bool = True) -> str:
        if secure and self.settings.tls_cert is not None:
            scheme += "s"
        name = _connectable.get(host, host)
        return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"

    async def stop(self) -> None:
        """No new work, work in hand finished, listeners closed, everything on stable storage."""
        stopping = [self.process.refuse()]
        if self._background is not None:
            stopping.append(self._background.stop())
        if self._bus is not None:
            stopping.append(self._bus.stop())
        if self._workers is not None:
            stopping.append(self._workers.stop())
        await asyncio.gather(*stopping)
        await self.process.stop()
        self._held.close()

    async def _everywhere(self, command: str, **fields: Any) -> list[Any]:
        """Done in every process once this returns."""
        answers = [await self.process.obey(command, fields)]
        if self._workers is not None:
            answers += await self._workers.tell(command, fields)
        return answers

    def _state(self) -> list[tuple[str, dict[str, Any]]]:
        """What a worker that starts now has to be told."""
        told: list[tuple[str, dict[str, Any]]] = []
        for name, entry in self._changed.items():
            if entry is None:
                told.append(("remove_account", {"name": name}))
            else:
                told.append(("put_account", {"name": name, "entry": dataclasses.asdict(entry)}))
        told.extend(("arm", _fields(fault)) for fault in self.foundation.faults.armed())
        return told

    # ---- what the admin API offers

    async def healthy(self) -> bool:
        """Whether the store answers."""
        await self.foundation.engine.read(_nothing)
        return True

    def status(self) -> dict[str, Any]:
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, seldom asked

        settings = self.settings
        return {
            "version": version("etagere"),
            "uptime_seconds": round(time.monotonic() - self._began, 3),
            "urls": self.urls,
            "workers": 1 + (0 if self._workers is None else len(self._workers.pids())),
            "data": None if settings.in_memory else str(settings.data.resolve()),
            "durability": None if settings.in_memory else settings.durability,
            "clock": settings.clock,
            "accounts": [account.name for account in self.foundation.accounts],
            "faults": len(self.foundation.faults.armed()),
        }

    async def metrics(self) -> str:
        answers = await self._everywhere("metrics")
        merged = RequestMetrics()
        for answer in answers:
            merged.merge(answer["requests"])
        lines = [*merged.lines()]
        lines += store_lines(answer["store"] for answer in answers)
        connections = sum(answer["connections"] for answer in answers)
        lines += gauge("etagere_http_connections", "HTTP connections, on all ports.", connections)
        if self._bus is not None:
            lines += self._bus.metrics()
        lines += gauge("etagere_uptime_seconds", "Since the start.", time.monotonic() - self._began)
        return "\n".join(lines) + "\n"

    async def reset(self) -> None:
        await self.foundation.reset()
        if self._bus is not None:
            await self._bus.reset()
        self._wake()

    async def reset_account(self, name: str) -> bool:
        if self.foundation.accounts.find(name) is None:
            return False
        for service in self.process.services:
            await service.forget(self.foundation.engine, name)
        self._wake()
        return True

    async def clock_now(self) -> tuple[Timestamp, bool]:
        """The time, and whether it stands still."""
        clock = self.foundation.clock
        return clock.now(), isinstance(clock, VirtualClock) and clock.is_frozen

    async def advance(self, ticks: int) -> None:
        self._virtual().advance(ticks)
        await self._everywhere("move_clock")

    async def set_clock(self, when: Timestamp) -> None:
        self._virtual().set(when)
        await self._everywhere("move_clock")

    async def freeze(self, *, frozen: bool) -> None:
        clock = self._virtual()
        if frozen and not clock.is_frozen:
            clock.freeze()
        elif not frozen and clock.is_frozen:
            clock.resume()
        await self._everywhere("move_clock")

    def _virtual(self) -> VirtualClock:
        clock = self.foundation.clock
        if not isinstance(clock, VirtualClock):
            raise NotVirtual
        return clock

    async def put_account(self, name: str, table: dict[str, Any]) -> AccountEntry:
        """Add or change an account; `Unusable` says what is wrong with it."""
        entry = account_from_table(name, table, f"account {name}")
        to_account(name, entry)
        refuse_known_key(self.settings, name, entry)
        _warn_of_options(name, entry)
        self._changed[name] = entry  # first: a worker that starts meanwhile is told of it
        await self._everywhere("put_account", name=name, entry=dataclasses.asdict(entry))
        return entry

    async def remove_account(self, name: str) -> bool:
        if self.foundation.accounts.find(name) is None:
            return False
        self._changed[name] = None
        await self._everywhere("remove_account", name=name)
        for service in self.process.services:
            await service.forget(self.foundation.engine, name)
        if self._background is not None:
            self._background.departed(name)
        return True

    async def arm(self, fault: Armed) -> Armed:
        """ValueError where there are too many, or no point or operation of that name."""
        if fault.point not in places:
            near = difflib.get_close_matches(fault.point, places, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(places))}."
            raise ValueError(f'There is no point "{fault.point}"; {hint}')
        if fault.operation:
            self._check_operation(fault.operation)
        fault.id = next(self._fault_ids)
        await self._everywhere("arm", **_fields(fault))
        return fault

    def _check_operation(self, name: str) -> None:
        known = {n.lower(): n for service in self.process.services for n in service.operations}
        if name.lower() not in known:
            near = difflib.get_close_matches(name, known.values(), 3)
            hint = f"did you mean {', '.join(near)}?" if near else "metrics show their names."
            raise ValueError(f'There is no operation "{name}"; {hint}')

    async def disarm(self, fault_id: int) -> bool:
        return (await self._everywhere("disarm", id=fault_id))[0] is True

    async def clear_faults(self) -> None:
        await self._everywhere("clear_faults")

    async def faults(self) -> list[dict[str, Any]]:
        hits: dict[int, int] = {}
        for answer in await self._everywhere("fault_hits"):
            for fault_id, number in answer:
                hits[fault_id] = hits.get(fault_id, 0) + number
        return [
            {**_fields(fault), "hits": hits.get(fault.id, 0)}
            for fault in self.foundation.faults.armed()
        ]

    async def reload_certificate(self) -> None:
        """Take the files of --tls-cert and --tls-key as they are now, or go on as before."""
        try:
            await self._everywhere("reload_certificate")
        except (Unusable, RuntimeError) as error:  # the latter is a worker's
            _log.error("certificate not taken", extra={"why": str(error)})
        else:
            _log.info("certificate read again")

    def _wake(self) -> None:
        if self._background is not None:
            self._background.wake()


def _lock(settings: Settings, held: ExitStack) -> tuple[int, ...]:
    """One server to a directory; the descriptor goes to workers, who hold it too."""
    if settings.in_memory:
        return ()
    from etagere.kv.engines.directory_lock import DirectoryLock  # noqa: PLC0415 - has fcntl

    try:
        lock = held.enter_context(DirectoryLock(settings.data))
    except StoreUnusable as error:
        if isinstance(error.__cause__, OSError):
            raise unusable_directory(settings.data, error.__cause__) from error
        raise Unusable(f"--data {error}; stop that server or choose another directory.") from error
    except OSError as error:
        raise unusable_directory(settings.data, error) from error
    return (lock.fd,)


def _warn_of_options(name: str, entry: AccountEntry) -> None:
    for option in without_effect(entry):
        _log.warning("%s does little or nothing in this version", option, extra={"account": name})


def _fields(fault: Armed) -> dict[str, Any]:
    return {
        item.name: getattr(fault, item.name)
        for item in dataclasses.fields(fault)
        if item.name not in ("chance", "hits")
    }


async def _nothing(tx: object) -> None:
    del tx
