"""Tokens that were changed after they were signed, and things that only look like tokens."""

from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import pytest
from auth_samples import account, key, now
from hypothesis import example, given
from hypothesis import strategies as st
from sas_samples import (
    Fields,
    account_fields,
    blob,
    blob_fields,
    carrying,
    container,
    encoded,
    file,
    file_fields,
    queue,
    queue_fields,
    signed_token,
    table,
    table_fields,
    verified,
)

from etagere.auth.identity import SasIdentity
from etagere.auth.key_range import whole_table
from etagere.auth.need import Need, authorize
from etagere.auth.request import ResourceName
from etagere.auth.sas import parse, verify
from etagere.auth.sas_token import no_overrides, sas_field_names
from etagere.base.errors import Refused

said = "AuthenticationErrorDetail"


def refusal(ask: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        ask()
    return caught.value


def denied(token: str, name: ResourceName, **more: object) -> str:
    """The detail of an AuthenticationFailed."""
    refused = refusal(lambda: verified(token, name, **more))  # type: ignore[arg-type]
    assert refused.code == "AuthenticationFailed"
    return refused.details[said]


def policy_of(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(
        **{"id": "p", "start": None, "expiry": None, "permission": None} | fields
    )


# What a signature is not good for ------------------------------------------------------------


def test_a_files_token_is_not_good_for_a_directory_of_that_name() -> None:
    """`sr` is not signed for files: what it says must not widen what was signed."""
    token = signed_token(file_fields, ResourceName("f", "s1", "dir"))
    verified(token, ResourceName("f", "s1", "dir"))
    for change in ("sr=d&sdd=1", "sr=c", "sr=b", "sr=bs", "sr=s"):
        forged = token.replace("sr=f", change)
        denied(forged, ResourceName("f", "s1", "dir/secret"))
        if change != "sr=b":
            denied(forged, ResourceName("f", "s1", "other"))


def test_an_old_blobs_token_is_not_good_for_its_container() -> None:
    token = signed_token({**blob_fields, "sv": "2015-04-05"}, blob)
    verified(token, blob)
    for change in ("sr=c", "sr=d&sdd=1", "sr=s", "sr=f", "sr=bs", "sr=bv", "sr=", "x=b"):
        denied_or_malformed = refusal(lambda c=change: verified(token.replace("sr=b", c), blob))
        assert denied_or_malformed.code in (
            "AuthenticationFailed",
            "DirectorySasNotSupportedVersion",
        )


def test_what_is_not_signed_is_not_believed() -> None:
    old = {n: v for n, v in blob_fields.items() if n != "st"}
    old |= {"sv": "2012-02-12", "se": "2026-03-01T13:00:00Z"}
    token = signed_token(old, blob) + "&rscc=no-store&rsct=text/html"
    assert verified(token, blob).overrides is no_overrides
    token = signed_token(account_fields, blob) + "&rsct=text/html&spk=a"
    identity = verified(token, blob)
    assert identity.overrides is no_overrides
    assert identity.key_range is whole_table


@pytest.mark.parametrize("name", sorted(sas_field_names))
def test_no_field_may_be_given_twice_or_hold_line_breaks(name: str) -> None:
    fields = {**blob_fields, "sig": "x", name: "1"}
    twice = refusal(lambda: parse([*fields.items(), (name, "1")]))
    assert "more than once" in twice.details[said]
    for text in ("a\nb", "\n", "a\r", "\x00", "\x7f"):
        broken = refusal(lambda t=text: parse({**fields, name: t}.items()))
        assert "control characters" in broken.details[said]


def test_encryption_scopes_need_a_version_that_signs_them() -> None:
    fields = {**blob_fields, "ses": "scope"}
    assert verified(signed_token(fields, blob), blob).encryption_scope == "scope"
    older = {**fields, "sv": "2020-10-02", "sig": "x"}
    assert refusal(lambda: parse(older.items())).code == "AuthenticationFailed"


def test_directories_need_a_version_that_has_them() -> None:
    fields = {**blob_fields, "sr": "d", "sdd": "1", "sv": "2019-12-12", "sig": "x"}
    assert refusal(lambda: parse(fields.items())).code == "DirectorySasNotSupportedVersion"


def test_account_tokens_need_a_version_that_has_them() -> None:
    fields = {**account_fields, "sv": "2015-02-21", "sig": "x"}
    assert refusal(lambda: parse(fields.items())).code == "AuthenticationFailed"


@pytest.mark.parametrize("sv", ["2021-12-02", "2015-04-05"])
def test_blobs_and_files_need_sr(sv: str) -> None:
    for name in (blob, file):
        fields = {n: v for n, v in blob_fields.items() if n != "sr"} | {"sv": sv}
        assert "sr is mandatory" in denied(signed_token(fields, name), name)
        fields["sr"] = "x"
        assert (
            "sr is not" in refusal(lambda f=fields: parse({**f, "sig": "x"}.items())).details[said]
        )


# Tampering -----------------------------------------------------------------------------------

kinds: list[tuple[Fields, ResourceName]] = [
    (account_fields, blob),
    (blob_fields, blob),
    ({**blob_fields, "sr": "c"}, container),
    (queue_fields, queue),
    (table_fields, table),
    (file_fields, file),
    ({**blob_fields, "sv": "2018-11-09"}, blob),
    ({**blob_fields, "sv": "2015-04-05"}, blob),
]
text = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x2FF, exclude_categories=["Cc"]), max_size=12
)
optional: dict[str, st.SearchStrategy[str]] = {
    "sip": st.sampled_from(["127.0.0.1", "1.2.3.4-200.1.1.1"]),
    "spr": st.sampled_from(["https", "https,http"]),
    "rscc": text,
    "rscd": text,
    "rsct": text,
    "spk": text,
    "erk": text,
    "si": text,
}
not_signed = {"tn", "sdd"}


@given(
    kind=st.sampled_from(kinds),
    more=st.fixed_dictionaries({}, optional=optional),
    data=st.data(),
)
def test_no_field_may_be_changed_dropped_or_added(
    kind: tuple[Fields, ResourceName], more: Fields, data: st.DataObject
) -> None:
    fields, name = {**kind[0], **more}, kind[1]
    token = signed_token(fields, name)
    policy = policy_of()
    genuine = verified(token, name, policy=policy)
    sent = dict(carrying(token, name).query)
    victim = data.draw(st.sampled_from(sorted(sas_field_names - not_signed)), label="victim")
    change = data.draw(st.one_of(st.none(), text), label="change")
    forged = {n: v for n, v in sent.items() if n != victim}
    if change is not None:
        forged[victim] = change
    try:
        identity = verified(encoded(forged), name, policy=policy)
    except Refused:
        return
    # It passed: then what the token grants is no other than before, but for being narrower.
    assert {n: v for n, v in forged.items() if v} == {n: v for n, v in sent.items() if v} or (
        _grants(identity, name) == _grants(genuine, name)
    )


def _grants(identity: SasIdentity, name: ResourceName) -> tuple[object, ...]:
    """Everything about an identity that somebody acts on."""
    return (
        identity.kind,
        identity.permissions,
        identity.starts,
        identity.expires,
        identity.services,
        identity.resource_types,
        identity.policy_id,
        authorize(identity, Need(service_any_of=""), name),
    )


@given(kind=st.sampled_from(kinds), position=st.integers(0, 43), bit=st.integers(0, 6))
def test_every_bit_of_the_signature_counts(
    kind: tuple[Fields, ResourceName], position: int, bit: int
) -> None:
    fields, name = kind
    sent = dict(carrying(signed_token(fields, name), name).query)
    genuine = sent["sig"]
    flipped = chr(ord(genuine[position]) ^ (1 << bit))
    sent["sig"] = genuine[:position] + flipped + genuine[position + 1 :]
    refused = refusal(lambda: verified(encoded(sent), name))
    assert refused.code == "AuthenticationFailed"


@given(st.sampled_from(kinds), st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_a_token_is_good_for_its_resource_only(
    kind: tuple[Fields, ResourceName], where: str, path: str, snapshot: str
) -> None:
    fields, name = kind
    token = signed_token(fields, name)
    other = msgspec.structs.replace(name, container=where, path=path, snapshot=snapshot)
    same = (
        where.lower() == name.container.lower()
        if name.service == "t"
        else (where == name.container and (path == name.path or fields.get("sr") in (None, "c")))
    )
    if same or "ss" in fields:
        verified(token, other)
    else:
        assert "did not match" in denied(token, other)


# Anything at all -----------------------------------------------------------------------------

pairs = st.lists(
    st.tuples(st.sampled_from(sorted(sas_field_names)), st.one_of(text, st.text(max_size=30))),
    max_size=30,
)


@given(
    query=pairs,
    service=st.sampled_from("bqtf"),
    where=st.text(max_size=5),
    path=st.text(max_size=5),
    client_ip=st.text(max_size=20),
)
@example(
    query=[("sig", "\udc80"), *blob_fields.items()], service="b", where="", path="", client_ip=""
)
@example(
    query=[("sig", "x"), ("sr", "b"), ("sp", "\udfff"), ("se", "2030-01-01")],
    service="b",
    where="\ud800",
    path="\ud800",
    client_ip="\ud800",
)
def test_any_query_is_refused_and_never_fails(
    query: list[tuple[str, str]], service: str, where: str, path: str, client_ip: str
) -> None:
    name = ResourceName(service, where, path)
    request = msgspec.structs.replace(
        carrying("", name, client_ip=client_ip), query=tuple(query), account=account
    )
    with pytest.raises(Refused):
        verify(parse(query), request, name, (key,), now)
