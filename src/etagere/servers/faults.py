"""Faults that a tester arms: at a named point, for an operation, so many times, from a seed.

A fault is armed for a *point*, which is a place in the code (`base.faults`) and what happens there:

    before_commit              the store fails before anything of the write is kept: 500
    after_commit_before_reply  the write is durable, and the client is never told
    drop_connection            the connection goes before anything is done
    throttle                   503 ServerBusy with Retry-After
    latency                    the answer comes later
    refuse                     Refused with the code that was armed, before anything is done

Points inside the store are reached without a subject: they belong to the operation that the task
at hand began.
"""

import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from etagere.base.errors import Refused
from etagere.frontends.common.message import ClientGone
from etagere.kv.contract import StoreFailed

begin_point: Final = "before_operation"
latency_point: Final = "latency"
_subject: ContextVar[str] = ContextVar("subject", default="")

places: Final[Mapping[str, str]] = {
    "before_commit": "before_commit",
    "after_commit_before_reply": "after_commit_before_reply",
    "drop_connection": begin_point,
    "throttle": begin_point,
    "before_reply": "before_reply",
    latency_point: latency_point,
    "refuse": begin_point,
}
"""Where the faults that testers may arm happen.  Any other name is itself a place, and refuses."""

latency_seconds_max: Final = 600.0
armed_max: Final = 1000


@dataclass(slots=True)
class Armed:
    """One armed fault; `remaining` counts down to nothing."""

    id: int
    point: str
    operation: str = ""
    """The operation or entity that it is for; "" is for every one."""
    remaining: int | None = 1
    """How many times; None is for ever."""
    skip: int = 0
    """How many times to let pass first."""
    probability: float = 1.0
    seed: int = 0
    seconds: float = 0.0
    """How long `latency` lasts, or what `throttle` says in Retry-After."""
    code: str = "InternalError"
    hits: int = 0
    chance: random.Random = field(default_factory=random.Random, repr=False)

    def fires(self, subject: str) -> bool:
        if self.operation and self.operation.lower() != subject.lower():
            return False
        if self.remaining == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.probability < 1.0 and self.chance.random() >= self.probability:
            return False
        if self.remaining is not None:
            self.remaining -= 1
        self.hits += 1
        return True


class ArmedFaults:
    """`base.faults.Faults`, with faults to arm.  With nothing armed it costs one look."""

    def __init__(self) -> None:
        self._armed: dict[int, Armed] = {}
        self._places: dict[str, list[Armed]] = {}

    def reach(self, point: str, subject: str = "") -> None:
        if not self._places:
            return
        if point == begin_point:
            _subject.set(subject)
        for fault in self._places.get(point, ()):
            if fault.fires(subject or _subject.get()):
                raise _consequence(fault)

    def latency_seconds(self, subject: str) -> float:
        """How long an answer is held back."""
        if not self._places:
            return 0.0
        faults = self._places.get(latency_point, ())
        return sum(fault.seconds for fault in faults if fault.fires(subject))

    def arm(self, fault: Armed) -> None:
        """Once: a worker that starts may be told of one fault twice."""
        if fault.id in self._armed:
            return
        if len(self._armed) >= armed_max:
            raise ValueError(f"More than {armed_max} faults are armed; clear some.")
        fault.chance.seed(fault.seed)
        self._armed[fault.id] = fault
        self._places.setdefault(places.get(fault.point, fault.point), []).append(fault)

    def disarm(self, fault_id: int) -> bool:
        fault = self._armed.pop(fault_id, None)
        if fault is None:
            return False
        place = places.get(fault.point, fault.point)
        self._places[place].remove(fault)
        if not self._places[place]:
            del self._places[place]
        return True

    def clear(self) -> None:
        self._armed.clear()
        self._places.clear()

    def armed(self) -> list[Armed]:
        return list(self._armed.values())


def _consequence(fault: Armed) -> Exception:
    make = _consequences.get(fault.point)
    return Refused(fault.code) if make is None else make(fault)


_consequences: Final[Mapping[str, Callable[[Armed], Exception]]] = {
    "before_commit": lambda _: StoreFailed("armed fault: before_commit"),
    "after_commit_before_reply": lambda _: ClientGone(),
    "drop_connection": lambda _: ClientGone(),
    "before_reply": lambda _: ClientGone(),
    "throttle": lambda fault: Refused(
        "ServerBusy", headers={"Retry-After": str(max(1, round(fault.seconds)))}
    ),
}
