"""Who a request comes from, once that has been proved."""

from dataclasses import dataclass
from typing import Final

import msgspec

from etagere.auth.claims import Claims
from etagere.auth.key_range import KeyRange
from etagere.auth.sas_token import ResponseOverrides, Sas, SasKind
from etagere.base.clock import Timestamp


@dataclass(frozen=True, slots=True)
class SharedKeyIdentity:
    account: str
    key_index: int
    """Which of the account's keys signed: 0 or 1."""


class SasIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A shared access signature that was found genuine, with its stored policy merged in."""

    kind: SasKind
    account: str
    key_index: int
    permissions: str
    starts: Timestamp | None
    expires: Timestamp
    sas: Sas

    @property
    def services(self) -> str:
        """Of an account SAS, out of b q t f."""
        return self.sas.services

    @property
    def resource_types(self) -> str:
        """Of an account SAS, out of s c o."""
        return self.sas.resource_types

    @property
    def scope(self) -> str:
        """Of a service SAS: `sr`; "" for queues, tables and accounts."""
        return self.sas.resource

    @property
    def policy_id(self) -> str:
        return self.sas.policy_id

    @property
    def overrides(self) -> ResponseOverrides:
        return self.sas.overrides

    @property
    def key_range(self) -> KeyRange:
        return self.sas.key_range

    @property
    def encryption_scope(self) -> str:
        return self.sas.encryption_scope

    # `typing.override` came with Python 3.12.
    def __repr__(self) -> str:  # type: ignore[explicit-override]
        # Identities end up in logs; signatures must not.
        return f"SasIdentity({self.kind.value}, {self.account}, {self.permissions})"


@dataclass(frozen=True, slots=True)
class BearerIdentity:
    claims: Claims


@dataclass(frozen=True, slots=True)
class AnonymousIdentity:
    pass


Identity = SharedKeyIdentity | SasIdentity | BearerIdentity | AnonymousIdentity

anonymous: Final = AnonymousIdentity()
