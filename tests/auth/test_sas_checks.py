"""What is checked of a token, in which order, and what no token may do."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from auth_samples import at, key, now, other_key
from sas_samples import (
    Fields,
    account_fields,
    blob,
    blob_fields,
    carrying,
    container,
    encoded,
    file,
    queue,
    signed_token,
    table,
    table_fields,
    verified,
)

from etagere.auth.delegation import issue
from etagere.auth.identity import SasIdentity
from etagere.auth.key_range import KeyRange, whole_table
from etagere.auth.need import Need, authorize
from etagere.auth.request import ResourceName
from etagere.auth.sas import parse, verify
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp
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


delegation_fields: Fields = {
    "sv": "2021-12-02",
    "sr": "b",
    "sp": "rw",
    "se": "2026-03-01T13:00:00Z",
    "skoid": "oid",
    "sktid": "tid",
    "skt": "2026-02-28T12:00:00Z",
    "ske": "2026-03-02T12:00:00Z",
    "sks": "b",
    "skv": "2021-12-02",
}


def delegated_token(fields: Fields, name: ResourceName, by: SigningKey = key) -> str:
    issued = issue(
        by,
        oid=fields["skoid"],
        tid=fields["sktid"],
        start=at(fields["skt"]),
        expiry=at(fields["ske"]),
        service=fields["sks"],
        version=fields["skv"],
        now=at(fields["skt"]),
    )
    return signed_token(fields, name, SigningKey.from_base64(issued.value))


# The window ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "good"),
    [
        ("2026-03-01T10:59:59.9999999Z", False),
        ("2026-03-01T11:00:00Z", True),
        ("2026-03-01T12:59:59.9999999Z", True),
        ("2026-03-01T13:00:00Z", False),
    ],
)
@pytest.mark.parametrize(
    ("fields", "name"), [(account_fields, queue), (blob_fields, blob)], ids=["account", "blob"]
)
def test_the_start_is_inside_and_the_expiry_outside(
    moment: str, good: bool, fields: Fields, name: ResourceName
) -> None:
    token = signed_token(fields, name)
    if good:
        verified(token, name, moment=at(moment))
    else:
        assert denied(token, name, moment=at(moment)).startswith(
            "Signature not valid in the specified time frame: "
            "Start [Sun, 01 Mar 2026 11:00:00 GMT] - Expiry [Sun, 01 Mar 2026 13:00:00 GMT] - "
        )


def test_an_expiry_before_the_start_says_so() -> None:
    token = signed_token({**blob_fields, "se": "2026-03-01T10:00:00Z"}, blob)
    assert denied(token, blob) == (
        "Signed expiry time [Sun, 01 Mar 2026 10:00:00 GMT] must be after signed start time "
        "[Sun, 01 Mar 2026 11:00:00 GMT]"
    )


@pytest.mark.parametrize(
    "se",
    [
        "2026-03-02",
        "2026-03-01T12:01Z",
        "2026-03-01T12:00:01Z",
        "2026-03-01T12:00:00.0000001Z",
        "2026-03-01T14:00:01+02:00",
        "2026-03-01T12:00:01",
    ],
)
def test_dates_of_every_form(se: str) -> None:
    verified(signed_token({**blob_fields, "se": se}, blob), blob)
    assert "time frame" in denied(
        signed_token({**blob_fields, "se": se.replace("2026", "2025"), "st": "2024-01-01"}, blob),
        blob,
    )


@pytest.mark.parametrize("name", ["st", "se"])
@pytest.mark.parametrize("text", ["tomorrow", "2026-13-01", "12:00", "2026-03-01T25:00Z", "9" * 99])
def test_dates_that_are_none(name: str, text: str) -> None:
    refused = refusal(lambda: parse({**blob_fields, name: text, "sig": "x"}.items()))
    assert refused.code == "AuthenticationFailed"
    assert f"{name} is not a date" in refused.details[said]


def test_a_token_without_version_or_policy_is_good_for_one_hour() -> None:
    old = {n: v for n, v in blob_fields.items() if n != "sv"}
    hour = {**old, "st": "2026-03-01T11:30:00Z", "se": "2026-03-01T12:30:00Z"}
    verified(signed_token(hour, blob), blob)
    longer = {**hour, "se": "2026-03-01T12:30:01Z"}
    assert "one hour" in denied(signed_token(longer, blob), blob)
    unstarted = {"sr": "b", "sp": "r", "se": "2026-03-01T13:00:00Z"}
    verified(signed_token(unstarted, blob), blob)
    unstarted["se"] = "2026-03-01T13:00:01Z"
    assert "one hour" in denied(signed_token(unstarted, blob), blob)
    policy = SimpleNamespace(id="p", start=None, expiry=None, permission=None)
    verified(signed_token({**longer, "si": "p"}, blob), blob, policy=policy)


# Stored access policies ----------------------------------------------------------------------


def policy_of(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(
        **{"id": "p", "start": None, "expiry": None, "permission": None} | fields
    )


start, expiry = at("2026-03-01T11:00:00Z"), at("2026-03-01T13:00:00Z")
in_uri: dict[str, Fields] = {
    "st": {"st": "2026-03-01T11:00:00Z"},
    "se": {"se": "2026-03-01T13:00:00Z"},
    "sp": {"sp": "rl"},
}
in_policy: dict[str, dict[str, object]] = {
    "st": {"start": start},
    "se": {"expiry": expiry},
    "sp": {"permission": "rl"},
}


@pytest.mark.parametrize(
    "where", list(itertools.product(["uri", "policy", "both", "none"], repeat=3))
)
def test_each_field_comes_from_the_uri_or_the_policy(where: tuple[str, str, str]) -> None:
    fields: Fields = {"sv": "2021-12-02", "sr": "c", "si": "p"}
    stored: dict[str, object] = {}
    for name, place in zip(("st", "se", "sp"), where, strict=True):
        if place in ("uri", "both"):
            fields |= in_uri[name]
        if place in ("policy", "both"):
            stored |= in_policy[name]
    token = signed_token(fields, container)
    if "both" in where or "none" in where[1:]:
        first = next(
            name
            for name, place in [
                *((n, p) for n, p in zip(("st", "se", "sp"), where, strict=True) if p == "both"),
                *((n, p) for n, p in zip(("se", "sp"), where[1:], strict=True) if p == "none"),
            ]
        )
        assert first in denied(token, container, policy=policy_of(**stored))
        return
    identity = verified(token, container, policy=policy_of(**stored))
    assert identity.permissions == "rl"
    assert identity.expires == expiry
    assert identity.starts == (None if where[0] == "none" else start)


def test_a_policy_decides_while_the_token_stays_the_same() -> None:
    token = signed_token({"sv": "2021-12-02", "sr": "c", "si": "p"}, container)
    assert "no stored access policy 'p'" in denied(token, container)
    good = policy_of(expiry=expiry, permission="r")
    assert verified(token, container, policy=good).permissions == "r"
    wider = policy_of(expiry=expiry, permission="rw")
    assert verified(token, container, policy=wider).permissions == "rw"
    ended = policy_of(expiry=Timestamp(now), permission="r")
    assert "must be after signed start time" in denied(token, container, policy=ended)
    not_begun = policy_of(start=Timestamp(now + 1), expiry=expiry, permission="r")
    assert "time frame" in denied(token, container, policy=not_begun)


@pytest.mark.parametrize("missing", ["sp", "se"])
def test_without_a_policy_nothing_may_be_left_out(missing: str) -> None:
    fields = {n: v for n, v in blob_fields.items() if n != missing}
    refused = refusal(lambda: parse({**fields, "sig": "x"}.items()))
    assert refused.details[said] == f"{missing} is mandatory. Cannot be empty"


@pytest.mark.parametrize("missing", ["ss", "srt", "sp", "se", "sv"])
def test_an_account_token_needs_all_its_fields(missing: str) -> None:
    fields = {n: v for n, v in account_fields.items() if n != missing}
    assert refusal(lambda: parse({**fields, "sig": "x"}.items())).code == "AuthenticationFailed"


@pytest.mark.parametrize("missing", ["sp", "se", "sktid", "skt", "ske", "sks", "skv", "sv"])
def test_a_delegated_token_needs_all_its_fields(missing: str) -> None:
    fields = {n: v for n, v in delegation_fields.items() if n != missing}
    assert refusal(lambda: parse({**fields, "sig": "x"}.items())).code == "AuthenticationFailed"


def test_a_delegated_token_has_no_policy() -> None:
    fields = {**delegation_fields, "si": "p", "sig": "x"}
    assert refusal(lambda: parse(fields.items())).code == "AuthorizationFailure"


# User delegation -----------------------------------------------------------------------------


def test_the_windows_of_token_and_key_both_count() -> None:
    token = delegated_token(delegation_fields, blob)
    identity = verified(token, blob)
    assert (identity.starts, identity.expires) == (at("2026-02-28T12:00:00Z"), expiry)
    longer = {**delegation_fields, "se": "2026-03-09", "st": "2026-01-01"}
    token = delegated_token(longer, blob)
    identity = verified(token, blob)
    assert (identity.starts, identity.expires) == (
        at("2026-02-28T12:00:00Z"),
        at("2026-03-02T12:00:00Z"),
    )
    for moment in ("2026-02-28T11:59:59Z", "2026-03-02T12:00:00Z"):
        assert "time frame" in denied(token, blob, moment=at(moment))


def test_rotating_the_account_key_revokes_delegated_tokens() -> None:
    token = delegated_token(delegation_fields, blob)
    assert verified(token, blob, keys=(other_key, key)).key_index == 1
    assert "did not match" in denied(token, blob, keys=(other_key,))


@pytest.mark.parametrize("name", ["skoid", "sktid", "skt", "ske", "sks", "skv"])
def test_every_field_of_the_key_counts(name: str) -> None:
    """The signature covers them, and so does the key: here the one who signs has the key."""
    issued = SigningKey.from_base64(
        issue(
            key,
            oid="oid",
            tid="tid",
            start=at("2026-02-28T12:00:00Z"),
            expiry=at("2026-03-02T12:00:00Z"),
            service="b",
            version="2021-12-02",
            now=now,
        ).value
    )
    verified(signed_token(delegation_fields, blob, issued), blob)
    changed = {"skt": "2026-02-27T12:00:00Z", "ske": "2026-03-03T12:00:00Z"}.get(name, "x")
    forged = {**delegation_fields, name: changed}
    assert "did not match" in denied(signed_token(forged, blob, issued), blob)


def test_delegation_came_to_each_service_with_a_version() -> None:
    for name, sr, first, before in (
        (blob, "b", "2018-11-09", "2018-03-28"),
        (queue, "", "2025-07-05", "2025-05-05"),
        (file, "f", "2025-07-05", "2025-05-05"),
        (table, "", "2025-07-05", "2025-05-05"),
    ):
        fields = {**delegation_fields, "sr": sr, "sks": name.service}
        token = delegated_token({**fields, "sv": first}, name)
        assert verified(token, name).permissions == "rw"
        # There is no string for it, so even the empty one's signature is not good.
        signer = SigningKey.from_base64(
            issue(
                key,
                oid="oid",
                tid="tid",
                start=at(fields["skt"]),
                expiry=at(fields["ske"]),
                service=name.service,
                version="2021-12-02",
                now=now,
            ).value
        )
        token = encoded({**fields, "sv": before, "sig": signer.signature("")})
        assert "did not match" in denied(token, name)


# Address and protocol ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sip", "client_ip", "good"),
    [
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "10.0.0.6", False),
        ("10.0.0.5-10.0.0.7", "10.0.0.4", False),
        ("10.0.0.5-10.0.0.7", "10.0.0.5", True),
        ("10.0.0.5-10.0.0.7", "10.0.0.7", True),
        ("10.0.0.5-10.0.0.7", "10.0.0.8", False),
        ("9.255.255.255-10.0.0.0", "10.0.0.0", True),
        ("10.0.0.7-10.0.0.5", "10.0.0.6", False),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "::1", False),
        ("127.0.0.1", "unix", False),
        ("127.0.0.1", "", False),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.5-", "10.0.0.5", False),
        ("-", "10.0.0.5", False),
        ("0.0.0.0-255.255.255.255", "1.2.3.4", True),
    ],
)
@pytest.mark.parametrize("fields", [account_fields, blob_fields], ids=["account", "blob"])
def test_addresses(sip: str, client_ip: str, good: bool, fields: Fields) -> None:
    token = signed_token({**fields, "sip": sip}, blob)
    if good:
        verified(token, blob, client_ip=client_ip)
    else:
        refused = refusal(lambda: verified(token, blob, client_ip=client_ip))
        assert refused.code == "AuthorizationSourceIPMismatch"


@pytest.mark.parametrize(
    ("spr", "secure", "good"),
    [
        ("https", True, True),
        ("https", False, False),
        ("https,http", True, True),
        ("https,http", False, True),
        ("http,https", False, True),
        ("", False, True),
        ("http", True, False),
        ("http", False, False),
        ("HTTPS", True, False),
        ("ftp", True, False),
    ],
)
def test_protocols(spr: str, secure: bool, good: bool) -> None:
    token = signed_token({**blob_fields, "spr": spr}, blob)
    if good:
        verified(token, blob, secure=secure)
    else:
        refused = refusal(lambda: verified(token, blob, secure=secure))
        assert refused.code == "AuthorizationProtocolMismatch"


# Order ---------------------------------------------------------------------------------------

order = ["signature", "window", "policy", "sip", "spr", "ss", "srt", "sp"]
codes = {
    "signature": ("AuthenticationFailed", "did not match"),
    "window": ("AuthenticationFailed", "time frame"),
    "policy": ("AuthenticationFailed", "no stored access policy"),
    "sip": ("AuthorizationSourceIPMismatch", "sip"),
    "spr": ("AuthorizationProtocolMismatch", "spr"),
    "ss": ("AuthorizationServiceMismatch", "ss="),
    "srt": ("AuthorizationResourceTypeMismatch", "srt="),
    "sp": ("AuthorizationPermissionMismatch", "sp="),
}


def ask(failures: set[str]) -> SasIdentity:
    """A token with these failures and no others; one with a policy is a service's."""
    fields = {**blob_fields, "si": "gone"} if "policy" in failures else dict(account_fields)
    if "window" in failures:
        fields |= {"st": "2026-02-01", "se": "2026-02-02"}
    fields |= {"sip": "10.0.0.1" if "sip" in failures else "127.0.0.1"}
    fields |= {"spr": "https" if "spr" in failures else "https,http"}
    if "ss" in failures:
        fields |= {"ss": "qtf"}
    if "srt" in failures:
        fields |= {"srt": "sc"}
    if "sp" in failures:
        fields |= {"sp": "wdl"}
    token = signed_token(fields, blob, other_key if "signature" in failures else key)
    identity = verified(token, blob, secure=False)
    need = Need(resource_types="o", any_of="r", service_any_of="r")
    authorize(identity, need, blob)
    return identity


def test_a_token_without_failures_passes() -> None:
    ask(set())


@pytest.mark.parametrize(
    "failures",
    [
        pair
        for pair in [*((one,) for one in order), *itertools.combinations(order, 2)]
        # A policy belongs to a service's token, services and types of resources to an account's.
        if not ("policy" in pair and {"ss", "srt"} & set(pair))
    ],
)
def test_the_first_of_two_failures_is_reported(failures: tuple[str, ...]) -> None:
    refused = refusal(lambda: ask(set(failures)))
    code, detail = codes[failures[0]]
    assert refused.code == code
    assert detail in refused.details[said]


# A `+` in the query --------------------------------------------------------------------------


def test_plus_signs_are_read_both_ways() -> None:
    fields = {**blob_fields, "rscd": "attachment; filename=a b"}
    token = signed_token(fields, blob)
    by_form = token.replace("%20", "+")
    assert by_form != token
    assert verified(by_form, blob).overrides.content_disposition == "attachment; filename=a b"
    fields["rscd"] = "filename=a+b"
    token = signed_token(fields, blob)
    bare = token.replace("%2B", "+")
    for sent in (token, bare):
        assert verified(sent, blob).overrides.content_disposition == "filename=a+b"


def test_a_signature_may_arrive_with_bare_plus_signs() -> None:
    for number in range(64):
        fields = {**blob_fields, "rsct": str(number)}
        token = signed_token(fields, blob)
        if "%2B" not in token:
            continue
        verified(token.replace("%2B", "+"), blob)
        # A frontend may have decoded it as a form does.
        spaced = [(n, v.replace("+", " ")) for n, v in carrying(token, blob).query]
        verify(parse(spaced), carrying(token, blob), blob, (key,), now)
        return
    pytest.fail("no signature had a plus sign in 64 attempts")


# Ranges of a table ---------------------------------------------------------------------------


def test_a_tables_token_tells_its_range() -> None:
    fields = {**table_fields, "spk": "b", "srk": "5", "epk": "d", "erk": "7"}
    assert verified(signed_token(fields, table), table).key_range == KeyRange("b", "5", "d", "7")
    assert verified(signed_token(table_fields, table), table).key_range is whole_table


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ((None, None, None, None), [("", ""), ("z", "z")], []),
        (("b", None, None, None), [("b", ""), ("z", "")], [("a", "z"), ("", "")]),
        ((None, None, "b", None), [("", ""), ("b", "z")], [("b0", ""), ("c", "")]),
        (("b", "5", None, None), [("b", "5"), ("b", "6"), ("c", "1")], [("b", "4"), ("a", "9")]),
        ((None, None, "b", "5"), [("b", "5"), ("b", "4"), ("a", "9")], [("b", "6"), ("c", "1")]),
        (
            ("b", "5", "d", "7"),
            [("b", "5"), ("c", ""), ("c", "z"), ("d", ""), ("d", "7")],
            [("b", "4"), ("d", "8"), ("a", "6"), ("e", "6")],
        ),
        (("b", "5", "b", "7"), [("b", "5"), ("b", "6"), ("b", "7")], [("b", "4"), ("b", "8")]),
        ((None, "5", None, "7"), [("a", "1"), ("a", "9")], []),
    ],
)
def test_ranges_cover(
    bounds: tuple[str | None, ...],
    inside: list[tuple[str, str]],
    outside: list[tuple[str, str]],
) -> None:
    covered = KeyRange(*bounds)
    assert all(covered.covers(*row) for row in inside)
    assert not any(covered.covers(*row) for row in outside)


def test_a_start_to_come_is_told_without_an_expiry() -> None:
    fields = {"sv": "2021-12-02", "sr": "c", "si": "p", "st": "2026-03-01T12:00:01Z"}
    detail = denied(signed_token(fields, container), container, policy=policy_of())
    assert "Start [Sun, 01 Mar 2026 12:00:01 GMT] - Current" in detail


def test_logs_do_not_show_signatures() -> None:
    """Identities and tokens are printed by people who look for something else."""
    token = signed_token(blob_fields, blob)
    signature = dict(carrying(token, blob).query)["sig"]
    identity = verified(token, blob)
    for shown in (repr(identity), repr(identity.sas), str(identity)):
        assert signature not in shown
    assert "rw" in repr(identity)
    assert "2021-12-02" in repr(identity.sas)
