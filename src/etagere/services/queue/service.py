"""The Queue service: the store it works on, and what it takes its time and chance from."""

from typing import Final, TypeVar

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.kv.contract import Body, Engine, Partition, ReadTx, Tx
from etagere.services.common import service_properties
from etagere.services.common.service_properties import ServiceProperties
from etagere.services.queue.receipts import tail_of

T = TypeVar("T")

stale_not_found: Final = "MessageNotFound"
stale_mismatch: Final = "PopReceiptMismatch"


class QueueService:
    def __init__(
        self, engine: Engine, clock: Clock, entropy: Entropy, *, stale_code: str = stale_not_found
    ) -> None:
        """`stale_code` is what a receipt that another has replaced is refused with: the live
        service says that the message is not found, older versions of it and its emulator said
        PopReceiptMismatch."""
        self.engine = engine
        self.clock = clock
        self.entropy = entropy
        self.stale_code = stale_code

    async def read(self, body: Body[ReadTx, T]) -> T:
        return await self.engine.read(body)

    async def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> T:
        return await self.engine.write(parts, body)

    def new_tail(self) -> int:
        """The part of a new message's id that nobody can guess."""
        return tail_of(self.entropy.token(8))

    async def properties(self, account: str) -> ServiceProperties:
        part = service_properties.partition("queue", account)
        return await self.engine.read(lambda tx: service_properties.get(tx, part))
