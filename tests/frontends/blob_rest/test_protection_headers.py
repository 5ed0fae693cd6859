"""Headers of tiers, policies and keys that say anything at all are refused in words, or read."""

import base64
import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.base.errors import Refused
from etagere.frontends.blob_rest import encryption, immutability, tiers
from etagere.frontends.common.message import Request
from etagere.services.blob.encryption import CustomerKey

texts = st.text(st.characters(codec="latin-1"), max_size=80)
keys = st.binary(min_size=30, max_size=34)


class NoBody:
    def chunks(self):
        raise AssertionError

    async def read(self, bytes_max: int = 0) -> bytes:
        raise AssertionError


def request(headers: dict[str, str], *, client_ip: str = "127.0.0.1", secure=False) -> Request:
    return Request(
        method="PUT",
        raw_path="/devstoreaccount1/c/b",
        raw_query="",
        headers={"host": "127.0.0.1", **headers},
        body=NoBody(),
        client_ip=client_ip,
        secure=secure,
    )


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def outcome(read: Callable[[Request], object], headers: dict[str, str]) -> object:
    """What was read, or the code of the refusal."""
    try:
        return read(request(headers))
    except Refused as refused:
        return f"refused: {refused.code}"


invalid = "refused: InvalidHeaderValue"


@given(texts)
def test_tiers(text: str) -> None:
    found = outcome(lambda r: tiers.tier(r, "2026-06-06").lower(), {tiers.header: text})
    assert found in (text.lower(), invalid)


@given(texts)
def test_dates_and_modes(text: str) -> None:
    until = outcome(immutability._until, {immutability.until_header: text})
    assert until is None or isinstance(until, int) or until == invalid
    locked = outcome(immutability._locked, {immutability.mode_header: text})
    assert locked in (None, True, False, invalid)


@given(texts)
def test_scopes(text: str) -> None:
    name = encryption.scope_header
    assert outcome(lambda r: encryption.named_scope(r, name), {name: text}) in (
        None,
        "",
        text,
        invalid,
    )


@given(
    st.one_of(texts, keys.map(encoded)),
    st.one_of(texts, keys.map(lambda key: encoded(hashlib.sha256(key).digest()))),
    st.sampled_from(["AES256", "aes256", "", None]),
)
def test_keys(key: str, digest: str, algorithm: str | None) -> None:
    headers = {"x-ms-encryption-key": key, "x-ms-encryption-key-sha256": digest}
    if algorithm is not None:
        headers["x-ms-encryption-algorithm"] = algorithm
    found = outcome(encryption.customer_key, headers)
    if isinstance(found, CustomerKey):
        assert len(found.key) == 32
        assert hashlib.sha256(found.key).digest() == found.sha256
    else:
        assert found in (invalid, "refused: MissingRequiredHeader")


@pytest.mark.parametrize(
    ("client_ip", "secure", "taken"),
    [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("192.0.2.7", False, False),
        ("192.0.2.7", True, True),
        ("", False, False),
    ],
)
def test_keys_do_not_cross_a_network_in_the_clear(
    client_ip: str, secure: bool, taken: bool
) -> None:
    key = bytes(range(32))
    sent = request(
        {
            "x-ms-encryption-key": encoded(key),
            "x-ms-encryption-key-sha256": encoded(hashlib.sha256(key).digest()),
        },
        client_ip=client_ip,
        secure=secure,
    )
    if taken:
        assert encryption.customer_key(sent) == (key, hashlib.sha256(key).digest())
        return
    with pytest.raises(Refused) as refused:
        encryption.customer_key(sent)
    assert encoded(key) not in str(refused.value.details)
