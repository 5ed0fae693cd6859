"""A link to the transaction coordinator."""

from typing import Any, Final

from etagere.base.errors import Refused
from etagere.frontends.bus_amqp import errors
from etagere.frontends.bus_amqp.links import LinkHandler, Wire
from etagere.protocols.amqp.commands import GrantCredit, SettleReceived
from etagere.protocols.amqp.composites import read_composite
from etagere.protocols.amqp.decoding import decode_whole, skip
from etagere.protocols.amqp.errors import DecodeFault
from etagere.protocols.amqp.events import TransferReceived
from etagere.protocols.amqp.links import Link
from etagere.protocols.amqp.outcomes import (
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Rejected,
    accepted,
)
from etagere.protocols.amqp.sections import section_at, split, value_code
from etagere.services.bus.overriding import override
from etagere.services.bus.transactions import Transaction

credit: Final = 100


class CoordinatorLink(LinkHandler):
    def __init__(self, wire: Wire, link: Link) -> None:
        super().__init__(wire, link, "", "")
        self._declared: set[bytes] = set()
        """Rolled back when the link goes."""

    def grant(self) -> None:
        if self.link.credit <= credit >> 1:
            self.wire.send(GrantCredit(self.link, credit))

    @override
    def transferred(self, event: TransferReceived) -> None:
        self.active_at = self.wire.now
        self.grant()
        try:
            wish = _wish(event.payload)
            if isinstance(wish, Declare):
                transaction = self._declare(wish)
                self._declared.add(transaction.id)
                self._answer(event.delivery_id, Declared(transaction.id))
                return
            transaction = self.wire.transactions.take(wish.transaction_id)
            self._declared.discard(wish.transaction_id)
            if wish.fail:
                transaction.rollback()
                self._answer(event.delivery_id, accepted)
            else:
                self.wire.host.spawn(self._commit(event.delivery_id, transaction))
        except Refused as refused:
            self._refuse(event.delivery_id, refused)
        except DecodeFault as fault:
            self._answer(event.delivery_id, Rejected(self.wire.speaker.fault(fault)))

    def _declare(self, wish: Declare) -> Transaction:
        if wish.global_id is not None:
            raise Refused(errors.not_implemented, message="Global transactions are not supported.")
        # .NET and Java put everything on the coordinator's session when transactions may span
        # entities; otherwise it has a session for itself.
        others = any(link is not self.link for link in self.link.session.links.values())
        return self.wire.transactions.declare(cross_entity=others)

    async def _commit(self, delivery_id: int, transaction: Transaction) -> None:
        """Answered once everything is durable."""
        try:
            await transaction.commit()
        except Refused as refused:
            self._refuse(delivery_id, refused)
        else:
            self._answer(delivery_id, accepted)
        self.wire.host.wake()

    def _refuse(self, delivery_id: int, refused: Refused) -> None:
        self._answer(delivery_id, Rejected(self.wire.speaker.refusal(refused)))

    def _answer(self, delivery_id: int, state: DeliveryState) -> None:
        self.wire.send(SettleReceived(self.link, delivery_id, state))

    @override
    def closed(self, *, broken: bool) -> None:  # noqa: ARG002 - the same either way
        self.wire.transactions.roll_back(self._declared)
        self._declared = set()


def _wish(payload: bytes) -> Declare | Discharge:
    tail: bytes = split(payload).tail
    end = len(tail)
    at = 0
    while at < end:
        code, content = section_at(tail, at, end)
        stop = skip(tail, content, end)
        if code == value_code:
            wish: Any = read_composite(decode_whole(tail, content, stop))
            if isinstance(wish, (Declare, Discharge)):
                return wish
            break
        at = stop
    raise DecodeFault("A message to the coordinator neither declares nor discharges.")
