"""The part of a log that is in memory: a few messages ahead of the receivers, and no more.

Messages come into the window from the store in order of their numbers, or straight from a commit
when the window already holds everything up to it.  Messages that come back (abandoned, released,
lock lost) are put before those that were never out.  Whoever empties the window asks for more.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from etagere.base.clock import Timestamp
from etagere.services.bus.records import StoredMessage

window_messages_max: Final = 256
window_messages_min: Final = 32
fetched_at_once: Final = 16
loaded_messages_max: Final = 1024
"""Many at once, so that a window whose log grows as fast as it empties catches up with it."""
small_messages_max: Final = 4096
small_messages_bytes: Final = 4 * 1024 * 1024
"""Messages straight from a commit are kept up to this, if there are receivers at all."""

Row = tuple[int, StoredMessage]


class Window:
    __slots__ = (
        "_returned",
        "_returned_messages",
        "complete",
        "fetching",
        "horizon",
        "loading",
        "next_expected",
        "ready",
        "version",
    )

    def __init__(self, next_expected: int = 1) -> None:
        self.ready: deque[Row] = deque()
        self.horizon = 0
        """Every message up to this number was in the window once."""
        self.complete = False
        """Nothing lies in the store beyond the horizon."""
        self.next_expected = next_expected
        """One above the last number that is known to be given."""
        self.version = 0
        """Counts what was heard of the store."""
        self.loading = False
        self.fetching = False
        self._returned: list[int] = []
        self._returned_messages: dict[int, StoredMessage | None] = {}

    def __len__(self) -> int:
        return len(self.ready) + len(self._returned_messages)

    @property
    def is_exhausted(self) -> bool:
        """There is nothing here, and nothing to be had from the store."""
        return self.complete and not self.ready and not self._returned_messages

    # ---- what the store says

    def reported(self, before: int, last: int, rows: Sequence[Row], *, demand: int) -> None:
        """A commit gave the numbers after `before` up to `last`; `rows` of them are active.

        `demand` is how many could be given away at once, 0 if nobody is there.
        """
        self.version += 1
        in_order = before + 1 == self.next_expected
        if last >= self.next_expected:
            self.next_expected = last + 1
        if not rows or rows[-1][0] <= self.horizon:
            return
        if not (in_order and demand and self.complete and not self.loading):
            # Commits may be heard of out of order: the store has the order.
            self.complete = False
            return
        if rows[0][0] <= self.horizon:
            rows = [row for row in rows if row[0] > self.horizon]
        room = max(window_messages_max, demand) - len(self.ready)
        if room < len(rows):
            room = max(room, _as_many_as_are_small(rows) - len(self.ready))
        taken = rows[:room] if room > 0 else ()
        if taken:
            self.ready.extend(taken)
            self.horizon = taken[-1][0]
        self.complete = len(taken) == len(rows)

    def doubt(self) -> None:
        """A commit may have happened without a report."""
        self.version += 1
        self.complete = False

    def wants_load(self, demand: int) -> int:
        """How many messages to read after the horizon; 0 for none now."""
        if self.complete or self.loading or demand <= 0:
            return 0
        size = min(max(4 * demand, window_messages_min), loaded_messages_max)
        return size if len(self.ready) <= size // 2 else 0

    def loaded(self, rows: Sequence[Row], *, all_read: bool, version: int) -> None:
        """What lay after the horizon; `version` is the window's at the time of asking, since the
        reading may have missed what was reported in the meantime."""
        self.loading = False
        for row in rows:
            if row[0] > self.horizon:
                self.ready.append(row)
                self.horizon = row[0]
        self.next_expected = max(self.next_expected, self.horizon + 1)
        if all_read and self.version == version:
            self.complete = True
            self.horizon = max(self.horizon, self.next_expected - 1)

    def load_failed(self) -> None:
        self.loading = False

    # ---- messages that come back

    def put_back(self, number: int, message: StoredMessage | None) -> None:
        """`message` None is to be read again."""
        if number not in self._returned_messages:
            heappush(self._returned, number)
        self._returned_messages[number] = message

    def wants_fetch(self) -> list[int]:
        """Numbers of messages to read again before anything can be delivered; the first of them
        with its rest, if it has one."""
        if self.fetching:
            return []
        number = self.front_number()
        if number is None or _is_whole(self.front_message()):
            return []
        if number not in self._returned_messages:
            return [number]  # a long one, whose rest lies elsewhere
        others = sorted(
            other
            for other, message in self._returned_messages.items()
            if message is None and other != number
        )
        return [number, *others[: fetched_at_once - 1]]

    def fetched(self, numbers: Sequence[int], rows: Sequence[Row]) -> None:
        """`rows` of `numbers` are still there."""
        self.fetching = False
        found = dict(rows)
        for number in numbers:
            if number in self._returned_messages:
                if number in found:
                    self._returned_messages[number] = found[number]
                else:
                    del self._returned_messages[number]
            elif self.ready and self.ready[0][0] == number:
                self.ready.popleft()
                if number in found:
                    self.ready.appendleft((number, found[number]))

    def fetch_failed(self) -> None:
        self.fetching = False

    # ---- what receivers take

    def front_number(self) -> int | None:
        returned = self._returned
        while returned and returned[0] not in self._returned_messages:
            heappop(returned)
        if returned and not (self.ready and self.ready[0][0] < returned[0]):
            return returned[0]
        return self.ready[0][0] if self.ready else None

    def front_message(self) -> StoredMessage | None:
        number = self.front_number()
        if number is None:
            return None
        if number in self._returned_messages:
            return self._returned_messages[number]
        return self.ready[0][1]

    def front(self) -> Row | None:
        """The first message, if it can be delivered now."""
        if not self._returned:
            if not self.ready:
                return None
            row = self.ready[0]
            return row if row[1].rest is None or row[1].tail else None
        number = self.front_number()
        message = self.front_message()
        if number is None or message is None or not _is_whole(message):
            return None
        return number, message

    def take_run(self, limit: int, now: Timestamp) -> list[Row]:
        """Take the first messages away, up to one that cannot be delivered just as it is."""
        rows: list[Row] = []
        if self._returned:
            return rows
        ready = self.ready
        while ready and len(rows) < limit:
            message = ready[0][1]
            if message.rest is not None or 0 < message.expires_at <= now:
                break
            rows.append(ready.popleft())
        return rows

    def take(self, number: int) -> None:
        """Take the first message away."""
        if self._returned and number in self._returned_messages:
            del self._returned_messages[number]
            heappop(self._returned)
        else:
            self.ready.popleft()

    def discard(self, numbers: set[int]) -> None:
        """These are gone from the store."""
        if numbers and (last := max(numbers)) > self.horizon:
            # Gone before they came, as far as was reported: what the store says counts.
            self.next_expected = max(self.next_expected, last + 1)
            self.doubt()
        for number in numbers & self._returned_messages.keys():
            del self._returned_messages[number]
        if any(row[0] in numbers for row in self.ready):
            self.ready = deque(row for row in self.ready if row[0] not in numbers)

    def forget(self) -> None:
        """Nobody is waiting: keep numbers of what came back, and read the rest when asked."""
        if self.ready:
            self.horizon = self.ready[0][0] - 1
            self.ready.clear()
            self.complete = False
        for number in self._returned_messages:
            self._returned_messages[number] = None


def _as_many_as_are_small(rows: Sequence[Row]) -> int:
    """How many like these may be kept: reading them back costs more than the memory does."""
    size = sum([row[1].size for row in rows]) // len(rows)
    return min(small_messages_max, small_messages_bytes // (size + 1))


def _is_whole(message: StoredMessage | None) -> bool:
    return message is not None and (message.rest is None or bool(message.tail))
