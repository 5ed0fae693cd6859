"""Pins: downloads of the current page blob that take more than one look at the store.

A page blob is written where it stands, unless somebody else holds its epoch.  So a download that
cannot get hold of everything at once becomes a holder for as long as it lasts: writes go on in a
new epoch, and it sees the old one to its end, unmixed.

A pin is a row with a time until which it holds.  Whoever reads renews it; if the process dies, the
sweep finds it overdue and lets go in its place.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from etagere.base.clock import Clock, Timestamp, seconds
from etagere.kv.contract import Engine, ReadTx, Tx
from etagere.services.blob import content, keys
from etagere.services.blob.content import Home
from etagere.services.blob.records import BlobRecord, PageMap

held_for: Final = seconds(600)
renewed_after: Final = held_for // 4


class Pin(NamedTuple):
    page_map: PageMap
    id: int
    until: Timestamp

    @property
    def renewal(self) -> Timestamp:
        return Timestamp(self.until - held_for + renewed_after)


async def pin(tx: Tx, home: Home, page_map: PageMap) -> Pin:
    """Hold the epoch of a record that this transaction has read."""
    await content.add_holder(tx, home, page_map.epoch)
    return pin_new(tx, home, page_map)


def pin_new(tx: Tx, home: Home, page_map: PageMap) -> Pin:
    """Hold a map that this transaction has made, until a record does."""
    made = Pin(page_map, tx.stamp(), Timestamp(tx.now + held_for))
    tx.put(home.part, _key(home, made), b"")
    return made


async def renew(tx: Tx, home: Home, held: Pin) -> Pin:
    """Hold it longer; raises ContentGone if it was overdue and has been swept away."""
    if await tx.get(home.part, _key(home, held)) is None:
        raise content.ContentGone
    if not await content.is_alive(tx, home):
        return held._replace(until=Timestamp(tx.now + held_for))
    tx.delete(home.part, _key(home, held))
    longer = held._replace(until=Timestamp(tx.now + held_for))
    tx.put(home.part, _key(home, longer), b"")
    return longer


async def hand_over(tx: Tx, home: Home, held: Pin) -> PageMap:
    """Let a record hold what the pin held; raises ContentGone if it has been swept away."""
    if await tx.get(home.part, _key(home, held)) is None:
        raise content.ContentGone
    tx.delete(home.part, _key(home, held))
    return held.page_map


async def unpin(tx: Tx, home: Home, held: Pin) -> None:
    """Harmless if it was swept away; with a deleted container it goes as all its rows do."""
    if not await content.is_alive(tx, home):
        return
    if await tx.get(home.part, _key(home, held)) is not None:
        tx.delete(home.part, _key(home, held))
        await content.let_go_of_epoch(tx, home, held.page_map)


def _key(home: Home, held: Pin) -> bytes:
    page_map = held.page_map
    return keys.pin(home.generation, held.until, page_map.id, page_map.epoch, held.id)


async def next_expiry(tx: ReadTx, home: Home) -> Timestamp | None:
    rows = await tx.scan(home.part, *keys.all_pins(home.generation), limit=1)
    return keys.read_pin(rows[0][0])[0] if rows else None


async def expire(tx: Tx, home: Home, limit: int) -> None:
    """Let go of some of what nobody has renewed in time."""
    rows = await tx.scan(home.part, *keys.all_pins(home.generation), limit=limit)
    for key, _ in rows:
        until, (map_id, epoch) = keys.read_pin(key)
        if until > tx.now:
            return
        tx.delete(home.part, key)
        await content.let_go_of_epoch(tx, home, PageMap(map_id, epoch))


class Opened(Protocol):
    """What a look at the store found for reading."""

    @property
    def home(self) -> Home: ...

    @property
    def record(self) -> BlobRecord: ...


Look = TypeVar("Look", bound=Opened)


class Holding:
    """A pin as whoever reads keeps it: `keep` now and then, `release` at the end."""

    def __init__(self, engine: Engine, clock: Clock, home: Home, held: Pin) -> None:
        self._engine = engine
        self._clock = clock
        self._home = home
        self._pin = held

    async def keep(self) -> None:
        if self._clock.now() > self._pin.renewal:
            body = partial(renew, home=self._home, held=self._pin)
            self._pin = await self._engine.write((self._home.part,), body)

    @property
    def pin(self) -> Pin:
        return self._pin

    async def release(self) -> None:
        body = partial(unpin, home=self._home, held=self._pin)
        await self._engine.write((self._home.part,), body)


async def open_pinned(
    engine: Engine, clock: Clock, opened: Look, again: Callable[[ReadTx], Awaitable[Look]]
) -> tuple[Look, Holding | None]:
    """Make sure that what was opened stays as it is: a snapshot does; anything else is looked at
    once more (it may have changed) and pinned in the same transaction."""
    if opened.record.page_map is None or opened.record.snapshot:
        return opened, None

    async def body(tx: Tx) -> tuple[Look, Pin | None]:
        found = await again(tx)
        page_map = found.record.page_map
        return found, None if page_map is None else await pin(tx, found.home, page_map)

    found, held = await engine.write((opened.home.part,), body)
    return found, None if held is None else Holding(engine, clock, found.home, held)
