"""What is stored of queues and messages.  Times and stamps are ticks (`base.clock`).

Structs are stored as arrays: a field may be added at the end, with a default, and nowhere else.
"""

from typing import Final

import msgspec

from etagere.base.clock import Timestamp
from etagere.kernel.message_lock import Custody
from etagere.kv.layers.records import Codec
from etagere.services.common.access_policy import StoredPolicy

text_carried_bytes_max: Final = 1536
"""Up to here a message's record carries its text, and Get writes it once more; beyond it the text
has a row of its own that is written once."""


class QueueHead(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What every operation on messages reads, and those that add or remove some write."""

    generation: int
    count: int
    """All messages of the generation, those included that have expired but are not removed yet."""


class QueueProperties(msgspec.Struct, array_like=True, frozen=True):
    created: Timestamp
    metadata: dict[str, str] = {}
    policies: tuple[StoredPolicy, ...] = ()


class Message(msgspec.Struct, array_like=True, frozen=True, gc=False):
    tail: int
    """The part of the message id that is drawn by lot."""
    inserted: Timestamp
    expires: Timestamp
    custody: Custody[int]
    """The token is the stamp that the pop receipt encodes."""
    text: str | None
    """None if it has a row of its own."""


heads: Final = Codec(1, QueueHead)
properties: Final = Codec(1, QueueProperties)
messages: Final = Codec(1, Message)
