"""The outcome tables of "Lease Blob", "Lease Container", "Lease Share" and "Lease File", written
down a second time, and every state, action, id and time walked through them."""

from dataclasses import dataclass
from itertools import product

import msgspec
import pytest

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.lease import (
    Lease,
    LeaseAction,
    LeaseChange,
    LeaseKind,
    LeaseRequest,
    LeaseState,
    LeaseView,
    Use,
    act,
    state_of,
    use,
    view_of,
)

second = ticks_per_second
A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
C = "cccccccc-cccc-cccc-cccc-cccccccccccc"
X = "eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee"

start = Timestamp(1_700_000_000 * second)

# Cells: code of the refusal (short: see `codes`), or what follows.  Columns: Available, Leased(A),
# Breaking(A), Broken(A), Expired(A).
action_table = """
acquire no id | Leased X | already | already         | Leased X  | Leased X
acquire A     | Leased A | Leased A| breaking-acquire| Leased A  | Leased A
acquire B     | Leased B | already | already         | Leased B  | Leased B
renew A       | mismatch | Leased A| broken-renew    | broken-renew | Leased A
renew B       | mismatch | mismatch| mismatch        | mismatch  | mismatch
change A to B | absent   | Leased B| breaking-change | absent    | absent
change A to A | absent   | Leased A| breaking-change | absent    | absent
change B to A | absent   | Leased A| mismatch        | absent    | absent
change B to C | absent   | mismatch| mismatch        | absent    | absent
release A     | mismatch | Available | Available     | Available | Available
release B     | mismatch | mismatch| mismatch        | mismatch  | mismatch
break         | absent   | break   | break           | break     | break
"""
codes = {
    "already": "LeaseAlreadyPresent",
    "absent": "LeaseNotPresentWithLeaseOperation",
    "mismatch": "LeaseIdMismatchWithLeaseOperation",
    "breaking-acquire": "LeaseIsBreakingAndCannotBeAcquired",
    "broken-renew": "LeaseIsBrokenAndCannotBeRenewed",
    "breaking-change": "LeaseIsBreakingAndCannotBeChanged",
}
requests = {
    "acquire no id": LeaseRequest(LeaseAction.ACQUIRE),
    "acquire A": LeaseRequest(LeaseAction.ACQUIRE, proposed_id=A),
    "acquire B": LeaseRequest(LeaseAction.ACQUIRE, proposed_id=B),
    "renew A": LeaseRequest(LeaseAction.RENEW, A),
    "renew B": LeaseRequest(LeaseAction.RENEW, B),
    "change A to B": LeaseRequest(LeaseAction.CHANGE, A, B),
    "change A to A": LeaseRequest(LeaseAction.CHANGE, A, A),
    "change B to A": LeaseRequest(LeaseAction.CHANGE, B, A),
    "change B to C": LeaseRequest(LeaseAction.CHANGE, B, C),
    "release A": LeaseRequest(LeaseAction.RELEASE, A),
    "release B": LeaseRequest(LeaseAction.RELEASE, B),
    "break": LeaseRequest(LeaseAction.BREAK),
}
states = ("Available", "Leased", "Breaking", "Broken", "Expired")


def rows(table: str) -> dict[str, dict[str, str]]:
    parsed = {}
    for line in table.strip().splitlines():
        name, *cells = (cell.strip() for cell in line.split("|"))
        assert len(cells) == len(states)
        parsed[name] = dict(zip(states, cells, strict=True))
    return parsed


@dataclass(frozen=True)
class Sample:
    """A lease with the time at which its state ends (None for never)."""

    state: str
    lease: Lease | None
    now: Timestamp
    ends: Timestamp | None


def at(seconds: float) -> Timestamp:
    return Timestamp(start + round(seconds * second))


def samples() -> list[Sample]:
    """Each stored lease looked at from its beginning to long after, at its end to the tick."""
    found = [Sample("Available", None, start, None)]
    infinite = Lease(A, -1, None)
    found += [Sample("Leased", infinite, at(offset), None) for offset in (0, 10**6)]
    for length, broken in ((15, False), (60, False), (1, True), (60, True)):
        ends = at(length)
        lease = Lease(A, 60 if broken else length, ends, broken)
        during, after = ("Breaking", "Broken") if broken else ("Leased", "Expired")
        found += [
            Sample(during, lease, start, ends),
            Sample(during, lease, Timestamp(ends - 1), ends),
            Sample(after, lease, ends, ends),
            Sample(after, lease, Timestamp(ends + 1), ends),
            Sample(after, lease, at(10**6), ends),
        ]
    broken_infinite = Lease(A, -1, at(30), broken=True)
    found += [
        Sample("Breaking", broken_infinite, at(29), at(30)),
        Sample("Broken", broken_infinite, at(30), at(30)),
    ]
    return found


def outcome(call) -> LeaseChange | str:
    try:
        return call()
    except Refused as refusal:
        return refusal.code


def kinds_with(action: LeaseAction) -> list[LeaseKind]:
    return [kind for kind in LeaseKind if (kind, action) != (LeaseKind.FILE, LeaseAction.RENEW)]


def test_every_sample_is_in_the_state_that_it_claims():
    for sample in samples():
        assert state_of(sample.lease, sample.now).value == sample.state.lower()


@pytest.mark.parametrize("name", rows(action_table))
@pytest.mark.parametrize("duration", [15, 60, -1])
def test_actions(name: str, duration: int):
    request = requests[name]
    if request.action is LeaseAction.ACQUIRE:
        request = LeaseRequest(
            LeaseAction.ACQUIRE, proposed_id=request.proposed_id, duration_seconds=duration
        )
    for sample, kind in product(samples(), kinds_with(request.action)):
        cell = rows(action_table)[name][sample.state]
        got = outcome(lambda: act(sample.lease, request, sample.now, kind, X))  # noqa: B023
        if cell in codes:
            assert got == codes[cell], (sample, kind)
            continue
        assert isinstance(got, LeaseChange), (sample, kind)
        if cell == "Available":
            assert got == LeaseChange(None)
        elif cell == "break":
            assert_broken(sample, None, got)
        else:
            assert_leased(sample, request, cell.removeprefix("Leased "), got)


def assert_leased(sample: Sample, request: LeaseRequest, letter: str, got: LeaseChange) -> None:
    expected_id = {"A": A, "B": B, "C": C, "X": X}[letter]
    lease = got.lease
    assert lease is not None
    assert lease.id == got.lease_id == expected_id
    assert got.seconds_left is None
    assert state_of(lease, sample.now) is LeaseState.LEASED
    if request.action is LeaseAction.CHANGE:
        assert sample.lease is not None
        assert (lease.duration_seconds, lease.ends) == (
            sample.lease.duration_seconds,
            sample.ends,
        ), "changing leaves the clock alone"
        return
    if request.action is LeaseAction.RENEW:
        assert sample.lease is not None
        duration = sample.lease.duration_seconds
    else:
        duration = request.duration_seconds
    assert lease.duration_seconds == duration
    if duration == -1:
        assert lease.ends is None
    else:
        ends = sample.now + duration * second
        assert lease.ends == ends
        assert state_of(lease, Timestamp(ends - 1)) is LeaseState.LEASED
        assert state_of(lease, Timestamp(ends)) is LeaseState.EXPIRED


def assert_broken(sample: Sample, period: int | None, got: LeaseChange) -> None:
    """Broken after min(period, what was left); an infinite lease without a period at once."""
    lease = got.lease
    assert lease is not None
    assert lease.id == A
    assert got.lease_id is None
    if sample.state in ("Broken", "Expired"):
        left = 0
    elif sample.ends is None:
        left = (period or 0) * second
    else:
        left = sample.ends - sample.now
        if period is not None:
            left = min(left, period * second)
    assert got.seconds_left == -(-left // second)
    assert state_of(lease, Timestamp(sample.now + left)) is LeaseState.BROKEN
    if left:
        assert state_of(lease, sample.now) is LeaseState.BREAKING
        assert state_of(lease, Timestamp(sample.now + left - 1)) is LeaseState.BREAKING
    else:
        assert state_of(lease, sample.now) is LeaseState.BROKEN


@pytest.mark.parametrize("period", [None, 0, 1, 14, 15, 30, 60])
@pytest.mark.parametrize("kind", LeaseKind)
def test_break_periods(period: int | None, kind: LeaseKind):
    request = LeaseRequest(LeaseAction.BREAK, break_seconds=period)
    for sample in samples():
        got = outcome(lambda: act(sample.lease, request, sample.now, kind, X))  # noqa: B023
        if sample.state == "Available":
            assert got == "LeaseNotPresentWithLeaseOperation"
        else:
            assert isinstance(got, LeaseChange)
            assert_broken(sample, period, got)


def test_a_break_never_prolongs_a_break():
    lease: Lease | None = Lease(A, -1, None)
    for period, left in ((60, 60), (None, 60), (30, 30), (60, 30), (0, 0), (60, 0)):
        change = act(
            lease, LeaseRequest(LeaseAction.BREAK, break_seconds=period), start, LeaseKind.BLOB, X
        )
        assert change.seconds_left == left
        lease = change.lease


def test_seconds_left_are_rounded_up():
    lease = Lease(A, 15, Timestamp(start + 1))
    change = act(lease, LeaseRequest(LeaseAction.BREAK), start, LeaseKind.BLOB, X)
    assert change.seconds_left == 1


# Columns as above.  Cells: ok, ok-forgets, or a code; % stands for the kind's own word.
use_table = """
write, A     | none | ok      | ok      | LeaseLost  | LeaseLost
write, B     | none | mismatch| mismatch| LeaseLost  | LeaseLost
write, no id | ok   | LeaseIdMissing | LeaseIdMissing | ok-forgets | ok-forgets
read, A      | none | ok      | ok      | LeaseLost  | LeaseLost
read, B      | none | mismatch| mismatch| LeaseLost  | LeaseLost
read, no id  | ok   | ok      | ok      | ok         | ok
annotate, A     | none | ok      | ok      | LeaseLost  | LeaseLost
annotate, B     | none | mismatch| mismatch| LeaseLost  | LeaseLost
annotate, no id | ok   | LeaseIdMissing | LeaseIdMissing | ok | ok
"""
words = {
    LeaseKind.BLOB: "Blob",
    LeaseKind.CONTAINER: "Container",
    LeaseKind.SHARE: "Container",
    LeaseKind.FILE: "File",
}


@pytest.mark.parametrize("kind", LeaseKind)
@pytest.mark.parametrize("name", rows(use_table))
def test_uses(name: str, kind: LeaseKind):
    how, who = name.split(", ")
    lease_id = {"A": A, "B": B, "no id": None}[who]
    for sample in samples():
        cell = rows(use_table)[name][sample.state]
        got = outcome(lambda: use(sample.lease, lease_id, sample.now, kind, Use(how)))  # noqa: B023
        if cell == "ok":
            assert got == sample.lease
        elif cell == "ok-forgets":
            forgets = kind in (LeaseKind.BLOB, LeaseKind.FILE)
            assert got == (None if forgets else sample.lease)
        elif cell == "none":
            assert got == f"LeaseNotPresentWith{words[kind]}Operation"
        elif cell == "mismatch":
            assert got == f"LeaseIdMismatchWith{words[kind]}Operation"
        else:
            assert got == cell


def test_an_expired_lease_is_renewed_only_if_nothing_was_written_since():
    expired = Lease(A, 15, at(15))
    later = at(100)
    renew = requests["renew A"]
    assert act(expired, renew, later, LeaseKind.BLOB, X).lease == Lease(A, 15, at(115))
    # A read, an annotation and a container's other operations leave it renewable.
    for kind, how in (
        (LeaseKind.BLOB, Use.READ),
        (LeaseKind.BLOB, Use.ANNOTATE),
        (LeaseKind.CONTAINER, Use.READ),
        (LeaseKind.CONTAINER, Use.WRITE),
    ):
        after = use(expired, None, later, kind, how)
        assert act(after, renew, later, kind, X).lease_id == A
    # A write to the blob does not, nor does another's lease that has ended since.
    after = use(expired, None, later, LeaseKind.BLOB, Use.WRITE)
    assert outcome(lambda: act(after, renew, later, LeaseKind.BLOB, X)) == codes["mismatch"]
    assert (
        outcome(lambda: act(after, requests["release A"], later, LeaseKind.BLOB, X))
        == codes["mismatch"]
    )
    taken = act(expired, requests["acquire B"], later, LeaseKind.BLOB, X).lease
    assert outcome(lambda: act(taken, renew, at(10**6), LeaseKind.BLOB, X)) == codes["mismatch"]


@pytest.mark.parametrize(
    ("lease", "seconds", "view"),
    [
        (None, 0, LeaseView("unlocked", "available", None)),
        (Lease(A, 15, at(15)), 14.9999999, LeaseView("locked", "leased", "fixed")),
        (Lease(A, 15, at(15)), 15, LeaseView("unlocked", "expired", None)),
        (Lease(A, -1, None), 10**6, LeaseView("locked", "leased", "infinite")),
        (Lease(A, -1, at(15), broken=True), 14, LeaseView("locked", "breaking", None)),
        (Lease(A, 60, at(15), broken=True), 15, LeaseView("unlocked", "broken", None)),
    ],
)
def test_how_leases_are_shown(lease: Lease | None, seconds: float, view: LeaseView):
    assert view_of(lease, at(seconds)) == view


def test_leases_are_stored_as_messagepack():
    for sample in samples():
        packed = msgspec.msgpack.encode(sample.lease)
        assert msgspec.msgpack.decode(packed, type=Lease | None) == sample.lease


def test_infinite_is_what_has_no_duration():
    assert Lease(A, -1, None).infinite
    assert Lease(A, -1, at(1), broken=True).infinite
    assert not Lease(A, 15, at(15)).infinite
