"""Many transfers out, many that came accepted, and many outcomes confirmed, at one go.

What is said is what one command for each would have said; where that cannot be known at a glance,
one for each it is.
"""

from itertools import islice, repeat
from typing import Final

from etagere.protocols.amqp.commands import (
    AcceptReceived,
    SendTransfer,
    SendTransfers,
    SettleSent,
)
from etagere.protocols.amqp.deliveries import Deliveries
from etagere.protocols.amqp.links import Delivery, serial_mask
from etagere.protocols.amqp.outbox import Outbox
from etagere.protocols.amqp.outcomes import accepted, accepted_bytes
from etagere.protocols.amqp.states import SessionState
from etagere.protocols.amqp.transfer_out import tag_bytes, transfer_packer

_receiver: Final = True
_sender: Final = False
_mapped: Final = SessionState.mapped


class Batches:
    __slots__ = ("_deliveries", "_outbox")

    def __init__(self, outbox: Outbox, deliveries: Deliveries) -> None:
        self._outbox = outbox
        self._deliveries = deliveries

    def send(self, command: SendTransfers) -> None:
        link = command.link
        if not link.live:
            return
        session = link.session
        assert link.sends
        assert link.credit >= len(command.tags)
        sent = 0
        if not session.pending:
            if session.run_first >= 0 and session.run_role is _receiver:
                self._outbox.flush_run(session)  # a request is acknowledged before its answer
            sent = self._send_usual(command, session.remote_incoming_window)
        rest = zip(command.tags, command.heads, command.tails, strict=True)
        for tag, head, tail in islice(rest, sent, None):
            self._deliveries.send(SendTransfer(link, tag, head, tail, settled=False, context=tag))

    def _send_usual(self, command: SendTransfers, window: int) -> int:
        """All, if there is nothing unusual about any of them; the number of those written."""
        link = command.link
        session = link.session
        packer = transfer_packer(session.channel, link.handle_bytes)
        if packer is None:
            return 0
        pack, frame_bytes, fixed, tag_start, rest = packer
        frame_bytes_out = self._deliveries.frame_bytes_out
        tags, heads, tails = command.tags, command.heads, command.tails
        sizes = [
            frame_bytes + head + tail
            for head, tail in zip(map(len, heads), map(len, tails), strict=True)
        ]
        count, first = len(sizes), session.next_delivery_id
        last = first + count - 1
        if (
            window < count
            or last > serial_mask
            or max(sizes) > frame_bytes_out
            or set(map(len, tags)) != {tag_bytes}
        ):
            return 0
        ids = range(first, last + 1)
        written: list[bytes] = [b""] * (3 * count)
        written[::3] = [
            pack(size, fixed, delivery_id, tag_start, tag, rest)
            for size, delivery_id, tag in zip(sizes, ids, tags, strict=True)
        ]
        written[1::3] = heads
        written[2::3] = tails
        self._outbox.parts += written
        session.unsettled.update(
            zip(ids, map(Delivery, repeat(link), ids, tags, tags), strict=True)
        )
        session.next_delivery_id = (last + 1) & serial_mask
        session.remote_incoming_window = window - count
        session.next_outgoing_id = (session.next_outgoing_id + count) & serial_mask
        link.credit -= count
        link.delivery_count = (link.delivery_count + count) & serial_mask
        return count

    def accept(self, command: AcceptReceived) -> None:
        session = command.link.session
        waiting = session.unsettled_in
        ids = [number for number in command.delivery_ids if waiting.pop(number, None) is not None]
        if not ids or session.state is not _mapped:
            return
        if ids == list(range(ids[0], ids[0] + len(ids))):
            self._outbox.settle_run(session, _receiver, ids[0], ids[-1], accepted_bytes)
            return
        for number in ids:
            self._outbox.settle(session, _receiver, number, accepted_bytes)

    def settle_sent(self, command: SettleSent) -> None:
        deliveries = command.deliveries
        session, first = deliveries[0].link.session, deliveries[0].id
        last = first + len(deliveries) - 1
        ids = [delivery.id for delivery in deliveries]
        if (
            command.state is not accepted
            or not command.forget
            or session.state is not _mapped
            or ids != list(range(first, last + 1))
            or [*map(session.unsettled.get, ids)] != [*deliveries]
        ):
            self._deliveries.settle_sent(command)
            return
        for number in ids:
            del session.unsettled[number]
        self._outbox.settle_run(session, _sender, first, last, accepted_bytes)
