"""Service properties: one record per account and service, last writer wins.

Every element that Set Service Properties leaves out keeps its value (since 2013-08-15), so a
change is a `ServicePropertiesChange` whose absent parts are None, applied inside one transaction.
"""

from functools import lru_cache
from typing import Final

import msgspec

from etagere.kv.contract import Engine, Partition, ReadTx, Tx
from etagere.kv.layers.records import Codec
from etagere.kv.tuples import pack


class Retention(msgspec.Struct, frozen=True, array_like=True):
    enabled: bool = False
    days: int = 0
    allow_permanent_delete: bool = False


class Logging(msgspec.Struct, frozen=True, array_like=True):
    version: str = "1.0"
    delete: bool = False
    read: bool = False
    write: bool = False
    retention: Retention = Retention()


class Metrics(msgspec.Struct, frozen=True, array_like=True):
    version: str = "1.0"
    enabled: bool = False
    include_apis: bool | None = None
    retention: Retention = Retention()


class CorsRule(msgspec.Struct, frozen=True, array_like=True):
    origins: tuple[str, ...]
    methods: tuple[str, ...]
    allowed_headers: tuple[str, ...]
    exposed_headers: tuple[str, ...]
    max_age_seconds: int


class StaticWebsite(msgspec.Struct, frozen=True, array_like=True):
    enabled: bool = False
    index_document: str | None = None
    default_index_path: str | None = None
    error_document: str | None = None


class ServiceProperties(msgspec.Struct, frozen=True, array_like=True):
    """What Get Service Properties returns; the defaults are a new account's."""

    logging: Logging = Logging()
    hour_metrics: Metrics = Metrics(
        enabled=True, include_apis=True, retention=Retention(enabled=True, days=7)
    )
    minute_metrics: Metrics = Metrics()
    cors: tuple[CorsRule, ...] = ()
    default_version: str | None = None
    delete_retention: Retention = Retention()
    static_website: StaticWebsite = StaticWebsite()


class ServicePropertiesChange(msgspec.Struct, frozen=True):
    logging: Logging | None = None
    hour_metrics: Metrics | None = None
    minute_metrics: Metrics | None = None
    cors: tuple[CorsRule, ...] | None = None
    default_version: str | None = None
    delete_retention: Retention | None = None
    static_website: StaticWebsite | None = None

    def applied_to(self, old: ServiceProperties) -> ServiceProperties:
        given = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }
        return msgspec.structs.replace(old, **given)


codec: Final = Codec(1, ServiceProperties)
_key: Final = pack("properties")
default_properties: Final = ServiceProperties()
accounts_known_max: Final = 1024


@lru_cache(maxsize=256)
def partition(service: str, account: str) -> Partition:
    return Partition(pack("properties", service, account))


def is_key(key: bytes) -> bool:
    return key == _key


class KnownProperties:
    """One service's properties: nearly every request wants them, and they change almost never."""

    def __init__(self, engine: Engine, service: str) -> None:
        self._engine = engine
        self._service = service
        self._known: dict[str, tuple[int, ServiceProperties]] = {}
        """By account, with the version of their partition that they were read from."""

    async def of(self, account: str) -> ServiceProperties:
        part = partition(self._service, account)
        version = self._engine.version(part)
        known = self._known.get(account)
        if known is not None and known[0] == version:
            return known[1]
        found = await self._engine.read(lambda tx: get(tx, part))
        if version is not None:
            if len(self._known) >= accounts_known_max:
                self._known.clear()
            self._known[account] = (version, found)
        return found


async def get(tx: ReadTx, part: Partition) -> ServiceProperties:
    raw = await tx.get(part, _key)
    return default_properties if raw is None else _decode(raw)


@lru_cache(maxsize=64)
def _decode(raw: bytes) -> ServiceProperties:
    """Properties are read with nearly every request and change almost never."""
    return codec.decode(raw)


async def change(tx: Tx, part: Partition, wanted: ServicePropertiesChange) -> None:
    tx.put(part, _key, codec.encode(wanted.applied_to(await get(tx, part))))


def clear(tx: Tx, part: Partition) -> None:
    """Back to the defaults."""
    tx.delete(part, _key)
