"""The Table service: the store that its operations run on."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.kv.contract import Body, Engine, Partition, ReadTx, Tx
from etagere.services.common.service_properties import KnownProperties, ServiceProperties

T = TypeVar("T")


class TableService:
    def __init__(self, engine: Engine, clock: Clock, entropy: Entropy) -> None:
        self.engine = engine
        self._properties = KnownProperties(engine, "table")
        self.clock = clock
        self.entropy = entropy

    def read(self, body: Body[ReadTx, T]) -> Coroutine[Any, Any, T]:
        return self.engine.read(body)

    def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> Coroutine[Any, Any, T]:
        return self.engine.write(parts, body)

    def properties(self, account: str) -> Coroutine[Any, Any, ServiceProperties]:
        return self._properties.of(account)
