"""The broker as a few dictionaries: slow, plainly right, without a store or concurrency."""

from dataclasses import dataclass, field
from enum import Enum

from .harness import seconds


class State(Enum):
    active = 0
    deferred = 1
    scheduled = 2


@dataclass
class Kept:
    number: int
    body: str
    state: State = State.active
    count: int = 0
    ttl: int | None = None
    expires: int | None = None
    due: int | None = None
    session: str | None = None
    token: bytes | None = None
    until: int | None = None
    reason: str | None = None

    @property
    def locked(self):
        return self.token is not None

    def unlock(self):
        self.token = self.until = None


@dataclass
class Queue:
    """Times are ticks of the clock that drives the broker as well."""

    now: int
    lock: int = seconds(60)
    failures_max: int = 10
    expired_are_buried: bool = True
    window: int | None = None
    last: int = 0
    kept: dict = field(default_factory=dict)
    buried: list = field(default_factory=list)
    ids: dict = field(default_factory=dict)

    # ---- sends

    def send(self, body, *, ttl=None, due=None, message_id=None, session=None):
        """The number, or None for a repeat."""
        if self.window is not None and message_id is not None:
            seen = self.ids.get(message_id)
            if seen is not None and seen > self.now - self.window:
                return None
            self.ids[message_id] = self.now
        ticks = None if ttl is None else seconds(ttl)
        if due is not None and due > self.now:
            self.last += 1
            self.kept[self.last] = Kept(
                self.last, body, State.scheduled, ttl=ticks, due=due, session=session
            )
            return self.last
        return self._activate(body, ticks, session)

    def _activate(self, body, ttl, session):
        self.last += 1
        expires = None if ttl is None else self.now + ttl
        self.kept[self.last] = Kept(self.last, body, ttl=ttl, expires=expires, session=session)
        return self.last

    # ---- what is there

    def available(self, session=None):
        """Active messages that nobody holds, in order."""
        return [
            one
            for number, one in sorted(self.kept.items())
            if one.state is State.active
            and not one.locked
            and one.session == session
            and (one.expires is None or one.expires > self.now)
        ]

    def listing(self):
        return [(number, one.body, one.state.value) for number, one in sorted(self.kept.items())]

    def held(self):
        return [one for one in self.kept.values() if one.locked]

    # ---- locks

    def take(self, one, token, until=None):
        one.token = token
        one.until = self.now + self.lock if until is None else until

    def remove(self, one):
        del self.kept[one.number]

    def bury(self, one, reason):
        self.remove(one)
        one.reason = reason
        self.buried.append(one)

    def fail(self, one):
        one.unlock()
        one.count += 1
        if one.count >= self.failures_max:
            self.bury(one, "MaxDeliveryCountExceeded")
        else:
            self._look_at_expiry(one)

    def give_back(self, one):
        one.unlock()
        self._look_at_expiry(one)

    def defer(self, one):
        one.unlock()
        one.count += 1
        one.state = State.deferred

    def _look_at_expiry(self, one):
        if one.state is State.active and one.expires is not None and one.expires <= self.now:
            self._expire(one)

    def _expire(self, one):
        if self.expired_are_buried:
            self.bury(one, "TTLExpiredException")
        else:
            self.remove(one)

    # ---- time

    def next_event(self):
        """(when, what, message) of the first thing that time will do."""
        events = []
        for one in self.kept.values():
            if one.locked:
                if one.until is not None:
                    events.append((one.until, 0, one.number))
            elif one.state is State.scheduled:
                events.append((one.due, 1, one.number))
            elif one.state is State.active and one.expires is not None:
                events.append((one.expires, 2, one.number))
        return min(events, default=None)

    def advance(self, target):
        while (event := self.next_event()) is not None and event[0] <= target:
            when, what, number = event
            self.now = max(self.now, when)
            one = self.kept[number]
            if what == 0:
                self.fail(one)
            elif what == 1:
                self.remove(one)
                self._activate(one.body, one.ttl, one.session)
            else:
                self._expire(one)
        self.now = target

    def restart(self):
        for one in list(self.held()):
            self.give_back(one)
