"""What an operation needs to be granted, and whether an identity grants it.

An account SAS grants letters on types of resources; a service SAS grants letters on one resource;
a key and a bearer token grant everything; nobody at all is granted what is public.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from etagere.auth.failure import not_authorized, unauthenticated
from etagere.auth.identity import (
    AnonymousIdentity,
    BearerIdentity,
    Identity,
    SasIdentity,
    SharedKeyIdentity,
)
from etagere.auth.key_range import KeyRange, whole_table
from etagere.auth.request import ResourceName
from etagere.auth.sas_token import ResponseOverrides, SasKind, no_overrides
from etagere.base.errors import Refused

creates_only: Final = "c"
"""The letter that lets a client make what is not there, and not replace what is."""


class PublicAccess(Enum):
    """How far a container is open to everybody, or how open it must be for an operation."""

    NONE = 0
    BLOB = 1
    CONTAINER = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """What one operation needs: each is itself, and made once.

    A SAS must have every letter of `all_of` and, if there are any, one of `any_of`.
    """

    resource_types: str = ""
    """Of s, c and o: an account SAS must have one of them; "" if it may be for any."""
    any_of: str = ""
    all_of: str = ""
    service_any_of: str | None = None
    """The same letters for a service SAS; None if no service SAS may do it at all."""
    service_all_of: str = ""
    sas: bool = True
    """False for what no SAS may do: access policies are for whoever holds the key."""
    bearer_only: bool = False
    """A user delegation key is given to users, and to nobody else."""
    secondary_ok: bool = False
    public: PublicAccess = PublicAccess.NONE
    """How open the container must be for everybody to do it; NONE: never."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation that was allowed may do besides; it looks inside its transaction."""

    may_overwrite: bool = True
    letters: str | None = None
    """The permissions of a SAS; None stands for all."""
    key_range: KeyRange = whole_table
    overrides: ResponseOverrides = no_overrides
    encryption_scope: str = ""

    def allows(self, letter: str) -> bool:
        """Whether a further letter is granted: tags need `t`, retention `i`."""
        return self.letters is None or letter in self.letters


all_granted: Final = Grant()
_public_granted: Final = Grant(may_overwrite=False, letters="r")


def authorize(
    identity: Identity,
    need: Need,
    name: ResourceName,
    *,
    public_access: PublicAccess = PublicAccess.NONE,
    version: str = "",
    method: str = "GET",
) -> Grant:
    """Let the identity do what needs this, or raise Refused with the code of what is missing.

    `public_access` is the container's, where the identity is nobody; `version` and `method` then
    choose among the refusals.
    """
    grant = _grant(identity, need, name, public_access, version, method)
    if name.secondary and not need.secondary_ok:
        # UNCONFIRMED: which code the live service's read-only endpoint has for a write.
        raise Refused("InsufficientAccountPermissions")
    return grant


def _grant(
    identity: Identity,
    need: Need,
    name: ResourceName,
    public_access: PublicAccess,
    version: str,
    method: str,
) -> Grant:
    match identity:
        case SharedKeyIdentity():
            if need.bearer_only:
                raise _bearer_wanted()
            return all_granted
        case BearerIdentity():
            return all_granted
        case SasIdentity():
            return _grant_to_sas(identity, need, name)
        case AnonymousIdentity():
            if need.public is PublicAccess.NONE or public_access.value < need.public.value:
                raise unauthenticated(version, method, service=name.service)
            return _public_granted


_granted: Final[dict[Need, tuple[SasIdentity, str, Grant]]] = {}
"""To whom each was last granted, for which service: one token comes with many requests."""
granted_max: Final = 1024


def _grant_to_sas(identity: SasIdentity, need: Need, name: ResourceName) -> Grant:
    """What an identity is granted depends on nothing else, and identities never change."""
    last = _granted.get(need)
    if last is not None and last[0] is identity and last[1] == name.service:
        return last[2]
    grant = _authorize_sas(identity, need, name)
    if len(_granted) >= granted_max:
        _granted.clear()
    _granted[need] = (identity, name.service, grant)
    return grant


def _authorize_sas(identity: SasIdentity, need: Need, name: ResourceName) -> Grant:
    """In the order of the live service: service, resource type, permission, resource."""
    if need.bearer_only:
        raise _bearer_wanted()
    any_of, all_of = need.any_of, need.all_of
    if identity.kind is SasKind.ACCOUNT:
        if name.service not in identity.services:
            raise not_authorized(
                "AuthorizationServiceMismatch",
                f"ss={identity.services} does not have {name.service}",
            )
        if not need.sas:
            raise _never_by_sas()
        if need.resource_types and not _shares(need.resource_types, identity.resource_types):
            raise not_authorized(
                "AuthorizationResourceTypeMismatch",
                f"srt={identity.resource_types} does not have {' or '.join(need.resource_types)}",
            )
    else:
        if identity.kind is SasKind.DELEGATION and identity.sas.fields["sks"] != name.service:
            raise not_authorized(
                "AuthorizationServiceMismatch",
                f"sks={identity.sas.fields['sks']} is not {name.service}",
            )
        if not need.sas or need.service_any_of is None:
            raise _never_by_sas()
        any_of, all_of = need.service_any_of, need.service_all_of
    granted = identity.permissions
    if any_of and not _shares(any_of, granted):
        raise not_authorized(
            "AuthorizationPermissionMismatch", f"sp={granted} does not have {' or '.join(any_of)}"
        )
    if not all(letter in granted for letter in all_of):
        raise not_authorized(
            "AuthorizationPermissionMismatch", f"sp={granted} does not have {' and '.join(all_of)}"
        )
    return Grant(
        may_overwrite=_may_overwrite(any_of, granted),
        letters=granted,
        # A token's fields are signed only for the services that they mean something to.
        key_range=identity.key_range if name.service == "t" else whole_table,
        overrides=identity.overrides if name.service in ("b", "f") else no_overrides,
        encryption_scope=identity.encryption_scope if name.service == "b" else "",
    )


def _may_overwrite(any_of: str, granted: str) -> bool:
    """Whether anything but `c` let the operation through."""
    if creates_only not in any_of:
        return True
    return any(letter in granted for letter in any_of if letter != creates_only)


def _shares(wanted: str, had: str) -> bool:
    return not set(wanted).isdisjoint(had)


def _never_by_sas() -> Refused:
    return not_authorized(
        "AuthorizationFailure", "No shared access signature of this kind allows the operation."
    )


def _bearer_wanted() -> Refused:
    return not_authorized("AuthenticationFailed", "The operation needs a bearer token.")
