"""Every refusal can be spelled on the wire: its code has a row, its details can be carried."""

import re
from pathlib import Path

import pytest
from auth_samples import account, date_now, keys, now, request_for
from sas_samples import blob_fields, verified

import etagere.auth
from etagere.auth.authorization import Scheme
from etagere.auth.failure import showable
from etagere.auth.request import ResourceName
from etagere.auth.shared_key import verify
from etagere.base.errors import Refused
from etagere.frontends.common.errors import common
from etagere.frontends.common.xml import is_representable

sources = sorted(Path(etagere.auth.__path__[0]).glob("*.py"))
statuses = {
    "AuthenticationFailed": 403,
    "AuthorizationFailure": 403,
    "AuthorizationPermissionMismatch": 403,
    "AuthorizationProtocolMismatch": 403,
    "AuthorizationResourceTypeMismatch": 403,
    "AuthorizationServiceMismatch": 403,
    "AuthorizationSourceIPMismatch": 403,
    "DirectorySasNotSupportedVersion": 409,
    "InsufficientAccountPermissions": 403,
    "InvalidAuthenticationInfo": 400,
    "InvalidXmlNodeValue": 400,
    "NoAuthenticationInformation": 401,
    "QueryParameterSasMandatory": 403,
    "QueryParameterSddInvalid": 403,
    "ResourceNotFound": 404,
}


def test_every_code_has_a_row() -> None:
    raised = {
        code
        for source in sources
        for code in re.findall(r'(?:Refused|not_authorized)\(\s*"(\w+)"', source.read_text())
    }
    assert raised == set(statuses)
    assert {code: common[code].status for code in raised} == statuses


@pytest.mark.parametrize("text", ["\x00", "a\x01b", "\udc80", "\ud800\udc00", "\ufffe", "\x1f"])
def test_details_can_be_carried(text: str) -> None:
    assert not is_representable(text)
    assert is_representable(showable(text))
    request = request_for(
        f"http://h/{account}/c", headers={"x-ms-date": date_now, "x-ms-meta-a": text}
    )
    with pytest.raises(Refused) as caught:
        verify(request, Scheme.SHARED_KEY, account, "sig" + text, keys, now)
    assert all(is_representable(shown) for shown in caught.value.details.values())
    name = ResourceName("b", "c" + text, text)
    fields = "&".join(f"{n}={v}" for n, v in blob_fields.items())
    with pytest.raises(Refused) as caught:
        verified(f"{fields}&sig=x", name)
    assert all(is_representable(shown) for shown in caught.value.details.values())


@pytest.mark.parametrize("text", ["", "plain", "line\nbreak\ttab\r", "é\u2028\x85", "\U0001f600"])
def test_what_can_be_carried_is_left_alone(text: str) -> None:
    assert showable(text) == text
