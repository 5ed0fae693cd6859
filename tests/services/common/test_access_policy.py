"""Stored access policies as records, and as what a shared access signature is checked with."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.auth.stored_policy import StoredPolicy as WhatAuthenticationReads
from etagere.auth.stored_policy import find_policy
from etagere.base.clock import Timestamp, timestamp_never
from etagere.services.common.access_policy import StoredPolicy

moments = st.none() | st.integers(0, timestamp_never).map(Timestamp)
policies = st.builds(
    StoredPolicy,
    id=st.text(min_size=1, max_size=64),
    start=moments,
    expiry=moments,
    permission=st.none() | st.text("racwdxyltfmeopiu", max_size=8),
)


@given(st.lists(policies, max_size=5))
def test_a_record_comes_back_as_it_was(stored: list[StoredPolicy]) -> None:
    raw = msgspec.msgpack.encode(stored)
    assert msgspec.msgpack.decode(raw, type=list[StoredPolicy]) == stored


@pytest.mark.parametrize(
    ("raw", "policy"),
    [
        (b'["p"]', StoredPolicy("p")),
        (b'["p", 5]', StoredPolicy("p", Timestamp(5))),
        (b'["p", null, 6, "rl"]', StoredPolicy("p", None, Timestamp(6), "rl")),
        # A field that a later version may add at the end is passed over.
        (b'["p", 5, 6, "rl", "new"]', StoredPolicy("p", Timestamp(5), Timestamp(6), "rl")),
    ],
)
def test_older_and_newer_records_are_read(raw: bytes, policy: StoredPolicy) -> None:
    packed = msgspec.msgpack.encode(msgspec.json.decode(raw))
    assert msgspec.msgpack.decode(packed, type=StoredPolicy) == policy


def test_authentication_finds_a_policy_by_its_id() -> None:
    stored = (StoredPolicy("a"), StoredPolicy("b", permission="r"))
    found: WhatAuthenticationReads | None = find_policy(stored, "b")
    assert found is stored[1]
    for name in ("", "B", "c"):
        assert find_policy(stored, name) is None
    assert find_policy((), "a") is None
