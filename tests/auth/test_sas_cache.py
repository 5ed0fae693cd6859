"""A token that was proved is not signed again, and nothing else about it is taken on trust."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from auth_samples import account, at, key, now, other_key
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sas_samples import (
    Fields,
    account_fields,
    blob,
    blob_fields,
    carrying,
    container,
    encoded,
    queue,
    signed_token,
)

from etagere.auth.cache import SasCache, token_chars_max
from etagere.auth.identity import SasIdentity
from etagere.auth.lru import Lru
from etagere.auth.request import ResourceName, SignedRequest
from etagere.auth.sas import parse, verify
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp
from etagere.base.errors import Refused


class CountingKey(SigningKey):
    """Tells how often it signed."""

    __slots__ = ("count",)

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret)
        self.count = 0

    def digest(self, text: str) -> bytes:
        self.count += 1
        return super().digest(text)


def counting() -> CountingKey:
    return CountingKey(bytes(range(64)))  # the secret of `auth_samples.key`


def run(
    cache: SasCache,
    token: str,
    name: ResourceName = blob,
    *,
    keys: tuple[SigningKey, ...],
    moment: Timestamp = now,
    policy: Any = None,
    request: SignedRequest | None = None,
    **more: Any,
) -> SasIdentity:
    """What the frontends do: a look first, and then all that there is."""
    request = carrying(token, name, **more) if request is None else request
    recalled = cache.recall(request.raw_query, request.account, name, keys, moment, request)
    if recalled is not None:
        return recalled
    return cache.verify(cache.parse(request), request, name, keys, moment, policy)


def test_a_repeated_query_is_proved_once() -> None:
    cache, signer = SasCache(), counting()
    token = signed_token(blob_fields, blob)
    first = run(cache, token, keys=(signer,))
    assert signer.count == 1
    for _ in range(3):
        assert run(cache, token, keys=(signer,)) == first
    assert signer.count == 1


def test_one_token_in_many_queries_is_proved_once() -> None:
    cache, signer = SasCache(), counting()
    token = signed_token(blob_fields, blob)
    for number in range(5):
        run(cache, f"comp=block&blockid={number}&{token}", keys=(signer,))
    assert signer.count == 1


def test_one_container_token_serves_many_blobs() -> None:
    cache, signer = SasCache(), counting()
    token = signed_token({**blob_fields, "sr": "c"}, container)
    for number in range(5):
        run(cache, token, ResourceName("b", "c", f"b{number}"), keys=(signer,))
    assert signer.count == 1
    with pytest.raises(Refused, match="AuthenticationFailed"):
        run(cache, token, ResourceName("b", "other", "b1"), keys=(signer,))


def test_one_account_token_serves_everything() -> None:
    cache, signer = SasCache(), counting()
    token = signed_token(account_fields, blob)
    for name in (blob, container, queue, ResourceName("t")):
        run(cache, token, name, keys=(signer,))
    assert signer.count == 1


def test_time_passes_for_tokens_that_were_proved() -> None:
    cache = SasCache()
    token = signed_token(blob_fields, blob)
    run(cache, token, keys=(key,))
    for moment in ("2026-03-01T10:59:59Z", "2026-03-01T13:00:00Z"):
        with pytest.raises(Refused) as caught:
            run(cache, token, keys=(key,), moment=at(moment))
        assert "time frame" in caught.value.details["AuthenticationErrorDetail"]
    run(cache, token, keys=(key,))


def test_the_client_is_looked_at_each_time() -> None:
    cache = SasCache()
    token = signed_token({**blob_fields, "sip": "127.0.0.1", "spr": "https"}, blob)
    run(cache, token, keys=(key,))
    with pytest.raises(Refused, match="AuthorizationSourceIPMismatch"):
        run(cache, token, keys=(key,), client_ip="127.0.0.2")
    with pytest.raises(Refused, match="AuthorizationProtocolMismatch"):
        run(cache, token, keys=(key,), secure=False)
    run(cache, token, keys=(key,))


def test_a_rotated_key_is_gone_at_once() -> None:
    cache = SasCache()
    token = signed_token(blob_fields, blob)
    assert run(cache, token, keys=(key, other_key)).key_index == 0
    assert run(cache, token, keys=(other_key, key)).key_index == 1
    with pytest.raises(Refused, match="AuthenticationFailed"):
        run(cache, token, keys=(other_key,))
    with pytest.raises(Refused, match="AuthenticationFailed"):
        run(cache, token, keys=())
    # The same secret, given anew: proved anew.
    again = counting()
    run(cache, token, keys=(again,))
    assert again.count == 1


def test_a_changed_policy_counts_at_once() -> None:
    cache, signer = SasCache(), counting()
    token = signed_token({"sv": "2021-12-02", "sr": "b", "si": "p"}, blob)

    def policy(permission: str, expiry: str) -> Any:
        return SimpleNamespace(id="p", start=None, expiry=at(expiry), permission=permission)

    good = policy("r", "2026-03-02")
    assert run(cache, token, keys=(signer,), policy=good).permissions == "r"
    wider = policy("rw", "2026-03-02")
    assert run(cache, token, keys=(signer,), policy=wider).permissions == "rw"
    with pytest.raises(Refused):
        run(cache, token, keys=(signer,), policy=policy("rw", "2026-03-01"))
    with pytest.raises(Refused):
        run(cache, token, keys=(signer,))
    assert signer.count == 1


def test_the_old_limit_of_an_hour_moves_with_the_clock() -> None:
    cache = SasCache()
    token = signed_token({"sr": "b", "sp": "r", "se": "2026-03-01T13:00:00Z"}, blob)
    run(cache, token, keys=(key,))
    with pytest.raises(Refused, match="AuthenticationFailed"):
        run(cache, token, keys=(key,), moment=Timestamp(now - 1))


@pytest.mark.parametrize("sr", ["bs", "bv"])
def test_a_snapshots_token_is_for_that_snapshot(sr: str) -> None:
    cache = SasCache()
    given = {"bs": "snapshot", "bv": "version_id"}[sr]
    name = msgspec.structs.replace(blob, **{given: "2026"})
    token = signed_token({**blob_fields, "sr": sr}, name)
    run(cache, token, name, keys=(key,))
    for other in (
        blob,
        msgspec.structs.replace(name, **{given: "2025"}),
        # A line break in a name must not pass for the line after it.
        msgspec.structs.replace(blob, path=f"{blob.path}\n2026"),
    ):
        with pytest.raises(Refused, match="AuthenticationFailed"):
            run(cache, token, other, keys=(key,))


def test_another_account_with_the_same_query_is_another_matter() -> None:
    cache = SasCache()
    token = signed_token(account_fields, blob)
    run(cache, token, keys=(key,))
    request = msgspec.structs.replace(carrying(token, blob), account="other")
    with pytest.raises(Refused, match="AuthenticationFailed"):
        run(cache, token, keys=(key,), request=request)


def test_signed_headers_are_looked_at_each_time() -> None:
    cache = SasCache()
    fields = {
        **blob_fields,
        "sv": "2026-04-06",
        "skoid": "o",
        "sktid": "t",
        "skt": "2026-02-28T12:00:00Z",
        "ske": "2026-03-02T12:00:00Z",
        "sks": "b",
        "skv": "2026-04-06",
        "srh": "x-ms-a",
    }
    from etagere.auth.delegation import delegation_key
    from etagere.auth.sas import string_to_sign

    signer = delegation_key(
        key,
        oid="o",
        tid="t",
        start=fields["skt"],
        expiry=fields["ske"],
        service="b",
        version="2026-04-06",
    )
    sas = parse({**fields, "sig": "x"}.items())
    with_header = carrying("", blob, headers={"x-ms-a": "1"})
    signature = signer.signature(string_to_sign(sas, with_header, blob))
    token = encoded({**fields, "sig": signature})
    run(cache, token, keys=(key,), headers={"x-ms-a": "1"})
    for headers in ({}, {"x-ms-a": "2"}):
        with pytest.raises(Refused, match="AuthenticationFailed"):
            run(cache, token, keys=(key,), headers=headers)


def test_what_was_not_proved_is_not_kept() -> None:
    cache = SasCache()
    for number in range(10):
        request = carrying(f"sig={number}&sr=b&sp=r&se=2030-01-01&sv=2021-12-02", blob)
        with pytest.raises(Refused):
            cache.verify(cache.parse(request), request, blob, (key,), now)
    assert len(cache) == 0


def test_the_cache_is_bounded() -> None:
    cache = SasCache(entries_max=3)
    for number in range(20):
        token = signed_token({**blob_fields, "rsct": str(number)}, blob)
        run(cache, token, keys=(key,))
        run(cache, f"comp=metadata&{token}", keys=(key,))
        assert len(cache) <= 6
    long = signed_token({**blob_fields, "rscd": "x" * token_chars_max}, blob)
    cache = SasCache()
    signer = counting()
    for _ in range(2):
        run(cache, long, keys=(signer,))
    assert (len(cache), signer.count) == (0, 2)


def test_lru_forgets_what_was_used_longest_ago() -> None:
    kept: Lru[int, str] = Lru(2)
    kept.put(1, "a")
    kept.put(2, "b")
    assert kept.get(1) == "a"
    kept.put(3, "c")
    assert (kept.get(1), kept.get(2), kept.get(3)) == ("a", None, "c")
    kept.put(1, "d")
    kept.put(4, "e")
    assert (kept.get(1), kept.get(3), len(kept)) == ("d", None, 2)


class CachedAndNot(RuleBasedStateMachine):
    """Whatever is asked, in whatever order, the cache answers as the plain check does."""

    tokens: tuple[tuple[Fields, ResourceName], ...] = (
        (account_fields, blob),
        (blob_fields, blob),
        ({**blob_fields, "sr": "c"}, container),
        ({**blob_fields, "sr": "d", "sdd": "1"}, blob),
        ({"sv": "2021-12-02", "sr": "c", "si": "p"}, container),
        ({**blob_fields, "sip": "127.0.0.1", "spr": "https"}, blob),
        ({"sr": "b", "sp": "r", "se": "2026-03-01T12:30:00Z"}, blob),
    )

    @initialize()
    def begin(self) -> None:
        self.cache = SasCache(entries_max=2)
        self.keys: tuple[SigningKey, ...] = (key,)
        self.moment = now
        self.policy: Any = None

    @rule(keys=st.sampled_from([(key,), (other_key, key), (key, other_key), (other_key,), ()]))
    def rotate(self, keys: tuple[SigningKey, ...]) -> None:
        self.keys = keys

    @rule(minutes=st.sampled_from([-61, -10, 0, 10, 61]))
    def move_time(self, minutes: int) -> None:
        self.moment = Timestamp(now + minutes * 60 * 10_000_000)

    @rule(permission=st.sampled_from(["r", "rw", None]), minutes=st.sampled_from([-5, 70]))
    def change_policy(self, permission: str | None, minutes: int) -> None:
        expiry = Timestamp(now + minutes * 60 * 10_000_000)
        self.policy = SimpleNamespace(id="p", start=None, expiry=expiry, permission=permission)

    @rule(
        token=st.sampled_from(tokens),
        name=st.sampled_from(
            [blob, container, queue, ResourceName("b", "c", "dir/x"), ResourceName("b", "d", "b")]
        ),
        client_ip=st.sampled_from(["127.0.0.1", "127.0.0.2"]),
        secure=st.booleans(),
        extra=st.sampled_from(["", "comp=block&", "comp=tags&"]),
        forged=st.booleans(),
    )
    def ask(
        self,
        token: tuple[Fields, ResourceName],
        name: ResourceName,
        client_ip: str,
        secure: bool,
        extra: str,
        forged: bool,
    ) -> None:
        text = signed_token(*token)
        if forged:
            text = text.replace("2026-03-01T13", "2026-03-01T14")
        request = carrying(extra + text, name, client_ip=client_ip, secure=secure)
        assert request.account == account

        def answer(sas: Any, check: Any) -> object:
            try:
                return check(sas, request, name, self.keys, self.moment, self.policy)
            except Refused as refused:
                return refused.code, dict(refused.details)

        def recall(*_: object) -> object:
            return self.cache.recall(
                request.raw_query, account, name, self.keys, self.moment, request
            )

        plain = answer(parse(request.query), verify)
        assert answer(None, recall) in (None, plain)
        assert answer(self.cache.parse(request), self.cache.verify) == plain

    @invariant()
    def bounded(self) -> None:
        if hasattr(self, "cache"):
            assert len(self.cache) <= 4


TestCachedAndNot = CachedAndNot.TestCase
TestCachedAndNot.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
