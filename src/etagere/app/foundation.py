"""What every service of a process stands on: time, chance, the store, extents, accounts."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from etagere.app.configuration import Unusable, to_account
from etagere.app.metrics import RequestMetrics
from etagere.app.settings import Settings
from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.extents import references
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


@dataclass(slots=True, kw_only=True)
class Foundation:
    settings: Settings
    clock: TimerClock
    engine: EmbeddedEngine
    extents: ExtentStore
    accounts: AccountDirectory
    timers: Timers
    wall: Clock = field(default_factory=RealClock)
    """The time that clients know: they sign it, and files carry it."""
    entropy: Entropy = field(default_factory=SystemEntropy)
    faults: ArmedFaults = field(default_factory=ArmedFaults)
    metrics: RequestMetrics = field(default_factory=RequestMetrics)

    async def reset(self) -> None:
        """Forget every row, then the extents that none refers to any more.

        They are given up, not just removed: an upload that is on its way finds its extent refused
        instead of leaving a record of bytes that are gone.
        """
        await self.engine.reset()
        async for extent_ids in _batches(self.extents):
            await references.give_up(self.engine, self.extents, extent_ids)

    async def close(self) -> None:
        self.timers.close()
        await self.engine.close()
        await self.extents.close()


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
    extents: ExtentStore
    if settings.in_memory:
        from etagere.extents.memory import MemoryExtents  # noqa: PLC0415 - only what is used
        from etagere.kv.engines.memory import MemoryEngine  # noqa: PLC0415

        engine = MemoryEngine(clock, strict=False, faults=faults)
        extents = MemoryExtents(clock)
    else:
        engine, extents = _open_directory(settings, clock, faults)
    accounts = AccountDirectory(
        to_account(name, entry) for name, entry in settings.accounts.items()
    )
    return Foundation(
        settings=settings,
        clock=clock,
        engine=engine,
        extents=extents,
        accounts=accounts,
        timers=Timers(clock),
        faults=faults,
    )


def _open_directory(
    settings: Settings, clock: TimerClock, faults: ArmedFaults
) -> tuple[EmbeddedEngine, ExtentStore]:
    from etagere.extents.local import LocalExtents  # noqa: PLC0415 - only what is used
    from etagere.kv.engines.lmdb import LmdbEngine  # noqa: PLC0415

    relaxed = settings.durability == "relaxed"
    durability: Literal["sync", "relaxed"] = "relaxed" if relaxed else "sync"
    try:
        extents = LocalExtents(settings.data / extents_directory, relaxed=relaxed)
        engine = LmdbEngine.open(settings.data, clock=clock, durability=durability, faults=faults)
    except StoreUnusable as error:
        raise Unusable(f"{error}; choose another --data directory.") from error
    except OSError as error:
        raise unusable_directory(settings.data, error) from error
    return engine, extents


def unusable_directory(path: Path, error: OSError) -> Unusable:
    return Unusable(
        f"--data {path} cannot be used ({error.strerror}); make it writable or choose another."
    )
