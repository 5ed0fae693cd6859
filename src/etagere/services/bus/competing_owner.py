"""The owner of a log whose messages go to whoever asks: competing receivers."""

from collections.abc import Sequence

from etagere.base.clock import Timestamp
from etagere.kernel.message_lock import Custody, LockEnd
from etagere.services.bus.credit import Taker
from etagere.services.bus.locks import new_custody
from etagere.services.bus.names import SubQueue
from etagere.services.bus.overriding import override
from etagere.services.bus.owner import DrawTokens, OwnerBase
from etagere.services.bus.stream import Stream
from etagere.services.bus.topology import Target
from etagere.services.bus.window import Row


class CompetingOwner(OwnerBase):
    """Competing receivers on one log."""

    def __init__(
        self,
        target: Target,
        sub_queue: SubQueue,
        last_number: int,
        draw_tokens: DrawTokens,
    ) -> None:
        super().__init__(target, sub_queue, draw_tokens)
        self.stream = Stream(self, last_number + 1, None)

    # ---- links

    def attach(self, taker: Taker) -> None:
        self.stream.credit.add(taker)

    def set_credit(self, taker: Taker, credit: int, *, drain: bool) -> None:
        self.stream.set_credit(taker, credit, drain=drain)
        self.wake(self.stream)

    def detach(self, taker: Taker, *, broken: bool) -> None:
        """Orderly: its locks last until they run out.  Broken: they end now, since links cannot be
        recovered on another connection."""
        self.stream.leave(taker)
        tokens, taker.tokens = taker.tokens, set()
        locks = [lock for token in tokens if (lock := self.locks.find(token)) is not None]
        for lock in sorted(locks, key=lambda lock: lock.held.number):
            lock.taker = None
            if broken and not lock.is_ending:
                self.end(lock, LockEnd.CONNECTION_LOST)
        self.wake(self.stream)

    @property
    def takers(self) -> list[Taker]:
        return list(self.stream.credit.takers)

    @override
    def reconfigured(self, target: Target, now: Timestamp) -> None:
        super().reconfigured(target, now)
        self.wake(self.stream)

    # ---- the log

    def reported(
        self,
        before: int,
        last: int,
        rows: Sequence[Row],
        now: Timestamp,  # noqa: ARG002 - sessions need it
    ) -> None:
        """A commit gave the numbers after `before` up to `last`; `rows` of them are active."""
        stream = self.stream
        credit = stream.credit
        demand = credit.demand or len(credit.takers)  # they will want more when this is written
        stream.window.reported(before, last, rows, demand=demand)
        self.wake(stream)

    def thaw(self, removed: set[int], now: Timestamp) -> None:  # noqa: ARG002 - sessions need it
        """What went through the log is through, and took these messages."""
        self._frozen -= 1
        self.stream.window.discard(removed)
        self.wake(self.stream)

    def swept(self, removed: set[int]) -> None:
        """A sweep took these messages; they had expired."""
        self.stream.window.discard(removed)

    @override
    def doubt(self, now: Timestamp) -> None:  # noqa: ARG002 - sessions need it
        self.doubtful = True
        self.stream.window.doubt()
        self.wake(self.stream)

    @override
    def came_back(self, stream: Stream, now: Timestamp) -> None:  # noqa: ARG002 - sessions need it
        self.wake(stream)

    @override
    def take_custody(
        self,
        stream: Stream | None,  # noqa: ARG002 - sessions need it
        now: Timestamp,
        count: int,
    ) -> tuple[Custody[bytes], Timestamp]:
        custody = new_custody(self._draw_tokens(1)[0], now, self.lock_duration, count)
        return custody, custody.until

    @override
    def lock_terms(
        self,
        stream: Stream,  # noqa: ARG002 - sessions need it
        now: Timestamp,
    ) -> tuple[Timestamp, Timestamp]:
        until = Timestamp(now + self.lock_duration)
        return until, until
