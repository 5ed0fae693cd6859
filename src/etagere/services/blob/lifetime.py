"""Blobs that are deleted at a time that was set for them (Azure: 'Set Blob Expiry').

From that moment on a blob is not there for anybody.  Whoever comes upon its record first removes it
and begins anew (`following`); what nobody comes upon, the sweep removes.
"""

from dataclasses import dataclass
from enum import Enum

import msgspec

from etagere.base.clock import Timestamp
from etagere.base.errors import Refused
from etagere.kernel.conditions import WriteKind
from etagere.kv.contract import Tx
from etagere.services.blob import content, keys, tag_index
from etagere.services.blob.blobs import Where, drop_staged, must_exist, save, stand
from etagere.services.blob.content import Home, sweep_topic
from etagere.services.blob.guard import Guard, admit_write
from etagere.services.blob.records import BlobRecord, blobs

rows_per_step = 256


class ExpiryOption(Enum):
    """x-ms-expiry-option"""

    NEVER = "NeverExpire"
    FROM_CREATION = "RelativeToCreation"
    FROM_NOW = "RelativeToNow"
    ABSOLUTE = "Absolute"


@dataclass(frozen=True, slots=True)
class WantedExpiry:
    option: ExpiryOption
    ticks: int = 0
    """Since creation, since now, or the moment itself."""

    def moment(self, record: BlobRecord, now: Timestamp) -> int:
        match self.option:
            case ExpiryOption.NEVER:
                return 0
            case ExpiryOption.FROM_CREATION:
                return record.created + self.ticks
            case ExpiryOption.FROM_NOW:
                return now + self.ticks
            case ExpiryOption.ABSOLUTE:
                return self.ticks


async def set_expiry(tx: Tx, where: Where, wanted: WantedExpiry) -> BlobRecord:
    """Neither conditions nor a lease hold it back; the ETag changes."""
    standing = await stand(tx, where)
    home, record = standing.home, must_exist(standing.record)
    unleased = msgspec.structs.replace(record, lease=None)
    admit_write(unleased, Guard(), tx.now, WriteKind.UPDATE)
    moment = wanted.moment(record, tx.now)
    if moment and moment <= tx.now:
        raise Refused("InvalidHeaderValue", {"HeaderName": "x-ms-expiry-time"})
    if record.expires:
        tx.delete(home.part, keys.lifetime(home.generation, record.expires, where.name))
    if moment:
        tx.put(home.part, keys.lifetime(home.generation, moment, where.name), b"")
        tx.notify(sweep_topic)
    changed = msgspec.structs.replace(record, etag=tx.stamp(), modified=tx.now, expires=moment)
    save(tx, home, where.name, changed)
    return changed


async def end(tx: Tx, home: Home, name: str) -> None:
    """Remove a blob whose time is up, and with it its snapshots and what is staged for it."""
    row = keys.blob(home.generation, name)
    raw = await tx.get(home.part, row)
    record = None if raw is None else blobs.decode(raw)
    if record is None or not record.is_over(tx.now):
        return
    tag_index.forget(tx, home, name, keys.current_moment, record.tags)
    await content.let_go(tx, home, record)
    tx.delete(home.part, row)
    tx.delete(home.part, keys.lifetime(home.generation, record.expires, name))
    await drop_staged(tx, home, name)
    begin, stop = keys.snapshots_of(home.generation, name)
    while rows := await tx.scan(home.part, begin, stop, limit=rows_per_step):
        for key, taken in rows:
            await content.let_go(tx, home, blobs.decode(taken))
            tx.delete(home.part, key)


async def end_some(tx: Tx, home: Home) -> Timestamp | None:
    """Remove some of the blobs whose time is up; returns when the next one's will be, or `tx.now`
    if there is more to do at once."""
    limit = rows_per_step
    rows = await tx.scan(home.part, *keys.all_lifetimes(home.generation), limit=limit)
    for key, _ in rows:
        until, name = keys.read_lifetime(key)
        if until > tx.now:
            return until
        await end(tx, home, name)
        # Also where that did nothing, for whatever reason: it would be found for ever.
        tx.delete(home.part, key)
    return tx.now if len(rows) == limit else None
