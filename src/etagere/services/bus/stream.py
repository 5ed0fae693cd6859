"""Messages in order and the receivers that compete for them: a log, or one session of it."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from etagere.base.clock import Timestamp
from etagere.services.bus.credit import CreditQueue, Taker
from etagere.services.bus.messages import ReceiveMode
from etagere.services.bus.records import StoredMessage
from etagere.services.bus.window import Row, Window

peek_lock: Final = ReceiveMode.peek_lock


class Load(msgspec.Struct, frozen=True):
    """Read messages behind the horizon of a stream's window."""

    stream: "Stream"
    after: int
    limit: int
    version: int


class Fetch(msgspec.Struct, frozen=True):
    """Read these messages again, the first of them whole."""

    stream: "Stream"
    numbers: list[int]


class Lapse(msgspec.Struct, frozen=True):
    """The time to live of these messages is over."""

    stream: "Stream | None"
    numbers: list[int]


class FindSession(msgspec.Struct, frozen=True):
    """Which of the sessions with messages is oldest, but for those held?"""

    held: frozenset[str]


Request = Load | Fetch | Lapse | FindSession


class Deliverer(Protocol):
    """What a stream asks of its owner."""

    @property
    def delivering(self) -> bool: ...

    def request(self, request: Request) -> None: ...

    def lapse(self, stream: "Stream", number: int) -> None: ...

    def deliver_locked(
        self, stream: "Stream", taker: Taker, number: int, message: StoredMessage, now: Timestamp
    ) -> None: ...

    def deliver_run(
        self, stream: "Stream", taker: Taker, rows: Sequence[Row], now: Timestamp
    ) -> None: ...

    def take_away(
        self, stream: "Stream", taker: Taker, number: int, message: StoredMessage
    ) -> None: ...

    def drained(self, taker: Taker) -> None: ...


class Stream:
    __slots__ = (
        "_draining",
        "_owner",
        "credit",
        "outstanding",
        "returning",
        "session_id",
        "unreadable",
        "window",
    )

    def __init__(self, owner: Deliverer, next_expected: int, session_id: str | None) -> None:
        self._owner = owner
        self.session_id = session_id
        self.window = Window(next_expected)
        self.credit = CreditQueue()
        self.outstanding = 0
        """Messages taken out of the window whose fate is open: locked, or in transit."""
        self.returning = 0
        """Of these, those whose return is on its way to the store."""
        self.unreadable = False
        """The last reading failed."""
        self._draining: list[Taker] = []

    def set_credit(self, taker: Taker, credit: int, *, drain: bool) -> None:
        self.credit.set_credit(taker, credit)
        if drain and not taker.draining:
            taker.draining = True
            self._draining.append(taker)
        elif not drain and taker.draining:
            taker.draining = False
            self._draining.remove(taker)

    def leave(self, taker: Taker) -> None:
        self.credit.remove(taker)
        if taker.draining:
            taker.draining = False
            self._draining.remove(taker)
        if not self.credit.takers:
            self.window.forget()

    def advance(self, now: Timestamp) -> None:
        """Give away what can be given away, ask for what is missing, end drains."""
        owner, window, credit = self._owner, self.window, self.credit
        # In a session, what is coming back comes before what has not been out yet.
        if owner.delivering and not self._is_waiting:
            while (taker := credit.front()) is not None:
                if taker.mode is peek_lock:
                    rows = window.take_run(credit.front_units(), now)
                    if rows:
                        credit.use(taker, len(rows))
                        taker.credit -= len(rows)
                        owner.deliver_run(self, taker, rows, now)
                        continue
                row = window.front()
                if row is None:
                    if not window.is_exhausted:
                        self._ask()
                    break
                number, message = row
                window.take(number)
                if 0 < message.expires_at <= now:
                    owner.lapse(self, number)
                    continue
                credit.use(taker)
                if taker.mode is peek_lock:
                    taker.credit -= 1
                    owner.deliver_locked(self, taker, number, message, now)
                else:
                    taker.in_flight += 1
                    owner.take_away(self, taker, number, message)
        if self._draining:
            self.end_drains()

    @property
    def _is_waiting(self) -> bool:
        return self.session_id is not None and self.returning > 0

    def _ask(self) -> None:
        window = self.window
        numbers = window.wants_fetch()
        if numbers:
            window.fetching = True
            self._owner.request(Fetch(self, numbers))
        elif window.front_number() is None:
            limit = window.wants_load(self.credit.demand)
            if limit:
                window.loading = True
                self._owner.request(Load(self, window.horizon, limit, window.version))

    def end_drains(self) -> None:
        window = self.window
        if self._owner.delivering and (window.loading or window.fetching or self._is_waiting):
            return  # something may turn up yet
        for taker in list(self._draining):
            if taker.in_flight == 0:
                self._draining.remove(taker)
                taker.draining = False
                self.credit.set_credit(taker, 0)
                self._owner.drained(taker)
