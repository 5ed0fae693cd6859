"""The Queue service: the store it works on, and what it takes its time and chance from."""

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from etagere.base.clock import Clock
from etagere.base.entropy import Entropy
from etagere.kv.contract import Body, Engine, Partition, ReadTx, Tx
from etagere.services.common.service_properties import KnownProperties, ServiceProperties
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
        self._properties = KnownProperties(engine, "queue")
        self.clock = clock
        self.entropy = entropy
        self.stale_code = stale_code

    def read(self, body: Body[ReadTx, T]) -> Coroutine[Any, Any, T]:
        return self.engine.read(body)

    def write(self, parts: tuple[Partition, ...], body: Body[Tx, T]) -> Coroutine[Any, Any, T]:
        return self.engine.write(parts, body)

    def new_tail(self) -> int:
        """The part of a new message's id that nobody can guess."""
        return tail_of(self.entropy.token(8))

    def properties(self, account: str) -> Coroutine[Any, Any, ServiceProperties]:
        return self._properties.of(account)
