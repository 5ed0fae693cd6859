"""A mapping that forgets what was not used for longest."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    __slots__ = ("_entries", "_entries_max")

    def __init__(self, entries_max: int) -> None:
        assert entries_max > 0
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._entries_max = entries_max

    def get(self, key: K) -> V | None:
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)
