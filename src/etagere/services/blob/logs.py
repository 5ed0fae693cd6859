"""The container `$logs`, which the service itself fills with what Storage Analytics logs.

(Azure: 'Storage Analytics logging', how logs are stored.)  A log is a block blob of lines,
`<service>/YYYY/MM/DD/hh00/NNNNNN.log`, that is written once; what is in it stands in its metadata.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from etagere.base.clock import Timestamp, seconds, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.dates import format_iso_seconds
from etagere.kv.contract import ReadTx, Tx
from etagere.services.blob import block_blobs, containers, history, keys
from etagere.services.blob.blobs import Where, stand
from etagere.services.blob.containers import CreateContainer, logs_container, place
from etagere.services.blob.content import Home, home_of
from etagere.services.blob.creation import NewBlob
from etagere.services.blob.guard import open_container, unguarded
from etagere.services.blob.history import Snapshots, nothing_kept
from etagere.services.blob.received import Received
from etagere.services.blob.records import ContentHeaders, blobs
from etagere.services.blob.service import BlobService
from etagere.services.common import service_properties

kinds: Final = ("read", "write", "delete")
logged_services: Final = ("blob", "queue", "table")
expired_a_step: Final = 64
_digits: Final = 6


class Log(NamedTuple):
    """The lines of one hour."""

    account: str
    service: str
    version: str
    kinds: frozenset[str]
    first: Timestamp
    last: Timestamp
    """When the first and the last request in it began."""
    data: bytes

    @property
    def folder(self) -> str:
        began = datetime.fromtimestamp(self.first // ticks_per_second, UTC)
        return f"{self.service}/{began:%Y/%m/%d/%H}00/"

    @property
    def metadata(self) -> dict[str, str]:
        return {
            "LogType": ",".join(kind for kind in kinds if kind in self.kinds),
            "StartTime": format_iso_seconds(self.first),
            "EndTime": format_iso_seconds(self.last),
            "LogVersion": self.version,
        }


async def store(service: BlobService, log: Log) -> str:
    """Write a log after those that its hour has already; returns its name."""
    where = place(log.account, logs_container)
    make = partial(containers.create, where=where, wanted=CreateContainer(metadata={}))
    try:
        await service.read(partial(open_container, part=where.part))
    except Refused:
        try:
            await service.write((where.part, where.account_part), make)
        except Refused as refused:
            if refused.code != "ContainerAlreadyExists":
                raise
    size = len(log.data)
    received = await service.receive(_chunks(log.data), size, size, md5=True)
    return await service.keep(where.part, received, partial(_put, log=log, received=received))


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _put(tx: Tx, log: Log, received: Received) -> str:
    part = keys.container_partition(log.account, logs_container)
    home = home_of(part, await open_container(tx, part))
    name = f"{log.folder}{await _next_number(tx, home, log.folder):0{_digits}}.log"
    wanted = NewBlob(
        headers=ContentHeaders(content_type="application/octet-stream"), metadata=log.metadata
    )
    await block_blobs.put(tx, Where(part, name), unguarded, wanted, received, nothing_kept)
    return name


async def _next_number(tx: ReadTx, home: Home, folder: str) -> int:
    begin, end = keys.blobs_named(home.generation, folder)
    rows = await tx.scan(home.part, begin, end, limit=1, reverse=True)
    if not rows:
        return 0
    number = keys.name_of(rows[0][0])[len(folder) :].removesuffix(".log")
    return int(number) + 1 if number.isdecimal() else 0


# ---- how long they are kept


async def expire(service: BlobService, account: str) -> Timestamp | None:
    """Delete the logs that need not be kept any longer; returns when the next one's time is up."""
    part = keys.container_partition(account, logs_container)
    soonest: Timestamp | None = None
    for name in logged_services:
        properties = await service.read(
            partial(service_properties.get, part=service_properties.partition(name, account))
        )
        retention = properties.logging.retention
        if not retention.enabled:
            continue
        kept_for = seconds(retention.days * history.seconds_per_day)
        body = partial(_expire, where=Where(part, f"{name}/"), kept_for=kept_for)
        try:
            while (due := await service.write((part,), body)) == _more:
                pass
        except Refused:
            return None  # nothing has been logged yet
        if due is not None and (soonest is None or due < soonest):
            soonest = due
    return soonest


_more: Final = Timestamp(0)


async def _expire(tx: Tx, where: Where, kept_for: int) -> Timestamp | None:
    """Some of those whose names begin like `where`'s, oldest first."""
    home = (await stand(tx, where)).home
    rows = await tx.scan(
        home.part, *keys.blobs_named(home.generation, where.name), limit=expired_a_step
    )
    for key, raw in rows:
        due = Timestamp(blobs.decode(raw).modified + kept_for)
        if due > tx.now:
            return due
        name = keys.name_of(key)
        await history.delete(
            tx, Where(where.part, name), unguarded, Snapshots.INCLUDE, nothing_kept
        )
    return _more if len(rows) == expired_a_step else None
