"""Leases: two tables, one of what can be done to a lease, one of what can be done under it.

Sources: "Lease Blob", "Lease Container", "Lease Share" and "Lease File", each with its tables of
outcomes of lease operations and of use attempts by lease state, and what the live services were
recorded to answer where the documents leave it open.

A lease is stored as it was last set.  What time does to it (a fixed lease expires, a breaking one
ends up broken) is worked out from `now` at every look and never stored.  "Renewable after expiry
unless the blob was modified or leased again" needs no memory either: a write that needs no id
because the lease has ended forgets the lease, and a new lease replaces it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, unique
from typing import Final

import msgspec

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused

lease_seconds_min: Final = 15
lease_seconds_max: Final = 60
lease_seconds_infinite: Final = -1
break_seconds_max: Final = 60


@unique
class LeaseKind(Enum):
    """What is leased."""

    BLOB = "blob"
    CONTAINER = "container"
    SHARE = "share"
    FILE = "file"


@unique
class LeaseState(StrEnum):
    """The values are those of `x-ms-lease-state`."""

    AVAILABLE = "available"
    LEASED = "leased"
    BREAKING = "breaking"
    BROKEN = "broken"
    EXPIRED = "expired"


@unique
class LeaseAction(StrEnum):
    """The values are those of `x-ms-lease-action`."""

    ACQUIRE = "acquire"
    RENEW = "renew"
    CHANGE = "change"
    RELEASE = "release"
    BREAK = "break"


@unique
class Use(Enum):
    """How an operation that is no lease action uses the resource."""

    READ = "read"
    """Anyone may, but an id that is given must be the right one."""
    WRITE = "write"
    """Wants the id of a lease in force, and makes the resource forget one that has ended."""
    ANNOTATE = "annotate"
    """Wants the id as well, but leaves the ETag alone, and with it a lease that has ended."""


class Lease(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease as stored; no lease at all is the state Available."""

    id: str
    """A GUID, dashed and lower case."""
    duration_seconds: int
    """What renewing grants again; `lease_seconds_infinite` for one without end."""
    ends: Timestamp | None
    """When it expires or, being broken, when the break period is over."""
    broken: bool = False

    @property
    def infinite(self) -> bool:
        return self.duration_seconds == lease_seconds_infinite


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A lease action, its headers checked (`kernel.lease_request`)."""

    action: LeaseAction
    lease_id: str | None = None
    proposed_id: str | None = None
    duration_seconds: int = lease_seconds_infinite
    break_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """What an action came to."""

    lease: Lease | None
    """What the resource carries from now on."""
    lease_id: str | None = None
    """For the response's `x-ms-lease-id`."""
    seconds_left: int | None = None
    """For the response's `x-ms-lease-time`."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """How a lease is shown: `x-ms-lease-status`, `-state` and `-duration`."""

    status: str
    state: str
    duration: str | None


def state_of(lease: Lease | None, now: Timestamp) -> LeaseState:
    if lease is None:
        return LeaseState.AVAILABLE
    if lease.ends is None or now < lease.ends:
        return LeaseState.BREAKING if lease.broken else LeaseState.LEASED
    return LeaseState.BROKEN if lease.broken else LeaseState.EXPIRED


_no_lease: Final = LeaseView("unlocked", LeaseState.AVAILABLE.value, None)


def view_of(lease: Lease | None, now: Timestamp) -> LeaseView:
    if lease is None:
        return _no_lease
    state = state_of(lease, now)
    locked = state in (LeaseState.LEASED, LeaseState.BREAKING)
    duration = None
    if state is LeaseState.LEASED:
        duration = "infinite" if lease.infinite else "fixed"
    return LeaseView("locked" if locked else "unlocked", state.value, duration)


def act(
    lease: Lease | None, request: LeaseRequest, now: Timestamp, kind: LeaseKind, fresh_id: str
) -> LeaseChange:
    """Do a lease action; `fresh_id` names a lease for which the client proposed no id."""
    assert kind is not LeaseKind.FILE or request.action is not LeaseAction.RENEW
    state = state_of(lease, now)
    cell = actions[request.action, _claim(lease, request)][_column[state]]
    if isinstance(cell, str):
        raise Refused(cell)
    return cell(lease, request, now, fresh_id)


def use(
    lease: Lease | None, lease_id: str | None, now: Timestamp, kind: LeaseKind, how: Use
) -> Lease | None:
    """Check one use of the resource; returns the lease that it carries from then on.

    Reads return the lease unchanged.  For a blob or file that does not exist the lease is None, and
    that is what a lease id sent with its creation is checked against.
    """
    state = state_of(lease, now)
    if lease_id is None:
        if how is Use.READ:
            return lease
        if state in (LeaseState.LEASED, LeaseState.BREAKING):
            raise Refused("LeaseIdMissing")
        return None if how is Use.WRITE and kind in _forgetful else lease
    outcome = uses_with_id[lease is not None and lease.id == lease_id][_column[state]]
    if outcome is not None:
        raise Refused(spellings.get((outcome, kind), outcome))
    return lease


@unique
class _Claim(Enum):
    """How the ids of a request relate to the id of the lease."""

    NONE = "no id given"
    CURRENT = "the lease's id"
    OTHER = "another id"
    FORMER = "another id, and the lease's id proposed: a change sent again"


def _claim(lease: Lease | None, request: LeaseRequest) -> _Claim:
    current = lease.id if lease is not None else None
    if request.action is LeaseAction.BREAK:
        return _Claim.NONE
    if request.action is LeaseAction.ACQUIRE:
        if request.proposed_id is None:
            return _Claim.NONE
        return _Claim.CURRENT if request.proposed_id == current else _Claim.OTHER
    assert request.lease_id is not None
    if request.lease_id == current:
        return _Claim.CURRENT
    if request.action is LeaseAction.CHANGE and request.proposed_id == current:
        return _Claim.FORMER
    return _Claim.OTHER


def _acquire(
    _lease: Lease | None, request: LeaseRequest, now: Timestamp, fresh_id: str
) -> LeaseChange:
    lease_id = request.proposed_id or fresh_id
    lease = Lease(lease_id, request.duration_seconds, _end(request.duration_seconds, now))
    return LeaseChange(lease, lease_id)


def _renew(
    lease: Lease | None, _request: LeaseRequest, now: Timestamp, _fresh_id: str
) -> LeaseChange:
    assert lease is not None
    renewed = Lease(lease.id, lease.duration_seconds, _end(lease.duration_seconds, now))
    return LeaseChange(renewed, lease.id)


def _change(
    lease: Lease | None, request: LeaseRequest, _now: Timestamp, _fresh_id: str
) -> LeaseChange:
    assert lease is not None
    assert request.proposed_id is not None
    return LeaseChange(
        Lease(request.proposed_id, lease.duration_seconds, lease.ends), request.proposed_id
    )


def _release(
    _lease: Lease | None, _request: LeaseRequest, _now: Timestamp, _fresh_id: str
) -> LeaseChange:
    return LeaseChange(None)


def _break(
    lease: Lease | None, request: LeaseRequest, now: Timestamp, _fresh_id: str
) -> LeaseChange:
    """End a lease in the break period or when it would have ended, whichever comes first."""
    assert lease is not None
    period = request.break_seconds
    if lease.ends is None:
        # Without a period, an infinite lease is broken at once.
        ends = now + (period or 0) * ticks_per_second
    elif period is None:
        ends = lease.ends
    else:
        ends = min(lease.ends, now + period * ticks_per_second)
    broken = Lease(lease.id, lease.duration_seconds, Timestamp(ends), broken=True)
    # Whole seconds, rounded up: a client that waits for so long finds the lease broken.
    return LeaseChange(broken, seconds_left=max(0, -((now - ends) // ticks_per_second)))


def _end(duration_seconds: int, now: Timestamp) -> Timestamp | None:
    if duration_seconds == lease_seconds_infinite:
        return None
    return Timestamp(now + duration_seconds * ticks_per_second)


_Effect = Callable[[Lease | None, LeaseRequest, Timestamp, str], LeaseChange]
_Row = tuple[_Effect | str, _Effect | str, _Effect | str, _Effect | str, _Effect | str]

_present: Final = "LeaseAlreadyPresent"
_absent: Final = "LeaseNotPresentWithLeaseOperation"
_mismatch: Final = "LeaseIdMismatchWithLeaseOperation"
_no_acquire: Final = "LeaseIsBreakingAndCannotBeAcquired"
_no_renew: Final = "LeaseIsBrokenAndCannotBeRenewed"
_no_change: Final = "LeaseIsBreakingAndCannotBeChanged"

_column: Final[Mapping[LeaseState, int]] = {state: index for index, state in enumerate(LeaseState)}

# Columns as in LeaseState: Available, Leased, Breaking, Broken, Expired.  Without a lease every id
# is another one.
actions: Final[Mapping[tuple[LeaseAction, _Claim], _Row]] = {
    (LeaseAction.ACQUIRE, _Claim.NONE): (_acquire, _present, _present, _acquire, _acquire),
    (LeaseAction.ACQUIRE, _Claim.CURRENT): (_acquire, _acquire, _no_acquire, _acquire, _acquire),
    (LeaseAction.ACQUIRE, _Claim.OTHER): (_acquire, _present, _present, _acquire, _acquire),
    (LeaseAction.RENEW, _Claim.CURRENT): (_mismatch, _renew, _no_renew, _no_renew, _renew),
    (LeaseAction.RENEW, _Claim.OTHER): (_mismatch, _mismatch, _mismatch, _mismatch, _mismatch),
    (LeaseAction.CHANGE, _Claim.CURRENT): (_absent, _change, _no_change, _absent, _absent),
    (LeaseAction.CHANGE, _Claim.FORMER): (_absent, _change, _mismatch, _absent, _absent),
    (LeaseAction.CHANGE, _Claim.OTHER): (_absent, _mismatch, _mismatch, _absent, _absent),
    (LeaseAction.RELEASE, _Claim.CURRENT): (_mismatch, _release, _release, _release, _release),
    (LeaseAction.RELEASE, _Claim.OTHER): (_mismatch, _mismatch, _mismatch, _mismatch, _mismatch),
    (LeaseAction.BREAK, _Claim.NONE): (_absent, _break, _break, _break, _break),
}  # fmt: skip

# With an id, by whether it is the lease's: None lets the use go ahead.
uses_with_id: Final[Mapping[bool, tuple[str | None, ...]]] = {
    True: ("not present", None, None, "LeaseLost", "LeaseLost"),
    False: ("not present", "mismatch", "mismatch", "LeaseLost", "LeaseLost"),
}

# Shares borrow the containers' codes.
spellings: Final[Mapping[tuple[str, LeaseKind], str]] = {
    ("not present", LeaseKind.BLOB): "LeaseNotPresentWithBlobOperation",
    ("not present", LeaseKind.CONTAINER): "LeaseNotPresentWithContainerOperation",
    ("not present", LeaseKind.SHARE): "LeaseNotPresentWithContainerOperation",
    ("not present", LeaseKind.FILE): "LeaseNotPresentWithFileOperation",
    ("mismatch", LeaseKind.BLOB): "LeaseIdMismatchWithBlobOperation",
    ("mismatch", LeaseKind.CONTAINER): "LeaseIdMismatchWithContainerOperation",
    ("mismatch", LeaseKind.SHARE): "LeaseIdMismatchWithContainerOperation",
    ("mismatch", LeaseKind.FILE): "LeaseIdMismatchWithFileOperation",
}

# Operations on a container or share without an id leave a lease that has ended as it is.
_forgetful: Final = frozenset({LeaseKind.BLOB, LeaseKind.FILE})
