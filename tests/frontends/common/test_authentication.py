"""Where credentials meet the account, the stored policies and the clock."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from azure.storage.blob import UserDelegationKey, generate_blob_sas, generate_container_sas

from etagere.auth.authorization import Scheme
from etagere.auth.claims import Claims
from etagere.auth.delegation import issue
from etagere.auth.identity import (
    BearerIdentity,
    Identity,
    SasIdentity,
    SharedKeyIdentity,
    anonymous,
)
from etagere.auth.request import SignedRequest
from etagere.auth.sas_token import SasKind
from etagere.auth.shared_key import string_to_sign
from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused
from etagere.frontends.common.authentication import (
    Authenticator,
    resource_name,
    signed_request,
)
from etagere.frontends.common.call import Call, Target
from etagere.frontends.common.message import Request
from etagere.frontends.common.operations import Resource
from etagere.kernel.dates import format_http_date, parse_iso
from etagere.services.common.access_policy import StoredPolicy
from etagere.services.common.accounts import Account, parse_keys

secret = base64.b64encode(bytes(range(64))).decode()
moment = parse_iso("2026-03-01T12:00:00Z")
assert moment is not None
now: Timestamp = moment
end = datetime(2026, 3, 1, 13, tzinfo=UTC)


class Clock:
    def now(self) -> Timestamp:
        return now


class Blobs:
    """The part of a service that is asked for policies."""

    letter = "b"

    def __init__(self, *policies: StoredPolicy) -> None:
        self.policies = policies
        self.asked = 0

    async def stored_policies(self, call: Call) -> Sequence[StoredPolicy]:
        assert call.target.container == "c"
        self.asked += 1
        return self.policies


async def bearer(token: str, request: SignedRequest, at: Timestamp) -> Claims:
    assert at == now
    assert request.account == "acct"
    if token != "good":
        raise Refused("AuthenticationFailed")
    return Claims(oid="user-1", tid="tenant-1")


def call(query: str = "", **more: Any) -> Call:
    options = {name: more.pop(name) for name in ("allow_shared_key",) if name in more}
    headers = {name.replace("_", "-"): text for name, text in more.items()}
    request = Request(
        method="GET",
        raw_path="/acct/c/b",
        raw_query=query,
        headers={"host": "127.0.0.1:10000", **headers},
        body=SimpleNamespace(),  # type: ignore[arg-type]
        secure=True,
    )
    made = Call(
        request,
        "id",
        Account(name="acct", keys=parse_keys("acct", [secret]), **options),
        Target(Resource.ITEM, "c", "b"),
        secondary=False,
        endpoint="https://127.0.0.1:10000/acct/",
    )
    made.version = "2026-02-06"
    return made


def authenticator() -> Authenticator:
    return Authenticator(Clock(), bearer)


def signed(made: Call) -> Call:
    text = string_to_sign(signed_request(made, "b"), Scheme.SHARED_KEY)
    signature = made.account.keys[0].signature(text)
    made.request.headers["authorization"] = f"SharedKey acct:{signature}"
    return made


def delegation_key(tid: str = "") -> UserDelegationKey:
    issued = issue(
        parse_keys("acct", [secret])[0],
        oid="oid",
        tid="tid",
        start=now,
        expiry=Timestamp(now + seconds(7200)),
        service="b",
        version="2026-02-06",
        now=now,
        delegated_tid=tid,
    )
    made = UserDelegationKey()  # type: ignore[no-untyped-call]
    made.signed_oid, made.signed_tid = issued.signed_oid, issued.signed_tid
    made.signed_start, made.signed_expiry = issued.signed_start, issued.signed_expiry
    made.signed_service, made.signed_version = issued.signed_service, issued.signed_version
    made.signed_delegated_user_tid = tid or None
    made.value = issued.value
    return made


service_token = generate_blob_sas("acct", "c", "b", account_key=secret, permission="r", expiry=end)
delegated_token = generate_blob_sas(
    "acct", "c", "b", user_delegation_key=delegation_key(), permission="r", expiry=end
)
user_token = generate_blob_sas(
    "acct",
    "c",
    "b",
    user_delegation_key=delegation_key(),
    permission="r",
    expiry=end,
    user_delegation_oid="user-1",
)
policy_token = generate_container_sas("acct", "c", account_key=secret, policy_id="p")


async def refusal(made: Call, service: Blobs | None = None) -> str:
    with pytest.raises(Refused) as caught:
        await authenticator().identify(made, service or Blobs())
    return caught.value.code


async def test_who_it_is() -> None:
    service = Blobs()
    check = authenticator()
    assert await check.identify(call(), service) is anonymous
    date = format_http_date(now)
    assert isinstance(
        await check.identify(signed(call(x_ms_date=date)), service), SharedKeyIdentity
    )
    assert isinstance(await check.identify(call(service_token), service), SasIdentity)
    identity = await check.identify(call(authorization="Bearer good"), service)
    assert isinstance(identity, BearerIdentity)
    assert service.asked == 0


async def test_the_header_counts_where_there_is_a_token_too() -> None:
    identity = await authenticator().identify(
        call(service_token, authorization="Bearer good"), Blobs()
    )
    assert isinstance(identity, BearerIdentity)
    assert await refusal(call(service_token, authorization="Bearer bad")) == "AuthenticationFailed"
    assert await refusal(call(service_token, authorization="x")) == "InvalidAuthenticationInfo"


async def test_a_token_for_one_user_needs_that_user() -> None:
    identity = await authenticator().identify(
        call(user_token, authorization="Bearer good"), Blobs()
    )
    assert isinstance(identity, SasIdentity)
    assert identity.permissions == "r"
    assert await refusal(call(user_token)) == "AuthenticationFailed"
    assert await refusal(call(user_token, authorization="Bearer bad")) == "AuthenticationFailed"
    other = user_token.replace("sduoid=user-1", "sduoid=user-2")
    assert await refusal(call(other, authorization="Bearer good")) == "AuthenticationFailed"


async def test_policies_are_asked_for_on_each_use() -> None:
    good = Blobs(StoredPolicy("p", None, Timestamp(now + 1), "rl"))
    check = authenticator()
    for used in (1, 2, 3):
        identity = await check.identify(call(policy_token), good)
        assert isinstance(identity, SasIdentity)
        assert identity.permissions == "rl"
        assert good.asked == used
    assert await refusal(call(policy_token), Blobs(StoredPolicy("q"))) == "AuthenticationFailed"


async def test_an_account_may_take_no_keys() -> None:
    refused = "KeyBasedAuthenticationNotPermitted"
    date = format_http_date(now)
    assert await refusal(signed(call(x_ms_date=date, allow_shared_key=False))) == refused
    assert await refusal(call(service_token, allow_shared_key=False)) == refused
    assert await refusal(call(policy_token, allow_shared_key=False)) == refused
    identity = await authenticator().identify(
        call(delegated_token, allow_shared_key=False), Blobs()
    )
    assert isinstance(identity, SasIdentity)
    assert identity.kind is SasKind.DELEGATION


async def test_what_is_recalled_is_what_would_be_found_out() -> None:
    check, first = authenticator(), call(service_token)
    name = resource_name(first, "b")

    def recall(query: str, account: Account = first.account, **headers: str) -> Identity | None:
        again = call(query, **headers)
        again.account = account
        return check.recall(again, name)

    assert recall(service_token) is None
    found = await check.identify(first, Blobs())
    assert recall(service_token) == found
    assert recall(service_token, authorization="Bearer good") is None
    assert recall(service_token, replace(first.account, allow_shared_key=False)) is None
    assert recall(service_token, call().account) is None  # other keys, though of the same secret
    hanging = call(policy_token)
    hanging.account = first.account
    await check.identify(hanging, Blobs(StoredPolicy("p", None, Timestamp(now + 1), "r")))
    assert recall(policy_token) is None


async def test_without_a_checker_there_are_no_bearer_tokens() -> None:
    with pytest.raises(Refused, match="AuthenticationFailed"):
        await Authenticator(Clock(), None).identify(call(authorization="Bearer good"), Blobs())
