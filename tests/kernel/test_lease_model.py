"""Leases against a model that keeps explicit states and lets time change them one by one."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused
from etagere.kernel.lease import (
    Lease,
    LeaseAction,
    LeaseKind,
    LeaseRequest,
    Use,
    act,
    state_of,
    use,
)


class Model:
    """The states' own words, with a countdown in ticks; forever is None."""

    def __init__(self) -> None:
        self.state = "available"
        self.id = ""
        self.left: int | None = None
        self.granted: int | None = None

    def pass_time(self, ticks: int) -> None:
        if self.state in ("leased", "breaking") and self.left is not None:
            self.left -= ticks
            if self.left <= 0:
                self.state = {"leased": "expired", "breaking": "broken"}[self.state]

    def held_by(self, lease_id: str) -> bool:
        return self.state != "available" and self.id == lease_id

    def acquire(self, lease_id: str | None, fresh: str, ticks: int | None) -> str:
        if self.state == "leased" and self.id != lease_id:
            return "LeaseAlreadyPresent"
        if self.state == "breaking":
            same = self.id == lease_id
            return "LeaseIsBreakingAndCannotBeAcquired" if same else "LeaseAlreadyPresent"
        self.state, self.id = "leased", lease_id or fresh
        self.left = self.granted = ticks
        return "ok"

    def renew(self, lease_id: str) -> str:
        if not self.held_by(lease_id):
            return "LeaseIdMismatchWithLeaseOperation"
        if self.state in ("breaking", "broken"):
            return "LeaseIsBrokenAndCannotBeRenewed"
        self.state, self.left = "leased", self.granted
        return "ok"

    def change(self, lease_id: str, proposed: str) -> str:
        if self.state not in ("leased", "breaking"):
            return "LeaseNotPresentWithLeaseOperation"
        if self.state == "breaking":
            if self.id == lease_id:
                return "LeaseIsBreakingAndCannotBeChanged"
            return "LeaseIdMismatchWithLeaseOperation"
        if self.id not in (lease_id, proposed):
            return "LeaseIdMismatchWithLeaseOperation"
        self.id = proposed
        return "ok"

    def release(self, lease_id: str) -> str:
        if not self.held_by(lease_id):
            return "LeaseIdMismatchWithLeaseOperation"
        self.state = "available"
        return "ok"

    def break_(self, ticks: int | None) -> tuple[str, int]:
        if self.state == "available":
            return "LeaseNotPresentWithLeaseOperation", 0
        if self.state in ("expired", "broken"):
            self.state = "broken"
            return "ok", 0
        candidates = [time for time in (self.left, ticks) if time is not None]
        left = min(candidates) if candidates else 0
        self.left = left
        self.state = "breaking" if left > 0 else "broken"
        return "ok", left

    def use(self, lease_id: str | None, how: Use, kind: LeaseKind) -> str:
        word = {LeaseKind.BLOB: "Blob", LeaseKind.FILE: "File"}.get(kind, "Container")
        if lease_id is None:
            if how is Use.READ:
                return "ok"
            if self.state in ("leased", "breaking"):
                return "LeaseIdMissing"
            if how is Use.WRITE and word != "Container":
                self.state = "available"
            return "ok"
        if self.state == "available":
            return f"LeaseNotPresentWith{word}Operation"
        if self.state in ("broken", "expired"):
            return "LeaseLost"
        return "ok" if self.id == lease_id else f"LeaseIdMismatchWith{word}Operation"


known = [f"{letter * 8}-0000-0000-0000-000000000000" for letter in "abc"]
lengths = st.sampled_from([-1, 15, 16, 60])
periods = st.sampled_from([None, 0, 1, 15, 60])


class LeaseMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = Timestamp(1_700_000_000 * ticks_per_second)
        self.lease: Lease | None = None
        self.model = Model()
        self.fresh = 0
        self.kind = LeaseKind.BLOB

    @rule(kind=st.sampled_from([LeaseKind.BLOB, LeaseKind.CONTAINER, LeaseKind.SHARE]))
    def be(self, kind: LeaseKind) -> None:
        self.kind = kind

    @rule(seconds=st.integers(0, 61), ticks=st.sampled_from([-1, 0, 1]))
    def wait(self, seconds: int, ticks: int) -> None:
        step = max(0, seconds * ticks_per_second + ticks)
        self.now = Timestamp(self.now + step)
        self.model.pass_time(step)

    def run_action(self, request: LeaseRequest) -> tuple[str, int]:
        fresh = f"ffffffff-0000-0000-0000-{self.fresh:012x}"
        try:
            change = act(self.lease, request, self.now, self.kind, fresh)
        except Refused as refusal:
            return refusal.code, 0
        self.lease = change.lease
        return "ok", change.seconds_left or 0

    @rule(proposed=st.one_of(st.none(), st.sampled_from(known)), length=lengths)
    def acquire(self, proposed: str | None, length: int) -> None:
        self.fresh += 1
        fresh = f"ffffffff-0000-0000-0000-{self.fresh:012x}"
        ticks = None if length == -1 else length * ticks_per_second
        request = LeaseRequest(LeaseAction.ACQUIRE, proposed_id=proposed, duration_seconds=length)
        assert self.run_action(request)[0] == self.model.acquire(proposed, fresh, ticks)

    @rule(lease_id=st.sampled_from([*known, "current"]))
    def renew(self, lease_id: str) -> None:
        lease_id = self.resolve(lease_id)
        got, _ = self.run_action(LeaseRequest(LeaseAction.RENEW, lease_id))
        assert got == self.model.renew(lease_id)

    @rule(
        lease_id=st.sampled_from([*known, "current"]), proposed=st.sampled_from([*known, "current"])
    )
    def change(self, lease_id: str, proposed: str) -> None:
        lease_id, proposed = self.resolve(lease_id), self.resolve(proposed)
        got, _ = self.run_action(LeaseRequest(LeaseAction.CHANGE, lease_id, proposed))
        assert got == self.model.change(lease_id, proposed)

    @rule(lease_id=st.sampled_from([*known, "current"]))
    def release(self, lease_id: str) -> None:
        lease_id = self.resolve(lease_id)
        got, _ = self.run_action(LeaseRequest(LeaseAction.RELEASE, lease_id))
        assert got == self.model.release(lease_id)

    @rule(period=periods)
    def break_(self, period: int | None) -> None:
        got, seconds_left = self.run_action(LeaseRequest(LeaseAction.BREAK, break_seconds=period))
        ticks = None if period is None else period * ticks_per_second
        code, left = self.model.break_(ticks)
        assert got == code
        assert (seconds_left - 1) * ticks_per_second < left <= seconds_left * ticks_per_second

    @rule(lease_id=st.sampled_from([*known, "current", None]), how=st.sampled_from(Use))
    def use(self, lease_id: str | None, how: Use) -> None:
        lease_id = self.resolve(lease_id) if lease_id else None
        got = "ok"
        try:
            self.lease = use(self.lease, lease_id, self.now, self.kind, how)
        except Refused as refusal:
            got = refusal.code
        assert got == self.model.use(lease_id, how, self.kind)

    def resolve(self, lease_id: str) -> str:
        return (self.model.id or known[0]) if lease_id == "current" else lease_id

    @invariant()
    def same_state(self) -> None:
        assert state_of(self.lease, self.now).value == self.model.state


TestLeases = LeaseMachine.TestCase
TestLeases.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
