"""What authentication reads of a request, and the name of the resource that it addresses."""

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Origin(Protocol):
    """Where a request came from, and how: what a token may be bound to."""

    @property
    def secure(self) -> bool: ...

    @property
    def client_ip(self) -> str: ...


class SignedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as its client signed it.

    Header names are lower case, each present once: a signed header sent twice is refused before
    authentication begins.
    """

    method: str
    raw_path: str
    """Percent-encoded as sent, with its leading slash."""
    query: tuple[tuple[str, str], ...]
    """Decoded, in the order sent.  Only %20 need be a space in it; `+` is dealt with here."""
    raw_query: str
    headers: Mapping[str, str]
    account: str
    """The account's own name, without `-secondary`."""
    service: str
    """b, q, t or f: Data Lake requests are the blob service's."""
    version: str
    """`x-ms-version` in force, or "" where there is none."""
    secure: bool
    client_ip: str
    secondary: bool = False


class ResourceName(msgspec.Struct, frozen=True):
    """The resource that a request addresses, decoded."""

    service: str
    """b, q, t or f."""
    container: str = ""
    """Container, file system, queue, table or share; "" for the service itself."""
    path: str = ""
    """Blob, directory or file, without a leading slash; for a listing, the directory listed."""
    snapshot: str = ""
    version_id: str = ""
    secondary: bool = False
