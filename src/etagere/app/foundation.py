"""What every service of a process stands on: time, chance, the store, extents, accounts."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, Literal, Protocol

from etagere.app.configuration import Unusable, to_account
from etagere.app.metrics import RequestMetrics
from etagere.app.settings import Settings
from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.extents.contract import ExtentId, ExtentStore
from etagere.kv.contract import Engine, StoreUnusable
from etagere.servers.faults import ArmedFaults
from etagere.servers.real import RealClock, SystemEntropy, TimerClock, VirtualClock
from etagere.servers.timers import Timers
from etagere.services.common.accounts import AccountDirectory

extents_directory: Final = "extents"


class EmbeddedEngine(Engine, Protocol):
    """An engine that can forget everything at once."""

    async def reset(self) -> None: ...


class Foundation:
    """Made with an engine that is open; the extents are opened by the first who asks for them,
    because what they are made of takes as long to load as half of a start."""

    def __init__(
        self,
        settings: Settings,
        clock: TimerClock,
        engine: EmbeddedEngine,
        faults: ArmedFaults,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.engine = engine
        self.faults = faults
        self.wall: Clock = RealClock()
        """The time that clients know: they sign it, and files carry it."""
        self.entropy: Entropy = SystemEntropy()
        self.timers = Timers(clock)
        self.metrics = RequestMetrics()
        self.accounts = AccountDirectory(
            to_account(name, entry) for name, entry in settings.accounts.items()
        )
        self._extents: ExtentStore | None = None
        self._before_close: list[Callable[[], Awaitable[None]]] = []

    @property
    def extents(self) -> ExtentStore:
        if self._extents is None:
            self._extents = _open_extents(self.settings, self.clock)
        return self._extents

    async def reset(self) -> None:
        """Forget every row, then the extents that none refers to any more.

        They are given up, not just removed: an upload that is on its way finds its extent refused
        instead of leaving a record of bytes that are gone.
        """
        from etagere.extents import references  # noqa: PLC0415 - see above

        await self.engine.reset()
        async for extent_ids in _batches(self.extents):
            await references.give_up(self.engine, self.extents, extent_ids)

    def before_close(self, work: Callable[[], Awaitable[None]]) -> None:
        """What is to be done when no request comes any more, and the store is still open."""
        self._before_close.append(work)

    async def close(self) -> None:
        for work in self._before_close:
            await work()
        self.timers.close()
        await self.engine.close()
        if self._extents is not None:
            await self._extents.close()


async def _batches(extents: ExtentStore) -> AsyncIterator[Iterable[ExtentId]]:
    batch: list[ExtentId] = []
    async for stored in extents.list():
        batch.append(stored.id)
        if len(batch) == 1000:
            yield batch
            batch = []
    if batch:
        yield batch


def make_clock(settings: Settings, shared_fd: int | None = None) -> TimerClock:
    return VirtualClock(shared_fd) if settings.clock == "virtual" else RealClock()


def lay(settings: Settings, clock: TimerClock) -> Foundation:
    """Open the store, with the engine that was asked for; `Unusable` says what cannot be opened."""
    faults = ArmedFaults()
    engine: EmbeddedEngine
    if settings.in_memory:
        from etagere.kv.engines.memory import MemoryEngine  # noqa: PLC0415 - only what is used

        engine = MemoryEngine(clock, strict=False, faults=faults)
    else:
        from etagere.kv.engines.lmdb import LmdbEngine  # noqa: PLC0415

        relaxed = settings.durability == "relaxed"
        durability: Literal["sync", "relaxed"] = "relaxed" if relaxed else "sync"
        try:
            engine = LmdbEngine.open(
                settings.data,
                clock=clock,
                durability=durability,
                faults=faults,
                alone=settings.workers == 1,
            )
        except StoreUnusable as error:
            raise Unusable(f"{error}; choose another --data directory.") from error
    return Foundation(settings, clock, engine, faults)


def _open_extents(settings: Settings, clock: TimerClock) -> ExtentStore:
    if settings.in_memory:
        from etagere.extents.memory import MemoryExtents  # noqa: PLC0415 - only what is used

        return MemoryExtents(clock)
    from etagere.extents.local import LocalExtents  # noqa: PLC0415

    try:
        return LocalExtents(
            settings.data / extents_directory, relaxed=settings.durability == "relaxed"
        )
    except OSError as error:
        raise unusable_directory(settings.data, error) from error


def unusable_directory(path: Path, error: OSError) -> Unusable:
    return Unusable(
        f"--data {path} cannot be used ({error.strerror}); make it writable or choose another."
    )
