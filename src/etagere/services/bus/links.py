"""What a frontend hands to the broker and gets back from it for each link.

Callbacks are called from the broker's own turn of the event loop, never from inside the call that
caused them unless their text says so.  They must not block and must not raise.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from etagere.base.errors import Refused
from etagere.services.bus.deliveries import LockedRun
from etagere.services.bus.messages import Delivery


class SenderSink(Protocol):
    def sent(self, ticket: Any, refusal: Refused | None) -> None:
        """The messages of one `Sender.send` are durable and visible, or were refused whole.

        Not called for pre-settled ones.  Called in the order of the sends (what was refused at once
        may overtake them), many in a row after one commit: collect them and answer with ranges.
        """
        ...

    def sent_each(self, tickets: Sequence[Any], refusal: Refused | None) -> None:
        """`sent` for each of these, which were given with `Sender.send_each`."""
        ...

    def detached(self, refusal: Refused) -> None:
        """The entity was deleted: `amqp:not-found`.  The sender is closed already."""
        ...


class ReceiverSink(Protocol):
    def deliver(self, delivery: Delivery) -> None:
        """One message within the credit given; may be called from inside `set_credit`.

        In peek-lock it is locked by `delivery.lock_token` from now on; in receive-and-delete it is
        already gone from the store.
        """
        ...

    def deliver_run(self, run: LockedRun) -> None:
        """Several messages within the credit given, as if `deliver` were called for each."""
        ...

    def drained(self) -> None:
        """After `set_credit(.., drain=True)`: whatever could be delivered was, credit is now 0."""
        ...

    def settled(self, ticket: Any, refusal: Refused | None) -> None:
        """The outcome given to `Receiver.settle` is durable, or was refused.

        Not called when the ticket was None.
        """
        ...

    def completed_each(self, tickets: Sequence[Any], refusal: Refused | None) -> None:
        """The same for messages completed with `Receiver.complete_each`: some of its tickets."""
        ...

    def detached(self, refusal: Refused) -> None:
        """The broker ended the link: entity deleted, session lock lost, entity disabled, shutdown.

        The receiver is closed already.
        """
        ...
