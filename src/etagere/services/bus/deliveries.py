"""Messages on their way out: one, or a run of them that one receiver is given at once."""

from collections.abc import Sequence

import msgspec

from etagere.base.clock import Timestamp
from etagere.services.bus.messages import Delivery, MessageState
from etagere.services.bus.records import StoredMessage

Row = tuple[int, StoredMessage]


class LockedRun(msgspec.Struct, frozen=True, gc=False):
    """Active messages as they lie in the log, each locked for the receiver; in order."""

    rows: Sequence[Row]
    tokens: Sequence[bytes]
    locked_until: Timestamp

    def each(self) -> list[Delivery]:
        """The same, one by one."""
        return [
            delivery_of(number, message, token, self.locked_until)
            for (number, message), token in zip(self.rows, self.tokens, strict=True)
        ]


def delivery_of(
    number: int, message: StoredMessage, token: bytes | None, until: Timestamp | None
) -> Delivery:
    scheduled_at = message.scheduled_at
    return Delivery(
        message.tail,
        message.header,
        message.delivery_annotations,
        message.annotations,
        number,
        Timestamp(message.enqueued_at),
        message.enqueued_number or number,
        message.delivery_count,
        message.ttl_ms,
        MessageState(message.state) if message.state else MessageState.active,
        token,
        until,
        message.session_id,
        Timestamp(scheduled_at) if scheduled_at else None,
        message.partition_key,
        message.dead_letter_source,
    )
