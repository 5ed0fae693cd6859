"""The Table service: the store that its operations run on."""

from typing import TypeVar

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.kv.contract import Body, Engine, Partition, ReadTx, Tx
from etagere.services.common import service_properties
from etagere.services.common.service_properties import ServiceProperties

T = TypeVar("T")


class TableService:
    def __init__(self, engine: Engine, clock: Clock, entropy: Entropy) -> None:
        self.engine = engine
        self.clock = clock
        self.entropy = entropy

    async def read(self, body: Body[ReadTx, T]) -> T:
        return await self.engine.read(body)

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        return await self.engine.write(parts, body)

    async def properties(self, account: str) -> ServiceProperties:
        part = service_properties.partition("table", account)
        return await self.engine.read(lambda tx: service_properties.get(tx, part))
