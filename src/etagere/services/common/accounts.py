"""Accounts: their names, keys, and the settings that Azure changes through its management plane."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from etagere.auth.signing_key import SigningKey

name_chars_min: Final = 3
name_chars_max: Final = 24
keys_max: Final = 2

development_name: Final = "devstoreaccount1"
development_key: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

_name: Final = re.compile(r"[a-z0-9]+", re.ASCII)


class InvalidAccount(ValueError):  # noqa: N818 - what a configuration line turned out to be
    """A line that does not describe an account; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    keys: tuple[SigningKey, ...] = field(repr=False)
    versioning: bool = False
    hierarchical_namespace: bool = False
    change_feed: bool = False
    allow_public_access: bool = True
    allow_shared_key: bool = True
    permanent_delete: bool = False
    immutable_storage_with_versioning: bool = False
    kind: str = "StorageV2"
    sku: str = "Standard_LRS"
    last_access_tracking: bool = False
    share_soft_delete_days: int = 0
    container_soft_delete_days: int = 0


def development_account() -> Account:
    """The account that every emulator has, with the key that everybody knows."""
    return Account(name=development_name, keys=(SigningKey.from_base64(development_key),))


def check_name(name: str) -> str:
    if name_chars_min <= len(name) <= name_chars_max and _name.fullmatch(name):
        return name
    # A key that stands where the name belongs must not end up in a log.
    shown = f'"{name}"' if len(name) <= name_chars_max else f"of {len(name)} characters"
    raise InvalidAccount(
        f"account name {shown} is not {name_chars_min} to {name_chars_max} lower-case letters "
        "and digits"
    )


def parse_keys(name: str, keys: Iterable[str]) -> tuple[SigningKey, ...]:
    """An account's keys from base64; `name` is for the text of an error."""
    given = tuple(keys)
    if not 1 <= len(given) <= keys_max:
        raise InvalidAccount(f'account "{name}" needs one key or two, not {len(given)}')
    return tuple(_parse_key(name, number, text) for number, text in enumerate(given, 1))


def _parse_key(name: str, number: int, text: str) -> SigningKey:
    if not text:
        raise InvalidAccount(f'key {number} of account "{name}" is empty')
    try:
        return SigningKey.from_base64(text)
    except ValueError:
        raise InvalidAccount(f'key {number} of account "{name}" is not base64') from None


class AccountDirectory:
    """The accounts of a server, which may change while it runs."""

    def __init__(self, accounts: Iterable[Account] = ()) -> None:
        self._accounts = {account.name: account for account in accounts}

    def find(self, name: str) -> Account | None:
        return self._accounts.get(name)

    def put(self, account: Account) -> None:
        self._accounts[account.name] = account

    def remove(self, name: str) -> bool:
        return self._accounts.pop(name, None) is not None

    def __iter__(self) -> Iterator[Account]:
        return iter(list(self._accounts.values()))

    def __len__(self) -> int:
        return len(self._accounts)
