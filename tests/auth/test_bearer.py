"""Bearer tokens: claims, signatures of keys made here, and the attacks that are known on JWTs."""

import base64
import hashlib
import hmac
import json
from typing import Any

import msgspec
import pytest
from auth_samples import account, now, request_for
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import example, given
from hypothesis import strategies as st

from etagere.auth.bearer import (
    BearerMode,
    BearerRules,
    VerifiedTokens,
    authenticate,
    parse,
    token_chars_max,
    wanted_key,
)
from etagere.auth.claims import Claims
from etagere.auth.jwk import KeySet
from etagere.auth.request import SignedRequest
from etagere.base.clock import Timestamp, ticks_per_second
from etagere.base.errors import Refused

seconds_now = now // ticks_per_second
issuer = "https://issuer.example/tenant"
rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
other_rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ec_key = ec.generate_private_key(ec.SECP256R1())
basic = BearerRules(mode=BearerMode.BASIC)


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def packed(header: bytes, claims: bytes) -> str:
    """A token without signature."""
    return f"{encode(header)}.{encode(claims)}."


def number(value: int) -> str:
    return encode(value.to_bytes((value.bit_length() + 7) // 8))


def rsa_jwk(private: rsa.RSAPrivateKey, kid: str, **more: str) -> dict[str, str]:
    public = private.public_key().public_numbers()
    return {"kty": "RSA", "kid": kid, "n": number(public.n), "e": number(public.e), **more}


def ec_jwk(kid: str, **more: str) -> dict[str, str]:
    public = ec_key.public_key().public_numbers()
    x, y = (encode(n.to_bytes(32)) for n in (public.x, public.y))
    return {"kty": "EC", "kid": kid, "crv": "P-256", "x": x, "y": y, **more}


def key_set(*keys: dict[str, str]) -> KeySet:
    return KeySet.from_jwks(json.dumps({"keys": keys}).encode())


oidc = BearerRules(
    mode=BearerMode.OIDC,
    issuers={issuer: key_set(rsa_jwk(rsa_key, "r1", use="sig", alg="RS256"), ec_jwk("e1"))},
    audiences=frozenset({"api://etagere"}),
)


def claims_of(**changes: Any) -> dict[str, Any]:
    claims = {
        "iss": "https://sts.windows.net/72f988bf-86f1-41af-91ab-2d7cd011db47/",
        "aud": "https://storage.azure.com",
        "iat": seconds_now - 300,
        "nbf": seconds_now - 300,
        "exp": seconds_now + 3600,
        "oid": "user-1",
        "tid": "tenant-1",
    } | changes
    return {name: value for name, value in claims.items() if value is not None}


def unsigned(header: object, claims: object) -> str:
    return f"{encode(json.dumps(header).encode())}.{encode(json.dumps(claims).encode())}"


def rs256(text: str, private: rsa.RSAPrivateKey = rsa_key) -> str:
    signature = private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encode(signature)}"


def es256(text: str) -> str:
    r, s = decode_dss_signature(ec_key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{encode(r.to_bytes(32) + s.to_bytes(32))}"


def basic_token(**changes: Any) -> str:
    return unsigned({"alg": "RS256", "typ": "JWT"}, claims_of(**changes)) + ".c2lnbmF0dXJl"


def oidc_token(header: dict[str, Any] | None = None, **changes: Any) -> str:
    header = {"alg": "RS256", "kid": "r1"} | (header or {})
    return unsigned(header, claims_of(iss=issuer, aud="api://etagere") | changes)


def request(service: str = "b", *, secure: bool = True, **changes: Any) -> SignedRequest:
    headers = {"x-ms-file-request-intent": "backup"} if service == "f" else {}
    made = request_for(
        f"http://h/{account}/c/b", service=service, version="2021-12-02", headers=headers
    )
    return msgspec.structs.replace(made, secure=secure, **changes)


def refused(text: str, rules: BearerRules, made: SignedRequest | None = None) -> str:
    with pytest.raises(Refused) as caught:
        authenticate(made or request(), text, rules, now)
    assert caught.value.code == "AuthenticationFailed"
    return caught.value.details["AuthenticationErrorDetail"]


def malformed(text: str, rules: BearerRules = basic) -> None:
    with pytest.raises(Refused) as caught:
        authenticate(request(), text, rules, now)
    assert caught.value.code == "InvalidAuthenticationInfo"


# Claims --------------------------------------------------------------------------------------


def test_a_token_tells_who_it_is() -> None:
    claims = authenticate(request(), basic_token(), basic, now).claims
    assert (claims.oid, claims.tid) == ("user-1", "tenant-1")
    assert claims.audiences == ("https://storage.azure.com",)
    assert Claims().audiences == ()


@pytest.mark.parametrize("service", ["b", "q", "t", "f"])
def test_every_service_takes_tokens(service: str) -> None:
    authenticate(request(service), basic_token(), basic, now)


@pytest.mark.parametrize("missing", ["iss", "aud", "exp", "nbf", "iat"])
def test_claims_that_must_be_there(missing: str) -> None:
    assert missing in refused(basic_token(**{missing: None}), basic)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"exp": seconds_now}, "exp"),
        ({"exp": seconds_now - 1}, "exp"),
        ({"exp": seconds_now + 1}, None),
        ({"exp": seconds_now + 0.5}, None),
        ({"exp": 1e300}, None),
        ({"exp": -1}, "exp"),
        ({"nbf": seconds_now}, None),
        ({"nbf": seconds_now + 1}, "nbf"),
        ({"nbf": 2**70}, "nbf"),
    ],
)
def test_times(changes: dict[str, Any], said: str | None) -> None:
    if said is None:
        authenticate(request(), basic_token(**changes), basic, now)
    else:
        assert said in refused(basic_token(**changes), basic)


@pytest.mark.parametrize(
    ("iss", "good"),
    [
        ("https://sts.windows.net/tenant/", True),
        ("https://sts.windows-ppe.net/tenant/", True),
        ("https://sts.chinacloudapi.cn/tenant/", True),
        ("https://sts.microsoftonline.de/tenant/", True),
        ("https://sts.microsoftonline.us/tenant/", True),
        ("https://login.microsoftonline.com/tenant/v2.0", True),
        ("https://sts.windows.net", False),
        ("http://sts.windows.net/tenant/", False),
        ("https://sts.windows.net.evil.example/", False),
        ("https://evil.example/https://sts.windows.net/", False),
        ("", False),
        (issuer, False),
    ],
)
def test_issuers(iss: str, good: bool) -> None:
    if good:
        authenticate(request(), basic_token(iss=iss), basic, now)
    else:
        assert "iss" in refused(basic_token(iss=iss), basic)


@pytest.mark.parametrize(
    ("aud", "good"),
    [
        ("https://storage.azure.com", True),
        ("https://storage.azure.com/", True),
        ("e406a681-f3d4-42a8-90b6-c2b029497af1", True),
        (f"https://{account}.blob.core.windows.net", True),
        (f"https://{account}.queue.core.windows.net/", True),
        (f"https://{account}.table.core.windows.net", True),
        (f"https://{account}.file.core.windows.net", True),
        (f"https://{account}.dfs.core.windows.net/", True),
        (["x", "https://storage.azure.com"], True),
        ([], False),
        (["x"], False),
        ("", False),
        ("https://other.blob.core.windows.net", False),
        ("https://storage.azure.com/x", False),
        ("https://management.azure.com/", False),
        ("api://etagere", False),
    ],
)
def test_audiences(aud: str | list[str], good: bool) -> None:
    if good:
        authenticate(request(), basic_token(aud=aud), basic, now)
    else:
        assert "aud" in refused(basic_token(aud=aud), basic)


# The request ---------------------------------------------------------------------------------


def test_plain_http_is_refused_unless_it_is_allowed() -> None:
    over_http = request(secure=False)
    assert "HTTP" in refused(basic_token(), basic, over_http)
    allowing = BearerRules(mode=BearerMode.BASIC, insecure_allowed=True)
    authenticate(over_http, basic_token(), allowing, now)


@pytest.mark.parametrize(
    ("version", "good"), [("", False), ("2017-07-29", False), ("2017-11-09", True)]
)
def test_versions(version: str, good: bool) -> None:
    made = request(version=version)
    if good:
        authenticate(made, basic_token(), basic, now)
    else:
        assert "not supported in this version" in refused(basic_token(), basic, made)


def test_off_takes_no_tokens() -> None:
    refused(basic_token(), BearerRules(mode=BearerMode.OFF, insecure_allowed=True))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MissingRequiredHeader"),
        ({"x-ms-file-request-intent": ""}, "MissingRequiredHeader"),
        ({"x-ms-file-request-intent": "restore"}, "InvalidHeaderValue"),
    ],
)
def test_files_want_to_know_the_intent(headers: dict[str, str], code: str) -> None:
    made = request("f", headers=headers)
    with pytest.raises(Refused) as caught:
        authenticate(made, basic_token(), basic, now)
    assert caught.value.code == code
    assert caught.value.details["HeaderName"] == "x-ms-file-request-intent"


# Form ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.b",
        "..",
        "a.b.c.d",
        "e30.e30",
        "!.e30.",
        "e30=.e30.",
        "e30.e3 0.x",
        packed(b"[]", b"{}"),
        packed(b"{}", b"[]"),
        packed(b"{}", b"null"),
        packed(b"{", b"{}"),
        packed(b"{}", b"{}x"),
        packed(b"{}", b"\xff"),
        packed(b"{}", b'{"exp": "1"}'),
        packed(b"{}", b'{"aud": {}}'),
        packed(b"{}", b'{"x":' * 2000),
        packed(b"{}", b"[" * 8000),
        packed(b"{}", b"{}") + "a+/b",
        packed(b"{}", b"{}") + "é",
        "x" * (token_chars_max + 1),
    ],
)
def test_texts_that_are_no_tokens(text: str) -> None:
    malformed(text)
    malformed(text, oidc)
    assert wanted_key(text) is None


# Signatures ----------------------------------------------------------------------------------


def test_signatures_of_the_issuers_keys() -> None:
    assert authenticate(request(), rs256(oidc_token()), oidc, now).claims.iss == issuer
    authenticate(request(), es256(oidc_token({"alg": "ES256", "kid": "e1"})), oidc, now)
    # Without a key id, each key of the algorithm is tried.
    authenticate(request(), rs256(oidc_token({"kid": None})), oidc, now)
    authenticate(request(), es256(oidc_token({"alg": "ES256", "kid": None})), oidc, now)


def test_azure_is_no_issuer_in_oidc_mode_unless_named() -> None:
    token = rs256(unsigned({"alg": "RS256", "kid": "r1"}, claims_of()))
    assert "iss" in refused(token, oidc)


def test_the_issuers_clock_may_be_a_minute_ahead() -> None:
    authenticate(request(), rs256(oidc_token(nbf=seconds_now + 60)), oidc, now)
    assert "nbf" in refused(rs256(oidc_token(nbf=seconds_now + 61)), oidc)
    assert "exp" in refused(rs256(oidc_token(exp=seconds_now)), oidc)


def test_another_key_is_refused() -> None:
    assert "signature" in refused(rs256(oidc_token(), other_rsa_key), oidc)
    assert "kid" in refused(rs256(oidc_token({"kid": "r2"}), other_rsa_key), oidc)


def test_every_part_is_signed() -> None:
    header, claims, signature = rs256(oidc_token()).split(".")
    changed = encode(json.dumps(claims_of(iss=issuer, oid="root")).encode())
    assert "signature" in refused(f"{header}.{changed}.{signature}", oidc)
    changed = encode(json.dumps({"alg": "RS256", "kid": "r1", "x": 1}).encode())
    assert "signature" in refused(f"{changed}.{claims}.{signature}", oidc)


@given(st.integers(0, 2047))
def test_every_bit_of_a_signature_counts(bit: int) -> None:
    for token in (rs256(oidc_token()), es256(oidc_token({"alg": "ES256", "kid": "e1"}))):
        text, _, signature = token.rpartition(".")
        raw = bytearray(base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4)))
        raw[bit // 8 % len(raw)] ^= 1 << bit % 8
        assert "signature" in refused(f"{text}.{encode(bytes(raw))}", oidc)


@pytest.mark.parametrize(
    "signature", ["", "AA", "c2lnbmF0dXJl", encode(bytes(64)), encode(bytes(256))]
)
def test_signatures_that_are_none(signature: str) -> None:
    for header in ({}, {"alg": "ES256", "kid": "e1"}):
        assert "signature" in refused(f"{oidc_token(header)}.{signature}", oidc)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "PS256", "RS384", "x"])
def test_other_algorithms_are_refused(algorithm: str) -> None:
    for kid in ("r1", None):
        text = oidc_token({"alg": algorithm, "kid": kid})
        for token in (f"{text}.", rs256(text)):
            assert "alg" in refused(token, oidc)


def test_a_public_key_is_no_secret() -> None:
    """HMAC with the public key's text, which everybody knows."""
    public = rsa_key.public_key()
    for form in (serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.PKCS1):
        for packing in (serialization.Encoding.PEM, serialization.Encoding.DER):
            secret = public.public_bytes(packing, form)
            text = oidc_token({"alg": "HS256"})
            mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
            assert "alg" in refused(f"{text}.{encode(mac)}", oidc)
            text = oidc_token()
            mac = hmac.new(secret, text.encode(), hashlib.sha256).digest()
            assert "signature" in refused(f"{text}.{encode(mac)}", oidc)


def test_a_key_verifies_with_its_own_algorithm_only() -> None:
    assert "kid" in refused(rs256(oidc_token({"kid": "e1"})), oidc)
    assert "kid" in refused(es256(oidc_token({"alg": "ES256", "kid": "r1"})), oidc)


def test_keys_in_the_token_itself_do_not_count() -> None:
    header = {"jwk": rsa_jwk(other_rsa_key, "r1"), "jku": "https://evil.example/keys"}
    assert "signature" in refused(rs256(oidc_token(header), other_rsa_key), oidc)


def test_extensions_that_must_be_understood_are_not() -> None:
    assert "crit" in refused(rs256(oidc_token({"crit": ["exp"]})), oidc)


def test_an_issuers_keys_are_good_for_its_own_tokens() -> None:
    two = BearerRules(
        mode=BearerMode.OIDC,
        issuers={
            issuer: key_set(rsa_jwk(rsa_key, "r1")),
            "https://other.example": key_set(rsa_jwk(other_rsa_key, "r1")),
        },
        audiences=frozenset({"api://etagere"}),
    )
    authenticate(request(), rs256(oidc_token()), two, now)
    foreign = oidc_token(iss="https://other.example")
    authenticate(request(), rs256(foreign, other_rsa_key), two, now)
    refused(rs256(foreign), two)
    refused(rs256(oidc_token(), other_rsa_key), two)


# JWKS documents ------------------------------------------------------------------------------


def test_keys_that_verify_nothing_are_left_out() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    keys = key_set(
        rsa_jwk(small, "small"),
        rsa_jwk(rsa_key, "enc", use="enc"),
        rsa_jwk(rsa_key, "alg", alg="RS512"),
        {"kty": "oct", "kid": "oct", "k": "AAAA"},
        ec_jwk("curve", crv="P-384"),
        {**ec_jwk("point"), "x": encode(bytes(32))},
        {"kty": "RSA", "kid": "empty"},
        {"kty": "RSA", "kid": "text", "n": "!!", "e": "AQAB"},
        {"kty": "RSA", "kid": "even", "n": number(2**2048), "e": number(2)},
    )
    assert len(keys) == 0
    listed = json.dumps({"keys": [3, None, "x", {"kty": 5}, rsa_jwk(rsa_key, "r1")]}).encode()
    keys = KeySet.from_jwks(listed)
    assert (len(keys), keys.has("r1"), keys.has("r2"), keys.has(None)) == (1, True, False, True)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": {}}', b"\xff", b"[" * 5000])
def test_documents_that_are_no_jwks(document: bytes) -> None:
    with pytest.raises(ValueError, match="JWKS"):
        KeySet.from_jwks(document)


@given(st.binary(max_size=200))
def test_any_document_is_read_or_refused(document: bytes) -> None:
    try:
        keys = KeySet.from_jwks(document)
    except ValueError:
        return
    assert len(keys) == 0


def test_the_key_that_a_token_wants() -> None:
    assert wanted_key(rs256(oidc_token())) == (issuer, "r1")
    assert wanted_key(rs256(oidc_token({"kid": None}))) == (issuer, None)
    assert wanted_key("x") is None


# Remembering ---------------------------------------------------------------------------------


def test_a_verified_token_is_checked_again() -> None:
    tokens = VerifiedTokens()
    token = rs256(oidc_token())
    first = tokens.authenticate(request(), token, oidc, now)
    assert tokens.authenticate(request(), token, oidc, now) == first
    later = Timestamp(now + 3600 * ticks_per_second)
    with pytest.raises(Refused):
        tokens.authenticate(request(), token, oidc, later)
    with pytest.raises(Refused):
        tokens.authenticate(request(secure=False), token, oidc, now)
    with pytest.raises(Refused):
        tokens.authenticate(request("f", headers={}), token, oidc, now)


def test_other_rules_verify_anew() -> None:
    tokens = VerifiedTokens()
    token = rs256(oidc_token())
    tokens.authenticate(request(), token, oidc, now)
    withdrawn = BearerRules(
        mode=BearerMode.OIDC,
        issuers={issuer: key_set(rsa_jwk(other_rsa_key, "r1"))},
        audiences=oidc.audiences,
    )
    with pytest.raises(Refused):
        tokens.authenticate(request(), token, withdrawn, now)
    with pytest.raises(Refused):
        tokens.authenticate(request(), token, BearerRules(mode=BearerMode.OFF), now)


def test_a_token_of_another_accounts_audience_is_not_for_this_one() -> None:
    tokens = VerifiedTokens()
    token = rs256(oidc_token(aud=f"https://{account}.blob.core.windows.net"))
    tokens.authenticate(request(), token, oidc, now)
    with pytest.raises(Refused):
        tokens.authenticate(request(account="other"), token, oidc, now)


# Anything at all -----------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
claim_names = st.sampled_from([*Claims.__struct_fields__, "x"])


@given(
    header=st.one_of(
        json_values, st.dictionaries(st.sampled_from(["alg", "kid", "crit", "typ"]), json_values)
    ),
    claims=st.one_of(json_values, st.dictionaries(claim_names, json_values)),
    signature=st.binary(max_size=70),
)
def test_any_json_is_refused_and_never_fails(
    header: object, claims: object, signature: bytes
) -> None:
    for rules in (basic, oidc):
        with pytest.raises(Refused):
            authenticate(request(), f"{unsigned(header, claims)}.{encode(signature)}", rules, now)


@given(st.text(max_size=100))
@example("\udc80.\udc80.\udc80")
@example("e30.eyJpc3MiOiJcdWQ4MDAifQ.")  # a lone surrogate in a claim
def test_any_text_is_refused_and_never_fails(text: str) -> None:
    with pytest.raises(Refused):
        authenticate(request(), text, basic, now)
    with pytest.raises(Refused):
        authenticate(request(), text, oidc, now)


def test_parsing_believes_nothing() -> None:
    token = parse(rs256(oidc_token()))
    assert (token.algorithm, token.kid, token.critical) == ("RS256", "r1", False)
