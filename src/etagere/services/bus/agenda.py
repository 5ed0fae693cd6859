"""What is to be done when: the earliest moment at which somebody wants to be called."""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from etagere.base.clock import Timestamp, timestamp_never

never: Final = timestamp_never


class Agenda:
    """Each key has at most one moment.  Setting a later one is ignored: whoever is called early
    looks, and sets the next; that is cheaper than moving entries about."""

    __slots__ = ("_calls", "_due", "_heap", "_order")

    def __init__(self) -> None:
        self._due: dict[Hashable, Timestamp] = {}
        self._calls: dict[Hashable, Callable[[Timestamp], None]] = {}
        self._heap: list[tuple[Timestamp, int, Hashable]] = []
        self._order = count()

    def set(self, key: Hashable, due: Timestamp, call: Callable[[Timestamp], None]) -> bool:
        """True if this is now the earliest of all."""
        if due >= never:
            return False
        known = self._due.get(key)
        if known is not None and known <= due:
            return False
        self._due[key] = due
        self._calls[key] = call
        heappush(self._heap, (due, next(self._order), key))
        return self._heap[0][2] is key and self._heap[0][0] == due

    def drop(self, key: Hashable) -> None:
        self._due.pop(key, None)
        self._calls.pop(key, None)

    def next_due(self) -> Timestamp | None:
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def run(self, now: Timestamp) -> None:
        """Call everybody whose moment has come; what they set for now is for the next run."""
        ready: list[Hashable] = []
        while (due := self.next_due()) is not None and due <= now:
            key = heappop(self._heap)[2]
            del self._due[key]
            ready.append(key)
        for key in ready:
            call = self._calls.get(key)
            if call is not None:
                call(now)
