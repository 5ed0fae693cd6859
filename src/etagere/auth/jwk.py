"""The keys of a token's issuer, as its JWKS document lists them (RFC 7517)."""

import binascii
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

rsa_bits_min: Final = 2048
rsa_bits_max: Final = 8192
keys_max: Final = 64
_algorithm_of_type: Final = {"RSA": "RS256", "EC": "ES256"}
_es256_number_bytes: Final = 32

Verify = Callable[[bytes, bytes], bool]
"""(signed bytes, signature) -> whether it is genuine"""


class _Jwk(msgspec.Struct):
    kty: str = ""
    kid: str = ""
    use: str = ""
    alg: str = ""
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""


class _Jwks(msgspec.Struct):
    keys: list[msgspec.Raw]


class VerificationKey(msgspec.Struct, frozen=True):
    """One public key.  Its type decides the algorithm, whatever a token's header claims."""

    kid: str
    algorithm: str
    verify: Verify


class KeySet:
    """The keys of one issuer."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[VerificationKey]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def from_jwks(cls, document: bytes) -> "KeySet":
        """Read a JWKS document, leaving out keys that sign nothing we verify.

        Raises ValueError where it is no such document.
        """
        try:
            listed = msgspec.json.decode(document, type=_Jwks).keys
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError("not a JWKS document") from error
        keys = []
        for raw in listed[:keys_max]:
            key = _key(raw)
            if key is not None:
                keys.append(key)
        return cls(keys)

    def candidates(self, kid: str | None, algorithm: str) -> tuple[VerificationKey, ...]:
        """The keys that may have signed: the one by that name, or all where there is no name."""
        return tuple(
            key
            for key in self._keys
            if key.algorithm == algorithm and (kid is None or key.kid == kid)
        )

    def has(self, kid: str | None) -> bool:
        """False where the issuer may have published the key since this set was fetched."""
        return kid is None or any(key.kid == kid for key in self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _key(raw: msgspec.Raw) -> VerificationKey | None:
    try:
        jwk = msgspec.json.decode(raw, type=_Jwk)
    except (msgspec.DecodeError, RecursionError):
        return None
    algorithm = _algorithm_of_type.get(jwk.kty)
    if algorithm is None or jwk.use not in ("", "sig") or jwk.alg not in ("", algorithm):
        return None
    try:
        verify = _rsa(jwk) if jwk.kty == "RSA" else _ec(jwk)
    except ValueError:
        return None
    return None if verify is None else VerificationKey(jwk.kid, algorithm, verify)


# `cryptography` takes a while to import, and only servers with an OIDC issuer need it.


def _rsa(jwk: _Jwk) -> Verify | None:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    modulus, exponent = _number(jwk.n), _number(jwk.e)
    if not rsa_bits_min <= modulus.bit_length() <= rsa_bits_max:
        return None
    key = rsa.RSAPublicNumbers(exponent, modulus).public_key()

    def verify(signed: bytes, signature: bytes) -> bool:
        try:
            key.verify(signature, signed, padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True

    return verify


def _ec(jwk: _Jwk) -> Verify | None:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.utils import (  # noqa: PLC0415
        encode_dss_signature,
    )
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    if jwk.crv != "P-256":
        return None
    key = ec.EllipticCurvePublicNumbers(_number(jwk.x), _number(jwk.y), ec.SECP256R1()).public_key()

    def verify(signed: bytes, signature: bytes) -> bool:
        # A JWT has the two numbers side by side (RFC 7518, 3.4), X.509 wraps them in DER.
        if len(signature) != 2 * _es256_number_bytes:
            return False
        r = int.from_bytes(signature[:_es256_number_bytes])
        s = int.from_bytes(signature[_es256_number_bytes:])
        try:
            key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    return verify


def _number(text: str) -> int:
    return int.from_bytes(base64url(text))


def base64url(text: str) -> bytes:
    """Decode base64url without padding; raises ValueError (RFC 7515, appendix C)."""
    raw = text.encode("ascii")
    if b"+" in raw or b"/" in raw or b"=" in raw:
        raise ValueError("not base64url")
    raw = raw.replace(b"-", b"+").replace(b"_", b"/")
    return binascii.a2b_base64(raw + b"=" * (-len(raw) % 4), strict_mode=True)
