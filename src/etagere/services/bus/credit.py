"""Who gets the next message: receivers in the order in which their credit arrived.

Each unit of credit takes one message.  Units that one receiver gave together stand in the queue as
one grant; credit that is taken back takes the receiver's youngest units.
"""

from collections import deque
from typing import Any, Final

from etagere.services.bus.messages import ReceiveMode

grants_per_taker_most: Final = 4
"""Beyond this many on average, grants of one receiver are merged: a client that raises and lowers
its credit for ever must not fill the memory."""

_grants_least: Final = 64


class Taker:
    """A receiver as its entity's owner knows it."""

    __slots__ = (
        "closed",
        "connection",
        "credit",
        "draining",
        "granted",
        "in_flight",
        "mode",
        "receiver",
        "tokens",
    )

    def __init__(self, receiver: Any, mode: ReceiveMode, connection: object) -> None:
        self.receiver = receiver
        """Whatever the owner of the owner wants back with each delivery."""
        self.mode = mode
        self.connection = connection
        self.credit = 0
        """Messages that it may still be given."""
        self.in_flight = 0
        """Messages on their way to it, which will use credit when they get there."""
        self.granted = 0
        """Units in the queue: as many as it wants, but for the moment of a change."""
        self.draining = False
        self.closed = False
        self.tokens: set[bytes] = set()
        """Of the locks that it holds."""

    @property
    def wants(self) -> int:
        return self.credit - self.in_flight


class CreditQueue:
    __slots__ = ("_grants", "_takers", "demand")

    def __init__(self) -> None:
        self.demand = 0
        """Units in the queue: messages that could be given away at once."""
        self._grants: deque[list[Any]] = deque()  # [taker, units]
        self._takers: set[Taker] = set()

    @property
    def takers(self) -> set[Taker]:
        return self._takers

    def add(self, taker: Taker) -> None:
        self._takers.add(taker)

    def remove(self, taker: Taker) -> None:
        taker.closed = True
        taker.credit = 0
        self.demand -= taker.granted
        taker.granted = 0
        self._takers.discard(taker)
        self._grants = deque(grant for grant in self._grants if grant[0] is not taker)

    def set_credit(self, taker: Taker, credit: int) -> None:
        taker.credit = credit
        more = max(taker.wants, 0) - taker.granted
        if more < 0:
            self._take_back(taker, -more)
        elif more > 0:
            taker.granted += more
            self.demand += more
            grants = self._grants
            if grants and grants[-1][0] is taker:
                grants[-1][1] += more
            else:
                grants.append([taker, more])
                if len(grants) > _grants_least + grants_per_taker_most * len(self._takers):
                    self._merge()

    def _take_back(self, taker: Taker, units: int) -> None:
        """The youngest first."""
        taker.granted -= units
        self.demand -= units
        for grant in reversed(self._grants):
            if grant[0] is taker:
                taken = min(units, grant[1])
                grant[1] -= taken
                units -= taken
                if not units:
                    break
        if any(not grant[1] for grant in self._grants):
            self._grants = deque(grant for grant in self._grants if grant[1])

    def front(self) -> Taker | None:
        """The receiver that the next message is for."""
        return self._grants[0][0] if self._grants else None

    def front_units(self) -> int:
        """How many messages it is given before anybody else's turn comes."""
        return self._grants[0][1] if self._grants else 0

    def use(self, taker: Taker, units: int = 1) -> None:
        """The receiver at the front gets messages; what it still wants is for the caller."""
        grant = self._grants[0]
        assert grant[0] is taker
        assert 0 < units <= grant[1]
        grant[1] -= units
        taker.granted -= units
        self.demand -= units
        if not grant[1]:
            self._grants.popleft()

    def _merge(self) -> None:
        merged: dict[Taker, list[Any]] = {}
        for taker, units in self._grants:
            if taker in merged:
                merged[taker][1] += units
            else:
                merged[taker] = [taker, units]
        self._grants = deque(merged.values())
