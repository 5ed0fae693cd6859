"""Customers' keys and encryption scopes over HTTP (Azure: 'Provide an encryption key on a request
to Blob storage', 'Encryption scopes for Blob storage')."""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from etagere.base.errors import Refused, invalid_header
from etagere.extents.encryption import Seal, key_bytes
from etagere.extents.spool import inline_bytes_max
from etagere.frontends.blob_rest.call import BlobCall
from etagere.frontends.common import xml
from etagere.frontends.common.headers import decode_base64, encode_base64, required
from etagere.frontends.common.message import Request, RequestBody, Response
from etagere.kernel.ranges import RequestedRange
from etagere.kv.contract import ReadTx
from etagere.services.blob.blobs import ScopeFound, Where
from etagere.services.blob.download import Download, Unlock
from etagere.services.blob.encryption import CustomerKey
from etagere.services.blob.guard import Guard, open_container
from etagere.services.blob.records import BlobRecord, ContainerRecord

scope_header: Final = "x-ms-encryption-scope"
default_scope_name: Final = "$account-encryption-key"
"""How a container spells that it has no scope."""
algorithm: Final = "AES256"
own_key: Final = "x-ms-encryption"
source_key: Final = "x-ms-source-encryption"
_asking_headers: Final = frozenset(
    {scope_header, f"{own_key}-key", f"{own_key}-key-sha256", f"{own_key}-algorithm"}
)
"""What asks for encryption other than the container's."""
_scoped_max: Final = 1024
_scope_name: Final = re.compile(r"[a-zA-Z0-9-]{3,63}", re.ASCII)


@lru_cache(maxsize=8)
def _key_headers(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}-key", f"{prefix}-key-sha256", f"{prefix}-algorithm"


def customer_key(request: Request, prefix: str = own_key) -> CustomerKey | None:
    """The key that a request brings in three headers: itself, its digest and the algorithm."""
    headers = request.headers
    names = _key_headers(prefix)
    if headers.keys().isdisjoint(names):
        return None
    key_name, digest_name, algorithm_name = names
    key = decode_base64(required(request, key_name))
    if key is None or len(key) != key_bytes:
        raise _unusable(key_name)
    sent = required(request, digest_name)
    digest = hashlib.sha256(key).digest()
    if decode_base64(sent) != digest:
        raise invalid_header(digest_name, sent)
    # Reads may leave the algorithm out.
    if headers.get(algorithm_name, algorithm) != algorithm:
        raise invalid_header(algorithm_name, headers[algorithm_name])
    if not request.secure and not _is_near(request):
        # On a wire, what is not encrypted is known to others: Azure takes keys over HTTPS only.
        raise _unusable(key_name)
    return CustomerKey(key, digest)


def _unusable(name: str) -> Refused:
    """A key is not repeated in the text of an error."""
    return Refused("InvalidHeaderValue", {"HeaderName": name})


def _is_near(request: Request) -> bool:
    try:
        return ip_address(request.client_ip).is_loopback
    except ValueError:
        return False


def named_scope(request: Request, name: str) -> str | None:
    """A header that names a scope; "" stands for the account's own key."""
    text = request.headers.get(name)
    if not text:
        return None
    if text == default_scope_name:
        return ""
    if _scope_name.fullmatch(text) is None:
        raise invalid_header(name, text)
    return text


async def seal_of(call: BlobCall) -> Seal | None:
    """What the request's content is to be encrypted with, or None.

    By the request's headers, else by the SAS (`ses`), else by the container's default.
    """
    customer = customer_key(call.request)
    scope = _requested_scope(call)
    if customer is not None and scope is not None:
        raise invalid_header(scope_header, scope)
    container = await _container(call)
    if container is not None:
        default = container.default_scope
        overrides = customer is not None or (scope is not None and scope != default)
        if overrides and container.deny_scope_override:
            raise Refused("RequestForbiddenByContainerEncryptionPolicy")
        scope = default if scope is None else scope
    if customer is not None:
        return await call.blobs.vault.seal_of_customer(call.account.name, customer)
    if not scope:
        return None
    return await call.blobs.vault.seal_of_scope(call.account.name, scope)


Perform = Callable[[BlobCall, Where, Seal | None], Awaitable[Response]]


async def with_seal(call: BlobCall, perform: Perform) -> Response:
    """Perform an operation that takes content, with the seal that the content is to have.

    To look whether the container has a default scope costs a transaction, and hardly any has.  So
    of a small body, which stays in memory, it is taken for granted that there is none: the
    operation's own transaction reads the container anyway, and where there is one after all, the
    body is taken in once more.
    """
    where, blobs = call.base(), call.blobs
    if where.part not in blobs.scoped and _may_presume(call):
        call.request.body = _Kept(call.request.body)
        try:
            return await perform(call, Where(where.part, where.name, unscoped=True), None)
        except ScopeFound:
            if len(blobs.scoped) >= _scoped_max:
                blobs.scoped.clear()
            blobs.scoped.add(where.part)
    return await perform(call, where, await seal_of(call))


def _may_presume(call: BlobCall) -> bool:
    request = call.request
    length = request.content_length
    return (
        length is not None
        and length <= inline_bytes_max
        and not call.grant.encryption_scope
        and request.headers.keys().isdisjoint(_asking_headers)
    )


class _Kept:
    """A small body that can be read again."""

    __slots__ = ("_body", "_data")

    def __init__(self, body: RequestBody) -> None:
        self._body = body
        self._data: bytes | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        data = await self.read(inline_bytes_max)
        if data:
            yield data

    async def read(self, bytes_max: int = inline_bytes_max) -> bytes:
        if self._data is None:
            self._data = await self._body.read(bytes_max)
        return self._data


def _requested_scope(call: BlobCall) -> str | None:
    scope = named_scope(call.request, scope_header)
    granted = call.grant.encryption_scope
    if not granted:
        return scope
    if scope is not None and scope != granted:
        raise invalid_header(scope_header, scope or default_scope_name)
    if _scope_name.fullmatch(granted) is None:
        raise invalid_header(scope_header, granted)
    return granted


async def _container(call: BlobCall) -> ContainerRecord | None:
    """None where there is none, which the operation itself will say."""
    part = call.part

    async def find(tx: ReadTx) -> ContainerRecord:
        return await open_container(tx, part)

    try:
        return await call.blobs.read(find)
    except Refused:
        return None


def keyed(guard: Guard, customer: CustomerKey | None) -> Guard:
    """The guard of a read that wants the customer's key, if there is one to a blob."""
    digest = b"" if customer is None else customer.sha256
    return Guard(guard.conditions, guard.lease_id, guard.version, digest)


def unlocking(call: BlobCall, account: str, customer: CustomerKey | None) -> Unlock:
    """How a download comes to the key of the blob that it finds."""

    async def unlock(record: BlobRecord) -> Seal | None:
        return await call.blobs.vault.unlock(account, record, customer)

    return unlock


async def open_with_key(call: BlobCall, wanted: RequestedRange | None) -> Download:
    """The blob that the request names, with the key that it brings."""
    customer = customer_key(call.request)
    unlock = unlocking(call, call.account.name, customer)
    guard = keyed(call.guard(), customer)
    return await call.blobs.open_download(call.where(), guard, wanted, unlock)


# ---- what is said of it


def seal_headers(sealed: BlobRecord | Seal | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if sealed is not None and sealed.scope:
        headers[scope_header] = sealed.scope
    if sealed is not None and sealed.key_sha256:
        headers[f"{own_key}-key-sha256"] = encode_base64(sealed.key_sha256)
    return headers


def request_encrypted(sealed: BlobRecord | Seal | None) -> dict[str, str]:
    """What operations that take content say of it; with or without keys, it is so on Azure."""
    return {"x-ms-request-server-encrypted": "true", **seal_headers(sealed)}


def seal_elements(record: BlobRecord) -> str:
    """In List Blobs."""
    digest = encode_base64(record.key_sha256) if record.key_sha256 else None
    return xml.element("CustomerProvidedKeySha256", digest) + xml.element(
        "EncryptionScope", record.scope or None
    )
