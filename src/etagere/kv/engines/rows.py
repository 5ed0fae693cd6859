"""How partitions and their keys lie in an LMDB environment, for one of its transactions.

    partition, 00, key      a row of a partition; an encoded tuple never starts below 05, nor does
                            00 begin an item, so no partition's rows lie among another's
    01, name                rows of the engine itself
    02, ...                 nodes of keys too long for LMDB (`long_keys`)

Everything lies in LMDB's unnamed database: each named one would cost a page more per commit.
"""

from collections.abc import Iterator
from typing import Final

from etagere.kv.contract import Partition
from etagere.kv.engines.long_keys import LongKeys, RowTransaction
from etagere.kv.overlay import Row, Writes
from etagere.kv.tuples import MalformedTuple, unpack_from

stamp_key: Final = b"\x01stamp"
format_key: Final = b"\x01format"
format_version: Final = b"1"

_item_types_begin: Final = b"\x05"
_items_end: Final = b"\xff"


class LmdbRows:
    """A `Snapshot`, and what a commit does to it."""

    __slots__ = ("_long", "_row_key_bytes", "_txn")

    def __init__(self, txn: RowTransaction, row_key_bytes: int) -> None:
        self._txn = txn
        self._row_key_bytes = row_key_bytes
        self._long: LongKeys | None = None

    @property
    def _keys(self) -> LongKeys:
        """Made when it is wanted: most reads look at short keys only."""
        if self._long is None:
            self._long = LongKeys(self._txn, self._row_key_bytes)
        return self._long

    def get(self, part: Partition, key: bytes) -> bytes | None:
        row_key = part + b"\0" + key
        if len(row_key) < self._row_key_bytes:
            return self._txn.get(row_key)
        return self._keys.get(row_key)

    def scan(
        self, part: Partition, begin: bytes, end: bytes, limit: int, reverse: bool
    ) -> list[Row]:
        head = part + b"\0"
        return self._keys.scan(head + begin, head + end, limit, reverse=reverse, skip=len(head))

    def apply(self, writes: Writes) -> None:
        keys, delete = self._keys, self._txn.delete
        for part, changes in writes.items():
            head = part + b"\0"
            if not changes:
                continue
            if len(head) + max(map(len, changes)) < self._row_key_bytes:
                puts = [(head + key, value) for key, value in changes.items() if value is not None]
                if len(puts) < len(changes):
                    for key in [key for key, value in changes.items() if value is None]:
                        delete(head + key)
                if puts:
                    self._txn.cursor().putmulti(puts)
                continue
            for key, value in changes.items():
                if value is None:
                    keys.delete(head + key)
                else:
                    keys.put(head + key, value)

    def partitions(self) -> Iterator[Partition]:
        """Every partition that has a row, in order, at the cost of a seek for each."""
        begin = _item_types_begin
        while rows := self._keys.scan(begin, _items_end, 1, reverse=False):
            _, at = unpack_from(rows[0][0], 0)
            part = Partition(rows[0][0][:at])
            yield part
            begin = part + b"\x01"

    def last_stamp(self) -> int:
        return int.from_bytes(self._txn.get(stamp_key) or b"", "big")

    def keep_stamp(self, stamp: int) -> None:
        self._txn.put(stamp_key, stamp.to_bytes(8, "big"))


def check_partition(part: Partition) -> None:
    """Rows of anything but a packed tuple could lie among the engine's own."""
    if part[:1] < _item_types_begin:
        raise MalformedTuple("a partition is a packed tuple of at least one item")
