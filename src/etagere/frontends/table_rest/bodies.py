"""The bodies of inserts, updates, merges and upserts: JSON to an entity as it is stored."""

from functools import lru_cache
from typing import Final

from etagere.base.errors import Refused
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
shapes_tried: Final = 3
"""To find that a body is not of a shape costs a tenth of reading it without."""
signatures_noticed: Final = 8

_white_space: Final = b" \t\r\n"


class EntityReader:
    """Reads the bodies that are sent to one table, which mostly are of a few shapes."""

    __slots__ = ("_shapes", "_sightings")

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        """Those found last first."""
        self._sightings: dict[Signature, int] = {}

    def read(self, body: bytes) -> Sent:
        if len(body) > usual_bytes_max:
            return _sent(read_members(decode.members(body)))
        body = body.strip(_white_space)
        for shape in self._shapes:
            found = shape.read(body)
            if found is not None:
                return found
        own = decode.members_once(body)
        if own is None:
            return _sent(read_members(decode.members(body)))
        sent = _sent(read_members(own.items()))
        self._notice(own)
        return sent

    def read_alike(self, bodies: list[bytes]) -> SentAlike | None:
        """Several bodies, in one step if they are of one shape that is known.

        Nothing if one of them is to be refused, or if they do not name entities of one partition.
        """
        if max(map(len, bodies)) <= usual_bytes_max:
            for shape in self._shapes:
                found = shape.read_alike(bodies)
                if found is not None:
                    return found
        try:
            return _alike([self.read(body) for body in bodies])
        except Refused:
            return None

    def _notice(self, members: dict[str, object]) -> None:
        """Several bodies of one signature are a reason to have its shape."""
        signature = signature_of(members)
        if signature is None:
            return
        sightings = self._sightings.pop(signature, 0) + 1
        if sightings < sightings_wanted:
            if len(self._sightings) >= signatures_noticed:
                self._sightings.clear()
            self._sightings[signature] = sightings
            return
        shape = shape_of(signature)
        if shape is not None and shape not in self._shapes:
            self._shapes = [shape, *self._shapes[: shapes_tried - 1]]


def _sent(found: EntityBody) -> Sent:
    return Sent(found.partition_key, found.row_key, encode(found.properties))


def _alike(sent: list[Sent]) -> SentAlike | None:
    partition_key = sent[0].partition_key
    row_keys = [one.row_key for one in sent if one.row_key is not None]
    if (
        partition_key is None
        or len(row_keys) != len(sent)
        or any(one.partition_key != partition_key for one in sent)
    ):
        return None
    return SentAlike(partition_key, row_keys, [one.fragment for one in sent])


@lru_cache(maxsize=tables_remembered)
def reader_of(account: str, table: str) -> EntityReader:
    """Of a table by its name in lower case."""
    del account, table
    return EntityReader()
