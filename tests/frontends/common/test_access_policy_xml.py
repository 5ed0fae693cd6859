"""Stored access policies as XML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp, timestamp_never
from etagere.base.errors import Refused
from etagere.frontends.common import access_policy_xml, xml
from etagere.frontends.common.access_policy_xml import (
    container_letters,
    decode,
    queue_letters,
    table_letters,
)
from etagere.services.common.access_policy import StoredPolicy

moments = st.one_of(st.none(), st.integers(0, timestamp_never).map(Timestamp))
policies = st.lists(
    st.builds(
        StoredPolicy,
        id=st.text(min_size=1, max_size=64).filter(
            lambda text: xml.is_representable(text) and text.strip() == text
        ),
        start=moments,
        expiry=moments,
        permission=st.one_of(st.none(), st.sampled_from(["r", "racwdl"])),
    ),
    max_size=5,
    unique_by=lambda policy: policy.id,
)


@given(policies)
def test_what_is_written_is_read_again(wanted: list[StoredPolicy]) -> None:
    assert decode(access_policy_xml.encode(wanted), container_letters) == tuple(wanted)


def _document(*ids: str, inner: str = "") -> bytes:
    items = "".join(
        f"<SignedIdentifier><Id>{name}</Id><AccessPolicy>{inner}</AccessPolicy></SignedIdentifier>"
        for name in ids
    )
    return f"<SignedIdentifiers>{items}</SignedIdentifiers>".encode()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (_document(*"abcdef"), "InvalidXmlDocument"),
        (_document("a", "a"), "InvalidXmlDocument"),
        (_document(""), "InvalidXmlNodeValue"),
        (_document("x" * 65), "InvalidXmlNodeValue"),
        (_document("a", inner="<Start>soon</Start>"), "InvalidXmlNodeValue"),
        (b"<Other />", "InvalidXmlDocument"),
        (b"<SignedIdentifiers><Odd /></SignedIdentifiers>", "InvalidXmlDocument"),
    ],
)
def test_what_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(Refused, match=code):
        decode(data, container_letters)


def test_an_empty_body_clears() -> None:
    assert decode(b"  ", container_letters) == ()


@pytest.mark.parametrize("letters", [container_letters, queue_letters, table_letters])
def test_each_service_permits_its_own_letters_in_any_order(letters: str) -> None:
    for text in (*letters, letters, letters[::-1]):
        (policy,) = decode(_document("a", inner=f"<Permission>{text}</Permission>"), letters)
        assert policy.permission == text
    for text in ("", " "):
        (policy,) = decode(_document("a", inner=f"<Permission>{text}</Permission>"), letters)
        assert policy.permission is None


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("zzz", container_letters),
        ("R", container_letters),
        ("r,w", container_letters),
        ("u", container_letters),
        ("w", queue_letters),
        ("d", queue_letters),
        ("l", table_letters),
        ("p", table_letters),
    ],
)
def test_letters_that_a_service_does_not_know_are_refused(text: str, letters: str) -> None:
    with pytest.raises(Refused, match="InvalidXmlDocument"):
        decode(_document("a", inner=f"<Permission>r{text}</Permission>"), letters)
