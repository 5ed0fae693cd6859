"""Shared access signatures: account, service and user delegation.

    sas = parse(query)                    syntax
    proof = prove(sas, request, ...)      the signature
    identity = check(proof, ...)          window, stored policy, address, protocol

`verify` does the last two.  What the token may be used for is `need.authorize`'s to say.  A token
that names a stored access policy (`sas.needs_policy`) is checked with that policy as it is stored
at this moment, or with None where there is none by its name.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from etagere.auth.claims import Claims
from etagere.auth.delegation import delegation_key
from etagere.auth.failure import (
    authentication_failed,
    not_authorized,
    outside_window,
    wrong_sas_signature,
)
from etagere.auth.identity import SasIdentity
from etagere.auth.request import Origin, ResourceName, SignedRequest
from etagere.auth.sas_strings import canonical_resource, string_to_sign, strings_to_sign
from etagere.auth.sas_token import Sas, SasKind, parse, with_spaces
from etagere.auth.signing_key import SigningKey
from etagere.auth.stored_policy import StoredPolicy
from etagere.base.clock import Timestamp, ticks_per_second

__all__ = [
    "Proof",
    "canonical_resource",
    "check",
    "check_bearer",
    "check_origin",
    "effective",
    "parse",
    "prove",
    "string_to_sign",
    "verify",
]

_resource_kinds: Final[Mapping[str, tuple[str, ...]]] = {
    "b": ("b", "bs", "bv", "c", "d"),
    "f": ("f", "s"),
}
snapshot_since: Final = "2018-11-09"
unrevocable_seconds_max: Final = 3600
"""How long a token without `sv` and without a stored policy may be good for."""


class Proof(msgspec.Struct, frozen=True):
    """A token whose signature is genuine for the resource that it was presented for."""

    sas: Sas
    account: str
    key_index: int


def verify(
    sas: Sas,
    request: SignedRequest,
    name: ResourceName,
    keys: Sequence[SigningKey],
    now: Timestamp,
    policy: StoredPolicy | None = None,
    bearer: Claims | None = None,
) -> SasIdentity:
    """Authenticate a request by its token; raises Refused with the first check that fails."""
    proof = prove(sas, request, name, keys)
    return check(proof, request, now, policy, bearer)


def prove(
    sas: Sas, request: SignedRequest, name: ResourceName, keys: Sequence[SigningKey]
) -> Proof:
    """Find the key that signed the token for this resource."""
    _check_resource_kind(sas, name.service)
    readings = (sas,) if (spaced := with_spaces(sas)) is None else (sas, spaced)
    for reading in readings:
        for text in strings_to_sign(reading, request, name):
            for index, key in enumerate(keys):
                signer = key if reading.kind is not SasKind.DELEGATION else _derived(key, reading)
                if signer.signed(text, reading.signature):
                    return Proof(reading, request.account, index)
    raise wrong_sas_signature(string_to_sign(sas, request, name))


def _check_resource_kind(sas: Sas, service: str) -> None:
    """`sr` decides what the token covers, and is not always signed: only the service's own count.

    A file's signature, say, would otherwise pass for a directory's by the same name.
    """
    kinds = _resource_kinds.get(service)
    if kinds is None or sas.kind is SasKind.ACCOUNT:
        return
    if not sas.resource:
        raise authentication_failed("sr is mandatory. Cannot be empty")
    if sas.resource not in kinds:
        raise authentication_failed(f"sr={sas.resource} is not one of {' '.join(kinds)}")
    if sas.resource in ("bs", "bv") and sas.version < snapshot_since:
        raise authentication_failed(f"sv must be {snapshot_since} or later for sr={sas.resource}")


def check(
    proof: Proof,
    request: SignedRequest,
    now: Timestamp,
    policy: StoredPolicy | None = None,
    bearer: Claims | None = None,
) -> SasIdentity:
    """Everything about a genuine token that depends on the time, the policy and the client."""
    _check_own_window(proof.sas, now)
    identity = effective(proof, policy)
    check_window(identity, now)
    check_origin(proof.sas, request)
    check_bearer(proof.sas, bearer)
    return identity


def effective(proof: Proof, policy: StoredPolicy | None) -> SasIdentity:
    """What the token grants, its stored policy and its delegation key's life taken together."""
    sas = proof.sas
    starts, expires, permissions = sas.starts, sas.expires, sas.permissions
    if sas.needs_policy:
        if policy is None:
            raise authentication_failed(f"There is no stored access policy '{sas.policy_id}'.")
        starts = _one_of("st", starts, policy.start)
        expires = _one_of("se", expires, policy.expiry)
        permissions = _one_of("sp", permissions or None, policy.permission or None) or ""
    if expires is None:
        raise authentication_failed("se is in neither the URI nor the stored access policy.")
    if not permissions:
        raise authentication_failed("sp is in neither the URI nor the stored access policy.")
    if sas.key_starts is not None:
        starts = sas.key_starts if starts is None else max(starts, sas.key_starts)
    if sas.key_expires is not None:
        expires = min(expires, sas.key_expires)
    return SasIdentity(
        kind=sas.kind,
        account=proof.account,
        key_index=proof.key_index,
        permissions=permissions,
        starts=starts,
        expires=expires,
        sas=sas,
    )


def check_window(identity: SasIdentity, now: Timestamp) -> None:
    """The start is inclusive, the expiry exclusive."""
    if (identity.starts is not None and now < identity.starts) or now >= identity.expires:
        raise outside_window(identity.starts, identity.expires, now)


def check_origin(sas: Sas, request: Origin) -> None:
    if sas.addresses is not None and not sas.addresses.holds(request.client_ip):
        raise not_authorized(
            "AuthorizationSourceIPMismatch",
            f"Source IP {request.client_ip} is not within sip={sas.fields['sip']}",
        )
    if sas.https_only is not False and not (sas.https_only and request.secure):
        raise not_authorized(
            "AuthorizationProtocolMismatch",
            f"Protocol {'https' if request.secure else 'http'} is not within "
            f"spr={sas.fields['spr']}",
        )


def check_bearer(sas: Sas, bearer: Claims | None) -> None:
    """A token made for one user is good only beside a bearer token of that user."""
    if not sas.needs_bearer:
        return
    if bearer is None or bearer.oid is None:
        raise authentication_failed("sduoid requires the user's bearer token in Authorization.")
    if bearer.oid.lower() != sas.fields["sduoid"].lower():
        raise authentication_failed("The bearer token's oid is not sduoid.")
    tenant = sas.fields.get("skdutid", "")
    if tenant and (bearer.tid or "").lower() != tenant.lower():
        raise authentication_failed("The bearer token's tid is not skdutid.")


def _check_own_window(sas: Sas, now: Timestamp) -> None:
    """As far as the URI alone tells: this comes before the policy is looked up."""
    if sas.starts is not None and now < sas.starts:
        raise outside_window(sas.starts, sas.expires, now)
    if sas.expires is not None:
        if now >= sas.expires:
            raise outside_window(sas.starts, sas.expires, now)
        if not (sas.version or sas.needs_policy):
            begin = now if sas.starts is None else sas.starts
            if sas.expires - begin > unrevocable_seconds_max * ticks_per_second:
                raise authentication_failed(
                    "Without sv and si, the token may be good for at most one hour."
                )


T = TypeVar("T")


def _one_of(name: str, own: T | None, stored: T | None) -> T | None:
    if own is not None and stored is not None:
        raise authentication_failed(
            f"{name} is given in both the URI and the stored access policy."
        )
    return stored if own is None else own


def _derived(key: SigningKey, sas: Sas) -> SigningKey:
    return delegation_key(
        key,
        oid=sas.fields["skoid"],
        tid=sas.fields["sktid"],
        start=sas.fields["skt"],
        expiry=sas.fields["ske"],
        service=sas.fields["sks"],
        version=sas.fields["skv"],
        delegated_tid=sas.fields.get("skdutid", ""),
    )
