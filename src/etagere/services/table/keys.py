"""Where everything of a table account lies in the store; only this module builds its keys.

An account's partition holds the directory of its tables.  A table's partition, named by the
lower-case name, holds the table's record and, under its *generation* (the stamp of its creation),
its entities: deleting a table forgets the generation, and the rows are swept away later, in small
steps, while a new table of the same name already fills its own.

    (account)
      names    lower-case name             -> DirectoryEntry
      doomed   generation, lower-case name -> nothing: entities to sweep away
    (table)
      table                                -> TableRecord
      entity   generation, PK, RK          -> EntityRecord
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from etagere.kv.contract import Partition
from etagere.kv.tuples import after, pack, pack_text, range_of, unpack, unpack_from
from etagere.services.table.filter_plan import KeyRange, Position, edge_first, edge_last

service: Final = "table"

_names: Final = 1
_doomed: Final = 2

_table: Final = 1
_entity: Final = 2

Range = tuple[bytes, bytes]

table_record: Final = pack(_table)
_text_mark: Final = pack("")[:1]


def account_partition(account: str) -> Partition:
    return Partition(pack(service, account))


def table_partition(account: str, table: str) -> Partition:
    """Of a table by its name in any case."""
    return Partition(pack(service, account, table.lower()))


def directory_entry(name: str) -> bytes:
    return pack(_names, name.lower())


def directory() -> Range:
    return range_of(_names)


def directory_name(key: bytes) -> str:
    name = unpack(key)[1]
    assert isinstance(name, str)
    return name


def doomed(generation: int, name: str) -> bytes:
    return pack(_doomed, generation, name.lower())


def all_doomed() -> Range:
    return range_of(_doomed)


def doomed_table(key: bytes) -> tuple[int, str]:
    """The generation and the lower-case name of the table that a key says is doomed."""
    _, generation, name = unpack(key)
    assert isinstance(generation, int)
    assert isinstance(name, str)
    return generation, name


@lru_cache(maxsize=1024)
def _entities(generation: int) -> bytes:
    """What the keys of a table's entities begin with."""
    return pack(_entity, generation)


def entity(generation: int, partition_key: str, row_key: str) -> bytes:
    return _entities(generation) + pack_text(partition_key) + pack_text(row_key)


def entities_of_partition(
    generation: int, partition_key: str, row_keys: Iterable[str]
) -> list[bytes]:
    """The same for each row key."""
    prefix = _entities(generation) + pack_text(partition_key)
    return [prefix + pack_text(row_key) for row_key in row_keys]


def entities(generation: int) -> Range:
    return range_of(_entity, generation)


def all_entities() -> Range:
    """Those of every generation."""
    return range_of(_entity)


def entity_generation(key: bytes) -> int:
    generation = unpack(key)[1]
    assert isinstance(generation, int)
    return generation


class EntityKeys:
    """The keys of one generation's entities."""

    __slots__ = ("_partition", "_partition_key", "_prefix", "_row_at")

    def __init__(self, generation: int) -> None:
        self._prefix = pack(_entity, generation)
        self._partition = b"\xff"
        self._partition_key = ""
        self._row_at = 0

    def read(self, key: bytes) -> tuple[str, str]:
        """The partition and row key of an entity's key.

        Keys are read in order, so most have the partition key of the one before.  The row key is
        the rest: a packed text without escapes is its UTF-8 between a type byte and a 00, and no
        row key has a character in it that would be escaped.
        """
        if key.startswith(self._partition):
            return self._partition_key, key[self._row_at : -1].decode()
        (partition_key, row_key), _ = unpack_from(key, len(self._prefix))
        assert isinstance(partition_key, str)
        assert isinstance(row_key, str)
        # With the type byte of the row key, no longer partition key begins with this.
        self._partition = self._prefix + pack(partition_key) + _text_mark
        self._partition_key = partition_key
        self._row_at = len(self._partition)
        return partition_key, row_key

    def range(self, wanted: KeyRange) -> Range:
        return self._at(wanted.begin), self._at(wanted.end)

    def _at(self, position: Position) -> bytes:
        """The first key that is not before the position."""
        partition_edge, row_edge = position
        if partition_edge == edge_last:
            return self._prefix + b"\xff"
        _, text, side = partition_edge
        begin, end = range_of(text)
        if side:
            return self._prefix + end
        if row_edge == edge_first:
            return self._prefix + begin
        _, row, row_side = row_edge
        key = self._prefix + pack(text, row)
        return after(key) if row_side else key
