"""Every cell of the documentation's lease tables, over HTTP, with time moved by hand.

(Azure: 'Lease Blob' and 'Lease Container', "Outcomes of lease operations by lease state" and
"Outcomes of use attempts by lease state".)
"""

import pytest

from .serving import RawClient, Reply, Server

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
C = "cccccccc-cccc-cccc-cccc-cccccccccccc"

states = ("available", "leased", "breaking", "broken", "expired")

mismatch = "409 LeaseIdMismatchWithLeaseOperation"
present = "409 LeaseAlreadyPresent"
absent = "409 LeaseNotPresentWithLeaseOperation"

# Action -> what each state answers, and the state and holder after it.
actions: dict[str, tuple[str, str, str, str, str]] = {
    "acquire": ("201 leased ?", present, present, "201 leased ?", "201 leased ?"),
    "acquire A": (
        "201 leased A",
        "201 leased A",
        "409 LeaseIsBreakingAndCannotBeAcquired",
        "201 leased A",
        "201 leased A",
    ),
    "acquire B": ("201 leased B", present, present, "201 leased B", "201 leased B"),
    "renew A": (
        mismatch,
        "200 leased A",
        "409 LeaseIsBrokenAndCannotBeRenewed",
        "409 LeaseIsBrokenAndCannotBeRenewed",
        "200 leased A",
    ),
    "renew B": (mismatch,) * 5,
    "change A B": (
        absent,
        "200 leased B",
        "409 LeaseIsBreakingAndCannotBeChanged",
        absent,
        absent,
    ),
    "change B A": (absent, "200 leased A", mismatch, absent, absent),
    "change B C": (absent, mismatch, mismatch, absent, absent),
    "release A": (mismatch, *(("200 available",) * 4)),
    "release B": (mismatch,) * 5,
    "break": (absent, "202 breaking", "202 breaking", "202 broken", "202 broken"),
    "break 0": (absent, "202 broken", "202 broken", "202 broken", "202 broken"),
    "break 5": (absent, "202 breaking", "202 breaking", "202 broken", "202 broken"),
}

missing = "412 LeaseIdMissing"
lost = "412 LeaseLost"


def uses(kind: str) -> dict[str, tuple[str, str, str, str, str]]:
    none = f"412 LeaseNotPresentWith{kind}Operation"
    other = f"412 LeaseIdMismatchWith{kind}Operation"
    return {
        "write A": (none, "ok", "ok", lost, lost),
        "write B": (none, other, other, lost, lost),
        "write": ("ok", missing, missing, "ok", "ok"),
        "read A": (none, "ok", "ok", lost, lost),
        "read B": (none, other, other, lost, lost),
        "read": ("ok", "ok", "ok", "ok", "ok"),
    }


others = {how.replace("read", "other"): cells for how, cells in uses("Container").items()
          if how.startswith("read")}  # fmt: skip
"""Of a container, every operation but its deletion is like a read: it wants no id."""


class Leased:
    """A blob or a container, and the lease operations on it."""

    def __init__(self, server: Server, raw: RawClient, kind: str) -> None:
        self.server = server
        self.raw = raw
        self.kind = kind
        assert raw("PUT", "/leased", restype="container").status == 201
        self.path = "/leased"
        self.query: dict[str, str] = {"restype": "container"}
        if kind == "Blob":
            self.path = "/leased/blob"
            self.query = {}
            assert raw.put_blob(self.path).status == 201

    def lease(self, action: str, **headers: str) -> Reply:
        sent = {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}
        return self.raw(
            "PUT",
            self.path,
            None,
            {"x-ms-lease-action": action, **sent},
            comp="lease",
            **self.query,
        )

    def acquire(self, lease_id: str | None = None, seconds: int = 30) -> Reply:
        proposed = {} if lease_id is None else {"proposed_lease_id": lease_id}
        return self.lease("acquire", lease_duration=str(seconds), **proposed)

    def bring_to(self, state: str) -> None:
        if state == "available":
            return
        assert self.acquire(A).status == 201
        if state == "breaking":
            assert self.lease("break", lease_break_period="20").status == 202
        elif state == "broken":
            assert self.lease("break", lease_break_period="0").status == 202
        elif state == "expired":
            self.server.clock.advance(30)
        assert self.state() == state

    def act(self, action: str) -> Reply:
        verb, *words = action.split()
        ids = [{"A": A, "B": B, "C": C}.get(word, word) for word in words]
        match verb:
            case "acquire":
                return self.acquire(*ids)
            case "change":
                return self.lease("change", lease_id=ids[0], proposed_lease_id=ids[1])
            case "break" if ids:
                return self.lease("break", lease_break_period=ids[0])
            case "break":
                return self.lease("break")
            case _:
                return self.lease(verb, lease_id=ids[0])

    def head(self) -> Reply:
        return self.raw("HEAD", self.path, **self.query)

    def state(self) -> str:
        return self.head().headers["x-ms-lease-state"]

    def holder(self) -> str:
        """Whose lease it is, found out by asking for a change that is refused to others."""
        for name, lease_id in (("A", A), ("B", B), ("C", C)):
            reply = self.lease("change", lease_id=lease_id, proposed_lease_id=lease_id)
            if reply.status == 200:
                return name
        return "?"

    def use(self, how: str) -> Reply:
        verb, *words = how.split()
        headers = {"x-ms-lease-id": {"A": A, "B": B}[words[0]]} if words else {}
        if verb == "read":
            return self.raw("HEAD", self.path, headers=headers, **self.query)
        if self.kind == "Container":
            return self.raw("DELETE", self.path, headers=headers, **self.query)
        return self.raw.put_blob(self.path, b"new", **headers)


@pytest.fixture(params=["Blob", "Container"])
def leased(request: pytest.FixtureRequest, server: Server, raw: RawClient) -> Leased:
    return Leased(server, raw, request.param)


@pytest.mark.parametrize("state", states)
@pytest.mark.parametrize("action", actions)
def test_lease_action(leased: Leased, action: str, state: str) -> None:
    expected, *after = actions[action][states.index(state)].split()
    leased.bring_to(state)
    before = leased.head()
    reply = leased.act(action)
    assert str(reply.status) == expected, reply.text
    if reply.status >= 400:
        assert [reply.code] == after
        assert leased.state() == state
        return
    found = leased.head()
    assert reply.etag == found.etag == before.etag
    assert reply.headers["last-modified"] == before.headers["last-modified"]
    assert found.headers["x-ms-lease-state"] == after[0]
    assert found.headers["x-ms-lease-status"] == (
        "locked" if after[0] in ("leased", "breaking") else "unlocked"
    )
    if len(after) > 1:
        assert leased.holder() == after[1]
        if after[1] != "?":
            assert reply.headers["x-ms-lease-id"] == {"A": A, "B": B, "C": C}[after[1]]
    if reply.status == 202:
        left = int(reply.headers["x-ms-lease-time"])
        assert (left > 0) == (after[0] == "breaking")
        if action == "break 5" and left:
            assert left == 5


@pytest.mark.parametrize("state", states)
@pytest.mark.parametrize("how", uses("Blob"))
def test_use_under_a_lease(leased: Leased, how: str, state: str) -> None:
    leased.bring_to(state)
    expected = uses(leased.kind)[how][states.index(state)]
    reply = leased.use(how)
    if expected != "ok":
        assert f"{reply.status} {reply.code}" == expected
        assert leased.state() == state
        return
    assert reply.status < 300, reply.text
    if leased.kind == "Blob" or how.startswith("read"):
        # A write forgets a lease that has ended; one in force survives being overwritten.
        ended = how == "write" and state in ("broken", "expired")
        assert leased.state() == ("available" if ended else state)


@pytest.mark.parametrize("state", states)
@pytest.mark.parametrize("how", others)
def test_other_operations_on_a_leased_container(
    server: Server, raw: RawClient, how: str, state: str
) -> None:
    leased = Leased(server, raw, "Container")
    leased.bring_to(state)
    expected = others[how][states.index(state)]
    headers = {"x-ms-lease-id": {"A": A, "B": B}[how[6:]]} if how != "other" else {}
    reply = raw("PUT", "/leased", headers=headers, restype="container", comp="metadata")
    if expected == "ok":
        assert reply.status == 200, reply.text
    else:
        assert f"{reply.status} {reply.code}" == expected
    assert leased.state() == state
    listed = raw("GET", "/", comp="list").text
    assert f"<LeaseState>{state}</LeaseState>" in listed


def test_after_a_write_an_ended_lease_is_unknown(server: Server, raw: RawClient) -> None:
    leased = Leased(server, raw, "Blob")
    leased.bring_to("expired")
    assert raw.put_blob(leased.path, b"other").status == 201
    for action in ("renew A", "release A"):
        reply = leased.act(action)
        assert (reply.status, reply.code) == (409, "LeaseIdMismatchWithLeaseOperation")


def test_a_container_s_lease_is_renewed_after_expiry_unless_another_came(
    server: Server, raw: RawClient
) -> None:
    leased = Leased(server, raw, "Container")
    leased.bring_to("expired")
    assert raw("PUT", "/leased", restype="container", comp="metadata").status == 200
    assert raw.put_blob("/leased/b").status == 201
    assert leased.act("renew A").status == 200
    server.clock.advance(30)
    assert leased.acquire(B).status == 201
    server.clock.advance(30)
    assert leased.state() == "expired"
    assert leased.act("renew A").code == "LeaseIdMismatchWithLeaseOperation"


def test_a_blob_s_lease_is_not_renewed_after_another_came(server: Server, raw: RawClient) -> None:
    leased = Leased(server, raw, "Blob")
    leased.bring_to("expired")
    assert leased.acquire(B).status == 201
    server.clock.advance(30)
    assert leased.act("renew A").code == "LeaseIdMismatchWithLeaseOperation"
    assert leased.act("renew B").status == 200


@pytest.mark.parametrize(
    ("seconds", "period", "after", "left", "state"),
    [
        (30, None, 10, 20, "breaking"),  # without a period, what remains of a fixed lease
        (30, 60, 10, 20, "breaking"),  # a period longer than what remains is that long
        (30, 5, 10, 5, "breaking"),
        (30, 0, 10, 0, "broken"),
        (-1, None, 10, 0, "broken"),
        (-1, 60, 10, 60, "breaking"),
        (-1, 5, 10, 5, "breaking"),
    ],
)
def test_how_long_a_break_takes(
    leased: Leased, seconds: int, period: int | None, after: int, left: int, state: str
) -> None:
    clock = leased.server.clock
    clock.freeze()
    assert leased.acquire(A, seconds).status == 201
    clock.advance(after)
    headers = {} if period is None else {"lease_break_period": str(period)}
    reply = leased.lease("break", **headers)
    assert (reply.status, reply.headers["x-ms-lease-time"]) == (202, str(left))
    assert leased.state() == state
    if state == "breaking":
        clock.advance(left - 1)
        # A second break does not put it off, but may bring it nearer.
        assert leased.lease("break", lease_break_period="60").headers["x-ms-lease-time"] == "1"
        assert leased.state() == "breaking"
        clock.advance(1)
    assert leased.state() == "broken"
    clock.advance(10_000)
    assert leased.state() == "broken"


def test_a_second_break_may_shorten_the_first(leased: Leased) -> None:
    leased.server.clock.freeze()
    assert leased.acquire(A, -1).status == 201
    assert leased.lease("break", lease_break_period="60").headers["x-ms-lease-time"] == "60"
    assert leased.lease("break", lease_break_period="7").headers["x-ms-lease-time"] == "7"
    assert leased.lease("break").headers["x-ms-lease-time"] == "7"
    leased.server.clock.advance(7)
    assert leased.state() == "broken"


def test_acquiring_one_s_own_lease_anew_restarts_the_clock(leased: Leased) -> None:
    clock = leased.server.clock
    clock.freeze()
    leased.acquire(A, 15)
    clock.advance(14)
    assert leased.acquire(A, 60).status == 201
    clock.advance(59)
    assert leased.state() == "leased"
    clock.advance(1)
    assert leased.state() == "expired"
    assert leased.acquire(A, -1).status == 201
    assert leased.head().headers["x-ms-lease-duration"] == "infinite"


def test_a_change_leaves_the_clock_alone(leased: Leased) -> None:
    clock = leased.server.clock
    clock.freeze()
    leased.acquire(A, 30)
    clock.advance(20)
    assert leased.act("change A B").status == 200
    clock.advance(9)
    assert leased.state() == "leased"
    assert leased.head().headers["x-ms-lease-duration"] == "fixed"
    clock.advance(1)
    assert leased.state() == "expired"
    assert "x-ms-lease-duration" not in leased.head().headers


def test_lease_actions_have_no_subject_but_the_blob_itself(
    server: Server, raw: RawClient, container: str
) -> None:
    acquire = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
    reply = raw("PUT", f"{container}/none", headers=acquire, comp="lease")
    assert (reply.status, reply.code) == (404, "BlobNotFound")
    raw("PUT", f"{container}/staged", b"x", comp="block", blockid="AAAA")
    reply = raw("PUT", f"{container}/staged", headers=acquire, comp="lease")
    assert (reply.status, reply.code) == (404, "BlobNotFound")
    reply = raw("PUT", "/none", headers=acquire, restype="container", comp="lease")
    assert (reply.status, reply.code) == (404, "ContainerNotFound")


def test_a_lease_survives_its_holder_s_writes_and_not_its_deletion(
    server: Server, raw: RawClient
) -> None:
    leased = Leased(server, raw, "Blob")
    leased.bring_to("leased")
    held = {"x-ms-lease-id": A}
    source = {"x-ms-copy-source": f"{server.url}/leased/other?{raw.sas}"}
    raw.put_blob("/leased/other", b"x")
    leased.acquire(A, -1)
    for reply in (
        raw.put_blob(leased.path, b"x", **held),
        raw("PUT", leased.path, "<BlockList/>", held, comp="blocklist"),
        raw("PUT", leased.path, headers={**held, **source}),
    ):
        assert reply.status < 300, reply.text
        assert leased.state() == "leased"
    taken = raw("PUT", leased.path, headers=held, comp="snapshot").headers["x-ms-snapshot"]
    assert "x-ms-lease-state" not in raw("HEAD", leased.path, snapshot=taken).headers
    assert raw("DELETE", leased.path, snapshot=taken).status == 202
    raw("PUT", leased.path, comp="snapshot")
    everything = {"x-ms-delete-snapshots": "include"}
    assert raw("DELETE", leased.path, headers=everything).code == "LeaseIdMissing"
    assert raw("DELETE", leased.path, headers={**everything, **held}).status == 202
    assert raw.put_blob(leased.path).status == 201
    assert leased.state() == "available"


def test_older_versions_ignore_an_id_for_what_is_not_there(
    server: Server, raw: RawClient, container: str
) -> None:
    older = RawClient(server.port, version="2012-02-12")
    held = {"x-ms-lease-id": A}
    assert older.put_blob(f"{container}/a", b"x", **held).status == 201
    assert older("PUT", f"{container}/b", b"x", held, comp="block", blockid="AAAA").status == 201
    assert older("PUT", f"{container}/c", "<BlockList/>", held, comp="blocklist").status == 201
    older.close()


def test_a_written_blob_is_not_renewed_after_expiry(server: Server, raw: RawClient) -> None:
    leased = Leased(server, raw, "Blob")
    leased.bring_to("expired")
    assert raw.put_blob(leased.path, b"other").status == 201
    reply = leased.act("renew A")
    assert (reply.status, reply.code) == (409, "LeaseIdMismatchWithLeaseOperation")


def test_an_infinite_lease_is_broken_at_once(leased: Leased) -> None:
    assert leased.acquire(A, -1).status == 201
    head = leased.head()
    assert head.headers["x-ms-lease-duration"] == "infinite"
    leased.server.clock.advance(10 * 365 * 86_400)
    assert leased.state() == "leased"
    reply = leased.act("break")
    assert reply.headers["x-ms-lease-time"] == "0"
    assert leased.state() == "broken"


def test_time_runs_from_the_renewal(leased: Leased) -> None:
    leased.acquire(A)
    leased.server.clock.advance(29)
    assert leased.act("renew A").status == 200
    leased.server.clock.advance(29)
    assert leased.state() == "leased"
    leased.server.clock.advance(1)
    assert leased.state() == "expired"


@pytest.mark.parametrize("seconds", ["14", "61", "0", "-2", "x", ""])
def test_impossible_durations(leased: Leased, seconds: str) -> None:
    reply = leased.lease("acquire", lease_duration=seconds)
    code = "InvalidHeaderValue" if seconds else "MissingRequiredHeader"
    assert (reply.status, reply.code) == (400, code)
    assert leased.state() == "available"


@pytest.mark.parametrize("spelling", [A, A.upper(), A.replace("-", ""), "{" + A + "}", f"({A})"])
def test_lease_ids_are_guids_in_four_spellings(leased: Leased, spelling: str) -> None:
    reply = leased.acquire(spelling)
    assert (reply.status, reply.headers["x-ms-lease-id"]) == (201, A)
    assert leased.act("release A").status == 200


def test_deleting_a_container_does_not_ask_its_blobs(server: Server, raw: RawClient) -> None:
    leased = Leased(server, raw, "Blob")
    leased.bring_to("leased")
    assert raw("DELETE", "/leased", restype="container").status == 202


@pytest.mark.parametrize("operation", ["block", "properties", "metadata", "delete", "blocklist"])
def test_every_write_is_held_back(server: Server, raw: RawClient, operation: str) -> None:
    leased = Leased(server, raw, "Blob")
    leased.bring_to("leased")

    def attempt(**headers: str) -> Reply:
        if operation == "delete":
            return raw("DELETE", leased.path, headers=headers)
        query = {"blockid": "AAAA"} if operation == "block" else {}
        body = "<BlockList/>" if operation == "blocklist" else "x"
        if operation in ("properties", "metadata"):
            body = None
        return raw("PUT", leased.path, body, headers, comp=operation, **query)

    refused = attempt()
    assert (refused.status, refused.code) == (412, "LeaseIdMissing")
    assert attempt(**{"x-ms-lease-id": A}).status < 300


@pytest.mark.parametrize("operation", ["metadata", "acl"])
def test_container_writes_take_an_id_but_want_none(
    server: Server, raw: RawClient, operation: str
) -> None:
    leased = Leased(server, raw, "Container")
    leased.bring_to("leased")
    client = leased.server.sdk().get_container_client("leased")

    def attempt(lease_id: str | None) -> None:
        if operation == "metadata":
            client.set_container_metadata({"a": "b"}, lease=lease_id)
        else:
            client.set_container_access_policy({}, lease=lease_id)

    attempt(None)
    attempt(A)
    with pytest.raises(Exception, match="LeaseIdMismatchWithContainerOperation"):
        attempt(B)
    client.close()


def test_a_lease_id_for_a_blob_that_is_not_there(raw: RawClient, container: str) -> None:
    reply = raw.put_blob(f"{container}/new", b"x", **{"x-ms-lease-id": A})
    assert (reply.status, reply.code) == (412, "LeaseNotPresentWithBlobOperation")
    reply = raw("HEAD", f"{container}/new", headers={"x-ms-lease-id": A})
    assert (reply.status, reply.code) == (404, "BlobNotFound")


def test_leases_were_for_a_minute_once(server: Server, raw: RawClient, container: str) -> None:
    """Before 2012-02-12 there were no durations, proposals, changes or break periods, and no leases
    of containers."""
    server.clock.freeze()
    path = f"{container}/a"
    raw.put_blob(path)
    older = RawClient(server.port, version="2011-08-18")

    def lease(action: str, **headers: str) -> Reply:
        sent = {f"x-ms-{name.replace('_', '-')}": value for name, value in headers.items()}
        return older("PUT", path, headers={"x-ms-lease-action": action, **sent}, comp="lease")

    got = lease("acquire", lease_duration="15", proposed_lease_id=A)
    assert got.status == 201
    held = got.headers["x-ms-lease-id"]
    assert held != A
    server.clock.advance(59)
    assert raw("HEAD", path).headers["x-ms-lease-state"] == "leased"
    assert lease("renew", lease_id=held).status == 200
    changed = lease("change", lease_id=held, proposed_lease_id=B)
    assert (changed.status, changed.code) == (400, "InvalidHeaderValue")
    server.clock.advance(20)
    broken = lease("break", lease_break_period="5")
    assert (broken.status, broken.headers["x-ms-lease-time"]) == (202, "40")
    server.clock.advance(40)
    assert raw("HEAD", path).headers["x-ms-lease-state"] == "broken"
    acquire = {"x-ms-lease-action": "acquire"}
    refused = older("PUT", container, headers=acquire, restype="container", comp="lease")
    assert (refused.status, refused.code) == (400, "InvalidHeaderValue")
    older.close()
