"""The Authorization header: which scheme, whose account, what signature or token."""

from dataclasses import dataclass
from enum import Enum

from etagere.auth.failure import malformed_credentials


class Scheme(Enum):
    SHARED_KEY = "SharedKey"
    SHARED_KEY_LITE = "SharedKeyLite"


@dataclass(frozen=True, slots=True)
class KeyCredential:
    scheme: Scheme
    account: str
    signature: str


@dataclass(frozen=True, slots=True)
class BearerToken:
    text: str


_schemes = {scheme.value.lower(): scheme for scheme in Scheme}


def parse_authorization(header: str) -> KeyCredential | BearerToken:
    """Read `SharedKey acct:sig`, `SharedKeyLite acct:sig` or `Bearer token`."""
    name, _, rest = header.strip(" \t").partition(" ")
    rest = rest.strip(" \t")
    if name.lower() == "bearer":
        if not rest or " " in rest or "\t" in rest:
            raise malformed_credentials("Bearer must be followed by one token.")
        return BearerToken(rest)
    scheme = _schemes.get(name.lower())
    if scheme is None:
        raise malformed_credentials("The scheme must be SharedKey, SharedKeyLite or Bearer.")
    account, colon, signature = rest.partition(":")
    if not (account and colon and signature) or " " in rest or "\t" in rest:
        raise malformed_credentials(
            "The scheme must be followed by the account's name, a colon and the signature."
        )
    return KeyCredential(scheme, account, signature)
