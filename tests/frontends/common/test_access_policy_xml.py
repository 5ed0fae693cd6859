"""Stored access policies as XML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.clock import Timestamp, timestamp_never
from etagere.base.errors import Refused
from etagere.frontends.common import access_policy_xml, xml
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
    assert access_policy_xml.decode(access_policy_xml.encode(wanted)) == tuple(wanted)


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
        access_policy_xml.decode(data)


def test_an_empty_body_clears() -> None:
    assert access_policy_xml.decode(b"  ") == ()
