"""The bodies of inserts, updates, merges and upserts: JSON to an entity as it is stored."""

from functools import lru_cache
from typing import Final

from etagere.frontends.table_rest import decode
from etagere.services.table.entity import EntityBody, encode, read_members
from etagere.services.table.shape import (
    Sent,
    SentAlike,
    Shape,
    Signature,
    shape_of,
    signature_of,
)

usual_bytes_max: Final = 16 * 1024
"""No text in so short a body is longer than a string property can be."""
tables_remembered: Final = 256
sightings_wanted: Final = 3
"""Making a shape costs as much as reading some dozens of bodies without it."""

_white_space: Final = b" \t\r\n"


class EntityReader:
    """Reads the bodies that are sent to one table, which are mostly of one shape."""

    __slots__ = ("_shape", "_sightings", "_signature")

    def __init__(self) -> None:
        self._shape: Shape | None = None
        self._signature: Signature | None = None
        self._sightings = 0

    def read(self, body: bytes) -> Sent:
        if len(body) > usual_bytes_max:
            return _sent(read_members(decode.members(body)))
        body = body.strip(_white_space)
        if self._shape is not None:
            found = self._shape.read(body)
            if found is not None:
                return found
        own = decode.members_once(body)
        if own is None:
            return _sent(read_members(decode.members(body)))
        sent = _sent(read_members(own.items()))
        self._notice(own)
        return sent

    def read_alike(self, bodies: list[bytes]) -> SentAlike | None:
        """Several bodies in one step, if they are of the shape that is known, and of one partition.

        Those of which this has nothing to say are to be read one by one.
        """
        if self._shape is None or max(map(len, bodies)) > usual_bytes_max:
            return None
        return self._shape.read_alike(bodies)

    def _notice(self, members: dict[str, object]) -> None:
        """Several bodies of one signature, one after the other, are a reason to have its shape."""
        signature = signature_of(members)
        if signature is None or signature != self._signature:
            self._signature, self._sightings = signature, 0
        self._sightings += 1
        if signature is not None and self._sightings == sightings_wanted:
            self._shape = shape_of(signature) or self._shape


def _sent(found: EntityBody) -> Sent:
    return Sent(found.partition_key, found.row_key, encode(found.properties))


@lru_cache(maxsize=tables_remembered)
def reader_of(account: str, table: str) -> EntityReader:
    """Of a table by its name in lower case."""
    del account, table
    return EntityReader()
