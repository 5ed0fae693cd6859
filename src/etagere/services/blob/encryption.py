"""Whose key a blob is encrypted with (Azure: 'Provide an encryption key on a request to Blob
storage', 'Encryption scopes for Blob storage').

A customer's key comes with each request and is never stored; its SHA-256 is, and says whether a
later request brought the same one.  What is encrypted with is derived from it and from an account's
own random key, so that the same key, brought to two servers, never encrypts two contents alike.

An encryption scope has a random key in the store.  On Azure scopes are made by the management
plane; here one is made when its name is first used, as whoever tests an application would wish.
"""

import hmac
from typing import Final, NamedTuple

from etagere.base.entropy import Entropy
from etagere.base.errors import Refused
from etagere.extents.encryption import Seal, key_bytes
from etagere.kv.contract import Engine, ReadTx, Tx
from etagere.services.blob import keys
from etagere.services.blob.records import BlobRecord, ScopeKey, UncommittedBlob, scope_keys

_account_key: Final = ""
"""The scope whose name no client can send."""


class CustomerKey(NamedTuple):
    key: bytes
    sha256: bytes


class Vault:
    """The keys of scopes, which never change once they are there.

    They are looked up each time: an administrator may make the store forget everything, and another
    process of the server may have made them.
    """

    def __init__(self, engine: Engine, entropy: Entropy) -> None:
        self._engine: Final = engine
        self._entropy: Final = entropy

    async def seal_of_scope(self, account: str, scope: str) -> Seal:
        return Seal(await self._key(account, scope), scope=scope)

    async def seal_of_customer(self, account: str, customer: CustomerKey) -> Seal:
        salt = await self._key(account, _account_key)
        return Seal(hmac.digest(customer.key, salt, "sha256"), key_sha256=customer.sha256)

    async def unlock(
        self, account: str, record: BlobRecord, customer: CustomerKey | None
    ) -> Seal | None:
        """What the content of a blob is read with, which `must_open` has allowed."""
        if record.key_sha256:
            if customer is None:
                raise Refused("BlobUsesCustomerSpecifiedEncryption")
            return await self.seal_of_customer(account, customer)
        return await self.seal_of_scope(account, record.scope) if record.scope else None

    async def _key(self, account: str, scope: str) -> bytes:
        part, row = keys.account_partition(account), keys.scope_key(scope)

        async def find(tx: ReadTx) -> bytes | None:
            raw = await tx.get(part, row)
            return None if raw is None else scope_keys.decode(raw).key

        found = await self._engine.read(find)
        if found is not None:
            return found
        fresh = self._entropy.token(key_bytes)

        async def find_or_make(tx: Tx) -> bytes:
            made = await find(tx)
            if made is None:
                made = fresh
                tx.put(part, row, scope_keys.encode(ScopeKey(made, tx.now)))
            return made

        return await self._engine.write((part,), find_or_make)


def must_open(record: BlobRecord, key_sha256: bytes) -> None:
    """Refuse a read without the key that the blob needs, or with one that it does not.

    Nobody has to name a scope to read what it encrypts.
    """
    if record.key_sha256 == key_sha256:
        return
    raise Refused(
        "BlobUsesCustomerSpecifiedEncryption"
        if record.key_sha256
        else "BlobDoesNotUseCustomerSpecifiedEncryption"
    )


def must_match(kept: BlobRecord | UncommittedBlob, seal: Seal | None) -> None:
    """Refuse to add to a blob what is encrypted otherwise."""
    scope, key_sha256 = ("", b"") if seal is None else (seal.scope, seal.key_sha256)
    if (kept.scope, kept.key_sha256) == (scope, key_sha256):
        return
    raise Refused(
        "BlobUsesCustomerSpecifiedEncryption"
        if kept.scope or kept.key_sha256
        else "BlobDoesNotUseCustomerSpecifiedEncryption"
    )


def is_sealed_by(record: BlobRecord, seal: Seal | None) -> bool:
    if seal is None:
        return not record.scope and not record.key_sha256
    return (record.scope, record.key_sha256) == (seal.scope, seal.key_sha256)
