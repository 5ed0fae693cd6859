import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.kernel.lease import LeaseAction, LeaseKind, LeaseRequest
from etagere.kernel.lease_request import parse_lease_id, parse_lease_request

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"

acquire, renew, change, release, break_ = LeaseAction

action, lease, proposed, duration, period = (
    "x-ms-lease-action",
    "x-ms-lease-id",
    "x-ms-proposed-lease-id",
    "x-ms-lease-duration",
    "x-ms-lease-break-period",
)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({action: "acquire", duration: "15"}, LeaseRequest(acquire, duration_seconds=15)),
        ({action: "Acquire", duration: "60"}, LeaseRequest(acquire, duration_seconds=60)),
        (
            {action: "acquire", duration: "-1", proposed: A},
            LeaseRequest(acquire, proposed_id=A, duration_seconds=-1),
        ),
        ({action: "renew", lease: A}, LeaseRequest(renew, A)),
        ({action: "change", lease: A, proposed: B}, LeaseRequest(change, A, B)),
        ({action: "release", lease: A}, LeaseRequest(release, A)),
        ({action: "break"}, LeaseRequest(break_)),
        ({action: "break", lease: "not looked at"}, LeaseRequest(break_)),
        ({action: "break", period: "0"}, LeaseRequest(break_, break_seconds=0)),
        ({action: "break", period: "60"}, LeaseRequest(break_, break_seconds=60)),
    ],
)
@pytest.mark.parametrize("kind", [LeaseKind.BLOB, LeaseKind.CONTAINER, LeaseKind.SHARE])
def test_requests(headers: dict[str, str], expected: LeaseRequest, kind: LeaseKind):
    assert parse_lease_request(headers, kind) == expected


@pytest.mark.parametrize(
    ("headers", "code", "name"),
    [
        ({}, "MissingRequiredHeader", action),
        ({action: "steal"}, "InvalidHeaderValue", action),
        ({action: "acquire"}, "MissingRequiredHeader", duration),
        ({action: "acquire", duration: ""}, "MissingRequiredHeader", duration),
        ({action: "acquire", duration: "14"}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "61"}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "0"}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "-2"}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "15.0"}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "\u0661\u0665"}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "9" * 5000}, "InvalidHeaderValue", duration),
        ({action: "acquire", duration: "15", proposed: "x"}, "InvalidHeaderValue", proposed),
        ({action: "renew"}, "MissingRequiredHeader", lease),
        ({action: "renew", lease: "x"}, "InvalidHeaderValue", lease),
        ({action: "release"}, "MissingRequiredHeader", lease),
        ({action: "change", lease: A}, "MissingRequiredHeader", proposed),
        ({action: "change", proposed: A}, "MissingRequiredHeader", lease),
        ({action: "change", lease: A, proposed: "x"}, "InvalidHeaderValue", proposed),
        ({action: "break", period: "61"}, "InvalidHeaderValue", period),
        ({action: "break", period: "-1"}, "InvalidHeaderValue", period),
    ],
)
def test_refusals(headers: dict[str, str], code: str, name: str):
    with pytest.raises(Refused) as refusal:
        parse_lease_request(headers, LeaseKind.BLOB)
    assert (refusal.value.code, refusal.value.details["HeaderName"]) == (code, name)


def test_file_leases_are_infinite_broken_at_once_and_not_renewed():
    kind = LeaseKind.FILE
    assert parse_lease_request({action: "acquire", duration: "-1"}, kind) == LeaseRequest(acquire)
    for headers in ({action: "acquire", duration: "15"}, {action: "renew", lease: A}):
        with pytest.raises(Refused, match="InvalidHeaderValue"):
            parse_lease_request(headers, kind)
    for headers in ({action: "break"}, {action: "break", period: "30"}):
        assert parse_lease_request(headers, kind) == LeaseRequest(break_, break_seconds=0)


@given(st.uuids(), st.sampled_from(["{}", "()", "", "N"]), st.booleans())
def test_guids_in_four_spellings(guid: uuid.UUID, form: str, upper: bool):
    text = guid.hex if form == "N" else f"{form[:1]}{guid}{form[1:]}"
    assert parse_lease_id(text.upper() if upper else text) == str(guid)


@pytest.mark.parametrize(
    "text",
    ["", "x", A[:-1], A + "a", f"{{{A}", f"({A}}}", A.replace("-", "", 1), f"{A}\n", "g" * 32],
)
def test_what_is_no_guid(text: str):
    with pytest.raises(Refused, match="InvalidHeaderValue"):
        parse_lease_id(text)


@given(
    st.dictionaries(
        st.sampled_from([action, lease, proposed, duration, period]),
        st.one_of(st.text(max_size=40), st.sampled_from([*LeaseAction, A, "15", "-1", "60"])),
    ),
    st.sampled_from(LeaseKind),
)
def test_any_headers_are_a_request_or_a_refusal(headers: dict[str, str], kind: LeaseKind):
    code = ""
    try:
        parse_lease_request(headers, kind)
    except Refused as refusal:
        code = refusal.code
    assert code in ("", "MissingRequiredHeader", "InvalidHeaderValue")
