"""What the clients of a bus did and were told, in the order in which they learnt it, and what may
not be true of it.

Everything is recorded on one event loop: before a client gives something up (a connection, a lock),
it says so here; after it learns something, it says so here.  Between the two lies what is in doubt.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Fate:
    """One message, as far as clients know."""

    name: str
    acknowledged: bool = False
    number: int | None = None
    """Its sequence number, once somebody received it."""
    holder: object | None = None
    """The link that has it locked, as far as that link knows."""
    completing: bool = False
    """Somebody said that it is complete; whether the server heard it is in doubt."""
    completed: bool = False
    """The server said that it is."""
    deliveries: int = 0
    last_count: int = 0


@dataclass
class History:
    faults: list[str] = field(default_factory=list)
    fates: dict[str, Fate] = field(default_factory=dict)
    by_number: dict[int, Fate] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Of each link's sends, and so of each session's."""
    session_holders: dict[str, object] = field(default_factory=dict)
    session_of: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    def _fault(self, text: str) -> None:
        self.faults.append(text)

    # ---- sending

    def sending(self, link: str, name: str, session: str | None) -> None:
        assert name not in self.fates
        self.fates[name] = Fate(name)
        self.order[link].append(name)
        if session is not None:
            self.session_of[name] = session

    def acknowledged(self, name: str) -> None:
        fate = self.fates[name]
        if fate.acknowledged:
            self._fault(f"{name} was acknowledged twice")
        fate.acknowledged = True

    # ---- receiving

    def delivered(self, link: object, name: str, number: int, count: int) -> None:
        fate = self.fates.get(name)
        if fate is None:
            self._fault(f"{name} was never sent")
            return
        if fate.completed:
            self._fault(f"{name} was delivered after its completion was acknowledged")
        if fate.holder is not None:
            self._fault(f"{name} is locked by two receivers at once")
        if count < fate.last_count:
            self._fault(f"the delivery count of {name} went from {fate.last_count} to {count}")
        if fate.number is not None and fate.number != number:
            self._fault(f"{name} has two numbers, {fate.number} and {number}")
        if self.by_number.setdefault(number, fate) is not fate:
            self._fault(f"{number} is the number of {name} and of {self.by_number[number].name}")
        fate.number = number
        fate.holder = link
        fate.deliveries += 1
        fate.last_count = count

    def completing(self, name: str) -> None:
        self.fates[name].completing = True

    def settled(self, link: object, name: str, *, complete: bool, performed: bool) -> None:
        fate = self.fates[name]
        if performed:
            fate.completed = fate.completed or complete
        else:
            # Its lock was never lost before: none runs out in the time that this takes.
            self._fault(f"the settlement of {name} was refused")
        if fate.holder is link:
            fate.holder = None

    def abandoning(self, name: str) -> None:
        """Anybody may have it from now on."""
        self.fates[name].holder = None

    def gone(self, link: object) -> None:
        """A link lost its connection or its server: what it had locked is anybody's."""
        for fate in self.fates.values():
            if fate.holder is link:
                fate.holder = None
        for session, holder in list(self.session_holders.items()):
            if holder is link:
                del self.session_holders[session]

    # ---- sessions

    def session_opened(self, link: object, session: str, wanted: str | None = None) -> None:
        if wanted not in (None, session):
            self._fault(f"session {session} was given for session {wanted}")
        if session in self.session_holders:
            self._fault(f"session {session} has two receivers at once")
        self.session_holders[session] = link

    def session_delivered(self, link: object, session: str, name: str, number: int) -> None:
        """Everything before it was settled, or came to the same receiver just now."""
        if self.session_of.get(name) != session:
            self._fault(f"{name} came with session {session}")
        if self.session_holders.get(session) is not link:
            self._fault(f"{name} came to one who does not hold session {session}")
        for earlier, fate in self.by_number.items():
            if (
                earlier < number
                and self.session_of[fate.name] == session
                and not fate.completing
                and fate.holder is not link
            ):
                self._fault(f"{name} ({number}) came before {fate.name} ({earlier})")

    # ---- in the end

    @property
    def open_ends(self) -> list[str]:
        """Acknowledged messages that nobody has completed yet."""
        return [f.name for f in self.fates.values() if f.acknowledged and not f.completing]

    def check_so_far(self) -> None:
        """What is wrong already will not be right in the end."""
        assert not self.faults, "\n".join(self.faults[:20])

    def check(self) -> None:
        for name in self.open_ends:
            self._fault(f"{name} was acknowledged and is lost")
        numbers = sorted(self.by_number)
        if numbers != list(range(1, len(numbers) + 1)):
            missing = set(range(1, numbers[-1] + 1)) - set(numbers)
            self._fault(f"the sequence numbers have gaps: {sorted(missing)[:10]}")
        for link, names in self.order.items():
            found = [number for name in names if (number := self.fates[name].number) is not None]
            if found != sorted(found):
                self._fault(f"what {link} sent was numbered out of order")
        self.check_so_far()
