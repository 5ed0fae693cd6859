"""Keys of any length over rows whose keys are short, in the same order.

LMDB takes keys of up to 511 bytes and blob names alone reach 3 KB.  So rows form a trie of nodes:

- A node is a prefix.  The root's is empty; the others' is 02, then the packed number of the node.
- A key shorter than what its node has room for is a row of its own: prefix + key -> value.
- Any other key is cut where the room ends.  Its first part is a *pointer*: a row with a key of
  exactly the greatest length, whose value is the prefix of the node that holds the rest of every
  key with this first part.  That rest may be empty.

So a row of the greatest length is always a pointer and no other row ever is, values need no mark,
and short keys, nearly all, cost nothing.  A pointer sorts among the rows of its node where all the
keys below it belong.  A node without rows has no pointer to it, either.

Callers' keys must not begin with 01 (rows that the engine keeps for itself) or 02 (nodes).
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from etagere.kv.overlay import Row
from etagere.kv.tuples import pack

node_space: Final = b"\x02"
next_node_key: Final = b"\x01node"
"""The number of the node to be made next; numbers are never used again."""


class RowCursor(Protocol):
    """Over rows in the order of their keys; the part of lmdb.Cursor that is needed here."""

    def set_range(self, key: bytes, /) -> bool: ...
    def last(self) -> bool: ...
    def prev(self) -> bool: ...
    def key(self) -> bytes: ...
    def putmulti(self, items: Iterable[Row], /) -> object: ...
    def iternext(self) -> Iterator[Row]: ...
    def iterprev(self) -> Iterator[Row]: ...


class RowTransaction(Protocol):
    """The part of lmdb.Transaction that is needed here."""

    def get(self, key: bytes, /) -> bytes | None: ...
    def put(self, key: bytes, value: bytes, /) -> object: ...
    def delete(self, key: bytes, /) -> bool: ...
    def cursor(self) -> RowCursor: ...


class DanglingPointer(Exception):  # noqa: N818 - the field's word for it
    """A pointer without a node, or a node without a row: the store is damaged."""


class LongKeys:
    """One transaction's rows, seen as a map from long keys."""

    __slots__ = ("_row_key_bytes", "_rows")

    def __init__(self, rows: RowTransaction, row_key_bytes: int) -> None:
        self._rows = rows
        self._row_key_bytes = row_key_bytes

    def get(self, key: bytes) -> bytes | None:
        if len(key) < self._row_key_bytes:
            return self._rows.get(key)
        row_key = self._find(key)
        return None if row_key is None else self._rows.get(row_key)

    def put(self, key: bytes, value: bytes) -> None:
        if len(key) >= self._row_key_bytes:
            key = self._make_way(key)
        self._rows.put(key, value)

    def delete(self, key: bytes) -> None:
        if len(key) < self._row_key_bytes:
            self._rows.delete(key)
            return
        row_key = self._find(key)
        if row_key is not None and self._rows.delete(row_key):
            self._remove_empty_nodes(key)

    def scan(
        self, begin: bytes, end: bytes, limit: int, *, reverse: bool, skip: int = 0
    ) -> list[Row]:
        """Up to `limit` rows with begin <= key < end; `skip` bytes are cut off the keys' front."""
        out: list[Row] = []
        if limit > 0 and begin < end:
            scan = self._scan_backward if reverse else self._scan_forward
            scan(_Visit(b"", b"", skip, begin, end), limit, out)
        return out

    def _find(self, key: bytes) -> bytes | None:
        """The key of the row that a long key has, if its nodes exist."""
        node = b""
        while len(node) + len(key) >= self._row_key_bytes:
            room = self._row_key_bytes - len(node)
            pointed = self._rows.get(node + key[:room])
            if pointed is None:
                return None
            node, key = pointed, key[room:]
        return node + key

    def _make_way(self, key: bytes) -> bytes:
        """The key of the row that a long key gets, its nodes made if need be."""
        node = b""
        while len(node) + len(key) >= self._row_key_bytes:
            room = self._row_key_bytes - len(node)
            pointer = node + key[:room]
            pointed = self._rows.get(pointer)
            if pointed is None:
                pointed = self._new_node()
                self._rows.put(pointer, pointed)
            node, key = pointed, key[room:]
        return node + key

    def _new_node(self) -> bytes:
        number = int.from_bytes(self._rows.get(next_node_key) or b"", "big")
        self._rows.put(next_node_key, (number + 1).to_bytes(8, "big"))
        return node_space + pack(number)

    def _remove_empty_nodes(self, key: bytes) -> None:
        pointers = []
        node = b""
        while len(node) + len(key) >= self._row_key_bytes:
            room = self._row_key_bytes - len(node)
            pointer = node + key[:room]
            pointed = self._rows.get(pointer)
            if pointed is None:
                raise DanglingPointer
            pointers.append((pointer, pointed))
            node, key = pointed, key[room:]
        cursor = self._rows.cursor()
        for pointer, pointed in reversed(pointers):
            if cursor.set_range(pointed) and cursor.key().startswith(pointed):
                return
            self._rows.delete(pointer)

    def _scan_forward(self, visit: "_Visit", limit: int, out: list[Row]) -> None:
        row_key_bytes = self._row_key_bytes
        path, skip = visit.path, visit.skip
        start = visit.first_row(row_key_bytes)
        stop = visit.stop_row(row_key_bytes)
        cursor = self._rows.cursor()
        if not cursor.set_range(start):
            return
        for key, value in cursor.iternext():
            if len(key) == row_key_bytes:
                if key > stop:
                    return
                self._scan_forward(visit.below(key, value, row_key_bytes), limit, out)
                if len(out) >= limit:
                    return
            elif key >= stop:
                return
            else:
                out.append((path + key[skip:], value))
                if len(out) == limit:
                    return

    def _scan_backward(self, visit: "_Visit", limit: int, out: list[Row]) -> None:
        row_key_bytes = self._row_key_bytes
        path, skip = visit.path, visit.skip
        start = visit.first_row(row_key_bytes)
        stop = visit.stop_row(row_key_bytes)
        cursor = self._rows.cursor()
        # The row at `stop` counts only if it points to keys that are below the end.
        if not cursor.set_range(stop):
            if not cursor.last():
                return
        elif not (cursor.key() == stop and len(stop) == row_key_bytes) and not cursor.prev():
            return
        for key, value in cursor.iterprev():
            if key < start:
                return
            if len(key) == row_key_bytes:
                self._scan_backward(visit.below(key, value, row_key_bytes), limit, out)
                if len(out) >= limit:
                    return
            else:
                out.append((path + key[skip:], value))
                if len(out) == limit:
                    return


class _Visit:
    """What of one node a scan asks for: keys with begin <= key < end, or all from `begin`."""

    __slots__ = ("begin", "end", "node", "path", "skip")

    def __init__(
        self, node: bytes, path: bytes, skip: int, begin: bytes, end: bytes | None
    ) -> None:
        self.node = node
        self.path = path
        self.skip = skip
        self.begin = begin
        self.end = end

    def first_row(self, row_key_bytes: int) -> bytes:
        return (self.node + self.begin)[:row_key_bytes]

    def stop_row(self, row_key_bytes: int) -> bytes:
        """No row above this one is asked for, nor this one unless it is a pointer."""
        if self.end is None:
            return self.node + b"\xff" * (row_key_bytes - len(self.node))
        return (self.node + self.end)[:row_key_bytes]

    def below(self, key: bytes, value: bytes, row_key_bytes: int) -> "_Visit":
        """What is asked for of the node that a pointer points to."""
        room = row_key_bytes - len(self.node)
        stem = key[len(self.node) :]
        begin = self.begin[room:] if self.begin[:room] == stem else b""
        end = self.end
        if end is not None:
            end = end[room:] if end[:room] == stem else None
        skip = len(value) + max(0, self.skip - len(key))
        return _Visit(value, self.path + key[self.skip :], skip, begin, end)
