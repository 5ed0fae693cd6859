"""User delegation keys: issued for a week at most, and never of use as anything else."""

import base64

import pytest
from auth_samples import at, date_now, key, now, other_key, request_for
from hypothesis import given
from hypothesis import strategies as st

from etagere.auth.authorization import Scheme
from etagere.auth.delegation import UserDelegationKey, delegation_key, issue
from etagere.auth.shared_key import string_to_sign
from etagere.auth.signing_key import SigningKey
from etagere.base.clock import Timestamp, seconds
from etagere.base.errors import Refused

week = 7 * 24 * 3600


def issued(
    *, start: Timestamp | None = None, expiry: Timestamp | None = None, by: SigningKey = key
) -> UserDelegationKey:
    return issue(
        by,
        oid="oid",
        tid="tid",
        start=start,
        expiry=Timestamp(now + seconds(3600)) if expiry is None else expiry,
        service="b",
        version="2021-12-02",
        now=now,
    )


def test_what_is_answered() -> None:
    made = issued(start=at("2026-03-01T12:00:00.9999999Z"))
    assert (made.signed_oid, made.signed_tid) == ("oid", "tid")
    # Whole seconds: the JavaScript SDK parses them and writes them again, without a fraction.
    assert made.signed_start == "2026-03-01T12:00:00Z"
    assert made.signed_expiry == "2026-03-01T13:00:00Z"
    assert (made.signed_service, made.signed_version) == ("b", "2021-12-02")
    assert made.signed_delegated_user_tid == ""
    assert len(base64.b64decode(made.value, validate=True)) == 32
    assert issued().signed_start == "2026-03-01T12:00:00Z"


@pytest.mark.parametrize(
    ("start", "expiry", "node"),
    [
        (None, 1, None),
        (None, 0, "Expiry"),
        (None, -1, "Expiry"),
        (100, 100, "Expiry"),
        (100, 101, None),
        (-100, -50, "Expiry"),
        (-week * 2, 60, None),
        (None, week, None),
        (None, week + 1, "Expiry"),
        (week - 1, week, None),
        (week + 1, week + 2, "Expiry"),
    ],
)
def test_how_long_a_key_may_live(start: int | None, expiry: int, node: str | None) -> None:
    begin = None if start is None else Timestamp(now + seconds(start))
    end = Timestamp(now + seconds(expiry))
    if node is None:
        issued(start=begin, expiry=end)
        return
    with pytest.raises(Refused) as caught:
        issued(start=begin, expiry=end)
    assert caught.value.code == "InvalidXmlNodeValue"
    assert caught.value.details["XmlNodeName"] == node
    assert caught.value.details["XmlNodeValue"].endswith("Z")


fields = {
    "oid": "o",
    "tid": "t",
    "start": "2026-03-01T12:00:00Z",
    "expiry": "2026-03-02T12:00:00Z",
    "service": "b",
    "version": "2021-12-02",
    "delegated_tid": "",
}


def value(by: SigningKey = key, **changes: str) -> str:
    return delegation_key(by, **{**fields, **changes}).secret_base64()


def test_a_key_is_derived_again() -> None:
    assert value() == value()
    assert value(other_key) != value()


@given(st.sampled_from(sorted(fields)), st.text(max_size=12))
def test_every_field_makes_another_key(name: str, text: str) -> None:
    assert (value(**{name: text}) == value()) is (text == fields[name])


@given(st.text("ot:1\n2", max_size=6), st.text("ot:1\n2", max_size=6))
def test_fields_do_not_run_into_each_other(oid: str, tid: str) -> None:
    merged = oid + tid
    for cut in range(len(merged) + 1):
        same = (merged[:cut], merged[cut:]) == (oid, tid)
        assert (value(oid=merged[:cut], tid=merged[cut:]) == value(oid=oid, tid=tid)) is same


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_key_that_was_given_away_signs_nothing_for_the_account(oid: str, tid: str) -> None:
    """Whoever chooses the claims of a token chooses text that the key depends on."""
    request = request_for("http://h/a/c", headers={"x-ms-date": date_now}, version="2021-12-02")
    for text in (oid, tid, oid + tid, string_to_sign(request, Scheme.SHARED_KEY)):
        assert not key.signed(text, value(oid=oid, tid=tid))


# Signing keys --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "=", "A", "AAA", "AA=", "AA==\n", " AA==", "AA==AA==", "é", "-_-_"]
)
def test_texts_that_are_no_keys(text: str) -> None:
    with pytest.raises(ValueError):
        SigningKey.from_base64(text)


def test_a_key_is_read_and_written() -> None:
    text = base64.b64encode(bytes(range(64))).decode()
    assert SigningKey.from_base64(text).secret_base64() == text


def test_a_key_does_not_show_its_secret() -> None:
    secret = key.secret_base64()
    assert secret not in repr(key)
    assert secret not in str(key)


def test_signatures_are_hmac_sha256() -> None:
    """RFC 4231, test case 2."""
    signed = SigningKey(b"Jefe").digest("what do ya want for nothing?")
    assert signed.hex() == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
