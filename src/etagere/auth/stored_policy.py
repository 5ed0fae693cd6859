"""A stored access policy, as far as a shared access signature that names it is concerned."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from etagere.base.clock import Timestamp


class StoredPolicy(Protocol):
    """What the store's records of access policies look like from here."""

    @property
    def id(self) -> str: ...

    @property
    def start(self) -> Timestamp | None: ...

    @property
    def expiry(self) -> Timestamp | None: ...

    @property
    def permission(self) -> str | None: ...


P = TypeVar("P", bound=StoredPolicy)


def find_policy(policies: Iterable[P], policy_id: str) -> P | None:
    return next((policy for policy in policies if policy.id == policy_id), None)
