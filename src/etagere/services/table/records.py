"""What is stored of tables and entities.  Stamps are ticks (`base.clock`).

Structs are stored as arrays: a field may be added at the end, with a default, and nowhere else.
"""

from typing import Final

import msgspec

from etagere.kv.layers.records import Codec
from etagere.services.common.access_policy import StoredPolicy


class DirectoryEntry(msgspec.Struct, array_like=True, frozen=True):
    name: str
    """As it was given when the table was created; the key has it in lower case."""
    generation: int


class TableRecord(msgspec.Struct, array_like=True, frozen=True):
    name: str
    generation: int
    policies: tuple[StoredPolicy, ...] = ()


class EntityRecord(msgspec.Struct, array_like=True, frozen=True):
    stamp: int
    """The Timestamp, and the ETag."""
    properties: bytes
    """`entity.encode`'s JSON."""


directory_entries: Final = Codec(1, DirectoryEntry)
tables: Final = Codec(1, TableRecord)
entities: Final = Codec(1, EntityRecord)
